//! A state that comes again: from there on everything repeats itself, and need not be simulated again.
//!
//! Only where nothing but time moves on: no jitter, no service, no fault to come. Then a run in which a cycle was copied
//! says byte for byte what a run says in which it was simulated.

use alloc::{collections::BTreeMap, vec::Vec};

use units::Nanos;

use crate::testbed::{IterationRecord, stats::Interval};

/// Most states remembered. Jobs that lock do so within a few iterations; those that do not never will.
const STATES_MAX: usize = 1_024;

/// The counts of a run at the time of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) time: u64,
    pub(crate) events: u64,
    /// Records and intervals of each job.
    pub(crate) jobs: Vec<(usize, usize)>,
    /// Area of each queue.
    pub(crate) areas: Vec<u128>,
}

/// Watches states.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    states: BTreeMap<Vec<u64>, Counts>,
}

impl Watch {
    /// The counts when the run was in this state before; a state that is new is remembered.
    pub(crate) fn seen(&mut self, state: Vec<u64>, counts: Counts) -> Option<Counts> {
        // The first recurrence ends the watch, so the state can leave the map.
        if let Some(before) = self.states.remove(&state) {
            return Some(before);
        }
        self.states.insert(state, counts);
        None
    }

    /// Whether so many states were new that none will come again.
    pub(crate) fn is_over(&self) -> bool {
        self.states.len() >= STATES_MAX
    }
}

/// Whole cycles that a run may copy and go on: not so many that any bound would be passed, nor that all jobs would be done.
///
/// `records` holds for each job what it has and what it had one cycle ago.
pub(crate) fn cycles(records: &[(usize, usize)], target: u64, room: u64) -> u64 {
    let open = records.iter().filter(|(now, _)| (*now as u64) < target);
    // The run goes on as long as one job is not done.
    // One record less than the target, so that the event loop itself ends the run. A job without progress asks for no end.
    let wanted = open.map(|(now, before)| (target - 1 - *now as u64).checked_div((now - before) as u64).unwrap_or(u64::MAX));
    wanted.max().unwrap_or(0).min(room)
}

/// Appends what happened since the `from`-th record `cycles` times, each time later.
pub(crate) fn repeat_records(records: &mut Vec<IterationRecord>, from: usize, cycles: u64, length: u64) {
    let cycle: Vec<IterationRecord> = records[from..].to_vec();
    records.reserve(cycle.len().saturating_mul(usize::try_from(cycles).unwrap_or(usize::MAX)));
    for i in 1..=cycles {
        records.extend(cycle.iter().map(|r| later(r, i * length)));
    }
}

/// The same for intervals.
pub(crate) fn repeat_intervals(intervals: &mut Vec<Interval>, from: usize, cycles: u64, length: u64) {
    let cycle: Vec<Interval> = intervals[from..].to_vec();
    for i in 1..=cycles {
        let by = i * length;
        intervals.extend(cycle.iter().map(|s| Interval { start: Nanos(s.start.0 + by), end: Nanos(s.end.0 + by) }));
    }
}

/// A record of the same iteration some cycles later.
pub(crate) fn later(record: &IterationRecord, by: u64) -> IterationRecord {
    let shift = |t: Nanos| Nanos(t.0 + by);
    IterationRecord {
        ready: shift(record.ready),
        start: shift(record.start),
        comm_start: shift(record.comm_start),
        comm_end: shift(record.comm_end),
        end: shift(record.end),
        ..*record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_stop_short_of_every_bound() {
        // One iteration a cycle from 10 on: after 89 cycles there are 99 of 100.
        assert_eq!(cycles(&[(10, 9)], 100, 1_000), 89);
        assert_eq!(cycles(&[(10, 9)], 100, 50), 50, "no more room");
        // The slowest decides: 2 of 100, 3 a cycle: after 32 cycles there are 98.
        assert_eq!(cycles(&[(10, 9), (200, 190), (2, 0)], 100, 1_000), 89);
        assert_eq!(cycles(&[(5, 2)], 100, 1_000), 31);
        assert_eq!(cycles(&[(100, 99)], 100, 1_000), 0, "done");
        assert_eq!(cycles(&[(7, 7)], 100, 12), 12, "a job that never ends is bounded by the room");
    }
}
