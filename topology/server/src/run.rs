//! The program: start, signals, end.

mod args;

use std::{
    net::SocketAddr,
    panic::UnwindSafe,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use fabric::route::Ecmp;
use proto::v1alpha1 as pb;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::{Loaded, StateFile, Store as _, StoreError};
use tokio::{
    net::{TcpListener, TcpSocket},
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::MissedTickBehavior,
};
use tokio_rustls::LazyConfigAcceptor;
use units::Nanos;

pub use self::args::Args;
use self::args::{Command, ConfigCommand, StoreCommand};

use crate::{
    api::{Api, Parts},
    config::{Config, ConfigError, Control, LimitsConfig, LogConfig, Overrides, SflowConfig},
    controller::{Controller, Surroundings},
    discovery::Discovery,
    history::{self, History},
    http::{Accepted, Acceptor, Stream, router, serve, while_starting},
    learning::Learning,
    logs::{self, LevelHandle},
    quic, records,
    resolve::one_line,
    role::Caller,
    scheduler::Scheduler,
    sflow::Observed,
    shutdown::Shutdown,
    sink::Sink,
    stands,
    tls::{self, Admission, Subject, Tls},
    traces::Exporter,
};

/// How long requests that compute may outlive the rest before the process ends without them.
const COMPUTE_GRACE: Duration = Duration::from_secs(1);

/// How often certificates are looked at, to be read again when they have changed: reading four small files costs nothing beside it.
const CERTIFICATES_EVERY: Duration = Duration::from_secs(1);

/// Connections that the kernel holds until they are accepted. One that finds no place is tried again by its client after a whole second
/// (RFC 6298), which keeps a crowd from taking the processor; one that waits behind a thousand is served as late as that. With the crowd
/// of `crowd.rs`, 128 to 512 places were as good as each other, and with 1,024 requests took ten times as long.
const BACKLOG: u32 = 256;

/// Ports tried when a free one is asked for.
const PORTS_TRIED: u32 = 16;

/// Why the program stops: exit code 2 for what the operator has to change, else 1.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Other(String),
}

/// Runs the program to its end.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let result = match &args.command {
        None => start(args),
        Some(Command::Config(ConfigCommand::Check { config })) => {
            Config::load(Some(config), &env, &Overrides::default()).map_err(Failure::from).map(|_| println!("{}: well", config.display()))
        }
        Some(Command::Pki(command)) => match command.run() {
            Ok(said) => {
                print!("{said}");
                Ok(())
            }
            Err(e) if e.is_input() => Err(ConfigError(e.to_string()).into()),
            Err(e) => Err(Failure::Other(e.to_string())),
        },
        Some(Command::Store(StoreCommand::Dump { file })) => dump(file),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error, because logging may not have begun: a configuration that is refused ends the program before.
            eprintln!("antiphase-topology: {}", one_line(&failure));
            if matches!(failure, Failure::Config(_)) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Variables of the environment; what is not UTF-8 is taken as absent.
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn dump(file: &Path) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let found = of_file(file, || StateFile::look(file)).map_err(|failure| match failure {
        Failure::Store(error) if error.is_input() => ConfigError(error.to_string()).into(),
        failure => failure,
    })?;
    for (key, value) in found {
        let value: serde_json::Value = serde_json::from_slice(&value).unwrap_or_default();
        let line = serde_json::json!({ "key": key, "value": value });
        // A reader that has seen enough closes the pipe.
        if writeln!(out, "{line}").is_err() {
            break;
        }
    }
    Ok(())
}

fn start(args: &Args) -> Result<(), Failure> {
    let overrides = Overrides { listen: args.listen, state: args.state.clone(), fabric: args.fabric.clone(), ecmp: args.ecmp.clone() };
    let config = Config::load(args.config.as_deref(), &env, &overrides)?;
    let tls = match &config.tls {
        Some(files) => Tls::load(files.clone()),
        None => Tls::throw_away(),
    };
    // Certificates are read before anything is opened or bound: a mistake in them costs no lock and no port.
    let tls = Arc::new(tls.map_err(|e| ConfigError(format!("tls: {}", one_line(&e))))?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| Failure::Other(e.to_string()))?;
    let exporter = {
        let _inside = runtime.enter();
        config.traces.as_ref().map(Exporter::new).transpose().map_err(ConfigError)?
    };
    let level = logs::start(&config.log, exporter.as_ref());
    raise_descriptors();
    let reload = Reload { file: args.config.clone(), overrides, level, tls };
    let result = runtime.block_on(service(config, Arc::new(reload)));
    // The last spans go by the runtime, from this thread.
    exporter.iter().for_each(Exporter::stop);
    // A ranking may still compute for a client that was cut off.
    runtime.shutdown_timeout(COMPUTE_GRACE);
    result
}

