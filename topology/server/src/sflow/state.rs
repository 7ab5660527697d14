//! What exporters said, in bounded memory: by exporter and interface. An exporter that is not configured never takes the memory of a configured one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use super::{
    decode::{self, Head, Interface, Samples},
    port::{Heard, Port, PortName},
};
use crate::config::{ExporterConfig, InterfaceName, PORTS_MAX, SflowConfig};

/// Datagrams of one exporter in a second that are read: counters of [`PORTS_MAX`] ports fill some 400, and a large chassis that samples
/// packets at the usual rates sends some hundred more.
pub(super) const DATAGRAMS_PER_S_MAX: u32 = 2_000;
/// Ports of all exporters together: a fabric of 100,000 NICs has four times as many ends of cables.
const ALL_PORTS_MAX: usize = 1 << 19;
/// Exporters that the configuration does not name and that are remembered: those heard last.
pub(super) const STRANGERS_MAX: usize = 32;
/// Interfaces of an exporter that are no port and are remembered.
pub(super) const UNMAPPED_MAX: usize = 16;

/// Datagrams and samples since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Taken.
    pub(crate) taken: u64,
    /// That cannot be read.
    pub(crate) malformed: u64,
    /// Of exporters that the configuration does not name.
    pub(crate) unknown: u64,
    /// Of a configured exporter's address, from somewhere else.
    pub(crate) foreign: u64,
    /// Beyond [`DATAGRAMS_PER_S_MAX`].
    pub(crate) limited: u64,
    /// Counter samples.
    pub(crate) counters: u64,
    /// Flow samples, which are not read.
    pub(crate) flows: u64,
    /// Samples of other kinds.
    pub(crate) others: u64,
}

/// An exporter with too many ports forgets those that are over this often.
const PRUNE_EVERY: Duration = Duration::from_secs(10);

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Well,
    Malformed(decode::DatagramError),
    Unknown(IpAddr),
    Foreign(IpAddr),
    Limited,
}

/// All that was heard.
#[derive(Debug, Default)]
pub(super) struct State {
    /// By node.
    pub(super) exporters: BTreeMap<String, Exporter>,
    by_address: BTreeMap<IpAddr, String>,
    pub(super) strangers: Vec<Stranger>,
    pub(super) counts: Counts,
    ports: usize,
}

/// An exporter that the configuration names.
#[derive(Debug)]
pub(super) struct Exporter {
    config: ExporterConfig,
    by_index: BTreeMap<u32, String>,
    by_name: BTreeMap<String, String>,
    /// When it last sent something that was taken.
    pub(super) heard: Option<Instant>,
    pub(super) datagrams: u64,
    pub(super) limited: u64,
    pub(super) resets: u64,
    /// From where somebody sent under its address who may not, last.
    pub(super) foreign: Option<IpAddr>,
    second: Option<(Instant, u32)>,
    /// By what finds them among the ports of the node.
    pub(super) ports: BTreeMap<PortName, Port>,
    /// Those of them that the configuration does not name.
    told: usize,
    pruned: Option<Instant>,
    /// Interfaces without a name, of which the configuration says nothing; the first ones.
    pub(super) unmapped: BTreeSet<u32>,
    /// Interfaces for which there was no room.
    pub(super) crowded: u64,
}

/// An exporter that the configuration does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stranger {
    pub(super) agent: IpAddr,
    pub(super) source: IpAddr,
    pub(super) datagrams: u64,
    pub(super) heard: Instant,
}

impl State {
    /// Goes on with another configuration; exporters of which it says the same keep what they said.
    pub(super) fn configure(&mut self, config: &SflowConfig) {
        let mut before = std::mem::take(&mut self.exporters);
        let keep = |(node, new): (&String, &ExporterConfig)| {
            let kept = before.remove(node).filter(|old| old.config == *new);
            (node.clone(), kept.unwrap_or_else(|| Exporter::new(new)))
        };
        self.exporters = config.exporters.iter().map(keep).collect();
        self.by_address = config.exporters.iter().map(|(node, exporter)| (exporter.address, node.clone())).collect();
        self.strangers.retain(|stranger| !self.by_address.contains_key(&stranger.agent));
        self.ports = self.exporters.values().map(|exporter| exporter.ports.len()).sum();
    }

    /// Takes a datagram that came from `source` at `now`.
    pub(super) fn take(&mut self, bytes: &[u8], source: IpAddr, now: Instant) -> Taken {
        let taken = self.read(bytes, source, now);
        let count = match taken {
            Taken::Well => &mut self.counts.taken,
            Taken::Malformed(_) => &mut self.counts.malformed,
            Taken::Unknown(_) => &mut self.counts.unknown,
            Taken::Foreign(_) => &mut self.counts.foreign,
            Taken::Limited => &mut self.counts.limited,
        };
        *count += 1;
        taken
    }

