//! Orders of the members of a group, and which of them counts.

/// Most jobs in a group: one for each of storage, CPU, GPU and network.
pub const GROUP_MAX: usize = 4;

/// Which of the orders of the members counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order with the shortest iteration.
    #[default]
    Best,
    /// The one with the longest: what a scheduler loses that does not choose.
    Worst,
}

/// A group in an order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interleaving {
    /// One iteration of every member, without the cost of sharing, in seconds.
    pub period_s: f64,
    /// The member in each slot, by its place in the list that was given.
    pub slots: [Option<u8>; GROUP_MAX],
}

/// The orders of `n` members, n at most [`GROUP_MAX`], in lexicographic order.
pub(super) fn orders(n: usize) -> impl Iterator<Item = [usize; GROUP_MAX]> {
    // There are at most 4^4 words, so going through all of them costs less than keeping state.
    let words = GROUP_MAX.pow(n as u32);
    (0..words).filter_map(move |word| {
        let mut order = [0; GROUP_MAX];
        let (mut rest, mut seen) = (word, 0_u32);
        for at in (0..n).rev() {
            let member = rest % GROUP_MAX;
            rest /= GROUP_MAX;
            if member >= n || seen & (1 << member) != 0 {
                return None;
            }
            seen |= 1 << member;
            order[at] = member;
        }
        Some(order)
    })
}

/// Keeps the better of what was found: strictly better only, so the first of equals stays.
pub(super) fn keep(found: &mut Option<Interleaving>, next: Interleaving, order: Order) {
    let better = found.is_none_or(|held| match order {
        Order::Best => next.period_s < held.period_s,
        Order::Worst => next.period_s > held.period_s,
    });
    if better {
        *found = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_all_permutations_in_lexicographic_order() {
        let three: Vec<[usize; 3]> = orders(3).map(|o| [o[0], o[1], o[2]]).collect();
        assert_eq!(three, [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
        assert_eq!(orders(4).count(), 24);
        assert_eq!(orders(0).count(), 1);
    }
}
