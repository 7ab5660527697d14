//! Other people's YAML (and JSON, its subset): limits on what it may cost, and errors that say
//! where and what.

use alloc::{
    format,
    string::{String, ToString},
};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_saphyr::Location;
use units::OneLine;

/// Longest problem text, in characters: values of a hostile document are cut.
const PROBLEM_CHARS_MAX: usize = 300;
/// How many characters of the document a refusal repeats.
const FOUND_CHARS_MAX: usize = 40;

/// The work that a document may ask of the parser. Anchors and aliases are always refused: our documents
/// have no use for them, and they are how small documents become large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Deepest nesting.
    pub depth: usize,
    /// Most scalars, and starts and ends of collections.
    pub events: usize,
}

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Path of the key, such as `jobs[3].model.ranks`; empty where there is none.
    pub path: String,
    /// `line 4, column 33`, or `document`.
    pub place: String,
    /// What is wrong, and what stands there.
    pub problem: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", OneLine(&self.path))?;
        }
        write!(f, "{}: {}", OneLine(&self.place), OneLine(&self.problem))
    }
}

impl core::error::Error for Malformed {}

impl Malformed {
    /// The parser's refusal of `text`, in words for people.
    #[must_use]
    pub fn new(text: &str, error: &serde_saphyr::Error) -> Self {
        let location = error.location();
        let place = location.map_or_else(|| "document".to_string(), place);
        // The parser repeats the place in its text, gives advice to programmers, and often does not
        // say what it found.
        let said = error.without_snippet().to_string();
        let said = said.split(" at line ").next().unwrap_or(&said);
        let problem = plain(said.split(", set DuplicateKeyPolicy").next().unwrap_or(said));
        let found = location.and_then(|l| word(text, usize::try_from(l.span().byte_offset()?).ok()?));
        let problem = match found {
            Some(found) if !problem.contains(found) => format!("{problem}, at {found:?}"),
            _ => problem,
        };
        Self { path: String::new(), place, problem }
    }
}

/// Reads `text` into `T`, keeping track of the path of the key.
///
/// # Errors
/// [`Malformed`] with path, line and value.
pub fn read<T: DeserializeOwned>(text: &str, limits: Limits) -> Result<T, Malformed> {
    let budget = serde_saphyr::budget! {
        max_events: limits.events, max_nodes: limits.events, max_depth: limits.depth,
        max_aliases: 0, max_anchors: 0, max_documents: 1,
    };
    let options = serde_saphyr::options! { budget: budget, with_snippet: false };
    let mut path = String::new();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |de| {
        let mut track = serde_path_to_error::Track::new();
        let result = strict::read(serde_path_to_error::Deserializer::new(de, &mut track));
        path = track.path().to_string();
        result
    });
    // serde_path_to_error writes "?" for a step without a name and "." for the root: neither tells a person anything.
    read.map_err(|e| Malformed { path: cut(path.trim_end_matches(['.', '?'])), ..Malformed::new(text, &e) })
}

/// Reads the key `schema`, so that a document of another kind says so before all else.
///
/// # Errors
/// Anything but `expected`.
pub fn schema<'de, D: Deserializer<'de>>(deserializer: D, expected: &str) -> Result<String, D::Error> {
    let found = String::deserialize(deserializer)?;
    if found == expected { Ok(found) } else { Err(D::Error::custom(format!("schema is {found:?}, expected {expected:?}"))) }
}

/// A location for people.
#[must_use]
pub fn place(location: Location) -> String {
    format!("line {}, column {}", location.line(), location.column())
}

/// Cut, and without the names of Rust types; [`Malformed`] shows it on one line.
fn plain(problem: &str) -> String {
    // "budget breached: Anchors { anchors: 1 }"
    if let Some((what, count)) = problem.strip_prefix("budget breached: ").and_then(|breach| breach.trim_end_matches(" }").split_once(": "))
    {
        return match what.split(' ').next().unwrap_or(what) {
            "Anchors" => format!("anchor number {count}; no more are read here"),
            "Aliases" => format!("alias number {count}; no more are read here"),
            "Depth" => format!("nested {count} levels deep; no deeper is read here"),
            "Documents" => "a second document; one is read".into(),
            _ => format!("{count} values and brackets; no more are read here"),
        };
    }
    // The parser names the Rust type that was wanted; a person needs the range.
    let most = match problem {
        "invalid u8" => u64::from(u8::MAX),
        "invalid u16" => u64::from(u16::MAX),
        "invalid u32" => u64::from(u32::MAX),
        "invalid u64" | "invalid usize" => u64::MAX,
        _ => return cut(problem),
    };
    format!("not a whole number from 0 to {most}")
}

/// The text, cut after [`PROBLEM_CHARS_MAX`] characters; a parser may repeat a key of millions.
pub(crate) fn cut(text: &str) -> String {
    // The cut falls between two characters, where a slice cannot panic.
    match text.char_indices().nth(PROBLEM_CHARS_MAX) {
        None => text.into(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// The word of the document at a byte offset, cut to a few characters.
fn word(document: &str, start: usize) -> Option<&str> {
    // An offset inside a character yields nothing here, where a slice would panic.
    let rest = document.get(start..)?;
    let end = rest.char_indices().take(FOUND_CHARS_MAX).find(|(_, c)| ",]}\n\r".contains(*c)).map(|(i, _)| i);
    let end = end.or_else(|| rest.char_indices().nth(FOUND_CHARS_MAX).map(|(i, _)| i)).unwrap_or(rest.len());
    rest.get(..end).map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, string::ToString, vec::Vec};

    use super::*;

    fn refused(text: &str) -> String {
        read::<BTreeMap<String, Vec<u32>>>(text, Limits { depth: 4, events: 100 }).unwrap_err().to_string()
    }

    #[test]
    fn a_refusal_names_path_line_and_value() {
        assert_eq!(refused("a: [1]\nb: [2, -3]\n"), r#"b[1]: line 2, column 8: not a whole number from 0 to 4294967295, at "-3""#);
        assert_eq!(refused("a: [1]\na: [1]\n"), r#"line 2, column 1: duplicate mapping key: a, at "a: [1""#);
        assert_eq!(refused("a: [x: {"), r#"a[0]: line 1, column 5: expected string scalar, at "x: {""#);
    }

    #[test]
    fn limits_hold() {
        assert!(refused("a: &x [1]").contains("anchor number 1; no more"));
        assert!(refused(&format!("a: [{}]", "1,".repeat(200))).contains("101 values"));
        assert!(refused(&"[".repeat(100_000)).len() < 200);
    }

    #[test]
    fn long_values_are_cut() {
        assert!(refused(&format!("{}: 1", "x".repeat(900))).chars().count() < 700);
        // 300 characters, every other of two bytes.
        let words = "\u{e9} ".repeat(400);
        assert_eq!(cut(&words), format!("{}...", &words[..450]));
        let keys = format!("? |\n  {}\n: 1", "a\n  ".repeat(900));
        assert!(refused(&keys).chars().count() < 2_000, "{}", refused(&keys));
        assert_eq!(word("ab, c", 0), Some("ab"));
        assert_eq!(word("ab", 2), None);
    }
}
