//! Whether turns do what was predicted: each group is compared with itself, held and free.
//!
//! All that turns can cost a job is its waiting. While no job of a group waits for more than [`WAIT_SHARE_MAX`] of its time, there is
//! nothing to compare. Else the group runs free for a short stretch, the sooner the longer its jobs wait, and what its iterations take then is compared with
//! what they take held. Turns that do not make iterations shorter, or that make one job slower, end; from time to time the other way is tried
//! again, each time after four times as long.

use alloc::{sync::Arc, vec, vec::Vec};

use units::Nanos;

use super::recent::{Measured, Recent};

/// A job that waits for a smaller share of its time than this loses nothing worth a comparison.
const WAIT_SHARE_MAX: f64 = 0.01;
/// Iterations of each job in one stretch, held or free. With less, a comparison would be about chance.
const STRETCH_ITERATIONS: u64 = 24;
/// Iterations of each job that are not counted after a change: they begin as the stretch before left them.
const SETTLING: u64 = 4;
/// A free stretch ends after so many iterations of each job when it is clearly worse than turns: what it takes longer is its cost.
const CLEAR_ITERATIONS: u64 = 8;
/// What free iterations take longer than held ones when that is clear.
const CLEAR: f64 = 0.05;
/// A job that pauses ends no stretch: it ends when another job has done so many times as much.
const PAUSED: u64 = 8;
/// Stretches before the first trial, fewer where jobs wait for much of their time. Turns were chosen because they are predicted to gain,
/// and a trial of those that do costs more than the waits of so many stretches.
const FIRST_APART: u64 = 8;
/// A stretch counts once more for each such share of its time that a job waited.
const WAIT_SHARE_HEAVY: f64 = 0.05;
/// An iteration that takes so many times the shortest one is a pause, as for a checkpoint, and says nothing of turns.
const PAUSE_TIMES: u64 = 4;
/// The most stretches between two trials. At an iteration a second it is about seven hours.
const APART_MAX: u64 = 1_024;
/// How much the next trial is later than the one before.
const APART_GROWS: u64 = 4;
/// What turns have to gain in the mean over the jobs to begin; less is chance.
const GAIN_MIN: f64 = 0.002;
/// What turns have to lose in the mean over the jobs to end. A free stretch begins apart, as turns left the jobs, and they may stay so for all
/// of it: that it seems as good as turns is no reason to end them.
const LOSS_MIN: f64 = 0.01;
/// How much longer than free the iterations of any job may be when held. Predictions allow 1 %, and measuring adds as much.
const SLOWER_MAX: f64 = 0.02;

/// Mean and number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeanOf {
    /// How many.
    pub count: u64,
    /// Their mean; zero of none.
    pub mean: Nanos,
}

/// What is seen of one job in one stretch.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Iterations since the stretch began, those of settling included.
    count: u64,
    sum: u64,
    waited: u64,
}

impl Seen {
    fn counted(&self) -> u64 {
        self.count.saturating_sub(SETTLING)
    }

    fn mean(&self) -> MeanOf {
        MeanOf { count: self.counted(), mean: Nanos(self.sum.checked_div(self.counted()).unwrap_or(0)) }
    }

    fn waits(&self) -> f64 {
        self.waited as f64 / (self.sum.max(1)) as f64
    }
}

/// What a comparison came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Whether the group is held from now on.
    pub hold: bool,
    /// Whether that is another answer than before.
    pub is_new: bool,
    /// Mean over the jobs of held over free.
    pub held_over_free: f64,
    /// The same of the job that loses most.
    pub worst: f64,
}

/// What the measured iterations of a group say of its turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Its jobs.
    pub jobs: Vec<Arc<str>>,
    /// What was found.
    pub verdict: Verdict,
}

/// Compares one group.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    /// Whether the group is held now.
    holds: bool,
    /// What was decided last.
    decided: bool,
    now: Vec<Seen>,
    /// The shortest iteration of each job.
    least: Vec<u64>,
    /// The last whole stretch of each kind.
    held: Vec<MeanOf>,
    free: Vec<MeanOf>,
    /// The last iterations of each job, held and free.
    recent: Vec<[Recent; 2]>,
    /// Stretches until the next trial, and how many that were.
    left: u64,
    apart: u64,
}

