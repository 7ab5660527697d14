//! The iteration in the spans of a trace.
//!
//! A trace holds few iterations, often three to ten, but says what was called: so iterations are found by the calls that repeat themselves,
//! not by the rate ([`gate_core::repeat()`]), and among calls that are all alike by the silences that come regularly
//! ([`gate_core::by_silences`]).

use std::collections::BTreeMap;

use gate_core::{REPEATS_MIN, Repeat, UNKNOWN, by_silences, repeat_with};
use units::{Nanos, NodeTime};

use super::Span;

/// Spans no further apart than this share of the period are of one phase: what a job computes between two buckets is no Down phase that
/// another job could use.
const GAP: u64 = 100;

/// An iteration that takes longer than this many of the middle one stood still: in the first one that a profiler records a rank waits until
/// the profilers of all others have begun (454 ms beside 29 ms on an H100). What it took is no part of a mean.
const STALL: u64 = 2;

/// More than one in so many iterations that stood still are no exceptions, and so are those of calls that are all alike where they take more
/// than one part in so many of the time: then a call comes a changing number of times in an iteration.
const STALLED_ONE_IN: usize = 10;

/// One call in so many at the end may be of no iteration, such as a last mean of the loss.
const TAIL_ONE_IN: usize = 8;

/// The least share of the calls that iterations have to explain: of the others nobody knows what they are.
const EXPLAINED_MIN: f64 = 0.5;

/// Most calls of an iteration of calls that are all alike, and of one whose end is cut off.
const LENGTH_MAX: usize = 1 << 16;

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
    /// What repeats itself is less than half of the trace.
    Little {
        /// Spans that repeat themselves.
        explained: usize,
        /// Spans looked at.
        spans: usize,
    },
    /// Too many of what was taken for iterations stood still.
    Uneven {
        /// Those that took more than twice as long as the middle one.
        stalled: usize,
        /// All of which the length is known.
        iterations: usize,
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
            Self::Little { explained, spans } => write!(
                f,
                "only {explained} of {spans} collectives repeat themselves at the end, and half of them have to; record more iterations, or less of what comes before them"
            ),
            Self::Uneven { stalled, iterations } => write!(
                f,
                "{stalled} of {iterations} repetitions took more than twice as long as the middle one, so they are no iterations; equal collectives perhaps come a changing number of times in each"
            ),
            Self::NoTime => write!(f, "all iterations began at one time"),
        }
    }
}

/// Finds the iteration in spans, in order of their start.
///
/// # Errors
/// [`Unlearned`] where there is none: a result.
pub fn learn_spans(spans: &[Span]) -> Result<LearnedSpans, Unlearned> {
    let none = Unlearned::NoRepeat { spans: spans.len() };
    let Stretch { alike, first, end } = stretch(&numbers(spans)).ok_or(none)?;
    let stretch = spans.get(first..end).ok_or(none)?;
    let confidence = stretch.len() as f64 / spans.len() as f64;
    if confidence < EXPLAINED_MIN {
        return Err(Unlearned::Little { explained: stretch.len(), spans: spans.len() });
    }
    let silences = silences(stretch);
    // What is no time for another job between two phases parts no iterations either.
    let time = stretch.last().map_or(0, |last| last.start.since(stretch[0].start).0);
    let parts =
        |length: usize, silence: u64| u128::from(silence) * u128::from(GAP) * stretch.len() as u128 >= u128::from(time) * length as u128;
    let length = by_silences(&silences, alike, LENGTH_MAX.max(alike), parts).length;
    let from = stretch.get(begin(&silences, length)..).ok_or(none)?;
    let starts: Vec<u64> = from.iter().step_by(length).map(|span| span.start.0).collect();
    let &[origin, .., _] = starts.as_slice() else { return Err(none) };
    let lengths: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let kept = usual(&lengths, length == 1)?;
    let is_usual = |length: u64| length <= kept.longest;
    let period = kept.mean;
    if period == 0 {
        return Err(Unlearned::NoTime);
    }
    let squares = lengths.iter().filter(|length| is_usual(**length)).map(|&length| (length as f64 - period as f64).powi(2)).sum::<f64>();
    // Nothing comes after the last iteration, so nobody knows whether it stood still.
    let iterations = from.chunks_exact(length).enumerate();
    let whole: Vec<&[Span]> =
        iterations.filter(|(at, _)| lengths.get(*at).is_none_or(|length| is_usual(*length))).map(|(_, spans)| spans).collect();
    Ok(LearnedSpans {
        period: Nanos(period),
        jitter: (squares / (lengths.len() - kept.stalled) as f64).sqrt() / period as f64,
        confidence,
        iterations: from.len() / length,
        stalled: kept.stalled,
        phases: phases(&whole, length, Nanos(period)),
        origin: NodeTime(origin),
    })
}

