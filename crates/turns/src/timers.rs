//! What happens next: one pending time per timer.

use alloc::{vec, vec::Vec};

/// Up to so many timers a walk over all of them is faster than a tree: of 64 it takes some 20 ns, and to set a timer then costs nothing.
const WALKED_MAX: usize = 64;

/// The time of every timer. Of many, in a tree of minima: setting one and finding the earliest cost a logarithm of their number, where
/// a walk over all of them costs their number, at each of as many events again. A time of `u64::MAX` is that of a timer that does
/// not run. At one time, timers are due in the order of their numbers.
#[derive(Clone, Debug)]
pub struct Timers {
    /// Node `i` is the minimum of nodes `2i` and `2i + 1`; the leaves are the last `width`. Of few timers there are only leaves.
    tree: Vec<u64>,
    /// Where the leaves begin: at `width` or, without inner nodes, at 0.
    leaves: usize,
    width: usize,
    timers: usize,
}

impl Timers {
    /// All of `times`, in the order of the timers' numbers.
    #[must_use]
    pub fn new(times: impl ExactSizeIterator<Item = u64>) -> Self {
        let timers = times.len();
        // No timers still make one leaf, which never runs, so the root always exists.
        let width = timers.next_power_of_two();
        let leaves = if timers > WALKED_MAX { width } else { 0 };
        let mut tree = vec![u64::MAX; leaves + width];
        times.zip(&mut tree[leaves..]).for_each(|(time, leaf)| *leaf = time);
        let mut all = Self { tree, leaves, width, timers };
        all.find_minima();
        all
    }

    /// So many timers, none of which runs.
    #[must_use]
    pub fn stopped(timers: usize) -> Self {
        Self::new(core::iter::repeat_n(u64::MAX, timers))
    }

    fn is_walked(&self) -> bool {
        self.leaves == 0
    }

    fn find_minima(&mut self) {
        (1..self.leaves).rev().for_each(|node| self.tree[node] = self.tree[2 * node].min(self.tree[2 * node + 1]));
    }

    /// Sets the time of a timer, whether it runs or not.
    pub fn set(&mut self, timer: usize, time: u64) {
        let mut node = self.leaves + timer;
        self.tree[node] = time;
        // Without inner nodes the walk up ends at once.
        while node > 1 && !self.is_walked() {
            node /= 2;
            let least = self.tree[2 * node].min(self.tree[2 * node + 1]);
            // The rest of the way up has not changed.
            if core::mem::replace(&mut self.tree[node], least) == least {
                return;
            }
        }
    }

    /// Stops a timer, whether it runs or not.
    pub fn stop(&mut self, timer: usize) {
        self.set(timer, u64::MAX);
    }

    /// The earliest time of all; `u64::MAX` when no timer runs.
    #[must_use]
    pub fn first(&self) -> u64 {
        if self.is_walked() { least(&self.tree) } else { self.tree[1] }
    }

    /// The time of a timer, if it runs.
    #[must_use]
    pub fn time_of(&self, timer: usize) -> Option<u64> {
        self.tree.get(self.leaves + timer).copied().filter(|time| *time < u64::MAX)
    }

    /// Stops a timer that is due at `now` or before, the earliest, and says which it was.
    pub fn take_due(&mut self, now: u64) -> Option<usize> {
        let first = self.first();
        let due = self.due(first, 0).filter(|_| first <= now && first < u64::MAX)?;
        self.stop(due);
        Some(due)
    }

    /// Moves every timer that runs on by as much.
    pub fn shift(&mut self, by: u64) {
        self.tree[self.leaves..].iter_mut().filter(|time| **time < u64::MAX).for_each(|time| *time = time.saturating_add(by));
        // Stopped timers stay at the end of time, so minima are found anew and not moved on.
        self.find_minima();
    }

