//! What the children of a node cost at least, before any of them is visited.
//!
//! Three or more jobs are left. What two of them do to each other beside the placed jobs is tabled once (`joint`); after that
//! bounds are lookups. Excess is supermodular in the set of jobs: what some jobs add beside more others is at least what they
//! add beside fewer, and what they add together is at least what parts of them add. So with one of them, `x`, placed, the rest
//! adds at least what any split of it into pairs and single jobs says: a pair at least what it adds at its best beside the
//! placed jobs, a single job what it adds at its best beside the placed jobs and `x`.
//!
//! This is what jobs need that are tied to each other more closely than to the placed ones: two jobs of 145 ms beside one of
//! 336 ms. Alone each finds its place, and the bound of the node counts nothing for what they do to each other.

use alloc::{vec, vec::Vec};

use crate::{
    PROOF_TOLERANCE,
    joint::{Interaction, Joint},
};

use super::{LOOKUP_WORK, Pending, Search};

/// Lower bounds of what all unplaced jobs add together, by child.
#[derive(Default)]
pub(super) struct Foresight {
    /// By place in the list of unplaced jobs: (shift, bound), by shift.
    of: Vec<Vec<(u64, f64)>>,
}

impl Foresight {
    /// What all unplaced jobs add at least if that one stands at `shift`; zero where nothing is known.
    pub(super) fn at(&self, unplaced: usize, shift: u64) -> f64 {
        let known = self.of.get(unplaced).map_or(&[][..], |of| of);
        known.binary_search_by_key(&shift, |k| k.0).map_or(0.0, |i| known[i].1)
    }
}

/// Where an unplaced job may stand beside the placed ones.
struct Place {
    shift: u64,
    cost: f64,
    /// What each unplaced job adds at least beside the placed ones and this; empty where the place is out of question.
    least: Vec<f64>,
}

/// The interaction of two unplaced jobs on each of their common circles, and its scale.
type Tables = Option<Vec<(f64, Joint)>>;

/// One look at a node.
struct Look<'p, 'a> {
    pending: &'p [Pending<'a>],
    /// By job, by shift.
    places: Vec<Vec<Place>>,
    /// By job, the same by cost: (cost, shift).
    ranked: Vec<Vec<(f64, u64)>>,
    /// By pair, the lower place first.
    tables: Vec<Tables>,
    /// By pair: what the two add at least beside the placed jobs.
    pairs: Vec<f64>,
}

impl Look<'_, '_> {
    fn pair(&self, a: usize, b: usize) -> usize {
        a.min(b) * self.pending.len() + a.max(b)
    }

    /// What jobs add at least of which the single ones add that much: the best split. `left` is a set, as bits.
    fn split(&self, left: u32, single: &[f64]) -> f64 {
        let Some(first) = (0..single.len()).find(|&j| left >> j & 1 == 1) else { return 0.0 };
        let rest = left & !(1 << first);
        let mut most = single[first] + self.split(rest, single);
        for other in (first + 1..single.len()).filter(|&j| rest >> j & 1 == 1) {
            most = most.max(self.pairs[self.pair(first, other)] + self.split(rest & !(1 << other), single));
        }
        most
    }
}

