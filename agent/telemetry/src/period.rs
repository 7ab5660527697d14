//! The period of what a port carries, from its byte counter.
//!
//! Training repeats itself, so the counter's autocorrelation peaks at the period and its multiples. The first lag that
//! is nearly as high as the highest is the period; its multiples, each located within a step, sharpen it.

use realfft::RealFftPlanner;
use units::{Nanos, NodeTime};

use crate::{
    Series,
    autocorrelation::autocorrelation,
    phases::{BusyPhase, fold},
};

/// Periods that a window must hold: with fewer, chance repeats itself too often.
pub const PERIODS_MIN: usize = 4;
/// Shortest period in steps: below it the busy and the silent part are not told apart.
const STEPS_MIN: usize = 4;
/// Least autocorrelation at the period. Noise of n steps stays below 4 / sqrt(n), which is 0.13 at 1,000 steps; a signal
/// of which less than this share repeats is useless for planning.
pub const CONFIDENCE_MIN: f64 = 0.4;
/// A peak this close to the highest counts as high: multiples of the period are about as high as the period, and the
/// lowest of them is wanted.
const NEARLY: f64 = 0.95;
/// A peak is looked for within a period divided by this: wider than jitter moves it, narrower than two phases are apart.
const REACH: usize = 20;
/// A part of a period repeats as well as the whole if it keeps this share of its power. Halves that are alike to 90 % keep 95 %.
const AS_WELL: f64 = 0.95;
/// Most parts that are tried.
const PARTS_MAX: usize = 12;
/// Periods at the window's end that are folded into phases. More would smear drift over them.
const FOLDED_PERIODS: u64 = 24;

/// A period and when in it the port was busy.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Length.
    pub period: Nanos,
    /// The share of the signal's power that repeats with the period, up to 1.
    pub confidence: f64,
    /// Busy phases in order of their start, which is relative to `origin`.
    pub phases: Vec<BusyPhase>,
    /// A time at which a period begins in the sense of `phases`.
    pub origin: NodeTime,
    /// Time observed.
    pub window: Nanos,
}

/// Why there is no period.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Aperiodic {
    /// Too little was seen yet.
    TooShort {
        /// Steps of the window.
        steps: usize,
    },
    /// Nothing varies: silent, or busy throughout.
    Constant,
    /// Iterations were found, and too few to tell them from chance.
    TooFew {
        /// How many.
        iterations: usize,
    },
    /// What repeats is several iterations, each of which is too short for these readings.
    TooFast {
        /// Steps of one of them, or of a few.
        steps: usize,
    },
    /// What repeats explains too little of what was carried.
    Unexplained {
        /// The share that it explains.
        confidence: f64,
    },
    /// What repeats does so each time in another order: more than one job is behind the port.
    Shared {
        /// The share of iterations that no stretching makes like the others.
        unlike: f64,
    },
    /// What repeats does so at distances that vary too much.
    Uneven {
        /// Standard deviation of the distances over their mean.
        jitter: f64,
    },
    /// The rate varies without repeating itself.
    NoPeak {
        /// Highest autocorrelation at any lag that was tried.
        confidence: f64,
    },
}

impl core::fmt::Display for Aperiodic {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooShort { steps } => write!(f, "{steps} steps are too few for {PERIODS_MIN} periods"),
            Self::TooFew { iterations } => {
                write!(f, "{iterations} iterations are too few to be told from chance, or from what two jobs repeat together")
            }
            Self::TooFast { steps } => write!(f, "iterations of at most {steps} readings are too short; read more often"),
            Self::Unexplained { confidence } => write!(f, "what repeats explains {:.0} % of what was carried", confidence * 100.0),
            Self::Shared { unlike } => {
                write!(f, "two jobs or more share the port: {:.0} % of what repeats is unlike the rest", unlike * 100.0)
            }
            Self::Uneven { jitter } => write!(f, "what repeats does so at distances that vary by {:.0} %", jitter * 100.0),
            Self::Constant => write!(f, "the rate does not vary"),
            Self::NoPeak { confidence } => write!(f, "no lag repeats more than {confidence:.2} of the signal; {CONFIDENCE_MIN} is wanted"),
        }
    }
}

