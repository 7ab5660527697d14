//! The choices of all items that can matter, in one list.

use alloc::vec::Vec;
use core::ops::Range;

use super::Problem;

/// A choice, or that nothing is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) cost: f64,
    /// Units of the kind; none where nothing is chosen.
    pub(super) units: u32,
    pub(super) kind: u8,
    /// Its number among the choices of the item.
    pub(super) choice: Option<u32>,
}

/// The ways of all items.
#[derive(Debug)]
pub(super) struct Ways {
    all: Vec<Way>,
    /// Where the ways of each item begin, and the end.
    starts: Vec<u32>,
}

impl Ways {
    /// `None` where an item that must choose has no choice that fits.
    pub(super) fn new(problem: &Problem) -> Option<Self> {
        let (mut all, mut starts): (Vec<Way>, Vec<u32>) = (Vec::new(), alloc::vec![0]);
        let mut own: Vec<Way> = Vec::new();
        for item in &problem.items {
            own.clear();
            let fits = item.choices.iter().zip(0..).filter(|(c, _)| c.units <= problem.capacities[usize::from(c.kind)]);
            own.extend(fits.map(|(c, at)| Way { cost: c.cost, units: c.units, kind: c.kind, choice: Some(at) }));
            own.extend(item.nothing.map(|cost| Way { cost, units: 0, kind: 0, choice: None }));
            // What uses no units is of all kinds, and so it comes before all of them.
            own.sort_by(|a, b| (a.units > 0, a.kind, a.units).cmp(&(b.units > 0, b.kind, b.units)).then(a.cost.total_cmp(&b.cost)));
            let from = all.len();
            let mut free = f64::INFINITY;
            for way in &own {
                // A way is of use where it costs less than every way of its kind that uses no more.
                let least = match all.get(from..).and_then(<[Way]>::last) {
                    Some(last) if last.units > 0 && last.kind == way.kind => last.cost.min(free),
                    _ => free,
                };
                if way.cost < least {
                    if way.units == 0 {
                        free = way.cost;
                        all.truncate(from);
                    }
                    all.push(*way);
                }
            }
            if all.len() == from {
                return None;
            }
            // CHOICES_MAX fits.
            starts.push(all.len() as u32);
        }
        Some(Self { all, starts })
    }

    /// How many there are in all.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn items(&self) -> usize {
        self.starts.len() - 1
    }

    fn range(&self, item: usize) -> Range<usize> {
        self.starts[item] as usize..self.starts[item + 1] as usize
    }

    /// The ways of an item; at least one.
    pub(super) fn of(&self, item: usize) -> &[Way] {
        &self.all[self.range(item)]
    }

    /// The ways of each item.
    pub(super) fn each(&self) -> impl Iterator<Item = &[Way]> {
        (0..self.items()).map(|item| self.of(item))
    }

    /// The same ways, each a little dearer, and no two alike.
    pub(super) fn told_apart(&self, seed: u64, most: f64) -> Self {
        let mut all = self.all.clone();
        for (way, at) in all.iter_mut().zip(seed << 32..) {
            way.cost += most * share(at);
        }
        Self { all, starts: self.starts.clone() }
    }

    /// The largest amount of a cost.
    pub(super) fn largest(&self) -> f64 {
        self.all.iter().map(|way| way.cost.abs()).fold(0.0, f64::max)
    }

    /// How much costs differ at most.
    pub(super) fn spread(&self) -> f64 {
        let costs = || self.all.iter().map(|way| way.cost);
        (costs().fold(f64::NEG_INFINITY, f64::max) - costs().fold(f64::INFINITY, f64::min)).max(0.0)
    }
}

/// A number from 0 to 1 that looks random.
fn share(of: u64) -> f64 {
    (units::mix64(of.wrapping_mul(units::GOLDEN)) >> 32) as f64 / f64::from(u32::MAX)
}