/// Has as many file descriptors as the system gives: each connection takes one, and a shell's usual 1,024 are fewer than may be open.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!(%error, "the limit of file descriptors stays as it is");
    }
}

/// The service from its first to its last moment.
async fn service(mut config: Config, reload: Arc<Reload>) -> Result<(), Failure> {
    let other = |e: &dyn std::fmt::Display| Failure::Other(e.to_string());
    // Signals are taken before the file is opened: a SIGTERM during a long start must not end the process in the middle of it.
    let signals = Signals::take().map_err(|e| other(&e))?;
    let around = Surroundings::start().map_err(|e| other(&e))?;
    let (file, loaded) = open(&config.state)?;
    decide_control(&mut config, &loaded);
    // The configuration was checked.
    let ecmp: Ecmp = config.ecmp.parse().map_err(|e| other(&e))?;
    // The port is taken first: a start that fails for it has done nothing, and whoever asks during a long start is told of it.
    let bound = Bound::new(config.listen, &reload.tls, &config.agents.settings()).await?;
    let (planning, surroundings) = (plan(&config, ecmp), around.clone());
    // Turns of hundreds of jobs are predicted for a second, for which no thread of the runtime may be taken.
    let start = tokio::task::spawn_blocking(move || Controller::start(&planning, file, loaded, surroundings));
    let controller = while_starting(&bound.listener, &bound.acceptor, start).await.map_err(|e| other(&e))?;
    let controller = controller.map_err(|problem| Failure::Other(format!("{}: {problem}", config.state.display())))?;
    let result = beside(&controller, bound, config, signals, &around, &reload).await;
    // `stop` waits for the disk, which no thread of the runtime may do. Whatever went wrong, the controller ends what it began and
    // closes the file.
    tokio::task::spawn_blocking(|| controller.stop()).await.map_err(|e| other(&e))?;
    tracing::info!("stopped");
    result
}

/// All that runs beside the controller: interface, scheduler and listeners, from their start to their end.
async fn beside(
    controller: &Controller,
    bound: Bound,
    config: Config,
    signals: Signals,
    around: &Surroundings,
    reload: &Arc<Reload>,
) -> Result<(), Failure> {
    let (settings, state) = (config.agents.settings(), config.state.clone());
    let (latest, current) = watch::channel(Arc::new(config));
    let sessions = Arc::new(quic::Stats::default());
    let (discovery, learning) = (Discovery::default(), Learning::default());
    let switches = Observed::start(current.clone()).await.map_err(|e| Failure::Other(format!("sflow.listen: {e}")))?;
    let api = Api::new(Parts {
        controller: controller.handle.clone(),
        health: controller.health.clone(),
        telemetry: around.telemetry.clone(),
        discovery: discovery.clone(),
        events: around.events.clone(),
        metrics: Arc::clone(&around.metrics),
        sessions: Arc::clone(&sessions),
        clock: around.clock,
        config: current,
    });
    let seams = quic::Seams {
        controller: Arc::new(controller.handle.clone()),
        telemetry: Arc::new(Sink {
            telemetry: around.telemetry.clone(),
            clock: around.clock,
            discovery: discovery.clone(),
            learning: learning.clone(),
        }),
        clock: around.clock,
        stats: sessions,
    };
    let (file, now_s) = (history::path(&state), around.clock.now().0 / 1_000_000_000);
    // The file is on a disk, for which no thread of the runtime may wait.
    let kept = tokio::task::spawn_blocking(move || History::open(&file, now_s)).await;
    api.keep_history(kept.unwrap_or_default());
    api.hear_switches(switches);
    let scheduler = start_scheduler(&api, controller, around).await?;
    // The fabric is in force before anybody is answered from it: no client finds a service without the fabric that it was given.
    let result = match while_starting(&bound.listener, &bound.acceptor, first_fabric(&api)).await {
        Err(failure) => Err(failure),
        Ok(()) => {
            let looking = tokio::spawn(discovery.run(latest.subscribe(), api.fabric_setter(), controller.handle.clone(), around.clone()));
            let learned = tokio::spawn(learning.run(controller.handle.clone(), around.clone()));
            let joined = tokio::spawn(stands::follow(controller.handle.clone(), around.telemetry.clone(), around.clock));
            let result = listen(bound, api, seams, settings, &reload.tls, signals.wait(latest, Arc::clone(reload))).await;
            looking.abort();
            learned.abort();
            joined.abort();
            result
        }
    };
    if let Some(scheduler) = scheduler {
        scheduler.stop().await;
    }
    result
}

