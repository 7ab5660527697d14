//! The reduced circle of a link: which of its jobs' couplings are kept, and how far that can be off.

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;
use petgraph::unionfind::UnionFind;

use super::{
    allowance::Allowance,
    background::Background,
    distribution,
    folded::{self, Folded},
    perimeter::{Perimeter, Periodic, perimeter},
};
use crate::{
    Effort,
    model::problem::{Phase, Problem, ProblemLink},
};

/// Most pieces of a circle for a search among many jobs, as a multiple of the pieces of the jobs. Beyond it a circle is looked for
/// that drops couplings of no consequence, because every evaluation goes around the circle.
const REPEATS_MAX: u64 = 8;
/// Couplings that change no score by more than this are of no consequence for a search. (The scores that are reported count them
/// in all the same, see `answer::exact`.)
const NEGLIGIBLE: f64 = 1e-6;

/// The perimeter of a circle that is never walked around, whatever it is: longer than every other one.
const PERIMETER_LONG: u64 = 1 << 62;

/// One job on one circle.
#[derive(Clone, Debug)]
pub(crate) struct OnCircle {
    /// Index of the job within its group.
    pub(crate) job: usize,
    /// The job's demand, folded onto the circle: more than one piece.
    pub(crate) folded: Folded,
    /// Where the demand rises (`true`) and falls, in ticks of the job's own period.
    pub(crate) edges: Vec<(u64, bool)>,
    /// Jobs of one coupling class are coupled directly or through others, by gcds above 1. Classes are independent.
    pub(crate) class: u32,
}

/// The reduced circle of one link (or of several merged ones).
#[derive(Clone, Debug)]
pub(crate) struct Circle {
    /// `M` in ticks.
    pub(crate) perimeter: u64,
    /// Capacity in Mbit/s.
    pub(crate) capacity: f64,
    /// Excess in Mbit/s times ticks, times this, is the loss in the sum of link scores.
    pub(crate) weight: f64,
    /// Jobs whose demand differs from point to point.
    pub(crate) members: Vec<OnCircle>,
    /// All other jobs on the link, together.
    pub(crate) background: Background,
    /// The mean excess under any shifts differs from the true one by at most this: couplings that were dropped, levels that were
    /// merged. 0 where both are equal.
    pub(crate) blur: f64,
    /// No shifts cost less.
    pub(crate) least_cost: f64,
    /// Mean demand of all jobs beyond the capacity, in Mbit/s: no shifts have less excess, blur or not.
    pub(crate) overfull: f64,
    /// How many sums of levels may be made to find the least cost.
    sums_max: usize,
}

impl Circle {
    /// A circle of that perimeter. `members` are (job, phases, period), none of them silent.
    #[cfg(test)]
    pub(crate) fn new(capacity: u64, multiplicity: usize, members: &[(usize, &[Phase], u64)], perimeter: u64) -> Self {
        Self::around((capacity, Allowance::UNLIMITED), multiplicity, members, perimeter, &vec![false; members.len()])
    }

    /// A circle of that perimeter, on which the `loose` members are seen as the mean over all their turns; of a link with a capacity and
    /// what its circle may take.
    fn around(link: (u64, Allowance), multiplicity: usize, members: &[(usize, &[Phase], u64)], perimeter: u64, loose: &[bool]) -> Self {
        // On a circle whose perimeter divides `M` each job is folded to the gcd with that perimeter (docs/model.md, section 2).
        let mut circle = Self::folded(link, members, |m| if loose[m] { 1 } else { members[m].2.gcd(&perimeter) });
        circle.perimeter = perimeter;
        circle.finish(multiplicity);
        // A sweep merges levels beyond its limit (`DemandSum::mixture`); the blur says what that can lose under any shifts.
        circle.blur += if circle.may_cut() { circle.cut_blur() } else { 0.0 };
        circle
    }

