//! What others recorded of a job: when it communicated, and how much.
//!
//! [`read_json`] takes traces of PyTorch's profiler (Kineto) and logs of NCCL's Inspector as they come, [`read_trace`] also the list of kernels
//! of Nsight Systems, and [`read_database`] the latter's export to SQLite; all give [`Span`]s of one rank; [`learn_spans`] finds the iteration
//! in them. Versions differ in what they say: what is not needed is not asked for, and what is needed and missing is named.

mod export;
mod groups;
mod inspector;
mod json;
mod kineto;
mod learn;
mod nsight;
mod source;
mod sqlite;

use std::{io::Read, sync::Arc};

use units::{Nanos, NodeTime};

pub use groups::Taken;
pub use learn::{LearnedSpans, SpanPhase, Unlearned, learn_spans};
pub use source::{JSON_BYTES_MAX, TEXT_BYTES_MAX};
pub use sqlite::{Bytes, MAGIC as SQLITE_MAGIC};

/// Most spans of a trace: some thousand iterations of some thousand collectives.
pub const SPANS_MAX: usize = 1 << 22;

/// One time in which a job communicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it did: two spans with the same word did the same.
    pub what: Arc<str>,
    /// When it began, by the clock of the trace, whose zero may be anywhere.
    pub start: NodeTime,
    /// How long it took. Of a kernel of NCCL that includes waiting for the other ranks.
    pub duration: Nanos,
    /// Bytes that the rank sent; `None` where the trace does not say.
    pub bytes: Option<u64>,
}

/// Who wrote a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// PyTorch's profiler.
    Kineto,
    /// NCCL's Inspector plugin.
    Inspector,
    /// Nsight Systems, its list of kernels.
    Nsight,
    /// Nsight Systems, its export to SQLite.
    NsightSqlite,
}

impl TraceFormat {
    /// For tables and documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kineto => "kineto",
            Self::Inspector => "nccl-inspector",
            Self::Nsight => "nsight",
            Self::NsightSqlite => "nsight-sqlite",
        }
    }
}

/// A trace as it was read: spans of one rank, in order of their start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Who wrote it.
    pub format: TraceFormat,
    /// When the job communicated.
    pub spans: Vec<Span>,
    /// Which of the ranks or GPUs in the trace these are of; `None` where it holds one.
    pub taken: Option<Taken>,
}

impl Trace {
    fn new(format: TraceFormat, (mut spans, taken): (Vec<Span>, Option<Taken>)) -> Self {
        spans.sort_by_key(|span| span.start);
        Self { format, spans, taken }
    }
}

/// Why a text is no trace that can be used. Messages name the line, where there is one, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// It is of no format that is known.
    Unknown,
    /// It is malformed.
    Malformed {
        /// Where it stops to make sense, from 1.
        line: usize,
        /// How.
        problem: String,
    },
    /// A file of SQLite is malformed.
    Damaged {
        /// The page, from 1.
        page: u32,
        /// How.
        problem: String,
    },
    /// It lacks what is needed.
    Missing {
        /// What, and how to record it.
        what: &'static str,
    },
    /// A time in it is none.
    Odd {
        /// Of what, where, and the value.
        what: String,
    },
    /// It cannot be read.
    Unread {
        /// Why.
        problem: String,
    },
    /// It has more than [`SPANS_MAX`] spans, or their names take too much memory.
    TooMany,
}

impl core::fmt::Display for TraceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unknown => write!(
                f,
                "neither a trace of PyTorch (traceEvents), nor a log of NCCL Inspector (coll_perf), nor a CSV of nsys stats (Start, Duration, Name), nor an SQLite export of it; byte counters are for profile learn"
            ),
            Self::Malformed { line, problem } => write!(f, "line {line}: {problem}"),
            Self::Damaged { page, problem } => write!(f, "page {page} of the SQLite file: {problem}"),
            Self::Missing { what } => write!(f, "{what}"),
            Self::Odd { what } => write!(f, "{what}"),
            Self::Unread { problem } => write!(f, "{problem}"),
            Self::TooMany => write!(f, "more than {SPANS_MAX} times of communication; record fewer iterations"),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<serde_json::Error> for TraceError {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() {
            return Self::Unread { problem: error.to_string() };
        }
        Self::Malformed { line: error.line(), problem: error.to_string() }
    }
}

