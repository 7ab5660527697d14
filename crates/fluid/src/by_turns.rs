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
    run::Rules,
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
    predict(jobs, links, group, asks, trial, None)
}

/// As [`predict_turns`], from a third of the iterations: enough to see that a choice is worse than another one that was looked at by the
/// same trial.
#[must_use]
pub fn look_at_turns(jobs: &[FluidJob], links: &[FluidLink<'_>], group: &Group, asks: &[Asks], trial: Trial) -> TrialTimes {
    predict(jobs, links, group, asks, trial, Some(Length::LOOK))
}

/// As [`predict_turns`], from a seventh of the iterations: enough to see that a choice is much worse than another one that was
/// glanced at by the same trial. The mean over ten jobs is off by about 1 %, the time of one job by several.
#[must_use]
pub fn glance_at_turns(jobs: &[FluidJob], links: &[FluidLink<'_>], group: &Group, asks: &[Asks], trial: Trial) -> TrialTimes {
    predict(jobs, links, group, asks, trial, Some(Length::GLANCE))
}

fn predict(jobs: &[FluidJob], links: &[FluidLink<'_>], group: &Group, asks: &[Asks], trial: Trial, length: Option<Length>) -> TrialTimes {
    let layout = Layout::new(jobs, links);
    trial.runs(&layout, jobs, |rules| Rules { turns: Some(Asking::new(group.clone(), asks, trial.way, &layout)), length, ..rules })
}
