//! One switch with everything that it is cabled to: a row for each neighbour, what goes to the switch and what comes from it.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use super::{
    cells::{self, Load},
    heat::{WIDTH_MAX, WIDTH_MIN, direction, draw_half},
};
use crate::{
    quantity,
    svg::Svg,
    text::{self, TITLE},
    view::FabricView,
};

/// Most neighbours that are drawn, the worst first: more rows than this nobody reads.
const ROWS_MAX: usize = 512;
const MARGIN: f64 = 12.0;
const ROW: f64 = 22.0;
/// Least width of a column of rows.
const COLUMN: f64 = 330.0;
/// In a column: the widest name, and the room of a half with its percentages.
const NAME: f64 = 116.0;
const FONT: f64 = 11.0;

/// A neighbour with all its links.
struct Row {
    node: usize,
    cables: usize,
    /// From the neighbour to the switch, and back.
    to: Load,
    from: Load,
}

impl Row {
    /// Worst first: by score, then by how full.
    fn rank(&self) -> (i64, i64) {
        let score = [&self.to, &self.from].iter().filter_map(|load| load.worst).map(|(score, _)| score).fold(f64::INFINITY, f64::min);
        let full = [&self.to, &self.from].iter().filter_map(|load| load.planned).fold(0.0, f64::max);
        // Casts keep what is beyond an integer at its ends.
        ((score * 1e6) as i64, (-full * 1e6) as i64)
    }
}

/// Draws the switch of this name for a window of this width; none where the fabric has no such switch.
#[must_use]
pub fn switch(fabric: &FabricView, name: &str, width: f64) -> Option<Svg> {
    let at = fabric.nodes.iter().position(|node| node.name == name && node.tier > 0)?;
    let width = if width.is_finite() { width.clamp(WIDTH_MIN, WIDTH_MAX) } else { WIDTH_MIN };
    let mut links: BTreeMap<usize, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (n, link) in fabric.links.iter().enumerate() {
        if link.to == at && link.from != at {
            links.entry(link.from).or_default().0.push(n);
        } else if link.from == at && link.to != at {
            links.entry(link.to).or_default().1.push(n);
        }
    }
    let of = |links: &[usize]| cells::load(fabric, links.iter().map(|&n| (n, &fabric.links[n])));
    let row = |(&node, (to, from)): (&usize, &(Vec<usize>, Vec<usize>))| Row {
        node,
        cables: to.len().max(from.len()),
        to: of(to),
        from: of(from),
    };
    let mut rows: Vec<Row> = links.iter().map(row).collect();
    rows.sort_by_key(|row| (row.rank(), row.node));
    let tier = |row: &Row| fabric.nodes.get(row.node).map_or(0, |node| node.tier);
    let own = fabric.nodes[at].tier;
    let (hosts, switches): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| tier(row) == 0);

    let said = format!("{}, {}", quantity::counted(hosts.len(), "host", "hosts"), quantity::counted(switches.len(), "switch", "switches"));
    let mut svg = Svg::new(width, &format!("Switch {}: {said}", text::isolated(name)));
    svg.text("t1", MARGIN, 26.0, &text::fit(name, width - 2.0 * MARGIN, TITLE));
    svg.text("mu", MARGIN, 45.0, &text::fit(&format!("tier {own}; cabled to {said}"), width - 2.0 * MARGIN, 12.0));
    let mut y = 60.0;
    for (title, rows) in [("switches", &switches), ("hosts", &hosts)] {
        if !rows.is_empty() {
            y = block(&mut svg, fabric, title, rows, width, y);
        }
    }
    svg.set_height(y + 4.0);
    Some(svg)
}

/// Neighbours of one kind in as many columns as fit; gives the lower end.
fn block(svg: &mut Svg, fabric: &FabricView, title: &str, rows: &[&Row], width: f64, top: f64) -> f64 {
    let room = width - 2.0 * MARGIN;
    let columns = ((room / COLUMN) as usize).clamp(1, rows.len().max(1));
    let wide = (room / columns as f64).min(COLUMN * 1.4);
    let shown = &rows[..rows.len().min(ROWS_MAX)];
    let per = shown.len().div_ceil(columns);
    svg.text("b", MARGIN, top + 12.0, title);
    let head = top + 30.0;
    let half = (wide - NAME - 20.0) / 2.0;
    for (at, row) in shown.iter().enumerate() {
        let (column, line) = (at / per, at % per);
        let (x, y) = (MARGIN + column as f64 * wide, head + 8.0 + line as f64 * ROW);
        if line == 0 {
            svg.text("sm mu", x + NAME, head, "to the switch");
            svg.text("sm mu", x + NAME + half + 6.0, head, "from it");
        }
        draw_row(svg, fabric, row, (x, y), half);
    }
    let mut bottom = head + 12.0 + per as f64 * ROW;
    if rows.len() > ROWS_MAX {
        svg.text("mu", MARGIN, bottom + 8.0, &format!("and {} more, which score no worse", quantity::count(rows.len() - ROWS_MAX)));
        bottom += 20.0;
    }
    bottom + 8.0
}

fn draw_row(svg: &mut Svg, fabric: &FabricView, row: &Row, (x, y): (f64, f64), half: f64) {
    let name = fabric.nodes.get(row.node).map_or("", |node| node.name.as_str());
    let cables = if row.cables > 1 { format!(" ×{}", row.cables) } else { String::new() };
    let label = text::fit(name, NAME - 8.0 - text::width(&cables, FONT), FONT);
    svg.text("sm", x, y + 11.0, &format!("{label}{cables}"));
    for (n, (way, load)) in [("to the switch", &row.to), ("from the switch", &row.from)].into_iter().enumerate() {
        let left = x + NAME + n as f64 * (half + 6.0);
        let opens = load.opens().and_then(|at| fabric.links.get(at)).filter(|link| !link.id.is_empty());
        match opens {
            Some(link) => svg.node("g", "link cell").s("data-link", &link.id).open(),
            None => svg.node("g", "idle").open(),
        }
        svg.title(&format!("{}: {}", text::isolated(name), direction(fabric, way, load)));
        svg.rect("rim", left - 1.5, y - 2.5, half + 3.0, ROW - 3.0).n("rx", 3.0).end();
        draw_half(svg, load, (left, y - 1.0), (half - 34.0, ROW - 6.0));
        // The number that matters now: what is measured, or else observed, or else planned.
        let carried = load.measured.or(load.observed.map(|seen| seen.load));
        let (class, part) = if carried.is_some() { ("sm e", carried) } else { ("sm e mu", load.planned) };
        if let Some(part) = part.filter(|part| *part > 0.0) {
            svg.text(class, left + half, y + 10.0, &quantity::percent(part));
        }
        svg.close();
    }
}