    fn finish(&mut self, multiplicity: usize) {
        // The perimeter makes a mean of a sum over ticks, and the capacity makes a loss of score of that mean (section 1).
        self.weight = multiplicity as f64 / (self.capacity * self.perimeter as f64);
        classify(&mut self.members);
        self.least_cost = self.least_cost();
    }

    /// The circle on which every coupling is kept, however long it is: only good for one sum of all members.
    pub(crate) fn uncut(problem: &Problem, link: &ProblemLink, allowance: Allowance) -> Self {
        let active = active(problem, link);
        let fold = |m: usize| {
            let own = active[m].2;
            let others = active.iter().enumerate().filter(|o| o.0 != m);
            // `G_j` without `M`, which may not fit: gcd(T_j, M) is the LCM of the gcds with the others, and divides `T_j`.
            others.fold(1_u64, |l, (_, other)| l.lcm(&own.gcd(&other.2)))
        };
        Self::folded((link.capacity.0, allowance), &active, fold)
    }

    /// Members by (job, phases, period), each folded to the period that `fold` says.
    fn folded((capacity, allowance): (u64, Allowance), members: &[(usize, &[Phase], u64)], fold: impl Fn(usize) -> u64) -> Self {
        let periods: Vec<u64> = (0..members.len()).map(fold).collect();
        // A demand that does not repeat has one level in each piece, and nothing to leave out.
        let atoms = |(m, &period): (&(usize, &[Phase], u64), &u64)| if m.2 == period { 0 } else { folded::atoms_max(m.1, m.2, period) };
        let atoms: Vec<usize> = members.iter().zip(&periods).map(atoms).collect();
        let kept = folded::kept(&atoms, allowance.pairs);
        let member = |(m, &(job, phases, period)): (usize, &(usize, &[Phase], u64))| {
            let folded = Folded::whole_or_cut(phases, period, periods[m], !kept[m]);
            OnCircle { job, folded, edges: edges(phases, period), class: 0 }
        };
        let all: Vec<OnCircle> = members.iter().enumerate().map(member).collect();
        let merged: f64 = all.iter().map(|on| on.folded.blur).sum();
        // A job of one piece has no edges here, so its demand is a part of the background (docs/model.md, section 2).
        let (members, constant): (Vec<OnCircle>, Vec<OnCircle>) = all.into_iter().partition(|on| on.folded.starts.len() > 1);
        let background = Background::new(constant.iter().map(|on| on.folded.distribution(0)).collect(), allowance.terms);
        let blur = merged + background.blur;
        let mean = members.iter().map(|on| on.folded.mean).sum::<f64>() + background.mean;
        // Jensen: a mean excess is at least the excess of the mean, so no shifts and no dropped couplings get below it.
        let overfull = (mean - capacity as f64).max(0.0);
        let sums_max = allowance.sums;
        Self { perimeter: 1, capacity: capacity as f64, weight: 0.0, members, background, blur, least_cost: 0.0, overfull, sums_max }
    }

