//! The search: phases that grow alternating trees from all free nodes at once, with dual labels.
//!
//! The rules, node numbers from 1 on, 0 for none. Every node and every blossom has a label; an edge is tight when the labels of its ends
//! equal twice its weight. A phase makes all free nodes outer and takes outer nodes from a queue, first in, first out: along a
//! tight edge it reaches a new node (which becomes inner, its mate outer), closes a blossom, or finds an augmenting path, which ends the
//! phase. When the queue is empty, labels change by the least amount that makes an edge tight or dissolves a blossom. The search ends
//! when no label of an outer node can fall further: from there on matching more would weigh less.

use alloc::{vec, vec::Vec};

use super::Weights;

/// Where a node stands in the trees of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// In no tree.
    Free,
    /// An even number of edges from its root.
    Outer,
    /// An odd number.
    Inner,
}

/// Shares by which a label may miss a step and yet count as reached; the search whose order this is has the same.
const CLOSE: f64 = 1e-5;

/// Edges that are looked at together: two registers of the smallest vector unit, unrolled twice.
const LANES: usize = 8;

/// An edge by its ends among the nodes of the graph, kept for pairs of which one is a blossom.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl Edge {
    fn reversed(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

/// A matching, and the labels that prove it: the labels of two nodes and of all blossoms that hold both are at least twice the weight
/// between them, and exactly that for a pair; a node without a partner has label 0.
pub(super) struct Proof {
    pub(super) mates: Vec<Option<u32>>,
    pub(super) labels: Vec<f64>,
    /// The label and the nodes of each blossom that has a label.
    pub(super) blossoms: Vec<(f64, Vec<usize>)>,
}

pub(super) struct Search<'a> {
    pub(super) weights: &'a [f64],
    /// The same by column and row. The two directions of a pair may differ by rounding, and that decides ties: each place reads its own.
    columns: Vec<f64>,
    /// Nodes of the graph.
    pub(super) nodes: usize,
    /// Nodes and blossoms that have a number.
    pub(super) known: usize,
    /// The tightest edge from each blossom to each smaller number; blossoms count from 0 here.
    pub(super) edges: Vec<Vec<Edge>>,
    /// By how much those edges miss being tight, while a blossom is made.
    pub(super) adopted: Vec<f64>,
    /// The child of each blossom that holds a node; blossoms count from 0 here.
    pub(super) holders: Vec<Vec<u32>>,
    /// The nodes of each blossom; blossoms count from 0 here.
    pub(super) leaves: Vec<Vec<u32>>,
    pub(super) label: Vec<f64>,
    /// The node that a number is matched to.
    pub(super) mate: Vec<usize>,
    /// The outermost blossom that a number is in; 0 for a number that is not in use.
    pub(super) top: Vec<usize>,
    /// The node through which the tree reached a number.
    pub(super) parent: Vec<usize>,
    /// The outer node with the tightest edge to a number.
    pub(super) slack: Vec<usize>,
    /// By how much that edge misses being tight; infinite where there is none.
    pub(super) missing: Vec<f64>,
    /// An edge to a node matters when it misses being tight by less than this: it is tight, or tighter than what is known of the
    /// outermost blossom of the node. No edge to an inner node matters.
    bound: Vec<f64>,
    pub(super) side: Vec<Side>,
    /// Children of each blossom, around its circle, the base first.
    pub(super) children: Vec<Vec<u32>>,
    /// When a number was last visited in the search for a common ancestor.
    pub(super) visited: Vec<u64>,
    pub(super) visit: u64,
    queue: Vec<usize>,
    /// How much of the queue was taken.
    taken: usize,
    pub(super) scratch: Vec<usize>,
}

/// Cells on a side of the squares in which a matrix is turned: two of them fit into the first cache.
const SQUARE: usize = 32;

/// A square matrix by column and row.
pub(super) fn transposed(by_row: &[f64], side: usize) -> Vec<f64> {
    let mut columns = vec![0.0; by_row.len()];
    for top in (0..side).step_by(SQUARE) {
        for left in (0..side).step_by(SQUARE) {
            for row in top..side.min(top + SQUARE) {
                for column in left..side.min(left + SQUARE) {
                    columns[column * side + row] = by_row[row * side + column];
                }
            }
        }
    }
    columns
}

