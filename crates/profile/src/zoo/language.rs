//! The language models of the CASSINI paper.

use super::{A100, A100_HALF, TABLE_3};
use crate::{
    dims::Dims,
    model::{Architecture, Figure, Model, Provenance, Reference, Transformer},
    strategy::Strategy,
};

const KAPLAN: &str = "6 x parameters x tokens (Kaplan et al. 2020, section 2.1)";
const NO_WORKERS: Provenance = Provenance::Assumed("CASSINI testbed, 1 GPU and 50 Gb/s per server; rank count not printed");

const fn servers(strategy: Strategy, dims: Dims, batch: u64, micro_batches: u32, source: Provenance) -> Reference {
    Reference { strategy, dims, batch, micro_batches, nic_gbps: 50, gpu_gflops: A100, source }
}

const fn dims(tp: u32, pp: u32, dp: u32) -> Dims {
    Dims { tp, cp: 1, pp, dp, ep: 1, gpus_per_host: 1 }
}

/// The GPT models: partitioned by DeepSpeed (section 5.1), so trained in fp16 and at its speed.
const fn half(reference: Reference) -> Reference {
    Reference { gpu_gflops: A100_HALF, ..reference }
}

/// fp16, for what DeepSpeed trains.
const FP16: Figure<u32> = Figure::assumed(2, "fp16, as DeepSpeed trains it (section 5.1 of the paper names the tool, not the precision)");

/// A base-size encoder (12 blocks of 768) trained by data parallelism in fp32.
const fn encoder(name: &'static str, parameters: Figure<u64>, vocabulary: u64, batch: (u64, u64), memory: u32, used: u64) -> Model {
    Model {
        name,
        architecture: Architecture::Transformer(Transformer {
            hidden: Figure::paper(768, "the model's own paper, base size"),
            sequence: Figure::assumed(512, "not printed; the longest input of these models"),
            embedding: Figure::derived(vocabulary * 768, "vocabulary x hidden"),
            tied: true,
            experts: None,
        }),
        parameters,
        layers: Figure::paper(12, "the model's own paper, base size"),
        flops_per_sample: Figure::derived(6 * parameters.value * 512, KAPLAN),
        bytes_per_parameter: Figure::assumed(
            4,
            "fp32: x 4 B is table 3's memory for BERT and XLM; RoBERTa's 800 and CamemBERT's 266 fit no whole precision",
        ),
        batch: Figure::paper(batch, TABLE_3),
        memory_mb: Some(Figure::paper((memory, memory), TABLE_3)),
        reference: servers(Strategy::Data, dims(1, 1, 4), used, 1, NO_WORKERS),
    }
}

pub(super) const BERT: Model = encoder("bert", Figure::paper(110_000_000, "Devlin et al. 2018, section 3, base"), 30_522, (8, 32), 450, 8);
pub(super) const ROBERTA: Model =
    encoder("roberta", Figure::paper(125_000_000, "Liu et al. 2019, fairseq model card, base"), 50_265, (8, 32), 800, 12);
pub(super) const CAMEMBERT: Model =
    encoder("camembert", Figure::paper(110_000_000, "Martin et al. 2020, section 4, base"), 32_005, (8, 32), 266, 8);
pub(super) const XLM: Model = encoder(
    "xlm",
    Figure::derived(278_000_000, "XLM-R base: 250002 x 768 + 12 blocks; Conneau et al. 2020 print 270 M"),
    250_002,
    (4, 32),
    1116,
    8,
);

/// Parameters of a decoder: 12 x blocks x hidden^2, a vocabulary of 50257 and learned positions.
const fn decoder_parameters(layers: u64, hidden: u64, sequence: u64) -> u64 {
    // A block has 4 hidden^2 weights for attention and 8 hidden^2 in its feed-forward layers; biases and norms are left out.
    12 * layers * hidden * hidden + (50_257 + sequence) * hidden
}

const GPT1_PARAMETERS: u64 = 12 * 12 * 768 * 768 + (40_478 + 512) * 768;

