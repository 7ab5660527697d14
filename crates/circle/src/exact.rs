//! The proven optimum of a small group, by branch and bound over spanning trees of alignments.
//!
//! Some optimum is a vertex at which the jobs hang together by back-to-back alignments: an edge
//! where one job rises meets an edge where another falls (lemma and proof in docs/model.md). Such a
//! vertex is a spanning tree of alignments, and each tree is visited once, in breadth-first
//! order: the placed jobs take turns as head, and a head takes its children in ascending order.
//!
//! Two lower bounds prune. Excess is convex in the demand, so what the unplaced jobs add together
//! is at least the sum of what each adds alone at its best shift. And demand that does not fit in
//! the idle capacity must exceed it.

use alloc::{vec, vec::Vec};

use crate::{
    PROOF_TOLERANCE,
    descent::{Found, descent},
    group::Group,
    solution::Effort,
    total::Total,
};

/// Largest group for which the optimum is always sought with proof.
pub const EXACT_JOBS_MAX: usize = 5;
/// Descents before the search of a small group: enough that it mostly has to prove only.
const STARTS_SMALL: usize = 2;

/// An optimum, or the best found with the gap that is left.
#[derive(Clone, Debug)]
pub(crate) struct Optimum {
    /// The best shifts found.
    pub(crate) found: Found,
    /// No shifts cost less than this.
    pub(crate) bound: f64,
}

impl Optimum {
    pub(crate) fn proven(&self) -> bool {
        self.found.cost <= self.bound + PROOF_TOLERANCE
    }
}

/// Searches the optimum of a group of any size; the effort is bounded, the bound truthful.
pub(crate) fn optimum(group: &Group, effort: Effort, total: &mut Total) -> Optimum {
    if group.jobs.len() > EXACT_JOBS_MAX {
        let bound = bound_by_circles(group, effort, total);
        return Optimum { found: descent(group, effort.starts(), bound, total), bound };
    }
    let bound = group.mean_bound();
    // The search of two jobs is one look at all alignments: nothing to prepare.
    let starts = if group.jobs.len() == 2 { 0 } else { STARTS_SMALL };
    let found = descent(group, starts, bound, total);
    if found.cost <= bound + PROOF_TOLERANCE {
        return Optimum { found, bound };
    }
    let mut search = Search {
        group,
        total,
        best: found,
        placed: vec![None; group.jobs.len()],
        order: Vec::with_capacity(group.jobs.len()),
        responses: effort.responses_max(),
        given_up: f64::INFINITY,
    };
    // The heaviest job stands still; the others turn around it.
    let root = heaviest(group);
    search.placed[root] = Some(0);
    search.order.push(root);
    search.branch(0, 0);
    let bound = search.given_up.min(search.best.cost).max(bound);
    Optimum { found: search.best, bound }
}

fn heaviest(group: &Group) -> usize {
    (0..group.jobs.len()).max_by(|&a, &b| group.jobs[a].weight.total_cmp(&group.jobs[b].weight)).unwrap_or(0)
}

/// A lower bound for a large group: every circle for itself, as if its jobs need not agree with
/// the other circles. Few jobs on a circle are solved; of many, only the first node is bounded.
fn bound_by_circles(group: &Group, effort: Effort, total: &mut Total) -> f64 {
    let bound = |c| {
        let alone = group.circle_alone(c, effort);
        if effort == Effort::Thorough && alone.jobs.len() <= EXACT_JOBS_MAX {
            return optimum(&alone, effort, total).bound;
        }
        let root = heaviest(&alone);
        let mut placed = vec![None; alone.jobs.len()];
        placed[root] = Some(0);
        let mut shifts = Vec::new();
        let others: f64 = (0..alone.jobs.len())
            .filter(|&job| job != root)
            .map(|job| {
                let response = alone.response(job, &placed, total);
                shifts.clear();
                if !alone.alignments(job, root, 0, true, &mut shifts) {
                    // Some alignments were left out: only what every shift costs is safe, nothing.
                    return 0.0;
                }
                shifts.push(0);
                shifts.iter().map(|&s| response.at(&alone, job, s)).fold(f64::INFINITY, f64::min)
            })
            .sum();
        total.sweep(&alone.circles[0], |job| placed[job]);
        let first = total.excess(&alone.circles[0]) * alone.circles[0].weight;
        (first + others).max(alone.mean_bound())
    };
    (0..group.circles.len()).map(bound).sum()
}

