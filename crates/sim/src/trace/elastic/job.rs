//! An elastic job of the trace while it waits, restarts and learns.

use alloc::{string::String, vec::Vec};

use policy::{
    elastic::{ElasticJob, Pool, Shape, Stand},
    goodput::{Batch, BatchLimits, Layout, Model, Observation, OnPool, Throughput, fit},
};

use super::application::Application;

/// Most GPUs of a job: as many as anything was measured with.
const GPUS_MAX: u32 = 64;
/// A job may have this many times the GPUs that it was ever measured with.
const GROWTH: u32 = 2;

/// A job as it was submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct ElasticSubmission {
    /// Its name.
    pub id: String,
    /// Line of the file.
    pub line: u64,
    /// When, on the trace's clock, in seconds.
    pub submitted_s: f64,
    /// The name of its application.
    pub application: String,
    /// GPUs that it asks for, where nobody chooses.
    pub gpus: u32,
    /// Its batch, where nobody chooses.
    pub batch: u32,
}

/// How jobs are treated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Treatment {
    /// Whether batches are tuned.
    pub(super) tunes: bool,
    /// Whether jobs know one type of GPU from another.
    pub(super) sees_types: bool,
    /// Whether policies count with no larger batch than the one that the job asks for.
    pub(super) asked_batches: bool,
    /// Whether a job that goes to other nodes in equal parts goes on without a restart.
    pub(super) moves_free: bool,
    /// Whether a job stays as it is while it restarts.
    pub(super) pins: bool,
}

/// A job's state.
pub(super) struct Running<'a> {
    pub(super) index: u32,
    pub(super) submission: &'a ElasticSubmission,
    app: &'a Application,
    treatment: Treatment,
    pub(super) stand: Option<Stand>,
    batch: Batch,
    /// What is left of a restart.
    restart_left_s: f64,
    started: bool,
    pub(super) restarts: u32,
    part: usize,
    progress: f64,
    pub(super) ended_s: Option<f64>,
    /// By type; all in the first where types are not told apart.
    seen: Vec<Vec<Observation>>,
    fitted: Vec<Option<Throughput>>,
    noise: Option<f64>,
    rates: Vec<f64>,
    pub(super) gpu_s: Vec<f64>,
    /// How many times as long iterations take where it stands as on a network that is in nobody's way.
    pub(super) longer: f64,
}

impl<'a> Running<'a> {
    pub(super) fn new(index: u32, submission: &'a ElasticSubmission, app: &'a Application, treatment: Treatment, pools: &[Pool]) -> Self {
        let types = app.speeds.len();
        let mut job = Self {
            index,
            submission,
            app,
            treatment,
            stand: None,
            batch: Batch { samples: 0, passes: 1 },
            restart_left_s: 0.0,
            started: false,
            restarts: 0,
            part: 0,
            progress: 0.0,
            ended_s: None,
            seen: alloc::vec![Vec::new(); types],
            fitted: alloc::vec![None; types],
            noise: None,
            rates: Vec::new(),
            gpu_s: alloc::vec![0.0; types],
            longer: 1.0,
        };
        job.rates = (0..types).zip(pools).map(|(at, pool)| job.rate(at, pool)).collect();
        job
    }

    fn limits(&self, pool: usize) -> BatchLimits {
        let (samples_least, samples_most) = self.app.speeds[pool].samples();
        BatchLimits { initial: self.app.learning.initial(), most: self.app.learning.most(), samples_least, samples_most }
    }

    /// Iterations a second with what the job asks for, on the fewest nodes of a type; 0 where it cannot run there.
    fn rate(&self, at: usize, pool: &Pool) -> f64 {
        let gpus = self.submission.gpus;
        if gpus > pool.gpus() {
            return 0.0;
        }
        let (whole, rest) = (gpus / pool.gpus_per_node, gpus % pool.gpus_per_node);
        let counts: Vec<u32> = (0..whole).map(|_| pool.gpus_per_node).chain((rest > 0).then_some(rest)).collect();
        let batch = self.given(at, &counts);
        let Some((iteration_s, sync_s)) = self.app.speeds[at].time(&counts, batch.samples) else { return 0.0 };
        let iteration_s = iteration_s + f64::from(batch.passes - 1) * (iteration_s - sync_s);
        if iteration_s > 0.0 { 1.0 / iteration_s / self.app.traits.slowdown } else { 0.0 }
    }

