//! The interaction of two jobs: what both cost beyond what each adds to the others.
//!
//! While the others stand, the cost of two more jobs is what each adds alone and an *interaction*, the part of the excess that
//! is there only because both send. With `Phi(x)` the mean excess of the others and `x` more, it is the mean around the circle
//! of `Phi(a + b) - Phi(a) - Phi(b) + Phi(0)`, which is never negative, because the excess is convex. The bracket depends on the
//! others only, so it is computed once for all shifts of the two; a shift of the first cuts its stretches out of it, and what is
//! left answers to a shift of the second with two lookups per stretch.

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;

use crate::{
    budget::Budget,
    demand::{circle::Circle, distribution::DemandDistribution, folded::Folded},
};

/// Most numbers in one table; beyond it every pair is added up from the start.
const TABLE_MAX: u64 = 1 << 20;
/// Most stretches of one job around the common circle, for the same reason.
const STRETCHES_MAX: u64 = 1 << 14;
/// Work of one step of [`PairInteraction::with`]: looking, and the events that it leaves.
const STEP_WORK: u64 = 8;

/// About how many terms the total of those jobs has, as far as `seen` sees it.
pub(crate) fn pieces<'a>(of: impl Iterator<Item = &'a Folded> + Clone, seen: u64) -> u64 {
    let whole = of.clone().fold(1_u64, |l, f| l.lcm(&f.period.gcd(&seen)));
    let (mut pieces, mut levels) = (1_u64, 1_u64);
    for f in of {
        let folded = f.period.gcd(&seen);
        let laps = if f.starts.len() == 1 { 1 } else { whole / folded };
        // Saturation is safe: a count that is too high only says that a table is not worth its work.
        pieces = pieces.saturating_add(laps.saturating_mul(f.starts.len() as u64));
        if folded < f.period || !f.is_locked() {
            levels = levels.saturating_mul(f.levels.len() as u64);
        }
    }
    pieces.saturating_mul(levels)
}

/// A stretch of a job's circle on which it sends at least some level more often than its floor does.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: u64,
    to: u64,
    /// The level, counted from the lowest above zero.
    level: usize,
    /// How much more often than the floor.
    more: f64,
}

/// A job folded to the circle on which the others see it, over its floor.
#[derive(Clone, Debug)]
struct Tails {
    period: u64,
    stretches: Vec<Stretch>,
    /// The levels of the job; the first is zero.
    levels: Vec<f64>,
}

impl Tails {
    fn new(folded: &Folded, period: u64) -> Self {
        let levels = folded.levels.clone();
        let steps = levels.len() - 1;
        let tail = |atoms: &mut dyn Iterator<Item = (f64, f64)>| {
            let mut tail = vec![0.0; steps];
            for (level, p) in atoms {
                tail.iter_mut().zip(&levels[1..]).filter(|(_, v)| **v <= level).for_each(|(t, _)| *t += p);
            }
            tail
        };
        let floor = match folded.floor() {
            Some(floor) => tail(&mut folded.atoms(floor).iter().map(|&(l, p)| (levels[l as usize], p))),
            None => vec![0.0; steps],
        };
        let seen = DemandDistribution::job(folded, 0).fold(period);
        let mut stretches = Vec::new();
        for piece in 0..seen.starts.len() {
            let tail = tail(&mut seen.atoms(piece).iter().copied());
            for (level, (tail, floor)) in tail.iter().zip(&floor).enumerate() {
                // The floors of both are counted with the placed jobs already (docs/model.md, section 6, bound 1).
                let more = tail - floor;
                if more > 0.0 {
                    stretches.push(Stretch { from: seen.starts[piece], to: seen.end(piece), level, more });
                }
            }
        }
        Self { period, stretches, levels }
    }

    fn steps(&self) -> usize {
        self.levels.len() - 1
    }
}

/// Two jobs among others that stand.
#[derive(Clone, Debug)]
pub(crate) struct PairInteraction {
    jobs: [Tails; 2],
    /// Circle of all: once the place on it is given, the two jobs and the others are independent.
    perimeter: u64,
    /// Circle of the others.
    period: u64,
    starts: Vec<u64>,
    /// By piece of the others, level of the first and level of the second: the interaction.
    rate: Vec<f64>,
}

