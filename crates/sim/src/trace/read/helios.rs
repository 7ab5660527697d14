//! Helios: `cluster_log.csv` of a cluster (S-Lab-System-Group/HeliosData; Hu et al., SC 2021).
//!
//! Written from the columns that the data set documents; no log was at hand to try it on. Read are `job_id`, `gpu_num`, `submit_time` and
//! `duration` (seconds; end less start). Jobs without GPUs, and those that ran for no time, are left out. Whether a job failed or was cancelled
//! does not matter: it had its GPUs for that long.

use alloc::string::ToString as _;

use super::{
    super::{Trace, TraceError},
    clock,
    gather::Gathered,
    table::Row,
    timed::{SECONDS, SECONDS_RANGE, Timed},
};

const COLUMNS: [&str; 4] = ["job_id", "gpu_num", "submit_time", "duration"];

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    Gathered::of_rows(text, &COLUMNS, COLUMNS.len(), take)?.done_from_first(text)
}

fn take(gathered: &mut Gathered, row: &Row<'_>) -> Result<(), TraceError> {
    let (id, line) = (row.name(0)?.to_string(), row.line);
    let gpus = row.count(1)?;
    let submitted = clock::seconds(row.given(2).unwrap_or_default()).ok_or_else(|| row.bad(2, clock::EXPECTED))?;
    let ran_s = row.number(3, SECONDS_RANGE.0, SECONDS_RANGE.1, SECONDS)?;
    if gpus == 0 || ran_s == 0.0 {
        gathered.leave_out();
        return Ok(());
    }
    let submitted_s = submitted as f64;
    Timed { id, line, gpus, submitted_s, ran_s, opportunistic: false, model: None }.into_trace(gathered)
}
