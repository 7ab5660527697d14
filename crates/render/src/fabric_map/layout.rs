//! Where nodes go: one row per tier, hosts at the bottom, children below their parents.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::{borrow::ToOwned as _, format, string::String, vec, vec::Vec};

use super::{WIDTH, edges::Edge};
use crate::{
    quantity,
    svg::{Path, Svg},
    text,
    view::FabricView,
};

const LEFT: f64 = 104.0;
const RIGHT: f64 = 944.0;
const TOP: f64 = 100.0;
const ROW_GAP: f64 = 132.0;
const BOX_MAX: f64 = 84.0;
const HALF_HEIGHT: f64 = 10.0;
const FONT: f64 = 10.5;
/// More hosts than this become one bar per group.
const HOSTS_WHOLE_MAX: usize = 64;
/// Nodes closer together than this are a band, not boxes.
const SPACING_MIN: f64 = 5.0;

/// The middle of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub x: f64,
    pub y: f64,
    pub half_width: f64,
    pub half_height: f64,
}

/// Hosts below the same leaves.
struct Group {
    parents: Vec<usize>,
    hosts: Vec<usize>,
    x: f64,
    half_width: f64,
}

/// One tier.
struct Row {
    tier: u8,
    y: f64,
    nodes: Vec<usize>,
    spacing: f64,
}

/// The finished layout.
pub(super) struct Layout {
    places: Vec<Option<Place>>,
    rows: Vec<Row>,
    groups: Vec<Group>,
    group_y: f64,
    group_spacing: f64,
    whole: bool,
    /// Ends of drawn shared links, worst first: they are labelled first.
    wanted: Vec<usize>,
    /// Lower end of the last row and its labels.
    pub bottom: f64,
}

/// Mean position of some nodes in millionths of the width, an integer so that rounding does not
/// order what is level; last when there are none.
fn barycentre(nodes: &[usize], position: &[f64]) -> u64 {
    let mean = nodes.iter().map(|&n| position[n]).sum::<f64>() / nodes.len().max(1) as f64;
    if nodes.is_empty() { u64::MAX } else { libm::round(mean * 1e6) as u64 }
}

impl Layout {
    /// Lays out every node of the fabric; `whole` says that all links are drawn.
    pub(super) fn new(fabric: &FabricView, edges: &[Edge], drawn: &[&Edge], whole: bool) -> Self {
        let count = fabric.nodes.len();
        let (mut above, mut below) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        // Links within a tier do not say what is above what.
        for edge in edges.iter().filter(|e| fabric.nodes[e.low].tier < fabric.nodes[e.high].tier) {
            above[edge.low].push(edge.high);
            below[edge.high].push(edge.low);
        }
        let mut tiers: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (node, view) in fabric.nodes.iter().enumerate() {
            tiers.entry(view.tier).or_default().push(node);
        }
        let hosts = tiers.remove(&0).unwrap_or_default();

        // Switches keep the order given, moved above the middle of what is below them.
        let mut position = vec![0.0; count];
        let mut lowest = true;
        for nodes in tiers.values_mut() {
            // One pass from the bottom to the top: each row stands above the mean of what is below it, as in layered graph drawing.
            if !lowest {
                nodes.sort_by_cached_key(|&node| (barycentre(&below[node], &position), node));
            }
            lowest = false;
            for (at, &node) in nodes.iter().enumerate() {
                position[node] = (at as f64 + 0.5) / nodes.len() as f64;
            }
        }

        let mut places = vec![None; count];
        let mut rows = Vec::new();
        let mut y = TOP;
        // The highest tier is at the top of the picture.
        for (tier, nodes) in tiers.into_iter().rev() {
            let spacing = (RIGHT - LEFT) / nodes.len() as f64;
            let half_width = ((spacing - 5.0).min(BOX_MAX) / 2.0).max(1.5);
            for &node in &nodes {
                places[node] = Some(Place { x: LEFT + (RIGHT - LEFT) * position[node], y, half_width, half_height: HALF_HEIGHT });
            }
            rows.push(Row { tier, y, nodes, spacing });
            y += ROW_GAP;
        }
        let mut wanted: Vec<usize> = Vec::new();
        // `drawn` is best first, so the reverse labels the ends of the worst links first.
        for edge in drawn.iter().rev().filter(|e| e.score.is_some()) {
            wanted.extend([edge.low, edge.high]);
        }
        let mut layout =
            Self { places, rows, groups: Vec::new(), group_y: y, group_spacing: 0.0, whole, wanted, bottom: y - ROW_GAP + 30.0 };
        if !hosts.is_empty() {
            layout.place_hosts(hosts, &above, &position);
            layout.bottom = y + 44.0;
        }
        layout
    }

