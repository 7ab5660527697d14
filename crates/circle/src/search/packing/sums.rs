//! Which lengths are sums of others: a free stretch that is closed on both sides is filled by a set of jobs, or not at all.

use alloc::{vec, vec::Vec};

use crate::budget::Budget;

/// Sums are looked for where a circle has at most so many units of length, and where there are at most so many sets of lengths, as a power of
/// two, for each unit: of more sets nearly every length is a sum.
const UNITS_MAX: u64 = 1 << 20;
const SETS_PER_UNIT: u32 = 6;
/// Sums up to so many units below the length of a closed stretch are looked for; where more may be lost they say nothing.
const UNITS_LOST_MAX: u64 = 64;
/// Words of a list of bits that are filled in a unit of work, and steps through lists of sums.
const WORDS_PER_UNIT: u64 = 16;
const STEPS_PER_UNIT: u64 = 8;

/// Whether there is a closed stretch whose length no set of `lengths` adds up to, nor to up to `lost` less, on a circle of so many units.
/// `false` where that is not looked at.
pub(super) fn is_one_missing(lengths: Vec<u64>, mut closed: Vec<u64>, lost: u64, units: u64, budget: &mut Budget) -> bool {
    let longest = closed.iter().copied().max().unwrap_or(0);
    let are_too_many = lengths.len() as u32 > units.ilog2() + SETS_PER_UNIT;
    if units > UNITS_MAX || are_too_many || lengths.is_empty() || longest == 0 || lost > UNITS_LOST_MAX {
        return false;
    }
    closed.sort_unstable();
    closed.dedup();
    let words = longest / u64::from(u64::BITS) + 1;
    let by_bits = words * lengths.len() as u64 / WORDS_PER_UNIT;
    // As many sets as the larger half has. There are at most 26 lengths.
    let by_halves = steps(1 << lengths.len().div_ceil(2), closed.len());
    if by_bits <= by_halves {
        budget.charge(by_bits);
        let sums = bits(&lengths, words as usize);
        let is_sum = |length: u64| sums[(length / 64) as usize] >> (length % 64) & 1 == 1;
        return closed.iter().any(|&length| !(length.saturating_sub(lost)..=length).any(is_sum));
    }
    let half = |first: usize| ascending(lengths.iter().skip(first).step_by(2).copied(), longest);
    let (one, other) = (half(0), half(1));
    budget.charge(steps(one.len().max(other.len()), closed.len()));
    closed.iter().any(|&length| !is_sum_of_both(&one, &other, length.saturating_sub(lost), length))
}

/// Work to list the sums of two halves, up to so many of each, and to go through them for each closed stretch.
fn steps(sums: usize, closed: usize) -> u64 {
    2 * sums as u64 * (2 + closed as u64) / STEPS_PER_UNIT
}

/// The sums of all sets of lengths, below 64 times `words`: bit by bit.
fn bits(lengths: &[u64], words: usize) -> Vec<u64> {
    let mut sums = vec![0_u64; words];
    sums[0] = 1;
    for length in lengths {
        let (skip, shift) = ((length / 64) as usize, (length % 64) as u32);
        // From the top down, so that no sum has one length twice.
        for word in (skip..words).rev() {
            let below = (word - skip).checked_sub(1).map_or(0, |below| sums[below]);
            let carried = if shift > 0 { below >> (64 - shift) } else { 0 };
            sums[word] |= sums[word - skip] << shift | carried;
        }
    }
    sums
}

/// The sums of all sets of lengths up to `most`, ascending and each once.
fn ascending(lengths: impl Iterator<Item = u64>, most: u64) -> Vec<u64> {
    let mut sums = vec![0];
    for length in lengths {
        let mut all: Vec<u64> = Vec::with_capacity(2 * sums.len());
        let mut with = sums.iter().map(|sum| sum + length).take_while(|sum| *sum <= most).peekable();
        for &sum in &sums {
            while let Some(before) = with.next_if(|with| *with < sum) {
                all.push(before);
            }
            with.next_if_eq(&sum);
            all.push(sum);
        }
        all.extend(with);
        sums = all;
    }
    sums
}

/// Whether one of each list, both ascending, add up to something from `least` to `most`.
fn is_sum_of_both(one: &[u64], other: &[u64], least: u64, most: u64) -> bool {
    let mut below = other.len();
    for sum in one {
        let Some(room) = most.checked_sub(*sum) else { return false };
        below -= other[..below].iter().rev().take_while(|other| **other > room).count();
        match other[..below].last() {
            Some(largest) if sum + largest >= least => return true,
            Some(_) => {}
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against all sets, one by one, by both methods: up to ten lengths of up to 40, stretches up to 200.
    #[test]
    fn sums_are_those_of_all_sets() {
        let mut seed = 5_u64;
        let mut below = |end: u64| units::splitmix64(&mut seed) % end;
        for case in 0..2_000 {
            let lengths: Vec<u64> = (0..1 + below(10)).map(|_| 1 + below(40)).collect();
            let most = 1 + below(200);
            let sets = (0..1_u32 << lengths.len()).map(|set| (0..lengths.len()).filter(|i| set >> i & 1 == 1).map(|i| lengths[i]).sum());
            let mut all: Vec<u64> = sets.filter(|sum| *sum <= most).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(ascending(lengths.iter().copied(), most), all, "{case}");
            let by_bits = bits(&lengths, (most / 64 + 1) as usize);
            assert!(
                (0..=most).all(|sum| (by_bits[(sum / 64) as usize] >> (sum % 64) & 1 == 1) == all.binary_search(&sum).is_ok()),
                "{case}"
            );
            let half = |first: usize| ascending(lengths.iter().skip(first).step_by(2).copied(), most);
            let (one, other) = (half(0), half(1));
            for lost in [0, 1, 7] {
                let is_there = |length: u64| all.iter().any(|sum| (length.saturating_sub(lost)..=length).contains(sum));
                for length in 0..=most {
                    assert_eq!(
                        is_sum_of_both(&one, &other, length.saturating_sub(lost), length),
                        is_there(length),
                        "{case} {length} {lost}"
                    );
                }
                let closed: Vec<u64> = (0..1 + below(4)).map(|_| below(most + 1)).collect();
                let is_missing = closed.iter().any(|&length| !is_there(length));
                // Few units are looked at bit by bit. With one length more, which fills one more stretch alone and is far too long for that,
                // by halves.
                for far in [None, Some(lengths.iter().sum::<u64>() << 12)] {
                    let (lengths, closed) = ([&lengths[..], far.as_slice()].concat(), [&closed[..], far.as_slice()].concat());
                    assert_eq!(is_one_missing(lengths, closed, lost, 1 << 20, &mut Budget::default()), is_missing, "{case} {lost} {far:?}");
                }
            }
        }
    }
}