/// A number for each span: equal ones did the same.
fn numbers(spans: &[Span]) -> Vec<u32> {
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    let mut numbers = Vec::with_capacity(spans.len());
    for span in spans {
        // There are no more spans than a u32 counts.
        let next = known.len() as u32;
        numbers.push(*known.entry(&span.what).or_insert(next));
    }
    numbers
}

/// Calls that repeat themselves, from the first one to before the end.
struct Stretch {
    /// Calls of the shortest sequence.
    alike: usize,
    first: usize,
    end: usize,
}

/// What repeats itself in the calls, but for the last ones: of all ends within the last eighth the one that explains most.
fn stretch(calls: &[u32]) -> Option<Stretch> {
    let mut borders = Vec::with_capacity(calls.len());
    let mut best: Option<Stretch> = None;
    // Twice as many calls less each time: some iterations are lost at most, and found again by going on as far as they repeat themselves.
    let most = calls.len() / TAIL_ONE_IN;
    let cuts = std::iter::once(0).chain((0..usize::BITS).map(|power| 1 << power).take_while(|cut| *cut < most)).chain([most]);
    for cut in cuts {
        let kept = calls.get(..calls.len() - cut)?;
        let Some(Repeat { length, first }) = repeat_with(kept, &mut borders) else { continue };
        let more = (kept.len()..calls.len()).take_while(|&at| calls.get(at - length) == calls.get(at)).count();
        let found = Stretch { alike: length, first, end: kept.len() + more };
        if best.as_ref().is_none_or(|best| found.end - found.first > best.end - best.first) {
            best = Some(found);
        }
    }
    best
}

/// How long nothing was sent before each span.
fn silences(spans: &[Span]) -> Vec<u64> {
    let mut end = None;
    let silence = |span: &Span| {
        let silence = end.map_or(UNKNOWN, |end| span.start.0.saturating_sub(end));
        end = end.max(Some(span.start.saturating_add(span.duration).0));
        silence
    };
    spans.iter().map(silence).collect()
}

/// Iterations that did not stand still.
struct Usual {
    mean: u64,
    longest: u64,
    /// How many did.
    stalled: usize,
}

/// Which of these lengths are those of iterations that did not stand still.
fn usual(lengths: &[u64], are_alike: bool) -> Result<Usual, Unlearned> {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    // Of two the shorter: one of them may have stood still.
    let longest = sorted[(sorted.len() - 1) / 2].saturating_mul(STALL);
    let count = sorted.partition_point(|length| *length <= longest);
    let sum = |lengths: &[u64]| lengths.iter().map(|&length| u128::from(length)).sum::<u128>();
    let (kept, still) = sorted.split_at(count);
    let takes_much = sum(still) * STALLED_ONE_IN as u128 > sum(&sorted);
    // One is what every profiler makes.
    if still.len() > 1 && (still.len() * STALLED_ONE_IN > sorted.len() || (are_alike && takes_much)) {
        return Err(Unlearned::Uneven { stalled: still.len(), iterations: sorted.len() });
    }
    // The middle one is kept, so there is one.
    Ok(Usual { mean: (sum(kept) / kept.len() as u128) as u64, longest, stalled: still.len() })
}

