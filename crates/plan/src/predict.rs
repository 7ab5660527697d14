//! What the iterations of a component take, and which jobs to hold.

use alloc::vec::Vec;

use circle::Phase;
use fluid::{FluidJob, FluidLink, IterationTimes, predict_with};
use units::{Nanos, Rate};

use crate::{
    component::Content,
    hold::{self, Advice, Question},
};

/// How gates and jobs behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// How late a start may be and still go at once, in thousandths of the period.
    pub tolerance_permille: u32,
    /// How much Down phases vary, in thousandths ([`fluid::jitter`]).
    pub jitter_permille: u32,
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
    let Gates { tolerance_permille, jitter_permille } = gates;
    let Fluid { jobs, links } = Fluid::new(content, phases, shifts);
    let times = predict_with(&jobs, &links, tolerance_permille, jitter_permille);
    // A choice that is kept has nothing to compare itself with, so the present state does not matter.
    let before = if let Holding::Advised(before) = holding { before } else { &[] };
    let question = Question { jobs: &jobs, gpus: &content.gpus, links: &links, times: &times, before, tolerance_permille, jitter_permille };
    let advice = match holding {
        Holding::Advised(_) => hold::advise(&question, &hold::groups(jobs.len(), &links)),
        Holding::Kept(hold) => Advice { hold: hold.to_vec(), times: hold::times_of(&question, hold) },
    };
    (times, advice)
}
