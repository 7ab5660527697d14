//! The end of a branch: two jobs are left, and pairs of their alignments are tried.

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;

use super::{
    branch::{Pending, Search, by_cost},
    descent::Incumbent,
    interaction::{self, InteractionCurve, PairInteraction},
};
use crate::{
    PROOF_TOLERANCE,
    demand::{
        distribution::{self, DemandDistribution},
        folded::Folded,
        marginal::{CircleMarginal, LOOKUP_WORK},
    },
};

/// The places of the last job beside those that stand already.
#[derive(Default)]
struct Beside {
    /// (added cost, shift) of the last job, by cost.
    known: Vec<(f64, u64)>,
    /// The heads instead, where the places depend on the job that is placed just before the last one.
    heads: Vec<usize>,
}

/// Places in two lists, each by what it adds and then by shift, as one list in that order: the longer one is mostly left before its end, so
/// it is neither copied nor sorted again.
#[derive(Clone, Debug)]
struct Ascending<'p> {
    one: &'p [(f64, u64)],
    other: &'p [(f64, u64)],
}

impl Iterator for Ascending<'_> {
    type Item = (f64, u64);

    fn next(&mut self) -> Option<(f64, u64)> {
        let list = match (self.one.first(), self.other.first()) {
            (Some(one), Some(other)) if by_cost(other, one).is_lt() => &mut self.other,
            (None, _) => &mut self.other,
            _ => &mut self.one,
        };
        let (first, rest) = list.split_first()?;
        *list = rest;
        Some(*first)
    }
}

impl<'a> Search<'a> {
    /// The places of `last` beside the placed jobs once `first` stands: those known already, unless they depend on `first`.
    fn beside(&self, first: usize, last: &Pending<'a>, head: usize, child_min: usize) -> Beside {
        let from = head + usize::from(last.job < child_min);
        let mut beside = Beside::default();
        let heads = &self.order[from.min(self.order.len())..];
        if heads.iter().any(|&h| self.couplings.depends(self.group, last.job, h, first)) {
            beside.heads = heads.to_vec();
        } else {
            beside.known = last.ranked(head, child_min);
        }
        beside
    }

    /// The alignments of `last` with `first`, just placed, and with `heads`. False if some were left out.
    fn meet(&mut self, first: usize, last: usize, heads: &[usize], shifts: &mut Vec<u64>) -> bool {
        let mut complete = true;
        for &head in [first].iter().chain(heads) {
            complete &= self.couplings.vertices(self.group, last, head, &self.placed, &mut self.workspace.budget, shifts);
        }
        if !heads.is_empty() {
            shifts.sort_unstable();
            shifts.dedup();
        }
        complete
    }

