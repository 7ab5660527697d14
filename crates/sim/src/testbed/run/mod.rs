//! The event loop: jobs in a closed loop, each behind its gate.

mod skip;
mod turns;

use alloc::{collections::BTreeMap, vec::Vec};

use ::turns::Timers;
use gate_core::{Decision, Hold, PhaseLock, Reason, Schedule, StepOutcome, TurnWait, Verdict};
use units::Nanos;

use crate::testbed::{
    Case, Config, Control, Ended, Fault, IterationRecord, Report, SimError, Transport, TurnStart,
    agenda::{Agenda, SimEvent},
    agents::Agents,
    control_plane::ControlPlane,
    drift::Drift,
    layout::Layout,
    network::Network,
    noise::Noise,
    report::{LinkMemory, Memory, report},
    stats::Interval,
    steady::Watch,
    turns::TurnSystem,
};

use self::turns::Taking;

/// Most events of one run: about a minute of work.
pub const EVENTS_MAX: u64 = 100_000_000;

/// The present activity of a job.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Not begun yet.
    Nothing,
    /// The job's lifetime is over.
    Gone,
    /// Held since it came to its gate.
    Held { hold: Hold, ready: u64, slip: bool },
    /// Waiting for its turn with that step since it came to its gate.
    Turn { wait: TurnWait, ready: u64, step: u32 },
    /// Delayed since it was ready, by an agent that corrects drift.
    Delayed { ready: u64 },
    /// In that step since then.
    Step { step: u32, since: u64 },
}

#[derive(Debug)]
struct JobState {
    doing: Doing,
    /// The memory of the job's gate: the slot that was taken last.
    lock: PhaseLock,
    drift: Option<Drift>,
    taking: Taking,
    noise: Noise,
    /// The iteration under way.
    record: IterationRecord,
    memory: Memory,
    /// Extra compute time of this iteration, not spent yet.
    extra: u64,
    stragglers: BTreeMap<u64, u64>,
    /// How much of its workload the job does, in thousandths: what it computes and what it sends.
    work: (u32, u32),
    /// When that changes.
    changes: BTreeMap<u64, (u32, u32)>,
    /// The end of the warm-up does not wait for the job: it has a lifetime, or has ended its own.
    passing: bool,
}

struct Run<'a> {
    case: &'a Case<'a>,
    config: &'a Config,
    layout: &'a Layout,
    network: Network<'a>,
    timers: Timers,
    jobs: Vec<JobState>,
    agents: Agents,
    agenda: Agenda,
    control_plane: Option<ControlPlane<'a>>,
    /// Agents and service, as far as turns go. When the service plans turns, its control plane hands the groups over here.
    turn_system: Option<TurnSystem<'a>>,
    starts: Vec<TurnStart>,
    /// Jobs that have not ended their warm-up, and those that have not done all their iterations.
    warming: usize,
    busy: usize,
    counting_since: Option<u64>,
    /// Marks of each overloadable link when counting began.
    marks_before: Vec<f64>,
    events: u64,
    /// Looks for a state that comes again; `None` when there is none to be expected.
    watch: Option<Watch>,
    /// The job of the longest iteration, whose starts are looked at, and whether it just started.
    pivot: u32,
    pivot_started: bool,
    copied_cycles: u64,
}

/// Runs a case.
///
/// # Errors
/// The case or the configuration is malformed; see [`SimError`].
pub fn run(case: &Case<'_>, config: &Config) -> Result<Report, SimError> {
    config.validate(case.jobs.len())?;
    let layout = Layout::new(case.router, case.jobs)?;
    let mut run = Run::new(case, config, &layout)?;
    let ended = run.until_ended()?;
    Ok(run.report(ended))
}

