//! Rates of one interface, of its counters as they come.

use std::time::{Duration, Instant};

use super::decode::{Head, Interface};

/// Least time between two counters of which a rate is made: over less the second in which a switch may hold them back is too much.
const GAP_MIN: Duration = Duration::from_secs(1);
/// Longest time between two counters of which a rate is made: an older mean says nothing of now.
const GAP_MAX: Duration = Duration::from_secs(600);
/// A rate counts for as many intervals of its counters as this: two datagrams in a row may be lost.
const FRESH_INTERVALS: u32 = 3;
/// But no longer than this, however seldom the switch sends.
pub(super) const FRESH_MAX: Duration = Duration::from_secs(180);
/// How far the switch's clock and ours may differ between two counters, beside a half: datagrams wait in queues, and switches hold
/// counters back for a second at most.
const LATE: Duration = Duration::from_secs(3);
/// How far above its speed an interface may count, in percent: the time between two counters is known to a second.
const ABOVE_SPEED_PERCENT: u128 = 150;
/// A counter that the interface does not have.
const ABSENT: u64 = u64::MAX;

/// The last counters of an interface, and the rates before them.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// ifIndex, which a switch may give anew when it starts.
    index: u32,
    /// ifSpeed in bits a second; 0: unknown.
    pub(super) speed: u64,
    /// When it was last heard of.
    pub(super) heard: Instant,
    base: Base,
    rates: Option<Rates>,
}

/// How an interface is found among the ports of its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PortName {
    /// By what the configuration says: a port, or the node at the other end.
    Configured(String),
    /// By its ifName.
    Told(String),
}

#[derive(Clone, Copy, Debug)]
struct Base {
    sub_agent: u32,
    uptime_ms: u32,
    at: Instant,
    in_octets: u64,
    out_octets: u64,
}

/// Bits a second, as the means over one interval of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rates {
    /// From the cable into the port.
    pub(super) received: Option<u64>,
    /// Out of the port.
    pub(super) sent: Option<u64>,
    /// When the later counters came.
    pub(super) at: Instant,
    /// Between both counters.
    pub(super) interval: Duration,
}

/// What came of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The first ones of this interface, or the next after a long silence.
    Begun,
    /// Too soon after those before them, or the same once more: nothing was changed.
    Early,
    /// A new rate.
    Rate,
    /// They do not go on from those before them: the switch or its counters began anew.
    Reset,
}

impl Port {
    pub(super) fn new(head: Head, new: &Interface, now: Instant) -> Self {
        Self { index: new.index, speed: new.speed, heard: now, base: Base::new(head, new, now), rates: None }
    }

    /// Takes the next counters.
    pub(super) fn hear(&mut self, head: Head, new: &Interface, now: Instant) -> Heard {
        (self.heard, self.speed) = (now, new.speed);
        let arrived = now.saturating_duration_since(self.base.at);
        let passed = Duration::from_millis(u64::from(head.uptime_ms.wrapping_sub(self.base.uptime_ms)));
        let same = head.sub_agent == self.base.sub_agent && new.index == self.index;
        if same && passed < GAP_MIN && arrived < GAP_MAX {
            return Heard::Early;
        }
        let (rates, heard) = if arrived > GAP_MAX {
            (None, Heard::Begun)
        } else if !same || passed > arrived * 3 / 2 + LATE || arrived > passed * 3 / 2 + LATE {
            // Time went back, or the switch started again; or its clock does not count milliseconds.
            (None, Heard::Reset)
        } else {
            // The switch's own clock: datagrams are late, counters are not.
            match self.rates_over(passed, new, now) {
                Some(rates) => (Some(rates), Heard::Rate),
                None => (None, Heard::Reset),
            }
        };
        (self.rates, self.index) = (rates, new.index);
        self.base = Base::new(head, new, now);
        heard
    }

    /// The rates, while they say something of now.
    pub(super) fn fresh(&self, now: Instant) -> Option<Rates> {
        self.rates.filter(|rates| now.saturating_duration_since(rates.at) <= (rates.interval * FRESH_INTERVALS).min(FRESH_MAX))
    }

    /// Whether it was last heard of so long ago that its counters are of no use.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) > GAP_MAX
    }

    fn rates_over(&self, passed: Duration, new: &Interface, now: Instant) -> Option<Rates> {
        let one = |old: u64, new: u64| -> Result<Option<u64>, ()> {
            if old == ABSENT || new == ABSENT {
                return Ok(None);
            }
            rate(old, new, passed, self.speed).map(Some).ok_or(())
        };
        let received = one(self.base.in_octets, new.in_octets).ok()?;
        let sent = one(self.base.out_octets, new.out_octets).ok()?;
        Some(Rates { received, sent, at: now, interval: passed })
    }
}

/// Bits a second between two counters of octets, over the end of their 64 bits; none where they cannot go on from each other: counters
/// that began anew are behind the old ones by what no interface could have carried meanwhile.
fn rate(old: u64, new: u64, passed: Duration, speed: u64) -> Option<u64> {
    let bits = u128::from(new.wrapping_sub(old)) * 8;
    let most = u128::from(speed) * ABOVE_SPEED_PERCENT / 100 * passed.as_millis() / 1_000;
    let goes_on = if speed == 0 { new >= old } else { bits <= most };
    goes_on.then(|| u64::try_from(bits * 1_000 / passed.as_millis().max(1)).ok()).flatten()
}

