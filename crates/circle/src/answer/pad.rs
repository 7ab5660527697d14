//! Periods worth stretching: near-equal and near-harmonic periods that lock once one is padded.
//!
//! A gate can make an iteration longer, never shorter. Stretching 199 ticks to 200 costs that job
//! half a per cent and lets it lock with a neighbour of 200. Padding is a decision with a price,
//! so [`pad`] only proposes it when what it saves exceeds what it costs, and prints both.
//!
//! The saving is estimated from the scores: a link whose score is `1 - e` owes each of its jobs a
//! share `e` of every iteration, because that much demand has to be sent later. The fluid model of
//! `antiphase plan` is the better judge; this estimate decides which paddings are worth showing to it.

use alloc::vec::Vec;

use super::solve::{solve, solve_counted};
use crate::{Effort, JobId, Options, PERIOD_TICKS_MAX, PROOF_TOLERANCE, Problem, Solution, SolveError, Ticks};

/// Largest numerator and denominator of a period ratio that counts as harmonic.
const HARMONIC_MAX: u64 = 8;
/// Most paddings tried: each costs one solution of the problem.
const TRIALS_MAX: usize = 1_000;
/// Work that all trials share, in searches for proof of one solution: about four seconds. Later trials are solved with
/// [`Effort::Fast`], which finds mostly the same shifts and proves less.
const SEARCHES_MAX: u64 = 4;
/// Most padding proposed, in parts per million: beyond a tenth a slower job is not a padded one.
pub const PAD_PPM_MAX: u32 = 100_000;

/// One stretched period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    /// The job.
    pub job: JobId,
    /// Its period as given.
    pub period: Ticks,
    /// Its period stretched.
    pub padded: Ticks,
}

/// A set of paddings, what it costs and what it saves, both as fractions of an iteration summed
/// over all jobs.
#[derive(Clone, Debug)]
pub struct PadDecision {
    /// The stretched periods; empty when nothing is worth its price.
    pub paddings: Vec<Padding>,
    /// Sum over jobs of padded / period - 1.
    pub price: f64,
    /// Sum over jobs of the share of an iteration no longer lost on their worst link.
    pub saving: f64,
    /// The answer without padding.
    pub before: Solution,
    /// The problem with stretched periods.
    pub problem: Problem,
    /// Its answer.
    pub after: Solution,
}

/// Sum over jobs of the share of an iteration lost on the job's worst link.
fn lost(problem: &Problem, solution: &Solution) -> f64 {
    let mut worst = alloc::vec![0.0_f64; problem.periods().len()];
    for (link, score) in problem.links().iter().zip(&solution.links) {
        for m in &link.members {
            // The link that gives least sets the pace of a job (docs/model.md, section 13), so only the worst link counts.
            let w = &mut worst[m.job.index()];
            *w = w.max(1.0 - score.true_score);
        }
    }
    worst.into_iter().sum()
}

