//! Readers of traces: one room for each format.

mod gather;
mod muri;
mod table;

use super::{Trace, TraceError};

/// Reads a trace in the format of Muri.
///
/// # Errors
/// [`TraceError`], the first thing that is wrong.
pub fn read_muri(text: &str) -> Result<Trace, TraceError> {
    muri::read(text)
}