impl PairInteraction {
    /// `others` are folded to what the two can see. `None` where the table would be too large, or one use of it more work than
    /// `with_max`.
    pub(crate) fn new(
        others: &DemandDistribution,
        jobs: [&Folded; 2],
        circle: &Circle,
        with_max: u64,
        budget: &mut Budget,
    ) -> Option<Self> {
        let [a, b] = jobs.map(|f| f.period);
        let wide = |n: u64| u128::from(n);
        // The first two gcds divide the period of the others, so the LCM fits 128 bits, though maybe not 64.
        let perimeter = wide(others.period.gcd(&a)).lcm(&wide(others.period.gcd(&b))).lcm(&wide(a.gcd(&b)));
        let perimeter = u64::try_from(perimeter).ok()?;
        let table = jobs.map(|f| f.levels.len() as u64).iter().product::<u64>().saturating_mul(others.pieces());
        let stretches = |f: &Folded| (perimeter / f.period.gcd(&perimeter)).saturating_mul(f.spans.len() as u64);
        // Pieces of the others repeat around the circle of all, which must therefore be a multiple of theirs.
        if table > TABLE_MAX || !perimeter.is_multiple_of(others.period) || jobs.iter().any(|f| stretches(f) > STRETCHES_MAX) {
            return None;
        }
        // A use walks the pieces of the others under the stretches of one of the two, all around.
        let walk = (perimeter / others.period).saturating_mul(others.starts.len() as u64);
        let steps = |f: &Folded| walk.saturating_mul(f.levels.len() as u64).saturating_add(stretches(f));
        if jobs.iter().any(|f| steps(f).saturating_mul(STEP_WORK) > with_max) {
            return None;
        }
        let jobs = jobs.map(|f| Tails::new(f, f.period.gcd(&perimeter)));
        let [first, second] = &jobs;
        let (rows, columns) = (first.levels.len(), second.levels.len());
        let mut rate = Vec::with_capacity(others.starts.len() * (rows - 1) * (columns - 1));
        let mut excess = vec![0.0; rows * columns];
        for piece in 0..others.starts.len() {
            let atoms = others.atoms(piece);
            for (row, &level) in first.levels.iter().enumerate() {
                for (column, &other) in second.levels.iter().enumerate() {
                    // Convexity is in the level, so the mean over the atoms of the others keeps it.
                    let both = level + other;
                    excess[row * columns + column] = atoms.iter().map(|&(l, p)| p * circle.excess_at(l + both)).sum();
                }
            }
            budget.charge((atoms.len() * rows * columns) as u64 * circle.background.terms() / 4 + 4);
            for row in 1..rows {
                let (below, here) = (&excess[(row - 1) * columns..row * columns], &excess[row * columns..(row + 1) * columns]);
                // A second difference of a convex function is not negative, but for rounding. Times the tails of both jobs, and summed
                // over their levels, these are the interaction.
                rate.extend((1..columns).map(|c| (here[c] - below[c] - here[c - 1] + below[c - 1]).max(0.0)));
            }
        }
        Some(Self { jobs, perimeter, period: others.period, starts: others.starts.clone(), rate })
    }

    /// Where one of the two stands at `shift`: how the interaction answers to the shift of the other.
    pub(crate) fn with(&self, which: usize, shift: u64, curve: &mut InteractionCurve, budget: &mut Budget) {
        let (fixed, free) = (&self.jobs[which], &self.jobs[1 - which]);
        let (levels, columns) = (free.steps(), self.jobs[1].steps());
        curve.start(free.period, levels);
        let pieces = self.starts.len();
        for lap in 0..self.perimeter / fixed.period {
            for stretch in &fixed.stretches {
                let from = stretch.from + (shift % fixed.period) + lap * fixed.period;
                let length = stretch.to - stretch.from;
                let (mut at, mut left) = (from % self.period, length);
                let mut place = from % free.period;
                let mut piece = self.starts.partition_point(|&s| s <= at) - 1;
                // Two circles are walked at once: `at` on that of the others, `place` on that of the free job.
                while left > 0 {
                    let end = self.starts.get(piece + 1).copied().unwrap_or(self.period);
                    let step = left.min(end - at);
                    let table = &self.rate[piece * fixed.steps() * levels..];
                    let interaction = |level: usize| {
                        let i = if which == 0 { stretch.level * columns + level } else { level * columns + stretch.level };
                        table[i] * stretch.more
                    };
                    // A piece in which both jobs fit has no interaction, and would only add events to sort.
                    if (0..levels).any(|l| interaction(l) > 0.0) {
                        curve.add(place, step, interaction);
                    }
                    // A stretch that ends within this piece ends the loop, so `at` may run ahead of it.
                    (at, left) = (end % self.period, left - step);
                    place = (place + step) % free.period;
                    piece = if piece + 1 == pieces { 0 } else { piece + 1 };
                    budget.charge(2);
                }
            }
        }
        budget.charge(4 + 4 * curve.events.len() as u64);
        curve.finish();
    }

