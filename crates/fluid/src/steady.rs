//! When a run may stop, and the mean over its steady part.

use alloc::vec::Vec;

/// What a run measured for one job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    /// Mean time between starts of iterations, rounded to a nanosecond.
    pub(crate) mean: u64,
    /// Share of iterations that slipped.
    pub(crate) slips: f64,
}

/// Time in which two or more jobs want more of a link than it has, and in which any job is Up on a link; summed over the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    pub(crate) over: u64,
    pub(crate) busy: u64,
}

/// A start of an iteration of one job: (iterations started before it, time, slips so far).
type Start = (u64, u64, u64);

/// Watches the starts of iterations, and the state of all jobs at each start of the pivot job.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    jobs: usize,
    /// Start times of every job; slips at that time.
    starts: Vec<Vec<(u64, u64)>>,
    /// State of all jobs at each start of the pivot, one after the other.
    states: Vec<u64>,
    /// Time of each such state and the number of starts of each job by then.
    times: Vec<u64>,
    counts: Vec<u64>,
    /// What the links' meter said at that time.
    meters: Vec<Meter>,
    /// Slips of each job by then.
    slips: Vec<u64>,
    /// The earlier of two equal states, when there are such.
    cycle: Option<usize>,
}

impl Steady {
    /// `bound` iterations of the pivot are expected.
    pub(crate) fn new(jobs: usize, bound: usize) -> Self {
        Self {
            jobs,
            // A job has about as many starts as the pivot, unless its period is shorter.
            starts: (0..jobs).map(|_| Vec::with_capacity(bound + 1)).collect(),
            states: Vec::new(),
            times: Vec::with_capacity(bound + 1),
            counts: Vec::with_capacity(jobs * (bound + 1)),
            meters: Vec::with_capacity(bound + 1),
            slips: Vec::new(),
            cycle: None,
        }
    }

    pub(crate) fn started(&mut self, job: usize, now: u64, slips: u64) {
        self.starts[job].push((now, slips));
    }

    /// Records the state at a start of the pivot; true when the same state was there before.
    pub(crate) fn recurs(&mut self, now: u64, meter: Meter, state: impl Iterator<Item = u64>, slips: impl Iterator<Item = u64>) -> bool {
        let before = self.states.len();
        self.states.extend(state);
        let width = self.states.len() - before;
        let (old, new) = self.states.split_at(before);
        // States are compared number by number, because a hash that collides would end the run in a false cycle. There are at
        // most `bound` states, so the walk over all of them is short.
        self.cycle = if width == 0 { None } else { old.chunks_exact(width).position(|s| s == new) };
        self.slips.extend(slips);
        self.passes(now, meter);
        self.cycle.is_some()
    }

    /// Counts a start of the pivot.
    pub(crate) fn passes(&mut self, now: u64, meter: Meter) {
        self.times.push(now);
        self.meters.push(meter);
        self.counts.extend(self.starts.iter().map(|s| s.len() as u64));
    }

    /// So many iterations of the pivot are over.
    pub(crate) fn is_over(&self, bound: usize) -> bool {
        self.times.len() > bound
    }

    /// What the links' meter, which says `now`, counted in the time of which [`Steady::measure`] has the means.
    pub(crate) fn metered_after(&self, warm_up: usize, now: Meter) -> Meter {
        // As with the starts: of a cycle its own, and all where the pivot never got out of its warm-up.
        let warm = self.cycle.or_else(|| self.is_over(warm_up).then_some(warm_up));
        let before = warm.and_then(|at| self.meters.get(at)).copied().unwrap_or_default();
        Meter { over: now.over - before.over, busy: now.busy - before.busy }
    }

    /// The means: over the cycle if a state recurred, else over the starts after `warm_up` iterations of the pivot. `rest` tells how long
    /// the rest of a job's iteration will take: it is asked of jobs of which not one whole iteration was seen.
    pub(crate) fn measure(&self, warm_up: usize, now: u64, rest: impl Fn(usize) -> u64) -> Vec<Measured> {
        (0..self.jobs).map(|j| self.measure_job(j, warm_up, now, &rest)).collect()
    }

    fn measure_job(&self, j: usize, warm_up: usize, now: u64, rest: impl Fn(usize) -> u64) -> Measured {
        let starts = &self.starts[j];
        let count = |state: usize| self.counts.get(state * self.jobs + j).copied().unwrap_or(0) as usize;
        if let Some(from) = self.cycle {
            // The model is deterministic, so equal states repeat for ever, and the mean over one cycle is exact.
            let to = self.times.len() - 1;
            let (first, last) = (count(from), count(to));
            let slips = |state: usize| self.slips.get(state * self.jobs + j).copied().unwrap_or(0);
            return mean(self.times[to] - self.times[from], (last - first) as u64, slips(to) - slips(from));
        }
        // The last start before the end of the warm-up opens the window. Where the pivot never got that far, all starts count.
        let warm = if self.is_over(warm_up) { count(warm_up).saturating_sub(1) } else { 0 };
        let window = starts.get(warm..).filter(|w| w.len() > 1).unwrap_or(starts);
        let start = |i: usize| -> Option<Start> { window.get(i).map(|(time, slips)| (i as u64, *time, *slips)) };
        match (start(0), start(window.len().saturating_sub(1))) {
            (Some(a), Some(b)) if b.0 > 0 => mean(b.1 - a.1, b.0, b.2 - a.2),
            // The job did no whole iteration within the bounds: the time that it took so far counts, and the rest is estimated.
            (a, _) => Measured { mean: a.map_or(0, |a| now - a.1).saturating_add(rest(j)), slips: 0.0 },
        }
    }
}

fn mean(time: u64, iterations: u64, slips: u64) -> Measured {
    let iterations = iterations.max(1);
    Measured { mean: (time + iterations / 2) / iterations, slips: slips as f64 / iterations as f64 }
}