impl<'a> Search<'a> {
    pub(super) fn new(weights: &'a Weights) -> Self {
        let nodes = weights.nodes;
        // Blossoms have three children or more, so never more than half as many exist at once as there are nodes.
        let numbers = nodes + nodes / 2 + 2;
        let most = weights.by_pair.iter().copied().fold(0.0, f64::max);
        let mut search = Self {
            weights: &weights.by_pair,
            columns: transposed(&weights.by_pair, nodes + 1),
            nodes,
            known: nodes,
            edges: vec![Vec::new(); numbers - nodes],
            adopted: Vec::new(),
            holders: vec![Vec::new(); numbers - nodes],
            leaves: vec![Vec::new(); numbers - nodes],
            label: vec![0.0; numbers],
            mate: vec![0; numbers],
            top: vec![0; numbers],
            parent: vec![0; numbers],
            slack: vec![0; numbers],
            missing: vec![f64::INFINITY; numbers],
            bound: vec![f64::INFINITY; nodes + 1],
            side: vec![Side::Free; numbers],
            children: vec![Vec::new(); numbers],
            visited: vec![0; numbers],
            visit: 0,
            queue: Vec::new(),
            taken: 0,
            scratch: Vec::new(),
        };
        // Number 0 has a label too: an edge that does not exist runs between 0 and 0.
        search.label[..=nodes].fill(most);
        for u in 1..=nodes {
            search.top[u] = u;
        }
        search
    }

    pub(super) fn run(mut self) -> Vec<Option<u32>> {
        self.search();
        self.mates()
    }

    /// The same, with what proves that nothing weighs more.
    pub(super) fn prove(mut self) -> Proof {
        self.search();
        self.settle();
        let held = |b: usize| (self.label[b], self.leaves[b - self.nodes - 1].iter().map(|node| *node as usize - 1).collect());
        let blossoms = (self.nodes + 1..=self.known).filter(|b| self.top[*b] != 0 && self.label[*b] > 0.0).map(held).collect();
        Proof { mates: self.mates(), labels: self.label[1..=self.nodes].to_vec(), blossoms }
    }

    fn search(&mut self) {
        // Labels start at the heaviest weight; without edges there is nothing to match.
        if self.label[0] > 0.0 {
            while self.phase() {}
        }
    }

    fn mates(&self) -> Vec<Option<u32>> {
        // A partner that is not matched back would be no pair.
        (1..=self.nodes).map(|u| (self.mate[u] > 0 && self.mate[self.mate[u]] == u).then(|| self.mate[u] as u32 - 1)).collect()
    }

    /// The weight between two nodes, 0 where there is no edge.
    pub(super) fn weight(&self, edge: Edge) -> f64 {
        self.weights[edge.from as usize * (self.nodes + 1) + edge.to as usize].max(0.0)
    }

    /// By how much an edge misses being tight.
    pub(super) fn missing_of(&self, edge: Edge) -> f64 {
        self.label[edge.from as usize] + self.label[edge.to as usize] - self.weight(edge) * 2.0
    }

    /// The tightest edge between two numbers.
    pub(super) fn edge(&self, from: usize, to: usize) -> Edge {
        match (from.checked_sub(self.nodes + 1), to.checked_sub(self.nodes + 1)) {
            (None, None) => Edge { from: from as u32, to: to as u32 },
            (Some(blossom), _) if from > to => self.edges[blossom][to],
            (_, Some(blossom)) => self.edges[blossom][from].reversed(),
            // A number has no edge to itself.
            (Some(_), None) => Edge::default(),
        }
    }

    /// The child of blossom `b` that holds a node.
    pub(super) fn holder(&self, b: usize, node: u32) -> usize {
        self.holders[b - self.nodes - 1][node as usize] as usize
    }

    /// Notes that outer node `u` has an edge to `x`, if it is the tightest so far; true when it is.
    fn offer(&mut self, u: usize, x: usize) -> bool {
        let missing = self.missing_of(self.edge(u, x));
        let better = missing < self.missing[x];
        if better {
            (self.slack[x], self.missing[x]) = (u, missing);
        }
        better
    }

    /// Forgets the tightest edge to `x`.
    pub(super) fn clear_slack(&mut self, x: usize) {
        (self.slack[x], self.missing[x]) = (0, f64::INFINITY);
        self.set_bound(x);
    }

