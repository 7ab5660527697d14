//! What is known of a job on each type of GPU, and what is believed of those that it never ran on (Sia, section 3.4: bootstrapping).

use alloc::vec::Vec;

use super::{
    batch::{BatchLimits, Best, efficiency},
    pipeline::Pipeline,
    throughput::{Batch, Layout, Throughput},
};

/// A job on one type of GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnPool {
    /// Which batches it can have there.
    pub limits: BatchLimits,
    /// GPUs of a node of that type.
    pub gpus_per_node: u32,
    /// The pipeline that each of its replicas is there; `None` where a replica is one GPU.
    pub pipeline: Option<Pipeline>,
    /// Samples a second of one replica, measured before the job began: a few seconds on each type.
    pub alone: f64,
    /// What its iterations take there; `None` until it ran there.
    pub throughput: Option<Throughput>,
}

impl OnPool {
    /// GPUs of a replica.
    #[must_use]
    pub fn stages(&self) -> u32 {
        self.pipeline.map_or(1, |pipeline| pipeline.stages.max(1))
    }

    /// How many replicas some GPUs are; `None` where some would be left over.
    #[must_use]
    pub fn replicas(&self, gpus: u32) -> Option<u32> {
        self.pipeline.map_or(Some(gpus), |pipeline| pipeline.replicas(gpus))
    }

    /// Replicas on the fewest nodes.
    fn standing(&self, replicas: u32) -> Layout {
        Layout { nodes: replicas.saturating_mul(self.stages()).div_ceil(self.gpus_per_node.max(1)), replicas }
    }

    /// An iteration, and computing in it, in seconds.
    fn times(&self, throughput: &Throughput, layout: Layout, batch: Batch) -> (f64, f64) {
        let pass_s = throughput.pass_s(batch.samples);
        match self.pipeline {
            Some(pipeline) => (throughput.pipelined_s(layout, pipeline), pipeline.computing_s(pass_s)),
            None => (throughput.iteration_s(layout, batch), pass_s * f64::from(batch.passes)),
        }
    }
}

/// A job on all types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// By type.
    pub pools: Vec<OnPool>,
    /// Noise of its gradients at the initial batch ([`efficiency`]); `None` until it ran.
    pub noise: Option<f64>,
    /// The batch that it has whatever it runs on; `None` where it may be tuned.
    pub batch: Option<u32>,
    /// The largest batch that is counted with, where the job may have a larger one.
    pub counted_most: Option<u32>,
}

