//! A bound of the cost of a circle that looks at its jobs two by two.
//!
//! The mean square of the total is a sum over pairs of jobs, and each pair has a least product over all of its shifts. A parabola that
//! lies below the excess wherever the total can be turns that mean square into a bound of the mean excess (docs/model.md, section 6,
//! bound 4). Jobs of many phases agree about as much as chance has them under any shifts: the bound by means alone does not see that.

use alloc::vec::Vec;

use num_integer::Integer as _;

use super::{
    circle::{Circle, OnCircle},
    folded::{Folded, Span},
    joint::Known,
    minimum,
    steps::{Part, Steps},
};
use crate::{PROOF_TOLERANCE, budget::Budget};

/// Most totals that are told apart.
const TOTALS_MAX: usize = 1 << 12;
/// Steps in which the best parabola is sought; each looks at all totals.
const STEPS_MAX: usize = 64;
/// Totals that are looked at in one unit of work.
const TOTALS_PER_WORK: u64 = 2;

/// A mean demand around a circle, in parts of the capacity.
struct Wave {
    period: u64,
    breaks: Vec<u64>,
    rates: Vec<f64>,
    /// Integral from 0 to each break, and to the period.
    prefix: Vec<f64>,
}

impl Wave {
    /// The mean of a demand given the time modulo `period`, which divides its own.
    fn new(folded: &Folded, period: u64, capacity: f64) -> Self {
        let mean = |piece: usize| folded.distribution(piece).iter().map(|&(level, p)| level * p).sum::<f64>() / capacity;
        let means: Vec<f64> = (0..folded.starts.len()).map(mean).collect();
        let (mut breaks, mut rates) = (folded.starts.clone(), means.clone());
        if folded.period > period {
            // All laps at once: where one of them changes, the mean of all changes by its part.
            let laps = (folded.period / period) as f64;
            let before = |piece: usize| means[(piece + means.len() - 1) % means.len()];
            let change = |piece: usize| (folded.starts[piece] % period, (means[piece] - before(piece)) / laps);
            let mut changes: Vec<(u64, f64)> = (0..means.len()).map(change).collect();
            changes.sort_unstable_by_key(|change| change.0);
            (breaks, rates) = (alloc::vec![0], alloc::vec![0.0]);
            for (at, change) in changes {
                let last = rates.last().copied().unwrap_or(0.0);
                if breaks.last() == Some(&at) {
                    rates.pop();
                } else {
                    breaks.push(at);
                }
                rates.push(last + change);
            }
            // What is sent in all tells how much is sent at 0.
            let mut stepped = Self { period, breaks, rates, prefix: Vec::new() };
            stepped.integrate();
            let missing = folded.mean / capacity - stepped.prefix[stepped.breaks.len()] / period as f64;
            (breaks, rates) = (stepped.breaks, stepped.rates.iter().map(|rate| rate + missing).collect());
        }
        let mut wave = Self { period, breaks, rates, prefix: Vec::new() };
        wave.integrate();
        wave
    }

    fn end(&self, piece: usize) -> u64 {
        self.breaks.get(piece + 1).copied().unwrap_or(self.period)
    }

    fn integrate(&mut self) {
        let mut sum = 0.0;
        let mut prefix = Vec::with_capacity(self.breaks.len() + 1);
        for piece in 0..self.breaks.len() {
            prefix.push(sum);
            sum += self.rates[piece] * (self.end(piece) - self.breaks[piece]) as f64;
        }
        prefix.push(sum);
        self.prefix = prefix;
    }

    /// Integral from 0 to a time below two periods.
    fn integral(&self, to: u64) -> f64 {
        let (laps, at) = to.div_rem(&self.period);
        let piece = self.breaks.partition_point(|&b| b <= at) - 1;
        laps as f64 * self.prefix[self.breaks.len()] + self.prefix[piece] + self.rates[piece] * (at - self.breaks[piece]) as f64
    }

