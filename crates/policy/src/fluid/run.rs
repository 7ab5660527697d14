//! The event loop: one run of a component until it is steady or a bound is met.

use alloc::{vec, vec::Vec};

use super::{
    EVENTS_PER_JOB_MAX, ITERATIONS_MAX,
    earliest::Earliest,
    gate::Gate,
    jitter::{self, Jitter},
    layout::Layout,
    share::{Level, level},
    steady::{Measured, Steady},
};

/// What holds and what disturbs the jobs: by default nothing, and all begin at time 0.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Each job begins at its gate's first slot and passes the gate.
    pub(super) gates: Option<Vec<Gate>>,
    /// Down phases vary.
    pub(super) jitter: Option<Jitter>,
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Held by the gate, or not started yet.
    Waiting,
    /// In that segment.
    Segment(u32),
}

#[derive(Clone, Debug)]
struct JobState {
    doing: Doing,
    /// What was left of the segment at `since`, in the layout's fixed point.
    left: u64,
    since: u64,
    speed: u64,
    /// When the segment or the wait ends if nothing changes.
    until: u64,
    /// Iterations started.
    started: u64,
}

struct Run<'a> {
    layout: &'a Layout,
    gates: Option<Vec<Gate>>,
    jitter: Option<Jitter>,
    jobs: Vec<JobState>,
    /// `until` of every job.
    times: Earliest,
    /// (job, demand) of every job that is Up on the link.
    active: Vec<Vec<(u32, u64)>>,
    levels: Vec<Level>,
    /// Links whose active jobs changed at this instant.
    changed: Vec<u32>,
    sorted: Vec<u64>,
    /// Jobs whose speed has to be looked at again; the list may name some that need not.
    stale: Vec<bool>,
    /// When each job entered its segment.
    entered: Vec<u64>,
    /// Of each job's Up segments so far: how long they took, and how long they take alone.
    ups: Vec<(u64, u64)>,
    stale_list: Vec<u32>,
}

/// Runs all jobs until they are steady or a bound is met; with jitter, always to the bound.
pub(super) fn run(layout: &Layout, rules: Rules) -> Vec<Measured> {
    let Rules { gates, jitter } = rules;
    let n = layout.segments.len();
    if n == 0 {
        return Vec::new();
    }
    let waiting = JobState { doing: Doing::Waiting, left: 0, since: 0, speed: layout.one(), until: 0, started: 0 };
    let mut jobs = vec![waiting; n];
    for (job, gate) in jobs.iter_mut().zip(gates.iter().flatten()) {
        job.until = gate.slot;
    }
    let links = layout.capacities.len();
    let active = vec![Vec::new(); links];
    let mut run = Run {
        layout,
        gates,
        jitter,
        times: Earliest::new(jobs.iter().map(|j| j.until)),
        jobs,
        active,
        levels: vec![Level::default(); links],
        changed: Vec::new(),
        sorted: Vec::new(),
        stale: vec![false; n],
        entered: vec![0; n],
        ups: vec![(0, 0); n],
        stale_list: Vec::new(),
    };
    run.until_steady()
}

