//! `antiphase withdraw`: jobs back from the scheduler.

use std::process::ExitCode;

use clap::Args;
use proto::v1alpha1::WithdrawRequest;

use super::{
    connect::{Client, ServerArgs, refused},
    queue::line,
};
use crate::{
    input::CliError,
    output::{self, Output},
};

/// Take jobs back: out of the queue at once, and off their hosts when they have stopped.
#[derive(Debug, Args)]
pub(crate) struct WithdrawArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The jobs
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn withdraw(args: &WithdrawArgs) -> Result<ExitCode, CliError> {
    args.server.with(async |mut client: Client| {
        for job in &args.jobs {
            let answer = client.withdraw(WithdrawRequest { job: job.clone() }).await.map_err(refused)?.into_inner();
            output::print(&args.output.render(&answer, || line(&answer))?)?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}