    /// Mean interaction of the two: the free one, not `which`, at `shift` against a curve of [`Self::with`].
    pub(crate) fn at(&self, which: usize, curve: &InteractionCurve, shift: u64) -> f64 {
        let free = &self.jobs[1 - which];
        let shift = shift % free.period;
        let sum: f64 = free.stretches.iter().map(|s| s.more * curve.between(s.level, s.from + shift, s.to + shift)).sum();
        sum / self.perimeter as f64
    }

    /// Stretches that one lookup of the free one looks at.
    pub(crate) fn lookups(&self, which: usize) -> u64 {
        self.jobs[1 - which].stretches.len() as u64
    }
}

/// How the interaction answers to a shift: a step function around a circle for each level, and its integral. Kept to reuse its
/// buffers.
#[derive(Clone, Debug, Default)]
pub(crate) struct InteractionCurve {
    period: u64,
    levels: usize,
    /// Where something changes: (place, first of its changes).
    events: Vec<(u64, u32)>,
    changes: Vec<f64>,
    now: Vec<f64>,
    breaks: Vec<u64>,
    rate: Vec<f64>,
    prefix: Vec<f64>,
}

impl InteractionCurve {
    fn start(&mut self, period: u64, levels: usize) {
        (self.period, self.levels) = (period, levels);
        self.events.clear();
        self.changes.clear();
        self.now.clear();
        self.now.resize(levels, 0.0);
    }

    /// Adds `value` for each level on `length` ticks from `place` on, around the circle.
    fn add(&mut self, place: u64, length: u64, value: impl Fn(usize) -> f64) {
        let (laps, rest) = (length / self.period, length % self.period);
        // A stretch that passes the end of the circle is there at 0, and its end takes it away again.
        let over = place + rest > self.period;
        let always = laps as f64 + if over { 1.0 } else { 0.0 };
        for level in 0..self.levels {
            self.now[level] += always * value(level);
        }
        if rest > 0 {
            self.change(place, &value, 1.0);
            self.change((place + rest) % self.period, &value, -1.0);
            if place + rest == self.period {
                // A stretch that ends with the circle is not there at the start of it, so its end takes nothing away.
                self.events.pop();
                self.changes.truncate(self.changes.len() - self.levels);
            }
        }
    }

    fn change(&mut self, place: u64, value: &impl Fn(usize) -> f64, sign: f64) {
        self.events.push((place, self.changes.len() as u32));
        self.changes.extend((0..self.levels).map(|l| sign * value(l)));
    }

    fn finish(&mut self) {
        self.events.sort_unstable();
        self.breaks.clear();
        self.rate.clear();
        self.prefix.clear();
        self.breaks.push(0);
        self.prefix.resize(self.levels, 0.0);
        for i in 0..self.events.len() {
            let (place, first) = self.events[i];
            // A change at 0 belongs to the first piece, whose break is there from the start.
            if self.breaks.last() != Some(&place) {
                self.close_to(place);
                self.breaks.push(place);
            }
            for level in 0..self.levels {
                self.now[level] += self.changes[first as usize + level];
            }
        }
        self.close_to(self.period);
    }

    fn close_to(&mut self, end: u64) {
        let from = self.breaks.last().copied().unwrap_or(0);
        let before = self.prefix.len() - self.levels;
        for level in 0..self.levels {
            self.rate.push(self.now[level]);
            self.prefix.push(self.prefix[before + level] + self.now[level] * (end - from) as f64);
        }
    }

    fn integral(&self, level: usize, at: u64) -> f64 {
        let index = if self.breaks.len() <= 8 {
            self.breaks.iter().rposition(|&b| b <= at).unwrap_or(0)
        } else {
            self.breaks.partition_point(|&b| b <= at) - 1
        };
        let i = index * self.levels + level;
        self.prefix[i] + self.rate[i] * (at - self.breaks[index]) as f64
    }

    /// Integral from `from` to `to`, at most a lap later, both less than two laps.
    fn between(&self, level: usize, mut from: u64, mut to: u64) -> f64 {
        // A span that crosses the end of the circle is a whole lap less what lies between its ends.
        let mut part = 0.0;
        if from >= self.period {
            from -= self.period;
            to -= self.period;
        } else if to > self.period {
            to -= self.period;
            part = self.prefix[self.breaks.len() * self.levels + level];
        }
        part + self.integral(level, to) - self.integral(level, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Phase, Rate, Ticks, demand::distribution};

    /// (period, phases of (start, end, rate), shift).
    type Job<'a> = (u64, &'a [(u64, u64, u64)], u64);

