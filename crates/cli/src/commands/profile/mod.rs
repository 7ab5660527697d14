//! `antiphase profile`: synthesise, learn, import, show and list communication profiles.

mod import;
mod learn;
mod show;
mod strip;
mod synth;
mod watch;
mod zoo;

use std::{path::PathBuf, process::ExitCode};

use clap::Subcommand;

use crate::{
    input::{CliError, read_document},
    output::{Output, print},
};

/// The name of a profile that was learned, where no job has one.
const LEARNED: &str = "learned";
/// What was learned does not say of how many hosts; a ring needs two.
const LEARNED_HOSTS: usize = 2;

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Compute the profile of a model from its parallelism and the hardware
    Synth(Box<synth::SynthArgs>),
    /// Learn period and phases of a job from the byte counters of a port
    Learn(learn::LearnArgs),
    /// Learn from the live counters of an interface or an RDMA port of this machine, and say what changes
    Watch(watch::WatchArgs),
    /// Find period and phases of a job in a trace of PyTorch, NCCL Inspector or Nsight Systems
    Import(import::ImportArgs),
    /// Print the phases of a profile and a picture of one iteration
    Show {
        /// Profile document (antiphase.profile/v1), JSON or YAML, or what was learned (antiphase.learned/v1), as of two hosts; - for standard input
        file: PathBuf,
        /// Output format
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// List the models that can be synthesised, or every number of one of them and its source
    Zoo {
        /// Name of a model
        model: Option<String>,
    },
}

/// The profile in the form asked for.
fn render(profile: &profile::Profile, output: Output) -> Result<String, CliError> {
    output.render(&profile::ProfileDocument::from(profile), || show::text(profile))
}

pub(crate) fn run(command: ProfileCommand) -> Result<ExitCode, CliError> {
    let text = match command {
        ProfileCommand::Synth(args) => synth::run(&args)?,
        ProfileCommand::Learn(args) => learn::run(&args)?,
        ProfileCommand::Watch(args) => return watch::run(&args),
        ProfileCommand::Import(args) => import::run(&args)?,
        ProfileCommand::Show { file, output } => {
            let profile = profile::parse_for(&read_document(&file)?, LEARNED, LEARNED_HOSTS).map_err(|e| CliError::input(&file, e))?;
            render(&profile, output)?
        }
        ProfileCommand::Zoo { model: None } => zoo::all()?,
        ProfileCommand::Zoo { model: Some(name) } => zoo::one(find_model(&name)?),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn find_model(name: &str) -> Result<&'static profile::Model, CliError> {
    profile::find_model(name).ok_or_else(|| {
        let known: Vec<&str> = profile::MODELS.iter().map(|m| m.name).collect();
        CliError::Usage(format!("model {name:?}: not in the zoo; known: {}", known.join(", ")))
    })
}
