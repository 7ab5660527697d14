//! What agents and service say to each other about turns.

use alloc::sync::Arc;

use turns::{Action, Because};
use units::Nanos;

/// Where a job is, in the order in which it happens: of one number, a later kind takes the place of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteKind {
    /// It has not asked for this start, and gives the permission for it back.
    Withdrawn,
    /// It asks for this start.
    Ready,
    /// It started without having been told to.
    Started,
    /// It has sent everything of this start.
    Ended,
}

/// What an agent says of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The job.
    pub job: Arc<str>,
    /// The run of its gate.
    pub writer: u64,
    /// Which start of that run, from 1.
    pub number: u64,
    /// Where it is.
    pub kind: NoteKind,
    /// 0: the start of an iteration; k: of its k-th Up phase, from 1.
    pub phase: u32,
    /// How long ago that was.
    pub age: Nanos,
    /// Of [`NoteKind::Ended`]: from the start to the end.
    pub sent: Nanos,
}

/// What the service says to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// This note of the start came; there is nothing to say. The word that a start was heard must not look like the word that its end was.
    Heard(NoteKind),
    /// Start.
    Grant,
    /// This start, the next one, needs not ask.
    GrantAhead,
    /// Wait for the grant.
    Hold,
    /// This start, the next one, has to ask after all.
    Withdraw,
}

/// An order for the gate of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The job.
    pub job: Arc<str>,
    /// The run of its gate.
    pub writer: u64,
    /// Which start of that run.
    pub number: u64,
    /// What to do.
    pub kind: OrderKind,
    /// Of [`OrderKind::Hold`]: those ahead have so much left at most. Of [`OrderKind::Grant`]: so long the start is expected to
    /// send; zero where that is said again. Of [`OrderKind::GrantAhead`]: for so long later starts need not ask either. Else zero.
    pub at_most: Nanos,
    /// Why the start may go, where this is the first order that says so.
    pub granted: Option<Granted>,
}

/// Why a start may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// Before it asked, because nobody was in the way.
    Ahead,
    /// When it asked, because nobody was in the way.
    AtOnce,
    /// After those ahead of it had ended: how long it waited.
    Waited(Nanos),
    /// Though somebody may have been in the way, because it had waited for as long as an iteration of its own takes.
    Bound(Nanos),
    /// Nobody tells the ends of its starts, so it takes no turns.
    NoEnds,
    /// Its group runs free.
    Open,
}

impl Note {
    /// The answer to a gate that takes no turns: it must not wait, and needs not repeat what else it says.
    pub(super) fn answer_without_turns(&self) -> Order {
        let kind = if self.kind == NoteKind::Ready { OrderKind::Grant } else { OrderKind::Heard(self.kind) };
        Order { job: self.job.clone(), writer: self.writer, number: self.number, kind, at_most: Nanos(0), granted: None }
    }
}

impl Granted {
    /// What an action grants to a start that has waited for so long; `None` if nothing.
    pub(super) fn of(action: &Action, waited: Option<Nanos>) -> Option<Self> {
        Some(match action {
            Action::GrantAhead { .. } => Self::Ahead,
            Action::Grant { because: Because::Free, .. } => waited.map_or(Self::AtOnce, Self::Waited),
            Action::Grant { because: Because::Bound, .. } => Self::Bound(waited.unwrap_or_default()),
            Action::Grant { because: Because::NoEnds, .. } => Self::NoEnds,
            Action::Grant { because: Because::Open, .. } => Self::Open,
            Action::Hold { .. } | Action::Withdraw { .. } => return None,
        })
    }
}
