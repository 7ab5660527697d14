//! What the iterations of a component take, and which jobs to hold.

use alloc::{vec, vec::Vec};

use circle::Phase;
use fluid::{Asks, FluidJob, FluidLink, HeldTime, IterationTimes, predict_contended};
use job::Hold;
use units::{Nanos, Rate};

use crate::{
    component::Content,
    hold::{self, Advice, AllHeld, Question},
    turns::{self, Taking},
};

/// How gates and jobs behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// How late a start may be and still go at once, in thousandths of the period.
    pub tolerance_permille: u32,
    /// How much Down phases vary, in thousandths ([`fluid::jitter`]).
    pub jitter_permille: u32,
    /// How jobs are kept apart that gain by it.
    pub control: Control,
    /// As in [`turns::Question`], where the control is turns.
    pub limits: turns::Limits,
    /// What turns are chosen for.
    pub objective: turns::Objective,
}

/// How jobs are kept apart that gain by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// By event: whoever is ready goes when those ahead of it have ended ([`turns`]).
    Turns,
    /// By time: each job starts in its slot. Slots need nothing but plans, also where there is no fast way between agents and service.
    #[default]
    Slots,
    /// Not at all: what the jobs take as they come is predicted.
    Observe,
}

/// Something in three ways to run the same jobs, all from the same runs: jobs that nobody holds begin anywhere, and Down phases vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByControl<T> {
    /// As the jobs come.
    pub free: T,
    /// By turns, of those that are chosen for [`crate::Options::turns_objective`].
    pub turns: T,
    /// By slots, of those jobs that they are predicted to help.
    pub slots: T,
}

impl<T> ByControl<T> {
    /// What the control in force brings.
    #[must_use]
    pub fn of(self, control: Control) -> T {
        match control {
            Control::Observe => self.free,
            Control::Turns => self.turns,
            Control::Slots => self.slots,
        }
    }

    /// Each of the three, changed.
    pub fn map<U>(self, change: impl Fn(T) -> U) -> ByControl<U> {
        ByControl { free: change(self.free), turns: change(self.turns), slots: change(self.slots) }
    }
}

/// Which jobs are to be held.
#[derive(Clone, Copy, Debug)]
pub enum Holding<'h> {
    /// The jobs that holding helps, by coupled group ([`hold`]). Per job: whether the job is held now, if it runs already and met
    /// others; a job that the list does not name is new.
    Advised(&'h [Option<bool>]),
    /// Per job: whether to hold it, as was chosen before.
    Kept(&'h [bool]),
}

/// A component as the fluid model takes it.
pub(crate) struct Fluid<'p> {
    pub(crate) jobs: Vec<FluidJob>,
    pub(crate) links: Vec<FluidLink<'p>>,
    /// As in [`turns::Question`], and so is the next.
    pub(crate) free: Vec<bool>,
    pub(crate) asks: Vec<Asks>,
}

impl<'p> Fluid<'p> {
    /// `phases` are those of a demand.
    pub(crate) fn new(content: &Content, phases: impl Fn(u32) -> &'p [Phase], shifts: &[u64]) -> Self {
        let job = |((iteration, period), shift): ((&u64, &u64), &u64)| FluidJob {
            iteration: Nanos(*iteration),
            period: Nanos(*period),
            shift: Nanos(*shift),
        };
        let jobs = content.iterations.iter().zip(&content.periods).zip(shifts).map(job).collect();
        let mut links: Vec<FluidLink<'p>> = Vec::with_capacity(content.links.len());
        // A link of one job is no link of the circle, but it slows the job, so the fluid model has it.
        for link in &content.links {
            let demands = link.members.iter().map(|&(job, demand)| (job as usize, phases(demand))).collect();
            links.push(FluidLink { capacity: Rate(link.capacity), demands });
        }
        let free = content.hold.iter().map(|hold| *hold == Hold::Never).collect();
        let asks = |hold: &Hold| if *hold == Hold::Phases { Asks::Phases } else { Asks::Iteration };
        Self { jobs, links, free, asks: content.hold.iter().map(asks).collect() }
    }
}

/// What each control brings to a component, all by the same runs: jobs that nobody holds begin anywhere, and Down phases vary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// With nobody kept apart, and by turns.
    pub(crate) turns: turns::Advice,
    /// Held to slots where that is predicted to help.
    pub(crate) slots: turns::Predicted,
}

impl Comparison {
    /// What is predicted under each control.
    pub(crate) fn predicted(&self, objective: turns::Objective) -> ByControl<&turns::Predicted> {
        ByControl { free: &self.turns.free, turns: self.turns.chosen_for(objective), slots: &self.slots }
    }

    /// What a job takes under each; `None` for an unknown job.
    pub(crate) fn times(&self, job: usize, objective: turns::Objective) -> Option<ByControl<Nanos>> {
        let ByControl { free, turns, slots } = self.predicted(objective).map(|p| p.times.get(job).copied());
        Some(ByControl { free: free?, turns: turns?, slots: slots? })
    }
}

/// Predicted iterations of a job: mean time from one start to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobTimes {
    /// Alone on its links.
    pub solo: Nanos,
    /// With the others, nobody kept apart. Where slots are the control, of jobs that begin together; else of jobs that begin anywhere.
    pub contended: Nanos,
    /// With all of them held to their slots, where slots are the control or the controls are compared.
    pub all_held: Option<HeldTime>,
}

