//! The fabric as pods of switches: a cell for each, coloured by its worst links up and down, with what was planned beside what is measured.

use alloc::{format, string::String, vec::Vec};

use super::cells::{self, Cell, Load, Pod};
use crate::{palette::score_class, quantity, svg::Svg, text, view::FabricView};

/// Widths that can be asked for; a caller that names another gets the nearest. The least is a phone's.
pub const WIDTH_MIN: f64 = 300.0;
/// The widest screen that anybody has; beyond it the rows would be too long to read.
pub const WIDTH_MAX: f64 = 2_400.0;
/// A cell with a name in it, and one of a fabric with more than [`NAMED_MAX`] switches.
const NAMED: (f64, f64) = (54.0, 46.0);
const PLAIN: (f64, f64) = (24.0, 28.0);
/// Most switches with names in their cells: more would be pages of names.
const NAMED_MAX: usize = 240;
/// Between two pods that stand beside each other.
const ASIDE: f64 = 28.0;
/// Most cells: 10,000 hosts have a few hundred leaves. What is beyond is told in words.
const CELLS_MAX: usize = 6_000;
const GAP: f64 = 4.0;
/// How thick the upright line is of what switches observe.
const MARK: f64 = 2.0;
const MARGIN: f64 = 12.0;
const FONT: f64 = 10.5;
/// Room for names of pods beside their cells; in a narrow picture they stand above.
const POD: f64 = 92.0;
const NARROW: f64 = 560.0;

/// Draws the fabric for a window of this width.
#[must_use]
pub fn heat(fabric: &FabricView, width: f64) -> Svg {
    let width = if width.is_finite() { width.clamp(WIDTH_MIN, WIDTH_MAX) } else { WIDTH_MIN };
    let pods = cells::pods(fabric);
    let count = pods.iter().map(|pod| pod.cells.len()).sum::<usize>();
    let hosts = fabric.nodes.iter().filter(|node| node.tier == 0).count();
    let said = format!(
        "{}, {}, {}",
        quantity::counted(hosts, "host", "hosts"),
        quantity::counted(fabric.nodes.len() - hosts, "switch", "switches"),
        quantity::counted(fabric.links.len(), "link", "links")
    );
    let mut svg = Svg::new(width, &format!("Fabric {} by pods and switches: {said}", text::isolated(&fabric.name)));
    svg.text("t1", MARGIN, 26.0, &text::fit(&fabric.name, width - 2.0 * MARGIN, text::TITLE));
    svg.text("mu", MARGIN, 45.0, &text::fit(&said, width - 2.0 * MARGIN, 12.0));
    let size = if count <= NAMED_MAX { NAMED } else { PLAIN };
    // Beside one pod without a name there is nothing to write.
    let beside = if width < NARROW || pods.iter().all(|pod| pod.name.is_empty()) { 0.0 } else { POD };
    let room = width - 2.0 * MARGIN;
    // Pods that are narrow enough stand beside each other.
    let leaves = pods.iter().map(|pod| pod.cells.iter().filter(|cell| cell.hosts > 0).count()).max().unwrap_or(0).max(1);
    let block = beside + leaves as f64 * (size.0 + GAP);
    let abreast = (((room + ASIDE) / (block + ASIDE)) as usize).max(1);
    let wide = (room + ASIDE) / abreast as f64 - ASIDE;
    let mut y = 58.0;
    let mut left = CELLS_MAX;
    for row in pods.chunks(abreast) {
        let mut bottom = y;
        for (column, pod) in row.iter().enumerate() {
            let shown = &pod.cells[..pod.cells.len().min(left)];
            left -= shown.len();
            let x = MARGIN + column as f64 * (wide + ASIDE);
            bottom = draw_pod(&mut svg, fabric, pod, shown, (x, x + beside, x + wide), size, y).max(bottom);
        }
        y = bottom + 8.0;
    }
    if count > CELLS_MAX {
        svg.text("mu", MARGIN, y + 14.0, &format!("and {} more", quantity::counted(count - CELLS_MAX, "switch", "switches")));
        y += 22.0;
    }
    svg.set_height(y + 6.0);
    svg
}

/// One pod, its leaves first; gives its lower end.
fn draw_pod(
    svg: &mut Svg,
    fabric: &FabricView,
    pod: &Pod,
    shown: &[Cell],
    (begin, from, to): (f64, f64, f64),
    (wide, high): (f64, f64),
    mut y: f64,
) -> f64 {
    if !pod.name.is_empty() && from > begin {
        svg.text("b", begin, y + high / 2.0 + 4.0, &text::fit(&pod.name, POD - 12.0, 12.0));
    } else if !pod.name.is_empty() {
        svg.text("b", from, y + 12.0, &text::fit(&pod.name, to - from, 12.0));
        y += 18.0;
    }
    // At least one cell in a row: the narrowest picture has room for several.
    let columns = (((to - from + GAP) / (wide + GAP)) as usize).max(1);
    // What is above the leaves begins a row of its own, so that a column is a kind of switch.
    let leaves: Vec<&Cell> = shown.iter().filter(|cell| cell.hosts > 0).collect();
    let above: Vec<&Cell> = shown.iter().filter(|cell| cell.hosts == 0).collect();
    for kind in [leaves, above] {
        for (at, cell) in kind.iter().enumerate() {
            let (column, row) = (at % columns, at / columns);
            draw_cell(svg, fabric, pod, cell, (from + column as f64 * (wide + GAP), y + row as f64 * (high + GAP)), (wide, high));
        }
        y += kind.len().div_ceil(columns) as f64 * (high + GAP);
    }
    y
}

