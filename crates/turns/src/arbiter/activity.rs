//! Where the jobs of a group are, for people.

use alloc::vec::Vec;

use units::FabricTime;

use super::{Arbiter, Doing};

/// What a job is doing, as far as its arbiter knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It computes, or nobody knows.
    Away,
    /// It computes, and has the permission for its next start.
    Ahead,
    /// It is ready, and waits for its turn.
    Waiting {
        /// From when on.
        since: FabricTime,
        /// It goes then at the latest.
        until: FabricTime,
    },
    /// It sends.
    Sending {
        /// From when on.
        since: FabricTime,
        /// When it is expected to have sent everything.
        expected: FabricTime,
        /// It keeps nobody waiting for longer.
        lease: FabricTime,
    },
}

impl Arbiter {
    /// What a job is doing; an unknown one is away.
    #[must_use]
    pub fn activity(&self, job: u32) -> Activity {
        match self.jobs.get(job as usize).map(|j| &j.doing) {
            None | Some(Doing::Away) => Activity::Away,
            // A permission that was asked back is still the job's until it answers.
            Some(Doing::Ahead { .. }) => Activity::Ahead,
            Some(Doing::Waiting { since, until, .. }) => Activity::Waiting { since: *since, until: *until },
            Some(Doing::Sending { start, lease, demand }) => {
                Activity::Sending { since: *start, expected: start.saturating_add(demand.expected()), lease: *lease }
            }
        }
    }

    /// For whom a waiting job waits: its opponents that send or whose permission is asked back, and where there are none, those that
    /// came before it. Empty for a job that does not wait.
    #[must_use]
    pub fn waits_for(&self, job: u32) -> Vec<u32> {
        let Some(state) = self.jobs.get(job as usize) else { return Vec::new() };
        let Doing::Waiting { since, .. } = state.doing else { return Vec::new() };
        let mut found = self.opponents_present(state);
        if found.is_empty() {
            found = self.earlier_opponents(job, since).collect();
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// How many jobs wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use units::{Nanos, Rate};

    use super::*;
    use crate::{Ask, Event, Group, Member, Up, Use};

    const MS: u64 = 1_000_000;

    #[test]
    fn it_says_who_sends_and_who_waits_for_whom() {
        let up = Up { start: Nanos(0), end: Nanos(40 * MS), rate: Rate(50_000) };
        let others = |job: u32| (0..3).filter(|&o| o != job).collect();
        let member = |job| Member { iteration: Nanos(100 * MS), uses: vec![Use { link: 0, ups: vec![up] }], opponents: others(job) };
        let group = Group { members: (0..3).map(member).collect(), limits: vec![Rate(50_000)], ahead: true };
        let mut arbiter = Arbiter::new(group);
        let at = |ms: u64| FabricTime(ms * MS);
        for (ms, job) in [(0, 1), (5, 0), (7, 2)] {
            arbiter.handle(at(ms), Event::Ready { job, ask: Ask::Iteration });
        }
        // 40 ms are expected, and the lease is a quarter and 2 ms longer.
        assert_eq!(arbiter.activity(1), Activity::Sending { since: at(0), expected: at(40), lease: at(52) });
        assert_eq!(arbiter.activity(0), Activity::Waiting { since: at(5), until: at(105) });
        assert_eq!([0, 1, 2, 9].map(|job| arbiter.waits_for(job)), [vec![1], vec![], vec![1], vec![]]);
        assert_eq!((arbiter.waiting(), arbiter.activity(9)), (2, Activity::Away));
        arbiter.handle(at(40), Event::Ended { job: 1, sent: Nanos(40 * MS) });
        assert_eq!(arbiter.waits_for(2), [0], "who came before goes before");
        for job in [0, 2] {
            arbiter.handle(at(80 + u64::from(job)), Event::Ended { job, sent: Nanos(40 * MS) });
        }
        // All have sent, and nobody is in the way of the first to be ready again.
        assert_eq!([0, 1, 2].iter().filter(|job| arbiter.activity(**job) == Activity::Ahead).count(), 1);
        assert_eq!(arbiter.waiting(), 0);
    }
}
