//! Routes for people: each link with its share and the assumption it rests on, and the
//! equal-cost paths one by one.

use alloc::{collections::BTreeMap, vec, vec::Vec};
use core::fmt;

use units::{LinkId, Share};

use super::{Ends, RouteScratch, Router};
use crate::{FabricError, collective::Endpoint};

/// Most paths listed one by one; the number of paths grows as a product over the tiers, and a
/// person reads fewer.
pub const PATHS_MAX: usize = 4_096;

/// Why we believe that a flow uses a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assumption {
    /// Every shortest path uses it: no assumption about any switch's choice.
    Sole,
    /// One of several, loaded evenly.
    Spread,
    /// One of several, chosen by the seeded hash.
    Hashed,
    /// Part of a route that an operator has pinned.
    Pinned,
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sole => "sole",
            Self::Spread => "spread",
            Self::Hashed => "hashed",
            Self::Pinned => "pinned",
        })
    }
}

/// A link on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteLink {
    /// The link.
    pub link: LinkId,
    /// How many links come before it, counted from the sending NIC.
    pub hop: u32,
    /// Fraction of the flow.
    pub share: Share,
    /// The assumption behind the share.
    pub assumption: Assumption,
}

/// One path from NIC to NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its links in order.
    pub links: Vec<LinkId>,
    /// Fraction of the flow.
    pub share: Share,
}

/// All ways between two NICs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Links in order of (hop, link id).
    pub links: Vec<RouteLink>,
    /// Paths that carry something, at most as many as asked for and [`PATHS_MAX`].
    pub paths: Vec<Path>,
    /// How many equally short paths the fabric has between the two, saturating; under a hash or
    /// a pin only one of them is used.
    pub path_count: u64,
}

