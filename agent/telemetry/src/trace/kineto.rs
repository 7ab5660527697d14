//! Traces of PyTorch's profiler, as `export_chrome_trace` and its TensorBoard handler write them: Chrome's trace events, times in microseconds.

use std::sync::Arc;

use serde::Deserialize;
use units::{Nanos, NodeTime};

use super::{
    Span, Taken, TraceError,
    groups::Groups,
    is_nccl, nanos, sent,
    source::{Lenient, Scalar},
};

const MICROSECOND: f64 = 1e3;
const NONE: &str = "no kernels of NCCL in the trace: record with ProfilerActivity.CUDA, on a rank that communicates";

/// The events that are kept, by process and GPU: kernels of one GPU are all of one process, and a merged trace holds those of several.
#[derive(Default)]
pub(super) struct Kept(Groups<(String, String), Communication>);

struct Communication {
    name: Arc<str>,
    start: f64,
    duration: f64,
    bytes: Option<u64>,
}

/// Every field may be missing, and of another kind: a trace has events of many.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct Event {
    ph: Scalar,
    cat: Scalar,
    name: Scalar,
    pid: Scalar,
    ts: Scalar,
    dur: Scalar,
    args: Lenient<Args>,
}

/// What PyTorch 2.2 and later say of a collective.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Args {
    device: Scalar,
    #[serde(rename = "Collective name")]
    collective: Scalar,
    #[serde(rename = "In msg nelems")]
    elements_in: Scalar,
    #[serde(rename = "Out msg nelems")]
    elements_out: Scalar,
    #[serde(rename = "Group size")]
    ranks: Scalar,
    dtype: Scalar,
}

impl Kept {
    /// A complete event of a kernel of NCCL, or of gloo, is kept.
    pub(super) fn add(&mut self, event: Event) -> Result<(), TraceError> {
        let name = event.name.text();
        let is_kernel = event.cat.text().eq_ignore_ascii_case("kernel") && is_nccl(name);
        if event.ph.text() != "X" || !(is_kernel || name.starts_with("gloo:")) {
            return Ok(());
        }
        let Some((start, duration)) = event.ts.number().zip(event.dur.number()) else { return Ok(()) };
        let args = event.args.0.unwrap_or_default();
        let bytes = args.bytes();
        // Sizes tell one call from another; of those without, names have to do.
        let name = self.0.name(&format!("{name} {}", bytes.unwrap_or(0)))?;
        // What runs on a GPU stands under its number, as if that were a process.
        let device = if is_kernel && args.device == Scalar::None { &event.pid } else { &args.device };
        let of = (event.pid.to_string(), device.to_string());
        self.0.add(of, Communication { name, start, duration, bytes })
    }

    pub(super) fn spans(self) -> Result<(Vec<Span>, Option<Taken>), TraceError> {
        let none = Scalar::None.to_string();
        let name = |(process, device): &(String, String)| match (process == &none, device == &none) {
            (_, true) => format!("process {process}"),
            (true, false) => format!("GPU {device}"),
            (false, false) => format!("GPU {device} of process {process}"),
        };
        let (events, taken) = self.0.most(name).ok_or(TraceError::Missing { what: NONE })?;
        // Times are since the epoch in some versions and since the start of the machine in others; floats keep them to a quarter of a microsecond.
        let first = events.iter().map(|event| event.start).fold(f64::INFINITY, f64::min);
        let span = |Communication { name, start, duration, bytes }| {
            let times = nanos(start - first, MICROSECOND).zip(nanos(duration, MICROSECOND));
            let (since, long) = times
                .ok_or_else(|| TraceError::Odd { what: format!("event {name:?} at ts {start}: dur {duration}, and no time is so long") })?;
            Ok(Span { what: name, start: NodeTime(since), duration: Nanos(long), bytes })
        };
        Ok((events.into_iter().map(span).collect::<Result<_, TraceError>>()?, taken))
    }
}

impl Args {
    fn bytes(&self) -> Option<u64> {
        let count = |value: &Scalar| value.number().and_then(|number| nanos(number, 1.0));
        // Of a gather the output is the whole, of a scatter the input.
        let elements = count(&self.elements_in)?.max(count(&self.elements_out).unwrap_or(0));
        sent(self.collective.text(), elements.checked_mul(size(self.dtype.text())?)?, count(&self.ranks)?)
    }
}