    /// The circle of a link that some shifts could overload; `None` when its score does not depend on shifts: at most one job
    /// sends, or all peaks together fit. It takes as much as it is allowed.
    pub(crate) fn of_link(
        problem: &Problem,
        link: &ProblemLink,
        multiplicity: usize,
        effort: Effort,
        allowance: Allowance,
    ) -> Option<Self> {
        let active = active(problem, link);
        let peak = |phases: &[Phase]| phases.iter().map(|p| p.rate.0).max().unwrap_or(0);
        if active.len() < 2 || active.iter().map(|m| peak(m.1)).sum::<u64>() <= link.capacity.0 {
            return None;
        }
        let periodic: Vec<Periodic> = active.iter().map(|m| Periodic::new(m.1, m.2)).collect();
        let around = |on: &Perimeter| Self::around((link.capacity.0, allowance), multiplicity, &active, on.ticks, &on.loose);
        let negligible = NEGLIGIBLE * link.capacity.0 as f64;
        let whole = perimeter(&periodic, effort.pieces_max());
        let short = REPEATS_MAX * periodic.iter().map(Periodic::pieces).sum::<u64>();
        // Scores on this circle are true: few jobs are added up on smaller circles (`FEW_JOBS`), and a short circle is swept.
        if whole.blur == 0.0 && (active.len() <= distribution::FEW_JOBS || whole.pieces <= u128::from(short)) {
            return Some(around(&whole));
        }
        // A circle that is too long to be swept needs not be: sums on smaller ones can still be short.
        if whole.blur > 0.0 && active.len() <= distribution::SUMMANDS_MAX {
            let mut circle = Self::uncut(problem, link, allowance);
            circle.perimeter = PERIMETER_LONG;
            circle.finish(multiplicity);
            if circle.members.len() > 1 && circle.blur == 0.0 && distribution::are_short(&circle, effort) {
                return Some(circle);
            }
        }
        let brief = perimeter(&periodic, short.min(effort.pieces_max()));
        // The shorter circle is taken unless it drops couplings of consequence that the longer one keeps.
        let best = if brief.blur <= negligible || brief.blur <= whole.blur { brief } else { whole };
        let mut circle = around(&best);
        // Dropped couplings come on top of merged levels: the sum of both bounds the difference.
        circle.blur += best.blur;
        Some(circle)
    }

    /// The circle with those jobs only, renumbered in that order.
    pub(crate) fn only(&self, jobs: &[usize]) -> Self {
        let mut circle = self.clone();
        circle.members.retain_mut(|on| {
            let place = jobs.iter().position(|&job| job == on.job);
            on.job = place.unwrap_or(0);
            place.is_some()
        });
        // Two jobs that only a third one coupled are coupled no longer, and the least cost of more jobs would be no bound.
        classify(&mut circle.members);
        circle.least_cost = circle.least_cost();
        circle
    }

    /// Mean excess when the members are at `level` and the background is anywhere.
    pub(crate) fn excess_at(&self, level: f64) -> f64 {
        self.background.excess(level - self.capacity)
    }

    /// How far a mean excess can be from the true one: by the blur, and by no more than what the mean demand leaves open. Demand
    /// beyond the capacity must exceed it, and no more can exceed it than there is.
    pub(crate) fn uncertainty(&self, excess: f64, blur: f64) -> f64 {
        let mean = self.members.iter().map(|on| on.folded.mean).sum::<f64>() + self.background.mean;
        blur.min(f64::max(excess - self.overfull, mean - excess)).max(0.0)
    }

    /// Whether a sweep may go around the circle, however slowly.
    pub(crate) fn is_walkable(&self) -> bool {
        self.perimeter < PERIMETER_LONG
    }

    /// Whether all scores on this circle are the true ones, or so near that the difference is of no consequence.
    pub(crate) fn is_faithful(&self) -> bool {
        self.blur <= NEGLIGIBLE * self.capacity
    }

    /// Loss in the sum of link scores of that mean excess.
    pub(crate) fn cost(&self, mean_excess: f64) -> f64 {
        mean_excess * self.perimeter as f64 * self.weight
    }

    /// Whether under some shifts the sum of the unlocked members could have more levels than a distribution keeps: more than
    /// [`super::levels::LEVELS_MAX`] different sums, of the levels of all jobs as of the most that each sends at any one point.
    fn may_cut(&self) -> bool {
        let most = super::levels::LEVELS_MAX;
        let unlocked = || self.members.iter().map(|m| &m.folded).filter(|f| !f.is_locked());
        // The product of the counts at one point bounds the levels, so most circles need no list of sums.
        if unlocked().fold(1_usize, |all, f| all.saturating_mul(f.atoms_at_once())) <= most {
            return false;
        }
        // Equal sums are one level, so equal rates keep the list short however many jobs there are.
        let mut sums = Sums::new(self.sums_max);
        unlocked().any(|f| !sums.add(&f.levels, most))
    }

