//! Sums of demands on the smallest circles that tell them apart.
//!
//! The effect of two sets of jobs on each other is decided modulo the gcd of their circles (Chinese remainder theorem, as in
//! `folded`): given a point of that smaller circle the two totals are independent. So a total is kept only as far around
//! as a job that is still to be added can see: two jobs of 215 ms that meet three others modulo 1 ms are added up around
//! 215 ms and then folded to 1 ms, to a few pieces with a distribution over a few levels each. A sweep around the circle
//! of all of them would repeat the three others 215 times.

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;

use super::{
    circle::{Circle, OnCircle},
    folded::Folded,
    sum::Presence,
};
use crate::{Effort, budget::Budget};

/// Most (level, probability) pairs in one sum; beyond it the plain sweep has its own way to bound its work.
const ATOMS_MAX: u64 = 1 << 18;
/// Most summands: the choice of what to add next looks at all pairs.
pub(crate) const SUMMANDS_MAX: usize = 24;
/// Up to so many jobs sums on small circles are asked for wherever a sweep around the whole one is longer.
pub(crate) const FEW_JOBS: usize = 8;
/// Most pieces of a sum that is kept, for each piece of its two summands.
const GATHERED: u64 = 2;
/// Work of looking at a summand, in units of 10 ns.
const SUMMAND_WORK: u64 = 6;
/// Least work to fold a piece, in units of 10 ns.
const FOLD_WORK_MIN: u64 = 4;
/// Pieces of a summand that are made in next to no time; each more is a unit of work.
const PIECES_FREE: u64 = 256;
/// Work of a sum that is short, in units of 10 ns: a millisecond, far from [`ATOMS_MAX`]; and where placements are ranked.
const SHORT_WORK: u64 = 100_000;
const SHORT_WORK_FAST: u64 = 4_000;
/// Most turns of what a job sees of the others until two layers of them repeat: each turn is one more lookup for each of the
/// spans of the job. Periods that are halves and quarters of each other take two and four.
const AROUND_MAX: u64 = 16;
/// Most pairs of pieces of two layers that are read apart where their sum has fewer pieces: 128 KiB of the table of a marginal cost for
/// each level of a job.
const APART_MAX: u64 = 1 << 13;
/// Jobs that are shifted by multiples of it hardly meet.
const UNEVEN: u64 = 7_919;
/// Most pairs in one distribution.
const LEVELS_MAX: usize = 2_048;
/// Up to so many pairs equal levels are found one by one; beyond it they are sorted.
const SCANNED: u64 = 32;
/// Work to put one of many pairs in order, in units of 10 ns.
const SORTED_WORK: u64 = 4;

/// How large sums may become.
struct Limits {
    summands: usize,
    atoms: u64,
    levels: usize,
    /// A sum that the budget does not allow is not made. In a search the budget is asked between sums.
    ends: bool,
}

/// In a search, which asks for thousands of sums.
const SEARCHED: Limits = Limits { summands: SUMMANDS_MAX, atoms: ATOMS_MAX, levels: LEVELS_MAX, ends: false };
/// On a circle that cannot be walked around: such a circle was chosen because its sums are short (see [`are_short`]), so no limit is
/// needed.
const ONLY_WAY: Limits = Limits { summands: SUMMANDS_MAX, atoms: u64::MAX, levels: usize::MAX, ends: false };
/// For the scores that are reported: one sum for each link, 64 MiB at most.
const EVALUATED: Limits = Limits { summands: 64, atoms: 1 << 22, levels: 1 << 14, ends: true };

/// Demand of some jobs around a circle: a distribution over levels for each piece.
#[derive(Clone, Debug, Default)]
pub(crate) struct DemandDistribution {
    pub(crate) period: u64,
    /// Start of each piece; the first is 0.
    pub(crate) starts: Vec<u64>,
    /// Where the atoms of each piece end.
    ends: Vec<u32>,
    /// (level, probability).
    atoms: Vec<(f64, f64)>,
}

impl DemandDistribution {
    /// No demand.
    pub(crate) fn nothing() -> Self {
        Self { period: 1, starts: vec![0], ends: vec![1], atoms: vec![(0.0, 1.0)] }
    }

