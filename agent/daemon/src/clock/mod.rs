//! How far fabric time is from the node's `CLOCK_MONOTONIC`, and how wrong that may be.
//!
//! Sans-IO: four stamps in by [`ClockEstimator::take`], offset and bound out by [`ClockEstimator::estimate`].
//!
//! One exchange proves an interval, whatever the delays were: the probe was received after it was sent, so
//! `fabric - node <= received - sent`; the echo came after it left, so `fabric - node >= echoed - came`. The interval is as
//! wide as the round trip, and it widens with age because the clocks drift. The estimator intersects the intervals
//! of a window, which is never worse than its shortest round trip alone (the filter of NTP, RFC 5905 section 10).
//! An empty intersection proves that a clock stepped.

use std::collections::VecDeque;

use units::{ClockOffset, FabricTime, Nanos, NodeTime};

/// How much faster one clock may run than the other, in parts per million: two oscillators of 100 ppm each, the worst that
/// Ethernet allows (IEEE 802.3, 100 ppm). A clock slewed faster than that shows as a step.
pub const DRIFT_PPM_MAX: u64 = 200;
/// Samples older than this are dropped: by then drift has widened them by 12 ms, more than any round trip of a fabric.
pub const WINDOW: Nanos = Nanos(60_000_000_000);
/// Most samples that are kept: one a second over [`WINDOW`], and the quick ones of the start.
pub const SAMPLES_MAX: usize = 72;
/// Samples in a row that must agree with each other and not with those before until the estimate starts again from them.
/// A lone sample may be a bad stamp; meanwhile the bound covers both sides.
pub const STEP_SAMPLES: usize = 3;

const PPM: u128 = 1_000_000;

/// The four stamps of one probe and its echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The probe left the node.
    pub sent: NodeTime,
    /// The probe reached the service.
    pub received: FabricTime,
    /// The echo left the service.
    pub echoed: FabricTime,
    /// The echo reached the node.
    pub came: NodeTime,
}

/// What is known of the offset at one point of node time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockEstimate {
    /// Fabric time minus node time.
    pub offset: ClockOffset,
    /// The offset is wrong by at most this, at [`ClockEstimate::at`].
    pub bound: Nanos,
    /// Shortest round trip of the window.
    pub rtt: Nanos,
    /// When this was computed.
    pub at: NodeTime,
}

impl ClockEstimate {
    /// The bound at another time. The bound grows by [`DRIFT_PPM_MAX`] with the distance in time.
    #[must_use]
    pub fn bound_at(&self, now: NodeTime) -> Nanos {
        // The distance counts both ways: a time before the estimate is as uncertain as one behind it.
        let age = now.0.abs_diff(self.at.0);
        Nanos(self.bound.0.saturating_add(u64::try_from(drift(age)).unwrap_or(u64::MAX)))
    }
}

/// What an exchange did to the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The exchange agrees with what was known.
    Agrees,
    /// The exchange contradicts what was known. The bound covers both until more samples decide.
    Contradicts,
    /// A clock stepped: the estimate starts again from the last [`STEP_SAMPLES`] samples.
    Restarted,
    /// Stamps that no pair of clocks can make; ignored.
    Impossible,
}

/// Where the offset lies, in nanoseconds, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    low: i128,
    high: i128,
}

impl Interval {
    fn meet(self, other: Self) -> Option<Self> {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        (low <= high).then_some(Self { low, high })
    }

