//! What the iterations of a component take, and which jobs to hold.

use alloc::{vec, vec::Vec};

use circle::Phase;
use fluid::{FluidJob, FluidLink, IterationTimes, predict_with};
use units::{Nanos, Rate};

use crate::{
    component::Content,
    hold::{self, Advice, Question},
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
    pub tried_max: usize,
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
        Self { jobs, links }
    }
}

/// Predicts the iterations of a component under these shifts, and says which jobs to hold. The iteration alone is compared with the
/// scheduled period, so what the headroom costs counts against holding.
pub(crate) fn predict<'p>(
    content: &Content,
    phases: impl Fn(u32) -> &'p [Phase],
    shifts: &[u64],
    gates: Gates,
    holding: Holding<'_>,
) -> (Vec<IterationTimes>, Advice) {
    let Gates { tolerance_permille, jitter_permille, .. } = gates;
    let Fluid { jobs, links } = Fluid::new(content, phases, shifts);
    let times = predict_with(&jobs, &links, tolerance_permille, jitter_permille);
    let advice = match gates.control {
        Control::Slots => by_slots(content, &jobs, &links, &times, gates, holding),
        Control::Turns => by_turns(content, &jobs, &links, &times, gates),
        Control::Observe => as_they_come(&times),
    };
    (times, advice)
}

fn by_slots(
    content: &Content,
    jobs: &[FluidJob],
    links: &[FluidLink<'_>],
    times: &[IterationTimes],
    gates: Gates,
    holding: Holding<'_>,
) -> Advice {
    let Gates { tolerance_permille, jitter_permille, .. } = gates;
    // A choice that is kept has nothing to compare itself with, so the present state does not matter.
    let before = if let Holding::Advised(before) = holding { before } else { &[] };
    let question = Question { jobs, gpus: &content.gpus, free: &content.free, links, times, before, tolerance_permille, jitter_permille };
    match holding {
        Holding::Advised(_) => hold::advise(&question, &hold::groups(jobs.len(), links)),
        Holding::Kept(hold) => Advice { hold: hold.to_vec(), times: hold::times_of(&question, hold), turns: Taking::default() },
    }
}

fn by_turns(content: &Content, jobs: &[FluidJob], links: &[FluidLink<'_>], times: &[IterationTimes], gates: Gates) -> Advice {
    let Gates { jitter_permille, tried_max, .. } = gates;
    let question = turns::Question { jobs, gpus: &content.gpus, free: &content.free, links, asks: &[], jitter_permille, tried_max };
    let chosen = turns::advise(&question).chosen;
    if chosen.taking.is_nobody() {
        return as_they_come(times);
    }
    Advice { hold: vec![false; jobs.len()], times: chosen.times, turns: chosen.taking }
}

fn as_they_come(times: &[IterationTimes]) -> Advice {
    let free = times.iter().map(|t| t.contended).collect();
    Advice { hold: vec![false; times.len()], times: free, turns: Taking::default() }
}
