//! Whether an exact cycle survives jitter, and what jobs take if it does not.
//!
//! Jobs that begin together and are equal stay together, in the model for ever. Whether real ones do depends on what a
//! small lead does. Two jobs that halve a link keep it: the job that begins `d` earlier ends `d` earlier. A third job tips the
//! balance. In a chain a - b - c with NICs of 0.9 of a link, c holds b to half a link. A job a that is `d` early has sent
//! `0.9 d` when b begins, for which it would need `1.8 d` at half a link: it is `1.8 d` early the next time. If it is `d` late,
//! half of `d` is left when b ends, and takes `0.56 d`: it comes back. Sooner or later some jitter puts it in front, and it runs
//! away from the others, once around, until it meets them from behind. So the state in which all are in step is left again
//! and again, and the mean over many iterations is what is seen.
//!
//! How long it takes to be left depends on the logarithm of the jitter only: between 0.1 % and 1 % of the Down phase the means
//! of the lab's chain move by less than 2 % (`jitter_matters_by_its_logarithm`). But it does depend on it, at every scale, so there
//! is no mean that exact runs could find instead (`the_mean_of_a_chain_depends_on_jitter_at_every_scale`).
//!
//! Gates that all hold keep jobs in phase, and jitter that the headroom absorbs changes nothing. Where some jobs are held and others
//! are not, or where held jobs slip, the exact cycle is as fragile as without gates: the free ones drift along the held ones, and
//! the mean over the tour is what is seen. So every run with more than one job is put to the same test.
//!
//! Two jobs diffuse too, but slowly: by about the jitter times the root of the number of iterations. No run follows that for
//! days; what is predicted holds for the first hundred iterations or so after jobs began together, and is what jobs
//! fear most. Later, they may have drifted apart by themselves.

use alloc::vec::Vec;

use crate::{
    gate::Gate,
    layout::Layout,
    run::{Rules, run},
    steady::Measured,
    varied::Jitter,
};

pub use crate::varied::{ITERATIONS, JITTER_PERMILLE_MAX};

/// Standard deviation of a Down phase, in thousandths of its length, of jobs about which nothing is known. Assumed: a quiet
/// node; there is no trace behind it, and little depends on it.
pub const JITTER_PERMILLE: u32 = 5;
/// Job-iterations that are worth spending on one component: small ones are run several times, large ones once, because their
/// jobs are a sample by themselves.
pub const JOB_ITERATIONS: usize = 2_048;
/// Most runs under jitter. One run of the lab's chain is within 2 % of the mean of many, and eight are within 1 %.
pub const RUNS_MAX: usize = 8;
/// Standard error of the mean of a job, as a part of it, at which no more runs are made: half of what the last of them would tell.
const SETTLED: f64 = 0.003;
/// Fewest runs that say how far apart runs are.
const SETTLED_RUNS_MIN: usize = 3;
/// What jitter may do to a mean, in thousandths, before the exact cycle counts as broken: the slow drift of two jobs takes less
/// within the iterations of a run, and a lost cycle costs more.
pub const SURVIVES_PERMILLE: u64 = 20;
/// The same where some job is held. Slots stop the drift, and a slip now and then costs a whole period: one run that is 1 % off
/// may mean 4 %.
pub const SURVIVES_GATED_PERMILLE: u64 = 10;

/// Most jobs for which exact cycles are looked for before anything else. Of more jobs hardly any component has one, unless nobody is
/// held back, and to look for it takes a third of the time of a run under jitter.
const EXACT_JOBS_MAX: usize = 12;

