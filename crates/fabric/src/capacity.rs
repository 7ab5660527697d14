//! Capacities as people write them: `400G`, `50000M`, `1.6T`.

use alloc::{format, string::String};

use units::Rate;

/// A capacity that cannot be taken; one line with the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("capacity {value:?}: {problem}")]
pub struct CapacityError {
    /// As written.
    pub value: String,
    /// What is wrong.
    pub problem: &'static str,
}

/// Reads a capacity with its unit: `M`, `G` or `T` for Mbit/s, Gbit/s and Tbit/s, with a
/// decimal point where the result is a whole number of Mbit/s.
///
/// # Errors
/// No unit, no number, zero, a fraction of a Mbit/s, or more than `u64` holds.
///
/// ```
/// use antiphase_fabric::capacity;
/// use units::Rate;
/// assert_eq!(capacity::parse("400G"), Ok(Rate(400_000)));
/// assert_eq!(capacity::parse("2.5G"), Ok(Rate(2_500)));
/// assert!(capacity::parse("400").is_err());
/// ```
pub fn parse(text: &str) -> Result<Rate, CapacityError> {
    let refuse = |problem| CapacityError { value: text.chars().take(40).collect(), problem };
    // A letter of any script counts to the unit, so a foreign unit is refused as a whole.
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let decimals = match unit {
        "M" => 0,
        "G" => 3,
        "T" => 6,
        _ => return Err(refuse("expected a number with the unit M, G or T, for example 400G")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // The digits are checked here, because the parser of u64 would take a leading `+`.
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(refuse("expected a number with the unit M, G or T, for example 400G"));
    }
    // Zeros at the end carry no value: `1.0M` is a whole number of Mbit/s.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > decimals {
        return Err(refuse("not a whole number of Mbit/s"));
    }
    // The decimal point moves as text, so the result is exact where a float would round.
    let padded = format!("{whole}{fraction:0<decimals$}");
    match padded.parse() {
        Ok(0) => Err(refuse("a link that carries nothing; leave it out")),
        Ok(mbps) => Ok(Rate(mbps)),
        // Only digits are left, so overflow is the one error that parsing can return.
        Err(_) => Err(refuse("too large")),
    }
}

/// The shortest text that [`parse`] reads back as `rate`.
#[must_use]
pub fn text(rate: Rate) -> String {
    match rate.mbps() {
        mbps if mbps > 0 && mbps.is_multiple_of(1_000) => format!("{}G", mbps / 1_000),
        mbps => format!("{mbps}M"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_and_fractions_are_exact() {
        for (text, mbps) in [("1M", 1), ("50000M", 50_000), ("400G", 400_000), ("1.6T", 1_600_000), ("0.001G", 1), ("2.50G", 2_500)] {
            assert_eq!(parse(text), Ok(Rate(mbps)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_value() {
        for text in
            ["", "G", "400", "400g", "-1G", "1e3G", "0G", "0.0T", "1.2.3G", ".5G", "5.G", "0.0001G", "1.5M", "99999999999999999999G", "４G"]
        {
            let error = parse(text).unwrap_err();
            assert_eq!(error.value, text);
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(mbps in 1_u64..) {
            prop_assert_eq!(parse(&text(Rate(mbps))), Ok(Rate(mbps)));
        }
    }
}
