//! Numbers that change from time to time, as steps along one axis of time.

use alloc::{format, string::String, vec::Vec};

use crate::{
    axis,
    svg::{Path, Svg},
    text,
};

const WIDTH: f64 = 640.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const PLOT: f64 = 160.0;
/// Room below the plot for its scale, and for the names.
const SCALE: f64 = 34.0;
const LINE: f64 = 18.0;
/// Most parts of each scale.
const PARTS_MAX: u32 = 5;
/// Columns of the plot: of all values in one the largest is drawn, so that a picture does not grow with its series.
const COLUMNS: usize = 580;
/// Most series: as many as there are plain colours.
pub const SERIES_MAX: usize = 8;

/// One number over time.
#[derive(Clone, Debug, Default)]
pub struct SeriesView {
    /// What it is, in a few words.
    pub name: String,
    /// From when on it has which value, in order of time.
    pub steps: Vec<(f64, f64)>,
}

/// Draws the first [`SERIES_MAX`] of `series` from 0 to `until`, `highest` at the top. `label` says what all of them show, `unit` what the axis of
/// time counts.
#[must_use]
pub fn draw(label: &str, unit: &str, series: &[SeriesView], until: f64, highest: f64) -> Svg {
    let series = &series[..series.len().min(SERIES_MAX)];
    let mut svg = Svg::new(WIDTH, label);
    let width = WIDTH - LEFT - RIGHT;
    // A scale without a length would divide by nothing.
    let positive = |length: f64| if length > 0.0 { length } else { 1.0 };
    let (until, highest) = (positive(until), positive(highest));
    for (value, text) in axis::marks((0.0, highest), PARTS_MAX) {
        let y = TOP + PLOT * (1.0 - value / highest);
        svg.line("rule", (LEFT, y), (LEFT + width, y));
        svg.text("sm e mu", LEFT - 6.0, y + 4.0, &text);
    }
    for (value, text) in axis::marks((0.0, until), PARTS_MAX) {
        svg.text("sm m mu", LEFT + width * value / until, TOP + PLOT + 14.0, &text);
    }
    svg.text("sm m mu", LEFT + width / 2.0, TOP + PLOT + 28.0, unit);
    for (n, one) in series.iter().enumerate() {
        let mut path = Path::default();
        for (column, value) in columns(&one.steps, until).into_iter().enumerate() {
            let x = LEFT + width * column as f64 / COLUMNS as f64;
            let y = TOP + PLOT * (1.0 - (value / highest).clamp(0.0, 1.0));
            if column == 0 { path.move_to((x, y)) } else { path.line_to((x, y)) }
        }
        svg.path(&format!("curve j{}", n + 1), &path);
        let left = LEFT + width * n as f64 / SERIES_MAX.min(series.len()) as f64;
        svg.rect(&format!("j{}", n + 1), left, TOP + PLOT + SCALE + 2.0, 12.0, 12.0).n("rx", 2.0).end();
        svg.text("", left + 18.0, TOP + PLOT + SCALE + 12.0, &text::fit(&one.name, width / series.len() as f64 - 24.0, 12.0));
    }
    svg.set_height(TOP + PLOT + SCALE + LINE);
    svg
}

/// The largest value in each column: that with which it begins, or one of those that follow in it.
fn columns(steps: &[(f64, f64)], until: f64) -> Vec<f64> {
    let mut largest = alloc::vec![0.0_f64; COLUMNS];
    for (at, &(from, value)) in steps.iter().enumerate() {
        let to = steps.get(at + 1).map_or(until, |next| next.0);
        // Casting keeps what lies before or beyond the plot, and what is no number, at its ends.
        let column = |time: f64| ((time / until * COLUMNS as f64) as usize).min(COLUMNS - 1);
        if to > from {
            largest[column(from)..=column(to.min(until))].iter_mut().for_each(|most| *most = most.max(value));
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_the_largest_value_of_its_time() {
        // Ten units of time over 580 columns: 58 each. Five from 0 to 1, nine for an instant, two from then on.
        let found = columns(&[(0.0, 5.0), (1.0, 9.0), (1.001, 2.0)], 10.0);
        assert_eq!((found[0], found[57], found[58], found[59], found[579]), (5.0, 5.0, 9.0, 2.0, 2.0));
        assert_eq!(columns(&[(3.0, 4.0), (3.0, 1.0)], 2.0)[0], 0.0, "beyond the plot");
    }

    #[test]
    fn a_picture_does_not_grow_with_its_series_and_odd_values_draw_nothing_odd() {
        let steps: Vec<(f64, f64)> = (0..100_000).map(|at| (f64::from(at), f64::from(at % 7))).collect();
        let one = |steps: &[(f64, f64)]| SeriesView { name: "<busy>".into(), steps: steps.to_vec() };
        let picture = draw("GPUs", "hours", &[one(&steps), one(&[(f64::NAN, f64::NAN)])], 100_000.0, 6.0).fragment();
        assert!(picture.len() < 40_000 && picture.contains("&lt;busy&gt;") && !picture.contains("NaN"), "{}", picture.len());
        roxmltree::Document::parse(&picture).unwrap();
        assert!(!draw("nothing", "hours", &[], 0.0, 0.0).fragment().contains("NaN"));
    }
}
