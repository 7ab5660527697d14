//! When a start fits over what others still send on its links.
//!
//! What others send together is constant between the times at which one of them begins or ends, so a link is a list of such pieces. A span
//! of a start is in conflict with a piece when they overlap and are above the limit together. No start before the piece ends less where
//! the span begins is free of that conflict, so the start jumps there and looks again: the jumps pass over no time at which it fits, and
//! end at the first one.

use alloc::vec::Vec;

use units::{FabricTime, Rate};

use crate::demand::{Demand, Left, Span};

/// Most jumps to find when a waiting start fits: two jobs of thousands of phases could take millions. Where the last one leads, the
/// start is looked at again.
const JUMPS_MAX: u32 = 32;

/// A time in which the same is sent on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    from: u64,
    to: u64,
    /// Of all together, which is more than nothing.
    rate: u64,
}

/// What is left of a link, in pieces that ascend.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    pieces: Vec<Piece>,
}

/// Lists that are used again, so that cutting allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cutter {
    left: Vec<Left>,
    /// Beginnings, and ends, with the rate that begins or ends.
    begins: Vec<(u64, u64)>,
    stops: Vec<(u64, u64)>,
}

impl Cutter {
    /// Cuts what `gather` adds into pieces, and says what it says, and how much it added.
    pub(crate) fn cut(&mut self, into: &mut Pieces, gather: impl FnOnce(&mut Vec<Left>) -> bool) -> (bool, u64) {
        let Self { left, begins, stops } = self;
        let pieces = &mut into.pieces;
        left.clear();
        begins.clear();
        stops.clear();
        pieces.clear();
        let known = gather(left);
        for l in left.iter().filter(|l| l.from < l.to && l.rate > 0) {
            begins.push((l.from, l.rate));
            stops.push((l.to, l.rate));
        }
        begins.sort_unstable();
        stops.sort_unstable();
        let (mut rate, mut next, mut since) = (0_u128, 0, 0);
        let mut until = |time: u64, rate: u128, since: &mut u64| {
            if rate > 0 && *since < time {
                pieces.push(Piece { from: *since, to: time, rate: u64::try_from(rate).unwrap_or(u64::MAX) });
            }
            *since = time;
        };
        for &(stop, ends) in stops.iter() {
            // Whoever ends has begun before, so all that begins until then comes first.
            while let Some(&(begin, begun)) = begins.get(next).filter(|(begin, _)| *begin < stop) {
                until(begin, rate, &mut since);
                rate += u128::from(begun);
                next += 1;
            }
            until(stop, rate, &mut since);
            rate -= u128::from(ends);
        }
        (known, left.len() as u64)
    }
}

/// What is left on the links of one start, for all times at which the start is tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// One link after the other.
    pieces: Vec<Piece>,
    /// Where each link ends in `pieces`.
    ends: Vec<usize>,
    /// What was gathered and looked at so far.
    work: u64,
}

impl Room {
    /// How much was looked at so far, for models that have no end of it.
    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.ends.clear();
    }

    /// Adds the next link of the start, which cost so much to gather.
    pub(crate) fn add_link(&mut self, link: &Pieces, work: u64) {
        self.pieces.extend_from_slice(&link.pieces);
        self.ends.push(self.pieces.len());
        self.work += work;
    }

    /// The first time from `now` on at which the start is never above the limit of a link, if nobody tells anything before; `limits` are
    /// those of all links. Not after `until`, and after [`JUMPS_MAX`] jumps a time that is no later.
    pub(crate) fn first_fit(&mut self, demand: &Demand, now: FabricTime, until: FabricTime, limits: &[Rate]) -> FabricTime {
        let (mut at, mut work) = (now.0, 0);
        for _ in 0..JUMPS_MAX {
            let conflicts =
                self.on_links(demand).filter_map(|(link, spans, pieces)| conflict(spans, at, pieces, limits[link as usize], &mut work));
            match conflicts.max() {
                Some(later) if at < until.0 => at = later,
                _ => break,
            }
        }
        self.work += work;
        FabricTime(at.min(until.0.max(now.0)))
    }

    /// The spans of the start on each of its links, and the pieces there.
    fn on_links<'a>(&'a self, demand: &'a Demand) -> impl Iterator<Item = (u32, &'a [Span], &'a [Piece])> {
        let begins = core::iter::once(0).chain(self.ends.iter().copied());
        let links = demand.links.iter().zip(begins.zip(&self.ends));
        links.map(|((link, spans), (begin, end))| (*link, &spans[..], &self.pieces[begin..*end]))
    }
}

