//! Rounds: jobs run as they stand, then the policy decides.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use policy::elastic::{ElasticJob, ElasticRule, ElasticScheduler, Pool, Shape, Stand, UnfitError, check};
use units::OneLine;

use super::{
    application::Applications,
    job::{ElasticSubmission, Running, Treatment},
    network::{ElasticNetwork, OnFabric},
    outcome::ElasticOutcome,
};

/// Rounds in which there are jobs after which a trace is given up: some two years of a minute each.
const ROUNDS_MAX: u64 = 1 << 20;
/// Rounds without a change of anything after which nothing will change any more: a month of a minute each.
const STUCK_ROUNDS: u64 = 43_200;

/// Most nodes of one job, by type, as Sia's authors measured. A type that is not listed has no limit.
pub const NODES_MEASURED: [(&str, u32); 6] = [("aws", 16), ("azure", 5), ("dgx", 2), ("dgx-ext", 2), ("quad", 1), ("rtx", 3)];

/// Nodes with one type of GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuType {
    /// Its name.
    pub name: String,
    /// How many nodes.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
}

/// What the simulators of others have differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Habits {
    /// Whether a job that goes to other nodes in equal parts goes on without a restart.
    pub moves_free: bool,
    /// Whether a job stays as it is while it restarts, where the policy tunes batches.
    pub pins_restarts: bool,
    /// The part of their speed that jobs which span nodes lose where they share one with another such job; below 1.
    pub shared_node_loss: f64,
}

impl Habits {
    /// By Sia's paper.
    pub const PAPER: Self = Self { moves_free: false, pins_restarts: true, shared_node_loss: 0.0 };
    /// The simulator of Sia's authors.
    pub const ARTIFACT: Self = Self { moves_free: true, ..Self::PAPER };

    /// That of Pollux's authors, who injected such a loss to show what sharing costs.
    #[must_use]
    pub fn pollux(shared_node_loss: f64) -> Self {
        Self { moves_free: false, pins_restarts: false, shared_node_loss }
    }
}

/// How a trace of elastic jobs is played.
#[derive(Clone, Copy, Debug)]
pub struct ElasticSetup<'a> {
    /// The cluster.
    pub types: &'a [GpuType],
    /// What jobs train, with their speeds on each of these types.
    pub applications: &'a Applications,
    /// Who decides.
    pub rule: ElasticRule,
    /// Length of a round, in seconds.
    pub round_s: f64,
    /// What the simulators of others have differently.
    pub habits: Habits,
    /// The fabric, where there is one.
    pub network: Option<ElasticNetwork<'a>>,
    /// Seconds of some clock, for what decisions cost.
    pub clock: fn() -> f64,
}

/// Why a trace of elastic jobs cannot be played.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ElasticError {
    /// A job of an application that is not known.
    #[error("line {line}: unknown application {}", OneLine(format_args!("{name:?}")))]
    Application {
        /// Where.
        line: u64,
        /// Its name.
        name: String,
    },
    /// The policy decided what cannot be done; nothing of it was carried out.
    #[error("at {now_s} s the policy decided what cannot be done: {source}")]
    Unfit {
        /// When.
        now_s: f64,
        /// What.
        source: UnfitError,
    },
    /// The fabric is too small, or the planner refuses what happens on it.
    #[error("at {now_s} s on the fabric: {}", OneLine(problem))]
    Network {
        /// When.
        now_s: f64,
        /// What.
        problem: String,
    },
    /// Jobs wait for ever.
    #[error("at {now_s} s {waiting} jobs wait and none runs, the first is {}", OneLine(format_args!("{id:?}")))]
    Stuck {
        /// When.
        now_s: f64,
        /// How many.
        waiting: usize,
        /// The first of them.
        id: String,
    },
    /// Jobs that would run for ages.
    #[error("at {now_s} s {left} jobs are not done after {ROUNDS_MAX} rounds, the first is {}", OneLine(format_args!("{id:?}")))]
    TooLong {
        /// When.
        now_s: f64,
        /// How many.
        left: usize,
        /// The first of them.
        id: String,
    },
}