impl Run<'_> {
    fn until_steady(&mut self) -> Vec<Measured> {
        let n = self.jobs.len();
        let mut steady = Steady::new(n, if self.jitter.is_some() { jitter::ITERATIONS } else { ITERATIONS_MAX });
        let mut events = 0usize;
        loop {
            let now = self.times.first();
            let mut pivot_started = false;
            let mut from = 0;
            while let Some(j) = self.times.due(now, from) {
                from = j + 1;
                while self.jobs[j].until == now && events < EVENTS_PER_JOB_MAX.saturating_mul(n) {
                    events += 1;
                    if self.step(j, now) {
                        pivot_started |= j == self.layout.pivot;
                        steady.started(j, now, self.slips(j));
                    }
                }
            }
            self.share_again(now);
            let recurs = pivot_started && self.looks(&mut steady, now);
            if recurs || steady.is_over() || events >= EVENTS_PER_JOB_MAX.saturating_mul(n) {
                return steady.measure(now, |j| self.rest(j, now));
            }
        }
    }

    /// Notes a start of the pivot; true when the state was there before. Under jitter none is looked for.
    fn looks(&self, steady: &mut Steady, now: u64) -> bool {
        if self.jitter.is_some() {
            steady.passes(now);
            return false;
        }
        let n = self.jobs.len();
        steady.recurs(now, (0..n).flat_map(|j| self.state(j, now)), (0..n).map(|j| self.slips(j)))
    }

    /// Ends what job `j` is doing and begins the next thing; true when that is a new iteration.
    fn step(&mut self, j: usize, now: u64) -> bool {
        let next = match self.jobs[j].doing {
            Doing::Waiting => 0,
            Doing::Segment(s) => {
                self.leave(j, s, now);
                s + 1
            }
        };
        if (next as usize) < self.layout.segments[j].len() {
            self.enter(j, next, now);
            return next == 0 && self.begun(j);
        }
        let release = self.gates.as_mut().map_or(now, |g| g[j].release(now));
        if release > now {
            self.jobs[j].doing = Doing::Waiting;
            self.set_until(j, release);
            return false;
        }
        self.enter(j, 0, now);
        self.begun(j)
    }

    fn begun(&mut self, j: usize) -> bool {
        self.jobs[j].started += 1;
        true
    }

    fn enter(&mut self, j: usize, segment: u32, now: u64) {
        let spec = &self.layout.segments[j][segment as usize];
        let uses = self.layout.uses(spec);
        for &(link, rate) in uses {
            self.active[link as usize].push((j as u32, rate));
            self.changed.push(link);
        }
        let (left, speed) = (self.layout.work(spec), self.layout.one());
        let length = match &mut self.jitter {
            Some(jitter) if uses.is_empty() => jitter.vary(j, spec.length),
            _ => spec.length,
        };
        let until = now.saturating_add(length);
        self.jobs[j] = JobState { doing: Doing::Segment(segment), left, since: now, speed, until, started: self.jobs[j].started };
        self.set_until(j, until);
        self.stale[j] = !uses.is_empty();
        self.stale_list.push(j as u32);
        self.entered[j] = now;
    }

    fn set_until(&mut self, j: usize, until: u64) {
        self.jobs[j].until = until;
        self.times.set(j, until);
    }

    fn leave(&mut self, j: usize, segment: u32, now: u64) {
        let spec = &self.layout.segments[j][segment as usize];
        if !self.layout.uses(spec).is_empty() {
            self.ups[j].0 = self.ups[j].0.saturating_add(now - self.entered[j]);
            self.ups[j].1 = self.ups[j].1.saturating_add(self.layout.alone(spec, self.layout.work(spec)));
        }
        for &(link, _) in self.layout.uses(spec) {
            let active = &mut self.active[link as usize];
            if let Some(at) = active.iter().position(|(k, _)| *k as usize == j) {
                active.swap_remove(at);
            }
            self.changed.push(link);
        }
        self.stale[j] = false;
    }

    /// Shares the changed links anew and adjusts the jobs on them.
    fn share_again(&mut self, now: u64) {
        while let Some(link) = self.changed.pop() {
            let l = link as usize;
            let next = level(self.layout.capacities[l], self.active[l].iter().map(|(_, d)| *d), &mut self.sorted);
            if next != self.levels[l] {
                self.levels[l] = next;
                self.active[l].iter().for_each(|(j, _)| self.stale[*j as usize] = true);
                self.stale_list.extend(self.active[l].iter().map(|(j, _)| *j));
            }
        }
        while let Some(j) = self.stale_list.pop() {
            if core::mem::take(&mut self.stale[j as usize]) {
                self.adjust(j as usize, now);
            }
        }
    }

    fn adjust(&mut self, j: usize, now: u64) {
        let Doing::Segment(s) = self.jobs[j].doing else { return };
        let uses = self.layout.uses(&self.layout.segments[j][s as usize]).iter();
        let part = |&(link, rate): &(u32, u64)| match self.levels[link as usize] {
            Level { jobs: 0, .. } => self.layout.one(),
            Level { rest, jobs } => self.layout.speed(rest, rate.saturating_mul(jobs)),
        };
        let speed = uses.map(part).min().unwrap_or(self.layout.one());
        let job = &mut self.jobs[j];
        if speed != job.speed {
            job.left = job.left.saturating_sub((now - job.since).saturating_mul(job.speed));
            (job.since, job.speed) = (now, speed);
            // An end in this very instant waits one nanosecond, so that time always moves on.
            let until = now.saturating_add(job.left.div_ceil(speed).max(1));
            self.set_until(j, until);
        }
    }

    /// Everything about job `j` that decides its future, relative to `now`.
    fn state(&self, j: usize, now: u64) -> [u64; 3] {
        let job = &self.jobs[j];
        let slot = self.gates.as_ref().map_or(0, |g| g[j].slot.wrapping_sub(now));
        match job.doing {
            Doing::Waiting => [u64::MAX, job.until - now, slot],
            Doing::Segment(s) => [u64::from(s), job.left.saturating_sub((now - job.since).saturating_mul(job.speed)), slot],
        }
    }

    /// How long the rest of job `j`'s iteration will take, if its Up segments go on at the pace of those seen.
    fn rest(&self, j: usize, now: u64) -> u64 {
        let segments = &self.layout.segments[j];
        let wide = |(took, alone): (u64, u64)| (u128::from(took), u128::from(alone));
        let (mut down, mut up) = (0, 0);
        let (mut took, mut alone) = wide(self.ups[j]);
        let mut next = 0;
        if let Doing::Segment(s) = self.jobs[j].doing {
            let (job, spec) = (&self.jobs[j], &segments[s as usize]);
            let left = self.layout.alone(spec, job.left.saturating_sub((now - job.since).saturating_mul(job.speed)));
            if self.layout.uses(spec).is_empty() {
                down += u128::from(left);
            } else {
                up += u128::from(left);
                let whole = self.layout.alone(spec, self.layout.work(spec));
                let (so_far, done) = wide((now - self.entered[j], whole.saturating_sub(left)));
                (took, alone) = (took + so_far, alone + done);
            }
            next = s as usize + 1;
        }
        for spec in &segments[next..] {
            let length = u128::from(self.layout.alone(spec, self.layout.work(spec)));
            *(if self.layout.uses(spec).is_empty() { &mut down } else { &mut up }) += length;
        }
        let up = (up * took.max(alone)).checked_div(alone).unwrap_or(up);
        u64::try_from(down + up).unwrap_or(u64::MAX)
    }

    fn slips(&self, j: usize) -> u64 {
        self.gates.as_ref().map_or(0, |g| g[j].slips)
    }
}
