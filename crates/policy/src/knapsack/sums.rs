//! All sums of regrets near the bound.

use alloc::{vec, vec::Vec};

use super::{
    EQUAL, KINDS_MAX, UNITS_MAX,
    improve::{Choices, Rest},
    onward::Onward,
    prices::Prices,
    ways::{Way, Ways},
};

/// Bits of a number in a key.
const LANE: u32 = 16;
/// What a number of a key is when as many units are used as by those who choose for themselves.
const MIDDLE: i64 = 1 << (LANE - 1);

/// A way that is not what its item chooses for itself.
#[derive(Clone, Copy, Debug)]
struct Other {
    regret: f64,
    /// Its place among the ways of the item.
    way: u32,
}

/// An item, and what other ways it has.
#[derive(Clone, Debug)]
struct Entry {
    item: u32,
    /// Its own choice.
    own: u32,
    /// By regret.
    others: Vec<Other>,
}

/// What some items choose: how much their regrets are, and where the list of them begins.
#[derive(Clone, Copy, Debug)]
struct Sum {
    /// Units used of each kind, [`LANE`] bits each, beyond those of the items' own choices.
    key: u128,
    regret: f64,
    /// The last item that chooses another way, with those before it.
    last: u32,
}

/// An item that chooses another way, and the one before it.
#[derive(Clone, Copy, Debug)]
struct Link {
    item: u32,
    way: u32,
    before: u32,
}

/// Sums from which on it is worth to look at what going on costs: with fewer they are listed sooner.
const MANY: usize = 2_000;
/// How many sums a sum counts for that is looked at so.
const LOOKED_AT: u64 = 4;
/// Sums that are joined at most to find a better answer where not all can be listed: a second.
const BETTER_SUMS: u64 = 1 << 24;
/// Most sums that are kept at a time for that.
const BETTER_KEPT: u64 = 5_000;

/// Starts from which a good answer is looked for.
const STARTS: u64 = 4;
/// By how much costs are told apart, as a share of their spread: above what prices are exact to.
const APART: f64 = 1e-6;

/// No item.
const NONE: u32 = u32::MAX;

/// An answer: its distance from the bound, and the items that choose another way than for themselves.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) distance: f64,
    others: Vec<(u32, u32)>,
}

/// What the items choose for themselves, and what else they could.
#[derive(Debug)]
pub(super) struct Core<'a> {
    ways: &'a Ways,
    prices: &'a [f64],
    entries: Vec<Entry>,
    /// Units of each kind that are left over, negative where they are missing, when every item has its own choice.
    rest: Rest,
    kinds: usize,
    /// The largest regrets of all items together.
    regret_max: f64,
    sums_left: u64,
    /// What sums of floats are exact to.
    exact: f64,
    /// Some list was so long that going on was looked at.
    long: bool,
    /// The last list had all sums within its reach.
    complete: bool,
}

/// How much the units of each kind can change by the items that are still to come.
#[derive(Clone, Debug)]
struct Change {
    more: [i64; KINDS_MAX],
    less: [i64; KINDS_MAX],
}

