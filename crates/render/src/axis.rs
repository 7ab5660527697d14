//! Round numbers along an axis.

use alloc::{string::String, vec::Vec};

use crate::quantity;

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

/// Most marks of a scale, whatever is asked for: beyond them no picture has room.
const MARKS_MAX: usize = 32;

/// The round numbers from `from` to `to`, each with its text: multiples of the smallest step of the form 1, 2 or 5 times a power of ten that
/// gives at most `count_max` intervals. None for a scale without a length, or whose ends are no numbers.
pub(crate) fn marks((from, to): (f64, f64), count_max: u32) -> Vec<(f64, String)> {
    let least = (to - from) / f64::from(count_max.max(1));
    if !least.is_normal() || least < 0.0 {
        return Vec::new();
    }
    let exponent = libm::floor(libm::log10(least));
    let power = libm::pow(10.0, exponent);
    // What rounding made a little larger than it is would take the next larger step.
    let fits = |factor: &f64| factor * power >= least * (1.0 - 1e-9);
    let step = power * [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0);
    // As many decimals as tell a mark from the next.
    let decimals = (-libm::floor(libm::log10(step * (1.0 + 1e-9)))).clamp(0.0, 12.0) as usize;
    let (first, last) = (libm::ceil(from / step - 1e-9), libm::floor(to / step + 1e-9));
    let at = (0..MARKS_MAX).map(|n| (first + n as f64) * step);
    at.take_while(|at| *at <= (last + 0.5) * step).map(|at| (at, quantity::trimmed(at, decimals))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_differ_and_lie_within_the_scale() {
        let texts = |from: f64, to: f64, most: u32| marks((from, to), most).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(148.6, 740.8, 5), ["200", "400", "600"]);
        assert_eq!(texts(0.9, 1.2, 4), ["0.9", "1", "1.1", "1.2"]);
        assert_eq!(texts(0.0, 48.0, 4), ["0", "20", "40"]);
        assert_eq!(texts(-1.0, 1.0, 4), ["−1", "−0.5", "0", "0.5", "1"]);
        for highest in [1e-9, 0.04, 0.38, 0.4, 1.0, 3.9, 7.0, 48.0, 720.0, 1e15] {
            for from in [0.0, highest / 3.0, -highest] {
                // Of fewer than five parts a step can be so long that one mark alone lies within.
                for most in 5..=8 {
                    let marks = marks((from, highest), most);
                    let few = (2..=most as usize + 1).contains(&marks.len());
                    assert!(few && marks.windows(2).all(|two| two[0].1 != two[1].1), "{from} to {highest} in {most}: {marks:?}");
                    assert!(marks.iter().all(|(at, _)| *at >= from - highest * 1e-9 && *at <= highest * (1.0 + 1e-9)), "{marks:?}");
                }
            }
        }
        for ends in [(1.0, 1.0), (1.0, 0.0), (0.0, f64::NAN), (0.0, f64::INFINITY), (f64::MIN, f64::MAX)] {
            assert_eq!(marks(ends, 4), []);
        }
    }

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
