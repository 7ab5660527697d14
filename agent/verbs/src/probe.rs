//! What `antiphase-verbs probe` does: small writes, each until it is acknowledged. The time is that of the way there and back, with the
//! queues on it; no program takes part at the other end.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde::Serialize;
use units::nearest_rank;

use crate::{device::VerbsError, queue::Endpoint, writer::SILENCE_MAX};

/// Bytes of a probe: one packet.
pub const PROBE_BYTES: u32 = 64;
/// Most probes of which the summary knows the times: 8 MB, and a week at one a second.
pub const PROBES_MAX: u64 = 1 << 20;

/// What a prober does.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many probes, at most [`PROBES_MAX`].
    pub probes: u64,
    /// From the end of one to the next.
    pub interval: Duration,
    /// No probe begins after that.
    pub until: Option<Instant>,
}

/// One probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeRecord {
    /// Number, from 0.
    pub probe: u64,
    /// When it was sent, in ns of CLOCK_MONOTONIC.
    pub sent_ns: u64,
    /// From then to its acknowledgement, in ns.
    pub rtt_ns: u64,
}

/// All probes: times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many.
    pub probes: u64,
    /// The shortest: the way without queues, if one of them met none.
    pub min_ns: u64,
    /// Half took no longer.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Summary {
    /// Of these times; `None` without any.
    #[must_use]
    pub fn of(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let rank = |percent| nearest_rank(&times, percent);
        Some(Self { probes: times.len() as u64, min_ns: *times.first()?, p50_ns: rank(50)?, p99_ns: rank(99)?, max_ns: *times.last()? })
    }
}

/// Probes; `tell` ends it by an error. Returns the summary, `None` without a probe.
///
/// # Errors
/// [`VerbsError`] of a probe, and what `tell` returns.
pub fn run<E: From<VerbsError>>(
    endpoint: &mut Endpoint,
    options: &Options,
    mut tell: impl FnMut(&ProbeRecord) -> Result<(), E>,
) -> Result<Option<Summary>, E> {
    let mut times = Vec::new();
    for probe in 0..options.probes.min(PROBES_MAX) {
        if options.until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let sent_ns = gate::now().0;
        endpoint.write(u64::from(PROBE_BYTES), SILENCE_MAX)?;
        let rtt_ns = gate::now().0.saturating_sub(sent_ns);
        times.push(rtt_ns);
        tell(&ProbeRecord { probe, sent_ns, rtt_ns })?;
        thread::sleep(options.interval);
    }
    Ok(Summary::of(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_nearest() {
        assert_eq!(Summary::of(Vec::new()), None);
        assert_eq!(Summary::of(vec![7]), Some(Summary { probes: 1, min_ns: 7, p50_ns: 7, p99_ns: 7, max_ns: 7 }));
        // Of 200 times from 200 down to 1: the 100th and the 198th smallest.
        let summary = Summary::of((1..=200).rev().collect()).unwrap();
        assert_eq!((summary.min_ns, summary.p50_ns, summary.p99_ns, summary.max_ns), (1, 100, 198, 200));
    }
}
