//! Jobs that take turns: what their gates ask, and what they tell.

use alloc::vec::Vec;

use gate_core::{Note, Reason, Schedule, TurnDecision, TurnGate, Verdict};
use state::Slot;
use units::{FabricTime, Nanos};

use super::{Doing, Run};
use crate::testbed::{
    Config, Control, Liar, TurnStart, TurnsControl, TurnsReport, Went, agenda::SimEvent, config::never_lies, noise::Noise,
    turns::TurnSystem,
};

/// The gate of a job that takes turns.
#[derive(Debug)]
pub(super) struct Taking {
    gate: TurnGate,
    writer: u64,
    liar: Liar,
    noise: Noise,
    /// The start that sends now: its run of the gate and number, and its place in the log.
    now: Option<((u64, u64), usize)>,
    /// With which step the last start went.
    step: u32,
}

/// The streams that lies draw from begin here; jobs have the lower ones.
const STREAM: u64 = 1 << 32;

impl Taking {
    pub(super) fn new(config: &Config, job: u32) -> Self {
        let liar = config.liars.iter().find(|liar| liar.job == job).copied().unwrap_or(never_lies(job));
        let noise = Noise::new(config.seed, STREAM + u64::from(job), 0);
        Self { gate: TurnGate::new(1), writer: 1, liar, noise, now: None, step: 0 }
    }

    fn draws(&mut self, permille: impl Fn(&Liar) -> u32) -> bool {
        let permille = permille(&self.liar);
        // Who never lies draws nothing.
        permille > 0 && self.noise.below(1_000) < u64::from(permille)
    }
}

