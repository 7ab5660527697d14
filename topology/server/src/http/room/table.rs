//! Who has a place, and who gives one up: the counts behind [`super`], without clock, lock or task.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Instant,
};

use tokio::sync::oneshot;

use crate::{
    role::Who,
    tally::{CALLER_PART, Shares, Tally},
};

/// Most fresh connections. A client that takes 20 ms to ask is cut by who opens more than 100,000 connections a second, which nobody does;
/// in a handshake each holds some tens of KiB.
const FRESH_MAX: usize = 2_048;

/// Most requests under way.
const REQUESTS_MAX: usize = 4_096;
/// What their heads may hold together: 8 KiB for each. A head of an ordinary client has one or two.
const HEADS_MAX: usize = 32 << 20;
/// The part of both, one in so many, that only requests have which change something.
const CHANGES_PART: usize = 4;

const FRESH: &str = "it asked for nothing, and others came";
const IDLE: &str = "it was idle, and others came (limits.connections)";

/// Why a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Cut {
    /// It has asked for nothing.
    Fresh,
    /// It waits for nothing; what comes in that moment may still be answered.
    Idle,
}

impl Cut {
    /// For the log.
    pub(in crate::http) const fn why(self) -> &'static str {
        match self {
            Self::Fresh => FRESH,
            Self::Idle => IDLE,
        }
    }
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Head {
    /// What it holds, in bytes.
    pub(in crate::http) bytes: usize,
    /// Whether the request changes something.
    pub(in crate::http) changes: bool,
}

/// The connections that are open, in order of what they wait for.
#[derive(Debug, Default)]
pub(super) struct Table {
    last: u64,
    places: BTreeMap<u64, Place>,
    /// Fresh ones by whom they are of; the numbers are in order of arrival.
    fresh: BTreeMap<Origin, BTreeSet<u64>>,
    fresh_count: usize,
    /// Those that have asked and wait for nothing of ours, by caller: since when.
    idle: BTreeMap<Option<Who>, BTreeSet<(Instant, u64)>>,
    /// How many have asked, by caller.
    asked: Tally<Option<Who>>,
    asked_count: usize,
    /// Requests under way, by caller.
    requests: Tally<Option<Who>>,
    requests_count: usize,
    /// What their heads hold.
    heads: Shares,
}

/// Whom a connection that has asked for nothing is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// Somebody at this address who has said nothing that could be answered.
    Stranger(IpAddr),
    /// Somebody at this address who waits for our part of a handshake, and competes with those who say nothing no more.
    Greeted(IpAddr),
    /// Somebody with a certificate, who competes with strangers no more: their number cuts none of his.
    Caller(Who),
}

#[derive(Debug)]
struct Place {
    origin: Origin,
    who: Option<Who>,
    state: State,
    cut: oneshot::Sender<Cut>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fresh,
    Idle(Instant),
    /// So many requests have come whole, and are not answered.
    Busy(u32),
}

impl Table {
    /// The peer of this connection has begun a handshake, as far as its part goes.
    pub(super) fn greeted(&mut self, number: u64) {
        if let Some(&Place { origin: Origin::Stranger(address), .. }) = self.places.get(&number) {
            self.counts_as(number, Origin::Greeted(address));
        }
    }

    /// The peer of this connection has proved who it is.
    pub(super) fn known(&mut self, number: u64, who: Option<Who>) {
        let Some(place) = self.places.get_mut(&number) else { return };
        place.who = who;
        if let Some(who) = who {
            self.counts_as(number, Origin::Caller(who));
        }
    }

    fn counts_as(&mut self, number: u64, origin: Origin) {
        let Some(place) = self.places.get_mut(&number).filter(|place| place.state == State::Fresh) else { return };
        let before = std::mem::replace(&mut place.origin, origin);
        self.no_longer_fresh(before, number);
        self.is_fresh(origin, number);
    }

    pub(super) fn enter(&mut self, address: IpAddr, cut: oneshot::Sender<Cut>) -> u64 {
        if self.fresh_count >= FRESH_MAX {
            self.cut_fresh();
        }
        self.last += 1;
        let origin = Origin::Stranger(address);
        self.places.insert(self.last, Place { origin, who: None, state: State::Fresh, cut });
        self.is_fresh(origin, self.last);
        self.last
    }

