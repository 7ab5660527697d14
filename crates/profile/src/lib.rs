//! Communication profiles of training jobs: what a job sends during one iteration, and when.
//!
//! A [`Profile`] is declared in a document (`antiphase.profile/v1`, JSON or YAML), learned
//! (`antiphase.learned/v1`, [`parse_for`]), or synthesised by [`synthesise`] from a model, its parallelism and the hardware. The models of the zoo
//! ([`MODELS`]) say for every number whether it was printed in a paper, derived, fitted or assumed.
//!
//! Pure: text comes in as `&str`, never as a path, and nothing reads a clock.
//!
//! ```
//! use antiphase_profile::{find_model, synthesise, Hardware, Parallelism, Request};
//! let model = find_model("VGG16").unwrap();
//! let setup = Request::default().resolve(model).unwrap();
//! let profile = synthesise(model, &setup.parallelism, &setup.hardware, setup.batch).unwrap();
//! // NSDI'24 CASSINI, section 2.2: an iteration of 255 ms of which 141 ms are Down.
//! assert_eq!(profile.period().as_millis_f64(), 255.0);
//! assert_eq!(profile.phases().len(), 1);
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod demand;
mod dims;
mod document;
mod learned;
mod model;
mod profile;
mod strategy;
mod synth;
mod timestamp;
mod zoo;

pub use demand::DemandError;
pub use dims::{Dims, DimsError, GPUS_PER_HOST_MAX, RANKS_MAX, Scope, groups};
pub use document::{DOCUMENT_BYTES_MAX, DocumentError, PhaseDocument, ProfileDocument, SCHEMA, parse, to_json, to_yaml};
pub use learned::{LEARNED_SCHEMA, LearnedIteration, parse_for};
pub use model::{Architecture, Experts, Figure, Model, Provenance, Reference, Transformer};
pub use profile::{Phase, Profile, ProfileError, Source};
pub use strategy::{Strategy, UnknownStrategy};
pub use synth::{
    DEFAULT_OVERLAP_PERCENT, DataParallel, Hardware, PERIOD_ROUND_NS, Parallelism, ROUND_NS, Request, Setup, SynthError, synthesise,
};
pub use zoo::{A100, H100, MODELS, find_model};
