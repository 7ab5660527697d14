//! Alibaba, GPU cluster of 2023: `openb_pod_list_*.csv` (alibaba/clusterdata, cluster-trace-gpu-v2023).
//!
//! A pod is a job. Read are `name`, `num_gpu`, `qos`, `creation_time`, `scheduled_time` and `deletion_time` (seconds). It ran from when it was
//! scheduled until it was deleted. A pod that asks for a part of one GPU (`gpu_milli` below 1000) gets a whole one, because GPUs are shared
//! here by policies and not by requests. Pods of best effort (`BE`) are opportunistic. Pods without GPUs and those that were never
//! scheduled, or deleted at once, are left out.

use alloc::string::ToString as _;

use super::{
    super::{Trace, TraceError},
    gather::Gathered,
    table::Row,
    timed::{SECONDS, SECONDS_RANGE, Timed},
};

const COLUMNS: [&str; 6] = ["name", "num_gpu", "creation_time", "deletion_time", "scheduled_time", "qos"];

/// The first of [`COLUMNS`] must be there.
const REQUIRED: usize = 5;

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    Gathered::of_rows(text, &COLUMNS, REQUIRED, take)?.done_from_first(text)
}

fn take(gathered: &mut Gathered, row: &Row<'_>) -> Result<(), TraceError> {
    let (id, line) = (row.name(0)?.to_string(), row.line);
    let gpus = row.count(1)?;
    let time = |at| row.number(at, SECONDS_RANGE.0, SECONDS_RANGE.1, SECONDS);
    let submitted_s = time(2)?;
    let deleted_s = time(3)?;
    let scheduled_s = match row.given(4) {
        Some(_) => time(4)?,
        None => deleted_s,
    };
    let ran_s = deleted_s - scheduled_s;
    if gpus == 0 || ran_s <= 0.0 {
        gathered.leave_out();
        return Ok(());
    }
    let opportunistic = row.given(5) == Some("BE");
    Timed { id, line, gpus, submitted_s, ran_s, opportunistic, model: None }.into_trace(gathered)
}
