//! The configuration: one TOML file, a few variables of the environment and a few options of the command.
//!
//! Every key is in the example `antiphase-topology.toml` beside this crate, with its default; a test keeps it so.

mod check;
mod extender;
mod log;
mod proxy;
mod scheduler;
mod sflow;
mod traces;
mod words;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use units::{Nanos, OneLine};

pub use extender::ExtenderConfig;
pub use log::{LogConfig, LogFormat, LogLevel};
pub use proxy::ProxyConfig;
pub use scheduler::{PolicyName, SchedulerConfig};
pub use sflow::{ExporterConfig, InterfaceName, PORTS_MAX, SflowConfig};
pub use traces::TracesConfig;
pub use words::{Control, Discovery, Objective};

use crate::{quic, tls::TlsFiles};

/// What cannot be taken: file, line where there is one, key and value on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", OneLine(.0))]
pub struct ConfigError(pub String);

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port, TCP and UDP.
    pub listen: SocketAddr,
    /// The state file.
    pub state: PathBuf,
    /// A fabric document that is loaded when the state file has none.
    pub fabric: Option<PathBuf>,
    /// Among equal next hops: `spread` or `hashed:SEED`.
    pub ecmp: String,
    /// How jobs are kept apart that gain by it. `None`: as the state file was written last ([`Config::decide_control`]).
    pub control: Option<Control>,
    /// What turns are chosen for.
    pub objective: Objective,
    /// What becomes of what agents see of the cabling.
    pub discovery: Discovery,
    /// Certificates; without them only loopback is served.
    pub tls: Option<TlsFiles>,
    /// How jobs are planned.
    pub plan: PlanConfig,
    /// What agents are told, and how many there may be.
    pub agents: AgentsConfig,
    /// What the service takes at most.
    pub limits: LimitsConfig,
    /// The verbs for schedulers of Kubernetes.
    pub extender: ExtenderConfig,
    /// A reverse proxy whose users are told by name.
    pub proxy: Option<ProxyConfig>,
    /// What switches send of their ports; without it nothing is heard of them.
    pub sflow: Option<SflowConfig>,
    /// The scheduler; without it nobody can submit jobs.
    pub scheduler: Option<SchedulerConfig>,
    /// Lines on standard error.
    pub log: LogConfig,
    /// Where traces of requests go; without it none are made.
    pub traces: Option<TracesConfig>,
}

/// How jobs are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanConfig {
    /// How much longer than alone a job is scheduled, in thousandths.
    pub headroom_permille: u32,
    /// How long agents may trust a plan that is not renewed, in seconds.
    pub ttl_s: u32,
}

/// What agents are told, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentsConfig {
    /// How often an agent reports, in milliseconds.
    pub report_ms: u32,
    /// How often it probes the clock, in milliseconds.
    pub probe_ms: u32,
    /// Silence after which a session is given up, in milliseconds.
    pub silence_ms: u32,
    /// Sessions at the same time.
    pub sessions: u32,
}

/// What the service takes at most, so that no client can fill its memory or keep it busy for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Connections over TCP.
    pub connections: u32,
    /// Body of a request, in MiB.
    pub body_mib: u32,
    /// A request takes no longer, in seconds.
    pub request_s: u32,
    /// A client that takes nothing of its answer for so long is cut off, in seconds.
    pub stall_s: u32,
    /// Calls of solve and evaluate that run at the same time.
    pub evaluations: u32,
    /// Readers of the event stream.
    pub watchers: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7480)),
            state: PathBuf::from("/var/lib/antiphase/topology.redb"),
            fabric: None,
            ecmp: "spread".into(),
            control: None,
            objective: Objective::default(),
            discovery: Discovery::default(),
            tls: None,
            plan: PlanConfig::default(),
            agents: AgentsConfig::default(),
            limits: LimitsConfig::default(),
            extender: ExtenderConfig::default(),
            proxy: None,
            sflow: None,
            scheduler: None,
            log: LogConfig::default(),
            traces: None,
        }
    }
}

