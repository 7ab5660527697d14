//! `antiphase profile`: synthesise, show and list communication profiles.

mod columns;
mod show;
mod strip;
mod synth;
mod zoo;

use std::{path::PathBuf, process::ExitCode};

use clap::{Subcommand, ValueEnum};

use crate::{
    input::{CliError, read_document},
    output::print,
};

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Compute the profile of a model from its parallelism and the hardware
    Synth(Box<synth::SynthArgs>),
    /// Print the phases of a profile and a picture of one iteration
    Show {
        /// A document antiphase.profile/v1 in JSON or YAML, `-` for standard input
        file: PathBuf,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// List the models that can be synthesised, or every number of one of them and its source
    Zoo {
        /// Name of a model
        model: Option<String>,
    },
}

/// How a profile is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[default]
    Table,
    /// antiphase.profile/v1
    Json,
    /// antiphase.profile/v1
    Yaml,
}

impl Output {
    fn render(self, profile: &profile::Profile) -> String {
        match self {
            Self::Table => show::table(profile),
            Self::Json => profile::to_json(profile),
            Self::Yaml => profile::to_yaml(profile),
        }
    }
}

pub(crate) fn run(command: ProfileCommand) -> Result<ExitCode, CliError> {
    let text = match command {
        ProfileCommand::Synth(args) => synth::run(&args)?,
        ProfileCommand::Show { file, output } => {
            let profile = profile::parse(&read_document(&file)?).map_err(|e| CliError::input(&file, e))?;
            output.render(&profile)
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
