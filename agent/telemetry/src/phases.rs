//! When in a period a port was busy.

use units::{Nanos, Rate};

use crate::levels::{Level, busy_levels};

/// Least ratio of the busy rate to the silent rate: below it the two are one.
const CONTRAST_MIN: f64 = 2.0;

/// The share of bytes that phases may miss before confidence says so.
const UNACCOUNTED: f64 = 0.05;

/// A span of the period in which the port was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPhase {
    /// Begin of the phase, counted from the period's begin; below the period. The phase may run over the period's end.
    pub start: Nanos,
    /// Length.
    pub duration: Nanos,
    /// Mean rate.
    pub rate: Rate,
}

/// Folds bytes per step by a period and gives the busy phases, relative to the first step's begin.
///
/// A phase is one of bins above the middle between the silent and the busy level; a rate without such levels gives none.
/// Precision is about one step.
#[must_use]
pub fn fold(bytes: &[f64], step: Nanos, period: Nanos) -> Vec<BusyPhase> {
    let bins = (period.0 / step.0.max(1)) as usize;
    // One bin has no silent and busy level to tell apart, and a period below a step has none at all.
    if bins < 2 || bytes.is_empty() {
        return Vec::new();
    }
    let mut sums = vec![(0.0, 0.0); bins];
    for (i, bytes) in bytes.iter().enumerate() {
        // Each step is shared between the two bins that it covers.
        let at = (i as u64 * step.0 % period.0) as f64 / period.0 as f64 * bins as f64;
        let (bin, into_next) = (at as usize % bins, at.fract());
        for (bin, share) in [(bin, 1.0 - into_next), ((bin + 1) % bins, into_next)] {
            sums[bin].0 += bytes * share;
            sums[bin].1 += share;
        }
    }
    let levels: Vec<f64> = sums.iter().map(|(bytes, steps)| if *steps > 0.0 { bytes / steps } else { 0.0 }).collect();
    busy(&levels, step, period)
}

/// The phases of the iterations that begin at `starts`, whose mean by step is `levels`.
pub(crate) fn phases_of(grid: &[f64], starts: &[usize], levels: &[f64], step: Nanos, period: Nanos) -> Vec<BusyPhase> {
    let found = busy_levels(grid, starts, levels).map(|found| found.iter().map(|level| phase(level, step, period)).collect());
    found.unwrap_or_else(|| busy(levels, step, period))
}

/// The busy phases of a period whose mean bytes per step are `levels`, each for an equal part of the period.
fn busy(levels: &[f64], step: Nanos, period: Nanos) -> Vec<BusyPhase> {
    let bins = levels.len();
    let Some(threshold) = threshold(levels) else { return Vec::new() };
    let width = period.0 as f64 / bins as f64;
    runs(levels, threshold)
        .map(|(first, count)| {
            let mut within: Vec<f64> = (0..count).map(|i| levels[(first + i) % bins]).collect();
            within.sort_by(f64::total_cmp);
            BusyPhase {
                start: Nanos((first as f64 * width) as u64),
                duration: Nanos((count as f64 * width) as u64),
                // The median: jitter smears the edges. Bytes per nanosecond are 8,000 Mbit/s, the unit of `Rate`.
                rate: Rate((within[count / 2] * 8_000.0 / step.0.max(1) as f64).round() as u64),
            }
        })
        .collect()
}

