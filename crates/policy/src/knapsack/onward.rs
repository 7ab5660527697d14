//! What it costs at least to go on from a sum, where units that are left over have other prices than those of the bound.
//!
//! At the prices of the bound the items that are still to choose cost nothing, however much is left for them or missing. At other prices,
//! who leaves more to them than they can use well, or less than they need, pays for it: each set of prices is a bound of its own for what
//! is still to choose (Lagrangian relaxation), and a sum is of no use where any of these bounds is beyond reach.

use alloc::vec::Vec;

use super::{KINDS_MAX, improve::Rest};

/// Sets of prices that are tried.
const SETS: usize = 96;
/// By which parts of a price they are dearer or cheaper.
const PARTS: [f64; 5] = [0.05, 0.1, 0.2, 0.4, 0.8];

/// What another way of an item costs at the prices of the bound, and how many units of two kinds it uses more than the item's own.
pub(super) type Shifted = (f64, [(usize, i64); 2]);

/// Sets of prices, and what the items from each on cost at them.
#[derive(Debug)]
pub(super) struct Onward {
    /// What a unit costs that is left over, by set and kind; below zero, what it brings.
    leftover: Vec<[f64; KINDS_MAX]>,
    /// By item, and for the end: what it and all behind it cost at least, by set.
    behind: Vec<Vec<f64>>,
    /// The set that is asked first: the last one at which a sum cost too much.
    first: usize,
}

impl Onward {
    /// `others` tells the other ways of an item.
    pub(super) fn new(prices: &[f64], kinds: usize, items: usize, others: impl Fn(usize, &mut Vec<Shifted>)) -> Self {
        let leftover: Vec<[f64; KINDS_MAX]> = (0..SETS).map(|set| drawn(set, prices, kinds)).collect();
        let mut costs = alloc::vec![0.0; SETS];
        let mut behind = alloc::vec![costs.clone(); items + 1];
        let mut own: Vec<Shifted> = Vec::new();
        for item in (0..items).rev() {
            own.clear();
            others(item, &mut own);
            for (cost, leftover) in costs.iter_mut().zip(&leftover) {
                let at =
                    |(regret, units): &Shifted| regret - units.iter().map(|(kind, units)| leftover[*kind] * *units as f64).sum::<f64>();
                // The item's own way costs nothing and uses nothing more.
                *cost += own.iter().map(at).fold(0.0, f64::min);
            }
            behind[item].clone_from(&costs);
        }
        Self { leftover, behind, first: 0 }
    }

    /// Whether a sum of the items before this one, with that regret and rest, may lead to an answer within reach.
    pub(super) fn leads_on(&mut self, item: usize, regret: f64, rest: &Rest, reach: f64) -> bool {
        let behind = &self.behind[item];
        let is_beyond = |set: usize| {
            let left: f64 = self.leftover[set].iter().zip(rest).map(|(price, rest)| price * *rest as f64).sum();
            regret + behind[set] + left > reach
        };
        if is_beyond(self.first) {
            return false;
        }
        let found = (0..SETS).find(|set| is_beyond(*set));
        self.first = found.unwrap_or(self.first);
        found.is_none()
    }
}

/// What leftover units cost: first one kind by parts of its price, dearer and cheaper, then parts of the prices of all kinds, as they are drawn.
fn drawn(set: usize, prices: &[f64], kinds: usize) -> [f64; KINDS_MAX] {
    let (of, part) = (set / PARTS.len(), PARTS[set % PARTS.len()]);
    let mut leftover = [0.0; KINDS_MAX];
    for (kind, (leftover, price)) in leftover.iter_mut().zip(prices).take(kinds).enumerate() {
        let sign = if of >= 2 * kinds {
            // Two of five up, two down.
            [-1.0, -1.0, 0.0, 1.0, 1.0][(units::mix64(((set * KINDS_MAX + kind) as u64 + 1).wrapping_mul(units::GOLDEN)) % 5) as usize]
        } else if of / 2 == kind {
            if of.is_multiple_of(2) { 1.0 } else { -1.0 }
        } else {
            0.0
        };
        // A unit is worth no more than its price: what is missing at the end is never paid back.
        *leftover = sign * part * price;
    }
    leftover
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The least that any completion costs: regrets, and the price of what is left over in the end, where nothing is missing.
    fn least(prices: &[f64], items: &[Vec<Shifted>], rest: &Rest) -> f64 {
        let Some((own, behind)) = items.split_first() else {
            let left: f64 = rest.iter().zip(prices).map(|(rest, price)| price * *rest as f64).sum();
            return if rest.iter().any(|rest| *rest < 0) { f64::INFINITY } else { left };
        };
        let other = |(regret, units): &Shifted| {
            let mut rest = *rest;
            units.iter().for_each(|(kind, units)| rest[*kind] -= units);
            regret + least(prices, behind, &rest)
        };
        own.iter().map(other).fold(least(prices, behind, rest), f64::min)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
        #[test]
        fn no_sum_is_left_out_that_leads_to_an_answer(
            prices in prop::collection::vec(0.0_f64..0.3, 3),
            items in prop::collection::vec(prop::collection::vec((0.0_f64..1.0, (0_usize..3, -6_i64..7), (0_usize..3, -6_i64..7)), 0..4), 1..6),
            rest in prop::collection::vec(-8_i64..16, 3), regret in 0.0_f64..1.0,
        ) {
            let items: Vec<Vec<Shifted>> = items.iter().map(|own| own.iter().map(|(cost, a, b)| (*cost, [*a, *b])).collect()).collect();
            let mut of: Rest = [0; KINDS_MAX];
            of.iter_mut().zip(&rest).for_each(|(of, rest)| *of = *rest);
            let mut onward = Onward::new(&prices, 3, items.len(), |at, own| own.extend(&items[at]));
            for at in 0..=items.len() {
                let costs = regret + least(&prices, &items[at..], &of);
                prop_assert!(!costs.is_finite() || onward.leads_on(at, regret, &of, costs + 1e-9));
                // And it is no empty bound: with far too little of everything, nothing within twice the prices leads on.
                prop_assert!(prices.iter().any(|price| *price < 0.01) || !onward.leads_on(at, regret, &[-1_000; KINDS_MAX], 2.0));
            }
        }
    }
}
