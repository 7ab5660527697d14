//! What one job costs at every shift while the others stand still: linear between its kinks, so that the kinks say it all.

use alloc::{vec, vec::Vec};

use crate::{
    demand::{
        marginal::LOOKUP_WORK,
        sum::{Presence, Workspace},
    },
    search::group::Group,
};

/// Most kinks of one curve: 16 MiB with their costs.
const KINKS_MAX: usize = 1 << 20;

/// Kinks that a job may have if looking at all of them is to cost at most `work`.
fn kinks_max(group: &Group, job: usize, work: u64) -> usize {
    KINKS_MAX.min((work / (LOOKUP_WORK * group.spans(job)).max(1)) as usize)
}

/// Shifts of `job` at which one of its edges meets an edge of another job, as distances from `from` of at most `length`, which is
/// below its lock. `None` if there are more than `most`.
fn kinks(group: &Group, job: usize, shifts: &[u64], from: u64, length: u64, most: usize, workspace: &mut Workspace) -> Option<Vec<u64>> {
    let mut out = Vec::new();
    for other in (0..shifts.len()).filter(|&o| o != job) {
        if workspace.budget.is_spent() {
            return None;
        }
        for common in group.common(job, other) {
            let g = common.modulus;
            let before = out.len();
            let mut too_many = false;
            common.for_each_meeting(|meeting| {
                // The meeting repeats modulo `g`; this is its first place at or after `from`.
                let first = (meeting.apart + shifts[other] % g + g - from % g) % g;
                let turns = if first > length || too_many { 0 } else { (length - first) / g + 1 };
                for turn in 0..turns {
                    // Sorting only at twice the limit keeps the cost of a kink logarithmic, and the memory bounded.
                    if out.len() >= 2 * most {
                        tidy(&mut out);
                        if out.len() > most {
                            too_many = true;
                            return;
                        }
                    }
                    out.push(first + turn * g);
                }
            });
            if too_many {
                return None;
            }
            workspace.budget.charge(common.count() + out.len().saturating_sub(before) as u64);
        }
    }
    tidy(&mut out);
    workspace.budget.charge(out.len() as u64);
    (out.len() <= most).then_some(out)
}

fn tidy(kinks: &mut Vec<u64>) {
    kinks.sort_unstable();
    kinks.dedup();
}

/// What the drift of a job costs at worst, over what it costs where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drift {
    pub(crate) added: f64,
    /// Otherwise `added` is only what it cannot exceed.
    pub(crate) exact: bool,
}

impl Drift {
    /// Of `job` while it is up to `drift` ticks early or late; at most `work` is spent on it.
    pub(crate) fn of(group: &Group, job: usize, shifts: &[u64], drift: u64, work: u64, workspace: &mut Workspace) -> Self {
        if workspace.budget.is_spent() {
            // A job cannot add more excess than it has demand.
            return Self { added: demand(group, job), exact: false };
        }
        let lock = group.jobs[job].lock;
        let response = group.response(job, |other| Presence::At(shifts[other]), workspace);
        let at = |shift| response.at(shift);
        let here = shifts[job] % lock;
        let (from, length) = if covers(drift, lock) { (0, lock - 1) } else { ((here + lock - drift) % lock, 2 * drift) };
        let Some(kinks) = kinks(group, job, shifts, from, length, kinks_max(group, job, work), workspace) else {
            // A job cannot add more excess than it has demand.
            return Self { added: demand(group, job) - at(here), exact: false };
        };
        workspace.budget.charge(LOOKUP_WORK * group.spans(job) * (kinks.len() as u64 + 3));
        let cost = at(here);
        // The cost is linear between kinks, so the worst case lies at a kink or at an end of the window.
        let worst = kinks.into_iter().chain([0, length]).map(|d| at(from + d)).fold(cost, f64::max);
        Self { added: worst - cost, exact: true }
    }
}

/// Whether a drift of that much reaches every shift.
fn covers(drift: u64, lock: u64) -> bool {
    // The window has `2 * drift + 1` ticks, which is the whole lock from here on, for even and odd locks.
    drift >= lock / 2
}

/// The score that all demand of a job is worth.
fn demand(group: &Group, job: usize) -> f64 {
    let on = |&(c, m): &(usize, usize)| {
        let circle = &group.circles[c];
        circle.members[m].folded.mean * circle.perimeter as f64 * circle.weight
    };
    group.jobs[job].on.iter().map(on).sum()
}

/// One job's cost around its lock.
pub(crate) struct Curve {
    lock: u64,
    /// Ascending, never empty.
    kinks: Vec<u64>,
    /// The largest cost of stretches of kinks, as a segment tree: the costs themselves are its second half.
    largest: Vec<f64>,
}

