//! Which of the jobs that can exceed a link together may send now.
//!
//! A job that is ready to send goes at once when nobody with whom it takes turns is in the way, else when those ahead of it have
//! ended. The rule needs no period and no common clock, and a profile that is wrong cannot make a job wait for nobody: what counts
//! is who sends now ([`Arbiter`]).
//!
//! A [`Group`] says what its jobs demand of which links, and who takes turns with whom (*opponents*). A start is in conflict with the
//! opponents that send when their demands together exceed the limit of a link at some time of the start's Up phases. The limit is the link's
//! capacity times a *price*: a little too much together is better than waiting, where demands fit badly.
//!
//! - **Order.** First come, first served; jobs that came at the same time go in the order of the group. A later job may go before an
//!   earlier one that still has to wait, so that links are not idle, but only once for each wait of that earlier job.
//! - **All links at once.** A start takes all its links or none, so no jobs wait for each other in a circle.
//! - **Leases.** A start keeps others waiting until its end is told, and at most for its lease: a quarter longer than it is expected to
//!   send. A job that dies while it sends therefore costs the others a bounded wait.
//! - **The bound.** No wait is longer than one iteration of the job that waits, as measured.
//! - **Ahead.** When nobody is in the way, a job gets the permission for its next start before it asks, and the permission is withdrawn
//!   when an opponent asks first.
//! - **No end, no turn.** A job whose ends nobody tells, not even its agent, neither waits nor keeps others waiting.
//!
//! ```
//! use antiphase_turns::{Action, Arbiter, Ask, Event, Group, Member, Up, Use};
//! use units::{FabricTime, Nanos, Rate};
//! let ms = Nanos::from_millis;
//! let up = Up { start: ms(0), end: ms(45), rate: Rate(50_000) };
//! let job = |opponent| Member { iteration: ms(100), uses: vec![Use { link: 0, ups: vec![up] }], opponents: vec![opponent] };
//! let mut arbiter = Arbiter::new(Group { members: vec![job(1), job(0)], limits: vec![Rate(50_000)], ahead: false });
//! let at = |time: u64| FabricTime(time * 1_000_000);
//! arbiter.handle(at(0), Event::Ready { job: 0, ask: Ask::Iteration });
//! assert!(matches!(arbiter.poll(), Some(Action::Grant { job: 0, .. })));
//! arbiter.handle(at(10), Event::Ready { job: 1, ask: Ask::Iteration });
//! assert!(matches!(arbiter.poll(), Some(Action::Hold { job: 1, .. })));
//! arbiter.handle(at(45), Event::Ended { job: 0, sent: ms(45) });
//! assert!(matches!(arbiter.poll(), Some(Action::Grant { job: 1, .. })));
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod arbiter;
mod demand;
mod event;
mod learned;
mod links;
mod opponents;
mod room;
mod timers;

use alloc::vec::Vec;

use units::{Nanos, Rate};

pub use arbiter::{Activity, Arbiter, FIRST_WAIT_MAX, WITHDRAW_WITHIN};
pub use event::{Action, Because, Event};
pub use learned::{ENDS_MISSED_MAX, LEASE_GRACE};
pub use timers::Timers;

/// What a start is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The iteration: all its Up phases.
    Iteration,
    /// That Up phase, counted from 0: a span in which the job sends on some link. One that the profile does not have counts as the last.
    Phase(u32),
}

/// A span of an iteration in which a job sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Up {
    /// From the iteration's start.
    pub start: Nanos,
    /// After the start.
    pub end: Nanos,
    /// What the job demands of the link meanwhile.
    pub rate: Rate,
}

/// What a job demands of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Index into [`Group::limits`].
    pub link: u32,
    /// Sorted and disjoint.
    pub ups: Vec<Up>,
}

/// A job of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// How long its iteration takes alone, as far as anybody knows; what is measured replaces it.
    pub iteration: Nanos,
    /// Each link at most once.
    pub uses: Vec<Use>,
    /// The jobs with which it takes turns, by index; it is in their lists too.
    pub opponents: Vec<u32>,
}

/// Jobs that take turns, directly or through others. Jobs of different groups never wait for each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// In the order in which those go that are ready at the same time.
    pub members: Vec<Member>,
    /// Per link: how much demands may be together without being in conflict, which is capacity times price.
    pub limits: Vec<Rate>,
    /// Whether permissions are given before they are asked for.
    pub ahead: bool,
}