    /// Hosts: boxes when there is room, else bars.
    fn place_hosts(&mut self, mut hosts: Vec<usize>, above: &[Vec<usize>], position: &[f64]) {
        hosts.sort_by_cached_key(|&host| (barycentre(&above[host], position), host));
        let y = self.group_y;
        if hosts.len() <= HOSTS_WHOLE_MAX {
            let spacing = (RIGHT - LEFT) / hosts.len() as f64;
            let half_width = (spacing - 4.0).min(BOX_MAX) / 2.0;
            for (at, &host) in hosts.iter().enumerate() {
                self.places[host] = Some(Place { x: LEFT + (at as f64 + 0.5) * spacing, y, half_width, half_height: HALF_HEIGHT });
            }
            self.rows.push(Row { tier: 0, y, nodes: hosts, spacing });
            return;
        }
        let mut groups: Vec<Group> = Vec::new();
        // Hosts below the same set of leaves are one group, however the leaves are ordered in their links.
        let mut index: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for host in hosts {
            let mut parents = above[host].clone();
            parents.sort_unstable();
            let at = *index.entry(parents.clone()).or_insert(groups.len());
            if at == groups.len() {
                groups.push(Group { parents, hosts: Vec::new(), x: 0.0, half_width: 0.0 });
            }
            groups[at].hosts.push(host);
        }
        // There are more than `HOSTS_WHOLE_MAX` hosts here, so there is a group to divide by.
        let spacing = (RIGHT - LEFT) / groups.len() as f64;
        for (at, group) in groups.iter_mut().enumerate() {
            group.x = LEFT + (at as f64 + 0.5) * spacing;
            group.half_width = ((spacing * 0.82).min(BOX_MAX) / 2.0).max(0.5);
            for (n, &host) in group.hosts.iter().enumerate() {
                let along = (n as f64 + 0.5) / group.hosts.len() as f64 * 2.0 - 1.0;
                // A host in a bar has a place without a width, at which its links end and by which `in_bar` knows it.
                self.places[host] = Some(Place { x: group.x + along * group.half_width, y, half_width: 0.0, half_height: HALF_HEIGHT });
            }
        }
        self.groups = groups;
        self.group_spacing = spacing;
    }

    /// Where a node is.
    pub(super) fn place(&self, node: usize) -> Option<Place> {
        self.places.get(node).copied().flatten()
    }

    /// Whether the node is a host that a bar stands for.
    pub(super) fn in_bar(&self, node: usize) -> bool {
        !self.groups.is_empty() && self.place(node).is_some_and(|p| p.half_width == 0.0)
    }

    /// The faint background: a fan from each leaf to the bar of its hosts.
    pub(super) fn draw_structure(&self, svg: &mut Svg) {
        if self.group_spacing < SPACING_MIN {
            return;
        }
        let mut path = Path::default();
        // Two fans show that a group has several leaves; eight on each other would be a blot.
        for (group, parent) in self.groups.iter().flat_map(|g| g.parents.iter().take(2).map(move |&p| (g, p))) {
            let Some(leaf) = self.place(parent) else { continue };
            let y = self.group_y - HALF_HEIGHT;
            path.move_to((leaf.x - 1.0, leaf.y + leaf.half_height));
            path.line_to((leaf.x + 1.0, leaf.y + leaf.half_height));
            path.line_to((group.x + group.half_width, y));
            path.line_to((group.x - group.half_width, y));
            path.close();
        }
        svg.path("fan", &path);
    }

    /// Boxes, bars and labels, above the links.
    pub(super) fn draw_nodes(&self, svg: &mut Svg, fabric: &FabricView) {
        let wanted: BTreeSet<usize> = self.wanted.iter().copied().collect();
        for row in &self.rows {
            row_name(svg, row.tier, row.nodes.len(), row.y);
            if row.spacing < SPACING_MIN {
                svg.rect("bar", LEFT, row.y - 3.0, RIGHT - LEFT, 6.0).n("rx", 3.0).end();
            }
            for &node in &row.nodes {
                let Some(place) = self.place(node) else { continue };
                if row.spacing >= SPACING_MIN || wanted.contains(&node) {
                    let half_height = place.half_height;
                    svg.rect("node", place.x - place.half_width, place.y - half_height, 2.0 * place.half_width, 2.0 * half_height)
                        .n("rx", 3.0_f64.min(place.half_width))
                        .titled(&text::name(&fabric.nodes[node].name));
                }
            }
            self.label_row(svg, fabric, row);
        }
        if !self.groups.is_empty() {
            self.draw_groups(svg, fabric);
        }
    }