/// When the start may begin at the earliest as far as its conflicts at `at` say, which is later than `at`; none where it fits.
fn conflict(spans: &[Span], at: u64, pieces: &[Piece], limit: Rate, work: &mut u64) -> Option<u64> {
    let (mut later, mut first) = (None, 0);
    for span in spans.iter().filter(|span| span.from < span.to) {
        let (from, to) = (at.saturating_add(span.from), at.saturating_add(span.to));
        // Spans and pieces both ascend, so what has ended before this span has ended before the next one too.
        first += pieces[first..].iter().take_while(|piece| piece.to <= from).count();
        for piece in pieces[first..].iter().take_while(|piece| piece.from < to) {
            *work += 1;
            if piece.rate.saturating_add(span.rate.0) > limit.0 {
                later = later.max(Some(piece.to - span.from));
            }
        }
    }
    *work += first as u64;
    later
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;
    use crate::{Ask, Up, Use, demand::Profile};

    const fn up(start: u64, end: u64, rate: u64) -> Up {
        Up { start: Nanos(start), end: Nanos(end), rate: Rate(rate) }
    }

    fn profile() -> Profile {
        let ups = [up(100, 120, 10), up(150, 170, 10)].to_vec();
        Profile::new([Use { link: 3, ups }, Use { link: 5, ups: [up(110, 130, 4)].to_vec() }].to_vec())
    }

    struct Random(u64);

    impl Random {
        fn next(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % below
        }
    }

    /// A start on one link or more, with what is left there.
    fn room(links: &[Vec<Left>]) -> Room {
        let (mut room, mut pieces) = (Room::default(), Pieces::default());
        for link in links {
            let cut = Cutter::default().cut(&mut pieces, |left| {
                left.extend_from_slice(link);
                true
            });
            assert_eq!(cut, (true, link.len() as u64));
            room.add_link(&pieces, 0);
        }
        room
    }

    /// Every time is tried, and at each every moment of every span.
    fn first_by_trying(links: &[(Vec<Span>, Vec<Left>)], now: u64, limit: u64) -> u64 {
        let fits = |at: u64, spans: &[Span], left: &[Left]| {
            spans.iter().all(|span| {
                (at + span.from..at + span.to).all(|time| {
                    let others: u64 = left.iter().filter(|l| l.from <= time && time < l.to).map(|l| l.rate).sum();
                    others == 0 || others + span.rate.0 <= limit
                })
            })
        };
        (now..).find(|&at| links.iter().all(|(spans, left)| fits(at, spans, left))).unwrap()
    }

    #[test]
    fn the_first_fit_is_that_of_trying_every_time() {
        let mut random = Random(7);
        let (mut jumped, mut later) = (0, 0);
        for _ in 0..20_000 {
            let now = random.next(30);
            let mut link = || {
                let mut time = random.next(6);
                let mut spans = Vec::new();
                for _ in 0..random.next(4) {
                    let to = time + random.next(7);
                    spans.push(Span { from: time, to, rate: Rate(random.next(8)) });
                    time = to + random.next(6);
                }
                let mut left = Vec::new();
                for _ in 0..random.next(7) {
                    let from = now + random.next(40);
                    left.push(Left { from, to: from + random.next(15), rate: random.next(8) });
                }
                (spans, left)
            };
            let links = [link(), link()];
            let demand = Demand { links: (0..).zip(links.iter().map(|(spans, _)| spans.clone())).collect(), length: 0 };
            let left: Vec<Vec<Left>> = links.iter().map(|(_, left)| left.clone()).collect();
            let limit = 6 + random.next(5);
            let (now, limits) = (FabricTime(now), [Rate(limit); 2]);
            let found = room(&left).first_fit(&demand, now, FabricTime(u64::MAX), &limits);
            assert_eq!(found.0, first_by_trying(&links, now.0, limit), "from {now:?}, at most {limit}: {links:?}");
            jumped += u32::from(found > now);
            // A bound cuts the search off, and never makes the time earlier.
            let until = FabricTime(now.0 + random.next(20));
            assert_eq!(room(&left).first_fit(&demand, now, until, &limits), found.min(until));
            later += u32::from(found > until);
        }
        assert!(jumped > 5_000 && later > 1_000, "{jumped} {later}");
    }

    #[test]
    fn after_many_jumps_the_time_is_no_later() {
        // Each time between two of the others is too short.
        let left: Vec<Left> = (0..100).map(|i| Left { from: 10 * i, to: 10 * i + 5, rate: 1 }).collect();
        let demand = Demand { links: [(0, [Span { from: 0, to: 6, rate: Rate(1) }].to_vec())].to_vec(), length: 6 };
        let first = |now| room(core::slice::from_ref(&left)).first_fit(&demand, FabricTime(now), FabricTime(u64::MAX), &[Rate(1)]);
        let mut at = FabricTime(0);
        let mut looked = 0;
        while at.0 < 995 {
            let next = first(at.0);
            assert!(next > at && next.0 <= 995);
            (at, looked) = (next, looked + 1);
        }
        assert_eq!((at.0, looked), (995, 4), "three times 32 jumps and four more");
        assert_eq!(first(995), FabricTime(995));
    }

    #[test]
    fn a_start_fits_in_the_gap_of_another() {
        let demand = profile().demand(Ask::Iteration, None);
        let mut left = Vec::new();
        // Sends on link 3 in [1000, 1020) and [1050, 1070).
        demand.left(0, FabricTime(1_000), FabricTime(1_100), FabricTime(1_010), &mut left);
        assert_eq!(left, [Left { from: 1_010, to: 1_020, rate: 10 }, Left { from: 1_050, to: 1_070, rate: 10 }]);
        let limits = |of| [Rate(0), Rate(0), Rate(0), Rate(of), Rate(0), Rate(of)];
        let first =
            |at, limit| room(&[left.clone(), Vec::new()]).first_fit(&demand, FabricTime(at), FabricTime(u64::MAX), &limits(limit)).0;
        assert_eq!([1_010, 1_019, 1_020, 1_030, 1_031, 1_070].map(|at| first(at, 15)), [1_020, 1_020, 1_020, 1_030, 1_070, 1_070]);
        assert_eq!(first(1_010, 20), 1_010, "together they do not exceed the limit");
        // The last span ends when its end is told.
        left.clear();
        demand.left(0, FabricTime(1_000), FabricTime(1_100), FabricTime(1_060), &mut left);
        assert_eq!(left, [Left { from: 1_060, to: 1_100, rate: 10 }]);
        left.clear();
        demand.left(0, FabricTime(1_000), FabricTime(1_100), FabricTime(1_100), &mut left);
        assert_eq!(left, []);
    }
}