    fn hull(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// An interval as proved at the time of its probe.
#[derive(Clone, Copy, Debug)]
struct Sample {
    interval: Interval,
    sent: NodeTime,
    rtt: Nanos,
}

impl Sample {
    fn try_new(stamps: &Exchange) -> Option<Self> {
        // An i128 holds the difference of any two stamps, whatever the service says.
        let there = i128::from(stamps.received.0) - i128::from(stamps.sent.0);
        let back = i128::from(stamps.echoed.0) - i128::from(stamps.came.0);
        let ordered = stamps.came >= stamps.sent && stamps.echoed >= stamps.received;
        // A service that holds the probe for long may drift meanwhile by more than the way took, so a round trip that is a little
        // below zero is possible, and one that is further below is not.
        let slop = drift(stamps.came.since(stamps.sent).0);
        if !ordered || there + slop < back - slop {
            return None;
        }
        // Such a round trip counts as zero. A longer one than u64 cannot be, as it is at most the time between `sent` and `came`.
        let rtt = Nanos(u64::try_from(there - back).unwrap_or(0));
        Some(Self { interval: Interval { low: back, high: there }, sent: stamps.sent, rtt })
    }

    fn at(&self, now: NodeTime) -> Interval {
        let slop = drift(now.0.abs_diff(self.sent.0));
        // Both ends move outwards, because nobody knows which of the clocks is the faster one.
        Interval { low: self.interval.low - slop, high: self.interval.high + slop }
    }
}

/// What two clocks may drift apart over `age` nanoseconds, rounded up.
fn drift(age: u64) -> i128 {
    (u128::from(age) * u128::from(DRIFT_PPM_MAX)).div_ceil(PPM) as i128
}

/// Estimates the offset from exchanges of one session. A new session starts a new one, because a restarted service may
/// have another clock by less than the old samples can tell.
#[derive(Clone, Debug, Default)]
pub struct ClockEstimator {
    samples: VecDeque<Sample>,
    /// Agree with each other and not with `samples`.
    contradicting: Vec<Sample>,
}

impl ClockEstimator {
    /// Takes one exchange in.
    pub fn take(&mut self, stamps: &Exchange) -> Taken {
        let Some(sample) = Sample::try_new(stamps) else { return Taken::Impossible };
        let now = stamps.came;
        let new = sample.at(now);
        self.drop_old(now);
        let agrees = self.known(now).is_none_or(|known| known.meet(new).is_some());
        let contradicts = meet_all(self.contradicting.iter(), now).is_some_and(|other| other.meet(new).is_some());
        if agrees {
            self.keep(sample);
            // A wide sample may agree with both sides and so decides nothing.
            if !contradicts {
                self.contradicting.clear();
            }
            return if self.contradicting.is_empty() { Taken::Agrees } else { Taken::Contradicts };
        }
        if !contradicts {
            self.contradicting.clear();
        }
        self.contradicting.push(sample);
        // Until enough samples agree, `estimate` covers both sides, and gates go where that bound exceeds the slack.
        if self.contradicting.len() < STEP_SAMPLES {
            return Taken::Contradicts;
        }
        self.samples.clear();
        self.samples.extend(self.contradicting.drain(..));
        Taken::Restarted
    }

    /// What is known now; `None` before the first exchange. The estimate goes on between exchanges with a growing bound.
    #[must_use]
    pub fn estimate(&self, now: NodeTime) -> Option<ClockEstimate> {
        let known = self.known(now)?;
        let range = meet_all(self.contradicting.iter(), now).map_or(known, |other| known.hull(other));
        let middle = range.low + (range.high - range.low).div_euclid(2);
        // A service with an absurd clock gives no estimate rather than a wrong one.
        let offset = i64::try_from(middle).ok()?;
        // The middle is rounded down, so the upper half may be longer by one nanosecond.
        let bound = u64::try_from((range.high - middle).max(middle - range.low)).unwrap_or(u64::MAX);
        let rtt = self.samples.iter().map(|sample| sample.rtt).min()?;
        Some(ClockEstimate { offset: ClockOffset(offset), bound: Nanos(bound), rtt, at: now })
    }

    fn known(&self, now: NodeTime) -> Option<Interval> {
        meet_all(self.samples.iter(), now)
    }

    fn keep(&mut self, sample: Sample) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    fn drop_old(&mut self, now: NodeTime) {
        // The last sample stays whatever its age: its interval still widens truly, and without it there would be no clock.
        while self.samples.len() > 1 && self.samples.front().is_some_and(|first| now.since(first.sent) > WINDOW) {
            self.samples.pop_front();
        }
    }
}

/// The intersection of all; `None` of none. Intervals only widen with time, so what agreed once agrees for ever.
fn meet_all<'a>(samples: impl Iterator<Item = &'a Sample>, now: NodeTime) -> Option<Interval> {
    samples.map(|sample| sample.at(now)).reduce(|a, b| a.meet(b).unwrap_or(b))
}

#[cfg(test)]
mod tests;