impl Router<'_> {
    /// The ways from one NIC to another; nothing inside a host. At most `limit` paths are
    /// listed.
    ///
    /// # Errors
    /// [`FabricError::NoRoute`].
    pub fn paths(&self, from: Endpoint, to: Endpoint, limit: usize) -> Result<Routes, FabricError> {
        if from.host == to.host {
            return Ok(Routes { links: Vec::new(), paths: Vec::new(), path_count: 0 });
        }
        let ends = self.ends(from, to)?;
        let inner = self.inner_ends(ends);
        // Without switches on the way there is one path: a direct cable, or a pin.
        let path_count = inner.map_or(1, |(source, leaf)| self.count_paths(source, leaf));
        let pinned = self.pinned(ends);
        if let Some(single) = pinned.map(<[LinkId]>::to_vec).or_else(|| (ends.out == ends.into).then(|| vec![ends.out])) {
            let assumption = if pinned.is_some() { Assumption::Pinned } else { Assumption::Sole };
            return Ok(single_path(single, path_count, |_| assumption));
        }
        let (source, leaf) = inner.ok_or_else(|| self.no_route(from, to))?;
        let spread = self.spread_shares(ends, source, leaf);
        if let Some(hash) = &self.hash {
            let mut links = vec![ends.out];
            self.walk_hashed(hash, ends, source, leaf, |link| links.push(link));
            links.push(ends.into);
            // A link that gets the whole flow in an even spread is on all shortest paths, so the hash has not chosen it.
            let assumption = |link| if spread.get(&link) == Some(&Share::ONE) { Assumption::Sole } else { Assumption::Hashed };
            return Ok(single_path(links, path_count, assumption));
        }
        let hop = |link| self.hop(ends, source, leaf, link);
        let assumption = |share| if share == Share::ONE { Assumption::Sole } else { Assumption::Spread };
        let links = spread.iter().map(|(&link, &share)| RouteLink { link, hop: hop(link), share, assumption: assumption(share) });
        let mut links: Vec<RouteLink> = links.collect();
        // The scratch yields links by id; a person reads them along the way.
        links.sort_unstable_by_key(|l| (l.hop, l.link));
        Ok(Routes { links, paths: self.list_paths(ends, source, leaf, limit.min(PATHS_MAX)), path_count })
    }

    /// The even spread over all shortest paths, whatever the router's own rule.
    fn spread_shares(&self, ends: Ends, source: u32, leaf: u32) -> BTreeMap<LinkId, Share> {
        // A router with a hash needs the even spread too, as it shows which links are on all paths.
        let mut scratch = RouteScratch::new();
        scratch.fit(self.fabric.links().len(), self.table.switch_count());
        scratch.add(ends.out, Share::ONE.0);
        scratch.add(ends.into, Share::ONE.0);
        scratch.inject(leaf, source, Share::ONE.0);
        scratch.spread(&self.table);
        scratch.drain().into_iter().collect()
    }

    /// Position of a link on the shortest paths: layers are ordered by distance to the leaf.
    fn hop(&self, ends: Ends, source: u32, leaf: u32, link: LinkId) -> u32 {
        let from_source = |at: u32| self.table.distance(leaf, source).saturating_sub(self.table.distance(leaf, at));
        match self.table.switch(self.fabric.link(link).from.node) {
            // A host sends on the first link only, because hosts never forward.
            None => 0,
            Some(_) if link == ends.into => self.table.distance(leaf, source).saturating_add(1),
            Some(at) => from_source(at).saturating_add(1),
        }
    }

    /// How many shortest paths there are, layer by layer.
    fn count_paths(&self, source: u32, leaf: u32) -> u64 {
        // Counts and not paths are carried, so the work grows with the layers and not with their product.
        let mut layer = BTreeMap::from([(source, 1_u64)]);
        for _ in 0..self.table.distance(leaf, source) {
            let mut nearer: BTreeMap<u32, u64> = BTreeMap::new();
            for (at, ways) in layer {
                for hop in self.table.next_hops(leaf, at) {
                    let sum = nearer.entry(hop.to).or_insert(0);
                    *sum = sum.saturating_add(ways);
                }
            }
            layer = nearer;
        }
        layer.into_values().fold(0, u64::saturating_add)
    }

    /// Depth-first over the shortest-path graph with its own stack, stopped at `limit`.
    fn list_paths(&self, ends: Ends, source: u32, leaf: u32, limit: usize) -> Vec<Path> {
        let mut paths = Vec::new();
        // (switch, share that arrived, next branch to take)
        let mut stack = vec![(source, Share::ONE.0, 0_usize)];
        let mut links = vec![ends.out];
        while let Some((at, share, branch)) = stack.last_mut() {
            let hops = self.table.next_hops(leaf, *at);
            // Only the leaf has no next hops here: `inner_ends` has found that the source reaches it.
            if hops.is_empty() && paths.len() < limit {
                let whole = links.iter().copied().chain([ends.into]).collect();
                paths.push(Path { links: whole, share: Share(*share) });
            }
            let ways = hops.len() as u64;
            match hops.get(*branch) {
                Some(hop) if paths.len() < limit => {
                    // The first hops take the remainder, one unit each, as in `RouteScratch::spread_to_leaf`.
                    let part = *share / ways + u64::from((*branch as u64) < *share % ways);
                    *branch += 1;
                    // A share of zero is not carried, as in the loads.
                    if part > 0 {
                        links.push(hop.link);
                        stack.push((hop.to, part, 0));
                    }
                }
                _ => {
                    stack.pop();
                    // There is one link per entry of the stack, the outgoing NIC for the first.
                    links.pop();
                }
            }
        }
        paths
    }
}

fn single_path(links: Vec<LinkId>, path_count: u64, assumption: impl Fn(LinkId) -> Assumption) -> Routes {
    let route = links.iter().zip(0..).map(|(&link, hop)| RouteLink { link, hop, share: Share::ONE, assumption: assumption(link) });
    Routes { links: route.collect(), paths: vec![Path { links: links.clone(), share: Share::ONE }], path_count }
}
