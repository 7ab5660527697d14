//! `antiphase fabric set`: gives the service its fabric.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use proto::v1alpha1::SetFabricRequest;

use super::connect::{Client, IN_FABRIC, ServerArgs, refused_in};
use crate::{
    input::{CliError, read_document},
    output,
};

/// Replace the fabric of the service.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Fabric document (antiphase.fabric/v1); - for standard input
    #[arg(value_name = "FILE")]
    fabric: PathBuf,
}

pub(crate) fn set(args: &SetArgs) -> Result<ExitCode, CliError> {
    let request = SetFabricRequest { fabric: read_document(&args.fabric)? };
    args.server.with(async |mut client: Client| {
        let answer = client.set_fabric(request).await.map_err(|status| refused_in(status, &[(IN_FABRIC, &args.fabric)]))?.into_inner();
        output::print(&format!("fabric version {}, plan version {}", answer.fabric_version, answer.plan_version))
    })?;
    Ok(ExitCode::SUCCESS)
}
