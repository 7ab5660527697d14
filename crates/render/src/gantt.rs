//! Who had what, from when to when: one row for each thing, a bar for each that had it.

use alloc::{format, string::String, vec::Vec};

use crate::{axis, palette, svg::Svg, text};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 10.0;
const ROW: f64 = 9.0;
const SCALE: f64 = 34.0;
/// Most parts of the scale of time.
const PARTS_MAX: u32 = 8;
/// Most rows.
pub const ROWS_MAX: usize = 64;
/// Most bars: of more the longest are drawn.
pub const BARS_MAX: usize = 6_000;
/// A bar that is narrower than this is drawn so wide, in pixels.
const NARROWEST: f64 = 0.4;

/// A row.
#[derive(Clone, Debug, Default)]
pub struct RowView {
    /// What it is of; a row without a name goes on with what is above it.
    pub name: String,
    /// Who had it: a number that chooses the colour, from when, and to when.
    pub bars: Vec<(usize, f64, f64)>,
}

/// Draws the first [`ROWS_MAX`] rows from 0 to `until`. `label` says what they show, `unit` what the axis of time counts.
#[must_use]
pub fn draw(label: &str, unit: &str, rows: &[RowView], until: f64) -> Svg {
    let rows = &rows[..rows.len().min(ROWS_MAX)];
    let mut svg = Svg::new(WIDTH, label);
    let width = WIDTH - LEFT - RIGHT;
    // A scale without a length would divide by nothing.
    let until = if until > 0.0 { until } else { 1.0 };
    let height = rows.len() as f64 * ROW;
    let goes_on = rows.iter().any(|row| row.name.is_empty());
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.name.is_empty()) {
        if goes_on && at > 0 {
            svg.line("rule", (0.0, at as f64 * ROW), (WIDTH - RIGHT, at as f64 * ROW));
        }
        svg.text("sm e mu", LEFT - 6.0, at as f64 * ROW + ROW - 1.0, &text::fit(&row.name, LEFT - 8.0, 10.5));
    }
    let mut bars: Vec<(usize, &(usize, f64, f64))> =
        rows.iter().enumerate().flat_map(|(at, row)| row.bars.iter().map(move |bar| (at, bar))).collect();
    if bars.len() > BARS_MAX {
        bars.sort_by(|a, b| (b.1.2 - b.1.1).total_cmp(&(a.1.2 - a.1.1)));
        bars.truncate(BARS_MAX);
    }
    for (row, &(who, from, to)) in bars {
        let x = |time: f64| LEFT + width * (time / until).clamp(0.0, 1.0);
        let class = format!("j{}", who % palette::SLOTS + 1);
        svg.rect(&class, x(from), row as f64 * ROW + 0.5, (x(to) - x(from)).max(NARROWEST), ROW - 1.0).end();
    }
    for (value, text) in axis::marks((0.0, until), PARTS_MAX) {
        let x = LEFT + width * value / until;
        svg.line("rule", (x, 0.0), (x, height));
        svg.text("sm m mu", x, height + 14.0, &text);
    }
    svg.text("sm m mu", LEFT + width / 2.0, height + 28.0, unit);
    svg.set_height(height + SCALE);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_where_their_times_are_and_the_longest_are_drawn() {
        let row = |bars: &[(usize, f64, f64)]| RowView { name: "h1 <0>".into(), bars: bars.to_vec() };
        let picture = draw("GPUs", "hours", &[row(&[(0, 0.0, 5.0), (30, 5.0, 9.0)]), row(&[])], 10.0).fragment();
        let document = roxmltree::Document::parse(&picture).unwrap();
        let widths: Vec<&str> = document.descendants().filter_map(|n| n.attribute("width").filter(|_| n.has_tag_name("rect"))).collect();
        // 780 pixels for ten hours.
        assert_eq!(widths, ["390", "312"]);
        assert!(picture.contains("&lt;0&gt;"));
        // A row without a name has none, and what has several rows is told from the next by a line: six of the scale, and one.
        let picture = draw("links", "hours", &[row(&[(0, 0.0, 5.0)]), RowView::default(), row(&[])], 10.0).fragment();
        assert!(!picture.contains("(unnamed)"), "{picture}");
        assert_eq!(picture.matches("<line").count(), 6 + 1);
        let many: Vec<(usize, f64, f64)> = (0..20_000).map(|at| (at, 0.0, at as f64)).collect();
        let picture = draw("GPUs", "hours", &[row(&many)], 20_000.0).fragment();
        assert_eq!(picture.matches("<rect").count(), BARS_MAX);
    }
}
