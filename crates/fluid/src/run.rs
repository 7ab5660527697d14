//! The event loop: one run of a component until it is steady or a bound is met.

use alloc::{vec, vec::Vec};

use turns::Timers;

use crate::{
    EVENTS_PER_JOB_MAX, WORK_MAX,
    asking::Asking,
    gate::Gate,
    layout::Layout,
    share::Sharing,
    steady::{Measured, Meter, Steady},
    varied::{Jitter, Length},
};

/// What holds and what disturbs the jobs: by default nothing, and all begin at time 0.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Each job begins at its gate's first slot and passes the gate.
    pub(crate) gates: Option<Vec<Gate>>,
    /// Down phases vary.
    pub(crate) jitter: Option<Jitter>,
    /// Jobs take turns.
    pub(crate) turns: Option<Asking>,
    /// When each job starts first, where that is not its gate's first slot; none starts at 0.
    pub(crate) first: Vec<u64>,
    /// How long to run, where that is not what the rules above need.
    pub(crate) length: Option<Length>,
    /// Most demands that the run looks at, where that is less than [`WORK_MAX`].
    pub(crate) work_max: Option<u64>,
}

/// What a run saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Per job.
    pub(crate) jobs: Vec<Measured>,
    pub(crate) meter: Meter,
    /// It ended because of [`Rules::work_max`] or [`WORK_MAX`], before it saw all that it was to see.
    pub(crate) cut_short: bool,
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Held by the gate, or not started yet.
    Waiting,
    /// In that segment.
    Segment(u32),
    /// Waits for its turn to enter that segment.
    Turn(u32),
    /// Has its turn, and will know of it.
    Granted(u32),
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

/// A run that stops where it is told to, can be looked at there, and goes on.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    layout: &'a Layout,
    gates: Option<Vec<Gate>>,
    jitter: Option<Jitter>,
    turns: Option<Asking>,
    jobs: Vec<JobState>,
    /// `until` of every job, once [`Run::share_again`] has taken over those of `touched`; then that of the arbiter.
    times: Timers,
    /// Jobs whose `until` changed at this instant.
    touched: Vec<u32>,
    sharing: Sharing<'a>,
    /// When each job entered its segment.
    entered: Vec<u64>,
    /// Of each job's Up segments so far: how long they took, and how long they take alone.
    ups: Vec<(u64, u64)>,
    steady: Steady,
    /// Of the time until `now`.
    meter: Meter,
    now: u64,
    /// Jobs that ended or began something so far.
    events: usize,
    work_max: u64,
}

/// Runs all jobs until they are steady or a bound is met; with jitter or by turns, always to the bound.
pub(crate) fn run(layout: &Layout, rules: Rules) -> Seen {
    let length = rules.length;
    let mut run = Run::new(layout, rules);
    let length = length.unwrap_or(if run.is_exact() { Length::EXACT } else { Length::varied(layout.segments.len()) });
    run.until(length)
}

impl<'a> Run<'a> {
    /// Nothing has happened yet. The length is that of [`Run::until`].
    pub(crate) fn new(layout: &'a Layout, rules: Rules) -> Self {
        let Rules { gates, jitter, turns, first, length, work_max } = rules;
        let n = layout.segments.len();
        let waiting = JobState { doing: Doing::Waiting, left: 0, since: 0, speed: layout.rates.one(), until: 0, started: 0 };
        let mut jobs = vec![waiting; n];
        for (job, gate) in jobs.iter_mut().zip(gates.iter().flatten()) {
            job.until = gate.first();
        }
        jobs.iter_mut().zip(first).for_each(|(job, first)| job.until = first);
        let starts: Vec<u64> = jobs.iter().map(|j| j.until).chain([u64::MAX]).collect();
        Self {
            layout,
            gates,
            jitter,
            turns,
            times: Timers::new(starts.into_iter()),
            touched: Vec::new(),
            jobs,
            sharing: Sharing::new(&layout.rates, n),
            entered: vec![0; n],
            ups: vec![(0, 0); n],
            steady: Steady::new(n, length.map_or(0, |l| l.bound)),
            meter: Meter::default(),
            now: 0,
            events: 0,
            work_max: work_max.map_or(WORK_MAX, |most| most.min(WORK_MAX)),
        }
    }

