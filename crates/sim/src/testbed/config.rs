//! The inputs of a run besides fabric and jobs.

use alloc::{string::String, sync::Arc, vec, vec::Vec};

use fabric::route::Router;
use state::{Slot, turns::TurnGroup};
use units::{ClockOffset, Nanos};

use crate::testbed::{
    Depth, EcnModel, SimError, SimJob,
    noise::{Noise, SIGMA_PERMILLE_MAX},
};

/// The fabric and the jobs of a run. The router knows the fabric.
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
    /// How jobs share a link that is too full.
    pub transport: Transport,
    /// The control that holds the jobs to their slots.
    pub control: Control,
    /// Clocks that are not perfect.
    pub clocks: Vec<AgentClock>,
    /// Faults, in any order.
    pub faults: Vec<Fault>,
    /// Jobs that are not there all the time; each at most once. Such jobs take no part in the warm-up.
    pub lifetimes: Vec<Lifetime>,
    /// Jobs that do not tell the truth about their turns; each at most once.
    pub liars: Vec<Liar>,
    /// Jobs that do not repeat themselves, in any order.
    pub changes: Vec<WorkChange>,
    /// Copy cycles that repeat themselves instead of simulating them again. The report is the same but for
    /// [`crate::testbed::Report::copied_cycles`]. Nothing is copied with jitter, a service, turns or lifetimes, nor before the last fault.
    pub skip: bool,
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
            transport: Transport::Fair,
            control: Control::Free,
            clocks: Vec::new(),
            faults: Vec::new(),
            lifetimes: Vec::new(),
            liars: Vec::new(),
            changes: Vec::new(),
            skip: true,
        }
    }
}

/// Who holds the jobs to their slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Control {
    /// Nobody: no gate has a page.
    #[default]
    Free,
    /// Every agent has these slots from the beginning and for ever, as [`crate::testbed::direct_slots`] makes them. Jobs without
    /// a slot are not held.
    Direct(Vec<Slot>),
    /// The control of the CASSINI paper: a job begins at its time-shift, then runs as it comes, and delays one start when it has drifted
    /// from the shift by more than 5 % of the period. It shifts every job that has a slot, held or not. The slots should be without headroom.
    Drift(Vec<Slot>),
    /// Turns: the production's gates, agents and the service's side of turns, for these groups from the beginning.
    Turns(TurnsControl),
    /// The production service, and agents that it sends plans to.
    Service(ServiceControl),
}

/// How jobs share a link that is too full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Max-min fairly, one class for each job.
    #[default]
    Fair,
    /// By weights that grow with the part of the iteration's bytes that a job has sent: MLTCP (arXiv 2402.09589).
    Mltcp,
}

/// Turns in virtual time.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnsControl {
    /// Who takes turns with whom, as [`crate::testbed::turn_groups`] or [`crate::testbed::planned_groups`] makes them.
    pub groups: Vec<Arc<TurnGroup>>,
    /// Between agents and service. Notes and orders are datagrams: what is lost is not sent again by the way. Sessions are streams.
    pub way: Way,
    /// How many datagrams of a thousand come twice.
    pub doubled_permille: u32,
    /// How many datagrams of a thousand come late by up to three more delays, so that later ones overtake them.
    pub late_permille: u32,
    /// From what an agent writes on a page to a gate that waits for it.
    pub wake: Nanos,
    /// Longest wait for a turn that the page allows.
    pub turn_max: Nanos,
    /// Agents read byte counters. The bytes of a host are a job's where no other job has a rank on it.
    pub byte_counters: bool,
    /// Jobs ask at each Up phase, not once an iteration.
    pub per_phase: bool,
    /// After this much silence one end of a session counts the other as gone.
    pub lost_after: Nanos,
    /// Keep every start for the report.
    pub log: bool,
}

