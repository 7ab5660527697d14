//! A group: jobs and circles that must be optimised together, and the cost of their shifts.
//!
//! A single link with its jobs is a group; so are all links of a block of the affinity graph that
//! holds a loop. The cost is the loss in the sum of link scores, so costs of groups add up.

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;

use crate::{
    circle_response::CircleResponse,
    mixed::{self, Mixed, SUMMANDS_MAX},
    solution::Effort,
    total::{Circle, OnCircle, Presence, Total},
};

/// Up to this many times the pieces of its jobs, a circle is swept as a whole.
const PLAIN_REPEATS: u64 = 5;
/// A circle of so few pieces is swept in a few microseconds.
const SWEEP_PIECES: u64 = 256;
/// Fewest alignments of a pair that are kept, however many phases the jobs have.
const ALIGNMENTS_MIN: u64 = 64;
/// The same where many groups share the work.
const ALIGNMENTS_MIN_SHARED: u64 = 8;
/// A group with less work than this, in units of 10 ns, shares with many.
const WORK_SHARED: u64 = 1_000_000;
/// Work on a group, for each ordered pair of its jobs, per lookup that one alignment of the pair may take.
const WORK_PER_LOOKUP: u64 = 4;

/// One job of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupJob {
    /// Its shift matters modulo this: the LCM of its folded periods over the circles it is on.
    pub(crate) lock: u64,
    /// (circle, member index) pairs.
    pub(crate) on: Vec<(usize, usize)>,
    /// Mean demand over capacity, summed over its circles: the big ones are placed first.
    pub(crate) weight: f64,
}

/// Jobs and circles that must be optimised together.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The jobs; shifts are indexed alike.
    pub(crate) jobs: Vec<GroupJob>,
    /// The circles.
    pub(crate) circles: Vec<Circle>,
    /// Of each circle, whether it is swept as a whole: otherwise sums of its jobs on smaller circles are shorter (`mixed`).
    pub(crate) plain: Vec<bool>,
    /// The same where something is asked once only, and folding sums takes longer than a short sweep.
    swept: Vec<bool>,
    /// Most lookups spent on the alignments of one pair of jobs: alignments times pieces.
    lookups_max: u64,
    /// But at least so many alignments.
    alignments_min: u64,
}

impl Group {
    /// Groups circles whose members' `job` fields index `0..jobs`.
    pub(crate) fn new(jobs: usize, circles: Vec<Circle>, effort: Effort) -> Self {
        let mut group_jobs: Vec<GroupJob> = (0..jobs).map(|_| GroupJob { lock: 1, on: Vec::new(), weight: 0.0 }).collect();
        for (c, circle) in circles.iter().enumerate() {
            for (m, on) in circle.members.iter().enumerate() {
                let job = &mut group_jobs[on.job];
                // All folded periods divide the job's period, so their LCM does too.
                job.lock = job.lock.lcm(&on.folded.period);
                job.on.push((c, m));
                job.weight += on.folded.mean / circle.capacity;
            }
        }
        let plain: Vec<bool> = circles.iter().map(is_plain).collect();
        let swept = circles.iter().zip(&plain).map(|(circle, plain)| *plain || pieces(circle) <= SWEEP_PIECES).collect();
        Self { jobs: group_jobs, circles, plain, swept, lookups_max: effort.lookups_max(), alignments_min: ALIGNMENTS_MIN }
    }

    /// Lookups that one shift of a job costs, in pairs.
    pub(crate) fn spans(&self, job: usize) -> u64 {
        self.jobs[job].on.iter().map(|&(c, m)| self.circles[c].members[m].folded.spans.len() as u64).sum()
    }

    /// Fits the alignments that are looked at to the work that the group may spend.
    pub(crate) fn limit(&mut self, effort: Effort, work_max: u64) {
        self.lookups_max = effort.lookups_max();
        if effort != Effort::Fast && work_max < WORK_SHARED {
            let pairs = (self.jobs.len() * self.jobs.len().saturating_sub(1)).max(1) as u64;
            self.lookups_max = self.lookups_max.min(work_max / (WORK_PER_LOOKUP * pairs));
            self.alignments_min = ALIGNMENTS_MIN_SHARED;
        } else {
            self.alignments_min = ALIGNMENTS_MIN;
        }
    }

    /// One circle and its jobs, renumbered, as a group of its own.
    pub(crate) fn circle_alone(&self, circle: usize) -> Self {
        let mut alone = self.circles[circle].clone();
        for (job, on) in alone.members.iter_mut().enumerate() {
            on.job = job;
        }
        let (lookups_max, alignments_min) = (self.lookups_max, self.alignments_min);
        Self { lookups_max, alignments_min, ..Self::new(alone.members.len(), vec![alone], Effort::Fast) }
    }