    /// Writes down which edges to the nodes of `x` matter.
    pub(super) fn set_bound(&mut self, x: usize) {
        let bound = match self.side[x] {
            Side::Inner => f64::NEG_INFINITY,
            // Every edge that is tight matters.
            Side::Free | Side::Outer => self.missing[x].max(f64::MIN_POSITIVE),
        };
        if x <= self.nodes {
            self.bound[x] = bound;
        } else {
            for &leaf in &self.leaves[x - self.nodes - 1] {
                self.bound[leaf as usize] = bound;
            }
        }
    }

    /// Finds the tightest edge from an outer node to `x` anew.
    pub(super) fn find_slack(&mut self, x: usize) {
        (self.slack[x], self.missing[x]) = (0, f64::INFINITY);
        if x <= self.nodes {
            self.find_slack_of_node(x);
        } else {
            for u in 1..=self.nodes {
                if self.top[u] != x && self.side[self.top[u]] == Side::Outer && self.weight(self.edge(u, x)) > 0.0 {
                    self.offer(u, x);
                }
            }
        }
        self.set_bound(x);
    }

    /// The same for a node. All edges to it stand in one column, which in rows would be read from as many pages.
    fn find_slack_of_node(&mut self, x: usize) {
        let column = &self.columns[x * (self.nodes + 1)..][..=self.nodes];
        let own = self.label[x];
        let (mut nearest, mut least) = (0, f64::INFINITY);
        for (u, weight) in column.iter().enumerate().skip(1) {
            let missing = self.label[u] + own - weight * 2.0;
            if missing < least && *weight > 0.0 && self.top[u] != x && self.side[self.top[u]] == Side::Outer {
                (nearest, least) = (u, missing);
            }
        }
        (self.slack[x], self.missing[x]) = (nearest, least);
    }

    /// Puts the nodes of a number into the queue, blossoms level by level.
    pub(super) fn enqueue(&mut self, x: usize) {
        if x <= self.nodes {
            self.queue.push(x);
            return;
        }
        let mut level = vec![x];
        let mut at = 0;
        while let Some(&x) = level.get(at) {
            at += 1;
            if x <= self.nodes {
                self.queue.push(x);
            } else {
                level.extend(self.children[x].iter().map(|&c| c as usize));
            }
        }
    }

    /// Grows trees until a path is found (true) or matching more would weigh less (false).
    fn phase(&mut self) -> bool {
        self.side[1..=self.known].fill(Side::Free);
        self.slack[1..=self.known].fill(0);
        self.missing[1..=self.known].fill(f64::INFINITY);
        self.bound.fill(f64::INFINITY);
        self.taken = 0;
        self.queue.clear();
        for x in 1..=self.known {
            if self.top[x] == x && self.mate[x] == 0 {
                self.parent[x] = 0;
                self.side[x] = Side::Outer;
                self.enqueue(x);
            }
        }
        if self.queue.is_empty() {
            return false;
        }
        loop {
            while let Some(&u) = self.queue.get(self.taken) {
                self.taken += 1;
                if self.side[self.top[u]] != Side::Inner && self.scan(u) {
                    return true;
                }
            }
            if !self.relabel() {
                return false;
            }
            self.taken = 0;
            self.queue.clear();
            if self.follow_tight() {
                return true;
            }
            for b in self.nodes + 1..=self.known {
                if self.top[b] == b && self.side[b] == Side::Inner && self.label[b] <= 0.0 {
                    self.dissolve(b);
                }
            }
        }
    }

    /// Looks at all edges of an outer node; true when one completes a path.
    fn scan(&mut self, u: usize) -> bool {
        let row = u * (self.nodes + 1);
        let mut v = 1;
        while v <= self.nodes {
            let end = (v + LANES).min(self.nodes + 1);
            // Most edges are neither tight nor tighter than what is known; some at a time are told from the others without a branch.
            if end - v == LANES && self.idle(u, row, v) {
                v = end;
                continue;
            }
            while v < end {
                if self.look(u, v, self.weights[row + v]) {
                    return true;
                }
                v += 1;
            }
        }
        false
    }

    /// Whether none of the next edges of `u` matters.
    fn idle(&self, u: usize, row: usize, v: usize) -> bool {
        let weights = &self.weights[row + v..][..LANES];
        let (labels, bounds) = (&self.label[v..][..LANES], &self.bound[v..][..LANES]);
        let label = self.label[u];
        let mut matters = false;
        for lane in 0..LANES {
            matters |= label + labels[lane] - weights[lane] * 2.0 < bounds[lane];
        }
        !matters
    }

