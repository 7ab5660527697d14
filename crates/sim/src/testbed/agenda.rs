//! The agenda: faults to come, and messages on their way.

use alloc::{collections::BTreeMap, vec::Vec};

use state::{
    AgentReport, SessionId, Slot, Ticket,
    turns::{Note, Order},
};

/// Something that happens at one time.
#[derive(Clone, Debug)]
pub(crate) enum SimEvent {
    /// All jobs have ended their warm-up.
    Count,
    AgentDies(u32),
    AgentReturns(u32),
    ClockStep(u32, i64),
    ServiceDies,
    ServiceReturns,
    /// The jobs that are there from the beginning are committed.
    Commit,
    /// A job's lifetime begins.
    Arrives(u32),
    /// A job's lifetime ends.
    Departs(u32),
    /// The scheduler tries again to commit or release a job, because there was no service.
    Again(u32),
    /// An agent's message reaches the service.
    ToService(SessionId, Up),
    /// A message of the service reaches an agent.
    ToAgent(u32, SessionId, Down),
    /// An agent without a session tries again.
    Connect(u32),
    /// An agent reports.
    Report(u32),
    /// The store has taken a batch of that incarnation of the service.
    Persisted(u64, Ticket),
    Tick,
    /// No message passes between an agent and the service, or it does again.
    Cut(u32, bool),
    Turns(TurnEvent),
    /// An agent's deadline for the turns of a job, or its time to look at bytes.
    TurnTick(u32),
    /// A job tells the end of that start of that run of its gate, though it still sends.
    TellsEnd(u32, (u64, u64)),
    /// The processes of a job are killed and come back after so long.
    JobRestarts(u32, u64),
}

/// What happens to turns.
#[derive(Clone, Debug)]
pub(crate) enum TurnEvent {
    /// An agent without a session tries to get one.
    Connect(u32),
    /// The service admits an agent.
    Hello(u32, SessionId),
    /// The agent hears that it was admitted.
    Welcome(u32, SessionId),
    /// A note reaches the service.
    Note(SessionId, Note),
    /// An order reaches an agent.
    Order(u32, SessionId, Order),
    /// An agent takes the service for gone.
    Lost(u32, SessionId),
    /// The service takes an agent for gone.
    Gone(SessionId),
    /// The service's deadline.
    Tick,
}

/// From an agent.
#[derive(Clone, Debug)]
pub(crate) enum Up {
    Hello { agent: u32, plan_version: u64 },
    Ack { plan_version: u64 },
    Report(AgentReport),
}

/// To an agent.
#[derive(Clone, Debug)]
pub(crate) enum Down {
    Plan {
        plan_version: u64,
        slots: Vec<Slot>,
    },
    /// The session is over.
    Closed,
}

/// Events in order of time; at one time in the order in which they were planned.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    entries: BTreeMap<(u64, u64), SimEvent>,
    sequence: u64,
}

impl Agenda {
    pub(crate) fn add(&mut self, time: u64, what: SimEvent) {
        // The sequence number makes every key unique, so no entry replaces another of the same instant.
        self.entries.insert((time, self.sequence), what);
        self.sequence += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn next_time(&self) -> Option<u64> {
        self.entries.keys().next().map(|(time, _)| *time)
    }

    pub(crate) fn take_due(&mut self, now: u64) -> Option<SimEvent> {
        self.entries.first_entry().filter(|e| e.key().0 <= now).map(|e| e.remove())
    }
}