    fn spans(&self) -> Vec<Span> {
        let span = |piece: usize| Span { from: self.breaks[piece], to: self.end(piece), level: 1, probability: self.rates[piece] };
        // Rounding leaves a silence of laps a hair beside zero, on either side; what is sent is never negative.
        (0..self.breaks.len()).map(span).filter(|span| span.probability > 0.0).collect()
    }

    /// Mean product with the demand of `spans`, `shift` later.
    fn product(&self, spans: &[Span], shift: u64) -> f64 {
        let part = |span: &Span| span.probability * (self.integral(span.to + shift) - self.integral(span.from + shift));
        spans.iter().map(part).sum::<f64>() / self.period as f64
    }
}

/// The least mean product of two demands over all shifts, in parts of the squared capacity; `None` where that takes more work than is left.
fn least_product(one: &Folded, other: &Folded, capacity: f64, budget: &mut Budget) -> Option<f64> {
    let common = one.period.gcd(&other.period);
    if common == 1 {
        // Whatever the shifts, any two of their ticks meet equally often.
        return Some(one.mean * other.mean / (capacity * capacity));
    }
    budget.charge((one.spans.len() + other.spans.len()) as u64);
    let (steps, spans) = (Wave::new(one, common, capacity), Wave::new(other, common, capacity).spans());
    let part = Part {
        steps: Steps { period: common, breaks: &steps.breaks, rate: &steps.rates, levels: 1, first_level: 1 },
        spans: &spans,
        scale: 1.0 / common as f64,
    };
    let (shift, below) = minimum::lowest(&[part], common, budget.left(), budget)?;
    let (first, least) = (steps.product(&spans, 0), steps.product(&spans, shift));
    ((least - first - below).abs() <= PROOF_TOLERANCE / 2.0).then_some(least)
}

/// A cost that no shifts can undercut, by pairs; `None` where there is no work left for it, or nothing to be told.
pub(crate) fn least_cost(circle: &Circle, budget: &mut Budget) -> Option<f64> {
    let capacity = circle.capacity;
    let mut products = Vec::new();
    for (m, on) in circle.members.iter().enumerate() {
        for other in &circle.members[..m] {
            products.push(least_product(&on.folded, &other.folded, capacity, budget)?);
        }
    }
    let shares = |on: &OnCircle| on.folded.shares().into_iter().map(|(level, share)| (level / capacity, share)).collect();
    let known = Known { jobs: circle.members.iter().map(shares).collect(), products };
    let excess = |total: f64| circle.excess_at(total * capacity) / capacity;
    let by_levels = known.least_excess(excess, budget);
    // A program of all levels knows all that a parabola of the total does.
    let by_total = if known.has_few_ways() {
        None
    } else {
        let point = |total: f64| (total / capacity, excess(total / capacity));
        let points: Vec<(f64, f64)> = circle.totals(TOTALS_MAX).into_iter().flatten().map(point).collect();
        let mean = circle.members.iter().map(|on| on.folded.mean).sum::<f64>() / capacity;
        let squares: f64 = known.jobs.iter().flatten().map(|&(level, share)| level * level * share).sum();
        best_parabola(&points, mean, squares + 2.0 * known.products.iter().sum::<f64>(), budget)
    };
    let bound = by_levels.into_iter().chain(by_total).max_by(f64::total_cmp)?;
    Some(circle.cost(bound * capacity))
}

