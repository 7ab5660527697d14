//! Maximum-weight matching in a general graph: which pairs of nodes, no node twice, weigh most together.
//!
//! [`max_weight_matching`] is a dense search in O(n^3) (Edmonds' blossoms with dual labels), and [`max_weight_matching_of_kinds`] the same
//! for very many nodes of few kinds, by a few small searches whose labels prove the whole.
//! Two reasons why the search is ours. Where profiles are few, many matchings weigh the same, and which of them a search finds decides whom a
//! job meets: the order of this search is that of the simulator whose figures we reproduce. And it runs on floats, which are
//! exact for weights that [`quantise`] made, because every sum and half of such numbers is exact.

mod blossom;
mod dense;
mod kinds;

use alloc::{vec, vec::Vec};

pub use self::kinds::max_weight_matching_of_kinds;

/// Most nodes of a graph: the search keeps tables of (1.5 n)^2 entries, 40 MiB for this many.
pub const NODES_MAX: usize = 1_024;

/// Steps of a weight of 1: a power of two, so that a quantised weight, its double and its half are exact floats.
const QUANTUM: f64 = 1_073_741_824.0;

/// Weights of a complete graph, by row and column, the same both ways. 0 or less means no edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    nodes: usize,
    /// Row by row, with a row and a column 0 that stand for no node.
    by_pair: Vec<f64>,
}

impl Weights {
    /// No edges between up to [`NODES_MAX`] nodes; further ones are left out.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        let nodes = nodes.min(NODES_MAX);
        Self { nodes, by_pair: vec![0.0; (nodes + 1) * (nodes + 1)] }
    }

    /// Forgets all edges and takes another number of nodes, up to [`NODES_MAX`], in the same memory.
    pub fn reset(&mut self, nodes: usize) {
        self.nodes = nodes.min(NODES_MAX);
        self.by_pair.clear();
        self.by_pair.resize((self.nodes + 1) * (self.nodes + 1), 0.0);
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The weights from node `from` to all nodes, to be filled in; those to `from` have to be the same.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn row_mut(&mut self, from: usize) -> &mut [f64] {
        let start = (from + 1) * (self.nodes + 1) + 1;
        &mut self.by_pair[start..start + self.nodes]
    }

    /// The weight between two nodes.
    ///
    /// # Panics
    /// When there is no such node.
    #[must_use]
    pub fn weight(&self, from: usize, to: usize) -> f64 {
        self.by_pair[(from + 1) * (self.nodes + 1) + to + 1]
    }
}

/// The nearest weight on which the search computes exactly, for weights up to about a thousand.
#[must_use]
pub fn quantise(weight: f64) -> f64 {
    // Casting cuts, so a half is added; weights that are not positive are no edges.
    ((weight * QUANTUM + 0.5) as u64) as f64 / QUANTUM
}

/// The partner of each node in a matching of maximum weight. Of equally heavy matchings always the same, by the order of nodes.
#[must_use]
pub fn max_weight_matching(weights: &Weights) -> Vec<Option<u32>> {
    dense::Search::new(weights).run()
}

#[cfg(test)]
mod tests;
