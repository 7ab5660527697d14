//! `antiphase release`: jobs out of the plan.

use std::process::ExitCode;

use clap::Args;
use proto::v1alpha1::ReleaseRequest;

use super::{
    commit::reasons,
    connect::{Client, ServerArgs, refused},
};
use crate::{
    input::CliError,
    output::{self, Output},
};

/// Forget jobs: they have ended, or shall run as they come.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The jobs
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Say how the plan is now for the jobs that shared links with these
    #[arg(long)]
    explain: bool,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn release(args: &ReleaseArgs) -> Result<ExitCode, CliError> {
    let request = ReleaseRequest { jobs: args.jobs.clone(), explain: args.explain, ..ReleaseRequest::default() };
    args.server.with(async |mut client: Client| {
        let answer = client.release(request).await.map_err(refused)?.into_inner();
        let unknown =
            if answer.unknown.is_empty() { String::new() } else { format!("; were not committed: {}", answer.unknown.join(", ")) };
        let text = || format!("plan version {}{unknown}{}", answer.plan_version, reasons(&answer.explanation));
        output::print(&args.output.render(&answer, text)?)
    })?;
    Ok(ExitCode::SUCCESS)
}