impl Default for PlanConfig {
    fn default() -> Self {
        Self { headroom_permille: plan::slot::HEADROOM_PERMILLE, ttl_s: 60 }
    }
}

impl Default for AgentsConfig {
    fn default() -> Self {
        let millis = |d: Duration| u32::try_from(d.as_millis()).unwrap_or(u32::MAX);
        Self {
            report_ms: millis(quic::REPORT_INTERVAL),
            probe_ms: millis(quic::PROBE_INTERVAL),
            silence_ms: millis(quic::SILENCE_MAX),
            sessions: u32::try_from(quic::SESSIONS_MAX).unwrap_or(u32::MAX),
        }
    }
}

impl AgentsConfig {
    /// As sessions take it.
    #[must_use]
    pub fn settings(&self) -> quic::Settings {
        let millis = |millis: u32| Duration::from_millis(u64::from(millis));
        quic::Settings {
            report_interval: millis(self.report_ms),
            probe_interval: millis(self.probe_ms),
            silence_max: millis(self.silence_ms),
            sessions_max: self.sessions as usize,
            ..quic::Settings::default()
        }
    }

    /// Silence after which a plan no longer counts on an agent: half as long again as a session's, so that a session which is cut
    /// for silence is told first.
    #[must_use]
    pub fn idle_timeout(&self) -> Nanos {
        Nanos::from_millis(u64::from(self.silence_ms) * 3 / 2)
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { connections: 1_024, body_mib: 64, request_s: 30, stall_s: 30, evaluations: 2, watchers: 64 }
    }
}

impl LimitsConfig {
    /// [`LimitsConfig::body_mib`] in bytes.
    #[must_use]
    pub const fn body_bytes(&self) -> usize {
        (self.body_mib as usize) << 20
    }

    /// [`LimitsConfig::request_s`] as a duration.
    #[must_use]
    pub const fn request(&self) -> Duration {
        Duration::from_secs(self.request_s as u64)
    }

    /// [`LimitsConfig::stall_s`] as a duration.
    #[must_use]
    pub const fn stall(&self) -> Duration {
        Duration::from_secs(self.stall_s as u64)
    }
}

/// What the command line says. The command line wins over the environment, which wins over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--state`.
    pub state: Option<PathBuf>,
    /// `--fabric`.
    pub fabric: Option<PathBuf>,
    /// `--ecmp`.
    pub ecmp: Option<String>,
}

impl Config {
    /// Reads `file` (defaults without one), then the environment, then the command line, and checks the result.
    ///
    /// # Errors
    /// [`ConfigError`] names the file, the line or key, and the value.
    pub fn load(file: Option<&Path>, env: &dyn Fn(&str) -> Option<String>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let mut config = match file {
            Some(file) => Self::parse(&read(file)?).map_err(|e| ConfigError(format!("{}: {e}", file.display())))?,
            None => Self::default(),
        };
        // The order is the rank: the file, then the environment, then the command line, each over the one before.
        config.environment(env)?;
        config.listen = overrides.listen.unwrap_or(config.listen);
        config.state = overrides.state.clone().unwrap_or(config.state);
        config.fabric = overrides.fabric.clone().or(config.fabric);
        config.ecmp = overrides.ecmp.clone().unwrap_or(config.ecmp);
        // The check comes after all three: a value is judged as it will be used, wherever it came from.
        config.check().map_err(|e| match file {
            Some(file) => ConfigError(format!("{}: {e}", file.display())),
            None => e,
        })?;
        Ok(config)
    }