/// Finds periods. A learner keeps the tables of its transforms, which take longer to make than to use.
#[derive(Default)]
pub struct Learner {
    planner: RealFftPlanner<f64>,
}

impl core::fmt::Debug for Learner {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Learner").finish_non_exhaustive()
    }
}

impl Learner {
    /// Finds the period of a series, sampled about every `step`.
    ///
    /// # Errors
    /// [`Aperiodic`] when there is none to be seen: a result, not a failure.
    pub fn learn(&mut self, series: &Series, step: Nanos) -> Result<Observation, Aperiodic> {
        // A pause holds many periods, and bytes spread evenly over it are none of them.
        let (start, grid) = series.unbroken(step).0.grid(step);
        if grid.len() < STEPS_MIN * PERIODS_MIN {
            return Err(Aperiodic::TooShort { steps: grid.len() });
        }
        // A lag beyond half of the window has few pairs and so a noisy value, and the longest period sought is a quarter of it.
        let correlation = autocorrelation(&mut self.planner, &grid, grid.len() / 2).ok_or(Aperiodic::Constant)?;
        let lag_max = grid.len() / PERIODS_MIN;
        let lag = first_high_peak(&correlation, lag_max)?;
        let steps = shortest(&grid, &correlation, sharpened(&correlation, lag));
        let confidence = share_explained(&grid, steps);
        let period = Nanos((steps * step.0 as f64).round() as u64);
        let window = Nanos(step.0 * grid.len() as u64);
        // The fold is over the window's end, where the port is now, and over whole periods, so that no phase counts once more.
        let folded = period.0.saturating_mul(FOLDED_PERIODS).min(window.0) / period.0 * period.0;
        let skipped = ((window.0 - folded) / step.0) as usize;
        let origin = NodeTime(start.0 + skipped as u64 * step.0);
        let phases = fold(&grid[skipped..], step, period);
        Ok(Observation { period, confidence, phases, origin, window })
    }
}

/// [`Learner::learn`] for one series.
///
/// # Errors
/// As there.
pub fn learn(series: &Series, step: Nanos) -> Result<Observation, Aperiodic> {
    Learner::default().learn(series, step)
}

/// The shortest lag that is a local maximum and nearly as high as the highest.
fn first_high_peak(correlation: &[f64], lag_max: usize) -> Result<usize, Aperiodic> {
    let is_peak = |&lag: &usize| correlation[lag] >= correlation[lag - 1] && correlation[lag] >= correlation[lag + 1];
    // Below the first dip a signal is like itself only because it changes slowly. STEPS_MIN and `last` keep the neighbours of
    // every lag inside the slice.
    let dip = correlation.iter().position(|value| *value <= 0.0).unwrap_or(correlation.len());
    let last = lag_max.min(correlation.len().saturating_sub(2));
    let peaks: Vec<usize> = (dip.max(STEPS_MIN)..=last).filter(is_peak).collect();
    let highest = peaks.iter().map(|&lag| correlation[lag]).fold(0.0, f64::max);
    if highest < CONFIDENCE_MIN {
        return Err(Aperiodic::NoPeak { confidence: highest });
    }
    let nearly = |lag: &&usize| correlation[**lag] >= NEARLY * highest;
    peaks.iter().find(nearly).copied().ok_or(Aperiodic::NoPeak { confidence: highest })
}

