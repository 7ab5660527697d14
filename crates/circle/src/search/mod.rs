//! The search for shifts: where the cost can bend, descent and local search for a good answer, branch and bound for a proof.

mod anneal;
mod branch;
mod close;
pub(crate) mod couplings;
pub(crate) mod descent;
pub(crate) mod group;
mod interaction;
mod locked;
mod packing;
pub(crate) mod random;
mod slope;
mod two;

use alloc::{vec, vec::Vec};

use self::{
    anneal::anneal,
    branch::{Search, Subsets},
    descent::{Incumbent, descent, sampled},
    group::Group,
    packing::{Items, Order},
    two::two,
};
use crate::{
    Effort, PROOF_TOLERANCE,
    demand::{circle::Circle, moments, sum::Workspace},
};

/// Largest group for which the optimum is always sought with proof.
pub const EXACT_JOBS_MAX: usize = 5;
/// Largest group for which a proof is tried: with equal or harmonic periods it often succeeds.
pub(crate) const PROOF_JOBS_MAX: usize = 8;
/// Descents before the search of a small group: enough that it mostly has to prove only.
const STARTS_SMALL: usize = 2;

/// An optimum, or the best found with the gap that is left.
#[derive(Clone, Debug)]
pub(crate) struct Optimum {
    /// The best shifts found.
    pub(crate) found: Incumbent,
    /// No shifts cost less than this.
    pub(crate) bound: f64,
}

impl Optimum {
    pub(crate) fn is_proven(&self) -> bool {
        self.found.cost <= self.bound + PROOF_TOLERANCE
    }
}

/// Searches the optimum of a group of any size with what is left of the budget; the bound is truthful whatever that is.
pub(crate) fn optimum(group: &Group, effort: Effort, workspace: &mut Workspace) -> Optimum {
    optimum_around(group, &vec![None; group.jobs.len()], effort, workspace)
}

/// The best shifts of the jobs that `fixed` leaves free while the others stand where it says: the fixed
/// jobs are one rigid body, and the lemma holds for it as for a job.
pub(crate) fn optimum_around(group: &Group, fixed: &[Option<u64>], effort: Effort, workspace: &mut Workspace) -> Optimum {
    let free = (0..fixed.len()).filter(|&j| fixed[j].is_none() && group.jobs[j].lock > 1).count();
    let bodies = free + usize::from(fixed.iter().any(Option::is_some));
    let least = group.least_cost();
    if free == 0 {
        let shifts: Vec<u64> = fixed.iter().map(|f| f.unwrap_or(0)).collect();
        let cost = group.cost(&shifts, workspace);
        return Optimum { found: Incumbent { cost, shifts }, bound: cost };
    }
    // The budget of a ranking is a guide, and memory is none.
    if group.is_too_large_to_look(if effort == Effort::Fast { u64::MAX } else { workspace.budget.left() }) {
        // Of two jobs one circle after the other can be looked at.
        if let Some(answer) = (effort != Effort::Fast).then(|| two(group, fixed, workspace)).flatten() {
            return answer;
        }
        return Optimum { found: sampled(group, fixed, least, workspace), bound: least };
    }
    if bodies <= EXACT_JOBS_MAX {
        // The search of two jobs is one look at all alignments: nothing to prepare.
        let starts = if fixed.len() == 2 { 0 } else { STARTS_SMALL };
        let found = descent(group, fixed, starts, least, workspace);
        let is_open = found.cost > least + PROOF_TOLERANCE;
        let bound = if is_open && bodies > 2 && effort != Effort::Fast { bound_by_pairs(group, workspace) } else { least };
        let answer = proven(group, fixed, found, bound, workspace);
        return if effort == Effort::Fast { answer } else { improved(group, fixed, answer, workspace) };
    }
    let all = workspace.budget.left();
    // The bound comes first: descent and annealing end as soon as the cost reaches it.
    let bound = workspace.within(all / BOUND_SHARE, |workspace| {
        if fixed.iter().any(Option::is_some) {
            // Circle by circle the fixed jobs would be free to move, which weakens the bound.
            Search::new(group, fixed, workspace).root_bound()
        } else {
            bound_by_circles(group, effort, workspace)
        }
    });
    let bound = bound.max(least);
    let mut found = descent(group, fixed, STARTS_SMALL, bound, workspace);
    // Without a search for proof, annealing may take all that is left.
    if bodies > PROOF_JOBS_MAX || effort == Effort::Fast {
        let may_fill = effort != Effort::Fast && bound <= PROOF_TOLERANCE && fixed.iter().all(Option::is_none);
        if let Some(items) = may_fill.then(|| Items::of(group)).flatten() {
            found = filled(group, &items, found, workspace);
        }
        return Optimum { found: anneal(group, fixed, found, bound, workspace), bound };
    }
    // Good shifts first: the search for proof prunes by the cost of the best known ones.
    found = workspace.within(all / ANNEAL_SHARE, |workspace| anneal(group, fixed, found, bound, workspace));
    let answer = workspace.within(all / 2, |workspace| proven(group, fixed, found, bound, workspace));
    improved(group, fixed, answer, workspace)
}