    /// Loss in the sum of link scores under those shifts.
    pub(crate) fn cost(&self, shifts: &[u64], total: &mut Total) -> f64 {
        let cost = |(c, circle): (usize, &Circle)| self.excess(c, |job| shifts[job], total) * circle.perimeter as f64 * circle.weight;
        self.circles.iter().enumerate().map(cost).sum()
    }

    /// Mean excess on a circle under those shifts of its jobs.
    pub(crate) fn excess(&self, circle: usize, shift: impl Fn(usize) -> u64, total: &mut Total) -> f64 {
        let at = |job| Presence::At(shift(job));
        let swept = &self.circles[circle];
        if let Some((all, _)) = self.sums(circle, None, &at, 1, total) {
            return all.excess(swept.capacity);
        }
        total.sweep(swept, at);
        total.excess(swept) / swept.perimeter as f64
    }

    /// The jobs of a circle but `absent`, added up as far as `seen` sees them; `None` where it is swept.
    fn sums(
        &self,
        circle: usize,
        absent: Option<usize>,
        presence: &impl Fn(usize) -> Presence,
        seen: u64,
        total: &mut Total,
    ) -> Option<(Mixed, Mixed)> {
        let there = || self.circles[circle].members.iter().filter(|on| Some(on.job) != absent);
        let of = || there().filter_map(|on| Mixed::of(&on.folded, presence(on.job))).collect();
        if self.swept[circle] { None } else { mixed::total(of(), seen, &mut total.work) }
    }

    /// A cost that no shifts can undercut: demand beyond the capacity must go somewhere.
    pub(crate) fn mean_bound(&self) -> f64 {
        self.circles.iter().map(|c| c.fill_bound(c.members.iter().map(|m| m.folded.mean).sum())).sum()
    }

    /// How the cost answers to a shift of `job`, the others being present as `others` says.
    pub(crate) fn response(&self, job: usize, others: impl Fn(usize) -> Presence, total: &mut Total) -> GroupResponse<'_> {
        let part = |&(c, m): &(usize, usize)| {
            let circle = &self.circles[c];
            let sums = self.sums(c, Some(job), &others, circle.members[m].folded.period, total);
            CircleResponse::new(circle, m, sums, &others, total)
        };
        GroupResponse { parts: self.jobs[job].on.iter().map(part).collect() }
    }

    /// Shifts of `job` at which one of its edges meets an edge of `other`, placed at `shift`:
    /// only pairs of a rising and a falling edge when `convex`, for an optimum needs no others
    /// (back-to-back lemma, docs/model.md); pairs of equal sign too otherwise.
    /// Returns false if there were too many and only an even selection was taken.
    pub(crate) fn alignments(&self, job: usize, other: usize, shift: u64, convex: bool, into: &mut Vec<u64>) -> bool {
        self.alignments_within(job, other, shift, convex, self.jobs[job].lock, into)
    }

    /// The same below `within`, a multiple of what locks the two, where the shift of `job` matters modulo that only.
    pub(crate) fn alignments_within(&self, job: usize, other: usize, shift: u64, convex: bool, within: u64, into: &mut Vec<u64>) -> bool {
        let mut complete = true;
        let mut before: Option<(&OnCircle, &OnCircle)> = None;
        for &(c, m) in &self.jobs[job].on {
            let circle = &self.circles[c];
            let Some(&(_, o)) = self.jobs[other].on.iter().find(|on| on.0 == c) else { continue };
            let (mine, theirs) = (&circle.members[m], &circle.members[o]);
            let g = mine.folded.period.gcd(&theirs.folded.period);
            // Two jobs that meet on many links mostly bring the same edges to all of them.
            let again = |b: (&OnCircle, &OnCircle)| b.0.meets_as(mine) && b.1.meets_as(theirs);
            if g == 1 || before.replace((mine, theirs)).is_some_and(again) {
                continue;
            }
            let turns = within / g;
            let most = self.alignments_max(mine.folded.starts.len() as u64);
            let pairs = (mine.edges.len() as u64 * theirs.edges.len() as u64).max(1);
            let (pair_step, turn_step) = (pairs.div_ceil(most), turns.div_ceil((most / pairs).max(1)));
            complete &= pair_step == 1 && turn_step == 1;
            let both = theirs.edges.iter().flat_map(|t| mine.edges.iter().map(move |m| (t, m)));
            for (&(edge, rises), &(own, own_rises)) in both.step_by(pair_step as usize) {
                if convex && rises == own_rises {
                    continue;
                }
                let meets = (u128::from(edge) + u128::from(shift)) % u128::from(g);
                let base = (meets as u64 + g - own % g) % g;
                into.extend((0..turns).step_by(turn_step as usize).map(|turn| base + turn * g));
            }
        }
        complete
    }

    /// Most alignments of a pair that are looked at, where one shift takes so many lookups.
    fn alignments_max(&self, pieces: u64) -> u64 {
        (self.lookups_max / pieces).max(self.alignments_min)
    }

    /// Whether so many turns of all meetings of the two are more than are looked at.
    pub(crate) fn too_many(&self, job: usize, other: usize, turns: u64) -> bool {
        self.jobs[job].on.iter().any(|&(c, m)| {
            let Some(&(_, o)) = self.jobs[other].on.iter().find(|on| on.0 == c) else { return false };
            let (mine, theirs) = (&self.circles[c].members[m], &self.circles[c].members[o]);
            let meetings = mine.edges.len() as u64 * theirs.edges.len() as u64 / 2;
            meetings * turns.max(1) > self.alignments_max(mine.folded.starts.len() as u64)
        })
    }

    /// The same in the first turn only: shifts at which a rising edge of one meets a falling edge of the other, modulo
    /// what locks the two.
    pub(crate) fn meetings(&self, job: usize, other: usize, shift: u64, into: &mut Vec<u64>) {
        for &(c, m) in &self.jobs[job].on {
            let Some(&(_, o)) = self.jobs[other].on.iter().find(|on| on.0 == c) else { continue };
            let (mine, theirs) = (&self.circles[c].members[m], &self.circles[c].members[o]);
            let g = mine.folded.period.gcd(&theirs.folded.period);
            for &(edge, rises) in theirs.edges.iter().filter(|_| g > 1) {
                let meets = (u128::from(edge) + u128::from(shift)) % u128::from(g);
                into.extend(mine.edges.iter().filter(|e| e.1 != rises).map(|e| (meets as u64 + g - e.0 % g) % g));
            }
        }
        into.sort_unstable();
        into.dedup();
    }
}