    /// One job at `shift`.
    pub(crate) fn job(f: &Folded, shift: u64) -> Self {
        let shift = shift % f.period;
        let pieces = f.starts.len();
        // At tick 0 the link sees the job at its own tick `-shift` (docs/model.md, section 1).
        let first = f.piece_at(if shift == 0 { 0 } else { f.period - shift });
        let mut out = Self::empty(f.period);
        out.push(0, levels(f, first));
        // The first piece comes last once more: its start lies on the circle too, unless the circle begins with it.
        for i in 1..=pieces {
            let piece = (first + i) % pieces;
            let at = (f.starts[piece] + shift) % f.period;
            if at > 0 {
                out.push(at, levels(f, piece));
            }
        }
        out
    }

    /// One job as far as it is there; `None` if it sends nothing.
    pub(crate) fn of(f: &Folded, presence: Presence) -> Option<Self> {
        match presence {
            Presence::Absent => None,
            Presence::Floor => Self::floor(f),
            Presence::At(shift) => Some(Self::job(f, shift)),
        }
    }

    /// The floor of a job: the least that it sends, wherever it stands. `None` if that is nothing.
    pub(crate) fn floor(f: &Folded) -> Option<Self> {
        // A floor depends on neither the point nor the shift, so a circle of one tick holds it.
        let mut out = Self::empty(1);
        out.push(0, levels(f, f.floor()?));
        Some(out)
    }

    fn empty(period: u64) -> Self {
        Self { period, starts: Vec::new(), ends: Vec::new(), atoms: Vec::new() }
    }

    fn push(&mut self, at: u64, atoms: impl Iterator<Item = (f64, f64)>) {
        self.starts.push(at);
        self.atoms.extend(atoms);
        self.ends.push(self.atoms.len() as u32);
    }

    /// (level, probability) pairs of a piece.
    pub(crate) fn atoms(&self, piece: usize) -> &[(f64, f64)] {
        &self.atoms[self.range(piece)]
    }

    pub(crate) fn pieces(&self) -> u64 {
        self.starts.len() as u64
    }

    pub(crate) fn end(&self, piece: usize) -> u64 {
        self.starts.get(piece + 1).copied().unwrap_or(self.period)
    }

    /// The demand seen modulo `period`, which divides this one: at each point the mean over the turns.
    pub(crate) fn fold(self, period: u64) -> Self {
        let turns = self.period / period;
        if turns == 1 {
            return self;
        }
        // A piece that starts with a turn is counted at 0 already. Piece 0 is one of those, so `p - 1` exists for every event.
        let mut events: Vec<(u64, usize)> = self.starts.iter().enumerate().map(|(p, s)| (s % period, p)).filter(|e| e.0 > 0).collect();
        events.sort_unstable();
        let mut sum = Tally::new(&self.atoms);
        for piece in 0..self.starts.len() {
            // How many turns begin in the piece.
            let inside = self.end(piece).div_ceil(period) - self.starts[piece].div_ceil(period);
            if inside > 0 {
                sum.change(self.range(piece), &self.atoms, inside as i64);
            }
        }
        let mut out = Self::empty(period);
        let (mut next, mut at) = (0, 0);
        loop {
            out.push(at, sum.shares(turns));
            let Some(&(then, _)) = events.get(next) else { return out };
            at = then;
            while let Some(&(_, p)) = events.get(next).filter(|e| e.0 == at) {
                // In one of the turns, one piece ends here and the next begins.
                sum.change(self.range(p - 1), &self.atoms, -1);
                sum.change(self.range(p), &self.atoms, 1);
                next += 1;
            }
        }
    }

    fn range(&self, piece: usize) -> core::ops::Range<usize> {
        piece.checked_sub(1).map_or(0, |before| self.ends[before] as usize)..self.ends[piece] as usize
    }

    /// Pieces that the sum with `other` would have.
    fn pieces_with(&self, other: &Self) -> u64 {
        // Each demand turns as often as the other period has parts that both do not share; the LCM itself might overflow. A demand of
        // one piece cuts nothing.
        let shared = self.period.gcd(&other.period);
        let around = |m: &Self, by: &Self| if m.pieces() == 1 { 1 } else { (by.period / shared).saturating_mul(m.pieces()) };
        around(self, other).saturating_add(around(other, self))
    }

