//! A training job of a case: what it does, and what is said of it.

use std::sync::Arc;

use job::{Collective, Endpoint, Job, Placement, TrafficPhase};
use units::{Bytes, Nanos, NodeId, Rate};

/// What a full segment carries with TCP timestamps, and what it takes on the wire without preamble: MTU 1500.
const SEGMENT_PAYLOAD: u64 = 1_448;
const SEGMENT_FRAME: u64 = 1_514;

/// A training job of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabJob {
    /// Unique id.
    pub id: String,
    /// One host per rank.
    pub hosts: Vec<NodeId>,
    /// What an iteration is made of, at least one.
    pub phases: Vec<LabPhase>,
    /// At most this much is added to each Down phase.
    pub jitter: Nanos,
    /// Slowest NIC of its hosts.
    pub nic: Rate,
    /// What its profile says of it.
    pub declared: Declared,
}

/// A part of an iteration: an Up phase, and the Down phase after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabPhase {
    /// Payload that each rank sends to its successor.
    pub bytes: Bytes,
    /// Length of the Down phase.
    pub compute: Nanos,
}

/// What a profile says, in percent of what was measured alone: a profile may be wrong, and the lab plays that too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Length of the iteration.
    pub period_percent: u64,
    /// Lengths of the Up phases; their rate is told as it is.
    pub up_percent: u64,
}

impl Default for Declared {
    fn default() -> Self {
        Self { period_percent: 100, up_percent: 100 }
    }
}

/// The random additions to Down phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Their mean.
    pub mean: Nanos,
    /// Their standard deviation.
    pub deviation: Nanos,
    /// Three quarters are below.
    pub third_quartile: Nanos,
}

/// How long one job takes, for planning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Length of one iteration.
    pub period: Nanos,
    /// Length of each Up phase, in the order of the case; the first begins the iteration.
    pub ups: Vec<Nanos>,
}

impl Timing {
    /// Length of all Up phases together.
    #[must_use]
    pub fn up(&self) -> Nanos {
        Nanos(self.ups.iter().fold(0, |sum, up| sum.saturating_add(up.0)))
    }
}

impl Declared {
    /// What the profile says of a job that takes so long.
    fn of(self, seen: &Timing) -> Timing {
        let share = |time: Nanos, percent: u64| u64::try_from(u128::from(time.0) * u128::from(percent) / 100).unwrap_or(u64::MAX);
        let period = share(seen.period, self.period_percent).max(1);
        let ups: Vec<u64> = seen.ups.iter().map(|&up| share(up, self.up_percent)).collect();
        // A profile has no room for Up phases that are longer than its period; they end with it.
        let total = ups.iter().fold(0_u64, |sum, up| sum.saturating_add(*up)).max(period);
        let fitted = |up: u64| Nanos(u64::try_from(u128::from(up) * u128::from(period) / u128::from(total)).unwrap_or(up));
        Timing { period: Nanos(period), ups: ups.into_iter().map(fitted).collect() }
    }
}

impl LabJob {
    /// Time that the bytes of each Up phase take at the NIC's rate, headers included, rounded up.
    #[must_use]
    pub fn wire_times(&self) -> Vec<Nanos> {
        let mbps = u128::from(self.nic.mbps().max(1)) * u128::from(SEGMENT_PAYLOAD);
        let time = |phase: &LabPhase| {
            let bits = u128::from(phase.bytes.0) * u128::from(SEGMENT_FRAME) * 8;
            Nanos(u64::try_from((bits * 1_000).div_ceil(mbps)).unwrap_or(u64::MAX))
        };
        self.phases.iter().map(time).collect()
    }

