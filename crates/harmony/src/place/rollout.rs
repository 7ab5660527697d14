//! Playing on: of the best ways of the greedy rule the one after which jobs are done soonest on average, with jobs that may come next, and with
//! the greedy rule placing whoever comes or waits. One step of policy improvement over the greedy rule (Bertsekas, Tsitsiklis and Wu 1997).
//!
//! It knows what kinds of jobs come and how often, not which; all ways are played against the same draws.

use alloc::vec::Vec;

use crate::{
    draw::Draw,
    interference::{PPM, Speeds},
    job::Job,
    mix::{Mix, mix},
    place::greedy::Greedy,
    server::Stand,
    world::{Outcome, Placer, Running, View, World},
};

/// How far a [`Rollout`] looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The best ways of the greedy rule that are tried.
    pub ways: usize,
    /// Draws of jobs that may come, each of which every way is played against.
    pub futures: u64,
    /// Jobs of such a draw.
    pub jobs: u32,
}

/// See the top of the file.
#[derive(Clone)]
pub struct Rollout<'a> {
    speeds: &'a dyn Speeds,
    reach: Reach,
    expected: Mix,
    draw: Draw,
}

impl core::fmt::Debug for Rollout<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Rollout({:?})", self.reach)
    }
}

impl<'a> Rollout<'a> {
    /// With what is known of speeds, and jobs that come as in that mix; what may come is drawn from the seed.
    #[must_use]
    pub fn new(speeds: &'a dyn Speeds, reach: Reach, expected: &Mix, seed: u64) -> Self {
        // The first job of a mix comes at once, and is left out.
        let expected = Mix { jobs: reach.jobs + 1, ..*expected };
        Self { speeds, reach, expected, draw: Draw::new(seed, 4) }
    }

    /// When all are done on average, in milliseconds from now, if `job` stands there and `to_come` come.
    fn mean_ms(&self, view: &View<'_>, job: &Job, stand: &Stand, to_come: &[Job]) -> f64 {
        let mut running = view.running.to_vec();
        let left = job.work_ms.max(1) * PPM;
        running.push(Running { job: *job, stand: stand.clone(), started_ms: view.now_ms, left, speed: PPM as u32 });
        let waiting = view.waiting.to_vec();
        let world = World { now_ms: view.now_ms, servers: view.servers, running, waiting, to_come, outcome: Outcome::default() };
        // A job that fits on no empty server makes every placement equally bad.
        world.play(self.speeds, &mut Greedy::new(self.speeds)).map_or(f64::MAX, |outcome| outcome.mean_ms())
    }

    fn future(&mut self, view: &View<'_>) -> Vec<Job> {
        let expected = Mix { servers: view.servers, ..self.expected };
        let drawn = mix(&expected, self.draw.below(u64::MAX));
        let come = |job: &Job| Job { submitted_ms: view.now_ms + job.submitted_ms, ..*job };
        drawn.iter().skip(1).map(come).collect()
    }
}

impl Placer for Rollout<'_> {
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        let mut ranked = Greedy::new(self.speeds).ranked(view, job);
        ranked.truncate(self.reach.ways);
        if ranked.len() < 2 {
            return ranked.pop();
        }
        let futures: Vec<Vec<Job>> = (0..self.reach.futures).map(|_| self.future(view)).collect();
        let sum = |stand: &Stand| futures.iter().map(|to_come| self.mean_ms(view, job, stand, to_come)).sum::<f64>();
        let timed: Vec<(f64, Stand)> = ranked.into_iter().map(|stand| (sum(&stand), stand)).collect();
        timed.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, stand)| stand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{interference::Interference, world::run};

    #[test]
    fn who_plays_on_is_better_than_the_rule_that_it_plays_with() {
        let mixed = Mix { jobs: 30, servers: 6, run_ms: 600_000, octaves: 4, load_permille: 500 };
        let reach = Reach { ways: 6, futures: 8, jobs: 6 };
        let mean_ms = |placer: &mut dyn Placer| -> f64 {
            (1..=6).map(|seed| run(&mix(&mixed, seed), mixed.servers, &Interference, placer).unwrap().mean_ms()).sum::<f64>() / 6.0
        };
        // Over many mixes it is 3 % (`antiphase learn evaluate`).
        let (own, greedy) = (mean_ms(&mut Rollout::new(&Interference, reach, &mixed, 1)), mean_ms(&mut Greedy::new(&Interference)));
        assert!(own < greedy, "{own} {greedy}");
    }
}
