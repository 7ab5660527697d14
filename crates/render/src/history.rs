//! What the fabric was like in the last hour or day: scores, iterations, marks and waits, one below the other on one axis of time.

use alloc::{borrow::ToOwned as _, format, string::String};

use crate::{
    fabric_map::{WIDTH_MAX, WIDTH_MIN},
    quantity,
    svg::{Path, Svg},
};

/// Samples further apart than this many usual steps have a gap between them: nobody was there to look.
const GAP_STEPS: u64 = 3;
const MARGIN: f64 = 12.0;
const LEFT: f64 = 46.0;
const PLOT: f64 = 84.0;
const PANEL: f64 = PLOT + 68.0;
/// From this width on two panels stand beside each other.
const WIDE: f64 = 720.0;
/// Least room between two marks of the axis of time.
const MARK: f64 = 90.0;

/// The state at one time; what was not known is absent, which is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleView {
    /// Seconds before the end of the picture.
    pub ago_s: u64,
    /// Mean and worst score of links that jobs share.
    pub mean_score: Option<f64>,
    /// The worst of them.
    pub worst_score: Option<f64>,
    /// Mean over jobs of an iteration as measured over one alone.
    pub iteration: Option<f64>,
    /// ECN marks that all ports received, a second.
    pub marks: Option<f64>,
    /// CNPs that all ports sent, a second.
    pub cnps: Option<f64>,
    /// Mean over jobs of the share of time that they wait for turns.
    pub waits: Option<f64>,
}

/// One value of a sample, with its name and colour.
type Line = (&'static str, &'static str, fn(&SampleView) -> Option<f64>);

/// One panel: what it shows, its lines, and the least scale.
struct Panel {
    title: &'static str,
    lines: &'static [Line],
    /// Ends of the scale where no value is beyond.
    scale: (f64, f64),
    /// How values are written.
    write: fn(f64) -> String,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "score of shared links",
        lines: &[("mean", "j1", |s| s.mean_score), ("worst", "j2", |s| s.worst_score)],
        scale: (0.9, 1.0),
        write: |v| format!("{v:.2}"),
    },
    Panel {
        title: "iteration over one alone, as measured",
        lines: &[("mean over jobs", "j3", |s| s.iteration)],
        scale: (1.0, 1.1),
        write: |v| format!("{v:.2}"),
    },
    Panel {
        title: "marks and CNPs a second",
        lines: &[("ECN marks received", "j4", |s| s.marks), ("CNPs sent", "j5", |s| s.cnps)],
        scale: (0.0, 1.0),
        write: quantity::plain,
    },
    Panel {
        title: "share of time that jobs wait for turns",
        lines: &[("mean over jobs", "j6", |s| s.waits)],
        scale: (0.0, 0.1),
        write: quantity::percent,
    },
];

/// Draws samples, oldest first, of the last `span_s` seconds, for a window of this width; `step_s` is their usual distance.
#[must_use]
pub fn draw(samples: &[SampleView], span_s: u64, step_s: u64, width: f64) -> Svg {
    let width = if width.is_finite() { width.clamp(WIDTH_MIN, WIDTH_MAX) } else { WIDTH_MIN };
    let (span_s, step_s) = (span_s.max(1), step_s.max(1));
    let mut svg = Svg::new(width, &format!("Scores, iterations, marks and waits of the last {}", spoken(span_s)));
    let columns = if width >= WIDE { 2 } else { 1 };
    let wide = (width - 2.0 * MARGIN) / columns as f64;
    for (at, panel) in PANELS.iter().enumerate() {
        let (column, row) = (at % columns, at / columns);
        let place = (MARGIN + column as f64 * wide, 8.0 + row as f64 * PANEL, wide - if columns > 1 { MARGIN } else { 0.0 });
        panel.draw(&mut svg, samples, (span_s, step_s), place);
    }
    svg.set_height(8.0 + PANELS.len().div_ceil(columns) as f64 * PANEL);
    svg
}

