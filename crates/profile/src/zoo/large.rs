//! Models that are trained today, on hosts of 8 GPUs with one 400 Gb/s NIC each.

use super::H100;
use crate::{
    dims::Dims,
    model::{Architecture, Experts, Figure, Model, Provenance, Reference, Transformer},
    strategy::Strategy,
};

const KAPLAN: &str = "6 x active parameters x tokens (Kaplan et al. 2020, section 2.1)";
const LLAMA: &str = "Touvron et al. 2023 (Llama 2) and its published configuration";
const MIXTRAL: &str = "Jiang et al. 2024, section 2 and table 1";
const BF16: Figure<u32> = Figure::assumed(2, "bf16 weights and gradients, the usual choice");
const BATCHES: Figure<(u64, u64)> = Figure::assumed((1, 1024), "samples per data-parallel rank; nobody prints a range");

const fn transformer(hidden: u32, sequence: u32, source: &'static str, experts: Option<Experts>) -> Architecture {
    Architecture::Transformer(Transformer {
        hidden: Figure::paper(hidden, source),
        sequence: Figure::paper(sequence, source),
        embedding: Figure::derived(32_000 * hidden as u64, "vocabulary of 32000 x hidden"),
        tied: false,
        experts,
    })
}

const fn hosts_of_8(strategy: Strategy, dims: Dims, batch: u64, micro_batches: u32, why: &'static str) -> Reference {
    Reference { strategy, dims, batch, micro_batches, nic_gbps: 400, gpu_gflops: H100, source: Provenance::Assumed(why) }
}

const LLAMA_7B_PARAMETERS: u64 = 6_738_415_616;

pub(super) const LLAMA_7B: Model = Model {
    name: "llama-7b",
    architecture: transformer(4_096, 4_096, LLAMA, None),
    parameters: Figure::paper(LLAMA_7B_PARAMETERS, LLAMA),
    layers: Figure::paper(32, LLAMA),
    flops_per_sample: Figure::derived(6 * LLAMA_7B_PARAMETERS * 4_096, KAPLAN),
    bytes_per_parameter: BF16,
    batch: BATCHES,
    memory_mb: None,
    reference: hosts_of_8(
        Strategy::Sharded,
        Dims { tp: 1, cp: 1, pp: 1, dp: 64, ep: 1, gpus_per_host: 8 },
        2,
        1,
        "FSDP over 8 hosts of 8 GPUs, the smallest common cluster",
    ),
};

const LLAMA_70B_PARAMETERS: u64 = 68_976_648_192;

pub(super) const LLAMA_70B: Model = Model {
    name: "llama-70b",
    architecture: transformer(8_192, 4_096, LLAMA, None),
    parameters: Figure::paper(LLAMA_70B_PARAMETERS, LLAMA),
    layers: Figure::paper(80, LLAMA),
    flops_per_sample: Figure::derived(6 * LLAMA_70B_PARAMETERS * 4_096, KAPLAN),
    bytes_per_parameter: BF16,
    batch: BATCHES,
    memory_mb: None,
    reference: hosts_of_8(
        Strategy::Hybrid,
        Dims { tp: 8, cp: 1, pp: 4, dp: 4, ep: 1, gpus_per_host: 8 },
        32,
        32,
        "Megatron's usual split: tensor parallel inside the host, 4 stages, the rest replicas",
    ),
};

const MIXTRAL_PARAMETERS: u64 = 46_702_792_704;
/// 32 blocks of 8 experts of three 4096 x 14336 matrices.
const MIXTRAL_EXPERTS: u64 = 32 * 8 * 3 * 4_096 * 14_336;
/// Each token visits two experts of eight.
const MIXTRAL_ACTIVE: u64 = MIXTRAL_PARAMETERS - MIXTRAL_EXPERTS + MIXTRAL_EXPERTS / 4;

pub(super) const MIXTRAL_8X7B: Model = Model {
    name: "mixtral-8x7b",
    architecture: transformer(
        4_096,
        4_096,
        MIXTRAL,
        Some(Experts {
            count: Figure::paper(8, MIXTRAL),
            top_k: Figure::paper(2, MIXTRAL),
            parameters: Figure::derived(MIXTRAL_EXPERTS, "32 blocks x 8 experts x 3 x 4096 x 14336"),
        }),
    ),
    parameters: Figure::derived(MIXTRAL_PARAMETERS, "from the configuration in Jiang et al. 2024, table 1; printed as 47 B"),
    layers: Figure::paper(32, MIXTRAL),
    flops_per_sample: Figure::derived(6 * MIXTRAL_ACTIVE * 4_096, KAPLAN),
    bytes_per_parameter: BF16,
    batch: BATCHES,
    memory_mb: None,
    reference: hosts_of_8(
        Strategy::Expert,
        Dims { tp: 2, cp: 1, pp: 1, dp: 32, ep: 8, gpus_per_host: 8 },
        4,
        4,
        "tensor 2 x expert 8 = 16 GPUs, so that every all-to-all crosses two hosts",
    ),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_follow_from_the_configurations() {
        // Llama 2 7B: per block 4 attention matrices, 3 feed-forward ones of 11008, two norms;
        // two embeddings of 32000 and a last norm.
        assert_eq!(LLAMA_7B_PARAMETERS, 32 * (4 * 4_096 * 4_096 + 3 * 4_096 * 11_008 + 2 * 4_096) + 2 * 32_000 * 4_096 + 4_096);
        // 70B: keys and values have 8 heads of 128 = 1024 columns.
        let block = 2 * 8_192 * 8_192 + 2 * 8_192 * 1_024 + 3 * 8_192 * 28_672 + 2 * 8_192;
        assert_eq!(LLAMA_70B_PARAMETERS, 80 * block + 2 * 32_000 * 8_192 + 8_192);
        // Mixtral: the same attention with 1024 columns, a router of 8, two norms.
        let shared = 32 * (2 * 4_096 * 4_096 + 2 * 4_096 * 1_024 + 8 * 4_096 + 2 * 4_096) + 2 * 32_000 * 4_096 + 4_096;
        assert_eq!(MIXTRAL_PARAMETERS, shared + MIXTRAL_EXPERTS);
        assert_eq!(MIXTRAL_ACTIVE / 100_000_000, 128, "printed as 13 B active");
    }
}
