//! Robust shifts: the best worst case while any one job drifts by up to a given amount.

use alloc::vec::Vec;

use crate::{
    PROOF_TOLERANCE,
    group::{Group, GroupResponse},
    total::{Presence, Total},
};

/// Sweeps over the jobs of a group.
const SWEEPS_MAX: usize = 6;
/// Most points at which the worst case of one job is evaluated per sweep.
const POINTS_MAX: usize = 6_000;

/// One job's cost as a function of its shift, with the kinks at which its slope may change.
struct Curve<'a> {
    group: &'a Group,
    job: usize,
    response: GroupResponse,
    kinks: Vec<u64>,
    /// Set when not all kinks were kept: no shift of the job can cost more than this.
    ceiling: Option<f64>,
}

impl<'a> Curve<'a> {
    fn new(group: &'a Group, job: usize, shifts: &[u64], total: &mut Total) -> Self {
        let mut kinks = Vec::new();
        let mut complete = true;
        for (other, &shift) in shifts.iter().enumerate().filter(|o| o.0 != job) {
            complete &= group.alignments(job, other, shift, false, &mut kinks);
        }
        kinks.sort_unstable();
        kinks.dedup();
        // A job cannot add more excess than it has demand.
        let demand = |&(c, m): &(usize, usize)| {
            let circle = &group.circles[c];
            circle.members[m].folded.mean * circle.perimeter as f64 * circle.weight
        };
        let ceiling = (!complete).then(|| group.jobs[job].on.iter().map(demand).sum());
        Self { group, job, response: group.response(job, |other| Presence::At(shifts[other]), total), kinks, ceiling }
    }

    fn lock(&self) -> u64 {
        self.group.jobs[self.job].lock
    }

    fn at(&self, shift: u64) -> f64 {
        self.response.at(self.group, self.job, shift)
    }

    /// Largest cost within `drift` of `shift`: at the ends of the window or at a kink inside.
    fn worst(&self, shift: u64, drift: u64) -> f64 {
        if let Some(ceiling) = self.ceiling {
            return ceiling;
        }
        let lock = self.lock();
        if self.meets_everything(drift) {
            return self.kinks.iter().map(|&k| self.at(k)).fold(self.at(shift), f64::max);
        }
        let from = (shift % lock + lock - drift) % lock;
        let inside = |k: u64| (k + lock - from) % lock <= 2 * drift;
        let ends = self.at(from).max(self.at(from + 2 * drift));
        self.kinks.iter().filter(|&&k| inside(k)).map(|&k| self.at(k)).fold(ends, f64::max)
    }

    /// The window is a whole turn: the worst case is the same for all shifts.
    fn meets_everything(&self, drift: u64) -> bool {
        drift >= self.lock().div_ceil(2)
    }

    /// The shift with the smallest [`Self::worst`]; `None` if there is nothing to choose. That function is linear between the kinks
    /// moved by 0 and +-drift, except where its two window ends cost the same: so those points suffice.
    fn best(&self, drift: u64) -> Option<(u64, f64)> {
        let lock = self.lock();
        if self.ceiling.is_some() || self.meets_everything(drift) {
            return None;
        }
        let mut points: Vec<u64> = self.kinks.iter().flat_map(|&k| [k, (k + drift) % lock, (k + lock - drift) % lock]).collect();
        points.sort_unstable();
        points.dedup();
        if points.len() > POINTS_MAX {
            return None;
        }
        let segments: Vec<(u64, u64)> =
            points.iter().enumerate().map(|(i, &p)| (p, points.get(i + 1).copied().unwrap_or(points[0] + lock))).collect();
        for (from, to) in segments {
            let gap = |s: u64| self.at(s + drift) - self.at(s + lock - drift);
            let (a, b) = (gap(from), gap(to));
            if a * b < 0.0 {
                let cross = from + ((to - from) as f64 * (a / (a - b))) as u64;
                points.extend([cross % lock, (cross + 1) % lock]);
            }
        }
        points.into_iter().map(|p| (p, self.worst(p, drift))).min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
    }
}

/// Worst cost of the group for each job's drift, by job.
pub(crate) fn worst_costs(group: &Group, shifts: &[u64], drift: u64, total: &mut Total) -> Vec<f64> {
    let cost = group.cost(shifts, total);
    (0..shifts.len())
        .map(|job| {
            let curve = Curve::new(group, job, shifts, total);
            cost - curve.at(shifts[job]) + curve.worst(shifts[job], drift)
        })
        .collect()
}

fn worst_cost(group: &Group, shifts: &[u64], drift: u64, total: &mut Total) -> f64 {
    worst_costs(group, shifts, drift, total).into_iter().fold(0.0, f64::max)
}

/// Moves the shifts to lower the worst cost of the group; exact for two jobs, descent beyond.
/// Returns the worst cost.
pub(crate) fn harden(group: &Group, shifts: &mut [u64], drift: u64, total: &mut Total) -> f64 {
    let mut worst = worst_cost(group, shifts, drift, total);
    for _ in 0..SWEEPS_MAX {
        let before = worst;
        for job in 0..shifts.len() {
            let curve = Curve::new(group, job, shifts, total);
            let Some((shift, _)) = curve.best(drift) else { continue };
            let old = core::mem::replace(&mut shifts[job], shift);
            let moved = worst_cost(group, shifts, drift, total);
            if moved < worst - PROOF_TOLERANCE {
                worst = moved;
            } else {
                shifts[job] = old;
            }
        }
        if worst >= before - PROOF_TOLERANCE {
            break;
        }
    }
    worst
}