    /// Runs until the jobs are steady or that length is met, and says what was seen by then. A longer length goes on from there.
    pub(crate) fn until(&mut self, length: Length) -> Seen {
        // Without a job no event would ever end the loop.
        if self.jobs.is_empty() {
            return Seen::default();
        }
        while !self.steady.is_over(length.bound) && self.events < self.events_max() && self.work() < self.work_max && !self.instant() {}
        let cut_short = self.work() >= self.work_max && !self.steady.is_over(length.bound);
        let jobs = self.steady.measure(length.warm_up, self.now, |j| self.rest(j, self.now));
        Seen { jobs, meter: self.steady.metered_after(length.warm_up, self.meter), cut_short }
    }

    /// What the run has cost: events of many jobs on one link look at all of them.
    pub(crate) fn work(&self) -> u64 {
        self.sharing.work() + self.turns.as_ref().map_or(0, Asking::work)
    }

    fn events_max(&self) -> usize {
        EVENTS_PER_JOB_MAX.saturating_mul(self.jobs.len())
    }

    /// All that happens at the next time at which anything does; true when the state was there before.
    fn instant(&mut self) -> bool {
        let n = self.jobs.len();
        let now = self.times.first();
        self.measure_links(now);
        let mut pivot_started = false;
        // At most events a single job is due, which one descent in the tree finds out.
        let (mut from, only) = (0, self.times.only(now));
        while let Some(j) = only.or_else(|| self.times.due(now, from)) {
            from = j + 1;
            if j == n {
                // The arbiter comes last, so all that happens at this instant is told it before its time has come.
                self.events += 1;
                self.turns.iter_mut().for_each(|t| t.tick(now));
                break;
            }
            // The bound is asked here too, so that segments without length cannot keep the time from moving on.
            while self.jobs[j].until == now && self.events < self.events_max() {
                self.events += 1;
                pivot_started |= self.step(j, now) && self.notes_start(j, now);
            }
            if only.is_some() {
                break;
            }
        }
        while let Some((j, at)) = self.turns.as_mut().and_then(|t| t.granted(now)) {
            pivot_started |= self.take_turn(j, at, now) && self.notes_start(j, now);
        }
        // All due jobs have stepped before links are shared, so the order among them changes no share.
        self.share_again(now);
        // Every cycle has a start of the pivot in it, so comparing states at these starts misses none.
        pivot_started && self.looks(now)
    }

    /// Notes that an iteration of job `j` began; true of the pivot.
    fn notes_start(&mut self, j: usize, now: u64) -> bool {
        self.steady.started(j, now, self.slips(j));
        j == self.layout.pivot
    }

    /// Whether equal states have equal futures: jitter has no state to compare, and what an arbiter knows is not compared.
    fn is_exact(&self) -> bool {
        self.jitter.is_none() && self.turns.is_none()
    }

    /// Counts the time until `now` for each link that is in use, or over its capacity.
    fn measure_links(&mut self, now: u64) {
        let (passed, (over, busy)) = (now - self.now, self.sharing.crowded_and_busy());
        self.now = now;
        let add = |sum: u64, links: u32| sum.saturating_add(passed.saturating_mul(u64::from(links)));
        self.meter = Meter { over: add(self.meter.over, over), busy: add(self.meter.busy, busy) };
    }

