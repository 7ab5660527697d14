//! Elastic jobs on a fabric: what those feel that span nodes, and what a policy is told before it decides.
//!
//! Both are the planner's prediction, by the code that ranks places of other traces (`trace/network/foresee.rs`): it is of the iterations that jobs
//! really have when they feel it, and of those that the policy believes in when it asks. So a policy that asks is never surprised by the
//! network, only by jobs that are other than it thinks. Whoever restarts counts as one that sends.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use fabric::route::Router;
use policy::elastic::{ElasticJob, ElasticScheduler, Foresight, Pool, Sight, Stand};

use super::{
    super::network::{Foreseer, NetworkControl, Standing},
    job::Running,
};
use crate::statistics::{P99, weighted};

/// The fabric of elastic jobs.
#[derive(Clone, Copy, Debug)]
pub struct ElasticNetwork<'a> {
    /// Routes of the fabric. Its hosts are the nodes of the cluster, in order, type by type.
    pub router: &'a Router<'a>,
    /// What keeps jobs apart; [`NetworkControl::Ideal`] is a network that is in nobody's way but where a job alone exceeds it.
    pub control: NetworkControl,
    /// What the policy sees of it.
    pub sight: Sight,
}

/// The network at work.
pub(super) struct OnFabric<'a> {
    foreseer: Foreseer<'a>,
    sight: Sight,
    pools: Vec<Pool>,
    /// Time of GPUs of jobs that span nodes, and the same weighted by how much longer their iterations were.
    spanned: (f64, f64),
    /// Their time by how much longer their iterations were: floats that are not negative are in the order of their bits.
    by_longer: BTreeMap<u64, f64>,
}

impl<'a> OnFabric<'a> {
    /// # Errors
    /// What is wrong with the fabric.
    pub(super) fn new(network: &ElasticNetwork<'a>, pools: &[Pool]) -> Result<Self, String> {
        if network.control == NetworkControl::Paper {
            return Err("the control of the CASSINI paper has no prediction of times".to_string());
        }
        let hosts = pools.iter().map(|pool| pool.nodes).fold(0, u32::saturating_add);
        let foreseer = Foreseer::new(network.router, hosts, most_gpus(pools), network.control)?;
        Ok(Self { foreseer, sight: network.sight, pools: pools.to_vec(), spanned: (0.0, 0.0), by_longer: BTreeMap::new() })
    }

    /// Lets a policy decide, which may ask.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(super) fn decide(&mut self, scheduler: &mut ElasticScheduler, jobs: &[ElasticJob]) -> Result<Vec<Option<Stand>>, String> {
        let mut told = Told { foreseer: &mut self.foreseer, pools: &self.pools, problem: None };
        let stands = scheduler.decide_with(jobs, self.sight, &mut told);
        match told.problem {
            Some(problem) => Err(problem),
            None => Ok(stands),
        }
    }

    /// Tells jobs how much longer their iterations are from now on, for so many seconds.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(super) fn feel(&mut self, jobs: &mut [&mut Running<'_>], seconds: f64) -> Result<(), String> {
        let mut seats = Seats::new(&self.pools);
        let standing = |job: &&mut Running<'_>| seats.standing(job.stand.as_ref(), job.times());
        let standings: Vec<Option<Standing>> = jobs.iter().map(standing).collect();
        let longer = self.foreseer.longer(&standings)?;
        for ((job, longer), standing) in jobs.iter_mut().zip(longer).zip(&standings) {
            job.longer = longer;
            if let Some(standing) = standing {
                let gpu_s = standing.parts.iter().map(|(_, gpus)| gpus.len() as f64).sum::<f64>() * seconds;
                self.spanned = (self.spanned.0 + gpu_s, self.spanned.1 + gpu_s * longer);
                *self.by_longer.entry(longer.max(0.0).to_bits()).or_default() += gpu_s;
            }
        }
        Ok(())
    }

    pub(super) fn longer_mean(&self) -> f64 {
        if self.spanned.0 > 0.0 { self.spanned.1 / self.spanned.0 } else { 1.0 }
    }

    pub(super) fn longer_p99(&self) -> f64 {
        let by_longer: Vec<(f64, f64)> = self.by_longer.iter().map(|(longer, gpu_s)| (f64::from_bits(*longer), *gpu_s)).collect();
        weighted(&by_longer, P99 * self.spanned.0).unwrap_or(1.0)
    }

    pub(super) fn predicted(&self) -> u64 {
        self.foreseer.predicted
    }
}

fn most_gpus(pools: &[Pool]) -> u32 {
    pools.iter().map(|pool| pool.gpus_per_node).max().unwrap_or(1)
}

/// What a policy is told.
struct Told<'w, 'a> {
    foreseer: &'w mut Foreseer<'a>,
    pools: &'w [Pool],
    problem: Option<String>,
}

impl Foresight for Told<'_, '_> {
    fn longer(&mut self, jobs: &[ElasticJob], stands: &[Option<Stand>]) -> Vec<f64> {
        let mut seats = Seats::new(self.pools);
        let standing = |(job, stand): (&ElasticJob, &Option<Stand>)| {
            let believed = stand.as_ref().and_then(|stand| job.model.times(usize::from(stand.pool), stand.shape().layout()));
            seats.standing(stand.as_ref(), believed)
        };
        let standings: Vec<Option<Standing>> = jobs.iter().zip(stands).map(standing).collect();
        self.foreseer.longer(&standings).unwrap_or_else(|problem| {
            self.problem.get_or_insert(problem);
            alloc::vec![1.0; jobs.len()]
        })
    }
}

/// Which GPUs of each node are taken, so that every job sends through NICs of its own.
struct Seats<'p> {
    pools: &'p [Pool],
    /// By type: the host of its first node.
    first: Vec<u32>,
    /// By host: GPUs that are taken.
    taken: Vec<u32>,
    most: u32,
}

impl<'p> Seats<'p> {
    fn new(pools: &'p [Pool]) -> Self {
        let first: Vec<u32> = pools
            .iter()
            .scan(0_u32, |next, pool| {
                let first = *next;
                *next = next.saturating_add(pool.nodes);
                Some(first)
            })
            .collect();
        let hosts: usize = pools.iter().map(|pool| pool.nodes as usize).sum();
        Self { pools, first, taken: alloc::vec![0; hosts], most: most_gpus(pools) }
    }

    /// A job on the next GPUs of its nodes; `None` where it spans none, but it takes them all the same.
    fn standing(&mut self, stand: Option<&Stand>, times: Option<(f64, f64)>) -> Option<Standing> {
        let stand = stand?;
        let (pool, first) = (self.pools.get(usize::from(stand.pool))?, *self.first.get(usize::from(stand.pool))?);
        let mut parts = Vec::with_capacity(stand.places.len());
        for (node, gpus) in &stand.places {
            let host = first.saturating_add(*node);
            let taken = self.taken.get_mut(host as usize)?;
            // Nodes with fewer GPUs have them spread over all NICs too. The command line allows 64 of a node, so a byte holds them.
            let seat = |gpu: u32| (gpu * self.most / pool.gpus_per_node.max(1)).min(u32::from(u8::MAX)) as u8;
            parts.push((host, (*taken..taken.saturating_add(*gpus)).map(seat).collect()));
            *taken = taken.saturating_add(*gpus);
        }
        let (iteration_s, sync_s) = times.filter(|_| parts.len() > 1)?;
        Some(Standing { iteration_s, sync_s, parts })
    }
}
