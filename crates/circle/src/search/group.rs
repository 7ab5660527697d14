//! A group: jobs and circles that must be optimised together, and the cost of their shifts.
//!
//! A single link with its jobs is a group; so are all links of a block of the affinity graph that
//! holds a loop. The cost is the loss in the sum of link scores, so costs of groups add up.

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;

use super::PROOF_JOBS_MAX;
use crate::{
    Effort,
    demand::{
        circle::{Circle, OnCircle},
        distribution::{self, DemandDistribution, FEW_JOBS},
        marginal::CircleMarginal,
        sum::{Presence, Workspace},
    },
};

/// Up to this many times the pieces of its jobs, a circle is swept as a whole.
const PLAIN_REPEATS: u64 = 5;
/// A circle of so few pieces is swept in a few microseconds.
const SWEEP_PIECES: u64 = 256;
/// Fewest alignments of a pair that are kept, however many phases the jobs have.
const ALIGNMENTS_MIN: u64 = 64;
/// How many times as many lookups two jobs have who meet nobody else, on all of their circles together: of a hundred phases each on one
/// circle, all alignments are looked at, which takes a tenth of a second.
const ALONE_LOOKUPS: u64 = 1 << 5;
/// Other jobs have lookups for each of their circles, up to so many.
const CIRCLES_MAX: u64 = 1 << 4;
/// Fewest alignments of a pair that are kept where many groups share the work.
const ALIGNMENTS_MIN_SHARED: u64 = 8;
/// A group with less work than this, in units of 10 ns, shares with many.
const WORK_SHARED: u64 = 1_000_000;
/// Work on a group, for each ordered pair of its jobs, per lookup that one alignment of the pair may take.
const WORK_PER_LOOKUP: u64 = 4;
/// Work of a look per piece that is sorted, in units of 10 ns, and cells of its table that are filled in one unit.
const WORK_PER_PIECE: u64 = 4;
const CELLS_PER_WORK: u64 = 8;
/// Most cells of such tables of all jobs: 16 bytes each, 256 MiB.
const CELLS_MAX: u64 = 1 << 24;

/// One job of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupJob {
    /// The modulus of the job's shift: the LCM of its folded periods over the circles it is on.
    pub(crate) lock: u64,
    /// (circle, member index) pairs, by circle.
    pub(crate) on: Vec<(usize, usize)>,
    /// Mean demand over capacity, summed over its circles: the big ones are placed first.
    pub(crate) weight: f64,
    /// Pieces of its demands on all of them.
    pieces: u64,
}

impl GroupJob {
    /// The job on that circle: its pair of [`Self::on`].
    pub(crate) fn on_circle(&self, circle: usize) -> Option<(usize, usize)> {
        self.on.binary_search_by_key(&circle, |on| on.0).ok().map(|i| self.on[i])
    }
}

/// Jobs and circles that must be optimised together.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The jobs; shifts are indexed alike.
    pub(crate) jobs: Vec<GroupJob>,
    /// The circles.
    pub(crate) circles: Vec<Circle>,
    /// Of each circle, whether it is swept as a whole: otherwise sums of its jobs on smaller circles are shorter (`demand::distribution`).
    pub(crate) plain: Vec<bool>,
    /// Of each circle, whether a question that is asked once only is answered by a sweep: folding sums takes longer than a short one.
    swept: Vec<bool>,
    /// Most lookups spent on the alignments of one pair of jobs: alignments times pieces.
    lookups_max: u64,
    /// Fewest alignments of one pair that are kept, whatever `lookups_max` says.
    alignments_min: u64,
    /// `lookups_max` are for two jobs who meet nobody else.
    is_alone: bool,
}

