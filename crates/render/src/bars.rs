//! A few quantities of one thing side by side, as bars of one scale.

use alloc::string::String;

use crate::{svg::Svg, text};

const WIDTH: f64 = 640.0;
/// Where bars begin, and the length of the longest.
const LEFT: f64 = 92.0;
const LENGTH: f64 = 420.0;
const PITCH: f64 = 22.0;
const HEIGHT: f64 = 16.0;
/// Between the end of a bar and what it says.
const GAP: f64 = 6.0;
/// How faint the first bar is; the last has the full colour.
const FAINTEST: f64 = 0.45;
/// Most bars: more are a table.
pub const BARS_MAX: usize = 12;

/// One bar.
#[derive(Clone, Debug, Default)]
pub struct BarView {
    /// What it is, in a word or two, to its left.
    pub name: String,
    /// Its length, in the unit of all others; what is not a number above 0 has no length.
    pub value: f64,
    /// The value as people read it, with its unit.
    pub said: String,
}

/// Draws the first [`BARS_MAX`] of `bars`, each stronger in colour than the one above it. `label` says what all of them show,
/// `class` fills with the colour, and `longest` is the value of a bar of full length, so that several pictures can be compared.
#[must_use]
pub fn draw(label: &str, class: &str, bars: &[BarView], longest: f64) -> Svg {
    let bars = &bars[..bars.len().min(BARS_MAX)];
    let mut svg = Svg::new(WIDTH, label);
    // NaN fails the comparison, and gets no length as negative values do.
    let share = |value: f64| if longest > 0.0 && value > 0.0 { (value / longest).min(1.0) } else { 0.0 };
    for (n, bar) in bars.iter().enumerate() {
        let (y, width) = (n as f64 * PITCH, LENGTH * share(bar.value));
        let strength = FAINTEST + (1.0 - FAINTEST) * n as f64 / (bars.len() - 1).max(1) as f64;
        svg.text("", 0.0, y + 13.0, &text::fit(&bar.name, LEFT - 8.0, 12.0));
        svg.rect(class, LEFT, y + 1.0, width, HEIGHT).n("rx", 2.0).n("opacity", strength).end();
        svg.text("", LEFT + width + GAP, y + 13.0, &text::name(&bar.said));
    }
    svg.set_height(bars.len() as f64 * PITCH);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_and_odd_values_have_no_length() {
        let bar = |name: &str, value| BarView { name: name.into(), value, said: format!("{value} ms") };
        let bars = [bar("alone", 50.0), bar("<held>", 100.0), bar("odd", f64::NAN), bar("less", -3.0)];
        let picture = draw("iterations of a", "j1", &bars, 100.0).fragment();
        let document = roxmltree::Document::parse(&picture).unwrap();
        let widths: Vec<&str> = document.descendants().filter_map(|n| n.attribute("opacity").and(n.attribute("width"))).collect();
        assert_eq!(widths, ["210", "420", "0", "0"]);
        assert!(picture.contains("&lt;held&gt;"));
        assert!(!draw("nothing", "j1", &[], 0.0).fragment().contains("<rect"));
    }
}
