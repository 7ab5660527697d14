//! Traces as the CASSINI paper describes them (NSDI 2024, section 5.1); it published none.
//!
//! Its words: jobs of 13 models; workers of a job uniform from 1 to 12; 200 to 1,000 iterations; a Poisson trace with a load of 80 to 100 %, a
//! dynamic one, in which jobs arrive while others run, and snapshots, in which all are there from the beginning (`cassini/snapshots.rs`). Ours, because the paper is silent: batches are the reference's of each
//! model or a quarter more or less, within the paper's range; model-parallel jobs have the ranks that their splits need; who runs in the
//! dynamic trace; and nobody pays for restarts.

mod snapshots;

use alloc::{collections::BTreeMap, format, string::ToString as _, vec::Vec};

use ::job::{Hold, Job};
use policy::muri::{Profile, Stages};
use profile::{Model, Request, find_model, synthesise};
use units::Rate;

use crate::testbed::noise::Noise;

pub use self::snapshots::{SNAPSHOT_WORKERS, SNAPSHOTS, Snapshot, SnapshotRow, snapshot_trace};
use super::{Trace, TraceError, TraceJob, Traffic};

/// Which jobs come, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CassiniTrace {
    /// Jobs that synchronise replicas, one after the other (figure 11).
    PoissonData,
    /// Jobs that are split by layers and tables, one after the other (figure 12).
    PoissonModel,
    /// Replicas run, and a recommender and a small network come (figure 13).
    DynamicData,
    /// The same of jobs that are split (figure 14).
    DynamicModel,
    /// Jobs that synchronise replicas fill the cluster, all there from the beginning.
    Snapshot,
    /// Ours: a search over parameters that change no times. All jobs are the paper's VGG16 on two servers, so all periods are equal.
    Sweep,
    /// Ours: the same with two batches, so that periods are a few percent apart.
    NearSweep,
}

/// GPUs of the cluster that the paper used.
pub const CASSINI_GPUS: u32 = 24;
/// Line rate of its NICs.
const NIC: Rate = Rate(50_000);
/// Share of the GPUs that arrivals would keep busy, in percent: the middle of the paper's 80 to 100.
const LOAD_PERCENT: f64 = 90.0;
/// Most workers of a job, and iterations of one from when to when.
const WORKERS_MAX: u64 = 12;
const ITERATIONS: (u64, u64) = (200, 1_000);
/// Share of the reference's batch that jobs use, in percent; each as likely.
const BATCH_PERCENT: [u64; 3] = [75, 100, 125];
/// When jobs come to the dynamic trace, in seconds.
const COMES_S: f64 = 30.0;
/// Jobs of the dynamic trace run for about so long, in seconds, so that they are all there at once for most of it.
const DYNAMIC_S: f64 = 240.0;

const DATA: [&str; 10] = ["vgg11", "vgg16", "vgg19", "wideresnet101", "resnet50", "bert", "roberta", "camembert", "xlm", "dlrm"];
const SPLIT: [&str; 4] = ["gpt1", "gpt2", "gpt3", "dlrm"];
/// Models and workers of the dynamic traces: those that run, and those that come.
/// Those that run leave single servers of several leaves, so those that come stand on several.
const RUNNING_DATA: [(&str, u32); 4] = [("vgg16", 7), ("vgg19", 6), ("wideresnet101", 3), ("roberta", 3)];
const RUNNING_SPLIT: [(&str, u32); 3] = [("gpt3", 8), ("gpt2", 6), ("gpt1", 5)];
const COMING_DATA: [(&str, u32); 2] = [("dlrm", 3), ("resnet50", 2)];
const COMING_SPLIT: [(&str, u32); 1] = [("dlrm", 4)];

/// Model, workers and batches of the sweeps: the paper's setting of figure 3, and 4 % less.
const SWEPT: (&str, u32) = ("vgg16", 2);
const SWEEP: [u64; 2] = [1_400, 1_344];

/// A job before it has a time.
struct Drawn {
    model: &'static Model,
    workers: u32,
    batch: u64,
    iterations: u64,
}

/// Makes a trace for [`CASSINI_GPUS`]. `jobs` is how many come in a Poisson trace.
///
/// # Errors
/// [`TraceError::Table`]: a model of the zoo cannot be split as the trace has it; it is ours to mend.
pub fn cassini_trace(kind: CassiniTrace, gpus_per_host: u32, jobs: usize, seed: u64) -> Result<Trace, TraceError> {
    let mut draw = Noise::new(seed, 0, 0);
    let mut maker = Maker { gpus_per_host, trace: Trace::default(), known: BTreeMap::new() };
    match kind {
        CassiniTrace::PoissonData | CassiniTrace::PoissonModel => maker.poisson(kind, jobs, &mut draw)?,
        CassiniTrace::Sweep => maker.sweep(&SWEEP[..1], jobs, &mut draw)?,
        CassiniTrace::NearSweep => maker.sweep(&SWEEP, jobs, &mut draw)?,
        CassiniTrace::Snapshot => maker.fill(&mut draw)?,
        CassiniTrace::DynamicData => maker.dynamic(&RUNNING_DATA, &COMING_DATA, &mut draw)?,
        CassiniTrace::DynamicModel => maker.dynamic(&RUNNING_SPLIT, &COMING_SPLIT, &mut draw)?,
    }
    Ok(maker.trace)
}

