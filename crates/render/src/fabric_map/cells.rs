//! A large fabric folded into cells: one for each switch, with the links that it has below and those to the tier above.

use alloc::{
    borrow::ToOwned as _,
    collections::BTreeMap,
    format,
    string::{String, ToString as _},
    vec,
    vec::Vec,
};

use crate::view::{FabricView, MapLinkView};

/// Links of one direction, folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// How many links these are, and how many of them two or more jobs share.
    pub links: usize,
    pub shared: usize,
    /// The worst score, and the position of the link that has it.
    pub worst: Option<(f64, usize)>,
    /// What jobs send on average as planned, and what was measured, over the capacity; of the links that are measured, where some are.
    pub planned: Option<f64>,
    pub measured: Option<f64>,
    /// How many links are measured.
    pub measured_links: usize,
    /// What switches observe, where some do.
    pub observed: Option<Observed>,
    /// The first link that carries a job at all: what opens where none is shared.
    pub used: Option<usize>,
}

/// What switches say of some links of one direction, those of hosts and all others, and what is planned on the same, over their capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observed {
    pub load: f64,
    pub planned: f64,
    pub links: usize,
}

impl Load {
    /// The link that a press opens.
    pub(super) fn opens(&self) -> Option<usize> {
        self.worst.map(|(_, link)| link).or(self.used)
    }
}

/// One switch with the links whose upper end is above it, and those to its hosts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    /// Position of the switch.
    pub node: usize,
    /// Its tier.
    pub tier: u8,
    /// How many hosts hang on it.
    pub hosts: usize,
    /// From the hosts up, and down to them.
    pub up: Load,
    pub down: Load,
}

/// Cells that hang together without the highest tier.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pod {
    /// What the names of its leaves begin with, or its number.
    pub name: String,
    /// Its leaves, then what is above them.
    pub cells: Vec<Cell>,
}

/// Sums over links of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    planned: f64,
    capacity: f64,
    /// The same of those of which somebody tells what they carry, and what that is.
    both: (f64, f64, f64),
    count: usize,
}

impl Sum {
    fn add(&mut self, link: &MapLinkView, carried: Option<f64>) {
        let capacity = link.capacity_mbps as f64;
        self.planned += link.planned * capacity;
        self.capacity += capacity;
        if let Some(carried) = carried {
            self.both = (self.both.0 + link.planned * capacity, self.both.1 + carried * capacity, self.both.2 + capacity);
            self.count += 1;
        }
    }

    fn into(self, load: &mut Load) {
        // A prediction beside a measurement is of the same links, or the two could not be compared.
        load.planned = if self.count > 0 { part(self.both.0, self.both.2) } else { part(self.planned, self.capacity) };
        load.measured = if self.count > 0 { part(self.both.1, self.both.2) } else { None };
        load.measured_links = self.count;
    }

    /// As what switches tell.
    fn observed(self) -> Option<Observed> {
        let (planned, carried, capacity) = self.both;
        Some(Observed { load: part(carried, capacity)?, planned: part(planned, capacity)?, links: self.count })
    }
}

/// A share of a capacity, where there is one.
fn part(sum: f64, capacity: f64) -> Option<f64> {
    (capacity > 0.0).then(|| sum / capacity)
}

/// Folds links into one [`Load`]. Of a switch with hosts only the links of hosts count for what is planned and measured: nothing else is
/// measured by an agent. What switches observe is of every link of which one tells.
pub(super) fn load<'a>(fabric: &FabricView, links: impl Iterator<Item = (usize, &'a MapLinkView)>) -> Load {
    let mut out = Load::default();
    let (mut hosts, mut all, mut switches) = (Sum::default(), Sum::default(), Sum::default());
    let mut has_hosts = false;
    for (at, link) in links {
        out.links += 1;
        let is_host = |node: usize| fabric.nodes.get(node).is_some_and(|n| n.tier == 0);
        if is_host(link.from) || is_host(link.to) {
            has_hosts = true;
            hosts.add(link, link.measured);
        }
        all.add(link, link.measured);
        switches.add(link, link.observed);
        if !link.jobs.is_empty() && out.used.is_none() {
            out.used = Some(at);
        }
        if let Some(score) = link.score {
            out.shared += 1;
            // What is not a number counts as worst, as everywhere.
            let rank = |score: f64| if score.is_nan() { f64::NEG_INFINITY } else { score };
            if out.worst.is_none_or(|(worst, _)| rank(score) < rank(worst)) {
                out.worst = Some((score, at));
            }
        }
    }
    if has_hosts { hosts } else { all }.into(&mut out);
    out.observed = switches.observed();
    out
}

/// The cell that a link belongs to, and whether it leads up: its lower switch.
fn place(fabric: &FabricView, link: &MapLinkView) -> Option<(usize, bool)> {
    let (from, to) = (fabric.nodes.get(link.from)?, fabric.nodes.get(link.to)?);
    match (from.tier, to.tier) {
        // Two hosts cabled to each other have no switch.
        (0, 0) => None,
        (0, _) => Some((link.to, true)),
        (_, 0) => Some((link.from, false)),
        (a, b) if (a, link.from) < (b, link.to) => Some((link.from, true)),
        _ => Some((link.to, false)),
    }
}

