//! The documents of `plan`: jobs and candidate placements.

use std::collections::BTreeMap;

use fabric::yaml;
use profile::ProfileDocument;
use serde::{Deserialize, Deserializer, Serialize};

/// Schema of a jobs document.
pub(crate) const JOBS_SCHEMA: &str = "antiphase.jobs/v1";
/// Schema of a candidates document.
pub(crate) const CANDIDATES_SCHEMA: &str = "antiphase.candidates/v1";

fn jobs_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    yaml::schema(deserializer, JOBS_SCHEMA)
}

fn candidates_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    yaml::schema(deserializer, CANDIDATES_SCHEMA)
}

/// Jobs with their profiles and, mostly, their placements.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobsDoc {
    #[serde(deserialize_with = "jobs_schema")]
    pub(crate) schema: String,
    pub(crate) jobs: Vec<JobDoc>,
}

/// One job: exactly one of `model`, `profile` and `profile_file` says how it communicates.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobDoc {
    pub(crate) id: String,
    /// Synthesise the profile of this model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelDoc>,
    /// A profile, inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<ProfileDocument>,
    /// A profile document, relative to the jobs document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile_file: Option<String>,
    /// Hosts in rank order, each with `gpus_per_host` ranks. May be absent if candidates place the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hosts: Option<Vec<String>>,
}

/// What `antiphase profile synth` takes, as keys; what is left out comes from the model's reference.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelDoc {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) strategy: Option<String>,
    /// By default one per host, times `gpus_per_host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ranks: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gpus_per_host: Option<u32>,
    /// By default what the first host has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nics_per_host: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) micro_batches: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tp: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cp: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pp: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dp: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ep: Option<u32>,
    /// Line rate such as `50G`; by default that of the first host's first NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nic: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gpu_gflops: Option<u64>,
}

/// Candidate placements of one round.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CandidatesDoc {
    #[serde(deserialize_with = "candidates_schema")]
    pub(crate) schema: String,
    pub(crate) candidates: Vec<CandidateDoc>,
}

/// One candidate: the jobs that stand elsewhere than in the jobs document.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CandidateDoc {
    pub(crate) id: String,
    /// Hosts in rank order, by job.
    pub(crate) hosts: BTreeMap<String, Vec<String>>,
}
