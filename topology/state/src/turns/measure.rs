//! What the iterations of a job that takes turns say of the job itself: how long one takes without its waits, and how long it sends.

use job::MeasuredProfile;
use units::Nanos;

/// Iterations of one measurement: with the jitter of 5 % that turns allow for, their mean is off by 1 %.
const ITERATIONS: u64 = 24;
/// Iterations that are not counted after the group changed or ran free: they begin as the ones before left them.
const SETTLING: u64 = 4;
/// An iteration that takes so many times the shortest one is a pause, as for a checkpoint, and says nothing of the job.
const PAUSE_TIMES: u64 = 4;
/// Another value is told when it differs from the last by so much, in thousandths.
const TELL_PERMILLE: u64 = 20;
/// After something was told, so many times as many measurements pass before the next: what is told may plan a whole component anew, and
/// an agent writes its notes itself.
const APART_GROWS: u64 = 4;
/// The most measurements between two that are told.
const APART_MAX: u64 = 1_024;
/// Digits of what is told. Equal jobs differ in the fourth, and with equal periods they stay equal jobs to the solver.
const DIGITS: u64 = 1_000;

/// Measures one job.
#[derive(Clone, Debug, Default)]
pub(super) struct Measure {
    /// Since the group changed or ran free.
    seen: u64,
    count: u64,
    sum: u64,
    /// How long the job sent, while every start of these iterations told it.
    sent: Option<u64>,
    /// Starts of the iteration under way that did not tell how long they sent, less those that did.
    open: u64,
    now: u64,
    least: Option<u64>,
    /// The last measurement since the group changed or ran free, and what was told of the job.
    last: Option<MeasuredProfile>,
    told: Option<MeasuredProfile>,
    /// Measurements until the next may be told, and how many that were.
    left: u64,
    apart: u64,
}

impl Measure {
    /// What comes next was not measured under the same conditions.
    pub(super) fn restart(&mut self) {
        (self.seen, self.count, self.sum, self.sent) = (0, 0, 0, Some(0));
        // It may be planned otherwise by now, and what was told before is told again.
        (self.open, self.now, self.last, self.told) = (0, 0, None, None);
    }

    /// The job begins to send.
    pub(super) fn starts(&mut self) {
        self.open += 1;
    }

    /// It sent for so long; zero where that was not told.
    pub(super) fn sent(&mut self, sent: Nanos) {
        if sent.0 > 0 && self.open > 0 {
            self.open -= 1;
            self.now = self.now.saturating_add(sent.0);
        }
    }