impl Default for TurnsControl {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            way: ServiceControl::default().way,
            doubled_permille: 0,
            late_permille: 0,
            // Some 25 us on a quiet machine (docs/schedule-page.md).
            wake: Nanos::from_micros(50),
            turn_max: gate_core::HOLD_LIMIT,
            byte_counters: true,
            per_phase: false,
            lost_after: Nanos::from_millis(1_000),
            log: false,
        }
    }
}

/// A job whose gate does not tell the truth. Each number is how many starts of a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liar {
    /// The job, by its index in the case.
    pub job: u32,
    /// It says that it is ready, and does not start but computes its iteration again.
    pub never_starts_permille: u32,
    /// It does not tell the end.
    pub mute_permille: u32,
    /// It tells the end in the middle of what it sends.
    pub early_permille: u32,
}

/// From one iteration on, a job computes and sends so much of what its workload says: sequences that grow, evaluation, accumulated
/// gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkChange {
    /// The job, by its index in the case.
    pub job: u32,
    /// The first iteration that is other, counted from 0.
    pub iteration: u64,
    /// Lengths of its compute steps in thousandths of the workload's.
    pub compute_permille: u32,
    /// What its other steps send, likewise; of none it sends for a nanosecond.
    pub send_permille: u32,
}

/// Who is not named as a liar.
pub(crate) const fn never_lies(job: u32) -> Liar {
    Liar { job, never_starts_permille: 0, mute_permille: 0, early_permille: 0 }
}

/// The service in virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceControl {
    /// The service's configuration. Its ECMP rule should be the router's.
    pub config: state::Config,
    /// When all jobs are committed.
    pub commit_at: Nanos,
    /// How long the store takes to make a batch durable.
    pub persist: Nanos,
    /// How often agents report.
    pub report_every: Nanos,
    /// Between agents and service.
    pub way: Way,
}

/// Delay and loss of messages between agents and the service, each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Least time that one takes.
    pub delay: Nanos,
    /// Up to this much more, evenly spread.
    pub jitter: Nanos,
    /// How many of a thousand are lost; they are sent again, because sessions are reliable streams.
    pub loss_permille: u32,
    /// After this much time.
    pub resend: Nanos,
}

/// Most times that one message of a session is sent again.
const RESENDS_MAX: u32 = 8;

impl Way {
    /// How long a message of a session takes.
    pub(super) fn message(&self, noise: &mut Noise) -> u64 {
        let mut delay = self.delay.0.saturating_add(noise.below(self.jitter.0));
        // A loss of everything is a valid input, so only the bound ends the loop.
        for _ in 0..RESENDS_MAX {
            if noise.below(1_000) >= u64::from(self.loss_permille) {
                break;
            }
            delay = delay.saturating_add(self.resend.0);
        }
        delay
    }
}

impl Default for ServiceControl {
    fn default() -> Self {
        let way =
            Way { delay: Nanos::from_micros(100), jitter: Nanos::from_micros(100), loss_permille: 0, resend: Nanos::from_millis(200) };
        Self {
            config: state::Config::default(),
            commit_at: Nanos(0),
            persist: Nanos::from_millis(5),
            report_every: Nanos::from_millis(1_000),
            way,
        }
    }
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
    /// The agent's own bound for its error. A bound below the error is a lie, and a case to be tried.
    pub bound: Nanos,
}

