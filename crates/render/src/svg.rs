//! A small SVG writer: well-formed by construction, every text escaped, every number finite.

use alloc::{format, string::String, vec::Vec};
use core::fmt::Write as _;

use super::{style, text};

/// A coordinate with at most two decimals. What is not finite becomes 0: a picture with a mark
/// out of place is better than a file that no viewer opens.
fn number(value: f64) -> f64 {
    // Adding 0 turns a negative zero into a plain one.
    if value.is_finite() { libm::round(value * 100.0) / 100.0 + 0.0 } else { 0.0 }
}

/// The `d` of a path.
#[derive(Clone, Debug, Default)]
pub struct Path(String);

impl Path {
    fn step(&mut self, letter: char, (x, y): (f64, f64)) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{letter}{} {}", number(x), number(y));
    }

    /// Starts a new part.
    pub fn move_to(&mut self, to: (f64, f64)) {
        self.step('M', to);
    }

    /// A straight line.
    pub fn line_to(&mut self, to: (f64, f64)) {
        self.step('L', to);
    }

    /// A circular arc; `clockwise` on the screen.
    pub fn arc_to(&mut self, radius: f64, large: bool, clockwise: bool, to: (f64, f64)) {
        let r = number(radius);
        let _ = write!(self.0, "A{r} {r} 0 {} {} {} {}", u8::from(large), u8::from(clockwise), number(to.0), number(to.1));
    }

    /// A cubic curve with two control points.
    pub fn curve_to(&mut self, one: (f64, f64), two: (f64, f64), to: (f64, f64)) {
        self.step('C', one);
        self.step(' ', two);
        self.step(' ', to);
    }

    /// A rectangle as a part of its own.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64) {
        let _ = write!(self.0, "M{} {}h{}v{}h{}Z", number(x), number(y), number(width), number(height), number(-width));
    }

    /// Closes the part.
    pub fn close(&mut self) {
        self.0.push('Z');
    }

    /// The text of the `d` attribute.
    #[cfg(test)]
    pub fn data(&self) -> &str {
        &self.0
    }
}

/// A picture being drawn.
#[derive(Clone, Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    label: String,
    body: String,
    open: Vec<&'static str>,
}

impl Svg {
    /// An empty picture; `label` says what it shows to those who do not see it.
    pub fn new(width: f64, label: &str) -> Self {
        Self { width, height: 0.0, label: text::sentence(label), body: String::new(), open: Vec::new() }
    }

    /// Sets the height, known once all is laid out.
    pub fn set_height(&mut self, height: f64) {
        self.height = height;
    }

