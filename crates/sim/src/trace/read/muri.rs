//! Traces of Muri: Philly jobs with one of eight models drawn for each (Rivendile/Muri, `trace-data`).
//!
//! Columns, in any order: `job_id`, `num_gpu`, `submit_time` (ms), `iterations`, `model_name`, `duration` (ms), `iteration_time` (ms),
//! `resource_time_0` (load), `resource_time_1` (GPU), `resource_time_2` (network; all ms), `priority` (0 guaranteed, 1 opportunistic).
//! Further columns are left out. The times of each row hold for it, also where rows of one model differ.

use alloc::string::ToString as _;

use policy::muri::{Profile, Stages, measured};

use super::{
    super::{Trace, TraceError, TraceJob},
    gather::{Gathered, ITERATIONS_MAX, MS, TIME_S_MAX},
    table::Row,
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

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let take = |gathered: &mut Gathered, row: &Row<'_>| job(row).and_then(|(job, profile)| gathered.push(job, profile));
    Gathered::of_rows(text, &COLUMNS, COLUMNS.len(), take)?.done(text)
}

fn job(row: &Row<'_>) -> Result<(TraceJob, Profile), TraceError> {
    let (id, line) = (row.name(0)?.to_string(), row.line);
    let gpus = row.whole(1)?;
    let time = |at| row.number(at, 0.0, TIME_S_MAX * MS, "a time in milliseconds from 0 to 3.2e12");
    let (submitted, declared) = (time(2)?, time(5)?);
    let iterations = row.number(3, f64::MIN_POSITIVE, ITERATIONS_MAX, "a number above 0 and at most 1e15")?;
    let name = row.given(4).unwrap_or_default();
    let model = measured(name).ok_or_else(|| TraceError::Model { line, name: name.to_string() })?;
    let iteration_ms = time(6)?;
    let stages = Stages { load_s: time(7)? / MS, gpu_s: time(8)? / MS, net_s: time(9)? / MS };
    let profile = Profile::try_new(iteration_ms / MS, stages, model.restart_s(gpus));
    let profile = profile.map_err(|source| TraceError::Profile { line, source })?;
    let opportunistic = match row.given(10) {
        Some("0") => false,
        Some("1") => true,
        _ => return Err(row.bad(10, "0 (guaranteed) or 1 (opportunistic)")),
    };
    let (submitted_s, declared_s) = (submitted / MS, declared / MS);
    let (up_ms, model) = (Some(stages.net_s * MS), Some(name.to_string()));
    let job = TraceJob {
        id,
        line,
        gpus,
        gpus_max: gpus,
        submitted_s,
        declared_s,
        iterations,
        iteration_ms,
        profile: 0,
        opportunistic,
        weight: 1,
        traffic: None,
        up_ms,
        model,
    };
    Ok((job, profile))
}
