//! `antiphase profile synth`.

use clap::Args;
use fabric::capacity;
use profile::{Request, Strategy};
use units::Rate;

use super::{find_model, render};
use crate::{input::CliError, output::Output};

const EXAMPLES: &str = "\
What is left out comes from the model's reference setting, which `antiphase profile zoo MODEL` shows.

EXAMPLES
  VGG16 on four servers:
    antiphase profile synth vgg16 --ranks 4 --nic 50G
  A Llama of 70 G parameters, split three ways, as a document for `plan`:
    antiphase profile synth llama-70b --tp 8 --pp 4 --dp 2 --gpus-per-host 8 --nic 400G -o yaml >llama.yaml";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SynthArgs {
    /// Name of a model; `antiphase profile zoo` lists them
    model: String,
    /// How the model is split: dp, fsdp, pp, tp, ep or hybrid
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// Number of ranks (GPUs)
    #[arg(long, value_name = "N")]
    ranks: Option<u32>,
    /// Ranks on each host
    #[arg(long, value_name = "N")]
    gpus_per_host: Option<u32>,
    /// NICs of each host [default: one per GPU]
    #[arg(long, value_name = "N")]
    nics_per_host: Option<u32>,
    /// Line rate of one NIC, for example 50G
    #[arg(long, value_name = "RATE")]
    nic: Option<String>,
    /// Part of the line rate that a collective reaches, in percent
    #[arg(long, value_name = "PERCENT")]
    efficiency: Option<u32>,
    /// Sustained speed of one GPU in TFLOP/s
    #[arg(long, value_name = "TFLOPS")]
    gpu: Option<u64>,
    /// Samples per data-parallel rank and iteration
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Micro-batches per iteration
    #[arg(long, value_name = "N")]
    micro_batches: Option<u32>,
    /// Part of the last backward pass that overlaps the all-reduce, in percent
    #[arg(long, value_name = "PERCENT")]
    overlap: Option<u32>,
    /// Tensor parallel degree
    #[arg(long, value_name = "N")]
    tp: Option<u32>,
    /// Context parallel degree
    #[arg(long, value_name = "N")]
    cp: Option<u32>,
    /// Pipeline stages
    #[arg(long, value_name = "N")]
    pp: Option<u32>,
    /// Data parallel degree
    #[arg(long, value_name = "N")]
    dp: Option<u32>,
    /// Expert parallel degree; divides dp
    #[arg(long, value_name = "N")]
    ep: Option<u32>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &SynthArgs) -> Result<String, CliError> {
    let model = find_model(&args.model)?;
    // The profile crate fills in what the user leaves out, by the same rules as for the models of a jobs document.
    let setup = args.request()?.resolve(model).map_err(usage)?;
    let profile = profile::synthesise(model, &setup.parallelism, &setup.hardware, setup.batch).map_err(usage)?;
    render(&profile, args.output)
}

fn usage(problem: impl std::fmt::Display) -> CliError {
    CliError::Usage(problem.to_string())
}

impl SynthArgs {
    fn request(&self) -> Result<Request, CliError> {
        let strategy = self.strategy.as_deref().map(str::parse::<Strategy>).transpose();
        let gpu_gflops = self.gpu.map(|tflops| tflops.checked_mul(1_000).ok_or_else(|| usage(format!("gpu: {tflops} TFLOP/s; too large"))));
        Ok(Request {
            strategy: strategy.map_err(|e| usage(format!("--strategy: {e}")))?,
            ranks: self.ranks,
            gpus_per_host: self.gpus_per_host,
            nics_per_host: self.nics_per_host,
            batch: self.batch,
            micro_batches: self.micro_batches,
            tp: self.tp,
            cp: self.cp,
            pp: self.pp,
            dp: self.dp,
            ep: self.ep,
            nic_rate: self.nic.as_deref().map(nic_rate).transpose()?,
            efficiency_percent: self.efficiency,
            overlap_percent: self.overlap,
            gpu_gflops: gpu_gflops.transpose()?,
        })
    }
}

fn nic_rate(text: &str) -> Result<Rate, CliError> {
    capacity::parse(text).map_err(|e| usage(format!("--nic: {e}")))
}
