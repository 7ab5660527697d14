//! The proven optimum of a small group, by branch and bound over spanning trees of alignments.
//!
//! Some optimum is a vertex at which a spanning tree of back-to-back alignments connects the jobs: an edge
//! where one job rises meets an edge where another falls (lemma and proof in docs/model.md, section 5). Each
//! tree is visited once, in breadth-first order: the placed jobs are heads one after the other, and a head takes
//! its children in ascending order.
//!
//! Invariant of the recursion: everything below a node that was not searched costs at least what [`Search::enough`]
//! said then, or at least `given_up`.
//!
//! Two lower bounds prune. Excess is convex in the demand, so what the unplaced jobs add together
//! is at least the sum of what each adds alone at its best shift. And demand that does not fit in
//! the idle capacity must exceed it.

mod grid;
mod subsets;

use alloc::{vec, vec::Vec};
use core::cmp::Ordering;

use num_integer::Integer as _;
use petgraph::unionfind::UnionFind;

pub(super) use self::subsets::Subsets;
use super::{
    couplings::Couplings,
    descent::Incumbent,
    group::Group,
    slope::{Slopes, slope},
};
use crate::{
    PROOF_TOLERANCE,
    demand::{
        circle::OnCircle,
        distribution::{self, DemandDistribution},
        marginal::CircleMarginal,
        minimum::minimum,
        sum::{Presence, Workspace},
    },
};

/// The part of the work, as a divisor, for the first search, which is for the optimum itself: most trees end within less.
const FIRST_SHARE: u64 = 2;
/// How far below the best the searches after it look, in loss of score.
const MARGINS: [f64; 4] = [3e-2, 3e-3, 3e-4, 0.0];
/// Fewest spans of a job whose kinks are put in order instead of being looked up one by one: a lookup takes two steps for each.
const MINIMUM_SPANS: u64 = 16;

/// The start of a search: the fixed jobs stand, and of every set of jobs that lock with each other, but
/// with no job outside, the heaviest stands at zero and the others move against it.
fn rooted(group: &Group, fixed: &[Option<u64>]) -> Vec<Option<u64>> {
    let mut sets = UnionFind::<usize>::new(fixed.len());
    for members in group.circles.iter().map(|c| &c.members) {
        for (i, a) in members.iter().enumerate() {
            // Constant-rate jobs have no alignments.
            let meets = |b: &&OnCircle| !a.edges.is_empty() && !b.edges.is_empty() && a.folded.period.gcd(&b.folded.period) > 1;
            for b in members[..i].iter().filter(meets) {
                sets.union(a.job, b.job);
            }
        }
    }
    let mut placed = fixed.to_vec();
    let mut stands: Vec<bool> = vec![false; fixed.len()];
    for job in (0..fixed.len()).filter(|&j| fixed[j].is_some()) {
        // A set with a fixed job cannot be rotated as a whole, so no other job of it may be put at zero.
        stands[sets.find_mut(job)] = true;
    }
    let mut order: Vec<usize> = (0..fixed.len()).filter(|&j| fixed[j].is_none()).collect();
    order.sort_by(|&a, &b| group.jobs[b].weight.total_cmp(&group.jobs[a].weight).then(b.cmp(&a)));
    for job in order {
        // A set that is rotated as a whole keeps its cost (docs/model.md, section 2), so one job of it may stand anywhere.
        if !core::mem::replace(&mut stands[sets.find_mut(job)], true) {
            placed[job] = Some(0);
        }
    }
    placed
}

pub(super) struct Search<'a> {
    pub(super) group: &'a Group,
    pub(super) couplings: Couplings,
    pub(super) workspace: &'a mut Workspace,
    pub(super) best: Incumbent,
    pub(super) placed: Vec<Option<u64>>,
    /// Placed jobs in the order of placement; the heads' queue.
    pub(super) order: Vec<usize>,
    /// Improvements of the incumbent by less than this are not searched for.
    pub(super) margin: f64,
    /// Smallest lower bound of a part of the tree that was not searched.
    pub(super) given_up: f64,
    /// How fast the cost may fall as a job moves, as far as asked.
    slopes: Vec<Option<f64>>,
    /// Lower bounds of the costs of sets of jobs alone.
    pub(super) subsets: Subsets,
    /// Jobs that are added up already, and their sums by circle; empty when none are.
    pub(super) base_jobs: Vec<usize>,
    pub(super) base: Vec<Vec<DemandDistribution>>,
}

