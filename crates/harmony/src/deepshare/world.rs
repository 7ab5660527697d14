//! Rounds.

use alloc::vec::Vec;

use super::{
    seen::{Chooser, GPUS, NODES, PLACES, ROUND_S, Seen, Stands, Waits},
    table::{Job, Table},
};
use crate::world::Span;

/// Who keeps this part of its speed or less is stopped.
const STOPPED: f64 = 0.6;
/// Rounds after which a trace is given up: ten times what 256 jobs take one after the other.
const ROUNDS_MAX: u32 = 40_000;
/// Milliseconds of a second.
const MS: u64 = 1_000;

/// What of the published simulator is kept (see the top of the room).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Details {
    /// All of it: figures are those of its authors.
    Published,
    /// Shares rise again, everybody trains in each round, and a job is done when its samples are.
    Plain,
}

/// A job that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its number in the trace.
    pub id: usize,
    /// How long it ran, in seconds.
    pub ran_s: u32,
    /// When it was done: how long it was there, waiting included.
    pub at_s: u32,
}

/// What became of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The jobs, in the order in which they were done.
    pub done: Vec<Done>,
    /// By round, the part of the GPUs that was in use.
    pub used: Vec<f64>,
    /// Shares of all jobs in all rounds: their sum, and how many.
    pub shares: (f64, u64),
    /// The time in rounds, with Harmony's reward.
    pub spans: Vec<Span>,
    /// How often a job was stopped.
    pub stopped: u32,
}

impl Outcome {
    /// From the beginning to the end of a job, in seconds: the mean over jobs.
    #[must_use]
    pub fn completion_mean_s(&self) -> f64 {
        self.done.iter().map(|done| f64::from(done.at_s)).sum::<f64>() / self.done.len().max(1) as f64
    }

    /// The same of the time in which it ran.
    #[must_use]
    pub fn ran_mean_s(&self) -> f64 {
        self.done.iter().map(|done| f64::from(done.ran_s)).sum::<f64>() / self.done.len().max(1) as f64
    }

    /// The time that one job in a hundred runs longer than, in seconds: between the next two jobs.
    #[must_use]
    pub fn ran_p99_s(&self) -> f64 {
        let mut ran: Vec<u32> = self.done.iter().map(|done| done.ran_s).collect();
        ran.sort_unstable();
        let Some(last) = ran.len().checked_sub(1) else { return 0.0 };
        let at = last * 99;
        let (low, part) = (at / 100, (at % 100) as f64 / 100.0);
        let of = |at: usize| f64::from(ran[at.min(last)]);
        of(low) + (of(low + 1) - of(low)) * part
    }

    /// The mean part of the GPUs that was in use.
    #[must_use]
    pub fn used_mean(&self) -> f64 {
        self.used.iter().sum::<f64>() / self.used.len().max(1) as f64
    }

    /// The mean share of all jobs in all rounds.
    #[must_use]
    pub fn share_mean(&self) -> f64 {
        self.shares.0 / self.shares.1.max(1) as f64
    }

    /// When the last job was done, in seconds.
    #[must_use]
    pub fn makespan_s(&self) -> u64 {
        self.used.len() as u64 * u64::from(ROUND_S)
    }
}

/// Why a trace is not played to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stuck {
    /// What was chosen does not wait, cannot be spread so, or finds no room.
    Unfit {
        /// In which round.
        round: u32,
    },
    /// Jobs are left when it is given up.
    Left {
        /// How many.
        jobs: usize,
    },
}

impl core::fmt::Display for Stuck {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unfit { round } => write!(f, "round {round}: what was chosen cannot be placed"),
            Self::Left { jobs } => write!(f, "{jobs} jobs are not done after {ROUNDS_MAX} rounds"),
        }
    }
}

struct World<'a> {
    table: &'a Table,
    details: Details,
    queue: Vec<Waits>,
    running: Vec<Stands>,
    used: [u32; NODES],
    outcome: Outcome,
}

/// Plays a trace.
///
/// # Errors
/// [`Stuck`], the first.
pub fn run(jobs: &[Job], table: &Table, details: Details, chooser: &mut dyn Chooser) -> Result<Outcome, Stuck> {
    let wait = |(id, job): (usize, &Job)| Waits { id, job: *job, trained: 0.0, rounds: 0 };
    let queue = jobs.iter().enumerate().map(wait).collect();
    let mut world = World { table, details, queue, running: Vec::new(), used: [0; NODES], outcome: Outcome::default() };
    for round in 0..ROUNDS_MAX {
        if world.queue.is_empty() && world.running.is_empty() {
            return Ok(world.outcome);
        }
        chooser.sort(&mut world.queue);
        // Every choice takes two GPUs or more, so there are sixteen at most.
        while let Some((at, place)) = chooser.choose(&world.seen(round)) {
            world.place(at, place).ok_or(Stuck::Unfit { round })?;
        }
        world.train(round);
        world.stop(chooser.stops_all());
    }
    Err(Stuck::Left { jobs: world.queue.len() + world.running.len() })
}

