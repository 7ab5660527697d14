//! What an answer may come to while it is made, where a short question has a long answer.
//!
//! A request is weighed before it is decoded (`http::load`), and an answer counts once it is made (`owed`). In between stands an answer
//! that one request multiplies: a thousand candidates times the jobs on each of their links. It is weighed as it is made, and one that
//! nobody could be given is not made to its end.

use super::{ApiError, Kind};

/// Most that one answer may count, as much as all answers together that were not taken. Ten candidates among 10,000 jobs count 60 MB.
const ANSWER_MAX: usize = 192 << 20;
/// What an object counts: itself, 100 to 250 bytes, and its text.
const OBJECT_BYTES: usize = 512;
/// How much more that is where fields are selected, because JSON is then pruned as a tree.
const SELECTED: usize = 3;
/// What a text counts besides its bytes, which are held as they are and as JSON.
const TEXT_BYTES: usize = 32;

/// What JSON adds to a byte that it escapes, at most.
const ESCAPE_BYTES: usize = 5;

fn escapes(text: &str) -> usize {
    text.bytes().filter(|byte| *byte < b' ' || matches!(byte, b'"' | b'\\')).count()
}

/// The weight of an answer that is being made.
#[derive(Debug)]
pub(super) struct Weight {
    object: usize,
    counted: usize,
}

impl Weight {
    /// Nothing yet.
    pub(super) const fn new(selected: bool) -> Self {
        Self { object: if selected { SELECTED * OBJECT_BYTES } else { OBJECT_BYTES }, counted: 0 }
    }

    /// Counts an object with its texts, before it is made.
    ///
    /// # Errors
    /// The answer comes to more than one may; `place` says how far it had come.
    pub(super) fn add<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>, place: &dyn std::fmt::Display) -> Result<(), ApiError> {
        let texts: usize = texts.into_iter().map(|text| TEXT_BYTES + 2 * text.len() + ESCAPE_BYTES * escapes(text)).sum();
        self.counted = self.counted.saturating_add(self.object).saturating_add(texts);
        if self.counted <= ANSWER_MAX {
            return Ok(());
        }
        let problem = format!("answer: with {place} it holds more than {} MiB", ANSWER_MAX >> 20);
        Err(ApiError::new(Kind::TooLarge, &problem).hint("ask for less at a time; evaluate takes `fields`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_refused_where_it_becomes_too_large() {
        let count = |selected: bool| {
            let mut weight = Weight::new(selected);
            let long = "x".repeat(1_000);
            let taken = (0..).take_while(|_| weight.add([long.as_str(); 10], &"candidate 3 of 7").is_ok()).count();
            let refused = weight.add([], &"candidate 3 of 7").unwrap_err();
            assert_eq!(escapes("a\u{1}\n\"\\é"), 4);
            assert!(refused.kind == Kind::TooLarge && refused.message == "answer: with candidate 3 of 7 it holds more than 192 MiB");
            taken
        };
        assert_eq!(count(false), ANSWER_MAX / (OBJECT_BYTES + 10 * (TEXT_BYTES + 2_000)));
        assert_eq!(count(true), ANSWER_MAX / (SELECTED * OBJECT_BYTES + 10 * (TEXT_BYTES + 2_000)));
    }
}
