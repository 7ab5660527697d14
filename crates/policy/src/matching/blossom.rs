//! Blossoms: odd circles of the trees, treated as one node until their label falls to 0; and paths through them.

use alloc::{vec, vec::Vec};

use super::dense::{Edge, Search, Side};

impl Search<'_> {
    /// The first number on the paths from both to their roots, 0 when the roots differ.
    pub(super) fn common_ancestor(&mut self, mut u: usize, mut v: usize) -> usize {
        self.visit += 1;
        while u != 0 || v != 0 {
            if u != 0 {
                if self.visited[u] == self.visit {
                    return u;
                }
                self.visited[u] = self.visit;
                // Two edges up: to the mate, and to the node that reached the mate.
                u = self.top[self.mate[u]];
                if u != 0 {
                    u = self.top[self.parent[u]];
                }
            }
            core::mem::swap(&mut u, &mut v);
        }
        0
    }

    /// Makes one outer blossom of the circle through `u`, its ancestor and `v`.
    pub(super) fn close(&mut self, u: usize, ancestor: usize, v: usize) {
        let mut b = self.nodes + 1;
        while b <= self.known && self.top[b] != 0 {
            b += 1;
        }
        self.known = self.known.max(b);
        self.label[b] = 0.0;
        self.side[b] = Side::Outer;
        self.mate[b] = self.mate[ancestor];
        let mut circle = vec![ancestor as u32];
        self.climb(u, ancestor, &mut circle);
        // From the base the other way around, so that the path from `u` ends the circle and that from `v` continues it.
        circle[1..].reverse();
        self.climb(v, ancestor, &mut circle);
        self.children[b] = circle;
        self.set_top(b, b);
        self.adopt_edges(b);
        self.find_slack(b);
    }

    /// Appends the numbers from `x` up to its ancestor, and queues those that become outer.
    fn climb(&mut self, mut x: usize, ancestor: usize, circle: &mut Vec<u32>) {
        while x != ancestor {
            let y = self.top[self.mate[x]];
            circle.extend([x as u32, y as u32]);
            self.enqueue(y);
            x = self.top[self.parent[y]];
        }
    }

    /// Gives a new blossom the tightest edges of its children.
    ///
    /// An edge between two numbers is kept with the larger one, read from either side: it is the same edge, turned around.
    fn adopt_edges(&mut self, b: usize) {
        let own = b - self.nodes - 1;
        let mut edges = core::mem::take(&mut self.edges[own]);
        let mut missing = core::mem::take(&mut self.adopted);
        edges.clear();
        edges.resize(self.known + 1, Edge::default());
        missing.clear();
        missing.resize(self.known + 1, f64::INFINITY);
        for at in 0..self.children[b].len() {
            let child = self.children[b][at] as usize;
            for x in 1..=self.known {
                // Nobody asks for edges to a number that is not in use; those within the blossom matter again when it dissolves.
                if x == b || self.top[x] == 0 {
                    continue;
                }
                let edge = self.edge(child, x);
                let miss = self.missing_of(edge);
                // The first child's edges are taken as they are, and an edge that does not exist gives way to any.
                if at == 0 || self.weight(edges[x]) == 0.0 || miss < missing[x] {
                    (edges[x], missing[x]) = (edge, miss);
                }
            }
        }
        for (x, edge) in edges.iter().enumerate().skip(b + 1) {
            if self.top[x] != 0 {
                self.edges[x - self.nodes - 1][b] = Edge { from: edge.to, to: edge.from };
            }
        }
        (self.edges[own], self.adopted) = (edges, missing);
        self.write_holders(b);
    }

    /// Writes down the nodes of a new blossom, and which child holds each.
    fn write_holders(&mut self, b: usize) {
        let mut holders = core::mem::take(&mut self.holders[b - self.nodes - 1]);
        holders.resize(self.nodes + 1, 0);
        let mut open = core::mem::take(&mut self.scratch);
        for &child in &self.children[b] {
            open.push(child as usize);
            while let Some(x) = open.pop() {
                if x <= self.nodes {
                    holders[x] = child;
                } else {
                    open.extend(self.children[x].iter().map(|&c| c as usize));
                }
            }
        }
        self.scratch = open;
        let mut leaves = core::mem::take(&mut self.leaves[b - self.nodes - 1]);
        leaves.clear();
        leaves.extend((1..=self.nodes).filter(|node| self.top[*node] == b).map(|node| node as u32));
        self.leaves[b - self.nodes - 1] = leaves;
        self.holders[b - self.nodes - 1] = holders;
    }

    /// Writes down that everything in `x` is now in `top`.
    fn set_top(&mut self, x: usize, top: usize) {
        self.top[x] = top;
        if x <= self.nodes {
            return;
        }
        let mut open = core::mem::take(&mut self.scratch);
        open.push(x);
        while let Some(x) = open.pop() {
            self.top[x] = top;
            if x > self.nodes {
                open.extend(self.children[x].iter().map(|&c| c as usize));
            }
        }
        self.scratch = open;
    }

    /// The place of a child in its blossom; the circle is turned around where that makes the place even.
    fn even_place(&mut self, b: usize, child: usize) -> usize {
        let circle = &mut self.children[b];
        // Called with children only; the base would be the answer for a stranger, and no path would be wrong for it.
        let place = circle.iter().position(|&c| c as usize == child).unwrap_or(0);
        if place % 2 == 0 {
            return place;
        }
        circle[1..].reverse();
        circle.len() - place
    }

    /// Dissolves an inner blossom whose label fell to 0: the path through it stays in the tree, the rest becomes free.
    pub(super) fn dissolve(&mut self, b: usize) {
        for at in 0..self.children[b].len() {
            let child = self.children[b][at] as usize;
            self.set_top(child, child);
        }
        let entered = self.holder(b, self.edge(b, self.parent[b]).from);
        let place = self.even_place(b, entered);
        for at in (0..place).step_by(2) {
            let (inner, outer) = (self.children[b][at] as usize, self.children[b][at + 1] as usize);
            self.parent[inner] = self.edge(outer, inner).from as usize;
            (self.side[inner], self.side[outer]) = (Side::Inner, Side::Outer);
            self.clear_slack(inner);
            self.find_slack(outer);
            self.enqueue(outer);
        }
        self.side[entered] = Side::Inner;
        self.parent[entered] = self.parent[b];
        self.set_bound(entered);
        for at in place + 1..self.children[b].len() {
            let child = self.children[b][at] as usize;
            self.side[child] = Side::Free;
            self.find_slack(child);
        }
        self.top[b] = 0;
    }

    /// Swaps matched and unmatched edges on the path from `u` to its root, after matching it with `v`.
    pub(super) fn augment(&mut self, mut u: usize, mut v: usize) {
        loop {
            let old = self.top[self.mate[u]];
            self.match_pair(u, v);
            if old == 0 {
                return;
            }
            let above = self.top[self.parent[old]];
            self.match_pair(old, above);
            (u, v) = (above, old);
        }
    }

    /// Matches `u` with `v`, and inside a blossom the children around the one that is entered.
    fn match_pair(&mut self, u: usize, v: usize) {
        let mut open = vec![(u, v)];
        let mut at = 0;
        while let Some(&(u, v)) = open.get(at) {
            at += 1;
            let edge: Edge = self.edge(u, v);
            self.mate[u] = edge.to as usize;
            if u <= self.nodes {
                continue;
            }
            let entered = self.holder(u, edge.from);
            let place = self.even_place(u, entered);
            for i in 0..place {
                open.push((self.children[u][i] as usize, self.children[u][i ^ 1] as usize));
            }
            open.push((entered, v));
            self.children[u].rotate_left(place);
        }
    }
}