struct Maker {
    gpus_per_host: u32,
    trace: Trace,
    /// Number of the traffic and of the profile, by model, workers and batch.
    known: BTreeMap<(&'static str, u32, u64), u16>,
}

impl Maker {
    fn poisson(&mut self, kind: CassiniTrace, jobs: usize, draw: &mut Noise) -> Result<(), TraceError> {
        let models: &[&str] = if kind == CassiniTrace::PoissonData { &DATA } else { &SPLIT };
        let mut drawn: Vec<Drawn> = Vec::with_capacity(jobs);
        for _ in 0..jobs {
            let model = model(models[draw.below(models.len() as u64) as usize])?;
            let workers = workers(model, kind, draw);
            let iterations = ITERATIONS.0 + draw.below(ITERATIONS.1 - ITERATIONS.0 + 1);
            drawn.push(Drawn { model, workers, batch: batch(model, draw), iterations });
        }
        self.arrive(drawn, draw)
    }

    fn sweep(&mut self, batches: &[u64], jobs: usize, draw: &mut Noise) -> Result<(), TraceError> {
        let model = model(SWEPT.0)?;
        let job = |draw: &mut Noise| Drawn {
            model,
            workers: SWEPT.1,
            batch: batches[draw.below(batches.len() as u64) as usize],
            iterations: ITERATIONS.0 + draw.below(ITERATIONS.1 - ITERATIONS.0 + 1),
        };
        let drawn = (0..jobs).map(|_| job(draw)).collect();
        self.arrive(drawn, draw)
    }

    /// Adds jobs that come one after the other, so often that they would keep the cluster busy for [`LOAD_PERCENT`].
    fn arrive(&mut self, drawn: Vec<Drawn>, draw: &mut Noise) -> Result<(), TraceError> {
        let mut gpu_s = 0.0;
        for job in &drawn {
            gpu_s += f64::from(job.workers) * job.iterations as f64 * self.period_s(job)?;
        }
        let mean_s = gpu_s / drawn.len().max(1) as f64 / f64::from(CASSINI_GPUS) / (LOAD_PERCENT / 100.0);
        let mut at_s = 0.0;
        for job in drawn {
            self.add(&job, at_s)?;
            at_s += draw.exponential(mean_s);
        }
        Ok(())
    }

    /// Jobs that are all there, as many as the cluster holds.
    fn fill(&mut self, draw: &mut Noise) -> Result<(), TraceError> {
        let mut left = CASSINI_GPUS;
        while left > 0 {
            let model = model(DATA[draw.below(DATA.len() as u64) as usize])?;
            let workers = workers(model, CassiniTrace::Snapshot, draw).min(left);
            left -= workers;
            let batch = batch(model, draw);
            self.add_for_long(model, workers, batch, 0.0)?;
        }
        Ok(())
    }

    /// A job that runs for about [`DYNAMIC_S`].
    fn add_for_long(&mut self, model: &'static Model, workers: u32, batch: u64, at_s: f64) -> Result<(), TraceError> {
        let job = Drawn { model, workers, batch, iterations: 1 };
        let iterations = (DYNAMIC_S / self.period_s(&job)?) as u64;
        self.add(&Drawn { iterations: iterations.max(1), ..job }, at_s)
    }

    fn dynamic(&mut self, running: &[(&str, u32)], coming: &[(&str, u32)], draw: &mut Noise) -> Result<(), TraceError> {
        for (jobs, at_s) in [(running, 0.0), (coming, COMES_S)] {
            for &(name, workers) in jobs {
                let model = model(name)?;
                self.add_for_long(model, workers, batch(model, draw), at_s)?;
            }
        }
        Ok(())
    }

    fn period_s(&mut self, job: &Drawn) -> Result<f64, TraceError> {
        let at = self.known(job)?;
        Ok(self.trace.profiles[usize::from(at)].iteration_s)
    }

    fn add(&mut self, job: &Drawn, submitted_s: f64) -> Result<(), TraceError> {
        let at = self.known(job)?;
        let iteration_s = self.trace.profiles[usize::from(at)].iteration_s;
        let number = self.trace.jobs.len() as u64 + 1;
        self.trace.jobs.push(TraceJob {
            id: format!("{}-{number}", job.model.name),
            line: number,
            gpus: job.workers,
            gpus_max: job.workers,
            submitted_s,
            declared_s: job.iterations as f64 * iteration_s,
            iterations: job.iterations as f64,
            iteration_ms: iteration_s * 1e3,
            profile: at,
            opportunistic: false,
            weight: 1,
            traffic: Some(at),
            up_ms: None,
            model: Some(job.model.name.into()),
        });
        Ok(())
    }

