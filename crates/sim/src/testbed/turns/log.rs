//! What happened to every start, as far as turns go: what jobs did, and what the service believed of it.

use alloc::vec::Vec;

use gate_core::Reason;
use state::turns::Judged;
use units::Nanos;

/// Who let a start go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Went {
    /// The service: it asked, and was granted.
    Granted,
    /// The service, before it asked.
    Ahead,
    /// Its agent, because there is no service.
    Alone,
    /// Nobody: its gate did not wait, or waited for as long as it may. [`TurnStart::because`] says why.
    Itself,
}

/// Why the service took a start for one that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Over {
    /// Its end was told.
    Told,
    /// The job is said to do something else: it is ready again, or another run of its gate is heard.
    Superseded,
    /// The lease ran out.
    Lease,
    /// The service died.
    Forgotten,
}

/// A span of time in which the service counted a start as one that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// From the grant, or from when it heard of the start.
    pub from: Nanos,
    /// Until then, and why; `None` at the end of the run.
    pub until: Option<(Nanos, Over)>,
}

/// One start. Times are since the beginning of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnStart {
    /// The job, by its index in the case.
    pub job: u32,
    /// The run of its gate, and which start of it; 0 for a start that nobody hears of.
    pub place: (u64, u64),
    /// 0: for an iteration; k: for its k-th Up phase.
    pub phase: u64,
    /// When it came to its gate.
    pub ready: Nanos,
    /// When it went.
    pub start: Nanos,
    /// When the last of it was sent, or the job was killed; `None` at the end of the run.
    pub end: Option<Nanos>,
    /// The job told this end before it was true, or its agent found it too early.
    pub told_early: bool,
    /// Why it went.
    pub because: Reason,
    /// Who let it go.
    pub went: Went,
    /// What the service believed.
    pub beliefs: Vec<Belief>,
    /// When the service granted it because it had waited for an iteration, or because the ends of the job are not told.
    pub unfree: Option<Nanos>,
}

/// What turns report of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnsReport {
    /// Every start, in the order in which they went, if they were to be kept.
    pub starts: Vec<TurnStart>,
    /// Datagrams that were sent and lost, both ways.
    pub sent: u64,
    /// See `sent`.
    pub lost: u64,
    /// When each start of the service ended and the first grant after it was given.
    pub back: Vec<(Nanos, Option<Nanos>)>,
    /// What the service found out of the turns of a group, and when.
    pub judged: Vec<(Nanos, Judged)>,
}
