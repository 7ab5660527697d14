//! What was seen of a cluster: who stood where, and how fast each was. First in, first out.

use alloc::{collections::VecDeque, vec::Vec};

use harmony::{Draw, Job, PPM, Placer, Stand, View};

/// How exactly a speed is measured: a standard deviation of 3 %, as iterations of real jobs spread.
const NOISE: f64 = 0.03;

/// A moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sighting {
    pub(super) servers: usize,
    pub(super) jobs: Vec<(Job, Stand)>,
    pub(super) speeds: Vec<u32>,
}

/// The last moments that were seen.
#[derive(Clone, Debug)]
pub struct Log {
    pub(super) seen: VecDeque<Sighting>,
    most: usize,
    draw: Draw,
}

impl Log {
    /// Of so many moments at most; measurements are as noisy as the seed has them.
    #[must_use]
    pub fn new(most: usize, seed: u64) -> Self {
        Self { seen: VecDeque::new(), most: most.max(1), draw: Draw::new(seed, 2) }
    }

    /// How many moments it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether nothing was seen yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// A placer that decides as `inner`, and fills this log.
    pub fn watch<'a>(&'a mut self, inner: &'a mut dyn Placer) -> impl Placer + 'a {
        Watch { log: self, inner }
    }

    fn see(&mut self, view: &View<'_>) {
        if view.running.is_empty() {
            return;
        }
        let mut noisy = |speed: u32| {
            let measured = f64::from(speed) * (1.0 + NOISE * self.draw.normal());
            (measured.max(1.0) as u64).min(PPM) as u32
        };
        let speeds = view.running.iter().map(|running| noisy(running.speed)).collect();
        let jobs = view.running.iter().map(|running| (running.job, running.stand.clone())).collect();
        if self.seen.len() == self.most {
            self.seen.pop_front();
        }
        self.seen.push_back(Sighting { servers: view.servers, jobs, speeds });
    }
}

struct Watch<'a> {
    log: &'a mut Log,
    inner: &'a mut dyn Placer,
}

impl Placer for Watch<'_> {
    fn place(&mut self, view: &View<'_>, job: &Job) -> Option<Stand> {
        self.inner.place(view, job)
    }

    fn observe(&mut self, view: &View<'_>) {
        self.inner.observe(view);
        self.log.see(view);
    }
}