/// Plays a trace.
///
/// # Errors
/// [`ElasticError`], the first.
pub fn run(trace: &[ElasticSubmission], setup: &ElasticSetup<'_>) -> Result<ElasticOutcome, ElasticError> {
    let measured = |name: &str| NODES_MEASURED.iter().find(|(of, _)| *of == name).map_or(u32::MAX, |(_, nodes)| *nodes);
    let pool = |of: &GpuType| Pool { nodes: of.nodes, gpus_per_node: of.gpus_per_node, nodes_max: measured(&of.name) };
    let pools: Vec<Pool> = setup.types.iter().map(pool).collect();
    let treatment = Treatment {
        tunes: setup.rule.tunes(),
        sees_types: setup.rule.sees_types(),
        asked_batches: setup.rule.asked_batches(),
        moves_free: setup.habits.moves_free,
        pins: setup.habits.pins_restarts && setup.rule.tunes(),
    };
    let mut jobs: Vec<Running<'_>> = Vec::with_capacity(trace.len());
    for (submission, index) in trace.iter().zip(0..) {
        let app = setup.applications.iter().find(|app| app.traits.name == submission.application);
        let name = || submission.application.clone();
        let app = app.ok_or_else(|| ElasticError::Application { line: submission.line, name: name() })?;
        jobs.push(Running::new(index, submission, app, treatment, &pools));
    }
    let on_fabric = setup.network.map(|network| OnFabric::new(&network, &pools)).transpose();
    let mut world = World {
        on_fabric: on_fabric.map_err(|problem| ElasticError::Network { now_s: 0.0, problem })?,
        scheduler: ElasticScheduler::new(setup.rule, pools.clone()),
        pools,
        shapes: BTreeMap::new(),
        outcome: ElasticOutcome::default(),
    };
    let (mut still, mut round) = (0, 0_u64);
    for _ in 0..ROUNDS_MAX {
        let (began_s, now_s) = (round as f64 * setup.round_s, (round + 1) as f64 * setup.round_s);
        let here = |job: &&mut Running<'_>| job.ended_s.is_none();
        jobs.iter_mut().filter(here).for_each(|job| job.run(began_s, setup.round_s));
        let mut active: Vec<&mut Running<'_>> =
            jobs.iter_mut().filter(|job| job.ended_s.is_none() && job.submission.submitted_s <= now_s).collect();
        world.decide(now_s, &mut active, setup)?;
        let waiting = active.iter().all(|job| job.stand.is_none()) && !active.is_empty();
        still = if waiting { still + 1 } else { 0 };
        if still >= STUCK_ROUNDS {
            let id = active.first().map(|job| job.submission.id.clone()).unwrap_or_default();
            return Err(ElasticError::Stuck { now_s, waiting: active.len(), id });
        }
        let nobody = active.is_empty();
        let next_s = jobs.iter().filter(|job| job.ended_s.is_none()).map(|job| job.submission.submitted_s).reduce(f64::min);
        let Some(next_s) = next_s else { return Ok(world.end(&jobs)) };
        // Rounds without jobs are left out: the next one ends when the next job is there.
        let next = (next_s / setup.round_s) as u64;
        round = if nobody { next.saturating_sub(1).max(round + 1) } else { round + 1 };
    }
    let left: Vec<&Running<'_>> = jobs.iter().filter(|job| job.ended_s.is_none()).collect();
    let id = left.first().map(|job| job.submission.id.clone()).unwrap_or_default();
    Err(ElasticError::TooLong { now_s: round as f64 * setup.round_s, left: left.len(), id })
}

