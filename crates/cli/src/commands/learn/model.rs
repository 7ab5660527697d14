//! The file of a model: weights, where they came from, and how they came to be.

use std::path::Path;

use ::harmony::Mix;
use ::learn::{Parameters, Policy, SpeedModel, train::Course};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{JOBS_MAX, LOADS, PERMILLE, SERVERS};
use crate::input::{CliError, check_object, check_texts, read_document};

/// What such a file calls itself.
const SCHEMA: &str = "antiphase.harmony-model/v1";
/// Largest file: some ten times ours.
const MODEL_BYTES_MAX: usize = 4 << 20;
/// Most points of a learning curve.
const CURVE_MAX: usize = 100_000;
/// Longest command.
const COMMAND_CHARS_MAX: usize = 1_000;
/// Run times of a mix: from a second, and over so many octaves, which is a year.
const RUN_MS: (u64, u64) = (1_000, 86_400_000);
const OCTAVES_MAX: u32 = 8;
/// Bytes of a weight.
const WEIGHT_BYTES: usize = 4;

/// The model that the program has with it.
const SHIPPED: &str = include_str!("../../../../../models/harmony.json");
/// Its name in messages.
const SHIPPED_NAME: &str = "models/harmony.json";

/// A model, ready for use.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) about: About,
    pub(crate) policy: Policy,
    pub(crate) speeds: SpeedModel,
}

/// All but the weights.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// The command that makes the same file again.
    pub(crate) made_by: String,
    pub(crate) seed: u64,
    pub(crate) rounds: usize,
    pub(crate) mix: MixDocument,
    /// How far predicted speeds are off, as a share, on a log that nobody learned from.
    pub(crate) speeds_off: f64,
    pub(crate) curve: Vec<Point>,
}

/// The mixes that it was trained on.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MixDocument {
    jobs: u32,
    servers: usize,
    run_ms: u64,
    octaves: u32,
    load_permille: u32,
}

/// The policy's mean completion time over that of the greedy rule, on the mixes that select.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Point {
    pub(crate) stage: String,
    pub(crate) rounds: usize,
    pub(crate) over_greedy: f64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    about: About,
    /// Of the weights' bytes, the policy's first.
    sha256: String,
    /// Weights in single precision, least byte first, as base64.
    policy: String,
    speeds: String,
}

impl MixDocument {
    pub(crate) fn new(mix: &Mix) -> Self {
        let Mix { jobs, servers, run_ms, octaves, load_permille } = *mix;
        Self { jobs, servers, run_ms, octaves, load_permille }
    }

    pub(crate) fn mix(self) -> Mix {
        let Self { jobs, servers, run_ms, octaves, load_permille } = self;
        Mix { jobs, servers, run_ms, octaves, load_permille }
    }

    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, least: u64, most: u64| {
            let fits = (least..=most).contains(&value);
            if fits { Ok(()) } else { Err(format!("about.mix.{name}: {value} is not from {least} to {most}")) }
        };
        within("jobs", u64::from(self.jobs), 1, u64::from(JOBS_MAX))?;
        within("servers", self.servers as u64, u64::from(SERVERS.0), u64::from(SERVERS.1))?;
        within("run_ms", self.run_ms, RUN_MS.0, RUN_MS.1)?;
        within("octaves", u64::from(self.octaves), 1, u64::from(OCTAVES_MAX))?;
        within("load_permille", u64::from(self.load_permille), u64::from(LOADS.0 * PERMILLE), u64::from(LOADS.1 * PERMILLE))
    }
}

impl About {
    pub(crate) fn new(course: &Course, (seed, rounds): (u64, usize), mix: &Mix, made_by: String) -> Self {
        let point = |judged: &::learn::train::Judged| Point {
            stage: judged.stage.word().to_owned(),
            rounds: judged.rounds,
            over_greedy: judged.over_greedy,
        };
        let curve = course.curve.iter().map(point).collect();
        Self { made_by, seed, rounds, mix: MixDocument::new(mix), speeds_off: course.speeds_off, curve }
    }
}