/// What all jobs take with these gates, or with none: exact where that survives jitter, and else the mean under it. Of many jobs the
/// exact cycle counts only where jitter holds nobody back. `undisturbed` is what each would take if nobody were in its way.
pub(crate) fn settled(layout: &Layout, gates: Option<&[Gate]>, undisturbed: &[u64], permille: u32) -> Vec<Measured> {
    let jobs = undisturbed.len();
    let once = |jitter: Option<Jitter>| run(layout, Rules { gates: gates.map(<[Gate]>::to_vec), jitter, ..Rules::default() }).jobs;
    let survives = u128::from(if gates.is_some() { SURVIVES_GATED_PERMILLE } else { SURVIVES_PERMILLE });
    let moved = |a: u64, b: u64| u128::from(a.abs_diff(b)) * 1_000 > u128::from(a) * survives;
    let jittered = |seed: u64| once(Some(Jitter::new(jobs, seed, permille)));
    let many = (permille > 0 && jobs > EXACT_JOBS_MAX).then(|| jittered(1));
    let first = match many {
        Some(first) if first.iter().zip(undisturbed).any(|(m, u)| moved(*u, m.mean)) => first,
        first => {
            let exact = once(None);
            // Jobs that never held each other back have nothing that could break.
            if permille == 0 || jobs < 2 || exact.iter().zip(undisturbed).all(|(m, u)| m.mean == *u) {
                return exact;
            }
            // One run tells whether the cycle breaks; most do not, and need no mean.
            let first = first.unwrap_or_else(|| jittered(1));
            if !exact.iter().zip(&first).any(|(e, m)| moved(e.mean, m.mean)) {
                return exact;
            }
            first
        }
    };
    // Jobs of a large component are a sample by themselves, and its runs are long, so it has only one.
    let most = (JOB_ITERATIONS / (jobs * ITERATIONS)).clamp(1, RUNS_MAX);
    // Seed 1 is the run that was made for the test. Seeds are fixed, so equal inputs give equal means.
    let mut runs = Vec::from([first]);
    while runs.len() < most && !is_settled(&runs) {
        runs.push(jittered(runs.len() as u64 + 1));
    }
    let count = runs.len() as u64;
    let mean = |j: usize| Measured {
        mean: (runs.iter().fold(0u64, |sum, run| sum.saturating_add(run[j].mean)) + count / 2) / count,
        slips: runs.iter().map(|run| run[j].slips).sum::<f64>() / count as f64,
    };
    (0..jobs).map(mean).collect()
}

