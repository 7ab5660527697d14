//! Coordinate descent: one job after another to its best shift against all others, from several starts.
//!
//! The bounded heuristic for groups that are too large to prove, and the source of good first
//! answers for those that are not.

use alloc::vec::Vec;

use super::{couplings::Couplings, group::Group, random::Random};
use crate::{
    PROOF_TOLERANCE,
    demand::{marginal::LOOKUP_WORK, sum::Workspace},
};

/// Sweeps over all jobs before a start is given up; a sweep without gain ends it earlier.
const SWEEPS_MAX: usize = 12;

/// A good set of shifts and its cost.
#[derive(Clone, Debug)]
pub(crate) struct Incumbent {
    /// Loss in the sum of link scores.
    pub(crate) cost: f64,
    /// Shift of each job of the group, modulo its lock.
    pub(crate) shifts: Vec<u64>,
}

/// The best shift of `job` against the placed ones, and the cost that `job` adds there. Without any alignment (no placed job meets
/// it, or nothing locks) all shifts are alike, and the job stays at `stay`.
pub(crate) fn best_shift(
    group: &Group,
    couplings: &Couplings,
    job: usize,
    placed: &[Option<u64>],
    stay: u64,
    workspace: &mut Workspace,
) -> (u64, f64) {
    let response = group.response(job, |other| placed[other].into(), workspace);
    let mut best = (stay, response.at(stay));
    // More demand never has less excess, so no shift adds less than nothing.
    if best.1 <= PROOF_TOLERANCE {
        return best;
    }
    let mut alignments = Vec::new();
    // A minimum needs an upward bend, and only opposite alignments have one (back-to-back lemma, docs/model.md, section 5).
    for other in (0..placed.len()).filter(|&other| other != job) {
        couplings.vertices(group, job, other, placed, &mut workspace.budget, &mut alignments);
    }
    alignments.sort_unstable();
    alignments.dedup();
    let each = LOOKUP_WORK * group.spans(job) + 10;
    for shift in alignments {
        // One job on thousands of links takes a millisecond for each shift: what was found so far is as good a shift as any.
        if workspace.budget.is_spent() {
            break;
        }
        workspace.budget.charge(each);
        let cost = response.at(shift);
        // A gain within the tolerance is rounding: the job stays, so that sweeps come to an end.
        if cost < best.1 - PROOF_TOLERANCE {
            best = (shift, cost);
        }
    }
    best
}

/// Inserts the jobs in `order`, each at its best shift, then sweeps until nothing improves or
/// the cost reaches `enough`.
fn descend(
    group: &Group,
    couplings: &Couplings,
    fixed: &[Option<u64>],
    order: &[usize],
    enough: f64,
    workspace: &mut Workspace,
) -> Incumbent {
    let mut placed: Vec<Option<u64>> = fixed.to_vec();
    for &job in order {
        // Without work left, the remaining jobs stay unshifted.
        let shift = if !workspace.budget.is_spent() { best_shift(group, couplings, job, &placed, 0, workspace).0 } else { 0 };
        placed[job] = Some(shift);
    }
    let mut shifts: Vec<u64> = placed.iter().map(|s| s.unwrap_or(0)).collect();
    let mut cost = group.cost(&shifts, workspace);
    for _ in 0..SWEEPS_MAX {
        if cost <= enough + PROOF_TOLERANCE || workspace.budget.is_spent() {
            break;
        }
        let before = cost;
        for &job in order {
            // Each job stands at the best of its shifts that was looked at, so a sweep may end with any.
            if workspace.budget.is_far_over() {
                break;
            }
            let (shift, _) = best_shift(group, couplings, job, &placed, shifts[job], workspace);
            placed[job] = Some(shift);
            shifts[job] = shift;
        }
        cost = group.cost(&shifts, workspace);
        // A sweep without gain has moved no job, so the next one would find the same.
        if cost >= before - PROOF_TOLERANCE {
            break;
        }
    }
    Incumbent { cost, shifts }
}

/// Most shifts that are tried by [`sampled`]: where the cost of each is quick, the work that is left would pay for too many.
const SAMPLES_MAX: usize = 4_096;

/// Random shifts of one free job after the other, kept where the cost falls: for groups in which not even one job can be looked at whole.
/// Never worse than not shifting them at all, and ends early when the cost reaches `enough`, a lower bound.
pub(crate) fn sampled(group: &Group, fixed: &[Option<u64>], enough: f64, workspace: &mut Workspace) -> Incumbent {
    let mut shifts: Vec<u64> = fixed.iter().map(|f| f.unwrap_or(0)).collect();
    let mut cost = group.cost(&shifts, workspace);
    let free: Vec<usize> = (0..fixed.len()).filter(|&j| fixed[j].is_none() && group.jobs[j].lock > 1).collect();
    let mut random = Random::new();
    for _ in 0..SAMPLES_MAX {
        if free.is_empty() || cost <= enough + PROOF_TOLERANCE || workspace.budget.is_spent() {
            break;
        }
        let job = free[random.below(free.len() as u64) as usize];
        let before = core::mem::replace(&mut shifts[job], random.below(group.jobs[job].lock));
        let next = group.cost(&shifts, workspace);
        if next < cost - PROOF_TOLERANCE { cost = next } else { shifts[job] = before }
    }
    Incumbent { cost, shifts }
}

/// The best of `starts` descents of the jobs that `fixed` leaves free: the first in order of decreasing
/// demand, the others in permutations drawn from a fixed seed. Ends early when the cost reaches `enough`,
/// a lower bound. Never worse than not shifting them at all. No second start and no sweep begins once the budget is spent.
pub(crate) fn descent(group: &Group, fixed: &[Option<u64>], starts: usize, enough: f64, workspace: &mut Workspace) -> Incumbent {
    let unshifted: Vec<u64> = fixed.iter().map(|f| f.unwrap_or(0)).collect();
    // The unshifted jobs are the first answer, so no descent can end with a worse one.
    let mut best = Incumbent { cost: group.cost(&unshifted, workspace), shifts: unshifted };
    let mut order: Vec<usize> = (0..fixed.len()).filter(|&j| fixed[j].is_none()).collect();
    order.sort_by(|&a, &b| group.jobs[b].weight.total_cmp(&group.jobs[a].weight));
    let couplings = Couplings::new(group);
    let mut random = Random::new();
    for start in 0..starts {
        if best.cost <= enough + PROOF_TOLERANCE || (start > 0 && workspace.budget.is_spent()) {
            break;
        }
        if start > 0 {
            // Descent ends in a local minimum that depends on the order, so each start takes another one.
            random.shuffle(&mut order);
        }
        let found = descend(group, &couplings, fixed, &order, enough, workspace);
        if found.cost < best.cost - PROOF_TOLERANCE {
            best = found;
        }
    }
    best
}
