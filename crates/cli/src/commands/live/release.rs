//! `antiphase release`: jobs out of the plan.

use std::{collections::BTreeSet, process::ExitCode};

use clap::Args;
use proto::v1alpha1::{ReleaseRequest, ReleaseResponse};

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
        output::print(&args.output.render(&answer, || text(&args.jobs, &answer))?)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(asked: &[String], answer: &ReleaseResponse) -> String {
    let known: BTreeSet<&str> = asked.iter().map(String::as_str).filter(|job| !answer.unknown.iter().any(|one| one == job)).collect();
    let known: Vec<&str> = known.into_iter().collect();
    let released = if known.is_empty() { "nothing released".to_owned() } else { format!("released: {}", known.join(", ")) };
    let unknown = if answer.unknown.is_empty() { String::new() } else { format!("; not committed: {}", answer.unknown.join(", ")) };
    format!("plan version {}; {released}{unknown}{}", answer.plan_version, reasons(&answer.explanation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_released_and_who_was_not_there_is_said() {
        let says = |unknown: &[&str]| {
            let unknown = unknown.iter().map(|&name| name.to_owned()).collect();
            text(&["b".into(), "a".into()], &ReleaseResponse { plan_version: 3, unknown, ..ReleaseResponse::default() })
        };
        assert_eq!(says(&[]), "plan version 3; released: a, b");
        assert_eq!(says(&["b"]), "plan version 3; released: a; not committed: b");
        assert_eq!(says(&["a", "b"]), "plan version 3; nothing released; not committed: a, b");
    }
}
