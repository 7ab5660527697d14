//! Logs of NCCL's Inspector plugin: one object for each collective, one after the other, times in microseconds.

use serde::Deserialize;
use units::{Nanos, NodeTime};

use super::{SPANS_MAX, Span, TraceError, sent};

const MICROSECOND: u64 = 1_000;
const NONE: &str = "no collective in the log has a time: neither event_trace_ts (NCCL_INSPECTOR_DUMP_VERBOSE=1) nor dump_timestamp_us";

pub(super) fn read(text: &str) -> Result<Vec<Span>, TraceError> {
    let mut spans: Vec<Span> = Vec::new();
    for record in serde_json::Deserializer::from_str(text).into_iter::<Record>() {
        spans.extend(record?.span());
        if spans.len() > SPANS_MAX {
            return Err(TraceError::TooMany);
        }
    }
    // Times are since the epoch; those of one log are near to each other.
    let Some(first) = spans.iter().map(|span| span.start).min() else { return Err(TraceError::Missing { what: NONE }) };
    spans.iter_mut().for_each(|span| span.start = NodeTime(span.start.since(first).0));
    Ok(spans)
}

/// What is needed of a record; versions 1 to 4 of the format have more.
#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    header: Header,
    #[serde(default)]
    metadata: Metadata,
    coll_perf: Option<Performance>,
}

#[derive(Default, Deserialize)]
struct Header {
    #[serde(default)]
    id: String,
    n_ranks: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    dump_timestamp_us: Option<u64>,
}

#[derive(Deserialize)]
struct Performance {
    coll: String,
    coll_msg_size_bytes: Option<u64>,
    coll_exec_time_us: Option<u64>,
    event_trace_ts: Option<Times>,
}

#[derive(Deserialize)]
struct Times {
    coll_start_ts: Option<u64>,
    #[serde(default)]
    kernel_events: Vec<Kernel>,
}

#[derive(Deserialize)]
struct Kernel {
    kernel_start_ts: Option<u64>,
    kernel_stop_ts: Option<u64>,
}

impl Record {
    fn span(self) -> Option<Span> {
        let Performance { coll, coll_msg_size_bytes, coll_exec_time_us, event_trace_ts } = self.coll_perf?;
        let (start, duration) = event_trace_ts.and_then(|times| times.span(coll_exec_time_us)).or_else(|| {
            // Without the events of a collective: it had ended when it was written, within the interval of the thread that writes.
            let duration = coll_exec_time_us?;
            Some((self.metadata.dump_timestamp_us?.checked_sub(duration)?, duration))
        })?;
        let bytes = coll_msg_size_bytes.zip(self.header.n_ranks).and_then(|(bytes, ranks)| sent(&coll, bytes, ranks));
        let what = format!("{} {coll} {}", self.header.id, coll_msg_size_bytes.unwrap_or(0));
        Some(Span { what, start: NodeTime(start.checked_mul(MICROSECOND)?), duration: Nanos(duration.checked_mul(MICROSECOND)?), bytes })
    }
}

impl Times {
    /// From the first kernel to the last: what comes before is the way into the queue. Without kernels from the call on.
    fn span(&self, executed: Option<u64>) -> Option<(u64, u64)> {
        let first = self.kernel_events.iter().filter_map(|kernel| kernel.kernel_start_ts).filter(|&at| at > 0).min();
        let last = self.kernel_events.iter().filter_map(|kernel| kernel.kernel_stop_ts).max();
        let start = first.or(self.coll_start_ts)?;
        let kernels = first.zip(last).and_then(|(first, last)| last.checked_sub(first));
        Some((start, kernels.or(executed)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: u64, extra: &str) -> String {
        format!(
            r#"{{"header": {{"id": "0x7f8c", "rank": 2, "n_ranks": 8, "nnodes": 2}},
                "metadata": {{"inspector_output_format_version": "v4.0", "dump_timestamp_us": {at}, "pid": 7}},
                "coll_perf": {{"coll": "ReduceScatter", "coll_sn": 9, "coll_msg_size_bytes": 8000, "coll_exec_time_us": 400, "coll_busbw_gbs": 3.5{extra}}}}}"#
        )
    }

    #[test]
    fn plain_and_verbose_records_are_read() {
        let verbose = r#", "event_trace_ts": {"coll_start_ts": 1000, "coll_stop_ts": 1001, "kernel_events": [
            {"channel_id": 0, "kernel_start_ts": 1500, "kernel_stop_ts": 1890}, {"channel_id": 1, "kernel_start_ts": 1490, "kernel_stop_ts": 1800}]}"#;
        let queued = r#", "event_trace_ts": {"coll_start_ts": 5000}"#;
        let text = [record(2_000, verbose), record(4_400, ""), record(9_000, queued)].join("\n");
        let found: Vec<_> = read(&text).unwrap().into_iter().map(|span| (span.start.0, span.duration.0, span.bytes)).collect();
        // From 1,490 us on, which is the zero; written at 4,400 us after 400 us; called at 5,000 us. 7/8 of the bytes leave.
        assert_eq!(found, [(0, 400_000, Some(7_000)), (2_510_000, 400_000, Some(7_000)), (3_510_000, 400_000, Some(7_000))]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let record = record(5, "").replace("\"dump_timestamp_us\": 5, ", "");
        assert!(read(&record).unwrap_err().to_string().contains("NCCL_INSPECTOR_DUMP_VERBOSE=1"));
        assert!(read("{\"coll_perf\": {}}").unwrap_err().to_string().contains("coll"));
        assert!(read("{\"coll_perf\": null}\n{\"coll_perf\"").unwrap_err().to_string().starts_with("line 2: "));
    }
}