    /// Notes a start of the pivot; true when the state was there before. Under jitter and by turns none is looked for.
    fn looks(&mut self, now: u64) -> bool {
        if !self.is_exact() {
            self.steady.passes(now, self.meter);
            return false;
        }
        let (n, mut steady) = (self.jobs.len(), core::mem::take(&mut self.steady));
        let recurs = steady.recurs(now, self.meter, (0..n).flat_map(|j| self.state(j, now)), (0..n).map(|j| self.slips(j)));
        self.steady = steady;
        recurs
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
            // Such a job has no time at which it is due (`take_turn`).
            Doing::Turn(s) => s,
            Doing::Granted(s) => {
                self.enter(j, s, now);
                return s == 0 && self.begun(j);
            }
        };
        if (next as usize) < self.layout.segments[j].len() {
            return self.arrive(j, next, now);
        }
        let release = self.gates.as_mut().map_or(now, |g| g[j].release(now));
        if release > now {
            self.jobs[j].doing = Doing::Waiting;
            self.set_until(j, release);
            return false;
        }
        self.arrive(j, 0, now)
    }

    /// Job `j` enters a segment, or waits for its turn to; true when an iteration begins.
    fn arrive(&mut self, j: usize, segment: u32, now: u64) -> bool {
        if self.turns.as_mut().is_some_and(|t| t.arrives(j, segment, now)) {
            self.jobs[j].doing = Doing::Turn(segment);
            self.set_until(j, u64::MAX);
            return false;
        }
        self.enter(j, segment, now);
        segment == 0 && self.begun(j)
    }

    /// Job `j` may enter the segment before which it waits, and does so at `at`; true when an iteration begins now.
    fn take_turn(&mut self, j: usize, at: u64, now: u64) -> bool {
        let Doing::Turn(segment) = self.jobs[j].doing else { return false };
        if at > now {
            self.jobs[j].doing = Doing::Granted(segment);
            self.set_until(j, at);
            return false;
        }
        self.enter(j, segment, now);
        segment == 0 && self.begun(j)
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
        if let Some(turns) = &mut self.turns {
            turns.leaves(j, segment, now);
        }
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
        if let Some(turns) = &self.turns {
            self.times.set(self.jobs.len(), turns.deadline(now));
        }
    }

    fn adjust(&mut self, j: usize, speed: u64, now: u64) {
        let job = &mut self.jobs[j];
        if speed != job.speed {
            // Ends are rounded up to a nanosecond, so by then the job may have done more than was left.
            job.left = job.left.saturating_sub((now - job.since).saturating_mul(job.speed));
            (job.since, job.speed) = (now, speed);
            // An end in this very instant waits one nanosecond, so that time always moves on.
            let until = now.saturating_add(self.layout.rates.time_of(job.left, speed).max(1));
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
            Doing::Waiting | Doing::Turn(_) | Doing::Granted(_) => [u64::MAX, job.until - now, slot],
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
        } else if let Doing::Turn(s) | Doing::Granted(s) = self.jobs[j].doing {
            next = s as usize;
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

#[cfg(test)]
mod tests {
    use std::println;

    use circle::Phase;
    use units::{Nanos, Rate, Ticks};

    use super::*;
    use crate::{FluidJob, FluidLink, jitter::JITTER_PERMILLE};

    const MS: u64 = 1_000_000;

    /// A ring of jobs of periods that do not lock, each meeting its neighbours: how far what the shorter run says of them is from the mean
    /// of six runs of all iterations. In the mean, of nine jobs in ten, and at most.
    fn off(jobs: usize) -> [f64; 3] {
        let period = |j: usize| [100, 120, 150, 180, 240, 300][j * 7 % 6] * MS;
        let up = |j: usize| [Phase { start: Ticks(0), end: Ticks(period(j) * (25 + j as u64 % 20) / 100), rate: Rate(45_000) }];
        let phases: Vec<[Phase; 1]> = (0..jobs).map(up).collect();
        let on = |l: usize| [l, (l + 1) % jobs].map(|j| (j, &phases[j][..])).to_vec();
        let links: Vec<FluidLink<'_>> = (0..jobs).map(|l| FluidLink { capacity: Rate(50_000), demands: on(l) }).collect();
        let job = |j: usize| FluidJob { iteration: Nanos(period(j)), period: Nanos(period(j)), shift: Nanos(0) };
        let layout = Layout::new(&(0..jobs).map(job).collect::<Vec<_>>(), &links);
        let once = |seed: u64, length: Length| -> Vec<f64> {
            let jitter = Some(Jitter::new(jobs, seed, JITTER_PERMILLE));
            let seen = run(&layout, Rules { jitter, length: Some(length), ..Rules::default() });
            seen.jobs.iter().map(|m| m.mean as f64).collect()
        };
        let whole: Vec<Vec<f64>> = (11..17).map(|seed| once(seed, Length::varied(1))).collect();
        let short = once(1, Length::varied(jobs));
        assert!(Length::varied(jobs).bound < Length::varied(1).bound / 2);
        let mut off: Vec<f64> = (0..jobs).map(|j| short[j] * 6.0 / whole.iter().map(|w| w[j]).sum::<f64>() - 1.0).collect();
        let mean = off.iter().sum::<f64>() / jobs as f64;
        off.iter_mut().for_each(|o| *o = o.abs());
        off.sort_by(f64::total_cmp);
        let off = [mean, off[jobs * 9 / 10], off[jobs - 1]];
        println!("{jobs} jobs: mean {:.4}, nine in ten within {:.4}, all within {:.4}", off[0], off[1], off[2]);
        off
    }

    #[test]
    fn many_jobs_run_for_less() {
        let [mean, most, all] = off(300);
        assert!(mean.abs() < 0.002 && most < 0.015 && all < 0.03, "{mean} {most} {all}");
        let [mean, most, all] = off(32);
        assert!(mean.abs() < 0.004 && most < 0.02 && all < 0.03, "{mean} {most} {all}");
    }
}
