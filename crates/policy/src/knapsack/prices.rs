//! Prices of units at which items that choose for themselves cost most.
//!
//! That cost is concave in the prices, and the units that items want beyond the capacities are its slope. The prices are found by the
//! ellipsoid method with deep cuts (Bland, Goldfarb and Todd, "The ellipsoid method: a survey", Operations Research 1981): some hundred evaluations,
//! whatever the slopes are like.

use alloc::{vec, vec::Vec};

use super::{EQUAL, KINDS_MAX, ways::Ways};

/// How far the bound may be below the best, as a share of the spread of costs.
const ACCURACY: f64 = 1e-9;
/// Most evaluations, for each pair of kinds: the volume shrinks by a constant factor that depends on the kinds only.
const EVALUATIONS_PER_PAIR: usize = 160;

/// Ways that are looked at for one set of prices: a second or two. With fewer evaluations the bound is lower, and still one.
const WORK_MAX: usize = 1 << 30;

/// Prices, and what they say.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    /// Of each kind, and 0 for kinds that are not there.
    pub(super) of: Vec<f64>,
    /// No answer costs less.
    pub(super) bound: f64,
    /// No prices give a bound that is larger by more than this.
    pub(super) accuracy: f64,
}

/// What items cost that choose for themselves, and the units of each kind that are wanted beyond the capacity.
fn evaluate(ways: &Ways, capacities: &[u32], prices: &[f64], beyond: &mut [f64]) -> f64 {
    beyond.iter_mut().zip(capacities).for_each(|(beyond, capacity)| *beyond = -f64::from(*capacity));
    let mut sum: f64 = -prices.iter().zip(capacities).map(|(price, capacity)| price * f64::from(*capacity)).sum::<f64>();
    for own in ways.each() {
        let mut best = (f64::INFINITY, 0, 0);
        for way in own {
            let cost = way.cost + prices[usize::from(way.kind)] * f64::from(way.units);
            if cost < best.0 {
                best = (cost, way.kind, way.units);
            }
        }
        sum += best.0;
        beyond[usize::from(best.1)] += f64::from(best.2);
    }
    sum
}

impl Prices {
    /// The prices with the largest bound.
    pub(super) fn best(ways: &Ways, capacities: &[u32]) -> Self {
        // The method needs two dimensions; kinds that nobody uses have capacity and price 0.
        let kinds = capacities.len().max(2);
        let mut padded = capacities.to_vec();
        padded.resize(kinds, 0);
        let spread = ways.spread().max(EQUAL);
        // At a price of the whole spread per unit, no item takes a unit that it can do without.
        let mut at = vec![spread / 2.0; kinds];
        let n = kinds as f64;
        // The ball around the box of all prices. The ellipsoid is kept as what maps a ball of radius 1 onto it: the product of that with
        // itself would lose its sign to rounding.
        let mut map = vec![vec![0.0; kinds]; kinds];
        (0..kinds).for_each(|kind| map[kind][kind] = libm::sqrt(n) * spread / 2.0);
        let mut beyond = vec![0.0; kinds];
        let zero = vec![0.0; kinds];
        let mut best = Self { bound: evaluate(ways, &padded, &zero, &mut beyond), of: zero, accuracy: f64::INFINITY };
        let accuracy = spread * ACCURACY;
        for _ in 0..(EVALUATIONS_PER_PAIR * kinds * kinds).min(WORK_MAX / ways.len().max(1)) {
            // Where a price is below zero, the cut is that of the price; else it is that of the slope.
            let (slope, deep) = match at.iter().position(|price| *price < 0.0) {
                Some(kind) => {
                    let mut slope = vec![0.0; kinds];
                    slope[kind] = 1.0;
                    (slope, -at[kind])
                }
                None => {
                    let bound = evaluate(ways, &padded, &at, &mut beyond);
                    if bound > best.bound {
                        best.bound = bound;
                        best.of.clone_from(&at);
                    }
                    (beyond.clone(), best.bound - bound)
                }
            };
            let along: Vec<f64> = (0..kinds).map(|column| (0..kinds).map(|row| map[row][column] * slope[row]).sum()).collect();
            let width = libm::sqrt(along.iter().map(|a| a * a).sum::<f64>());
            let is_slope = at.iter().all(|price| *price >= 0.0);
            // Within the ellipsoid the bound is larger by the width at most.
            if width <= f64::MIN_POSITIVE || is_slope && width - deep < accuracy || deep >= width {
                best.accuracy = accuracy;
                break;
            }
            let depth = deep / width;
            let towards: Vec<f64> = map.iter().map(|row| row.iter().zip(&along).map(|(m, a)| m * a).sum::<f64>() / width).collect();
            let step = (1.0 + n * depth) / (n + 1.0);
            at.iter_mut().zip(&towards).for_each(|(price, towards)| *price += step * towards);
            let grown = libm::sqrt(n * n / (n * n - 1.0) * (1.0 - depth * depth));
            let cut = 2.0 * (1.0 + n * depth) / ((n + 1.0) * (1.0 + depth));
            let narrowed = 1.0 - libm::sqrt((1.0 - cut).max(0.0));
            for (row, towards) in map.iter_mut().zip(&towards) {
                for (entry, along) in row.iter_mut().zip(&along) {
                    *entry = grown * (*entry - narrowed * towards * along / width);
                }
            }
        }
        best.of.resize(KINDS_MAX, 0.0);
        best
    }
}
