//! Text that came from outside: made harmless, cut to length, and measured.

use alloc::{borrow::ToOwned as _, format, string::String, vec::Vec};

/// Longest name that is printed whole; the middle of a longer one is an ellipsis.
pub(crate) const NAME_CHARS_MAX: usize = 80;
/// Size at which a picture's title is measured: 15 px, and a tenth more because it is bold.
pub(crate) const TITLE: f64 = 16.5;
/// Longest sentence (explanation, note, command line) that is printed whole.
pub(crate) const SENTENCE_CHARS_MAX: usize = 600;

/// A name fit to print: one line, no characters that XML forbids, none that reorder the text
/// around them, at most `chars_max` characters.
pub(crate) fn clean(text: &str, chars_max: usize) -> String {
    cleaned(text, chars_max, |_| false)
}

/// [`clean`], but for the characters that are kept.
fn cleaned(text: &str, chars_max: usize, kept: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    let mut chars = text.trim().chars();
    for c in chars.by_ref().take(chars_max) {
        out.push(match c {
            c if kept(c) => c,
            '\t' | '\n' | '\r' => ' ',
            // Explicit bidirectional formatting: a name must not reorder its neighbours.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            // XML 1.0 section 2.2 excludes these, even as references.
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        });
    }
    // The text goes on beyond the limit, so the last character kept makes room for the ellipsis.
    if chars.next().is_some() {
        out.pop();
        out.push('…');
    }
    if out.is_empty() { "(unnamed)".to_owned() } else { out }
}

/// [`clean`] with the limit for names. A longer one loses its middle: names of many jobs or hosts differ at their ends.
pub(crate) fn name(text: &str) -> String {
    const END: usize = NAME_CHARS_MAX / 2 - 1;
    let text = text.trim();
    if text.chars().nth(NAME_CHARS_MAX).is_none() {
        return clean(text, NAME_CHARS_MAX);
    }
    let end = text.char_indices().rev().nth(END - 1).map_or(0, |(at, _)| at);
    clean(&text.chars().take(NAME_CHARS_MAX - END - 1).chain(['…']).chain(text[end..].chars()).collect::<String>(), NAME_CHARS_MAX)
}

/// First-strong isolate and its end (Unicode UAX 9): what stands between them orders nothing around it.
const ISOLATE: (char, char) = ('\u{2068}', '\u{2069}');

/// A name inside a plain sentence, isolated so that a right-to-left name leaves the sentence in order.
pub(crate) fn isolated(text: &str) -> String {
    format!("{}{}{}", ISOLATE.0, name(text), ISOLATE.1)
}

/// A sentence that may hold names that are [`isolated`]: [`clean`], with the limit for sentences, and the isolates stay. None is left
/// open by a cut, and none is ended that was not begun.
pub(crate) fn sentence(text: &str) -> String {
    let mut open = 0_usize;
    let mut out = String::new();
    for c in cleaned(text, SENTENCE_CHARS_MAX, |c| c == ISOLATE.0 || c == ISOLATE.1).chars() {
        if c == ISOLATE.0 {
            open = open.saturating_add(1);
        } else if c == ISOLATE.1 {
            let Some(left) = open.checked_sub(1) else { continue };
            open = left;
        }
        out.push(c);
    }
    out.extend(core::iter::repeat_n(ISOLATE.1, open));
    out
}

/// Appends `text` with the five characters escaped that HTML and XML give a meaning, in content
/// and in quoted attributes alike.
pub(crate) fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

/// Width of a character in ems, on the wide side of the common interface fonts.
fn em(c: char) -> f64 {
    match c {
        '\u{0300}'..='\u{036f}' | '\u{2066}'..='\u{2069}' => 0.0,
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' | ' ' => 0.32,
        'f' | 'r' | 't' | '-' | '(' | ')' | '/' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '>' | '<' => 0.88,
        'A'..='Z' | '…' => 0.7,
        // Wide scripts begin here; a few narrow ones are overestimated, which only cuts a name earlier.
        '\u{1100}'.. => 1.05,
        _ => 0.6,
    }
}

/// Estimated width of a line in pixels.
pub(crate) fn width(text: &str, font_px: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * font_px
}

/// The name, cut with an ellipsis so that it is at most `room_px` wide. The cut is in the middle:
/// names of links and hosts differ at both ends.
pub(crate) fn fit(text: &str, room_px: f64, font_px: f64) -> String {
    let whole = name(text);
    if width(&whole, font_px) <= room_px {
        return whole;
    }
    // A name that has been cut has an ellipsis in its middle already; one is enough.
    let chars: Vec<char> = whole.chars().filter(|&c| c != '…').collect();
    for keep in (2..chars.len()).rev() {
        // The longest cut that fits is found first; a name has at most `NAME_CHARS_MAX` characters, which bounds the tries.
        let (head, tail) = (keep.div_ceil(2), keep / 2);
        let cut: String = chars[..head].iter().chain(&['…']).chain(&chars[chars.len() - tail..]).collect();
        if width(&cut, font_px) <= room_px {
            return cut;
        }
    }
    "…".to_owned()
}

