//! Levels of demand with their probabilities, as every sum keeps them.

use alloc::vec::Vec;

/// Most (level, probability) pairs kept for the sum of unlocked jobs. Above it, neighbours are merged at their mean, which can
/// only lower the excess; the blur of the circle says by how much.
pub(crate) const LEVELS_MAX: usize = 1_024;

/// Adds up the probabilities of equal levels.
pub(crate) fn merge_equal(atoms: &mut Vec<(f64, f64)>) {
    atoms.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    atoms.dedup_by(|next, kept| {
        // Exact equality is enough: two levels that only rounding parts stay two atoms, which changes no excess.
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}
