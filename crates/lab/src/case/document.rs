//! The document `antiphase.lab/v1` as it is written.

use fabric::yaml;
use serde::{Deserialize, Deserializer};

/// Schema of a case.
pub const SCHEMA: &str = "antiphase.lab/v1";
/// A fabric of [`super::NODES_MAX`] nodes makes some thousand events; a case needs eight levels.
const LIMITS: yaml::Limits = yaml::Limits { depth: 24, events: 50_000 };

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(rename = "schema", deserialize_with = "schema")]
    pub(super) _schema: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) about: String,
    #[serde(default)]
    pub(super) fabric: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) fabric_file: Option<String>,
    #[serde(default)]
    pub(super) routes: Option<String>,
    pub(super) jobs: Vec<JobDocument>,
    #[serde(default)]
    pub(super) expect: Expect,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobDocument {
    pub(super) id: String,
    pub(super) hosts: Vec<String>,
    pub(super) compute_ms: u64,
    pub(super) bytes: u64,
    #[serde(default)]
    pub(super) jitter_ms: u64,
}

/// What the author of a case says that it shows. For people and for tests; the lab does not use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Mean compatibility score of the case's own times.
    #[serde(default)]
    pub score: Option<f64>,
    /// Whether holding the jobs to their slots is predicted to help.
    #[serde(default)]
    pub hold: Option<bool>,
}

fn schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    yaml::schema(deserializer, SCHEMA)
}

impl Document {
    pub(super) fn parse(text: &str) -> Result<Self, yaml::Malformed> {
        yaml::read(text, LIMITS)
    }
}