impl Group {
    /// Groups circles whose members' `job` fields index `0..jobs`.
    pub(crate) fn new(jobs: usize, circles: Vec<Circle>, effort: Effort) -> Self {
        let mut group_jobs: Vec<GroupJob> = (0..jobs).map(|_| GroupJob { lock: 1, on: Vec::new(), weight: 0.0, pieces: 0 }).collect();
        for (c, circle) in circles.iter().enumerate() {
            for (m, on) in circle.members.iter().enumerate() {
                let job = &mut group_jobs[on.job];
                // All folded periods divide the job's period, so their LCM does too.
                job.lock = job.lock.lcm(&on.folded.period);
                job.on.push((c, m));
                job.weight += on.folded.mean / circle.capacity;
                job.pieces += on.folded.starts.len() as u64;
            }
        }
        let plain: Vec<bool> = circles.iter().map(is_plain).collect();
        // A circle that cannot be walked around stays one when none of the jobs of a subset is on it.
        let is_swept = |(circle, plain): (&Circle, &bool)| *plain || circle.is_walkable() && pieces(circle) <= SWEEP_PIECES;
        let swept = circles.iter().zip(&plain).map(is_swept).collect();
        Self { jobs: group_jobs, circles, plain, swept, lookups_max: effort.lookups_max(), alignments_min: ALIGNMENTS_MIN, is_alone: false }
    }

    /// Lookups that one shift of a job costs, in pairs.
    pub(crate) fn spans(&self, job: usize) -> u64 {
        self.jobs[job].on.iter().map(|&(c, m)| self.circles[c].members[m].folded.spans.len() as u64).sum()
    }

    /// Fits the alignments that are looked at to the work that the group may spend.
    pub(crate) fn limit(&mut self, effort: Effort, work_max: u64) {
        // Two jobs are all that their search has to do, so it may take longer.
        self.is_alone = effort != Effort::Fast && self.jobs.len() == 2;
        self.lookups_max = effort.lookups_max() * if self.is_alone { ALONE_LOOKUPS } else { 1 };
        if effort != Effort::Fast && work_max < WORK_SHARED {
            // Each ordered pair of jobs may be asked about, so the work is divided evenly among the pairs.
            let pairs = (self.jobs.len() * self.jobs.len().saturating_sub(1)).max(1) as u64;
            self.lookups_max = self.lookups_max.min(work_max / (WORK_PER_LOOKUP * pairs));
            self.alignments_min = ALIGNMENTS_MIN_SHARED;
        } else {
            self.alignments_min = ALIGNMENTS_MIN;
        }
    }

