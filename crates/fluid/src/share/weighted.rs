//! Weighted max-min shares: a link that is too full gives its jobs rates in proportion to their weights.
//!
//! The baseline that a transport with weights is: with equal weights it shares as [`Sharing`](crate::Sharing) does for jobs that demand
//! the same of each of their links. Everything is shared anew at each change, so it is for cases of tens of jobs.

use alloc::{vec, vec::Vec};
use core::ops::Range;

use crate::rates::Rates;

/// Weight of a job that is like any other.
pub const WEIGHT_ONE: u64 = 1_000;
/// Bits after the point of the common level, and of what is left of a link.
const LEVEL_BITS: u32 = 40;

#[derive(Clone, Debug)]
struct Job {
    uses: Range<u32>,
    /// The largest of its demands: its rate at full speed.
    rate: u64,
    weight: u64,
    speed: u64,
}

/// The speeds of all jobs that are Up, by weights.
#[derive(Debug)]
pub struct WeightedSharing<'a> {
    rates: &'a Rates,
    jobs: Vec<Job>,
    /// Jobs on each link, and their demands.
    on: Vec<Vec<(usize, u64)>>,
    moved: Vec<usize>,
}

impl<'a> WeightedSharing<'a> {
    /// No job is Up yet. Jobs are numbered below `jobs`, and each weighs [`WEIGHT_ONE`].
    #[must_use]
    pub fn new(rates: &'a Rates, jobs: usize) -> Self {
        let job = Job { uses: 0..0, rate: 0, weight: WEIGHT_ONE, speed: rates.one() };
        Self { rates, jobs: vec![job; jobs], on: rates.capacities().iter().map(|_| Vec::new()).collect(), moved: Vec::new() }
    }

    /// Job `j` goes Up with these demands ([`Rates::add`]), after it left what it had before.
    pub fn enter(&mut self, j: usize, uses: &Range<u32>) {
        let used = self.rates.used(uses);
        used.iter().for_each(|&(link, demand)| self.on[link as usize].push((j, demand)));
        let job = &mut self.jobs[j];
        (job.uses, job.rate, job.speed) = (uses.clone(), used.iter().map(|u| u.1).max().unwrap_or(0), self.rates.one());
    }

    /// Job `j` goes Down.
    pub fn leave(&mut self, j: usize) {
        let uses = core::mem::replace(&mut self.jobs[j].uses, 0..0);
        self.rates.used(&uses).iter().for_each(|&(link, _)| self.on[link as usize].retain(|on| on.0 != j));
        self.jobs[j].speed = self.rates.one();
    }

    /// Job `j` weighs so much from now on; a weight of nothing counts as 1.
    pub fn set_weight(&mut self, j: usize, weight: u64) {
        self.jobs[j].weight = weight.max(1);
    }