impl OnCircle {
    /// Whether the edges of both meet those of others at the same shifts, with as many lookups.
    fn meets_as(&self, other: &Self) -> bool {
        self.folded.period == other.folded.period && self.edges == other.edges && self.folded.starts.len() == other.folded.starts.len()
    }
}

impl Circle {
    /// Loss in score that demand of that mean cannot avoid.
    pub(crate) fn fill_bound(&self, mean: f64) -> f64 {
        (mean - self.capacity).max(0.0) * self.perimeter as f64 * self.weight
    }
}

/// Cost of a group as a function of one job's shift.
pub(crate) struct GroupResponse<'a> {
    parts: Vec<CircleResponse<'a>>,
}

impl GroupResponse<'_> {
    /// Cost that the job adds at `shift`.
    pub(crate) fn at(&self, shift: u64) -> f64 {
        self.parts.iter().map(|part| part.at(shift)).sum()
    }
}

/// Whether a sweep around the circle meets hardly more pieces than the jobs have, or there are too many jobs for anything else.
fn is_plain(circle: &Circle) -> bool {
    // The sum of one distribution and nothing is that distribution.
    circle.members.len() > SUMMANDS_MAX
        || circle.members.iter().filter(|on| !on.folded.is_locked()).count() <= 1
            && pieces(circle) <= PLAIN_REPEATS * circle.members.iter().map(|on| on.folded.starts.len() as u64).sum::<u64>()
}

/// Pieces that a sweep around the circle meets.
fn pieces(circle: &Circle) -> u64 {
    circle.members.iter().map(|on| circle.perimeter / on.folded.period * on.folded.starts.len() as u64).sum()
}

/// Signed edges of a demand around its period: where it rises and where it falls. Phases that
/// touch, also across the end of the period, meet in one edge of the difference's sign.
pub(crate) fn edges(phases: &[crate::Phase], period: u64) -> Vec<(u64, bool)> {
    let mut steps: Vec<(u64, i128)> = Vec::with_capacity(2 * phases.len());
    for p in phases {
        steps.push((p.start.0 % period, i128::from(p.rate.0)));
        steps.push((p.end.0 % period, -i128::from(p.rate.0)));
    }
    steps.sort_unstable();
    let mut out: Vec<(u64, i128)> = Vec::with_capacity(steps.len());
    for (at, change) in steps {
        match out.last_mut() {
            Some(last) if last.0 == at => last.1 += change,
            _ => out.push((at, change)),
        }
    }
    out.into_iter().filter(|&(_, change)| change != 0).map(|(at, change)| (at, change > 0)).collect()
}
