//! The fabric in rows of hosts, leaves and spines, its links coloured by score.
//!
//! A small fabric is drawn whole. In a large one hosts become one bar per group and only the
//! worst links are drawn, with a note that says how many of how many. [`heat`] draws a fabric of any size by pods and
//! switches, and [`switch`] one switch with all its neighbours.

mod cells;
mod edges;
mod heat;
mod layout;
mod switch;

use alloc::{format, string::String, vec::Vec};

use edges::Edge;
pub use heat::{WIDTH_MAX, WIDTH_MIN, heat};
use layout::{Layout, Place};
pub use switch::switch;

use super::{
    palette::{SCORE_CLASSES, score_class},
    quantity,
    svg::{Path, Svg},
    text::{self, TITLE},
    view::{FabricView, JobView},
};

/// More switches than this, or more links than [`LINKS_WHOLE_MAX`], and only the worst are drawn.
const SWITCHES_WHOLE_MAX: usize = 60;
/// Most links (both directions of a cable count as one) drawn in full.
const LINKS_WHOLE_MAX: usize = 400;
/// Most cables drawn of a large fabric: more would be a carpet.
const WORST_MAX: usize = 64;
/// Jobs named when hovering over a link.
const JOBS_NAMED_MAX: usize = 8;
/// Links named when hovering over an edge that stands for several.
const LINKS_NAMED_MAX: usize = 6;

pub(super) const WIDTH: f64 = 960.0;

/// Draws the fabric. `jobs` are those of the whole report, for their names.
pub fn draw(fabric: &FabricView, jobs: &[JobView]) -> Svg {
    let Map { mut svg, whole, bottom } = map(fabric, jobs);
    let bottom = legend(&mut svg, fabric, whole, bottom + 34.0);
    svg.set_height(bottom);
    svg
}

/// As [`draw`], without the legend: a page has its own, because it colours a line anew when the jobs on it are let go or take turns.
#[must_use]
pub fn for_page(fabric: &FabricView, jobs: &[JobView]) -> Svg {
    let Map { mut svg, bottom, .. } = map(fabric, jobs);
    svg.set_height(bottom + 14.0);
    svg
}

/// A map down to its last row.
struct Map {
    svg: Svg,
    whole: bool,
    bottom: f64,
}

fn map(fabric: &FabricView, jobs: &[JobView]) -> Map {
    let edges = edges::fold(fabric);
    let switches = fabric.nodes.iter().filter(|n| n.tier > 0).count();
    let whole = switches <= SWITCHES_WHOLE_MAX && edges.len() <= LINKS_WHOLE_MAX;
    // Best first, so that the worst is drawn last, on top.
    let drawn: Vec<&Edge> = if whole {
        edges.iter().collect()
    } else {
        let scored: Vec<&Edge> = edges.iter().filter(|e| e.score.is_some()).collect();
        // Edges come best first, so the worst are at the end.
        scored[scored.len().saturating_sub(WORST_MAX)..].to_vec()
    };
    let layout = Layout::new(fabric, &edges, &drawn, whole);

    let hosts = fabric.nodes.len() - switches;
    let counts = format!("{}, {}", quantity::counted(hosts, "host", "hosts"), quantity::counted(switches, "switch", "switches"));
    let label = format!("Map of fabric {}: {counts}", text::isolated(&fabric.name));
    let mut svg = Svg::new(WIDTH, &label);
    let name = text::fit(&fabric.name, WIDTH - 40.0, TITLE);
    svg.text("t1", 20.0, 30.0, &name);
    svg.text("mu", 20.0, 50.0, &format!("{counts}, {}", note(fabric, &edges, &drawn, whole)));

    layout.draw_structure(&mut svg);
    svg.node("g", if whole { "links" } else { "links slim" }).open();
    for edge in &drawn {
        draw_edge(&mut svg, edge, fabric, jobs, &layout);
    }
    svg.close();
    layout.draw_nodes(&mut svg, fabric);
    Map { svg, whole, bottom: layout.bottom }
}

/// The note on how many of the links are drawn.
fn note(fabric: &FabricView, edges: &[Edge], drawn: &[&Edge], whole: bool) -> String {
    // An edge stands for all parallel links and both directions, so the note counts links and not lines.
    let is_shared = |link: &&usize| fabric.links.get(**link).is_some_and(|l| l.score.is_some());
    let shared = |edges: &mut dyn Iterator<Item = &Edge>| edges.map(|e| e.links.iter().filter(is_shared).count()).sum::<usize>();
    let all = quantity::counted(fabric.links.len(), "directed link", "directed links");
    if whole {
        return format!("{all}; {} of them shared by two or more jobs", quantity::count(shared(&mut edges.iter())));
    }
    let (drawn, shared) = (shared(&mut drawn.iter().copied()), shared(&mut edges.iter()));
    let rest = if drawn < shared { "worst first" } else { "all that two or more jobs share" };
    format!("{all}; {} of {} links drawn, {rest}", quantity::count(drawn), quantity::count(fabric.links.len()))
}