/// A switch: its name, then a half for what goes up and one for what comes down.
fn draw_cell(svg: &mut Svg, fabric: &FabricView, pod: &Pod, cell: &Cell, (x, y): (f64, f64), (wide, high): (f64, f64)) {
    let name = fabric.nodes.get(cell.node).map_or("", |node| node.name.as_str());
    svg.node("g", "cell").s("data-switch", name).open();
    svg.title(&said(fabric, name, cell));
    let named = wide >= NAMED.0;
    let top = if named { 15.0 } else { 1.0 };
    svg.rect("rim", x - 1.5, y - 1.5, wide + 3.0, high + 3.0).n("rx", 4.0).end();
    if named {
        svg.text("sm", x + 1.0, y + 10.5, &text::fit(&cells::short(name, &pod.name), wide - 2.0, FONT));
    }
    let half = (high - top - 1.0) / 2.0;
    draw_half(svg, &cell.up, (x, y + top), (wide, half));
    draw_half(svg, &cell.down, (x, y + top + half + 1.0), (wide, half));
    svg.close();
}

/// One direction: the colour of its worst link, and in it how full it is, as planned, as measured and as switches observe it.
pub(super) fn draw_half(svg: &mut Svg, load: &Load, (x, y): (f64, f64), (wide, high): (f64, f64)) {
    let colour = match load.worst {
        None => "back".into(),
        // Most of a good fabric is at 1: it stays pale, so that the rest is seen.
        Some((score, _)) if score_class(score) == 0 => "s0 calm".into(),
        Some((score, _)) => format!("s{}", score_class(score)),
    };
    svg.rect(&colour, x, y, wide, high).n("rx", 2.0).end();
    // What is beyond the capacity fills the bar; a little is still seen.
    let long = |part: f64| (wide * part.min(1.0)).max(1.5);
    if let Some(planned) = load.planned.filter(|part| *part > 0.0) {
        svg.rect("ink fill", x, y, long(planned), high).n("rx", 2.0).end();
    }
    if let Some(measured) = load.measured.filter(|part| *part > 0.0) {
        let thick = (high * 0.3).clamp(3.0, 4.5);
        svg.rect("ink", x, y + high - thick, long(measured), thick).end();
    }
    if let Some(observed) = load.observed {
        // Upright, so that it is told from the bar of the hosts where both are.
        svg.rect("ink", x + (wide - MARK) * observed.load.clamp(0.0, 1.0), y, MARK, high).end();
    }
}

/// What the cell tells in words.
fn said(fabric: &FabricView, name: &str, cell: &Cell) -> String {
    let hosts = if cell.hosts > 0 { format!(", {}", quantity::counted(cell.hosts, "host", "hosts")) } else { String::new() };
    format!("{}{hosts}\n{}\n{}", text::isolated(name), direction(fabric, "up", &cell.up), direction(fabric, "down", &cell.down))
}

/// `up: worst score 0.831 (leaf1->spine1), 3 of 12 links shared; planned 34 %, measured 29 %`.
pub(super) fn direction(fabric: &FabricView, way: &str, load: &Load) -> String {
    let mut line = match load.worst {
        None => format!("{way}: {}, none shared", quantity::counted(load.links, "link", "links")),
        Some((score, at)) => {
            let node = |node: usize| fabric.nodes.get(node).map(|n| text::isolated(&n.name)).unwrap_or_default();
            let worst = fabric.links.get(at).map(|link| format!("{}->{}", node(link.from), node(link.to))).unwrap_or_default();
            format!("{way}: worst score {} ({worst}), {} of {} links shared", quantity::score(score), load.shared, load.links)
        }
    };
    if let Some(planned) = load.planned {
        line.push_str(&format!("; planned {}", quantity::percent(planned)));
    }
    if let Some(measured) = load.measured {
        line.push_str(&format!(", measured {}", quantity::percent(measured)));
    }
    if let Some(seen) = load.observed {
        let (load, planned) = (quantity::percent(seen.load), quantity::percent(seen.planned));
        line.push_str(&format!("; observed {load} on {}, planned there {planned}", quantity::counted(seen.links, "link", "links")));
    }
    line
}