    /// Some of the jobs, renumbered, as if the others were not there.
    pub(crate) fn only(&self, jobs: &[usize]) -> Self {
        let circles: Vec<Circle> = self.circles.iter().map(|circle| circle.only(jobs)).collect();
        let (lookups_max, alignments_min) = (self.lookups_max, self.alignments_min);
        // The effort given here is of no consequence: both limits that come from it are those of the whole group.
        Self { lookups_max, alignments_min, ..Self::new(jobs.len(), circles, Effort::Fast) }
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
    pub(crate) fn cost(&self, shifts: &[u64], workspace: &mut Workspace) -> f64 {
        let cost = |(c, circle): (usize, &Circle)| circle.cost(self.excess(c, |job| shifts[job], workspace));
        self.circles.iter().enumerate().map(cost).sum()
    }

    /// Mean excess on a circle under those shifts of its jobs.
    pub(crate) fn excess(&self, circle: usize, shift: impl Fn(usize) -> u64, workspace: &mut Workspace) -> f64 {
        // A sum on smaller circles comes first; a sweep is for short circles, and where such a sum would be too large.
        let at = |job| Presence::At(shift(job));
        let swept = &self.circles[circle];
        // Nothing is added to this total, so a circle of one tick (`seen` = 1) is enough.
        let sum = |of| distribution::total(of, 1, swept, &mut workspace.budget);
        if let Some((all, _)) = self.summands(circle, None, &at).and_then(sum) {
            return all.excess(swept);
        }
        let Workspace { sum, budget } = workspace;
        sum.sweep(swept, at, budget);
        budget.charge(sum.terms(swept));
        sum.excess(swept) / swept.perimeter as f64
    }

    /// The demands of the jobs of a circle but `absent`; `None` where it is swept.
    fn summands(&self, circle: usize, absent: Option<usize>, presence: &impl Fn(usize) -> Presence) -> Option<Vec<DemandDistribution>> {
        let there = self.circles[circle].members.iter().filter(|on| Some(on.job) != absent);
        (!self.swept[circle]).then(|| there.filter_map(|on| DemandDistribution::of(&on.folded, presence(on.job))).collect())
    }

    /// A cost that no shifts can undercut, whatever the jobs agree on.
    pub(crate) fn least_cost(&self) -> f64 {
        self.circles.iter().map(|c| c.least_cost).sum()
    }

    /// How far the cost of any shifts can be from the true one.
    pub(crate) fn blur(&self) -> f64 {
        self.circles.iter().map(|c| c.cost(c.blur)).sum()
    }

    /// Jobs whose shift matters.
    pub(crate) fn bodies(&self) -> usize {
        self.jobs.iter().filter(|j| j.lock > 1).count()
    }

    /// Whether to see once how the cost of one circle answers to the shift of each job on it is more than all the `work` that is left, or
    /// to see how that of all circles does is more than memory should hold.
    pub(crate) fn is_too_large_to_look(&self, work: u64) -> bool {
        // A search for proof looks at all jobs at a time, and descent at one.
        let at_once = if self.bodies() > PROOF_JOBS_MAX { 1 } else { self.jobs.len().max(1) as u64 };
        let mut of_jobs = vec![Look::default(); self.jobs.len()];
        for (c, circle) in self.circles.iter().enumerate() {
            let (mut here, pieces) = (Look::default(), self.swept_pieces(c));
            for on in &circle.members {
                let look = Look::new(pieces, on);
                here = here.and(look);
                of_jobs[on.job] = of_jobs[on.job].and(look);
            }
            if here.work > work {
                return true;
            }
        }
        of_jobs.iter().any(|look| look.cells > CELLS_MAX / at_once)
    }

    /// Whether to see how the cost answers to the shift of one job is more than that work, or more than memory should hold.
    pub(crate) fn is_too_large_to_look_at(&self, job: usize, work: u64) -> bool {
        let all = self.jobs[job].on.iter().fold(Look::default(), |all, &(c, m)| {
            let on = &self.circles[c].members[m];
            all.and(Look::new(self.swept_pieces(c), on))
        });
        all.work > work || all.cells > CELLS_MAX
    }

    /// Work of a look at one circle, in units of 10 ns, as a member of it asks: its table is filled, folded and added up.
    pub(super) fn look_work(&self, (c, m): (usize, usize)) -> u64 {
        let look = Look::new(self.swept_pieces(c), &self.circles[c].members[m]);
        look.work.saturating_add(look.cells / 2)
    }

    /// Pieces that a sweep around a circle meets; none where it is not swept.
    fn swept_pieces(&self, circle: usize) -> u64 {
        if self.swept[circle] { pieces(&self.circles[circle]) } else { 0 }
    }

    /// How the cost answers to a shift of `job`, the others being present as `others` says.
    pub(crate) fn response(&self, job: usize, others: impl Fn(usize) -> Presence, workspace: &mut Workspace) -> MarginalCost<'_> {
        MarginalCost { parts: self.jobs[job].on.iter().map(|&on| self.response_on(on, &others, workspace)).collect() }
    }

