//! Jobs that come, wait, run and leave.
//!
//! Whenever a job comes or leaves, the jobs that wait are offered to the placer in the order in which they came; who does not fit waits, and those
//! behind it may go first. Where a job stands it stays, and nobody is stopped. Time is in milliseconds.

use alloc::vec::Vec;

use units::nearest_rank;

use crate::{
    interference::{PPM, Speeds},
    job::{Demand, Job},
    server::{Stand, free, takes},
};

/// A job that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The job.
    pub job: Job,
    /// Where it stands.
    pub stand: Stand,
    /// When it was placed.
    pub started_ms: u64,
    /// What is left of its work, in millionths of a millisecond.
    pub left: u64,
    /// How fast it is now, in millionths.
    pub speed: u32,
}

/// What a placer sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Now.
    pub now_ms: u64,
    /// Servers of the cluster.
    pub servers: usize,
    /// Who runs, in the order in which they started.
    pub running: &'a [Running],
    /// Who waits, the job in question left out.
    pub waiting: &'a [Job],
    /// What is free on each server.
    pub free: &'a [Demand],
}

/// Says where jobs stand.
pub trait Placer {
    /// Where `job` stands, all of it; none while it fits nowhere.
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand>;

    /// How fast jobs are now; called after every change.
    fn observe(&mut self, view: &View<'_>) {
        let _ = view;
    }
}

/// A job that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The job.
    pub job: Job,
    /// When it was placed.
    pub started_ms: u64,
    /// When it was done.
    pub ended_ms: u64,
}

impl Ended {
    /// From submission to its end, waiting included.
    #[must_use]
    pub fn completion_ms(&self) -> u64 {
        self.ended_ms - self.job.submitted_ms
    }
}

/// A time in which nobody comes or leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// From when.
    pub from_ms: u64,
    /// Until when.
    pub until_ms: u64,
    /// Jobs that wait or run.
    pub present: u32,
    /// Harmony's reward: the sum over jobs of the share of its work that a job does in a millisecond.
    pub progress: f64,
}

/// What became of a mix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The jobs, in the order in which they ended.
    pub ended: Vec<Ended>,
    /// The time, in parts.
    pub spans: Vec<Span>,
}

impl Outcome {
    /// Mean completion time, waiting included, in milliseconds.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.ended.iter().map(|ended| ended.completion_ms() as f64).sum::<f64>() / self.ended.len().max(1) as f64
    }

    /// The completion time that one job in a hundred exceeds, in milliseconds.
    #[must_use]
    pub fn p99_ms(&self) -> u64 {
        let mut times: Vec<u64> = self.ended.iter().map(Ended::completion_ms).collect();
        times.sort_unstable();
        nearest_rank(&times, 99).unwrap_or_default()
    }

    /// Mean speed of a job while it runs, in parts of that alone.
    #[must_use]
    pub fn mean_speed(&self) -> f64 {
        let speed = |ended: &Ended| ended.job.work_ms as f64 / (ended.ended_ms - ended.started_ms).max(1) as f64;
        self.ended.iter().map(speed).sum::<f64>() / self.ended.len().max(1) as f64
    }
}

/// Why a mix was not played to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stuck {
    /// The placer put a job where it does not fit, or not all of it.
    Unfit {
        /// Which job.
        job: u32,
    },
    /// A job that the placer puts nowhere, though nobody runs.
    Nowhere {
        /// Which job.
        job: u32,
    },
}

impl core::fmt::Display for Stuck {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unfit { job } => write!(f, "job {job} was placed where it does not fit, or not all of it"),
            Self::Nowhere { job } => write!(f, "job {job} fits nowhere, though nobody runs"),
        }
    }
}

impl core::error::Error for Stuck {}

/// Plays `jobs`, which are in order of submission, on so many servers.
///
/// # Errors
/// [`Stuck`], which is a fault of the placer, or a job that no server has room for.
pub fn run(jobs: &[Job], servers: usize, speeds: &dyn Speeds, placer: &mut dyn Placer) -> Result<Outcome, Stuck> {
    let world = World { now_ms: 0, servers, running: Vec::new(), waiting: Vec::new(), to_come: jobs, outcome: Outcome::default() };
    world.play(speeds, placer)
}

