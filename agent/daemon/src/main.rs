//! `antiphase-agent`: the agent on every node.
//!
//! Exit codes: 0 after SIGTERM or SIGINT, 2 for a configuration that cannot be taken, 1 for anything else that fails.
#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use antiphase_agent::{
    config::Config,
    logs,
    pages::Pages,
    run::Agent,
    wiring::{self, Connection},
};
use anyhow::Context as _;
use clap::{Parser, Subcommand};
use telemetry::Root;
use tokio::signal::unix::{SignalKind, signal};

/// Keeps training jobs to their slots on this node, and reads its counters.
#[derive(Parser)]
#[command(name = "antiphase-agent", version)]
struct Cli {
    /// The configuration, TOML.
    #[arg(long, value_name = "FILE", default_value = "/etc/antiphase/antiphase-agent.toml", global = true)]
    config: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Look at the configuration and do nothing else.
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
}

#[derive(Subcommand)]
enum ConfigAction {
    /// Say whether the file can be taken.
    Check,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let config = match Config::load(&cli.config) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("antiphase-agent: {error}");
            return ExitCode::from(2);
        }
    };
    if let Some(Command::Config { action: ConfigAction::Check }) = cli.command {
        println!("{}: ok", cli.config.display());
        return ExitCode::SUCCESS;
    }
    match serve(config, &cli.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("antiphase-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What ended a round.
#[derive(PartialEq)]
enum Signal {
    Stop,
    Reload,
}

fn serve(config: Config, path: &Path) -> anyhow::Result<()> {
    let level = logs::start(&config.log);
    // One thread is enough for a session, ten heartbeats a second and a scraper, and keeps the agent small.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        let mut stop = Signals::new().context("no signal handlers")?;
        let mut config = config;
        let mut pages = pages(&config)?;
        let mut clock = None;
        loop {
            let (session_ends, agent_ends) = wiring::channels(clock);
            let mut agent = Agent::start(&config, Root::default(), pages, agent_ends).await?;
            let connection = Connection::start(&config, agent.ports(), session_ends);
            if let Some(connection) = &connection {
                agent.show_session(connection.stats());
            }
            let mut signal = Signal::Stop;
            (pages, clock) = agent.run(async { signal = stop.next(path, &mut config).await }).await;
            if signal == Signal::Stop {
                // Gates first: they need not wait for a goodbye.
                pages.retire_all();
            }
            match connection {
                Some(connection) if signal == Signal::Stop => connection.close().await,
                // The heartbeat must not wait for it.
                Some(connection) => drop(tokio::spawn(connection.close())),
                None => {}
            }
            if signal == Signal::Stop {
                break;
            }
            level.set(config.log.level.filter());
            if pages.directory() != config.page_dir || pages.host() != config.host {
                pages.retire_all();
                pages = self::pages(&config)?;
            }
        }
        tracing::info!("stopped; the pages are taken back");
        Ok(())
    })
}

fn pages(config: &Config) -> anyhow::Result<Pages> {
    Pages::new(&config.page_dir, &config.host).with_context(|| format!("page_dir = {}", config.page_dir.display()))
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

    /// Waits for the end, or for a new configuration that can be taken; one that cannot changes nothing.
    async fn next(&mut self, path: &Path, config: &mut Config) -> Signal {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Signal::Stop,
                _ = self.interrupt.recv() => return Signal::Stop,
                _ = self.hangup.recv() => match Config::load(path) {
                    Ok(new) => {
                        tracing::info!("configuration read again");
                        *config = new;
                        return Signal::Reload;
                    }
                    Err(error) => tracing::error!(%error, "configuration not taken; the old one stays"),
                },
            }
        }
    }
}
