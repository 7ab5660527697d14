//! Packing: shifts under which a link is never above its capacity, where its jobs fill it nearly to the last tick.
//!
//! Annealing comes near such shifts and rarely finds them: with no room left each job fits in one place only, and moving one job makes
//! the cost worse before it makes it better. A search in depth uses just that. At a wall, where the free capacity rises, some job
//! must begin to send at that very tick, or free capacity is lost; and how much may be lost in all is known. So each node takes
//! the wall that begins the narrowest free stretch, and tries the few jobs that fit there. The search finds shifts or gives up. It proves
//! nothing, because jobs that have room need not begin at walls.
//!
//! A job of several laps leaves the same gaps in each of them. Where such jobs stand side by side, the gaps are few and long, and many sets of
//! the other jobs fill them. [`Order::Laps`] places them first, therefore, and side by side as far as walls allow.

mod room;
mod sums;

use alloc::{vec, vec::Vec};

use num_integer::Integer as _;

use self::room::{Room, Stretch, Wall};
use super::{group::Group, random::Random};
use crate::{
    budget::Budget,
    demand::circle::{Circle, OnCircle},
};

/// Most stretches that all jobs send around the circle together: a node goes through all of them.
const STRETCHES_MAX: u64 = 1 << 10;
/// The part of the capacity that may be lost: with more room walls say little, and annealing finds packings.
const LOSS_MAX: f64 = 0.05;
/// Nodes of the first attempt; each one after it has half as many more. A wrong choice near the root is left sooner by a new attempt
/// than by going through all that follows from it.
const NODES_FIRST: u64 = 500;
/// Dead ends that are remembered: half a MiB. Attempts that place the same jobs in another order end there.
const DEAD_ENDS: usize = 1 << 16;
/// Words of such a table that are cleared in a unit of work.
const CLEARED_PER_UNIT: u64 = 64;
/// Most rates of a link that is divided into lanes, most ways in which they add up to its capacity, and most steps to list these.
const RATES_MAX: usize = 8;
const WAYS_MAX: usize = 64;
const STEPS_MAX: usize = 1 << 12;

/// Which jobs are placed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Those of most laps, of these the hardest.
    Laps,
    /// The hardest ones.
    Hardness,
}

/// What one job sends.
#[derive(Clone, Debug)]
struct Item {
    job: usize,
    period: u64,
    /// Laps of the job around the circle.
    laps: u64,
    /// Within the period, by their begin.
    stretches: Vec<Stretch>,
    /// When it begins to send, or sends more, and for how long.
    rises: Vec<(u64, u64)>,
}

/// A node of the search: the room that is left, and what is to be tried there.
struct Node {
    room: Room,
    /// Free capacity times ticks that may still be lost.
    loss: u128,
    /// The item that was placed to get here.
    placed: Option<usize>,
    /// Items and shifts that begin at the wall; the last one is tried first.
    places: Vec<(usize, u64)>,
    /// What is left when none of them does.
    wasted: Option<(Room, u128)>,
    /// Whether all that follows was looked at.
    whole: bool,
}

/// The search for one packing.
struct Packing {
    perimeter: u64,
    capacity: u64,
    items: Vec<Item>,
    /// Of each item the first that sends the same: of items that are alike the first is placed first.
    alike: Vec<usize>,
    /// All lengths are multiples of it.
    unit: u64,
    /// No item sends less.
    rate_min: u64,
    shifts: Vec<Option<u64>>,
    dead: Vec<u64>,
    random: Random,
    /// Whether nodes are left in which some job has no place any more: a look takes longer than ten nodes without, and saves hundreds where
    /// a job is hard to place. Every second attempt does.
    looks_ahead: bool,
    order: Order,
}

impl Item {
    /// What a job sends; `None` where that is not certain at each point.
    fn of(circle: &Circle, on: &OnCircle) -> Option<Self> {
        let (folded, period) = (&on.folded, on.folded.period);
        // Rates are whole numbers of Mbit/s, and so exact.
        let rate = |level: u32| folded.levels[level as usize] as u64;
        let stretches: Vec<Stretch> = folded.spans.iter().map(|s| (s.from, s.to - s.from, rate(s.level))).collect();
        let ends_at = |s: &&Stretch, at: u64| s.0 + s.1 == if at == 0 { period } else { at };
        let before = |at: u64| stretches.iter().find(|s| ends_at(s, at)).map_or(0, |s| s.2);
        let rises = stretches.iter().filter(|s| s.2 > before(s.0)).map(|s| (s.0, s.1)).collect();
        folded.is_locked().then_some(Self { job: on.job, period, laps: circle.perimeter / period, stretches, rises })
    }