impl Model {
    /// Whether the job ran anywhere.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.noise.is_some() && self.pools.iter().any(|pool| pool.throughput.is_some())
    }

    /// The best that the job can do so, with the batch as it would be on the type from which the estimate comes; `None` where it ran nowhere, or cannot.
    /// The layout counts GPUs, which have to be whole pipelines where its replicas are such.
    ///
    /// Where it never ran on a type, it is believed to scale there as on the first one on which it did, from the speeds of one replica.
    #[must_use]
    pub fn best(&self, pool: usize, layout: Layout) -> Option<Best> {
        let asked = self.pools.get(pool)?;
        let layout = Layout { replicas: asked.replicas(layout.replicas)?, ..layout };
        if let Some(throughput) = &asked.throughput {
            return self.on(asked, throughput, layout);
        }
        let (from, throughput) = self.pools.iter().find_map(|from| Some((from, from.throughput.as_ref()?)))?;
        let best = self.on(from, throughput, from.standing(layout.replicas))?;
        (from.alone > 0.0).then(|| Best { goodput: best.goodput * asked.alone / from.alone, ..best })
    }

    /// How long an iteration with that batch takes, and how much of it is sending that does not hide behind computing, in seconds.
    #[must_use]
    pub fn times(&self, pool: usize, layout: Layout) -> Option<(f64, f64)> {
        let asked = self.pools.get(pool)?;
        let layout = Layout { replicas: asked.replicas(layout.replicas)?, ..layout };
        let (from, throughput, layout) = match &asked.throughput {
            Some(throughput) => (asked, throughput, layout),
            None => {
                let (from, throughput) = self.pools.iter().find_map(|from| Some((from, from.throughput.as_ref()?)))?;
                (from, throughput, from.standing(layout.replicas))
            }
        };
        let batch = self.on(from, throughput, layout)?.batch;
        let (iteration_s, computing_s) = from.times(throughput, layout, batch);
        let slower = if asked.alone > 0.0 { from.alone / asked.alone } else { 1.0 };
        let slower = if asked.throughput.is_some() { 1.0 } else { slower };
        Some((iteration_s * slower, (iteration_s - computing_s).max(0.0) * slower))
    }

    /// Which batches are counted with; that all replicas have something to do comes first.
    fn limits(&self, pool: &OnPool, layout: Layout) -> BatchLimits {
        let least = pool.limits.initial.max(pool.limits.samples_least.saturating_mul(layout.replicas));
        let most = self.counted_most.map_or(pool.limits.most, |most| most.max(least).min(pool.limits.most));
        BatchLimits { most, ..pool.limits }
    }

    fn on(&self, pool: &OnPool, throughput: &Throughput, layout: Layout) -> Option<Best> {
        let noise = self.noise?;
        if let Some(pipeline) = pool.pipeline {
            // Every pipeline has the same batch, so that of all grows with their number.
            let total = pipeline.batch.total(layout.replicas);
            let samples = total as f64;
            let possible = layout.replicas > 0 && total <= u64::from(pool.limits.most);
            let (iteration_s, _) = pool.times(throughput, layout, pipeline.batch);
            let worth = efficiency(noise, samples / f64::from(pool.limits.initial.max(1)));
            return possible.then(|| Best { goodput: samples / iteration_s * worth, batch: pipeline.batch });
        }
        let Some(total) = self.batch else { return self.limits(pool, layout).best(throughput, noise, layout) };
        let batch = pool.limits.split(f64::from(total), layout.replicas);
        let scale = f64::from(total) / f64::from(pool.limits.initial.max(1));
        let possible = layout.replicas > 0 && pool.limits.holds(batch);
        possible.then(|| Best { goodput: rate(throughput, layout, batch, total) * efficiency(noise, scale), batch })
    }
}

