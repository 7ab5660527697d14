//! Readings of one byte counter over time, as a ring.

use std::{borrow::Cow, collections::VecDeque};

use units::{Nanos, NodeTime};

/// Most readings kept: 41 seconds at 10 ms. Longer windows sharpen the period little and age the answer.
pub const SAMPLES_MAX: usize = 4_096;

/// Where a counter of 32 bits begins anew.
const WRAP: u64 = 1 << 32;

/// How much faster than ever a counter may seem to have counted over a wrap: readings come late, and so together.
const FASTER: f64 = 4.0;

/// Readings that are further apart than so many usual steps are of two stretches: a recording that paused. Over shorter distances bytes are
/// spread evenly, which moved no period by a thousandth (distances of 5 to 200 steps of 5 ms in 20 s, iterations of 60 and 300 ms); a host
/// that is busy leaves distances of ten steps now and then, and loses no readings by them.
pub const GAP_STEPS: u64 = 40;

/// The last readings of one byte counter.
#[derive(Clone, Debug)]
pub struct Series {
    /// Bytes since the oldest reading began counting, not the device's value.
    readings: VecDeque<(NodeTime, u64)>,
    last: Option<u64>,
    /// Most readings kept.
    kept: usize,
}

/// Keeps [`SAMPLES_MAX`] readings.
impl Default for Series {
    fn default() -> Self {
        Self::keeping(SAMPLES_MAX)
    }
}

impl Series {
    /// Keeps so many readings.
    #[must_use]
    pub fn keeping(kept: usize) -> Self {
        Self { readings: VecDeque::new(), last: None, kept: kept.max(2) }
    }

    /// Adds a reading of the device's value. A value that went back begins the series anew, and so does a gap (`None`):
    /// what passed in between is not known. A reading that is not later than the one before is dropped.
    pub fn push(&mut self, at: NodeTime, value: Option<u64>) {
        let (Some(value), last) = (value, self.last) else {
            self.clear();
            return;
        };
        let total = match (last, self.readings.back()) {
            (Some(last), Some(&(before, total))) if value >= last => {
                if at <= before {
                    return;
                }
                // The total never exceeds the device's value, so the sum fits a u64.
                total + (value - last)
            }
            _ => {
                self.readings.clear();
                0
            }
        };
        if self.readings.len() == self.kept {
            self.readings.pop_front();
        }
        self.readings.push_back((at, total));
        self.last = Some(value);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.readings.clear();
        self.last = None;
    }

    /// Readings held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.readings.len()
    }

    /// Bytes from the first reading to the last.
    #[must_use]
    pub fn carried(&self) -> u64 {
        let ends = self.readings.front().zip(self.readings.back());
        ends.map_or(0, |((_, first), (_, last))| last - first)
    }

    /// Bytes from the first reading at or after a time to the last.
    #[must_use]
    pub fn carried_since(&self, since: NodeTime) -> u64 {
        let first = self.readings.get(self.readings.partition_point(|(at, _)| *at < since));
        first.zip(self.readings.back()).map_or(0, |((_, first), (_, last))| last - first)
    }

    /// The readings at or after a time.
    #[must_use]
    pub fn since(&self, since: NodeTime) -> Self {
        let before = self.readings.partition_point(|(at, _)| *at < since);
        let readings: VecDeque<_> = self.readings.iter().skip(before).copied().collect();
        let last = self.last.filter(|_| !readings.is_empty());
        Self { readings, last, kept: self.kept }
    }

    /// The longest stretch without a gap of more than [`GAP_STEPS`], and how many gaps there are. It is to be looked at, not to be gone on with.
    #[must_use]
    pub fn unbroken(&self, step: Nanos) -> (Cow<'_, Self>, usize) {
        let gap = step.0.max(1).saturating_mul(GAP_STEPS);
        let times = || self.readings.iter().map(|(at, _)| *at);
        let breaks = times().zip(times().skip(1)).zip(1..).filter(|((a, b), _)| b.since(*a).0 > gap).map(|(_, at)| at);
        let mut starts: Vec<usize> = std::iter::once(0).chain(breaks).collect();
        let gaps = starts.len() - 1;
        if gaps == 0 {
            return (Cow::Borrowed(self), 0);
        }
        starts.push(self.readings.len());
        // Of equals the last: what is newer is truer.
        let longest = starts.windows(2).max_by_key(|pair| pair[1] - pair[0]).map_or(0..0, |pair| pair[0]..pair[1]);
        let readings = self.readings.range(longest).copied().collect();
        (Cow::Owned(Self { readings, last: None, kept: self.kept }), gaps)
    }

    /// Whether there is no reading.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }

    /// Bytes per step of an even grid that ends at the last reading, and when its first step begins.
    ///
    /// Readings come late when the host is busy; the grid interpolates the byte count, so that a late reading
    /// does not look like a silence followed by a rush.
    #[must_use]
    pub fn grid(&self, step: Nanos) -> (NodeTime, Vec<f64>) {
        let (Some(&(first, _)), Some(&(last, _))) = (self.readings.front(), self.readings.back()) else {
            return (NodeTime(0), Vec::new());
        };
        let step = step.0.max(1);
        // The cap keeps a tiny step from asking for memory without bound, and steps * step stays below the readings' span.
        let steps = usize::try_from(last.since(first).0 / step).unwrap_or(usize::MAX).min(self.kept);
        let start = last.0 - steps as u64 * step;
        let mut grid = Vec::with_capacity(steps);
        let mut after = 1;
        let mut previous = None;
        for edge in 0..=steps as u64 {
            let at = start + edge * step;
            // `at` never passes the last reading, so `after` stays inside.
            while after + 1 < self.readings.len() && self.readings[after].0.0 < at {
                after += 1;
            }
            let total = self.total_between(after, at);
            if let Some(previous) = previous.replace(total) {
                grid.push(total - previous);
            }
        }
        (NodeTime(start), grid)
    }

    /// Bytes at a time between the readings `after - 1` and `after`.
    fn total_between(&self, after: usize, at: u64) -> f64 {
        let (t0, v0) = self.readings[after.saturating_sub(1).min(self.readings.len() - 1)];
        let (t1, v1) = self.readings[after.min(self.readings.len() - 1)];
        let span = t1.since(t0).0;
        // Only a series of one reading has no span, because `push` refuses a reading that is not later.
        if span == 0 {
            return v0 as f64;
        }
        v0 as f64 + (v1 - v0) as f64 * (at.saturating_sub(t0.0).min(span) as f64 / span as f64)
    }
}