/// The most that `E[excess]` is known to be at least, where the total takes only the places of `points` (total, excess), ascending, and has
/// that mean and at least that mean square.
///
/// For each `bend` the chord below the points of `excess - bend * total^2`, read at the mean, and `bend * square` are together a bound. It
/// is concave in the bend, so each step goes to where the lines of two bends cross.
fn best_parabola(points: &[(f64, f64)], mean: f64, square: f64, budget: &mut Budget) -> Option<f64> {
    let mut look = |bend: f64| -> Option<(f64, f64)> {
        budget.charge(points.len() as u64 / TOTALS_PER_WORK);
        let (below, above) = chord(points, mean, bend)?;
        let share = if above.0 > below.0 { (mean - below.0) / (above.0 - below.0) } else { 0.0 };
        let between = |of: fn((f64, f64)) -> f64| of(below) + (of(above) - of(below)) * share;
        let seen = between(|point| point.0 * point.0);
        Some((between(|point| point.1) + bend * (square - seen), square - seen))
    };
    let (mut low, mut high) = ((0.0, look(0.0)?), (1.0, look(1.0)?));
    if low.1.1 <= 0.0 {
        return Some(low.1.0);
    }
    let mut best = low.1.0.max(high.1.0);
    for _ in 0..STEPS_MAX {
        // Until the bound falls, the bend doubles.
        let next = if high.1.1 > 0.0 {
            2.0 * high.0
        } else {
            let ((a, (at_a, slope_a)), (b, (at_b, slope_b))) = (low, high);
            (at_b - slope_b * b - at_a + slope_a * a) / (slope_a - slope_b)
        };
        if !next.is_finite() || next <= low.0 {
            break;
        }
        let seen = look(next)?;
        best = best.max(seen.0);
        if high.1.1 > 0.0 {
            (low, high) = (high, (next, seen));
        } else if seen.1 > 0.0 {
            low = (next, seen);
        } else if next < high.0 {
            high = (next, seen);
        } else {
            break;
        }
    }
    Some(best)
}

