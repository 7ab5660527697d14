//! The iteration in a sequence of calls: what repeats itself, call by call.
//!
//! A job calls the same collectives in the same order in every iteration, so the shortest sequence whose repetition makes up the recent calls
//! is an iteration. Nothing is assumed of time. A run of equal calls repeats itself within an iteration too, so the sequence that explains the
//! longest stretch counts.

use alloc::vec::Vec;

/// Times that a sequence has to stand in a row: twice comes about by chance where calls are few.
pub const REPEATS_MIN: usize = 3;

/// A sequence that repeats itself up to the end of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Calls of one iteration.
    pub length: usize,
    /// The first call of the stretch, which ends with the last call of all.
    pub first: usize,
}

/// What repeats itself up to the end of `calls`; `None` where nothing stands [`REPEATS_MIN`] times in a row. Linear in time and memory.
#[must_use]
pub fn repeat<T: PartialEq>(calls: &[T]) -> Option<Repeat> {
    repeat_with(calls, &mut Vec::with_capacity(calls.len()))
}

/// As [`repeat`], with memory of the caller: nothing is allocated where `borders` has room for a number for each call.
pub fn repeat_with<T: PartialEq>(calls: &[T], borders: &mut Vec<usize>) -> Option<Repeat> {
    let n = calls.len();
    borders.clear();
    // Of the calls read backwards: the longest proper beginning of each prefix that is its end too (Knuth, Morris and Pratt). A prefix
    // whose border is k calls long repeats itself every length less k.
    let back = |at: usize| calls.get(n - 1 - at);
    let mut best = None;
    for at in 0..n {
        let mut border = at.checked_sub(1).and_then(|before| borders.get(before).copied()).unwrap_or(0);
        while border > 0 && back(border) != back(at) {
            border = borders.get(border - 1).copied().unwrap_or(0);
        }
        if at > 0 && back(border) == back(at) {
            border += 1;
        }
        borders.push(border);
        let (stretch, length) = (at + 1, at + 1 - border);
        if stretch >= REPEATS_MIN * length {
            best = Some(Repeat { length, first: n - stretch });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_iteration_is_found_behind_what_came_before_it() {
        assert_eq!(repeat(b"zyabcabcabc"), Some(Repeat { length: 3, first: 2 }));
        // The last iteration is under way.
        assert_eq!(repeat(b"zabcabcabcab"), Some(Repeat { length: 3, first: 1 }));
        // Equal buckets repeat themselves too, but explain less.
        assert_eq!(repeat(b"aaaabaaaabaaaabaaaa"), Some(Repeat { length: 5, first: 0 }));
        assert_eq!(repeat(b"aaaabaaaa"), Some(Repeat { length: 1, first: 5 }), "of two iterations nothing else is seen yet");
        for none in [b"".as_slice(), b"a", b"ab", b"abab", b"abcde"] {
            assert_eq!(repeat(none), None);
        }
    }

    proptest! {
        /// Against trying every stretch and every length.
        #[test]
        fn it_is_what_trying_everything_finds(calls in prop::collection::vec(0_u8..3, 0..40)) {
            let repeats = |first: usize, length: usize| calls[first..].iter().zip(&calls[first + length..]).all(|(a, b)| a == b);
            let found = (0..calls.len()).find_map(|first| {
                let lengths = 1..=(calls.len() - first) / REPEATS_MIN;
                lengths.clone().find(|&length| repeats(first, length)).map(|length| Repeat { length, first })
            });
            prop_assert_eq!(repeat(&calls), found);
        }
    }
}
