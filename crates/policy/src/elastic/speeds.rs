//! How fast jobs are, as Pollux counts it.

use super::{
    job::{ElasticJob, Pool, Shape},
    sia::restart_factor,
};
use crate::goodput::Layout;

/// What the policy believes that a restart costs, in seconds (Pollux, section 5.3, as its code has it).
const RESTART_S: f64 = 30.0;
/// What a job without GPUs costs: more than any that has some.
pub(super) const WAITING: f64 = 1_000.0;
/// The least speed that counts, so that no job costs more than one that waits.
const SPEED_LEAST: f64 = 2.0 / WAITING;

/// How fast a job is in each shape, over its fair share.
pub(super) struct Speeds<'a> {
    job: &'a ElasticJob,
    fair: f64,
    factor: f64,
}

impl<'a> Speeds<'a> {
    pub(super) fn new(pools: &[Pool], job: &'a ElasticJob, jobs: usize) -> Self {
        let gpus: u32 = pools.iter().map(Pool::gpus).sum();
        let per_node = pools.iter().map(|pool| pool.gpus_per_node).max().unwrap_or(1).max(1);
        // A fair share may be more than the job may have; then it is what it may have.
        let share = (gpus / u32::try_from(jobs.max(1)).unwrap_or(u32::MAX)).clamp(1, job.gpus_max.max(1));
        let layout = Layout { nodes: share.div_ceil(per_node), replicas: share };
        let fair = job.model.best(0, layout).map_or(f64::from(share), |best| best.goodput);
        Self { job, fair, factor: restart_factor(&ElasticJob { restart_s: RESTART_S, ..job.clone() }) }
    }

    /// `None` where the job cannot have the shape.
    pub(super) fn of(&self, shape: Shape) -> Option<f64> {
        let goodput = if self.job.model.is_known() {
            self.job.model.best(usize::from(shape.pool), shape.layout())?.goodput
        } else {
            f64::from(shape.gpus)
        };
        let same = self.job.shape.is_none_or(|has| has == shape);
        let speed = goodput / self.fair * if same { 1.0 } else { self.factor };
        speed.is_finite().then_some(speed.max(SPEED_LEAST))
    }
}
