//! Logs of NCCL's Inspector plugin: one object for each collective, one after the other, times in microseconds.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use units::{Nanos, NodeTime};

use super::{
    Span, Taken, TraceError,
    groups::Groups,
    nanos, sent,
    source::{Lenient, Scalar},
};

const MICROSECOND: u64 = 1_000;
const NONE: &str = "no collective in the log has a time: neither event_trace_ts (NCCL_INSPECTOR_DUMP_VERBOSE=1) nor dump_timestamp_us";

/// Collectives by process, communicator and rank in it.
#[derive(Default)]
pub(super) struct Log(Groups<(Process, String, Option<u64>), Span>);

/// A process, by its host and its number on it.
type Process = (String, Option<u64>);

impl Log {
    pub(super) fn add(&mut self, record: Record) -> Result<(), TraceError> {
        let (header, metadata) = (record.header.0.unwrap_or_default(), record.metadata.0.unwrap_or_default());
        let Some(performance) = record.coll_perf else { return Ok(()) };
        let id = if header.id == Scalar::None { String::new() } else { header.id.to_string() };
        let size = whole(&performance.coll_msg_size_bytes);
        let bytes = size.zip(whole(&header.n_ranks)).and_then(|(bytes, ranks)| sent(&performance.coll, bytes, ranks));
        let what = format!("{id} {} {}", performance.coll, size.unwrap_or(0));
        let Some((start, duration)) = performance.time(&metadata) else { return Ok(()) };
        let Some((start, duration)) = start.checked_mul(MICROSECOND).zip(duration.checked_mul(MICROSECOND)) else { return Ok(()) };
        let span = Span { what: self.0.name(&what)?, start: NodeTime(start), duration: Nanos(duration), bytes };
        let process = (metadata.hostname.text().to_owned(), whole(&metadata.pid));
        self.0.add((process, id, whole(&header.rank)), span)
    }

    pub(super) fn spans(self) -> Result<(Vec<Span>, Option<Taken>), TraceError> {
        // A process has one rank in each communicator, and another one in the next; two in one of them are two GPUs of the process, of which
        // the lower is taken to be the lower one in the others too.
        let mut ranks: BTreeMap<(Process, String), BTreeSet<Option<u64>>> = BTreeMap::new();
        for (process, id, rank) in self.0.keys() {
            ranks.entry((process.clone(), id.clone())).or_default().insert(*rank);
        }
        let gpu = |(process, id, rank): &(Process, String, Option<u64>)| {
            let before = ranks.get(&(process.clone(), id.clone())).map_or(0, |ranks| ranks.range(..rank).count());
            (process.clone(), before)
        };
        let name = |(process, gpu): &(Process, usize)| {
            let of = ranks.iter().filter(|((of, _), _)| of == process).find_map(|(_, ranks)| ranks.iter().nth(*gpu).copied());
            let mut name = of.flatten().map_or_else(|| format!("GPU {gpu}"), |rank| format!("rank {rank}"));
            if let (host, Some(pid)) = process {
                name += &format!(" of process {pid}");
                if !host.is_empty() {
                    name += &format!(" on {host}");
                }
            }
            name
        };
        let (mut spans, taken) = self.0.joined(gpu).most(name).ok_or(TraceError::Missing { what: NONE })?;
        // Times are since the epoch; those of one log are near to each other.
        let first = spans.iter().map(|span| span.start).min().unwrap_or(NodeTime(0));
        spans.iter_mut().for_each(|span| span.start = NodeTime(span.start.since(first).0));
        Ok((spans, taken))
    }
}

/// What is needed of a record; versions 1 to 4 of the format have more.
#[derive(Default, Deserialize)]
pub(super) struct Record {
    #[serde(default)]
    pub(super) header: Lenient<Header>,
    #[serde(default)]
    pub(super) metadata: Lenient<Metadata>,
    pub(super) coll_perf: Option<Performance>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    id: Scalar,
    rank: Scalar,
    n_ranks: Scalar,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    dump_timestamp_us: Scalar,
    hostname: Scalar,
    pid: Scalar,
}

