//! What goes wrong while a trace is played: hosts, links and agents that are down for a while, and hosts that compute slower.
//!
//! The rules. When a host goes down its jobs stop at once, lose what they computed since their last checkpoint, and wait for GPUs again;
//! its GPUs are out of the cluster until it is back. A job's first checkpoint is when it starts or moves, and the next ones follow each time it
//! has computed for so long; they cost nothing, and a job that is stopped for others saves what it has. When a link goes down, both
//! directions of its cable do: flows go over what is left of their equally short routes, and a job with a flow that has none
//! left stands still until one is back. While an agent is down, jobs whose first host it serves are not held. While a host is slow,
//! iterations of its jobs take that many times as long; of several that hold at once the largest factor counts.

mod draw;
mod timeline;

use units::LinkId;

pub(super) use self::timeline::{Timeline, Turned};

/// Most faults that are read and that are played: a year of 20,000 hosts that each go down once a month. Jobs that fail more often than they
/// save anything are never done.
pub(super) const FAULTS_MAX: u64 = 250_000;

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceFault {
    /// From when on, in seconds of the trace's clock.
    pub at_s: f64,
    /// Until when; later than `at_s`.
    pub until_s: f64,
    /// What.
    pub what: Failing,
}

/// What goes wrong. Hosts are numbers in the cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failing {
    /// A host is down.
    Host(u32),
    /// A link is down, and the other direction of its cable with it.
    Link(LinkId),
    /// The agent of a host is down.
    Agent(u32),
    /// A host is slow.
    Straggler {
        /// Which host.
        host: u32,
        /// How many times as long iterations take, from 1 on.
        factor: f64,
    },
}

/// How often something goes down by chance, and for how long: times between and times to repair are exponentially distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultRate {
    /// Mean time from a repair to the next failure, in seconds, of each host or cable by itself.
    pub between_s: f64,
    /// Mean time to repair, in seconds.
    pub repair_s: f64,
}

/// What goes wrong in a trace, and what that costs.
#[derive(Clone, Copy, Debug)]
pub struct FaultSetup<'a> {
    /// What was told in advance.
    pub told: &'a [TraceFault],
    /// Hosts that go down by chance.
    pub hosts: Option<FaultRate>,
    /// Cables of the fabric that go down by chance, those of NICs included.
    pub links: Option<FaultRate>,
    /// For how long a job computes from one checkpoint to the next, in seconds.
    pub checkpoint_s: f64,
    /// Of what goes down by chance.
    pub seed: u64,
}

/// What came of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultOutcome {
    /// How often hosts, links and agents went down, and hosts became slow.
    pub faults: u64,
    /// How often a job lost its host.
    pub failures: u64,
    /// What jobs computed and lost: iterations since the last checkpoint, as long as they take alone, times GPUs, in seconds.
    pub lost_gpu_s: f64,
    /// For how long jobs stood still because a link was down, times GPUs, in seconds.
    pub still_gpu_s: f64,
}