    /// Begins an element of one or more classes.
    pub fn node(&mut self, tag: &'static str, class: &str) -> Node<'_> {
        let _ = write!(self.body, "<{tag} class=\"{class}\"");
        Node { svg: self, tag }
    }

    /// Ends the innermost element that [`Node::open`] left open.
    pub fn close(&mut self) {
        if let Some(tag) = self.open.pop() {
            let _ = writeln!(self.body, "</{tag}>");
        }
    }

    /// A rectangle.
    pub fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) -> Node<'_> {
        self.node("rect", class).n("x", x).n("y", y).n("width", width.max(0.0)).n("height", height.max(0.0))
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.node("line", class).n("x1", from.0).n("y1", from.1).n("x2", to.0).n("y2", to.1).end();
    }

    /// A circle.
    pub fn circle(&mut self, class: &str, centre: (f64, f64), radius: f64) -> Node<'_> {
        self.node("circle", class).n("cx", centre.0).n("cy", centre.1).n("r", radius)
    }

    /// A path; nothing when it is empty.
    pub fn path(&mut self, class: &str, path: &Path) {
        if !path.0.is_empty() {
            self.node("path", class).s("d", &path.0).end();
        }
    }

    /// A line of text.
    pub fn text(&mut self, class: &str, x: f64, y: f64, line: &str) {
        self.node("text", class).n("x", x).n("y", y).text(line);
    }

    /// The text that the enclosing element shows on hover.
    pub fn title(&mut self, line: &str) {
        self.body.push_str("<title>");
        text::escape(&mut self.body, line);
        self.body.push_str("</title>");
    }

    fn finish(mut self, head: &str, paper: &str) -> String {
        // A group that the caller left open would make the file no XML.
        while !self.open.is_empty() {
            self.close();
        }
        let (w, h) = (number(self.width), number(self.height));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" aria-label=\""
        );
        text::escape(&mut out, &self.label);
        out.push_str("\">\n");
        out.push_str(head);
        if !paper.is_empty() {
            let _ = writeln!(out, "<rect class=\"{paper}\" width=\"{w}\" height=\"{h}\" rx=\"8\"/>");
        }
        out.push_str(&self.body);
        out.push_str("</svg>\n");
        out
    }

    /// A file that stands alone, light or dark as the reader prefers.
    pub fn document(self) -> String {
        let mut title = String::new();
        text::escape(&mut title, &self.label);
        let head = format!("<title>{title}</title>\n<style>{}</style>\n{}\n", style::stylesheet(), style::patterns());
        self.finish(&head, "paper")
    }

    /// A part of a page that holds the style sheet but not the patterns, which it brings. Two of these on a page repeat the ids of
    /// the patterns, which are equal.
    #[must_use]
    pub fn unstyled(self) -> String {
        self.finish(&style::patterns(), "")
    }

    /// A part of a page that holds the style sheet and the patterns.
    pub fn fragment(self) -> String {
        self.finish("", "")
    }
}

/// An element whose attributes are being written.
#[must_use = "an element is written by end, text, titled or open"]
#[derive(Debug)]
pub struct Node<'a> {
    svg: &'a mut Svg,
    tag: &'static str,
}

impl Node<'_> {
    /// A number.
    pub fn n(self, key: &str, value: f64) -> Self {
        let _ = write!(self.svg.body, " {key}=\"{}\"", number(value));
        self
    }

    /// A string; escaped.
    pub fn s(self, key: &str, value: &str) -> Self {
        let _ = write!(self.svg.body, " {key}=\"");
        text::escape(&mut self.svg.body, value);
        self.svg.body.push('"');
        self
    }

    /// Ends an element without content.
    pub fn end(self) {
        self.svg.body.push_str("/>\n");
    }

    /// Ends an element that holds only text.
    pub fn text(self, line: &str) {
        self.svg.body.push('>');
        text::escape(&mut self.svg.body, line);
        let _ = writeln!(self.svg.body, "</{}>", self.tag);
    }

    /// Ends an element that holds only what it shows on hover.
    pub fn titled(self, line: &str) {
        self.svg.body.push('>');
        self.svg.title(line);
        let _ = writeln!(self.svg.body, "</{}>", self.tag);
    }

    /// Leaves the element open for children, until [`Svg::close`].
    pub fn open(self) {
        self.svg.body.push('>');
        self.svg.open.push(self.tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_well_formed_whatever_goes_in() {
        let mut svg = Svg::new(100.0, "a <b> & \"c\" \u{0}");
        svg.node("g", "x").open();
        svg.rect("y", f64::NAN, f64::INFINITY, -5.0, 1.005).titled("</title><script>");
        svg.text("z", 1.0, 2.0, "</text>");
        let out = svg.document();
        roxmltree::Document::parse(&out).expect("well-formed, although the group was never closed");
        assert!(!out.contains("NaN") && !out.contains("inf") && !out.contains("<script"));
    }

    #[test]
    fn numbers_are_short_and_have_no_negative_zero() {
        assert_eq!(format!("{}", number(-0.001)), "0");
        assert_eq!(format!("{}", number(12.345_678)), "12.35");
        assert_eq!(format!("{}", number(7.0)), "7");
    }
}