/// A cluster at a time.
pub(crate) struct World<'a> {
    pub(crate) now_ms: u64,
    pub(crate) servers: usize,
    pub(crate) running: Vec<Running>,
    pub(crate) waiting: Vec<Job>,
    pub(crate) to_come: &'a [Job],
    pub(crate) outcome: Outcome,
}

impl World<'_> {
    /// Until everybody is done.
    pub(crate) fn play(mut self, speeds: &dyn Speeds, placer: &mut dyn Placer) -> Result<Outcome, Stuck> {
        loop {
            self.come();
            self.leave();
            self.start(placer)?;
            self.set_speeds(speeds);
            self.show(placer);
            let Some(until_ms) = self.next_ms() else {
                // No job runs and none will come, so a job that still waits would wait for ever.
                return self.waiting.first().map_or(Ok(self.outcome), |job| Err(Stuck::Nowhere { job: job.id }));
            };
            self.pass(until_ms);
        }
    }

    fn come(&mut self) {
        while let Some((job, rest)) = self.to_come.split_first().filter(|(job, _)| job.submitted_ms <= self.now_ms) {
            self.waiting.push(*job);
            self.to_come = rest;
        }
    }

    fn leave(&mut self) {
        let now_ms = self.now_ms;
        for done in self.running.iter().filter(|running| running.left == 0) {
            self.outcome.ended.push(Ended { job: done.job, started_ms: done.started_ms, ended_ms: now_ms });
        }
        self.running.retain(|running| running.left > 0);
    }

    fn start(&mut self, placer: &mut dyn Placer) -> Result<(), Stuck> {
        let mut at = 0;
        while at < self.waiting.len() {
            let job = self.waiting.remove(at);
            let mut free = free(self.servers, self.running.iter().map(|r| (&r.job, &r.stand)));
            let view = View { now_ms: self.now_ms, servers: self.servers, running: &self.running, waiting: &self.waiting, free: &free };
            match placer.place(&view, &job) {
                Some(stand) => {
                    let fits = stand.taken(&job).all(|(server, taken)| free.get_mut(server).is_some_and(|free| takes(free, &taken)));
                    if !fits || !stand.is_whole(&job) {
                        return Err(Stuck::Unfit { job: job.id });
                    }
                    // A job without work would never be seen running.
                    let left = job.work_ms.max(1) * PPM;
                    self.running.push(Running { job, stand, started_ms: self.now_ms, left, speed: PPM as u32 });
                }
                None => {
                    self.waiting.insert(at, job);
                    at += 1;
                }
            }
        }
        Ok(())
    }

    fn set_speeds(&mut self, speeds: &dyn Speeds) {
        let jobs: Vec<(&Job, &Stand)> = self.running.iter().map(|r| (&r.job, &r.stand)).collect();
        let speeds = speeds.speeds(self.servers, &jobs);
        self.running.iter_mut().zip(speeds).for_each(|(running, speed)| running.speed = speed.clamp(1, PPM as u32));
    }

    fn show(&self, placer: &mut dyn Placer) {
        let free = free(self.servers, self.running.iter().map(|r| (&r.job, &r.stand)));
        placer.observe(&View { now_ms: self.now_ms, servers: self.servers, running: &self.running, waiting: &self.waiting, free: &free });
    }

    /// When somebody comes or is done next.
    fn next_ms(&self) -> Option<u64> {
        let done = self.running.iter().map(|running| self.now_ms + running.left.div_ceil(u64::from(running.speed)));
        done.chain(self.to_come.first().map(|job| job.submitted_ms)).min()
    }

    fn pass(&mut self, until_ms: u64) {
        let passed = until_ms - self.now_ms;
        let progress = self.running.iter().map(|r| f64::from(r.speed) / PPM as f64 / r.job.work_ms.max(1) as f64).sum();
        let present = (self.running.len() + self.waiting.len()) as u32;
        self.outcome.spans.push(Span { from_ms: self.now_ms, until_ms, present, progress });
        for running in &mut self.running {
            running.left = running.left.saturating_sub(u64::from(running.speed) * passed);
        }
        self.now_ms = until_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        interference::Interference,
        job::Part,
        place::{Balance, Greedy, LeastInterference, Lookahead, Pack, Reach, Rollout},
    };

    /// Puts everything on server 0.
    struct First;

    impl Placer for First {
        fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
            let mut stand = Stand::default();
            (0..job.ranks).for_each(|_| stand.add(0, Part::Rank));
            let fits = stand.taken(job).all(|(server, taken)| takes(&mut view.free[server].clone(), &taken));
            fits.then_some(stand)
        }
    }

    fn job(id: u32, ranks: u32, submitted_ms: u64) -> Job {
        // GPT-2, which hardly loads, and on one server does not send.
        Job { id, kind: 3, ranks, parameter_servers: 0, work_ms: 1_000, submitted_ms }
    }

    #[test]
    fn who_does_not_fit_waits_and_waiting_counts() {
        // The first two have all GPUs until the first is done; the others wait, the third for the whole server.
        let jobs = [job(0, 2, 0), job(1, 2, 100), job(2, 4, 200), job(3, 2, 300)];
        let outcome = run(&jobs, 1, &Interference, &mut First).unwrap();
        let ends: Vec<(u32, u64, u64)> = outcome.ended.iter().map(|e| (e.job.id, e.started_ms, e.ended_ms)).collect();
        // Each loads for 0.7 of 426.7 ms beside one that does so too: slower by two millionths, which costs the last millisecond.
        assert_eq!(ends[..2], [(0, 0, 1_001), (1, 100, 1_101)]);
        // Job 3 goes before job 2, which needs the whole server.
        assert_eq!((ends[2].0, ends[2].1), (3, 1_001));
        assert_eq!((ends[3].0, ends[3].1), (2, ends[2].2));
        assert_eq!(outcome.spans.iter().map(|span| span.until_ms - span.from_ms).sum::<u64>(), ends[3].2);
        // The area under the number of jobs is the sum of their times.
        let area: u64 = outcome.spans.iter().map(|span| (span.until_ms - span.from_ms) * u64::from(span.present)).sum();
        assert_eq!(area as f64, outcome.mean_ms() * 4.0);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let jobs = [job(7, 8, 0)];
        assert_eq!(run(&jobs, 1, &Interference, &mut First), Err(Stuck::Nowhere { job: 7 }));
        struct Blind;
        impl Placer for Blind {
            fn place(&mut self, _: &View<'_>, job: &Job) -> Option<Stand> {
                let mut stand = Stand::default();
                (0..job.ranks).for_each(|_| stand.add(0, Part::Rank));
                Some(stand)
            }
        }
        assert_eq!(run(&jobs, 1, &Interference, &mut Blind), Err(Stuck::Unfit { job: 7 }));
        assert_eq!(run(&[job(1, 2, 0)], 0, &Interference, &mut Balance), Err(Stuck::Nowhere { job: 1 }));
    }

    #[test]
    fn every_placer_ends_every_mix_and_a_second_run_is_the_same() {
        let asked = crate::Mix { jobs: 40, servers: 4, run_ms: 600_000, octaves: 3, load_permille: 900 };
        let jobs = crate::mix(&asked, 5);
        let play = || {
            let reach = Reach { ways: 3, futures: 2, jobs: 4 };
            let mut placers: [&mut dyn Placer; 6] = [
                &mut Balance,
                &mut Pack,
                &mut LeastInterference::new(&Interference),
                &mut Greedy::new(&Interference),
                &mut Lookahead::new(&Interference, 3),
                &mut Rollout::new(&Interference, reach, &asked, 1),
            ];
            placers.iter_mut().map(|placer| run(&jobs, 4, &Interference, *placer).unwrap()).collect::<Vec<_>>()
        };
        let outcomes = play();
        assert_eq!(outcomes, play());
        for outcome in outcomes {
            assert_eq!(outcome.ended.len(), 40);
            assert!(outcome.ended.iter().all(|ended| ended.ended_ms - ended.started_ms >= ended.job.work_ms));
        }
    }
}