    /// The profile and the traffic of such a job, made once.
    fn known(&mut self, job: &Drawn) -> Result<u16, TraceError> {
        let key = (job.model.name, job.workers, job.batch);
        if let Some(&at) = self.known.get(&key) {
            return Ok(at);
        }
        let whole = traffic(job, self.gpus_per_host)?;
        let period_s = whole.period.0 as f64 / 1e9;
        let stages = Stages { load_s: 0.0, gpu_s: period_s, net_s: 0.0 };
        let profile = Profile::try_new(period_s, stages, 0.0).map_err(|source| TraceError::Profile { line: 0, source })?;
        // Ten models, twelve numbers of workers and three batches are few.
        let at = self.trace.profiles.len() as u16;
        self.trace.profiles.push(profile);
        self.trace.traffic.push(Traffic { period: whole.period, phases: whole.phases });
        self.known.insert(key, at);
        Ok(at)
    }
}

fn impossible(problem: impl core::fmt::Display) -> TraceError {
    TraceError::Table { line: 0, problem: problem.to_string() }
}

fn model(name: &str) -> Result<&'static Model, TraceError> {
    find_model(name).ok_or_else(|| impossible(format!("no model {name:?} in the zoo")))
}

/// Workers of a job: any number for replicas and tables; pipelines of two or four, and the reference's for a split in several ways.
fn workers(model: &Model, kind: CassiniTrace, draw: &mut Noise) -> u32 {
    match (kind, model.name) {
        (CassiniTrace::PoissonModel, "gpt1" | "gpt2") => 2 + 2 * draw.below(2) as u32,
        (CassiniTrace::PoissonModel, "gpt3") => model.reference.dims.ranks(),
        _ => 1 + draw.below(WORKERS_MAX) as u32,
    }
}

fn batch(model: &Model, draw: &mut Noise) -> u64 {
    let percent = BATCH_PERCENT[draw.below(BATCH_PERCENT.len() as u64) as usize];
    (model.reference.batch * percent / 100).clamp(model.batch.value.0, model.batch.value.1)
}

fn traffic(job: &Drawn, gpus_per_host: u32) -> Result<Job, TraceError> {
    let request = Request {
        ranks: Some(job.workers),
        gpus_per_host: Some(gpus_per_host),
        nics_per_host: Some(1),
        batch: Some(job.batch),
        nic_rate: Some(NIC),
        ..Request::default()
    };
    let setup = request.resolve(job.model).map_err(impossible)?;
    let profile = synthesise(job.model, &setup.parallelism, &setup.hardware, setup.batch).map_err(impossible)?;
    Job::of_profile(job.model.name.to_string(), &profile, Hold::Phases).map_err(impossible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_have_the_numbers_of_the_paper_and_follow_from_their_seed() {
        for kind in [CassiniTrace::PoissonData, CassiniTrace::PoissonModel] {
            let trace = cassini_trace(kind, 1, 300, 5).unwrap();
            assert_eq!(trace, cassini_trace(kind, 1, 300, 5).unwrap());
            assert!(trace != cassini_trace(kind, 1, 300, 6).unwrap());
            assert_eq!(trace.jobs.len(), 300);
            assert!(trace.jobs.iter().all(|job| (1..=12).contains(&job.gpus) && (200.0..=1_000.0).contains(&job.iterations)));
            // Arrivals would keep nine tenths of the GPUs busy; 300 of them, about 6 % to either side.
            let gpu_s: f64 = trace.jobs.iter().map(|job| f64::from(job.gpus) * job.declared_s).sum();
            let load = gpu_s / trace.jobs[299].submitted_s / f64::from(CASSINI_GPUS);
            assert!((0.75..1.1).contains(&load), "{load}");
        }
        for kind in [CassiniTrace::DynamicData, CassiniTrace::DynamicModel, CassiniTrace::Snapshot] {
            let trace = cassini_trace(kind, 1, 0, 1).unwrap();
            let gpus = trace.jobs.iter().map(|job| job.gpus).sum::<u32>();
            assert!(if kind == CassiniTrace::Snapshot { gpus == CASSINI_GPUS } else { gpus <= CASSINI_GPUS });
            assert!(kind != CassiniTrace::Snapshot || trace.jobs.iter().all(|job| job.submitted_s == 0.0));
            assert!(trace.jobs.iter().all(|job| (200.0..245.0).contains(&job.declared_s)), "{:?}", trace.jobs);
        }
        let periods = |kind| {
            let trace = cassini_trace(kind, 1, 50, 3).unwrap();
            trace.profiles.iter().map(|profile| (profile.iteration_s * 1e3 + 0.5) as u64).collect::<Vec<_>>()
        };
        assert_eq!(periods(CassiniTrace::Sweep), [255]);
        assert_eq!(periods(CassiniTrace::NearSweep).len(), 2);
        assert!(periods(CassiniTrace::NearSweep).iter().all(|period| (240..=255).contains(period)));
        // Two GPUs a host is the paper's other testbed.
        assert!(cassini_trace(CassiniTrace::PoissonData, 2, 50, 1).is_ok());
    }
}