    /// How often this demand turns until the faster `other` has made whole turns beside it, where a job that sees `seen` may read the
    /// two apart: on a circle that is at most `around_max` times as long as what the job sees of it, and with less work than
    /// their sum is.
    fn turns_beside(&self, other: &Self, seen: u64, around_max: u64) -> Option<u64> {
        if self.period <= other.period {
            return None;
        }
        let turns = other.period / self.period.gcd(&other.period);
        let common = self.period.checked_mul(turns)?;
        let around = common / common.gcd(&seen);
        let apart = [self.pieces(), other.pieces(), around].iter().fold(turns, |work, n| work.saturating_mul(*n));
        // Of few turns the sum mostly has more pieces, because it repeats the faster demand as often as that fits in. Of thousands of phases
        // it has far fewer than the two have pairs, each of which has a place in the table of a marginal cost.
        let is_less = turns == 1 && around == 1 && apart <= APART_MAX || apart < self.pieces_with(other);
        (around <= around_max && is_less).then_some(turns)
    }

    /// The same demand around a circle of so many turns.
    pub(crate) fn repeated(self, turns: u64) -> Self {
        if turns == 1 {
            return self;
        }
        let mut out = Self::empty(self.period * turns);
        for turn in 0..turns {
            for piece in 0..self.starts.len() {
                out.push(turn * self.period + self.starts[piece], self.atoms(piece).iter().copied());
            }
        }
        out
    }

    /// The sum of two that are independent at each point; `None` if it is too large.
    pub(crate) fn plus(&self, other: &Self, budget: &mut Budget) -> Option<Self> {
        self.plus_within(other, &SEARCHED, budget)
    }

    fn plus_within(&self, other: &Self, limits: &Limits, budget: &mut Budget) -> Option<Self> {
        // Each piece has an atom, so too many pieces are too many atoms: the test comes before any work.
        if self.pieces_with(other) > limits.atoms {
            return None;
        }
        // A common circle beyond 64 bits counts as a sum that is too large.
        let period = (self.period / self.period.gcd(&other.period)).checked_mul(other.period)?;
        let mut out = Self::empty(period);
        let (mut a, mut b) = (Around::new(self), Around::new(other));
        let mut sum: Vec<(f64, f64)> = Vec::new();
        let mut at = 0;
        while at < period {
            sum.clear();
            let (mine, theirs) = (self.atoms(a.piece), other.atoms(b.piece));
            // Given a point of the common circle the two are independent (docs/model.md, section 2): probabilities multiply.
            let products = mine.iter().flat_map(|&(level, p)| theirs.iter().map(move |&(l, q)| (level + l, p * q)));
            let count = (mine.len() * theirs.len()) as u64;
            if count <= SCANNED {
                products.for_each(|(level, p)| add(&mut sum, level, p));
                budget.charge(2 + count);
            } else {
                sum.extend(products);
                super::levels::merge_equal(&mut sum);
                budget.charge(SORTED_WORK * count);
            }
            if limits.ends && budget.is_spent() {
                return None;
            }
            if sum.len() > limits.levels || out.atoms.len() as u64 > limits.atoms {
                return None;
            }
            out.push(at, sum.drain(..));
            at = a.end.min(b.end).min(period);
            if at == period {
                break;
            }
            a.go_to(at);
            b.go_to(at);
        }
        Some(out)
    }

    /// Mean excess when these are the members of `circle`.
    pub(crate) fn excess(&self, circle: &Circle) -> f64 {
        let piece = |p: usize| {
            let excess: f64 = self.atoms(p).iter().map(|&(level, q)| q * circle.excess_at(level)).sum();
            excess * (self.end(p) - self.starts[p]) as f64
        };
        (0..self.starts.len()).map(piece).sum::<f64>() / self.period as f64
    }
}

/// Turns by level, kept up to date from point to point.
struct Tally {
    /// Distinct levels, and which of them each atom has.
    levels: Vec<f64>,
    of_atom: Vec<u32>,
    /// How many turns can be at a level, and their probabilities added up.
    turns: Vec<i64>,
    weight: Vec<f64>,
}

