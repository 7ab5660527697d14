//! How the jobs of a component fare: played in the testbed, and predicted by the planner.
//!
//! The testbed runs the production's gates, agents and the service's side of turns, iteration by iteration. Jobs begin anywhere, so a
//! component is played several times, and what is remembered of it is a sample of all iterations.

use alloc::{
    string::{String, ToString as _},
    sync::Arc,
    vec,
    vec::Vec,
};

use fluid::jitter::JITTER_PERMILLE;
use job::{Hold, Job};
use plan::{
    Control, Coupled, Gates, Holding, Member, Options, Predictions,
    slot::SlotTimes,
    slot::{HEADROOM_PERMILLE, periods},
    turns::{Arbitrated, Limits, Objective},
};
use policy::schedule::JobIndex;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use state::{
    Slot,
    turns::{TurnGroup, TurnJob},
};
use units::{GOLDEN, LinkId, Nanos};

use crate::testbed::{self, Case, Config, SimJob, TurnsControl, Workload, noise::Noise};

use super::{NetworkControl, paper::Paper, sender::Sender};

/// How often a component is played, with other begins: free jobs of equal periods stay as far apart as they began, so each play is one draw.
const PLAYS: u64 = 12;
/// Jobs of a component up to which it is played that often. Of a larger one there are so many more others, each with jobs that it shares with this one, because
/// whoever of its jobs comes or goes makes another; so each of its jobs is seen often enough with fewer plays, and a play takes longer.
const PLAYED_FULLY: u64 = 16;
/// The fewest plays of a component: of one play, jobs of equal periods would say only how they happened to begin.
const PLAYS_MIN: u64 = 2;
/// Jobs of a component up to which every one is played: every play of the CASSINI experiments and of most packed clusters is.
pub(super) const PLAYED_ALWAYS: usize = 24;
/// Iterations of each job before any is counted: turns and slots settle within a few.
const WARM_UP: u64 = 6;
/// Iterations of each job that are counted in a play.
const ITERATIONS: u64 = 12;
/// Iterations of all jobs of a play, so that a job of short iterations beside one of long ones costs no more than this.
const ITERATIONS_SUM_MAX: u64 = 20_000;
/// With fewer iterations of the longest job nothing is played, and the prediction stands.
const ITERATIONS_MIN: u64 = 2;
/// How many times as long as alone an iteration may take for a play to end by itself: beyond, the run is cut, and what was seen counts.
const SLOWED_MAX: u64 = 100;
/// Iterations remembered of each job, spread over all that were played: enough for a p99 over many plays.
const KEPT: usize = 96;
/// Mean score from which the paper's control corrects the drift of jobs: it does so for compatible ones only (NSDI'24, section 5.7).
const COMPATIBLE: f64 = 0.99;
/// The stream of random numbers that begins draw from.
const BEGINS: u64 = u64::MAX - 7;

/// How the jobs of a component fare.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Played {
    /// Per job: its iterations over the same alone where it stands, ascending.
    pub(super) ratios: Vec<Vec<f32>>,
    /// Per job: their mean.
    pub(super) means: Vec<f64>,
    /// ECN marks on all links, per iteration of any of the jobs.
    pub(super) marks_per_iteration: f64,
    /// Whether it was played, and is not what was predicted.
    pub(super) is_seen: bool,
}

/// What the planner says of a component. Hosts are no part of it, because it holds for every component of equal content.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Forecast {
    /// Per job: mean iteration over the same alone where it stands; empty where it says nothing.
    pub(super) means: Vec<f64>,
    /// By how many of their iterations on a network that is in nobody's way the jobs' are longer, times their GPUs; 0 where it says nothing.
    pub(super) longer: f64,
    /// How far the mean score of the links is below 1, by the planner.
    pub(super) loss: f64,
    /// What the paper's scheduler does; `None` where it was not asked, or has no shifts.
    pub(super) paper: Option<Paper>,
    pub(super) groups: Vec<Arbitrated>,
}

/// A component to be played.
#[derive(Clone, Copy, Debug)]
pub(super) struct Play<'a> {
    pub(super) case: Case<'a>,
    /// What each job takes alone where it stands.
    pub(super) alone: &'a [Nanos],
    pub(super) control: NetworkControl,
    pub(super) forecast: &'a Forecast,
    /// Its own, of its content.
    pub(super) seed: u64,
    pub(super) shifted: Shifted,
}

/// Whom the paper's control shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shifted {
    /// Jobs that are [compatible](COMPATIBLE).
    Compatible,
    /// All jobs for which the paper has shifts: those that are not compatible begin at theirs, and drift is not corrected.
    All,
}

