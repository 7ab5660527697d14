//! The configuration: one TOML file. Every key is in `antiphase-agent.toml` beside this crate, with its default; a test
//! keeps it so.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tracing::level_filters::LevelFilter;
use units::{Nanos, OneLine};

/// Fastest sampling: below it the agent would cost more than it may.
const SAMPLING_MS_MIN: u64 = 1;
/// Slowest sampling: phases of training jobs last tens of milliseconds.
const SAMPLING_MS_MAX: u64 = 1_000;
/// Longest wait for neighbours: systems announce themselves every 30 s, some every few minutes.
const SETTLE_S_MAX: u64 = 600;
/// Slowest telemetry: the service shows what happens now.
const TELEMETRY_MS_MAX: u64 = 60_000;
/// Most patterns of names in one list.
const PATTERNS_MAX: usize = 256;

/// Most ports: 8 NICs with an interface and an RDMA port each, and as many again.
pub const PORTS_MAX: usize = 64;

/// Why a configuration cannot be taken: the file, the line or key, and the value, on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", OneLine(.0))]
pub struct ConfigError(pub String);

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// This host; [`Config::load`] fills it in.
    pub host: String,
    /// Where pages and reports are.
    pub page_dir: PathBuf,
    /// Who makes the reports of gates.
    pub reports: Reports,
    /// The topology service.
    pub service: ServiceConfig,
    /// What is read, and how often.
    pub counters: CountersConfig,
    /// Neighbours.
    pub lldp: LldpConfig,
    /// RDMA devices.
    pub rdma: RdmaConfig,
    /// The Prometheus endpoint.
    pub metrics: MetricsConfig,
    /// Lines on standard error.
    pub log: LogConfig,
}

/// Who makes the files into which gates report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reports {
    /// The agent, for every user to write: it knows no job's user. One that was made for a job's user is taken in its place.
    #[default]
    Shared,
    /// Whoever starts jobs, for the job's user alone; what others could write is not read.
    Owned,
}

/// The topology service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// Host and port; without it there is no session.
    pub address: Option<String>,
    /// Name in its certificate; without it the host of the address.
    pub server_name: Option<String>,
    /// Accept any certificate of a service on a loopback address.
    pub insecure_loopback: bool,
    /// Certificates.
    pub tls: Option<TlsConfig>,
}

/// Paths of PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The authority that signed the service's certificate.
    pub ca: PathBuf,
    /// The agent's certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What is read, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CountersConfig {
    /// Names of ports; `*` stands for any characters.
    pub include: Vec<String>,
    /// Names that are left out even so.
    pub exclude: Vec<String>,
    /// How often byte counters are read.
    pub sampling_ms: u64,
    /// How often every counter is read.
    pub telemetry_ms: u64,
}

/// Neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LldpConfig {
    /// Where they come from.
    pub mode: LldpMode,
    /// Ask the NICs for every frame.
    pub promiscuous: bool,
    /// How long to look before a cable without a neighbour counts as one that is not there.
    pub settle_s: u64,
}

/// Where neighbours come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LldpMode {
    /// From nowhere.
    #[default]
    Off,
    /// From lldpd, by `lldpctl`.
    Lldpd,
    /// From frames captured here.
    Capture,
}

/// RDMA devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RdmaConfig {
    /// The program `antiphase-verbs`; empty: the one beside the agent's own, if it is there.
    pub program: String,
}

/// The Prometheus endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Address and port; empty: none.
    pub listen: String,
    /// Whether counters of ports have the names of node_exporter besides.
    pub node_exporter: bool,
}

/// Lines on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Text or JSON.
    pub format: LogFormat,
    /// From which severity on.
    pub level: LogLevel,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// From which severity on lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Somebody has to look.
    Error,
    /// Somebody may want to look.
    Warn,
    /// What changed.
    #[default]
    Info,
    /// Also what goes on.
    Debug,
    /// Everything.
    Trace,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            host: String::new(),
            page_dir: "/run/antiphase".into(),
            reports: Reports::default(),
            service: ServiceConfig::default(),
            counters: CountersConfig::default(),
            lldp: LldpConfig::default(),
            rdma: RdmaConfig::default(),
            metrics: MetricsConfig::default(),
            log: LogConfig::default(),
        }
    }
}

impl Default for CountersConfig {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            include: names(&["*"]),
            exclude: names(&["lo", "docker*", "veth*", "br-*", "virbr*", "ifb*"]),
            sampling_ms: 10,
            telemetry_ms: 100,
        }
    }
}

impl Default for LldpConfig {
    fn default() -> Self {
        Self { mode: LldpMode::Off, promiscuous: true, settle_s: 65 }
    }
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { listen: "127.0.0.1:7481".into(), node_exporter: false }
    }
}

