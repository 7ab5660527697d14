//! The convolutional networks and the recommender of the CASSINI paper.

use super::{A100, TABLE_3};
use crate::{
    dims::Dims,
    model::{Architecture, Figure, Model, Provenance, Reference},
    strategy::Strategy,
};

const TORCHVISION: &str = "torchvision model table, counted at 224 x 224 pixels";

/// VGG16's operations per sample: 255 ms x 60 TFLOP/s / 1400.
const VGG16_FLOPS: u64 = 10_928_571_429;
/// VGG16's multiply-adds at 224 x 224 pixels, in units of 10 million.
const VGG16_MACS: u64 = 1_547;

/// Operations per sample of a network with `macs` x 10^7 multiply-adds at 224 x 224 pixels,
/// at the image size that VGG16's calibration implies.
const fn scaled_from_vgg16(macs: u64) -> Figure<u64> {
    // The quotient is cut to whole operations, which is wrong by less than one part in a million.
    Figure::derived(VGG16_FLOPS / VGG16_MACS * macs, "VGG16's calibrated operations x ratio of multiply-adds in torchvision's model table")
}

/// Printed numbers of a network.
struct Printed {
    name: &'static str,
    parameters: u64,
    layers: u32,
    /// Multiply-adds at 224 x 224 pixels, in units of 10 million.
    macs: u64,
    batch: (u64, u64),
    memory_mb: u32,
}

/// A network trained by data parallelism at batch `used` on `dp` single-GPU servers of the
/// paper's testbed.
const fn convolutional(printed: Printed, dp: u32, used: u64) -> Model {
    Model {
        name: printed.name,
        architecture: Architecture::Convolutional,
        parameters: Figure::paper(printed.parameters, TORCHVISION),
        layers: Figure::paper(printed.layers, "the network's name and its own paper"),
        flops_per_sample: scaled_from_vgg16(printed.macs),
        bytes_per_parameter: Figure::derived(4, "fp32: parameters x 4 B is table 3's memory (WideResNet101's is half of it)"),
        batch: Figure::paper(printed.batch, TABLE_3),
        memory_mb: Some(Figure::paper((printed.memory_mb, printed.memory_mb), TABLE_3)),
        reference: Reference {
            strategy: Strategy::Data,
            dims: Dims { tp: 1, cp: 1, pp: 1, dp, ep: 1, gpus_per_host: 1 },
            batch: used,
            micro_batches: 1,
            nic_gbps: 50,
            gpu_gflops: A100,
            source: Provenance::Assumed(
                "CASSINI testbed, 1 GPU and 50 Gb/s per server; batch of table 2 where it appears; rank count not printed",
            ),
        },
    }
}

const fn vgg(name: &'static str, parameters: u64, layers: u32, macs: u64, memory_mb: u32) -> Printed {
    Printed { name, parameters, layers, macs, batch: (512, 1800), memory_mb }
}

pub(super) const VGG11: Model = convolutional(vgg("vgg11", 132_863_336, 11, 761, 507), 4, 1400);
const VGG16_AS_ANY: Model = convolutional(vgg("vgg16", 138_357_544, 16, VGG16_MACS, 528), 2, 1400);
pub(super) const VGG16: Model = Model {
    flops_per_sample: Figure::calibrated(
        VGG16_FLOPS,
        "so that batch 1400 computes for the printed 255 ms at 60 TFLOP/s; 0.12 of the 92.8 GFLOP at 224 x 224 pixels, so the paper's images are smaller",
    ),
    reference: Reference {
        source: Provenance::Calibrated(
            "2 servers as in CASSINI figure 2, batch 1400 as in table 2: gives figure 3's 255 ms with 114 ms Up",
        ),
        ..VGG16_AS_ANY.reference
    },
    ..VGG16_AS_ANY
};
pub(super) const VGG19: Model = convolutional(vgg("vgg19", 143_667_240, 19, 1_963, 549), 4, 1400);
pub(super) const WIDERESNET101: Model = convolutional(
    Printed { name: "wideresnet101", parameters: 126_886_696, layers: 101, macs: 2_284, batch: (256, 1200), memory_mb: 243 },
    4,
    800,
);
pub(super) const RESNET50: Model =
    convolutional(Printed { name: "resnet50", parameters: 25_557_032, layers: 50, macs: 413, batch: (256, 1800), memory_mb: 98 }, 4, 1600);

