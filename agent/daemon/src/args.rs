//! What there is to type for `antiphase-agent`; its manual page and completions are made of this too.

use std::path::PathBuf;

/// Tells gates on this node their turns or slots, and reads its counters
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
    /// Print the RDMA queue pairs with their processes and jobs, and the counters that some are bound to, a line of JSON each; as root
    /// jobs of all users are seen
    Queues,
    /// Print the counters of RDMA ports as the kernel's netlink has them, and which of the optional ones are on, a line of JSON each
    Counters,
    /// Count ECN marks and CNPs by queue pair in the RoCEv2 frames that a port shows, such as a mirror of a switch's port; lines of JSON
    Capture(CaptureArgs),
}

/// What is listened to, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct CaptureArgs {
    /// The interface
    pub port: String,
    /// End after so many seconds; the counts are printed then
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
}

/// What is done with a configuration.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub enum ConfigAction {
    /// Say whether the file can be taken
    Check,
}
