//! The least cost of one job over all of its shifts.
//!
//! The cost is linear between kinks, and where an edge of the job passes a change of what the others leave, its slope changes by that change
//! (docs/model.md, section 4). So the kinks need no lookups: once in order, each next cost follows from the one before. Two jobs of 400
//! phases have 640,000 kinks, and a lookup takes 400 steps.
//!
//! Slopes are integers: a million of them are added up without any rounding, and after a whole lap the cost is what it was.

use alloc::{vec, vec::Vec};

use super::{
    marginal::CircleMarginal,
    steps::{Part, Steps},
};
use crate::{PROOF_TOLERANCE, budget::Budget};

/// Most kinks that are sorted: 128 MiB.
const KINKS_MAX: u64 = 1 << 22;
/// Kinks that are sorted at a time: between two such parts somebody may have left.
const SORTED_AT_ONCE: usize = 1 << 12;
/// Most ticks of a lap in whose place the changes are added up, which is quicker than sorting them: 64 MiB.
const TICKS_MAX: u64 = 1 << 23;
/// A lap of so many ticks for each kink is still walked tick by tick.
const TICKS_PER_KINK: u64 = 8;
/// Work of one kink that is sorted among many, in units of 10 ns; kinks that are added up in their places, and ticks that are walked, in one
/// unit.
const SORTED_WORK: u64 = 4;
const PLACED_PER_WORK: u64 = 2;
const TICKS_PER_WORK: u64 = 8;
/// Bits of the largest slope. The sign is one more, and the changes in one place are up to four times as large before they are added up.
const SLOPE_BITS: i32 = 60;

impl Part<'_> {
    /// Kinks in one lap of `lock`; saturated.
    fn kinks(&self, lock: u64) -> u64 {
        let here = (2 * self.spans.len() as u64).saturating_mul(self.steps.breaks.len() as u64);
        here.saturating_mul(lock / self.steps.period)
    }

    /// The most that a slope can be, either way.
    fn slope_max(&self) -> f64 {
        let largest = self.steps.rate.iter().fold(0.0, |most: f64, rate| most.max(rate.abs()));
        self.spans.iter().map(|span| span.probability).sum::<f64>() * self.scale * largest
    }

    /// The slope at shift 0, and each change of it in (0, lock), in units of `1 / unit`. `None` where somebody has left.
    fn for_each_change(&self, lock: u64, unit: f64, budget: &Budget, mut see: impl FnMut(u64, i64)) -> Option<i64> {
        let Steps { period, breaks, .. } = self.steps;
        let mut slope = 0;
        let mut rates: Vec<i64> = Vec::with_capacity(breaks.len());
        for span in self.spans {
            if budget.is_cancelled() {
                return None;
            }
            let weight = span.probability * self.scale * unit;
            rates.clear();
            // Rounded once: the differences of one span's rates add up to nothing around the circle.
            rates.extend((0..breaks.len()).map(|i| (self.steps.at(i, span.level) * weight) as i64));
            for (edge, sign) in [(span.from % period, -1), (span.to % period, 1)] {
                slope += sign * rates[self.steps.index(edge)];
                for (i, &at) in breaks.iter().enumerate() {
                    let change = sign * (rates[i] - rates[(i + breaks.len() - 1) % breaks.len()]);
                    let first = (at + period - edge) % period;
                    if change == 0 {
                        continue;
                    }
                    let mut shift = first;
                    while shift < lock {
                        // The slope at 0 has the changes there already.
                        if shift > 0 {
                            see(shift, change);
                        }
                        shift += period;
                    }
                }
            }
        }
        Some(slope)
    }
}

