//! Where rows of CSV stand, and what is wrong with them.

use units::Lines;

/// The line of a place, which the reader itself counts in another way.
pub(crate) fn line(position: Option<&csv::Position>, lines: &mut Lines<'_>) -> u64 {
    lines.line_of(position.and_then(|at| usize::try_from(at.byte()).ok()).unwrap_or(0))
}

/// The message of the reader, without its own idea of the place.
pub(crate) fn unequal(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => format!("{len} fields, expected {expected_len}"),
        _ => error.to_string(),
    }
}