impl CountersConfig {
    /// Whether a port of this name is read.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        // `exclude` wins where both match, because `include` is `*` by default.
        any(&self.include) && !self.leaves_out(name)
    }

    /// Whether a port of this name is not to be read; `ip` is no port that anybody names among those to include.
    #[must_use]
    pub fn leaves_out(&self, name: &str) -> bool {
        self.exclude.iter().any(|pattern| matches(pattern, name))
    }

    /// Time between readings of byte counters.
    #[must_use]
    pub const fn sampling(&self) -> Nanos {
        Nanos::from_millis(self.sampling_ms)
    }
}

impl LogLevel {
    /// As `tracing` has it.
    #[must_use]
    pub const fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

impl MetricsConfig {
    /// Where to listen, if anywhere.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listen.parse().ok()
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`] with one line.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let fail = |what: String| ConfigError(format!("{}: {what}", path.display()));
        let text = files::read_text(path, files::CONFIG_BYTES_MAX).map_err(|error| fail(error.to_string()))?;
        Self::parse(&text).map_err(|error| fail(error.0))
    }

    /// Checks a text and fills in the host's name.
    ///
    /// # Errors
    /// [`ConfigError`] with one line.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        // An error is one line (docs/agent.md), so the parser's excerpt of the file stays out of it.
        let told = |error: toml::de::Error| files::at_line(text, error.span().map(|span| span.start), error.message());
        let mut config: Self = toml::from_str(text).map_err(|error| ConfigError(told(error)))?;
        if config.host.is_empty() {
            // The kernel knows the name at once; a name server that hangs must not keep the agent from its pages.
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            name.trim().clone_into(&mut config.host);
        }
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let bad = |key: &str, value: &dyn core::fmt::Display, wanted: &str| Err(ConfigError(format!("{key} = {value}: {wanted}")));
        // The service asks the same of the name in a hello: an agent of another name would never be heard.
        if let Err(problem) = units::check_name(&self.host) {
            return bad("host", &format_args!("{:?}", self.host), &problem.to_string());
        }
        // A relative path would depend on where the agent was started, and gates look in one place.
        if !self.page_dir.is_absolute() {
            return bad("page_dir", &self.page_dir.display(), "must be an absolute path");
        }
        let counters = &self.counters;
        if !(SAMPLING_MS_MIN..=SAMPLING_MS_MAX).contains(&counters.sampling_ms) {
            return bad("counters.sampling_ms", &counters.sampling_ms, "must be 1 to 1000");
        }
        // The thread reads all counters at every so many sampling steps, so one interval has to be a multiple of the other.
        if !(1..=SETTLE_S_MAX).contains(&self.lldp.settle_s) {
            return bad("lldp.settle_s", &self.lldp.settle_s, "must be 1 to 600");
        }
        let multiple = counters.telemetry_ms.is_multiple_of(counters.sampling_ms);
        if !multiple || !(counters.sampling_ms..=TELEMETRY_MS_MAX).contains(&counters.telemetry_ms) {
            return bad("counters.telemetry_ms", &counters.telemetry_ms, "must be a multiple of counters.sampling_ms up to 60000");
        }
        for (key, patterns) in [("counters.include", &counters.include), ("counters.exclude", &counters.exclude)] {
            // Every scan compares each name with each pattern, so their number is bounded.
            if patterns.len() > PATTERNS_MAX {
                return bad(key, &patterns.len(), "at most 256 patterns");
            }
        }
        if !self.metrics.listen.is_empty() && self.metrics.address().is_none() {
            return bad("metrics.listen", &format_args!("{:?}", self.metrics.listen), "must be ADDRESS:PORT, or empty for none");
        }
        self.service.check()
    }
}

impl ServiceConfig {
    /// Host and port of the address.
    #[must_use]
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        // An IPv6 address has colons of its own, so it must stand in brackets: without them nobody can tell where the port begins.
        let (host, port) = self.address.as_deref()?.rsplit_once(':')?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        // Port 0 means any port to the kernel, and nobody can be called there.
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let host = bare.unwrap_or(host);
        (!host.is_empty() && (bare.is_some() || !host.contains(':'))).then_some((host, port))
    }

    fn check(&self) -> Result<(), ConfigError> {
        // An agent without a service is allowed: it reads counters, and its jobs go at once.
        let Some(address) = &self.address else { return Ok(()) };
        let Some((host, _)) = self.host_and_port() else {
            return Err(ConfigError(format!("service.address = {address:?}: must be HOST:PORT")));
        };
        // A name may resolve to anything, so tls.rs checks the address again that is really called.
        let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        // Without certificates anybody on the way could send plans, so the way must not leave the host.
        if self.insecure_loopback && !loopback {
            return Err(ConfigError(format!("service.insecure_loopback = true: {address:?} is not a loopback address; give service.tls")));
        }
        if !self.insecure_loopback && self.tls.is_none() {
            return Err(ConfigError(format!(
                "service.address = {address:?}: needs service.tls, or insecure_loopback = true on a loopback address"
            )));
        }
        Ok(())
    }
}

/// Whether a pattern, in which `*` stands for any characters, is the whole of a name.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let Some((middle, last)) = rest.rsplit_once('*') else { return name.ends_with(rest) };
    // Each part is taken where it first occurs: an earlier place never leaves less room for the parts behind it.
    for part in middle.split('*') {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../antiphase-agent.toml");

    fn error(text: &str) -> String {
        let message = Config::parse(text).unwrap_err().0;
        assert!(!message.contains('\n'), "{message}");
        message
    }

    #[test]
    fn the_example_is_the_default() {
        let mut example = Config::parse(EXAMPLE).unwrap();
        assert!(!example.host.is_empty());
        example.host.clear();
        assert_eq!(example, Config::default());
    }

    #[test]
    fn the_example_has_every_key() {
        // What is commented out are keys too.
        let full: String = EXAMPLE
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = \"") || rest.starts_with('[')).unwrap_or(line))
            .flat_map(|line| [line, "\n"])
            .collect();
        let config = Config::parse(&full).unwrap();
        assert_eq!(config.host, "gpu-01");
        assert_eq!(config.service.host_and_port(), Some(("topology.example.org", 7480)));
        assert!(config.service.server_name.is_some() && config.service.tls.is_some());
    }

    #[test]
    fn bad_values_are_one_line_with_key_and_value() {
        assert_eq!(error("\nsampling = 3\n").split(',').next(), Some("line 2: unknown field `sampling`"));
        assert!(error("[counters]\nsampling_ms = \"10\"\n").starts_with("line 2: sampling_ms = \"10\": invalid type"));
        assert_eq!(error("[lldp]\nsettle_s = 0\n"), "lldp.settle_s = 0: must be 1 to 600");
        assert_eq!(error("[counters]\nsampling_ms = 0\n"), "counters.sampling_ms = 0: must be 1 to 1000");
        assert!(error("[counters]\ntelemetry_ms = 105\n").starts_with("counters.telemetry_ms = 105: must be a multiple"));
        assert_eq!(error("page_dir = \"run\"\n"), "page_dir = run: must be an absolute path");
        assert!(error("host = \"a b\"\n").starts_with("host = \"a b\""));
        // What the service would refuse in a hello is told here.
        for host in ["gpu/01", "gpu-01\u{e9}", ".gpu", &"g".repeat(254)] {
            assert!(error(&format!("host = \"{host}\"\n")).starts_with("host = \""), "{host}");
        }
        assert!(error("[metrics]\nlisten = \"here\"\n").starts_with("metrics.listen = \"here\""));
        assert!(error("[service]\naddress = \"topology\"\n").starts_with("service.address = \"topology\": must be HOST:PORT"));
        assert!(error("[service]\naddress = \"::1:7480\"\n").contains("must be HOST:PORT"));
        assert!(error("[service]\naddress = \"a:7480\"\n").contains("needs service.tls"));
        assert!(error("[service]\naddress = \"a:7480\"\ninsecure_loopback = true\n").contains("not a loopback address"));
    }

    #[test]
    fn loopback_needs_no_certificates() {
        for address in ["127.0.0.1:7480", "[::1]:7480", "localhost:7480"] {
            Config::parse(&format!("[service]\naddress = \"{address}\"\ninsecure_loopback = true\n")).unwrap();
        }
    }

    #[test]
    fn patterns() {
        for (pattern, name) in
            [("*", ""), ("lo", "lo"), ("ens*", "ens1f0"), ("*f0", "ens1f0"), ("e*1*0", "ens1f0"), ("mlx5_*/1", "mlx5_0/1")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("lo", "lo0"), ("ens*", "en"), ("a*a", "a"), ("*f0", "f01"), ("e*1*00", "ens100x"), ("ab*b*b", "abb")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        let counters = CountersConfig::default();
        assert!(counters.takes("ens1f0") && !counters.takes("lo") && !counters.takes("vethab12"));
    }

    #[test]
    fn a_missing_file_is_named() {
        assert!(Config::load(Path::new("no-such-file.toml")).unwrap_err().0.starts_with("no-such-file.toml: "));
    }
}
