//! What agent and service say to each other of the starts of one job.

use units::{Nanos, NodeTime};

/// What an agent tells the service of a start. The order is that in which things become true of one start: of one writer, the pair of
/// number and kind only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToldKind {
    /// It was not started, and the permission that was given ahead is taken back.
    Withdrawn,
    /// It could start, and asks.
    Ready,
    /// It has started without a grant to it, or with one that was given ahead.
    Started,
    /// What it sent has ended.
    Ended,
}

/// What an agent tells the service of a start. Telling it twice does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// What happened.
    pub kind: ToldKind,
    /// The run of the gate.
    pub writer: u64,
    /// Which start of that run, from 1.
    pub number: u64,
    /// As in [`Note::phase`](crate::Note::phase).
    pub phase: u64,
    /// When it happened.
    pub at: NodeTime,
    /// Of [`ToldKind::Ended`]: from the start to the end; zero where the start was not heard of.
    pub sent: Nanos,
}

/// What the service says of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderKind {
    /// What was told has come: this, of the start that the order is about.
    Heard(ToldKind),
    /// Start now.
    Grant,
    /// This start, which is not ready yet, need not ask.
    GrantAhead,
    /// Wait: those ahead have `at_most` left.
    Hold,
    /// This start has to ask after all.
    Withdraw,
}

/// What the service says of a start. Hearing it twice does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// What to do.
    pub kind: OrderKind,
    /// The run of the gate.
    pub writer: u64,
    /// Which start of that run.
    pub number: u64,
    /// Of [`OrderKind::Hold`]: until those ahead have ended, from now on. Of [`OrderKind::Grant`]: how long the start is expected to send.
    /// Of [`OrderKind::GrantAhead`]: for so long the later starts need not ask either; zero: they have to.
    pub at_most: Nanos,
}