/// A node of the search tree.
pub(super) struct Node<'a> {
    /// No shifts below this node cost less.
    pub(super) bound: f64,
    /// Cost of the placed jobs and of what the others send at least.
    with_floors: f64,
    /// The jobs that are not placed.
    pending: Vec<Pending<'a>>,
    /// Whether all alignments of those jobs were looked at.
    complete: bool,
}

/// An unplaced job: what each alignment with each placed job would cost, and the least of it.
pub(super) struct Pending<'a> {
    pub(super) job: usize,
    /// The marginal costs of the job by circle, and the cost to add to them at every shift.
    response: Vec<CircleMarginal<'a>>,
    counted: f64,
    /// (place of the head in the queue, added cost, shift), by head.
    pub(super) alignments: Vec<(usize, f64, u64)>,
    pub(super) least: f64,
    at: u64,
}

/// The order of places: by what they add, and then by shift.
pub(super) fn by_cost(a: &(f64, u64), b: &(f64, u64)) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

impl Pending<'_> {
    /// The least that the job adds at `shift`.
    pub(super) fn cost(&self, shift: u64) -> f64 {
        self.response.iter().map(|r| r.at(shift)).sum::<f64>() + self.counted
    }

    /// The alignments of the job from that place in the tree on, by cost.
    pub(super) fn ranked(&self, head: usize, child_min: usize) -> Vec<(f64, u64)> {
        // A head takes its children in ascending order, so a job below `child_min` has been placed at this head.
        let from = head + usize::from(self.job < child_min);
        let mut ranked: Vec<(f64, u64)> = self.alignments.iter().filter(|a| a.0 >= from).map(|a| (a.1, a.2)).collect();
        ranked.sort_unstable_by(by_cost);
        // One shift has one cost, so equal shifts are neighbours: a place under two heads is tried once.
        ranked.dedup_by_key(|a| a.1);
        ranked
    }

    /// Work of one lookup.
    pub(super) fn work(&self) -> u64 {
        self.response.iter().map(CircleMarginal::work).sum()
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(group: &'a Group, fixed: &[Option<u64>], workspace: &'a mut Workspace) -> Self {
        let placed = rooted(group, fixed);
        let order: Vec<usize> = (0..placed.len()).filter(|&j| placed[j].is_some()).collect();
        let best = Incumbent { cost: f64::INFINITY, shifts: Vec::new() };
        Self {
            group,
            couplings: Couplings::new(group),
            workspace,
            best,
            placed,
            order,
            margin: 0.0,
            given_up: f64::INFINITY,
            slopes: vec![None; group.jobs.len()],
            subsets: Subsets::default(),
            base_jobs: Vec::new(),
            base: Vec::new(),
        }
    }

    /// Searches the whole tree, to the end or with about `work_max` of work; no shifts cost less than what it returns. A tree that
    /// is not searched soon is searched with margins first: to be sure to a hundredth takes far less than to be sure of the last
    /// digit, and where the work ends in between the gap that is left is that hundredth, not what one bound at the root says.
    pub(super) fn prove(&mut self) -> f64 {
        let coarse = grid::is_coarse(self.group, &self.placed);
        let all = self.workspace.budget.left();
        let mut bound = f64::NEG_INFINITY;
        // The last margin is 0 again: a full search, with all the work that the others left.
        for (margin, work) in [(0.0, all / FIRST_SHARE)].into_iter().chain(MARGINS.map(|margin| (margin, all))) {
            (self.margin, self.given_up) = (margin, f64::INFINITY);
            let outer = self.workspace.budget.narrow(work);
            if coarse {
                self.branch_over_grid();
            } else {
                self.branch(0, 0, None);
            }
            self.workspace.budget.restore(outer);
            // The tree holds nothing below the best cost less the margin, but for what was given up.
            let known = self.given_up.min(self.best.cost - margin);
            bound = bound.max(known);
            // The proof is complete, or the work for it is spent.
            if bound >= self.best.cost - PROOF_TOLERANCE || self.workspace.budget.is_spent() {
                break;
            }
        }
        bound
    }

    /// Prunes unless the incumbent improves by more than `margin`.
    pub(super) fn enough(&self) -> f64 {
        self.best.cost - self.margin.max(PROOF_TOLERANCE)
    }

    /// The bound of this node, and all that it is made of, before anything below is searched.
    fn bound_here(&mut self, known: Option<f64>) -> Node<'a> {
        let (costs, fill) = self.placed_cost(known);
        let with_floors: f64 = costs.iter().sum();
        let mut complete = true;
        let mut pending = Vec::new();
        for job in 0..self.placed.len() {
            if self.placed[job].is_none() {
                pending.push(self.pending(job, &costs, &mut complete));
            }
        }
        let added = self.added_by(&pending, None);
        // Bounds 1 or 3, and 2, of docs/model.md, section 6. Bounds 1 and 3 need all alignments: one that was left out might cost nothing.
        let bound = if complete { (with_floors + added).max(fill) } else { fill };
        Node { bound, with_floors, pending, complete }
    }

    /// The bound of the first node alone, where the tree is not searched. Of a thousand jobs it may end before all were looked at; then it
    /// is the bound by mean demand.
    pub(super) fn root_bound(&mut self) -> f64 {
        let (costs, fill) = self.placed_cost(None);
        let (mut complete, mut bound) = (true, costs.iter().sum::<f64>());
        for job in 0..self.placed.len() {
            // What one job adds more is a bound only together with all others.
            if !complete || self.workspace.budget.is_far_over() {
                return fill;
            }
            if self.placed[job].is_none() {
                bound += self.pending(job, &costs, &mut complete).least;
            }
        }
        // The same bounds as of a node ([`Self::bound_here`]).
        if complete { bound.max(fill) } else { fill }
    }

    /// The least that the unplaced jobs, but `without`, add together.
    fn added_by(&self, pending: &[Pending<'_>], without: Option<usize>) -> f64 {
        let open = pending.iter().filter(|p| Some(p.job) != without);
        if self.subsets.is_empty() {
            return open.map(|p| p.least).sum();
        }
        self.subsets.added(&open.map(|p| (p.job, p.least)).collect::<Vec<_>>())
    }

    /// Searches what is below this node; a lower bound of all that comes of the placed jobs, wherever the others stand.
    fn branch(&mut self, head: usize, child_min: usize, known: Option<f64>) -> f64 {
        let before = self.workspace.budget.spent();
        let Node { bound, with_floors, pending, complete } = self.bound_here(known);
        let spent = self.workspace.budget.spent() - before;
        if bound >= self.enough() {
            return bound;
        }
        let out_of_work = self.workspace.budget.is_spent();
        // Not all below this node will be seen, and the unseen part costs at least the bound.
        if !complete || out_of_work {
            self.given_up = self.given_up.min(bound);
        }
        if pending.is_empty() {
            // All jobs are placed: the bound is the cost.
            let shifts = self.placed.iter().map(|s| s.unwrap_or(0)).collect();
            self.best = Incumbent { cost: with_floors, shifts };
            return bound;
        }
        if let [last] = &pending[..] {
            // With one job left, the best alignment of that job is the best of this part, and it is attained.
            self.found(with_floors + last.least, last.job, last.at);
            return bound;
        }
        // The leaves above are taken even without work left, because their cost is known already.
        if out_of_work {
            return bound;
        }
        if let [a, b] = &pending[..] {
            self.close_two(head, child_min, [a, b], with_floors, spent);
            return bound;
        }
        // The bound of the others is the same at every place of one job, so it is computed once for each job.
        let rest: Vec<f64> = pending.iter().map(|p| self.added_by(&pending, Some(p.job))).collect();
        let mut seen: Vec<Slopes> = pending.iter().map(|p| self.slopes_of(p.job)).collect();
        for h in head..self.order.len() {
            for ((p, rest), seen) in pending.iter().zip(&rest).zip(&mut seen) {
                // Children of one head come in ascending order, so each tree is visited once.
                if h == head && p.job < child_min {
                    continue;
                }
                self.attach(h, p, with_floors, *rest, seen);
            }
        }
        bound
    }

    pub(super) fn slopes_of(&mut self, job: usize) -> Slopes {
        Slopes::new(*self.slopes[job].get_or_insert_with(|| slope(self.group, job)))
    }

    /// Places `p` at each of its alignments with the job at place `h` of the queue, best first.
    fn attach(&mut self, h: usize, p: &Pending<'a>, with_floors: f64, others: f64, seen: &mut Slopes) {
        let others = with_floors + others;
        let mut ranked: Vec<(f64, u64)> = p.alignments.iter().filter(|a| a.0 == h).map(|a| (a.1, a.2)).collect();
        ranked.sort_unstable_by(by_cost);
        for (added, shift) in ranked {
            if others + added >= self.enough() {
                break;
            }
            if self.workspace.budget.is_spent() {
                // The places are ranked, so the first that is not looked at has the smallest bound of the rest.
                self.given_up = self.given_up.min(others + added);
                break;
            }
            // The ranking knows nothing of slopes: the next place may be open again.
            if seen.at(shift) >= self.enough() {
                continue;
            }
            self.placed[p.job] = Some(shift);
            self.order.push(p.job);
            let bound = self.branch(h, p.job + 1, Some(with_floors + added));
            // `branch` bounds all that comes of this shift, so the slope carries the bound on to shifts nearby (section 6).
            seen.learn(shift, bound);
            self.order.pop();
            self.placed[p.job] = None;
        }
    }

    /// An unplaced job with the cost that it adds at its alignments with the placed jobs, over its floor, which
    /// `costs` counts already, by circle.
    fn pending(&mut self, job: usize, costs: &[f64], complete: &mut bool) -> Pending<'a> {
        let response = self.response(job);
        // `costs` has the floor of this job already; the difference, which is never positive, keeps it from counting twice.
        let counted: f64 = self.group.jobs[job].on.iter().zip(&response).map(|(&(c, _), r)| r.without - costs[c]).sum();
        let mut pending = Pending { job, response, counted, alignments: Vec::new(), least: 0.0, at: 0 };
        // A job without alignments costs the same at every shift, so any one gives its least cost.
        pending.least = pending.cost(0);
        if self.placed.iter().filter(|shift| shift.is_none()).count() == 1
            && let Some((at, least)) = self.minimum(&pending)
        {
            (pending.at, pending.least) = (at, least);
            return pending;
        }
        let mut shifts = Vec::new();
        let each = pending.work();
        // Alignments with all heads give the least cost of the job, also with heads at which it was placed: the bound needs them.
        for (h, &head) in self.order.iter().enumerate() {
            shifts.clear();
            *complete &= self.couplings.vertices(self.group, job, head, &self.placed, &mut self.workspace.budget, &mut shifts);
            shifts.sort_unstable();
            shifts.dedup();
            for &shift in &shifts {
                // A node is mostly finished. On thousands of links a look takes a millisecond: what is not looked at might cost nothing.
                if self.workspace.budget.is_far_over() {
                    *complete = false;
                    break;
                }
                self.workspace.budget.charge(each);
                let cost = pending.cost(shift);
                pending.alignments.push((h, cost, shift));
                if cost < pending.least {
                    (pending.at, pending.least) = (shift, cost);
                }
            }
        }
        pending
    }

    /// The best shift of the one job that is left and what it adds there, over all shifts. `None` where a look at each of its alignments is
    /// as quick.
    fn minimum(&mut self, pending: &Pending<'a>) -> Option<(u64, f64)> {
        let (group, job) = (self.group, pending.job);
        let stand = || (0..group.jobs.len()).filter(|&other| other != job && self.placed[other].is_some());
        let lists_all = stand().all(|other| group.lists_all(job, other));
        // Of few spans the alignments are few, and congruent ones are passed over.
        if lists_all && group.spans(job) < MINIMUM_SPANS {
            return None;
        }
        // Two jobs are asked about once. Of more jobs this takes no longer than the alignments that would be looked at.
        let listed = (stand().count() as u64).saturating_mul(group.alignments_max(job)).saturating_mul(pending.work());
        let work_max = if group.jobs.len() == 2 { u64::MAX } else { listed };
        let (at, added) = minimum(&pending.response, group.jobs[job].lock, work_max, &mut self.workspace.budget)?;
        Some((at, added + pending.counted))
    }

    /// How the cost of each of the job's circles answers to its shift.
    pub(super) fn response(&mut self, job: usize) -> Vec<CircleMarginal<'a>> {
        let group = self.group;
        let on = |&(c, m): &(usize, usize)| {
            let circle = &group.circles[c];
            let others = self.present(c, Some(job));
            let sums =
                others.and_then(|others| distribution::layers(others, circle.members[m].folded.period, circle, &mut self.workspace.budget));
            let placed = &self.placed;
            let presence = |other: usize| placed[other].map_or(Presence::Floor, Presence::At);
            CircleMarginal::new(circle, m, sums, presence, self.workspace)
        };
        group.jobs[job].on.iter().map(on).collect()
    }

    /// The demands on a circle: placed jobs where they stand, of the others the floors, without `absent`. `None` where a
    /// sweep around the circle is as short.
    fn present(&self, circle: usize, absent: Option<usize>) -> Option<Vec<DemandDistribution>> {
        if self.group.plain[circle] {
            return None;
        }
        let placed = &self.placed;
        let presence = |job| match placed[job] {
            _ if Some(job) == absent => Presence::Absent,
            shift => shift.map_or(Presence::Floor, Presence::At),
        };
        let demand = |on: &OnCircle| DemandDistribution::of(&on.folded, presence(on.job));
        let members = &self.group.circles[circle].members;
        // A base holds the jobs that stood when it was made; those placed since, and floors, come on top.
        let Some(base) = self.base.get(circle) else { return Some(members.iter().filter_map(demand).collect()) };
        let rest = members.iter().filter(|on| !self.base_jobs.contains(&on.job));
        Some(base.iter().cloned().chain(rest.filter_map(demand)).collect())
    }

    /// Cost of the placed jobs and the floors of the others, by circle, and the bound by mean demand.
    /// `known` is the sum of the costs, where the node above has computed it.
    pub(super) fn placed_cost(&mut self, known: Option<f64>) -> (Vec<f64>, f64) {
        // With one circle the known sum is the cost of that circle.
        if let ([circle], Some(cost)) = (&self.group.circles[..], known) {
            return (vec![cost], cost.max(circle.least_cost));
        }
        let mut costs = Vec::with_capacity(self.group.circles.len());
        let mut fill = 0.0;
        for (c, circle) in self.group.circles.iter().enumerate() {
            let here = match self.present(c, None).and_then(|all| distribution::total(all, 1, circle, &mut self.workspace.budget)) {
                Some((all, _)) => all.excess(circle) * circle.perimeter as f64,
                None => {
                    let placed = &self.placed;
                    let Workspace { sum, budget } = &mut *self.workspace;
                    sum.sweep(circle, |job| placed[job].map_or(Presence::Floor, Presence::At), budget);
                    budget.charge(sum.terms(circle));
                    sum.excess(circle)
                }
            } * circle.weight;
            costs.push(here);
            // Bound 2 holds on each circle alone, so the better of both bounds is taken circle by circle.
            fill += here.max(circle.least_cost);
        }
        (costs, fill)
    }
}
