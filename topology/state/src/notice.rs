//! What people are told.

use alloc::{string::String, sync::Arc};
use core::fmt;

use units::FabricTime;

use crate::submission::Order;

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Info,
    /// Somebody may want to look.
    Warning,
    /// Somebody has to look.
    Error,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident = $word:literal,)*) => {
        /// What a notice is about. Its word stands in events, in the trail, in logs and in metrics, and never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum NoticeKind {
            $($(#[doc = $doc])* $name,)*
        }

        impl NoticeKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As events, metrics and logs name it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// Jobs were committed, or the terms of their leases changed.
    Committed = "committed",
    /// A job was released.
    Released = "released",
    /// The lease of a job ran out.
    Expired = "expired",
    /// A job got another slot.
    Moved = "moved",
    /// A job is further from its slot than its slack.
    Drift = "drift",
    /// A job repeats with another period than expected, or as expected again.
    PeriodMismatch = "period_mismatch",
    /// A job is planned by what was measured of it.
    Measured = "measured",
    /// A job is not held to a slot any more.
    LetGo = "let_go",
    /// Jobs have more headroom, because one slipped.
    Headroom = "headroom",
    /// Jobs stand where they may not fit.
    Crowded = "crowded",
    /// An agent came.
    Connected = "connected",
    /// An agent is gone.
    Lost = "lost",
    /// A job is not held, because the clock of its host is bad.
    Quarantined = "quarantined",
    /// Its clock is good again.
    Trusted = "trusted",
    /// An agent is of a host that the fabric does not have.
    UnknownHost = "unknown_host",
    /// Two agents say that they are of one host.
    TwoAgents = "two_agents",
    /// Another fabric is in force.
    Fabric = "fabric",
    /// What agents see of the cabling differs from the fabric, or does not any more.
    Cabling = "cabling",
    /// A job is planned as its agent learned it.
    Learned = "learned",
    /// The store failed.
    Store = "store",
    /// A group takes turns again, or none any more.
    Turns = "turns",
    /// What turns would bring, where they are only observed.
    Observe = "observe",
    /// More was to be told than is.
    More = "more",
    /// A job was submitted.
    Submitted = "submitted",
    /// The executor is to start a job.
    JobStart = "job_start",
    /// A submitted job runs.
    JobRunning = "job_running",
    /// The executor is to stop a job for others.
    JobPreempt = "job_preempt",
    /// The executor is to stop a job, which starts elsewhere.
    JobMove = "job_move",
    /// A submitted job has stopped, and waits.
    JobStopped = "job_stopped",
    /// A submitted job is done.
    JobFinished = "job_finished",
    /// A submitted job is to be withdrawn when it has stopped.
    Withdrawing = "withdrawing",
    /// A submitted job was withdrawn.
    JobWithdrawn = "job_withdrawn",
    /// Nobody spoke for a submitted job.
    JobOverdue = "job_overdue",
    /// A start of a submitted job came to nothing.
    JobLost = "job_lost",
    /// A submitted job starts no more.
    JobFailed = "job_failed",
    /// A policy decided what cannot be carried out.
    Infeasible = "infeasible",
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Something that people want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Who asked for it, and who set the lease of a job whose lease ran out; `None`: nobody, it happened.
    pub by: Option<Arc<str>>,
    /// When.
    pub at: FabricTime,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about.
    pub kind: NoticeKind,
    /// One line.
    pub message: String,
    /// The job, where there is one.
    pub job: Option<String>,
    /// The host, where there is one.
    pub host: Option<String>,
    /// The host by whose agent's reports it came, where it is about jobs and not about a host.
    pub agent: Option<Arc<str>>,
    /// Version of the plan.
    pub plan_version: u64,
    /// What the executor is told to do, where it is told something.
    pub order: Option<Arc<Order>>,
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_kinds_have_one_word() {
        let words: BTreeSet<&str> = NoticeKind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(words.len(), NoticeKind::ALL.len());
    }
}
