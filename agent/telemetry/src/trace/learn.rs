//! The iteration in the spans of a trace.
//!
//! A trace holds few iterations, often three to ten, but says what was called: so iterations are found by the calls that repeat themselves,
//! not by the rate ([`gate_core::repeat()`]).

use gate_core::{REPEATS_MIN, repeat};
use units::{Nanos, NodeTime};

use super::Span;

/// Spans no further apart than this share of the period are of one phase: what a job computes between two buckets is no Down phase that
/// another job could use.
const GAP: u64 = 100;

/// An iteration that takes longer than this many of the middle one stood still: in the first one that a profiler records a rank waits until
/// the profilers of all others have begun (454 ms beside 29 ms on an H100). What it took is no part of a mean.
const STALL: u64 = 2;

/// A time of an iteration in which the job communicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanPhase {
    /// From the begin of the iteration.
    pub start: Nanos,
    /// Length.
    pub duration: Nanos,
    /// Bytes that the rank sends in it; `None` where the trace does not say that of every span.
    pub bytes: Option<u64>,
}

/// What the spans of a trace say of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedSpans {
    /// Mean time from the start of an iteration to that of the next, of those that did not stand still.
    pub period: Nanos,
    /// Standard deviation of these times, as a share of the period.
    pub jitter: f64,
    /// The share of the spans that repeat themselves; what came before is warming up, or another job.
    pub confidence: f64,
    /// Iterations that are whole.
    pub iterations: usize,
    /// How many of them took more than twice as long as the middle one, and are in no mean.
    pub stalled: usize,
    /// When an iteration communicates; it begins with the first phase.
    pub phases: Vec<SpanPhase>,
    /// When the first iteration began, by the clock of the trace.
    pub origin: NodeTime,
}

/// Why no iteration was found: an answer, and no failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unlearned {
    /// No sequence of calls stands [`REPEATS_MIN`] times in a row at the end.
    NoRepeat {
        /// Spans looked at.
        spans: usize,
    },
    /// All of it happened at one time.
    NoTime,
}

impl core::fmt::Display for Unlearned {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoRepeat { spans } => {
                write!(f, "no sequence of the {spans} collectives stands {REPEATS_MIN} times in a row; record more iterations")
            }
            Self::NoTime => write!(f, "all iterations began at one time"),
        }
    }
}

/// Finds the iteration in spans, in order of their start.
///
/// # Errors
/// [`Unlearned`] where there is none: a result.
pub fn learn_spans(spans: &[Span]) -> Result<LearnedSpans, Unlearned> {
    let calls: Vec<&str> = spans.iter().map(|span| span.what.as_str()).collect();
    let none = Unlearned::NoRepeat { spans: spans.len() };
    let found = repeat(&calls).ok_or(none)?;
    let stretch = spans.get(found.first..).ok_or(none)?;
    let from = stretch.get(begin(stretch, found.length)..).ok_or(none)?;
    let starts: Vec<u64> = from.iter().step_by(found.length).map(|span| span.start.0).collect();
    let &[origin, .., _] = starts.as_slice() else { return Err(none) };
    let lengths: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut sorted = lengths.clone();
    sorted.sort_unstable();
    let usual = |&length: &u64| length <= sorted[sorted.len() / 2].saturating_mul(STALL);
    let kept: Vec<u64> = lengths.iter().copied().filter(usual).collect();
    // The median is always kept, so `kept` is not empty.
    let count = kept.len() as u64;
    let period = (kept.iter().map(|&length| u128::from(length)).sum::<u128>() / u128::from(count)) as u64;
    if period == 0 {
        return Err(Unlearned::NoTime);
    }
    let squares = kept.iter().map(|&length| (length as f64 - period as f64).powi(2)).sum::<f64>();
    // Nothing comes after the last iteration, so nobody knows whether it stood still.
    let iterations = from.chunks_exact(found.length).enumerate();
    let whole: Vec<&[Span]> = iterations.filter(|(at, _)| lengths.get(*at).is_none_or(usual)).map(|(_, spans)| spans).collect();
    Ok(LearnedSpans {
        period: Nanos(period),
        jitter: (squares / count as f64).sqrt() / period as f64,
        confidence: stretch.len() as f64 / spans.len() as f64,
        iterations: from.len() / found.length,
        stalled: lengths.len() - kept.len(),
        phases: phases(&whole, found.length, Nanos(period)),
        origin: NodeTime(origin),
    })
}