/// One cable: a curve from the lower to the upper node, with what it carries on hover.
fn draw_edge(svg: &mut Svg, edge: &Edge, fabric: &FabricView, jobs: &[JobView], layout: &Layout) {
    let (Some(low), Some(high)) = (layout.place(edge.low), layout.place(edge.high)) else { return };
    let path = curve(low, high);
    let Some(score) = edge.score else {
        // A host in a bar hangs from its leaf by the bar's fan.
        if !layout.in_bar(edge.low) {
            svg.path("edge faint", &path);
        }
        return;
    };
    let class = score_class(score);
    // A line stands for both directions and for parallel cables; a page opens the worst of them.
    match edge.links.first().and_then(|&worst| fabric.links.get(worst)).filter(|worst| !worst.id.is_empty()) {
        Some(worst) => svg.node("g", "link").s("data-link", &worst.id).open(),
        None => svg.node("g", "link").open(),
    }
    svg.title(&hover(edge, fabric, jobs));
    svg.path(&format!("edge s{class} w{class}"), &path);
    // The invisible wide line catches the pointer, because a thin one is hard to hover.
    svg.path("hit", &path);
    svg.close();
}

/// An S from row to row; between two nodes of one row an arch below them.
fn curve(low: Place, high: Place) -> Path {
    let mut path = Path::default();
    if (low.y - high.y).abs() < 1.0 {
        let y = low.y + low.half_height;
        // Links within a row dip deeper the farther apart their ends are, so that they do not lie on each other.
        let dip = 26.0 + (low.x - high.x).abs() / 40.0;
        path.move_to((low.x, y));
        path.curve_to((low.x, y + dip), (high.x, y + dip), (high.x, y));
        return path;
    }
    let (y1, y2) = (low.y - low.half_height, high.y + high.half_height);
    let bend = (y1 - y2) * 0.45;
    path.move_to((low.x, y1));
    path.curve_to((low.x, y1 - bend), (high.x, y2 + bend), (high.x, y2));
    path
}

/// `leaf3->spine1 score 0.830, bert-2 + vgg-7`, one line per directed link, worst first.
fn hover(edge: &Edge, fabric: &FabricView, jobs: &[JobView]) -> String {
    let name = |node: usize| fabric.nodes.get(node).map(|n| text::isolated(&n.name)).unwrap_or_default();
    let shared: Vec<_> = edge.links.iter().filter_map(|&l| fabric.links.get(l)).filter(|l| l.score.is_some()).collect();
    let mut lines: Vec<String> = Vec::new();
    for link in shared.iter().take(LINKS_NAMED_MAX) {
        let mut names: Vec<String> =
            link.jobs.iter().take(JOBS_NAMED_MAX).filter_map(|&j| jobs.get(j)).map(|j| text::isolated(&j.name)).collect();
        if link.jobs.len() > JOBS_NAMED_MAX {
            names.push(format!("{} more", link.jobs.len() - JOBS_NAMED_MAX));
        }
        let score = quantity::score(link.score.unwrap_or(f64::NAN));
        lines.push(format!("{}->{} score {score}, {}", name(link.from), name(link.to), names.join(" + ")));
    }
    if shared.len() > LINKS_NAMED_MAX {
        lines.push(format!("and {} more parallel links", shared.len() - LINKS_NAMED_MAX));
    }
    lines.join("\n")
}

/// The meaning of the colours and how many links have each; gives the picture's height.
fn legend(svg: &mut Svg, fabric: &FabricView, whole: bool, y: f64) -> f64 {
    let mut counts = [0_usize; SCORE_CLASSES.len()];
    for score in fabric.links.iter().filter_map(|l| l.score) {
        counts[score_class(score)] += 1;
    }
    svg.text("b", 20.0, y, "score");
    let mut x = 72.0;
    for (class, (_, range)) in SCORE_CLASSES.iter().enumerate().rev() {
        let mut path = Path::default();
        path.move_to((x, y - 4.0));
        path.line_to((x + 22.0, y - 4.0));
        svg.path(&format!("edge s{class} w{class}"), &path);
        let label = format!("{range}: {}", quantity::count(counts[class]));
        svg.text("", x + 30.0, y, &label);
        x += 30.0 + text::width(&label, 12.0) + 20.0;
    }
    let unshared = fabric.links.len() - counts.iter().sum::<usize>();
    let mut path = Path::default();
    path.move_to((x, y - 4.0));
    path.line_to((x + 22.0, y - 4.0));
    svg.path("edge faint", &path);
    let how = if whole { "" } else { ", not drawn" };
    svg.text("mu", x + 30.0, y, &format!("not shared: {}{how}", quantity::count(unshared)));
    y + 22.0
}