    /// Whether any type can run it with what it asks for.
    pub(super) fn runs_somewhere(&self) -> bool {
        self.rates.iter().any(|rate| *rate > 0.0)
    }

    /// The batch that the job asks for, as it is split on some GPUs.
    fn given(&self, pool: usize, counts: &[u32]) -> Batch {
        let limits = BatchLimits { samples_most: self.app.speeds[pool].samples_most(counts), ..self.limits(pool) };
        let batch = self.app.traits.only_batch.unwrap_or(self.submission.batch);
        self.fits(pool, counts, limits.split(f64::from(batch), counts.iter().sum()))
    }

    /// What of a batch fits in the GPUs, and in the largest batch.
    fn fits(&self, pool: usize, counts: &[u32], batch: Batch) -> Batch {
        let replicas: u32 = counts.iter().sum();
        let samples = self.app.speeds[pool].samples_of(replicas).map_or(batch.samples, |most| batch.samples.min(most));
        let most = self.app.learning.most() / replicas.saturating_mul(batch.passes).max(1);
        Batch { samples: samples.min(most).max(1), ..batch }
    }

    fn counts(stand: &Stand) -> Vec<u32> {
        stand.places.iter().map(|place| place.1).collect()
    }

    /// Where what was seen of a type is kept.
    fn memory(&self, pool: usize) -> usize {
        if self.treatment.sees_types { pool } else { 0 }
    }

    /// Chooses the batch anew.
    fn tune(&mut self) {
        let Some(stand) = &self.stand else { return };
        let (pool, counts) = (usize::from(stand.pool), Self::counts(stand));
        if !self.treatment.tunes || self.app.traits.only_batch.is_some() {
            self.batch = self.given(pool, &counts);
            return;
        }
        let limits = BatchLimits { samples_most: self.app.speeds[pool].samples_most(&counts), ..self.limits(pool) };
        let layout = Layout { nodes: counts.len() as u32, replicas: counts.iter().sum() };
        let known = self.fitted[self.memory(pool)].as_ref().zip(self.noise);
        let best = known.and_then(|(throughput, noise)| limits.best(throughput, noise, layout)).map(|best| best.batch);
        let first = || limits.split(f64::from(limits.initial.max(limits.samples_least.saturating_mul(layout.replicas))), layout.replicas);
        let batch = best.unwrap_or_else(first);
        self.batch = self.fits(pool, &counts, batch);
    }

    /// Takes a new stand; a restart, unless nothing changed.
    pub(super) fn stand_at(&mut self, stand: Option<Stand>) -> bool {
        let same = match (&self.stand, &stand) {
            (Some(has), Some(new)) if self.treatment.moves_free => has.pool == new.pool && Self::counts(has) == Self::counts(new),
            (has, new) => has == new,
        };
        let stopped = self.stand.is_some() && stand.is_none();
        self.stand = stand;
        if same || self.stand.is_none() {
            return stopped;
        }
        self.restart_left_s = self.app.traits.restart_s;
        self.restarts += u32::from(self.started);
        self.started = true;
        self.tune();
        stopped
    }

    /// Lets time go by from `now_s` on.
    pub(super) fn run(&mut self, now_s: f64, seconds: f64) {
        let Some(stand) = self.stand.clone() else { return };
        let counts = Self::counts(&stand);
        let waits_s = self.restart_left_s.min(seconds);
        self.restart_left_s -= waits_s;
        let (mut now_s, mut left_s) = (now_s + waits_s, seconds - waits_s);
        let mut used_s = waits_s;
        while left_s > 0.0 && self.ended_s.is_none() {
            let Some(speed) = self.learn(&stand, &counts) else { break };
            let end = self.app.learning.ends.get(self.part).copied().unwrap_or(self.progress);
            let needs_s = (end - self.progress) / speed;
            if needs_s > left_s {
                self.progress += speed * left_s;
                used_s += left_s;
                left_s = 0.0;
            } else {
                self.progress = end;
                self.part += 1;
                now_s += needs_s;
                left_s -= needs_s;
                used_s += needs_s;
                if self.part >= self.app.learning.ends.len() {
                    self.ended_s = Some(now_s);
                }
            }
            self.tune();
        }
        self.gpu_s[usize::from(stand.pool)] += used_s * f64::from(stand.shape().gpus);
    }