impl Judge {
    pub(super) fn new(jobs: usize) -> Self {
        let none = vec![MeanOf::default(); jobs];
        Self {
            holds: true,
            decided: true,
            now: vec![Seen::default(); jobs],
            least: vec![u64::MAX; jobs],
            held: none.clone(),
            free: none,
            recent: vec![<[Recent; 2]>::default(); jobs],
            left: FIRST_APART,
            apart: FIRST_APART,
        }
    }

    /// Whether the group is held now; else it runs free, for a stretch or because that is better.
    pub(super) fn holds(&self) -> bool {
        self.holds
    }

    /// Whether turns were found to be worth it, or nothing is known yet.
    pub(super) fn is_worth_it(&self) -> bool {
        self.decided
    }

    /// The last whole stretches of a job, held and free.
    pub(super) fn means(&self, job: u32) -> (MeanOf, MeanOf) {
        let of = |means: &[MeanOf]| means.get(job as usize).copied().unwrap_or_default();
        (of(&self.held), of(&self.free))
    }

    /// The last iterations of a job, held and free.
    pub(super) fn recent(&self, job: u32) -> (Measured, Measured) {
        self.recent.get(job as usize).map_or_else(Default::default, |[held, free]| (held.measured(), free.measured()))
    }

    /// An iteration of a job took so long, of which it waited that long. What a comparison came to, if one ended.
    pub(super) fn iteration(&mut self, job: u32, took: Nanos, waited: Nanos) -> Option<Verdict> {
        let least = self.least.get_mut(job as usize)?;
        *least = (*least).min(took.0.max(1));
        if took.0 / PAUSE_TIMES > *least {
            return None;
        }
        let seen = self.now.get_mut(job as usize)?;
        seen.count += 1;
        if seen.count > SETTLING {
            seen.sum = seen.sum.saturating_add(took.0);
            seen.waited = seen.waited.saturating_add(waited.0);
            if let Some(recent) = self.recent.get_mut(job as usize) {
                recent[usize::from(!self.holds)].push(took, waited);
            }
        }
        let counts = || self.now.iter().filter(|seen| seen.count > 0).map(Seen::counted);
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let is_whole = least >= STRETCH_ITERATIONS || most >= PAUSED * STRETCH_ITERATIONS;
        let is_clear = self.decided && !self.holds && least >= CLEAR_ITERATIONS && {
            let now: Vec<MeanOf> = self.now.iter().map(Seen::mean).collect();
            held_over_free(&self.held, &now).0 <= 1.0 / (1.0 + CLEAR)
        };
        if !is_whole && !is_clear {
            return None;
        }
        self.stretch_ends()
    }

    fn stretch_ends(&mut self) -> Option<Verdict> {
        let kept = if self.holds { &mut self.held } else { &mut self.free };
        kept.iter_mut().zip(&self.now).filter(|(_, seen)| seen.counted() > 0).for_each(|(mean, seen)| *mean = seen.mean());
        let waits = self.now.iter().map(Seen::waits).fold(0.0, f64::max);
        // What slow jobs have done so far goes into the next stretch; after a change of kind all begin anew.
        self.now.iter_mut().filter(|seen| seen.counted() >= STRETCH_ITERATIONS / 2).for_each(|seen| *seen = Seen::default());
        let held = self.holds;
        let verdict = self.decide(waits);
        if self.holds != held {
            self.now.fill(Seen::default());
        }
        verdict
    }

    /// What follows from the end of a stretch in which a job waited for that share of its time.
    fn decide(&mut self, waits: f64) -> Option<Verdict> {
        if self.holds != self.decided {
            return self.compare();
        }
        // Free jobs that turns had kept apart meet after a while. What they take then is known to be worse without another trial.
        if !self.decided && self.is_better_held() {
            return self.compare();
        }
        self.left = self.left.saturating_sub(1 + (waits / WAIT_SHARE_HEAVY) as u64);
        // Nothing is lost by holding as it is.
        let content = self.decided && waits <= WAIT_SHARE_MAX;
        if self.left == 0 && !content {
            self.holds = !self.decided;
        }
        None
    }

