//! Coordinate descent: one job after another to its best shift against all others, from several starts.
//!
//! The bounded heuristic for groups that are too large to prove, and the source of good first
//! answers for those that are not.

use alloc::vec::Vec;

use crate::exact::LOOKUP_WORK;
use crate::{PROOF_TOLERANCE, group::Group, total::Total, vertices::Ties};

/// Sweeps over all jobs before a start is given up; a sweep without gain ends it earlier.
const SWEEPS_MAX: usize = 12;

/// A good set of shifts and its cost.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Loss in the sum of link scores.
    pub(crate) cost: f64,
    /// Shift of each job of the group, modulo its lock.
    pub(crate) shifts: Vec<u64>,
}

/// The best shift of `job` against the placed ones, and the cost it adds. Without any alignment
/// (nobody placed meets it, or nothing locks) every shift is alike and it stays at `stay`.
pub(crate) fn best_shift(group: &Group, ties: &Ties, job: usize, placed: &[Option<u64>], stay: u64, total: &mut Total) -> (u64, f64) {
    let response = group.response(job, |other| placed[other].into(), total);
    let mut best = (stay, response.at(stay));
    if best.1 <= PROOF_TOLERANCE {
        return best;
    }
    let mut alignments = Vec::new();
    for other in (0..placed.len()).filter(|&other| other != job) {
        ties.vertices(group, job, other, placed, &mut alignments);
    }
    alignments.sort_unstable();
    alignments.dedup();
    total.work += LOOKUP_WORK * group.spans(job) * alignments.len() as u64;
    for shift in alignments {
        let cost = response.at(shift);
        if cost < best.1 - PROOF_TOLERANCE {
            best = (shift, cost);
        }
    }
    best
}

/// Inserts the jobs in `order`, each at its best shift, then sweeps until nothing improves or
/// the cost reaches `enough`.
fn descend(group: &Group, ties: &Ties, fixed: &[Option<u64>], order: &[usize], enough: f64, work_end: u64, total: &mut Total) -> Found {
    let mut placed: Vec<Option<u64>> = fixed.to_vec();
    for &job in order {
        // Out of work, the rest stands where it stands.
        let shift = if total.work < work_end { best_shift(group, ties, job, &placed, 0, total).0 } else { 0 };
        placed[job] = Some(shift);
    }
    let mut shifts: Vec<u64> = placed.iter().map(|s| s.unwrap_or(0)).collect();
    let mut cost = group.cost(&shifts, total);
    for _ in 0..SWEEPS_MAX {
        if cost <= enough + PROOF_TOLERANCE || total.work >= work_end {
            break;
        }
        let before = cost;
        for &job in order {
            let (shift, _) = best_shift(group, ties, job, &placed, shifts[job], total);
            placed[job] = Some(shift);
            shifts[job] = shift;
        }
        cost = group.cost(&shifts, total);
        if cost >= before - PROOF_TOLERANCE {
            break;
        }
    }
    Found { cost, shifts }
}

/// The best of `starts` descents of the jobs that `fixed` leaves free: the first in order of decreasing
/// demand, the others in permutations drawn from a fixed seed. Ends early when the cost reaches `enough`,
/// a lower bound. Never worse than not shifting them at all. No start and no sweep begins after `work_end`.
pub(crate) fn descent(group: &Group, fixed: &[Option<u64>], starts: usize, enough: f64, work_end: u64, total: &mut Total) -> Found {
    let unshifted: Vec<u64> = fixed.iter().map(|f| f.unwrap_or(0)).collect();
    let mut best = Found { cost: group.cost(&unshifted, total), shifts: unshifted };
    let mut order: Vec<usize> = (0..fixed.len()).filter(|&j| fixed[j].is_none()).collect();
    order.sort_by(|&a, &b| group.jobs[b].weight.total_cmp(&group.jobs[a].weight));
    let ties = Ties::new(group);
    let mut seed = 0x5eed_u64;
    for start in 0..starts {
        if best.cost <= enough + PROOF_TOLERANCE || (start > 0 && total.work >= work_end) {
            break;
        }
        if start > 0 {
            shuffle(&mut order, &mut seed);
        }
        let found = descend(group, &ties, fixed, &order, enough, work_end, total);
        if found.cost < best.cost - PROOF_TOLERANCE {
            best = found;
        }
    }
    best
}

/// Fisher-Yates with `SplitMix64` (Steele, Lea, Flood 2014): permutations need variety, not quality.
fn shuffle(order: &mut [usize], seed: &mut u64) {
    for i in (1..order.len()).rev() {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        order.swap(i, ((z ^ (z >> 31)) % (i as u64 + 1)) as usize);
    }
}
