//! Jobs that take turns: the rule of the service's own arbiter (`turns`), asked in the model's time.
//!
//! Runs by turns are always under jitter, where there is any, because the order in which jobs come decides who waits for whom.

use alloc::vec::Vec;

use turns::{Group, Member, Up, Use};
use units::{Nanos, Rate};

use crate::{
    FluidJob, FluidLink,
    asking::{Asking, Asks},
    layout::Layout,
    run::{Rules, Run},
    trial::{Trial, TrialTimes},
    varied::Length,
};

/// The group of jobs on these links: member `i` is job `i`, link `l` is link `l`. `opponents` are those of each job, by index; a job that
/// it does not name has none. `price_permille` says, in thousandths of a link's capacity, how much demands may be together.
#[must_use]
pub fn turn_group(jobs: &[FluidJob], links: &[FluidLink<'_>], opponents: &[Vec<u32>], price_permille: impl Fn(usize) -> u32) -> Group {
    let member = |(j, job): (usize, &FluidJob)| Member {
        iteration: job.iteration,
        uses: Vec::new(),
        opponents: opponents.get(j).cloned().unwrap_or_default(),
    };
    let mut members: Vec<Member> = jobs.iter().enumerate().map(member).collect();
    // As in the layout, a link without capacity and a demand of nothing are left out, so both count the same Up phases.
    for (l, link) in links.iter().enumerate().filter(|(_, l)| l.capacity.0 > 0) {
        for (job, phases) in link.demands.iter().filter(|(j, _)| *j < jobs.len()) {
            let up = |p: &circle::Phase| Up { start: Nanos(p.start.0), end: Nanos(p.end.0), rate: p.rate };
            let ups: Vec<Up> = phases.iter().filter(|p| p.rate.0 > 0).map(up).collect();
            members[*job].uses.push(Use { link: l as u32, ups });
        }
    }
    let limit = |(l, link): (usize, &FluidLink<'_>)| {
        let limit = u128::from(link.capacity.0) * u128::from(price_permille(l)) / 1_000;
        Rate(u64::try_from(limit).unwrap_or(u64::MAX))
    };
    Group { members, limits: links.iter().enumerate().map(limit).collect(), ahead: false }
}

/// What the jobs take when those of `group` ([`turn_group`]) take turns; with no opponents, as they come. `asks` says where each job
/// asks; one that it does not name asks once an iteration.
#[must_use]
pub fn predict_turns(jobs: &[FluidJob], links: &[FluidLink<'_>], group: &Group, asks: &[Asks], trial: Trial) -> TrialTimes {
    Component::new(jobs, links).by_turns(group.clone(), asks, trial).see(Span::Whole, trial.runs)
}

/// Jobs and the links on which they meet, laid out once for many predictions.
#[derive(Debug)]
pub struct Component<'a> {
    jobs: &'a [FluidJob],
    layout: Layout,
    work_max: Option<u64>,
}

/// How much of a run is looked at. A longer span goes on where the shorter one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A tenth of the iterations of few jobs, a quarter of those of many: what is twice as long can be told, and little else.
    Blink,
    /// A seventh of the iterations of few jobs: enough to see that a choice is much worse than another one at a glance by the same trial.
    /// The mean over ten jobs is off by about 1 %, the time of one job by several.
    Glance,
    /// A third of them: enough to see that a choice is worse than another one that was looked at by the same trial.
    Look,
    /// All.
    Whole,
}

impl Span {
    fn of(self, jobs: usize) -> Length {
        match self {
            Self::Blink => Length::BLINK,
            Self::Glance => Length::GLANCE,
            Self::Look => Length::LOOK,
            Self::Whole => Length::varied(jobs),
        }
    }
}

impl<'a> Component<'a> {
    /// Demands of unknown jobs and links without capacity are ignored.
    #[must_use]
    pub fn new(jobs: &'a [FluidJob], links: &[FluidLink<'_>]) -> Self {
        Self { jobs, layout: Layout::new(jobs, links), work_max: None }
    }

    /// Each run looks at no more demands than that, where that is less than [`crate::WORK_MAX`].
    #[must_use]
    pub fn within(self, work_max: u64) -> Self {
        Self { work_max: Some(work_max), ..self }
    }

    /// What [`predict_turns`] predicts, to be looked at before all of it has been run.
    #[must_use]
    pub fn by_turns<'b>(&'b self, group: Group, asks: &'b [Asks], trial: Trial) -> ByTurns<'b> {
        ByTurns { component: self, group, asks, trial, runs: Vec::new() }
    }
}

/// Runs by turns that can be looked at on their way.
#[derive(Debug)]
pub struct ByTurns<'a> {
    component: &'a Component<'a>,
    group: Group,
    asks: &'a [Asks],
    trial: Trial,
    /// Those that have begun, in the order of their seeds.
    runs: Vec<Run<'a>>,
}

impl ByTurns<'_> {
    /// What the runs have cost so far, in demands that were looked at ([`crate::WORK_MAX`]).
    #[must_use]
    pub fn work(&self) -> u64 {
        self.runs.iter().map(Run::work).sum()
    }

    /// The mean over the first `runs` of the trial, 0 counting as one, each run so far. The spans of one run may only become longer.
    pub fn see(&mut self, span: Span, runs: u32) -> TrialTimes {
        let Component { jobs, layout, work_max } = self.component;
        for run_of in self.runs.len() as u32..runs.max(1) {
            let turns = Some(Asking::new(self.group.clone(), self.asks, self.trial.way, layout));
            self.runs.push(Run::new(layout, Rules { turns, work_max: *work_max, ..self.trial.rules(jobs, run_of) }));
        }
        let seen = self.runs.iter_mut().take(runs.max(1) as usize).map(|run| run.until(span.of(jobs.len())));
        TrialTimes::mean(jobs.len(), seen)
    }
}
