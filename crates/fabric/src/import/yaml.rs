//! Bounded YAML: anchors, nesting and size are limited before anything is built.

use serde::de::DeserializeOwned;
use serde_saphyr::DuplicateKeyPolicy;

use super::place::{bounded, document};
pub(crate) use crate::yaml::place;
use crate::{FabricError, yaml::Malformed};

/// Deepest nesting of the formats read here is 7; a bomb of brackets ends at this depth.
const DEPTH_MAX: usize = 32;
/// Scalars and collections in one document: four per cable of the largest containerlab or per
/// switch of the largest topology.yaml, with room, and read within a second.
const NODES_MAX: usize = 1_250_000;
/// Most events that aliases may add; a document that repeats one group definition per node stays far below.
const ALIAS_EVENTS_MAX: usize = 200_000;

/// Reads a document into `T`; the error names line and column.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, FabricError> {
    let text = bounded(text)?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: NODES_MAX,
            // A collection has two events, its start and its end.
            max_events: 2 * NODES_MAX,
            max_anchors: 1_000,
            max_aliases: 10_000,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIAS_EVENTS_MAX,
        },
        // A repeated key would lose the first value in silence.
        duplicate_keys: DuplicateKeyPolicy::Error,
        with_snippet: false,
        emit_comments: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let Malformed { place, problem, .. } = Malformed::new(text, &error);
        document(place, problem)
    })
}
