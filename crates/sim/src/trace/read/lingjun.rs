//! Lingjun: `job.csv` and `worker.csv` (alibaba-lingjun-dataset-2023; Cao et al., SIGCOMM 2024).
//!
//! Written without the two files, of which the data set's page names the contents but not the columns; the names are those that public
//! readers of the data set use. Of `job.csv` read are `job_name`, `model`, `gmt_job_submitted`, `gmt_job_running`, `gmt_job_finished` and
//! `gmt_job_stopped`; of `worker.csv` `job_name` and `RES`, a JSON object whose `nvidia.com/gpu` is the number of GPUs. A job wants the GPUs
//! of all its workers, and ran from when it was running until it finished or was stopped. Jobs that never ran, that still ran, and those
//! without GPUs are left out.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
};

use serde_json::Value;

use super::{
    super::{Trace, TraceError},
    clock,
    gather::Gathered,
    table::{Row, Table},
    timed::Timed,
};

const JOB_COLUMNS: [&str; 6] = ["job_name", "gmt_job_running", "gmt_job_finished", "gmt_job_stopped", "gmt_job_submitted", "model"];

/// The first of [`JOB_COLUMNS`] must be there.
const JOB_REQUIRED: usize = 2;

const WORKER_COLUMNS: [&str; 2] = ["job_name", "RES"];

/// GPUs of the workers of each job, as `worker.csv` of Lingjun has them.
#[derive(Clone, Debug, Default)]
pub struct LingjunWorkers(BTreeMap<String, u32>);

impl LingjunWorkers {
    /// Reads `worker.csv`.
    ///
    /// # Errors
    /// [`TraceError`], the first thing that is wrong.
    pub fn read(text: &str) -> Result<Self, TraceError> {
        let mut table = Table::open(text, &WORKER_COLUMNS, WORKER_COLUMNS.len())?;
        let mut gpus: BTreeMap<String, u32> = BTreeMap::new();
        while let Some(row) = table.next()? {
            let of_worker = worker(&row)?;
            let of_job = gpus.entry(row.name(0)?.to_string()).or_default();
            *of_job = of_job.saturating_add(of_worker);
        }
        Ok(Self(gpus))
    }
}

/// The GPUs of a worker, which may have none.
fn worker(row: &Row<'_>) -> Result<u32, TraceError> {
    let Some(text) = row.given(1) else { return Ok(0) };
    let bad = || row.bad(1, "a JSON object whose nvidia.com/gpu is a whole number");
    let Ok(Value::Object(resources)) = serde_json::from_str(text) else { return Err(bad()) };
    let gpus = match resources.get("nvidia.com/gpu") {
        None | Some(Value::Null) => return Ok(0),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(number)) => number.parse().ok(),
        Some(_) => None,
    };
    gpus.and_then(|gpus| u32::try_from(gpus).ok()).ok_or_else(bad)
}

pub(super) fn read(text: &str, workers: &LingjunWorkers) -> Result<Trace, TraceError> {
    let take = |gathered: &mut Gathered, row: &Row<'_>| job(gathered, row, workers);
    Gathered::of_rows(text, &JOB_COLUMNS, JOB_REQUIRED, take)?.done_from_first(text)
}

fn job(gathered: &mut Gathered, row: &Row<'_>, workers: &LingjunWorkers) -> Result<(), TraceError> {
    let (id, line) = (row.name(0)?.to_string(), row.line);
    let time = |at| row.given(at).map(|text| clock::seconds(text).ok_or_else(|| row.bad(at, clock::EXPECTED))).transpose();
    let (running, finished, stopped, submitted) = (time(1)?, time(2)?, time(3)?, time(4)?);
    let gpus = workers.0.get(&id).copied().unwrap_or(0);
    let ran = running.zip(finished.or(stopped)).map(|(running, ended)| (running, ended - running)).filter(|(_, ran)| *ran > 0);
    let (Some((running, ran)), 1..) = (ran, gpus) else {
        gathered.leave_out();
        return Ok(());
    };
    // Where nobody wrote down the submission, the job was submitted when it ran.
    let (submitted_s, ran_s) = (submitted.unwrap_or(running) as f64, ran as f64);
    let model = row.given(5).map(String::from);
    Timed { id, line, gpus, submitted_s, ran_s, opportunistic: false, model }.into_trace(gathered)
}