    /// The jobs that are Up on a link, each with its demand there in Mbit/s.
    pub fn on(&self, link: u32) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.on[link as usize].iter().copied()
    }

    /// Shares all links anew. [`WeightedSharing::next_moved`] then tells whose speed is another.
    pub fn share_again(&mut self) {
        let mut open: Vec<usize> = (0..self.jobs.len()).filter(|j| !self.jobs[*j].uses.is_empty()).collect();
        let mut left: Vec<u128> = self.rates.capacities().iter().map(|c| u128::from(*c) << LEVEL_BITS).collect();
        // Each round stops one job at least.
        while !open.is_empty() {
            let full = (0..left.len()).filter_map(|link| Some((self.level_of(link, left[link], &open)?, Some(link)))).min();
            let satisfied = open.iter().map(|j| self.satisfied_at(*j)).min().map(|level| (level, None));
            let Some((level, link)) = full.into_iter().chain(satisfied).min_by_key(|(level, _)| *level) else { break };
            let stops = |j: &usize| match link {
                Some(link) => self.on[link].iter().any(|on| on.0 == *j),
                None => self.satisfied_at(*j) <= level,
            };
            let (stopped, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|j| stops(j));
            for j in stopped {
                let speed = if link.is_none() { self.rates.one() } else { self.speed_at(j, level) };
                for &(link, demand) in self.rates.used(&self.jobs[j].uses) {
                    let takes = (u128::from(demand) * u128::from(speed)) << (LEVEL_BITS - self.rates.speed_bits());
                    left[link as usize] = left[link as usize].saturating_sub(takes);
                }
                if core::mem::replace(&mut self.jobs[j].speed, speed) != speed {
                    self.moved.push(j);
                }
            }
            open = rest;
        }
    }

    /// A job whose speed changed, and the speed.
    pub fn next_moved(&mut self) -> Option<(usize, u64)> {
        let j = self.moved.pop()?;
        Some((j, self.jobs[j].speed))
    }

    /// The level at which the open jobs fill a link; `None` if none of them is on it.
    fn level_of(&self, link: usize, left: u128, open: &[usize]) -> Option<u128> {
        let part = |&(j, demand): &(usize, u64)| {
            let job = &self.jobs[j];
            // What one unit of level takes of the link, with LEVEL_BITS after the point.
            (u128::from(demand) << LEVEL_BITS) * u128::from(job.weight) / u128::from(job.rate.max(1))
        };
        let sum: u128 = self.on[link].iter().filter(|on| open.contains(&on.0)).map(part).sum();
        (sum > 0).then(|| (left << 16).checked_div(sum).unwrap_or(u128::MAX))
    }

    /// The level at which a job is at full speed: its rate over its weight, with 16 bits after the point.
    fn satisfied_at(&self, j: usize) -> u128 {
        (u128::from(self.jobs[j].rate) << 16).div_ceil(u128::from(self.jobs[j].weight))
    }

    fn speed_at(&self, j: usize, level: u128) -> u64 {
        let job = &self.jobs[j];
        let one = self.rates.one();
        let speed = (level * u128::from(job.weight) * u128::from(one)).div_ceil(u128::from(job.rate.max(1)) << 16);
        u64::try_from(speed).unwrap_or(one).clamp(1, one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speeds in percent of jobs that demand (links, Mbit/s) and weigh so much.
    fn speeds(capacities: &[u64], jobs: &[(&[(u32, u64)], u64)]) -> Vec<u64> {
        let mut rates = Rates::new(capacities.to_vec(), 30);
        let uses: Vec<Range<u32>> = jobs.iter().map(|(uses, _)| rates.add(uses.iter().copied())).collect();
        let mut sharing = WeightedSharing::new(&rates, jobs.len());
        for (j, (uses, (_, weight))) in uses.iter().zip(jobs).enumerate() {
            sharing.enter(j, uses);
            sharing.set_weight(j, *weight);
        }
        sharing.share_again();
        let mut speeds = vec![100; jobs.len()];
        while let Some((j, speed)) = sharing.next_moved() {
            speeds[j] = (speed * 100 + rates.one() / 2) / rates.one();
        }
        speeds
    }

    #[test]
    fn a_link_is_shared_by_weights_and_nobody_gets_more_than_it_asks_for() {
        let one: &[(u32, u64)] = &[(0, 100)];
        assert_eq!(speeds(&[100], &[(one, 1_000), (one, 1_000)]), [50, 50]);
        assert_eq!(speeds(&[100], &[(one, 250), (one, 750)]), [25, 75]);
        assert_eq!(speeds(&[200], &[(one, 250), (one, 750)]), [100, 100]);
        // The modest one is satisfied; the others share 90 as one to two.
        assert_eq!(speeds(&[100], &[(&[(0, 10)], 1_000), (one, 500), (one, 1_000)]), [100, 30, 60]);
    }

    #[test]
    fn what_is_held_back_elsewhere_is_left_to_the_others() {
        // The second job gets 30 on its own link, so the first has 90 of 120.
        assert_eq!(speeds(&[120, 30], &[(&[(0, 100)], 1_000), (&[(0, 100), (1, 100)], 1_000)]), [90, 30]);
        // b is light on the first link: a 80, b 20, and c takes what b leaves of the second.
        assert_eq!(speeds(&[100, 100], &[(&[(0, 100)], 800), (&[(0, 100), (1, 100)], 200), (&[(1, 100)], 200)]), [80, 20, 80]);
    }
}