    /// Whose request it is, if it can be taken.
    pub(super) fn asks(&mut self, max: usize, number: u64, head: Head, now: Instant) -> Option<Option<Who>> {
        // A connection that was cut is about to end; nobody reads its answer.
        let place = self.places.get(&number)?;
        let (origin, who, state) = (place.origin, place.who, place.state);
        let of_caller = who.map_or(0, |_| self.requests.of(&who));
        let part = |max: usize| if head.changes { max } else { max - max / CHANGES_PART };
        let (places, bytes) = (part(REQUESTS_MAX), part(HEADS_MAX));
        let has_room = self.heads.fits(who, head.bytes, bytes, bytes / CALLER_PART);
        if self.requests_count >= places || of_caller >= places / CALLER_PART || !has_room {
            return None;
        }
        if state == State::Fresh {
            if !self.makes_room(max, who) {
                return None;
            }
            self.no_longer_fresh(origin, number);
            self.asked.add(who, 1);
            self.asked_count += 1;
            self.waits(number, now);
        }
        self.requests.add(who, 1);
        self.requests_count += 1;
        self.heads.add(who, head.bytes);
        Some(who)
    }

    /// A connection waits for nothing of ours from now on.
    fn waits(&mut self, number: u64, now: Instant) {
        if let Some(place) = self.places.get_mut(&number) {
            place.state = State::Idle(now);
            self.idle.entry(place.who).or_default().insert((now, number));
        }
    }

    pub(super) fn is_whole(&mut self, number: u64) {
        let Some(place) = self.places.get_mut(&number) else { return };
        let who = place.who;
        match place.state {
            State::Busy(requests) => place.state = State::Busy(requests.saturating_add(1)),
            State::Idle(since) => {
                place.state = State::Busy(1);
                self.no_longer_idle(who, (since, number));
            }
            State::Fresh => {}
        }
    }

    pub(super) fn request_ends(&mut self, who: Option<Who>, head: usize) {
        self.heads.take(who, head);
        self.requests_count -= 1;
        self.requests.take(&who, 1);
    }

    /// Whether there is a place among those that have asked, after one was given up if it has to be.
    fn makes_room(&mut self, max: usize, who: Option<Who>) -> bool {
        let share = (max / CALLER_PART).max(1);
        // Without certificates everybody is the same caller, who has all of it.
        let has_share = who.is_some() && self.asked.of(&who) >= share;
        if has_share {
            return self.cut_idle(who);
        }
        // More than one, where the limit was lowered.
        while self.asked_count >= max {
            let largest = self.idle.iter().max_by_key(|(_, idle)| idle.len()).map(|(who, _)| *who);
            if !largest.is_some_and(|who| self.cut_idle(who)) {
                return false;
            }
        }
        true
    }

    pub(super) fn answered(&mut self, number: u64, now: Instant) {
        let Some(place) = self.places.get_mut(&number) else { return };
        match place.state {
            State::Busy(requests) if requests > 1 => place.state = State::Busy(requests - 1),
            State::Busy(_) => self.waits(number, now),
            State::Fresh | State::Idle(_) => {}
        }
    }

    /// A connection is gone.
    pub(super) fn leaves(&mut self, number: u64) {
        drop(self.remove(number));
    }

    fn remove(&mut self, number: u64) -> Option<Place> {
        let place = self.places.remove(&number)?;
        match place.state {
            State::Fresh => {
                self.no_longer_fresh(place.origin, number);
                return Some(place);
            }
            State::Idle(since) => self.no_longer_idle(place.who, (since, number)),
            State::Busy(_) => {}
        }
        self.asked_count -= 1;
        self.asked.take(&place.who, 1);
        Some(place)
    }

    fn is_fresh(&mut self, origin: Origin, number: u64) {
        self.fresh_count += usize::from(self.fresh.entry(origin).or_default().insert(number));
    }

    fn no_longer_fresh(&mut self, origin: Origin, number: u64) {
        if let Some(numbers) = self.fresh.get_mut(&origin) {
            self.fresh_count -= usize::from(numbers.remove(&number));
            if numbers.is_empty() {
                self.fresh.remove(&origin);
            }
        }
    }

    fn no_longer_idle(&mut self, who: Option<Who>, key: (Instant, u64)) {
        if let Some(idle) = self.idle.get_mut(&who) {
            idle.remove(&key);
            if idle.is_empty() {
                self.idle.remove(&who);
            }
        }
    }

