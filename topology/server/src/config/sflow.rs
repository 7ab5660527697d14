//! Where switches send what their ports carry, and which exporter and interface is which node and port of the fabric.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::Deserialize;

/// Exporters: a fabric of 100,000 NICs has some 2,500 switches.
const EXPORTERS_MAX: usize = 4_096;
/// Ports of an exporter, in the configuration and of those that it names itself: a large chassis has 576, and each may be four.
pub const PORTS_MAX: usize = 2_304;
/// Addresses from which an exporter sends.
const SOURCES_MAX: usize = 16;

/// sFlow of switches.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SflowConfig {
    /// Address and port, UDP.
    pub listen: SocketAddr,
    /// By the name of the node of the fabric that each is.
    pub exporters: BTreeMap<String, ExporterConfig>,
}

/// One switch, or host, that exports.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExporterConfig {
    /// The agent address in its datagrams.
    pub address: IpAddr,
    /// Where its datagrams come from; nowhere else: from `address`.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// Which interface each port of the node is, by the port's name in the fabric or that of the node at the other end of its only cable
    /// there.
    #[serde(default)]
    pub ports: BTreeMap<String, InterfaceName>,
}

/// An interface as its switch calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(untagged)]
pub enum InterfaceName {
    /// ifIndex.
    Index(u32),
    /// ifName.
    Name(String),
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

impl ExporterConfig {
    /// Whether a datagram of this exporter may come from there.
    #[must_use]
    pub fn sends_from(&self, source: IpAddr) -> bool {
        if self.sources.is_empty() { self.address == source } else { self.sources.contains(&source) }
    }
}

impl SflowConfig {
    /// Where a configuration says that datagrams are taken.
    #[must_use]
    pub fn listens(config: &super::Config) -> Option<SocketAddr> {
        config.sflow.as_ref().map(|sflow| sflow.listen)
    }

    /// What is wrong with it, on one line.
    pub(super) fn problem(&self) -> Option<String> {
        let count = self.exporters.len();
        if count == 0 || count > EXPORTERS_MAX {
            return Some(format!("sflow.exporters: {count}; must be 1 to {EXPORTERS_MAX}"));
        }
        let mut addresses = BTreeMap::new();
        for (node, exporter) in &self.exporters {
            if let Some(other) = addresses.insert(exporter.address, node) {
                return Some(format!("sflow.exporters: {other} and {node} have one address, {}", exporter.address));
            }
            let key = |key: &str, value: usize, most: usize| {
                (value > most).then(|| format!("sflow.exporters.{node}.{key}: {value}; at most {most}"))
            };
            let many = key("sources", exporter.sources.len(), SOURCES_MAX).or_else(|| key("ports", exporter.ports.len(), PORTS_MAX));
            if many.is_some() {
                return many;
            }
            let mut interfaces = BTreeSet::new();
            if let Some(twice) = exporter.ports.values().find(|interface| !interfaces.insert(*interface)) {
                return Some(format!("sflow.exporters.{node}.ports: two ports are the interface {twice}"));
            }
        }
        None
    }
}
