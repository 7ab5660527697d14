//! How fast jobs are, as Pollux counts it.

use super::{
    job::{ElasticJob, Pool, Shape},
    sia::restart_factor,
};
use crate::goodput::Layout;

/// What Pollux believes that a restart costs, in seconds (section 5.3, as its code has it), and what one costs in its simulator.
pub const RESTART_S: f64 = 30.0;
/// What a job without GPUs costs: more than any that has some.
pub(super) const WAITING: f64 = 1_000.0;
/// The least speed that counts, so that no job costs more than one that waits.
const SPEED_LEAST: f64 = 2.0 / WAITING;

/// What a fair share of the GPUs is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fair {
    /// An equal part of them, on the fewest nodes, where the job may have so many.
    Possible,
    /// An equal part, rounded up, as fast as if all were on one node: so has it the published code.
    Published,
}

/// How fast a job is in each shape, over its fair share.
pub(super) struct Speeds<'a> {
    job: &'a ElasticJob,
    fair: f64,
    factor: f64,
}

impl<'a> Speeds<'a> {
    pub(super) fn new(pools: &[Pool], job: &'a ElasticJob, jobs: usize, fair: Fair) -> Self {
        let gpus: u32 = pools.iter().map(Pool::gpus).sum();
        let per_node = pools.iter().map(|pool| pool.gpus_per_node).max().unwrap_or(1).max(1);
        let jobs = u32::try_from(jobs.max(1)).unwrap_or(u32::MAX);
        let layout = match fair {
            Fair::Possible => {
                let share = (gpus / jobs).clamp(1, job.gpus_max.max(1));
                Layout { nodes: share.div_ceil(per_node), replicas: share }
            }
            // With more replicas than its largest batch has work for, a known job would have no goodput at all.
            Fair::Published => {
                let most = job.model.pools.first().map_or(u32::MAX, |pool| pool.limits.replicas_max());
                Layout { nodes: 1, replicas: gpus.div_ceil(jobs).min(if job.model.is_known() { most } else { u32::MAX }).max(1) }
            }
        };
        let share = layout.replicas;
        let fair = job.model.best(0, layout).map_or(f64::from(share), |best| best.goodput);
        Self { job, fair, factor: restart_factor(&ElasticJob { restart_s: RESTART_S, ..job.clone() }) }
    }

    /// `None` where the job cannot have the shape.
    pub(super) fn of(&self, shape: Shape) -> Option<f64> {
        let same = self.job.shape.is_none_or(|has| has == shape);
        let speed = self.plain(shape)? * if same { 1.0 } else { self.factor };
        Some(speed.max(SPEED_LEAST))
    }

    /// The same where a restart costs nothing.
    pub(super) fn plain(&self, shape: Shape) -> Option<f64> {
        let goodput = if self.job.model.is_known() {
            self.job.model.best(usize::from(shape.pool), shape.layout())?.goodput
        } else {
            f64::from(shape.gpus)
        };
        Some(goodput / self.fair).filter(|speed| speed.is_finite())
    }

    /// What is left of a speed after a restart, as the published code counts it: also for a job that waits, and from the beginning.
    pub(super) fn factor(&self) -> f64 {
        let age_s = self.job.age_s;
        (age_s - f64::from(self.job.restarts) * RESTART_S).max(0.0) / (age_s + RESTART_S)
    }
}