/// The call that comes after the longest silence, in the mean over the iterations: there an iteration begins.
fn begin(stretch: &[Span], length: usize) -> usize {
    let mut silences = vec![(0_u128, 0_u128); length];
    let mut end = None;
    for (at, span) in stretch.iter().enumerate() {
        if let (Some(end), Some((sum, count))) = (end, silences.get_mut(at % length)) {
            (*sum, *count) = (*sum + u128::from(span.start.0.saturating_sub(end)), *count + 1);
        }
        end = end.max(Some(span.start.saturating_add(span.duration).0));
    }
    // Of equal silences the first: an iteration without any begins where the trace does.
    let mean = |(sum, count): (u128, u128)| sum / count.max(1);
    let longest = silences.iter().copied().map(mean).max().unwrap_or(0);
    silences.iter().position(|&silence| mean(silence) == longest).unwrap_or(0)
}

/// Each call of an iteration in the mean, and those that are near to each other together.
fn phases(whole: &[&[Span]], length: usize, period: Nanos) -> Vec<SpanPhase> {
    let count = whole.len().max(1) as u128;
    let mut phases: Vec<SpanPhase> = Vec::new();
    for call in 0..length {
        let (mut start, mut duration, mut bytes) = (0_u128, 0_u128, Some(0_u128));
        for iteration in whole {
            let (Some(first), Some(span)) = (iteration.first(), iteration.get(call)) else { continue };
            start += u128::from(span.start.since(first.start).0);
            duration += u128::from(span.duration.0);
            bytes = bytes.zip(span.bytes).map(|(sum, bytes)| sum + u128::from(bytes));
        }
        // Means of 64-bit numbers fit again.
        let mean = |sum: u128| (sum / count) as u64;
        let (start, end) = (mean(start), mean(start).saturating_add(mean(duration)));
        let bytes = bytes.map(mean);
        match phases.last_mut() {
            Some(last) if start <= last.start.0.saturating_add(last.duration.0).saturating_add(period.0 / GAP) => {
                last.duration = Nanos(last.duration.0.max(end - last.start.0));
                last.bytes = last.bytes.zip(bytes).and_then(|(sum, bytes)| sum.checked_add(bytes));
            }
            _ => phases.push(SpanPhase { start: Nanos(start), duration: Nanos(end - start), bytes }),
        }
    }
    // Calls of two streams may lie over each other and over the end of the iteration; a phase lies within it.
    phases.retain(|phase| phase.start < period);
    for phase in &mut phases {
        phase.duration = phase.duration.min(Nanos(period.0 - phase.start.0));
    }
    phases
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Iterations of 100 ms: a bucket at 10 ms, three at 60 ms that follow each other, and one at 80 ms; late by `late` each.
    fn spans(late: &[u64], bytes: Option<u64>) -> Vec<Span> {
        let plan = [("a", 10, 8), ("b", 60, 3), ("b", 63, 3), ("c", 66, 4), ("a", 80, 5)];
        let mut at = 0;
        let mut spans = Vec::new();
        for late in late {
            at += late;
            spans.extend(plan.map(|(what, start, long)| Span {
                what: what.into(),
                start: NodeTime(at + start * MS),
                duration: Nanos(long * MS),
                bytes,
            }));
            at += 100 * MS;
        }
        spans
    }

    #[test]
    fn an_iteration_has_its_phases_after_the_longest_silence() {
        let learned = learn_spans(&spans(&[0; 5], Some(1_000))).unwrap();
        let phase = |start, duration, spans: u64| SpanPhase {
            start: Nanos(start * MS),
            duration: Nanos(duration * MS),
            bytes: Some(spans * 1_000),
        };
        // From the first bucket behind 42 ms of silence, 18 to 60 ms, on: the one of the next iteration is at 50 ms.
        assert_eq!(learned.phases, [phase(0, 10, 3), phase(20, 5, 1), phase(50, 8, 1)]);
        assert_eq!((learned.period, learned.jitter, learned.origin), (Nanos(100 * MS), 0.0, NodeTime(60 * MS)));
        // The first iteration of the trace begins before it, so four are whole.
        assert_eq!((learned.iterations, learned.confidence), (4, 1.0));
    }

    #[test]
    fn what_came_before_counts_less_and_jitter_is_told() {
        let mut all = vec![Span { what: "warm".into(), start: NodeTime(0), duration: Nanos(1), bytes: None }; 5];
        all.extend(spans(&[MS, 0, 2 * MS, 0, 2 * MS], None));
        let learned = learn_spans(&all).unwrap();
        assert!((learned.confidence - 25.0 / 30.0).abs() < 1e-9);
        // Distances of 100, 102, 100 and 102 ms.
        assert_eq!(learned.period, Nanos(101 * MS));
        assert!((learned.jitter - 1.0 / 101.0).abs() < 1e-9, "{}", learned.jitter);
        assert!(learned.phases.iter().all(|phase| phase.bytes.is_none()));
    }

    /// As PyTorch's profiler records it: one rank begins before the others, and waits for them in its first collective.
    #[test]
    fn an_iteration_that_stood_still_is_in_no_mean() {
        let mut all = spans(&[0; 6], Some(1_000));
        let learned = learn_spans(&all).unwrap();
        // The first whole iteration begins with the second span.
        all[1].duration = Nanos(450 * MS);
        all[2..].iter_mut().for_each(|span| span.start.0 += 450 * MS);
        let stalled = learn_spans(&all).unwrap();
        assert_eq!((stalled.stalled, stalled.iterations, learned.stalled), (1, learned.iterations, 0));
        assert_eq!((stalled.period, stalled.jitter, stalled.phases), (learned.period, 0.0, learned.phases));
    }

    #[test]
    fn what_does_not_repeat_itself_is_named() {
        let two = spans(&[0; 2], None);
        assert_eq!(learn_spans(&two[..9]), Err(Unlearned::NoRepeat { spans: 9 }));
        assert_eq!(learn_spans(&[]), Err(Unlearned::NoRepeat { spans: 0 }));
        let at_once = vec![Span { what: "a".into(), start: NodeTime(5), duration: Nanos(0), bytes: None }; 5];
        assert_eq!(learn_spans(&at_once), Err(Unlearned::NoTime));
    }

    proptest! {
        /// Any spans: no panic, and phases in order within the time of the iterations.
        #[test]
        fn any_spans_are_survived(list in prop::collection::vec((0_u8..3, any::<u64>(), any::<u64>(), any::<Option<u64>>()), 0..40)) {
            let mut spans: Vec<Span> = list
                .into_iter()
                .map(|(what, start, duration, bytes)| Span { what: what.to_string(), start: NodeTime(start), duration: Nanos(duration), bytes })
                .collect();
            spans.sort_by_key(|span| span.start);
            if let Ok(learned) = learn_spans(&spans) {
                prop_assert!(learned.phases.is_sorted_by_key(|phase| phase.start) && !learned.phases.is_empty());
                let within = |phase: &SpanPhase| phase.start.0.checked_add(phase.duration.0).is_some_and(|end| end <= learned.period.0);
                prop_assert!(learned.phases.iter().all(within), "{learned:?}");
            }
        }
    }
}
