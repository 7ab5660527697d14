//! Traces of Muri: Philly jobs with one of eight models drawn for each (Rivendile/Muri, `trace-data`).
//!
//! Columns, in any order: `job_id`, `num_gpu`, `submit_time` (ms), `iterations`, `model_name`, `duration` (ms), `iteration_time` (ms),
//! `resource_time_0` (load), `resource_time_1` (GPU), `resource_time_2` (network; all ms), `priority` (0 guaranteed, 1 opportunistic).
//! Further columns are left out. The times of each row hold for it, also where rows of one model differ.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
};

use policy::muri::{Profile, Stages, measured};

use super::{
    Trace, TraceError, TraceJob,
    jobs::{JOBS_MAX, PROFILES_MAX},
};

const COLUMNS: [&str; 11] = [
    "job_id",
    "num_gpu",
    "submit_time",
    "iterations",
    "model_name",
    "duration",
    "iteration_time",
    "resource_time_0",
    "resource_time_1",
    "resource_time_2",
    "priority",
];

/// Milliseconds in a second.
const MS: f64 = 1_000.0;

/// Latest time and longest duration, in milliseconds: a hundred years, which floats count in microseconds still.
const TIME_MS_MAX: f64 = 3.2e12;

/// Most iterations of a job, far above what runs in a hundred years.
const ITERATIONS_MAX: f64 = 1e15;

/// Reads a trace in the format of Muri.
///
/// # Errors
/// [`TraceError`], the first thing that is wrong.
pub fn read_muri(text: &str) -> Result<Trace, TraceError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| table(&e))?.clone();
    let mut places = [0; COLUMNS.len()];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        *place = header.iter().position(|column| column == name).ok_or(TraceError::Column { name })?;
    }
    let mut trace = Trace::default();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let mut profiles: BTreeMap<[u64; 5], u16> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|e| table(&e))?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = Row { line, fields: places.map(|place| record.get(place).unwrap_or_default()) };
        let (mut job, profile) = row.job()?;
        if let Some(first) = lines.insert(job.id.clone(), line) {
            return Err(TraceError::Twice { line, id: job.id, first });
        }
        // Bits tell floats apart without comparing them; equal profiles have equal bits.
        let Stages { load_s, gpu_s, net_s } = profile.stages;
        let key = [profile.iteration_s, load_s, gpu_s, net_s, profile.restart_s].map(f64::to_bits);
        job.profile = match profiles.get(&key) {
            Some(&known) => known,
            None if trace.profiles.len() >= PROFILES_MAX => return Err(TraceError::TooManyProfiles { line, limit: PROFILES_MAX }),
            None => {
                // PROFILES_MAX fits in 16 bits.
                let new = trace.profiles.len() as u16;
                trace.profiles.push(profile);
                profiles.insert(key, new);
                new
            }
        };
        if trace.jobs.len() >= JOBS_MAX {
            return Err(TraceError::TooMany { line, limit: JOBS_MAX });
        }
        trace.jobs.push(job);
    }
    if trace.jobs.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
}

fn table(error: &csv::Error) -> TraceError {
    let problem = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => alloc::format!("{len} fields, expected {expected_len}"),
        _ => error.to_string(),
    };
    TraceError::Table { line: error.position().map_or(1, csv::Position::line), problem }
}

struct Row<'a> {
    line: u64,
    fields: [&'a str; COLUMNS.len()],
}

impl Row<'_> {
    fn job(&self) -> Result<(TraceJob, Profile), TraceError> {
        let id = self.fields[0];
        if id.is_empty() {
            return Err(self.bad(0, "a name"));
        }
        let gpus: u32 = self.fields[1].parse().ok().filter(|gpus| *gpus > 0).ok_or_else(|| self.bad(1, "a whole number above 0"))?;
        let time = |at| self.number(at, 0.0, TIME_MS_MAX, "a time in milliseconds from 0 to 3.2e12");
        let (submitted, declared) = (time(2)?, time(5)?);
        let iterations = self.number(3, f64::MIN_POSITIVE, ITERATIONS_MAX, "a number above 0 and at most 1e15")?;
        let name = self.fields[4];
        let model = measured(name).ok_or_else(|| TraceError::Model { line: self.line, name: name.to_string() })?;
        let iteration_ms = time(6)?;
        let stages = Stages { load_s: time(7)? / MS, gpu_s: time(8)? / MS, net_s: time(9)? / MS };
        let profile = Profile::try_new(iteration_ms / MS, stages, model.restart_s(gpus));
        let profile = profile.map_err(|source| TraceError::Profile { line: self.line, source })?;
        let opportunistic = match self.fields[10] {
            "0" => false,
            "1" => true,
            _ => return Err(self.bad(10, "0 (guaranteed) or 1 (opportunistic)")),
        };
        let (submitted_s, declared_s) = (submitted / MS, declared / MS);
        let (id, line) = (id.to_string(), self.line);
        Ok((
            TraceJob { id, line, gpus, submitted_s, declared_s, iterations, iteration_ms, profile: 0, opportunistic, traffic: None },
            profile,
        ))
    }

    fn number(&self, at: usize, least: f64, most: f64, expected: &'static str) -> Result<f64, TraceError> {
        // The range also refuses what is not a number.
        self.fields[at].parse().ok().filter(|value| (least..=most).contains(value)).ok_or_else(|| self.bad(at, expected))
    }

    fn bad(&self, at: usize, expected: &'static str) -> TraceError {
        TraceError::Value { line: self.line, column: COLUMNS[at], value: self.fields[at].to_string(), expected }
    }
}
