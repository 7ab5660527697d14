//! Jobs of a trace, gathered one by one.

use alloc::{collections::BTreeMap, string::String};

use policy::muri::{Profile, Stages};

use super::{
    super::{
        Trace, TraceError, TraceJob, Traffic,
        jobs::{JOBS_MAX, PROFILES_MAX},
    },
    table::{Row, Table},
};

/// Latest time and longest duration, in seconds: a hundred years, which floats count in microseconds still.
pub(super) const TIME_S_MAX: f64 = 3.2e9;

/// Most iterations of a job, far above what runs in a hundred years.
pub(super) const ITERATIONS_MAX: f64 = 1e15;

/// Most ranks and phases of all models of a trace together, each model counting once for each number of GPUs: some hundred MiB of traffic.
const TRAFFIC_MAX: u64 = 1 << 20;

/// Milliseconds in a second.
pub(super) const MS: f64 = 1_000.0;

/// What has been read so far.
#[derive(Default)]
pub(super) struct Gathered {
    trace: Trace,
    lines: BTreeMap<String, u64>,
    profiles: BTreeMap<[u64; 5], u16>,
    /// Ranks and phases so far.
    charged: u64,
}

impl Gathered {
    /// Gathers from the rows of a table, whose first `required` columns must be there.
    pub(super) fn of_rows(
        text: &str,
        columns: &'static [&'static str],
        required: usize,
        mut take: impl FnMut(&mut Self, &Row<'_>) -> Result<(), TraceError>,
    ) -> Result<Self, TraceError> {
        let mut table = Table::open(text, columns, required)?;
        let mut gathered = Self::default();
        while let Some(row) = table.next()? {
            take(&mut gathered, &row)?;
        }
        Ok(gathered)
    }

    /// Takes in a job with what its iterations consist of.
    pub(super) fn push(&mut self, mut job: TraceJob, profile: Profile) -> Result<(), TraceError> {
        let (line, trace) = (job.line, &mut self.trace);
        if let Some(&first) = self.lines.get(&job.id) {
            return Err(TraceError::Twice { line, id: job.id, first });
        }
        // Each of the two has a limit of its own, and their product would be ages.
        if job.iterations * job.iteration_ms > TIME_S_MAX * MS {
            return Err(TraceError::TooLong { line, iterations: job.iterations, iteration_ms: job.iteration_ms, limit_s: TIME_S_MAX });
        }
        if trace.jobs.len() >= JOBS_MAX {
            return Err(TraceError::TooMany { line, limit: JOBS_MAX });
        }
        // Bits tell floats apart without comparing them; equal profiles have equal bits.
        let Stages { load_s, gpu_s, net_s } = profile.stages;
        let key = [profile.iteration_s, load_s, gpu_s, net_s, profile.restart_s].map(f64::to_bits);
        job.profile = match self.profiles.get(&key) {
            Some(&known) => known,
            None if trace.profiles.len() >= PROFILES_MAX => return Err(TraceError::TooManyProfiles { line, limit: PROFILES_MAX }),
            None => {
                // PROFILES_MAX fits in 16 bits.
                let new = trace.profiles.len() as u16;
                trace.profiles.push(profile);
                self.profiles.insert(key, new);
                new
            }
        };
        self.lines.insert(job.id.clone(), line);
        trace.jobs.push(job);
        Ok(())
    }

    /// Counts ranks, or phases, of a model.
    pub(super) fn charge(&mut self, line: u64, amount: u64) -> Result<(), TraceError> {
        self.charged = self.charged.saturating_add(amount);
        if self.charged > TRAFFIC_MAX { Err(TraceError::TooMuchTraffic { line, limit: TRAFFIC_MAX }) } else { Ok(()) }
    }

    /// Takes in what an iteration sends.
    pub(super) fn traffic(&mut self, line: u64, traffic: Traffic) -> Result<u16, TraceError> {
        let known = self.trace.traffic.len();
        if known >= PROFILES_MAX {
            return Err(TraceError::TooManyProfiles { line, limit: PROFILES_MAX });
        }
        self.trace.traffic.push(traffic);
        // PROFILES_MAX fits in 16 bits.
        Ok(known as u16)
    }

    /// Counts an entry that is no job that could be played.
    pub(super) fn leave_out(&mut self) {
        self.trace.left_out += 1;
    }

    /// The trace on a clock that begins with the first submission: seconds since 1970 would be too many for what counts as one event.
    pub(super) fn done_from_first(mut self, text: &str) -> Result<Trace, TraceError> {
        let first_s = self.trace.jobs.iter().map(|job| job.submitted_s).fold(f64::INFINITY, f64::min);
        self.trace.jobs.iter_mut().for_each(|job| job.submitted_s -= first_s);
        self.done(text)
    }

    /// The trace, which has jobs.
    pub(super) fn done(self, text: &str) -> Result<Trace, TraceError> {
        if self.trace.jobs.is_empty() { Err(TraceError::empty(text, "a job that could be played")) } else { Ok(self.trace) }
    }
}
