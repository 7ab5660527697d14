//! Looking ahead: of the best ways of the greedy rule the one after which all who are there now are done soonest on average, if nobody else
//! came. It knows how long everybody still has to run, which the greedy rule does not ask.

use alloc::vec::Vec;

use crate::{
    interference::{PPM, Speeds},
    job::Job,
    place::{by_parts::Balance, greedy::Greedy},
    server::Stand,
    world::{Outcome, Placer, Running, View, World},
};

/// See the top of the file.
#[derive(Clone, Copy)]
pub struct Lookahead<'a> {
    speeds: &'a dyn Speeds,
    ways: usize,
}

impl core::fmt::Debug for Lookahead<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Lookahead({})", self.ways)
    }
}

impl<'a> Lookahead<'a> {
    /// With what is known of speeds, over so many of the best ways.
    #[must_use]
    pub fn new(speeds: &'a dyn Speeds, ways: usize) -> Self {
        Self { speeds, ways }
    }

    /// When all are done on average, in milliseconds from 0, if `job` stands there and who waits is placed where most is free.
    fn mean_ms(&self, view: &View<'_>, job: &Job, stand: &Stand) -> f64 {
        let mut running = view.running.to_vec();
        let left = job.work_ms.max(1) * PPM;
        running.push(Running { job: *job, stand: stand.clone(), started_ms: view.now_ms, left, speed: PPM as u32 });
        let waiting = view.waiting.to_vec();
        let world = World { now_ms: view.now_ms, servers: view.servers, running, waiting, to_come: &[], outcome: Outcome::default() };
        // A job that fits on no empty server makes every placement equally bad.
        world.play(self.speeds, &mut Balance).map_or(f64::MAX, |outcome| outcome.mean_ms())
    }
}

impl Placer for Lookahead<'_> {
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        let ranked = Greedy::new(self.speeds).ranked(view, job).into_iter().take(self.ways);
        let timed: Vec<(f64, Stand)> = ranked.map(|stand| (self.mean_ms(view, job, &stand), stand)).collect();
        timed.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, stand)| stand)
    }
}