    /// Reads a document; its values are not checked against each other.
    ///
    /// # Errors
    /// [`ConfigError`] names the line.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|e| ConfigError(files::at_line(text, e.span().map(|span| span.start), e.message())))
    }

    fn environment(&mut self, env: &dyn Fn(&str) -> Option<String>) -> Result<(), ConfigError> {
        let bad = |name: &str, value: &str| ConfigError(format!("{name}: {value:?} cannot be taken"));
        if let Some(value) = env("ANTIPHASE_TOPOLOGY_LISTEN") {
            self.listen = value.parse().map_err(|_| bad("ANTIPHASE_TOPOLOGY_LISTEN", &value))?;
        }
        if let Some(value) = env("ANTIPHASE_TOPOLOGY_STATE") {
            self.state = value.into();
        }
        if let Some(value) = env("ANTIPHASE_TOPOLOGY_FABRIC") {
            self.fabric = Some(value.into());
        }
        if let Some(value) = env("ANTIPHASE_TOPOLOGY_LOG_LEVEL") {
            let parsed = LogLevel::deserialize(toml::Value::String(value.clone()));
            self.log.level = parsed.map_err(|_| bad("ANTIPHASE_TOPOLOGY_LOG_LEVEL", &value))?;
        }
        if let Some(value) = env("ANTIPHASE_TOPOLOGY_LOG_FORMAT") {
            let parsed = LogFormat::deserialize(toml::Value::String(value.clone()));
            self.log.format = parsed.map_err(|_| bad("ANTIPHASE_TOPOLOGY_LOG_FORMAT", &value))?;
        }
        Ok(())
    }

    /// The control from now on: what the configuration says, else what the state file was written under `last`, else the default.
    pub fn decide_control(&mut self, last: Option<plan::Control>) -> Control {
        // An upgrade changes nothing of what jobs are used to; only a new cluster begins with the default.
        *self.control.get_or_insert(last.map(Control::from).unwrap_or_default())
    }

    /// Keys that differ from `running` and take effect only at the next start.
    #[must_use]
    pub fn needs_restart(&self, running: &Self) -> Vec<&'static str> {
        // Every key stands here, so that a new one does not compile before somebody has decided what a reload makes of it. A reload takes
        // the last three as they are.
        let Self {
            listen,
            state,
            fabric,
            ecmp,
            control,
            objective,
            tls,
            sflow: _,
            scheduler,
            plan,
            agents,
            limits,
            log,
            traces,
            discovery: _,
            extender: _,
            proxy: _,
        } = self;
        let changed = [
            ("listen", *listen != running.listen),
            ("state", *state != running.state),
            ("fabric", *fabric != running.fabric),
            ("ecmp", *ecmp != running.ecmp),
            // Without the key the next start goes on as this one runs.
            ("control", control.is_some() && *control != running.control),
            ("objective", *objective != running.objective),
            ("tls", *tls != running.tls),
            ("sflow.listen", SflowConfig::listens(self) != SflowConfig::listens(running)),
            ("scheduler", *scheduler != running.scheduler),
            ("plan", *plan != running.plan),
            ("agents", *agents != running.agents),
            ("limits.evaluations", limits.evaluations != running.limits.evaluations),
            ("log.format", log.format != running.log.format),
            ("traces", *traces != running.traces),
        ];
        // The list names whatever `Reload::again` keeps as it runs; a key that is missing here would change nothing and say nothing.
        changed.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
    }
}

