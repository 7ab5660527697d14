//! `antiphase turns`: who has the turn, who waits for whom, what it costs and brings.

use std::{cell::RefCell, process::ExitCode};

use clap::Args;
use proto::v1alpha1::{
    ListJobsRequest, ListJobsResponse, ListTurnsRequest, ListTurnsResponse, TurnActivity, TurnGroup, TurnJob, TurnTimes,
};

use super::{Client, Listing, millis, or_dash};
use crate::{input::CliError, table::Table};

/// Jobs that take turns: who has the turn, who waits for whom, what it costs and brings.
#[derive(Debug, Args)]
pub(crate) struct TurnsArgs {
    #[command(flatten)]
    list: Listing,
    /// Only the groups of these jobs
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// Most groups listed
    #[arg(long, value_name = "N", default_value_t = 30)]
    limit: u32,
}

pub(crate) fn turns(args: &TurnsArgs) -> Result<ExitCode, CliError> {
    let request = ListTurnsRequest { jobs: args.jobs.clone(), limit: args.limit, ..ListTurnsRequest::default() };
    // Why nobody takes turns stands where the jobs are.
    let jobs = RefCell::new(ListJobsResponse::default());
    let ask = async |client: &mut Client| {
        let answer = client.list_turns(request.clone()).await?;
        if answer.get_ref().groups.is_empty() {
            let asked = ListJobsRequest { jobs: request.jobs.clone(), ..ListJobsRequest::default() };
            let found = client.list_jobs(asked).await?.into_inner();
            jobs.replace(found);
        }
        Ok(answer)
    };
    args.list.show(ask, |answer| text(answer, &jobs.borrow()))
}

/// Why there is no group.
fn nobody(jobs: &ListJobsResponse) -> String {
    let by_slots = jobs.jobs.iter().any(|job| job.slot.as_ref().is_some_and(|slot| slot.hold && !slot.turns));
    if jobs.jobs.is_empty() {
        "no job takes turns: none is committed".into()
    } else if !jobs.outlook.is_empty() {
        format!("no job takes turns: {}", jobs.outlook)
    } else if by_slots {
        "no job takes turns: the service's control is slots (antiphase jobs)".into()
    } else {
        "no job takes turns: none is predicted to gain by it".into()
    }
}

fn text(answer: &ListTurnsResponse, jobs: &ListJobsResponse) -> String {
    if answer.groups.is_empty() {
        return nobody(jobs);
    }
    let rest = (answer.total as usize).saturating_sub(answer.groups.len());
    let more = if rest == 0 { String::new() } else { format!("\n{rest} more groups; --limit shows them\n") };
    let groups: Vec<String> = answer.groups.iter().map(|group| group_text(group, answer.at_ns)).collect();
    groups.join("\n") + &more
}

fn group_text(group: &TurnGroup, now: u64) -> String {
    let headings = ["JOB", ">BY TURNS", ">P99", ">FREE", ">P99", ">PREDICTED BY TURNS", ">PREDICTED FREE", ">WAITS", ">AT BOUND", "NOW"];
    let mut table = Table::new(&headings);
    for job in &group.jobs {
        table.row(row(job, now));
    }
    format!("A group of {} {}\n\n{}", group.jobs.len(), group.reason, table.render())
}

fn row(job: &TurnJob, now: u64) -> [String; 10] {
    let mean = |times: &Option<TurnTimes>| or_dash(times.as_ref(), |t| millis(t.mean_ns));
    let p99 = |times: &Option<TurnTimes>| or_dash(times.as_ref(), |t| millis(t.p99_ns));
    [
        job.job.clone(),
        mean(&job.held),
        p99(&job.held),
        mean(&job.free),
        p99(&job.free),
        or_dash(job.predicted_held_ns, millis),
        or_dash(job.predicted_free_ns, millis),
        or_dash(job.held.as_ref(), |t| format!("{:.1} %", share(t.mean_wait_ns, t.mean_ns))),
        if job.starts == 0 { "-".into() } else { format!("{:.1} %", share(job.bound, job.starts)) },
        activity(job, now),
    ]
}

