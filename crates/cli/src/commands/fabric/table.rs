//! Aligned tables: columns two spaces apart, as wide as their widest cell.

/// A table with a heading, one line per row.
pub(super) fn table<const N: usize>(heading: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(heading.map(String::from)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line += &format!("{cell:width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_align_and_lines_have_no_trailing_blanks() {
        let text = super::table(["A", "LONG"], [["wide cell".into(), "é".into()], ["x".into(), String::new()]]);
        assert_eq!(text, "A          LONG\nwide cell  é\nx\n");
    }
}