/// Serves clients and agents until `told`, and ends what they began.
async fn listen(
    Bound { listener, endpoint, acceptor }: Bound,
    api: Api,
    seams: quic::Seams,
    settings: quic::Settings,
    tls: &Arc<Tls>,
    told: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let other = |e: &dyn std::fmt::Display| Failure::Other(e.to_string());
    let bound = listener.local_addr().map_err(|e| other(&e))?;
    let scheme = match &acceptor {
        Acceptor::With(_) => "https",
        Acceptor::Plain => "http",
    };
    // For people and for programs that asked for a free port.
    println!("antiphase-topology: listening on {scheme}://{bound}");
    tracing::info!(address = %bound, tls = scheme == "https", version = env!("CARGO_PKG_VERSION"), "listening");
    let shutdown = Shutdown::default();
    let end = shutdown.clone();
    let agents = tokio::spawn(quic::serve(endpoint, Arc::clone(tls), seams, settings, async move { end.wait().await }));
    let samples = tokio::spawn(sample(api.clone(), shutdown.clone()));
    let clients = tokio::spawn(serve(listener, acceptor, router(api.clone(), shutdown.clone()), api, shutdown.clone()));
    told.await;
    shutdown.begin();
    // Agents and clients end before the controller stops: what they began may still be answered.
    let ended = (agents.await, clients.await, samples.await);
    ended.0.map_err(|e| other(&e))?;
    ended.1.map_err(|e| other(&e))
}

/// Takes a sample for the history each minute, and the first at once: after a restart the picture shows that the service is back.
async fn sample(api: Api, shutdown: Shutdown) {
    let mut minutes = tokio::time::interval(Duration::from_secs(history::STEP_S));
    // Minutes in which the machine slept are gaps.
    minutes.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = minutes.tick() => if let Err(error) = api.sample().await { tracing::debug!(%error, "no sample of the history") },
            () = shutdown.wait() => return,
        }
    }
}

/// TCP for clients and UDP for agents, on one port.
struct Bound {
    listener: TcpListener,
    endpoint: quinn::Endpoint,
    acceptor: Acceptor,
}

impl Bound {
    /// A free port of one protocol may be taken of the other, so several are tried.
    async fn new(address: SocketAddr, tls: &Arc<Tls>, settings: &quic::Settings) -> Result<Self, Failure> {
        let refuse = |protocol: &str, e: std::io::Error| Failure::Other(format!("listen {address} ({protocol}): {e}"));
        let acceptor = match tls.admission() {
            Admission::Certificate => secured(Arc::clone(tls)),
            Admission::Loopback => Acceptor::Plain,
        };
        let tries = if address.port() == 0 { PORTS_TRIED } else { 1 };
        for left in (0..tries).rev() {
            let listener = bind(address).map_err(|e| refuse("TCP", e))?;
            let bound = listener.local_addr().map_err(|e| refuse("TCP", e))?;
            match quic::endpoint(bound, tls, settings) {
                Ok(endpoint) => return Ok(Self { listener, endpoint, acceptor }),
                // The listener of a failed try is dropped here, and with it the port that had no partner.
                Err(e) if left == 0 => return Err(refuse("UDP", e)),
                Err(_) => {}
            }
        }
        Err(Failure::Other(format!("listen {address}: no port")))
    }
}

/// A socket that clients can connect to.
fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted service takes its port again although old connections are still closing.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Clients show a certificate; its role is theirs.
fn secured(tls: Arc<Tls>) -> Acceptor {
    Acceptor::With(Arc::new(move |stream, on_hello| {
        // In this order, so that no change falls between them.
        let mut authorities = tls.authorities();
        let config = tls.tcp();
        Box::pin(async move {
            let begun = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
            on_hello();
            let stream = begun.into_stream(config).await?;
            // The role is read once, from the certificate that TLS just verified; requests cannot change it.
            let identity = tls::identity(stream.get_ref().1.peer_certificates()).map_err(std::io::Error::other)?;
            let caller = Caller { role: Some(identity.role), who: Some(identity.digest) };
            let subject = identity.told();
            let until = async move {
                tokio::select! {
                    () = tokio::time::sleep_until(identity.expires()) => "its certificate expired",
                    () = authorities.changed() => "the client authorities changed, or what they revoked",
                }
            };
            Ok(Accepted { stream: Box::new(stream) as Box<dyn Stream>, caller, subject, until: Box::pin(until) })
        })
    }))
}