/// The middle between the mean of what is above it and the mean of what is below it (Ridler and Calvard 1978).
fn threshold(levels: &[f64]) -> Option<f64> {
    let highest = levels.iter().copied().fold(0.0, f64::max);
    let mean = |of: &dyn Fn(f64) -> bool| {
        let kept: Vec<f64> = levels.iter().copied().filter(|level| of(*level)).collect();
        (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
    };
    let mut threshold = highest / 2.0;
    let mut levels = (0.0, 0.0);
    // The threshold settles within a few rounds; the bound of 32 only keeps rounding from going on for ever.
    for _ in 0..32 {
        levels = (mean(&|level| level <= threshold)?, mean(&|level| level > threshold)?);
        let next = levels.0.midpoint(levels.1);
        if next == threshold {
            break;
        }
        threshold = next;
    }
    (levels.1 >= CONTRAST_MIN * levels.0).then_some(threshold)
}

/// Runs of bins above the threshold around the circle: first bin and length.
fn runs(levels: &[f64], threshold: f64) -> impl Iterator<Item = (usize, usize)> {
    let bins = levels.len();
    let busy = move |bin: usize| levels[bin % bins] > threshold;
    // `bin + bins - 1` is the bin before, around the circle and without an underflow at bin 0.
    (0..bins).filter(move |&bin| busy(bin) && !busy(bin + bins - 1)).map(move |first| {
        let count = (0..bins).take_while(|i| busy(first + i)).count();
        (first, count)
    })
}

/// How far an observed start is from the planned one around the period: positive is late, at most half a period either way.
#[must_use]
pub fn phase_error(observed: u64, planned: u64, period: Nanos) -> i64 {
    let period = i128::from(period.0.max(1));
    let late = (i128::from(observed) - i128::from(planned)).rem_euclid(period);
    // `late` is below the period, so the larger half is the shorter way round from the other side.
    let signed = if 2 * late > period { late - period } else { late };
    i64::try_from(signed).unwrap_or(i64::MAX)
}

/// A level as a phase.
fn phase(level: &Level, step: Nanos, period: Nanos) -> BusyPhase {
    let nanos = |steps: f64| (steps * step.0 as f64).round();
    let start = nanos(level.start).rem_euclid(period.0.max(1) as f64) as u64 % period.0.max(1);
    let duration = Nanos((nanos(level.end) - nanos(level.start)) as u64).min(period);
    // Bytes per nanosecond are 8,000 Mbit/s, the unit of `Rate`.
    BusyPhase { start: Nanos(start), duration, rate: Rate((level.value * 8_000.0 / step.0.max(1) as f64).round() as u64) }
}

/// When the phase begins with which an iteration does, which is for us to say: the one after the longest silence. A job that is never
/// silent begins after its lowest rate.
pub(crate) fn first_phase(phases: &[BusyPhase], step: Nanos, period: Nanos) -> u64 {
    let before = |at: usize| phases[(at + phases.len() - 1) % phases.len()];
    let silence = |at: usize| {
        let silence = (phases[at].start.0 + 2 * period.0).saturating_sub(before(at).start.0 + before(at).duration.0) % period.0.max(1);
        // Two phases that touch may overlap by what edges are off.
        if silence + step.0 > period.0 && phases.len() > 1 { 0 } else { silence }
    };
    let silent = (0..phases.len()).any(|at| silence(at) >= step.0);
    let key = |at: usize| (if silent { silence(at) } else { u64::MAX - before(at).rate.0 }, core::cmp::Reverse(at));
    (0..phases.len()).max_by_key(|at| key(*at)).map_or(0, |at| phases[at].start.0)
}

/// The share of the bytes above the lowest level that the phases account for, at most 1: less where they say more, too.
pub(crate) fn accounted(levels: &[f64], phases: &[BusyPhase], step: Nanos, period: Nanos) -> f64 {
    let lowest = levels.iter().copied().fold(f64::INFINITY, f64::min).max(0.0);
    let busy = phases.iter().map(|phase| phase.duration.0 as f64).sum::<f64>() / period.0.max(1) as f64;
    let carried = levels.iter().sum::<f64>() / levels.len().max(1) as f64 - lowest * (1.0 - busy).max(0.0);
    let of = |phase: &BusyPhase| phase.rate.0 as f64 / 8_000.0 * step.0 as f64 * phase.duration.0 as f64 / period.0.max(1) as f64;
    let said: f64 = phases.iter().map(of).sum();
    if said <= 0.0 || carried <= 0.0 {
        return 1.0;
    }
    let share = (said / carried).min(carried / said);
    // Edges are known to a step, and chatter varies.
    if share > 1.0 - UNACCOUNTED { 1.0 } else { share }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos(1_000_000);

    #[test]
    fn two_phases_of_one_period_are_found() {
        // 1,250 bytes per ms are 10 Mb/s.
        let bytes: Vec<f64> = (0..100).map(|i| if matches!(i % 20, 3..8 | 12..14) { 1_250.0 } else { 0.0 }).collect();
        let phase =
            |start, duration| BusyPhase { start: Nanos::from_millis(start), duration: Nanos::from_millis(duration), rate: Rate(10) };
        assert_eq!(fold(&bytes, MS, Nanos::from_millis(20)), [phase(3, 5), phase(12, 2)]);
    }

    #[test]
    fn a_phase_may_run_over_the_end() {
        let bytes: Vec<f64> = (0..40).map(|i| if matches!(i % 20, 17.. | ..2) { 1_250.0 } else { 0.0 }).collect();
        let found = fold(&bytes, MS, Nanos::from_millis(20));
        assert_eq!((found[0].start, found[0].duration, found.len()), (Nanos::from_millis(17), Nanos::from_millis(5), 1));
    }

    #[test]
    fn a_level_rate_has_no_phases() {
        assert!(fold(&[1_000.0; 40], MS, Nanos::from_millis(20)).is_empty());
        let ripple: Vec<f64> = (0..40).map(|i| 1_000.0 + f64::from(i % 20)).collect();
        assert!(fold(&ripple, MS, Nanos::from_millis(20)).is_empty());
        assert!(fold(&[], MS, Nanos::from_millis(20)).is_empty());
        assert!(fold(&[1.0], MS, MS).is_empty());
    }

    #[test]
    fn errors_go_the_short_way_round() {
        let period = Nanos(100);
        assert_eq!(phase_error(95, 5, period), -10);
        assert_eq!(phase_error(5, 95, period), 10);
        assert_eq!(phase_error(55, 5, period), 50);
        assert_eq!(phase_error(1_000_005, 5, period), 0);
        assert_eq!(phase_error(5, 5, Nanos(0)), 0);
    }
}
