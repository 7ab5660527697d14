//! What a run is given besides fabric and jobs.

use alloc::{string::String, vec::Vec};

use fabric::route::Router;
use state::Slot;
use units::{ClockOffset, Nanos};

use crate::{EcnModel, SimError, SimJob, noise::SIGMA_PERMILLE_MAX};

/// What is simulated. The router knows the fabric.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Routes of the fabric.
    pub router: &'a Router<'a>,
    /// The jobs; no two of one name.
    pub jobs: &'a [SimJob],
}

/// How it is simulated. Equal cases and configurations give equal reports, byte for byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Of all random numbers.
    pub seed: u64,
    /// Iterations of each job before anything is counted.
    pub warm_up: u64,
    /// Iterations of each job after that; the run ends when every job has done as many.
    pub iterations: u64,
    /// The run ends here at the latest.
    pub until: Nanos,
    /// Spread of the lognormal jitter of compute times, in thousandths; its mean is 1.
    pub jitter_permille: u32,
    /// Marking ramp of every link.
    pub ecn: EcnModel,
    /// Who holds the jobs to their slots.
    pub control: Control,
    /// Clocks that are not perfect.
    pub clocks: Vec<AgentClock>,
    /// What goes wrong, in any order.
    pub faults: Vec<Fault>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            warm_up: 8,
            iterations: 50,
            until: Nanos(86_400_000_000_000),
            jitter_permille: 0,
            ecn: EcnModel::DCQCN,
            control: Control::Free,
            clocks: Vec::new(),
            faults: Vec::new(),
        }
    }
}

/// Who holds the jobs to their slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Control {
    /// Nobody: no gate has a page.
    #[default]
    Free,
    /// Every agent has these slots from the beginning and for ever, as [`crate::direct_slots`] makes them. Jobs without
    /// a slot are not held.
    Direct(Vec<Slot>),
}

/// The clock of the agent of one host. Node time is fabric time minus `offset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentClock {
    /// The host.
    pub host: String,
    /// Fabric time minus node time, in truth.
    pub offset: ClockOffset,
    /// Estimate minus truth, in nanoseconds.
    pub error: i64,
    /// What the agent says of its error. A bound below the error is a lie, and a case to be tried.
    pub bound: Nanos,
}

/// Something that goes wrong. Times are since the beginning of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The agent of a host dies: no more heartbeats, its pages stay.
    AgentDies {
        /// The host.
        host: String,
        /// When.
        at: Nanos,
    },
    /// An agent that died is started again.
    AgentReturns {
        /// The host.
        host: String,
        /// When.
        at: Nanos,
    },
    /// The agent's idea of fabric time goes wrong by so many nanoseconds, without its knowing.
    ClockStep {
        /// The host.
        host: String,
        /// When.
        at: Nanos,
        /// Estimate minus truth grows by this.
        by: i64,
        /// After this the estimate is what it was before.
        lasts: Nanos,
    },
    /// One iteration of a job computes for longer.
    Straggler {
        /// The job, by its index in the case.
        job: u32,
        /// Which iteration, counted from 0.
        iteration: u64,
        /// By how much.
        extra: Nanos,
    },
}

/// Most iterations of a job that may be asked for: a month of 250 ms.
pub const ITERATIONS_MAX: u64 = 10_000_000;

impl Config {
    /// # Errors
    /// The first number that is out of range.
    pub(crate) fn validate(&self) -> Result<(), SimError> {
        let refuse = |what, value, problem| Err(SimError::Config { what, value, problem });
        let count = self.warm_up.saturating_add(self.iterations);
        if self.iterations == 0 || count > ITERATIONS_MAX {
            return refuse("number of iterations", count, "expected 1 to 10,000,000, warm-up included");
        }
        if self.jitter_permille > SIGMA_PERMILLE_MAX {
            return refuse("jitter in thousandths", u64::from(self.jitter_permille), "more than 500");
        }
        let ecn = &self.ecn;
        if ecn.kmin >= ecn.kmax || ecn.packet.0 == 0 {
            return refuse("Kmax in bytes", ecn.kmax.0, "not above Kmin, or packets have no bytes");
        }
        if ecn.pmax_permille > 1_000 {
            return refuse("Pmax in thousandths", u64::from(ecn.pmax_permille), "more than 1,000");
        }
        Ok(())
    }
}