    /// How the cost of one circle answers to a shift of that member.
    pub(super) fn response_on(
        &self,
        (c, m): (usize, usize),
        others: &impl Fn(usize) -> Presence,
        workspace: &mut Workspace,
    ) -> CircleMarginal<'_> {
        let circle = &self.circles[c];
        let OnCircle { job, ref folded, .. } = circle.members[m];
        // The job tells the others apart modulo its own folded period only, so their total is kept no longer than that.
        let sum = |of| distribution::layers(of, folded.period, circle, &mut workspace.budget);
        let sums = self.summands(c, Some(job), others).and_then(sum);
        CircleMarginal::new(circle, m, sums, others, workspace)
    }

    /// The circles on which the cost can bend where an edge of `job` meets one of `other`, those left out that bring the same
    /// meetings as the one before: two jobs that meet on many links mostly bring the same edges to all of them.
    pub(crate) fn common(&self, job: usize, other: usize) -> impl Iterator<Item = Common<'_>> {
        let mut before: Option<(&OnCircle, &OnCircle)> = None;
        self.jobs[job].on.iter().filter_map(move |&(c, m)| {
            let members = &self.circles[c].members;
            let (_, o) = self.jobs[other].on_circle(c)?;
            let common = Common::new(&members[m], &members[o])?;
            let again = |b: (&OnCircle, &OnCircle)| b.0.meets_as(common.mine) && b.1.meets_as(common.theirs);
            (!before.replace((common.mine, common.theirs)).is_some_and(again)).then_some(common)
        })
    }

    /// Shifts of `job` at which one of its edges meets an edge of `other`, placed at `shift`:
    /// only pairs of a rising and a falling edge when `convex`, for an optimum needs no others
    /// (back-to-back lemma, docs/model.md); pairs of equal sign too otherwise.
    /// Returns false if there were too many and only an even selection was taken.
    pub(crate) fn alignments(&self, job: usize, other: usize, shift: u64, convex: bool, into: &mut Vec<u64>) -> bool {
        self.alignments_within(job, other, shift, convex, self.jobs[job].lock, into)
    }

    /// The alignments below `within`, a multiple of what locks the two, where the shift of `job` matters modulo that only.
    pub(crate) fn alignments_within(&self, job: usize, other: usize, shift: u64, convex: bool, within: u64, into: &mut Vec<u64>) -> bool {
        let mut complete = true;
        #[cfg(test)]
        let before = into.len();
        for common in self.common(job, other) {
            let (g, pairs) = (common.modulus, common.count());
            let laps = within / g;
            let (pair_step, lap_step) = self.steps(job, &common, laps);
            complete &= pair_step == 1 && lap_step == 1;
            let mut see = |meeting: Meeting| {
                if convex && !meeting.opposite {
                    return;
                }
                // `apart` holds for a head at 0; the shift of the head moves every meeting along.
                let base = (meeting.apart + shift % g) % g;
                if laps == 1 {
                    into.push(base);
                } else {
                    into.extend((0..laps).step_by(lap_step as usize).map(|lap| base + lap * g));
                }
            };
            if pair_step == 1 {
                common.for_each_meeting(see);
            } else {
                (0..pairs).step_by(pair_step as usize).for_each(|nth| see(common.meeting(nth)));
            }
        }
        #[cfg(test)]
        tests::LISTED.set(tests::LISTED.get() + (into.len() - before) as u64);
        complete
    }

    /// Whether [`Self::alignments`] of the two lists all, and no selection.
    pub(crate) fn lists_all(&self, job: usize, other: usize) -> bool {
        self.common(job, other).all(|common| self.steps(job, &common, self.jobs[job].lock / common.modulus) == (1, 1))
    }

    /// Every how manieth pair of edges, and of the `laps` of each pair, is looked at: too many alignments are thinned out evenly, pairs
    /// of edges first. A selection proves nothing.
    fn steps(&self, job: usize, common: &Common<'_>, laps: u64) -> (u64, u64) {
        let pairs = common.count().max(1);
        let most = self.alignments_max(job);
        (pairs.div_ceil(most), laps.div_ceil((most / pairs).max(1)))
    }

    /// Most alignments of `job` with another that are looked at: one shift of the job takes a lookup for each of its pieces, on all of its
    /// circles.
    pub(super) fn alignments_max(&self, job: usize) -> u64 {
        let GroupJob { on, pieces, .. } = &self.jobs[job];
        let circles = if self.is_alone { 1 } else { (on.len() as u64).clamp(1, CIRCLES_MAX) };
        (self.lookups_max.saturating_mul(circles) / (*pieces).max(1)).max(self.alignments_min)
    }

    /// Whether so many congruent shifts of all opposite meetings of the two are more than are looked at.
    pub(crate) fn too_many(&self, job: usize, other: usize, laps: u64) -> bool {
        // About half of the meetings of two jobs are opposite.
        let most = self.alignments_max(job);
        self.common(job, other).any(|common| common.count().div_ceil(2) * laps.max(1) > most)
    }

    /// Shifts of `job` at which one of its edges meets an opposite edge of `other`, placed at `shift`, modulo what locks the two.
    pub(crate) fn opposite_meetings(&self, job: usize, other: usize, shift: u64, into: &mut Vec<u64>) {
        for common in self.common(job, other) {
            let g = common.modulus;
            common.for_each_meeting(|m| into.extend(m.opposite.then_some((m.apart + shift % g) % g)));
        }
        into.sort_unstable();
        into.dedup();
    }
}

