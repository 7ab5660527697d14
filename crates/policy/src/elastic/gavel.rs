//! Gavel (Narayanan et al., OSDI 2020), for the most throughput of all jobs: which type of GPU each job has, whose count is given.
//!
//! A linear program says for which share of the time each job should have each type, so that all jobs together do the most iterations a second.
//! Round by round jobs get GPUs in the order of that share over the share of rounds that they had, and keep their GPUs where they can.
//!
//! As in the simulator of Sia's authors, time that a job did not have yet counts as half a round of each type, who has no share of a type may
//! still have what is left of it, and nodes are filled in order, larger jobs first. Where jobs are equal to the program, that simulator's solver
//! gives all of them a share; ours gives whole shares, and prefers who had least, so that they take turns.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{
    job::{ElasticJob, Pool, Stand},
    linear::{Row, maximise},
};
use crate::schedule::JobIndex;

/// Digits of a share that count.
const SHARE_DIGITS: f64 = 1e5;
/// Most jobs in the linear program, the first ones: its tableau grows with the square. The others have what is left over.
const JOBS_MAX: usize = 400;
/// By how much a rate counts more for who had nothing yet: enough to tell equal ones apart, and no more.
const LEAST_HAD: f64 = 1e-6;

#[derive(Clone, Debug)]
pub(super) struct Gavel {
    round_s: f64,
    /// Time that each job had of each type.
    had_s: BTreeMap<JobIndex, Vec<f64>>,
    /// Time of each type in all.
    all_s: Vec<f64>,
}

impl Gavel {
    pub(super) fn new(pools: usize, round_s: f64) -> Self {
        Self { round_s, had_s: BTreeMap::new(), all_s: alloc::vec![0.0; pools] }
    }

    pub(super) fn decide(&mut self, pools: &[Pool], jobs: &[ElasticJob]) -> Vec<Option<Stand>> {
        for job in jobs {
            if !self.had_s.contains_key(&job.id) {
                self.had_s.insert(job.id, alloc::vec![self.round_s / 2.0; pools.len()]);
                self.all_s.iter_mut().for_each(|all_s| *all_s += self.round_s / 2.0);
            }
        }
        self.had_s.retain(|id, _| jobs.iter().any(|job| job.id == *id));
        let shares = self.shares(pools, jobs);
        let chosen = self.choose(pools, jobs, &shares);
        let stands = stand(pools, jobs, &chosen);
        for (job, stand) in jobs.iter().zip(&stands) {
            if let (Some(had_s), Some(stand)) = (self.had_s.get_mut(&job.id), stand) {
                had_s[usize::from(stand.pool)] += self.round_s;
                self.all_s[usize::from(stand.pool)] += self.round_s;
            }
        }
        stands
    }

    /// For which share of the time each job should have each type.
    fn shares(&self, pools: &[Pool], jobs: &[ElasticJob]) -> Vec<Vec<f64>> {
        let (types, all) = (pools.len(), jobs.len());
        let jobs = &jobs[..all.min(JOBS_MAX)];
        let all_s: f64 = self.all_s.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let had = |job: &ElasticJob| self.had_s.get(&job.id).map_or(0.0, |had_s| had_s.iter().sum::<f64>()) / all_s;
        let rate = |job: &ElasticJob, pool: usize| {
            let rate = job.rates.get(pool).copied().filter(|_| job.takes(pool as u8)).unwrap_or(0.0);
            rate * (1.0 + LEAST_HAD * (1.0 - had(job)))
        };
        let brings: Vec<f64> = jobs.iter().flat_map(|job| (0..types).map(|pool| rate(job, pool)).collect::<Vec<f64>>()).collect();
        let of_job = |at: usize| Row { uses: (0..types).map(|pool| (at * types + pool, 1.0)).collect(), has: 1.0 };
        let of_pool = |(at, pool): (usize, &Pool)| {
            let uses = jobs.iter().enumerate().map(|(job, of)| (job * types + at, f64::from(of.asked))).collect();
            Row { uses, has: f64::from(pool.gpus()) }
        };
        let rows: Vec<Row> = (0..jobs.len()).map(of_job).chain(pools.iter().enumerate().map(of_pool)).collect();
        let found = maximise(&brings, &rows);
        let round = |share: &f64| libm::round(share * SHARE_DIGITS) / SHARE_DIGITS;
        let mut shares: Vec<Vec<f64>> = found.chunks(types.max(1)).map(|row| row.iter().map(round).collect()).collect();
        shares.resize(all, alloc::vec![0.0; types]);
        shares
    }

    /// The type of each job in this round.
    fn choose(&self, pools: &[Pool], jobs: &[ElasticJob], shares: &[Vec<f64>]) -> Vec<Option<u8>> {
        let mut queue: Vec<(f64, f64, usize, u8)> = Vec::new();
        for pool in 0..pools.len() {
            for (at, job) in jobs.iter().enumerate() {
                let share = shares[at][pool];
                let had = self.had_s.get(&job.id).map_or(0.0, |had_s| had_s[pool]) / self.all_s[pool].max(f64::MIN_POSITIVE);
                let first = if share > 0.0 && had > 0.0 { share / had } else { 0.0 };
                // There are at most 256 types.
                queue.push((first, share, at, pool as u8));
            }
        }
        // Stable: of equal ones the first stays first.
        queue.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
        let mut left: Vec<u32> = pools.iter().map(Pool::gpus).collect();
        let mut chosen = alloc::vec![None; jobs.len()];
        for (_, _, at, pool) in queue {
            let (job, left) = (&jobs[at], &mut left[usize::from(pool)]);
            let can = job.takes(pool) && job.rates.get(usize::from(pool)).is_some_and(|rate| *rate > 0.0);
            if chosen[at].is_none() && can && job.asked > 0 && job.asked <= *left {
                *left -= job.asked;
                chosen[at] = Some(pool);
            }
        }
        chosen
    }
}

/// Nodes for types: larger jobs first, where they stood if that is free, else the next free GPUs.
fn stand(pools: &[Pool], jobs: &[ElasticJob], chosen: &[Option<u8>]) -> Vec<Option<Stand>> {
    let mut stands: Vec<Option<Stand>> = alloc::vec![None; jobs.len()];
    for (pool, at) in pools.iter().zip(0_u8..) {
        let mut free = alloc::vec![pool.gpus_per_node; pool.nodes as usize];
        let mut here: Vec<usize> = (0..jobs.len()).filter(|job| chosen[*job] == Some(at)).collect();
        here.sort_by_key(|job| core::cmp::Reverse(jobs[*job].asked));
        for same in here.chunk_by(|a, b| jobs[*a].asked == jobs[*b].asked) {
            for &job in same {
                let Some(stood) = jobs[job].stand.as_ref().filter(|stood| stood.pool == at) else { continue };
                if stood.places.iter().all(|(node, gpus)| free.get(*node as usize).is_some_and(|free| free >= gpus)) {
                    stood.places.iter().for_each(|(node, gpus)| free[*node as usize] -= gpus);
                    stands[job] = Some(stood.clone());
                }
            }
            for &job in same {
                if stands[job].is_none() {
                    stands[job] = Some(Stand { pool: at, places: next_free(&mut free, jobs[job].asked) });
                }
            }
        }
    }
    stands
}

fn next_free(free: &mut [u32], mut gpus: u32) -> Vec<(u32, u32)> {
    let mut places = Vec::new();
    for (node, free) in free.iter_mut().enumerate() {
        let part = gpus.min(*free);
        if part > 0 {
            *free -= part;
            gpus -= part;
            places.push((node as u32, part));
        }
    }
    places
}