/// Whether the mean of the runs is known so well, of every job, that more of them would hardly move it.
fn is_settled(runs: &[Vec<Measured>]) -> bool {
    let count = runs.len() as f64;
    let settled = |j: usize| {
        let mean = runs.iter().map(|run| run[j].mean as f64).sum::<f64>() / count;
        let variance = runs.iter().map(|run| (run[j].mean as f64 - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // Squares are compared, because the standard error is the root of the variance over the number of runs.
        variance / count <= (SETTLED * mean).powi(2)
    };
    runs.len() >= SETTLED_RUNS_MIN && (0..runs[0].len()).all(settled)
}

#[cfg(test)]
mod tests {
    use circle::Phase;
    use units::{Nanos, Rate, Ticks};

    use super::*;
    use crate::{FluidJob, FluidLink, TOLERANCE_PERMILLE, predict, predict_held, predict_with};

    const MS: u64 = 1_000_000;

    #[test]
    fn phases_vary_around_their_length() {
        let mut jitter = Jitter::new(2, 1, 10);
        let draws: Vec<u64> = (0..10_000).map(|_| jitter.vary(0, 200 * MS)).collect();
        let mean = draws.iter().sum::<u64>() as f64 / 1e4 / MS as f64;
        let deviation = (draws.iter().map(|d| (*d as f64 / MS as f64 - 200.0).powi(2)).sum::<f64>() / 1e4).sqrt();
        // 1 % of 200 ms; five standard errors of the mean are 0.1 ms, of the deviation less.
        assert!((mean - 200.0).abs() < 0.1 && (deviation - 2.0).abs() < 0.1, "{mean} {deviation}");
        assert_ne!(jitter.vary(1, 200 * MS), Jitter::new(2, 1, 10).vary(0, 200 * MS));
        assert_eq!(Jitter::new(1, 1, 0).vary(0, 77), 77);
        // The longest time there is does not overflow.
        assert!(Jitter::new(1, 1, 500).vary(0, u64::MAX) > u64::MAX / 8);
    }

    /// Three jobs of the lab: 200 ms Down, then 149 ms Up at 90 of 100; a meets b on one link and b meets c on the other.
    fn chain(jitter: u32, solo: [u64; 3]) -> Vec<u64> {
        let phases = solo.map(|period| [Phase { start: Ticks(0), end: Ticks(period - 200 * MS), rate: Rate(90) }]);
        let meet = |a: usize, b: usize| FluidLink { capacity: Rate(100), demands: vec![(a, &phases[a][..]), (b, &phases[b][..])] };
        let jobs = solo.map(|period| FluidJob { iteration: Nanos(period), period: Nanos(period), shift: Nanos(0) });
        predict_with(&jobs, &[meet(0, 1), meet(1, 2)], TOLERANCE_PERMILLE, jitter).iter().map(|t| t.contended.0).collect()
    }

    /// In step all take 200 + 149 * 0.9 / 0.5 = 468.2 ms, b always so. Under jitter a and c leave and come back.
    #[test]
    fn a_chain_in_step_does_not_survive_jitter() {
        assert_eq!(chain(0, [349 * MS; 3]), [468_200_000; 3]);
        let seen = chain(JITTER_PERMILLE, [349 * MS; 3]);
        assert!((450 * MS..460 * MS).contains(&seen[0]) && (450 * MS..460 * MS).contains(&seen[2]), "{seen:?}");
        assert!(seen[1].abs_diff(468_200_000) < 2 * MS, "{seen:?}");
        // Tenths of a millisecond between jobs, as measurements have them, decide without jitter who runs away: 10 % then lie
        // between a and c. With it they matter less.
        for solo in [[349 * MS, 349_300_000, 348_800_000], [348_900_000, 349 * MS, 349_100_000], [349_300_000, 349 * MS, 349_300_000]] {
            let measured = chain(JITTER_PERMILLE, solo);
            for (a, b) in seen.iter().zip(&measured) {
                assert!((*a as f64 / *b as f64 - 1.0).abs() < 0.04, "{seen:?} {measured:?}");
            }
        }
    }

    #[test]
    fn jitter_matters_by_its_logarithm() {
        let usual = chain(JITTER_PERMILLE, [349 * MS; 3]);
        for permille in [1, 2, 3, 10] {
            let seen = chain(permille, [349 * MS; 3]);
            for (a, b) in usual.iter().zip(&seen) {
                assert!((*a as f64 / *b as f64 - 1.0).abs() < 0.02, "{permille}: {usual:?} {seen:?}");
            }
        }
    }

    /// Three jobs of 349 ms: a and b share a link, and so do b and c. Only b is held, at 5 % of headroom.
    fn held_in_the_middle(jitter: u32) -> Vec<u64> {
        let phase = [Phase { start: Ticks(0), end: Ticks(149 * MS), rate: Rate(90) }];
        let meet = |a: usize, b: usize| FluidLink { capacity: Rate(100), demands: vec![(a, &phase[..]), (b, &phase[..])] };
        let job = |shift: u64| FluidJob { iteration: Nanos(349 * MS), period: Nanos(366_450_000), shift: Nanos(shift * MS) };
        let held = [false, true, false];
        let times = predict_held(&[job(0), job(174), job(0)], &[meet(0, 1), meet(1, 2)], TOLERANCE_PERMILLE, jitter, &held);
        times.iter().map(|t| t.time.0).collect()
    }

    /// In the exact cycle the free ones run into the held one once each iteration, so all take its period. Under jitter they part, one
    /// of them meets it from the other side and makes it slip.
    #[test]
    fn free_jobs_beside_a_held_one_drift_under_jitter() {
        assert_eq!(held_in_the_middle(0), [366_450_000; 3]);
        let seen = held_in_the_middle(JITTER_PERMILLE);
        assert!((375 * MS..390 * MS).contains(&seen[1]), "{seen:?}");
        assert!([seen[0], seen[2]].iter().all(|t| t.abs_diff(366_450_000) < 2 * MS), "{seen:?}");
    }

    #[test]
    fn held_jobs_with_headroom_keep_their_slots_under_jitter() {
        let phase = [Phase { start: Ticks(0), end: Ticks(149 * MS), rate: Rate(90) }];
        let link = [FluidLink { capacity: Rate(100), demands: vec![(0, &phase[..]), (1, &phase[..])] }];
        let job = |shift: u64| FluidJob { iteration: Nanos(349 * MS), period: Nanos(366_450_000), shift: Nanos(shift * MS) };
        for times in predict_with(&[job(0), job(174)], &link, TOLERANCE_PERMILLE, 10) {
            assert_eq!((times.all_held, times.slips), (Nanos(366_450_000), 0.0));
        }
    }

    /// Two jobs keep any lead: 200 + 2 * 149 * 0.9 exactly, whatever the jitter.
    #[test]
    fn two_jobs_in_step_survive() {
        let phase = [Phase { start: Ticks(0), end: Ticks(149 * MS), rate: Rate(90) }];
        let link = FluidLink { capacity: Rate(100), demands: vec![(0, &phase[..]), (1, &phase[..])] };
        let job = FluidJob { iteration: Nanos(349 * MS), period: Nanos(349 * MS), shift: Nanos(0) };
        assert!(predict(&[job; 2], &[link], TOLERANCE_PERMILLE).iter().all(|t| t.contended == Nanos(468_200_000)));
    }
}
