//! A name that somebody may have meant.

use alloc::vec::Vec;

/// Changes of single characters after which a name counts as another one.
const CHANGES_MAX: usize = 2;

/// The name that takes the fewest changes (a character more, less or other: Levenshtein) to become `wanted`; two at most, and fewer than
/// half of its characters, so that short names do not all look alike. Of several the first.
#[must_use]
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.as_bytes();
    let most = CHANGES_MAX.min(wanted.len().saturating_sub(1) / 2);
    let near = names.filter(|name| name.len().abs_diff(wanted.len()) <= most);
    let changed = near.map(|name| (changes(wanted, name.as_bytes()), name)).filter(|(changes, _)| *changes <= most);
    changed.min_by_key(|(changes, _)| *changes).map(|(_, name)| name)
}

/// How many changes make one of the other. Names have 253 bytes at most.
fn changes(a: &[u8], b: &[u8]) -> usize {
    // One row of the table at a time: `row[j]` is the distance of what was seen of `a` to the first j bytes of `b`.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let (mut left, mut above_left) = (i + 1, i);
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let above = *cell;
            left = (above_left + usize::from(!x.eq_ignore_ascii_case(y))).min(above + 1).min(left + 1);
            (*cell, above_left) = (left, above);
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keys_is_found_and_another_name_is_not() {
        let hosts = ["gpu-01", "gpu-02", "gpu-11", "h1", "h24"];
        let of = |wanted: &str| nearest(wanted, hosts.into_iter());
        assert_eq!(of("gpu-1"), Some("gpu-01"));
        assert_eq!(of("GPU-02"), Some("gpu-02"));
        assert_eq!(of("gpu_02"), Some("gpu-02"));
        assert_eq!(of("gup-11"), Some("gpu-11"));
        assert_eq!(of("h25"), Some("h24"));
        for other in ["", "h", "h9", "moon", "gpu", "gpu-01.example.org"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    /// The table row by row against the definition.
    #[test]
    fn distances_are_those_of_the_definition() {
        fn plain(a: &[u8], b: &[u8]) -> usize {
            match (a, b) {
                ([], rest) | (rest, []) => rest.len(),
                ([x, a @ ..], [y, b @ ..]) => {
                    (plain(a, b) + usize::from(x != y)).min(plain(a, &[&[*y], b].concat()) + 1).min(plain(&[&[*x], a].concat(), b) + 1)
                }
            }
        }
        let words: Vec<Vec<u8>> =
            (0..3_u32.pow(4)).map(|n| (0..n % 5).map(|i| b"abc"[(n / 3_u32.pow(i) % 3) as usize]).collect()).collect();
        for a in words.iter().step_by(3) {
            for b in words.iter().step_by(5) {
                assert_eq!(changes(a, b), plain(a, b), "{a:?} {b:?}");
            }
        }
    }
}