/// Lets jobs that span nodes lose a part of their speed where they share one.
fn share_nodes(active: &mut [&mut Running<'_>], loss: f64) {
    if loss <= 0.0 {
        return;
    }
    let mut spans: BTreeMap<(u8, u32), u32> = BTreeMap::new();
    let spanning = |job: &Running<'_>| job.stand.clone().filter(|stand| stand.places.len() > 1);
    for stand in active.iter().filter_map(|job| spanning(job)) {
        stand.places.iter().for_each(|(node, _)| *spans.entry((stand.pool, *node)).or_default() += 1);
    }
    for job in active.iter_mut() {
        let shares = |stand: &Stand| stand.places.iter().any(|(node, _)| spans.get(&(stand.pool, *node)).is_some_and(|jobs| *jobs > 1));
        let loses = spanning(job).is_some_and(|stand| shares(&stand));
        job.longer = if loses { 1.0 / (1.0 - loss) } else { 1.0 };
    }
}

struct World<'a> {
    on_fabric: Option<OnFabric<'a>>,
    scheduler: ElasticScheduler,
    pools: Vec<Pool>,
    /// What each job was given.
    shapes: BTreeMap<u32, Shape>,
    outcome: ElasticOutcome,
}

impl World<'_> {
    fn decide(&mut self, now_s: f64, active: &mut [&mut Running<'_>], setup: &ElasticSetup<'_>) -> Result<(), ElasticError> {
        if active.is_empty() {
            return Ok(());
        }
        let shape = |job: &Running<'_>| self.shapes.get(&job.index).copied();
        let seen: Vec<ElasticJob> = active.iter().map(|job| job.seen_at(now_s, &self.pools, shape(job))).collect();
        let begun_s = (setup.clock)();
        let stands = match &mut self.on_fabric {
            Some(on_fabric) => on_fabric.decide(&mut self.scheduler, &seen),
            None => Ok(self.scheduler.decide(&seen)),
        };
        let stands = stands.map_err(|problem| ElasticError::Network { now_s, problem })?;
        self.outcome.policy_s.push((setup.clock)() - begun_s);
        check(&self.pools, &seen, &stands).map_err(|source| ElasticError::Unfit { now_s, source })?;
        for (job, stand) in active.iter_mut().zip(stands) {
            match stand.as_ref().map(|stand| self.nominal(stand)) {
                Some(shape) => self.shapes.insert(job.index, shape),
                None => self.shapes.remove(&job.index),
            };
            self.outcome.preemptions += u64::from(job.stand_at(stand));
        }
        match &mut self.on_fabric {
            Some(on_fabric) => on_fabric.feel(active, setup.round_s).map_err(|problem| ElasticError::Network { now_s, problem }),
            None => {
                share_nodes(active, setup.habits.shared_node_loss);
                Ok(())
            }
        }
    }

    /// The shape that was chosen for a stand: on the fewest nodes, wherever the GPUs were found.
    fn nominal(&self, stand: &Stand) -> Shape {
        let shape = stand.shape();
        let nodes = self.pools.get(usize::from(shape.pool)).map_or(shape.nodes, |pool| pool.nodes_for(shape.gpus));
        Shape { nodes, ..shape }
    }

    fn end(mut self, jobs: &[Running<'_>]) -> ElasticOutcome {
        let ends = || jobs.iter().map(|job| job.ended_s.unwrap_or(f64::INFINITY));
        self.outcome.jct_s = ends().zip(jobs).map(|(end_s, job)| end_s - job.submission.submitted_s).collect();
        let (ended_s, began_s) =
            (ends().fold(0.0, f64::max), jobs.iter().map(|job| job.submission.submitted_s).fold(f64::INFINITY, f64::min));
        self.outcome.makespan_s = (ended_s - began_s).max(0.0);
        self.outcome.restarts = jobs.iter().map(|job| job.restarts).collect();
        if let Some(on_fabric) = &self.on_fabric {
            (self.outcome.longer_mean, self.outcome.predicted) = (Some(on_fabric.longer_mean()), on_fabric.predicted());
        }
        self.outcome.gpu_s = jobs.iter().map(|job| job.gpu_s.clone()).collect();
        self.outcome
    }
}