/// Opens the state file and reads it.
fn open(path: &Path) -> Result<(StateFile, Loaded), Failure> {
    of_file(path, || {
        let mut file = StateFile::open(path)?;
        let loaded = file.load()?;
        Ok((file, loaded))
    })
}

/// Reads a state file. Damage that the database meets as a panic is an error like any other.
fn of_file<T>(path: &Path, read: impl FnOnce() -> Result<T, StoreError> + UnwindSafe) -> Result<T, Failure> {
    let hook = std::panic::take_hook();
    // The default hook would print the panic as if it were a bug of ours; the error below says what it is.
    std::panic::set_hook(Box::new(|_| {}));
    let read = std::panic::catch_unwind(read);
    std::panic::set_hook(hook);
    let damaged = |_| StoreError::Damaged { place: path.display().to_string(), problem: "the database cannot make sense of it".into() };
    Ok(read.map_err(damaged)??)
}

fn plan(config: &Config, ecmp: Ecmp) -> state::Config {
    state::Config {
        ecmp,
        plan_ttl: Nanos(u64::from(config.plan.ttl_s) * 1_000_000_000),
        headroom_permille: config.plan.headroom_permille,
        idle_timeout: config.agents.idle_timeout(),
        control: config.control.unwrap_or_default().into(),
        objective: config.objective.into(),
        scheduled: config.scheduler.is_some(),
        gpus_per_host: config.scheduler.as_ref().and_then(|scheduler| scheduler.gpus_per_host),
        ..state::Config::default()
    }
}

/// Decides the control, and says so.
fn decide_control(config: &mut Config, loaded: &Loaded) {
    let last = records::last_control(&loaded.records);
    let said = config.control.is_some();
    let control = config.decide_control(last);
    let word = control.word();
    match last {
        _ if said => tracing::info!("control = {word}, as the configuration says"),
        None => tracing::info!("control = {word}, as a new cluster begins; nobody is held"),
        Some(_) if control == Control::Observe => tracing::info!("control = {word}, as the state file was written last; nobody is held"),
        // Jobs are held, and nobody wrote down that they are to be.
        Some(_) => tracing::warn!("control = {word}, as the state file was written last; set control = \"{word}\" to say so"),
    }
}

/// Starts the scheduler, where the configuration has one. Where it has none any more, what was submitted stays as it is.
async fn start_scheduler(api: &Api, controller: &Controller, around: &Surroundings) -> Result<Option<Scheduler>, Failure> {
    let snapshot = controller.handle.snapshot().await.map_err(|e| Failure::Other(e.to_string()))?;
    let config = api.config();
    let Some(config) = &config.scheduler else {
        let live = snapshot.submissions.iter().filter(|s| !s.state.is_over()).count();
        if live > 0 {
            tracing::warn!(live, "jobs were submitted, and the configuration has no [scheduler]: they stay as they are");
        }
        return Ok(None);
    };
    // The fabric that was kept may have been set under another configuration.
    if let Some(view) = &snapshot.fabric {
        state::contradiction(&view.fabric, config.gpus_per_host).map_err(|e| ConfigError(e.to_string()))?;
    }
    let scheduler = Scheduler::start(config, api.clone(), controller.handle.clone(), around.clone(), snapshot.submissions.clone());
    scheduler.map(Some).map_err(|e| Failure::Other(format!("cannot start the scheduler's thread: {e}")))
}

/// Loads the fabric of the configuration when there is none yet.
async fn first_fabric(api: &Api) -> Result<(), Failure> {
    let config = api.config();
    let Some(path) = &config.fabric else { return Ok(()) };
    if api.fabric(&pb::GetFabricRequest { summary: true }).await.is_ok() {
        let path = path.display();
        tracing::info!("the fabric of the state file stays in force, and {path} is not read; `antiphase fabric set {path}` replaces it");
        return Ok(());
    }
    let refuse = |e: &dyn std::fmt::Display| ConfigError(format!("{}: {}", path.display(), one_line(e)));
    // The document from the file gets the limit of one from a client: both are read into memory whole.
    let text = files::read_text(path, config.limits.body_bytes() as u64).map_err(|e| match e {
        files::FileError::TooLarge { bytes, .. } => refuse(&format!("{bytes} bytes; limits.body_mib is {}", config.limits.body_mib)),
        e => refuse(&e),
    })?;
    match api.set_fabric(&Subject::configuration(), pb::SetFabricRequest { fabric: text }, None).await {
        Ok(set) => {
            tracing::info!(path = %path.display(), version = set.fabric_version, "fabric loaded");
            Ok(())
        }
        Err(e) if e.kind == crate::api::Kind::Invalid => Err(refuse(&e).into()),
        Err(e) => Err(Failure::Other(format!("{}: {e}", path.display()))),
    }
}

