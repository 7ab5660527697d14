//! Jobs whose replicas are pipelines: a stage of the model on each GPU (Sia's hybrid jobs, section 3.4; filled and drained as by Huang et al.,
//! "GPipe", NeurIPS 2019). Such a job has as many more GPUs as a whole pipeline needs, or none.

use super::throughput::{Batch, Layout, Throughput};

/// How much longer a stage takes for a pass forward and back than forward only.
const FORWARD_AND_BACK: f64 = 3.0;

/// A replica on several GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Stages, each on a GPU; at least 1.
    pub stages: u32,
    /// What goes through it in an iteration, in passes one behind the other.
    pub batch: Batch,
}

impl Pipeline {
    /// How many pipelines some GPUs are; `None` where some would be left over.
    #[must_use]
    pub fn replicas(self, gpus: u32) -> Option<u32> {
        let stages = self.stages.max(1);
        gpus.is_multiple_of(stages).then_some(gpus / stages)
    }

    /// Computing an iteration, where a stage takes that long for one pass forward: all passes, and as many more as it takes to fill the
    /// pipeline and to drain it.
    #[must_use]
    pub fn computing_s(self, pass_s: f64) -> f64 {
        FORWARD_AND_BACK * f64::from(self.stages.saturating_sub(1).saturating_add(self.batch.passes)) * pass_s
    }
}

impl Throughput {
    /// One iteration of pipelines, in seconds; the layout has them as replicas. They send when the last one is drained.
    #[must_use]
    pub fn pipelined_s(&self, layout: Layout, pipeline: Pipeline) -> f64 {
        pipeline.computing_s(self.pass_s(pipeline.batch.samples)) + self.sync_s(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Throughput =
        Throughput { alpha_c: 0.04, beta_c: 0.01, alpha_n: 0.5, beta_n: 0.02, alpha_r: 0.2, beta_r: 0.01, gamma: 4.0 };
    const PIPELINE: Pipeline = Pipeline { stages: 8, batch: Batch { samples: 1, passes: 48 } };

    #[test]
    fn a_pipeline_is_filled_and_drained() {
        // 48 passes and 7 more, three times 0.05 s each: 8.25 s. Two of them on two nodes send for 0.5 s, one alone for nobody.
        let of = |nodes, replicas| KNOWN.pipelined_s(Layout { nodes, replicas }, PIPELINE);
        assert!((of(2, 2) - 8.75).abs() < 1e-6 && (of(1, 1) - 8.25).abs() < 1e-6, "{} {}", of(2, 2), of(1, 1));
        // A stage alone waits for no other.
        let alone = Pipeline { stages: 1, ..PIPELINE };
        assert!((KNOWN.pipelined_s(Layout { nodes: 1, replicas: 1 }, alone) - 7.2).abs() < 1e-6);
    }

    #[test]
    fn gpus_are_whole_pipelines_or_none() {
        assert_eq!([8, 24, 12, 4].map(|gpus| PIPELINE.replicas(gpus)), [Some(1), Some(3), None, None]);
    }
}
