//! Robust shifts: the best worst case while any one job drifts by up to a given amount.
//!
//! While one job drifts, all other jobs hold. So the worst case is what all links lose, and on top of that the most that the drift
//! of a single job adds: the components of the affinity graph share that one addition. A component may therefore add as
//! much as the worst of the others does at no price, and only what it adds beyond is worth a loss.

use alloc::{vec, vec::Vec};

use rayon::prelude::*;

use super::curve::{Curve, Drift};
use crate::{
    PROOF_TOLERANCE,
    budget::Budget,
    demand::sum::{Presence, Workspace},
    search::group::Group,
};

/// Sweeps over the jobs of a component.
const SWEEPS_MAX: usize = 6;
/// Most levels of the shared addition that are tried: each hardens every component again.
const LEVELS_MAX: usize = 12;
/// Least work that may be spent on the drift of one job, about a millisecond, however many jobs there are.
const DRIFT_WORK_MIN: u64 = 1 << 17;

/// A connected component of the affinity graph.
pub(crate) struct Component {
    pub(crate) group: Group,
    /// Shift of each of its jobs.
    pub(crate) shifts: Vec<u64>,
    /// No shifts cost less, drift aside.
    pub(crate) bound: f64,
}

/// The worst case of all components together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Robustness {
    /// Cost while no job drifts.
    pub(crate) cost: f64,
    /// The most that the drift of one job adds.
    pub(crate) added: f64,
    /// Otherwise `added` is only what no drift can exceed.
    pub(crate) exact: bool,
    /// No shifts have a lower sum of cost and addition.
    pub(crate) bound: f64,
}

/// Shifts of a component and what its jobs' drifts add.
#[derive(Clone, Debug)]
struct Stand {
    shifts: Vec<u64>,
    cost: f64,
    drifts: Vec<Drift>,
}

impl Stand {
    fn new(at: &Component, shifts: Vec<u64>, rules: Rules<'_>, workspace: &mut Workspace) -> Self {
        let work = rules.drift_work(shifts.len());
        let drifts = (0..shifts.len()).map(|job| Drift::of(&at.group, job, &shifts, rules.drift, work, workspace)).collect();
        Self { cost: at.group.cost(&shifts, workspace), shifts, drifts }
    }

    fn added(&self) -> f64 {
        self.drifts.iter().map(|d| d.added).fold(0.0, f64::max)
    }

    /// The largest addition is known, not just what it cannot exceed.
    fn exact(&self) -> bool {
        let known = self.drifts.iter().filter(|d| d.exact).map(|d| d.added).fold(0.0, f64::max);
        self.drifts.iter().all(|d| d.exact || d.added <= known)
    }
}

/// What drifts, and how much work all looks at a component may cost.
#[derive(Clone, Copy)]
struct Rules<'a> {
    drift: u64,
    budget: &'a Budget,
}

impl Rules<'_> {
    fn drift_work(self, jobs: usize) -> u64 {
        (self.budget.left() / jobs as u64).max(DRIFT_WORK_MIN)
    }

    /// For one look at a component: it is looked at as it stands, alone, and once for each level.
    fn workspace(self) -> Workspace {
        let mut budget = self.budget.clone();
        // Each look has a budget of its own, so the answer does not depend on the order in which threads come.
        budget.narrow(budget.left() / (LEVELS_MAX as u64 + 2));
        Workspace::new(budget)
    }
}

/// Moves the shifts of the components to lower their common worst case, and says what it is and how low it could be.
/// `budget`: what each of them may take.
pub(crate) fn harden(components: &mut [Component], drift: u64, budget: &Budget) -> Robustness {
    let rules = Rules { drift, budget };
    let plain: Vec<Stand> = components.par_iter().map(|c| Stand::new(c, c.shifts.clone(), rules, &mut rules.workspace())).collect();
    // Each for itself, and whether the result is known to be the lowest.
    let alone: Vec<(Stand, bool)> = components.par_iter().zip(&plain).map(|(c, plain)| lowered(c, plain, 0.0, rules)).collect();
    let mut best: Vec<Stand> = plain.clone();
    let mut least = worst(&best);
    for level in levels(&plain, &alone) {
        let stands = components.par_iter().zip(&plain).zip(&alone).map(|((component, plain), (alone, _))| {
            // An addition up to the level is free, so the component stays where its score is best.
            if plain.added() <= level {
                plain.clone()
            } else if level <= alone.added() {
                // Hardened alone, the component adds at least the level, so its worst case is the same with the level as without.
                alone.clone()
            } else {
                lowered(component, plain, level, rules).0
            }
        });
        let stands: Vec<Stand> = stands.collect();
        let worst = worst(&stands);
        // The plain shifts win a tie: their score while no job drifts is the best that was found.
        if worst < least - PROOF_TOLERANCE {
            (best, least) = (stands, worst);
        }
    }
    for (component, stand) in components.iter_mut().zip(&best) {
        component.shifts.clone_from(&stand.shifts);
    }
    let bounds: f64 = components.iter().map(|c| c.bound).sum();
    // Whichever job drifts, the other components cost at least their bounds.
    let one =
        |(component, (stand, lowest)): (&Component, &(Stand, bool))| lowest.then(|| bounds - component.bound + stand.cost + stand.added());
    let bound = components.iter().zip(&alone).filter_map(one).fold(bounds, f64::max);
    let added = best.iter().map(Stand::added).fold(0.0, f64::max);
    // An addition that is only a bound does no harm where a known one is at least as large.
    let known = best.iter().filter(|s| s.exact()).map(Stand::added).fold(0.0, f64::max);
    Robustness { cost: best.iter().map(|s| s.cost).sum(), added, exact: added <= known, bound }
}