struct Search<'a> {
    group: &'a Group,
    total: &'a mut Total,
    best: Found,
    placed: Vec<Option<u64>>,
    /// Placed jobs in the order of placement; the heads' queue.
    order: Vec<usize>,
    /// Responses that may still be computed.
    responses: usize,
    /// Smallest lower bound of a part of the tree that was not searched.
    given_up: f64,
}

/// An unplaced job: what each alignment with each placed job would cost, and the least of it.
struct Pending {
    job: usize,
    /// (place of the head in the queue, added cost, shift), by head.
    alignments: Vec<(usize, f64, u64)>,
    least: f64,
    at: u64,
}

impl Search<'_> {
    fn branch(&mut self, head: usize, child_min: usize) {
        let mut placed_total = core::mem::take(self.total);
        let (cost, fill) = self.placed_cost(&mut placed_total);
        *self.total = placed_total;
        let mut pending = Vec::new();
        let mut bound = cost;
        let mut complete = true;
        for job in 0..self.placed.len() {
            if self.placed[job].is_none() {
                let p = self.pending(job, &mut complete);
                bound += p.least;
                pending.push(p);
            }
        }
        let bound = bound.max(fill);
        if bound >= self.best.cost - PROOF_TOLERANCE {
            return;
        }
        if !complete || self.responses == 0 {
            self.given_up = self.given_up.min(bound);
        }
        if let [last] = &pending[..] {
            // One job left: its best alignment is the best of this part, and it is attained.
            let mut shifts: Vec<u64> = self.placed.iter().map(|s| s.unwrap_or(0)).collect();
            shifts[last.job] = last.at;
            self.best = Found { cost: cost + last.least, shifts };
            return;
        }
        if self.responses == 0 {
            return;
        }
        let rest: f64 = pending.iter().map(|p| p.least).sum();
        for h in head..self.order.len() {
            for p in &pending {
                if h == head && p.job < child_min {
                    continue;
                }
                self.attach(h, p, cost + rest - p.least);
            }
        }
    }

    /// Places `p` at each of its alignments with the job at place `h` of the queue, best first.
    fn attach(&mut self, h: usize, p: &Pending, others: f64) {
        let mut ranked: Vec<(f64, u64)> = p.alignments.iter().filter(|a| a.0 == h).map(|a| (a.1, a.2)).collect();
        ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (added, shift) in ranked {
            if others + added >= self.best.cost - PROOF_TOLERANCE {
                break;
            }
            self.placed[p.job] = Some(shift);
            self.order.push(p.job);
            self.branch(h, p.job + 1);
            self.order.pop();
            self.placed[p.job] = None;
        }
    }

    /// What an unplaced job adds at its alignments with the placed jobs.
    fn pending(&mut self, job: usize, complete: &mut bool) -> Pending {
        self.responses = self.responses.saturating_sub(1);
        let response = self.group.response(job, &self.placed, self.total);
        let mut pending = Pending { job, alignments: Vec::new(), least: response.at(self.group, job, 0), at: 0 };
        let mut shifts = Vec::new();
        for (h, &head) in self.order.iter().enumerate() {
            shifts.clear();
            *complete &= self.group.alignments(job, head, self.placed[head].unwrap_or(0), true, &mut shifts);
            shifts.sort_unstable();
            shifts.dedup();
            for &shift in &shifts {
                let cost = response.at(self.group, job, shift);
                pending.alignments.push((h, cost, shift));
                if cost < pending.least {
                    (pending.at, pending.least) = (shift, cost);
                }
            }
        }
        pending
    }

    /// Cost of the placed jobs, and the bound by idle capacity.
    fn placed_cost(&self, total: &mut Total) -> (f64, f64) {
        let (mut cost, mut fill) = (0.0, 0.0);
        for circle in &self.group.circles {
            total.sweep(circle, |job| self.placed[job]);
            let excess = total.excess(circle);
            let mut placed_mean = 0.0;
            let mut rest_mean = 0.0;
            for m in &circle.members {
                *(if self.placed[m.job].is_some() { &mut placed_mean } else { &mut rest_mean }) += m.folded.mean;
            }
            let perimeter = circle.perimeter as f64;
            let idle = (circle.capacity - placed_mean) * perimeter + excess;
            cost += excess * circle.weight;
            fill += (excess + (rest_mean * perimeter - idle).max(0.0)) * circle.weight;
        }
        (cost, fill)
    }
}