    /// The most that merging levels at their mean can be off by: the distance between neighbours of [`super::levels::LEVELS_MAX`] levels is
    /// not known before the shifts are, but merging everything would be off by no more than the mean demand.
    fn cut_blur(&self) -> f64 {
        self.members.iter().map(|m| &m.folded).filter(|f| !f.is_locked()).map(|f| f.mean).sum()
    }

    /// Places of the members' total between which the excess is linear, ascending, from the least total to the most: all the totals that
    /// there can be where these are few, else the bends of the excess. `None` where there are more than `most` of both.
    pub(crate) fn totals(&self, most: usize) -> Option<Vec<f64>> {
        let levels = || self.members.iter().map(|on| on.folded.reached());
        let mut sums = Sums::new(self.sums_max);
        if levels().all(|own| sums.add(own, most)) {
            return Some(sums.all);
        }
        let end = |of: fn(&[f64]) -> Option<&f64>| levels().filter_map(of).sum::<f64>();
        let (first, last) = (end(<[f64]>::first), end(<[f64]>::last));
        // The background descends, so that what it leaves of the capacity ascends.
        let bends = self.background.levels().rev().map(|level| self.capacity - level).filter(|at| first < *at && *at < last);
        let totals: Vec<f64> = core::iter::once(first).chain(bends.take(most)).chain([last]).collect();
        (totals.len() <= most).then_some(totals)
    }

    /// A cost that no shifts can undercut: the members' total has a known mean and takes only sums of their levels, so its mean
    /// excess is at least that of the two sums around the mean (the excess is convex in the level).
    fn least_cost(&self) -> f64 {
        let mean: f64 = self.members.iter().map(|m| m.folded.mean).sum();
        let (below, above) = around_mean(self.members.iter().map(|m| m.folded.reached()), mean, self.sums_max);
        let (low, high) = (self.excess_at(below), self.excess_at(above));
        // The chord of the convex excess between the two sums, read at the mean (bound 2 of docs/model.md, section 6).
        let share = if above > below { (mean - below) / (above - below) } else { 0.0 };
        self.cost(low + (high - low) * share).max(0.0)
    }
}

/// The jobs on a link that send something: (job, phases, period).
fn active<'a>(problem: &'a Problem, link: &ProblemLink) -> Vec<(usize, &'a [Phase], u64)> {
    let all = link.members.iter().map(|m| (m.job.index(), problem.phases(m.demand), problem.period(m.job)));
    // A job that sends nothing has no edges to meet: its period must not make the circle longer.
    all.filter(|m| !m.1.is_empty()).collect()
}

/// Most sums of levels of half of the jobs that are told apart for [`Circle::least_cost`].
const SUMS_MAX: usize = 1 << 12;

/// The sums of one level of each of some jobs, ascending.
struct Sums {
    all: Vec<f64>,
    /// How many more may be made.
    left: usize,
}

impl Sums {
    fn new(left: usize) -> Self {
        Self { all: vec![0.0], left }
    }

    /// Adds a job of these levels; false if there are more than `most` sums then, or too many to make them.
    fn add(&mut self, levels: &[f64], most: usize) -> bool {
        let count = self.all.len().saturating_mul(levels.len());
        let Some(left) = self.left.checked_sub(count) else { return false };
        self.left = left;
        let mut all: Vec<f64> = Vec::with_capacity(count);
        all.extend(levels.iter().flat_map(|level| self.all.iter().map(move |sum| sum + level)));
        // The sums of each level ascend already, and a stable sort merges such runs.
        all.sort_by(f64::total_cmp);
        all.dedup();
        self.all = all;
        self.all.len() <= most
    }
}

