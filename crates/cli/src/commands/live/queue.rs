//! `antiphase queue`: what was submitted, and what became of it.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use proto::v1alpha1::{ListSubmissionsRequest, ListSubmissionsResponse, Submission, SubmissionState};

use super::Listing;
use crate::{input::CliError, table::Table};

/// Hosts that a row names; the JSON has all.
const HOSTS_SHOWN: usize = 3;

/// What was submitted to the scheduler: who waits, who runs and where, and why.
#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    list: Listing,
    /// Also jobs that have ended
    #[arg(long)]
    all: bool,
}

pub(crate) fn queue(args: &QueueArgs) -> Result<ExitCode, CliError> {
    let request = ListSubmissionsRequest { live: !args.all, ..ListSubmissionsRequest::default() };
    args.list.show(async |client| client.list_submissions(request.clone()).await, table)
}

fn table(answer: &ListSubmissionsResponse) -> String {
    let head = format!("{}: {} of {} GPUs are held", answer.policy, answer.gpus_held, answer.gpus);
    if answer.submissions.is_empty() {
        return format!("{head}; nothing is in the queue");
    }
    let mut table = Table::new(&["JOB", "STATE", ">GPUS", "PLACE", "SINCE", "WHY"]);
    for submission in &answer.submissions {
        table.row(row(submission));
    }
    format!("{head}\n\n{}", table.render())
}

fn row(submission: &Submission) -> [String; 6] {
    let at = Timestamp::from_nanosecond(i128::from(submission.since_ns)).unwrap_or_default();
    [
        submission.job.clone(),
        state(submission).into(),
        submission.gpus.to_string(),
        place(submission),
        format!("{at:.0}"),
        submission.why.clone(),
    ]
}

/// A submission in one line.
pub(super) fn line(submission: &Submission) -> String {
    let (job, place) = (&submission.job, place(submission));
    let on = if submission.place.is_empty() { String::new() } else { format!(" on {place}") };
    format!("{job}: {}{on} ({})", state(submission), submission.why)
}

fn state(submission: &Submission) -> &'static str {
    match submission.state() {
        SubmissionState::Unspecified => "unknown",
        SubmissionState::Queued => "queued",
        SubmissionState::Starting => "starting",
        SubmissionState::Running => "running",
        SubmissionState::Stopping => "stopping",
        SubmissionState::Finished => "finished",
        SubmissionState::Withdrawn => "withdrawn",
        SubmissionState::Failed => "failed",
    }
}

/// `h1:8, h2:8, h3:8 and 5 more`: hosts, and how many of their GPUs.
fn place(submission: &Submission) -> String {
    let hosts: Vec<String> = submission.place.iter().map(|place| format!("{}:{}", place.host, place.gpus.len())).collect();
    let shown = hosts.get(..HOSTS_SHOWN).unwrap_or(&hosts).join(", ");
    match hosts.len().saturating_sub(HOSTS_SHOWN) {
        _ if hosts.is_empty() => "-".into(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use proto::v1alpha1::HostGpus;

    use super::*;

    #[test]
    fn the_queue_says_who_runs_where_and_why() {
        let place = (1..=5).map(|n| HostGpus { host: format!("h{n}"), gpus: vec![0, 1] }).collect();
        let runs = Submission {
            job: "a".into(),
            state: SubmissionState::Running.into(),
            gpus: 10,
            place,
            since_ns: 1_700_000_000_000_000_000,
            why: "0 jobs before it".into(),
            ..Submission::default()
        };
        let waits =
            Submission { job: "b".into(), state: SubmissionState::Queued.into(), place: vec![], why: "waits".into(), ..runs.clone() };
        assert_eq!(line(&runs), "a: running on h1:2, h2:2, h3:2 and 2 more (0 jobs before it)");
        assert_eq!(line(&waits), "b: queued (waits)");
        let answer = ListSubmissionsResponse { submissions: vec![runs, waits], gpus: 48, gpus_held: 10, policy: "srtf".into() };
        let expected = "\
srtf: 10 of 48 GPUs are held

JOB  STATE    GPUS  PLACE                        SINCE                 WHY
a    running    10  h1:2, h2:2, h3:2 and 2 more  2023-11-14T22:13:20Z  0 jobs before it
b    queued     10  -                            2023-11-14T22:13:20Z  waits
";
        assert_eq!(table(&answer), expected);
        let empty = ListSubmissionsResponse { gpus: 48, policy: "srtf".into(), ..ListSubmissionsResponse::default() };
        assert_eq!(table(&empty), "srtf: 0 of 48 GPUs are held; nothing is in the queue");
    }
}