impl Played {
    /// Of so many jobs that are in nobody's way.
    pub(super) fn undisturbed(jobs: usize) -> Self {
        Self { ratios: vec![vec![1.0]; jobs], means: vec![1.0; jobs], marks_per_iteration: 0.0, is_seen: true }
    }

    /// What is predicted, in place of a play. Iterations are spread around their mean as in `like`, a component that was played.
    pub(super) fn predicted(forecast: &Forecast, like: &Self) -> Self {
        let spread = like.spread();
        let ratios = forecast.means.iter().map(|mean| spread.iter().map(|own| (*mean as f32 * own).max(1.0)).collect()).collect();
        Self { ratios, means: forecast.means.clone(), marks_per_iteration: like.marks_per_iteration, is_seen: false }
    }

    /// Iterations of all jobs over the mean of their job, ascending.
    fn spread(&self) -> Vec<f32> {
        let own = |(ratios, mean): (&Vec<f32>, &f64)| ratios.iter().map(|ratio| ratio / *mean as f32).collect::<Vec<f32>>();
        let mut all: Vec<f32> = self.ratios.iter().zip(&self.means).flat_map(own).collect();
        all.sort_unstable_by(f32::total_cmp);
        thin_out(&mut all);
        all
    }
}

impl Play<'_> {
    /// Plays the component.
    ///
    /// # Errors
    /// What the testbed or the planner refuses.
    pub(super) fn play(&self) -> Result<Played, String> {
        Ok(self.seen(&self.reports()?))
    }

    /// Each play, in order; none where too few of the longest iterations would be seen.
    ///
    /// # Errors
    /// What the testbed or the planner refuses.
    pub(super) fn reports(&self) -> Result<Vec<testbed::Report>, String> {
        let iterations = iterations(self.alone);
        if iterations < ITERATIONS_MIN {
            return Ok(Vec::new());
        }
        let control = self.control()?;
        // In order of play, on however many cores.
        (0..plays(self.case.jobs.len())).into_par_iter().map(|play| self.once(play, iterations, &control)).collect()
    }

    /// What plays say together.
    pub(super) fn seen(&self, reports: &[testbed::Report]) -> Played {
        let (mut ratios, mut marks, mut count) = (vec![Vec::new(); self.case.jobs.len()], 0.0, 0_u64);
        for report in reports {
            for ((job, ratios), alone) in report.jobs.iter().zip(&mut ratios).zip(self.alone) {
                let counted = &job.records[job.records.partition_point(|r| r.start < report.from)..];
                count += counted.len() as u64;
                let ratio = |pair: &[testbed::IterationRecord]| (pair[1].start.0 - pair[0].start.0) as f64 / alone.0 as f64;
                ratios.extend(counted.windows(2).map(|pair| ratio(pair) as f32));
            }
            marks += report.links.iter().map(|link| link.marks).sum::<f64>();
        }
        let mut means = Vec::with_capacity(self.case.jobs.len());
        for (at, ratios) in ratios.iter_mut().enumerate() {
            if ratios.is_empty() {
                // No whole iteration was seen of a job beside which others are thousands of times shorter.
                ratios.push(self.forecast.means.get(at).copied().unwrap_or(1.0) as f32);
            }
            ratios.sort_unstable_by(f32::total_cmp);
            means.push(ratios.iter().copied().map(f64::from).sum::<f64>() / ratios.len() as f64);
            thin_out(ratios);
        }
        Played { ratios, means, marks_per_iteration: marks / count.max(1) as f64, is_seen: true }
    }

    /// One play, with begins of its own.
    fn once(&self, play: u64, iterations: u64, control: &testbed::Control) -> Result<testbed::Report, String> {
        let mut draw = Noise::new(self.seed, BEGINS, 0);
        let shifts = self.forecast.paper.as_ref().filter(|_| self.shifted == Shifted::All).map(|paper| &paper.shifts);
        let begin = |(at, job): (u64, &SimJob)| {
            // Drawn once for all plays, and moved on evenly from play to play, the more so the later the job stands in the list.
            let first = draw.below(u64::MAX);
            let into = first.wrapping_add((at + 1).wrapping_mul(play).wrapping_mul(GOLDEN));
            let begins = (u128::from(into) * u128::from(job.job.period.0)) >> 64;
            let shift = shifts.and_then(|shifts| shifts.get(at as usize)).copied();
            SimJob { begins: shift.unwrap_or(Nanos(begins as u64)), ..job.clone() }
        };
        let jobs: Vec<SimJob> = (0..).zip(self.case.jobs).map(begin).collect();
        let warm_up = WARM_UP.min(iterations);
        let longest = self.alone.iter().map(|alone| alone.0).max().unwrap_or(0);
        let config = Config {
            seed: self.seed.wrapping_add(play.wrapping_mul(GOLDEN)),
            warm_up,
            iterations,
            until: Nanos(longest.saturating_mul((warm_up + iterations + 2).saturating_mul(SLOWED_MAX))),
            jitter_permille: JITTER_PERMILLE,
            control: control.clone(),
            ..Config::default()
        };
        testbed::run(&Case { router: self.case.router, jobs: &jobs }, &config).map_err(|e| e.to_string())
    }

    fn control(&self) -> Result<testbed::Control, String> {
        Ok(match self.control {
            NetworkControl::Ideal | NetworkControl::Free => testbed::Control::Free,
            NetworkControl::Paper => self.paper(),
            NetworkControl::Slots => {
                let options = Options { headroom_permille: HEADROOM_PERMILLE, ..Options::default() };
                testbed::Control::Direct(testbed::direct_slots(&self.case, &options).map_err(|e| e.to_string())?)
            }
            NetworkControl::Turns if self.forecast.groups.is_empty() => testbed::Control::Free,
            NetworkControl::Turns => {
                testbed::Control::Turns(TurnsControl { groups: self.turn_groups(), per_phase: true, ..TurnsControl::default() })
            }
        })
    }

    /// The groups of the forecast, spoken for by the agents of the hosts on which the jobs stand here.
    fn turn_groups(&self) -> Vec<Arc<TurnGroup>> {
        let fabric = self.case.router.fabric();
        let job = |at: &usize| {
            let leader = self.case.jobs.get(*at).and_then(|job| job.placement.ranks.first());
            let leader_host = leader.map_or("", |rank| fabric.node(rank.host).name.as_str()).into();
            TurnJob { name: name(*at).as_str().into(), leader_host }
        };
        let group =
            |a: &Arbitrated| TurnGroup { jobs: a.jobs.iter().map(job).collect(), group: turns::Group { ahead: true, ..a.group.clone() } };
        self.forecast.groups.iter().map(|a| Arc::new(group(a))).collect()
    }

    /// The control of the paper: jobs that are compatible begin at their shifts, whatever that is predicted to bring. A job that exceeds
    /// a link by itself cannot keep its period, so it has no shift to keep to.
    fn paper(&self) -> testbed::Control {
        let compatible = |paper: &&Paper| paper.scores >= COMPATIBLE * paper.links as f64;
        let Some(paper) = self.forecast.paper.as_ref().filter(compatible) else { return testbed::Control::Free };
        let keeps = |((job, _), alone): &((&SimJob, &Nanos), &Nanos)| **alone == job.job.period && job.job.hold != Hold::Never;
        let slot = |((job, shift), _): ((&SimJob, &Nanos), &Nanos)| Slot {
            times: SlotTimes { period: job.job.period, offset: *shift, ..SlotTimes::default() },
            ..Slot::none(&job.job.name)
        };
        testbed::Control::Drift(self.case.jobs.iter().zip(&paper.shifts).zip(self.alone).filter(keeps).map(slot).collect())
    }
}