/// What a look at a job takes: on a circle that is swept, a table of the pieces around it by the levels of the job.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// In units of 10 ns.
    work: u64,
    cells: u64,
}

impl Look {
    /// At a job on a circle of so many pieces.
    fn new(pieces: u64, on: &OnCircle) -> Self {
        let levels = on.folded.levels.len() as u64;
        Self { work: pieces.saturating_mul(WORK_PER_PIECE + levels / CELLS_PER_WORK), cells: pieces.saturating_mul(levels) }
    }

    fn and(self, other: Self) -> Self {
        Self { work: self.work.saturating_add(other.work), cells: self.cells.saturating_add(other.cells) }
    }
}

/// Two jobs on one circle on which they are coupled, directly or through others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common<'a> {
    pub(crate) mine: &'a OnCircle,
    pub(crate) theirs: &'a OnCircle,
    /// The gcd of both folded periods: edges that meet at one shift meet again after so many ticks.
    pub(crate) modulus: u64,
}

/// Two edges that meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meeting {
    /// Shift of the one job less that of the other at which the edges meet, modulo [`Common::modulus`].
    pub(crate) apart: u64,
    /// Whether one edge rises and the other falls.
    pub(crate) opposite: bool,
}

impl<'a> Common<'a> {
    /// `None` if no meeting of the two bends the cost: they are in different coupling classes.
    ///
    /// Two jobs whose periods have no common factor are coupled all the same where a third locks with both. Then their edges meet
    /// at every tick, and the cost can bend there.
    fn new(mine: &'a OnCircle, theirs: &'a OnCircle) -> Option<Self> {
        let modulus = mine.folded.period.gcd(&theirs.folded.period);
        (mine.class == theirs.class).then_some(Self { mine, theirs, modulus })
    }

    /// How many meetings there are, in one lap of the modulus.
    pub(crate) fn count(&self) -> u64 {
        if self.modulus == 1 { 1 } else { self.mine.edges.len() as u64 * self.theirs.edges.len() as u64 }
    }

    /// One of the meetings, by its number below [`Self::count`]; of a modulus above 1.
    fn meeting(&self, nth: u64) -> Meeting {
        let mine = self.mine.edges.len() as u64;
        let ((edge, rises), (own, own_rises)) = (self.theirs.edges[(nth / mine) as usize], self.mine.edges[(nth % mine) as usize]);
        let g = self.modulus;
        Meeting { apart: (edge % g + g - own % g) % g, opposite: rises != own_rises }
    }

    /// All meetings in one lap of the modulus. Every shift is congruent modulo 1: there one meeting stands for all.
    pub(crate) fn for_each_meeting(&self, mut see: impl FnMut(Meeting)) {
        let g = self.modulus;
        if g == 1 {
            return see(Meeting { apart: 0, opposite: true });
        }
        for &(edge, rises) in &self.theirs.edges {
            // One lap is added before the subtraction, which would else fall below zero.
            let edge = edge % g + g;
            for &(own, own_rises) in &self.mine.edges {
                see(Meeting { apart: (edge - own % g) % g, opposite: rises != own_rises });
            }
        }
    }
}

