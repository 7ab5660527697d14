//! How a score is shown.

use core::fmt;

/// What a sum that should be 1 may lack by rounding; far less than the decimals that are shown.
const EPSILON: f64 = 1e-9;
/// Decimals where the caller names none: as in pictures.
const DECIMALS: usize = 3;

/// A score as everybody shows it: rounded down, so that 1 stands only where the demand never exceeds the capacity, and so that fewer
/// decimals are the first ones of more. The page (`coloured` of `dom.js`) and pictures (`quantity` of the crate `render`) round alike.
///
/// ```
/// use antiphase_units::Score;
/// assert_eq!(format!("{} {:.4} {}", Score(0.99996), Score(0.99996), Score(1.0 - 1e-12)), "0.999 0.9999 1.000");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Score(pub f64);

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = f.precision().unwrap_or(DECIMALS);
        let mut whole = 1.0;
        for _ in 0..decimals {
            whole *= 10.0;
        }
        let scaled = (self.0 + EPSILON) * whole;
        // `core` has no `floor`. A score is a small number; what is beyond the range of the integer is shown as it is.
        let cut = scaled as i64;
        let floor = if (cut as f64) > scaled { cut - 1 } else { cut };
        let shown = if scaled.abs() < 1e15 { floor as f64 / whole } else { self.0 };
        write!(f, "{shown:.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;

    use super::*;

    #[test]
    fn a_score_is_never_shown_as_better_than_it_is() {
        let shown = |score| format!("{} {:.4}", Score(score), Score(score));
        assert_eq!(shown(0.99999), "0.999 0.9999");
        assert_eq!(shown(0.8095238), "0.809 0.8095");
        assert_eq!(shown(1.0), "1.000 1.0000");
        // The sum of three thirds.
        assert_eq!(shown(1.0 - 2.0 * f64::EPSILON), "1.000 1.0000");
        assert_eq!(shown(-0.00005), "-0.001 -0.0001");
        assert_eq!(shown(0.3), "0.300 0.3000");
        assert_eq!(format!("{}", Score(f64::NAN)), "NaN");
    }
}