/// Source of DLRM's sizes: Meta's open-source code, with which MLPerf runs it and which the paper trains too.
const MLPERF: &str = "bench/run_and_time.sh of Meta's open-source DLRM, MLPerf's setting; the paper names the code, not its sizes";
/// Tables of the Criteo Terabyte data.
const DLRM_TABLES: u64 = 26;
/// Elements of a looked-up vector, and of the bottom network's output.
const DLRM_DIMENSION: u64 = 128;
/// Every pair of the 26 looked-up vectors and the bottom network's output.
const DLRM_PAIRS: u64 = (DLRM_TABLES + 1) * DLRM_TABLES / 2;
/// Weights of both networks: 13-512-256-128, and 128 + 351 inputs to 1024-1024-512-256-1.
const DLRM_WEIGHTS: u64 =
    13 * 512 + 512 * 256 + 256 * 128 + (DLRM_DIMENSION + DLRM_PAIRS) * 1_024 + 1_024 * 1_024 + 1_024 * 512 + 512 * 256 + 256;
/// One bias for each output of a layer.
const DLRM_BIASES: u64 = 512 + 256 + 128 + 1_024 + 1_024 + 512 + 256 + 1;

pub(super) const DLRM: Model = Model {
    name: "dlrm",
    architecture: Architecture::Recommender {
        tables: Figure::paper(DLRM_TABLES as u32, "the categorical columns of Criteo Terabyte, MLPerf's data set; the paper prints none"),
        dimension: Figure::paper(DLRM_DIMENSION as u32, MLPERF),
    },
    parameters: Figure::derived(
        DLRM_WEIGHTS + DLRM_BIASES,
        "networks 13-512-256-128 and 479-1024-1024-512-256-1 of MLPerf's setting: 9.5 MB in fp32; the rest of table 3's 890 to 1962 MB are tables, which stay where they are",
    ),
    layers: Figure::paper(8, MLPERF),
    flops_per_sample: Figure::derived(
        6 * (DLRM_WEIGHTS + DLRM_PAIRS * DLRM_DIMENSION),
        "6 x (weights + 351 inner products of 128); look-ups, launches and data loading count as free, so the iteration is too short",
    ),
    bytes_per_parameter: Figure::assumed(4, "fp32, the default of Meta's code"),
    batch: Figure::paper((16, 1024), TABLE_3),
    memory_mb: Some(Figure::paper((890, 1962), TABLE_3)),
    reference: Reference {
        strategy: Strategy::Data,
        dims: Dims { tp: 1, cp: 1, pp: 1, dp: 4, ep: 1, gpus_per_host: 1 },
        batch: 1024,
        micro_batches: 1,
        nic_gbps: 50,
        gpu_gflops: A100,
        source: Provenance::Assumed(
            "CASSINI testbed; section 5.1: tables partitioned across GPUs, the rest replicated; batch is the largest of table 3, rank count not printed",
        ),
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    /// VGG at 224 x 224 pixels: 3 x 3 convolutions with bias, then 25088-4096-4096-1000.
    fn vgg_parameters(channels: &[u64]) -> u64 {
        let convolutions: u64 = core::iter::once(&3).chain(channels).zip(channels).map(|(i, o)| i * o * 9 + o).sum();
        convolutions + (25_088 * 4_096 + 4_096) + (4_096 * 4_096 + 4_096) + (4_096 * 1_000 + 1_000)
    }

    /// A layer of a fully connected network has inputs x outputs weights and a bias per output.
    #[test]
    fn dlrm_parameters_follow_from_the_layers() {
        let network = |widths: &[u64]| widths.windows(2).map(|w| w[0] * w[1] + w[1]).sum::<u64>();
        let both = network(&[13, 512, 256, 128]) + network(&[128 + 27 * 26 / 2, 1_024, 1_024, 512, 256, 1]);
        assert_eq!(DLRM.parameters.value, both);
    }

    #[test]
    fn vgg_parameters_follow_from_the_layers() {
        assert_eq!(VGG11.parameters.value, vgg_parameters(&[64, 128, 256, 256, 512, 512, 512, 512]));
        assert_eq!(VGG16.parameters.value, vgg_parameters(&[64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]));
        assert_eq!(VGG19.parameters.value, vgg_parameters(&[64, 64, 128, 128, 256, 256, 256, 256, 512, 512, 512, 512, 512, 512, 512, 512]));
    }
}
