//! What a scheduler is told, and its limits.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use policy::schedule::Rule;
use units::Nanos;

/// Most submissions that are not over: a policy looks at all of them at each decision, which takes milliseconds for as many.
pub const SUBMISSIONS_MAX: usize = 10_000;
/// What the documents of these hold at most, in bytes: 6 kB each. In memory they take twice as much, as phases have numbers of many digits.
pub const SUBMITTED_BYTES_MAX: u64 = 64 << 20;
/// Whoever is told apart from others by a certificate may have one part in so many of both.
pub const OWNER_PART: u64 = 2;
/// Submissions that are kept when they are over: what a day of a large cluster ends.
pub const OVER_MAX: usize = 1_000;
/// What the documents of these hold at most, in bytes; the ones that are over for longest go first.
pub const OVER_BYTES_MAX: u64 = 16 << 20;
/// Requests that wait for the store: a second's worth.
pub const REQUESTS_MAX: usize = 1_024;
/// Requests of one change for the store, as many as a batch of the service has.
pub(super) const REQUESTS_PER_CHANGE: usize = 64;
/// Starts that may come to nothing before a job has failed: one may be a node that reboots, and two an executor that is put in anew.
pub const FAILURES_MAX: u32 = 3;
/// How long a round waits after the plan could not be changed.
pub(super) const RETRY: Nanos = Nanos::from_millis(1_000);
/// Rounds in a row whose starts may be refused because somebody else changed the plan; the next one does not ask.
pub(super) const MOVED_MAX: u32 = 3;
/// Jobs that one change stops: each is told, and an event of the service has at most `config::NOTICES_MAX` notices.
pub(super) const STOPS_MAX: usize = 128;

/// What a scheduler is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The policy.
    pub rule: Rule,
    /// Least time between two rounds in which jobs are stopped, under a policy that would stop them at any event.
    pub round: Nanos,
    /// How long the executor may take to start a job.
    pub start_within: Nanos,
    /// How long it may take to stop one.
    pub stop_within: Nanos,
}

/// A host of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerHost {
    /// Its name.
    pub name: String,
    /// The leaf on which it hangs.
    pub leaf: u32,
    /// Its GPUs.
    pub gpus: u32,
}

/// The cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Version of the plan that it was read from.
    pub plan_version: u64,
    /// The hosts on which jobs may be started, each once; their order is the policy's.
    pub all: Vec<SchedulerHost>,
    /// Those with jobs that somebody else committed: nobody is started there.
    pub taken: BTreeSet<String>,
    /// The jobs that somebody else committed, by name.
    pub others: BTreeSet<String>,
}

impl Hosts {
    /// GPUs of all hosts.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.all.iter().fold(0, |sum, host| sum.saturating_add(host.gpus))
    }

    /// GPUs of each host, by name.
    pub(super) fn by_name(&self) -> BTreeMap<&str, u32> {
        self.all.iter().map(|host| (host.name.as_str(), host.gpus)).collect()
    }
}