fn worst(stands: &[Stand]) -> f64 {
    stands.iter().map(|s| s.cost).sum::<f64>() + stands.iter().map(Stand::added).fold(0.0, f64::max)
}

/// Levels of the shared addition worth a try: what the components add when left alone and when hardened each for itself.
fn levels(plain: &[Stand], alone: &[(Stand, bool)]) -> Vec<f64> {
    let mut levels: Vec<f64> = plain.iter().chain(alone.iter().map(|a| &a.0)).map(Stand::added).collect();
    // Below the largest addition of a component hardened for itself, only that one counts; from the largest plain addition
    // on, no component moves.
    let from = alone.iter().map(|a| a.0.added()).fold(0.0, f64::max);
    levels.retain(|l| *l >= from);
    levels.sort_unstable_by(f64::total_cmp);
    levels.dedup();
    // Every `step`-th level is tried, so the levels that are tried spread over the whole range.
    let step = levels.len().div_ceil(LEVELS_MAX).max(1);
    let mut levels: Vec<f64> = levels.into_iter().step_by(step).collect();
    // At level 0 every component is hardened for itself.
    levels.insert(0, 0.0);
    levels
}

/// The component with less of `cost + max(addition, others)`, by one job after the other; and whether no shifts have less.
fn lowered(component: &Component, plain: &Stand, others: f64, rules: Rules<'_>) -> (Stand, bool) {
    let group = &component.group;
    let mut workspace = rules.workspace();
    let mut stand = plain.clone();
    let jobs = stand.shifts.len();
    let mut seen = false;
    // A move of one job changes the worst cases of its neighbours, so one sweep is not enough; the bound on sweeps is one
    // on time, since each sweep lowers the cost or ends the loop.
    for _ in 0..SWEEPS_MAX {
        let before = stand.cost + stand.added().max(others);
        for job in 0..jobs {
            // An addition below that of the other components is free, so nothing is left to lower.
            if stand.added() <= others + PROOF_TOLERANCE || workspace.budget.is_spent() {
                break;
            }
            seen |= moves(group, job, &mut stand, others, rules, &mut workspace);
        }
        if stand.cost + stand.added().max(others) >= before - PROOF_TOLERANCE {
            break;
        }
    }
    // A stand whose cost is its bound, and which adds no more than the others do, cannot be beaten.
    let unharmed = stand.cost + stand.added().max(others) <= component.bound + others + PROOF_TOLERANCE;
    // Of two jobs only the difference counts, so one look at all shifts of either sees everything.
    let lowest = stand.exact() && (jobs == 2 && seen || unharmed);
    (stand, lowest)
}

/// Moves `job` to where its own worst case is lowest, if that lowers the component's. Returns whether all its shifts were compared.
fn moves(group: &Group, job: usize, stand: &mut Stand, others: f64, rules: Rules<'_>, workspace: &mut Workspace) -> bool {
    let Some(curve) = Curve::new(group, job, &stand.shifts, rules.budget.left() / 2, workspace) else { return false };
    let near = neighbours(group, job);
    let is_near = |j: &usize| near.binary_search(j).is_ok();
    // A job that shares no circle with `job` has the same worst case wherever `job` stands.
    let elsewhere = (0..stand.shifts.len()).filter(|j| !is_near(j)).map(|j| stand.drifts[j].added).fold(others, f64::max);
    workspace.budget.charge(stand.shifts.len() as u64);
    let (shift, _) = curve.lowest(rules.drift, elsewhere);
    let old = core::mem::replace(&mut stand.shifts[job], shift);
    if shift == old {
        return true;
    }
    let work = rules.drift_work(stand.shifts.len());
    let drifts: Vec<Drift> = near.iter().map(|&j| Drift::of(group, j, &stand.shifts, rules.drift, work, workspace)).collect();
    let response = group.response(job, |other| Presence::At(stand.shifts[other]), workspace);
    let cost = stand.cost - response.at(old) + response.at(shift);
    let added = drifts.iter().map(|d| d.added).fold(elsewhere, f64::max);
    // The curve knows the worst case of `job` only; the neighbours are looked at where it leads, and may veto the move.
    let compared = drifts.iter().all(|d| d.exact);
    if cost + added < stand.cost + stand.added().max(others) - PROOF_TOLERANCE {
        stand.cost = cost;
        for (&j, drift) in near.iter().zip(drifts) {
            stand.drifts[j] = drift;
        }
    } else {
        stand.shifts[job] = old;
    }
    compared
}

/// The job itself and those it shares a circle with, ascending.
fn neighbours(group: &Group, job: usize) -> Vec<usize> {
    let mut out = vec![job];
    out.extend(group.jobs[job].on.iter().flat_map(|&(c, _)| group.circles[c].members.iter().map(|m| m.job)));
    out.sort_unstable();
    out.dedup();
    out
}
