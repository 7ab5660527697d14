//! What a gate keeps of its job for the report.

use units::{Nanos, NodeTime};

use crate::Reason;

/// Iterations that a report remembers one by one: more than an agent misses between two looks at any sensible period.
pub const RING: usize = 64;

/// How one iteration started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOutcome {
    /// Why it went when it did.
    pub because: Reason,
    /// When it went.
    pub start: NodeTime,
    /// How long it was held.
    pub held: Nanos,
    /// Whether the start missed a slot and waited for the next.
    pub slip: bool,
    /// Start minus the nearest due start in nanoseconds: negative is early. `None` without a plan.
    pub late: Option<i64>,
    /// Version of the plan; 0 without one.
    pub plan_version: u64,
}

/// Totals since the gate was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Starts that passed the gate.
    pub iterations: u64,
    /// Starts that were held.
    pub holds: u64,
    /// Starts that missed a slot.
    pub slips: u64,
    /// Starts by reason, indexed by [`Reason::code`].
    pub by_reason: [u64; Reason::COUNT],
    /// Time spent in holds.
    pub held: Nanos,
}

impl Counters {
    /// Starts that went because the plan could not be trusted or followed.
    #[must_use]
    pub fn fail_opens(&self) -> u64 {
        let open = Reason::ALL.iter().zip(&self.by_reason).filter(|(reason, _)| reason.is_fail_open());
        open.fold(0, |sum, (_, &count)| sum.saturating_add(count))
    }

    /// The difference to `earlier`. Totals that went backwards are of a job that began anew, and count whole.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        // Every start counts as an iteration, so iterations that went back mean another run of the gate.
        if self.iterations < earlier.iterations {
            return *self;
        }
        // The job writes its own report, so a single total may go back although the iterations did not: then nothing was added.
        let mut by_reason = self.by_reason;
        for (now, then) in by_reason.iter_mut().zip(&earlier.by_reason) {
            *now = now.saturating_sub(*then);
        }
        Self {
            iterations: self.iterations - earlier.iterations,
            holds: self.holds.saturating_sub(earlier.holds),
            slips: self.slips.saturating_sub(earlier.slips),
            by_reason,
            held: Nanos(self.held.0.saturating_sub(earlier.held.0)),
        }
    }

    #[inline]
    fn add(&mut self, outcome: &StepOutcome) {
        // A total that wrapped to zero would look like a job that began anew (`since`), so totals stay at their end.
        self.iterations = self.iterations.saturating_add(1);
        self.holds = self.holds.saturating_add(u64::from(outcome.held.0 > 0));
        self.slips = self.slips.saturating_add(u64::from(outcome.slip));
        // Every code is below `Reason::COUNT`; `get_mut` only keeps a panic out of the gate's path.
        if let Some(count) = self.by_reason.get_mut(usize::from(outcome.because.code())) {
            *count = count.saturating_add(1);
        }
        self.held = Nanos(self.held.0.saturating_add(outcome.held.0));
    }
}

/// One iteration of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When it started.
    pub start: NodeTime,
    /// Start minus the nearest due start in nanoseconds; `None` without a plan.
    pub late: Option<i64>,
    /// How long it was held before.
    pub held: Nanos,
    /// How long it sent, from the start until the job said that this has ended; zero if it did not say so.
    pub sent: Nanos,
}

/// Totals, and the last [`RING`] iterations one by one.
#[derive(Clone, Debug)]
pub struct Tracker {
    counters: Counters,
    plan_version: u64,
    ring: [Sample; RING],
}

impl Default for Tracker {
    fn default() -> Self {
        Self { counters: Counters::default(), plan_version: 0, ring: [Sample::default(); RING] }
    }
}

impl Tracker {
    /// A tracker with the numbers of a report, for a reader of reports. `ring` is indexed by iteration modulo [`RING`].
    #[must_use]
    pub const fn new(counters: Counters, plan_version: u64, ring: [Sample; RING]) -> Self {
        Self { counters, plan_version, ring }
    }