impl<'a> Run<'a> {
    fn new(case: &'a Case<'a>, config: &'a Config, layout: &'a Layout) -> Result<Self, SimError> {
        let n = case.jobs.len();
        let alone = config.lifetimes.is_empty() && matches!(config.control, Control::Free | Control::Direct(_));
        let alone = alone && config.transport == Transport::Fair && !config.faults.iter().any(|f| matches!(f, Fault::JobRestarts { .. }));
        // Random numbers, the service, turns and lifetimes are no part of `Run::state`: a state that comes again proves nothing with them.
        let repeats = config.skip && config.jitter_permille == 0 && alone && config.changes.is_empty();
        let mut run = Self {
            case,
            config,
            layout,
            network: Network::new(layout, &config.ecn, config.transport),
            // The last timer is the agenda's.
            timers: Timers::stopped(n + 1),
            jobs: (0..n).map(|j| JobState::new(config, j as u32)).collect(),
            agents: Agents::new(case, &config.clocks, &config.faults)?,
            agenda: Agenda::default(),
            control_plane: None,
            turn_system: None,
            starts: Vec::new(),
            warming: n,
            busy: n,
            counting_since: None,
            marks_before: Vec::new(),
            events: 0,
            watch: repeats.then(Watch::default),
            // The longest iteration starts least often, so the fewest states are compared. `rev` makes the first of equal jobs the pivot.
            pivot: (0..n as u32).rev().max_by_key(|j| case.jobs[*j as usize].workload.unhindered()).unwrap_or(0),
            pivot_started: false,
            copied_cycles: 0,
        };
        run.take_control();
        run.plan_faults()?;
        // Lifetimes come after the first starts, because they replace the start of each job that they name.
        case.jobs.iter().zip(0..).for_each(|(job, j)| run.timers.set(j, job.begins.0));
        run.plan_lifetimes();
        run.set_agenda_timer();
        Ok(run)
    }

    fn take_control(&mut self) {
        let (case, config) = (self.case, self.config);
        match &config.control {
            Control::Free => {}
            Control::Direct(slots) => {
                for (j, job) in (0..).zip(case.jobs) {
                    // A job without a slot gets no page, and its gate lets it go at once.
                    self.agents.write(j, slots.iter().find(|s| s.job == job.job.name).cloned(), 0);
                }
            }
            Control::Drift(slots) => {
                for (state, job) in self.jobs.iter_mut().zip(case.jobs) {
                    state.drift = slots.iter().find(|s| s.job == job.job.name).map(|s| Drift::new(s.times.period, s.times.offset));
                }
            }
            Control::Turns(control) => {
                self.turn_system = Some(TurnSystem::new(case, control, config, &self.agents, &mut self.agenda));
                self.write_turn_pages();
            }
            Control::Service(control) => {
                self.control_plane = Some(ControlPlane::new(case, control, config, self.agents.hosts(case), &mut self.agenda));
            }
        }
    }

    fn plan_lifetimes(&mut self) {
        for life in &self.config.lifetimes {
            self.jobs[life.job as usize].passing = true;
            // The warm-up ends with the last job that stays: a job that comes late would hold the counting back.
            self.warming -= 1;
            self.timers.set(life.job as usize, life.arrives.0.saturating_add(self.case.jobs[life.job as usize].begins.0));
            self.agenda.add(life.arrives.0, SimEvent::Arrives(life.job));
            if let Some(departs) = life.departs {
                self.agenda.add(departs.0, SimEvent::Departs(life.job));
            }
        }
        // With a lifetime for every job nobody warms up, and everything counts from the beginning.
        if self.warming == 0 {
            self.count_from(0);
        }
    }

    /// Counts everything from now on.
    fn count_from(&mut self, now: u64) {
        self.counting_since = Some(now);
        self.agenda.add(now, SimEvent::Count);
    }

    /// Ends a job in the middle of what it does.
    fn depart(&mut self, job: u32, now: u64) {
        self.kill(job, now);
        // The service removes the page of a job that departs; without a service nobody else would.
        if matches!(self.config.control, Control::Direct(_)) {
            self.agents.write(job, None, now);
        }
        let state = &mut self.jobs[job as usize];
        state.doing = Doing::Gone;
        // `end_iteration` has counted a job with all its iterations out of `busy` already.
        if (state.memory.records.len() as u64) < self.config.records_wanted() {
            self.busy -= 1;
        }
    }