/// The two points of the lower hull of `excess - bend * total^2` on both sides of the mean.
fn chord(points: &[(f64, f64)], mean: f64, bend: f64) -> Option<((f64, f64), (f64, f64))> {
    let lowered = |point: &(f64, f64)| point.1 - bend * point.0 * point.0;
    let mut hull: Vec<&(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..] {
            // The middle one is above the line from the one before it to this one.
            let is_above = (lowered(b) - lowered(a)) * (point.0 - a.0) >= (lowered(point) - lowered(a)) * (b.0 - a.0);
            if !is_above {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    let above = hull.partition_point(|point| point.0 < mean);
    let (below, above) = (hull.get(above.checked_sub(1)?)?, hull.get(above)?);
    Some((**below, **above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Effort, Phase, Rate, Ticks,
        demand::sum::Workspace,
        search::{group::Group, random::Random},
    };

    fn phases(period: u64, rates: &[u64], random: &mut Random) -> Vec<Phase> {
        loop {
            let mut cuts: Vec<u64> = (0..2 * (1 + random.below(4))).map(|_| random.below(period + 1)).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let mut rate = || Rate(rates[random.below(rates.len() as u64) as usize]);
            let found: Vec<Phase> =
                cuts.chunks_exact(2).map(|cut| Phase { start: Ticks(cut[0]), end: Ticks(cut[1]), rate: rate() }).collect();
            if !found.is_empty() {
                return found;
            }
        }
    }

    /// The least cost over all shifts of three jobs or more.
    fn least(group: &Group) -> f64 {
        let mut workspace = Workspace::default();
        let locks: Vec<u64> = group.jobs.iter().map(|job| job.lock).collect();
        let mut shifts = vec![0; locks.len()];
        let mut least = f64::INFINITY;
        'all: loop {
            least = least.min(group.cost(&shifts, &mut workspace));
            // Only differences count.
            for job in 1..locks.len() {
                shifts[job] = (shifts[job] + 1) % locks[job];
                if shifts[job] > 0 {
                    continue 'all;
                }
            }
            return least;
        }
    }

    /// Against all shifts, of equal, harmonic and other periods, of few levels and, by parabolas, of many.
    #[test]
    fn no_shifts_cost_less_than_pairs_say() {
        let mut random = Random::new();
        let (mut better, mut exact, mut all) = (0, 0, 0);
        for case in 0..1_500 {
            let base = 6 + random.below(7);
            let jobs = 3 + usize::from(case % 8 == 0);
            let factors: &[u64] = [&[1][..], &[1, 1, 2], &[1, 2, 3], &[1, 1, 1, 2]][case % 4];
            let periods: Vec<u64> =
                (0..jobs).map(|_| base * factors[random.below(factors.len() as u64) as usize] + random.below(5) / 4).collect();
            let rates: &[u64] = [&[5][..], &[3, 5], &[2, 3, 7, 11]][case % 3];
            let demands: Vec<Vec<Phase>> = periods.iter().map(|&period| phases(period, rates, &mut random)).collect();
            let members: Vec<(usize, &[Phase], u64)> = (0..jobs).map(|j| (j, &demands[j][..], periods[j])).collect();
            let pairs = (0..jobs).flat_map(|one| (0..one).map(move |other| (one, other)));
            let perimeter = pairs.fold(1, |all: u64, (one, other)| all.lcm(&periods[one].gcd(&periods[other])));
            let circle = Circle::new(4 + random.below(8), 1, &members, perimeter);
            let group = Group::new(jobs, vec![circle], Effort::Thorough);
            let shifts: u64 = group.jobs.iter().skip(1).map(|job| job.lock).product();
            if shifts > 3_000 || group.circles[0].members.len() < 3 {
                continue;
            }
            let circle = &group.circles[0];
            let Some(bound) = least_cost(circle, &mut Budget::default()) else { continue };
            let least = least(&group);
            assert!(bound <= least + PROOF_TOLERANCE, "{case}: {bound} is said, and {least} exists: {demands:?} of {periods:?}");
            assert!(bound >= circle.least_cost - 1e-9, "{case}: {bound} is less than {} by means alone", circle.least_cost);
            all += 1;
            better += u32::from(bound > circle.least_cost + 1e-6);
            exact += u32::from(bound >= least - PROOF_TOLERANCE && least > circle.least_cost + 1e-6);
        }
        assert!(all > 500 && better > all / 10 && exact > 0, "{better} of {all} are better than by means, {exact} exact");
    }

    /// Totals of so many levels that only their ends and the bends of the excess are looked at.
    #[test]
    fn parabolas_are_below_the_excess_where_totals_are_many() {
        let mut random = Random::new();
        let mut better = 0;
        for case in 0..300 {
            let period = 9 + random.below(4);
            let demands: Vec<Vec<Phase>> = (0..3).map(|_| phases(period, &[211, 307, 401, 503, 601, 701, 809, 907], &mut random)).collect();
            let constant = [Phase { start: Ticks(0), end: Ticks(4), rate: Rate(150) }];
            let mut members: Vec<(usize, &[Phase], u64)> = (0..3).map(|j| (j, &demands[j][..], period)).collect();
            // Of no common factor with the others: it is in the background.
            if case % 2 == 0 {
                members.push((3, &constant, 1_009));
            }
            let circle = Circle::new(400 + 100 * random.below(8), 1, &members, period);
            let group = Group::new(4, vec![circle], Effort::Thorough);
            let circle = &group.circles[0];
            let capacity = circle.capacity;
            // Too few for all the totals that there can be, enough for the bends.
            let Some(totals) = circle.totals(6) else { continue };
            let on: Vec<(f64, f64)> = totals.iter().map(|&total| (total / capacity, circle.excess_at(total) / capacity)).collect();
            let mean = circle.members.iter().map(|on| on.folded.mean).sum::<f64>() / capacity;
            let mut square: f64 =
                circle.members.iter().flat_map(|on| on.folded.shares()).map(|l| l.0 * l.0 * l.1).sum::<f64>() / capacity.powi(2);
            // A job that always sends is in the background too.
            let members = &circle.members;
            for one in 0..members.len() {
                for other in 0..one {
                    square += 2.0 * least_product(&members[one].folded, &members[other].folded, capacity, &mut Budget::default()).unwrap();
                }
            }
            let Some(bound) = best_parabola(&on, mean, square, &mut Budget::default()) else { continue };
            let bound = circle.cost(bound * capacity);
            let least = least(&group);
            assert!(bound <= least + PROOF_TOLERANCE, "{case}: {bound} is said, and {least} exists");
            better += u32::from(bound > circle.least_cost + 1e-6);
        }
        assert!(better > 10, "{better}");
    }
}