/// The sums of one level of each job that are next to `mean`, below and above; `mean` twice where there are too many sums, or where more
/// than `made_max` would have to be made.
fn around_mean<'a>(levels: impl Iterator<Item = &'a [f64]>, mean: f64, made_max: usize) -> (f64, f64) {
    // The jobs are in two halves: every sum is one of this half and one of that.
    let (mut first, mut second) = (Sums::new(made_max / 2), Sums::new(made_max / 2));
    for own in levels {
        let shorter = if first.all.len() <= second.all.len() { &mut first } else { &mut second };
        if !shorter.add(own, SUMS_MAX) {
            return (mean, mean);
        }
    }
    let (mut below, mut above) = (f64::NEG_INFINITY, f64::INFINITY);
    let mut rest = &second.all[..];
    // As one half ascends, the part of the other that reaches the mean with it grows from its end: each sum is looked at once.
    for sum in &first.all {
        while let Some(reaches) = rest.last().map(|last| sum + last).filter(|reached| *reached >= mean) {
            above = above.min(reaches);
            rest = &rest[..rest.len() - 1];
        }
        below = rest.last().map_or(below, |last| below.max(sum + last));
    }
    let below = if below.is_finite() { below } else { above };
    // Where rounding puts the mean outside of all sums, the mean itself gives Jensen's bound, which is weaker and always true.
    if below <= mean && mean <= above && above.is_finite() { (below, above) } else { (mean, mean) }
}

/// Finds the coupling classes.
fn classify(members: &mut [OnCircle]) {
    let mut sets = UnionFind::<usize>::new(members.len());
    for i in 0..members.len() {
        for j in 0..i {
            // A pair that is joined already needs no gcd: with equal periods that saves nearly all of this quadratic work.
            if !sets.equiv(i, j) && members[i].folded.period.gcd(&members[j].folded.period) > 1 {
                sets.union(i, j);
            }
        }
    }
    for (i, on) in members.iter_mut().enumerate() {
        on.class = sets.find_mut(i) as u32;
    }
}

/// Signed edges of a demand around its period: where it rises and where it falls. Phases that
/// touch, also across the end of the period, meet in one edge of the difference's sign.
pub(crate) fn edges(phases: &[Phase], period: u64) -> Vec<(u64, bool)> {
    let mut steps: Vec<(u64, i128)> = Vec::with_capacity(2 * phases.len());
    for p in phases {
        steps.push((p.start.0 % period, i128::from(p.rate.0)));
        // An end at the period is an edge at 0 of the next turn, where it meets a phase that starts there.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rate, Ticks};

    /// Forty jobs of 700 phases, each of which would fit alone: the link has as many pairs as it may, whoever else is on it.
    #[test]
    fn the_demands_of_a_link_share_what_one_may_have() {
        let phases: Vec<Phase> = (0..700).map(|i| Phase { start: Ticks(10 * i), end: Ticks(10 * i + 7), rate: Rate(100 + i) }).collect();
        let short = [Phase { start: Ticks(0), end: Ticks(50), rate: Rate(900) }];
        let mut members: Vec<(usize, &[Phase], u64)> = (0..40).map(|j| (j, phases.as_slice(), 7_000 * (j as u64 + 2))).collect();
        members.push((40, &short, 7_000 * 60));
        let most = Allowance::ALONE.pairs;
        let circle = Circle::around((1_000, Allowance::ALONE), 1, &members, 3_500, &[false; 41]);
        let pairs = |on: &OnCircle| (0..on.folded.starts.len()).map(|piece| on.folded.atoms(piece).len()).sum::<usize>();
        assert!(circle.members.iter().map(pairs).sum::<usize>() <= most);
        let cut = |on: &OnCircle| on.folded.blur > 0.0;
        // Four times 701 levels on 1,401 pieces, and the short job.
        assert_eq!(circle.members.iter().filter(|on| !cut(on)).map(|on| on.job).collect::<Vec<_>>(), [0, 1, 2, 3, 40]);
        assert!(circle.blur > 0.0);
    }
}