    /// The processes of a job die, whatever they do.
    fn kill(&mut self, job: u32, now: u64) {
        self.timers.stop(job as usize);
        // A transfer under way ends here, so its links are shared anew among the jobs that stay.
        if let Doing::Step { step, since } = self.jobs[job as usize].doing {
            self.end_step(job, step, since, now);
        }
        self.note_end(job, now, false);
    }

    fn plan_faults(&mut self) -> Result<(), SimError> {
        for fault in &self.config.faults {
            match fault {
                Fault::AgentDies { host, at } => self.agenda.add(at.0, SimEvent::AgentDies(self.agents.find(self.case, host)?)),
                Fault::AgentReturns { host, at } => self.agenda.add(at.0, SimEvent::AgentReturns(self.agents.find(self.case, host)?)),
                // The second step takes the first one back, so that steps of one clock may overlap.
                Fault::ClockStep { host, at, by, lasts } => {
                    let agent = self.agents.find(self.case, host)?;
                    self.agenda.add(at.0, SimEvent::ClockStep(agent, *by));
                    self.agenda.add(at.0.saturating_add(lasts.0), SimEvent::ClockStep(agent, by.saturating_neg()));
                }
                Fault::ServiceDies { at } => self.agenda.add(at.0, SimEvent::ServiceDies),
                Fault::ServiceReturns { at } => self.agenda.add(at.0, SimEvent::ServiceReturns),
                Fault::Partition { host, at, lasts } => {
                    let agent = self.agents.find(self.case, host)?;
                    self.agenda.add(at.0, SimEvent::Cut(agent, true));
                    self.agenda.add(at.0.saturating_add(lasts.0), SimEvent::Cut(agent, false));
                }
                Fault::JobRestarts { job, at, after } => {
                    if *job as usize >= self.jobs.len() {
                        return Err(SimError::Config { what: "restart: job", value: u64::from(*job), problem: "unknown" });
                    }
                    self.agenda.add(at.0, SimEvent::JobRestarts(*job, after.0));
                }
                Fault::Straggler { job, iteration, extra } => {
                    // A straggler's time is added to a compute step, so a job that only sends would never spend it.
                    let computes = self.layout.jobs.get(*job as usize).is_some_and(|steps| steps.iter().any(|s| !s.sends));
                    if !computes {
                        return Err(SimError::Config {
                            what: "straggler: job",
                            value: u64::from(*job),
                            problem: "unknown, or never computes",
                        });
                    }
                    self.jobs[*job as usize].stragglers.insert(*iteration, extra.0);
                }
            }
        }
        Ok(())
    }

    fn set_agenda_timer(&mut self) {
        if let Some(time) = self.agenda.next_time() {
            self.timers.set(self.case.jobs.len(), time);
        }
    }

    fn until_ended(&mut self) -> Result<(Ended, u64), SimError> {
        let mut now = 0;
        // The loop ends at `until` or after `EVENTS_MAX` events at the latest; a faulty case cannot run for ever.
        while self.busy > 0 {
            let next = self.timers.first();
            if next >= self.config.until.0 {
                return Ok((Ended::OutOfTime, self.config.until.0));
            }
            now = next;
            // Links are shared once, after all that happens at this instant: the order of jobs within an instant changes no share.
            // A step lasts at least 1 ns, so a step that begins in this loop does not end in it.
            while let Some(timer) = self.timers.take_due(now) {
                self.events += 1;
                if timer == self.jobs.len() { self.happen(now)? } else { self.advance(timer as u32, now) }
            }
            let timers = &mut self.timers;
            self.network.settle(now, |job, end| timers.set(job as usize, end));
            // Speeds are settled before the state is compared, because the state holds the speed of every transfer.
            if core::mem::take(&mut self.pivot_started) {
                now = self.skip_cycles(now);
            }
            if self.events >= EVENTS_MAX {
                return Ok((Ended::OutOfWork, now));
            }
        }
        Ok((Ended::Done, now))
    }