/// Samples a second where the batch is given, whatever rounding makes of it.
fn rate(throughput: &Throughput, layout: Layout, batch: Batch, total: u32) -> f64 {
    f64::from(total) / throughput.iteration_s(layout, batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BatchLimits = BatchLimits { initial: 64, most: 1_024, samples_least: 8, samples_most: 128 };
    const KNOWN: Throughput =
        Throughput { alpha_c: 0.1, beta_c: 0.002, alpha_n: 0.2, beta_n: 0.002, alpha_r: 0.05, beta_r: 0.001, gamma: 1.2 };

    fn model(throughputs: [Option<Throughput>; 2]) -> Model {
        let [slow, fast] = throughputs;
        let pools = vec![
            OnPool { limits: LIMITS, gpus_per_node: 4, pipeline: None, alone: 100.0, throughput: slow },
            OnPool { limits: LIMITS, gpus_per_node: 8, pipeline: None, alone: 300.0, throughput: fast },
        ];
        Model { pools, noise: Some(3.0), batch: None, counted_most: None }
    }

    #[test]
    fn a_type_is_estimated_by_the_speeds_of_one_gpu() {
        let model = model([Some(KNOWN), None]);
        // Eight replicas stand on one node of the fast type, and on two of the slow one.
        let there = model.best(1, Layout { nodes: 1, replicas: 8 }).unwrap();
        let here = model.best(0, Layout { nodes: 2, replicas: 8 }).unwrap();
        assert!((there.goodput - 3.0 * here.goodput).abs() < 1e-9, "{there:?} {here:?}");
        assert_eq!(there.batch, here.batch);
    }

    /// Samples a second of the batch are goodput over efficiency, whichever type the times are from.
    #[test]
    fn times_are_those_of_the_best_batch() {
        let model = model([Some(KNOWN), None]);
        for (pool, layout) in [(0, Layout { nodes: 2, replicas: 8 }), (1, Layout { nodes: 1, replicas: 8 })] {
            let best = model.best(pool, layout).unwrap();
            let (iteration_s, sync_s) = model.times(pool, layout).unwrap();
            let total = best.batch.total(8) as f64;
            assert!((total * efficiency(3.0, total / 64.0) / iteration_s / best.goodput - 1.0).abs() < 1e-9);
            assert!(sync_s > 0.0 && sync_s < iteration_s);
        }
    }

    /// Eight stages on the slow type, two on the fast one: two pipelines are 16 GPUs of the one and four of the other.
    #[test]
    fn pipelines_are_estimated_by_the_speeds_of_one_pipeline() {
        let mut model = model([Some(KNOWN), None]);
        for (pool, stages) in model.pools.iter_mut().zip([8, 2]) {
            pool.pipeline = Some(Pipeline { stages, batch: Batch { samples: 1, passes: 64 } });
        }
        let here = model.best(0, Layout { nodes: 4, replicas: 16 }).unwrap();
        let there = model.best(1, Layout { nodes: 1, replicas: 4 }).unwrap();
        assert!((there.goodput - 3.0 * here.goodput).abs() < 1e-9, "{there:?} {here:?}");
        // Twice the initial batch, which is worth (3 + 1) / (3 + 2) of it, in 3 (7 + 64) passes and one sending between nodes.
        let iteration_s = 3.0 * 71.0 * 0.102 + 0.2;
        assert!((here.goodput - 128.0 / iteration_s * 0.8).abs() < 1e-6, "{here:?}");
        assert_eq!(
            model.times(0, Layout { nodes: 4, replicas: 16 }).map(|(all_s, _)| (all_s * 1e6).round()),
            Some((iteration_s * 1e6).round())
        );
        assert_eq!(model.best(0, Layout { nodes: 3, replicas: 12 }), None, "one and a half");
        assert_eq!(model.best(1, Layout { nodes: 8, replicas: 64 }), None, "32 of them have more than the largest batch");
    }

    #[test]
    fn a_type_that_it_ran_on_is_not_estimated() {
        let faster = Throughput { beta_c: 0.000_5, ..KNOWN };
        let both = model([Some(KNOWN), Some(faster)]);
        let only = model([None, Some(faster)]);
        let layout = Layout { nodes: 1, replicas: 8 };
        assert_eq!(both.best(1, layout), only.best(1, layout));
        assert_eq!(model([None, None]).best(0, layout), None);
        assert!(!model([None, None]).is_known());
    }

    /// With little noise lost, larger batches are better; who counts with 128 at most is offered no more than that, and with 32 replicas of at least
    /// 8 samples exactly 256.
    #[test]
    fn no_larger_batch_is_counted_than_one_is_told_to_count() {
        let mut counted = model([Some(KNOWN), None]);
        counted.noise = Some(1_000.0);
        let layout = Layout { nodes: 1, replicas: 4 };
        let total = |model: &Model, layout: Layout| model.best(0, layout).unwrap().batch.total(layout.replicas);
        assert!(total(&counted, layout) > 512);
        counted.counted_most = Some(128);
        assert_eq!(total(&counted, layout), 128);
        assert_eq!(total(&counted, Layout { nodes: 8, replicas: 32 }), 256);
    }

    #[test]
    fn a_batch_that_is_given_is_kept() {
        let mut fixed = model([Some(KNOWN), None]);
        fixed.batch = Some(512);
        let best = fixed.best(0, Layout { nodes: 1, replicas: 4 }).unwrap();
        assert_eq!(best.batch, Batch { samples: 128, passes: 1 });
        // Eight initial batches at a noise of 3 are worth (3 + 1) / (3 + 8) each.
        let per_s = 512.0 / KNOWN.iteration_s(Layout { nodes: 1, replicas: 4 }, best.batch);
        assert!((best.goodput - per_s * 4.0 / 11.0).abs() < 1e-9);
        assert_eq!(fixed.best(0, Layout { nodes: 16, replicas: 64 }).unwrap().batch.samples, 8);
        assert_eq!(fixed.best(0, Layout { nodes: 32, replicas: 128 }), None, "four samples are too few for a GPU");
    }
}