impl Tally {
    fn new(atoms: &[(f64, f64)]) -> Self {
        let mut levels: Vec<f64> = atoms.iter().map(|a| a.0).collect();
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup();
        let of_atom: Vec<u32> = atoms.iter().map(|a| levels.partition_point(|l| *l < a.0) as u32).collect();
        let (turns, weight) = (vec![0; levels.len()], vec![0.0; levels.len()]);
        Self { levels, of_atom, turns, weight }
    }

    fn change(&mut self, range: core::ops::Range<usize>, atoms: &[(f64, f64)], turns: i64) {
        for (&level, atom) in self.of_atom[range.clone()].iter().zip(&atoms[range]) {
            let level = level as usize;
            self.turns[level] += turns;
            self.weight[level] += turns as f64 * atom.1;
            if self.turns[level] == 0 {
                // The count of turns is exact. A level without turns has no probability but what rounding left.
                self.weight[level] = 0.0;
            }
        }
    }

    fn shares(&self, turns: u64) -> impl Iterator<Item = (f64, f64)> + '_ {
        let some = self.levels.iter().zip(&self.weight).zip(&self.turns).filter(|l| *l.1 > 0);
        some.map(move |((&level, &weight), _)| (level, weight / turns as f64))
    }
}

/// Walks around a circle as often as asked.
struct Around<'a> {
    of: &'a DemandDistribution,
    piece: usize,
    /// Where the current piece ends, counting on through the turns.
    end: u64,
}

impl<'a> Around<'a> {
    fn new(of: &'a DemandDistribution) -> Self {
        // A demand of one piece has no cut, so the piece never ends.
        Self { of, piece: 0, end: if of.pieces() == 1 { u64::MAX } else { of.end(0) } }
    }

    fn go_to(&mut self, at: u64) {
        if at < self.end {
            return;
        }
        // The caller stops at every end of both circles, so one step is always enough.
        self.piece += 1;
        if self.piece == self.of.starts.len() {
            self.piece = 0;
        }
        self.end += self.of.end(self.piece) - self.of.starts[self.piece];
    }
}

fn levels(f: &Folded, piece: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
    f.atoms(piece).iter().map(|&(level, p)| (f.levels[level as usize], p))
}

/// Adds a probability to a level; distributions here are short.
fn add(sum: &mut Vec<(f64, f64)>, level: f64, p: f64) {
    match sum.iter_mut().find(|a| a.0 == level) {
        Some(known) => known.1 += p,
        None => sum.push((level, p)),
    }
}

/// Folds each to what `seen` and the others can see of it.
fn fold_all(of: &mut [DemandDistribution], seen: u64, budget: &mut Budget) {
    for i in 0..of.len() {
        let whole = core::mem::take(&mut of[i]);
        let others = of.iter().enumerate().filter(|o| o.0 != i);
        // gcd(own, lcm(others)) without that LCM, which may not fit: every term divides the own period.
        let shared = others.fold(whole.period.gcd(&seen), |l, o| l.lcm(&whole.period.gcd(&o.1.period)));
        // A demand that is the same everywhere fits a circle of one tick, whatever the others could see.
        let needed = if whole.pieces() == 1 { 1 } else { shared };
        // Pieces and their levels are sorted, which takes the longer for each the more there are.
        let each = u64::from(whole.pieces().max(1).ilog2()).max(FOLD_WORK_MIN);
        budget.charge(SUMMAND_WORK + if needed < whole.period { each * whole.pieces() } else { 0 });
        of[i] = whole.fold(needed);
    }
}

/// The two whose sum has the fewest pieces, and how many these are.
fn cheapest(of: &[DemandDistribution]) -> Option<(usize, usize, u64)> {
    let pairs = (0..of.len()).flat_map(|i| (i + 1..of.len()).map(move |j| (i, j)));
    pairs.map(|(i, j)| (i, j, of[i].pieces_with(&of[j]))).min_by_key(|p| p.2)
}

/// Adds up what can be added without keeping more than `seen` and the others can see, cheapest first, until one is left, or
/// two of which the second repeats within the first and both are seen in full. `None` if there are too many or some sum is
/// too large.
pub(crate) fn total(
    of: Vec<DemandDistribution>,
    seen: u64,
    circle: &Circle,
    budget: &mut Budget,
) -> Option<(DemandDistribution, DemandDistribution)> {
    total_within(of, seen, 1, limits(circle), budget)
}