    /// Cuts the oldest fresh connection of whoever has most of them.
    pub(super) fn cut_fresh(&mut self) {
        // Among those with equally many, the oldest connection is cut. An order by address would let low addresses cut high ones.
        let oldest = |numbers: &BTreeSet<u64>| numbers.first().map(|first| (numbers.len(), Reverse(*first)));
        let most = self.fresh.values().filter_map(oldest).max().map(|(_, Reverse(first))| first);
        if let Some(oldest) = most {
            self.cut(oldest, Cut::Fresh);
        }
    }

    /// Cuts the connection of a caller that has waited for nothing for longest: whether there is one.
    fn cut_idle(&mut self, who: Option<Who>) -> bool {
        let longest = self.idle.get(&who).and_then(BTreeSet::first).copied();
        longest.is_some_and(|(_, number)| {
            self.cut(number, Cut::Idle);
            true
        })
    }

    fn cut(&mut self, number: u64, why: Cut) {
        if let Some(place) = self.remove(number) {
            // A task that has just ended hears nothing any more.
            let _ = place.cut.send(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, time::Duration};

    use super::*;

    const NOW: u64 = 1_000_000;
    const HEAD: usize = 500;
    const READS: Head = Head { bytes: HEAD, changes: false };
    /// What those have that only read.
    const READS_MAX: usize = REQUESTS_MAX - REQUESTS_MAX / CHANGES_PART;

    /// A table, and what is known of each connection from outside.
    #[derive(Default)]
    struct World {
        table: Table,
        told: BTreeMap<u64, oneshot::Receiver<Cut>>,
    }

    impl World {
        fn enter(&mut self, last: u8) -> u64 {
            let (cut, told) = oneshot::channel();
            let number = self.table.enter(IpAddr::from([10, 0, 0, last]), cut);
            self.told.insert(number, told);
            number
        }

        fn known(&mut self, number: u64, who: u8) {
            self.table.known(number, Some(Who([who; 32])));
        }

        /// A request that comes whole.
        fn asks(&mut self, max: usize, number: u64) -> bool {
            let taken = self.table.asks(max, number, READS, Instant::now()).is_some();
            if taken {
                self.table.is_whole(number);
            }
            taken
        }

        fn answered(&mut self, number: u64, now: Instant) {
            self.table.request_ends(self.table.places[&number].who, HEAD);
            self.table.answered(number, now);
        }

        fn is_cut(&mut self, number: u64) -> bool {
            self.told.get_mut(&number).unwrap().try_recv().is_ok()
        }

        /// The counts are those of the places.
        fn check(&self, max: usize) {
            let of = |state: fn(State) -> bool| self.table.places.values().filter(|place| state(place.state)).count();
            let fresh = of(|state| state == State::Fresh);
            assert_eq!((self.table.fresh_count, self.table.fresh.values().map(BTreeSet::len).sum::<usize>()), (fresh, fresh));
            let asked = self.table.places.len() - fresh;
            assert_eq!((self.table.asked_count, self.table.asked.sum()), (asked, asked));
            let idle = of(|state| matches!(state, State::Idle(_)));
            assert_eq!(self.table.idle.values().map(BTreeSet::len).sum::<usize>(), idle);
            assert!(fresh <= FRESH_MAX && asked <= max, "{fresh} {asked}");
        }
    }

    #[test]
    fn who_says_nothing_is_cut_by_who_comes_and_the_crowded_address_first() {
        let mut world = World::default();
        let honest = world.enter(1);
        let first = world.enter(2);
        for _ in 2..FRESH_MAX {
            world.enter(2);
        }
        assert!(!world.is_cut(first));
        world.enter(3);
        assert!(world.is_cut(first), "the oldest of the address that has most");
        for _ in 0..10 * FRESH_MAX {
            world.enter(2);
        }
        assert!(!world.is_cut(honest), "another address");
        assert!(world.asks(8, honest));
        world.check(8);
    }

    /// A handshake is over, and the request is still on its way.
    #[test]
    fn whoever_has_proved_who_he_is_is_cut_by_no_stranger_of_his_address() {
        let mut world = World::default();
        let honest = world.enter(1);
        world.known(honest, 7);
        for _ in 0..10 * FRESH_MAX {
            world.enter(1);
        }
        assert!(!world.is_cut(honest) && world.asks(8, honest));
        // One with a certificate who asks for nothing cuts himself.
        let other = world.enter(1);
        world.known(other, 8);
        for _ in 0..=FRESH_MAX {
            let seat = world.enter(1);
            world.known(seat, 9);
        }
        let first = world.enter(1);
        assert!(!world.is_cut(other) && !world.is_cut(first));
        world.check(8);
    }

    /// On a busy machine a handshake takes longer than a crowd needs to take all places.
    #[test]
    fn whoever_waits_for_our_part_of_a_handshake_is_cut_by_nobody_who_says_nothing() {
        let mut world = World::default();
        let honest = world.enter(1);
        world.table.greeted(honest);
        for _ in 0..10 * FRESH_MAX {
            world.enter(1);
        }
        assert!(!world.is_cut(honest));
        // Said twice, and of one that is gone.
        world.table.greeted(honest);
        world.table.greeted(u64::MAX);
        world.check(8);
        // A crowd that begins handshakes and ends none cuts itself.
        let silent = world.enter(1);
        for _ in 0..FRESH_MAX {
            let seat = world.enter(1);
            world.table.greeted(seat);
        }
        assert!(world.is_cut(honest) && !world.is_cut(silent));
        world.known(silent, 7);
        assert!(world.asks(8, silent));
        world.table.greeted(silent);
        world.check(8);
    }

    #[test]
    fn who_is_idle_is_cut_by_who_asks_and_nobody_for_who_is_busy() {
        let mut world = World::default();
        let seats: VecDeque<u64> = (0..4).map(|_| world.enter(1)).collect();
        assert!(seats.iter().all(|seat| world.asks(4, *seat)));
        let late = world.enter(1);
        assert!(!world.asks(4, late), "all are busy");
        let base = Instant::now();
        world.answered(seats[2], base);
        world.answered(seats[1], base + Duration::from_nanos(NOW));
        assert!(world.asks(4, late));
        assert!(world.is_cut(seats[2]) && !world.is_cut(seats[1]), "the one that was idle for longest");
        assert!(!world.asks(4, seats[2]), "it is about to end");
        world.check(4);
    }

    #[test]
    fn a_request_that_does_not_come_whole_holds_no_place_against_others() {
        let mut world = World::default();
        let promised: Vec<u64> = (0..4).map(|_| world.enter(1)).collect();
        assert!(promised.iter().all(|seat| world.table.asks(4, *seat, READS, Instant::now()).is_some()));
        let late = world.enter(1);
        assert!(world.asks(4, late) && world.is_cut(promised[0]));
        // A lower limit holds from the next one on.
        let later = world.enter(1);
        assert!(world.asks(2, later));
        assert_eq!(world.table.asked_count, 2);
        assert!(!world.is_cut(late), "it is busy");
    }

    #[test]
    fn requests_have_a_limit_and_one_caller_half_of_it() {
        let mut world = World::default();
        let (greedy, other) = (world.enter(1), world.enter(2));
        world.known(greedy, 7);
        assert_eq!((0..REQUESTS_MAX).filter(|_| world.asks(8, greedy)).count(), READS_MAX / CALLER_PART);
        assert_eq!((0..REQUESTS_MAX).filter(|_| world.asks(8, other)).count(), READS_MAX - READS_MAX / CALLER_PART);
    }

    /// Also where nobody has a certificate, so that readers and those who change are one caller.
    #[test]
    fn whoever_reads_keeps_no_change_out() {
        const LARGE: usize = 64 << 10;
        let changes = |bytes| Head { bytes, changes: true };
        for bytes in [HEAD, LARGE] {
            let mut world = World::default();
            let seat = world.enter(1);
            let mut asks = |head| world.table.asks(8, seat, head, Instant::now()).is_some();
            let reads = (0..=REQUESTS_MAX).filter(|_| asks(Head { bytes, changes: false })).count();
            assert_eq!(reads, READS_MAX.min((HEADS_MAX - HEADS_MAX / CHANGES_PART) / bytes));
            let left = (0..=REQUESTS_MAX).filter(|_| asks(changes(bytes))).count();
            assert_eq!(left, (HEADS_MAX / bytes).min(REQUESTS_MAX) - reads);
        }
    }

    /// Over HTTP/2 one connection has 128 heads of 16 KiB, which its peer sends from a table in a few bytes each.
    #[test]
    fn heads_have_a_limit_in_bytes_and_one_caller_half_of_it() {
        const LARGE: usize = 64 << 10;
        let mut world = World::default();
        let (greedy, other) = (world.enter(1), world.enter(2));
        world.known(greedy, 7);
        world.known(other, 8);
        let mut asks = |seat: u64| {
            (0..REQUESTS_MAX).filter(|_| world.table.asks(8, seat, Head { bytes: LARGE, changes: true }, Instant::now()).is_some()).count()
        };
        assert_eq!((asks(greedy), asks(other), asks(greedy)), (HEADS_MAX / 2 / LARGE, HEADS_MAX / 2 / LARGE, 0));
        world.table.request_ends(Some(Who([7; 32])), LARGE);
        assert!(world.table.asks(8, greedy, Head { bytes: HEAD, changes: true }, Instant::now()).is_some(), "what has ended is given back");
    }

    #[test]
    fn addresses_with_as_many_sockets_are_equal() {
        let mut world = World::default();
        let low = world.enter(1);
        let high = world.enter(9);
        for last in 0..FRESH_MAX - 2 {
            let (cut, told) = oneshot::channel();
            let address = IpAddr::from([10, 1, (last >> 8) as u8, last as u8]);
            let number = world.table.enter(address, cut);
            world.told.insert(number, told);
        }
        world.enter(5);
        assert!(world.is_cut(low), "the oldest, whatever its address");
        world.enter(6);
        assert!(world.is_cut(high));
    }

    #[test]
    fn one_caller_has_half_of_the_places() {
        let mut world = World::default();
        let greedy: Vec<u64> = (0..6).map(|_| world.enter(1)).collect();
        greedy.iter().for_each(|seat| world.known(*seat, 7));
        assert_eq!(greedy.iter().filter(|seat| world.asks(8, **seat)).count(), 4);
        let others: Vec<u64> = (0..4).map(|_| world.enter(1)).collect();
        others.iter().for_each(|seat| world.known(*seat, 8));
        assert!(others.iter().all(|seat| world.asks(8, *seat)));
        world.answered(greedy[0], Instant::now());
        assert!(world.asks(8, greedy[4]) && world.is_cut(greedy[0]), "its own place");
        world.check(8);
    }

    #[test]
    fn the_counts_hold_whatever_happens() {
        let mut world = World::default();
        let (mut random, mut clock) = (1_u64, Instant::now());
        // Requests under way: of which connection and caller, and whether they have come whole.
        let mut whole: VecDeque<(u64, Option<Who>, bool)> = VecDeque::new();
        for _ in 0..200_000 {
            // Marsaglia, "Xorshift RNGs", 2003.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            clock += Duration::from_nanos(random % 3);
            let number = random % (world.table.last + 1).min(2_700) + world.table.last.saturating_sub(2_690);
            match random >> 60 {
                0..4 => {
                    let number = world.enter((random >> 20) as u8 % 4);
                    if random & 256 == 0 {
                        world.known(number, (random >> 12) as u8 % 3);
                    }
                }
                4..8 => whole.extend(world.table.asks(20, number, READS, clock).map(|who| (number, who, false))),
                8..11 => {
                    if let Some((number, _, is_whole)) = whole.iter_mut().find(|(_, _, is_whole)| !is_whole) {
                        *is_whole = true;
                        world.table.is_whole(*number);
                    }
                }
                11..14 => {
                    if let Some((number, who, is_whole)) = whole.pop_front() {
                        world.table.request_ends(who, HEAD);
                        if is_whole {
                            world.table.answered(number, clock);
                        }
                    }
                }
                _ => drop(world.table.remove(number)),
            }
            // Now and then, because it looks at all of them.
            if world.told.len() > 8_000 {
                world.told.retain(|number, _| number + 4_000 > world.table.last);
            }
        }
        world.check(20);
        assert_eq!(world.table.requests_count, whole.len());
        whole.drain(..).for_each(|(_, who, _)| world.table.request_ends(who, HEAD));
        assert!(world.table.requests.len() == 0 && world.table.heads.is_empty());
        let all: Vec<u64> = world.table.places.keys().copied().collect();
        all.into_iter().for_each(|number| drop(world.table.remove(number)));
        assert!(world.table.fresh.is_empty() && world.table.idle.is_empty() && world.table.asked.len() == 0);
    }
}