/// How often a component of so many jobs is played.
fn plays(jobs: usize) -> u64 {
    (PLAYS * PLAYED_FULLY / (jobs as u64).max(1)).clamp(PLAYS_MIN, PLAYS)
}

/// Whether a component of so many jobs is played, or what is predicted of it stands. A play costs about the square of its jobs, and where
/// very many meet, each that comes or goes makes another component; so of large ones as many are played, drawn by their content, as
/// cost no more on average than one that is played fully.
pub(super) fn is_played(jobs: usize, seed: u64) -> bool {
    let squared = (jobs as u64).saturating_mul(jobs as u64);
    jobs <= PLAYED_ALWAYS || seed.is_multiple_of(squared.div_ceil(PLAYED_FULLY * PLAYED_FULLY))
}

/// Leaves at most [`KEPT`] of sorted values, evenly spread, the first and the last among them.
fn thin_out(values: &mut Vec<f32>) {
    let last = values.len().saturating_sub(1);
    if values.len() > KEPT {
        *values = (0..KEPT).map(|at| values[at * last / (KEPT - 1)]).collect();
    }
}

/// Iterations of the longest job that are worth their time.
fn iterations(alone: &[Nanos]) -> u64 {
    let longest = alone.iter().map(|alone| alone.0).max().unwrap_or(1);
    // Iterations of all jobs while the slowest does one.
    let each = alone.iter().fold(0_u64, |sum, alone| sum.saturating_add(longest.div_ceil(alone.0.max(1))));
    (ITERATIONS_SUM_MAX / each.max(1)).min(ITERATIONS)
}