fn read(file: &Path) -> Result<String, ConfigError> {
    // SIGHUP reads the file again: whatever its name leads to by then, nobody may wait for it.
    files::read_text(file, files::CONFIG_BYTES_MAX).map_err(|e| ConfigError(format!("{}: {e}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_ENV: &dyn Fn(&str) -> Option<String> = &|_| None;

    /// The example shows every key with its default, so uncommenting all of it changes nothing but what has no default.
    #[test]
    fn the_example_documents_every_key() {
        let example = include_str!("../antiphase-topology.toml");
        assert_eq!(Config::parse(example).unwrap(), Config::default());
        let set: String = example.lines().map(|l| l.strip_prefix("#:").unwrap_or(l).to_owned() + "\n").collect();
        let parsed = Config::parse(&set).unwrap();
        assert!(parsed.fabric.is_some() && parsed.tls.is_some() && parsed.proxy.is_some());
        assert!(parsed.traces.is_some() && parsed.sflow.is_some());
        assert_eq!(parsed.control, Some(Control::default()), "what a new cluster begins with");
        assert_eq!(parsed.scheduler, Some(SchedulerConfig { gpus_per_host: Some(8), ..SchedulerConfig::of(PolicyName::Themis) }));
        assert_eq!(
            Config { fabric: None, tls: None, control: None, proxy: None, sflow: None, scheduler: None, traces: None, ..parsed },
            Config::default()
        );
        let keys = [
            "listen",
            "state",
            "fabric",
            "ecmp",
            "control",
            "objective",
            "discovery",
            "certificate",
            "key",
            "client_ca",
            "headroom_permille",
            "ttl_s",
        ];
        let more = ["connections", "body_mib", "request_s", "stall_s", "evaluations", "watchers", "format", "level"];
        let agents = ["report_ms", "probe_ms", "silence_ms", "sessions"];
        let extender = ["enabled", "job", "profile", "gpus", "hosts", "slower_percent"];
        let sflow = ["address", "sources", "Ethernet0", "spine2"];
        let scheduler = ["policy", "gpus_per_host", "without", "round_s", "start_s", "stop_s"];
        for key in keys.iter().chain(&more).chain(&agents).chain(&extender).chain(&sflow).chain(&scheduler) {
            assert!(set.lines().any(|l| l.starts_with(&format!("{key} ="))), "{key} is not in the example");
        }
    }

    #[test]
    fn a_bad_document_is_one_line_with_its_place() {
        let error = |text: &str| Config::parse(text).unwrap_err().0;
        let unknown = error("listen = \"127.0.0.1:1\"\n[limits]\nbodies = 3\n");
        assert!(unknown.starts_with("line 3: ") && unknown.contains("bodies") && !unknown.contains('\n'), "{unknown}");
        assert_eq!(error("listen = \"here\""), "line 1: listen = \"here\": invalid socket address syntax");
        assert!(error("[log]\nlevel = \"loud\"").contains("loud"));
    }

    #[test]
    fn the_command_line_wins_over_the_environment() {
        let env = |name: &str| (name == "ANTIPHASE_TOPOLOGY_LISTEN").then(|| "127.0.0.1:9".to_owned());
        assert_eq!(Config::load(None, &env, &Overrides::default()).unwrap().listen.port(), 9);
        let overrides = Overrides { listen: Some(SocketAddr::from(([127, 0, 0, 1], 8))), ..Overrides::default() };
        assert_eq!(Config::load(None, &env, &overrides).unwrap().listen.port(), 8);
        assert!(Config::load(None, &|_| Some("nonsense".into()), &Overrides::default()).unwrap_err().0.starts_with("ANTIPHASE_"));
        assert!(Config::load(Some(Path::new("/nonexistent/x.toml")), NO_ENV, &Overrides::default()).unwrap_err().0.contains("x.toml"));
    }

    #[test]
    fn a_new_cluster_observes_and_an_old_one_goes_on_as_it_was() {
        let decide = |text: &str, last| Config::parse(text).unwrap().decide_control(last);
        assert_eq!(decide("", None), Control::Observe);
        assert_eq!(decide("", Some(plan::Control::Turns)), Control::Turns);
        assert_eq!(decide("", Some(plan::Control::Slots)), Control::Slots);
        assert_eq!(decide("control = \"observe\"", Some(plan::Control::Turns)), Control::Observe);
        assert!(Config::parse("control = \"sometimes\"").unwrap_err().0.starts_with("line 1: "));
        let mut running = Config::default();
        running.decide_control(None);
        assert!(Config::default().needs_restart(&running).is_empty());
        assert_eq!(Config::parse("control = \"turns\"").unwrap().needs_restart(&running), ["control"]);
    }

    #[test]
    fn a_reload_says_what_needs_a_restart() {
        let running = Config::default();
        let text = "state = \"elsewhere\"\n[log]\nlevel = \"debug\"\n[limits]\nrequest_s = 5\n";
        assert_eq!(Config::parse(text).unwrap().needs_restart(&running), ["state"]);
        let text = "fabric = \"elsewhere.yaml\"\n[traces]\nendpoint = \"http://127.0.0.1:4318\"\n";
        assert_eq!(Config::parse(text).unwrap().needs_restart(&running), ["fabric", "traces"]);
    }
}
