//! Jobs that take turns: the rule of the service's own arbiter (`turns`), asked in the model's time.
//!
//! Runs by turns are always under jitter, where there is any, because the order in which jobs come decides who waits for whom. Equal
//! trials draw alike whoever takes turns, so two choices can be compared by few runs.

use alloc::vec::Vec;

use turns::{Group, Member, Up, Use};
use units::{Nanos, Rate};

use crate::{
    FluidJob, FluidLink,
    asking::{Asking, Asks},
    layout::Layout,
    run::{Rules, run},
    varied::{Jitter, Length, splitmix},
};

/// When the jobs of a run start for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begin {
    /// All at once: what jobs fear most.
    #[default]
    Together,
    /// Each anywhere in its iteration, drawn anew in each run: what is seen over many jobs.
    Anywhere,
}

/// Runs whose mean is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// How much Down phases vary, in thousandths; at most [`crate::jitter::JITTER_PERMILLE_MAX`].
    pub jitter_permille: u32,
    /// Seed of the first run; the others have the numbers after it. A choice is judged by seeds by which it was not made.
    pub seed: u32,
    /// How many; 0 counts as one.
    pub runs: u32,
    /// When jobs start.
    pub begin: Begin,
}

/// What jobs take when they take turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnTimes {
    /// Per job: mean time from one start of an iteration to the next.
    pub times: Vec<Nanos>,
    /// Of the time in which anybody sends on a link, the share in which two or more together want more than its capacity; over all
    /// links. This is when switches mark.
    pub overlap: f64,
}

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
pub fn predict_turns(jobs: &[FluidJob], links: &[FluidLink<'_>], group: &Group, asks: &[Asks], trial: Trial) -> TurnTimes {
    predict(jobs, links, group, asks, trial, None)
}

/// As [`predict_turns`], from a fifth of the iterations: enough to see that a choice is much worse than another one that was
/// glanced at by the same trial. The mean over ten jobs is off by about 1 %, the time of one job by several.
#[must_use]
pub fn glance_at_turns(jobs: &[FluidJob], links: &[FluidLink<'_>], group: &Group, asks: &[Asks], trial: Trial) -> TurnTimes {
    predict(jobs, links, group, asks, trial, Some(Length::GLANCE))
}

fn predict(jobs: &[FluidJob], links: &[FluidLink<'_>], group: &Group, asks: &[Asks], trial: Trial, length: Option<Length>) -> TurnTimes {
    let layout = Layout::new(jobs, links);
    let runs = u64::from(trial.runs.max(1));
    let mut sums = alloc::vec![0u64; jobs.len()];
    let (mut over, mut busy) = (0u128, 0u128);
    for run_of in 0..runs {
        let seed = u64::from(trial.seed) + run_of;
        let seen = run(
            &layout,
            Rules {
                turns: Some(Asking::new(group.clone(), asks, &layout)),
                jitter: (trial.jitter_permille > 0).then(|| Jitter::new(jobs.len(), seed, trial.jitter_permille)),
                first: first_starts(jobs, trial.begin, seed),
                length,
                ..Rules::default()
            },
        );
        sums.iter_mut().zip(&seen.jobs).for_each(|(sum, m)| *sum = sum.saturating_add(m.mean));
        over += u128::from(seen.over);
        busy += u128::from(seen.busy);
    }
    let overlap = if busy == 0 { 0.0 } else { over as f64 / busy as f64 };
    TurnTimes { times: sums.into_iter().map(|sum| Nanos((sum + runs / 2) / runs)).collect(), overlap }
}

/// When each job starts first; nothing where all start at once.
fn first_starts(jobs: &[FluidJob], begin: Begin, seed: u64) -> Vec<u64> {
    match begin {
        Begin::Together => Vec::new(),
        // The states of a run's jitter are small numbers, and these are far from them.
        Begin::Anywhere => {
            let mut state = !seed;
            jobs.iter().map(|job| splitmix(&mut state) % job.iteration.0.max(1)).collect()
        }
    }
}
