//! What the iterations of a job that takes turns say of the job itself: how long one takes without its waits, and how long it sends.
//!
//! Only iterations count in which the rules were kept: nobody of the group was let go at its bound or for want of ends, and the group was
//! held. A window of them is trusted when the one before said the same.

use alloc::{sync::Arc, vec::Vec};

use job::MeasuredProfile;
use units::Nanos;

/// Iterations of one window: with the jitter of 5 % that turns allow for, the mean of its middle half is off by about 1 %.
const ITERATIONS: usize = 24;
/// Iterations that are not counted after the group changed, ran free or broke a rule: they begin as the ones before left them.
const SETTLING: u32 = 4;
/// Two windows say the same when they differ by no more than this, in thousandths.
const AGREE_PERMILLE: u64 = 20;

/// What the iterations of a group's jobs say of the jobs themselves: of each its iteration without its waits, and what it sends.
///
/// Of all at once: were one planned as measured beside others as declared, they might seem not to fit, and would be measured no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredJobs(pub Vec<(Arc<str>, MeasuredProfile)>);

/// Measures one job.
#[derive(Clone, Debug, Default)]
pub(super) struct Measure {
    /// Of the group, when the iteration under way began: how often a rule was broken there.
    broken: u64,
    settled: u32,
    /// Of each iteration of this window: its length without waits, and how long it sent, where every start of it told.
    window: Vec<(u64, Option<u64>)>,
    /// Starts of the iteration under way that have not told yet how long they sent, and what the others told.
    open: u64,
    sent: u64,
    before: Option<MeasuredProfile>,
    found: Option<MeasuredProfile>,
}

impl Measure {
    /// What was seen so far was seen under other conditions than what comes.
    pub(super) fn restart(&mut self) {
        *self = Self { broken: self.broken, ..Self::default() };
    }

    /// The job begins to send.
    pub(super) fn starts(&mut self) {
        self.open += 1;
    }

    /// It sent for so long; zero where that was not told.
    pub(super) fn sent(&mut self, sent: Nanos) {
        if sent.0 > 0 && self.open > 0 {
            self.open -= 1;
            self.sent = self.sent.saturating_add(sent.0);
        }
    }

    /// An iteration took so long, of which it waited that long, and rules of the group were broken so often until now. True when that
    /// ends a window that is to be trusted.
    pub(super) fn iteration(&mut self, took: Nanos, waited: Nanos, broken: u64) -> bool {
        if core::mem::replace(&mut self.broken, broken) != broken {
            self.restart();
            return false;
        }
        let (open, sent) = (core::mem::take(&mut self.open), core::mem::take(&mut self.sent));
        if self.settled < SETTLING {
            self.settled += 1;
            return false;
        }
        self.window.push((took.0.saturating_sub(waited.0), (open == 0 && sent > 0).then_some(sent)));
        if self.window.len() < ITERATIONS {
            return false;
        }
        let lengths = self.window.iter().map(|(length, _)| *length).collect();
        // Some that were lost do not matter; where many are, those that are left may be other starts than the job's all.
        let sent: Vec<u64> = self.window.iter().filter_map(|(_, sent)| *sent).collect();
        let told_by_most = sent.len() * 4 >= ITERATIONS * 3;
        let found = MeasuredProfile { iteration: middle(lengths), sent: told_by_most.then(|| middle(sent)) };
        self.window.clear();
        let agrees = self.before.replace(found).is_some_and(|before| agree(before, found));
        self.found = Some(found).filter(|found| agrees && found.iteration.0 > 0);
        self.found.is_some()
    }

    /// What was found in the last window, if it is to be trusted and was not told.
    pub(super) fn found(&self) -> Option<MeasuredProfile> {
        self.found
    }

    /// It was told.
    pub(super) fn told(&mut self) {
        self.found = None;
    }
}

/// The mean of the middle half: a checkpoint, or an iteration of which a message was lost, moves it by next to nothing.
fn middle(mut values: Vec<u64>) -> Nanos {
    values.sort_unstable();
    let cut = values.len() / 4;
    let half = &values[cut..values.len() - cut];
    let sum: u128 = half.iter().map(|value| u128::from(*value)).sum();
    Nanos(u64::try_from(sum / half.len().max(1) as u128).unwrap_or(u64::MAX))
}

fn agree(a: MeasuredProfile, b: MeasuredProfile) -> bool {
    let within = b.iteration.0 / 1_000 * AGREE_PERMILLE;
    let near = |a: Nanos, b: Nanos| a.0.abs_diff(b.0) <= within;
    near(a.iteration, b.iteration) && a.sent.zip(b.sent).is_none_or(|(a, b)| near(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const WINDOW: u64 = ITERATIONS as u64;

    /// What so many iterations of this length tell, with what they wait and send.
    fn run(measure: &mut Measure, iterations: u64, took: u64, waited: u64, sent: Option<u64>) -> Vec<(u64, Option<u64>)> {
        let one = |_| {
            measure.starts();
            measure.sent(Nanos(sent.unwrap_or(0) * MS));
            let ends = measure.iteration(Nanos(took * MS), Nanos(waited * MS), 0);
            let found = measure.found().filter(|_| ends);
            measure.told();
            found
        };
        (0..iterations).filter_map(one).map(|m| (m.iteration.0 / MS, m.sent.map(|s| s.0 / MS))).collect()
    }

    #[test]
    fn an_iteration_counts_without_its_waits_when_two_windows_agree() {
        let mut measure = Measure::default();
        assert_eq!(run(&mut measure, u64::from(SETTLING), 900, 0, Some(100)), []);
        assert_eq!(run(&mut measure, WINDOW, 350, 10, Some(120)), [], "one window alone");
        assert_eq!(run(&mut measure, WINDOW, 345, 3, Some(121)), [(342, Some(121))]);
        assert_eq!(run(&mut measure, WINDOW, 400, 0, Some(121)), [], "another job, or a phase of it that passes");
        assert_eq!(run(&mut measure, WINDOW, 400, 0, Some(121)), [(400, Some(121))]);
    }

    #[test]
    fn what_starts_send_counts_where_most_tell() {
        let mut measure = Measure::default();
        run(&mut measure, u64::from(SETTLING) + WINDOW, 340, 0, Some(120));
        run(&mut measure, 6, 340, 0, None);
        assert_eq!(run(&mut measure, WINDOW - 6, 340, 0, Some(120)), [(340, Some(120))]);
        run(&mut measure, 7, 340, 0, None);
        assert_eq!(run(&mut measure, WINDOW - 7, 340, 0, Some(120)), [(340, None)]);
    }

    /// Checkpoints, iterations of which the start was lost, and a service that heard of two starts at once.
    #[test]
    fn strange_iterations_do_not_count() {
        let mut measure = Measure::default();
        run(&mut measure, u64::from(SETTLING) + WINDOW, 340, 0, None);
        for took in [9_000, 680, 0, 9_000, 680, 0] {
            assert_eq!(run(&mut measure, 1, took, 0, None), []);
        }
        assert_eq!(run(&mut measure, WINDOW - 6, 340, 0, None), [(340, None)]);
    }

    #[test]
    fn iterations_beside_a_broken_rule_do_not_count() {
        let mut measure = Measure::default();
        let mut found = 0;
        for n in 0..1_000 {
            // Somebody was let go at its bound in every twentieth iteration.
            found += usize::from(measure.iteration(Nanos(500), Nanos(0), n / 20));
        }
        assert_eq!(found, 0);
        found = (0..100).filter(|_| measure.iteration(Nanos(500), Nanos(0), 50)).count();
        assert_eq!(found, 2);
    }
}
