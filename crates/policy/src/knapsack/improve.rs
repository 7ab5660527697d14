//! A good answer, found by changing the choices of one item or two at a time.
//!
//! Changes are told apart by the units that they free and use, of which there are few. For each, the items for which it costs least are
//! kept, and pairs of changes are tried by them: all exchanges between two items, for the price of a few.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{EQUAL, KINDS_MAX, ways::Ways};

/// Units of each kind that are left over; negative where they are missing.
pub(super) type Rest = [i64; KINDS_MAX];

/// Most rounds, each of which finds a better answer: far more than were seen to be needed.
const ROUNDS_MAX: usize = 1_000;
/// Changes and pairs of them that are looked at from one start: a second.
const WORK_MAX: u64 = 1 << 27;
/// Items that are kept for each change: one that changes already cannot change once more.
const KEPT: usize = 2;

/// What is freed, and what is used: kind and units of each.
type Units = ((u8, u32), (u8, u32));

/// A change of one item, and how much the regret grows.
#[derive(Clone, Copy, Debug)]
struct Change {
    grows: f64,
    item: u32,
    way: u32,
}

/// Choices of all items, and what they leave over.
pub(super) struct Choices<'a> {
    ways: &'a Ways,
    prices: &'a [f64],
    /// Per way: its regret.
    regrets: &'a [Vec<f64>],
    /// What a unit costs that is used and not there: more than any choice can save with it.
    missing: f64,
    pub(super) chosen: Vec<u32>,
    pub(super) rest: Rest,
    regret: f64,
    /// What may still be looked at.
    work: u64,
}

impl<'a> Choices<'a> {
    /// `rest` is what there is before anything is chosen.
    pub(super) fn new(ways: &'a Ways, prices: &'a [f64], regrets: &'a [Vec<f64>], chosen: Vec<u32>, mut rest: Rest) -> Self {
        for (own, way) in ways.each().zip(&chosen) {
            let way = own[*way as usize];
            rest[usize::from(way.kind)] -= i64::from(way.units);
        }
        let regret = chosen.iter().zip(regrets).map(|(way, of)| of[*way as usize]).sum();
        let missing = 2.0 * (ways.spread() + prices.iter().copied().fold(0.0, f64::max)) + 1.0;
        Self { ways, prices, regrets, missing, chosen, rest, regret, work: WORK_MAX }
    }

    /// The distance from the bound, where nothing is missing.
    pub(super) fn distance(&self) -> Option<f64> {
        self.rest.iter().all(|rest| *rest >= 0).then(|| self.regret + self.of_rest(&self.rest))
    }

    fn of_rest(&self, rest: &Rest) -> f64 {
        let of = |(rest, price): (&i64, &f64)| if *rest < 0 { -self.missing * *rest as f64 } else { price * *rest as f64 };
        rest.iter().zip(self.prices).map(of).sum()
    }

    /// Changes choices until no two changes make the answer better.
    pub(super) fn improve(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let now = self.regret + self.of_rest(&self.rest);
            self.work = self.work.saturating_sub(self.ways.len() as u64);
            let changes = self.changes(now);
            let Some((first, second)) = self.best(&changes, now) else { return };
            self.make(first);
            second.into_iter().for_each(|second| self.make(second));
        }
    }

    /// The cheapest changes of each kind, the cheapest kind first. Of those that grow by more than all that can be won, none.
    fn changes(&self, now: f64) -> Vec<(Units, Vec<Change>)> {
        let mut of: BTreeMap<Units, Vec<Change>> = BTreeMap::new();
        for ((own, regrets), (chosen, item)) in self.ways.each().zip(self.regrets).zip(self.chosen.iter().zip(0..)) {
            let from = own[*chosen as usize];
            for ((to, regret), way) in own.iter().zip(regrets).zip(0..) {
                let grows = regret - regrets[*chosen as usize];
                if way == *chosen || grows >= now {
                    continue;
                }
                let kept = of.entry(((from.kind, from.units), (to.kind, to.units))).or_default();
                let at = kept.partition_point(|kept| kept.grows <= grows);
                if at < KEPT {
                    kept.insert(at, Change { grows, item, way });
                    kept.truncate(KEPT);
                }
            }
        }
        let mut changes: Vec<(Units, Vec<Change>)> = of.into_iter().collect();
        changes.sort_by(|a, b| a.1[0].grows.total_cmp(&b.1[0].grows));
        changes
    }

    /// One change, or two, that make the answer better than `now`, and none more so.
    fn best(&mut self, changes: &[(Units, Vec<Change>)], now: f64) -> Option<(Change, Option<Change>)> {
        let mut best = (now - EQUAL, None);
        // What a change wins at most is what the others grow by at least.
        let least = changes.first().map_or(0.0, |(_, change)| change[0].grows);
        for (at, (units, own)) in changes.iter().enumerate() {
            let first = own[0];
            if self.regret + first.grows + least.min(0.0) >= best.0 {
                break;
            }
            let rest = moved(&self.rest, *units);
            let alone = self.regret + first.grows + self.of_rest(&rest);
            if alone < best.0 {
                best = (alone, Some((first, None)));
            }
            // What was found so far is better than nothing, where looking further takes too long.
            if self.work == 0 {
                break;
            }
            for (others, of) in &changes[at..] {
                self.work = self.work.saturating_sub(1);
                if self.regret + first.grows + of[0].grows >= best.0 {
                    break;
                }
                let Some(second) = of.iter().find(|other| other.item != first.item) else { continue };
                let regret = self.regret + first.grows + second.grows;
                let both = regret + self.of_rest(&moved(&rest, *others));
                if both < best.0 {
                    best = (both, Some((first, Some(*second))));
                }
            }
        }
        best.1
    }

    fn make(&mut self, change: Change) {
        let own = self.ways.of(change.item as usize);
        let chosen = &mut self.chosen[change.item as usize];
        let (from, to) = (own[*chosen as usize], own[change.way as usize]);
        *chosen = change.way;
        self.rest = moved(&self.rest, ((from.kind, from.units), (to.kind, to.units)));
        self.regret += change.grows;
    }
}

/// What is left over after a change.
fn moved(rest: &Rest, (freed, used): Units) -> Rest {
    let mut rest = *rest;
    rest[usize::from(freed.0)] += i64::from(freed.1);
    rest[usize::from(used.0)] -= i64::from(used.1);
    rest
}
