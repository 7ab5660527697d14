//! `antiphase-agent`: the agent on every node.
//!
//! Exit codes: 0 after SIGTERM or SIGINT, 2 for a configuration that cannot be taken, 1 for anything else that fails.
#![forbid(unsafe_code)]

mod looks;

use std::{path::Path, process::ExitCode, time::Duration};

use antiphase_agent::{
    args::{Args, Command, ConfigAction},
    config::Config,
    logs::{self, LevelHandle},
    pages::Pages,
    run::{Agent, Endpoint, Parts},
    wiring::{self, Connection, SessionEnds},
};
use anyhow::Context as _;
use clap::Parser as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use telemetry::Root;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::timeout,
};
use units::OneLine;

fn main() -> ExitCode {
    let args = Args::parse();
    // The kernel is asked, and no configuration.
    match &args.command {
        Some(Command::Queues) => return looks::queues(),
        Some(Command::Counters) => return looks::counters(),
        Some(Command::Capture(args)) => return looks::capture(args),
        _ => {}
    }
    let config = match Config::load(&args.config) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("antiphase-agent: {error}");
            return ExitCode::from(2);
        }
    };
    if let Some(Command::Config { action: ConfigAction::Check }) = args.command {
        println!("{}: well", args.config.display());
        return ExitCode::SUCCESS;
    }
    match serve(config, &args.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("antiphase-agent: {}", OneLine(format_args!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

/// Longest time for what a reload does with files: the configuration or the directory of the pages may be on a file system
/// that does not answer.
const FILES_WITHIN: Duration = Duration::from_secs(5);

/// Open files that suffice for a node's pages and rings, and for whatever is passed to it at once.
const OPEN_FILES_WANTED: u64 = 4 * gate::notes::OPEN_FILES as u64;

/// What ended a round.
enum Next {
    Stop,
    /// The session is gone for good, which is a defect; without it the agent would look alive and do nothing.
    Broken,
    Reload(Box<Prepared>),
}

/// A configuration with all that it needs, made while the one before still works. A file that cannot be taken changes nothing.
struct Prepared {
    config: Config,
    parts: Parts,
    session: SessionEnds,
    /// `None`: those that are there stay.
    pages: Option<Pages>,
}

impl Prepared {
    async fn make(config: Config, running: &Config, endpoint: &Endpoint) -> anyhow::Result<Self> {
        let (session, ends) = wiring::channels(None);
        let parts = Parts::make(&config, Root::default(), ends, endpoint).await?;
        // With the same directory and host the pages go on without a gap; new ones would meet the locks of the old.
        let stay = (&config.page_dir, &config.host) == (&running.page_dir, &running.host);
        // Last, because a directory that was made stays.
        let pages = if stay { None } else { Some(pages(&config).await?) };
        Ok(Self { config, parts, session, pages })
    }
}

/// Raises the limit of open files as far as the machine lets us: whoever passes files to the socket of the notes takes numbers.
fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(OPEN_FILES_WANTED).min(OPEN_FILES_WANTED);
    if current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
    {
        tracing::warn!(%error, "the limit of open files stays at {}", current.unwrap_or_default());
    }
}

fn serve(config: Config, path: &Path) -> anyhow::Result<()> {
    let level = logs::start(&config.log);
    raise_open_files();
    // One thread is enough for a session, ten heartbeats a second and a scraper, and keeps the agent small.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let served = runtime.block_on(rounds(config, path, &level));
    // A name server or a file system that does not answer must not keep us.
    runtime.shutdown_background();
    served
}

/// A round per configuration. Once there are pages, every way out of here takes them back.
async fn rounds(config: Config, path: &Path, level: &LevelHandle) -> anyhow::Result<()> {
    let mut signals = Signals::new().context("no signal handlers")?;
    let mut pages = pages(&config).await?;
    let mut prepared = Prepared::make(config.clone(), &config, &Endpoint::default()).await?;
    let mut clock = None;
    loop {
        let Prepared { config, parts, session, .. } = prepared;
        // The new session begins with the clock of the old one, so a reload lets no gate go for want of an estimate.
        session.clock.send_replace(clock);
        let endpoint = parts.endpoint();
        let mut agent = Agent::new(parts, pages);
        let mut connection = Connection::start(&config, agent.ports(), session);
        if let Some(connection) = &connection {
            agent.show_session(connection.stats());
        }
        let mut next = Next::Stop;
        (pages, clock) = agent.run(async { next = signals.next(path, &config, &endpoint, connection.as_mut()).await }).await;
        prepared = match next {
            Next::Reload(new) => *new,
            Next::Stop | Next::Broken => {
                // The gates come first: they need not wait for the goodbye to the service.
                pages.retire_all();
                if let Some(connection) = connection {
                    connection.close().await;
                }
                tracing::info!("stopped; the pages are taken back");
                anyhow::ensure!(matches!(next, Next::Stop), "the session ended by itself; this is a defect");
                return Ok(());
            }
        };
        if let Some(connection) = connection {
            // The old session says goodbye beside the new round, because the heartbeat must not wait for it.
            tokio::spawn(connection.close());
        }
        level.set(prepared.config.log.level.filter());
        // Only another directory or host makes new pages; those in the old place are taken back, rather than left to grow stale.
        if let Some(new) = prepared.pages.take() {
            pages.retire_all();
            pages = new;
        }
    }
}

async fn pages(config: &Config) -> anyhow::Result<Pages> {
    let (directory, host) = (config.page_dir.clone(), config.host.clone());
    let what = format!("page_dir = {}", directory.display());
    let pages = in_time(move || Pages::new(&directory, &host)).await.and_then(|pages| Ok(pages?)).context(what)?;
    if let Some(others) = pages.others() {
        // Nor here: jobs go on, and `antiphase doctor` says what to do.
        tracing::warn!(
            "page_dir = {} {others}: others can put pages there, and shrink one under a job, which ends the job",
            pages.directory().display()
        );
    }
    if let Some(shared) = pages.shared_with() {
        // Not a reason to refuse: on a host of one user nobody else is there to fill it.
        let (page_dir, shared) = (pages.directory().display(), shared.display());
        tracing::warn!(
            "page_dir = {page_dir} has no file system of its own: what jobs write there can fill {shared} (packaging/systemd/run-antiphase.mount)"
        );
    }
    Ok(pages)
}

/// Work with files that may wait, beside the heartbeat.
async fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    // A thread that hangs in a dead file system is left behind; a task on the one thread would stop the heartbeat with it.
    let work = tokio::task::spawn_blocking(work);
    let done = timeout(FILES_WITHIN, work).await.with_context(|| format!("no answer within {} s", FILES_WITHIN.as_secs()))?;
    done.context("the work was not done")
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the end, or for a new configuration that can be taken. A file that cannot be taken changes nothing.
    async fn next(&mut self, path: &Path, running: &Config, endpoint: &Endpoint, connection: Option<&mut Connection>) -> Next {
        let Self { terminate, interrupt, hangup } = self;
        let reloaded = async {
            loop {
                // The stream of signals ends with the runtime only.
                if hangup.recv().await.is_none() {
                    std::future::pending::<()>().await;
                }
                match reload(path, running, endpoint).await {
                    Ok(prepared) => {
                        tracing::info!("configuration read again");
                        return Box::new(prepared);
                    }
                    Err(error) => tracing::error!(error = format!("{error:#}"), "configuration not taken; the old one stays"),
                }
            }
        };
        let broken = async {
            match connection {
                Some(connection) => connection.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => Next::Stop,
            _ = interrupt.recv() => Next::Stop,
            prepared = reloaded => Next::Reload(prepared),
            () = broken => Next::Broken,
        }
    }
}

async fn reload(path: &Path, running: &Config, endpoint: &Endpoint) -> anyhow::Result<Prepared> {
    let file = path.to_owned();
    // The file may be on a dead file system: FILES_WITHIN bounds the wait, and the heartbeat goes on meanwhile.
    let config = in_time(move || Config::load(&file)).await.with_context(|| path.display().to_string())??;
    Prepared::make(config, running, endpoint).await
}
