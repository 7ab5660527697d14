//! The iterations of a job in what it calls of its communication library.
//!
//! A library in the job says what was called and when ([`gate::events`]); the shortest sequence of calls that repeats itself is an
//! iteration ([`gate_core::repeat()`]). Unlike bytes, calls say whose they are, so this works beside other jobs.

use std::collections::VecDeque;

use gate::events::{EVENTS, Event, EventKind};
use gate_core::{REPEATS_MIN, repeat};
use units::{Nanos, NodeTime};

use crate::learning::FRESH;

/// Calls that are kept: as many as a ring, of which three iterations have to be.
const CALLS_MAX: usize = EVENTS;
/// After so long without an event the ring of another process of the job is read, where no start tells that it sends nothing.
pub(crate) const QUIET: Nanos = Nanos::from_millis(10_000);

/// What a job calls in each iteration, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// From the beginning of one to that of the next, in the median.
    pub period: Nanos,
    /// Calls in one.
    pub calls: usize,
}

/// The last calls of one job.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    recent: VecDeque<(NodeTime, u64)>,
    /// Something was called since the iteration was looked for.
    is_new: bool,
    lost: u64,
    heard: NodeTime,
    found: Option<(NodeTime, Iteration)>,
}

impl Calls {
    /// Another process is read from now on: its calls are others. What was found stays until it is old or something else is found.
    pub(crate) fn begin(&mut self, now: NodeTime) {
        *self = Self { heard: now, found: self.found, ..Self::default() };
    }

    /// Takes what was read of a ring, of which so many events were lost until now.
    pub(crate) fn take(&mut self, events: &[Event], lost: u64, now: NodeTime) {
        if lost != self.lost {
            // Calls on both sides of a gap are no sequence.
            self.recent.clear();
            self.lost = lost;
        }
        if !events.is_empty() {
            self.heard = now;
        }
        for event in events.iter().filter(|event| event.kind == EventKind::Called) {
            if self.recent.len() == CALLS_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back((event.at, event.value));
            self.is_new = true;
        }
    }

    /// Whether nothing came for so long that the process may have ended.
    pub(crate) fn is_quiet(&self, now: NodeTime) -> bool {
        now.since(self.heard) >= QUIET
    }

    /// Looks for the iteration.
    pub(crate) fn look(&mut self, now: NodeTime) {
        if core::mem::take(&mut self.is_new)
            && let Some(found) = self.find()
        {
            self.found = Some((now, found));
        }
        self.found = self.found.filter(|(at, _)| now.since(*at) <= FRESH);
    }

    /// The iteration; `None` where none was found within a minute.
    pub(crate) fn iteration(&self) -> Option<Iteration> {
        self.found.map(|(_, found)| found)
    }

    fn find(&self) -> Option<Iteration> {
        let values: Vec<u64> = self.recent.iter().map(|(_, value)| *value).collect();
        let found = repeat(&values)?;
        let starts: Vec<NodeTime> = self.recent.iter().skip(found.first).step_by(found.length).map(|(at, _)| *at).collect();
        let mut periods: Vec<u64> = starts.windows(2).map(|pair| pair[1].since(pair[0]).0).collect();
        periods.sort_unstable();
        // A ring is written by the job, so times may be anything; one of 0 is no period.
        let period = *periods.get(periods.len() / 2).filter(|period| **period > 0)?;
        (periods.len() + 1 >= REPEATS_MIN).then_some(Iteration { period: Nanos(period), calls: found.length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn called(at_ms: u64, value: u64) -> Event {
        Event { kind: EventKind::Called, at: NodeTime(at_ms * MS), value }
    }

    /// Iterations of 100 ms with three calls, from a time on.
    fn iterations(from_ms: u64, count: u64) -> Vec<Event> {
        let one = |n: u64| [(0, 7), (20, 7), (50, 9)].map(|(at, value)| called(from_ms + n * 100 + at, value));
        (0..count).flat_map(one).collect()
    }

    fn look(calls: &mut Calls, at_ms: u64) -> Option<Iteration> {
        calls.look(at(at_ms));
        calls.iteration()
    }

    fn at(ms: u64) -> NodeTime {
        NodeTime(ms * MS)
    }

    #[test]
    fn an_iteration_is_found_after_three_and_stands_for_a_minute() {
        let mut calls = Calls::default();
        let setup = [called(1, 1), called(2, 2), called(3, 1)];
        calls.take(&[&setup[..], &iterations(10, 2)].concat(), 0, at(300));
        assert_eq!(look(&mut calls, 300), None);
        calls.take(&iterations(210, 2), 0, at(500));
        let found = Some(Iteration { period: Nanos(100 * MS), calls: 3 });
        assert_eq!((look(&mut calls, 500), look(&mut calls, 60_500)), (found, found));
        assert_eq!(look(&mut calls, 60_501), None);
    }

    #[test]
    fn calls_around_a_gap_are_no_sequence() {
        let mut calls = Calls::default();
        calls.take(&iterations(0, 2), 0, at(200));
        calls.take(&iterations(1_000, 2), 5, at(1_200));
        assert_eq!(look(&mut calls, 1_200), None);
        calls.take(&iterations(1_200, 2), 5, at(1_400));
        assert_eq!(look(&mut calls, 1_400).map(|found| found.calls), Some(3));
        // Another process: what was found stays, and three of its own iterations renew it.
        calls.begin(at(2_000));
        assert_eq!(look(&mut calls, 2_000).map(|found| found.calls), Some(3));
        assert!(!calls.is_quiet(at(11_999)) && calls.is_quiet(at(12_000)));
    }

    #[test]
    fn a_ring_that_lies_about_times_gives_no_period_of_nothing() {
        let mut calls = Calls::default();
        calls.take(&vec![called(5, 7); 3 * CALLS_MAX], 0, at(5));
        assert_eq!(calls.recent.len(), CALLS_MAX);
        assert_eq!(look(&mut calls, 5), None);
    }
}
