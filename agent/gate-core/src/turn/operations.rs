//! When what a start sends has ended, by the operations that the job's communication library says it finished.
//!
//! A plugin in the job counts the operations of the network and says when none is under way. How many operations a start has repeats
//! exactly from iteration to iteration, unlike bytes, and no other job's traffic is in it: after as many as the starts before had, the
//! start has ended, to the microsecond.

use alloc::{collections::VecDeque, vec::Vec};

use units::{Nanos, NodeTime};

use crate::turn::ends::LOOK_EVERY;

/// Changes between busy and idle that are kept: some hundred collectives between two readings. Of a start whose beginning was
/// overwritten nothing is learned.
const CHANGES_MAX: usize = 512;
/// Phases of an iteration that are learned one by one; those beyond share the last place.
const PHASES_MAX: u64 = 64;

/// The network's operations began or ceased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    at: NodeTime,
    finished: u64,
    is_idle: bool,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    at: NodeTime,
    phase: u64,
    /// Operations that had finished before.
    before: u64,
    has_ended: bool,
}

/// What starts of one phase were seen to do.
#[derive(Clone, Copy, Debug)]
struct Learned {
    operations: u64,
    length: Nanos,
    /// The one before had as many.
    repeats: bool,
}

/// Finds the ends of a job's starts. It reads nothing itself: [`Self::look_at`] says when changes are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    changes: VecDeque<Change>,
    start: Option<Start>,
    learned: Vec<Option<Learned>>,
    looked: NodeTime,
}

impl Operations {
    /// Operations began (`is_idle` false) or ceased at `at`, and so many had finished since the job began.
    pub(super) fn changed(&mut self, at: NodeTime, finished: u64, is_idle: bool) {
        let last = self.changes.back().copied();
        // Two threads of the job may write the other way round within a microsecond; the later one says more.
        if last.is_some_and(|last| finished < last.finished) {
            return;
        }
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(Change { at: last.map_or(at, |last| last.at.max(at)), finished, is_idle });
    }

    /// A start of that phase went.
    pub(super) fn started(&mut self, at: NodeTime, phase: u64) {
        // Where the changes begin later than this start, or where there are none, nobody knows what had finished.
        let before = self.changes.iter().rev().find(|change| change.at <= at).map(|change| change.finished);
        if let Some((start, finished)) = self.start.take().zip(before) {
            self.learn(start, finished);
        }
        self.start = before.map(|before| Start { at, phase: phase.min(PHASES_MAX - 1), before, has_ended: false });
    }

    /// When the start has ended, once the operations say so.
    pub(super) fn end(&mut self) -> Option<NodeTime> {
        let learned = self.known().filter(|_| self.start.is_some_and(|start| !start.has_ended))?;
        let start = self.start.as_mut()?;
        let is_end = |change: &&Change| change.is_idle && change.at >= start.at && change.finished == start.before + learned.operations;
        let end = self.changes.iter().rev().find(is_end)?.at;
        start.has_ended = true;
        Some(end)
    }

    /// When changes are wanted, if the last ones were read when [`Self::looked`] says.
    pub(super) fn look_at(&self) -> Option<NodeTime> {
        let start = self.start.filter(|start| !start.has_ended)?;
        let learned = self.known()?;
        // A start may be a quarter faster than the last; one that takes twice as long does something else.
        let next = start.at.saturating_add(Nanos(learned.length.0 / 4 * 3)).max(self.looked.saturating_add(LOOK_EVERY));
        (next.since(start.at).0 <= learned.length.0.saturating_mul(2)).then_some(next)
    }

    /// Changes were read.
    pub(super) const fn looked(&mut self, at: NodeTime) {
        self.looked = at;
    }

    /// What is known of starts like the one that sends.
    fn known(&self) -> Option<Learned> {
        let phase = usize::try_from(self.start?.phase).ok()?;
        (*self.learned.get(phase)?).filter(|learned| learned.repeats)
    }

