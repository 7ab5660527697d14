//! Jobs and candidates documents into structs: limits, and errors that name the key and the line.

use std::path::Path;

use fabric::yaml::{self, Limits};
use serde::{Deserialize, de::DeserializeOwned};

use crate::input::{CliError, read_document};

/// 100,000 jobs of ten keys each; our documents need six levels.
const LIMITS: Limits = Limits { depth: 24, events: 4_000_000 };

/// The one key that says what a document is.
#[derive(Debug, Deserialize)]
struct Named {
    schema: Option<String>,
}

/// Reads a document of `schema`; `named` is what the document says it is.
pub(super) fn read<T: DeserializeOwned>(file: &Path, schema: &str, named: impl Fn(&T) -> &str) -> Result<T, CliError> {
    let text = read_document(file)?;
    let read = yaml::read::<T>(&text, LIMITS);
    // A document of another kind is worth a plainer word than its first unknown field.
    let said = match &read {
        Ok(document) => Some(named(document).to_owned()),
        Err(e) => match yaml::read::<Named>(&text, LIMITS) {
            Ok(named) => named.schema,
            Err(_) => return Err(CliError::input(file, e)),
        },
    };
    match said {
        Some(said) if said == schema => read.map_err(|e| CliError::input(file, e)),
        Some(said) => Err(CliError::input(file, format!("schema: {said:?}; expected {schema:?}"))),
        None => Err(CliError::input(file, format!("schema: missing; expected {schema:?}"))),
    }
}