    /// What jitter adds to `phases` Down phases together. All ranks have to be ready, so it is the largest of one uniform draw per rank.
    #[must_use]
    pub fn drawn(&self, phases: usize) -> Drawn {
        let (ranks, most, phases) = (self.hosts.len().max(1) as f64, self.jitter.0 as f64, phases as f64);
        // A Down phase ends with the slowest rank: the largest of n uniform draws has mean n/(n+1), and the quartile 0.75^(1/n).
        let mean = most * ranks / (ranks + 1.0);
        let deviation = most * (ranks / (ranks + 2.0)).sqrt() / (ranks + 1.0);
        let above = most * 0.75_f64.powf(1.0 / ranks) - mean;
        // Draws are independent, so their means add up, and what they are apart grows with the root of their number.
        Drawn {
            mean: Nanos((mean * phases) as u64),
            deviation: Nanos((deviation * phases.sqrt()) as u64),
            third_quartile: Nanos((mean * phases + above * phases.sqrt()) as u64),
        }
    }

    /// Its times if nothing but the NIC's rate held it back.
    #[must_use]
    pub fn nominal(&self) -> Timing {
        let ups = self.wire_times();
        let down = self.phases.iter().map(|phase| phase.compute);
        let period = ups.iter().copied().chain(down).fold(0_u64, |sum, part| sum.saturating_add(part.0));
        Timing { period: Nanos(period), ups }
    }

    /// Longest that an iteration alone can be.
    #[must_use]
    pub fn longest(&self) -> Nanos {
        Nanos(self.nominal().period.0.saturating_add(self.jitter.0.saturating_mul(self.phases.len() as u64)))
    }

    /// Rate of the busiest NIC while it sends the bytes of a phase in `up`: what a measured Up phase means for the link.
    #[must_use]
    pub fn rate(&self, phase: usize, up: Nanos) -> Rate {
        // Payload becomes bytes on the wire, because HTB and the marking queue count whole frames.
        let payload = self.phases.get(phase).map_or(0, |phase| phase.bytes.0);
        let bits = u128::from(payload) * u128::from(SEGMENT_FRAME) * 8 / u128::from(SEGMENT_PAYLOAD);
        let mbps = (bits * 1_000).div_ceil(u128::from(up.0.max(1)));
        // A measured Up phase may be a little shorter than the wire allows, but the NIC sends no faster than its rate.
        Rate(u64::try_from(mbps).unwrap_or(u64::MAX).clamp(1, self.nic.mbps()))
    }

    /// The job that took so long alone, as it is.
    #[must_use]
    pub fn played(&self, seen: &Timing) -> (Job, Placement) {
        self.profile(seen, seen)
    }

    /// The job that took so long alone, as its profile says it: what service and planner know.
    #[must_use]
    pub fn planned(&self, seen: &Timing) -> (Job, Placement) {
        self.profile(&self.declared.of(seen), seen)
    }

    /// Up phases from the gate on, with Down phases between them that share what is left of the period as the case's own do.
    fn profile(&self, said: &Timing, seen: &Timing) -> (Job, Placement) {
        let ranks: Vec<Endpoint> = self.hosts.iter().map(|&host| Endpoint { host, rail: 0 }).collect();
        let groups: Arc<[Vec<u32>]> = Arc::from([(0..ranks.len() as u32).collect::<Vec<u32>>()]);
        let weight: u128 = self.phases.iter().map(|phase| u128::from(phase.compute.0)).sum();
        let down = u128::from(said.period.0.saturating_sub(said.up().0));
        let mut at = 0_u64;
        let mut phases = Vec::with_capacity(self.phases.len());
        for (k, (phase, up)) in self.phases.iter().zip(&said.ups).enumerate() {
            // At least a nanosecond each, in a period that has room for it.
            let end = at.saturating_add(up.0.max(1)).min(said.period.0);
            let start = at.min(end.saturating_sub(1));
            let rate = self.rate(k, seen.ups.get(k).copied().unwrap_or(*up));
            let groups = Arc::clone(&groups);
            phases.push(TrafficPhase { start: Nanos(start), end: Nanos(end), rate, collective: Collective::Ring, groups });
            let share = (down * u128::from(phase.compute.0)).checked_div(weight).unwrap_or(0);
            at = end.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
        }
        let job = Job { name: self.id.clone(), gpus: ranks.len() as u32, period: said.period, hold: job::Hold::Auto, phases };
        (job, Placement { ranks })
    }
}
