//! What the gates of the led jobs say, checked before it is passed on.
//!
//! A job writes its report itself, so every number is bounded by what can be true: no more of anything than there was time
//! for, no start in the future, no error beyond half a period. A job that lies then lies about itself only, within bounds.

use std::{collections::BTreeMap, io, path::Path};

use gate::ReportReader;
use gate_core::{Counters, PlannedSlot, RING, Reason, Sample, Summary, mean_iteration, up_and_down};
use proto::v1alpha1::GateReport;
use units::{Nanos, NodeTime};

use crate::config::Reports;

/// Shortest iteration that is believed. Training takes milliseconds at least; a loop over the gate alone may be faster.
const ITERATION_MIN: Nanos = Nanos::from_micros(10);
/// Longest look back at single iterations.
const LOOK_BACK: Nanos = Nanos::from_millis(600_000);

/// Totals of a job's gate since the agent began to read it, and its last medians.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateTotals {
    /// Starts.
    pub iterations: u64,
    /// Starts that were held.
    pub holds: u64,
    /// Starts that missed a slot.
    pub slips: u64,
    /// Time spent in holds.
    pub held: Nanos,
    /// Starts let go, by reason, for each reason that occurred.
    pub fail_opens: Vec<(&'static str, u64)>,
    /// Median start minus slot in nanoseconds.
    pub phase_error: Option<i64>,
    /// Median time from start to start.
    pub iteration_p50: Option<Nanos>,
}

/// The reports of the led jobs.
#[derive(Debug, Default)]
pub struct Gates {
    made_by: Reports,
    jobs: BTreeMap<String, GateOfJob>,
}

#[derive(Debug)]
struct GateOfJob {
    reader: ReportReader,
    /// Run of the gate, its totals, and when they were read.
    last: Option<(u64, Counters)>,
    read_at: NodeTime,
    /// The version of the slot that it follows, and since when.
    slot: (u64, NodeTime),
    totals: GateTotals,
}

impl Gates {
    /// No job yet.
    #[must_use]
    pub fn new(made_by: Reports) -> Self {
        Self { made_by, jobs: BTreeMap::new() }
    }

    /// Follows the jobs that are led now: opens their reports, and forgets those of others.
    ///
    /// # Errors
    /// The first report that cannot be opened; the others are followed all the same.
    pub fn follow<'a>(&mut self, directory: &Path, led: impl Iterator<Item = &'a str>, now: NodeTime) -> io::Result<()> {
        let mut before = core::mem::take(&mut self.jobs);
        let mut first_error = Ok(());
        for job in led {
            // A job that is still led keeps its reader and totals; what stays in `before` is closed at the end.
            // A report that somebody removed is made anew, as its page is.
            let opened = before
                .remove(job)
                .filter(|gate| !gate.reader.is_gone())
                .map_or_else(|| GateOfJob::open(self.made_by, directory, job, now), Ok);
            match opened {
                Ok(gate) => drop(self.jobs.insert(job.to_owned(), gate)),
                Err(error) if first_error.is_ok() => first_error = Err(error),
                Err(_) => {}
            }
        }
        first_error
    }

    /// What the gates of these jobs did since the last call. A job whose gate said nothing new has no report.
    pub fn report<'a>(&mut self, led: impl Iterator<Item = (&'a str, &'a PlannedSlot)>, now: NodeTime) -> Vec<GateReport> {
        led.filter_map(|(job, slot)| self.jobs.get_mut(job)?.report(job, slot, now)).collect()
    }

    /// Totals of each job, in order of their names.
    #[must_use]
    pub fn totals(&self) -> Vec<(String, GateTotals)> {
        self.jobs.iter().map(|(job, gate)| (job.clone(), gate.totals.clone())).collect()
    }
}

impl GateOfJob {
    fn open(made_by: Reports, directory: &Path, job: &str, now: NodeTime) -> io::Result<Self> {
        let reader = match made_by {
            Reports::Shared => ReportReader::open_or_create(directory, job)?,
            Reports::Owned => ReportReader::of_owner(directory, job)?,
        };
        // The agent before us reported the starts up to here.
        let last = reader.read().map(|report| (report.writer, *report.tracker.counters()));
        Ok(Self { reader, last, read_at: now, slot: (0, now), totals: GateTotals::default() })
    }

