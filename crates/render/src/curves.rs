//! Distributions side by side: which share of something is at most so large.

use alloc::{format, string::String, vec::Vec};

use crate::{
    axis,
    svg::{Path, Svg},
    text,
};

const WIDTH: f64 = 640.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const PLOT: f64 = 220.0;
/// Room below the plot for its scale, and for each line of names.
const SCALE: f64 = 34.0;
const LINE: f64 = 18.0;
/// Names in a line.
const NAMES: usize = 3;
/// Most curves: as many as there are plain colours.
pub const CURVES_MAX: usize = 8;
/// Most parts of the horizontal scale.
const PARTS_MAX: u32 = 6;

/// One distribution.
#[derive(Clone, Debug, Default)]
pub struct CurveView {
    /// What it is of, in a few words.
    pub name: String,
    /// Its percentiles, ascending, from the 0th to the 100th; of as many as there are.
    pub percentiles: Vec<f64>,
}

/// Draws the first [`CURVES_MAX`] of `curves` from `from` to `to`; what lies beyond is cut. `label` says what all of them show, `unit` what the
/// horizontal scale counts.
#[must_use]
pub fn draw(label: &str, unit: &str, curves: &[CurveView], (from, to): (f64, f64)) -> Svg {
    let curves = &curves[..curves.len().min(CURVES_MAX)];
    let mut svg = Svg::new(WIDTH, label);
    let width = WIDTH - LEFT - RIGHT;
    // A scale without a length would divide by nothing.
    let span = if to > from { to - from } else { 1.0 };
    let x = |value: f64| LEFT + width * ((value - from) / span).clamp(0.0, 1.0);
    let y = |share: f64| TOP + PLOT * (1.0 - share.clamp(0.0, 1.0));
    for percent in [0_u32, 25, 50, 75, 100] {
        let at = y(f64::from(percent) / 100.0);
        svg.line("rule", (LEFT, at), (LEFT + width, at));
        svg.text("sm e mu", LEFT - 6.0, at + 4.0, &format!("{percent} %"));
    }
    for (value, text) in axis::marks((from, to), PARTS_MAX) {
        svg.line("rule", (x(value), TOP), (x(value), TOP + PLOT));
        // One at the edge ends there: beyond it a picture is cut.
        let class = if x(value) > LEFT + width - text::width(&text, 11.0) / 2.0 { "sm e mu" } else { "sm m mu" };
        svg.text(class, x(value), TOP + PLOT + 14.0, &text);
    }
    svg.text("sm m mu", LEFT + width / 2.0, TOP + PLOT + 28.0, unit);
    for (n, curve) in curves.iter().enumerate() {
        let mut path = Path::default();
        let last = (curve.percentiles.len() - usize::from(!curve.percentiles.is_empty())).max(1) as f64;
        for (at, value) in curve.percentiles.iter().enumerate() {
            let to = (x(*value), y(at as f64 / last));
            if at == 0 { path.move_to(to) } else { path.line_to(to) }
        }
        svg.path(&format!("curve j{}", n + 1), &path);
        let (column, row) = (n % NAMES, n / NAMES);
        let (left, top) = (LEFT + width * column as f64 / NAMES as f64, TOP + PLOT + SCALE + LINE * row as f64);
        svg.rect(&format!("j{}", n + 1), left, top + 2.0, 12.0, 12.0).n("rx", 2.0).end();
        svg.text("", left + 18.0, top + 12.0, &text::fit(&curve.name, width / NAMES as f64 - 24.0, 12.0));
    }
    svg.set_height(TOP + PLOT + SCALE + LINE * curves.len().div_ceil(NAMES) as f64);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_stay_within_the_plot_and_names_are_escaped() {
        let curve = |name: &str, percentiles: &[f64]| CurveView { name: name.into(), percentiles: percentiles.to_vec() };
        let curves = [curve("<free>", &[1.0, 1.5, 9.0]), curve("turns", &[1.0, f64::NAN, 1.1]), curve("none", &[])];
        let picture = draw("iterations", "iteration over iteration alone", &curves, (1.0, 2.0)).fragment();
        let document = roxmltree::Document::parse(&picture).unwrap();
        let paths: Vec<&str> = document.descendants().filter_map(|n| n.attribute("d")).collect();
        // Half of the first is at most 1.5, in the middle; 9 lies beyond the right edge, where it is cut.
        assert_eq!(paths[0], "M40 230L335 120L630 10");
        assert_eq!(paths.len(), 2, "a curve without values is not drawn");
        assert!(picture.contains("&lt;free&gt;"));
        assert!(draw("nothing", "", &[], (1.0, 1.0)).fragment().contains("<svg"));
    }
}
