//! Jobs of a trace.

use alloc::{string::String, vec::Vec};

use ::job::TrafficPhase;
use policy::{muri::Profile, schedule::Capacity};
use units::Nanos;

use super::TraceError;

/// Most jobs in a trace: ten times the largest that was published for one cluster (Philly, 117,325 jobs).
pub(super) const JOBS_MAX: usize = 1_200_000;

/// Most profiles that are told apart: the grouping of Muri keeps 16 bits for one, of which one value means none.
pub(super) const PROFILES_MAX: usize = 65_000;

/// A job as a trace has it. Times are seconds in floats, as the figures that are reproduced were computed in them.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceJob {
    /// Its name.
    pub id: String,
    /// Line of the file.
    pub line: u64,
    /// GPUs that it needs.
    pub gpus: u32,
    /// The most that it can use, as many as it needs for one that does not grow.
    pub gpus_max: u32,
    /// When it was submitted.
    pub submitted_s: f64,
    /// How long it runs alone, as the trace says.
    pub declared_s: f64,
    /// Iterations that it runs.
    pub iterations: f64,
    /// One iteration alone, in milliseconds.
    pub iteration_ms: f64,
    /// Its entry in [`Trace::profiles`].
    pub profile: u16,
    /// Whether it only uses what guaranteed jobs leave, under AntMan.
    pub opportunistic: bool,
    /// How large a part of the turns of a crowded host it has beside others, under Gandiva; above zero.
    pub weight: u32,
    /// Its entry in [`Trace::traffic`]; `None`: it sends in its network time.
    pub traffic: Option<u16>,
    /// For how long of an iteration it sends, in milliseconds; `None` where the trace does not say.
    pub up_ms: Option<f64>,
    /// The name that the trace has for its model; `None` where it has none.
    pub model: Option<String>,
}

/// What a job sends in an iteration, as its trace tells it: phases among its ranks, of which there is one for each of its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// One iteration alone.
    pub period: Nanos,
    /// When it sends.
    pub phases: Vec<TrafficPhase>,
}

/// Jobs that arrive, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The jobs.
    pub jobs: Vec<TraceJob>,
    /// What their iterations consist of, each once.
    pub profiles: Vec<Profile>,
    /// What iterations send, each once, where the trace tells it.
    pub traffic: Vec<Traffic>,
    /// Entries of the file that are no job that could be played: without GPUs, or never run.
    pub left_out: u64,
}

impl Trace {
    /// When the first job was submitted, on the trace's clock; infinite without jobs.
    #[must_use]
    pub fn began_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.submitted_s).fold(f64::INFINITY, f64::min)
    }

    /// Checks that each job fits in the cluster when nobody else runs, and could use no more.
    ///
    /// # Errors
    /// [`TraceError::TooLarge`] or [`TraceError::GrowsTooLarge`] for the first that does not.
    pub fn check(&self, hosts: &Capacity) -> Result<(), TraceError> {
        let Some(job) = self.jobs.iter().find(|job| !hosts.holds(job.gpus) || !hosts.holds(job.gpus_max)) else { return Ok(()) };
        let (line, id, count, has) = (job.line, job.id.clone(), hosts.full().len() as u32, hosts.all());
        Err(if hosts.holds(job.gpus) {
            TraceError::GrowsTooLarge { line, id, gpus_max: job.gpus_max, hosts: count, has }
        } else {
            TraceError::TooLarge { line, id, gpus: job.gpus, hosts: count, has }
        })
    }

    /// Whether any job may grow.
    pub(super) fn grows(&self) -> bool {
        self.jobs.iter().any(|job| job.gpus_max > job.gpus)
    }
}
