//! Slurm host lists: `node[01-02,7]`, `r[1-2]n[01-04]`, `a,b[1-3]`.
//!
//! Grammar (scontrol(1), "show hostlist"): items separated by commas outside brackets; each item
//! is text with any number of brackets; a bracket holds numbers and ranges separated by commas.
//! The width of a range's first number is kept, so `[01-10]` is padded and `[1-10]` is not.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use super::place::{NAME_BYTES_MAX, document, quoted};
use crate::{FabricError, model::NODES_MAX};

/// Names that all host lists of one document may expand to: every node of the largest fabric,
/// in two places each. `node[1-1000000000]` is refused before anything is allocated.
pub const EXPANSION_MAX: usize = 2 * NODES_MAX;

/// Brackets in one item: Slurm itself takes 5 dimensions at most.
const BRACKETS_MAX: usize = 8;

/// Expands the host lists of one document and counts what they expand to.
#[derive(Debug)]
pub(crate) struct Expander {
    left: usize,
}

impl Expander {
    pub(crate) fn new() -> Self {
        Self { left: EXPANSION_MAX }
    }

    /// All names of `list`, in order; at least one.
    pub(crate) fn expand(&mut self, place: &str, list: &str) -> Result<Vec<String>, FabricError> {
        let mut names = Vec::new();
        for item in split_outside_brackets(list).map_err(|p| document(place, format!("host list {}: {p}", quoted(list))))? {
            let item = item.trim();
            if item.is_empty() {
                return Err(document(place, format!("host list {}: empty item", quoted(list))));
            }
            self.expand_item(item, &mut names).map_err(|p| document(place, format!("host list {}: {p}", quoted(item))))?;
        }
        Ok(names)
    }

    fn expand_item(&mut self, item: &str, names: &mut Vec<String>) -> Result<(), String> {
        let parts = parse_item(item)?;
        // Names and their bytes are counted before anything is built, because a few bytes of input may ask for billions of names.
        let mut count = 1_u128;
        let mut bytes = 0_usize;
        for part in &parts {
            // The widest number of each bracket counts, so no expanded name is longer than this sum.
            bytes += part.text.len() + part.ranges.iter().map(Range::width_max).max().unwrap_or(0);
            if part.bracketed {
                // Eight brackets of 2^64 numbers each would overflow; saturating is over the limit too.
                count = count.saturating_mul(part.ranges.iter().map(Range::count).sum());
            }
        }
        if bytes > NAME_BYTES_MAX {
            return Err(format!("names longer than {NAME_BYTES_MAX} bytes"));
        }
        match usize::try_from(count) {
            // The allowance falls over the whole document, so many small lists are bounded like a large one.
            Ok(n) if n <= self.left && n <= NODES_MAX => self.left -= n,
            Ok(n) if n <= NODES_MAX => return Err(format!("{n} names more are over the limit of {EXPANSION_MAX} in one document")),
            _ => {
                let count = if count > u128::from(u64::MAX) { "2^64 or more".into() } else { count.to_string() };
                return Err(format!("{count} names are over the limit of {NODES_MAX} nodes in a fabric"));
            }
        }
        let first = names.len();
        // One empty name is the seed that every part multiplies.
        names.push(String::new());
        for part in &parts {
            multiply(names, first, part);
        }
        Ok(())
    }
}

/// Text up to a bracket, and the bracket's ranges.
struct Part<'a> {
    text: &'a str,
    bracketed: bool,
    ranges: Vec<Range>,
}

/// `first..=last`, padded with zeros to `width`.
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

impl Range {
    fn count(&self) -> u128 {
        u128::from(self.last - self.first) + 1
    }

    /// Longest text of a number of the range.
    fn width_max(&self) -> usize {
        self.width.max(self.last.checked_ilog10().map_or(1, |tens| tens as usize + 1))
    }
}