impl<'a> Core<'a> {
    /// The core, and a good answer, where one was found; no better one is looked for than at the distance `least`, and costs are exact to `exact`.
    pub(super) fn new(
        ways: &'a Ways,
        prices: &'a Prices,
        capacities: &[u32],
        sums_max: u64,
        (least, exact): (f64, f64),
    ) -> (Self, Option<Found>) {
        let mut rest: Rest = [0; KINDS_MAX];
        rest.iter_mut().zip(capacities).for_each(|(rest, units)| *rest = i64::from(*units));
        let regrets: Vec<Vec<f64>> = ways.each().map(|own| regrets(own, &prices.of)).collect();
        let best = good_choices(ways, prices, &regrets, rest, capacities, least + exact);
        let (mut entries, mut others) = (Vec::with_capacity(ways.items()), Vec::new());
        for ((item, regrets), at) in (0..).zip(&regrets).zip(0..) {
            let of = ways.of(item as usize);
            let good = best.as_ref().map_or(0, |best| best.chosen[at]);
            // The closer own choices are to a good answer, the fewer sums lie between.
            let cheapest = || (0..of.len() as u32).find(|way| regrets[*way as usize] <= EQUAL).unwrap_or(0);
            let own = if regrets[good as usize] <= EQUAL { good } else { cheapest() };
            rest[usize::from(of[own as usize].kind)] -= i64::from(of[own as usize].units);
            if own != good {
                others.push((item, good));
            }
            let other = |way: u32| Other { regret: regrets[way as usize], way };
            let mut others: Vec<Other> = (0..of.len() as u32).filter(|way| *way != own).map(other).collect();
            others.sort_by(|a, b| a.regret.total_cmp(&b.regret));
            entries.push(Entry { item, own, others });
        }
        // What changes most comes first, so the last items settle what is left by single units.
        let change = |entry: &Entry| {
            let own = ways.of(entry.item as usize);
            let units = |way: u32| i64::from(own[way as usize].units);
            entry.others.iter().map(|other| units(other.way).max(units(entry.own))).max().unwrap_or(0)
        };
        entries.sort_by_key(|entry| core::cmp::Reverse(change(entry)));
        let regret_max = regrets.iter().map(|of| of.iter().copied().fold(0.0, f64::max)).sum();
        let found = best.and_then(|best| best.distance()).map(|distance| Found { distance, others });
        let kinds = capacities.len();
        (
            Self { ways, prices: &prices.of, entries, rest, kinds, regret_max, sums_left: sums_max, exact, long: false, complete: true },
            found,
        )
    }

    /// Whether the last list had all sums within its reach.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether every answer is within that distance of the bound: no answer has larger regrets, or leaves more units over.
    pub(super) fn is_everything(&self, distance: f64) -> bool {
        distance > self.regret_max + self.prices.iter().sum::<f64>() * f64::from(UNITS_MAX)
    }

    /// An answer that few sums show, if they show any.
    pub(super) fn glance(&mut self, kept: usize) -> Option<Found> {
        self.run(f64::INFINITY, kept)
    }

    /// The best answer within that distance of the bound, if [`Self::is_complete`] afterwards.
    pub(super) fn list(&mut self, distance: f64) -> Option<Found> {
        self.run(distance, usize::MAX)
    }

    /// A better answer than one at that distance, where all within it are too many to be listed: by the sums that look best.
    pub(super) fn better(&mut self, distance: f64) -> Option<Found> {
        let others = |entry: &Entry| entry.others.iter().take_while(|other| other.regret <= distance).count() as u64;
        // With each other way of an item the list is joined once more.
        let joins: u64 = self.entries.iter().map(others).map(|others| others * (others + 3) / 2).sum();
        // What is kept bounds the work.
        self.sums_left = u64::MAX;
        self.run(distance, BETTER_KEPT.min(BETTER_SUMS / joins.max(1)) as usize)
    }

    /// Whether some list was long, so that a little more reach takes much longer.
    pub(super) fn is_long(&self) -> bool {
        self.long
    }

    /// What each item chooses.
    pub(super) fn choices(&self, found: &Found) -> Vec<Option<u32>> {
        let mut chosen = vec![None; self.entries.len()];
        let choice = |item: u32, way: u32| self.ways.of(item as usize)[way as usize].choice;
        self.entries.iter().for_each(|entry| chosen[entry.item as usize] = choice(entry.item, entry.own));
        found.others.iter().for_each(|&(item, way)| chosen[item as usize] = choice(item, way));
        chosen
    }

