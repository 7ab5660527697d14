//! What an arbiter is told, and what it says.

use units::Nanos;

use crate::Ask;

/// What happens to a job of the group, by its index. Unknown jobs are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is ready and asks.
    Ready {
        /// Which.
        job: u32,
        /// For what.
        ask: Ask,
    },
    /// It started without a [`Action::Grant`] to this start: it had the permission ahead, or could not wait.
    Started {
        /// Which.
        job: u32,
        /// For what.
        ask: Ask,
        /// How long ago.
        age: Nanos,
    },
    /// It has sent everything.
    Ended {
        /// Which.
        job: u32,
        /// From the start to the end.
        sent: Nanos,
    },
    /// It has not started, and gives the permission back.
    Withdrawn {
        /// Which.
        job: u32,
    },
    /// Nothing can be heard of it. What it sends ends with its lease.
    Absent {
        /// Which.
        job: u32,
    },
    /// Its process is gone, or is another one: it neither sends nor waits.
    Left {
        /// Which.
        job: u32,
    },
    /// [`Arbiter::deadline`](crate::Arbiter::deadline) has come.
    Tick,
}

/// Why a start was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// Nobody is in the way.
    Free,
    /// It waited for as long as an iteration of its own takes.
    Bound,
    /// Nobody tells the ends of its starts, so it takes no turns.
    NoEnds,
    /// The group runs free ([`Arbiter::set_open`](crate::Arbiter::set_open)).
    Open,
}

/// What a job is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start now.
    Grant {
        /// Which.
        job: u32,
        /// How long the start keeps others waiting at most.
        lease: Nanos,
        /// How long it is expected to send, if that was measured.
        expected: Option<Nanos>,
        /// Why.
        because: Because,
    },
    /// The next start needs not ask.
    GrantAhead {
        /// Which.
        job: u32,
    },
    /// Wait: those ahead have so much left at most. Said again when that changes.
    Hold {
        /// Which.
        job: u32,
        /// From now on.
        at_most: Nanos,
    },
    /// The next start has to ask after all. Answered by [`Event::Withdrawn`], [`Event::Started`] or [`Event::Ready`].
    Withdraw {
        /// Which.
        job: u32,
    },
}
