//! Routes: which links a flow loads, and on what assumption.
//!
//! Packets follow shortest paths by hop count through switches; hosts never forward. Where
//! several next hops are equally near, an [`Ecmp`] rule says what we assume about the switch's
//! choice, because nobody can read it off the cabling: an even spread, one hashed path per flow,
//! or a route that an operator has pinned. Parallel cables are separate next hops.
//!
//! A [`Router`] is immutable and `Sync`; each thread brings its own [`RouteScratch`]. Paths are
//! never enumerated to find loads: amounts flow through the shortest-path graph layer by layer.

mod hash;
mod paths;
mod pin;
mod routing;
mod scratch;
mod table;

pub use paths::{Assumption, PATHS_MAX, Path, RouteLink, Routes};
pub use pin::Pin;
pub use routing::Routing;
pub use scratch::RouteScratch;
pub use table::{HOPS_MAX, TABLE_CELLS_MAX, TABLE_WORK_MAX};

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::fmt;

use units::{LinkId, NodeId, Share};

use crate::{
    Fabric, FabricError,
    collective::{Endpoint, Flow},
};
use hash::FlowHash;
use table::{NONE, Table};

/// The assumption about a switch that has several equally short next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecmp {
    /// Even spread over all of them, at each switch (packet spraying, or many queue pairs).
    Spread,
    /// One of them per pair of NICs, by a hash of the names: stable across runs, machines and
    /// the order of the document. Another seed is another draw.
    Hashed {
        /// Which draw.
        seed: u64,
    },
}

impl fmt::Display for Ecmp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread => f.write_str("spread"),
            Self::Hashed { seed } => write!(f, "hashed:{seed}"),
        }
    }
}

/// A rule that is neither `spread` nor `hashed:SEED`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown ECMP rule {0:?}: expected spread or hashed:SEED with a whole number")]
pub struct UnknownEcmp(pub String);

impl core::str::FromStr for Ecmp {
    type Err = UnknownEcmp;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if s == "spread" {
            return Ok(Self::Spread);
        }
        let seed = s.strip_prefix("hashed:").and_then(|seed| seed.parse().ok());
        seed.map(|seed| Self::Hashed { seed }).ok_or_else(|| UnknownEcmp(s.into()))
    }
}

/// Finds the links that flows load.
#[derive(Debug)]
pub struct Router<'f> {
    fabric: &'f Fabric,
    ecmp: Ecmp,
    table: Arc<Table>,
    hash: Option<Arc<FlowHash>>,
    /// (first link, last link) to the whole route.
    pins: Arc<BTreeMap<(LinkId, LinkId), Vec<LinkId>>>,
}

/// The two ends of a flow on the wire.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// Host to first switch (or straight to the other host).
    out: LinkId,
    /// Last switch to host; equal to `out` for two hosts on one cable.
    into: LinkId,
}

impl<'f> Router<'f> {
    /// Prepares routes between all hosts. A pin holds for flows that leave by its first link and
    /// arrive by its last one; everything else follows `ecmp`.
    ///
    /// # Errors
    /// [`FabricError::BadPin`] names a pin that is no route; [`FabricError::TooLarge`] when the
    /// tables would pass [`TABLE_CELLS_MAX`] or [`TABLE_WORK_MAX`].
    pub fn new(fabric: &'f Fabric, ecmp: Ecmp, pins: &[Pin]) -> Result<Self, FabricError> {
        Self::with_table(fabric, ecmp, pins, Table::build(fabric, None)?)
    }

    /// Prepares only the routes towards some hosts: for a question about few hosts of a fabric
    /// of any size. Other destinations answer [`FabricError::NoRoute`].
    ///
    /// # Errors
    /// As [`Router::new`].
    pub fn toward(fabric: &'f Fabric, ecmp: Ecmp, pins: &[Pin], hosts: &[NodeId]) -> Result<Self, FabricError> {
        Self::with_table(fabric, ecmp, pins, Table::build(fabric, Some(hosts))?)
    }

    fn with_table(fabric: &'f Fabric, ecmp: Ecmp, pins: &[Pin], table: Table) -> Result<Self, FabricError> {
        // The keys of all links are made once, so that a walk hashes numbers and not names.
        let hash = match ecmp {
            Ecmp::Spread => None,
            Ecmp::Hashed { seed } => Some(Arc::new(FlowHash::new(fabric, seed))),
        };
        Ok(Self { fabric, ecmp, table: Arc::new(table), hash, pins: Arc::new(pin::index(fabric, pins)?) })
    }

    /// The same routes without some links, which carry nothing: a flow goes over what is left of its equally short routes, and has none
    /// ([`FabricError::NoRoute`]) where none is left. No longer way is taken, and a pin over such a link does not hold.
    #[must_use]
    pub fn without(&self, down: &BTreeSet<LinkId>) -> Self {
        let stands = |(_, links): &(&(LinkId, LinkId), &Vec<LinkId>)| !links.iter().any(|link| down.contains(link));
        let pins = self.pins.iter().filter(stands).map(|(ends, links)| (*ends, links.clone())).collect();
        let (table, hash) = (Arc::new(self.table.without(down)), self.hash.clone());
        Self { fabric: self.fabric, ecmp: self.ecmp, table, hash, pins: Arc::new(pins) }
    }

