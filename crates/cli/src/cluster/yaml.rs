//! YAML (and JSON, its subset) into structs, with limits, and errors that name the key and the line.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::input::{CliError, read_document};

/// Most YAML events in one document: 100,000 jobs of ten keys each.
const EVENTS_MAX: usize = 4_000_000;
/// Deepest nesting; our documents need six.
const DEPTH_MAX: usize = 24;

/// Reads a document of `schema`.
pub(crate) fn read<T: DeserializeOwned>(file: &Path, schema: &str) -> Result<T, CliError> {
    let text = read_document(file)?;
    check_schema(file, &text, schema)?;
    let budget = serde_saphyr::budget! {
        max_events: EVENTS_MAX, max_nodes: EVENTS_MAX, max_depth: DEPTH_MAX, max_aliases: 0, max_anchors: 0, max_documents: 1
    };
    let options = serde_saphyr::options! { budget: budget, with_snippet: false };
    let mut place = String::new();
    let read = serde_saphyr::with_deserializer_from_str_with_options(&text, options, |de| {
        let mut track = serde_path_to_error::Track::new();
        let result = T::deserialize(serde_path_to_error::Deserializer::new(de, &mut track));
        place = track.path().to_string();
        result
    });
    read.map_err(|e| {
        let place = if place.is_empty() || place == "." { String::new() } else { format!("{place}: ") };
        CliError::input(file, format!("{place}{e}"))
    })
}

/// A wrong schema is worth a plainer word than an unknown field.
fn check_schema(file: &Path, text: &str, schema: &str) -> Result<(), CliError> {
    let named = text.lines().find_map(|l| l.trim().trim_start_matches(['{', '"']).strip_prefix("schema"));
    let value = named.map(|v| v.trim_start_matches(['"', ':', ' ']).trim_end_matches([',', ' ']).trim_matches('"'));
    match value {
        Some(value) if !value.starts_with(schema) => Err(CliError::input(file, format!("schema: {value:?}; expected {schema:?}"))),
        Some(_) => Ok(()),
        None => Err(CliError::input(file, format!("schema: missing; expected {schema:?}"))),
    }
}