    /// Looks back at a start, after which `finished` operations had finished.
    fn learn(&mut self, start: Start, finished: u64) {
        let operations = finished.saturating_sub(start.before);
        let last = self.changes.iter().rev().find(|change| change.is_idle && change.finished == finished);
        // The phase is below a small constant, so it is an index.
        let place = start.phase as usize;
        if self.learned.len() <= place {
            self.learned.resize(place + 1, None);
        }
        let Some(known) = self.learned.get_mut(place) else { return };
        // A start without operations ends at nothing that could be seen.
        *known = last.filter(|_| operations > 0).map(|last| Learned {
            operations,
            length: last.at.since(start.at),
            repeats: known.is_some_and(|known| known.operations == operations),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A job whose plugin counts.
    #[derive(Default)]
    struct Job {
        operations: Operations,
        finished: u64,
        now: u64,
    }

    impl Job {
        /// A start whose operations run back to back, after a pause of `compute` each; says when it ended by the operations.
        fn start(&mut self, phase: u64, bursts: &[u64], compute: u64) -> Option<u64> {
            let began = self.now;
            self.operations.started(NodeTime(began), phase);
            for &burst in bursts {
                self.now += compute * MS;
                self.operations.changed(NodeTime(self.now), self.finished, false);
                self.now += burst * MS;
                self.finished += burst;
                self.operations.changed(NodeTime(self.now), self.finished, true);
            }
            let end = self.operations.end().map(|end| end.0 - began);
            self.now += 50 * MS;
            assert_eq!(self.operations.end(), None, "an end is said once");
            end
        }
    }

    #[test]
    fn the_third_start_like_the_others_ends_with_its_last_operation() {
        let mut job = Job::default();
        // The first start is before any change, so nothing is known of it; the next two have to agree.
        let ends: Vec<_> = (0..5).map(|_| job.start(0, &[10, 20, 5], 7)).collect();
        assert_eq!(ends, [None, None, None, Some(56 * MS), Some(56 * MS)]);
    }

    #[test]
    fn a_start_that_does_something_else_has_no_end_and_neither_has_the_next() {
        let mut job = Job::default();
        (0..4).for_each(|_| _ = job.start(0, &[10, 20], 7));
        assert_eq!(job.start(0, &[10, 25], 7), None, "evaluation, or a checkpoint");
        assert_eq!(job.start(0, &[10, 20], 7), None);
        assert_eq!(job.start(0, &[10, 20], 7), None);
        assert_eq!(job.start(0, &[10, 20], 7), Some(44 * MS));
    }

    #[test]
    fn phases_are_learned_one_by_one() {
        let mut job = Job::default();
        let rounds: Vec<_> = (0..5).map(|_| (job.start(1, &[3], 1), job.start(2, &[4, 4], 1))).collect();
        assert_eq!(rounds.last(), Some(&(Some(4 * MS), Some(10 * MS))));
    }

    #[test]
    fn a_job_that_begins_anew_is_learned_anew_and_one_without_a_network_never() {
        let mut job = Job::default();
        (0..4).for_each(|_| _ = job.start(0, &[10], 7));
        (job.finished, job.operations) = (0, Operations::default());
        assert_eq!(job.start(0, &[10], 7), None);
        let ends: Vec<_> = (0..3).map(|_| job.start(0, &[10], 7)).collect();
        assert_eq!(ends, [None, None, Some(17 * MS)]);
        let mut idle = Job::default();
        idle.operations.changed(NodeTime(0), 0, true);
        assert!((0..9).all(|_| idle.start(0, &[], 7).is_none()) && idle.operations.known().is_none());
    }

    #[test]
    fn changes_that_two_threads_wrote_the_other_way_round_do_no_harm() {
        let mut job = Job::default();
        (0..4).for_each(|_| _ = job.start(0, &[10, 20], 7));
        job.operations.changed(NodeTime(job.now), job.finished - 20, true);
        assert_eq!(job.start(0, &[10, 20], 7), Some(44 * MS));
    }

    #[test]
    fn looks_come_near_the_end_and_are_bounded() {
        let mut job = Job::default();
        (0..3).for_each(|_| _ = job.start(0, &[40], 60));
        let began = job.now;
        job.operations.started(NodeTime(began), 0);
        let mut looks = Vec::new();
        while let Some(at) = job.operations.look_at() {
            looks.push((at.0 - began) / MS);
            job.operations.looked(at);
        }
        assert_eq!((looks.first(), looks.last(), looks.len()), (Some(&75), Some(&200), 126));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut operations = Operations::default();
        (0..10_000).for_each(|n| operations.changed(NodeTime(n), n, n % 2 == 0));
        assert_eq!(operations.changes.len(), CHANGES_MAX);
        // Nobody knows any more what had finished then.
        operations.started(NodeTime(5), 0);
        assert!(operations.start.is_none() && operations.look_at().is_none());
    }
}