#[derive(Deserialize)]
pub(super) struct Performance {
    coll: String,
    #[serde(default)]
    coll_msg_size_bytes: Scalar,
    #[serde(default)]
    coll_exec_time_us: Scalar,
    #[serde(default)]
    event_trace_ts: Lenient<Times>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Times {
    coll_start_ts: Scalar,
    kernel_events: Vec<Kernel>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Kernel {
    kernel_start_ts: Scalar,
    kernel_stop_ts: Scalar,
}

/// A whole number, if it is one.
fn whole(value: &Scalar) -> Option<u64> {
    value.number().and_then(|number| nanos(number, 1.0))
}

impl Performance {
    /// When it began and for how long it ran, in microseconds.
    fn time(&self, metadata: &Metadata) -> Option<(u64, u64)> {
        let executed = whole(&self.coll_exec_time_us);
        self.event_trace_ts.0.as_ref().and_then(|times| times.span(executed)).or_else(|| {
            // Without the events of a collective: it had ended when it was written, within the interval of the thread that writes.
            Some((whole(&metadata.dump_timestamp_us)?.checked_sub(executed?)?, executed?))
        })
    }
}

impl Times {
    /// From the first kernel to the last: what comes before is the way into the queue. Without kernels from the call on.
    fn span(&self, executed: Option<u64>) -> Option<(u64, u64)> {
        let first = self.kernel_events.iter().filter_map(|kernel| whole(&kernel.kernel_start_ts)).filter(|&at| at > 0).min();
        let last = self.kernel_events.iter().filter_map(|kernel| whole(&kernel.kernel_stop_ts)).max();
        let start = first.or(whole(&self.coll_start_ts))?;
        let kernels = first.zip(last).and_then(|(first, last)| last.checked_sub(first));
        Some((start, kernels.or(executed)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Trace, read_trace as read};

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
        let found: Vec<_> = read(&text).unwrap().spans.into_iter().map(|span| (span.start.0, span.duration.0, span.bytes)).collect();
        // From 1,490 us on, which is the zero; written at 4,400 us after 400 us; called at 5,000 us. 7/8 of the bytes leave.
        assert_eq!(found, [(0, 400_000, Some(7_000)), (2_510_000, 400_000, Some(7_000)), (3_510_000, 400_000, Some(7_000))]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let record = record(5, "").replace("\"dump_timestamp_us\": 5, ", "");
        assert!(read(&record).unwrap_err().to_string().contains("NCCL_INSPECTOR_DUMP_VERBOSE=1"));
        assert!(read("{\"coll_perf\": {}}").unwrap_err().to_string().contains("coll"));
        assert!(read("{\"coll_perf\": null}\n{\"coll_perf\"").unwrap_err().to_string().contains("NCCL_INSPECTOR_DUMP_VERBOSE=1"));
        assert!(read("{\"coll_perf\": null}\n{\"coll_perf\": ]").unwrap_err().to_string().starts_with("line 2: "));
    }

    #[test]
    fn a_last_line_that_is_half_written_is_left_out() {
        let whole: String = (1..=4).map(|n| record(n * 1_000, "") + "\n").collect();
        let all = read(&whole).unwrap().spans;
        assert_eq!(all.len(), 4);
        for cut in [2, 40, 300] {
            assert_eq!(read(&whole[..whole.len() - cut]).unwrap().spans, all[..3], "{cut}");
        }
        // What is wrong in the middle is told.
        assert!(read(&whole.replacen("\"coll_perf\"", "coll_perf", 2)).unwrap_err().to_string().starts_with("line "));
    }

    #[test]
    fn of_several_ranks_that_with_most_collectives_is_taken() {
        // Two ranks by turns, in one process and in two: neither looks like one of twice the rate.
        let of = |at: u64, rank: u64, pid: u64| {
            record(at, "").replace("\"rank\": 2", &format!("\"rank\": {rank}")).replace("7}", &format!("{pid}}}"))
        };
        for second in [(3, 7), (3, 8)] {
            let text: String = (1..=8).map(|n| of(n * 1_000, 2, 7) + &of(n * 1_000 + 500, second.0, second.1)).collect();
            let Trace { spans, taken, .. } = read(&text).unwrap();
            assert!(spans.len() == 8 && spans.windows(2).all(|pair| pair[1].start.0 - pair[0].start.0 == 1_000_000), "{spans:?}");
            let Taken { name, left_out } = taken.unwrap();
            assert_eq!((name.as_str(), left_out), ("rank 2 of process 7", 8));
        }
        // One process is another rank in each of its communicators.
        let text: String = (1..=8).map(|n| of(n * 1_000, 2, 7) + &of(n * 1_000 + 500, 0, 7).replace("0x7f8c", "0x1111")).collect();
        let Trace { spans, taken, .. } = read(&text).unwrap();
        assert_eq!((spans.len(), taken), (16, None));
    }
}
