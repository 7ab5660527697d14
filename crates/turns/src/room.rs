//! Whether a start fits over what others still send on its links, and when.

use alloc::vec::Vec;

use units::{FabricTime, Rate};

use crate::demand::{Demand, Left, Span};

/// Most times at which a waiting start is tried without an event: beyond it the next end decides.
const CANDIDATES_MAX: usize = 32;

/// What is left on the links of one start. It is gathered once for all times at which the start is tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// One link after the other.
    left: Vec<Left>,
    /// Where each link ends in `left`.
    ends: Vec<usize>,
    times: Vec<u64>,
    /// Pieces of what is left that were looked at so far.
    work: u64,
}

impl Room {
    /// How much was looked at so far, for models that have no end of it.
    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    pub(crate) fn clear(&mut self) {
        self.left.clear();
        self.ends.clear();
    }

    /// Adds the next link of the start; says what `gather` says.
    pub(crate) fn add_link(&mut self, gather: impl FnOnce(&mut Vec<Left>) -> bool) -> bool {
        let before = self.left.len();
        let known = gather(&mut self.left);
        self.ends.push(self.left.len());
        self.work += (self.left.len() - before) as u64;
        known
    }

    /// Whether a start at `at` is never above the limit of a link; `limits` are those of all links.
    pub(crate) fn fits(&mut self, demand: &Demand, at: u64, limits: &[Rate]) -> bool {
        let mut work = 0;
        let fits = self.on_links(demand).all(|(link, spans, left)| fits(spans, at, left, limits[link as usize], &mut work));
        self.work += work;
        fits
    }

    /// When the start may fit after `now`, if nobody tells anything before.
    pub(crate) fn fits_after(&mut self, demand: &Demand, now: FabricTime, limits: &[Rate]) -> Option<FabricTime> {
        let (mut times, mut work) = (core::mem::take(&mut self.times), 0);
        times.clear();
        for (_, spans, left) in self.on_links(demand) {
            candidates(spans, now, left, &mut times);
            work += spans.len() as u64 * left.len() as u64;
        }
        self.work += work;
        let found = times.iter().copied().find(|&at| self.fits(demand, at, limits)).map(FabricTime);
        self.times = times;
        found
    }

    /// The spans of the start on each of its links, and what is left there.
    fn on_links<'a>(&'a self, demand: &'a Demand) -> impl Iterator<Item = (u32, &'a [Span], &'a [Left])> {
        let begins = core::iter::once(0).chain(self.ends.iter().copied());
        let links = demand.links.iter().zip(begins.zip(&self.ends));
        links.map(|((link, spans), (begin, end))| (*link, &spans[..], &self.left[begin..*end]))
    }
}

/// Whether a start at `at` that demands these spans of a link fits over what is left there: at no time of them is the sum above
/// `limit`. With nobody else on the link everything fits.
fn fits(spans: &[Span], at: u64, left: &[Left], limit: Rate, work: &mut u64) -> bool {
    left.is_empty()
        || spans.iter().all(|span| {
            let (from, to) = (at.saturating_add(span.from), at.saturating_add(span.to));
            // The sum only grows where somebody begins, so it is enough to look there and at the span's own beginning.
            let beginnings = left.iter().map(|l| l.from).filter(|&t| t > from && t < to);
            core::iter::once(from).chain(beginnings).all(|time| {
                *work += left.len() as u64;
                let others = left.iter().filter(|l| l.from <= time && time < l.to).fold(0u64, |sum, l| sum.saturating_add(l.rate));
                others == 0 || others.saturating_add(span.rate.0) <= limit.0
            })
        })
}

/// Times at which a start of these spans that does not fit now may fit, if nothing else happens: where one of its spans would begin as
/// somebody else's ends. The [`CANDIDATES_MAX`] first of all links are in `out`, ascending.
fn candidates(spans: &[Span], now: FabricTime, left: &[Left], out: &mut Vec<u64>) {
    for span in spans {
        for time in left.iter().filter_map(|l| l.to.checked_sub(span.from)).filter(|&t| t > now.0) {
            let is_full = out.len() >= CANDIDATES_MAX;
            // Two jobs of thousands of phases have millions of such times, nearly all of them too late.
            if is_full && out.last().is_some_and(|last| *last <= time) {
                continue;
            }
            if let Err(at) = out.binary_search(&time) {
                out.truncate(CANDIDATES_MAX - 1);
                out.insert(at, time);
            }
        }
    }
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

    /// Of any number of times those that a sort would put first.
    #[test]
    fn the_first_times_are_kept() {
        let mut random = 7_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % 500
        };
        let spans: Vec<Span> = (0..20).map(|_| Span { from: next(), to: 0, rate: Rate(1) }).collect();
        let left: Vec<Left> = (0..40).map(|_| Left { from: 0, to: next() + 100, rate: 1 }).collect();
        let mut sorted: Vec<u64> =
            spans.iter().flat_map(|s| left.iter().filter_map(|l| l.to.checked_sub(s.from))).filter(|t| *t > 50).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut kept = Vec::new();
        candidates(&spans, FabricTime(50), &left, &mut kept);
        assert_eq!(kept, sorted[..CANDIDATES_MAX]);
    }

    #[test]
    fn a_start_fits_in_the_gap_of_another() {
        let demand = profile().demand(Ask::Iteration, None);
        let spans = demand.on(3);
        let mut left = Vec::new();
        // Sends on link 3 in [1000, 1020) and [1050, 1070).
        demand.left(3, FabricTime(1_000), FabricTime(1_100), FabricTime(1_010), &mut left);
        assert_eq!(left, [Left { from: 1_010, to: 1_020, rate: 10 }, Left { from: 1_050, to: 1_070, rate: 10 }]);
        let is_free = |at| fits(spans, at, &left, Rate(15), &mut 0);
        assert_eq!([1_010, 1_019, 1_020, 1_030, 1_031, 1_070].map(is_free), [false, false, true, true, false, true]);
        assert!(fits(spans, 1_010, &left, Rate(20), &mut 0), "together they do not exceed the limit");
        let mut times = Vec::new();
        candidates(spans, FabricTime(1_010), &left, &mut times);
        assert!(times.contains(&1_020));
        // The last span ends when its end is told.
        left.clear();
        demand.left(3, FabricTime(1_000), FabricTime(1_100), FabricTime(1_060), &mut left);
        assert_eq!(left, [Left { from: 1_060, to: 1_100, rate: 10 }]);
        left.clear();
        demand.left(3, FabricTime(1_000), FabricTime(1_100), FabricTime(1_100), &mut left);
        assert_eq!(left, []);
    }
}
