//! The seeded hash behind [`super::Ecmp::Hashed`].
//!
//! Each next hop gets a rank from (flow, link) and the highest rank wins. The keys come from
//! names, not from ids, so that the order of a document does not change anybody's path.

use alloc::vec::Vec;

use units::LinkId;

use crate::{Fabric, Port};

/// Hash keys of all links under one seed.
#[derive(Debug)]
pub(super) struct FlowHash {
    link_keys: Vec<u64>,
}

impl FlowHash {
    pub(super) fn new(fabric: &Fabric, seed: u64) -> Self {
        let key = |link: &crate::Link| {
            let end = |hash, port: &Port| text(text(hash, &fabric.node(port.node).name), &port.name);
            // The seed is mixed, so that neighbouring seeds do not start with nearly the same bits.
            mix(end(end(units::FNV_OFFSET ^ mix(seed), &link.from), &link.to))
        };
        Self { link_keys: fabric.links().iter().map(key).collect() }
    }

    /// Key of the flow between two NIC links; the two directions of a pair draw apart.
    pub(super) fn flow(&self, out: LinkId, into: LinkId) -> u64 {
        // The rotation tells the pair from its reverse: without it a flow and the answer to it would have one key.
        mix(self.link_keys[out.index()].rotate_left(32) ^ self.link_keys[into.index()])
    }

    /// Rank of a next hop for a flow; the link breaks the tie of equal hashes.
    pub(super) fn rank(&self, flow: u64, link: LinkId) -> (u64, LinkId) {
        (mix(flow ^ self.link_keys[link.index()]), link)
    }
}

/// Takes a text into a hash, and a terminator that no UTF-8 text contains.
fn text(hash: u64, text: &str) -> u64 {
    units::fnv1a(units::fnv1a(hash, text.as_bytes()), &[0xff])
}

/// SplitMix64 of one number.
fn mix(mut number: u64) -> u64 {
    units::splitmix64(&mut number)
}
