//! Plain text tables: left-aligned names, right-aligned numbers, two spaces between columns.
//! The only one that writes tables for a terminal.

use std::fmt::Write as _;

use units::OneLine;

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Names and sentences.
    Left,
    /// Numbers.
    Right,
}

/// Rows of text under headings.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with those headings; a heading that starts with `>` sets its column to the right.
    /// Where all headings are empty there is no line of headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let columns = headings
            .iter()
            .map(|h| h.strip_prefix('>').map_or_else(|| ((*h).to_owned(), Align::Left), |h| (h.to_owned(), Align::Right)))
            .collect();
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; missing cells stay empty. A cell stays on its line whatever is in it: names and versions come from documents and
    /// from other machines, and a terminal does what control characters say.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| OneLine(cell).to_string()).collect());
    }

    /// The table with those rows added.
    pub(crate) fn with_rows<const N: usize>(mut self, rows: impl IntoIterator<Item = [String; N]>) -> Self {
        rows.into_iter().for_each(|row| self.row(row));
        self
    }

    /// No rows yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, without trailing blanks.
    pub(crate) fn render(&self) -> String {
        let width = |c: usize| {
            let cells = self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count());
            cells.chain([self.columns[c].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        let headings: Vec<String> = self.columns.iter().map(|c| c.0.clone()).collect();
        // Tables of facts have no headings, and an empty first line would look like a mistake.
        let headed = headings.iter().any(|h| !h.is_empty());
        for row in headed.then_some(&headings).into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (c, (_, align)) in self.columns.iter().enumerate() {
                let cell = row.get(c).map_or("", String::as_str);
                // `format!` pads by characters, which is what `widths` counts.
                let _ = match align {
                    Align::Left => write!(line, "{cell:<w$}  ", w = widths[c]),
                    Align::Right => write!(line, "{cell:>w$}  ", w = widths[c]),
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_line_up_on_the_right() {
        let mut t = Table::new(&["link", ">score"]);
        t.row(["a".into(), "1".into()]);
        t.row(["longer".into(), "0.25".into()]);
        assert_eq!(t.render(), "link    score\na           1\nlonger   0.25\n");
    }

    #[test]
    fn widths_count_characters_and_lines_have_no_trailing_blanks() {
        let t = Table::new(&["A", "LONG", ""]).with_rows([["wide cell".into(), "\u{e9}".into()], ["x".into(), String::new()]]);
        assert_eq!(t.render(), "A          LONG\nwide cell  \u{e9}\nx\n");
    }

    #[test]
    fn a_cell_stays_on_its_line_and_moves_no_cursor() {
        let mut t = Table::new(&["HOST", "VERSION"]).with_rows([["h1".into(), "\u{1b}[2J\u{202e}".into()]]);
        t.row(["h2\nh3".into(), "1\r\u{9b}A".into()]);
        assert_eq!(t.render(), "HOST    VERSION\nh1      \\u{1b}[2J\\u{202e}\nh2\\nh3  1\\r\\u{9b}A\n");
    }

    #[test]
    fn empty_headings_make_no_line() {
        let mut t = Table::new(&["", ">"]);
        t.row(["a".into(), "1".into()]);
        t.row(["bcd".into(), "100".into()]);
        t.row(["e".into()]);
        assert_eq!(t.render(), "a      1\nbcd  100\ne\n");
    }
}