    fn read(&mut self, bytes: &[u8], source: IpAddr, now: Instant) -> Taken {
        // Of strangers no more is read than who they say that they are.
        let (head, rest) = match decode::head(bytes) {
            Ok(read) => read,
            Err(error) => return Taken::Malformed(error),
        };
        let Some(exporter) = self.by_address.get(&head.agent).and_then(|node| self.exporters.get_mut(node)) else {
            self.meet(head.agent, source, now);
            return Taken::Unknown(head.agent);
        };
        if !exporter.config.sends_from(source) {
            exporter.foreign = Some(source);
            return Taken::Foreign(source);
        }
        // Whoever may not send as this exporter takes nothing of what it may send.
        if !exporter.may_send(now) {
            return Taken::Limited;
        }
        let samples = match decode::samples(rest) {
            Ok(samples) => samples,
            Err(error) => return Taken::Malformed(error),
        };
        (exporter.heard, exporter.datagrams) = (Some(now), exporter.datagrams + 1);
        self.counts.counters += u64::from(samples.counters);
        self.counts.flows += u64::from(samples.flows);
        self.counts.others += u64::from(samples.others);
        let had = exporter.ports.len();
        exporter.hear(head, &samples, now, ALL_PORTS_MAX.saturating_sub(self.ports));
        self.ports = self.ports - had + exporter.ports.len();
        Taken::Well
    }

    /// Remembers a stranger in the place of the one that was silent for longest.
    fn meet(&mut self, agent: IpAddr, source: IpAddr, now: Instant) {
        if let Some(known) = self.strangers.iter_mut().find(|known| (known.agent, known.source) == (agent, source)) {
            (known.datagrams, known.heard) = (known.datagrams + 1, now);
            return;
        }
        let new = Stranger { agent, source, datagrams: 1, heard: now };
        if self.strangers.len() < STRANGERS_MAX {
            self.strangers.push(new);
        } else if let Some(oldest) = self.strangers.iter_mut().min_by_key(|known| known.heard) {
            *oldest = new;
        }
    }
}

impl Exporter {
    fn new(config: &ExporterConfig) -> Self {
        let (mut by_index, mut by_name) = (BTreeMap::new(), BTreeMap::new());
        for (port, interface) in &config.ports {
            match interface {
                InterfaceName::Index(index) => drop(by_index.insert(*index, port.clone())),
                InterfaceName::Name(name) => drop(by_name.insert(name.clone(), port.clone())),
            }
        }
        Self {
            config: config.clone(),
            by_index,
            by_name,
            heard: None,
            datagrams: 0,
            limited: 0,
            resets: 0,
            foreign: None,
            second: None,
            ports: BTreeMap::new(),
            told: 0,
            pruned: None,
            unmapped: BTreeSet::new(),
            crowded: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn config(&self) -> &ExporterConfig {
        &self.config
    }

    /// Its agent address.
    pub(super) fn address(&self) -> IpAddr {
        self.config.address
    }

    /// Ports of the configuration that no interface was heard of.
    pub(super) fn silent_ports(&self) -> impl Iterator<Item = &str> {
        self.config.ports.keys().filter(|name| !self.ports.contains_key(&PortName::Configured((*name).clone()))).map(String::as_str)
    }

    fn may_send(&mut self, now: Instant) -> bool {
        let (began, count) =
            self.second.filter(|(began, _)| now.saturating_duration_since(*began) < Duration::from_secs(1)).unwrap_or((now, 0));
        self.second = Some((began, count.saturating_add(1)));
        let may = count < DATAGRAMS_PER_S_MAX;
        self.limited += u64::from(!may);
        may
    }

    fn hear(&mut self, head: Head, samples: &Samples, now: Instant, mut room: usize) {
        for interface in &samples.interfaces {
            let Some(name) = self.name_of(interface) else {
                if self.unmapped.len() < UNMAPPED_MAX {
                    self.unmapped.insert(interface.index);
                }
                continue;
            };
            if let Some(port) = self.ports.get_mut(&name) {
                self.resets += u64::from(port.hear(head, interface, now) == Heard::Reset);
            } else if room > 0 && self.has_room(&name, now) {
                room -= 1;
                self.told += usize::from(matches!(name, PortName::Told(_)));
                self.ports.insert(name, Port::new(head, interface, now));
            } else {
                self.crowded += 1;
            }
        }
    }

    /// What the configuration says wins: a fabric may name ports otherwise than the switch.
    fn name_of(&self, interface: &Interface) -> Option<PortName> {
        let told = interface.name.as_ref();
        let configured = self.by_index.get(&interface.index).or_else(|| self.by_name.get(told?));
        configured.map(|port| PortName::Configured(port.clone())).or_else(|| told.map(|name| PortName::Told(name.clone())))
    }

    /// Whether there is room for one more port. Those that the configuration names have their own.
    fn has_room(&mut self, name: &PortName, now: Instant) -> bool {
        if matches!(name, PortName::Configured(_)) {
            return true;
        }
        let again = |pruned: Instant| now.saturating_duration_since(pruned) >= PRUNE_EVERY;
        if self.told >= PORTS_MAX && self.pruned.is_none_or(again) {
            self.pruned = Some(now);
            self.ports.retain(|name, port| matches!(name, PortName::Configured(_)) || !port.is_over(now));
            self.told = self.ports.keys().filter(|name| matches!(name, PortName::Told(_))).count();
        }
        self.told < PORTS_MAX
    }
}
