//! Jobs of which a trace only says how long they ran.
//!
//! Assumed of all of them, because the traces do not say: an iteration takes [`ITERATION_S`] and only computes, and a restart costs
//! [`RESTART_S`]. So no policy finds anything to share, and a job takes the time that it took.

use alloc::string::String;

use policy::muri::{Profile, RESTART_S, Stages};

use super::{
    super::{TraceError, TraceJob},
    gather::{Gathered, MS, TIME_S_MAX},
};

/// Length of an iteration.
const ITERATION_S: f64 = 1.0;

/// A job that ran.
pub(super) struct Timed {
    pub(super) id: String,
    pub(super) line: u64,
    pub(super) gpus: u32,
    pub(super) submitted_s: f64,
    pub(super) ran_s: f64,
    pub(super) opportunistic: bool,
    pub(super) model: Option<String>,
}

impl Timed {
    /// Takes the job into a trace.
    pub(super) fn into_trace(self, gathered: &mut Gathered) -> Result<(), TraceError> {
        let Self { id, line, gpus, submitted_s, ran_s, opportunistic, model } = self;
        let (iterations, iteration_ms) = (ran_s / ITERATION_S, ITERATION_S * MS);
        let stages = Stages { load_s: 0.0, gpu_s: ITERATION_S, net_s: 0.0 };
        let profile = Profile { iteration_s: ITERATION_S, stages, restart_s: RESTART_S };
        let job = TraceJob {
            id,
            line,
            gpus,
            gpus_max: gpus,
            submitted_s,
            declared_s: ran_s,
            iterations,
            iteration_ms,
            profile: 0,
            opportunistic,
            weight: 1,
            traffic: None,
            up_ms: None,
            model,
        };
        gathered.push(job, profile)
    }
}

/// A time in seconds, as the formats below have it.
pub(super) const SECONDS: &str = "a time in seconds from 0 to 3.2e9";

/// The limits of [`SECONDS`].
pub(super) const SECONDS_RANGE: (f64, f64) = (0.0, TIME_S_MAX);