    fn run(&mut self, reach: f64, kept: usize) -> Option<Found> {
        self.complete = true;
        let entries: Vec<&Entry> = self.entries.iter().filter(|entry| entry.others.first().is_some_and(|o| o.regret <= reach)).collect();
        let changes = self.changes(&entries, reach);
        let middle = (0..KINDS_MAX).fold(0, |key, kind| key | (MIDDLE as u128) << (LANE * kind as u32));
        let mut links: Vec<Link> = Vec::new();
        let mut sums = vec![Sum { key: middle, regret: 0.0, last: NONE }];
        let (mut next, mut joined): (Vec<Sum>, Vec<Sum>) = (Vec::new(), Vec::new());
        let mut onward = None;
        for (at, entry) in entries.iter().enumerate() {
            let change = &changes[at + 1];
            if onward.is_none() && sums.len() > MANY {
                onward = Some(self.onward(&entries, reach));
                self.long = true;
            }
            let weight = if onward.is_some() { LOOKED_AT } else { 1 };
            let mut leads = |sum: &Sum| {
                leads_on(&self.rest, self.prices, sum, change, reach)
                    && onward.as_mut().is_none_or(|onward| {
                        let mut rest: Rest = [0; KINDS_MAX];
                        rest.iter_mut().zip(rest_of(&self.rest, sum.key)).for_each(|(rest, of)| *rest = of);
                        onward.leads_on(at + 1, sum.regret, &rest, reach + self.exact)
                    })
            };
            next.clear();
            next.extend(sums.iter().filter(|sum| leads(sum)));
            for other in entry.others.iter().take_while(|other| other.regret <= reach) {
                let shift = shift(self.ways, entry, other);
                joined.clear();
                let mut known = next.iter().copied().peekable();
                for sum in &sums {
                    let regret = sum.regret + other.regret;
                    if regret > reach {
                        continue;
                    }
                    if !within(sum.key, &shift, self.kinds) {
                        self.complete = false;
                        continue;
                    }
                    let moved = Sum { key: sum.key.wrapping_add(shift.key), regret, last: sum.last };
                    if !leads(&moved) {
                        continue;
                    }
                    while let Some(before) = known.next_if(|known| known.key < moved.key) {
                        joined.push(before);
                    }
                    if known.peek().is_some_and(|known| known.key == moved.key && known.regret <= regret) {
                        continue;
                    }
                    known.next_if(|known| known.key == moved.key);
                    links.push(Link { item: entry.item, way: other.way, before: sum.last });
                    joined.push(Sum { last: links.len() as u32 - 1, ..moved });
                }
                joined.extend(known);
                self.sums_left = self.sums_left.saturating_sub((sums.len() + joined.len()) as u64 * weight);
                core::mem::swap(&mut next, &mut joined);
                if self.sums_left == 0 || links.len() >= NONE as usize - sums.len() {
                    self.complete = false;
                    return None;
                }
            }
            core::mem::swap(&mut sums, &mut next);
            if sums.len() > kept {
                self.keep(&mut sums, kept);
            }
        }
        let total = |sum: &Sum| {
            let rest = rest_of(&self.rest, sum.key);
            let fits = rest.clone().all(|rest| rest >= 0);
            fits.then(|| sum.regret + rest.zip(self.prices).map(|(rest, price)| price * rest as f64).sum::<f64>())
        };
        let near = sums.iter().filter_map(|sum| Some((total(sum)?, sum))).filter(|(distance, _)| *distance <= reach);
        let best = near.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let mut others = Vec::new();
        let mut last = best.1.last;
        // Each link names one before it.
        while let Some(link) = links.get(last as usize) {
            others.push((link.item, link.way));
            last = link.before;
        }
        Some(Found { distance: best.0, others })
    }

    /// Keeps the sums that look best: what they would cost were the units that they lack, or leave over, bought at their price.
    fn keep(&self, sums: &mut Vec<Sum>, kept: usize) {
        let looks = |sum: &Sum| {
            let rest = rest_of(&self.rest, sum.key);
            sum.regret + rest.zip(self.prices).map(|(rest, price)| price * rest.unsigned_abs() as f64).sum::<f64>()
        };
        sums.sort_by(|a, b| looks(a).total_cmp(&looks(b)));
        sums.truncate(kept);
        sums.sort_by_key(|sum| sum.key);
    }

    /// What going on from each entry costs, with ways of a regret within reach.
    fn onward(&self, entries: &[&Entry], reach: f64) -> Onward {
        Onward::new(self.prices, self.kinds, entries.len(), |at, own| {
            let others = entries[at].others.iter().take_while(|other| other.regret <= reach);
            own.extend(others.map(|other| (other.regret, shift(self.ways, entries[at], other).units)));
        })
    }

    /// What can still change from each entry on.
    fn changes(&self, entries: &[&Entry], reach: f64) -> Vec<Change> {
        let mut changes = vec![Change { more: [0; KINDS_MAX], less: [0; KINDS_MAX] }; entries.len() + 1];
        for (at, entry) in entries.iter().enumerate().rev() {
            let mut change = changes[at + 1].clone();
            let (mut more, mut less) = ([0; KINDS_MAX], [0; KINDS_MAX]);
            for other in entry.others.iter().take_while(|other| other.regret <= reach) {
                for (kind, units) in shift(self.ways, entry, other).units {
                    more[kind] = units.max(more[kind]);
                    less[kind] = units.min(less[kind]);
                }
            }
            for kind in 0..KINDS_MAX {
                change.more[kind] += more[kind];
                change.less[kind] += less[kind];
            }
            changes[at] = change;
        }
        changes
    }
}