impl World<'_> {
    fn seen(&self, round: u32) -> Seen<'_> {
        Seen { round, queue: &self.queue, running: &self.running, used: self.used }
    }

    fn place(&mut self, at: usize, place: usize) -> Option<()> {
        let nodes = PLACES.get(place)?;
        let row = self.queue.get(at)?.job.kind.row(nodes.len() as u32)?;
        let stands = Stands { waits: *self.queue.get(at)?, place, row, share: 1.0 };
        if nodes.iter().any(|node| self.used[*node] + stands.gpus_each() > GPUS) {
            return None;
        }
        self.queue.remove(at);
        nodes.iter().for_each(|node| self.used[*node] += stands.gpus_each());
        self.running.push(stands);
        Some(())
    }

    fn free(&mut self, stands: &Stands) {
        stands.nodes().iter().for_each(|node| self.used[*node] -= stands.gpus_each());
    }

    /// Everybody trains for a round.
    fn train(&mut self, round: u32) {
        self.outcome.used.push(f64::from(self.used.iter().sum::<u32>()) / f64::from(GPUS * NODES as u32));
        self.share();
        let present = self.queue.len() + self.running.len();
        let mut progress = 0.0;
        let mut at = 0;
        while at < self.running.len() {
            let table = self.table;
            let stands = &mut self.running[at];
            let samples = table.alone[stands.row] * stands.share * f64::from(ROUND_S);
            stands.waits.trained += samples;
            stands.waits.rounds += 1;
            progress += samples / stands.waits.job.samples;
            self.outcome.shares.0 += stands.share;
            self.outcome.shares.1 += 1;
            let left = stands.waits.job.samples - stands.waits.trained;
            let little = if self.details == Details::Published { stands.share * f64::from(ROUND_S) } else { 0.0 };
            if left < little || left <= 0.0 {
                let done = self.running.remove(at);
                self.free(&done);
                let ran_s = done.waits.rounds * ROUND_S;
                self.outcome.done.push(Done { id: done.waits.id, ran_s, at_s: (round + 1) * ROUND_S });
                // The published loop goes on with the place after the one that is free now.
                at += usize::from(self.details == Details::Published);
            } else {
                at += 1;
            }
        }
        let ms = u64::from(ROUND_S) * MS;
        let from_ms = u64::from(round) * ms;
        self.outcome.spans.push(Span { from_ms, until_ms: from_ms + ms, present: present as u32, progress: progress / ms as f64 });
    }

    fn share(&mut self) {
        for at in 0..self.running.len() {
            let own = &self.running[at];
            let on = |node: usize| {
                let others = self.running.iter().enumerate().filter(|(other, stands)| *other != at && stands.nodes().contains(&node));
                self.table.share(own.row, others.map(|(_, stands)| stands.row))
            };
            let least = own.nodes().iter().map(|node| on(*node)).fold(1.0, f64::min);
            let share = if self.details == Details::Published { least.min(own.share) } else { least };
            self.running[at].share = share;
        }
    }

    /// Stops those who lose too much, or all.
    fn stop(&mut self, all: bool) {
        let mut at = 0;
        while at < self.running.len() {
            if all || self.running[at].share <= STOPPED {
                let stands = self.running.remove(at);
                self.free(&stands);
                self.queue.push(stands.waits);
                self.outcome.stopped += u32::from(!all);
            } else {
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deepshare::{By, Candidate, Kind, ROWS};

    fn table(alone: f64, beside: f64) -> Table {
        Table { alone: [alone; ROWS], beside: [[beside; ROWS]; ROWS] }
    }

    fn job(demand: usize, rounds: f64) -> Job {
        Job { kind: Kind { model: 0, demand }, samples: rounds * 10.0 * f64::from(ROUND_S) }
    }

    /// Takes what a list says.
    struct Listed(Vec<Vec<(usize, usize)>>);

    impl Chooser for Listed {
        fn choose(&mut self, seen: &Seen<'_>) -> Option<Candidate> {
            let now = self.0.get_mut(seen.round as usize)?;
            if now.is_empty() { None } else { Some(now.remove(0)) }
        }
    }

    #[test]
    fn who_shares_a_node_keeps_its_share_and_in_the_published_world_for_ever() {
        // Two jobs on the same nodes: each trains at 0.8. The second has 1 round of work, the first 4.
        let jobs = [job(0, 4.0), job(0, 1.0)];
        let play = |details| run(&jobs, &table(10.0, 0.8), details, &mut Listed(alloc::vec![alloc::vec![(0, 0), (0, 0)]])).unwrap();
        let plain = play(Details::Plain);
        // 1 / 0.8 is 2 rounds; then the first has 4 - 1.6 = 2.4 left: 3 more.
        let of = |outcome: &Outcome| outcome.done.iter().map(|done| (done.id, done.at_s / ROUND_S)).collect::<Vec<_>>();
        assert_eq!(of(&plain), [(1, 2), (0, 5)]);
        // Published: 5 rounds at 0.8.
        assert_eq!(of(&play(Details::Published)), [(1, 2), (0, 5)]);
        let longer = [job(0, 4.4), job(0, 1.0)];
        let published = run(&longer, &table(10.0, 0.8), Details::Published, &mut Listed(alloc::vec![alloc::vec![(0, 0), (0, 0)]])).unwrap();
        assert_eq!(of(&published), [(1, 2), (0, 6)]);
        let plain = run(&longer, &table(10.0, 0.8), Details::Plain, &mut Listed(alloc::vec![alloc::vec![(0, 0), (0, 0)]])).unwrap();
        assert_eq!(of(&plain), [(1, 2), (0, 5)]);
    }

    #[test]
    fn in_the_published_world_who_comes_after_one_that_is_done_misses_a_round() {
        // Apart on nodes 0 and 1, 2 and 3; the first is done in a round, so the second does not train in it.
        let jobs = [job(0, 1.0), job(0, 1.0)];
        let play = |details| run(&jobs, &table(10.0, 1.0), details, &mut Listed(alloc::vec![alloc::vec![(0, 0), (0, 5)]])).unwrap();
        assert_eq!(play(Details::Published).done, [Done { id: 0, ran_s: 300, at_s: 300 }, Done { id: 1, ran_s: 300, at_s: 600 }]);
        assert_eq!(play(Details::Plain).done, [Done { id: 0, ran_s: 300, at_s: 300 }, Done { id: 1, ran_s: 300, at_s: 300 }]);
    }

    #[test]
    fn who_loses_too_much_is_stopped_and_waits_with_what_it_learned() {
        let jobs = [job(0, 1.0), job(0, 1.0)];
        let listed = alloc::vec![alloc::vec![(0, 0), (0, 0)], alloc::vec![(0, 0)], alloc::vec![(0, 0)]];
        let outcome = run(&jobs, &table(10.0, 0.5), Details::Plain, &mut Listed(listed)).unwrap();
        // Both are stopped with half of their work done.
        assert_eq!(outcome.done, [Done { id: 0, ran_s: 600, at_s: 600 }, Done { id: 1, ran_s: 600, at_s: 900 }]);
        assert_eq!((outcome.stopped, outcome.used.len()), (2, 3));
        assert!((outcome.share_mean() - 0.75).abs() < 1e-12);
        // Four of 32 GPUs, then two, twice.
        assert!((outcome.used_mean() - 8.0 / 32.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn what_does_not_fit_and_who_never_chooses_are_told() {
        let jobs = [job(2, 1.0); 5];
        let all = alloc::vec![alloc::vec![(0, 0), (0, 0), (0, 0)]];
        assert_eq!(run(&jobs, &table(10.0, 1.0), Details::Plain, &mut Listed(all)), Err(Stuck::Unfit { round: 0 }));
        // Two GPUs on four nodes.
        let spread = alloc::vec![alloc::vec![(0, 6)]];
        assert_eq!(run(&[job(0, 1.0)], &table(10.0, 1.0), Details::Plain, &mut Listed(spread)), Err(Stuck::Unfit { round: 0 }));
        assert_eq!(run(&jobs, &table(10.0, 1.0), Details::Plain, &mut Listed(Vec::new())), Err(Stuck::Left { jobs: 5 }));
    }

    #[test]
    fn every_rule_ends_every_trace() {
        let mut beside = [[1.0; ROWS]; ROWS];
        for (at, row) in beside.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(other, share)| *share = 0.3 + 0.7 * ((at * 7 + other * 13) % 36) as f64 / 36.0);
        }
        let table = Table { alone: [10.0; ROWS], beside };
        let jobs: Vec<Job> = (0..60).map(|at| Job { kind: Kind { model: at % 6, demand: at % 3 }, ..job(0, 5.0) }).collect();
        for details in [Details::Published, Details::Plain] {
            for mut rule in By::all(&table) {
                let outcome = run(&jobs, &table, details, &mut rule).unwrap();
                let mut ids: Vec<usize> = outcome.done.iter().map(|done| done.id).collect();
                ids.sort_unstable();
                assert_eq!(ids, (0..60).collect::<Vec<_>>(), "{rule:?}");
                assert!(outcome.done.iter().all(|done| done.ran_s >= 5 * ROUND_S && done.at_s >= done.ran_s));
            }
        }
    }
}