/// Reads a trace of any known format but a database.
///
/// # Errors
/// [`TraceError`] for a text of another format, or without what is needed.
pub fn read_trace(text: &str) -> Result<Trace, TraceError> {
    match text.trim_start().as_bytes().first() {
        Some(b'{' | b'[') => read_json(text.as_bytes()),
        _ if nsight::is_table(text) => Ok(Trace::new(TraceFormat::Nsight, nsight::read(text)?)),
        _ => Err(TraceError::Unknown),
    }
}

/// Reads a trace of PyTorch or a log of the Inspector as it comes: what is no communication is dropped at once. Of any length up to
/// [`JSON_BYTES_MAX`], in memory for what is kept: at most [`SPANS_MAX`] spans, and names of some megabytes.
///
/// # Errors
/// [`TraceError`] for another document, or without what is needed.
pub fn read_json(reader: impl Read) -> Result<Trace, TraceError> {
    json::read(reader)
}

/// Reads the export of Nsight Systems to SQLite: a file, of which only the pages that are needed are read, or all its bytes.
///
/// # Errors
/// [`TraceError`] for another file, or one without what is needed.
pub fn read_database<B: Bytes + ?Sized>(bytes: &B) -> Result<Trace, TraceError> {
    Ok(Trace::new(TraceFormat::NsightSqlite, export::read(bytes)?))
}

/// Whether a name is that of a kernel of NCCL; RCCL's have the same names. Demangled ones may begin with what the kernel returns.
fn is_nccl(kernel: &str) -> bool {
    kernel.strip_prefix("void ").unwrap_or(kernel).trim_start().starts_with("nccl")
}

/// Bytes that one of `ranks` sends in a collective over `bytes` in all, by the ring that NCCL's own figures of bus bandwidth assume; `None`
/// for a collective that is not known.
fn sent(collective: &str, bytes: u64, ranks: u64) -> Option<u64> {
    let name: String = collective.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let has = |part: &str| name.contains(part);
    let others = |times: u128| {
        let ranks = u128::from(ranks.max(1));
        u64::try_from(u128::from(bytes) * times * (ranks - 1) / ranks).ok()
    };
    if has("allreduce") {
        others(2)
    } else if has("reducescatter") || has("allgather") || has("alltoall") {
        others(1)
    } else if has("recv") && !has("send") {
        Some(0)
    } else if ["broadcast", "reduce", "send", "gather", "scatter"].into_iter().any(has) {
        Some(bytes)
    } else {
        None
    }
}

/// Nanoseconds of a number in units of `unit` nanoseconds, as traces write them; `None` for one that is no time.
fn nanos(value: f64, unit: f64) -> Option<u64> {
    // Beyond 2^63 the conversion would stand for no time of anybody.
    let nanos = (value * unit).round();
    (0.0..9.2e18).contains(&nanos).then_some(nanos as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_rank_sends_is_what_the_ring_moves() {
        // 8 ranks: an all-reduce moves 2 x 7/8 of the bytes over each link of the ring, the halves of it 7/8.
        assert_eq!(sent("allreduce", 8_000, 8), Some(14_000));
        for half in ["_allgather_base", "reduce_scatter_tensor_coalesced", "ReduceScatter", "all_to_allv"] {
            assert_eq!(sent(half, 8_000, 8), Some(7_000), "{half}");
        }
        assert_eq!((sent("broadcast", 5, 8), sent("Send", 5, 2), sent("barrier", 5, 8)), (Some(5), Some(5), None));
        assert_eq!((sent("Recv", 5, 2), sent("ncclDevKernel_SendRecv", 5, 2)), (Some(0), Some(5)), "who receives sends nothing");
        assert_eq!((sent("allreduce", 9, 1), sent("allreduce", 9, 0), sent("allreduce", u64::MAX, 4)), (Some(0), Some(0), None));
    }

    #[test]
    fn what_is_none_of_them_says_so() {
        for text in ["", "hello", "t_ns,tx_bytes,rx_bytes\n1,2,3\n"] {
            assert_eq!(read_trace(text), Err(TraceError::Unknown));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[\\[{}\":,a-z0-9 \n.\\-]{0,200}") {
            let _ = read_trace(&text);
        }
    }
}