fn stepped<'p>(parts: &'p [CircleMarginal<'_>]) -> Option<Vec<Part<'p>>> {
    parts.iter().map(CircleMarginal::part).collect()
}

/// The first shift below `lock` of least cost, and that cost as it is looked up. `None` where it takes more work than `work_max` or than is
/// left, or more memory than it should.
pub(crate) fn minimum(parts: &[CircleMarginal<'_>], lock: u64, work_max: u64, budget: &mut Budget) -> Option<(u64, f64)> {
    let (shift, below) = lowest(&stepped(parts)?, lock, work_max, budget)?;
    let at = |shift: u64| parts.iter().map(|part| part.at(shift)).sum::<f64>();
    let (first, least) = (at(0), at(shift));
    // Both ways are true to rounding. Should they ever differ by more, the lookups are asked.
    ((least - first - below).abs() <= PROOF_TOLERANCE / 2.0).then_some((shift, least))
}

/// The first shift below `lock` of least cost, and what it costs beyond shift 0. `None` as in [`minimum`].
pub(crate) fn lowest(parts: &[Part<'_>], lock: u64, work_max: u64, budget: &mut Budget) -> Option<(u64, f64)> {
    let kinks = parts.iter().map(|part| part.kinks(lock)).fold(0_u64, u64::saturating_add);
    let is_placed = lock <= TICKS_MAX && lock <= kinks.saturating_mul(TICKS_PER_KINK);
    let work = if is_placed { kinks / PLACED_PER_WORK + lock / TICKS_PER_WORK } else { kinks.saturating_mul(SORTED_WORK) };
    if work > work_max.min(budget.left()) || !is_placed && kinks > KINKS_MAX {
        return None;
    }
    budget.charge(work);
    let largest = parts.iter().map(Part::slope_max).sum::<f64>();
    if largest <= 0.0 {
        return Some((0, 0.0));
    }
    let unit = unit_for(largest)?;
    let lowest = if is_placed { lowest_in_place } else { lowest_sorted };
    let (shift, below) = lowest(parts, lock, unit, budget)?;
    Some((shift, below as f64 / unit))
}

/// How many units a slope of 1 has, so that one of `largest` has [`SLOPE_BITS`] bits: a power of two, so that a rate keeps its digits.
fn unit_for(largest: f64) -> Option<f64> {
    let exponent = (largest.to_bits() >> (f64::MANTISSA_DIGITS - 1)) as i32 - (f64::MAX_EXP - 1);
    let field = SLOPE_BITS - 1 - exponent + f64::MAX_EXP - 1;
    // A cost is the sum of some scores, and this is for a slope beyond any of them.
    (largest.is_finite() && (1..2 * f64::MAX_EXP - 1).contains(&field))
        .then(|| f64::from_bits((field as u64) << (f64::MANTISSA_DIGITS - 1)))
}

/// The shift at which the cost is lowest, and how far it lies below that of shift 0.
#[derive(Default)]
struct Lowest {
    slope: i64,
    at: u64,
    cost: i128,
    best: (u64, i128),
}

impl Lowest {
    fn go_to(&mut self, at: u64) {
        self.cost += i128::from(self.slope) * i128::from(at - self.at);
        self.at = at;
        if self.cost < self.best.1 {
            self.best = (at, self.cost);
        }
    }

    fn end(mut self, lock: u64) -> (u64, i128) {
        self.go_to(lock);
        debug_assert_eq!(self.cost, 0, "a whole lap ends where it began");
        self.best
    }
}

fn lowest_sorted(parts: &[Part<'_>], lock: u64, unit: f64, budget: &Budget) -> Option<(u64, i128)> {
    let mut changes: Vec<(u64, i64)> = Vec::new();
    let mut lowest = Lowest::default();
    for part in parts {
        lowest.slope += part.for_each_change(lock, unit, budget, |shift, change| changes.push((shift, change)))?;
    }
    // First into ranges of equal length, which takes two passes, and then range by range.
    let ranges = changes.len() / SORTED_AT_ONCE + 1;
    let length = lock.div_ceil(ranges as u64);
    let range = |shift: u64| (shift / length) as usize;
    let mut ends = vec![0_usize; ranges + 1];
    changes.iter().for_each(|change| ends[range(change.0) + 1] += 1);
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    let mut ranged = vec![(0, 0); changes.len()];
    for change in changes {
        let end = &mut ends[range(change.0)];
        ranged[*end] = change;
        *end += 1;
    }
    let mut from = 0;
    for to in ends {
        if budget.is_cancelled() {
            return None;
        }
        let here = &mut ranged[from..to];
        here.sort_unstable_by_key(|change| change.0);
        for &(shift, change) in &*here {
            lowest.go_to(shift);
            lowest.slope += change;
        }
        from = to;
    }
    Some(lowest.end(lock))
}

fn lowest_in_place(parts: &[Part<'_>], lock: u64, unit: f64, budget: &Budget) -> Option<(u64, i128)> {
    let mut lap = Lap::new(lock, unit);
    for part in parts {
        lap.add(part, budget)?;
    }
    Some(lap.end())
}

/// The changes of the slope by their place in a lap.
struct Lap {
    unit: f64,
    slope: i64,
    changes: Vec<i64>,
}

impl Lap {
    fn new(lock: u64, unit: f64) -> Self {
        Self { unit, slope: 0, changes: vec![0; lock as usize] }
    }

    fn add(&mut self, part: &Part<'_>, budget: &Budget) -> Option<()> {
        let changes = &mut self.changes;
        let lock = changes.len() as u64;
        self.slope += part.for_each_change(lock, self.unit, budget, |shift, change| changes[shift as usize] += change)?;
        Some(())
    }

    fn end(self) -> (u64, i128) {
        let mut lowest = Lowest { slope: self.slope, ..Lowest::default() };
        for (shift, &change) in self.changes.iter().enumerate().filter(|change| *change.1 != 0) {
            lowest.go_to(shift as u64);
            lowest.slope += change;
        }
        lowest.end(self.changes.len() as u64)
    }
}

/// Work to find the least cost of a job with so many spans, on one circle beside others of so many pieces, where [`lowest_of_many`] does.
pub(crate) fn work_of_many(spans: u64, pieces: u64) -> u64 {
    (2 * spans).saturating_mul(pieces) / PLACED_PER_WORK
}

/// As [`lowest`], of a job on so many circles that their curves do not fit into memory together: they are made one after the other.
/// Together their slopes are never steeper than `largest`. Its caller sees to it that there is work for it ([`work_of_many`]).
pub(crate) fn lowest_of_many<'a>(
    curves: impl Iterator<Item = CircleMarginal<'a>>,
    lock: u64,
    largest: f64,
    budget: &Budget,
) -> Option<(u64, f64)> {
    if lock > TICKS_MAX || largest <= 0.0 {
        return None;
    }
    let mut lap = Lap::new(lock, unit_for(largest)?);
    for curve in curves {
        lap.add(&curve.part()?, budget)?;
    }
    let unit = lap.unit;
    let (shift, below) = lap.end();
    Some((shift, below as f64 / unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Cancel, Effort, Phase, Rate, Ticks,
        demand::{
            circle::Circle,
            sum::{Presence, Workspace},
        },
        search::{group::Group, random::Random},
    };

    fn phases(period: u64, random: &mut Random) -> Vec<Phase> {
        let mut cuts: Vec<u64> = (0..2 * (1 + random.below(9))).map(|_| random.below(period)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let phase = |pair: &[u64]| Phase { start: Ticks(pair[0]), end: Ticks(pair[1]), rate: Rate(1 + random.below(3) * 4) };
        cuts.chunks_exact(2).map(phase).collect()
    }

    /// Every shift is looked at instead, on one circle and on two, alone and beside others that hardly lock.
    #[test]
    fn no_shift_costs_less() {
        let mut random = Random::new();
        let (mut answered, mut refused) = (0, 0);
        for _ in 0..3_000 {
            let base = 8 + random.below(40);
            let jobs = 2 + random.below(3) as usize;
            let periods: Vec<u64> = (0..jobs).map(|_| base * [1, 1, 2, 3, 5][random.below(5) as usize] + random.below(9) / 8).collect();
            let all: Vec<Vec<Phase>> = periods.iter().map(|&period| phases(period, &mut random)).collect();
            let circles = 1 + random.below(2);
            let perimeter = periods.iter().fold(1, |l, &p| num_integer::lcm(l, p));
            let circle = |c: u64| {
                let members: Vec<(usize, &[Phase], u64)> = (0..jobs).map(|j| (j, &all[j][..], periods[j])).collect();
                Circle::new(8 + 4 * c, 1, &members, perimeter)
            };
            let group = Group::new(jobs, (0..circles).map(circle).collect(), Effort::Thorough);
            let shifts: Vec<u64> = periods.iter().map(|&p| random.below(p)).collect();
            let lock = group.jobs[0].lock;
            let response = group.response(0, |other| Presence::At(shifts[other]), &mut Workspace::default());
            let Some((at, least)) = minimum(response.parts(), lock, u64::MAX, &mut Budget::default()) else {
                refused += 1;
                continue;
            };
            answered += 1;
            assert!(at < lock && response.at(at) == least);
            for shift in 0..lock {
                assert!(response.at(shift) >= least - PROOF_TOLERANCE, "{least} at {at}, but {} at {shift}", response.at(shift));
            }
        }
        assert!(answered > 20 * refused && answered > 1_000, "{answered} were answered and {refused} refused");
    }

    /// The two ways to put kinks in order are the same function.
    #[test]
    fn both_orders_agree() {
        let mut random = Random::new();
        for _ in 0..500 {
            let period = 50 + random.below(200);
            let all = [phases(period, &mut random), phases(period, &mut random)];
            let members: Vec<(usize, &[Phase], u64)> = (0..2).map(|j| (j, &all[j][..], period)).collect();
            let group = Group::new(2, vec![Circle::new(5, 1, &members, period)], Effort::Thorough);
            let mut workspace = Workspace::default();
            let response = group.response(0, |_| Presence::At(7), &mut workspace);
            let parts = stepped(response.parts()).unwrap();
            let unit = unit_for(parts.iter().map(Part::slope_max).sum()).unwrap_or(1.0);
            let lock = group.jobs[0].lock;
            let [sorted, placed] = [lowest_sorted, lowest_in_place].map(|lowest| lowest(&parts, lock, unit, &Budget::default()));
            assert!(sorted.is_some() && sorted == placed, "{sorted:?} {placed:?}");
        }
    }

    #[test]
    fn a_unit_keeps_slopes_below_their_bits() {
        for largest in [1e-200, 3e-9, 0.999, 1.0, 1.5, 2.0, 7e6, 1e200] {
            let slope = largest * unit_for(largest).unwrap();
            let bits = (slope as i64).ilog2() + 1;
            assert_eq!(bits as i32, SLOPE_BITS, "{largest}");
        }
        assert_eq!(unit_for(f64::INFINITY), None);
    }

    /// A search that has no work left for it is told so, and looks at alignments as it did.
    #[test]
    fn more_work_than_is_left_is_not_begun() {
        let all =
            [vec![Phase { start: Ticks(0), end: Ticks(5), rate: Rate(3) }], vec![Phase { start: Ticks(2), end: Ticks(4), rate: Rate(3) }]];
        let members: Vec<(usize, &[Phase], u64)> = (0..2).map(|j| (j, &all[j][..], 10)).collect();
        let group = Group::new(2, vec![Circle::new(5, 1, &members, 10)], Effort::Thorough);
        let response = group.response(0, |_| Presence::At(0), &mut Workspace::default());
        assert_eq!(minimum(response.parts(), 10, u64::MAX, &mut Budget::new(1, None)), None);
        assert!(minimum(response.parts(), 10, u64::MAX, &mut Budget::new(100, None)).is_some());
        let (parts, cancel) = (stepped(response.parts()).unwrap(), Cancel::default());
        cancel.cancel();
        for lowest in [lowest_sorted, lowest_in_place] {
            assert_eq!(lowest(&parts, 10, 1.0, &Budget::new(100, Some(&cancel))), None, "somebody has left");
        }
    }
}