/// What the planner says of these senders, and who takes turns with whom: nobody, where it is not to try any.
///
/// # Errors
/// What the planner refuses.
pub(super) fn forecast(
    senders: &[&Sender],
    alone: &[Nanos],
    (control, tries): (NetworkControl, bool),
    capacity: impl Fn(LinkId) -> u64,
) -> Result<Forecast, String> {
    let own: Vec<Nanos> = senders.iter().map(|sender| sender.job.period).collect();
    let headroom = if control == NetworkControl::Slots { HEADROOM_PERMILLE } else { 0 };
    let periods = periods(&own, headroom);
    let members: Vec<Member<'_>> = senders.iter().zip(&periods).map(|(sender, period)| sender.member(*period)).collect();
    let coupled = Coupled::new(&members, capacity).map_err(|(_, e)| e.to_string())?;
    let over = |times: &[Nanos]| times.iter().zip(alone).map(|(time, alone)| time.0 as f64 / alone.0 as f64).collect();
    let mut said = Forecast::default();
    match control {
        NetworkControl::Ideal => {}
        NetworkControl::Free => said.means = over(&coupled.take_none(JITTER_PERMILLE)),
        NetworkControl::Turns if !tries => said.means = over(&coupled.take_none(JITTER_PERMILLE)),
        NetworkControl::Turns => {
            let advice = coupled.take_turns(JITTER_PERMILLE, Limits::RANKING);
            said.means = over(&advice.chosen.times);
            said.groups = coupled.arbitrated(&advice.chosen.taking);
        }
        NetworkControl::Slots | NetworkControl::Paper => {
            let options = Options { predict: Predictions::Needed, ..Options::default() };
            let standing = coupled.solve(&options).map_err(|e| e.to_string())?;
            said.loss = 1.0 - standing.score;
            if control == NetworkControl::Slots {
                let gates = Gates {
                    tolerance_permille: options.tolerance_permille,
                    jitter_permille: JITTER_PERMILLE,
                    control: Control::Slots,
                    limits: Limits::tried(0),
                    objective: Objective::Time,
                };
                said.means = over(&coupled.predict(&standing, gates, Holding::Advised(&[])).1.times);
            }
        }
    }
    Ok(said)
}

impl Sender {
    fn member(&self, period: Nanos) -> Member<'_> {
        let Self { job, demands, peaks, .. } = self;
        Member { iteration: job.period, period, gpus: job.gpus, hold: job.hold, demands, peaks }
    }
}

/// The job of a sender at that place of its component.
pub(super) fn sim_job(at: usize, sender: &Sender) -> SimJob {
    let job = Job { name: name(at), ..sender.job.clone() };
    SimJob { workload: Workload::of_profile(&job), job, placement: sender.placement.clone(), begins: Nanos(0) }
}

/// Jobs are named by their place, because what is remembered holds for others of equal content.
fn name(at: usize) -> String {
    (at as JobIndex).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_components_are_played_less_often_and_never_once() {
        assert_eq!([0, 1, 2, 16, 17, 32, 64, 96, 10_000].map(plays), [12, 12, 12, 12, 11, 6, 3, 2, 2]);
    }

    #[test]
    fn of_very_large_components_a_sample_is_played() {
        let played = |jobs| (0..6_400).filter(|seed| is_played(jobs, *seed)).count();
        // Of 32 jobs one in (32 / 16)^2, of 64 one in 16.
        assert_eq!([2, 24, 32, 64].map(played), [6_400, 6_400, 1_600, 400]);
    }

    #[test]
    fn what_is_predicted_has_its_means_and_the_spread_of_what_was_played() {
        let like = Played { ratios: vec![vec![1.0, 1.5, 2.0], vec![3.0]], means: vec![1.5, 3.0], marks_per_iteration: 7.0, is_seen: true };
        let forecast = Forecast { means: vec![3.0, 1.2], ..Forecast::default() };
        let told = Played::predicted(&forecast, &like);
        // 2/3, 1, 1 and 4/3 of the mean; no iteration is shorter than alone.
        let expected = [[2.0, 3.0, 3.0, 4.0], [1.0, 1.2, 1.2, 1.6]];
        for (own, expected) in told.ratios.iter().zip(expected) {
            assert!(own.len() == 4 && own.iter().zip(expected).all(|(own, expected)| (own - expected).abs() < 1e-5_f32), "{own:?}");
        }
        assert_eq!((told.means, told.marks_per_iteration, told.is_seen), (vec![3.0, 1.2], 7.0, false));
    }
}