    /// Whether turns should go on, or begin.
    fn is_better_held(&self) -> bool {
        let (mean, worst) = held_over_free(&self.held, &self.free);
        let most = if self.decided { 1.0 + LOSS_MIN } else { 1.0 - GAIN_MIN };
        mean <= most && worst <= 1.0 + SLOWER_MAX
    }

    /// Decides by the last stretches of both kinds.
    fn compare(&mut self) -> Option<Verdict> {
        let ((held_over_free, worst), hold) = (held_over_free(&self.held, &self.free), self.is_better_held());
        let is_new = hold != self.decided;
        // Each trial costs a stretch, so each is later than the one before, whatever came of it: answers that change are no reason to
        // ask more often. Jobs that change make another group, and another judge.
        self.apart = (self.apart * APART_GROWS).min(APART_MAX);
        (self.decided, self.holds, self.left) = (hold, hold, self.apart);
        Some(Verdict { hold, is_new, held_over_free, worst })
    }
}

/// Mean over the jobs of held over free, and the same of the job that loses most.
fn held_over_free(held: &[MeanOf], free: &[MeanOf]) -> (f64, f64) {
    let both = held.iter().zip(free).filter(|(held, free)| held.count > 0 && free.count > 0);
    let ratios: Vec<f64> = both.map(|(held, free)| held.mean.0 as f64 / (free.mean.0.max(1)) as f64).collect();
    // Of nobody both are known: nothing speaks for a change.
    if ratios.is_empty() {
        return (1.0, 1.0);
    }
    (ratios.iter().sum::<f64>() / (ratios.len().max(1)) as f64, ratios.iter().copied().fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Iterations of two jobs that take so long held and free and wait so long when held, until `end` of the first.
    fn run(judge: &mut Judge, held: u64, free: u64, waits: u64, iterations: u64) -> (Vec<Verdict>, u64) {
        let (mut verdicts, mut free_iterations) = (Vec::new(), 0);
        for _ in 0..iterations {
            for job in 0..2 {
                let (took, waited) = if judge.holds() { (held, waits) } else { (free, 0) };
                free_iterations += u64::from(!judge.holds());
                verdicts.extend(judge.iteration(job, Nanos(took), Nanos(waited)));
            }
        }
        (verdicts, free_iterations / 2)
    }

    #[test]
    fn a_group_that_does_not_wait_is_never_let_run_free() {
        let mut judge = Judge::new(2);
        assert_eq!(run(&mut judge, 100, 50, 1, 10_000), (Vec::new(), 0));
        assert!(judge.holds());
    }

    #[test]
    fn turns_that_cost_more_than_they_bring_end() {
        let mut judge = Judge::new(2);
        let (verdicts, _) = run(&mut judge, 110, 100, 10, 5 * (STRETCH_ITERATIONS + SETTLING));
        assert_eq!(verdicts.len(), 1);
        assert!(!verdicts[0].hold && verdicts[0].is_new && (verdicts[0].worst - 1.1).abs() < 1e-9);
        assert!(!judge.holds());
        // And begin again when that has changed.
        let (verdicts, _) = run(&mut judge, 90, 100, 10, 40 * (STRETCH_ITERATIONS + SETTLING));
        assert!(verdicts.iter().any(|v| v.hold) && judge.is_worth_it());
    }

    /// Measured in simulation, two equal jobs of 5 % jitter: free for a stretch they stayed apart, and met soon after turns had ended.
    #[test]
    fn a_free_stretch_that_seems_as_good_ends_no_turns() {
        let mut judge = Judge::new(2);
        let (verdicts, _) = run(&mut judge, 1_005, 1_000, 12, 10 * (STRETCH_ITERATIONS + SETTLING));
        assert!(verdicts.len() == 1 && verdicts[0].hold && !verdicts[0].is_new, "{verdicts:?}");
        // Nor is that a reason to begin them.
        let mut judge = Judge::new(2);
        run(&mut judge, 1_100, 1_000, 100, 5 * (STRETCH_ITERATIONS + SETTLING));
        let (verdicts, _) = run(&mut judge, 1_000, 1_000, 12, 40 * (STRETCH_ITERATIONS + SETTLING));
        assert!(!verdicts.is_empty() && verdicts.iter().all(|v| !v.hold), "{verdicts:?}");
    }

    /// The same with lost messages, a chain of four: turns cost 1.5 % beside jobs that were still apart, and then these met.
    #[test]
    fn jobs_that_meet_after_turns_have_ended_take_them_again_at_once() {
        let mut judge = Judge::new(2);
        let stretch = STRETCH_ITERATIONS + SETTLING;
        let (verdicts, _) = run(&mut judge, 1_015, 1_000, 15, 9 * stretch);
        assert!(verdicts.len() == 1 && !verdicts[0].hold, "{verdicts:?}");
        let (verdicts, free) = run(&mut judge, 1_015, 1_300, 15, stretch);
        assert!(verdicts.len() == 1 && verdicts[0].hold && free == stretch, "{verdicts:?}");
        // And are not let go again soon.
        assert_eq!(run(&mut judge, 1_015, 1_000, 15, 15 * stretch), (Vec::new(), 0));
    }

    #[test]
    fn turns_that_pay_cost_a_stretch_now_and_then() {
        let mut judge = Judge::new(2);
        let (verdicts, free) = run(&mut judge, 105, 120, 5, 20_000);
        assert!(verdicts.iter().all(|v| v.hold && !v.is_new), "{verdicts:?}");
        assert!(judge.means(0) == (MeanOf { count: 24, mean: Nanos(105) }, MeanOf { count: 8, mean: Nanos(120) }));
        // One after 8, 32, 128 and 512 stretches, each as short as it may be.
        assert_eq!(free, 4 * (CLEAR_ITERATIONS + SETTLING));
        let (_, free) = run(&mut Judge::new(2), 105, 106, 5, 20_000);
        assert_eq!(free, 4 * (STRETCH_ITERATIONS + SETTLING), "what is not clear needs whole ones");
    }

    #[test]
    fn a_pause_is_no_iteration() {
        let mut judge = Judge::new(1);
        // Every twentieth iteration saves a checkpoint for as long as thirty iterations.
        let verdicts: Vec<Verdict> = (0..2_000)
            .filter_map(|n| {
                let (took, waited) = if judge.holds() { (105, 6) } else { (120, 0) };
                let pause = if n % 20 == 7 && judge.holds() { 3_000 } else { 0 };
                judge.iteration(0, Nanos(took + pause), Nanos(waited))
            })
            .collect();
        assert!(!verdicts.is_empty() && verdicts.iter().all(|v| v.hold), "{verdicts:?}");
    }

    #[test]
    fn a_slow_job_beside_a_fast_one_is_judged_too() {
        let mut judge = Judge::new(2);
        // Job 1 does one iteration while job 0 does twenty, and only job 1 loses.
        let verdict = (0..20_000).find_map(|n| {
            let slow = if judge.holds() { (2_600, 600) } else { (2_000, 0) };
            let fast = judge.iteration(0, Nanos(100), Nanos(0));
            fast.or_else(|| (n % 20 == 0).then(|| judge.iteration(1, Nanos(slow.0), Nanos(slow.1))).flatten())
        });
        assert!(verdict.is_some_and(|v| v.worst > 1.2 && !v.hold), "{verdict:?}");
    }

    #[test]
    fn a_job_that_pauses_keeps_no_comparison_from_its_end() {
        let mut judge = Judge::new(2);
        judge.iteration(1, Nanos(100), Nanos(10));
        let verdict = (0..2_000).find_map(|_| {
            let took = if judge.holds() { 110 } else { 100 };
            judge.iteration(0, Nanos(took), Nanos(10))
        });
        assert!(verdict.is_some_and(|v| !v.hold));
    }
}