impl Run<'_> {
    fn turns(&self) -> Option<&TurnsControl> {
        match &self.config.control {
            Control::Turns(control) => Some(control),
            _ => None,
        }
    }

    /// Pages of jobs that take turns last as long as the agents write them.
    pub(super) fn write_turn_pages(&mut self) {
        for (j, job) in (0..).zip(self.case.jobs) {
            // Turns have no period, so no start is late.
            let slot = Slot { plan_version: 1, turns: true, expires: FabricTime(u64::MAX), ..Slot::none(&job.job.name) };
            let takes = self.turn_system.as_ref().is_some_and(|system| system.takes(j));
            self.agents.write(j, takes.then_some(slot), 0);
        }
    }

    /// Hands what happens to agents and service to their turns.
    pub(super) fn happen_to_turns(&mut self, now: u64, what: &SimEvent) {
        match what {
            SimEvent::TellsEnd(job, place) => self.tell_end_early(*job, *place, now),
            SimEvent::JobRestarts(job, after) => self.restart(*job, *after, now),
            SimEvent::TurnTick(job) => self.tick_turn(*job, now),
            _ => {}
        }
        let (agents, agenda) = (&mut self.agents, &mut self.agenda);
        let Some(turn_system) = &mut self.turn_system else { return };
        match what {
            SimEvent::Turns(event) => turn_system.happen(now, event.clone(), agents, agenda),
            SimEvent::Cut(agent, is_cut) => turn_system.cut(now, *agent, *is_cut, agenda),
            SimEvent::ServiceDies => turn_system.service_dies(now, agenda),
            SimEvent::ServiceReturns => turn_system.service_returns(now, agenda),
            SimEvent::AgentDies(agent) => turn_system.agent_dies(now, *agent, agenda),
            SimEvent::AgentReturns(agent) => turn_system.agent_returns(now, *agent, agents, agenda),
            _ => {}
        }
        self.plan_looks();
    }

    /// The agent of a job has a deadline, or looks at the bytes of its host.
    fn tick_turn(&mut self, job: u32, now: u64) {
        let carried = self.carried(job, now);
        let Some(turn_system) = &mut self.turn_system else { return };
        if turn_system.tick(now, job, carried, &mut self.agents, &mut self.agenda) {
            // An end that the agent found too early is like one that the job told too early.
            self.note_end(job, now, true);
        }
    }

    /// Bytes that a job has sent since it began.
    fn carried(&self, job: u32, now: u64) -> u64 {
        // A megabit a second for a nanosecond is a thousandth of a bit.
        u64::try_from(self.network.carried(job, now) / 8_000).unwrap_or(u64::MAX)
    }

    /// Gates whose page was written look at it when they are woken.
    fn plan_looks(&mut self) {
        while let Some((job, at)) = self.turn_system.as_mut().and_then(TurnSystem::next_look) {
            let waits = matches!(self.jobs[job as usize].doing, Doing::Turn { .. });
            if waits && self.timers.time_of(job as usize).is_none_or(|planned| at < planned) {
                self.timers.set(job as usize, at);
            }
        }
    }

    /// A job comes to its gate.
    pub(super) fn arrive_by_turns(&mut self, job: u32, now: u64) {
        let sends_first = self.layout.jobs[job as usize].first().is_some_and(|span| span.sends);
        if self.turns().is_some_and(|turns| turns.per_phase) && !sends_first {
            self.start(job, now, now, Reason::NotHeld, false);
        } else {
            self.ask(job, 0, now);
        }
    }

    /// Whether the job asks before a step other than the first: at each Up phase.
    pub(super) fn asks_before(&self, job: u32, step: u32) -> bool {
        let steps = &self.layout.jobs[job as usize];
        let begins = steps[step as usize].sends && step.checked_sub(1).is_none_or(|before| !steps[before as usize].sends);
        begins && self.turns().is_some_and(|turns| turns.per_phase) && self.turn_system.as_ref().is_some_and(|system| system.takes(job))
    }

    /// Whether everything that a start was for has been sent after a step.
    pub(super) fn ends_turn(&self, job: u32, step: u32) -> bool {
        let steps = &self.layout.jobs[job as usize];
        let mut rest = steps[step as usize + 1..].iter();
        let more = match self.turns() {
            None => return false,
            Some(turns) if turns.per_phase => rest.next().is_some_and(|span| span.sends),
            Some(_) => rest.any(|span| span.sends),
        };
        steps[step as usize].sends && !more
    }

    /// [`Note::phase`] of a start before a step.
    fn phase(&self, job: u32, step: u32) -> u64 {
        if !self.turns().is_some_and(|turns| turns.per_phase) {
            return gate_core::WHOLE_ITERATION;
        }
        let steps = &self.layout.jobs[job as usize][..=step as usize];
        (0..steps.len()).filter(|s| steps[*s].sends && s.checked_sub(1).is_none_or(|before| !steps[before].sends)).count() as u64
    }

    /// The page as the gate reads it.
    fn turn_page(&self, job: u32, now: u64) -> Result<Schedule, Reason> {
        let schedule = self.agents.schedule(job, now)?;
        let turn = self.turn_system.as_ref().map(|system| system.turn(job)).unwrap_or_default();
        Ok(Schedule { mode: gate_core::Mode::Turn, turn, ..schedule })
    }

    /// A job is ready to send with a step.
    pub(super) fn ask(&mut self, job: u32, step: u32, now: u64) {
        let node = self.agents.node(job, now);
        let page = self.turn_page(job, now);
        let taking = &mut self.jobs[job as usize].taking;
        match page.map(|page| taking.gate.begin(node, &page)) {
            Err(because) | Ok(TurnDecision::Go(because)) => self.go(job, step, now, now, because),
            Ok(TurnDecision::Ask { ready, wait }) => {
                let pretends = step == 0 && taking.draws(|liar| liar.never_starts_permille);
                if !self.tell(job, step, ready, now) {
                    self.go(job, step, now, now, Reason::Unheard);
                } else if pretends {
                    self.jobs[job as usize].doing = Doing::Nothing;
                    let iteration = self.case.jobs[job as usize].workload.unhindered();
                    self.timers.set(job as usize, now.saturating_add(iteration.0));
                } else {
                    self.jobs[job as usize].doing = Doing::Turn { wait, ready: now, step };
                    self.look_for_turn(job, now);
                }
            }
        }
    }

    /// A job that waits for its turn looks at its page.
    pub(super) fn look_for_turn(&mut self, job: u32, now: u64) {
        let Doing::Turn { mut wait, ready, step } = self.jobs[job as usize].doing else { return };
        let page = self.turn_page(job, now);
        match (wait.check(self.agents.node(job, now), page.as_ref().map_err(|r| *r)), page) {
            (Verdict::Wait(until), Ok(page)) => {
                self.jobs[job as usize].doing = Doing::Turn { wait, ready, step };
                self.timers.set(job as usize, self.agents.time_of(job, until).min(self.agents.distrusted_at(job, &page)));
            }
            // Without a page no wait goes on; this arm keeps the match complete.
            (Verdict::Start(because), _) | (Verdict::Wait(_), Err(because)) => self.go(job, step, ready, now, because),
        }
    }

    /// A job goes with a step.
    fn go(&mut self, job: u32, step: u32, ready: u64, now: u64, because: Reason) {
        let node = self.agents.node(job, now);
        let went = match (because, &self.turn_system) {
            (Reason::Granted, Some(turn_system)) => turn_system.went(job),
            _ => Went::Itself,
        };
        let taking = &mut self.jobs[job as usize].taking;
        let note = taking.gate.started(node, because);
        let place = note.map_or((taking.writer, 0), |note| (note.writer, note.number));
        (taking.now, taking.step) = (Some((place, self.starts.len())), step);
        let early = taking.draws(|liar| liar.early_permille);
        if self.turns().is_some_and(|turns| turns.log) {
            let (phase, beliefs) = (self.phase(job, step), Vec::new());
            let (ready, start) = (Nanos(ready), Nanos(now));
            let start = TurnStart { job, place, phase, ready, start, end: None, told_early: false, because, went, beliefs, unfree: None };
            self.starts.push(start);
        }
        if let Some(note) = note {
            self.tell(job, step, note, now);
        }
        if early {
            let length = self.layout.jobs[job as usize][step as usize].length;
            self.agenda.add(now.saturating_add(length.0 / 2), SimEvent::TellsEnd(job, place));
            self.set_agenda_timer();
        }
        if step == 0 { self.start(job, ready, now, because, false) } else { self.enter_step(job, step, now) }
    }

    /// What the job's last start was for has been sent.
    pub(super) fn end_turn(&mut self, job: u32, now: u64) {
        let node = self.agents.node(job, now);
        self.note_end(job, now, false);
        let taking = &mut self.jobs[job as usize].taking;
        if taking.draws(|liar| liar.mute_permille) {
            return;
        }
        if let Some(note) = taking.gate.ended(node) {
            let step = taking.step;
            self.tell(job, step, note, now);
        }
    }

    /// Notes in the log that the job sends no more, or that it said so before that was true.
    pub(super) fn note_end(&mut self, job: u32, now: u64, early: bool) {
        let taking = &mut self.jobs[job as usize].taking;
        let Some((_, at)) = (if early { taking.now } else { taking.now.take() }) else { return };
        if let Some(start) = self.starts.get_mut(at) {
            if early {
                start.told_early = true;
            } else {
                start.end = Some(Nanos(now));
            }
        }
    }

    fn tell_end_early(&mut self, job: u32, place: (u64, u64), now: u64) {
        let node = self.agents.node(job, now);
        let taking = &mut self.jobs[job as usize].taking;
        let sends = taking.now.is_some_and(|(sends, _)| sends == place);
        if let Some(note) = sends.then(|| taking.gate.ended(node)).flatten() {
            let step = taking.step;
            self.note_end(job, now, true);
            self.tell(job, step, note, now);
        }
    }

    fn restart(&mut self, job: u32, after: u64, now: u64) {
        if matches!(self.jobs[job as usize].doing, Doing::Gone) {
            return;
        }
        self.kill(job, now);
        let state = &mut self.jobs[job as usize];
        state.doing = Doing::Nothing;
        state.taking.writer += 1;
        state.taking.gate = TurnGate::new(state.taking.writer);
        self.timers.set(job as usize, now.saturating_add(after.max(1)));
    }

    /// The gate tells its agent; whether anybody hears it.
    fn tell(&mut self, job: u32, step: u32, note: Note, now: u64) -> bool {
        // The gate asks for whole iterations as far as it knows; which Up phase it stands before is known to its caller.
        let phase = self.phase(job, step);
        let Some(turn_system) = &mut self.turn_system else { return false };
        let heard = turn_system.tell(now, job, Note { phase, ..note }, &mut self.agents, &mut self.agenda);
        self.plan_looks();
        self.set_agenda_timer();
        heard
    }
}

/// What turns report of a run.
pub(super) fn report(turn_system: Option<TurnSystem<'_>>, mut starts: Vec<TurnStart>) -> Option<TurnsReport> {
    let turn_system = turn_system?;
    for start in &mut starts {
        start.beliefs = turn_system.beliefs().of(start.job, start.place);
        start.unfree = turn_system.beliefs().unfree(start.job, start.place);
    }
    Some(TurnsReport { starts, ..turn_system.report() })
}
