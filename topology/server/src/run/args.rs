//! The arguments of the program.

use std::{net::SocketAddr, path::PathBuf};

use crate::pki;

/// `antiphase-topology`, and `antiphase serve`.
#[derive(Clone, Debug, clap::Parser)]
#[command(
    name = "antiphase-topology",
    version,
    about = "The topology service: fabric, jobs, plans and agents",
    args_conflicts_with_subcommands = true
)]
pub struct Args {
    /// Configuration (TOML); antiphase-topology.toml in the sources documents every key
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    pub(super) listen: Option<SocketAddr>,
    /// State file
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Fabric document that is loaded when the state file has none
    #[arg(long, value_name = "FILE")]
    pub(super) fabric: Option<PathBuf>,
    /// Among equal next hops: spread, or hashed:SEED, as `antiphase plan --ecmp`
    #[arg(long, value_name = "RULE")]
    pub(super) ecmp: Option<String>,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Work on a configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Certificates for trials
    #[command(subcommand)]
    Pki(pki::Command),
    /// Work on a state file while no service has it open
    #[command(subcommand)]
    Store(StoreCommand),
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum ConfigCommand {
    /// Say what is wrong with a configuration, or nothing
    Check {
        /// The file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum StoreCommand {
    /// Print every record, one JSON object a line
    Dump {
        /// The state file
        file: PathBuf,
    },
}

/// An address and a port, as the command line says them.
fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an address and a port, as 127.0.0.1:7480")
}
