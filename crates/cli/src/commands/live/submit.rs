//! `antiphase submit`: jobs for the scheduler of the service.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use job::{SubmissionDoc, SubmissionsDoc};
use proto::v1alpha1::SubmitRequest;

use super::{
    commit::job_spec,
    connect::{Client, ServerArgs, refused},
    queue::line,
};
use crate::{
    input::{CliError, read_document},
    output::{self, Output},
};

/// Submit jobs to the scheduler. A submission can be repeated: the same again changes nothing.
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Submissions document (antiphase.submissions/v1); - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn submit(args: &SubmitArgs) -> Result<ExitCode, CliError> {
    let doc = SubmissionsDoc::parse(&read_document(&args.file)?).map_err(|e| CliError::input(&args.file, e))?;
    let request = |doc: SubmissionDoc| -> Result<SubmitRequest, CliError> {
        let SubmissionDoc { job, gpus, iterations, iteration_ms, duration_s, priority, lease_ms } = doc;
        let job = Some(job_spec(&args.file, job)?);
        Ok(SubmitRequest { job, gpus, iterations, iteration_ms, duration_s, priority, lease_ms: lease_ms.unwrap_or(0) })
    };
    // The whole document is read before the first job is sent.
    let requests = doc.submissions.into_iter().map(request).collect::<Result<Vec<_>, _>>()?;
    args.server.with(async |mut client: Client| {
        for request in requests {
            let answer = client.submit(request).await.map_err(refused)?.into_inner();
            output::print(&args.output.render(&answer, || line(&answer))?)?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}
