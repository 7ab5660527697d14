//! `antiphase fabric export`: the document on standard output, what it loses on standard error.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, ValueEnum};
use fabric::export::{Format, LabelKeys, export};

use crate::{
    cluster::read_fabric,
    input::CliError,
    output::{print, say},
};

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Fabric document; - for standard input
    file: PathBuf,
    /// Format of the result
    #[arg(short, long, value_enum)]
    format: FormatName,
    /// Label keys for `kubernetes-labels`: nvidia, topograph, or a key with {tier} in it (0 = closest)
    #[arg(long, value_name = "KEYS", default_value = "topograph")]
    label_keys: LabelKeys,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    /// Our own YAML
    Native,
    /// Slurm topology.yaml
    SlurmYaml,
    /// Slurm topology.conf
    SlurmConf,
    /// Node manifests with labels, for kubectl apply --server-side
    KubernetesLabels,
    /// Volcano HyperNode manifests
    HyperNode,
}

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode, CliError> {
    let format = match args.format {
        FormatName::Native => Format::Native,
        FormatName::SlurmYaml => Format::SlurmYaml,
        FormatName::SlurmConf => Format::SlurmConf,
        FormatName::KubernetesLabels => Format::KubernetesLabels(args.label_keys.clone()),
        FormatName::HyperNode => Format::HyperNode,
    };
    let exported = export(&read_fabric(&args.file)?, &format).map_err(|e| CliError::input(&args.file, e))?;
    // What the format cannot say goes to standard error, so that standard output stays a document.
    for finding in &exported.findings {
        say(&format!("note: {finding}"));
    }
    print(&exported.text)?;
    Ok(ExitCode::SUCCESS)
}