    /// What it sends around the circle at that shift.
    fn around(&self, shift: u64) -> impl Iterator<Item = Stretch> {
        let perimeter = self.laps * self.period;
        let laps = (0..self.laps).map(move |lap| shift + lap * self.period);
        laps.flat_map(move |begin| self.stretches.iter().map(move |s| ((s.0 + begin) % perimeter, s.1, s.2)))
    }

    /// Stretches around the circle.
    fn pieces(&self) -> u64 {
        self.stretches.len() as u64 * self.laps
    }

    /// How hard it is to place: what takes more time, and in more pieces, finds fewer places later on.
    fn hardness(&self) -> f64 {
        self.stretches.iter().map(|s| s.1 as f64).sum::<f64>() * self.pieces() as f64
    }
}

impl Packing {
    fn new(items: Vec<Item>, perimeter: u64, capacity: u64, order: Order) -> Option<Self> {
        let same = |a: &Item, b: &Item| a.period == b.period && a.stretches == b.stretches;
        let alike = items.iter().enumerate().map(|(i, item)| items.iter().position(|other| same(item, other)).unwrap_or(i)).collect();
        let all = || items.iter().flat_map(|item| item.stretches.iter());
        let unit = all().fold(perimeter, |unit, s| unit.gcd(&s.1));
        let rate_min = all().map(|s| s.2).min()?;
        let (shifts, dead) = (vec![None; items.len()], vec![0; DEAD_ENDS]);
        Some(Self { perimeter, capacity, items, alike, unit, rate_min, shifts, dead, random: Random::new(), looks_ahead: false, order })
    }

    /// Looks for a packing as long as the budget allows, and puts it into `shifts` by job.
    fn find(mut self, budget: &mut Budget, shifts: &mut [u64]) -> Option<()> {
        budget.charge(DEAD_ENDS as u64 / CLEARED_PER_UNIT);
        let loss = loss(&self.items, self.capacity, self.perimeter)?;
        let mut nodes = NODES_FIRST;
        while !budget.is_spent() {
            self.looks_ahead = !self.looks_ahead;
            let root = self.root(loss, budget)?;
            if self.attempt(root, nodes, budget)? {
                for (item, shift) in self.items.iter().zip(&self.shifts) {
                    shifts[item.job] = shift.unwrap_or(0);
                }
                return Some(());
            }
            nodes += nodes / 2;
        }
        None
    }

    /// The node in which only the item stands that is hardest to place: around the circle only differences of shifts count. `None`: even this one
    /// exceeds the capacity.
    fn root(&mut self, loss: u128, budget: &mut Budget) -> Option<Node> {
        let first = (0..self.items.len()).max_by_key(|&i| (self.rank(&self.items[i]), self.items[i].pieces()))?;
        let empty = Room::new(self.perimeter, self.capacity);
        if !empty.holds(self.items[first].around(0), budget) {
            return None;
        }
        let room = empty.without(self.items[first].around(0), budget);
        self.shifts.fill(None);
        self.shifts[first] = Some(0);
        Some(self.node(room, loss, None, budget))
    }

    /// Items of a higher rank are placed before all others.
    fn rank(&self, item: &Item) -> u64 {
        if self.order == Order::Laps { item.laps } else { 0 }
    }

    /// Looks for a packing through at most so many nodes: whether it was found. `None`: there is none that begins at walls.
    fn attempt(&mut self, root: Node, mut nodes: u64, budget: &mut Budget) -> Option<bool> {
        let mut path = vec![root];
        while self.shifts.iter().any(Option::is_none) {
            let node = path.last_mut()?;
            let is_over = nodes == 0 || budget.is_spent();
            let (room, loss, placed) = if let Some((item, shift)) = node.places.pop().filter(|_| !is_over) {
                self.shifts[item] = Some(shift);
                (node.room.without(self.items[item].around(shift), budget), node.loss, Some(item))
            } else if let Some((room, loss)) = node.wasted.take().filter(|_| !is_over) {
                (room, loss, None)
            } else {
                node.whole &= !is_over;
                if !self.leave(&mut path)? {
                    return Some(false);
                }
                continue;
            };
            nodes -= 1;
            let node = self.node(room, loss, placed, budget);
            path.push(node);
        }
        Some(true)
    }