/// The same for a job that is moved beside the others, and sees `seen` of them: also two of which the second repeats within some
/// turns of the first, or that repeat only after some turns of what the job sees. The second always repeats within the first.
pub(crate) fn layers(
    of: Vec<DemandDistribution>,
    seen: u64,
    circle: &Circle,
    budget: &mut Budget,
) -> Option<(DemandDistribution, DemandDistribution)> {
    total_within(of, seen, AROUND_MAX, limits(circle), budget)
}

fn limits(circle: &Circle) -> &'static Limits {
    if circle.is_walkable() { &SEARCHED } else { &ONLY_WAY }
}

/// The mean excess of jobs on `circle`, however many they are; `None` if that is beyond the budget.
pub(crate) fn excess(mut of: Vec<DemandDistribution>, circle: &Circle, budget: &mut Budget) -> Option<f64> {
    of.retain(|job| job.pieces() > 0);
    total_within(of, 1, 1, &EVALUATED, budget).map(|(all, _)| all.excess(circle))
}

fn total_within(
    mut of: Vec<DemandDistribution>,
    seen: u64,
    around_max: u64,
    limits: &Limits,
    budget: &mut Budget,
) -> Option<(DemandDistribution, DemandDistribution)> {
    if of.len() > limits.summands {
        return None;
    }
    budget.charge(of.iter().map(|job| job.pieces().saturating_sub(PIECES_FREE)).sum());
    loop {
        // Each round but the last makes one summand of two, which bounds the loop.
        if limits.ends && budget.is_spent() {
            return None;
        }
        // The fewer summands are left, the less of each can be seen, so each round folds again.
        fold_all(&mut of, seen, budget);
        // The slower demand comes first, as the caller of two layers expects.
        of.sort_by_key(|m| core::cmp::Reverse(m.period));
        match &of[..] {
            [] => return Some((DemandDistribution::nothing(), DemandDistribution::nothing())),
            [_] => return Some((of.swap_remove(0), DemandDistribution::nothing())),
            // A sum of these two would repeat the fast one within the slow one; `LayeredMarginal` reads them apart.
            [a, b] if a.turns_beside(b, seen, around_max).is_some() => {
                let (turns, inner) = (a.turns_beside(b, seen, around_max)?, of.pop()?);
                let outer = of.pop()?;
                let atoms = turns.saturating_mul(outer.atoms.len() as u64);
                if atoms > limits.atoms {
                    return None;
                }
                budget.charge(if turns > 1 { atoms } else { 0 });
                return Some((outer.repeated(turns), inner));
            }
            _ => {}
        }
        let (i, j, _) = cheapest(&of)?;
        // `i` is below `j`, so the removal leaves it in place.
        let b = of.swap_remove(j);
        of[i] = of[i].plus_within(&b, limits, budget)?;
    }
}

/// Adds up what is seen of those that are asked about many times, as long as a sum is not much longer than its summands: two
/// of which each sees the other's circle but for a factor are kept apart. `None` if there are too many or some sum is too large.
pub(crate) fn gather(mut of: Vec<DemandDistribution>, seen: u64, budget: &mut Budget) -> Option<Vec<DemandDistribution>> {
    if of.len() > SUMMANDS_MAX {
        return None;
    }
    loop {
        fold_all(&mut of, seen, budget);
        match cheapest(&of) {
            Some((i, j, pieces)) if pieces <= GATHERED * (of[i].pieces() + of[j].pieces()) => {
                let b = of.swap_remove(j);
                of[i] = of[i].plus(&b, budget)?;
            }
            _ => return Some(of),
        }
    }
}

