//! `antiphase jobs`: the committed jobs, their slots, and what their gates saw.

use std::process::ExitCode;

use clap::Args;
use job::Hold;
use proto::v1alpha1::{Attribution, Congestion, Job, JobState, ListJobsRequest, ListJobsResponse, Slot};

use super::{Listing, millis, or_dash, signed_millis};
use crate::{input::CliError, table::Table};

/// The committed jobs.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    list: Listing,
    /// Only these jobs
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
}

pub(crate) fn list(args: &ListArgs) -> Result<ExitCode, CliError> {
    let request = ListJobsRequest { jobs: args.jobs.clone(), ..ListJobsRequest::default() };
    args.list.show(async |client| client.list_jobs(request.clone()).await, table)
}

pub(super) fn table(answer: &ListJobsResponse) -> String {
    let warnings = answer.warnings.iter().map(|warning| format!("warning: {warning}"));
    if answer.jobs.is_empty() {
        let none = "no jobs are committed; commit some with: antiphase commit --jobs FILE".to_owned();
        return [none].into_iter().chain(warnings).collect::<Vec<_>>().join("\n");
    }
    let mut table =
        Table::new(&["JOB", "STATE", ">HOSTS", ">PERIOD", ">OFFSET", ">SLACK", ">ITERATION", ">LATE BY", ">SLIPS", ">SHARED LINKS"]);
    for job in &answer.jobs {
        table.row(row(job));
    }
    // Rare, so it gets lines and not a column.
    let learned = answer.jobs.iter().filter_map(|job| {
        // The service reports a learned period only where it differs from what it expects (docs/operating.md).
        let period = job.period_mismatch_ns?;
        let planned = if job.declared_period_ns.is_some() { "measured" } else { "declared" };
        Some(format!("job {} repeats every {}, but {} was {planned}", job.id, millis(period), millis(job.solo_period_ns)))
    });
    let measured = answer.jobs.iter().filter_map(|job| {
        let declared = millis(job.declared_period_ns?);
        let up = job.measured_up_ns.map_or_else(String::new, |ns| format!(", of which it sends {}", millis(ns)));
        Some(format!("job {} takes {}{up}: planned as measured, {declared} was declared", job.id, millis(job.solo_period_ns)))
    });
    let never =
        answer.jobs.iter().filter(|job| job.hold == Hold::Never.word()).map(|job| format!("job {} is never held, as committed", job.id));
    let forecast = answer.jobs.iter().filter_map(|job| {
        let (free, by_turns) = job.predicted_free_ns.zip(job.predicted_turns_ns)?;
        let measured =
            self::measured(job).map_or_else(|| "not measured".into(), |(ns, what)| format!("measured {} in the {what}", millis(ns)));
        Some(format!("job {}: predicted {} as it comes and {} by turns; {measured}", job.id, millis(free), millis(by_turns)))
    });
    let outlook = Some(answer.outlook.clone()).filter(|line| !line.is_empty());
    let ended = answer.jobs.iter().filter(|job| !job.hold_ended.is_empty());
    let ended = ended.map(|job| format!("job {} is not held any more: {}", job.id, job.hold_ended));
    [table.render()]
        .into_iter()
        .chain(learned)
        .chain(measured)
        .chain(never)
        .chain(ended)
        .chain(answer.jobs.iter().filter_map(|job| Some(format!("job {}: {}", job.id, congestion(job)?))))
        .chain(forecast)
        .chain(warnings)
        .chain(outlook)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Marks at the receivers of a job and CNPs at its senders, and how it is known that they are its own; `None` where there were none.
pub(super) fn congestion(job: &Job) -> Option<String> {
    let told = job.congestion.as_ref()?;
    let Congestion { marked, received, cnps_sent, cnps_handled, cnps_ignored, .. } = *told;
    if [marked, cnps_sent, cnps_handled, cnps_ignored].into_iter().flatten().all(|count| count == 0) {
        return None;
    }
    let at = |host: &str| if host.is_empty() { String::new() } else { format!(", most at {host}") };
    let marks = marked.map(|marked| {
        let of = received.filter(|all| *all > 0);
        let of = of.map_or_else(String::new, |all| format!(" of {all} packets ({:.2} %)", 100.0 * marked as f64 / all as f64));
        format!("{marked}{of} came in marked{}", at(&told.marked_host))
    });
    let sent = cnps_sent.map(|count| format!("{count} CNPs sent"));
    let handled = cnps_handled.map(|count| format!("{count} CNPs obeyed{}", at(&told.slowed_host)));
    let ignored = cnps_ignored.filter(|count| *count > 0).map(|count| format!("{count} CNPs ignored"));
    let known = match told.attribution() {
        Attribution::Unspecified => None,
        Attribution::QueuePairs => Some("its own by queue pairs"),
        Attribution::Alone => Some("its own by placement: it is alone on those hosts"),
        Attribution::Shared => Some("its share by what it sends as planned, where several jobs use a port"),
    };
    Some([marks, sent, handled, ignored, known.map(str::to_owned)].into_iter().flatten().collect::<Vec<_>>().join("; "))
}

fn row(job: &Job) -> [String; 10] {
    let slot = job.slot.as_ref();
    let [offset, slack] = slot.map_or_else(|| ["-".into(), "-".into()], place);
    [
        job.id.clone(),
        state_of(job),
        job.hosts.len().to_string(),
        or_dash(slot.and_then(|slot| period(job, slot)), millis),
        offset,
        slack,
        iteration(job),
        or_dash(job.phase_error_ns, signed_millis),
        or_dash(job.slips, |n| n.to_string()),
        job.shared_links.len().to_string(),
    ]
}

/// What an iteration takes by the job's gate, and what figure that is: a mean, as everything is that is predicted, or of an older agent, which
/// tells none, a median.
pub(super) fn measured(job: &Job) -> Option<(u64, &'static str)> {
    let mean = job.iteration_mean_ns.map(|ns| (ns, "mean"));
    mean.or_else(|| job.iteration_ns.map(|ns| (ns, "median")))
}

/// That in a cell, where only a median says what it is.
pub(super) fn iteration(job: &Job) -> String {
    or_dash(measured(job), |(ns, what)| if what == "mean" { millis(ns) } else { format!("{} {what}", millis(ns)) })
}

/// The period with which the job is planned: of its slot, which has headroom, or of a job that keeps to none, what it takes alone.
fn period(job: &Job, slot: &Slot) -> Option<u64> {
    let planned = if slot.hold && !slot.turns { slot.period_ns } else { job.solo_period_ns };
    // Nothing is known yet of a job that is to be learned.
    Some(planned).filter(|period| *period > 0)
}

/// Offset and slack of a slot. A job that takes turns starts when those ahead of it have ended: it keeps to no offset.
pub(super) fn place(slot: &Slot) -> [String; 2] {
    if slot.turns { ["-".into(), "-".into()] } else { [millis(slot.offset_ns), millis(slot.slack_ns)] }
}

/// The state, and whether the job's profile is still to be learned.
fn state_of(job: &Job) -> String {
    let state = state(job.state());
    if job.learn == "learning" { format!("{state}, learning") } else { state.into() }
}

pub(super) fn state(state: JobState) -> &'static str {
    match state {
        JobState::Unspecified => "unknown",
        JobState::Committed => "committed",
        JobState::Held => "held",
        JobState::Free => "free",
        JobState::Drifting => "drifting",
        JobState::Open => "open",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_cnps_of_a_job_say_where_and_how_they_are_known() {
        let mut told = Congestion { marked: Some(0), received: Some(1_000), cnps_ignored: Some(0), ..Congestion::default() };
        let shown = |told: &Congestion| congestion(&Job { congestion: Some(told.clone()), ..Job::default() });
        assert_eq!((shown(&told), congestion(&Job::default())), (None, None));
        (told.marked, told.marked_host) = (Some(42), "h2".into());
        told.set_attribution(Attribution::Shared);
        let shared = "its share by what it sends as planned, where several jobs use a port";
        assert_eq!(shown(&told).unwrap(), format!("42 of 1000 packets (4.20 %) came in marked, most at h2; {shared}"));
        (told.cnps_sent, told.cnps_handled, told.cnps_ignored, told.slowed_host) = (Some(4), Some(3), Some(1), "h1".into());
        told.set_attribution(Attribution::QueuePairs);
        let cnps = "4 CNPs sent; 3 CNPs obeyed, most at h1; 1 CNPs ignored; its own by queue pairs";
        assert_eq!(shown(&told).unwrap(), format!("42 of 1000 packets (4.20 %) came in marked, most at h2; {cnps}"));
    }

    #[test]
    fn what_was_predicted_is_compared_with_a_mean_or_a_median_is_called_one() {
        let mut job = Job {
            id: "a".into(),
            predicted_free_ns: Some(340_000_000),
            predicted_turns_ns: Some(330_000_000),
            iteration_ns: Some(340_000_000),
            ..Job::default()
        };
        let shown = |job: &Job| table(&ListJobsResponse { jobs: vec![job.clone()], ..ListJobsResponse::default() });
        let predicted = "job a: predicted 340.000 ms as it comes and 330.000 ms by turns; measured";
        let old = shown(&job);
        assert!(old.contains(&format!("{predicted} 340.000 ms in the median")) && old.contains(" 340.000 ms median "), "{old}");
        job.iteration_mean_ns = Some(447_000_000);
        let new = shown(&job);
        assert!(new.contains(&format!("{predicted} 447.000 ms in the mean")) && !new.contains("median"), "{new}");
    }
}
