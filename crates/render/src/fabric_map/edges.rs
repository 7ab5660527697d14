//! Directed and parallel links folded into one edge per pair of nodes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::view::FabricView;

/// All links between two nodes, in both directions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Edge {
    /// The node of the lower tier.
    pub low: usize,
    /// The other.
    pub high: usize,
    /// Worst score of the links; none when no link is shared.
    pub score: Option<f64>,
    /// Positions of the links, worst first.
    pub links: Vec<usize>,
}

/// Folds the links whose two ends exist and differ. Unshared edges come first, then by falling
/// score; what is not a number counts as worst.
pub(super) fn fold(fabric: &FabricView) -> Vec<Edge> {
    let mut by_pair: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (at, link) in fabric.links.iter().enumerate() {
        let (Some(from), Some(to)) = (fabric.nodes.get(link.from), fabric.nodes.get(link.to)) else { continue };
        if link.from == link.to {
            continue;
        }
        // The pair is in one order for both directions of a cable; between equal tiers the position decides.
        let low_first = (from.tier, link.from) < (to.tier, link.to);
        let pair = if low_first { (link.from, link.to) } else { (link.to, link.from) };
        by_pair.entry(pair).or_default().push(at);
    }
    let rank = |score: Option<f64>| match score {
        None => f64::INFINITY,
        Some(score) if score.is_nan() => f64::NEG_INFINITY,
        Some(score) => score,
    };
    let fold_one = |((low, high), mut links): ((usize, usize), Vec<usize>)| {
        links.sort_by(|&a, &b| rank(fabric.links[a].score).total_cmp(&rank(fabric.links[b].score)));
        let score = links.first().and_then(|&worst| fabric.links[worst].score);
        Edge { low, high, score, links }
    };
    let mut edges: Vec<Edge> = by_pair.into_iter().map(fold_one).collect();
    // The sort is stable and starts from the order of a map, so equal scores keep the order of their nodes.
    edges.sort_by(|a, b| rank(b.score).total_cmp(&rank(a.score)));
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{MapLinkView, NodeView};

    #[test]
    fn directions_and_parallel_cables_become_one_edge_with_the_worst_score() {
        let node = |tier| NodeView { name: String::new(), tier };
        let link = |from, to, score| MapLinkView { from, to, score, ..MapLinkView::default() };
        let fabric = FabricView {
            nodes: vec![node(1), node(2), node(0)],
            links: vec![
                link(0, 1, Some(0.9)),
                link(1, 0, Some(0.4)),
                link(2, 0, None),
                link(0, 1, None),
                link(0, 0, Some(0.0)),
                link(0, 77, Some(0.0)),
            ],
            ..FabricView::default()
        };
        let edges = fold(&fabric);
        assert_eq!(edges.len(), 2, "a loop and a link to nowhere are left out");
        assert_eq!((edges[0].low, edges[0].high, edges[0].score), (2, 0, None), "the host is below its leaf");
        assert_eq!((edges[1].low, edges[1].high, edges[1].score), (0, 1, Some(0.4)));
        assert_eq!(edges[1].links, [1, 0, 3]);
    }
}