    /// The only timer whose time is `now`, which is no later than any time; `None` if there are several.
    #[must_use]
    pub fn only(&self, now: u64) -> Option<usize> {
        if self.is_walked() {
            // Both are counted without a branch for each timer: which one is due is different each time.
            let (mut count, mut last) = (0u32, 0);
            for (timer, time) in self.tree.iter().enumerate() {
                let due = *time == now;
                count += u32::from(due);
                last = if due { timer } else { last };
            }
            return (count == 1).then_some(last);
        }
        let mut node = 1;
        while node < self.width {
            let [left, right] = [self.tree[2 * node], self.tree[2 * node + 1]];
            // The walk stays at nodes whose minimum is `now`, so equal children hold a due timer each.
            if left == right {
                return None;
            }
            node = 2 * node + usize::from(left != now);
        }
        Some(node - self.width)
    }

    /// The first timer at or after `from` whose time is `now`, which is no later than any time.
    #[must_use]
    pub fn due(&self, now: u64, from: usize) -> Option<usize> {
        if self.is_walked() {
            // At the end of time, the leaves without a timer look due as well.
            return (from..self.timers).find(|timer| self.tree[*timer] == now);
        }
        let mut node = self.width + from;
        if from >= self.width {
            return None;
        }
        // Up until a tree to the right has one, then down to its first.
        while self.tree[node] != now {
            // A right child has no tree to its right below its parent. The root ends the climb.
            while node % 2 == 1 {
                node /= 2;
                if node == 0 {
                    return None;
                }
            }
            node += 1;
        }
        while node < self.width {
            node = 2 * node + usize::from(self.tree[2 * node] != now);
        }
        // At the end of time, the leaves without a timer look due as well.
        Some(node - self.width).filter(|timer| *timer < self.timers)
    }
}

/// The least of these times: four at once, which do not wait for each other.
fn least(times: &[u64]) -> u64 {
    let (fours, rest) = times.as_chunks::<4>();
    let mut least = [u64::MAX; 4];
    for four in fours {
        least.iter_mut().zip(four).for_each(|(least, time)| *least = (*least).min(*time));
    }
    least.iter().chain(rest).copied().fold(u64::MAX, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_taken_in_order_of_time_and_then_of_number() {
        let mut timers = Timers::stopped(5);
        [(2, 7), (0, 7), (4, 3), (1, 9)].into_iter().for_each(|(timer, time)| timers.set(timer, time));
        timers.shift(10);
        timers.stop(1);
        assert_eq!((timers.time_of(2), timers.time_of(1), timers.time_of(3)), (Some(17), None, None));
        assert_eq!(timers.take_due(12), None);
        let taken: Vec<Option<usize>> = (0..4).map(|_| timers.take_due(20)).collect();
        assert_eq!(taken, [Some(4), Some(0), Some(2), None]);
        assert_eq!((timers.first(), timers.take_due(u64::MAX)), (u64::MAX, None));
        assert_eq!(Timers::stopped(0).take_due(u64::MAX), None);
    }

    #[test]
    fn it_finds_what_a_walk_finds() {
        // A fixed stream of numbers, small so that there are ties (constants of Knuth's MMIX generator).
        let mut seed = 7_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for jobs in (1..40_usize).chain(WALKED_MAX - 1..WALKED_MAX + 20) {
            let mut times: Vec<u64> = (0..jobs).map(|_| draw(9)).collect();
            let mut tree = Timers::new(times.iter().copied());
            for _ in 0..200 {
                let (job, time) = (draw(jobs as u64) as usize, draw(10));
                let time = if time == 9 { u64::MAX } else { time };
                times[job] = time;
                tree.set(job, time);
                let first = times.iter().copied().min().unwrap();
                assert_eq!(tree.first(), first);
                let due = times.iter().filter(|t| **t == first).count();
                if let Some(only) = tree.only(first) {
                    assert!(due == 1 && times[only] == first, "{times:?}");
                }
                for from in 0..=jobs {
                    let due = (from..jobs).find(|j| times[*j] == first);
                    assert_eq!(tree.due(first, from), due, "{times:?} from {from}");
                }
            }
        }
    }
}
