//! Copying cycles of a run that repeats itself.

use alloc::vec::Vec;

use super::{Doing, EVENTS_MAX, Run};
use crate::testbed::steady::{Counts, cycles, later, repeat_intervals, repeat_records};

impl Run<'_> {
    /// When the state has been there before: copies as many cycles as the run has room for, and returns the time after
    /// them.
    pub(super) fn skip_cycles(&mut self, now: u64) -> u64 {
        // A fault, an expiry or a straggler to come would make the simulated future differ from the copied one.
        let quiet = self.counting_since.is_some() && self.agenda.is_empty() && self.agents.are_steady() && !self.straggler_to_come();
        let Some(mut watch) = self.watch.take_if(|_| quiet) else { return now };
        let counts = self.counts(now);
        // A watch that has found its cycle is not put back: the iterations after the copied cycles are simulated to the end.
        let Some(before) = watch.seen(self.state(now), counts.clone()) else {
            self.watch = (!watch.is_over()).then_some(watch);
            return now;
        };
        // States are taken at starts of the pivot, which are at least 1 ns apart; `max(1)` only guards the division.
        let length = counts.time - before.time;
        // The last cycle before `until` and before `EVENTS_MAX` is simulated, so that the run ends for the same reason as without copies.
        let room_in_time = (self.config.until.0 - 1).saturating_sub(now) / length.max(1);
        let room_in_work = EVENTS_MAX.saturating_sub(1).saturating_sub(self.events) / (counts.events - before.events).max(1);
        let records: Vec<(usize, usize)> = counts.jobs.iter().zip(&before.jobs).map(|(now, then)| (now.0, then.0)).collect();
        let times = cycles(&records, self.config.records_wanted(), room_in_time.min(room_in_work));
        if times > 0 {
            self.copy(now, &before, times, length);
        }
        now + times * length
    }

    fn straggler_to_come(&self) -> bool {
        let next = |j: &super::JobState| j.memory.records.len() as u64;
        self.jobs.iter().any(|j| j.extra > 0 || j.stragglers.keys().any(|iteration| *iteration > next(j)))
    }

    fn counts(&self, now: u64) -> Counts {
        let jobs = self.jobs.iter().map(|j| (j.memory.records.len(), j.memory.comms.len())).collect();
        Counts { time: now, events: self.events, jobs, areas: self.network.areas() }
    }

    /// All that decides what happens from `now` on, relative to it.
    fn state(&self, now: u64) -> Vec<u64> {
        let mut state: Vec<u64> = self.agents.phases(now).collect();
        for (id, job) in (0..).zip(&self.jobs) {
            let kind = match job.doing {
                // With lifetimes, turns or corrected drift nothing is skipped.
                Doing::Nothing | Doing::Gone | Doing::Turn { .. } | Doing::Delayed { .. } => [0, 0, 0],
                Doing::Held { ready, slip, .. } => [1, now - ready, u64::from(slip)],
                Doing::Step { step, since } => [2 + u64::from(step), now - since, 0],
            };
            state.extend(kind);
            // All times are relative to `now`, and a timer that does not run has no distance.
            state.push(self.timers.time_of(id).map_or(u64::MAX, |t| t - now));
            // The record under way decides nothing, but is copied with the rest.
            let record = &job.record;
            let ago = [record.ready, record.start, record.comm_start, record.comm_end].map(|t| now - t.0);
            state.extend(ago);
            state.extend([record.comm.0, u64::from(record.because.code()), u64::from(record.slip)]);
            state.extend([u64::from(record.late.is_some()), record.late.unwrap_or(0) as u64]);
        }
        self.network.state(now, &mut state);
        state
    }

    fn copy(&mut self, now: u64, before: &Counts, times: u64, length: u64) {
        let by = times * length;
        let target = self.config.records_wanted();
        self.copied_cycles += times;
        self.events += times * (self.events - before.events);
        self.network.skip(times, length, &before.areas);
        self.timers.shift(by);
        for (id, (records, comms)) in (0..).zip(&before.jobs) {
            // The page is read as of the time after the copies, because a hold that is made again takes its bound from that page.
            let schedule = self.agents.schedule(id, now + by).ok();
            let job = &mut self.jobs[id as usize];
            let had = job.memory.records.len() as u64;
            repeat_records(&mut job.memory.records, *records, times, length);
            repeat_intervals(&mut job.memory.comms, *comms, times, length);
            // Copied records count a job out of `busy`, as `end_iteration` would have done.
            if had < target && job.memory.records.len() as u64 >= target {
                self.busy -= 1;
            }
            job.record = later(&job.record, by);
            job.lock = job.lock.later(units::Nanos(by));
            job.doing = match (job.doing, schedule) {
                (Doing::Held { hold, ready, slip }, Some(schedule)) => {
                    // A hold has an absolute deadline, so the hold is made anew as of the shifted arrival.
                    let (ready, until) = (ready + by, hold.until().saturating_add(units::Nanos(by)));
                    Doing::Held { hold: job.lock.hold(self.agents.node(id, ready), until, &schedule), ready, slip }
                }
                (Doing::Step { step, since }, _) => Doing::Step { step, since: since + by },
                (other, _) => other,
            };
        }
    }
}