    /// Handles what the agenda has for now.
    fn happen(&mut self, now: u64) -> Result<(), SimError> {
        while let Some(what) = self.agenda.take_due(now) {
            // The agents come first and the service second: the service then sees an agent that has already died or returned.
            let mut touched = None;
            match &what {
                SimEvent::Count => {
                    self.marks_before = (0..self.layout.overloadable.capacities().len() as u32)
                        .map(|l| self.network.marks(l, now, &self.config.ecn))
                        .collect();
                }
                SimEvent::AgentDies(agent) => {
                    self.agents.die(*agent, now);
                    touched = Some(*agent);
                }
                SimEvent::AgentReturns(agent) => {
                    self.agents.come_back(*agent);
                    touched = Some(*agent);
                }
                SimEvent::ClockStep(agent, by) => {
                    self.agents.step_clock(*agent, *by);
                    touched = Some(*agent);
                }
                SimEvent::Departs(job) => self.depart(*job, now),
                _ => {}
            }
            self.happen_to_turns(now, &what);
            if let Some(control_plane) = &mut self.control_plane {
                touched = control_plane.happen(now, what, &mut self.agents, &mut self.agenda).or(touched);
                // A case whose jobs the service refuses has no result; its numbers would be those of jobs that run free.
                if let Some(refusal) = control_plane.refusal() {
                    return Err(refusal);
                }
            }
            if let Some(agent) = touched {
                // Pages of this agent may read differently now, so its held jobs decide at once and not at their old slots.
                let jobs: Vec<u32> = self.agents.led_by(agent).collect();
                jobs.into_iter().for_each(|job| self.look_again(job, now));
            }
        }
        // The agenda's timer fired and stopped, so it is set for the next entry.
        self.set_agenda_timer();
        Ok(())
    }

    /// A job's timer fired: what it was doing has ended.
    fn advance(&mut self, job: u32, now: u64) {
        if let Some(at) = self.network.goes_on(job, now) {
            return self.timers.set(job as usize, at);
        }
        let next = match self.jobs[job as usize].doing {
            Doing::Gone => return,
            Doing::Nothing => return self.arrive(job, now),
            Doing::Held { .. } | Doing::Turn { .. } => return self.look_again(job, now),
            Doing::Delayed { ready } => return self.start(job, ready, now, Reason::OnTime, false),
            Doing::Step { step, since } => {
                self.end_step(job, step, since, now);
                if self.ends_turn(job, step) {
                    self.end_turn(job, now);
                }
                step + 1
            }
        };
        if (next as usize) < self.layout.jobs[job as usize].len() {
            self.begin_step(job, next, now);
        } else {
            self.end_iteration(job, now);
            self.arrive(job, now);
        }
    }

    /// The job comes to its gate.
    fn arrive(&mut self, job: u32, now: u64) {
        if self.turn_system.as_ref().is_some_and(|system| system.takes(job)) {
            return self.arrive_by_turns(job, now);
        }
        if let Some(at) = self.jobs[job as usize].drift.as_mut().map(|drift| drift.start(now)).filter(|at| *at > now) {
            self.jobs[job as usize].doing = Doing::Delayed { ready: now };
            return self.timers.set(job as usize, at);
        }
        let schedule = self.agents.schedule(job, now);
        let node = self.agents.node(job, now);
        let lock = self.jobs[job as usize].lock;
        match schedule.map(|s| (lock.decide(node, &s), s)) {
            // Without a page the gate fails open: the job goes at once, and the reason is counted.
            Err(because) => self.start(job, now, now, because, false),
            Ok((Decision::Go { because, .. }, _)) => self.start(job, now, now, because, false),
            Ok((Decision::Wait { until, slip }, schedule)) => {
                // `Hold` bounds the wait by the page's `hold_max`, which is what a production gate does.
                let hold = lock.hold(node, until, &schedule);
                self.jobs[job as usize].doing = Doing::Held { hold, ready: now, slip };
                self.wake_at(job, &hold, &schedule);
            }
        }
    }