    /// Goes back from a node to the one before it: whether there is one. `None` where there is none and all was looked at.
    fn leave(&mut self, path: &mut Vec<Node>) -> Option<bool> {
        let node = path.pop()?;
        if node.whole {
            let (slot, hash) = self.remembered(&node.room, node.loss);
            self.dead[slot] = hash;
        }
        if let Some(item) = node.placed {
            self.shifts[item] = None;
        }
        match path.last_mut() {
            Some(parent) => {
                parent.whole &= node.whole;
                Some(true)
            }
            None if node.whole => None,
            None => Some(false),
        }
    }

    /// A node for that room; one without anything to try where it is known that nothing comes of it.
    fn node(&mut self, room: Room, loss: u128, placed: Option<usize>, budget: &mut Budget) -> Node {
        let (slot, hash) = self.remembered(&room, loss);
        let (mut places, mut wasted) = (Vec::new(), None);
        let is_dead = self.dead[slot] == hash || self.is_hopeless(&room, loss, budget) || self.looks_ahead && self.is_stuck(&room, budget);
        if let Some(wall) = room.narrowest().filter(|_| !is_dead) {
            places = self.places(&room, &wall, budget);
            let lost = room.waste(&wall);
            let left = loss.checked_sub(u128::from(lost.1) * u128::from(lost.2));
            wasted = left.map(|left| (room.without(core::iter::once(lost), budget), left));
        }
        Node { room, loss, placed, places, wasted, whole: true }
    }

    /// Where a dead end is remembered, and as what. Two rooms that look the same hide a packing at worst: nothing is proven by it.
    fn remembered(&self, room: &Room, loss: u128) -> (usize, u64) {
        let placed = (0..self.shifts.len()).filter(|&i| self.shifts[i].is_some()).map(|i| i as u64);
        let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(units::GOLDEN);
        let hash = room.words().chain(placed).fold(loss as u64, mix);
        let hash = hash ^ hash >> 32;
        // Zero stands for nothing.
        ((hash % DEAD_ENDS as u64) as usize, hash | 1)
    }

    /// The places of items that begin at a wall and fit; the last one is to be tried first.
    fn places(&mut self, room: &Room, wall: &Wall, budget: &mut Budget) -> Vec<(usize, u64)> {
        let mut found: Vec<(u64, f64, usize, u64)> = Vec::new();
        for (i, item) in self.items.iter().enumerate() {
            // Of items that are alike any one will do.
            let is_first = (self.alike[i]..i).all(|j| self.alike[j] != self.alike[i] || self.shifts[j].is_some());
            if self.shifts[i].is_some() || !is_first {
                continue;
            }
            for &(rise, length) in &item.rises {
                let shift = (wall.at % item.period + item.period - rise) % item.period;
                let is_known = found.iter().any(|f| f.2 == i && f.3 == shift);
                if !is_known && room.holds(item.around(shift), budget) {
                    // Harder items tend to come first, and items that fill the stretch come before items that leave a part free.
                    let fills = if length == wall.length { 2.0 } else { 1.0 };
                    found.push((self.rank(item), item.hardness() * fills * (1.0 + self.random.unit()), i, shift));
                }
            }
        }
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        found.into_iter().map(|(_, _, item, shift)| (item, shift)).collect()
    }

    /// Whether an item that is left has no place any more.
    fn is_stuck(&self, room: &Room, budget: &mut Budget) -> bool {
        let walls: Vec<u64> = room.rises().collect();
        let has_place = |item: &Item| {
            item.rises.iter().any(|rise| {
                walls.iter().any(|wall| {
                    let shift = (wall % item.period + item.period - rise.0) % item.period;
                    room.holds(item.around(shift), budget)
                })
            })
        };
        let mut left: Vec<&Item> = self
            .items
            .iter()
            .zip(&self.shifts)
            .filter(|(item, shift)| shift.is_none() && item.pieces() > 1)
            .map(|(item, _)| item)
            .collect();
        left.sort_unstable_by(|a, b| b.hardness().total_cmp(&a.hardness()));
        !left.into_iter().all(has_place)
    }