/// Bytes of an element, by the names that PyTorch and its users write.
fn size(dtype: &str) -> Option<u64> {
    let name = dtype.to_ascii_lowercase();
    match name.trim_start_matches("torch.").trim_start_matches("c10::") {
        "float" | "float32" | "int" | "int32" | "uint32" => Some(4),
        "half" | "float16" | "bfloat16" | "short" | "int16" | "uint16" => Some(2),
        "double" | "float64" | "long" | "int64" | "uint64" | "complexfloat" => Some(8),
        "byte" | "uint8" | "char" | "int8" | "bool" => Some(1),
        name if name.starts_with("float8") => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, ts: &str, args: &str) -> String {
        format!(r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {ts}, "dur": 1500.5, "args": {{{args}}}}}"#)
    }

    const SIZES: &str =
        r#""stream": 7, "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 4, "dtype": "Float""#;

    #[test]
    fn kernels_of_nccl_are_read_and_other_events_passed_over() {
        let first = event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "1748030377748202.5", SIZES);
        let second = event("ncclKernel_AllGather", "\"1748030377758202.5\"", "\"device\": 0");
        let other = event("void gemm", "5", "");
        let meta = r#"{"ph": "M", "name": "process_name", "ts": 0, "args": {"name": "python"}}, {"ph": "i", "s": "g"}"#;
        let list = format!("[{other}, {second}, {meta}, {first}]");
        let document =
            format!("{{\"schemaVersion\": 1, \"deviceProperties\": [{{\"id\": 0}}], \"traceEvents\": {list}, \"traceName\": \"x\"}}");
        for text in [document, list] {
            let trace = super::super::read_trace(&text).unwrap();
            let found: Vec<_> = trace.spans.iter().map(|span| (span.start.0, span.duration.0, span.bytes)).collect();
            // 4,000 bytes among 4: 6,000 bytes leave each; the second, 10 ms later, says no sizes.
            assert_eq!(found, [(0, 1_500_500, Some(6_000)), (10_000_000, 1_500_500, None)]);
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = |text: &str| super::super::read_trace(text).unwrap_err().to_string();
        assert!(missing(r#"{"traceEvents": []}"#).contains("no kernels of NCCL"));
        assert!(missing("{}").contains("no traceEvents"));
        let negative = event("ncclX", "1", "").replace("1500.5", "-5");
        assert_eq!(missing(&format!("[{negative}]")), "event \"ncclX 0\" at ts 1: dur -5, and no time is so long");
        assert!(missing("{\"traceEvents\": [\n{]}").starts_with("line 2: "));
    }

    #[test]
    fn what_others_wrote_as_they_liked_is_passed_over() {
        let kernel = |at: u32| event("void ncclDevKernel_AllReduce(x)", &at.to_string(), SIZES);
        let odd = r#"{"ph": "X", "cat": null, "name": "aten::add", "ts": 1, "dur": 1, "args": [1, {"x": []}]}, {"ph": "i", "name": 7, "args": "x"},
            {"ph": {"X": 1}, "cat": ["kernel"], "name": "ncclX", "ts": [1], "dur": true, "args": 5}, null, 3, "x", [{}], {"ts": "x"}"#;
        let text = format!("[{}, {odd}, {}, {odd}]", kernel(10), kernel(20));
        let trace = super::super::read_trace(&text).unwrap();
        assert_eq!(trace.spans.len(), 2);
        assert!(trace.spans.iter().all(|span| span.bytes == Some(6_000)) && trace.taken.is_none());
    }

    /// Two GPUs that send one after the other look like one that sends twice as often.
    #[test]
    fn of_several_gpus_that_with_most_kernels_is_taken() {
        let of = |pid: u32, device: u32, at: u32| {
            event("ncclX", &at.to_string(), &format!("\"device\": {device}")).replace("\"pid\": 0", &format!("\"pid\": {pid}"))
        };
        let both = |second: (u32, u32), count: u32| {
            let events: Vec<String> =
                (0..8).map(|n| of(0, 0, n * 100)).chain((0..count).map(|n| of(second.0, second.1, 50 + n * 100))).collect();
            super::super::read_trace(&format!("[{}]", events.join(","))).unwrap()
        };
        for (second, count, name, left_out) in
            [((0, 1), 8, "GPU 0 of process 0", 8), ((7, 0), 7, "GPU 0 of process 0", 7), ((7, 1), 9, "GPU 1 of process 7", 8)]
        {
            let trace = both(second, count);
            assert_eq!(trace.taken, Some(Taken { name: name.into(), left_out }));
            assert!(trace.spans.windows(2).all(|pair| pair[1].start.0 - pair[0].start.0 == 100_000), "{name}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_element() {
        for (dtype, bytes) in [("Float", Some(4)), ("BFloat16", Some(2)), ("torch.int64", Some(8)), ("Float8_e4m3fn", Some(1)), ("?", None)]
        {
            assert_eq!(size(dtype), bytes, "{dtype}");
        }
    }
}