/// Splits at commas outside brackets; brackets must be closed and not nested.
fn split_outside_brackets(list: &str) -> Result<Vec<&str>, String> {
    let mut items = Vec::new();
    let (mut start, mut open) = (0, false);
    // Brackets and commas are ASCII, so their positions are character boundaries.
    for (i, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if open => return Err("'[' inside '['".into()),
            b'[' => open = true,
            b']' if !open => return Err("']' without '['".into()),
            b']' => open = false,
            b',' if !open => {
                items.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err("'[' without ']'".into());
    }
    items.push(&list[start..]);
    Ok(items)
}

fn parse_item(item: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = item;
    while let Some((text, after)) = rest.split_once('[') {
        // `split_outside_brackets` has found all brackets closed and flat.
        let (inside, tail) = after.split_once(']').ok_or("'[' without ']'")?;
        // The limit also bounds how often `multiply` copies the names.
        if parts.len() == BRACKETS_MAX {
            return Err(format!("more than {BRACKETS_MAX} brackets"));
        }
        let ranges = inside.split(',').map(parse_range).collect::<Result<Vec<_>, _>>()?;
        parts.push(Part { text, bracketed: true, ranges });
        rest = tail;
    }
    parts.push(Part { text: rest, bracketed: false, ranges: Vec::new() });
    Ok(parts)
}

fn parse_range(text: &str) -> Result<Range, String> {
    let text = text.trim();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |digits: &str| {
        // The parser of u64 alone would take a leading `+`.
        let decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        decimal.then(|| digits.parse::<u64>().ok()).flatten().ok_or_else(|| format!("{} is not a number or a range", quoted(text)))
    };
    let range = Range { first: number(first)?, last: number(last)?, width: first.len() };
    if range.first > range.last {
        return Err(format!("range {} runs backwards", quoted(text)));
    }
    Ok(range)
}

/// Appends the part to each of `names[from..]`, once for every number of its bracket.
fn multiply(names: &mut Vec<String>, from: usize, part: &Part<'_>) {
    if !part.bracketed {
        names[from..].iter_mut().for_each(|name| name.push_str(part.text));
        return;
    }
    // Names of earlier items stay as they are. `expand_item` has charged the product, so the loop is bounded by NODES_MAX.
    let prefixes = names.split_off(from);
    for prefix in &prefixes {
        for range in &part.ranges {
            for n in range.first..=range.last {
                names.push(format!("{prefix}{}{n:0width$}", part.text, width = range.width));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(list: &str) -> Result<Vec<String>, String> {
        Expander::new().expand("line 1", list).map_err(|e| e.to_string())
    }

    #[test]
    fn ranges_lists_and_padding() {
        assert_eq!(expand("dev[0-2]").unwrap(), ["dev0", "dev1", "dev2"]);
        assert_eq!(expand("node[01-02,7]").unwrap(), ["node01", "node02", "node7"]);
        assert_eq!(expand("n[08-11]").unwrap(), ["n08", "n09", "n10", "n11"]);
        assert_eq!(expand("n[8-11]").unwrap(), ["n8", "n9", "n10", "n11"]);
        assert_eq!(expand("a, b[1,3]-x ,c").unwrap(), ["a", "b1-x", "b3-x", "c"]);
        assert_eq!(expand("r[1-2]n[01-02]").unwrap(), ["r1n01", "r1n02", "r2n01", "r2n02"]);
        // Brackets with nothing between them are two digits of one number.
        assert_eq!(expand("x[0-1][0-1]").unwrap(), ["x00", "x01", "x10", "x11"]);
    }

    #[test]
    fn malformed_lists_are_one_line() {
        for (list, problem) in [
            ("", r#"line 1: host list "": empty item"#),
            ("a,,b", r#"line 1: host list "a,,b": empty item"#),
            ("a[1-", r#"line 1: host list "a[1-": '[' without ']'"#),
            ("a]1", r#"line 1: host list "a]1": ']' without '['"#),
            ("a[[1]]", r#"line 1: host list "a[[1]]": '[' inside '['"#),
            ("a[]", r#"line 1: host list "a[]": "" is not a number or a range"#),
            ("a[3-1]", r#"line 1: host list "a[3-1]": range "3-1" runs backwards"#),
            ("a[-1]", r#"line 1: host list "a[-1]": "-1" is not a number or a range"#),
            ("a[+1]", r#"line 1: host list "a[+1]": "+1" is not a number or a range"#),
            (
                "a[1-99999999999999999999]",
                r#"line 1: host list "a[1-99999999999999999999]": "1-99999999999999999999" is not a number or a range"#,
            ),
            ("n[0-999999999]", r#"line 1: host list "n[0-999999999]": 1000000000 names are over the limit of 524288 nodes in a fabric"#),
            // The product of the three is counted, saturating, and never expanded.
            (
                "n[0-18446744073709551615][0-18446744073709551615][0-18446744073709551615]",
                "line 1: host list \"n[0-18446744073709551615][0-18446744073709551615][0-18446744\"... (73 bytes): \
                 2^64 or more names are over the limit of 524288 nodes in a fabric",
            ),
        ] {
            assert_eq!(expand(list).unwrap_err(), problem, "{list}");
        }
    }

    #[test]
    fn the_limit_counts_over_the_whole_document() {
        let mut expander = Expander::new();
        // 2^19 twice is exactly the limit of 2^20; one more is over it.
        for _ in 0..2 {
            assert_eq!(expander.expand("line 1", "n[1-524288]").unwrap().len(), 1 << 19);
        }
        assert!(expander.expand("line 2", "one-more").is_err());
    }

    #[test]
    fn long_names_cannot_be_multiplied() {
        let list = format!("{}[1-500000]", "x".repeat(1000));
        assert!(expand(&list).unwrap_err().ends_with("names longer than 255 bytes"));
        let padded = format!("x[{}1-2]", "0".repeat(300));
        assert!(expand(&padded).is_err());
    }
}
