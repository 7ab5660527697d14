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
    #[serde(default)]
    pub(super) compute_ms: Option<u64>,
    #[serde(default)]
    pub(super) bytes: Option<u64>,
    #[serde(default)]
    pub(super) phases: Option<Vec<PhaseDocument>>,
    #[serde(default)]
    pub(super) jitter_ms: u64,
    #[serde(default)]
    pub(super) declared: DeclaredDocument,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PhaseDocument {
    pub(super) bytes: u64,
    pub(super) compute_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeclaredDocument {
    #[serde(default)]
    pub(super) period_percent: Option<u64>,
    #[serde(default)]
    pub(super) up_percent: Option<u64>,
}

/// What the author of a case says that it shows. For people and for tests; the lab does not use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Mean compatibility score of the case's own times.
    #[serde(default)]
    pub score: Option<f64>,
    /// Whether holding the jobs is expected to make them faster than they are as they come.
    #[serde(default)]
    pub hold: Option<bool>,
    /// The same where they are held to slots; by default as `hold`.
    #[serde(default)]
    pub slots: Option<bool>,
}

impl Expect {
    /// Whether holding the jobs by `slots`, or by turns, is expected to help; nothing where the author does not say.
    #[must_use]
    pub fn helps(&self, by_slots: bool) -> Option<bool> {
        if by_slots { self.slots.or(self.hold) } else { self.hold }
    }
}

fn schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    yaml::schema(deserializer, SCHEMA)
}

impl Document {
    pub(super) fn parse(text: &str) -> Result<Self, yaml::Malformed> {
        yaml::read(text, LIMITS)
    }
}