impl Curve {
    /// `None` if that would cost more than `work`.
    pub(crate) fn new(group: &Group, job: usize, shifts: &[u64], work: u64, workspace: &mut Workspace) -> Option<Self> {
        let lock = group.jobs[job].lock;
        let mut kinks = kinks(group, job, shifts, 0, lock - 1, kinks_max(group, job, work), workspace)?;
        // A cost without kinks is constant, and one point describes it.
        if kinks.is_empty() {
            kinks.push(0);
        }
        let response = group.response(job, |other| Presence::At(shifts[other]), workspace);
        let n = kinks.len();
        let mut largest = vec![0.0; n];
        largest.extend(kinks.iter().map(|&k| response.at(k)));
        // Node `i` covers nodes `2 * i` and `2 * i + 1`, and the leaves are nodes `n` to `2 * n - 1`; any `n` will do.
        for i in (1..n).rev() {
            largest[i] = f64::max(largest[2 * i], largest[2 * i + 1]);
        }
        // Some 20 steps for each of the three times as many points of `lowest`.
        workspace.budget.charge((LOOKUP_WORK * group.spans(job) + 60) * n as u64);
        Some(Self { lock, kinks, largest })
    }

    /// What the job costs at `shift`.
    pub(crate) fn at(&self, shift: u64) -> f64 {
        let (shift, n) = (shift % self.lock, self.kinks.len());
        let next = self.kinks.partition_point(|k| *k <= shift);
        let (before, after) = ((next + n - 1) % n, next % n);
        let apart = |from: u64, to: u64| (to + self.lock - from) % self.lock;
        let (low, high) = (self.largest[n + before], self.largest[n + after]);
        match apart(self.kinks[before], self.kinks[after]) {
            // Only a single kink is its own neighbour on both sides.
            0 => low,
            length => low + (high - low) * (apart(self.kinks[before], shift) as f64 / length as f64),
        }
    }

    /// The largest cost at the kinks from `from` to `to`, which may lie beyond the lock.
    fn largest(&self, from: u64, to: u64) -> f64 {
        let index = |end: u64| self.kinks.partition_point(|k| *k < end);
        if to < self.lock {
            self.largest_of(index(from), index(to + 1))
        } else {
            self.largest_of(index(from), self.kinks.len()).max(self.largest_of(0, index(to - self.lock + 1)))
        }
    }

    fn largest_of(&self, from: usize, to: usize) -> f64 {
        let (mut from, mut to) = (from + self.kinks.len(), to + self.kinks.len());
        let mut out = f64::NEG_INFINITY;
        // A right child at the left border, or a left child at the right border, has its sibling outside and is taken by itself;
        // the rest is left to the parents. There are as many rounds as levels.
        while from < to {
            if from % 2 == 1 {
                out = out.max(self.largest[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                out = out.max(self.largest[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        out
    }

    /// The shift with the smallest `max(worst cost within drift, cost + others)`, and that.
    ///
    /// Between the kinks and the kinks moved by the drift either way the kinks within the drift stay the same ones, and the costs
    /// at both ends and in the middle are linear. Their maximum is convex, hence smallest at an end or where two of them cross.
    pub(crate) fn lowest(&self, drift: u64, others: f64) -> (u64, f64) {
        let lock = self.lock;
        // A drift that reaches every shift has the same worst case everywhere, so no moved kinks are needed.
        let all = covers(drift, lock).then(|| self.largest_of(0, self.kinks.len()));
        let mut points = self.kinks.clone();
        if all.is_none() {
            points.extend(self.kinks.iter().flat_map(|k| [(k + drift) % lock, (k + lock - drift) % lock]));
            tidy(&mut points);
        }
        // The three lines of section 9: the cost in place with the addition of other jobs, and the cost at both ends of the drift.
        let lines = |s: u64| {
            let middle = self.at(s) + others;
            all.map_or_else(|| [middle, self.at(s + lock - drift), self.at(s + drift)], |all| [middle, all, all])
        };
        let mut best = (0, f64::INFINITY);
        let first = lines(points[0]);
        let mut left = first;
        for (i, &from) in points.iter().enumerate() {
            // The stretch behind the last point leads around to the first.
            let (to, right) = points.get(i + 1).map_or((points[0] + lock, first), |&to| (to, lines(to)));
            let inside = match all {
                None if to - from <= 2 * drift => {
                    // Kinks from `to - drift` to `from + drift` are within the drift for every shift of the stretch.
                    let start = (to + lock - drift) % lock;
                    self.largest(start, start + 2 * drift - (to - from))
                }
                _ => f64::NEG_INFINITY,
            };
            // The kinks inside bound the worst case of the stretch from below, so a stretch that cannot win is passed over.
            if inside < best.1 {
                let length = (to - from) as f64;
                let value = |d: u64| {
                    let line = |i: usize| left[i] + (right[i] - left[i]) * (d as f64 / length);
                    line(0).max(line(1)).max(line(2)).max(inside)
                };
                let crossing = |(i, j): (usize, usize)| {
                    let (a, b) = (left[i] - left[j], right[i] - right[j]);
                    (a * b < 0.0).then(|| (length * (a / (a - b))) as u64)
                };
                // A crossing lies between two ticks; the maximum is convex, so one of these two is the best tick near it.
                let crossings = [(0, 1), (0, 2), (1, 2)].into_iter().filter_map(crossing).flat_map(|d| [d, d + 1]);
                for d in [0].into_iter().chain(crossings.filter(|d| *d < to - from)) {
                    let worst = value(d);
                    if worst < best.1 {
                        best = ((from + d) % lock, worst);
                    }
                }
            }
            left = right;
        }
        best
    }
}
