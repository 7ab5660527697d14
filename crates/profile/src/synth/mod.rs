//! Synthesis: from a model, its parallelism and the hardware to a profile.
//!
//! The time line is that of the first pipeline stage, which starts first and ends last: it sends
//! activations, and the second stage gradients to it. The hops between later stages are drawn at
//! the same times; they have the right volume, but in truth activations leave each stage a pass
//! later than the one before, and gradients a pass earlier. The time line is laid out on a grid of
//! [`ROUND_NS`], so that every edge of a phase is a multiple of it; what is finer than the grid is
//! drawn as one phase of its mean rate. The period is rounded up to [`PERIOD_ROUND_NS`]. Both grids
//! have one reason: two jobs lock only modulo the greatest common divisor of their periods. Periods
//! of 255,000,000 ns and 200,000,000 ns share 5 ms; a measured-looking 255,137,291 ns shares 1 ns,
//! and no shift can help for longer than a moment. 1 ms is 0.4 % of a 255 ms iteration: less than
//! the jitter that a gate absorbs anyway.
//!
//! The model leaves out: optimizer time, data loading, DDP's last bucket after the
//! backward pass, activation recomputation, stages of unequal work.

mod request;
mod schedule;
mod sharded;
mod staged;
mod timeline;
mod wire;
mod work;

use alloc::{format, string::String, vec::Vec};

use circle::{PERIOD_TICKS_MAX, PHASES_PER_DEMAND_MAX, RATE_MBPS_MAX};
use units::Rate;

use crate::{
    dims::{Dims, DimsError},
    document::{PhaseDocument, ProfileDocument, name_of},
    model::Model,
    profile::{Profile, ProfileError, Source},
};

pub use request::{Request, Setup};

/// Grid of phase edges: 100 us. A tenth of the drift that a gate tolerates, and coarse enough
/// that the bursts of neighbouring layers become one phase.
pub const ROUND_NS: u64 = 100_000;
/// Grid of periods: 1 ms; see the module's text.
pub const PERIOD_ROUND_NS: u64 = 1_000_000;
/// Part of the backward pass that is left when the first gradients leave, in percent. Calibrated:
/// VGG16's printed 114 ms of Up in 255 ms (NSDI'24 CASSINI, figure 3), when the backward pass
/// takes twice the forward pass and hides all of the communication.
pub const DEFAULT_OVERLAP_PERCENT: u32 = 67;
/// Relative standard deviation of a synthesised period: the 1 to 3 % of undisturbed jobs.
const VARIANCE: f64 = 0.02;
/// A computed profile has not been seen: half as good as a measured one.
const CONFIDENCE: f64 = 0.5;
/// Largest batch per data-parallel rank; beyond any GPU's memory.
const BATCH_MAX: u64 = 1 << 20;

/// The exchange among replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DataParallel {
    /// Whole replicas: one all-reduce of the gradients, overlapping the end of the last backward pass.
    #[default]
    Replicated,
    /// ZeRO-3 or FSDP: parameters gathered per block in the forward and in the backward pass,
    /// gradients reduce-scattered per block.
    Sharded,
}

/// How a job is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parallelism {
    /// Degrees and ranks per host.
    pub dims: Dims,
    /// The exchange among replicas.
    pub data: DataParallel,
    /// Micro-batches per iteration.
    pub micro_batches: u32,
    /// Part of the last backward pass that overlaps the all-reduce, in percent.
    pub overlap_percent: u32,
}

/// The machines that a job runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hardware {
    /// Line rate of one NIC.
    pub nic_rate: Rate,
    /// NICs per host, shared evenly by its ranks.
    pub nics_per_host: u32,
    /// Part of the line rate that a collective reaches, in percent.
    pub efficiency_percent: u32,
    /// Sustained speed of one GPU in GFLOP/s.
    pub gpu_gflops: u64,
}

impl Hardware {
    /// Part of the line rate that a collective reaches. Derived from NSDI'24 CASSINI, section
    /// 2.2: two jobs share a 50 Gb/s link at about 22 Gb/s each, 2 x 22 / 50.
    pub const DEFAULT_EFFICIENCY_PERCENT: u32 = 88;
}