    /// Looks at one edge; true when it completes a path.
    fn look(&mut self, u: usize, v: usize, weight: f64) -> bool {
        let x = self.top[v];
        let missing = self.label[u] + self.label[v] - weight * 2.0;
        if weight <= 0.0 || self.top[u] == x || missing >= self.bound[v] {
            return false;
        }
        if missing <= 0.0 {
            return self.meet(Edge { from: u as u32, to: v as u32 });
        }
        if self.offer(u, x) {
            self.set_bound(x);
        }
        false
    }

    /// The least amount by which labels change that makes progress.
    fn step(&self) -> f64 {
        let mut step = f64::INFINITY;
        for b in self.nodes + 1..=self.known {
            if self.top[b] == b && self.side[b] == Side::Inner {
                step = step.min(self.label[b] / 2.0);
            }
        }
        for x in 1..=self.known {
            if self.top[x] == x && self.slack[x] != 0 {
                match self.side[x] {
                    Side::Free => step = step.min(self.missing[x]),
                    Side::Outer => step = step.min(self.missing[x] / 2.0),
                    Side::Inner => {}
                }
            }
        }
        step
    }

    /// Changes the labels by the least amount that makes progress; false when an outer label cannot fall that far.
    fn relabel(&mut self) -> bool {
        let step = self.step();
        if (1..=self.nodes).any(|u| self.side[self.top[u]] == Side::Outer && !above(self.label[u], step)) {
            return false;
        }
        self.shift(step);
        for x in 1..=self.known {
            if self.top[x] == x && self.slack[x] != 0 {
                self.missing[x] = self.missing_of(self.edge(self.slack[x], x));
                self.set_bound(x);
            }
        }
        true
    }

    /// After the search: lets the labels of nodes without a partner fall to 0, which a proof asks for. No outer label is below theirs.
    fn settle(&mut self) {
        let free = (1..=self.nodes).filter(|u| self.mate[*u] == 0).map(|u| self.label[u]).fold(f64::INFINITY, f64::min);
        if free.is_finite() && free > 0.0 {
            self.shift(self.step().min(free));
        }
    }

    fn shift(&mut self, step: f64) {
        for u in 1..=self.nodes {
            match self.side[self.top[u]] {
                Side::Outer => self.label[u] -= step,
                Side::Inner => self.label[u] += step,
                Side::Free => {}
            }
        }
        for b in self.nodes + 1..=self.known {
            if self.top[b] == b {
                match self.side[b] {
                    Side::Outer => self.label[b] += step * 2.0,
                    Side::Inner => self.label[b] -= step * 2.0,
                    Side::Free => {}
                }
            }
        }
    }

    /// Follows the edges that the new labels made tight; true when one completes a path.
    fn follow_tight(&mut self) -> bool {
        // Blossoms that this makes are looked at in the next round.
        for x in 1..=self.known {
            let u = self.slack[x];
            if self.top[x] == x && u != 0 && self.top[u] != x && self.missing[x] <= 0.0 && self.meet(self.edge(u, x)) {
                return true;
            }
        }
        false
    }

    /// An outer node has a tight edge: grow, close a blossom, or complete a path (true).
    fn meet(&mut self, edge: Edge) -> bool {
        let (u, v) = (self.top[edge.from as usize], self.top[edge.to as usize]);
        match self.side[v] {
            Side::Free => {
                self.parent[v] = edge.from as usize;
                self.side[v] = Side::Inner;
                let mate = self.top[self.mate[v]];
                self.clear_slack(v);
                self.clear_slack(mate);
                self.side[mate] = Side::Outer;
                self.enqueue(mate);
                false
            }
            Side::Outer => match self.common_ancestor(u, v) {
                0 => {
                    self.augment(u, v);
                    self.augment(v, u);
                    true
                }
                ancestor => {
                    self.close(u, ancestor, v);
                    false
                }
            },
            Side::Inner => false,
        }
    }
}

/// Whether a label is above a step by more than rounding.
fn above(label: f64, step: f64) -> bool {
    label > step && (label - step).abs() > CLOSE * label.abs().max(step.abs())
}
