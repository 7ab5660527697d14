//! Jobs and candidates documents into structs: limits, and errors that name the key and the line.

use std::path::Path;

use fabric::yaml::{self, Limits};
use serde::de::DeserializeOwned;

use crate::input::{CliError, read_document};

/// 100 candidates that each move 500 jobs of 16 hosts; our documents need six levels.
const LIMITS: Limits = Limits { depth: 24, events: 1_000_000 };

/// Reads a document.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Result<T, CliError> {
    yaml::read(&read_document(file)?, LIMITS).map_err(|e| CliError::input(file, e))
}
