//! What there is to type for `antiphase-agent`; its manual page and completions are made of this too.

use std::path::PathBuf;

/// Keeps training jobs to their slots on this node, and reads its counters
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "antiphase-agent", version)]
pub struct Args {
    /// The configuration, TOML
    #[arg(long, value_name = "FILE", default_value = "/etc/antiphase/antiphase-agent.toml", global = true)]
    pub config: PathBuf,
    /// What to do instead of running.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What the program does instead of running.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Look at the configuration and do nothing else
    Config {
        /// What to do with it.
        #[command(subcommand)]
        action: ConfigAction,
    },
}

/// What is done with a configuration.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum ConfigAction {
    /// Say whether the file can be taken
    Check,
}