impl OnCircle {
    /// Whether the edges of both meet those of others at the same shifts, with as many lookups.
    fn meets_as(&self, other: &Self) -> bool {
        self.folded.period == other.folded.period && self.edges == other.edges && self.folded.starts.len() == other.folded.starts.len()
    }
}

/// Cost of a group as a function of one job's shift.
pub(crate) struct MarginalCost<'a> {
    parts: Vec<CircleMarginal<'a>>,
}

impl MarginalCost<'_> {
    /// Cost that the job adds at `shift`.
    pub(crate) fn at(&self, shift: u64) -> f64 {
        self.parts.iter().map(|part| part.at(shift)).sum()
    }

    #[cfg(test)]
    pub(crate) fn parts(&self) -> &[CircleMarginal<'_>] {
        &self.parts
    }

    /// Work of one [`Self::at`].
    pub(crate) fn work(&self) -> u64 {
        self.parts.iter().map(CircleMarginal::work).sum()
    }
}

/// Whether a sweep around the circle meets hardly more pieces than the jobs have, or there are too many jobs for anything else.
fn is_plain(circle: &Circle) -> bool {
    if !circle.is_walkable() {
        return false;
    }
    // With one unlocked job at most a sweep multiplies no distributions, so it is cheap while the pieces are few.
    // Of many jobs the sums on smaller circles take a look at all pairs of summands for each sum.
    circle.members.len() > FEW_JOBS
        || circle.members.iter().filter(|on| !on.folded.is_locked()).count() <= 1
            && pieces(circle) <= PLAIN_REPEATS * circle.members.iter().map(|on| on.folded.starts.len() as u64).sum::<u64>()
}

/// Pieces that a sweep around the circle meets.
fn pieces(circle: &Circle) -> u64 {
    let around = |on: &OnCircle| (circle.perimeter / on.folded.period).saturating_mul(on.folded.starts.len() as u64);
    circle.members.iter().map(around).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    std::thread_local! {
        /// Alignments that were listed on this thread.
        pub(super) static LISTED: Cell<u64> = const { Cell::new(0) };
    }

    use crate::{Options, Phase, ProblemBuilder, Rate, Ticks, answer::solve::solve_counted};

    /// The fuzzer's document 95 of seed 11 of kind `long-lcm`. The job of 510,612,724 ns locks with those of 13.5 and 27 s modulo 2 only, so
    /// each place of the one has more passages with the other than are looked at. Listing them once took three quarters of five seconds
    /// and was charged to nobody.
    #[test]
    fn what_is_listed_is_charged() {
        let jobs: [(u64, u64, u64, u64); 5] = [
            (13_538_505_293, 4_397_783_747, 10_418_691_350, 100),
            (1_021_225_449, 660_540_896, 960_284_076, 50),
            (13_538_505_293, 2_100_515_446, 7_681_962_041, 40),
            (510_612_724, 116_057_140, 312_499_265, 50),
            (27_077_010_586, 2_942_079_726, 12_192_227_289, 120),
        ];
        let mut b = ProblemBuilder::new();
        let mut member = |&(period, start, end, rate): &(u64, u64, u64, u64)| {
            let job = b.job(Ticks(period)).unwrap();
            b.demand(job, &[Phase { start: Ticks(start), end: Ticks(end), rate: Rate(rate) }]).unwrap()
        };
        let members = jobs.iter().map(&mut member).collect();
        b.link(Rate(100), members).unwrap();
        LISTED.set(0);
        let (found, work) = solve_counted(&b.build(), &Options::default(), None).unwrap();
        let listed = LISTED.get();
        assert!(found.optimality.bound_gap > 0.0, "there is enough to search");
        assert!(listed <= work, "{listed} alignments were listed, and {work} is charged in all");
    }
}