    /// Whether the lengths that are left cannot fill a stretch which is closed on both sides. What is sent there begins and ends within it,
    /// and what ends before its end is followed by another one, or free capacity is lost.
    fn is_hopeless(&self, room: &Room, loss: u128, budget: &mut Budget) -> bool {
        let there = self.items.iter().zip(&self.shifts).filter(|(_, shift)| shift.is_none()).map(|(item, _)| item);
        let lengths = there.flat_map(|item| item.stretches.iter().flat_map(|s| core::iter::repeat_n(s.1 / self.unit, item.laps as usize)));
        let lost = u64::try_from(loss / u128::from(self.rate_min) / u128::from(self.unit)).unwrap_or(u64::MAX);
        let closed = room.closed().map(|length| length / self.unit).collect();
        sums::is_one_missing(lengths.take(u64::BITS as usize).collect(), closed, lost, self.perimeter / self.unit, budget)
    }
}

/// The jobs of a link that they fill nearly whole.
#[derive(Clone, Debug)]
pub(super) struct Items {
    perimeter: u64,
    /// What jobs leave that send the same all the time.
    capacity: u64,
    items: Vec<Item>,
    /// Capacity times ticks that the items leave free.
    loss: u128,
}

impl Items {
    /// The jobs of a group of one link; `None` where they leave more room than a search for a packing is good for, or send in too many
    /// pieces, or with others not the same each time around.
    pub(super) fn of(group: &Group) -> Option<Self> {
        let [circle] = &group.circles[..] else { return None };
        let capacity = (circle.capacity - circle.background.most()).max(0.0) as u64;
        let pieces = |on: &OnCircle| (circle.perimeter / on.folded.period).saturating_mul(on.folded.spans.len() as u64);
        let all = circle.members.iter().map(pieces).fold(0, u64::saturating_add);
        (circle.is_walkable() && all <= STRETCHES_MAX).then_some(())?;
        let items = circle.members.iter().map(|on| Item::of(circle, on)).collect::<Option<Vec<_>>>()?;
        let loss = loss(&items, capacity, circle.perimeter)?;
        let is_full = loss as f64 <= LOSS_MAX * capacity as f64 * circle.perimeter as f64;
        is_full.then_some(Self { perimeter: circle.perimeter, capacity, items, loss })
    }

    /// Whether [`Order::Laps`] is another order than [`Order::Hardness`].
    pub(super) fn have_unequal_laps(&self) -> bool {
        self.items.windows(2).any(|two| two[0].laps != two[1].laps)
    }

    /// Shifts of so many jobs under which the link is never above its capacity, if they are found with what is left of the budget.
    pub(super) fn packed(&self, jobs: usize, order: Order, budget: &mut Budget) -> Option<Vec<u64>> {
        let mut shifts = vec![0; jobs];
        let mut lanes = lanes(&self.items, self.capacity);
        // Where something may be lost the lanes are a guess, and so they are where rates add up in several ways.
        let are_certain = self.loss == 0 && lanes.len() > 1;
        if lanes.len() < 2 {
            lanes = lanes_by_rate(&self.items, self.capacity, self.perimeter);
        }
        if lanes.len() > 1 {
            let outer = budget.narrow(if are_certain { budget.left() } else { budget.left() / 2 });
            let all = lanes.into_iter().try_for_each(|(capacity, lane)| {
                let lane = lane.into_iter().map(|i| self.items[i].clone()).collect();
                Packing::new(lane, self.perimeter, capacity, order)?.find(budget, &mut shifts)
            });
            budget.restore(outer);
            if all.is_some() {
                return Some(shifts);
            }
        }
        Packing::new(self.items.clone(), self.perimeter, self.capacity, order)?.find(budget, &mut shifts)?;
        Some(shifts)
    }
}