    /// Adds one start.
    #[inline]
    pub fn record(&mut self, outcome: &StepOutcome) {
        // Iteration n, from zero, is at n modulo RING (docs/schedule-page.md), so the place comes before the count.
        let place = (self.counters.iterations % RING as u64) as usize;
        self.ring[place] = Sample { start: outcome.start, late: outcome.late, held: outcome.held, sent: Nanos(0) };
        self.counters.add(outcome);
        self.plan_version = outcome.plan_version;
    }

    /// Notes how long the last start sent.
    pub fn ended(&mut self, sent: Nanos) {
        let Some(last) = self.counters.iterations.checked_sub(1) else { return };
        self.ring[(last % RING as u64) as usize].sent = sent;
    }

    /// The totals.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Version of the plan at the last start; 0 without one.
    #[must_use]
    pub const fn plan_version(&self) -> u64 {
        self.plan_version
    }

    /// The ring, indexed by iteration modulo [`RING`].
    #[must_use]
    pub const fn ring(&self) -> &[Sample; RING] {
        &self.ring
    }

    /// The last `count` iterations that the ring still has, oldest first.
    pub fn last(&self, count: u64) -> impl Iterator<Item = &Sample> {
        let iterations = self.counters.iterations;
        // A report may claim any count: the first `min` prevents an underflow, and RING bounds the loop.
        let first = iterations - count.min(iterations).min(RING as u64);
        (first..iterations).map(|iteration| &self.ring[(iteration % RING as u64) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(start: u64, because: Reason, held: u64, slip: bool) -> StepOutcome {
        StepOutcome { because, start: NodeTime(start), held: Nanos(held), slip, late: Some(0), plan_version: 3 }
    }

    #[test]
    fn totals_add_up() {
        let mut tracker = Tracker::default();
        tracker.record(&outcome(10, Reason::NoPage, 0, false));
        tracker.record(&outcome(20, Reason::OnTime, 5, true));
        let early = *tracker.counters();
        assert_eq!((early.iterations, early.holds, early.slips, early.fail_opens(), early.held), (2, 1, 1, 1, Nanos(5)));
        tracker.record(&outcome(30, Reason::Stale, 0, false));
        let added = tracker.counters().since(&early);
        assert_eq!((added.iterations, added.holds, added.fail_opens()), (1, 0, 1));
        assert_eq!(early.since(tracker.counters()), early, "a job that began anew counts from zero");
    }

    #[test]
    fn the_ring_keeps_the_last() {
        let mut tracker = Tracker::default();
        assert_eq!(tracker.last(5).count(), 0);
        (0..100).for_each(|n| tracker.record(&outcome(n, Reason::OnTime, 0, false)));
        let starts = |count| tracker.last(count).map(|sample| sample.start.0).collect::<Vec<_>>();
        assert_eq!(starts(3), [97, 98, 99]);
        assert_eq!(starts(u64::MAX), (36..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_last_start_has_how_long_it_sent() {
        let mut tracker = Tracker::default();
        tracker.ended(Nanos(1));
        assert_eq!(tracker.ring()[0].sent, Nanos(0), "nothing has started");
        (0..65).for_each(|n| tracker.record(&outcome(n, Reason::Granted, 0, false)));
        tracker.ended(Nanos(7));
        assert_eq!(tracker.last(2).map(|sample| sample.sent.0).collect::<Vec<_>>(), [0, 7]);
        tracker.record(&outcome(65, Reason::Granted, 0, false));
        assert_eq!(tracker.last(1).map(|sample| sample.sent.0).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn a_report_may_lie_about_its_count() {
        let counters = Counters { iterations: u64::MAX, ..Counters::default() };
        let tracker = Tracker::new(counters, 1, [Sample::default(); RING]);
        assert_eq!(tracker.last(u64::MAX).count(), RING);
    }
}
