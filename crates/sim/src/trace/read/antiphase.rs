//! Our own format: what a policy and the network want to know of a job, and no more.
//!
//! CSV with a header; columns in any order, others are left out; a field that may be missing may also be empty.
//!
//! | column | meaning |
//! |---|---|
//! | `job_id` | its name, once in the file |
//! | `submit_s` | when it was submitted, in seconds |
//! | `gpus` | GPUs that it needs, all or none |
//! | `gpus_max` | the most that it can use where more are idle (Gandiva); as many as it needs when missing: it does not grow. Not beside `model`, whose times hold for its own number of ranks |
//! | `iterations` | iterations that it runs |
//! | `iteration_ms` | one iteration alone; or else `model` |
//! | `up_ms` | for how long of it the job sends; 0 when missing |
//! | `load_ms` | for how long of it the job loads data; 0 when missing. What is left of the iteration is computing |
//! | `model` | a model of the zoo (`antiphase profile zoo`), in place of the three times: `antiphase profile synth MODEL --ranks GPUS` gives them, and on a fabric the job sends in those phases |
//! | `restart_s` | what a start costs before the first iteration; 10 s when missing |
//! | `priority` | `guaranteed`, also when missing, or `opportunistic` (for AntMan) |
//! | `weight` | how large a part of the turns of a crowded host it has beside others (Gandiva), 1 to 1,000; 1 when missing |

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use ::job::{Hold, Job};
use ::profile::{Request, find_model, synthesise};
use policy::muri::{Profile, RESTART_S, Stages};

use super::{
    super::{Trace, TraceError, TraceJob, Traffic},
    gather::{Gathered, ITERATIONS_MAX, MS},
    table::Row,
    timed::{SECONDS, SECONDS_RANGE},
};

const COLUMNS: [&str; 12] = [
    "job_id",
    "submit_s",
    "gpus",
    "iterations",
    "iteration_ms",
    "up_ms",
    "load_ms",
    "model",
    "restart_s",
    "priority",
    "gpus_max",
    "weight",
];

/// The first of [`COLUMNS`] must be there.
const REQUIRED: usize = 4;

const ITERATION: usize = 4;
const UP: usize = 5;
const LOAD: usize = 6;
const MODEL: usize = 7;
const RESTART: usize = 8;
const PRIORITY: usize = 9;
const GPUS_MAX: usize = 10;
const WEIGHT: usize = 11;

/// Largest weight: turns of less than a thousandth would be shorter than what they cost.
const WEIGHT_MAX: u32 = 1_000;

/// Longest iteration or stage, in milliseconds; the limit of a profile.
const STAGE_MS_MAX: f64 = 3_600_000.0;

/// Nanoseconds in a millisecond.
const NS_PER_MS: f64 = 1e6;

/// What one iteration consists of, in milliseconds.
#[derive(Clone, Copy)]
struct Iteration {
    whole: f64,
    up: f64,
    load: f64,
    /// What it sends, where that is known: its entry in [`Trace::traffic`].
    traffic: Option<u16>,
}

/// Iterations of models that were synthesised already, by name and GPUs.
type Synthesised = BTreeMap<(String, u32), Iteration>;

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let mut synthesised = Synthesised::new();
    let take = |gathered: &mut Gathered, row: &Row<'_>| {
        let (job, profile) = job(row, &mut synthesised, gathered)?;
        gathered.push(job, profile)
    };
    Gathered::of_rows(text, &COLUMNS, REQUIRED, take)?.done(text)
}

fn job(row: &Row<'_>, synthesised: &mut Synthesised, gathered: &mut Gathered) -> Result<(TraceJob, Profile), TraceError> {
    let (id, line) = (row.name(0)?.to_string(), row.line);
    let submitted_s = row.number(1, SECONDS_RANGE.0, SECONDS_RANGE.1, SECONDS)?;
    let gpus = row.whole(2)?;
    let iterations = row.number(3, f64::MIN_POSITIVE, ITERATIONS_MAX, "a number above 0 and at most 1e15")?;
    let model = row.given(MODEL).map(String::from);
    let Iteration { whole, up, load, traffic } = match &model {
        Some(model) => of_model(row, (model, gpus), synthesised, gathered)?,
        None => as_given(row)?,
    };
    let restart_s = match row.given(RESTART) {
        Some(_) => row.number(RESTART, 0.0, STAGE_MS_MAX / MS, "a time in seconds from 0 to 3600")?,
        None => RESTART_S,
    };
    let opportunistic = match row.given(PRIORITY) {
        None | Some("guaranteed") => false,
        Some("opportunistic") => true,
        Some(_) => return Err(row.bad(PRIORITY, "guaranteed or opportunistic")),
    };
    let gpus_max = gpus_max(row, gpus)?;
    let weight = row.given(WEIGHT).map_or(Ok(1), |_| row.whole(WEIGHT))?;
    if weight > WEIGHT_MAX {
        return Err(row.bad(WEIGHT, "a whole number from 1 to 1000"));
    }
    let stages = Stages { load_s: load / MS, gpu_s: (whole - load - up).max(0.0) / MS, net_s: up / MS };
    let profile = Profile::try_new(whole / MS, stages, restart_s).map_err(|source| TraceError::Profile { line, source })?;
    let declared_s = iterations * whole / MS;
    let job = TraceJob {
        id,
        line,
        gpus,
        gpus_max,
        submitted_s,
        declared_s,
        iterations,
        iteration_ms: whole,
        profile: 0,
        opportunistic,
        weight,
        traffic,
        up_ms: Some(up),
        model,
    };
    Ok((job, profile))
}