impl Base {
    fn new(head: Head, new: &Interface, at: Instant) -> Self {
        Self { sub_agent: head.sub_agent, uptime_ms: head.uptime_ms, at, in_octets: new.in_octets, out_octets: new.out_octets }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const SPEED: u64 = 100_000_000_000;

    fn head(uptime_ms: u32) -> Head {
        Head { agent: IpAddr::from([192, 0, 2, 1]), sub_agent: 0, uptime_ms }
    }

    fn counters(in_octets: u64, out_octets: u64) -> Interface {
        Interface { index: 1, speed: SPEED, in_octets, out_octets, name: None }
    }

    fn port(uptime_ms: u32, new: &Interface, at: Instant) -> Port {
        Port::new(head(uptime_ms), new, at)
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn rates_are_means_on_the_clock_of_the_switch_over_the_ends_of_both_counters() {
        let began = Instant::now();
        // 10 s before its clock begins anew, and 5,000 octets before its counter does.
        let mut port = port(u32::MAX - 9_999, &counters(u64::MAX - 5_000, 7), began);
        // 20 s on its clock and 19 on ours. 250 GB in 20 s are 100 Gbit/s; 25 MB are 10 Mbit/s.
        let next = counters(250_000_000_000 - 5_001, 25_000_007);
        assert_eq!(port.hear(head(10_000), &next, began + seconds(19)), Heard::Rate);
        let rates = port.fresh(began + seconds(19)).unwrap();
        assert_eq!((rates.received, rates.sent), (Some(100_000_000_000), Some(10_000_000)));
        // Three intervals of 20 s.
        assert!(port.fresh(began + seconds(79)).is_some() && port.fresh(began + seconds(80)).is_none());
    }

    #[test]
    fn counters_of_a_switch_that_started_again_are_no_leap() {
        let began = Instant::now();
        let start = || port(3_600_000, &counters(1 << 40, 1 << 40), began);
        // It started again: its clock and its counters are at their beginning.
        let mut restarted = start();
        assert_eq!(restarted.hear(head(4_000), &counters(99, 99), began + seconds(20)), Heard::Reset);
        assert_eq!(restarted.fresh(began + seconds(20)), None);
        assert_eq!(restarted.hear(head(24_000), &counters(99 + 2_500, 99), began + seconds(40)), Heard::Rate);
        assert_eq!(restarted.fresh(began + seconds(40)).unwrap().received, Some(1_000));
        // Only the counters were cleared: 2^64 - 2^40 octets in 20 s is more than any interface carries.
        let mut cleared = start();
        assert_eq!(cleared.hear(head(3_620_000), &counters(5, 1 << 40), began + seconds(20)), Heard::Reset);
        // The same where the speed is not known, and the end of 64 bits cannot be told from a beginning.
        let unknown = |of| Interface { speed: 0, ..of };
        let mut cleared = start();
        assert_eq!(cleared.hear(head(3_620_000), &unknown(counters(5, 1 << 40)), began + seconds(20)), Heard::Reset);
        // Another part of the switch speaks of this interface now.
        let mut other = start();
        let head = Head { sub_agent: 1, ..head(3_620_000) };
        assert_eq!(other.hear(head, &counters(1 << 40, 1 << 40), began + seconds(20)), Heard::Reset);
    }

    #[test]
    fn a_datagram_twice_takes_no_rate_away_and_a_clock_of_another_unit_makes_none() {
        let began = Instant::now();
        let mut first = port(0, &counters(0, 0), began);
        assert_eq!(first.hear(head(20_000), &counters(2_500, 0), began + seconds(20)), Heard::Rate);
        assert_eq!(first.hear(head(20_000), &counters(2_500, 0), began + seconds(20)), Heard::Early);
        assert_eq!(first.fresh(began + seconds(21)).unwrap().received, Some(1_000));
        // Hundredths of a second: a rate would be ten times too high.
        let mut hundredths = port(0, &counters(0, 0), began);
        assert_eq!(hundredths.hear(head(2_000), &counters(2_500, 0), began + seconds(20)), Heard::Reset);
        // Silence for longer than a rate may span.
        assert_eq!(first.hear(head(720_000), &counters(9_000, 0), began + seconds(720)), Heard::Begun);
        assert!(
            first.fresh(began + seconds(720)).is_none() && !first.is_over(began + seconds(1_320)) && first.is_over(began + seconds(1_321))
        );
    }

    #[test]
    fn a_counter_that_an_interface_lacks_is_absent_and_not_zero() {
        let began = Instant::now();
        let mut port = port(0, &counters(ABSENT, 0), began);
        assert_eq!(port.hear(head(20_000), &counters(ABSENT, 2_500), began + seconds(20)), Heard::Rate);
        let rates = port.fresh(began + seconds(20)).unwrap();
        assert_eq!((rates.received, rates.sent), (None, Some(1_000)));
    }
}