/// Whether the sums that a search asks for around such a circle are all short, wherever its jobs stand.
pub(crate) fn are_short(circle: &Circle, effort: Effort) -> bool {
    let members = &circle.members;
    // The number of levels is bounded for all shifts; pieces and work are tried out below.
    if members.len() > SUMMANDS_MAX || levels_bound(members) > LEVELS_MAX as u64 {
        return false;
    }
    let work = if effort == Effort::Fast { SHORT_WORK_FAST } else { SHORT_WORK };
    // Two extremes are tried: jobs apart, where the sum has the most pieces, and jobs stacked, where its pieces have the most levels.
    let stacked = |on: &OnCircle| {
        let most = (0..on.folded.starts.len()).max_by_key(|&piece| on.folded.atoms(piece).len()).unwrap_or(0);
        on.folded.period - on.folded.starts[most]
    };
    let is_short = |absent: Option<usize>, (seen, around_max): (u64, u64), shift: &dyn Fn(usize, &OnCircle) -> u64| {
        let there = members.iter().enumerate().filter(|m| Some(m.0) != absent);
        let mut budget = Budget::new(work, None);
        let jobs = there.map(|(i, on)| DemandDistribution::job(&on.folded, shift(i, on))).collect();
        // A quarter of what a search may ask for, because other shifts may need more than the two sets that are tried.
        let limits = Limits { atoms: ATOMS_MAX / 4, ends: true, ..SEARCHED };
        total_within(jobs, seen, around_max, &limits, &mut budget).is_some() && !budget.is_spent()
    };
    // The two questions of a search: the cost of all jobs, and the marginal cost of each of them.
    let all_short = |shift: &dyn Fn(usize, &OnCircle) -> u64| {
        is_short(None, (1, 1), shift) && members.iter().enumerate().all(|(i, on)| is_short(Some(i), (on.folded.period, AROUND_MAX), shift))
    };
    all_short(&|i, _| UNEVEN * i as u64) && all_short(&|_, on| stacked(on))
}