/// Stretched periods of `job` that make a small ratio with a neighbour's period.
fn harmonics(problem: &Problem, job: JobId, ppm: u32) -> Vec<u64> {
    let t = problem.period(job);
    // The product needs more than 64 bits; the limit of periods makes the result fit again.
    let most = (u128::from(t) * u128::from(1_000_000 + ppm) / 1_000_000).min(u128::from(PERIOD_TICKS_MAX)) as u64;
    let mut out = Vec::new();
    for link in problem.links().iter().filter(|l| l.members.iter().any(|m| m.job == job)) {
        for other in link.members.iter().filter(|m| m.job != job) {
            let o = problem.period(other.job);
            for q in 1..=HARMONIC_MAX {
                for p in 1..=HARMONIC_MAX {
                    // A ratio that does not give whole ticks would not lock exactly, so only whole quotients are taken.
                    let padded = u128::from(o) * u128::from(p) / u128::from(q);
                    // A gate makes iterations longer only, so shorter periods are no candidates.
                    if (u128::from(o) * u128::from(p)).is_multiple_of(u128::from(q)) && padded > u128::from(t) && padded <= u128::from(most)
                    {
                        out.push(padded as u64);
                    }
                }
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// Looks for paddings of at most `ppm` parts per million whose saving exceeds their price, one
/// job at a time, the best first, until none is left.
///
/// ```
/// use antiphase_circle::{Options, Phase, ProblemBuilder, Rate, Ticks, pad};
/// let mut b = ProblemBuilder::new();
/// let mut members = vec![];
/// for period in [199, 200] {
///     let job = b.job(Ticks(period)).unwrap();
///     members.push(b.demand(job, &[Phase { start: Ticks(120), end: Ticks(period), rate: Rate(50_000) }]).unwrap());
/// }
/// b.link(Rate(50_000), members).unwrap();
/// let decision = pad::pad(&b.build(), &Options::default(), 10_000).unwrap();
/// assert_eq!(decision.paddings[0].padded, Ticks(200));
/// assert!(decision.before.mean_score < 0.85 && decision.after.mean_score == 1.0);
/// assert!(decision.saving > decision.price);
/// ```
///
/// # Errors
/// As [`solve`].
pub fn pad(problem: &Problem, options: &Options, ppm: u32) -> Result<PadDecision, SolveError> {
    Ok(pad_within(problem, options, ppm, SEARCHES_MAX * options.effort.work_max())?.0)
}

/// [`pad`] with so much work for the trials, and what they took.
fn pad_within(problem: &Problem, options: &Options, ppm: u32, work_max: u64) -> Result<(PadDecision, u64), SolveError> {
    let before = solve(problem, options)?;
    let lost_before = lost(problem, &before);
    let mut best =
        PadDecision { paddings: Vec::new(), price: 0.0, saving: 0.0, before: before.clone(), problem: problem.clone(), after: before };
    let (mut trials, mut work) = (0, 0_u64);
    let mut effort_of_best = options.effort;
    // Each round fixes the best padding of one job; the loop ends with the first round that gains nothing.
    'search: loop {
        let current = best.clone();
        for j in 0..problem.periods().len() {
            let job = JobId(j as u32);
            for padded in harmonics(&current.problem, job, ppm.min(PAD_PPM_MAX)) {
                trials += 1;
                if trials > TRIALS_MAX {
                    break 'search;
                }
                let trial_problem = current.problem.with_period(job, Ticks(padded));
                // Trials in order share the work, so the same problem has the same trials at full effort on any machine.
                let effort = if work < work_max { options.effort } else { Effort::Fast };
                let (after, spent) = solve_counted(&trial_problem, &Options { effort, ..*options }, None)?;
                work += spent;
                let price: f64 =
                    trial_problem.periods().iter().zip(problem.periods()).map(|(new, old)| (new.0 - old.0) as f64 / old.0 as f64).sum();
                let saving = lost_before - lost(&trial_problem, &after);
                // A job may be stretched in several rounds; the limit counts from its period as given.
                let within = (padded - problem.period(job)) as u128 * 1_000_000 <= u128::from(problem.period(job)) * u128::from(ppm);
                if within && saving - price > best.saving - best.price + PROOF_TOLERANCE {
                    best = PadDecision { price, saving, problem: trial_problem, after, ..best };
                    effort_of_best = effort;
                }
            }
        }
        if best.problem.periods() == current.problem.periods() {
            break;
        }
    }
    // A fast trial finds mostly the same shifts but proves less, so the proposal is solved again in full.
    if effort_of_best != options.effort {
        let after = solve(&best.problem, options)?;
        let saving = lost_before - lost(&best.problem, &after);
        // The worst links can lose where the mean gains.
        if saving >= best.saving - PROOF_TOLERANCE {
            (best.after, best.saving) = (after, saving);
        }
    }
    best.paddings = (0..problem.periods().len())
        .map(|j| Padding { job: JobId(j as u32), period: problem.periods()[j], padded: best.problem.periods()[j] })
        .filter(|p| p.padded != p.period)
        .collect();
    Ok((best, work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Phase, ProblemBuilder, Rate};

    /// Five jobs whose periods share factors of many kinds: each solution is a search that ends at its work limit, and there
    /// are dozens of ratios to try.
    #[test]
    fn trials_share_one_work_limit() {
        let mut b = ProblemBuilder::new();
        let mut members = Vec::new();
        for (i, period) in [2150_u64, 2550, 2580, 2470, 2310].into_iter().enumerate() {
            let job = b.job(Ticks(period)).unwrap();
            let up = |start: u64, length: u64, rate: u64| Phase { start: Ticks(start), end: Ticks(start + length), rate: Rate(rate) };
            let i = i as u64;
            let phases = [up(100 + 37 * i, period / 4, 30_000), up(period / 2, period / 5, 20_000 + i * 1_000)];
            members.push(b.demand(job, &phases).unwrap());
        }
        b.link(Rate(50_000), members).unwrap();
        let problem = b.build();
        let options = Options::default();
        let one = options.effort.work_max();
        let (decision, work) = pad_within(&problem, &options, PAD_PPM_MAX, one / 4).unwrap();
        // The one that crosses the limit may take all of a search and its centring; the rest is small.
        assert!(work < 4 * one, "{work} for a limit of {}", one / 4);
        assert!(decision.after.mean_score >= decision.before.mean_score || decision.paddings.is_empty());
        let all = solve(&decision.problem, &options).unwrap();
        assert_eq!(decision.after.mean_score, all.mean_score, "the answer is that of the full effort");
    }
}
