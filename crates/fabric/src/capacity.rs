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
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let decimals = match unit {
        "M" => 0,
        "G" => 3,
        "T" => 6,
        _ => return Err(refuse("expected a number with the unit M, G or T, for example 400G")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(refuse("expected a number with the unit M, G or T, for example 400G"));
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > decimals {
        return Err(refuse("not a whole number of Mbit/s"));
    }
    let padded = format!("{whole}{fraction:0<decimals$}");
    match padded.parse() {
        Ok(0) => Err(refuse("a link that carries nothing; leave it out")),
        Ok(mbps) => Ok(Rate(mbps)),
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
