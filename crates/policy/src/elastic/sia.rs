//! Sia (Jayaram Subramanya et al., SOSP 2023): counts and types of GPUs at once.
//!
//! Every job has a goodput for every shape ([`shapes`](super::shapes())), divided by the least of its own, so that one more GPU counts alike
//! for all. Shapes that are not the one that the job has count less by the restart factor of Pollux. What is chosen is best for the power mean of
//! all jobs, and an integer program with one row for each type of GPU; `knapsack` solves it exactly. Who restarts keeps its shape.
//!
//! A job that ran nowhere begins with one GPU: with the type that is fastest for it, or, as the published code has it, with any.
//! It may have twice the GPUs that it was ever measured with. A hybrid job, whose replicas are pipelines, begins with one of them and has
//! twice as many (section 3.4); shapes that are no whole pipelines are none for it.

use alloc::vec::Vec;

use super::{
    in_turn,
    job::{ElasticJob, Pool, Shape, Stand},
    place,
    shapes::shapes,
};
use crate::knapsack::{Choice, Item, Problem, solve};

/// Sums that are listed before the best known answer is taken: a second, where a round lasts a minute.
const SUMS_MAX: u64 = 8_000_000;
/// Largest normalised goodput to the power, as the published code has it; costs have a limit too.
const COST_MAX: f64 = 3_000.0;
/// How far draws move a cost: those of a hundred jobs together are less than a cent.
const TIE: f64 = 1e-4;

/// The knobs, under their published names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiaOptions {
    /// The power of the mean: the less, the fairer.
    pub p: f64,
    /// What a job without GPUs costs, where `p` is below 0: more than 1, which is the most that any shape costs. Where `p` is above 0, what it brings.
    pub lambda_n: f64,
    /// Whether costs are rounded to cents, which the published code does and makes many shapes equal.
    pub rounded: bool,
    /// Whether the speed of one GPU of each type is known before a job runs.
    pub profiled: bool,
    /// Whether no batch is counted with that is larger than the one that the job asks for, although the job goes beyond it: the published code does so.
    pub asked_batches: bool,
    /// What tells shapes apart that cost the same: 0 leaves that to the solver, other numbers draw. Only rounded costs are often the same.
    pub ties: u64,
    /// Who chooses nodes.
    pub placing: Placing,
}

/// How nodes are chosen for shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// Who is not changed stays; jobs within a node are never split, others have whole nodes; where there is no room some are moved (section 3.1).
    Kept,
    /// Every job anew, one node after the other, split where there is no room: what the published simulator does.
    InTurn,
}

impl SiaOptions {
    /// As in the paper (section 4.3).
    pub const PAPER: Self =
        Self { p: -0.5, lambda_n: 1.1, rounded: false, profiled: true, asked_batches: false, ties: 0, placing: Placing::Kept };
    /// As in the published simulator.
    pub const ARTIFACT: Self = Self { rounded: true, profiled: false, asked_batches: true, placing: Placing::InTurn, ..Self::PAPER };
}

#[derive(Clone, Debug)]
pub(super) struct Sia {
    options: SiaOptions,
    shapes: Vec<Shape>,
}

impl Sia {
    pub(super) fn new(pools: &[Pool], options: SiaOptions) -> Self {
        Self { options, shapes: shapes(pools) }
    }

    pub(super) fn decide(&self, pools: &[Pool], jobs: &[ElasticJob]) -> Vec<Option<Stand>> {
        let chosen = self.choose(pools, jobs, &[]);
        match self.options.placing {
            Placing::Kept => place::place(pools, jobs, &chosen),
            Placing::InTurn => in_turn::place(pools, &chosen),
        }
    }

    /// Whether a job whose shape stays keeps its nodes.
    pub(super) fn keeps(&self) -> bool {
        self.options.placing == Placing::Kept
    }

    /// A shape for each job; `prices` has by job what some shapes cost in place of what the job alone says.
    pub(super) fn choose(&self, pools: &[Pool], jobs: &[ElasticJob], prices: &[Vec<(Shape, f64)>]) -> Vec<Option<Shape>> {
        let mut ways: Vec<Vec<Shape>> = Vec::with_capacity(jobs.len());
        let mut items = Vec::with_capacity(jobs.len());
        for (at, job) in jobs.iter().enumerate() {
            let (of_job, mut item) = self.item(pools, job);
            for (shape, price) in prices.get(at).into_iter().flatten().filter(|_| !job.pinned) {
                let choices = of_job.iter().zip(&mut item.choices).filter(|(way, _)| *way == shape);
                choices.for_each(|(_, choice)| choice.cost = *price);
            }
            ways.push(of_job);
            items.push(item);
        }
        let problem = Problem { capacities: pools.iter().map(Pool::gpus).collect(), items };
        // What cannot be solved, because of a limit of the solver, leaves everybody where he is.
        let Ok(solution) = solve(&problem, SUMS_MAX) else { return jobs.iter().map(|job| job.shape).collect() };
        let chosen = ways.iter().zip(&solution.chosen);
        chosen.map(|(ways, at)| ways.get((*at)? as usize).copied()).collect()
    }