/// The most GPUs that the job can use. Whether a cluster has as many is known to who plays it.
fn gpus_max(row: &Row<'_>, gpus: u32) -> Result<u32, TraceError> {
    if row.given(GPUS_MAX).is_none() {
        return Ok(gpus);
    }
    if row.given(MODEL).is_some() {
        return Err(TraceError::Beside { line: row.line, column: COLUMNS[GPUS_MAX], beside: COLUMNS[MODEL] });
    }
    let most = row.whole(GPUS_MAX)?;
    if most < gpus { Err(row.bad(GPUS_MAX, "a whole number, of at least gpus")) } else { Ok(most) }
}

/// The times that stand in the row.
fn as_given(row: &Row<'_>) -> Result<Iteration, TraceError> {
    let whole = row.number(ITERATION, f64::MIN_POSITIVE, STAGE_MS_MAX, "a time in milliseconds above 0 and at most 3.6e6, or a model")?;
    let part = |at, most| match row.given(at) {
        Some(_) => row.number(at, 0.0, most, "a time in milliseconds within the iteration"),
        None => Ok(0.0),
    };
    let up = part(UP, whole)?;
    Ok(Iteration { whole, up, load: part(LOAD, whole - up)?, traffic: None })
}

/// The times of a model of the zoo.
fn of_model(
    row: &Row<'_>,
    (name, gpus): (&str, u32),
    synthesised: &mut Synthesised,
    gathered: &mut Gathered,
) -> Result<Iteration, TraceError> {
    if let Some(&at) = [ITERATION, UP, LOAD].iter().find(|at| row.given(**at).is_some()) {
        return Err(TraceError::Beside { line: row.line, column: COLUMNS[MODEL], beside: COLUMNS[at] });
    }
    if let Some(&known) = synthesised.get(&(name.to_string(), gpus)) {
        return Ok(known);
    }
    let model = find_model(name).ok_or_else(|| TraceError::Model { line: row.line, name: name.to_string() })?;
    let request = Request { ranks: Some(gpus), ..Request::default() };
    let refuse = |problem| TraceError::Synthesis { line: row.line, name: name.to_string(), gpus, problem };
    // The groups of its ranks are charged before they are made.
    gathered.charge(row.line, u64::from(gpus))?;
    let profile = request.resolve(model).and_then(|setup| synthesise(model, &setup.parallelism, &setup.hardware, setup.batch));
    let profile = profile.map_err(|e| refuse(e.to_string()))?;
    gathered.charge(row.line, profile.phases().len() as u64)?;
    let Job { period, phases, .. } = Job::of_profile(String::new(), &profile, Hold::Auto).map_err(|e| refuse(e.to_string()))?;
    let up = up_ns(profile.phases().iter().map(|phase| (phase.start.0, phase.end().0)).collect());
    let whole = period.0;
    let traffic = gathered.traffic(row.line, Traffic { period, phases })?;
    let (whole, up) = (whole as f64 / NS_PER_MS, up.min(whole) as f64 / NS_PER_MS);
    let iteration = Iteration { whole, up, load: 0.0, traffic: Some(traffic) };
    synthesised.insert((name.to_string(), gpus), iteration);
    Ok(iteration)
}

/// For how long any of the phases lasts; those of different collectives may overlap.
fn up_ns(mut phases: Vec<(u64, u64)>) -> u64 {
    phases.sort_unstable();
    let (mut up, mut until) = (0_u64, 0_u64);
    for (start, end) in phases {
        up = up.saturating_add(end.saturating_sub(start.max(until)));
        until = until.max(end);
    }
    up
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_phases_count_once() {
        assert_eq!(up_ns(alloc::vec![(10, 20), (0, 5), (15, 30), (18, 19)]), 25);
    }
}