impl<'a> Search<'a> {
    /// Bounds the children of a node of which all jobs together may add `room`. `spent` is the work of bounding the node itself,
    /// which each child would be too.
    pub(super) fn foresee(&mut self, pending: &[Pending<'a>], with_floors: f64, spent: u64) -> Foresight {
        let n = pending.len();
        let room = self.best.cost - PROOF_TOLERANCE - with_floors;
        let least: Vec<f64> = pending.iter().map(|p| p.least).collect();
        let all: f64 = least.iter().sum();
        let mut look = Look { pending, places: Vec::new(), ranked: Vec::new(), tables: Vec::new(), pairs: vec![0.0; n * n] };
        for p in pending {
            let (places, ranked) = places(p);
            look.places.push(places);
            look.ranked.push(ranked);
        }
        let open = |p: &Pending<'_>, at: &Place| at.cost + all - p.least < room;
        let asked = pending.iter().zip(&look.places).map(|(p, at)| at.iter().filter(|at| open(p, at)).count() as u64).sum();
        for a in 0..n {
            for b in 0..n {
                let tables = if a < b { self.joints([pending[a].job, pending[b].job], asked, spent) } else { None };
                look.tables.push(tables);
                look.pairs[a * n + b] = least[a] + least[b];
            }
        }
        if look.tables.iter().all(Option::is_none) {
            return Foresight::default();
        }
        let mut curves = vec![Interaction::default(); self.group.circles.len()];
        for a in 0..n {
            for k in 0..look.places[a].len() {
                let at = &look.places[a][k];
                let shift = at.shift;
                if open(&pending[a], at) && self.total.work < self.work_end {
                    self.placed[pending[a].job] = Some(shift);
                    let least = (0..n).map(|b| if b == a { 0.0 } else { self.least_beside(&look, a, shift, b, &mut curves) }).collect();
                    self.placed[pending[a].job] = None;
                    look.places[a][k].least = least;
                }
            }
        }
        for a in 0..n {
            for b in a + 1..n {
                // One of the two hangs on a placed job, and the other finds its best beside it.
                let first = |a: usize, b: usize| {
                    let beside = |at: &Place| at.cost + at.least.get(b).copied().unwrap_or(least[b]);
                    look.places[a].iter().map(beside).fold(f64::INFINITY, f64::min)
                };
                let pair = first(a, b).min(first(b, a));
                let at = look.pair(a, b);
                look.pairs[at] = pair.max(least[a] + least[b]);
            }
        }
        let bounds = |a: usize| {
            let others = ((1_u32 << n) - 1) & !(1 << a);
            let bound = |at: &Place| (at.shift, at.cost + look.split(others, if at.least.is_empty() { &least } else { &at.least }));
            look.places[a].iter().map(bound).collect()
        };
        Foresight { of: (0..n).map(bounds).collect() }
    }

    /// What `b` adds at least beside the placed jobs and `a`, just placed at `shift`.
    fn least_beside(&mut self, look: &Look<'_, 'a>, a: usize, shift: u64, b: usize, curves: &mut [Interaction]) -> f64 {
        let alone = &look.pending[b];
        let Some(tables) = look.tables[look.pair(a, b)].as_deref() else { return alone.least };
        let (job, head) = (alone.job, look.pending[a].job);
        let mut shifts = Vec::new();
        let mut complete = self.ties.vertices(self.group, job, head, &self.placed, &mut shifts);
        // Where it may stand beside the others is known, unless that depends on the one just placed.
        let depends = self.order.iter().any(|&h| self.ties.depends(self.group, job, h, head));
        for &h in self.order.iter().filter(|_| depends) {
            complete &= self.ties.vertices(self.group, job, h, &self.placed, &mut shifts);
        }
        if !complete {
            return alone.least;
        }
        let which = usize::from(a > b);
        for (curve, (_, joint)) in curves.iter_mut().zip(tables) {
            joint.with(which, shift, curve, &mut self.total.work);
        }
        self.total.work += 4 + alone.work() * shifts.len() as u64;
        let mut least = f64::INFINITY;
        let mut looks = 0;
        let mut look_at = |cost: f64, at: u64| {
            if cost < least {
                looks += 1;
                let both = curves.iter().zip(tables).map(|(curve, (scale, joint))| scale * joint.at(which, curve, at)).sum::<f64>();
                least = least.min(cost + both);
            }
        };
        if !depends {
            look.ranked[b].iter().for_each(|&(cost, at)| look_at(cost, at));
        }
        shifts.iter().for_each(|&at| look_at(alone.cost(at), at));
        self.total.work += LOOKUP_WORK * looks;
        least.max(alone.least)
    }
}

fn places(p: &Pending<'_>) -> (Vec<Place>, Vec<(f64, u64)>) {
    let mut places: Vec<Place> = p.alignments.iter().map(|a| Place { shift: a.2, cost: a.1, least: Vec::new() }).collect();
    places.sort_unstable_by_key(|a| a.shift);
    places.dedup_by_key(|a| a.shift);
    let mut ranked: Vec<(f64, u64)> = places.iter().map(|a| (a.cost, a.shift)).collect();
    ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    (places, ranked)
}
