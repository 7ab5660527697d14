//! The zoo: the 13 models of the CASSINI paper and a few that are trained today.

mod language;
mod large;
mod vision;

use crate::model::{Figure, Model};

/// Sustained speed of an NVIDIA A100 in PyTorch 1.8, in GFLOP/s.
///
/// A V100 at an fp32 peak of 15.7 TFLOP/s needs 160 ms for BERT at batch 4 (measured by Muri's
/// authors, SIGCOMM'22), which is 4 x 512 tokens x 6 x 110 M / 160 ms = 8.4 TFLOP/s, 0.54 of the
/// peak in kernels alone; 0.4 leaves room for what surrounds them.
pub const A100: Figure<u64> = Figure::derived(60_000, "0.4 of the TF32 peak of 156 TFLOP/s");
/// Sustained speed of an NVIDIA A100 in fp16 with fp32 sums, in GFLOP/s: what a model trained in mixed precision by DeepSpeed
/// runs at, at the same share of the peak as [`A100`].
pub(crate) const A100_HALF: Figure<u64> =
    Figure::derived(125_000, "0.4 of the fp16 tensor-core peak of 312 TFLOP/s, the share assumed for TF32");
/// Sustained speed of an NVIDIA H100 in bf16, in GFLOP/s.
pub const H100: Figure<u64> = Figure::assumed(400_000, "0.4 of the dense bf16 peak of 989 TFLOP/s, the usual utilisation of large runs");

/// Where batches and memory of the models of the CASSINI paper are printed.
const TABLE_3: &str = "NSDI'24 CASSINI table 3";

/// All models, in the order of the CASSINI paper's table 3, newer ones after them.
pub static MODELS: [Model; 16] = [
    vision::VGG11,
    vision::VGG16,
    vision::VGG19,
    vision::WIDERESNET101,
    vision::RESNET50,
    language::BERT,
    language::ROBERTA,
    language::CAMEMBERT,
    language::XLM,
    language::GPT1,
    language::GPT2,
    language::GPT3,
    vision::DLRM,
    large::LLAMA_7B,
    large::LLAMA_70B,
    large::MIXTRAL_8X7B,
];

/// The model of that name; case, `-`, `_`, `.` and spaces do not matter.
#[must_use]
pub fn find_model(name: &str) -> Option<&'static Model> {
    // Names of the zoo are in lower case, so only the wanted name is folded.
    let plain = |name: &'static str| name.bytes().filter(u8::is_ascii_alphanumeric);
    let wanted = || name.bytes().filter(|b| !matches!(b, b'-' | b'_' | b'.' | b' ')).map(|b| b.to_ascii_lowercase());
    MODELS.iter().find(|m| plain(m.name).eq(wanted()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Provenance;

    #[test]
    fn names_are_found_however_they_are_spelt() {
        for (typed, name) in [
            ("VGG16", "vgg16"),
            ("GPT-3", "gpt3"),
            ("Wide_ResNet101", "wideresnet101"),
            ("llama 7B", "llama-7b"),
            ("Mixtral-8x7B", "mixtral-8x7b"),
        ] {
            assert_eq!(find_model(typed).map(|m| m.name), Some(name), "{typed}");
        }
        assert_eq!(find_model("vgg13"), None);
        assert_eq!(find_model(""), None);
    }

    #[test]
    fn every_model_is_unlike_the_others_and_says_where_its_numbers_come_from() {
        for (i, m) in MODELS.iter().enumerate() {
            assert!(MODELS[..i].iter().all(|o| o.name != m.name), "{} twice", m.name);
            let sources = [
                m.parameters.source,
                m.layers.source,
                m.flops_per_sample.source,
                m.bytes_per_parameter.source,
                m.batch.source,
                m.reference.source,
            ];
            assert!(sources.iter().all(|s| s.detail().len() > 10), "{}: {sources:?}", m.name);
            assert!(m.batch.value.0 <= m.reference.batch && m.reference.batch <= m.batch.value.1, "{}", m.name);
            assert!(m.reference.dims.check().is_ok(), "{}", m.name);
        }
        assert_eq!(MODELS.iter().filter(|m| matches!(m.memory_mb, Some(f) if matches!(f.source, Provenance::Paper(_)))).count(), 13);
    }

    #[test]
    fn parameters_in_fp32_are_the_memory_that_the_paper_printed() {
        // Table 3 in MiB. WideResNet101's 243 is half of 484 because its published weights are
        // stored in half precision; RoBERTa (800) and CamemBERT (266) fit neither 2 nor 4 bytes.
        for name in ["vgg11", "vgg16", "vgg19", "resnet50", "xlm"] {
            let m = find_model(name).unwrap();
            let mib = m.parameters.value as f64 * 4.0 / f64::from(1 << 20);
            let printed = f64::from(m.memory_mb.unwrap().value.0);
            assert!((mib / printed - 1.0).abs() < 0.06, "{name}: {mib:.0} against {printed}");
        }
    }
}
