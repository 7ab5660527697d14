//! The order of cables: per host by port as people count, because the order of a host's links is
//! the numbering of its NICs, whichever end's document came first.

use core::cmp::Ordering;

use super::{cabling::NodeIndex, join::Cable};
use crate::NodeKind;

/// Puts cables of hosts first, host by host and port by port, then the others as they came. Cables
/// with an unnamed port go last, so that no port name made up for them takes a real one's.
pub(crate) fn sort(cables: &mut [Cable], kinds: &[NodeKind]) {
    let place = |cable: &Cable| {
        let named = cable.ends.iter().all(|(_, port)| port.is_some());
        // Cables without a host sort behind all hosts: no node index reaches u32::MAX.
        (!named, host_end(cable, kinds).map_or(u32::MAX, |(host, _)| host))
    };
    let port_order = |a: &Cable, b: &Cable| match (host_end(a, kinds), host_end(b, kinds)) {
        (Some((_, a)), Some((_, b))) => natural(a, b),
        _ => Ordering::Equal,
    };
    // The sort is stable, so cables between switches keep the order in which they were stated.
    cables.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| port_order(a, b)));
}

/// The host that a cable ends in, and the port there.
fn host_end<'a>(cable: &'a Cable, kinds: &[NodeKind]) -> Option<(NodeIndex, &'a str)> {
    let (host, port) = cable.ends.iter().find(|(node, _)| kinds[*node as usize] == NodeKind::Host)?;
    Some((*host, port.as_deref().unwrap_or_default()))
}

/// Order of names in which runs of digits compare as numbers: `eth2` before `eth10`.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while !left.is_empty() && !right.is_empty() {
        let ((x, x_digits, rest_x), (y, y_digits, rest_y)) = (first_run(left), first_run(right));
        let order = if x_digits && y_digits {
            // Without leading zeros the longer run is the larger number, so numbers of any length compare without overflow.
            let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        } else {
            x.cmp(y)
        };
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (rest_x, rest_y);
    }
    // `eth02` and `eth2` are equal as numbers; their bytes decide, so the order is total.
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// The leading run of digits or of anything else, whether it is digits, and the rest.
fn first_run(text: &str) -> (&str, bool, &str) {
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len());
    (&text[..end], digits, &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_compare_as_numbers() {
        let mut names = ["eth10", "eth2", "ens1f1", "ens1f0", "eth02", "eth", "7", "\u{e9}1", "ens10f0"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["7", "ens1f0", "ens1f1", "ens10f0", "eth", "eth02", "eth2", "eth10", "\u{e9}1"]);
    }

    proptest::proptest! {
        #[test]
        fn it_is_a_total_order(a in "[a0-2]{0,6}", b in "[a0-2]{0,6}", c in "[a0-2]{0,6}") {
            proptest::prop_assert_eq!(natural(&a, &b), natural(&b, &a).reverse());
            proptest::prop_assert_eq!(natural(&a, &b) == Ordering::Equal, a == b);
            if natural(&a, &b) != Ordering::Greater && natural(&b, &c) != Ordering::Greater {
                proptest::prop_assert_ne!(natural(&a, &c), Ordering::Greater);
            }
        }
    }
}
