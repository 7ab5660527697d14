//! Where and what: one-line errors about documents, with hostile values kept short.

use alloc::{format, string::String};

use crate::FabricError;

/// Longest name of a node, port or topology, in bytes: RFC 1035 allows 253 in a domain name,
/// LLDP 255 in a system name (IEEE 802.1AB, 8.5.6). A longer one is not a name, and a host list
/// could multiply it until memory is full.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest document taken, in bytes. A cluster of 100,000 hosts is 20 MB in the wordiest of the
/// formats, and a parser reads this much within a second.
pub const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// How many characters of a value an error repeats: enough to find it, and still one line.
const QUOTED_CHARS_MAX: usize = 60;

/// An error about `place`; [`FabricError`] shows it on one line.
pub(crate) fn document(place: impl Into<String>, problem: impl Into<String>) -> FabricError {
    FabricError::Document { place: place.into(), problem: problem.into() }
}

/// The value in quotes with control characters escaped, cut after [`QUOTED_CHARS_MAX`].
pub(crate) fn quoted(value: &str) -> String {
    // The cut falls between two characters, where a slice cannot panic.
    match value.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((cut, _)) => format!("{:?}... ({} bytes)", &value[..cut], value.len()),
        None => format!("{value:?}"),
    }
}

/// Checks that `name` can name a node or a port.
pub(crate) fn check_name(place: impl FnOnce() -> String, name: &str) -> Result<(), FabricError> {
    if name.is_empty() {
        Err(document(place(), "empty name"))
    } else if name.len() > NAME_BYTES_MAX {
        Err(document(place(), format!("name {} is longer than {NAME_BYTES_MAX} bytes", quoted(name))))
    } else if let Some(unseen) = units::unseen_in(name) {
        Err(document(place(), format!("name {} has the character {unseen:?}, which nobody sees", quoted(name))))
    } else {
        Ok(())
    }
}

/// The document without a byte order mark; refused when longer than [`DOCUMENT_BYTES_MAX`].
pub(crate) fn bounded(text: &str) -> Result<&str, FabricError> {
    if text.len() > DOCUMENT_BYTES_MAX {
        let mib = DOCUMENT_BYTES_MAX >> 20;
        return Err(document("document", format!("{} bytes are over the limit of {mib} MiB", text.len())));
    }
    // serde_json refuses a byte order mark, which some editors write.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// `["a", "b", "c"]` as `a, b, c`, and `and 7 more` after `limit`.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>, limit: usize) -> String {
    let mut out = String::new();
    let mut left_out = 0_usize;
    for (i, name) in names.into_iter().enumerate() {
        if i >= limit {
            left_out += 1;
            continue;
        }
        if i > 0 {
            out.push_str(", ");
        }
        out.push_str(name);
    }
    if left_out > 0 {
        out.push_str(&format!(" and {left_out} more"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_value_is_short_and_on_one_line() {
        assert_eq!(quoted("a\nb"), r#""a\nb""#);
        // 60 characters kept, two bytes each, of 100.
        assert_eq!(quoted(&"\u{e9}".repeat(100)), format!("\"{}\"... (200 bytes)", "\u{e9}".repeat(60)));
        assert_eq!(document("line 3", "bad\n   thing").to_string(), r"line 3: bad\n   thing");
    }

    #[test]
    fn names_have_a_length_and_no_characters_that_nobody_sees() {
        assert!(check_name(String::new, "gpu-01").is_ok());
        assert!(check_name(String::new, &"x".repeat(255)).is_ok());
        for bad in [String::new(), "x".repeat(256), "a\u{7}".into(), "a\u{200b}".into(), "\u{202e}a".into()] {
            assert!(check_name(String::new, &bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_list_says_how_many_it_leaves_out() {
        assert_eq!(listed(["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(listed(["a", "b"], 2), "a, b");
    }
}
