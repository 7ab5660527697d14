//! `antiphase release`: jobs out of the plan.

use std::{collections::BTreeSet, process::ExitCode};

use clap::Args;
use proto::v1alpha1::{ListJobsRequest, ReleaseRequest, ReleaseResponse};

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
    /// Explain the new plan of the jobs that shared links with these
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
        // A name that is wrong by a letter leaves a job committed that was meant to go. What cannot be asked is left out.
        let committed = if answer.unknown.is_empty() { Vec::new() } else { committed(&mut client).await };
        output::print(&args.output.render(&answer, || text(&args.jobs, &answer, &committed))?)
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn committed(client: &mut Client) -> Vec<String> {
    let asked = client.list_jobs(ListJobsRequest::default()).await;
    asked.map(|answer| answer.into_inner().jobs.into_iter().map(|job| job.id).collect()).unwrap_or_default()
}

fn text(asked: &[String], answer: &ReleaseResponse, committed: &[String]) -> String {
    let known: BTreeSet<&str> = asked.iter().map(String::as_str).filter(|job| !answer.unknown.iter().any(|one| one == job)).collect();
    let known: Vec<&str> = known.into_iter().collect();
    let released = if known.is_empty() { "nothing released".to_owned() } else { format!("released: {}", known.join(", ")) };
    let told = |name: &String| match job::nearest(name, committed.iter().map(String::as_str)) {
        Some(meant) => format!("{name} (did you mean {meant}?)"),
        None => name.clone(),
    };
    let unknown: Vec<String> = answer.unknown.iter().map(told).collect();
    let unknown = if unknown.is_empty() { String::new() } else { format!("; not committed: {}", unknown.join(", ")) };
    format!("plan version {}; {released}{unknown}{}", answer.plan_version, reasons(&answer.explanation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_released_and_who_was_not_there_is_said() {
        let says = |unknown: &[&str]| {
            let unknown = unknown.iter().map(|&name| name.to_owned()).collect();
            let answer = ReleaseResponse { plan_version: 3, unknown, ..ReleaseResponse::default() };
            text(&["lefft".into(), "a".into()], &answer, &["left".into(), "right".into()])
        };
        assert_eq!(says(&[]), "plan version 3; released: a, lefft");
        assert_eq!(says(&["lefft"]), "plan version 3; released: a; not committed: lefft (did you mean left?)");
        assert_eq!(says(&["a", "lefft"]), "plan version 3; nothing released; not committed: a, lefft (did you mean left?)");
    }
}