/// The call that comes after the longest silence, in the mean over the iterations: there an iteration begins.
fn begin(silences: &[u64], length: usize) -> usize {
    let mut sums = vec![(0_u128, 0_u128); length];
    for (at, &silence) in silences.iter().enumerate().filter(|(_, silence)| **silence != UNKNOWN) {
        if let Some((sum, count)) = sums.get_mut(at % length) {
            (*sum, *count) = (*sum + u128::from(silence), *count + 1);
        }
    }
    // Of equal silences the first: an iteration without any begins where the trace does.
    let mean = |(sum, count): (u128, u128)| sum / count.max(1);
    let longest = sums.iter().copied().map(mean).max().unwrap_or(0);
    sums.iter().position(|&silence| mean(silence) == longest).unwrap_or(0)
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

    /// Spans that are all alike, of 4 ms each, at these times of each iteration of 100 ms.
    fn alike(at: &[u64], iterations: u64) -> Vec<Span> {
        let span = |ms: u64| Span { what: "a".into(), start: NodeTime(ms * MS), duration: Nanos(4 * MS), bytes: Some(9) };
        (0..iterations).flat_map(|n| at.iter().map(move |at| span(n * 100 + at))).collect()
    }

    /// DistributedDataParallel makes equal buckets of equal layers.
    #[test]
    fn equal_collectives_within_an_iteration_are_no_iterations() {
        let periods = [
            (alike(&[0, 5, 10, 15], 8), 0),
            (alike(&[0, 30], 8), 1),
            (alike(&[0, 44], 8), 1),
            (alike(&[7, 14, 30], 3), 2),
            // Three of seven were before the trace began, and two are after its last iteration.
            (alike(&[0, 5, 10, 15, 20, 25, 30], 9)[3..61].to_vec(), 0),
        ];
        for (spans, more) in periods {
            let learned = learn_spans(&spans).unwrap();
            assert_eq!((learned.period, learned.stalled, learned.confidence), (Nanos(100 * MS), 0, 1.0), "{learned:?}");
            assert_eq!(learned.phases.len(), 1 + more, "{learned:?}");
        }
        // Four buckets, and three in every other iteration: nothing repeats itself, so no period is the answer.
        let uneven: Vec<Span> = alike(&[0, 5, 10, 15], 20)
            .into_iter()
            .enumerate()
            .filter(|(at, _)| at % 8 != 7 && at % 24 != 3)
            .map(|(_, span)| span)
            .collect();
        assert!(matches!(learn_spans(&uneven), Err(Unlearned::Uneven { stalled: 14.., .. })), "{:?}", learn_spans(&uneven));
        // One call an iteration, later and earlier by chance, is one call an iteration.
        let mut jitter = alike(&[0], 60);
        jitter.iter_mut().enumerate().for_each(|(at, span)| span.start.0 += (at as u64 * 7_919) % 21 * MS);
        assert!(learn_spans(&jitter).unwrap().period.0.abs_diff(100 * MS) < MS / 2);
    }

    #[test]
    fn what_comes_after_the_last_iteration_is_left_out() {
        let whole = learn_spans(&spans(&[0; 8], None)).unwrap();
        for tail in [1, 2, 3, 5] {
            let mut all = spans(&[0; 8], None);
            // The iteration under way is unfinished, and other calls follow.
            let at = |n: usize| NodeTime(900 * MS + n as u64 * 7 * MS);
            all.extend((0..tail).map(|n| Span { what: "loss".into(), start: at(n), duration: Nanos(50), bytes: None }));
            let learned = learn_spans(&all).unwrap();
            assert_eq!((learned.period, learned.iterations, &learned.phases), (whole.period, whole.iterations, &whole.phases), "{tail}");
            assert!((learned.confidence - 40.0 / (40 + tail) as f64).abs() < 1e-9, "{tail}: {}", learned.confidence);
        }
    }

    #[test]
    fn what_explains_less_than_half_is_no_iteration() {
        let other = |n: u64| Span { what: format!("{n}").into(), start: NodeTime(n * MS), duration: Nanos(1), bytes: None };
        let mut all: Vec<Span> = (0..60).map(other).collect();
        all.extend(alike(&[60], 30));
        let said = learn_spans(&all).unwrap_err();
        assert_eq!(said, Unlearned::Little { explained: 30, spans: 90 });
        assert!(said.to_string().starts_with("only 30 of 90 collectives repeat themselves"));
        assert!(learn_spans(&all[40..]).is_ok());
    }

    /// Of two lengths the longer may be the one in which a rank waited for the others' profilers.
    #[test]
    fn of_two_iterations_the_longer_may_have_stood_still() {
        let mut all = alike(&[0], 3);
        all[1..].iter_mut().for_each(|span| span.start.0 += 450 * MS);
        let learned = learn_spans(&all).unwrap();
        assert_eq!((learned.period, learned.stalled), (Nanos(100 * MS), 1));
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
                .map(|(what, start, duration, bytes)| Span { what: what.to_string().into(), start: NodeTime(start), duration: Nanos(duration), bytes })
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
