//! The document `antiphase.profile/v1`, in JSON and YAML by the same structs.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use fabric::{collective::Collective, yaml};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use crate::{
    dims::{Dims, Scope},
    profile::{Profile, ProfileError, Source, refuse},
};

/// The schema that this crate reads and writes.
pub const SCHEMA: &str = "antiphase.profile/v1";
/// Largest document: four times the longest profile (4,096 phases of 250 bytes).
pub const DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// A profile needs four levels, and its 4,096 phases make 12 events each.
const YAML_LIMITS: yaml::Limits = yaml::Limits { depth: 16, events: 100_000 };

/// One phase as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseDocument {
    /// Start within the iteration.
    pub start_ns: u64,
    /// Length, at least 1.
    pub duration_ns: u64,
    /// Rate of the busiest NIC of one group for this collective.
    pub rate_mbps: u64,
    /// `ring`, `tree`, `all-to-all`, `pipeline-forward`, `pipeline-backward`, `pipeline` (both
    /// directions at once) or `hierarchical`.
    pub collective: String,
    /// Which groups of ranks run it.
    pub scope: Scope,
}

/// A profile as written; [`Profile`] is the validated form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileDocument {
    /// Always [`SCHEMA`].
    #[serde(deserialize_with = "schema")]
    pub schema: String,
    /// Name of the profile.
    pub name: String,
    /// Name of the model.
    #[serde(default)]
    pub model: String,
    /// Length of one iteration.
    pub period_ns: u64,
    /// Up phases by ascending start.
    pub phases: Vec<PhaseDocument>,
    /// The parallel dimensions.
    pub ranks: Dims,
    /// Standard deviation of the iteration time divided by its mean.
    #[serde(default)]
    pub variance: f64,
    /// 0 to 1.
    #[serde(default = "certain")]
    pub confidence: f64,
    /// Where it comes from.
    pub source: Source,
    /// How many iterations were seen.
    #[serde(default)]
    pub iterations: u64,
    /// RFC 3339 date-time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected_at: Option<String>,
}

fn schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    yaml::schema(deserializer, SCHEMA)
}

const fn certain() -> f64 {
    1.0
}

impl ProfileDocument {
    /// A declared profile of that name and period, single rank, nothing sent.
    #[must_use]
    pub fn declared(name: &str, period_ns: u64) -> Self {
        Self {
            schema: SCHEMA.into(),
            name: name.into(),
            model: String::new(),
            period_ns,
            phases: Vec::new(),
            ranks: Dims::default(),
            variance: 0.0,
            confidence: certain(),
            source: Source::Declared,
            iterations: 0,
            collected_at: None,
        }
    }
}

impl From<&Profile> for ProfileDocument {
    fn from(p: &Profile) -> Self {
        let phases = p.phases().iter().map(|phase| PhaseDocument {
            start_ns: phase.start.0,
            duration_ns: phase.duration.0,
            rate_mbps: phase.rate.0,
            collective: name_of(phase.collective),
            scope: phase.scope,
        });
        Self {
            schema: SCHEMA.into(),
            name: p.name().into(),
            model: p.model().into(),
            period_ns: p.period().0,
            phases: phases.collect(),
            ranks: *p.dims(),
            variance: p.variance(),
            confidence: p.confidence(),
            source: p.source(),
            iterations: p.iterations(),
            collected_at: p.collected_at().map(Into::into),
        }
    }
}

pub(crate) fn name_of(collective: Collective) -> String {
    collective.to_string()
}

/// Why a text is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// Larger than [`DOCUMENT_BYTES_MAX`].
    #[error("{bytes} bytes; a profile has at most {DOCUMENT_BYTES_MAX}")]
    TooLarge {
        /// Size of the text.
        bytes: usize,
    },
    /// Malformed, or a value that a profile cannot have.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Reads a profile: JSON when the text starts with `{`, YAML otherwise.
///
/// ```
/// let text = "
/// schema: antiphase.profile/v1
/// name: two-servers
/// period_ns: 255000000
/// phases:
///   - {start_ns: 141000000, duration_ns: 114000000, rate_mbps: 39000, collective: ring, scope: data}
/// ranks: {dp: 2}
/// source: declared
/// ";
/// let profile = antiphase_profile::parse(text)?;
/// assert_eq!(profile.phases().len(), 1);
/// let error = antiphase_profile::parse(&text.replace("39000", "-1")).unwrap_err();
/// assert!(error.to_string().starts_with("phases[0].rate_mbps: "), "{error}");
/// # Ok::<(), antiphase_profile::DocumentError>(())
/// ```
///
/// # Errors
/// [`DocumentError`] with the key path and the value.
pub fn parse(text: &str) -> Result<Profile, DocumentError> {
    // The size comes first, so no parser meets an unbounded text.
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(DocumentError::TooLarge { bytes: text.len() });
    }
    // A byte order mark and white space may stand before the brace of a JSON document.
    let json = text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
    let document = if json { from_json(text) } else { from_yaml(text) }?;
    Ok(Profile::try_from(document)?)
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, ProfileError> {
    let mut de = serde_json::Deserializer::from_str(text.trim_start_matches('\u{feff}'));
    let mut track = serde_path_to_error::Track::new();
    let read = strict::read(serde_path_to_error::Deserializer::new(&mut de, &mut track));
    let document = read.map_err(|e| located(&track.path().to_string(), e.to_string()))?;
    // A second value behind the first one would otherwise be ignored.
    de.end().map_err(|e| refuse("document", e.to_string()))?;
    Ok(document)
}

fn from_yaml(text: &str) -> Result<ProfileDocument, ProfileError> {
    yaml::read(text, YAML_LIMITS).map_err(|e| {
        let problem = format!("{}: {}", e.place, e.problem);
        // A refusal outside all keys, such as a broken text, has only its place to be named by.
        if e.path.is_empty() { refuse(e.place, e.problem) } else { refuse(e.path, problem) }
    })
}

/// A refusal at a path, without the "." of the root and the "?" of a step without a name, which tell a person nothing.
fn located(path: &str, problem: String) -> ProfileError {
    let path = path.trim_end_matches(['.', '?']);
    refuse(if path.is_empty() { "document" } else { path }, problem)
}

/// The profile as JSON, indented, with a final line feed.
#[must_use]
pub fn to_json(profile: &Profile) -> String {
    let text =
        serde_json::to_string_pretty(&ProfileDocument::from(profile)).expect("invariant: a profile holds finite numbers and string keys");
    format!("{text}\n")
}

/// The profile as YAML.
#[must_use]
pub fn to_yaml(profile: &Profile) -> String {
    serde_saphyr::to_string(&ProfileDocument::from(profile)).expect("invariant: a profile holds finite numbers and string keys")
}

#[cfg(test)]
mod tests;
