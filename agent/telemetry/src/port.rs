//! A port of the host with its counters, whatever they come from.

use units::{Nanos, NodeTime};

use crate::{
    counter::{Counter, Increment, Width, increments},
    interface::Interface,
    ip::{IP_PORT, IpCounters},
    rdma::RdmaPort,
};

/// Where the counters of a port come from.
#[derive(Debug)]
#[non_exhaustive]
pub enum PortSource {
    /// A network interface.
    Interface(Interface),
    /// A port of an RDMA device.
    Rdma(RdmaPort),
    /// IP in this network namespace.
    Ip(IpCounters),
}

/// A port and its last reading.
#[derive(Debug)]
pub struct Port {
    name: String,
    source: PortSource,
    counters: Vec<Counter>,
    widths: Vec<Width>,
    units: Vec<u64>,
    last: Vec<Option<u64>>,
    read_at: Option<NodeTime>,
    totals: Vec<u64>,
    resets: u64,
}

/// What passed at a port between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDelta {
    /// Parallel to [`Port::counters`], in bytes and events.
    pub increments: Vec<Increment>,
    /// Time between the readings.
    pub elapsed: Nanos,
}

impl PortDelta {
    /// The device began anew between the readings.
    #[must_use]
    pub fn has_reset(&self) -> bool {
        self.increments.contains(&Increment::Reset)
    }
}

impl Port {
    /// A port; its first reading is the base of the first delta.
    #[must_use]
    pub fn new(name: impl Into<String>, source: PortSource) -> Self {
        let (listed, units) = match &source {
            PortSource::Interface(interface) => (interface.counters(), None),
            PortSource::Rdma(port) => (port.counters(), Some(port.units())),
            PortSource::Ip(ip) => (ip.counters(), None),
        };
        let units = units.unwrap_or_else(|| vec![1; listed.len()]);
        let (counters, widths): (Vec<_>, Vec<_>) = listed.into_iter().unzip();
        let (last, totals) = (vec![None; counters.len()], vec![0; counters.len()]);
        Self { name: name.into(), source, counters, widths, units, last, read_at: None, totals, resets: 0 }
    }

    /// A port of an RDMA device, under its name.
    #[must_use]
    pub fn rdma(port: RdmaPort) -> Self {
        Self::new(port.name().to_owned(), PortSource::Rdma(port))
    }

    /// IP, under [`IP_PORT`].
    #[must_use]
    pub fn ip(counters: IpCounters) -> Self {
        Self::new(IP_PORT, PortSource::Ip(counters))
    }

    /// The port's name: of the interface, or `device/port` of RDMA, or [`IP_PORT`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its counters come from.
    #[must_use]
    pub const fn source(&self) -> &PortSource {
        &self.source
    }

    /// What it counts. What is not in the list is absent.
    #[must_use]
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// What passed since the first reading, parallel to [`Port::counters`]; resets leave a gap and never a leap.
    #[must_use]
    pub fn totals(&self) -> &[u64] {
        &self.totals
    }

    /// Resets of the device seen so far.
    #[must_use]
    pub const fn resets(&self) -> u64 {
        self.resets
    }

    /// Whether the port is still there: the last reading had a counter.
    #[must_use]
    pub fn is_present(&self) -> bool {
        // A port that was never read counts as there, or a scan would drop it before its first reading.
        self.read_at.is_none() || self.last.iter().any(Option::is_some)
    }

    /// Received and sent bytes together, wrapping: the cheapest reading, for [`crate::Series`].
    #[must_use]
    pub fn read_bytes(&self) -> Option<u64> {
        match &self.source {
            PortSource::Interface(interface) => interface.read_bytes(),
            PortSource::Rdma(port) => port.read_bytes(),
            PortSource::Ip(_) => None,
        }
    }

    /// Reads every counter. `None` at the first reading, which has nothing to compare with.
    pub fn read(&mut self, now: NodeTime) -> Option<PortDelta> {
        let mut values = Vec::with_capacity(self.counters.len());
        match &mut self.source {
            PortSource::Interface(interface) => interface.read(&mut values),
            PortSource::Rdma(port) => port.read(&mut values),
            PortSource::Ip(ip) => ip.read(&mut values),
        }
        let before = core::mem::replace(&mut self.last, values);
        // The values and the time are kept before the `?`, so the first reading is the base of the second.
        let elapsed = now.since(self.read_at.replace(now)?);
        let mut increments = increments(&self.widths, &before, &self.last, elapsed);
        for ((increment, unit), total) in increments.iter_mut().zip(&self.units).zip(&mut self.totals) {
            // Units come last: a wrap can be told only in the words of the device, before they are bytes.
            if let Increment::By(by) = increment {
                *by = by.saturating_mul(*unit);
                *total = total.saturating_add(*by);
            }
        }
        let delta = PortDelta { increments, elapsed };
        // A device begins anew as a whole, so many counters that went back are one reset.
        self.resets += u64::from(delta.has_reset());
        Some(delta)
    }
}
