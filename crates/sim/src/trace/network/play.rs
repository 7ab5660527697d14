//! How the jobs of a component fare: played in the testbed, and predicted by the planner.
//!
//! The testbed runs the production's gates, agents and the service's side of turns, iteration by iteration. Jobs begin anywhere, so a
//! component is played several times, and what is remembered of it is all of the iterations.

use alloc::{
    string::{String, ToString as _},
    sync::Arc,
    vec,
    vec::Vec,
};

use fluid::jitter::JITTER_PERMILLE;
use job::Job;
use plan::{
    Control, Coupled, Gates, Holding, Member, Options, Predictions,
    slot::{HEADROOM_PERMILLE, periods},
    turns::{Objective, TRIED_RANKING},
};
use policy::schedule::JobIndex;
use state::{
    Slot,
    turns::{TurnGroup, TurnJob},
};
use units::{LinkId, Nanos};

use crate::testbed::{self, Case, Config, SimJob, TurnsControl, Workload, noise::Noise};

use super::{NetworkControl, paper::Paper, sender::Sender};

/// How often a component is played, with other begins.
const PLAYS: u64 = 4;
/// Iterations of each job before any is counted: turns and slots settle within a few.
const WARM_UP: u64 = 8;
/// Iterations of each job that are counted in a play.
const ITERATIONS: u64 = 24;
/// Iterations of all jobs of a play, so that a job of short iterations beside one of long ones costs no more than this; each job has a
/// few in any case.
const ITERATIONS_SUM_MAX: u64 = 20_000;
/// See [`ITERATIONS_SUM_MAX`].
const ITERATIONS_MIN: u64 = 4;
/// Mean score from which the paper's control corrects the drift of jobs: it does so for compatible ones only (NSDI'24, section 5.7).
const COMPATIBLE: f64 = 0.95;
/// The stream of random numbers that begins draw from.
const BEGINS: u64 = u64::MAX - 7;

/// How the jobs of a component fare.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Played {
    /// Per job: its iterations over its iteration alone, ascending.
    pub(super) ratios: Vec<Vec<f32>>,
    /// Per job: their mean.
    pub(super) means: Vec<f64>,
    /// ECN marks on all links, per iteration of any of the jobs.
    pub(super) marks_per_iteration: f64,
}

/// What the planner says of a component.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Forecast {
    /// Per job: mean iteration over its iteration alone; empty where it says nothing.
    pub(super) means: Vec<f64>,
    /// How far the mean score of the links is below 1, by the planner.
    pub(super) loss: f64,
    /// What the paper's scheduler does; `None` where it was not asked, or has no shifts.
    pub(super) paper: Option<Paper>,
    groups: Vec<Arc<TurnGroup>>,
}

/// Plays a component under a control.
///
/// # Errors
/// What the testbed or the planner refuses.
pub(super) fn play(case: &Case<'_>, control: NetworkControl, forecast: &Forecast, seed: u64) -> Result<Played, String> {
    let control = match control {
        NetworkControl::Ideal | NetworkControl::Free => testbed::Control::Free,
        NetworkControl::Paper => match forecast.paper.as_ref().filter(|paper| paper.scores >= COMPATIBLE * paper.links as f64) {
            Some(paper) => drift(case, &paper.shifts),
            None => testbed::Control::Free,
        },
        NetworkControl::Slots => {
            let options = Options { headroom_permille: HEADROOM_PERMILLE, ..Options::default() };
            testbed::Control::Direct(testbed::direct_slots(case, &options).map_err(|e| e.to_string())?)
        }
        NetworkControl::Turns if forecast.groups.is_empty() => testbed::Control::Free,
        NetworkControl::Turns => {
            let groups = forecast.groups.clone();
            testbed::Control::Turns(TurnsControl { groups, per_phase: true, ..TurnsControl::default() })
        }
    };
    let iterations = iterations(case.jobs);
    let (mut ratios, mut marks, mut count) = (vec![Vec::new(); case.jobs.len()], 0.0, 0_u64);
    for play in 0..PLAYS {
        let mut begins = Noise::new(seed.wrapping_add(play), BEGINS, 0);
        let begin = |job: &SimJob| SimJob { begins: Nanos(begins.below(job.job.period.0)), ..job.clone() };
        let jobs: Vec<SimJob> = case.jobs.iter().map(begin).collect();
        let config = Config {
            seed: seed.wrapping_add(play),
            warm_up: WARM_UP.min(iterations),
            iterations,
            jitter_permille: JITTER_PERMILLE,
            control: control.clone(),
            ..Config::default()
        };
        let report = testbed::run(&Case { router: case.router, jobs: &jobs }, &config).map_err(|e| e.to_string())?;
        for ((job, ratios), of) in report.jobs.iter().zip(&mut ratios).zip(&jobs) {
            let counted = &job.records[job.records.partition_point(|r| r.start < report.from)..];
            count += counted.len() as u64;
            let ratio = |pair: &[testbed::IterationRecord]| (pair[1].start.0 - pair[0].start.0) as f64 / of.job.period.0 as f64;
            ratios.extend(counted.windows(2).map(|pair| ratio(pair) as f32));
        }
        marks += report.links.iter().map(|link| link.marks).sum::<f64>();
    }
    ratios.iter_mut().for_each(|ratios| ratios.sort_unstable_by(f32::total_cmp));
    let mean = |ratios: &Vec<f32>| {
        // A job without a whole iteration was not seen to be slowed.
        if ratios.is_empty() { 1.0 } else { ratios.iter().copied().map(f64::from).sum::<f64>() / ratios.len() as f64 }
    };
    let means = ratios.iter().map(mean).collect();
    Ok(Played { ratios, means, marks_per_iteration: marks / count.max(1) as f64 })
}

