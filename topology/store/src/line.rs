//! Messages on one line: databases and documents put line ends and long values into theirs.

use std::fmt::Display;

use units::OneLine;

/// Longest problem that is sent or logged whole, in bytes: a document may hold a value of any length.
pub const PROBLEM_BYTES_MAX: usize = 600;

/// A message on one line ([`OneLine`]) of at most [`PROBLEM_BYTES_MAX`] bytes.
#[must_use]
pub fn one_line(text: &dyn Display) -> String {
    cut(&OneLine(text).to_string()).to_owned()
}

/// The beginning of a text: at most [`PROBLEM_BYTES_MAX`] bytes, whole characters.
#[must_use]
pub fn cut(text: &str) -> &str {
    // A character has at most four bytes, so the search takes at most four steps back; 0 is always a boundary.
    let end = (0..=PROBLEM_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_short_line_of_whole_characters() {
        assert_eq!(one_line(&"a\n  b\u{7}"), r"a\n  b\u{7}");
        let long = one_line(&"ä".repeat(PROBLEM_BYTES_MAX));
        assert_eq!((long.len(), long.chars().all(|c| c == 'ä')), (PROBLEM_BYTES_MAX, true));
    }
}
