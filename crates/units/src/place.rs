//! Lines of a text, found again from offsets in it.

/// Finds the lines of offsets in a text that are asked for from the front to the back.
///
/// A line ends with `\n`, with `\r\n`, or with a `\r` alone. Readers of tables skip blank lines and ends of lines at their own time, so the
/// lines that they count themselves differ from those of an editor; their offsets do not.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    /// The lines of a text, the first being line 1.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0, line: 1 }
    }

    /// The line of the first character at this offset in bytes, or behind it, that ends no line. An offset before an earlier one
    /// has the line of that one.
    pub fn line_of(&mut self, offset: usize) -> u64 {
        while let Some(&byte) = self.text.get(self.at) {
            let ends = matches!(byte, b'\r' | b'\n');
            if self.at >= offset && !ends {
                break;
            }
            self.at += 1;
            // Of two characters that end one line only the second counts.
            if ends && !(byte == b'\r' && self.text.get(self.at) == Some(&b'\n')) {
                self.line += 1;
            }
        }
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_an_editor_whatever_ends_them() {
        // Offsets 0, 3 and 8 begin lines 1, 2 and 4 of the first text; its line 3 is blank.
        let mut lines = Lines::new("ab\ncdef\n\ng\n");
        assert_eq!([0, 3, 5, 8].map(|at| lines.line_of(at)), [1, 2, 2, 4]);
        // A reader that stands between the two ends of a line means the next one.
        let mut lines = Lines::new("ab\r\ncd\r\n\r\n\r\nef");
        assert_eq!([0, 3, 4, 7, 12].map(|at| lines.line_of(at)), [1, 2, 2, 5, 5]);
        let mut lines = Lines::new("ab\rcd\r\ref");
        assert_eq!([3, 4, 7].map(|at| lines.line_of(at)), [2, 2, 4]);
    }

    #[test]
    fn offsets_beyond_the_text_and_backwards_are_answered() {
        let mut lines = Lines::new("ab\ncd");
        assert_eq!([lines.line_of(99), lines.line_of(0)], [2, 2]);
        assert_eq!(Lines::new("").line_of(5), 1);
    }
}
