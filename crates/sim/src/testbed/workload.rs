//! The steps of a job's iteration, independent of what other jobs and gates do to them.

use alloc::{sync::Arc, vec, vec::Vec};

use fabric::collective::Collective;
use job::{Job, Placement};
use units::{Bytes, Nanos, Rate};

/// A job of a [`crate::testbed::Case`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimJob {
    /// As the planner sees it: name, period, profile.
    pub job: Job,
    /// Where its ranks stand.
    pub placement: Placement,
    /// The real iteration. The profile may say something else: a wrong profile is a case too.
    pub workload: Workload,
    /// When it first comes to its gate.
    pub begins: Nanos,
}

/// The steps of one iteration, repeated in a closed loop: each begins when the one before it has ended. The gate stands
/// before the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// At least one of them takes time.
    pub steps: Vec<Step>,
}

/// A part of an iteration: compute when it has no transfers, communication otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// How long it takes when no link holds it back.
    pub length: Nanos,
    /// The transfers, all at once and in step with each other, as the chunks of a collective are: the slowest link sets
    /// the pace of all.
    pub transfers: Vec<Transfer>,
}

/// A collective under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The collective that every group runs.
    pub collective: Collective,
    /// Groups of ranks, by index into the placement's ranks.
    pub groups: Arc<[Vec<u32>]>,
    /// Rate of the busiest NIC at full speed: it never sends faster.
    pub rate: Rate,
}

impl Workload {
    /// The closed loop of the lab: all ranks send `bytes` each around one ring at up to the rate of a NIC, then compute.
    /// `None` when the rate is zero or the time overflows.
    #[must_use]
    pub fn ring(ranks: u32, bytes: Bytes, nic: Rate, compute: Nanos) -> Option<Self> {
        let transfer = Transfer { collective: Collective::Ring, groups: Arc::from([(0..ranks).collect::<Vec<u32>>()]), rate: nic };
        let communicate = Step { length: nic.time_for(bytes)?, transfers: vec![transfer] };
        Some(Self { steps: vec![communicate, Step { length: compute, transfers: Vec::new() }] })
    }

    /// The steps of the profile of `job`: phases that overlap are sent together, and the rest of the period is computed.
    #[must_use]
    pub fn of_profile(job: &Job) -> Self {
        let mut edges: Vec<Nanos> = job.phases.iter().flat_map(|p| [p.start, p.end]).collect();
        edges.extend([Nanos(0), job.period]);
        edges.sort_unstable();
        edges.dedup();
        let mut steps: Vec<Step> = Vec::new();
        // A phase that ends beyond the period is cut there; `edges` holds the period itself.
        for span in edges.windows(2).filter(|span| span[1] <= job.period) {
            let active = job.phases.iter().filter(|p| p.start <= span[0] && span[1] <= p.end && p.rate > Rate::ZERO);
            let transfers: Vec<Transfer> =
                active.map(|p| Transfer { collective: p.collective, groups: Arc::clone(&p.groups), rate: p.rate }).collect();
            let length = span[1].0 - span[0].0;
            // A step ends when all of its flows have delivered, so spans with equal transfers are one step, and no flow waits in between.
            match steps.last_mut() {
                Some(last) if last.transfers == transfers => last.length.0 += length,
                _ => steps.push(Step { length: Nanos(length), transfers }),
            }
        }
        Self { steps }
    }

    /// Length of an iteration that no link and no gate holds back.
    #[must_use]
    pub fn unhindered(&self) -> Nanos {
        Nanos(self.steps.iter().fold(0, |sum: u64, s| sum.saturating_add(s.length.0)))
    }
}

#[cfg(test)]
mod tests {
    use job::TrafficPhase;

    use super::*;

    fn phase(start: u64, end: u64, rate: u64) -> TrafficPhase {
        let groups = Arc::from([vec![0, 1]]);
        TrafficPhase { start: Nanos(start), end: Nanos(end), rate: Rate(rate), collective: Collective::Ring, groups }
    }

    #[test]
    fn a_profile_becomes_steps() {
        let job = Job {
            name: "j".into(),
            gpus: 1,
            period: Nanos(100),
            hold: job::Hold::Auto,
            phases: vec![phase(20, 60, 5), phase(40, 80, 7), phase(80, 90, 0)],
        };
        let steps = Workload::of_profile(&job).steps;
        let shape: Vec<(u64, Vec<u64>)> = steps.iter().map(|s| (s.length.0, s.transfers.iter().map(|t| t.rate.0).collect())).collect();
        assert_eq!(shape, [(20, vec![]), (20, vec![5]), (20, vec![5, 7]), (20, vec![7]), (20, vec![])]);
        assert_eq!(Workload::of_profile(&job).unhindered(), Nanos(100));
    }

    #[test]
    fn a_ring_sends_its_bytes_at_the_rate_of_the_nic() {
        // 1.25 MB at 100 Mbit/s: 100 ms.
        let load = Workload::ring(2, Bytes(1_250_000), Rate(100), Nanos::from_millis(50)).unwrap();
        assert_eq!(load.steps[0].length, Nanos::from_millis(100));
        assert_eq!(load.unhindered(), Nanos::from_millis(150));
        assert_eq!(Workload::ring(2, Bytes(1), Rate(0), Nanos(1)), None);
    }
}
