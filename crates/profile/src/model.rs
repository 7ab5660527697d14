//! The known numbers of a model, and how each came to be known.

use core::fmt;

use crate::{dims::Dims, strategy::Strategy};

/// How a number came to be known, strongest claim first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provenance {
    /// Printed in that publication; for times that means measured by its authors.
    Paper(&'static str),
    /// Follows from printed numbers by the stated arithmetic.
    Derived(&'static str),
    /// Fitted so that a printed measurement comes out.
    Calibrated(&'static str),
    /// Chosen by us because nobody printed it.
    Assumed(&'static str),
}

impl Provenance {
    /// One word for tables.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Paper(_) => "paper",
            Self::Derived(_) => "derived",
            Self::Calibrated(_) => "calibrated",
            Self::Assumed(_) => "assumed",
        }
    }

    /// Which paper, which arithmetic, which measurement, which reason.
    #[must_use]
    pub const fn detail(&self) -> &'static str {
        match self {
            Self::Paper(text) | Self::Derived(text) | Self::Calibrated(text) | Self::Assumed(text) => text,
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind(), self.detail())
    }
}

/// A number and how it came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure<T> {
    /// The number.
    pub value: T,
    /// How it came to be known.
    pub source: Provenance,
}

impl<T> Figure<T> {
    /// Printed in a publication.
    #[must_use]
    pub const fn paper(value: T, text: &'static str) -> Self {
        Self { value, source: Provenance::Paper(text) }
    }

    /// Follows from printed numbers.
    #[must_use]
    pub const fn derived(value: T, text: &'static str) -> Self {
        Self { value, source: Provenance::Derived(text) }
    }

    /// Fitted to a measurement.
    #[must_use]
    pub const fn calibrated(value: T, text: &'static str) -> Self {
        Self { value, source: Provenance::Calibrated(text) }
    }

    /// Chosen by us.
    #[must_use]
    pub const fn assumed(value: T, text: &'static str) -> Self {
        Self { value, source: Provenance::Assumed(text) }
    }
}

/// The experts of a mixture-of-experts model; every block has a set of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Experts per block.
    pub count: Figure<u32>,
    /// Experts that each token visits.
    pub top_k: Figure<u32>,
    /// Parameters of all experts of all blocks.
    pub parameters: Figure<u64>,
}

/// The shape of a transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transformer {
    /// Width of the residual stream.
    pub hidden: Figure<u32>,
    /// Tokens per sample.
    pub sequence: Figure<u32>,
    /// Parameters of the token embedding.
    pub embedding: Figure<u64>,
    /// Whether the output layer shares the embedding's weights; with a pipeline its gradient is
    /// then summed over the first and the last stage.
    pub tied: bool,
    /// Experts, if it is a mixture of them.
    pub experts: Option<Experts>,
}

/// The kind of a model, with the numbers that its communication depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Convolutional network.
    Convolutional,
    /// Transformer.
    Transformer(Transformer),
    /// Recommender: embedding tables spread over all ranks, dense layers replicated.
    Recommender {
        /// Embedding tables, one looked-up vector each per sample.
        tables: Figure<u32>,
        /// Elements of such a vector.
        dimension: Figure<u32>,
    },
}

/// The setting in which a model is synthesised unless the caller says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// How it is split.
    pub strategy: Strategy,
    /// Degrees of parallelism and ranks per host.
    pub dims: Dims,
    /// Samples per data-parallel rank and iteration.
    pub batch: u64,
    /// Micro-batches per iteration.
    pub micro_batches: u32,
    /// NIC rate in Gbit/s.
    pub nic_gbps: u64,
    /// Sustained speed of one GPU in GFLOP/s.
    pub gpu_gflops: Figure<u64>,
    /// Why this setting.
    pub source: Provenance,
}

/// A model of the zoo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Lower-case name.
    pub name: &'static str,
    /// Kind of the model.
    pub architecture: Architecture,
    /// All parameters that are trained with gradients exchanged densely.
    pub parameters: Figure<u64>,
    /// Layers, or blocks of a transformer.
    pub layers: Figure<u32>,
    /// Floating-point operations for the forward and the backward pass of one sample.
    pub flops_per_sample: Figure<u64>,
    /// Bytes per parameter when it, or its gradient, is sent.
    pub bytes_per_parameter: Figure<u32>,
    /// Smallest and largest batch per GPU.
    pub batch: Figure<(u64, u64)>,
    /// Memory in MB, smallest and largest configuration; only for the models of the CASSINI paper.
    pub memory_mb: Option<Figure<(u32, u32)>>,
    /// Default setting.
    pub reference: Reference,
}

impl Model {
    /// Experts, if it has any.
    #[must_use]
    pub const fn experts(&self) -> Option<&Experts> {
        match &self.architecture {
            Architecture::Transformer(Transformer { experts: Some(experts), .. }) => Some(experts),
            _ => None,
        }
    }
}