    /// The shapes that a job can have, and what they cost.
    fn item(&self, pools: &[Pool], job: &ElasticJob) -> (Vec<Shape>, Item) {
        if let Some(shape) = job.shape.filter(|_| job.pinned) {
            let choice = Choice { kind: shape.pool, units: shape.gpus, cost: 0.0 };
            return (alloc::vec![shape], Item { choices: alloc::vec![choice], nothing: None });
        }
        let (mut ways, mut choices) = (Vec::new(), Vec::new());
        for (shape, goodput) in self.goodputs(pools, job) {
            let cost = self.cost(job, goodput, job.shape.is_some_and(|has| has != shape));
            ways.push(shape);
            choices.push(Choice { kind: shape.pool, units: shape.gpus, cost: cost + self.tie(job, shape) });
        }
        (ways, Item { choices, nothing: Some(self.waiting()) })
    }

    /// The goodput of each shape that a job can have, as it counts.
    pub(super) fn goodputs(&self, pools: &[Pool], job: &ElasticJob) -> Vec<(Shape, f64)> {
        if job.rigid { rigid(pools, job) } else { self.row(job) }
    }

    /// What a goodput costs, and a restart where there is one.
    pub(super) fn cost(&self, job: &ElasticJob, goodput: f64, restarts: bool) -> f64 {
        let goodput = if restarts { goodput * restart_factor(job) } else { goodput };
        let cost = libm::pow(goodput, self.options.p).min(COST_MAX);
        (if self.options.rounded { libm::round(cost * 100.0) / 100.0 } else { cost }) * self.sign()
    }

    /// What tells a shape from those that cost the same, drawn anew for each job and round.
    fn tie(&self, job: &ElasticJob, shape: Shape) -> f64 {
        if self.options.ties == 0 {
            return 0.0;
        }
        let of = [u64::from(job.id), job.age_s.to_bits(), u64::from(shape.pool), u64::from(shape.gpus)];
        let mix = |hash: u64, of: u64| (hash ^ of).wrapping_mul(units::GOLDEN).rotate_left(31);
        let drawn = of.into_iter().fold(self.options.ties, mix).wrapping_mul(units::GOLDEN);
        units::unit_interval(drawn) * TIE
    }

    /// What a job costs that has nothing.
    pub(super) fn waiting(&self) -> f64 {
        self.options.lambda_n * self.sign()
    }

    /// Sums of powers above 0 are to be large, others small.
    fn sign(&self) -> f64 {
        if self.options.p > 0.0 { -1.0 } else { 1.0 }
    }

    /// The goodput of each shape that a job can have, over the least of them.
    fn row(&self, job: &ElasticJob) -> Vec<(Shape, f64)> {
        let takes = self.shapes.iter().filter(|shape| job.takes(shape.pool));
        let mut row: Vec<(Shape, f64)> = if job.model.is_known() {
            let within = takes.filter(|shape| job.replicas(**shape).is_some_and(|replicas| replicas <= job.gpus_max.max(1)));
            within.filter_map(|shape| Some((*shape, job.model.best(usize::from(shape.pool), shape.layout())?.goodput))).collect()
        } else {
            let alone = |shape: &Shape| job.model.pools.get(usize::from(shape.pool)).map_or(0.0, |pool| pool.alone);
            let one = takes.filter(|shape| job.replicas(**shape) == Some(1));
            one.map(|shape| (*shape, if self.options.profiled { alone(shape) } else { 1.0 })).collect()
        };
        row.retain(|(_, goodput)| *goodput > 0.0 && goodput.is_finite());
        let least = row.iter().min_by(|a, b| a.1.total_cmp(&b.1)).copied();
        // The least of all counts as much as it has GPUs: one, or a pipeline.
        let unit = least.map_or(1.0, |(shape, goodput)| goodput / f64::from(job.stages(shape.pool)));
        row.iter_mut().for_each(|(_, goodput)| *goodput /= unit);
        row
    }
}

/// The types that a rigid job can have, the slowest of which counts as much as it has GPUs (section 3.5, equation 5).
fn rigid(pools: &[Pool], job: &ElasticJob) -> Vec<(Shape, f64)> {
    let takes = pools.iter().zip(0..).zip(&job.rates).filter(|((pool, at), rate)| {
        let rows = pool.nodes_for(job.asked);
        job.takes(*at) && **rate > 0.0 && job.asked > 0 && rows <= pool.nodes.min(pool.nodes_max.max(1))
    });
    let rates: Vec<(Shape, f64)> =
        takes.map(|((pool, at), rate)| (Shape { pool: at, nodes: pool.nodes_for(job.asked), gpus: job.asked }, *rate)).collect();
    let least = rates.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
    rates.into_iter().map(|(shape, rate)| (shape, f64::from(job.asked) * rate / least)).collect()
}

/// What another shape is worth, because it costs a restart: the share of its life in which the job would not have restarted, were it as long again
/// (equation 2; Pollux, section 4.2).
pub(super) fn restart_factor(job: &ElasticJob) -> f64 {
    if job.age_s < job.restart_s || job.age_s <= 0.0 {
        return 1.0;
    }
    let lost_s = f64::from(job.restarts) * job.restart_s;
    (job.age_s - lost_s).max(0.0) / (job.age_s + job.restart_s)
}