/// What SIGHUP reads again.
#[derive(Debug)]
struct Reload {
    file: Option<PathBuf>,
    overrides: Overrides,
    level: LevelHandle,
    tls: Arc<Tls>,
}

impl Reload {
    /// Reads certificates again that are others than before; bad ones change nothing.
    fn certificates(&self) {
        match self.tls.follow() {
            Ok(false) => {}
            Ok(true) => tracing::info!("certificates reloaded: their files changed"),
            Err(error) => tracing::error!(error = %one_line(&error), "the certificates that changed were not taken"),
        }
    }

    /// Reads, checks and then swaps; a bad file changes nothing.
    fn again(&self, latest: &watch::Sender<Arc<Config>>) {
        let new = match Config::load(self.file.as_deref(), &env, &self.overrides) {
            Ok(new) => new,
            Err(error) => {
                tracing::error!(%error, "the configuration was not reloaded");
                return;
            }
        };
        // Files that take effect at the next start must not wait until then to be found wrong.
        let other = new.tls.as_ref().filter(|files| latest.borrow().tls.as_ref() != Some(files));
        if let Some(Err(error)) = other.map(|files| Tls::load(files.clone())) {
            tracing::error!(error = %one_line(&error), "the configuration was not reloaded: tls");
            return;
        }
        // Certificates are the last thing that can fail, and `reload` swaps all or nothing: after it nothing is refused.
        if let Err(error) = self.tls.reload() {
            tracing::error!(error = %one_line(&error), "the configuration was not reloaded: tls");
            return;
        }
        let restart = new.needs_restart(&latest.borrow());
        self.level.set(new.log.level.filter());
        let old = Arc::clone(&latest.borrow());
        // What needs a restart stays as it runs, so that the next reload compares with what is so.
        let kept = Config {
            listen: old.listen,
            state: old.state.clone(),
            fabric: old.fabric.clone(),
            ecmp: old.ecmp.clone(),
            control: old.control,
            objective: old.objective,
            tls: old.tls.clone(),
            scheduler: old.scheduler.clone(),
            // Exporters change, and the port on which they are heard does not.
            sflow: if SflowConfig::listens(&new) == SflowConfig::listens(&old) { new.sflow } else { old.sflow.clone() },
            plan: old.plan,
            agents: old.agents,
            limits: LimitsConfig { evaluations: old.limits.evaluations, ..new.limits },
            log: LogConfig { format: old.log.format, ..new.log },
            traces: old.traces.clone(),
            ..new
        };
        latest.send_replace(Arc::new(kept));
        if restart.is_empty() {
            tracing::info!("configuration reloaded");
        } else {
            tracing::warn!(keys = restart.join(", "), "configuration reloaded; these keys take effect at the next start");
        }
    }
}

/// Signals that are meant for the service, taken from the very start: by default each of them would end the process at once.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn take() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Returns when the service has to stop; reloads meanwhile. Files are read beside this loop: a file system that does not answer
    /// must not keep a SIGTERM waiting.
    async fn wait(mut self, latest: watch::Sender<Arc<Config>>, reload: Arc<Reload>) {
        let latest = Arc::new(latest);
        let begin = || {
            let (latest, reload) = (Arc::clone(&latest), Arc::clone(&reload));
            tokio::task::spawn_blocking(move || reload.again(&latest))
        };
        let mut look = tokio::time::interval(CERTIFICATES_EVERY);
        // After a file system that did not answer one look is enough.
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut reading, mut once_more) = (None, false);
        loop {
            let idle = reading.is_none();
            let read = async {
                match &mut reading {
                    // A task that panicked has told why.
                    Some(task) => drop(task.await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.terminate.recv() => break,
                _ = self.interrupt.recv() => break,
                _ = self.hangup.recv() => match reading {
                    None => reading = Some(begin()),
                    // The files may have been read before they were changed again, so they are read once more.
                    Some(_) => once_more = true,
                },
                _ = look.tick(), if idle => {
                    let reload = Arc::clone(&reload);
                    reading = Some(tokio::task::spawn_blocking(move || reload.certificates()));
                }
                () = read => reading = std::mem::take(&mut once_more).then(&begin),
            }
        }
        tracing::info!("stopping");
    }
}