    /// A held job looks at its page: its slot has come, or something changed.
    fn look_again(&mut self, job: u32, now: u64) {
        let Doing::Held { mut hold, ready, slip } = self.jobs[job as usize].doing else {
            return self.look_for_turn(job, now);
        };
        let schedule = self.agents.schedule(job, now);
        match (hold.check(self.agents.node(job, now), schedule.as_ref().map_err(|r| *r)), schedule) {
            (Verdict::Wait(_), Ok(schedule)) => {
                self.jobs[job as usize].doing = Doing::Held { hold, ready, slip };
                self.wake_at(job, &hold, &schedule);
            }
            (Verdict::Start(because), _) => self.start(job, ready, now, because, slip),
            // `Hold::check` never waits without a page; this arm keeps the match complete, and fails open as gates do.
            (Verdict::Wait(_), Err(because)) => self.start(job, ready, now, because, slip),
        }
    }

    fn wake_at(&mut self, job: u32, hold: &Hold, schedule: &Schedule) {
        // A production gate looks at its page again and again; here the only two instants that can change its mind are computed.
        let slot = self.agents.time_of(job, hold.until());
        self.timers.set(job as usize, slot.min(self.agents.distrusted_at(job, schedule)));
    }

    fn start(&mut self, job: u32, ready: u64, now: u64, because: Reason, slip: bool) {
        // The page is read again, because a hold may have outlived the page that it began with.
        let schedule = self.agents.schedule(job, now).ok();
        let start = self.agents.node(job, now);
        let late = schedule.and_then(|s| s.phase_error(start));
        let held = Nanos(now - ready);
        let plan_version = schedule.map_or(0, |s| s.plan_version);
        let outcome = StepOutcome { because, start, held, slip, late, plan_version };
        self.agents.record(job, &outcome);
        let state = &mut self.jobs[job as usize];
        if let Some(schedule) = schedule {
            // `PhaseLock::started` ignores a start that failed open: such a start takes no slot.
            state.lock.started(&outcome, &schedule);
        }
        let at = Nanos(now);
        state.record =
            IterationRecord { ready: Nanos(ready), start: at, because, slip, late, comm_start: at, comm_end: at, comm: Nanos(0), end: at };
        let number = state.memory.records.len() as u64;
        self.pivot_started |= job == self.pivot;
        state.extra = state.stragglers.get(&number).copied().unwrap_or(0);
        if let Some(work) = state.changes.get(&number) {
            state.work = *work;
            self.network.set_work(job, work.1);
        }
        let state = &mut self.jobs[job as usize];
        // Counting begins with the slowest job's first iteration after its warm-up, so no job is counted while another settles.
        if number == self.config.warm_up && !core::mem::replace(&mut state.passing, true) {
            self.warming -= 1;
            if self.warming == 0 {
                self.count_from(now);
                // `count_from` has put an entry at this very instant on the agenda, whose timer may be set for later.
                self.set_agenda_timer();
            }
        }
        self.enter_step(job, 0, now);
    }

    fn begin_step(&mut self, job: u32, step: u32, now: u64) {
        if self.asks_before(job, step) { self.ask(job, step, now) } else { self.enter_step(job, step, now) }
    }

    fn enter_step(&mut self, job: u32, step: u32, now: u64) {
        let span = &self.layout.jobs[job as usize][step as usize];
        let end = if span.sends {
            self.network.enter(job, step, now)
        } else {
            let state = &mut self.jobs[job as usize];
            // The first compute step of an iteration spends a straggler's extra time; `take` keeps the later steps from spending it again.
            let time = permille(state.noise.jitter(span.length).0, state.work.0).saturating_add(core::mem::take(&mut state.extra));
            // Time always moves on.
            now.saturating_add(time.max(1))
        };
        self.jobs[job as usize].doing = Doing::Step { step, since: now };
        self.timers.set(job as usize, end);
    }