pub(super) const GPT1: Model = Model {
    name: "gpt1",
    architecture: Architecture::Transformer(Transformer {
        hidden: Figure::paper(768, "Radford et al. 2018, section 4.1"),
        sequence: Figure::paper(512, "Radford et al. 2018, section 4.1"),
        embedding: Figure::derived(40_478 * 768, "vocabulary x hidden"),
        tied: true,
        experts: None,
    }),
    parameters: Figure::derived(GPT1_PARAMETERS, "12 x 12 blocks x 768^2 + (40478 + 512) x 768"),
    layers: Figure::paper(12, "NSDI'24 CASSINI section 2.1, figure 1(a)"),
    flops_per_sample: Figure::derived(6 * GPT1_PARAMETERS * 512, KAPLAN),
    bytes_per_parameter: FP16,
    batch: Figure::paper((32, 80), TABLE_3),
    memory_mb: Some(Figure::paper((650, 9_000), TABLE_3)),
    reference: half(servers(
        Strategy::Pipeline,
        dims(1, 2, 1),
        32,
        4,
        Provenance::Assumed(
            "model parallel by table 3: 2 stages, 4 micro-batches; figure 1(a) shows the same model data parallel on 4 servers",
        ),
    )),
};

const GPT2_PARAMETERS: u64 = decoder_parameters(24, 1_536, 1_024);

pub(super) const GPT2: Model = Model {
    name: "gpt2",
    architecture: Architecture::Transformer(Transformer {
        hidden: Figure::paper(1_536, "NSDI'24 CASSINI section 5.2, GPT2-A"),
        sequence: Figure::paper(1_024, "Radford et al. 2019, section 2.3"),
        embedding: Figure::derived(50_257 * 1_536, "vocabulary x hidden"),
        tied: true,
        experts: None,
    }),
    parameters: Figure::derived(GPT2_PARAMETERS, "12 x 24 blocks x 1536^2 + (50257 + 1024) x 1536"),
    layers: Figure::paper(24, "NSDI'24 CASSINI section 2.1, figure 1(b)"),
    flops_per_sample: Figure::derived(6 * GPT2_PARAMETERS * 1_024, KAPLAN),
    bytes_per_parameter: FP16,
    batch: Figure::paper((24, 80), "NSDI'24 CASSINI table 3 (32 to 80) and section 5.2 (GPT2-A: 24)"),
    memory_mb: Some(Figure::paper((1_623, 27_000), TABLE_3)),
    reference: half(servers(
        Strategy::Pipeline,
        dims(1, 2, 1),
        24,
        3,
        Provenance::Paper("NSDI'24 CASSINI figure 1(b): 2 servers, 3 micro-batches; section 5.2: GPT2-A has batch 24"),
    )),
};

const GPT3_HIDDEN: u64 = 2_560;
const GPT3_SEQUENCE: u64 = 512;
const GPT3_PARAMETERS: u64 = decoder_parameters(96, GPT3_HIDDEN, GPT3_SEQUENCE);

pub(super) const GPT3: Model = Model {
    name: "gpt3",
    architecture: Architecture::Transformer(Transformer {
        hidden: Figure::assumed(2_560, "96 blocks and 155 GB at 20 B per parameter (fp16 Adam and activations) leave 7.7 G parameters"),
        sequence: Figure::assumed(512, "not printed; figure 1(d) shows about two iterations in 6 s"),
        embedding: Figure::derived(50_257 * GPT3_HIDDEN, "vocabulary x hidden"),
        tied: true,
        experts: None,
    }),
    parameters: Figure::derived(
        GPT3_PARAMETERS,
        "12 x 96 blocks x 2560^2 + (50257 + 512) x 2560; a cut-down GPT-3, as the paper's memory shows",
    ),
    layers: Figure::paper(96, "NSDI'24 CASSINI section 2.1, figure 1(d)"),
    flops_per_sample: Figure::derived(6 * GPT3_PARAMETERS * GPT3_SEQUENCE, KAPLAN),
    bytes_per_parameter: FP16,
    batch: Figure::paper((16, 48), TABLE_3),
    memory_mb: Some(Figure::paper((1_952, 155_000), TABLE_3)),
    reference: half(servers(
        Strategy::Hybrid,
        dims(2, 2, 2),
        16,
        2,
        Provenance::Paper(
            "NSDI'24 CASSINI figure 1(d): 8 servers, 2 stages x 2 tensor halves x 2 replicas; 2 micro-batches are our choice",
        ),
    )),
};
