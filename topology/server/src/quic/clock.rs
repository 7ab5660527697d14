//! The echoes of clock probes.

use bytes::Bytes;
use prost::Message;
use proto::v1alpha1::{ClockEcho, ClockProbe};
use units::FabricTime;

use crate::clock::FabricClock;

/// A probe takes 17 bytes; longer ones are nothing of ours.
const PROBE_BYTES_MAX: usize = 64;

/// The answer to a datagram that came at `received`, `None` if it is not a probe. The last stamp is taken as late as can be.
pub(super) fn echo(clock: FabricClock, received: FabricTime, datagram: &[u8]) -> Option<Bytes> {
    if datagram.len() > PROBE_BYTES_MAX {
        return None;
    }
    let probe = ClockProbe::decode(datagram).ok()?;
    let mut echo = ClockEcho { sequence: probe.sequence, sent_ns: probe.sent_ns, received_ns: received.0, echoed_ns: 0 };
    echo.echoed_ns = clock.now().0;
    Some(echo.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_carries_the_probe_and_two_stamps_in_order() {
        let clock = FabricClock::start();
        let received = clock.now();
        let probe = ClockProbe { sequence: 7, sent_ns: 123 }.encode_to_vec();
        let echo = ClockEcho::decode(echo(clock, received, &probe).unwrap()).unwrap();
        assert_eq!((echo.sequence, echo.sent_ns, echo.received_ns), (7, 123, received.0));
        assert!(echo.echoed_ns >= received.0);
    }

    #[test]
    fn what_is_no_probe_gets_no_echo() {
        let clock = FabricClock::start();
        assert_eq!(echo(clock, clock.now(), &[0xff; 12]), None);
        assert_eq!(echo(clock, clock.now(), &[0; PROBE_BYTES_MAX + 1]), None);
    }
}