    /// How fast the job learns as it stands, in iterations of its initial batch a second; it measures that, too.
    fn learn(&mut self, stand: &Stand, counts: &[u32]) -> Option<f64> {
        let (pool, Batch { samples, passes }) = (usize::from(stand.pool), self.batch);
        let layout = Layout { nodes: counts.len() as u32, replicas: counts.iter().sum() };
        let total = self.batch.total(layout.replicas);
        // Neither is below 0, but what is measured of them may be.
        let (squared, variance) = self.app.learning.gradient(total, self.part);
        let (squared, variance) = (squared.max(0.0), variance.max(f64::MIN_POSITIVE));
        let (iteration_s, sync_s) = self.app.speeds[pool].time(counts, samples)?;
        self.noise = Some(if squared > 0.0 { variance / squared } else { f64::INFINITY });
        let memory = self.memory(pool);
        if !self.seen[memory].iter().any(|seen| seen.layout == layout && seen.samples == samples) {
            self.seen[memory].push(Observation { layout, samples, iteration_s, sync_s });
            self.fitted[memory] = fit(&self.seen[memory]);
        }
        let scale = total as f64 / f64::from(self.app.learning.initial());
        let gain = (variance + squared) / (variance / scale + squared);
        let all_s = iteration_s + f64::from(passes - 1) * (iteration_s - sync_s);
        // Contention is felt, and no part of what the job measures of itself: so has it the simulator of Pollux's authors.
        let speed = gain / (all_s * self.longer) / self.app.traits.slowdown;
        (speed > 0.0).then_some(speed)
    }

    /// One iteration as it stands, on a network that is in nobody's way, and how much of it is sending, in seconds; `None` where it stands nowhere.
    pub(super) fn times(&self) -> Option<(f64, f64)> {
        let stand = self.stand.as_ref()?;
        let Batch { samples, passes } = self.batch;
        let (iteration_s, sync_s) = self.app.speeds.get(usize::from(stand.pool))?.time(&Self::counts(stand), samples)?;
        let slowdown = self.app.traits.slowdown;
        Some(((iteration_s + f64::from(passes - 1) * (iteration_s - sync_s)) * slowdown, sync_s.max(0.0) * slowdown))
    }

    /// What a policy sees.
    pub(super) fn seen_at(&self, now_s: f64, pools: &[Pool], shape: Option<Shape>) -> ElasticJob {
        let measured = self.seen.iter().flatten().map(|seen| seen.layout.replicas).max().unwrap_or(0);
        let limits = |at: usize| self.limits(if self.treatment.sees_types { at } else { 0 });
        let most = (0..pools.len()).map(|at| limits(at).replicas_max()).max().unwrap_or(1);
        let on = |(at, pool): (usize, &Pool)| OnPool {
            limits: limits(at),
            gpus_per_node: pool.gpus_per_node,
            // No trace of Sia's authors has jobs whose replicas are pipelines.
            pipeline: None,
            alone: self.app.speeds[at].alone(),
            throughput: self.fitted[self.memory(at)],
        };
        let asked = self.treatment.asked_batches.then_some(self.submission.batch);
        ElasticJob {
            id: self.index,
            age_s: now_s - self.submission.submitted_s,
            restarts: self.restarts,
            restart_s: self.app.traits.restart_believed_s,
            served_gpu_s: self.gpu_s.iter().sum(),
            shape,
            stand: self.stand.clone(),
            pinned: self.restart_left_s > 0.0 && self.stand.is_some() && self.treatment.pins,
            gpus_max: if self.app.traits.only_batch.is_some() { 1 } else { (measured * GROWTH).clamp(1, GPUS_MAX).min(most.max(1)) },
            model: Model { pools: pools.iter().enumerate().map(on).collect(), noise: self.noise, batch: None, counted_most: asked },
            asked: self.submission.gpus,
            rigid: false,
            only: None,
            rates: self.rates.clone(),
        }
    }
}
