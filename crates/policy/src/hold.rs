//! Which jobs of a component to hold to their shifts.
//!
//! A gate costs a job every slot that it misses through no fault of its own, so holding pays where the periods of those that
//! meet lock, and costs where they do not. Joint sets ([`circle::joint_sets`]) are the units of that choice: within one the
//! shifts only make sense together, and between two of them nothing but a common job counts. A job is held when one of
//! its sets is.
//!
//! The choice is a local search from three beginnings: hold nobody, hold all, hold the sets that gain while all are held.
//! It is never predicted to be worse than holding nobody, for the sum over the jobs and for the one that suffers most alike: a
//! large job does not gain at the cost of a small one that would then be the slowest of all.

use alloc::{vec, vec::Vec};

use circle::PROOF_TOLERANCE;
use units::Nanos;

use crate::fluid::{FluidJob, FluidLink, IterationTimes, predict_held};

/// Most runs of the fluid model for one component, beyond the two that say what it is to hold nobody and all. Nearly all
/// components have fewer sets; of a larger one the sets that look worst are tried.
pub const RUNS_MAX: usize = 8;

/// Who is to be held, and what is predicted then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Per job: whether to hold it to its slots.
    pub hold: Vec<bool>,
    /// Per job: mean time between starts of iterations when exactly these are held.
    pub times: Vec<Nanos>,
}

/// Advises whom to hold, so that the sum over the jobs of iteration over period is least, each weighted by its GPUs (one, where
/// `gpus` does not say). `sets` are the jobs of each joint set; `times` is what [`crate::fluid::predict`] says of the same jobs
/// and links. A set that names an unknown job is ignored.
#[must_use]
pub fn advise(
    jobs: &[FluidJob],
    gpus: &[u32],
    links: &[FluidLink<'_>],
    sets: &[Vec<usize>],
    times: &[IterationTimes],
    tolerance_permille: u32,
) -> Advice {
    let known = |set: &&Vec<usize>| set.iter().all(|&j| j < jobs.len());
    let sets: Vec<&Vec<usize>> = sets.iter().filter(known).collect();
    let search = Search { jobs, gpus, links, sets: &sets, times, tolerance_permille };
    let mut best = search.nobody();
    if sets.is_empty() || times.len() != jobs.len() {
        return best.advice;
    }
    let bound = best.slowest;
    search.take(search.everybody(), bound, &mut best);
    if sets.len() > 1 {
        search.improve(bound, &mut best);
    }
    best.advice
}

struct Search<'a> {
    jobs: &'a [FluidJob],
    gpus: &'a [u32],
    links: &'a [FluidLink<'a>],
    sets: &'a [&'a Vec<usize>],
    times: &'a [IterationTimes],
    tolerance_permille: u32,
}

/// Sets that are held, what is predicted, and how much shorter the iterations are than with nobody held: the sum over the
/// jobs, each by its period and weighted by its GPUs.
struct Choice {
    sets: Vec<bool>,
    advice: Advice,
    gain: f64,
    /// The longest iteration over its period.
    slowest: f64,
}

