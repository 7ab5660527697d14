//! Matching where nodes are of few kinds: nodes of one kind have equal weights, so all that counts is how many pairs of which kinds there are.
//!
//! The rules. The same nodes, but half as many of each kind, are matched first, and those by half as many, down to [`BASE`]. Of twice the
//! pairs of the half all but [`RELEASED`] of each sort are kept; what is left over is matched by the dense search, whose labels
//! then prove the whole. A kept pair is a copy of a pair that the search made of the same kinds: with the labels of that pair, in all blossoms
//! that hold both, no edge misses being covered and the copy is tight, so the labels prove the larger matching as they prove the smaller one.
//! That needs two things, which are checked: no blossom with a label holds one of the two nodes only, and an edge between a
//! node and its own copy is covered. Where the proof fails there is no answer, and the caller searches among all nodes.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use super::{Weights, dense::Search};

/// Nodes up to which all are searched.
const BASE: usize = 96;

/// Kept pairs of a sort that are matched anew, tried in this order: twice the best for a half misses the best by a few pairs of each sort.
const RELEASED: [usize; 2] = [2, 6];

/// Nodes of a kind without a partner that are matched anew; more of them are copies as well.
const LEFT_MAX: usize = 4;

/// How many pairs there are of two kinds, the smaller kind first.
type Pairs = BTreeMap<(usize, usize), usize>;

/// The partner of each node in a matching of maximum weight, for nodes of few kinds: `kind_of` each node, and by row and column the weight
/// between two kinds, of which 0 or less means no edge; only one of the two equal halves of the table is read. Earlier nodes of a kind are
/// matched first, and with earlier ones.
///
/// `None` where the kinds are too many for this to be worth it, or a proof was not found.
#[must_use]
pub fn max_weight_matching_of_kinds(kind_of: &[usize], table: &[f64], kinds: usize) -> Option<Vec<Option<u32>>> {
    matching_from(BASE, kind_of, table, kinds)
}

/// The same, by halves down to `base` nodes.
pub(super) fn matching_from(base: usize, kind_of: &[usize], table: &[f64], kinds: usize) -> Option<Vec<Option<u32>>> {
    let mut counts = vec![0_usize; kinds];
    for &kind in kind_of {
        *counts.get_mut(kind)? += 1;
    }
    if table.len() != kinds * kinds {
        return None;
    }
    Some(assign(kind_of, &pairs_of(base, &counts, &Table { weights: table, kinds })?, kinds))
}

/// Weights between kinds.
struct Table<'a> {
    weights: &'a [f64],
    kinds: usize,
}

impl Table<'_> {
    fn weight(&self, a: usize, b: usize) -> f64 {
        self.weights[a.min(b) * self.kinds + a.max(b)].max(0.0)
    }
}

/// The pairs of a matching of maximum weight.
fn pairs_of(base: usize, counts: &[usize], table: &Table<'_>) -> Option<Pairs> {
    let mut halvings = 0;
    while counts.iter().map(|count| count >> halvings).sum::<usize>() > base {
        halvings += 1;
    }
    let of_level = |level: u32| counts.iter().map(|count| count >> level).collect::<Vec<usize>>();
    let mut pairs = Part::solve(&of_level(halvings), table)?.pairs();
    for level in (1..halvings).rev() {
        pairs = doubled(&pairs);
        let (kept, rest) = release(&pairs, &of_level(level), RELEASED[0])?;
        pairs = join(kept.pairs, Part::solve(&rest, table)?.pairs());
    }
    if halvings == 0 {
        return Some(pairs);
    }
    pairs = doubled(&pairs);
    for released in RELEASED {
        let (kept, rest) = release(&pairs, counts, released)?;
        let part = Part::solve(&rest, table)?;
        if part.proves(&kept, table) {
            return Some(join(kept.pairs, part.pairs()));
        }
    }
    None
}

fn doubled(pairs: &Pairs) -> Pairs {
    pairs.iter().map(|(kinds, count)| (*kinds, count * 2)).collect()
}

fn join(mut all: Pairs, more: Pairs) -> Pairs {
    for (kinds, count) in more {
        *all.entry(kinds).or_default() += count;
    }
    all
}

/// What is not matched anew.
struct Kept {
    pairs: Pairs,
    /// Nodes without a partner, by kind.
    left: Vec<usize>,
}

/// Sets some of each sort of pairs free. Returns what is kept, and the nodes of each kind that are to be matched.
fn release(pairs: &Pairs, counts: &[usize], released: usize) -> Option<(Kept, Vec<usize>)> {
    let mut rest = counts.to_vec();
    let mut kept = Pairs::new();
    for (&(a, b), &count) in pairs {
        let keep = count.saturating_sub(released);
        for kind in [a, b] {
            rest[kind] = rest[kind].checked_sub(keep)?;
        }
        if keep > 0 {
            kept.insert((a, b), keep);
        }
    }
    // Of those that had no partner in the half, most have none now.
    let mut left = rest.clone();
    for (&(a, b), &count) in pairs {
        let freed = count.min(released);
        for kind in [a, b] {
            left[kind] = left[kind].checked_sub(freed)?;
        }
    }
    for (left, rest) in left.iter_mut().zip(&mut rest) {
        *left = left.saturating_sub(LEFT_MAX);
        *rest -= *left;
    }
    Some((Kept { pairs: kept, left }, rest))
}