/// A stretch of readings of which it is known what passed between them.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// Its readings.
    pub series: Series,
    /// How often the counter began anew, in all readings.
    pub resets: usize,
    /// How often there was no reading for more than [`GAP_STEPS`] steps.
    pub gaps: usize,
}

/// The longest stretch of some readings, about every `step`, in which the counter did not begin anew and nobody paused.
///
/// A counter of 32 bits that falls has wrapped if what it then counted came at most four times as fast as anything else that it
/// counted. A counter that is set back to 0 from well below 2^32 would have counted gigabytes between two readings.
#[must_use]
pub fn longest_stretch(readings: &[(NodeTime, u64)], step: Nanos) -> Stretch {
    let gap = step.0.max(1).saturating_mul(GAP_STEPS);
    let narrow = readings.iter().all(|(_, bytes)| *bytes < WRAP);
    let speed = |bytes: u64, pair: &[(NodeTime, u64)]| bytes as f64 / pair[1].0.since(pair[0].0).0.max(1) as f64;
    let rises = readings.windows(2).filter(|pair| pair[1].1 >= pair[0].1);
    let fastest = rises.map(|pair| speed(pair[1].1 - pair[0].1, pair)).fold(0.0, f64::max);
    let wraps = |pair: &[(NodeTime, u64)]| narrow && speed(pair[1].1 + WRAP - pair[0].1, pair) <= FASTER * fastest;
    let mut whole: Vec<(NodeTime, u64)> = Vec::with_capacity(readings.len());
    let (mut base, mut stretches, mut resets, mut gaps) = (0, vec![0], 0, 0);
    for (at, reading) in readings.iter().enumerate() {
        if let Some(pair) = at.checked_sub(1).and_then(|before| readings.get(before..=at)) {
            let (falls, pauses) = (pair[1].1 < pair[0].1, pair[1].0.since(pair[0].0).0 > gap);
            if falls && wraps(pair) {
                // There are far fewer readings than wraps that fit.
                base += WRAP;
            } else if falls {
                resets += 1;
            }
            gaps += usize::from(pauses);
            if pauses || (falls && !wraps(pair)) {
                stretches.push(at);
            }
        }
        whole.push((reading.0, reading.1 + base));
    }
    let ends = stretches.iter().skip(1).copied().chain([whole.len()]);
    let longest = stretches.iter().copied().zip(ends).max_by_key(|(first, end)| end - first);
    let stretch = longest.and_then(|(first, end)| whole.get(first..end)).unwrap_or_default();
    let mut series = Series::keeping(stretch.len());
    stretch.iter().for_each(|(at, bytes)| series.push(*at, Some(*bytes)));
    Stretch { series, resets, gaps }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(readings: &[(u64, u64)]) -> Series {
        let mut series = Series::default();
        for &(ms, value) in readings {
            series.push(NodeTime(ms * 1_000_000), Some(value));
        }
        series
    }

    #[test]
    fn a_late_reading_is_spread_over_the_time_it_covers() {
        // A steady 10 bytes per ms, read at 0, 10, 35 and 40 ms.
        let (start, grid) = series(&[(0, 5), (10, 105), (35, 355), (40, 405)]).grid(Nanos::from_millis(10));
        assert_eq!(start, NodeTime(0));
        assert_eq!(grid, [100.0; 4]);
    }

    #[test]
    fn going_back_and_gaps_begin_anew() {
        let mut s = series(&[(0, 1_000), (10, 2_000), (20, 5)]);
        assert_eq!(s.len(), 1);
        s.push(NodeTime(30_000_000), Some(25));
        assert_eq!(s.grid(Nanos::from_millis(10)).1, [20.0]);
        s.push(NodeTime(40_000_000), None);
        assert!(s.is_empty());
        assert!(s.grid(Nanos::from_millis(10)).1.is_empty());
    }

    #[test]
    fn a_counter_that_is_set_back_below_32_bits_has_not_wrapped() {
        // 1,000,000 bytes for 20 readings of 50; after 300 the counter is set back to 0, or wraps.
        let readings = |first: u64, set_back: bool| -> Vec<(NodeTime, u64)> {
            let mut bytes = first;
            let next = |at: u64| {
                bytes = if set_back && at == 300 { 0 } else { (bytes + if at % 50 < 20 { 1_000_000 } else { 0 }) % WRAP };
                (NodeTime(at * 5_000_000), bytes)
            };
            (0..1_000).map(next).collect()
        };
        let step = Nanos::from_millis(5);
        let Stretch { series, resets, gaps } = longest_stretch(&readings(500_000_000, true), step);
        assert_eq!((series.len(), resets, gaps, series.carried()), (700, 1, 0, 279_000_000));
        let Stretch { series, resets, gaps } = longest_stretch(&readings(WRAP - 100_000_000, false), step);
        assert_eq!((series.len(), resets, gaps, series.carried()), (1_000, 0, 0, 399_000_000));
        // From so near below 2^32 that a wrap would have been as quick, being set back is not told from it.
        let Stretch { series, resets, .. } = longest_stretch(&readings(WRAP - 121_000_000, true), step);
        assert_eq!((series.len(), resets), (1_000, 0));
        assert_eq!(longest_stretch(&[], step).gaps, 0);
    }

    #[test]
    fn a_pause_parts_readings_and_a_late_one_does_not() {
        // Every 5 ms; 7 s pass after reading 600, and 150 ms after reading 300.
        let late = |at: u64| {
            if at > 600 {
                7_000
            } else if at > 300 {
                150
            } else {
                0
            }
        };
        let readings: Vec<_> = (0..1_000).map(|at| (NodeTime((at * 5 + late(at)) * 1_000_000), at * 1_000)).collect();
        let step = Nanos::from_millis(5);
        let Stretch { series, resets, gaps } = longest_stretch(&readings, step);
        assert_eq!((series.len(), resets, gaps, series.carried()), (601, 0, 1, 600_000));
        let mut live = Series::default();
        readings.iter().for_each(|(at, bytes)| live.push(*at, Some(*bytes)));
        let (longest, gaps) = live.unbroken(step);
        assert_eq!((longest.len(), gaps, longest.carried(), longest.grid(step).0), (601, 1, 600_000, NodeTime(0)));
        assert_eq!((live.since(NodeTime(8_000_000_000)).unbroken(step).1, Series::default().unbroken(step).1), (0, 0));
    }

    #[test]
    fn a_series_is_cut_at_a_time() {
        let whole = series(&[(0, 5), (10, 105), (20, 305), (30, 405)]);
        let mut cut = whole.since(NodeTime(10_000_000));
        assert_eq!((cut.len(), cut.carried(), whole.carried_since(NodeTime(10_000_000)), whole.carried()), (3, 300, 300, 400));
        cut.push(NodeTime(40_000_000), Some(505));
        assert_eq!((cut.len(), cut.carried()), (4, 400), "it goes on as the whole would");
        let none = whole.since(NodeTime(31_000_000));
        assert!(none.is_empty() && whole.carried_since(NodeTime(31_000_000)) == 0);
    }

    #[test]
    fn the_ring_is_bounded_and_time_does_not_go_back() {
        let mut s = Series::default();
        for i in 0..2 * SAMPLES_MAX as u64 {
            s.push(NodeTime(i), Some(i));
        }
        assert_eq!(s.len(), SAMPLES_MAX);
        s.push(NodeTime(3), Some(1 << 20));
        assert_eq!(s.len(), SAMPLES_MAX);
    }
}