/// Good shifts of jobs that fill their link nearly whole: annealed for a while, which finds most packings, and then packed.
fn filled(group: &Group, items: &Items, found: Incumbent, workspace: &mut Workspace) -> Incumbent {
    let free = vec![None; group.jobs.len()];
    let part = workspace.budget.left() / ANNEAL_FIRST_SHARE;
    let found = workspace.within(part, |workspace| anneal(group, &free, found, 0.0, workspace));
    if found.cost <= PROOF_TOLERANCE {
        return found;
    }
    let left = workspace.budget.left();
    let pack = |order, part, workspace: &mut Workspace| workspace.within(part, |w| items.packed(group.jobs.len(), order, &mut w.budget));
    let mut packed = pack(Order::Hardness, left / PACKING_SHARE, workspace);
    // A search that ended before its work did has found that no packing begins at walls, and the order does not matter.
    if packed.is_none() && items.have_unequal_laps() && workspace.budget.left() <= left - left / PACKING_SHARE {
        packed = pack(Order::Laps, left / LAPS_SHARE, workspace);
    }
    let Some(shifts) = packed else { return found };
    let cost = group.cost(&shifts, workspace);
    if cost < found.cost { Incumbent { cost, shifts } } else { found }
}

/// An answer that could not be proven, improved with what the proof left of the work.
fn improved(group: &Group, fixed: &[Option<u64>], answer: Optimum, workspace: &mut Workspace) -> Optimum {
    if answer.is_proven() {
        return answer;
    }
    Optimum { found: anneal(group, fixed, answer.found, answer.bound, workspace), bound: answer.bound }
}

/// Searches for something better than `found` until nothing is left to look at, or to look with.
fn proven(group: &Group, fixed: &[Option<u64>], found: Incumbent, bound: f64, workspace: &mut Workspace) -> Optimum {
    if found.cost <= bound + PROOF_TOLERANCE {
        return Optimum { found, bound };
    }
    // Few jobs are proven without the bounds of subsets, and these bounds know nothing of fixed jobs.
    let many = group.bodies() > EXACT_JOBS_MAX && fixed.iter().all(Option::is_none);
    let subsets = if many {
        workspace.within(workspace.budget.left() / SUBSETS_SHARE, |workspace| Subsets::new(group, workspace))
    } else {
        Subsets::default()
    };
    let mut search = Search::new(group, fixed, workspace);
    search.subsets = subsets;
    search.best = found;
    // Both are lower bounds, and a search that ran out of work may know less than its caller did.
    let bound = search.prove().max(bound);
    Optimum { found: search.best, bound }
}

/// The part of the work on a group that may be proven, as a divisor, that goes into finding good shifts first.
const ANNEAL_SHARE: u64 = 16;
/// The part of the work on jobs that may fill their link, as a divisor, that annealing has before a packing is looked for; and the part
/// of what is left then that this takes at most.
const ANNEAL_FIRST_SHARE: u64 = 2;
const PACKING_SHARE: u64 = 2;
/// The part of the same, as a divisor, for a second search that places jobs of more laps first: it finds a packing soon or never.
const LAPS_SHARE: u64 = 4;
/// The part of the work on a proof, as a divisor, that goes into the bounds of subsets of the group.
const SUBSETS_SHARE: u64 = 3;
/// The part of the work on a large group, as a divisor, that goes into its bound.
const BOUND_SHARE: u64 = 4;
/// The part of the work, as a divisor, that goes into the bound by pairs of jobs.
const PAIRS_SHARE: u64 = 2;

/// A lower bound of what pairs of jobs say, circle by circle.
fn bound_by_pairs(group: &Group, workspace: &mut Workspace) -> f64 {
    let part = workspace.budget.left() / PAIRS_SHARE;
    workspace.within(part, |workspace| {
        let circle = |circle: &Circle| moments::least_cost(circle, &mut workspace.budget).unwrap_or(0.0).max(circle.least_cost);
        group.circles.iter().map(circle).sum()
    })
}

/// A lower bound for a large group: every circle for itself, as if its jobs need not agree with
/// the other circles. Few jobs on a circle are solved; of many, only the first node is bounded.
fn bound_by_circles(group: &Group, effort: Effort, workspace: &mut Workspace) -> f64 {
    let each = workspace.budget.left() / group.circles.len().max(1) as u64;
    let bound = |c, workspace: &mut Workspace| {
        let alone = group.circle_alone(c);
        workspace.within(each, |workspace| {
            if effort != Effort::Fast && alone.bodies() <= EXACT_JOBS_MAX {
                return optimum(&alone, effort, workspace).bound;
            }
            let by_pairs = if effort == Effort::Fast { alone.least_cost() } else { bound_by_pairs(&alone, workspace) };
            let free = vec![None; alone.jobs.len()];
            Search::new(&alone, &free, workspace).root_bound().max(by_pairs)
        })
    };
    let mut sum = 0.0;
    for (c, circle) in group.circles.iter().enumerate() {
        // Circles that no work is left for have the bound by mean demand, which is known already.
        sum += if workspace.budget.is_spent() { circle.least_cost } else { bound(c, workspace) };
    }
    sum
}