    fn folded(job: &Job<'_>, perimeter: u64) -> Folded {
        let phases: Vec<Phase> = job.1.iter().map(|p| Phase { start: Ticks(p.0), end: Ticks(p.1), rate: Rate(p.2) }).collect();
        Folded::new(&phases, job.0, job.0.gcd(&perimeter))
    }

    /// Mean excess, tick by tick around the LCM.
    fn walk(jobs: &[Job<'_>], capacity: f64) -> f64 {
        let whole = jobs.iter().fold(1, |l, j| l.lcm(&j.0));
        let sends = |j: &Job<'_>, t: u64| -> u64 {
            let at = (t + j.0 - j.2 % j.0) % j.0;
            j.1.iter().filter(|p| (p.0..p.1).contains(&at)).map(|p| p.2).sum()
        };
        let excess = |t: u64| (jobs.iter().map(|j| sends(j, t)).sum::<u64>() as f64 - capacity).max(0.0);
        (0..whole).map(excess).sum::<f64>() / whole as f64
    }

    /// With all that the others send in `Phi`, both jobs cost what each costs alone and the interaction, wherever the two stand;
    /// circles with equal, nested, weakly and mutually locking periods, several levels, and others that look constant.
    #[test]
    fn two_jobs_cost_what_each_adds_and_their_interaction() {
        let several: [(u64, u64, u64); 3] = [(0, 2, 7), (3, 5, 4), (5, 6, 9)];
        let one: [(u64, u64, u64); 1] = [(1, 5, 8)];
        let two: [(u64, u64, u64); 2] = [(0, 4, 6), (6, 8, 3)];
        let sets: [[Job<'_>; 4]; 5] = [
            [(12, &one, 0), (12, &several, 3), (12, &two, 0), (12, &one, 0)],
            [(12, &two, 1), (24, &one, 5), (8, &several, 0), (12, &one, 0)],
            [(10, &one, 2), (9, &two, 4), (15, &several, 0), (6, &one, 0)],
            [(35, &one, 2), (9, &two, 4), (18, &several, 0), (12, &two, 0)],
            [(14, &two, 3), (21, &several, 1), (10, &two, 0), (10, &one, 0)],
        ];
        for (set, mut jobs) in sets.into_iter().enumerate() {
            let perimeter = (0..4).flat_map(|i| (0..i).map(move |j| (i, j))).fold(1, |l: u64, (i, j)| l.lcm(&jobs[i].0.gcd(&jobs[j].0)));
            for capacity in [8, 12] {
                let circle = Circle::new(capacity, 1, &[], 1);
                let [x, y, a, b] = [0, 1, 2, 3].map(|i| folded(&jobs[i], perimeter));
                let stand = vec![DemandDistribution::job(&x, jobs[0].2), DemandDistribution::job(&y, jobs[1].2)];
                let (slow, fast) = distribution::total(stand, a.period.lcm(&b.period), &circle, &mut Budget::default()).unwrap();
                let joint = PairInteraction::new(
                    &slow.plus(&fast, &mut Budget::default()).unwrap(),
                    [&a, &b],
                    &circle,
                    u64::MAX,
                    &mut Budget::default(),
                )
                .unwrap();
                // What the floors of a and b have between them already.
                let floors = |f: &Folded| DemandDistribution::floor(f).unwrap_or_else(DemandDistribution::nothing);
                let standing = [(&x, jobs[0].2), (&y, jobs[1].2)];
                let cost = |parts: [DemandDistribution; 2]| {
                    let all = parts.into_iter().chain(standing.map(|(f, shift)| DemandDistribution::job(f, shift))).collect();
                    distribution::total(all, 1, &circle, &mut Budget::default()).unwrap().0.excess(&circle)
                };
                let none = cost([floors(&a), floors(&b)]);
                let mut curve = [InteractionCurve::default(), InteractionCurve::default()];
                for s in 0..a.period {
                    for t in 0..b.period {
                        (jobs[2].2, jobs[3].2) = (s, t);
                        let alone =
                            cost([DemandDistribution::job(&a, s), floors(&b)]) + cost([floors(&a), DemandDistribution::job(&b, t)]) - none;
                        let truth = walk(&jobs, capacity as f64);
                        for which in 0..2 {
                            joint.with(which, [s, t][which], &mut curve[which], &mut Budget::default());
                            let both = alone + joint.at(which, &curve[which], [t, s][which]);
                            assert!((both - truth).abs() < 1e-9, "set {set}, {which} first, at {s} and {t}: {both}, but the walk {truth}");
                        }
                    }
                }
            }
        }
    }
}
