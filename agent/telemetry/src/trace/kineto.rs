//! Traces of PyTorch's profiler, as `export_chrome_trace` and its TensorBoard handler write them: Chrome's trace events, times in microseconds.

use std::borrow::Cow;

use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::Value;
use units::{Nanos, NodeTime};

use super::{SPANS_MAX, Span, TraceError, nanos, sent};

const MICROSECOND: f64 = 1e3;
const NONE: &str = "no kernels of NCCL in the trace: record with ProfilerActivity.CUDA, on a rank that communicates";

pub(super) fn read(text: &str) -> Result<Vec<Span>, TraceError> {
    let events = if text.trim_start().starts_with('[') {
        serde_json::from_str::<Kept>(text)?
    } else {
        serde_json::from_str::<Document>(text)?.events.ok_or(TraceError::Missing { what: "the document has no traceEvents" })?
    };
    let Kept(events) = events;
    if events.is_empty() {
        return Err(TraceError::Missing { what: NONE });
    }
    // Times are since the epoch in some versions and since the start of the machine in others; floats keep them to a quarter of a microsecond.
    let first = events.iter().map(|event| event.start).fold(f64::INFINITY, f64::min);
    let span = |event: Communication| {
        let (start, duration) = (nanos(event.start - first, MICROSECOND)?, nanos(event.duration, MICROSECOND)?);
        Some(Span { what: event.what, start: NodeTime(start), duration: Nanos(duration), bytes: event.bytes })
    };
    events.into_iter().map(span).collect::<Option<_>>().ok_or(TraceError::Missing { what: "a kernel of NCCL has no time that makes sense" })
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "traceEvents")]
    events: Option<Kept>,
}

/// The events that are kept of some millions.
struct Kept(Vec<Communication>);

struct Communication {
    what: String,
    start: f64,
    duration: f64,
    bytes: Option<u64>,
}

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Events;
        impl<'de> Visitor<'de> for Events {
            type Value = Kept;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a list of trace events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Kept, A::Error> {
                let mut kept = Vec::new();
                while let Some(event) = events.next_element::<Event<'de>>()? {
                    // One more than the limit tells that there are more.
                    if kept.len() <= SPANS_MAX {
                        kept.extend(event.communication());
                    }
                }
                Ok(Kept(kept))
            }
        }
        deserializer.deserialize_seq(Events)
    }
}

/// Every field may be missing: a trace has events of many kinds.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default, borrow)]
    ph: Cow<'a, str>,
    #[serde(default, borrow)]
    cat: Cow<'a, str>,
    #[serde(default, borrow)]
    name: Cow<'a, str>,
    ts: Option<Value>,
    dur: Option<Value>,
    #[serde(default)]
    args: Option<Args>,
}

/// What PyTorch 2.2 and later say of a collective.
#[derive(Default, Deserialize)]
struct Args {
    #[serde(rename = "Collective name")]
    collective: Option<Value>,
    #[serde(rename = "In msg nelems")]
    elements_in: Option<Value>,
    #[serde(rename = "Out msg nelems")]
    elements_out: Option<Value>,
    #[serde(rename = "Group size")]
    ranks: Option<Value>,
    dtype: Option<Value>,
}

/// A number, also one that is written as a text.
fn number(value: Option<&Value>) -> Option<f64> {
    let value = value?;
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|number| number.is_finite())
}

fn count(value: Option<&Value>) -> Option<u64> {
    number(value).and_then(|number| nanos(number, 1.0))
}

impl Event<'_> {
    /// A complete event of a kernel of NCCL (RCCL's have the same names), or of gloo.
    fn communication(self) -> Option<Communication> {
        let is_kernel = self.cat.eq_ignore_ascii_case("kernel") && self.name.starts_with("nccl");
        if self.ph != "X" || !(is_kernel || self.name.starts_with("gloo:")) {
            return None;
        }
        let args = self.args.unwrap_or_default();
        let bytes = args.bytes();
        // Sizes tell one call from another; of those without, names have to do.
        let what = format!("{} {}", self.name, bytes.unwrap_or(0));
        Some(Communication { what, start: number(self.ts.as_ref())?, duration: number(self.dur.as_ref())?, bytes })
    }
}

impl Args {
    fn bytes(&self) -> Option<u64> {
        let (name, dtype) = (self.collective.as_ref()?.as_str()?, self.dtype.as_ref()?.as_str()?);
        // Of a gather the output is the whole, of a scatter the input.
        let elements = count(self.elements_in.as_ref())?.max(count(self.elements_out.as_ref()).unwrap_or(0));
        sent(name, elements.checked_mul(size(dtype)?)?, count(self.ranks.as_ref())?)
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
        let missing = |text: &str| read(text).unwrap_err().to_string();
        assert!(missing(r#"{"traceEvents": []}"#).contains("no kernels of NCCL"));
        assert!(missing("{}").contains("no traceEvents"));
        let negative = event("ncclX", "1", "").replace("1500.5", "-5");
        assert!(missing(&format!("[{negative}]")).contains("no time that makes sense"));
        assert!(missing("{\"traceEvents\": [\n{]}").starts_with("line 2: "));
    }

    #[test]
    fn sizes_are_those_of_the_element() {
        for (dtype, bytes) in [("Float", Some(4)), ("BFloat16", Some(2)), ("torch.int64", Some(8)), ("Float8_e4m3fn", Some(1)), ("?", None)]
        {
            assert_eq!(size(dtype), bytes, "{dtype}");
        }
    }
}