/// Most levels that the sum of all members can have at one point, wherever they stand: class by class no more than the sums of
/// levels, and no more than the pieces of the class and what its jobs may send at one point of them.
fn levels_bound(members: &[OnCircle]) -> u64 {
    // Saturation only raises the bound, and a bound that is too high only says that the sums are not short.
    let mut all = 1_u64;
    for first in (0..members.len()).filter(|&i| members[..i].iter().all(|on| on.class != members[i].class)) {
        let class = || members.iter().filter(|on| on.class == members[first].class).map(|on| &on.folded);
        let product = |count: &dyn Fn(&Folded) -> u64| class().fold(1_u64, |all, f| all.saturating_mul(count(f)));
        let around = class().fold(1_u64, |l, f| (l / l.gcd(&f.period)).saturating_mul(f.period));
        let pieces = class().fold(0_u64, |sum, f| sum.saturating_add((around / f.period).saturating_mul(f.starts.len() as u64)));
        let sums = product(&|f| f.levels.len() as u64);
        // Classes are independent, so each level of one can meet each level of another.
        all = all.saturating_mul(sums.min(pieces.saturating_mul(product(&|f| f.atoms_at_once() as u64))));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Phase, Rate, Ticks,
        demand::layered::{LayeredMarginal, Seen},
    };

    fn folded(period: u64, start: u64, end: u64, rate: u64) -> Folded {
        Folded::new(&[Phase { start: Ticks(start), end: Ticks(end), rate: Rate(rate) }], period, period)
    }

    /// Excess of jobs of (period, start, end, rate, shift), tick by tick around the LCM.
    fn walk(jobs: &[(u64, u64, u64, u64, u64)], capacity: f64) -> f64 {
        let perimeter = jobs.iter().fold(1, |l, j| l.lcm(&j.0));
        let at = |t: u64| -> f64 {
            let sends = |j: &&(u64, u64, u64, u64, u64)| (j.1..j.2).contains(&((t + j.0 - j.4 % j.0) % j.0));
            jobs.iter().filter(sends).map(|j| j.3 as f64).sum::<f64>()
        };
        (0..perimeter).map(|t| (at(t) - capacity).max(0.0)).sum::<f64>() / perimeter as f64
    }

    const JOBS: [(u64, u64, u64, u64, u64); 4] = [(36, 3, 20, 7, 5), (36, 1, 15, 6, 11), (10, 2, 6, 5, 3), (14, 0, 9, 4, 8)];

    #[test]
    fn a_sum_on_small_circles_has_the_excess_of_the_walk() {
        for capacity in [4.0, 8.0, 11.0, 16.0] {
            let jobs: Vec<DemandDistribution> = JOBS.iter().map(|j| DemandDistribution::job(&folded(j.0, j.1, j.2, j.3), j.4)).collect();
            let (all, rest) = total(jobs, 1, &Circle::new(capacity as u64, 1, &[], 1), &mut Budget::default()).unwrap();
            assert_eq!((all.period, rest.period), (1, 1), "nobody else is there to see a part of it");
            assert!((all.excess(&Circle::new(capacity as u64, 1, &[], 1)) - walk(&JOBS, capacity)).abs() < 1e-12);
        }
    }

    /// Periods of 1:2 and a third that shares 5 ticks with the one and 10 with the other: the layers that the first job is read beside
    /// take two turns of it, and those that the second is read beside are two turns of the first.
    #[test]
    fn layers_of_several_turns_answer_to_every_shift_as_the_walk_does() {
        let all = [(155, 20, 90, 7, 31), (310, 7, 170, 6, 4), (20, 3, 11, 5, 2)];
        for (last, layers_period) in [(0, 310), (1, 310)] {
            let mut jobs = all;
            jobs.swap(last, 2);
            let others: Vec<DemandDistribution> =
                jobs[..2].iter().map(|j| DemandDistribution::job(&folded(j.0, j.1, j.2, j.3), j.4)).collect();
            let own = folded(jobs[2].0, jobs[2].1, jobs[2].2, jobs[2].3);
            let circle = Circle::new(8, 1, &[], 1);
            let (slow, fast) = layers(others, own.period, &circle, &mut Budget::default()).unwrap();
            assert_eq!((slow.period, fast.period), (layers_period, 10), "read apart");
            let common = slow.period.gcd(&own.period);
            let seen = Seen::new(&DemandDistribution::job(&own, 0).fold(common).repeated(slow.period / common));
            let nested = LayeredMarginal::new(&slow, &fast, &seen, &circle, &mut Budget::default());
            assert!((nested.without() - walk(&jobs[..2], 8.0)).abs() < 1e-12);
            for shift in 0..own.period {
                jobs[2].4 = shift;
                let all = nested.without() + nested.at(&seen, shift);
                assert!((all - walk(&jobs, 8.0)).abs() < 1e-12, "job {last} at {shift}");
            }
        }
    }

    /// Two jobs of 2,000 phases whose periods are 1:2 have 4,000 pieces each: 16 million pairs, for which a search of eight such jobs once
    /// took 4 GB, and 12,000 pieces in sum. Of few phases they are read apart.
    #[test]
    fn layers_of_thousands_of_pieces_are_added_up() {
        let job = |period: u64, phases: u64| {
            let length = period / phases;
            let phases: Vec<Phase> =
                (0..phases).map(|i| Phase { start: Ticks(i * length), end: Ticks(i * length + 1 + i % 3), rate: Rate(7) }).collect();
            DemandDistribution::job(&Folded::new(&phases, period, period), 0)
        };
        let circle = Circle::new(8, 1, &[], 1);
        for (phases, fast_period) in [(2_000, 1), (20, 8_000)] {
            let (slow, fast) = layers(vec![job(16_000, phases), job(8_000, phases)], 16_000, &circle, &mut Budget::default()).unwrap();
            assert_eq!((slow.period, fast.period), (16_000, fast_period), "{phases} phases");
        }
    }

    #[test]
    fn two_layers_answer_to_every_shift_as_the_walk_does() {
        for last in 0..JOBS.len() {
            let mut jobs = JOBS;
            jobs.swap(last, 3);
            let others: Vec<DemandDistribution> =
                jobs[..3].iter().map(|j| DemandDistribution::job(&folded(j.0, j.1, j.2, j.3), j.4)).collect();
            let own = folded(jobs[3].0, jobs[3].1, jobs[3].2, jobs[3].3);
            let (slow, fast) = total(others, own.period, &Circle::new(8, 1, &[], 1), &mut Budget::default()).unwrap();
            let seen = Seen::new(&DemandDistribution::job(&own, 0).fold(slow.period));
            let nested = LayeredMarginal::new(&slow, &fast, &seen, &Circle::new(8, 1, &[], 1), &mut Budget::default());
            assert!((nested.without() - walk(&jobs[..3], 8.0)).abs() < 1e-12);
            for shift in 0..own.period {
                jobs[3].4 = shift;
                let all = nested.without() + nested.at(&seen, shift);
                assert!((all - walk(&jobs, 8.0)).abs() < 1e-12, "job {last} at {shift}");
            }
        }
    }
}