    /// The fabric it routes on.
    #[must_use]
    pub fn fabric(&self) -> &'f Fabric {
        self.fabric
    }

    /// The rule for equal next hops.
    #[must_use]
    pub fn ecmp(&self) -> Ecmp {
        self.ecmp
    }

    /// The load of each link that the flows cross, summed, in order of link id. Flows inside a
    /// host load nothing.
    ///
    /// # Errors
    /// [`FabricError::NoRoute`] names the first two hosts that cannot reach each other.
    pub fn loads(&self, flows: &[Flow]) -> Result<Vec<(LinkId, Share)>, FabricError> {
        self.loads_with(&mut RouteScratch::new(), flows)
    }

    /// [`Router::loads`] with working memory that is kept between calls: much faster for many
    /// jobs, with the same result.
    ///
    /// # Errors
    /// As [`Router::loads`].
    pub fn loads_with(&self, scratch: &mut RouteScratch, flows: &[Flow]) -> Result<Vec<(LinkId, Share)>, FabricError> {
        scratch.fit(self.fabric.links().len(), self.table.switch_count());
        let placed = self.place(scratch, flows);
        // Drained in any case, so that a failed call leaves nothing to the next one.
        let loads = scratch.drain();
        placed.map(|()| loads)
    }

    fn place(&self, scratch: &mut RouteScratch, flows: &[Flow]) -> Result<(), FabricError> {
        for flow in flows.iter().filter(|f| f.from.host != f.to.host) {
            let ends = self.ends(flow.from, flow.to)?;
            // A pin replaces the whole route, the links of both NICs included.
            if let Some(route) = self.pinned(ends) {
                route.iter().for_each(|&link| scratch.add(link, flow.share.0));
                continue;
            }
            scratch.add(ends.out, flow.share.0);
            // Two hosts on one cable share a single link, which has been counted.
            if ends.out == ends.into {
                continue;
            }
            scratch.add(ends.into, flow.share.0);
            let (source, leaf) = self.inner_ends(ends).ok_or_else(|| self.no_route(flow.from, flow.to))?;
            match &self.hash {
                None => scratch.inject(leaf, source, flow.share.0),
                Some(hash) => self.walk_hashed(hash, ends, source, leaf, |link| scratch.add(link, flow.share.0)),
            }
        }
        // Flows to the same leaf are spread together, so the spread waits for all of them.
        scratch.spread(&self.table);
        Ok(())
    }

    /// One path, chosen at each switch by the hash.
    fn walk_hashed(&self, hash: &FlowHash, ends: Ends, source: u32, leaf: u32, mut visit: impl FnMut(LinkId)) {
        let key = hash.flow(ends.out, ends.into);
        let mut at = source;
        // Each hop is nearer to the leaf than the one before, so the walk ends after at most HOPS_MAX of them.
        while let Some(hop) = self.table.next_hops(leaf, at).iter().max_by_key(|hop| hash.rank(key, hop.link)) {
            visit(hop.link);
            at = hop.to;
        }
    }

    /// The NIC links of a flow.
    fn ends(&self, from: Endpoint, to: Endpoint) -> Result<Ends, FabricError> {
        let ends = || {
            let out = self.table.nic(from)?.out?;
            // A cable straight to the other host is both the first link and the last.
            if self.fabric.link(out).to.node == to.host {
                return Some(Ends { out, into: out });
            }
            Some(Ends { out, into: self.table.nic(to)?.into? })
        };
        ends().ok_or_else(|| self.no_route(from, to))
    }

    /// First switch and number of the last one as a destination, when the first reaches it.
    fn inner_ends(&self, ends: Ends) -> Option<(u32, u32)> {
        let source = self.table.switch(self.fabric.link(ends.out).to.node)?;
        // Under `Router::toward` a switch without a wanted host is no leaf, so other destinations have no route.
        let leaf = self.table.leaf(self.fabric.link(ends.into).from.node)?;
        (self.table.distance(leaf, source) != NONE).then_some((source, leaf))
    }

    fn pinned(&self, ends: Ends) -> Option<&[LinkId]> {
        self.pins.get(&(ends.out, ends.into)).map(Vec::as_slice)
    }

    fn no_route(&self, from: Endpoint, to: Endpoint) -> FabricError {
        let name = |e: Endpoint| {
            // A host of another fabric has no name here, so its id is shown.
            let node = self.fabric.nodes().get(e.host.index());
            node.map_or_else(|| format!("{}", e.host), |n| n.name.clone())
        };
        FabricError::NoRoute { from: name(from), to: name(to) }
    }
}

#[cfg(test)]
mod tests;