impl Search<'_> {
    fn nobody(&self) -> Choice {
        self.choice(vec![false; self.jobs.len()], vec![false; self.sets.len()], self.times.iter().map(|t| t.unshifted).collect())
    }

    /// Takes what is better by more than rounding and makes nobody slower than `bound`.
    fn take(&self, next: Choice, bound: f64, best: &mut Choice) {
        if next.gain > best.gain + PROOF_TOLERANCE && next.slowest <= bound + PROOF_TOLERANCE {
            *best = next;
        }
    }

    fn everybody(&self) -> Choice {
        let sets = vec![true; self.sets.len()];
        self.choice(self.held(&sets), sets, self.times.iter().map(|t| t.shifted).collect())
    }

    fn run(&self, sets: Vec<bool>) -> Choice {
        let hold = self.held(&sets);
        let times = predict_held(self.jobs, self.links, self.tolerance_permille, &hold);
        self.choice(hold, sets, times)
    }

    fn choice(&self, hold: Vec<bool>, sets: Vec<bool>, times: Vec<Nanos>) -> Choice {
        let known = 0..self.jobs.len().min(times.len());
        let gain = known.clone().map(|j| self.gain(j, times[j])).sum();
        let slowest = known.map(|j| times[j].0 as f64 / self.jobs[j].period.0.max(1) as f64).fold(0.0, f64::max);
        Choice { sets, advice: Advice { hold, times }, gain, slowest }
    }

    fn gain(&self, job: usize, time: Nanos) -> f64 {
        let weight = f64::from(self.gpus.get(job).copied().unwrap_or(1));
        weight * (self.times[job].unshifted.0 as f64 - time.0 as f64) / self.jobs[job].period.0.max(1) as f64
    }

    /// The jobs of the sets that are held.
    fn held(&self, sets: &[bool]) -> Vec<bool> {
        let mut hold = vec![false; self.jobs.len()];
        for set in self.sets.iter().zip(sets).filter(|(_, held)| **held).map(|(set, _)| set) {
            set.iter().for_each(|&j| hold[j] = true);
        }
        hold
    }

    /// Holds what gains by itself while all are held, and then changes one set at a time, the worst first.
    fn improve(&self, bound: f64, best: &mut Choice) {
        let alone = |set: &&Vec<usize>| set.iter().map(|&j| self.gain(j, self.times[j].shifted)).sum::<f64>();
        let gains: Vec<f64> = self.sets.iter().map(alone).collect();
        let mut runs = 0;
        let mut attempt = |sets: Vec<bool>, best: &mut Choice| {
            runs += 1;
            self.take(self.run(sets), bound, best);
            runs < RUNS_MAX
        };
        let promising: Vec<bool> = gains.iter().map(|g| *g > 0.0).collect();
        let trivial = promising.iter().all(|p| *p == promising[0]);
        if !trivial && !attempt(promising, best) {
            return;
        }
        let mut order: Vec<usize> = (0..self.sets.len()).collect();
        order.sort_by(|a, b| gains[*a].total_cmp(&gains[*b]));
        for set in order {
            let mut sets = best.sets.clone();
            sets[set] = !sets[set];
            // Nobody and everybody are known.
            if sets.iter().any(|s| *s != sets[0]) && !attempt(sets, best) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fluid::{TOLERANCE_PERMILLE, predict};
    use circle::Phase;
    use units::{Rate, Ticks};

    const MS: u64 = 1_000_000;

    fn up(start: u64, end: u64) -> [Phase; 1] {
        [Phase { start: Ticks(start * MS), end: Ticks(end * MS), rate: Rate(45_000) }]
    }

    fn job(period: u64, shift: u64) -> FluidJob {
        FluidJob { iteration: Nanos(period * MS), period: Nanos(period * MS), shift: Nanos(shift * MS) }
    }

    /// Jobs 0 and 1 have one period and fit one after the other; jobs 2 and 3, on a link of their own, have periods that share
    /// 1 ms and send for more than half of it, so that a held job misses slots. Job 1 and job 2 share a link that fits both.
    fn two_pairs() -> ([FluidJob; 4], [[Phase; 1]; 4]) {
        ([job(100, 0), job(100, 45), job(83, 0), job(97, 0)], [up(0, 45), up(0, 45), up(0, 50), up(0, 60)])
    }

    fn on<'a>(phases: &'a [[Phase; 1]; 4], pairs: &[[usize; 2]]) -> Vec<FluidLink<'a>> {
        let link = |pair: &[usize; 2]| FluidLink { capacity: Rate(50_000), demands: pair.iter().map(|&j| (j, &phases[j][..])).collect() };
        pairs.iter().map(link).collect()
    }

    #[test]
    fn a_set_that_gains_is_held_beside_one_that_loses() {
        let (jobs, phases) = two_pairs();
        let links = on(&phases, &[[0, 1], [2, 3]]);
        let times = predict(&jobs, &links, TOLERANCE_PERMILLE);
        let pair = |a: usize, b: usize| {
            let gain = |j: usize| (times[j].unshifted.0 as f64 - times[j].shifted.0 as f64) / jobs[j].period.0 as f64;
            gain(a) + gain(b)
        };
        assert!(pair(0, 1) > 0.1 && pair(2, 3) < -0.01, "{} {}", pair(0, 1), pair(2, 3));
        let found = advise(&jobs, &[], &links, &[vec![0, 1], vec![2, 3]], &times, TOLERANCE_PERMILLE);
        assert_eq!(found.hold, [true, true, false, false]);
        // The links have nothing in common, so the pairs run as each would alone; periods that do not lock are averaged over a
        // bounded number of iterations, which are others here.
        let expected: Vec<Nanos> = (0..4).map(|j| if j < 2 { times[j].shifted } else { times[j].unshifted }).collect();
        assert_eq!(found.times[..2], expected[..2]);
        assert!((2..4).all(|j| found.times[j].0.abs_diff(expected[j].0) < 2 * MS), "{:?} {expected:?}", found.times);
        // A thousand GPUs that hardly lose outweigh two that gain: everything is decided for them.
        let weights = [1, 1, 1_000, 1_000];
        let lopsided = advise(&jobs, &weights, &links, &[vec![0, 1, 2, 3]], &times, TOLERANCE_PERMILLE);
        assert_eq!(lopsided.hold, [false; 4]);
        // As one set there is one answer for all of them.
        let whole = advise(&jobs, &[], &links, &[vec![0, 1, 2, 3]], &times, TOLERANCE_PERMILLE);
        assert!(whole.hold.iter().all(|h| *h == whole.hold[0]));
    }

    #[test]
    fn never_worse_than_nobody() {
        let (jobs, phases) = two_pairs();
        let links = on(&phases, &[[0, 1], [1, 2], [2, 3]]);
        let times = predict(&jobs, &links, TOLERANCE_PERMILLE);
        let found = advise(&jobs, &[], &links, &[vec![0, 1], vec![1, 2], vec![2, 3]], &times, TOLERANCE_PERMILLE);
        let slowest = |of: &dyn Fn(usize) -> Nanos| (0..4).map(|j| of(j).0 as f64 / jobs[j].period.0 as f64).fold(0.0, f64::max);
        assert!(slowest(&|j| found.times[j]) <= slowest(&|j| times[j].unshifted) + 1e-9);
        let total = |of: &dyn Fn(usize) -> Nanos| (0..4).map(|j| of(j).0 as f64 / jobs[j].period.0 as f64).sum::<f64>();
        let advised = total(&|j| found.times[j]);
        assert!(advised <= total(&|j| times[j].unshifted) + 1e-9);
    }

    #[test]
    fn nothing_to_hold() {
        assert_eq!(advise(&[], &[], &[], &[], &[], TOLERANCE_PERMILLE), Advice::default());
        let (jobs, phases) = two_pairs();
        let links = on(&phases, &[]);
        let times = predict(&jobs, &links, TOLERANCE_PERMILLE);
        let found = advise(&jobs, &[], &links, &[vec![0, 9]], &times, TOLERANCE_PERMILLE);
        assert_eq!(found.hold, [false; 4], "a set of an unknown job is none");
    }
}