    /// An iteration took so long, of which it waited that long. True when that ends a measurement.
    pub(super) fn iteration(&mut self, took: Nanos, waited: Nanos) -> bool {
        let (open, now) = (core::mem::take(&mut self.open), core::mem::take(&mut self.now));
        let least = self.least.map_or(took.0, |least| least.min(took.0)).max(1);
        self.least = Some(least);
        if took.0 / PAUSE_TIMES > least {
            return false;
        }
        self.seen += 1;
        if self.seen <= SETTLING {
            return false;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(took.0.saturating_sub(waited.0));
        self.sent = self.sent.filter(|_| open == 0 && now > 0).map(|sum| sum.saturating_add(now));
        if self.count < ITERATIONS {
            return false;
        }
        let of = |sum: u64| Nanos(rounded(sum / ITERATIONS));
        let found = MeasuredProfile { iteration: of(self.sum), sent: self.sent.map(of) };
        (self.count, self.sum, self.sent) = (0, 0, Some(0));
        self.left = self.left.saturating_sub(1);
        self.last = Some(found).filter(|found| found.iteration.0 > 0);
        true
    }

    /// What may be told of the job now, and whether it is news; `None` before it was measured, and soon after something was told.
    pub(super) fn found(&self) -> Option<(MeasuredProfile, bool)> {
        let last = self.last.filter(|_| self.left == 0)?;
        Some((last, self.told.is_none_or(|told| is_news(told, last))))
    }

    /// The last measurement was told.
    pub(super) fn told(&mut self) {
        self.apart = (self.apart * APART_GROWS).clamp(1, APART_MAX);
        (self.told, self.left) = (self.last, self.apart);
    }
}

fn is_news(told: MeasuredProfile, found: MeasuredProfile) -> bool {
    let within = found.iteration.0 / 1_000 * TELL_PERMILLE;
    let far = |a: Nanos, b: Nanos| a.0.abs_diff(b.0) > within;
    let sent = told.sent.zip(found.sent).map_or(told.sent.is_some() != found.sent.is_some(), |(told, found)| far(told, found));
    far(told.iteration, found.iteration) || sent
}

/// To three digits.
fn rounded(value: u64) -> u64 {
    // Each turn makes the unit ten times as large, and a value of 64 bits has twenty digits.
    let mut unit = 1u64;
    while value / unit >= DIGITS {
        unit *= 10;
    }
    (value / unit + u64::from(value % unit >= unit.div_ceil(2) && unit > 1)) * unit
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MS: u64 = 1_000_000;

    /// What so many iterations of this length tell, with what they wait and send.
    fn run(measure: &mut Measure, iterations: u64, took: u64, waited: u64, sent: Option<u64>) -> Vec<(u64, Option<u64>)> {
        let one = |_| {
            measure.starts();
            measure.sent(Nanos(sent.unwrap_or(0) * MS));
            let ends = measure.iteration(Nanos(took * MS), Nanos(waited * MS));
            let (found, _) = measure.found().filter(|(_, is_news)| ends && *is_news)?;
            measure.told();
            Some(found)
        };
        (0..iterations).filter_map(one).map(|m| (m.iteration.0 / MS, m.sent.map(|s| s.0 / MS))).collect()
    }

    fn fresh() -> Measure {
        let mut measure = Measure::default();
        measure.restart();
        measure
    }

    #[test]
    fn an_iteration_counts_without_its_waits() {
        let mut measure = fresh();
        assert_eq!(run(&mut measure, SETTLING, 900, 0, Some(100)), []);
        assert_eq!(run(&mut measure, ITERATIONS, 350, 10, Some(120)), [(340, Some(120))]);
        assert_eq!(run(&mut measure, 100 * ITERATIONS, 345, 3, Some(121)), [], "no news");
    }

    #[test]
    fn what_a_start_sent_counts_only_where_all_tell() {
        let mut measure = fresh();
        assert_eq!(run(&mut measure, SETTLING + ITERATIONS - 1, 340, 0, Some(120)), []);
        assert_eq!(run(&mut measure, 1, 340, 0, None), [(340, None)]);
    }

    #[test]
    fn pauses_and_what_comes_after_a_change_do_not_count() {
        let mut measure = fresh();
        assert_eq!(run(&mut measure, SETTLING + 10, 340, 0, None), []);
        assert_eq!(run(&mut measure, 5, 9_000, 0, None), []);
        measure.restart();
        assert_eq!(run(&mut measure, SETTLING, 500, 0, None), []);
        assert_eq!(run(&mut measure, ITERATIONS, 340, 0, None), [(340, None)]);
    }

    /// A job that says something else all the time: what it makes the service plan is bounded by the logarithm of its iterations.
    #[test]
    fn a_job_that_changes_all_the_time_tells_it_seldom() {
        let mut measure = fresh();
        let told: usize = (0..4_096).map(|n| run(&mut measure, ITERATIONS, if n % 2 == 0 { 100 } else { 200 }, 0, None).len()).sum();
        assert!((5..=9).contains(&told), "{told}");
    }

    #[test]
    fn three_digits_are_told() {
        let values = [0, 7, 999, 1_000, 1_004, 1_005, 339_870_000, 340_120_000, 99_960, u64::MAX];
        let expected = [0, 7, 999, 1_000, 1_000, 1_010, 340_000_000, 340_000_000, 100_000, 18_400_000_000_000_000_000];
        assert_eq!(values.map(rounded), expected);
    }
}
