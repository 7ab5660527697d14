//! The echoes of clock probes.

use bytes::Bytes;
use prost::Message;
use proto::v1alpha1::{AgentDatagram, ServiceDatagram};
use units::FabricTime;

use crate::clock::FabricClock;

/// The answer to a probe that came at `received`; `None` if the datagram is none. The last stamp is taken as late as can be.
pub(super) fn echo(clock: FabricClock, received: FabricTime, probe: &AgentDatagram) -> Option<Bytes> {
    // No clock shows 0 when it is probed: a datagram with that stamp is there for its notes.
    if probe.sent_ns == 0 {
        return None;
    }
    let mut echo =
        ServiceDatagram { sequence: probe.sequence, sent_ns: probe.sent_ns, received_ns: received.0, ..ServiceDatagram::default() };
    // This stamp is the last step before the encoding: what comes after it counts as travel of the network.
    echo.echoed_ns = clock.now().0;
    Some(echo.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use proto::v1alpha1::ClockEcho;

    use super::*;

    #[test]
    fn an_echo_carries_the_probe_and_two_stamps_in_order() {
        let clock = FabricClock::start();
        let received = clock.now();
        let probe = AgentDatagram { sequence: 7, sent_ns: 123, notes: Vec::new() };
        let echo = ClockEcho::decode(echo(clock, received, &probe).unwrap()).unwrap();
        assert_eq!((echo.sequence, echo.sent_ns, echo.received_ns), (7, 123, received.0));
        assert!(echo.echoed_ns >= received.0);
    }

    #[test]
    fn what_is_no_probe_gets_no_echo() {
        let clock = FabricClock::start();
        assert_eq!(echo(clock, clock.now(), &AgentDatagram::default()), None);
    }
}