impl Panel {
    fn draw(&self, svg: &mut Svg, samples: &[SampleView], (span_s, step_s): (u64, u64), (left, top, wide): (f64, f64, f64)) {
        let values = || samples.iter().flat_map(|s| self.lines.iter().filter_map(move |(_, _, of)| of(s))).filter(|v| v.is_finite());
        let (low, high) = values().fold(self.scale, |(low, high), value| (low.min(value), high.max(value)));
        let (from, to) = (left + LEFT, left + wide - 6.0);
        let (above, below) = (top + 26.0, top + 26.0 + PLOT);
        let x = |ago: u64| to - (to - from) * (ago.min(span_s) as f64 / span_s as f64);
        let y = |value: f64| below - PLOT * ((value - low) / (high - low).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        svg.text("b", left, top + 12.0, self.title);
        for value in [low, f64::midpoint(low, high), high] {
            svg.line("rule", (from, y(value)), (to, y(value)));
            svg.text("sm e mu", from - 5.0, y(value) + 4.0, &(self.write)(value));
        }
        self.times(svg, span_s, (from, to, below));
        let mut name_at = from;
        for (name, class, of) in self.lines {
            let mut path = Path::default();
            let mut before: Option<u64> = None;
            for (ago, value) in samples.iter().filter_map(|s| Some((s.ago_s, of(s).filter(|v| v.is_finite())?))) {
                let to = (x(ago), y(value));
                match before {
                    Some(last) if last.saturating_sub(ago) <= GAP_STEPS * step_s => path.line_to(to),
                    // A point alone is still seen: a line of no length with round ends.
                    _ => {
                        path.move_to(to);
                        path.line_to((to.0 + 0.5, to.1));
                    }
                }
                before = Some(ago);
            }
            svg.path(&format!("curve {class}"), &path);
            if self.lines.len() > 1 {
                svg.rect(class, name_at, below + 20.0, 10.0, 10.0).n("rx", 2.0).end();
                svg.text("sm", name_at + 15.0, below + 29.0, name);
                name_at += 30.0 + crate::text::width(name, 10.5);
            }
        }
        if values().next().is_none() {
            svg.text("sm m mu", f64::midpoint(from, to), f64::midpoint(above, below) + 4.0, "nothing was known");
        }
    }

    /// Marks of time: as many as have room.
    fn times(&self, svg: &mut Svg, span_s: u64, (from, to, below): (f64, f64, f64)) {
        // All of these divide an hour and a day.
        let parts = [6_u64, 4, 3, 2].into_iter().find(|parts| (to - from) / *parts as f64 >= MARK).unwrap_or(1);
        for part in 0..=parts {
            let ago = span_s - span_s * part / parts;
            let place = from + (to - from) * part as f64 / parts as f64;
            let class = match part {
                0 => "sm mu",
                p if p == parts => "sm e mu",
                _ => "sm m mu",
            };
            let label = if ago == 0 { "now".to_owned() } else { format!("−{}", spoken(ago)) };
            svg.text(class, place, below + 14.0, &label);
        }
    }
}

/// A time as people say it: in hours where it is whole hours, else in minutes.
fn spoken(seconds: u64) -> String {
    match seconds {
        s if s >= 3_600 && s.is_multiple_of(3_600) => format!("{} h", s / 3_600),
        s => format!("{} min", s / 60),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn drawn(samples: &[SampleView], width: f64) -> String {
        let picture = draw(samples, 3_600, 60, width).document();
        roxmltree::Document::parse(&picture).unwrap();
        assert!(!picture.contains("NaN") && !picture.contains("inf\""));
        picture
    }

    #[test]
    fn what_was_not_known_is_a_gap_and_no_zero() {
        let at = |minutes: u64, mean_score| SampleView { ago_s: minutes * 60, mean_score, ..SampleView::default() };
        // Ten minutes of samples, then five of silence, then five more: two pieces.
        let samples: Vec<SampleView> = (0..20).rev().filter(|m| !(5..10).contains(m)).map(|m| at(m, Some(0.95))).collect();
        let picture = drawn(&samples, 400.0);
        let document = roxmltree::Document::parse(&picture).unwrap();
        let curve = document.descendants().find(|n| n.attribute("class") == Some("curve j1")).unwrap();
        assert_eq!(curve.attribute("d").unwrap().matches('M').count(), 2);
        assert_eq!(picture.matches("nothing was known").count(), 3, "the other three panels");
        assert!(picture.contains("−1 h") && picture.contains("−40 min") && picture.contains(">now<"));
    }

    #[test]
    fn scales_grow_with_what_is_beyond() {
        let sample = SampleView { worst_score: Some(0.5), marks: Some(4_000.0), waits: Some(f64::NAN), ..SampleView::default() };
        let picture = drawn(&[sample], 1_400.0);
        assert!(picture.contains(">0.50<") && picture.contains(">4000<"), "{picture}");
        assert!(drawn(&[], f64::NAN).contains("width=\"300\""));
        // A day is in hours.
        assert!(draw(&[], 86_400, 60, 400.0).document().contains("−24 h"));
    }
}