/// The period in steps: where its longest still visible multiple peaks, divided by the multiple.
fn sharpened(correlation: &[f64], lag: usize) -> f64 {
    let mut period = vertex(correlation, lag);
    let mut multiple = 2;
    // Jitter rounds the peaks, so the first may be off by a few steps, and its double by twice as many.
    let reach = 1 + lag / REACH;
    // The multiple doubles each time, so the loop ends after few turns; the filter keeps every index inside the slice.
    while let Some(predicted) = Some((period * multiple as f64).round() as usize).filter(|at| at + reach + 1 < correlation.len()) {
        let near = predicted - reach..=predicted + reach;
        let Some(peak) = near.max_by(|a, b| correlation[*a].total_cmp(&correlation[*b])) else { break };
        let is_peak = correlation[peak] >= correlation[peak - 1] && correlation[peak] >= correlation[peak + 1];
        if !is_peak || correlation[peak] < correlation[lag] / 2.0 {
            break;
        }
        period = vertex(correlation, peak) / multiple as f64;
        multiple *= 2;
    }
    period
}

/// The shortest part of a period, in steps, that repeats as well as the whole.
///
/// A period between two lags shows less than its multiple that falls on one, so a multiple may have been found. Folding
/// is not bound to whole lags: a true part folds as sharply as the whole, with bins of the same width.
fn shortest(signal: &[f64], correlation: &[f64], period: f64) -> f64 {
    let repeats_as_well = |&parts: &usize| {
        let part = period / parts as f64;
        let bins = part.ceil() as usize;
        // Folding costs a pass over the signal. Half a step beside its peak a part still shows half of it, so most are out.
        let shows = correlation[bins - 1].max(correlation[bins]) >= CONFIDENCE_MIN / 2.0;
        // A whole of whole steps folds without the smear of a step that its parts have.
        let as_well = AS_WELL - 1.0 / part;
        shows && part >= STEPS_MIN as f64 && explained(signal, part, bins) >= as_well * explained(signal, period, parts * bins)
    };
    // The largest number of parts comes first, because the shortest part that repeats is wanted; PARTS_MAX bounds the passes.
    let parts = (2..=PARTS_MAX).rev().find(repeats_as_well).unwrap_or(1);
    period / parts as f64
}

/// The power of a signal that remains when it is folded into bins.
fn explained(signal: &[f64], period: f64, bins: usize) -> f64 {
    let mean = signal.iter().sum::<f64>() / signal.len().max(1) as f64;
    let mut sums = vec![(0.0, 0.0); bins];
    for (i, value) in signal.iter().enumerate() {
        // A value stands for its whole step, so the middle of the step says the bin.
        let phase = (i as f64 + 0.5) / period;
        // `fract` is below 1, but the product may round up to `bins`.
        let bin = ((phase.fract() * bins as f64) as usize).min(bins - 1);
        sums[bin].0 += value - mean;
        sums[bin].1 += 1.0;
    }
    sums.iter().filter(|(_, count)| *count > 0.0).map(|(sum, count): &(f64, f64)| sum * sum / count).sum()
}

/// The share of a signal's power that is left after folding by a period, with bins of about a step.
fn share_explained(signal: &[f64], period: f64) -> f64 {
    let mean = signal.iter().sum::<f64>() / signal.len().max(1) as f64;
    let power: f64 = signal.iter().map(|value| (value - mean) * (value - mean)).sum();
    // The power is not zero: `autocorrelation` has refused a constant signal before. Rounding may pass 1 a little.
    (explained(signal, period, period.ceil() as usize) / power).clamp(0.0, 1.0)
}

/// The top of the parabola through a peak and its neighbours.
fn vertex(correlation: &[f64], peak: usize) -> f64 {
    let (left, top, right) = (correlation[peak - 1], correlation[peak], correlation[peak + 1]);
    let bend = left - 2.0 * top + right;
    let offset = if bend < 0.0 { (left - right) / (2.0 * bend) } else { 0.0 };
    // The top of a true peak is within half a step; the clamp is for a plateau, where the bend is nearly zero.
    peak as f64 + offset.clamp(-0.5, 0.5)
}