    fn report(&mut self, job: &str, slot: &PlannedSlot, now: NodeTime) -> Option<GateReport> {
        let report = self.reader.read()?;
        let counters = *report.tracker.counters();
        let before = match self.last {
            // Another writer is another run of the gate, and its totals began at zero.
            Some((writer, before)) if writer == report.writer => before,
            _ => Counters::default(),
        };
        let elapsed = now.since(self.read_at);
        let passed = bounded(&counters.since(&before), elapsed);
        // What iterations took before is no mean of what they take under this slot.
        if self.slot.0 != slot.plan_version {
            // Under the first one the job was from when it was followed.
            let since = if self.slot.0 == 0 { self.slot.1 } else { now };
            self.slot = (slot.plan_version, since);
        }
        self.last = Some((report.writer, counters));
        self.read_at = now;
        if passed.iterations == 0 {
            return None;
        }
        // The sample before the first new one gives that one a length. `bounded` has made the number small: adding 1 is safe.
        let samples = report.tracker.last((passed.iterations + 1).min(RING as u64));
        let is_believed = |sample: &&Sample| sample.start <= now && now.since(sample.start) <= LOOK_BACK;
        let summary = Summary::of(samples.filter(is_believed));
        // Of more iterations than the medians: few would make a mean of chance.
        let under_slot = || report.tracker.last(RING as u64).filter(is_believed).filter(|sample| sample.start >= self.slot.1);
        let (mean, up_down) = (mean_iteration(under_slot()), up_and_down(under_slot()));
        // No start is further than half a period from the slot nearest to it, so more than that is not true of this plan.
        let half = (slot.period.0 / 2).cast_signed();
        let phase_error = summary.phase_error.map(|error| error.clamp(-half, half));
        self.add(&passed, phase_error, summary.iteration_p50);
        Some(GateReport {
            job: job.into(),
            // A job cannot have followed a plan that is not on its page yet.
            plan_version: report.tracker.plan_version().min(slot.plan_version),
            iterations: passed.iterations,
            holds: passed.holds,
            slips: passed.slips,
            fail_opens: passed.fail_opens(),
            phase_error_ns: phase_error,
            iteration_p50_ns: summary.iteration_p50.map(|length| length.0),
            iteration_p75_ns: summary.iteration_p75.map(|length| length.0),
            solo_p75_ns: summary.solo_p75.map(|length| length.0),
            held_ns: passed.held.0,
            observed_period_ns: None,
            iteration_mean_ns: mean.map(|length| length.0),
            up_ns: up_down.map(|is| is.up.0),
            down_ns: up_down.map(|is| is.down.0),
        })
    }

    fn add(&mut self, passed: &Counters, phase_error: Option<i64>, iteration_p50: Option<Nanos>) {
        let totals = &mut self.totals;
        // `bounded` limits each addend by the time that passed, so the sums do not overflow in an agent's life.
        totals.iterations += passed.iterations;
        totals.holds += passed.holds;
        totals.slips += passed.slips;
        totals.held = Nanos(totals.held.0.saturating_add(passed.held.0));
        for (reason, &count) in Reason::ALL.iter().zip(&passed.by_reason).filter(|(reason, count)| reason.is_fail_open() && **count > 0) {
            match totals.fail_opens.iter_mut().find(|(word, _)| *word == reason.word()) {
                Some((_, total)) => *total += count,
                None => totals.fail_opens.push((reason.word(), count)),
            }
        }
        totals.phase_error = phase_error.or(totals.phase_error);
        totals.iteration_p50 = iteration_p50.or(totals.iteration_p50);
    }
}

/// No more than can be true of so much time.
fn bounded(passed: &Counters, elapsed: Nanos) -> Counters {
    let iterations = passed.iterations.min(elapsed.0 / ITERATION_MIN.0 + 1);
    let mut left = iterations;
    // Each start has one reason, so all reasons together are no more than the starts.
    let by_reason = passed.by_reason.map(|count| {
        let taken = count.min(left);
        left -= taken;
        taken
    });
    Counters {
        iterations,
        holds: passed.holds.min(iterations),
        slips: passed.slips.min(iterations),
        by_reason,
        // A hold that began before the last look may count whole.
        held: passed.held.min(Nanos(elapsed.0.saturating_add(gate_core::HOLD_LIMIT.0))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_report_says_more_than_there_was_time_for(
            iterations: u64, holds: u64, slips: u64, held: u64, reasons in prop::collection::vec(any::<u64>(), Reason::COUNT), ms in 0_u64..100_000,
        ) {
            let by_reason = reasons.try_into().unwrap();
            let passed = bounded(&Counters { iterations, holds, slips, by_reason, held: Nanos(held) }, Nanos::from_millis(ms));
            prop_assert!(passed.iterations <= ms * 100 + 1);
            prop_assert!(passed.holds <= passed.iterations && passed.slips <= passed.iterations && passed.fail_opens() <= passed.iterations);
            prop_assert!(passed.held.0 <= ms * 1_000_000 + gate_core::HOLD_LIMIT.0);
        }
    }
}
