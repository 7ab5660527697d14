//! Lower bounds of what sets of jobs cost when no other job is there.
//!
//! Excess is superadditive: with `phi(x)` the mean excess at level `x` over that at level 0, `phi(x + y) >= phi(x) + phi(y)` for
//! `x, y >= 0`. So whatever stands already, some jobs `U` that are still to be placed add at least what the jobs of `U` without
//! `B` add one by one, and what those of `B` cost alone, for every subset `B`. One job adds little as long as few stand, but five
//! jobs that fit nowhere together are known to cost something before the first of them is placed.

use alloc::{vec, vec::Vec};

use super::Search;
use crate::{
    demand::sum::Workspace,
    search::{PROOF_JOBS_MAX, descent::descent, group::Group},
};

/// Smallest sets that are searched: two jobs alone mostly fit.
const SET_MIN: u32 = 2;
/// The part of the work on all sets, as a divisor, that one of them may take.
const SET_SHARE: u64 = 24;

/// Lower bounds by set of jobs, as bits.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct Subsets {
    /// The least that a set costs beyond the cost of idle links; empty when nothing is known.
    alone: Vec<f64>,
}

impl Subsets {
    /// Bounds for the sets of all but two jobs of a group, at most, with what is left of the budget. Only for members that are
    /// locked on all circles: others are counted with their floors already.
    pub(in crate::search) fn new(group: &Group, workspace: &mut Workspace) -> Self {
        let jobs = group.jobs.len();
        let members = || group.circles.iter().flat_map(|c| &c.members);
        if jobs > PROOF_JOBS_MAX || members().any(|on| on.folded.floor().is_some()) {
            return Self::default();
        }
        // A set that is hard to prove must not take the work of all others; a search that ends early still gives a bound.
        let each = workspace.budget.left() / SET_SHARE;
        let mut subsets = Self { alone: vec![0.0; 1 << jobs] };
        for set in 1_usize..1 << jobs {
            // Sets come in ascending order, so all subsets of a set are known before it.
            subsets.alone[set] = subsets.best_split(set);
            if (SET_MIN..=jobs as u32 - 2).contains(&set.count_ones()) && !workspace.budget.is_spent() {
                let bound = workspace.within(each, |workspace| subsets.searched(group, set, workspace));
                subsets.alone[set] = subsets.alone[set].max(bound);
            }
        }
        subsets
    }

    pub(super) fn is_empty(&self) -> bool {
        self.alone.is_empty()
    }

    /// The best of what two parts of a set are known to cost.
    fn best_split(&self, set: usize) -> f64 {
        let mut best = 0.0_f64;
        // All proper subsets of `set`, in descending order: the subtraction borrows through the bits that are not in the set.
        let mut part = (set - 1) & set;
        while part > 0 {
            best = best.max(self.alone[part] + self.alone[set & !part]);
            part = (part - 1) & set;
        }
        best
    }

    fn searched(&self, group: &Group, set: usize, workspace: &mut Workspace) -> f64 {
        let jobs: Vec<usize> = (0..group.jobs.len()).filter(|j| set >> j & 1 == 1).collect();
        let alone = group.only(&jobs);
        let free = vec![None; jobs.len()];
        let idle: f64 = alone.circles.iter().map(|c| c.cost(c.excess_at(0.0))).sum();
        // `alone` leaves out the cost of an idle link, which every search of a group includes.
        let known = self.alone[set] + idle;
        let found = descent(&alone, &free, 1, known, workspace);
        // Shifts that attain the bound leave nothing to search for.
        if found.cost <= known + crate::PROOF_TOLERANCE {
            return self.alone[set];
        }
        let mut search = Search::new(&alone, &free, workspace);
        search.subsets = self.of(&jobs);
        search.best = found;
        search.prove() - idle
    }

    /// The bounds for some of the jobs, renumbered.
    fn of(&self, jobs: &[usize]) -> Self {
        let whole = |set: usize| jobs.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).fold(0, |all, (_, job)| all | 1 << job);
        Self { alone: (0..1 << jobs.len()).map(|set| self.alone[whole(set)]).collect() }
    }

    /// The least that jobs still to be placed add, given what each adds alone: (job, least).
    pub(super) fn added(&self, open: &[(usize, f64)]) -> f64 {
        let one_by_one: f64 = open.iter().map(|o| o.1).sum();
        if self.is_empty() || open.len() < 2 {
            return one_by_one;
        }
        let mut best = one_by_one;
        // At most 256 subsets: there are no bounds by set for groups of more than eight jobs.
        for chosen in 1_usize..1 << open.len() {
            let (mut set, mut rest) = (0, one_by_one);
            for (i, &(job, least)) in open.iter().enumerate() {
                if chosen >> i & 1 == 1 {
                    set |= 1 << job;
                    rest -= least;
                }
            }
            best = best.max(rest + self.alone[set]);
        }
        best
    }
}