/// Nodes that were searched, with the labels that prove what was found.
struct Part {
    kinds: Vec<usize>,
    mates: Vec<Option<u32>>,
    labels: Vec<f64>,
    /// By node: the blossoms with a label that hold it.
    blossoms: Vec<Vec<u32>>,
    /// By node: the sum of their labels.
    held: Vec<f64>,
}

impl Part {
    /// `None` for more nodes than the search takes.
    fn solve(counts: &[usize], table: &Table<'_>) -> Option<Self> {
        let kinds: Vec<usize> = counts.iter().enumerate().flat_map(|(kind, count)| core::iter::repeat_n(kind, *count)).collect();
        let mut weights = Weights::new(kinds.len());
        if weights.nodes() < kinds.len() {
            return None;
        }
        for (u, a) in kinds.iter().enumerate() {
            for (v, (weight, b)) in weights.row_mut(u).iter_mut().zip(&kinds).enumerate() {
                *weight = if u == v { 0.0 } else { table.weight(*a, *b) };
            }
        }
        let proof = Search::new(&weights).prove();
        let mut blossoms = vec![Vec::new(); kinds.len()];
        let mut held = vec![0.0; kinds.len()];
        for ((label, nodes), number) in proof.blossoms.iter().zip(0..) {
            for &node in nodes {
                blossoms[node].push(number);
                held[node] += label;
            }
        }
        Some(Self { kinds, mates: proof.mates, labels: proof.labels, blossoms, held })
    }

    fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        for (u, v) in self.matched() {
            *pairs.entry(self.sort(u, v)).or_default() += 1;
        }
        pairs
    }

    fn matched(&self) -> impl Iterator<Item = (usize, usize)> {
        self.mates.iter().enumerate().filter_map(|(u, mate)| mate.map(|v| (u, v as usize))).filter(|(u, v)| u < v)
    }

    fn sort(&self, u: usize, v: usize) -> (usize, usize) {
        (self.kinds[u].min(self.kinds[v]), self.kinds[u].max(self.kinds[v]))
    }

    /// Whether the labels hold for copies of what was searched, too.
    fn proves(&self, kept: &Kept, table: &Table<'_>) -> bool {
        let mut copied: Vec<(usize, usize)> = Vec::new();
        let mut lone: Vec<usize> = Vec::new();
        for (u, v) in self.matched() {
            if self.blossoms[u] == self.blossoms[v] && self.covers_copies(u, table) && self.covers_copies(v, table) {
                copied.push(self.sort(u, v));
            }
        }
        for (u, mate) in self.mates.iter().enumerate() {
            // A node without a partner has no label, and in a blossom a copy would be one too many.
            if mate.is_none() && self.blossoms[u].is_empty() && self.covers_copies(u, table) {
                lone.push(self.kinds[u]);
            }
        }
        kept.pairs.keys().all(|pair| copied.contains(pair))
            && kept.left.iter().enumerate().all(|(kind, left)| *left == 0 || lone.contains(&kind))
    }

    /// Whether an edge between a node and its copy is covered by their labels.
    fn covers_copies(&self, u: usize, table: &Table<'_>) -> bool {
        let kind = self.kinds[u];
        self.labels[u] * 2.0 + self.held[u] >= table.weight(kind, kind) * 2.0
    }
}

/// Gives the pairs to nodes: earlier nodes first, each with the earliest partner of those kinds that it is to be matched with.
fn assign(kind_of: &[usize], pairs: &Pairs, kinds: usize) -> Vec<Option<u32>> {
    let mut of_kind: Vec<Vec<usize>> = vec![Vec::new(); kinds];
    // The earliest last, so that it is taken from the end.
    kind_of.iter().enumerate().rev().for_each(|(node, kind)| of_kind[*kind].push(node));
    let mut wanted: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); kinds];
    for (&(a, b), &count) in pairs {
        wanted[a].insert(b, count);
        wanted[b].insert(a, count);
    }
    let mut mates: Vec<Option<u32>> = vec![None; kind_of.len()];
    for (u, &kind) in kind_of.iter().enumerate() {
        // Whoever was matched before stands no longer at the end of its kind.
        if of_kind[kind].last() != Some(&u) {
            continue;
        }
        of_kind[kind].pop();
        let next = |other: usize| of_kind[other].last().copied();
        let partner = wanted[kind].keys().filter_map(|other| next(*other).map(|node| (node, *other))).min();
        let Some((v, other)) = partner else { continue };
        of_kind[other].pop();
        (mates[u], mates[v]) = (Some(v as u32), Some(u as u32));
        count_down(&mut wanted[kind], other);
        if other != kind {
            count_down(&mut wanted[other], kind);
        }
    }
    mates
}

fn count_down(wanted: &mut BTreeMap<usize, usize>, kind: usize) {
    if let Some(count) = wanted.get_mut(&kind) {
        *count -= 1;
        if *count == 0 {
            wanted.remove(&kind);
        }
    }
}