impl From<&IterationTimes> for JobTimes {
    fn from(times: &IterationTimes) -> Self {
        Self { solo: times.solo, contended: times.contended, all_held: Some(HeldTime { time: times.all_held, slips: times.slips }) }
    }
}

/// What is predicted of a component.
#[derive(Debug, Default)]
pub(crate) struct Prediction {
    /// Per job.
    pub(crate) times: Vec<JobTimes>,
    pub(crate) advice: Advice,
    pub(crate) comparison: Option<Comparison>,
}

/// Predicts the iterations of a component under these shifts, and says which jobs to hold. The iteration alone is compared with the
/// scheduled period, so what the headroom costs counts against holding. `compares` asks for the controls that are not in force too.
pub(crate) fn predict<'p>(
    content: &Content,
    phases: impl Fn(u32) -> &'p [Phase],
    shifts: &[u64],
    gates: Gates,
    holding: Holding<'_>,
    compares: bool,
) -> Prediction {
    let fluid = Fluid::new(content, phases, shifts);
    let question = turns::Question {
        jobs: &fluid.jobs,
        gpus: &content.gpus,
        free: &fluid.free,
        links: &fluid.links,
        asks: &fluid.asks,
        jitter_permille: gates.jitter_permille,
        // Nobody is to be held, so nothing needs to be chosen unless somebody asks what that would bring.
        limits: if gates.control == Control::Observe && !compares { turns::Limits { tried_max: 0, ..gates.limits } } else { gates.limits },
    };
    let takes = gates.control == Control::Turns || compares;
    let turns = takes.then(|| turns::advise(&question));
    let times = Times::new(&fluid, &content.gpus, gates);
    let slots = (gates.control == Control::Slots || compares).then(|| {
        // What jobs take that begin together is another kind of run than that of turns, and the two cannot be compared.
        let times = times.beside(&predict_contended(&fluid.jobs, &fluid.links, gates.jitter_permille));
        (by_slots(content, &fluid, &times, gates, holding), times)
    });
    let comparison = turns.as_ref().zip(slots.as_ref()).filter(|_| compares).map(|(turns, (slots, _))| Comparison {
        turns: turns.clone(),
        slots: turns::predicted_slots(&question, &slots.hold, gates.tolerance_permille),
    });
    let (advice, times) = match (gates.control, turns, slots) {
        (Control::Slots, _, Some((advice, times))) => (advice, times.iter().map(JobTimes::from).collect()),
        (control, turns, _) => {
            let nobody = || turns::Advice { free: turns::predicted(&question, Taking::default()), ..turns::Advice::default() };
            let turns = turns.unwrap_or_else(nobody);
            let times = if compares {
                times.beside(&turns.free.times).iter().map(JobTimes::from).collect()
            } else {
                times.without_slots(&turns.free.times)
            };
            let chosen = if control == Control::Turns { turns.chosen_for(gates.objective).clone() } else { turns.free };
            let taking = if control == Control::Turns { chosen.taking } else { Taking::default() };
            (Advice { hold: vec![false; times.len()], times: chosen.times, turns: taking }, times)
        }
    };
    Prediction { times, advice, comparison }
}

/// What the jobs take alone and when all are held.
struct Times<'a> {
    solo: Vec<Nanos>,
    all_held: AllHeld<'a>,
}

impl<'a> Times<'a> {
    fn new(fluid: &'a Fluid<'_>, gpus: &'a [u32], gates: Gates) -> Self {
        let Fluid { jobs, links, .. } = fluid;
        Self { solo: fluid::solo(jobs, links), all_held: AllHeld::new(jobs, links, gpus, gates.tolerance_permille, gates.jitter_permille) }
    }

    /// With those as they come, and no slots: to predict those would take as long as the rest.
    fn without_slots(&self, contended: &[Nanos]) -> Vec<JobTimes> {
        self.solo.iter().zip(contended).map(|(solo, contended)| JobTimes { solo: *solo, contended: *contended, all_held: None }).collect()
    }

    /// All times, with those as they come.
    fn beside(&self, contended: &[Nanos]) -> Vec<IterationTimes> {
        let held = self.all_held.beside(contended);
        let times = |((solo, contended), held): ((&Nanos, &Nanos), &HeldTime)| IterationTimes {
            solo: *solo,
            contended: *contended,
            all_held: held.time,
            slips: held.slips,
        };
        self.solo.iter().zip(contended).zip(held).map(times).collect()
    }
}

fn by_slots(content: &Content, fluid: &Fluid<'_>, times: &[IterationTimes], gates: Gates, holding: Holding<'_>) -> Advice {
    let Gates { tolerance_permille, jitter_permille, .. } = gates;
    let Fluid { jobs, links, free, .. } = fluid;
    // A choice that is kept has nothing to compare itself with, so the present state does not matter.
    let before = if let Holding::Advised(before) = holding { before } else { &[] };
    let question = Question { jobs, gpus: &content.gpus, free, links, times, before, tolerance_permille, jitter_permille };
    match holding {
        Holding::Advised(_) => hold::advise(&question, &hold::groups(jobs.len(), links)),
        Holding::Kept(hold) => Advice { hold: hold.to_vec(), times: hold::times_of(&question, hold), turns: Taking::default() },
    }
}
