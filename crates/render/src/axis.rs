//! Round numbers along a time axis.

use alloc::vec::Vec;

/// Ticks of a window: the step between them in ns, and every multiple of it up to the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// Distance between two ticks.
    pub step_ns: u64,
    /// The ticks, from 0; the window's end is among them only if it is a multiple of the step.
    pub at_ns: Vec<u64>,
}

/// The smallest step of the form 1, 2 or 5 times a power of ten that gives at most `count_max` intervals.
pub(crate) fn ticks(window_ns: u64, count_max: u64) -> Ticks {
    let mut step = 1_u64;
    let mut mantissa = 0;
    while window_ns / step > count_max.max(1) {
        // The steps go 1, 2, 5, 10: times 2, times 5/2, times 2. A decade takes three rounds, so the loop ends within 60.
        let factor = if mantissa == 1 { (5, 2) } else { (2, 1) };
        match step.checked_mul(factor.0) {
            Some(next) => step = next / factor.1,
            None => break,
        }
        mantissa = (mantissa + 1) % 3;
    }
    Ticks { step_ns: step, at_ns: (0..=window_ns / step).map(|k| k * step).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_one_two_five_and_cover_the_window() {
        // 255 ms in at most 8 intervals: 50 ms gives 5; 20 ms would give 12.
        let t = ticks(255_000_000, 8);
        assert_eq!(t.step_ns, 50_000_000);
        assert_eq!(t.at_ns, [0, 50, 100, 150, 200, 250].map(|ms| ms * 1_000_000));
        assert_eq!(ticks(120_000_000, 12).step_ns, 10_000_000);
        assert_eq!(ticks(121_000_000, 12).step_ns, 10_000_000);
        assert_eq!(ticks(130_000_000, 12).step_ns, 20_000_000);
    }

    #[test]
    fn extremes_end() {
        assert_eq!(ticks(0, 8).at_ns, [0]);
        assert!(ticks(u64::MAX, 8).at_ns.len() <= 21);
    }
}