/// The best choices that exchanges find from some starts; `enough` is a distance of which no better one is looked for.
fn good_choices<'a>(
    ways: &'a Ways,
    prices: &'a Prices,
    regrets: &'a [Vec<f64>],
    rest: Rest,
    capacities: &[u32],
    enough: f64,
) -> Option<Choices<'a>> {
    let distance = |of: &Choices<'_>| of.distance().unwrap_or(f64::INFINITY);
    let mut best: Option<Choices<'_>> = None;
    for seed in 1..=STARTS {
        // Where many choices cost the same, they are told apart for a start, so that what they use fits but for a few.
        let apart = ways.told_apart(seed, ways.spread() * APART);
        let start = start(&apart, &Prices::best(&apart, capacities).of);
        let mut tried = Choices::new(ways, &prices.of, regrets, start, rest);
        tried.improve();
        if best.as_ref().is_none_or(|best| distance(&tried) < distance(best)) {
            best = Some(tried);
        }
        if best.as_ref().is_some_and(|best| distance(best) <= enough) {
            break;
        }
    }
    best
}

/// What the items choose for themselves at these prices.
fn start(ways: &Ways, prices: &[f64]) -> Vec<u32> {
    let least = |own: &[Way]| {
        let cost = |way: &Way| way.cost + prices[usize::from(way.kind)] * f64::from(way.units);
        (0..).zip(own).min_by(|a, b| cost(a.1).total_cmp(&cost(b.1))).map_or(0, |(at, _)| at)
    };
    ways.each().map(least).collect()
}

/// What each way of an item costs more than the cheapest at these prices.
fn regrets(ways: &[Way], prices: &[f64]) -> Vec<f64> {
    let cost = |way: &Way| way.cost + prices[usize::from(way.kind)] * f64::from(way.units);
    let least = ways.iter().map(cost).fold(f64::INFINITY, f64::min);
    ways.iter().map(|way| (cost(way) - least).max(0.0)).collect()
}

/// How another way of an item changes the units used.
struct Shift {
    key: u128,
    /// By kind; those of its own way, and those of the other.
    units: [(usize, i64); 2],
}

fn shift(ways: &Ways, entry: &Entry, other: &Other) -> Shift {
    let of = ways.of(entry.item as usize);
    let (own, other) = (of[entry.own as usize], of[other.way as usize]);
    let lane = |kind: u8, units: i64| (units as u128) << (LANE * u32::from(kind));
    let (own_units, other_units) = (i64::from(own.units), i64::from(other.units));
    let key = lane(other.kind, other_units).wrapping_sub(lane(own.kind, own_units));
    let units = if own.kind == other.kind {
        [(usize::from(own.kind), other_units - own_units), (usize::from(own.kind), 0)]
    } else {
        [(usize::from(own.kind), -own_units), (usize::from(other.kind), other_units)]
    };
    Shift { key, units }
}

/// Whether the numbers of a key stay numbers of [`LANE`] bits.
fn within(key: u128, shift: &Shift, kinds: usize) -> bool {
    let number = |kind: usize| i64::from((key >> (LANE * kind as u32)) as u16);
    shift.units.iter().filter(|(kind, _)| *kind < kinds).all(|&(kind, units)| (0..2 * MIDDLE).contains(&(number(kind) + units)))
}

/// Units of each kind that are left over; negative where they are missing.
fn rest_of(rest: &Rest, key: u128) -> impl Iterator<Item = i64> + Clone {
    rest.iter().zip(0_u32..).map(move |(rest, kind)| rest + MIDDLE - i64::from((key >> (LANE * kind)) as u16))
}

/// Whether the items to come can make an answer of a sum, within reach.
fn leads_on(rest: &Rest, prices: &[f64], sum: &Sum, change: &Change, reach: f64) -> bool {
    let mut distance = sum.regret;
    for (kind, rest) in rest_of(rest, sum.key).enumerate() {
        if rest - change.less[kind] < 0 {
            return false;
        }
        let left = (rest - change.more[kind]).max(0);
        distance += prices[kind] * left as f64;
    }
    distance <= reach
}
