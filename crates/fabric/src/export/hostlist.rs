//! Slurm host lists: `node[01-04,07],login`.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

/// Names in brackets, digits at the end compressed into ranges of equal width.
pub(super) fn compress<'n>(names: impl Iterator<Item = &'n str>) -> String {
    // (prefix, width) to numbers; width 0 means any width without leading zeros.
    let mut numbered: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    let mut plain = Vec::new();
    for name in names {
        let (prefix, digits) = name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        let width = if digits.starts_with('0') { digits.len() } else { 0 };
        // A name without digits, or with a number above u64, is written out in full.
        match digits.parse::<u64>() {
            Ok(number) => numbered.entry((prefix, width)).or_default().push(number),
            Err(_) => plain.push(String::from(name)),
        }
    }
    let mut parts: Vec<String> = Vec::new();
    for ((prefix, width), mut numbers) in numbered {
        numbers.sort_unstable();
        numbers.dedup();
        // The checked sum ends a run at the largest number instead of wrapping around to 0.
        let runs: Vec<String> = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b)).map(|run| range(run, width)).collect();
        match runs.as_slice() {
            [only] if !only.contains('-') => parts.push(format!("{prefix}{only}")),
            _ => parts.push(format!("{prefix}[{}]", runs.join(","))),
        }
    }
    parts.extend(plain);
    parts.join(",")
}

fn range(run: &[u64], width: usize) -> String {
    // A width of 0 pads nothing, so one format serves numbers with and without leading zeros.
    match run {
        [] => String::new(),
        [one] => format!("{one:0width$}"),
        [first, .., last] => format!("{first:0width$}-{last:0width$}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_become_ranges_and_widths_stay() {
        let list = |names: &[&str]| compress(names.iter().copied());
        assert_eq!(list(&["node01", "node02", "node04", "login"]), "node[01-02,04],login");
        assert_eq!(list(&["h9", "h10", "h11"]), "h[9-11]");
        assert_eq!(list(&["h1"]), "h1");
        assert_eq!(list(&["h007", "h7"]), "h7,h007");
        assert_eq!(list(&["r1n1", "r1n2", "r2n1"]), "r1n[1-2],r2n1");
        assert_eq!(list(&["x99999999999999999999"]), "x99999999999999999999");
    }

    /// An independent reading of what [`compress`] writes.
    fn expand(list: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut rest = list;
        while !rest.is_empty() {
            let stop = rest.find([',', '[']).unwrap_or(rest.len());
            let (head, tail) = rest.split_at(stop);
            if let Some(inside) = tail.strip_prefix('[') {
                let (inside, tail) = inside.split_once(']').unwrap();
                for run in inside.split(',') {
                    let (a, b) = run.split_once('-').unwrap_or((run, run));
                    let width = if a.starts_with('0') { a.len() } else { 0 };
                    names.extend((a.parse::<u64>().unwrap()..=b.parse().unwrap()).map(|n| format!("{head}{n:0width$}")));
                }
                rest = tail.trim_start_matches(',');
            } else {
                names.insert(head.into());
                rest = tail.trim_start_matches(',');
            }
        }
        names
    }

    proptest! {
        #[test]
        fn expansion_gives_the_names_back(names in prop::collection::btree_set("[a-b]{0,2}[0-9]{0,3}[a-b0-9]", 1..30)) {
            prop_assert_eq!(expand(&compress(names.iter().map(String::as_str))), names);
        }
    }
}
