//! The opponents of a job: those with whom it takes turns.

use alloc::vec::Vec;

/// Bits of a word.
const WORD: u32 = u64::BITS;
/// Most words for each opponent: of jobs that are far apart in the group and have few opponents, a search in the list takes less memory.
const WORDS_EACH: usize = 8;

/// Jobs of a group. Whether somebody is one of them is asked for each of the others at every event, so it takes one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opponents {
    /// Ascending.
    all: Vec<u32>,
    /// A bit for each job from `first` on; none where that would be too long.
    bits: Vec<u64>,
    /// The job of the first bit, a multiple of a word.
    first: u32,
}

impl Opponents {
    pub(crate) fn new(mut all: Vec<u32>) -> Self {
        all.sort_unstable();
        all.dedup();
        let (Some(first), Some(last)) = (all.first().map(|o| o / WORD), all.last().map(|o| o / WORD)) else { return Self::default() };
        let words = (last - first) as usize + 1;
        let mut bits = Vec::new();
        if words <= WORDS_EACH * all.len() {
            bits.resize(words, 0);
            all.iter().for_each(|o| bits[(o / WORD - first) as usize] |= 1 << (o % WORD));
        }
        Self { all, bits, first: first * WORD }
    }

    pub(crate) fn has(&self, job: u32) -> bool {
        if self.bits.is_empty() {
            return self.all.binary_search(&job).is_ok();
        }
        // A job before the first wraps to one behind the last.
        let at = job.wrapping_sub(self.first);
        self.bits.get((at / WORD) as usize).is_some_and(|word| word >> (at % WORD) & 1 == 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.all.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn whoever_is_named_is_one_and_nobody_else() {
        let far = vec![3, 5_000_000];
        let none: Vec<u32> = Vec::new();
        for named in [vec![0], vec![63, 64], vec![200, 70, 200, 65], (128..400).step_by(3).collect(), far, vec![u32::MAX - 1], none] {
            let opponents = Opponents::new(named.clone());
            let asked = (0..500).chain(4_999_990..5_000_010).chain(u32::MAX - 130..=u32::MAX);
            asked.for_each(|job| assert_eq!(opponents.has(job), named.contains(&job), "{job} of {named:?}"));
            assert!(opponents.iter().is_sorted());
        }
    }

    #[test]
    fn few_that_are_far_apart_take_no_bits() {
        assert!(Opponents::new(vec![0, 1 << 20]).bits.is_empty());
        assert_eq!(Opponents::new((1_000_000..1_000_300).collect()).bits.len(), 5);
    }
}
