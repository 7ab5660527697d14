//! A small HTML writer: markup is ours and goes in as it is, everything else is escaped.

use alloc::{format, string::String};

use crate::{
    palette::score_class,
    quantity,
    text::{self, SENTENCE_CHARS_MAX},
};

/// A page being written.
#[derive(Debug, Default)]
pub struct Html(String);

impl Html {
    /// Markup of our own.
    pub fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text; escaped.
    pub fn text(&mut self, line: &str) -> &mut Self {
        text::escape(&mut self.0, line);
        self
    }

    /// A name from outside: cleaned, cut, escaped, and isolated from the direction around it.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.raw("<bdi>").text(&text::name(name)).raw("</bdi>")
    }

    /// A sentence from outside.
    pub fn sentence(&mut self, line: &str) -> &mut Self {
        self.raw("<bdi>").text(&text::clean(line, SENTENCE_CHARS_MAX)).raw("</bdi>")
    }

    /// Opens a section with its heading.
    pub fn section(&mut self, id: &str, heading: &str) {
        self.raw(&format!("<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">")).text(heading).raw("</h2>\n");
    }

    /// One of the summary's facts.
    pub fn fact(&mut self, what: &str, value: &str, more: &str) {
        self.raw("<div><dt>").text(what).raw("</dt><dd><bdi>").text(value).raw("</bdi><small>").text(more).raw("</small></dd></div>\n");
    }

    /// Opens a table; a column is its name and how it sorts (`number` or `text`). `id` may be empty.
    pub fn table(&mut self, id: &str, label: &str, columns: &[(&str, &str)], tall: bool) {
        // A scrolling region must be reachable by keyboard (WCAG 2.1.1).
        self.raw(if tall { "<div class=\"scroll tall\"" } else { "<div class=\"scroll\"" });
        self.raw(" tabindex=\"0\" role=\"region\" aria-label=\"").text(label).raw("\">\n<table");
        if !id.is_empty() {
            self.raw(" id=\"").text(id).raw("\"");
        }
        self.raw(">\n<thead><tr>");
        for (name, kind) in columns {
            let class = if *kind == "number" { " class=\"n\"" } else { "" };
            self.raw(&format!("<th scope=\"col\" data-sort=\"{kind}\"{class}>")).text(name).raw("</th>");
        }
        self.raw("</tr></thead>\n<tbody>\n");
    }

    /// Closes a table.
    pub fn end_table(&mut self) {
        self.raw("</tbody>\n</table>\n</div>\n");
    }

    /// A number's cell: what it sorts by and what it says; a dash when there is none.
    pub fn number(&mut self, value: Option<f64>, said: &str) {
        match value {
            Some(value) if value.is_finite() => self.raw(&format!("<td class=\"n\" data-v=\"{value}\">")).text(said).raw("</td>"),
            // A cell without a value has no `data-v`, and the script sorts it last in either direction.
            _ => self.raw("<td class=\"n muted\">–</td>"),
        };
    }

    /// A time's cell.
    pub fn time(&mut self, ns: Option<u64>) {
        self.number(ns.map(|ns| ns as f64), &ns.map(quantity::time).unwrap_or_default());
    }

    /// A score's cell, with a bar.
    pub fn score(&mut self, score: Option<f64>) {
        let Some(score) = score.filter(|s| s.is_finite()) else { return self.number(None, "") };
        self.raw(&format!("<td class=\"n\" data-v=\"{score}\">")).text(&quantity::score(score));
        self.meter(score);
        self.raw("</td>");
    }

    /// A score as a bar; empty when negative or not a number.
    pub fn meter(&mut self, score: f64) {
        let share = if score.is_finite() { score.clamp(0.0, 1.0) } else { 0.0 };
        let (class, width) = (score_class(score), libm::round(share * 48.0));
        self.raw(&format!(
            "<svg class=\"meter\" width=\"48\" height=\"8\" aria-hidden=\"true\"><rect class=\"back\" width=\"48\" height=\"8\" rx=\"2\"/>\
             <rect class=\"s{class}\" width=\"{width}\" height=\"8\" rx=\"2\"/></svg>"
        ));
    }

    /// A job's colour.
    pub fn swatch(&mut self, class: &str) {
        self.raw(&format!(
            "<svg class=\"swatch\" width=\"14\" height=\"14\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"14\" height=\"14\" rx=\"3\"/></svg>"
        ));
    }

    /// The page.
    pub fn finish(self) -> String {
        self.0
    }
}
