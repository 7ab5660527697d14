//! The event loop: one run of a component until it is steady or a bound is met.

use alloc::{vec, vec::Vec};

use crate::{
    EVENTS_PER_JOB_MAX, ITERATIONS_MAX,
    gate::Gate,
    layout::Layout,
    share::Sharing,
    steady::{Measured, Steady},
    timers::Timers,
    varied::{self, Jitter},
};

/// What holds and what disturbs the jobs: by default nothing, and all begin at time 0.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Each job begins at its gate's first slot and passes the gate.
    pub(crate) gates: Option<Vec<Gate>>,
    /// Down phases vary.
    pub(crate) jitter: Option<Jitter>,
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
    /// `until` of every job, once [`Run::share_again`] has taken over those of `touched`.
    times: Timers,
    /// Jobs whose `until` changed at this instant.
    touched: Vec<u32>,
    sharing: Sharing<'a>,
    /// When each job entered its segment.
    entered: Vec<u64>,
    /// Of each job's Up segments so far: how long they took, and how long they take alone.
    ups: Vec<(u64, u64)>,
}

/// Runs all jobs until they are steady or a bound is met; with jitter, always to the bound.
pub(crate) fn run(layout: &Layout, rules: Rules) -> Vec<Measured> {
    let Rules { gates, jitter } = rules;
    let n = layout.segments.len();
    // Without a job no event would ever end the loop.
    if n == 0 {
        return Vec::new();
    }
    let waiting = JobState { doing: Doing::Waiting, left: 0, since: 0, speed: layout.rates.one(), until: 0, started: 0 };
    let mut jobs = vec![waiting; n];
    for (job, gate) in jobs.iter_mut().zip(gates.iter().flatten()) {
        job.until = gate.first();
    }
    let mut run = Run {
        layout,
        gates,
        jitter,
        times: Timers::new(jobs.iter().map(|j| j.until)),
        touched: Vec::new(),
        jobs,
        sharing: Sharing::new(&layout.rates, n),
        entered: vec![0; n],
        ups: vec![(0, 0); n],
    };
    run.until_steady()
}

impl Run<'_> {
    fn until_steady(&mut self) -> Vec<Measured> {
        let n = self.jobs.len();
        let mut steady = Steady::new(n, if self.jitter.is_some() { varied::ITERATIONS } else { ITERATIONS_MAX });
        let mut events = 0usize;
        loop {
            let now = self.times.first();
            let mut pivot_started = false;
            // At most events a single job is due, which one descent in the tree finds out.
            let (mut from, only) = (0, self.times.only(now));
            while let Some(j) = only.or_else(|| self.times.due(now, from)) {
                from = j + 1;
                // The bound is asked here too, so that segments without length cannot keep the time from moving on.
                while self.jobs[j].until == now && events < EVENTS_PER_JOB_MAX.saturating_mul(n) {
                    events += 1;
                    if self.step(j, now) {
                        pivot_started |= j == self.layout.pivot;
                        steady.started(j, now, self.slips(j));
                    }
                }
                if only.is_some() {
                    break;
                }
            }
            // All due jobs have stepped before links are shared, so the order among them changes no share.
            self.share_again(now);
            // Every cycle has a start of the pivot in it, so comparing states at these starts misses none.
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
            // The slot was taken when the wait began (`Gate::release`), so the gate is not asked a second time.
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
        self.sharing.enter(j, &spec.uses);
        let (left, speed) = (self.layout.work(spec), self.layout.rates.one());
        let length = match &mut self.jitter {
            // Only Down phases vary: an Up phase carries a fixed volume.
            Some(jitter) if spec.uses.is_empty() => jitter.vary(j, spec.length),
            _ => spec.length,
        };
        let until = now.saturating_add(length);
        self.jobs[j] = JobState { doing: Doing::Segment(segment), left, since: now, speed, until, started: self.jobs[j].started };
        self.set_until(j, until);
        self.entered[j] = now;
    }

    fn set_until(&mut self, j: usize, until: u64) {
        self.jobs[j].until = until;
        // A job may change more than once in an instant, so the tree takes over its time only at the end of it (`share_again`).
        self.touched.push(j as u32);
    }

    fn leave(&mut self, j: usize, segment: u32, now: u64) {
        let spec = &self.layout.segments[j][segment as usize];
        if !spec.uses.is_empty() {
            // The pace of the Up segments so far stands for the rest of an iteration that does not end in time (`rest`).
            self.ups[j].0 = self.ups[j].0.saturating_add(now - self.entered[j]);
            self.ups[j].1 = self.ups[j].1.saturating_add(spec.solo);
        }
        self.sharing.leave(j);
    }

    /// Shares the changed links anew and adjusts the jobs on them.
    fn share_again(&mut self, now: u64) {
        self.sharing.share_again();
        while let Some((j, speed)) = self.sharing.next_moved() {
            self.adjust(j, speed, now);
        }
        while let Some(j) = self.touched.pop() {
            self.times.set(j as usize, self.jobs[j as usize].until);
        }
    }

    fn adjust(&mut self, j: usize, speed: u64, now: u64) {
        let job = &mut self.jobs[j];
        if speed != job.speed {
            // Ends are rounded up to a nanosecond, so by then the job may have done more than was left.
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
        // Speeds are not part of the state: they follow from the segments in which the jobs are. Times are relative, because
        // absolute ones never recur.
        let slot = self.gates.as_ref().map_or(0, |g| g[j].state(now));
        match job.doing {
            // No segment has the largest number, so a wait is no segment.
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
            if spec.uses.is_empty() {
                down += u128::from(left);
            } else {
                up += u128::from(left);
                // The segment under way counts into the pace with what it has done so far.
                let whole = spec.solo;
                let (so_far, done) = wide((now - self.entered[j], whole.saturating_sub(left)));
                (took, alone) = (took + so_far, alone + done);
            }
            next = s as usize + 1;
        }
        for spec in &segments[next..] {
            let length = u128::from(spec.solo);
            *(if spec.uses.is_empty() { &mut down } else { &mut up }) += length;
        }
        // A pace above that of the job alone is only rounding, so the rest is never shorter than alone.
        let up = (up * took.max(alone)).checked_div(alone).unwrap_or(up);
        u64::try_from(down + up).unwrap_or(u64::MAX)
    }

    fn slips(&self, j: usize) -> u64 {
        self.gates.as_ref().map_or(0, |g| g[j].slips)
    }
}