/// A part in percent.
fn share(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn activity(job: &TurnJob, now: u64) -> String {
    let since = job.since_ns.map_or(0, |since| now.saturating_sub(since));
    let left = job.until_ns.map_or(0, |until| until.saturating_sub(now));
    match job.activity() {
        _ if job.has_no_ends => "takes no turns: nobody knows when it has ended".into(),
        TurnActivity::Unspecified => "unknown".into(),
        TurnActivity::Away => "computes".into(),
        TurnActivity::Ahead => "computes; may start".into(),
        TurnActivity::Waiting if job.waits_for.is_empty() => format!("waits since {}", millis(since)),
        TurnActivity::Waiting => {
            format!("waits since {} for {}, for {} more at most", millis(since), job.waits_for.join(", "), millis(left))
        }
        TurnActivity::Sending => format!("sends since {}", millis(since)),
    }
}

#[cfg(test)]
mod tests {
    use proto::v1alpha1::{Job, Slot};

    use super::*;

    #[test]
    fn why_nobody_takes_turns_is_known() {
        let says = |jobs: ListJobsResponse| text(&ListTurnsResponse::default(), &jobs);
        let job = |hold| Job { slot: Some(Slot { hold, ..Slot::default() }), ..Job::default() };
        let of = |hold, outlook: &str| ListJobsResponse { jobs: vec![job(hold)], outlook: outlook.into(), ..ListJobsResponse::default() };
        assert_eq!(says(ListJobsResponse::default()), "no job takes turns: none is committed");
        assert_eq!(says(of(false, "control = observe: none would gain")), "no job takes turns: control = observe: none would gain");
        assert_eq!(says(of(true, "")), "no job takes turns: the service's control is slots (antiphase jobs)");
        assert_eq!(says(of(false, "")), "no job takes turns: none is predicted to gain by it");
    }

    #[test]
    fn a_group_is_said_in_words_and_numbers() {
        const MS: u64 = 1_000_000;
        let times = |mean, wait| {
            Some(TurnTimes {
                iterations: 9,
                mean_ns: mean * MS,
                p50_ns: 0,
                p99_ns: 2 * mean * MS,
                mean_wait_ns: wait * MS,
                spread_ns: Vec::new(),
            })
        };
        let sends = TurnJob {
            job: "a".into(),
            activity: TurnActivity::Sending.into(),
            since_ns: Some(95 * MS),
            held: times(100, 5),
            free: times(120, 0),
            starts: 200,
            bound: 1,
            ..TurnJob::default()
        };
        let waits = TurnJob {
            job: "b".into(),
            activity: TurnActivity::Waiting.into(),
            since_ns: Some(99 * MS),
            until_ns: Some(150 * MS),
            waits_for: vec!["a".into()],
            ..TurnJob::default()
        };
        let group = TurnGroup { reason: "takes turns".into(), jobs: vec![sends, waits], ..TurnGroup::default() };
        let answer = ListTurnsResponse { groups: vec![group], total: 3, at_ns: 100 * MS, plan_version: 1 };
        let said = text(&answer, &ListJobsResponse::default());
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "A group of 2 takes turns");
        for part in ["sends since 5.000 ms", "100.000 ms", "200.000 ms", "120.000 ms", "240.000 ms", "5.0 %", "0.5 %"] {
            assert!(lines[3].contains(part), "{part}: {said}");
        }
        assert!(lines[4].contains("waits since 1.000 ms for a, for 50.000 ms more at most"), "{said}");
        // What was not measured or not predicted is a dash.
        assert_eq!(lines[4].split_whitespace().take(3).collect::<Vec<_>>(), ["b", "-", "-"]);
        assert!(lines.last() == Some(&"2 more groups; --limit shows them"), "{said}");
    }
}