    fn end_step(&mut self, job: u32, step: u32, since: u64, now: u64) {
        if !self.layout.jobs[job as usize][step as usize].sends {
            return;
        }
        self.network.leave(job, now);
        let state = &mut self.jobs[job as usize];
        let sent = Interval { start: Nanos(since), end: Nanos(now) };
        state.memory.comms.push(sent);
        // Every transfer takes at least 1 ns, so no communication time yet means that this was the first transfer of the iteration.
        if state.record.comm == Nanos(0) {
            state.record.comm_start = sent.start;
        }
        state.record.comm_end = sent.end;
        state.record.comm.0 += now - since;
        let all = Nanos(now - state.record.start.0);
        if !self.layout.jobs[job as usize][step as usize + 1..].iter().any(|span| span.sends) {
            self.agents.ended(job, all);
        }
    }

    fn end_iteration(&mut self, job: u32, now: u64) {
        let state = &mut self.jobs[job as usize];
        state.record.end = Nanos(now);
        state.memory.records.push(state.record);
        // Equality and not `>=`: jobs go on until all are done, and each is counted out of `busy` once.
        if state.memory.records.len() as u64 == self.config.records_wanted() {
            self.busy -= 1;
        }
    }

    fn report(mut self, (ended, now): (Ended, u64)) -> Report {
        let fabric = self.case.router.fabric();
        // A run that never came out of its warm-up counts nothing.
        let from = Nanos(self.counting_since.unwrap_or(now));
        let mut links = Vec::new();
        // A link with one job that cannot fill it has no overlap and no marks, so there is nothing to report.
        for crossed in self.layout.links.iter().filter(|l| l.jobs.len() > 1 || l.overloadable.is_some()) {
            let before = |l: u32| self.marks_before.get(l as usize).copied();
            let marks = crossed.overloadable.and_then(|l| Some(self.network.marks(l, now, &self.config.ecn) - before(l)?));
            let (link, name) = (crossed.link, fabric.link_name(crossed.link));
            links.push(LinkMemory { link, name, jobs: crossed.jobs.clone(), marks: marks.unwrap_or(0.0) });
        }
        for (state, steps) in self.jobs.iter_mut().zip(&self.layout.jobs) {
            // A transfer that the end of the run cuts off counts up to here.
            if let Doing::Step { step, since } = state.doing
                && since < now
                && steps[step as usize].sends
            {
                state.memory.comms.push(Interval { start: Nanos(since), end: Nanos(now) });
            }
        }
        let names: Vec<&str> = self.case.jobs.iter().map(|j| j.job.name.as_str()).collect();
        let memories = self.jobs.into_iter().map(|j| j.memory).collect();
        let (service, copied_cycles) = (self.control_plane.map(ControlPlane::report), self.copied_cycles);
        let turns = turns::report(self.turn_system, self.starts);
        Report { service, copied_cycles, turns, ..report(&names, memories, links, (from, Nanos(now)), (ended, self.events)) }
    }
}

fn permille(time: u64, of: u32) -> u64 {
    u64::try_from(u128::from(time) * u128::from(of) / 1_000).unwrap_or(u64::MAX)
}

impl JobState {
    fn new(config: &Config, job: u32) -> Self {
        let never = Nanos(0);
        Self {
            doing: Doing::Nothing,
            lock: PhaseLock::default(),
            drift: None,
            taking: Taking::new(config, job),
            noise: Noise::new(config.seed, u64::from(job), config.jitter_permille),
            record: IterationRecord {
                ready: never,
                start: never,
                because: Reason::NoPage,
                slip: false,
                late: None,
                comm_start: never,
                comm_end: never,
                comm: never,
                end: never,
            },
            memory: Memory::default(),
            extra: 0,
            stragglers: BTreeMap::new(),
            work: (1_000, 1_000),
            changes: config
                .changes
                .iter()
                .filter(|change| change.job == job)
                .map(|change| (change.iteration, (change.compute_permille, change.send_permille)))
                .collect(),
            passing: false,
        }
    }
}