/// Folds the fabric into pods of cells. Every link between two nodes of which one is a switch is in exactly one cell.
pub(super) fn pods(fabric: &FabricView) -> Vec<Pod> {
    let mut ups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut downs: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut hosts: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, link) in fabric.links.iter().enumerate() {
        let Some((node, up)) = place(fabric, link) else { continue };
        if up && fabric.nodes[link.from].tier == 0 {
            *hosts.entry(node).or_default() += 1;
        }
        let side = if up { &mut ups } else { &mut downs };
        side.entry(node).or_default().push(at);
    }
    let none = Vec::new();
    let cell = |node: usize| {
        let of = |links: &[usize]| load(fabric, links.iter().map(|&at| (at, &fabric.links[at])));
        Cell {
            node,
            tier: fabric.nodes[node].tier,
            hosts: hosts.get(&node).copied().unwrap_or(0),
            up: of(ups.get(&node).unwrap_or(&none)),
            down: of(downs.get(&node).unwrap_or(&none)),
        }
    };
    let of_node = groups(fabric);
    let mut pods: BTreeMap<usize, Vec<Cell>> = BTreeMap::new();
    for node in (0..fabric.nodes.len()).filter(|n| ups.contains_key(n) || downs.contains_key(n)) {
        pods.entry(of_node[node]).or_default().push(cell(node));
    }
    let mut pods: Vec<Vec<Cell>> = pods.into_values().collect();
    // Where every pod would be one leaf, as in two tiers with hosts of one NIC, there are no pods: all leaves are one.
    if pods.iter().all(|cells| cells.len() == 1) {
        pods = vec![pods.into_iter().flatten().collect()];
    }
    let alone = pods.len() == 1;
    let named = |(at, mut cells): (usize, Vec<Cell>)| {
        cells.sort_by_key(|cell| (cell.tier, cell.node));
        let leaves = cells.iter().filter(|cell| cell.hosts > 0).map(|cell| fabric.nodes[cell.node].name.as_str());
        let name = if alone { String::new() } else { common(leaves).unwrap_or_else(|| format!("pod {}", at + 1)) };
        Pod { name, cells }
    };
    pods.into_iter().filter(|cells| !cells.is_empty()).enumerate().map(named).collect()
}

/// For each node the least node that it hangs together with when the highest tier is taken away.
fn groups(fabric: &FabricView) -> Vec<usize> {
    let top = fabric.nodes.iter().map(|node| node.tier).max().unwrap_or(0);
    let mut parent: Vec<usize> = (0..fabric.nodes.len()).collect();
    for link in &fabric.links {
        let (Some(a), Some(b)) = (fabric.nodes.get(link.from), fabric.nodes.get(link.to)) else { continue };
        if a.tier == top || b.tier == top {
            continue;
        }
        let (a, b) = (root(&mut parent, link.from), root(&mut parent, link.to));
        // The least node stays the root, so pods stand in the order of the document.
        parent[a.max(b)] = a.min(b);
    }
    (0..parent.len()).map(|node| root(&mut parent, node)).collect()
}

