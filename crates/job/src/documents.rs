//! The documents `antiphase.jobs/v1`, `antiphase.candidates/v1` and `antiphase.submissions/v1`, in YAML and JSON by the same structs.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use fabric::yaml;
use profile::{ProfileDocument, Source};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Hold;

/// 100 candidates that each move 500 jobs of 16 hosts; our documents need six levels.
const LIMITS: yaml::Limits = yaml::Limits { depth: 24, events: 1_000_000 };

/// Schema of a jobs document.
pub const JOBS_SCHEMA: &str = "antiphase.jobs/v1";
/// Schema of a candidates document.
pub const CANDIDATES_SCHEMA: &str = "antiphase.candidates/v1";

/// Schema of a submissions document.
pub const SUBMISSIONS_SCHEMA: &str = "antiphase.submissions/v1";

fn submissions_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    yaml::schema(deserializer, SUBMISSIONS_SCHEMA)
}

fn jobs_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    yaml::schema(deserializer, JOBS_SCHEMA)
}

fn candidates_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    yaml::schema(deserializer, CANDIDATES_SCHEMA)
}

/// Jobs with their profiles and, mostly, their placements.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobsDoc {
    /// Always the schema of this document.
    #[serde(deserialize_with = "jobs_schema")]
    pub schema: String,
    /// The jobs.
    pub jobs: Vec<JobDoc>,
}

/// One job: exactly one of `model`, `profile` and `profile_file` says how it communicates, or `learn` that its agent is to find out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobDoc {
    /// Unique name.
    pub id: String,
    /// Synthesise the profile of this model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelDoc>,
    /// A profile, inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileDocument>,
    /// A profile document, relative to the jobs document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_file: Option<String>,
    /// Hosts in rank order, each with `gpus_per_host` ranks. May be absent if candidates place the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Whether gates may delay its starts: `auto`, the default, `phases` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Whether the job's agent learns how it communicates. Without a model or a profile nothing is known until then: the job is planned as if
    /// it sent nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub learn: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The parameters of `antiphase profile synth`, as keys; those left out come from the model's reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModelDoc {
    /// Name of the model, as in `antiphase profile zoo`.
    pub name: String,
    /// How it is split: `dp`, `fsdp`, `pp`, `tp`, `ep` or `hybrid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// By default one per host, times `gpus_per_host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// GPUs, and so ranks, of one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_host: Option<u32>,
    /// By default the fewest that a host of the job has, slower ones (management ports) not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics_per_host: Option<u32>,
    /// Samples of one iteration, of each data-parallel rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Micro-batches of one iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batches: Option<u32>,
    /// Degree of tensor parallelism.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tp: Option<u32>,
    /// Degree of context parallelism.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp: Option<u32>,
    /// Degree of pipeline parallelism.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pp: Option<u32>,
    /// Degree of data parallelism.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dp: Option<u32>,
    /// Degree of expert parallelism.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ep: Option<u32>,
    /// Line rate such as `50G`; by default that of the slowest host's NICs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Sustained speed of one GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_gflops: Option<u64>,
}

/// Candidate placements of one round.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CandidatesDoc {
    /// Always the schema of this document.
    #[serde(deserialize_with = "candidates_schema")]
    pub schema: String,
    /// The candidates.
    pub candidates: Vec<CandidateDoc>,
}

/// One candidate: the jobs that stand elsewhere than in the jobs document.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateDoc {
    /// Unique name.
    pub id: String,
    /// Hosts in rank order, by job.
    pub hosts: BTreeMap<String, Vec<String>>,
}

/// Jobs for the service's scheduler.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SubmissionsDoc {
    /// Always the schema of this document.
    #[serde(deserialize_with = "submissions_schema")]
    pub schema: String,
    /// What is submitted, in this order.
    pub submissions: Vec<SubmissionDoc>,
}

/// One job for the scheduler: exactly one of `iterations` and `duration_s` says how long it runs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SubmissionDoc {
    /// The job, without hosts. Without a model and a profile nobody knows how it communicates.
    pub job: JobDoc,
    /// GPUs that it needs.
    pub gpus: u32,
    /// Iterations that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// How long one takes alone; a profile says that as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration_ms: Option<u64>,
    /// How long the job takes alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<u64>,
    /// `guaranteed`, the default, or `opportunistic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// How long it keeps its GPUs while nobody reports of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

impl SubmissionsDoc {
    /// Reads a submissions document, YAML or JSON.
    ///
    /// # Errors
    /// As [`JobsDoc::parse`].
    pub fn parse(text: &str) -> Result<Self, yaml::Malformed> {
        yaml::read(text, LIMITS)
    }
}

impl JobsDoc {
    /// Reads a jobs document, YAML or JSON.
    ///
    /// # Errors
    /// [`yaml::Malformed`] names key, line and value.
    pub fn parse(text: &str) -> Result<Self, yaml::Malformed> {
        yaml::read(text, LIMITS)
    }
}

impl CandidatesDoc {
    /// Reads a candidates document, YAML or JSON.
    ///
    /// # Errors
    /// As [`JobsDoc::parse`].
    pub fn parse(text: &str) -> Result<Self, yaml::Malformed> {
        yaml::read(text, LIMITS)
    }
}

impl JobDoc {
    /// Whether its profile is what its agent learned.
    #[must_use]
    pub fn is_learned(&self) -> bool {
        self.learn && self.profile.as_ref().is_some_and(|profile| profile.source == Source::Learned)
    }

    /// Reads one job, as it stands in a jobs document.
    ///
    /// # Errors
    /// As [`JobsDoc::parse`].
    pub fn parse(text: &str) -> Result<Self, yaml::Malformed> {
        yaml::read(text, LIMITS)
    }
}
