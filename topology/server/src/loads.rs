//! What hosts send and receive now, over what their links carry.

use std::collections::BTreeMap;

use fabric::Fabric;
use proto::v1alpha1 as pb;
use units::FabricTime;

use crate::telemetry::TelemetryHandle;

/// A host's ports together, over its links together: a port of the host's kernel has no name in the fabric to be found by.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Loads(BTreeMap<String, Load>);

/// Shares of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    sent: f64,
    received: f64,
}

impl Loads {
    /// The loads of all hosts that the fabric has and an agent counts bytes of.
    pub(crate) fn new(fabric: &Fabric, telemetry: &TelemetryHandle, now: FabricTime) -> Self {
        let of_host = |(host, rate): (String, crate::telemetry::Rate)| {
            let links = fabric.links_from(fabric.find(&host)?);
            // A link without a stated capacity is left out: the share is of what is known.
            let mbps: u64 = links.iter().filter_map(|&link| fabric.link(link).capacity).map(|rate| rate.0).sum();
            let part = |bits: f64| bits / (mbps as f64 * 1e6);
            (mbps > 0).then(|| (host, Load { sent: part(rate.sent), received: part(rate.received) }))
        };
        Self(telemetry.rates(now).into_iter().filter_map(of_host).collect())
    }

    /// The load of a link that begins or ends at a host.
    pub(crate) fn of(&self, from: &str, to: &str) -> Option<f64> {
        self.0.get(from).map(|load| load.sent).or_else(|| self.0.get(to).map(|load| load.received))
    }

    /// Adds what is measured to a link.
    pub(crate) fn tell(&self, link: &mut pb::Link) {
        link.measured_ratio = self.of(&link.from_node, &link.to_node);
    }
}

#[cfg(test)]
mod tests {
    use proto::v1alpha1::{CounterDeltas, Telemetry};

    use super::*;
    use crate::telemetry::STEP_NS;

    #[test]
    fn a_host_is_as_loaded_as_its_links_together() {
        let text = "schema: antiphase.fabric/v1\nname: t\ndefaults: {capacity: 50G}\nhosts: [h1, h2]\nswitches: [{name: a, tier: 1}, {name: b, tier: 1}]\n\
                    cables: [{ends: [h1, a]}, {ends: [h1, b]}, {ends: [h2, a]}]\n";
        let fabric = fabric::native::read(text).unwrap();
        let (telemetry, now) = (TelemetryHandle::default(), FabricTime(1_000 * STEP_NS));
        let frame = |port: &str, tx: u64| {
            let counter = |name: &str, of: u64| CounterDeltas { name: name.into(), delta: vec![of; 10] };
            let at_ns = (990..1_000).map(|step| step * STEP_NS).collect();
            Telemetry { port: port.into(), at_ns, counters: vec![counter("tx_bytes", tx), counter("rx_bytes", tx / 2)], queue_pairs: None }
        };
        // Twice 1.25 GB a second is 20 Gb/s, of the 100 of both links.
        for port in ["nic0", "nic1"] {
            telemetry.port(now, "h1", &frame(port, 1_250_000_000));
        }
        telemetry.port(now, "not of the fabric", &frame("nic0", 1));
        let loads = Loads::new(&fabric, &telemetry, now);
        let near = |found: Option<f64>, wanted: f64| found.is_some_and(|found| (found - wanted).abs() < 1e-9);
        assert!(near(loads.of("h1", "a"), 0.2) && near(loads.of("b", "h1"), 0.1), "{loads:?}");
        assert_eq!((loads.of("h2", "a"), loads.of("a", "s")), (None, None));
        // Nobody says anything any more: nothing is measured, which is not zero.
        assert_eq!(Loads::new(&fabric, &telemetry, FabricTime(1_020 * STEP_NS)), Loads::default());
    }
}