    /// Bars of hosts with their counts; one bar for all when they are too many.
    fn draw_groups(&self, svg: &mut Svg, fabric: &FabricView) {
        let hosts = self.groups.iter().map(|g| g.hosts.len()).sum();
        let y = self.group_y;
        row_name(svg, 0, hosts, y);
        if self.group_spacing < SPACING_MIN {
            svg.rect("bar", LEFT, y - HALF_HEIGHT, RIGHT - LEFT, 2.0 * HALF_HEIGHT).n("rx", 3.0).end();
            let largest = self.groups.iter().map(|g| g.hosts.len()).max().unwrap_or(0);
            let line = format!(
                "{}, up to {} each",
                quantity::counted(self.groups.len(), "group", "groups of hosts"),
                quantity::counted(largest, "host", "hosts")
            );
            svg.text("sm m mu", f64::midpoint(LEFT, RIGHT), y + HALF_HEIGHT + 14.0, &line);
            return;
        }
        let largest = self.groups.iter().map(|g| g.hosts.len()).max().unwrap_or(1) as f64;
        let mut free_from = f64::MIN;
        for group in &self.groups {
            // The bar's height is the number of its hosts.
            let height = (2.0 * HALF_HEIGHT * group.hosts.len() as f64 / largest).max(3.0);
            let names: Vec<String> =
                [group.hosts.first(), group.hosts.last()].into_iter().flatten().map(|&h| text::name(&fabric.nodes[h].name)).collect();
            svg.rect("node", group.x - group.half_width, y - HALF_HEIGHT, 2.0 * group.half_width, height).titled(&format!(
                "{}: {}",
                quantity::counted(group.hosts.len(), "host", "hosts"),
                names.join(" … ")
            ));
            let label = quantity::count(group.hosts.len());
            let half = text::width(&label, FONT) / 2.0;
            if group.x - half > free_from {
                svg.text("sm m mu", group.x, y + HALF_HEIGHT + 14.0, &label);
                free_from = group.x + half + 3.0;
            }
        }
    }

    /// Labels of a row: inside the boxes when all fit, else beside them in two lanes, those of the
    /// worst links first; one that would touch another is left to the hover.
    fn label_row(&self, svg: &mut Svg, fabric: &FabricView, row: &Row) {
        let inside = 2.0 * self.place(row.nodes[0]).map_or(0.0, |p| p.half_width) - 6.0;
        // Labels are inside for all nodes of a row or for none: a mixture would look like a difference in kind.
        let fit = |names: &[String]| names.iter().all(|name| text::width(name, FONT) <= inside);
        let mut names: Vec<String> = row.nodes.iter().map(|&n| text::name(&fabric.nodes[n].name)).collect();
        if !fit(&names) {
            // The hover has the whole name.
            names = text::apart(&row.nodes.iter().map(|&n| fabric.nodes[n].name.clone()).collect::<Vec<_>>())
                .iter()
                .map(|n| text::name(n))
                .collect();
        }
        if fit(&names) {
            for (&node, name) in row.nodes.iter().zip(&names) {
                if let Some(place) = self.place(node) {
                    svg.text("sm m", place.x, place.y + 4.0, name);
                }
            }
            return;
        }
        let names: BTreeMap<usize, String> = row.nodes.iter().copied().zip(names).collect();
        let wanted = self.wanted.iter().copied().filter(|n| names.contains_key(n));
        let mut lanes: [Vec<(f64, f64)>; 2] = [Vec::new(), Vec::new()];
        let mut done = BTreeSet::new();
        // Hosts have free space below; switches have links on both sides, fewer above.
        let below = row.tier == 0;
        // Where only the worst links are drawn, other names are noise.
        let others = row.nodes.iter().copied().filter(|_| self.whole);
        for node in wanted.chain(others) {
            let Some(place) = self.place(node).filter(|_| done.insert(node)) else { continue };
            let label = text::fit(names.get(&node).map_or("", |name| name), 110.0, FONT);
            let half = text::width(&label, FONT) / 2.0 + 3.0;
            let (from, to) = (place.x - half, place.x + half);
            // A label that leaves the picture would be cut by the viewer.
            if from < LEFT - 20.0 || to > WIDTH - 2.0 {
                continue;
            }
            // The label takes the first lane without another one at that place; a label without a lane is left to the hover.
            let free = lanes.iter().position(|lane| lane.iter().all(|&(a, b)| to <= a || b <= from));
            if let Some(lane) = free {
                lanes[lane].push((from, to));
                let away = place.half_height + 5.0 + 12.0 * lane as f64;
                svg.text("sm m halo", place.x, if below { place.y + away + 9.0 } else { place.y - away }, &label);
            }
        }
    }
}

fn row_name(svg: &mut Svg, tier: u8, count: usize, y: f64) {
    let name = match tier {
        0 => "hosts".to_owned(),
        1 => "leaves".to_owned(),
        2 => "spines".to_owned(),
        3 => "cores".to_owned(),
        tier => format!("tier {tier}"),
    };
    svg.text("b", 20.0, y, &name);
    svg.text("sm mu", 20.0, y + 14.0, &quantity::count(count));
}