/// When a job is there. With a service it is committed when it arrives and released when it departs; its processes begin and
/// end at those times, whatever the service does. Times are since the beginning of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The job, by its index in the case.
    pub job: u32,
    /// The job comes to its gate for the first time; [`SimJob::begins`] counts from here.
    pub arrives: Nanos,
    /// The job is gone, even in the middle of an iteration; `None`: the job stays.
    pub departs: Option<Nanos>,
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
    /// The service is killed: what its store had not yet taken is lost, and connections break.
    ServiceDies {
        /// When.
        at: Nanos,
    },
    /// The service is started again from its store.
    ServiceReturns {
        /// When.
        at: Nanos,
    },
    /// No message passes between the agent of a host and the service.
    Partition {
        /// The host.
        host: String,
        /// When.
        at: Nanos,
        /// For so long.
        lasts: Nanos,
    },
    /// The processes of a job are killed, whatever they do, and started again.
    JobRestarts {
        /// The job, by its index in the case.
        job: u32,
        /// When.
        at: Nanos,
        /// It comes to its gate after so long.
        after: Nanos,
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

/// Most iterations of a job that may be asked for: three days of 250 ms, and 100 MB of records.
pub const ITERATIONS_MAX: u64 = 1_000_000;

impl Config {
    /// Iterations that each job has to end: one more than asked for, because an iteration lasts until the next begins.
    pub(crate) fn records_wanted(&self) -> u64 {
        self.warm_up + self.iterations + 1
    }

    /// # Errors
    /// The first number that is out of range.
    pub(crate) fn validate(&self, jobs: usize) -> Result<(), SimError> {
        let refuse = |what, value, problem| Err(SimError::Config { what, value, problem });
        let count = self.warm_up.saturating_add(self.iterations);
        if self.iterations == 0 || count > ITERATIONS_MAX {
            return refuse("number of iterations", count, "expected 1 to 1,000,000, warm-up included");
        }
        if self.jitter_permille > SIGMA_PERMILLE_MAX {
            return refuse("jitter in thousandths", u64::from(self.jitter_permille), "more than 500");
        }
        if let Some(unknown) = self.changes.iter().find(|change| change.job as usize >= jobs) {
            return refuse("change of work: job", u64::from(unknown.job), "unknown");
        }
        let ecn = &self.ecn;
        let mut known = vec![false; jobs];
        for life in &self.lifetimes {
            // An unknown job and a second lifetime of one job are found in one look-up.
            let twice = known.get_mut(life.job as usize).is_none_or(|known| core::mem::replace(known, true));
            if twice {
                return refuse("lifetime: job", u64::from(life.job), "unknown, or has another lifetime");
            }
            if let Some(departs) = life.departs.filter(|departs| *departs <= life.arrives) {
                return refuse("lifetime: departure at nanosecond", departs.0, "not after the arrival");
            }
        }
        if ecn.packet.0 == 0 {
            return refuse("packets of bytes", 0, "expected at least 1");
        }
        // A length in bytes and one in time can be compared only at a given rate, and links differ in their rates.
        let inverted = match (ecn.kmin, ecn.kmax) {
            (Depth::Bytes(kmin), Depth::Bytes(kmax)) => kmin >= kmax,
            (Depth::Time(kmin), Depth::Time(kmax)) => kmin >= kmax,
            _ => true,
        };
        if inverted {
            let (Depth::Bytes(units::Bytes(kmax)) | Depth::Time(Nanos(kmax))) = ecn.kmax;
            return refuse("Kmax", kmax, "not above Kmin, or one of them in bytes and the other as time");
        }
        for liar in &self.liars {
            let most = liar.never_starts_permille.max(liar.mute_permille).max(liar.early_permille);
            // Half of the starts at most, so that a job that says it is ready goes on.
            if liar.job as usize >= jobs || liar.never_starts_permille > 500 || most > 1_000 {
                return refuse("liar: job", u64::from(liar.job), "unknown, or lies more often than it can");
            }
        }
        if let Control::Turns(turns) = &self.control {
            let most = turns.way.loss_permille.max(turns.doubled_permille).max(turns.late_permille);
            if most > 1_000 {
                return refuse("messages in thousandths", u64::from(most), "more than 1,000");
            }
        }
        if let Control::Service(service) = &self.control
            && (service.report_every.0 == 0 || service.way.loss_permille > 1_000)
        {
            let loss = u64::from(service.way.loss_permille);
            return refuse("lost messages in thousandths", loss, "more than 1,000, or no time between reports");
        }
        if ecn.pmax_permille > 1_000 {
            return refuse("Pmax in thousandths", u64::from(ecn.pmax_permille), "more than 1,000");
        }
        Ok(())
    }
}