/// Why a profile could not be synthesised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SynthError {
    /// The dimensions are wrong.
    #[error(transparent)]
    Dims(#[from] DimsError),
    /// A number outside its range.
    #[error("{name}: {value}; must be {least} to {limit}")]
    Range {
        /// Which one.
        name: &'static str,
        /// The value given.
        value: u64,
        /// Smallest allowed value.
        least: u64,
        /// Largest allowed value.
        limit: u64,
    },
    /// The number of ranks is not the product of the degrees.
    #[error("ranks: {ranks}; must be a multiple of tp x cp x pp x dp as far as they are given ({given})")]
    Ranks {
        /// The number of ranks.
        ranks: u32,
        /// Product of the given degrees.
        given: u64,
    },
    /// The experts of the model cannot be spread over so many ranks.
    #[error("ep: {ep}; {model} has {experts} experts per block, which it must divide")]
    Experts {
        /// Expert parallel degree.
        ep: u32,
        /// The model.
        model: &'static str,
        /// Its experts, 0 if it is no mixture.
        experts: u32,
    },
    /// A combination that this synthesis does not model.
    #[error("{model}: {what} is not modelled")]
    Unsupported {
        /// The model.
        model: &'static str,
        /// The combination.
        what: &'static str,
    },
    /// More phases than a profile may have.
    #[error("more than {PHASES_PER_DEMAND_MAX} phases; use fewer micro-batches")]
    TooManyPhases,
    /// Longer than a profile may be.
    #[error("the iteration is longer than {PERIOD_TICKS_MAX} ns; use a smaller batch or a faster NIC")]
    TooLong,
    /// The result is no valid profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Synthesises the profile of one training job; `batch` is in samples per data-parallel rank.
///
/// # Errors
/// [`SynthError`].
pub fn synthesise(model: &Model, parallelism: &Parallelism, hardware: &Hardware, batch: u64) -> Result<Profile, SynthError> {
    check(model, parallelism, hardware, batch)?;
    let work = work::Work::of(model, parallelism, hardware, batch)?;
    let mut line = timeline::Timeline::new(hardware);
    let end = match parallelism.data {
        DataParallel::Replicated => staged::lay(&mut line, &work, parallelism)?,
        DataParallel::Sharded => sharded::lay(&mut line, &work)?,
    };
    // `Timeline::cells` bounds a single transfer but not their sum, so the end is checked here.
    let period_ns = end.checked_mul(ROUND_NS).and_then(|ns| ns.checked_next_multiple_of(PERIOD_ROUND_NS)).ok_or(SynthError::TooLong)?;
    if period_ns > PERIOD_TICKS_MAX {
        return Err(SynthError::TooLong);
    }
    let pieces = line.finish();
    // This limit counts phases after merging; the time line bounds its pieces before that.
    if pieces.len() > PHASES_PER_DEMAND_MAX {
        return Err(SynthError::TooManyPhases);
    }
    let phases: Vec<PhaseDocument> = pieces.iter().map(phase).collect();
    let document = ProfileDocument {
        model: model.name.into(),
        phases,
        ranks: parallelism.dims,
        variance: VARIANCE,
        confidence: CONFIDENCE,
        source: Source::Synthesised,
        ..ProfileDocument::declared(&name(model, parallelism, batch), period_ns)
    };
    // A synthesised profile passes the same checks as one that a person has written.
    Ok(Profile::try_from(document)?)
}

fn phase(piece: &timeline::Piece) -> PhaseDocument {
    PhaseDocument {
        start_ns: piece.start * ROUND_NS,
        duration_ns: (piece.end - piece.start) * ROUND_NS,
        // A group's part is rounded up, so the parts together carry at least the volume.
        rate_mbps: piece.rate.div_ceil(piece.tag.sharers),
        collective: name_of(piece.tag.collective),
        scope: piece.tag.scope,
    }
}

/// `vgg16-dp2-b1400`: the model, every degree above one, the batch.
fn name(model: &Model, parallelism: &Parallelism, batch: u64) -> String {
    let d = &parallelism.dims;
    let mut name = String::from(model.name);
    let data = if parallelism.data == DataParallel::Sharded { "fsdp" } else { "dp" };
    for (label, degree) in [("tp", d.tp), ("cp", d.cp), ("pp", d.pp), (data, d.dp), ("ep", d.ep)] {
        // A degree of one says nothing about the split.
        if degree > 1 {
            name.push_str(&format!("-{label}{degree}"));
        }
    }
    name.push_str(&format!("-b{batch}"));
    name
}

fn in_range(name: &'static str, value: u64, least: u64, limit: u64) -> Result<(), SynthError> {
    if (least..=limit).contains(&value) { Ok(()) } else { Err(SynthError::Range { name, value, least, limit }) }
}

fn check(model: &Model, parallelism: &Parallelism, hardware: &Hardware, batch: u64) -> Result<(), SynthError> {
    let d = &parallelism.dims;
    d.check()?;
    in_range("batch", batch, 1, BATCH_MAX)?;
    // A micro-batch has at least one sample.
    in_range("micro_batches", parallelism.micro_batches.into(), 1, batch.min(PHASES_PER_DEMAND_MAX as u64))?;
    in_range("overlap_percent", parallelism.overlap_percent.into(), 0, 100)?;
    in_range("nic_rate", hardware.nic_rate.0, 1, RATE_MBPS_MAX)?;
    in_range("nics_per_host", hardware.nics_per_host.into(), 1, d.gpus_per_host.into())?;
    in_range("efficiency_percent", hardware.efficiency_percent.into(), 1, 100)?;
    in_range("gpu_gflops", hardware.gpu_gflops, 1, 1 << 40)?;
    // A stage has at least one block.
    in_range("pp", d.pp.into(), 1, model.layers.value.into())?;
    let experts = model.experts().map_or(0, |e| e.count.value);
    // 0 is a multiple of every number, so a model without experts needs a test of its own.
    if d.ep > 1 && (experts == 0 || !experts.is_multiple_of(d.ep)) {
        return Err(SynthError::Experts { ep: d.ep, model: model.name, experts });
    }
    Ok(())
}