/// Capacity times ticks that the items leave free; `None` if they send more than there is.
fn loss(items: &[Item], capacity: u64, perimeter: u64) -> Option<u128> {
    let sent: u128 = items.iter().flat_map(|item| item.around(0)).map(|s| u128::from(s.1) * u128::from(s.2)).sum();
    (u128::from(capacity) * u128::from(perimeter)).checked_sub(sent)
}

/// Items that can be packed for themselves, each lane with its part of the capacity; fewer than two where there are none. Where nothing
/// may be lost, the rates of those who send at any one time add up to the capacity. If every way to do so has as many jobs of one rate,
/// the jobs of this rate have that much of the capacity to themselves.
fn lanes(items: &[Item], capacity: u64) -> Vec<(u64, Vec<usize>)> {
    let sends = |i: usize, rate: u64| items[i].stretches.iter().any(|s| s.2 == rate);
    let only = |i: usize, rate: u64| items[i].stretches.iter().all(|s| s.2 == rate);
    let mut rates: Vec<u64> = items.iter().flat_map(|item| item.stretches.iter().map(|s| s.2)).collect();
    rates.sort_unstable();
    rates.dedup();
    let counted: Vec<(u64, u64)> = rates.iter().map(|&rate| (rate, (0..items.len()).filter(|&i| sends(i, rate)).count() as u64)).collect();
    let mut ways = Ways::default();
    if rates.len() > RATES_MAX || !ways.add_up(&counted, capacity, &mut Vec::new()) {
        return Vec::new();
    }
    let (mut lanes, mut rest, mut left) = (Vec::new(), (0..items.len()).collect::<Vec<usize>>(), capacity);
    for (r, &rate) in rates.iter().enumerate() {
        let Some(count) = ways.found.first().map(|way| way[r]) else { continue };
        if ways.found.iter().all(|way| way[r] == count) && rest.iter().all(|&i| only(i, rate) || !sends(i, rate)) {
            let (mine, others) = rest.into_iter().partition(|&i| only(i, rate));
            lanes.push((count * rate, mine));
            (rest, left) = (others, left - count * rate);
        }
    }
    if !rest.is_empty() {
        lanes.push((left, rest));
    }
    lanes
}

/// A lane for the jobs of each rate, as wide as they need it at least; none where these lanes are wider than the link together, or some job
/// has two rates. Other divisions may have a packing where this one has none.
fn lanes_by_rate(items: &[Item], capacity: u64, perimeter: u64) -> Vec<(u64, Vec<usize>)> {
    let mut by_rate: Vec<(u64, u64, Vec<usize>)> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let Some(&(_, _, rate)) = item.stretches.first() else { return Vec::new() };
        if item.stretches.iter().any(|s| s.2 != rate) {
            return Vec::new();
        }
        let sent = item.stretches.iter().map(|s| s.1).sum::<u64>().saturating_mul(item.laps);
        match by_rate.iter_mut().find(|lane| lane.0 == rate) {
            Some(lane) => {
                lane.1 = lane.1.saturating_add(sent);
                lane.2.push(i);
            }
            None => by_rate.push((rate, sent, vec![i])),
        }
    }
    let lanes: Vec<(u64, Vec<usize>)> =
        by_rate.into_iter().map(|(rate, sent, own)| (rate.saturating_mul(sent.div_ceil(perimeter)), own)).collect();
    let wide = lanes.iter().map(|lane| lane.0).fold(0, u64::saturating_add);
    if wide > capacity { Vec::new() } else { lanes }
}

/// How many jobs of each rate add up to a capacity.
#[derive(Default)]
struct Ways {
    found: Vec<Vec<u64>>,
    steps: usize,
}

impl Ways {
    /// Lists them all, from the first counts on that `way` holds. `rates` has of each rate how many jobs there are. False: too many.
    fn add_up(&mut self, rates: &[(u64, u64)], capacity: u64, way: &mut Vec<u64>) -> bool {
        self.steps += 1;
        let Some(&(rate, jobs)) = rates.get(way.len()) else {
            if capacity == 0 {
                self.found.push(way.clone());
            }
            return self.found.len() <= WAYS_MAX;
        };
        (0..=jobs.min(capacity / rate)).all(|count| {
            way.push(count);
            let all = self.steps <= STEPS_MAX && self.add_up(rates, capacity - count * rate, way);
            way.pop();
            all
        })
    }
}