    /// Two jobs are left: tries all pairs of their alignments that the bound of the node leaves open. `spent` is the work of that bound.
    pub(super) fn close_two(&mut self, head: usize, child_min: usize, pending: [&Pending<'a>; 2], with_floors: f64, spent: u64) {
        let room = self.enough() - with_floors;
        let open = |p: &Pending<'_>, other: &Pending<'_>| p.alignments.iter().filter(|a| a.1 + other.least < room).count() as u64;
        let asked = open(pending[0], pending[1]) + open(pending[1], pending[0]);
        let joints = self.joints([pending[0].job, pending[1].job], asked, spent);
        if joints.is_none() {
            // The next question, asked many times, is where one job fits when the other is placed. The placed jobs are added up once for
            // all answers.
            self.keep_placed();
        }
        // Either job may be the one that is aligned with the placed jobs while the other is aligned with it: both orders are all trees.
        for which in 0..2 {
            match &joints {
                Some(joints) => self.close(head, child_min, pending, with_floors, joints, which),
                None => self.close_by_sums(head, child_min, pending, with_floors, which),
            }
        }
        self.base.clear();
    }

    /// The interaction of two jobs on each circle that both are on, while the placed ones stand. `None` where adding up anew for
    /// each of the places `asked` about, which takes about half of `spent`, is less work.
    fn joints(&mut self, jobs: [usize; 2], asked: u64, spent: u64) -> Option<Vec<(f64, PairInteraction)>> {
        let mut joints = Vec::new();
        for circle in &self.group.circles {
            let member = |job: usize| circle.members.iter().find(|on| on.job == job);
            let (Some(a), Some(b)) = (member(jobs[0]), member(jobs[1])) else { continue };
            // The two jobs tell the others apart modulo both of their periods.
            let seen = common_multiple(a.folded.period, b.folded.period)?;
            let stand: Vec<(&Folded, u64)> = circle.members.iter().filter_map(|on| Some((&on.folded, self.placed[on.job]?))).collect();
            let pieces = interaction::pieces(stand.iter().map(|s| s.0), seen);
            let table = (a.folded.levels.len() * b.folded.levels.len()) as u64;
            if pieces.saturating_mul(4 + table) > asked.saturating_mul(spent / 4) || pieces > spent / 4 {
                return None;
            }
            let stand = stand.iter().map(|&(folded, shift)| DemandDistribution::job(folded, shift)).collect();
            let (slow, fast) = distribution::total(stand, seen, circle, &mut self.workspace.budget)?;
            // The fast part may be one piece and still be a demand.
            let others = slow.plus(&fast, &mut self.workspace.budget)?;
            let joint = PairInteraction::new(&others, [&a.folded, &b.folded], circle, spent / 2, &mut self.workspace.budget)?;
            joints.push((circle.perimeter as f64 * circle.weight, joint));
        }
        Some(joints)
    }

    /// Places `first` at each of its alignments with the placed jobs that leaves something open if `last` costs its least, the
    /// cheapest first, and calls `see` with the cost so far and the shift.
    fn for_each_place(
        &mut self,
        first: &Pending<'a>,
        last: &Pending<'a>,
        ranked: &[(f64, u64)],
        with_floors: f64,
        mut see: impl FnMut(&mut Self, f64, u64),
    ) {
        for &(added, shift) in ranked {
            let so_far = with_floors + added;
            if so_far + last.least >= self.enough() {
                break;
            }
            if self.workspace.budget.is_spent() {
                // The places are ranked, so the first that is not looked at has the smallest bound of the rest.
                self.given_up = self.given_up.min(so_far + last.least);
                break;
            }
            self.placed[first.job] = Some(shift);
            see(self, so_far, shift);
            self.placed[first.job] = None;
        }
    }

    /// Two jobs are left: places one of them, `which`, at each of its alignments with the placed jobs, and the other at those
    /// with it, and, once, with the placed jobs. The cost that each adds alone bounds what both add; the interaction
    /// of both is looked up where that bound is not enough.
    fn close(
        &mut self,
        head: usize,
        child_min: usize,
        pending: [&Pending<'a>; 2],
        with_floors: f64,
        joints: &[(f64, PairInteraction)],
        which: usize,
    ) {
        let (first, last) = (pending[which], pending[1 - which]);
        // Two jobs that are both aligned with placed ones are the same pair in either order, so only the first order tries them.
        let beside = if which == 0 { self.beside(first.job, last, head, child_min) } else { Beside::default() };
        let mut shifts = Vec::new();
        let mut open: Vec<(f64, u64)> = Vec::new();
        let mut curves = vec![InteractionCurve::default(); joints.len()];
        let lookup = LOOKUP_WORK / 2 * joints.iter().map(|j| j.1.lookups(which)).sum::<u64>();
        self.for_each_place(first, last, &first.ranked(head, child_min), with_floors, |search, so_far, shift| {
            shifts.clear();
            if !search.meet(first.job, last.job, &beside.heads, &mut shifts) {
                // Places that were left out may add nothing to what stands.
                search.given_up = search.given_up.min(so_far);
            }
            search.workspace.budget.charge(4 + last.work() * shifts.len() as u64);
            // The interaction is never negative, so a place that is too dear alone is too dear with it (docs/model.md, section 6).
            let room = search.enough() - so_far;
            open.clear();
            open.extend(shifts.iter().map(|&s| (last.cost(s), s)).filter(|c| c.0 < room));
            // The known places are ranked by cost: the first that is too dear ends them.
            open.extend(beside.known.iter().take_while(|k| k.0 < room));
            if open.is_empty() {
                return;
            }
            for (curve, (_, joint)) in curves.iter_mut().zip(joints) {
                joint.with(which, shift, curve, &mut search.workspace.budget);
            }
            search.workspace.budget.charge(lookup * open.len() as u64);
            for &(cost, at) in &open {
                let both = curves.iter().zip(joints).map(|(curve, (scale, joint))| scale * joint.at(which, curve, at)).sum::<f64>();
                search.found(so_far + cost + both, last.job, at);
            }
        });
    }

    /// Takes the placed jobs and one more over if they cost less than the best.
    pub(super) fn found(&mut self, cost: f64, last: usize, at: u64) {
        if cost < self.best.cost - PROOF_TOLERANCE {
            let mut shifts: Vec<u64> = self.placed.iter().map(|s| s.unwrap_or(0)).collect();
            shifts[last] = at;
            self.best = Incumbent { cost, shifts };
        }
    }

    /// [`Self::close`] where the demands are added up anew for each place of the first: there each costs more, so the other is
    /// put at its best beside all of them, which bounds the places near it too.
    fn close_by_sums(&mut self, head: usize, child_min: usize, pending: [&Pending<'a>; 2], with_floors: f64, which: usize) {
        let (first, last) = (pending[which], pending[1 - which]);
        let depends = self.order.iter().any(|&h| self.couplings.depends(self.group, last.job, h, first.job));
        let heads = if depends { self.order.clone() } else { Vec::new() };
        // Every head counts here, also one before `head`: the result bounds every place of `last`, as `Slopes` needs it.
        let known = if depends { Vec::new() } else { last.ranked(0, 0) };
        // Sums made anew are dear, so a bound by slope may save one.
        let mut seen = self.slopes_of(first.job);
        let mut shifts = Vec::new();
        self.for_each_place(first, last, &first.ranked(head, child_min), with_floors, |search, so_far, shift| {
            if seen.at(shift) >= search.enough() {
                return;
            }
            shifts.clear();
            let complete = search.meet(first.job, last.job, &heads, &mut shifts);
            search.workspace.budget.charge(4 + last.work() * shifts.len() as u64);
            let mut beside: Vec<(f64, u64)> = shifts.iter().map(|&s| (last.cost(s), s)).collect();
            beside.sort_unstable_by(by_cost);
            search.order.push(first.job);
            let bound = search.finish(last.job, so_far, Ascending { one: &beside, other: &known });
            search.order.pop();
            if complete {
                seen.learn(shift, bound);
            } else {
                search.given_up = search.given_up.min(so_far);
            }
        });
    }

    /// Puts the one job that is left at its best shift; `shifts` are those it may need, by what it adds alone. Returns what that
    /// costs, or no more, if it is no better than the best.
    fn finish(&mut self, job: usize, so_far: f64, shifts: Ascending<'_>) -> f64 {
        let Some(alone) = shifts.clone().next().map(|s| so_far + s.0) else { return so_far };
        // The best place alone bounds the best place beside `first` as well, and needs no new sum.
        if alone >= self.enough() {
            return alone;
        }
        let (costs, _) = self.placed_cost(Some(so_far));
        let response = self.response(job);
        // The floor of this job is in `costs` and not in the responses: the difference comes off once.
        let without: f64 = self.group.jobs[job].on.iter().zip(&response).map(|(&(c, _), r)| r.without - costs[c]).sum();
        let placed = costs.iter().sum::<f64>() + without;
        let work = response.iter().map(CircleMarginal::work).sum::<u64>();
        let mut least = f64::INFINITY;
        for (added, shift) in shifts {
            // Beside more jobs this job adds no less (convexity), and the places are ranked: none of the rest is cheaper.
            if so_far + added >= least {
                break;
            }
            self.workspace.budget.charge(work);
            let cost = placed + response.iter().map(|r| r.at(shift)).sum::<f64>();
            self.found(cost, job, shift);
            least = least.min(cost);
        }
        least
    }

    /// Adds up the placed jobs, as far as the others can see, for all that is asked until the base is cleared.
    fn keep_placed(&mut self) {
        let mut base = Vec::with_capacity(self.group.circles.len());
        // A base has the sums of all circles, and a circle that is swept has none.
        if self.group.plain.iter().any(|p| *p) {
            return;
        }
        for circle in &self.group.circles {
            let (mut jobs, mut seen) = (Vec::new(), 1_u64);
            for on in &circle.members {
                match self.placed[on.job] {
                    Some(shift) => jobs.push(DemandDistribution::job(&on.folded, shift)),
                    None => match common_multiple(seen, on.folded.period) {
                        Some(both) => seen = both,
                        // The sums are made anew for each question then.
                        None => return,
                    },
                }
            }
            let Some(sums) = distribution::gather(jobs, seen, &mut self.workspace.budget) else { return };
            base.push(sums);
        }
        self.base_jobs.clone_from(&self.order);
        self.base = base;
    }
}

/// The least common multiple of two periods; `None` beyond 64 bits. A circle that cannot be walked around has jobs whose periods have
/// one: two of about 5 s in nanoseconds without a common factor.
fn common_multiple(a: u64, b: u64) -> Option<u64> {
    (a / a.gcd(&b).max(1)).checked_mul(b)
}
