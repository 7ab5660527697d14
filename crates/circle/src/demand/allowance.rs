//! What the circles of a problem may take before any search: the links share it, so that a document is answered in seconds whatever is in
//! it. A link that would take more is folded to less, and its blur and bounds say so.

/// Most (level, probability) pairs in the folded demands of a problem that have several levels in a piece: 160 MiB with their spans.
const PAIRS_ALL: usize = 1 << 22;
/// No link gets less of that: four jobs of eight phases and three levels each.
const PAIRS_MIN: usize = 1 << 8;
/// Most terms of the convolutions of all backgrounds of a problem, a second of work; and of those of one link, a tenth of that.
const TERMS_ALL: usize = 1 << 25;
const TERMS_MAX: usize = 1 << 21;
/// Work on a problem, in units of 10 ns, for each of those terms; and for each of those sums.
const WORK_PER_TERM: u64 = 8;
const WORK_PER_SUM: u64 = 16;
/// Most sums of levels that are made for the least costs of a problem, half a second of work; and for those of one link.
const SUMS_ALL: usize = 1 << 24;
const SUMS_MAX: usize = 1 << 21;
/// No link gets less of that: two jobs of a hundred levels.
const SUMS_MIN: usize = 1 << 8;

/// What the circle of one link may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Pairs in its folded demands that have several levels in a piece.
    pub(crate) pairs: usize,
    /// Terms of the convolutions of its background.
    pub(crate) terms: usize,
    /// Sums of levels that are made to find the least cost, and to find whether levels may be merged.
    pub(crate) sums: usize,
}

impl Allowance {
    /// What each of so many links may take, where so much work is spent on their problem.
    pub(crate) fn of_each(links: usize, work: u64) -> Self {
        let share = |all: usize, work_each: u64| all.min(usize::try_from(work / work_each).unwrap_or(all)) / links.max(1);
        Self {
            // Pairs are memory more than work.
            pairs: share(PAIRS_ALL, 1).max(PAIRS_MIN),
            terms: share(TERMS_ALL, WORK_PER_TERM).min(TERMS_MAX),
            sums: share(SUMS_ALL, WORK_PER_SUM).clamp(SUMS_MIN, SUMS_MAX),
        }
    }
}

#[cfg(test)]
impl Allowance {
    /// Whatever a link takes.
    pub(crate) const UNLIMITED: Self = Self { pairs: usize::MAX, ..Self::ALONE };
    /// What the only link of a problem may take.
    pub(crate) const ALONE: Self = Self { pairs: PAIRS_ALL, terms: TERMS_MAX, sums: SUMS_MAX };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_share_and_each_gets_a_little() {
        let much = 300_000_000;
        let pairs = |links| Allowance::of_each(links, much).pairs;
        assert_eq!((pairs(1), pairs(0), pairs(64), pairs(1 << 20)), (1 << 22, 1 << 22, 1 << 16, 1 << 8));
        let sums = |links| Allowance::of_each(links, much).sums;
        assert_eq!((sums(1), sums(1 << 10), sums(1 << 20)), (1 << 21, 1 << 14, 1 << 8));
        assert_eq!((Allowance::of_each(1, much).terms, Allowance::of_each(1 << 10, much).terms), (1 << 21, 1 << 15));
        let little = Allowance::of_each(10, 1_000_000);
        assert_eq!((little.pairs, little.terms, little.sums), (100_000, 12_500, 6_250));
    }
}
