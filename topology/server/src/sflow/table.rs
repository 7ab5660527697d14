//! What links carry, of what their ports said.

use std::{collections::BTreeMap, time::Instant};

use fabric::{Fabric, tier};
use proto::v1alpha1 as pb;
use units::{LinkId, NodeId};

use super::{
    port::{PortName, Rates},
    state::{Exporter, State},
};

/// What a link carried, as the mean over the last interval of a port's counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observation {
    /// The link.
    pub(crate) link: LinkId,
    /// Bits a second.
    pub(crate) bits: u64,
    /// The same over the link's capacity, where that is stated.
    pub(crate) ratio: Option<f64>,
    /// When the counters came.
    pub(crate) at: Instant,
}

/// What links carry now.
#[derive(Debug, Default)]
pub struct Table {
    /// By the link's name.
    links: BTreeMap<String, Observation>,
    /// Names, the fullest first.
    fullest: Vec<String>,
    tiers: Vec<u8>,
}

impl Table {
    /// Looks for the links of all ports whose rates are fresh.
    pub(super) fn new(fabric: &Fabric, state: &State, now: Instant) -> Self {
        let mut found: BTreeMap<LinkId, (bool, Observation)> = BTreeMap::new();
        for (node, exporter) in &state.exporters {
            let Some(node) = fabric.find(node) else { continue };
            let places = Places::new(fabric, node);
            for (name, port) in &exporter.ports {
                let Some(rates) = port.fresh(now) else { continue };
                let Some(link) = places.link(name) else { continue };
                for (link, bits, is_sender) in directions(fabric, link, rates) {
                    let capacity = fabric.link(link).capacity;
                    let ratio = capacity.map(|rate| bits as f64 / (rate.0.max(1) as f64 * 1e6));
                    let new = Observation { link, bits, ratio, at: rates.at };
                    // The sender's counters win over the receiver's: they have what a link lost too.
                    let kept = found.entry(link).or_insert((is_sender, new));
                    if (is_sender, new.at) >= (kept.0, kept.1.at) {
                        *kept = (is_sender, new);
                    }
                }
            }
        }
        let links: BTreeMap<String, Observation> = found.into_iter().map(|(id, (_, seen))| (fabric.link_name(id), seen)).collect();
        let mut fullest: Vec<String> = links.keys().cloned().collect();
        let fill = |name: &String| links.get(name).map_or((0.0, 0), |seen| (seen.ratio.unwrap_or(0.0), seen.bits));
        fullest.sort_by(|a, b| {
            let ((a, a_bits), (b, b_bits)) = (fill(a), fill(b));
            b.total_cmp(&a).then(b_bits.cmp(&a_bits))
        });
        let tiers = if links.is_empty() { Vec::new() } else { tier::tiers(fabric) };
        Self { links, fullest, tiers }
    }

    /// How many links are observed.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// What a link carries.
    pub(crate) fn of(&self, link: &str) -> Option<&Observation> {
        self.links.get(link)
    }

    /// Names of the observed links, the fullest first.
    pub(crate) fn fullest(&self) -> impl Iterator<Item = &str> {
        self.fullest.iter().map(String::as_str)
    }

    /// Writes into a link what it carries.
    pub(crate) fn tell(&self, link: &mut pb::Link, now: Instant) {
        let Some(seen) = self.of(&link.id) else { return };
        link.observed_mbps = Some(seen.bits / 1_000_000);
        link.observed_ratio = seen.ratio;
        link.observed_excess_ratio = seen.ratio.map(|ratio| ratio - link.mean_demand_ratio);
        link.observed_age_ms = Some(u64::try_from(now.saturating_duration_since(seen.at).as_millis()).unwrap_or(u64::MAX));
    }

    /// A link that carries no job, of the fabric of which this table is.
    pub(crate) fn bare(&self, fabric: &Fabric, name: &str) -> Option<pb::Link> {
        let link = fabric.links().get(self.of(name)?.link.index())?;
        let tier = |node: NodeId| self.tiers.get(node.index()).map_or(0, |tier| u32::from(*tier));
        Some(pb::Link {
            id: name.to_owned(),
            from_node: fabric.node(link.from.node).name.clone(),
            to_node: fabric.node(link.to.node).name.clone(),
            capacity_mbps: link.capacity.map_or(0, |rate| rate.0),
            from_tier: tier(link.from.node),
            to_tier: tier(link.to.node),
            ..pb::Link::default()
        })
    }
}

/// The two directions of a port's cable, with what the port said of each and whether it sends it.
fn directions(fabric: &Fabric, link: LinkId, rates: Rates) -> impl Iterator<Item = (LinkId, u64, bool)> {
    let out = rates.sent.map(|bits| (link, bits, true));
    let back = fabric.reverse(link).zip(rates.received).map(|(link, bits)| (link, bits, false));
    out.into_iter().chain(back)
}

/// The links that begin at one node, by what finds them.
pub(super) struct Places<'a> {
    by_port: BTreeMap<&'a str, (LinkId, bool)>,
    /// By the node at the other end; none where several cables lead there.
    by_neighbour: BTreeMap<&'a str, Option<LinkId>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(fabric: &'a Fabric, node: NodeId) -> Self {
        let (mut by_port, mut by_neighbour) = (BTreeMap::new(), BTreeMap::new());
        for &id in fabric.links_from(node) {
            let link = fabric.link(id);
            by_port.insert(link.from.name.as_str(), (id, fabric.is_numbered(&link.from)));
            by_neighbour.entry(fabric.node(link.to.node).name.as_str()).and_modify(|only| *only = None).or_insert(Some(id));
        }
        Self { by_port, by_neighbour }
    }

    /// The link that a port sends over.
    pub(super) fn link(&self, name: &PortName) -> Option<LinkId> {
        match name {
            PortName::Configured(name) => {
                self.by_port.get(name.as_str()).map(|(link, _)| *link).or_else(|| self.by_neighbour.get(name.as_str()).copied().flatten())
            }
            // A number of ours says nothing of the port that a switch calls so.
            PortName::Told(name) => self.by_port.get(name.as_str()).filter(|(_, numbered)| !numbered).map(|(link, _)| *link),
        }
    }
}

/// How many links an exporter observes now, and what of its interfaces is not as the fabric has it.
pub(super) fn compare(fabric: &Fabric, node: NodeId, exporter: &Exporter, now: Instant) -> (usize, Vec<String>) {
    let places = Places::new(fabric, node);
    let (mut links, mut trouble) = (0, Vec::new());
    for (name, port) in &exporter.ports {
        let (PortName::Configured(text) | PortName::Told(text)) = name;
        let Some(link) = places.link(name) else {
            trouble.push(match name {
                PortName::Configured(_) => format!("{text:?} in the configuration is neither a port nor the end of one cable"),
                PortName::Told(_) => format!("interface {text:?} is no port of the fabric"),
            });
            continue;
        };
        links += port.fresh(now).map_or(0, |rates| directions(fabric, link, rates).count());
        let stated = fabric.link(link).capacity.map(|rate| u128::from(rate.0) * 1_000_000);
        if let Some(stated) = stated.filter(|stated| port.speed > 0 && *stated != u128::from(port.speed)) {
            let mbps = |bits: u128| units::Rate(u64::try_from(bits / 1_000_000).unwrap_or(u64::MAX));
            trouble.push(format!("{text:?} has {}, the fabric says {}", mbps(port.speed.into()), mbps(stated)));
        }
    }
    (links, trouble)
}