/// The control of the paper: every job begins at its shift, whatever that is predicted to bring.
fn drift(case: &Case<'_>, shifts: &[Nanos]) -> testbed::Control {
    let slot = |(job, shift): (&SimJob, &Nanos)| Slot { period: job.job.period, offset: *shift, ..Slot::none(&job.job.name) };
    testbed::Control::Drift(case.jobs.iter().zip(shifts).map(slot).collect())
}

fn iterations(jobs: &[SimJob]) -> u64 {
    let longest = jobs.iter().map(|job| job.job.period.0).max().unwrap_or(1);
    // Iterations of all jobs while the slowest does one.
    let each: u64 = jobs.iter().map(|job| longest.div_ceil(job.job.period.0.max(1))).sum();
    (ITERATIONS_SUM_MAX / each.max(1)).clamp(ITERATIONS_MIN, ITERATIONS)
}

/// What the planner says of these senders, and who takes turns with whom.
///
/// # Errors
/// What the planner refuses.
pub(super) fn forecast(
    senders: &[&Sender],
    control: NetworkControl,
    capacity: impl Fn(LinkId) -> u64,
    leader: impl Fn(&Sender) -> Arc<str>,
) -> Result<Forecast, String> {
    let alone: Vec<Nanos> = senders.iter().map(|sender| sender.job.period).collect();
    let headroom = if control == NetworkControl::Slots { HEADROOM_PERMILLE } else { 0 };
    let periods = periods(&alone, headroom);
    let members: Vec<Member<'_>> = senders.iter().zip(&periods).map(|(sender, period)| sender.member(*period)).collect();
    let coupled = Coupled::new(&members, capacity).map_err(|(_, e)| e.to_string())?;
    let over = |times: &[Nanos]| times.iter().zip(&alone).map(|(time, alone)| time.0 as f64 / alone.0 as f64).collect();
    let mut said = Forecast::default();
    match control {
        NetworkControl::Ideal => {}
        NetworkControl::Free => said.means = over(&coupled.take_turns(JITTER_PERMILLE, 0).free.times),
        NetworkControl::Turns => {
            let advice = coupled.take_turns(JITTER_PERMILLE, TRIED_RANKING);
            said.means = over(&advice.chosen.times);
            let job = |at: &usize| TurnJob { name: name(*at).as_str().into(), leader_host: leader(senders[*at]) };
            let group = |a: plan::turns::Arbitrated| TurnGroup {
                jobs: a.jobs.iter().map(job).collect(),
                group: turns::Group { ahead: true, ..a.group },
            };
            said.groups = coupled.arbitrated(&advice.chosen.taking).into_iter().map(|a| Arc::new(group(a))).collect();
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
                    tried_max: 0,
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