/// What tells these names apart: without the words at their beginnings and ends that all of them have.
pub(crate) fn apart(names: &[String]) -> Vec<String> {
    let Some((first, others)) = names.split_first().filter(|(_, others)| !others.is_empty()) else { return names.to_vec() };
    let first: Vec<char> = first.chars().collect();
    let same = |other: &String, backwards: bool| {
        let equal = |(a, b): &(char, char)| a == b;
        if backwards {
            first.iter().rev().copied().zip(other.chars().rev()).take_while(equal).count()
        } else {
            first.iter().copied().zip(other.chars()).take_while(equal).count()
        }
    };
    let most = |backwards| others.iter().map(|other| same(other, backwards)).min().unwrap_or(0);
    // A word ends at a mark, which goes with a beginning, and with an end.
    let mark = |c: &char| !c.is_alphanumeric();
    let begin = first[..most(false)].iter().rposition(mark).map_or(0, |at| at + 1);
    let from = first.len() - most(true);
    let end = first[from..].iter().position(mark).map_or(0, |at| first.len() - from - at);
    let short = |name: &String| {
        let length = name.chars().count();
        // Where beginning and end overlap in a name, as in `a-a` beside `a-b-a`, nothing would be left of it.
        if begin + end >= length { name.clone() } else { name.chars().skip(begin).take(length - begin - end).collect() }
    };
    names.iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_become_one_harmless_line() {
        assert_eq!(clean("a\nb\u{0}c\u{202e}d", 80), "a b\u{fffd}c\u{fffd}d");
        assert_eq!(clean("  ", 80), "(unnamed)");
        let mut out = String::new();
        escape(&mut out, r#"<script>alert("x&'y")</script>"#);
        assert_eq!(out, "&lt;script&gt;alert(&quot;x&amp;&#39;y&quot;)&lt;/script&gt;");
    }

    #[test]
    fn a_sentence_keeps_the_isolates_of_its_names_and_no_other_marks() {
        // Regression: the labels of all pictures had U+FFFD on both sides of each name.
        let label = format!("Circles of link {}: score 1", isolated("l0"));
        assert_eq!(sentence(&label), "Circles of link \u{2068}l0\u{2069}: score 1");
        assert_eq!(sentence("a\u{202e}b\u{2069}c"), "a\u{fffd}bc");
        let long = sentence(&format!("{}{}", "\u{2068}", "x".repeat(SENTENCE_CHARS_MAX)));
        assert!(long.ends_with("…\u{2069}"), "{long}");
    }

    #[test]
    fn ten_thousand_characters_end_in_an_ellipsis() {
        let long = "x".repeat(10_000);
        let cut = name(&format!("a{long}z-7"));
        assert_eq!(cut.chars().count(), NAME_CHARS_MAX);
        assert!(cut.starts_with("ax") && cut.ends_with("xz-7") && cut.matches('…').count() == 1, "{cut}");
        // Exactly at the limit nothing is cut.
        assert_eq!(name(&"y".repeat(NAME_CHARS_MAX)), "y".repeat(NAME_CHARS_MAX));
    }

    #[test]
    fn names_of_a_row_lose_the_words_that_all_have() {
        let apart = |names: &[&str]| apart(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(apart(&["dc-7-gpu-h1.example.com", "dc-7-gpu-h12.example.com"]), ["h1", "h12"]);
        assert_eq!(apart(&["leaf1", "leaf12"]), ["leaf1", "leaf12"], "a word is not cut");
        assert_eq!(apart(&["a-a", "a-b-a"]), ["a-a", "b"]);
        assert_eq!(apart(&["rack-1", "rack-1"]), ["rack-1", "rack-1"]);
        assert_eq!(apart(&["only-one"]), ["only-one"]);
        assert_eq!(apart(&["", "x-"]), ["", "x-"]);
    }

    #[test]
    fn fitting_keeps_both_ends_and_the_room() {
        let cut = fit("datacenter-7-leaf-0031->spine-0002", 120.0, 12.0);
        assert!(cut.starts_with("data") && cut.ends_with("0002") && cut.contains('…'), "{cut}");
        assert!(width(&cut, 12.0) <= 120.0);
        assert_eq!(fit("leaf1", 120.0, 12.0), "leaf1");
        assert_eq!(fit("leaf1", 1.0, 12.0), "…");
        // Regression: a name longer than any is printed was cut at its end first, and then in the middle of what was left.
        let run = |n| fit(&format!("team-{}-run-{n}", "large-language-models-".repeat(5)), 120.0, 12.0);
        assert!(run(7).starts_with("team") && run(7).ends_with("run-7") && run(7) != run(8), "{}", run(7));
    }
}
