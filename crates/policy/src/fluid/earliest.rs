//! Which job's time comes next.

use alloc::{vec, vec::Vec};

/// The time of every job in a tree of minima: setting one and finding the earliest cost a logarithm of their number, where a
/// walk over all of them costs their number, at each of as many events again.
#[derive(Debug)]
pub(super) struct Earliest {
    /// Node `i` is the minimum of nodes `2i` and `2i + 1`; the leaves are the last `width`.
    tree: Vec<u64>,
    width: usize,
    jobs: usize,
}

impl Earliest {
    /// All of `times`, in the order of the jobs.
    pub(super) fn new(times: impl ExactSizeIterator<Item = u64>) -> Self {
        let jobs = times.len();
        let width = jobs.next_power_of_two();
        let mut tree = vec![u64::MAX; 2 * width];
        times.zip(&mut tree[width..]).for_each(|(time, leaf)| *leaf = time);
        (1..width).rev().for_each(|node| tree[node] = tree[2 * node].min(tree[2 * node + 1]));
        Self { tree, width, jobs }
    }

    pub(super) fn set(&mut self, job: usize, time: u64) {
        let mut node = self.width + job;
        self.tree[node] = time;
        while node > 1 {
            node /= 2;
            let least = self.tree[2 * node].min(self.tree[2 * node + 1]);
            // The rest of the way up has not changed.
            if core::mem::replace(&mut self.tree[node], least) == least {
                return;
            }
        }
    }

    /// The earliest time of all.
    pub(super) fn first(&self) -> u64 {
        self.tree[1]
    }

    /// The only job whose time is `now`, which is no later than any time; `None` if there are several.
    pub(super) fn only(&self, now: u64) -> Option<usize> {
        let mut node = 1;
        while node < self.width {
            let [left, right] = [self.tree[2 * node], self.tree[2 * node + 1]];
            if left == right {
                return None;
            }
            node = 2 * node + usize::from(left != now);
        }
        Some(node - self.width)
    }

    /// The first job at or after `from` whose time is `now`, which is no later than any time.
    pub(super) fn due(&self, now: u64, from: usize) -> Option<usize> {
        let mut node = self.width + from;
        if from >= self.width {
            return None;
        }
        // Up until a tree to the right has one, then down to its first.
        while self.tree[node] != now {
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
        // At the end of time, the leaves without a job look due as well.
        Some(node - self.width).filter(|job| *job < self.jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_a_walk_finds() {
        // A fixed stream of numbers, small so that there are ties (constants of Knuth's MMIX generator).
        let mut seed = 7_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for jobs in 1..40_usize {
            let mut times: Vec<u64> = (0..jobs).map(|_| draw(9)).collect();
            let mut tree = Earliest::new(times.iter().copied());
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
