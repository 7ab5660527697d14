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

/// Times that the shortest sequence may stand in one iteration, such as equal buckets.
pub const ALIKE_MAX: usize = 64;
/// A silence before a call of which nobody knows how long it was.
pub const UNKNOWN: u64 = u64::MAX;
/// From so many iterations on a silence that is longer by a quarter stands out; of fewer it has to be twice as long, because three lengths
/// that differ by chance fall on the right sides of a border once in ten times.
const REPEATS_SURE: usize = 5;
/// Of the other silences one in so many may be as long: a host that pauses.
const PAUSE_ONE_IN: usize = 10;

/// An iteration that begins after a silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Calls of one iteration.
    pub length: usize,
    /// The place of its first call: all calls whose number is this one modulo `length` are first.
    pub first: usize,
    /// The silence before the first call, where it was shortest; [`UNKNOWN`] where it is known of none.
    pub shortest: u64,
}

/// How many calls are one iteration, by the silences before them. Equal buckets repeat themselves within an iteration, so the sequence alone
/// ([`repeat()`]) says too few: an iteration is as many of them as lie between two silences that come regularly.
///
/// `silences` are those before each call, [`UNKNOWN`] before the first one; `alike` is the length of the sequence that repeats itself.
/// No iteration of more than `longest` calls is taken, and a silence parts iterations of so many calls only where `parts` says so.
/// Allocates nothing.
#[must_use]
pub fn by_silences(silences: &[u64], alike: usize, longest: usize, parts: impl Fn(usize, u64) -> bool) -> Silence {
    let alike = alike.max(1);
    let mut best = longest_of(silences, alike);
    loop {
        let times = (2..=ALIKE_MAX).map(|times| times * best.length);
        let lengths =
            times.take_while(|length| length * REPEATS_MIN <= silences.len() && *length <= longest && length / alike <= ALIKE_MAX);
        let longer = lengths.map(|length| longest_of(silences, length));
        // Whatever is longer still holds two of these iterations, with the same silences, so the first is the one.
        match { longer }.find(|longer| parts(longer.length, longer.shortest) && stands_out(silences, best.length, *longer)) {
            Some(longer) => best = longer,
            None => return best,
        }
    }
}

/// Of all places in iterations of that length the one before which it was silent longest, where it was shortest.
fn longest_of(silences: &[u64], length: usize) -> Silence {
    let shortest = |place: usize| silences.iter().skip(place).step_by(length).copied().min().unwrap_or(0);
    let (shortest, first) = (0..length).map(|place| (shortest(place), place)).max().unwrap_or((0, 0));
    Silence { length, first, shortest }
}

/// Whether the silence before each iteration is longer than those at the same place of the parts that it would be made of.
fn stands_out(silences: &[u64], part: usize, longer: Silence) -> bool {
    let Silence { length, first, shortest } = longer;
    let is_shorter = |silence: u64| {
        if silences.len() / length >= REPEATS_SURE { shortest / 5 > silence / 4 } else { shortest / 2 > silence }
    };
    let (mut others, mut as_long) = (0_usize, 0_usize);
    for (_, &silence) in silences.iter().enumerate().skip(first % part).step_by(part).filter(|(at, _)| at % length != first) {
        if silence != UNKNOWN {
            others += 1;
            as_long += usize::from(!is_shorter(silence));
        }
    }
    others > 0 && as_long * PAUSE_ONE_IN <= others
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

    /// Iterations of calls that are all alike, with the silences before them.
    fn alike(iteration: &[u64], times: usize, late: impl Fn(usize) -> u64) -> Vec<u64> {
        let calls = iteration.len() * times;
        (0..calls).map(|at| if at == 0 { UNKNOWN } else { iteration[at % iteration.len()] + late(at) }).collect()
    }

    #[test]
    fn a_silence_that_comes_regularly_parts_iterations() {
        let length = |silences: &[u64]| by_silences(silences, 1, 1_000, |_, silence| silence >= 10);
        assert_eq!(length(&alike(&[80, 1, 1, 1], 3, |_| 0)), Silence { length: 4, first: 0, shortest: 80 });
        assert_eq!(length(&alike(&[1, 1, 80, 1], 8, |_| 0)), Silence { length: 4, first: 2, shortest: 80 });
        // Pairs within an iteration, and silences that differ by less than twice, which three iterations do not tell.
        assert_eq!(length(&alike(&[80, 1, 20, 1], 8, |_| 0)).length, 4);
        assert_eq!((length(&alike(&[40, 20], 5, |_| 0)).length, length(&alike(&[40, 20], 3, |_| 0)).length), (2, 1));
        // A host that pauses once among eight iterations, at any other place.
        assert_eq!(length(&alike(&[80, 1, 1, 1], 8, |at| if at == 13 { 500 } else { 0 })).length, 4);
        // Equal silences are between iterations of one call, however they vary, and those that part nothing are none.
        assert_eq!(length(&alike(&[80], 60, |at| (at as u64 * 7_919) % 31)).length, 1);
        assert_eq!(length(&alike(&[9, 1], 60, |_| 0)).length, 1);
        // Kinds in turn: the sequence of two stands twice.
        assert_eq!(by_silences(&alike(&[50, 1, 1, 1], 9, |_| 0), 2, 1_000, |_, _| true).length, 4);
        assert_eq!(by_silences(&alike(&[50, 1, 1, 1], 9, |_| 0), 2, 3, |_, _| true).length, 2, "no longer than it may be");
        assert_eq!(by_silences(&[], 1, 9, |_, _| true), Silence { length: 1, first: 0, shortest: 0 });
    }

    proptest! {
        /// Silences that vary by chance part nothing, whatever their spread.
        #[test]
        fn jitter_parts_no_iterations(silences in prop::collection::vec(60_u64..140, 6..400)) {
            prop_assert_eq!(by_silences(&silences, 1, usize::MAX, |_, _| true).length, 1);
        }

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