fn bytes(parameters: &Parameters) -> Vec<u8> {
    parameters.values().flat_map(f32::to_le_bytes).collect()
}

fn hash(policy: &[u8], speeds: &[u8]) -> String {
    let digest = Sha256::new().chain_update(policy).chain_update(speeds).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file of a model, and the hash of its weights.
pub(crate) fn write(about: About, course: &Course) -> Result<(String, String), CliError> {
    let (policy, speeds) = (bytes(course.policy.parameters()), bytes(course.speeds.parameters()));
    let sha256 = hash(&policy, &speeds);
    let document = Document {
        schema: SCHEMA.to_owned(),
        about,
        sha256: sha256.clone(),
        policy: STANDARD.encode(policy),
        speeds: STANDARD.encode(speeds),
    };
    Ok((crate::output::json(&document)? + "\n", sha256))
}

/// The model of a file, or the one that the program has with it.
pub(crate) fn read(file: Option<&Path>) -> Result<Model, CliError> {
    let Some(file) = file else {
        return parse(SHIPPED).map_err(|problem| CliError::input(Path::new(SHIPPED_NAME), problem));
    };
    let text = read_document(file)?;
    if text.len() > MODEL_BYTES_MAX {
        return Err(CliError::input(file, format!("larger than {} MiB; a model is smaller", MODEL_BYTES_MAX >> 20)));
    }
    check_texts(file, &text)?;
    check_object(file, &text)?;
    parse(&text).map_err(|problem| CliError::input(file, problem))
}

fn parse(text: &str) -> Result<Model, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let mut track = serde_path_to_error::Track::new();
    let read = strict::read(serde_path_to_error::Deserializer::new(&mut reader, &mut track));
    let document: Document = read.map_err(|e| serde_path_to_error::Error::new(track.path(), e).to_string())?;
    reader.end().map_err(|e| e.to_string())?;
    let Document { schema, about, sha256, policy, speeds } = document;
    if schema != SCHEMA {
        return Err(format!("schema: {schema:?}, expected {SCHEMA:?}"));
    }
    about.mix.check()?;
    check_curve(&about)?;
    let decode = |name: &str, text: &str| STANDARD.decode(text).map_err(|e| format!("{name}: not base64: {e}"));
    let (policy, speeds) = (decode("policy", &policy)?, decode("speeds", &speeds)?);
    let found = hash(&policy, &speeds);
    if found != sha256 {
        return Err(format!("sha256: {sha256:?}, but the weights have {found:?}"));
    }
    let policy = Policy::with_weights(&weights("policy", &policy)?).ok_or("policy: not as many weights as a policy has, or not finite")?;
    let speeds = SpeedModel::with_weights(&weights("speeds", &speeds)?)
        .ok_or("speeds: not as many weights as a model of speeds has, or not finite")?;
    Ok(Model { about, policy, speeds })
}

fn check_curve(about: &About) -> Result<(), String> {
    if about.made_by.chars().count() > COMMAND_CHARS_MAX {
        return Err(format!("about.made_by: longer than {COMMAND_CHARS_MAX} characters"));
    }
    if about.curve.len() > CURVE_MAX {
        return Err(format!("about.curve: {} points, at most {CURVE_MAX}", about.curve.len()));
    }
    match about.curve.iter().position(|point| point.over_greedy <= 0.0) {
        Some(at) => Err(format!("about.curve[{at}].over_greedy: {} is not above 0", about.curve[at].over_greedy)),
        None => Ok(()),
    }
}

fn weights(name: &str, bytes: &[u8]) -> Result<Vec<f32>, String> {
    let (whole, rest) = bytes.as_chunks::<WEIGHT_BYTES>();
    if rest.is_empty() { Ok(whole.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()) } else { Err(format!("{name}: half a weight")) }
}