fn root(parent: &mut [usize], mut node: usize) -> usize {
    // Each step halves the path that is left, and a root is its own parent.
    while parent[node] != node {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    node
}

/// What all names begin with, without a last number or separator: `pod1` of `pod1-leaf1` and `pod1-leaf2`.
fn common<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<String> {
    let first = names.next()?;
    let mut length = first.len();
    for name in names {
        let same = first.char_indices().zip(name.chars()).find(|((_, a), b)| a != b).map_or(first.len().min(name.len()), |((at, _), _)| at);
        length = length.min(same);
    }
    let begin = first.get(..length)?;
    // A common part ends in the middle of a word: only what stands before a separator is a name.
    let end = begin.rfind(['-', '.', '_', '/', ' ', ':'])?;
    let name = begin[..end].trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// What of a switch's name tells it from others of its pod.
pub(super) fn short(name: &str, pod: &str) -> String {
    let rest = name.strip_prefix(pod).map(|rest| rest.trim_start_matches(['-', '.', '_', '/', ' ', ':']));
    match rest {
        Some(rest) if !pod.is_empty() && !rest.is_empty() => rest.to_string(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::NodeView;

    fn fabric(nodes: &[(&str, u8)], cables: &[(usize, usize)]) -> FabricView {
        let nodes = nodes.iter().map(|&(name, tier)| NodeView { name: name.into(), tier }).collect();
        let link = |from, to| MapLinkView { from, to, capacity_mbps: 100, ..MapLinkView::default() };
        let links = cables.iter().flat_map(|&(a, b)| [link(a, b), link(b, a)]).collect();
        FabricView { name: "f".into(), nodes, links }
    }

    #[test]
    fn pods_hang_together_below_the_highest_tier() {
        let nodes = [
            ("core1", 3),
            ("pod1-spine1", 2),
            ("pod1-leaf1", 1),
            ("pod1-leaf2", 1),
            ("pod2-spine1", 2),
            ("pod2-leaf1", 1),
            ("pod2-leaf2", 1),
            ("h1", 0),
            ("h2", 0),
        ];
        let cables = [(2, 1), (3, 1), (1, 0), (5, 4), (6, 4), (4, 0), (7, 2), (8, 5)];
        let found = pods(&fabric(&nodes, &cables));
        let names: Vec<(&str, Vec<&str>)> =
            found.iter().map(|pod| (pod.name.as_str(), pod.cells.iter().map(|cell| nodes[cell.node].0).collect())).collect();
        assert_eq!(
            names,
            [("pod1", vec!["pod1-leaf1", "pod1-leaf2", "pod1-spine1"]), ("pod2", vec!["pod2-leaf1", "pod2-leaf2", "pod2-spine1"])]
        );
        // Eight cables, sixteen links, each in one cell.
        let links: usize = found.iter().flat_map(|pod| &pod.cells).map(|cell| cell.up.links + cell.down.links).sum();
        assert_eq!((links, found[0].cells[0].hosts), (16, 1));
    }

    #[test]
    fn two_tiers_are_one_pod_and_rails_are_pods() {
        let two = fabric(&[("s", 2), ("leaf1", 1), ("leaf2", 1), ("h1", 0), ("h2", 0)], &[(1, 0), (2, 0), (3, 1), (4, 2)]);
        let found = pods(&two);
        assert_eq!((found.len(), found[0].cells.len(), found[0].name.as_str()), (1, 2, ""));
        let rails = [("s", 2), ("su1-rail1", 1), ("su1-rail2", 1), ("su2-rail1", 1), ("su2-rail2", 1), ("h1", 0), ("h2", 0)];
        let found = pods(&fabric(&rails, &[(1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (5, 2), (6, 3), (6, 4)]));
        assert_eq!(found.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["su1", "su2"]);
    }

    #[test]
    fn a_prediction_is_of_the_links_that_are_measured() {
        let mut view = fabric(&[("s", 2), ("leaf", 1), ("h1", 0), ("h2", 0)], &[(2, 1), (3, 1), (1, 0)]);
        // h1->leaf is planned at 0.2 and measured at 0.3, h2->leaf planned at 0.8 and not measured, leaf->s full and of no host.
        (view.links[0].planned, view.links[0].measured) = (0.2, Some(0.3));
        view.links[2].planned = 0.8;
        (view.links[4].planned, view.links[4].score) = (1.0, Some(0.7));
        let up = |view: &FabricView| pods(view)[0].cells[0].up.clone();
        let found = up(&view);
        assert_eq!((found.planned, found.measured, found.measured_links), (Some(0.2), Some(0.3), 1));
        assert_eq!((found.worst, found.shared, found.links), (Some((0.7, 4)), 1, 3));
        view.links[0].measured = None;
        assert_eq!((up(&view).planned, up(&view).measured), (Some(0.5), None));
    }

    #[test]
    fn what_switches_observe_is_of_every_link_of_which_one_tells() {
        let mut view = fabric(&[("s", 2), ("leaf", 1), ("h1", 0), ("h2", 0)], &[(2, 1), (3, 1), (1, 0)]);
        let up = |view: &FabricView| pods(view)[0].cells[0].up.clone();
        assert_eq!(up(&view).observed, None);
        // h1->leaf, of 100 Mbit/s, and leaf->s, of 300; h2->leaf is planned, and no switch tells of it.
        (view.links[0].planned, view.links[0].observed) = (0.2, Some(0.6));
        (view.links[4].planned, view.links[4].observed, view.links[4].capacity_mbps) = (0.4, Some(1.0), 300);
        view.links[2].planned = 1.0;
        let found = up(&view);
        let observed = found.observed.unwrap();
        assert!((observed.load - 0.9).abs() < 1e-9 && (observed.planned - 0.35).abs() < 1e-9 && observed.links == 2, "{observed:?}");
        // What is planned and measured is of hosts, as without switches.
        assert_eq!((found.planned, found.measured, found.measured_links), (Some(0.6), None, 0));
        assert_eq!(pods(&view)[0].cells[0].down.observed, None);
    }

    #[test]
    fn names_are_cut_at_separators() {
        assert_eq!(common(["pod1-leaf1", "pod1-leaf12"].into_iter()).as_deref(), Some("pod1"));
        assert_eq!(common(["leaf1", "leaf2"].into_iter()), None);
        assert_eq!(common(["été-1", "étage-2"].into_iter()), None);
        assert_eq!((short("pod1-leaf2", "pod1"), short("leaf2", "")), ("leaf2".to_owned(), "leaf2".to_owned()));
    }
}
