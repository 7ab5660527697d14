//! `antiphase fabric`: one file per subcommand in `fabric/`.

mod diff;
mod export;
mod generate;
mod import;
mod routes;
mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use fabric::{Fabric, native};

use crate::{commands::live, input::CliError};

#[derive(Debug, Subcommand)]
pub(crate) enum FabricCommand {
    /// Make a fabric from other programs' documents: Slurm, LLDP, SONiC, Topograph, Lingjun, containerlab
    Import(import::ImportArgs),
    /// Write a fabric for another program: Slurm, Kubernetes, Volcano
    Export(export::ExportArgs),
    /// Make a fabric from a few numbers
    #[command(subcommand, after_help = generate::EXAMPLES)]
    Generate(generate::GenerateCommand),
    /// Summarise a fabric: nodes per tier, links, oversubscription, unknown capacities
    Show(show::ShowArgs),
    /// Compare what is cabled with what was intended; exit code 4 if they differ
    Diff(diff::DiffArgs),
    /// Print the links between two hosts, with shares and assumptions
    Routes(routes::RoutesArgs),
    /// Give the topology service its fabric
    Set(live::SetArgs),
    /// What agents see of the cabling by LLDP beside the service's fabric; exit code 4 if they differ
    Observed(live::ObservedArgs),
}

pub(crate) fn run(command: FabricCommand) -> Result<ExitCode, CliError> {
    match command {
        FabricCommand::Import(args) => import::run(&args),
        FabricCommand::Export(args) => export::run(&args),
        FabricCommand::Generate(command) => generate::run(&command),
        FabricCommand::Show(args) => show::run(&args),
        FabricCommand::Diff(args) => diff::run(&args),
        FabricCommand::Routes(args) => routes::run(&args),
        FabricCommand::Set(args) => live::set_fabric(&args),
        FabricCommand::Observed(args) => live::observed_fabric(&args),
    }
}

/// Form of a fabric document.
#[derive(Debug, Args)]
pub(crate) struct Form {
    /// Form of the document
    #[arg(short, long, value_enum, default_value_t)]
    output: DocumentForm,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum DocumentForm {
    #[default]
    Yaml,
    Json,
}

impl Form {
    fn render(&self, fabric: &Fabric) -> String {
        match self.output {
            DocumentForm::Yaml => native::write_yaml(fabric),
            DocumentForm::Json => native::write_json(fabric) + "\n",
        }
    }
}
