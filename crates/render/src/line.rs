//! Values over a count, as lines between points: learning curves.

use alloc::{format, string::String, vec::Vec};

use crate::{
    axis,
    svg::{Path, Svg},
    text,
};

const WIDTH: f64 = 640.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const PLOT: f64 = 180.0;
/// Room below the plot for its scale, and for the names.
const SCALE: f64 = 34.0;
const LINE: f64 = 18.0;
/// Most parts of each scale.
const PARTS_MAX: u32 = 5;
/// Most lines: as many as there are plain colours.
pub const LINES_MAX: usize = 8;
/// Most points of a line: as many as there are columns to draw them in.
pub const POINTS_MAX: usize = 580;

/// One line.
#[derive(Clone, Debug, Default)]
pub struct LineView {
    /// What it is, in a few words.
    pub name: String,
    /// Counts and values, in the order in which they are joined; those that are no numbers are left out.
    pub points: Vec<(f64, f64)>,
}

impl LineView {
    /// The points that are drawn: evenly spread ones where there are too many, the last among them.
    fn drawn(&self) -> Vec<(f64, f64)> {
        let finite: Vec<(f64, f64)> = self.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        let stride = finite.len().div_ceil(POINTS_MAX).max(1);
        finite.iter().rev().step_by(stride).rev().copied().collect()
    }
}

/// Draws the first [`LINES_MAX`] of `lines` from a count of 0 to the largest, and from `lowest` to `highest`; what lies beyond is cut. `label` says
/// what all of them show, `unit` what is counted.
#[must_use]
pub fn draw(label: &str, unit: &str, lines: &[LineView], (lowest, highest): (f64, f64)) -> Svg {
    let lines = &lines[..lines.len().min(LINES_MAX)];
    let drawn: Vec<Vec<(f64, f64)>> = lines.iter().map(LineView::drawn).collect();
    let width = WIDTH - LEFT - RIGHT;
    // A scale without a length would divide by nothing.
    let positive = |length: f64| if length > 0.0 { length } else { 1.0 };
    let until = positive(drawn.iter().flatten().map(|(x, _)| *x).fold(0.0, f64::max));
    let span = positive(highest - lowest);
    let x = |count: f64| LEFT + width * (count / until).clamp(0.0, 1.0);
    let y = |value: f64| TOP + PLOT * (1.0 - ((value - lowest) / span).clamp(0.0, 1.0));
    let mut svg = Svg::new(WIDTH, label);
    for (value, text) in axis::marks((lowest, highest), PARTS_MAX) {
        svg.line("rule", (LEFT, y(value)), (LEFT + width, y(value)));
        svg.text("sm e mu", LEFT - 6.0, y(value) + 4.0, &text);
    }
    for (count, text) in axis::marks((0.0, until), PARTS_MAX) {
        svg.text("sm m mu", x(count), TOP + PLOT + 14.0, &text);
    }
    svg.text("sm m mu", LEFT + width / 2.0, TOP + PLOT + 28.0, unit);
    for (n, (line, points)) in lines.iter().zip(&drawn).enumerate() {
        let mut path = Path::default();
        for (at, (count, value)) in points.iter().enumerate() {
            let to = (x(*count), y(*value));
            if at == 0 { path.move_to(to) } else { path.line_to(to) }
        }
        svg.path(&format!("curve j{}", n + 1), &path);
        let left = LEFT + width * n as f64 / lines.len() as f64;
        svg.rect(&format!("j{}", n + 1), left, TOP + PLOT + SCALE + 2.0, 12.0, 12.0).n("rx", 2.0).end();
        svg.text("", left + 18.0, TOP + PLOT + SCALE + 12.0, &text::fit(&line.name, width / lines.len() as f64 - 24.0, 12.0));
    }
    svg.set_height(TOP + PLOT + SCALE + LINE);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, points: &[(f64, f64)]) -> LineView {
        LineView { name: name.into(), points: points.to_vec() }
    }

    /// `UPDATE_EXPECT=1` writes the file; look at it then.
    #[test]
    fn a_learning_curve_is_drawn_as_it_was() {
        let lines =
            [line("learned <policy>", &[(0.0, 1.2), (0.0, 1.05), (10.0, 1.0), (20.0, 0.9)]), line("greedy", &[(0.0, 1.0), (20.0, 1.0)])];
        let picture = draw("completion time over the greedy rule's", "rounds", &lines, (0.9, 1.2)).document();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/samples/line.svg");
        if std::env::var_os("UPDATE_EXPECT").is_some_and(|value| !value.is_empty()) {
            std::fs::write(file, &picture).unwrap();
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), picture);
        let document = roxmltree::Document::parse(&picture).unwrap();
        let is_curve = |class: &str| class.starts_with("curve ");
        let curves = document.descendants().filter(|n| n.attribute("class").is_some_and(is_curve));
        let paths: Vec<&str> = curves.filter_map(|n| n.attribute("d")).collect();
        // 580 wide and 180 high: 1.05 is half way up, 1.0 a third.
        assert_eq!(paths, ["M50 10L50 100L340 130L630 190", "M50 130L630 130"]);
    }

    #[test]
    fn odd_values_draw_nothing_odd_and_many_points_draw_few() {
        let many: Vec<(f64, f64)> = (0..100_000).map(|at| (f64::from(at), f64::from(at % 7))).collect();
        let odd = [line("many", &many), line("odd", &[(f64::NAN, 1.0), (3.0, f64::INFINITY)]), line("none", &[])];
        let picture = draw("odd", "", &odd, (0.0, 0.0)).fragment();
        assert!(picture.len() < 20_000 && !picture.contains("NaN") && !picture.contains("inf"), "{}", picture.len());
        assert_eq!(line("", &many).drawn().last(), many.last());
    }
}
