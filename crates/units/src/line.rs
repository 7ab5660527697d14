//! Text of strangers on one line.

use core::fmt::{self, Display, Write};

/// Shows a value on one line, whatever is in it.
///
/// A message about a document repeats names and values of that document, and so do the messages of the libraries that read it.
/// What ends a line, moves a cursor or turns the direction of reading is escaped as `{:?}` escapes it; all else stays, quotes and
/// backslashes too, so that a value that is already quoted by `{:?}` is not escaped twice.
///
/// ```
/// use antiphase_units::OneLine;
/// assert_eq!(OneLine("unknown field `a\nb\u{1b}[2J`").to_string(), r"unknown field `a\nb\u{1b}[2J`");
/// assert_eq!(OneLine(format_args!("{:?}", "a\nb")).to_string(), r#""a\nb""#);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: Display> Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaped(f), "{}", self.0)
    }
}

/// Passes text on with some characters escaped.
struct Escaped<'a, W>(&'a mut W);

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        // Messages may be megabytes long, and hardly a character is escaped.
        while let Some((at, found)) = rest.char_indices().find(|(_, c)| leaves_the_line(*c)) {
            // Both cuts are at the borders of a character, so slicing cannot panic.
            self.0.write_str(&rest[..at])?;
            write!(self.0, "{}", found.escape_debug())?;
            rest = &rest[at + found.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Whether a character does more than stand on the line: control characters (line ends, tabulators, the escape of terminals), the
/// separators of lines and paragraphs, and the marks that turn the direction of reading (Unicode Standard Annex 9).
fn leaves_the_line(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The first character of a name that nobody sees, so that two names that differ may look alike: what leaves the line ([`OneLine`]), and
/// characters without width (Unicode's `Default_Ignorable_Code_Point`).
///
/// ```
/// use antiphase_units::unseen_in;
/// assert_eq!(unseen_in("gpu\u{200b}-01\n"), Some('\u{200b}'));
/// assert_eq!(unseen_in("Zürich 1"), None);
/// ```
#[must_use]
pub fn unseen_in(name: &str) -> Option<char> {
    name.chars().find(|c| is_unseen(*c))
}

fn is_unseen(c: char) -> bool {
    leaves_the_line(c)
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}'
                | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{format, string::ToString};

    use super::*;

    #[test]
    fn what_leaves_the_line_is_escaped_and_nothing_else() {
        let hostile = "a\nb\rc\td\u{0}e\u{1b}[2Jf\u{7f}g\u{85}h\u{2028}i\u{2029}j\u{202e}k\u{2066}l";
        let shown = r"a\nb\rc\td\0e\u{1b}[2Jf\u{7f}g\u{85}h\u{2028}i\u{2029}j\u{202e}k\u{2066}l";
        assert_eq!(OneLine(hostile).to_string(), shown);
        // A combining accent, a wide space and an emoji of several characters stand on the line.
        for plain in ["", " a  b ", r#"quoted "\n" \"#, "e\u{301}", "\u{3000}", "\u{1f469}\u{200d}\u{1f52c}"] {
            assert_eq!(OneLine(plain).to_string(), plain);
        }
    }

    #[test]
    fn every_character_of_the_table_of_unicode_ends_up_on_one_line() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let shown = format!("{}", OneLine(c));
            assert!(!shown.chars().any(leaves_the_line), "{c:?}: {shown:?}");
            // As `{:?}` writes it, or as it is.
            assert!(shown == c.to_string() || shown == c.escape_debug().to_string(), "{c:?}: {shown:?}");
        }
    }

    #[test]
    fn parts_of_a_message_are_escaped_where_they_meet() {
        assert_eq!(OneLine(format_args!("{}: {:?}\n{}", "a\u{1b}", "b\n", 7)).to_string(), "a\\u{1b}: \"b\\n\"\\n7");
    }
}
