//! `antiphase profile zoo`.

use profile::{Architecture, Figure, Model, Parallelism, Profile, Provenance, Request, Setup};
use units::Rate;

use crate::{input::CliError, table::Table};

/// All models at their reference settings, with a legend.
pub(super) fn all() -> Result<String, CliError> {
    let headings = ["MODEL", ">PARAMETERS", "SPLIT", ">BATCH", ">NIC", ">PERIOD", ">UP", ">SENT", "SIZE", "COMPUTE", "SETTING"];
    let mut table = Table::new(&headings);
    for model in &profile::MODELS {
        let (setup, profile) = at_reference(model)?;
        table.row([
            model.name.into(),
            millions(model.parameters.value),
            split(&setup.parallelism),
            setup.batch.to_string(),
            setup.hardware.nic_rate.to_string(),
            format!("{:.0} ms", profile.period().as_millis_f64()),
            format!("{:.0} %", profile.duty() * 100.0),
            profile.bytes_per_iteration().to_string(),
            model.parameters.source.kind().into(),
            model.flops_per_sample.source.kind().into(),
            model.reference.source.kind().into(),
        ]);
    }
    Ok(format!("{}\n{LEGEND}", table.render()))
}

const LEGEND: &str = "\
BATCH    samples per data-parallel rank and iteration
UP       part of the period during which any NIC of the job sends
SENT     by the busiest NIC in one iteration
SIZE, COMPUTE, SETTING: where the parameters, the operations per sample and the split come from:
paper = printed by its authors, derived = follows from printed numbers, calibrated = fitted to a
printed time, assumed = chosen by us. Periods, times and bytes are computed from them, not measured.
`antiphase profile zoo MODEL` prints every number of a model with its source.
";

fn at_reference(model: &Model) -> Result<(Setup, Profile), CliError> {
    let failed = |e: profile::SynthError| CliError::Failure(format!("{}: {e}", model.name));
    let setup = Request::default().resolve(model).map_err(failed)?;
    let profile = profile::synthesise(model, &setup.parallelism, &setup.hardware, setup.batch).map_err(failed)?;
    Ok((setup, profile))
}

fn millions(parameters: u64) -> String {
    if parameters >= 1_000_000_000 { format!("{:.1} G", parameters as f64 / 1e9) } else { format!("{:.1} M", parameters as f64 / 1e6) }
}

/// `tp 2 x pp 2 x dp 2`, the degrees of one left out.
fn split(parallelism: &Parallelism) -> String {
    let d = &parallelism.dims;
    let data = if parallelism.data == profile::DataParallel::Sharded { "fsdp" } else { "dp" };
    let degrees = [("tp", d.tp), ("cp", d.cp), ("pp", d.pp), (data, d.dp)];
    let mut text = degrees.iter().filter(|(_, n)| *n > 1).map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(" x ");
    if d.ep > 1 {
        text.push_str(&format!(" (ep {})", d.ep));
    }
    text
}

/// Every number of one model and how it came to be known.
pub(super) fn one(model: &Model) -> String {
    let mut table = Table::new(&["NUMBER", ">VALUE", "SOURCE"]);
    let mut row = |name: &str, value: String, source: Provenance| table.row([name.into(), value, source.to_string()]);
    let whole = |f: Figure<u32>| (f.value.to_string(), f.source);
    row("parameters", model.parameters.value.to_string(), model.parameters.source);
    row("layers", model.layers.value.to_string(), model.layers.source);
    let gflop = model.flops_per_sample.value as f64 / 1e9;
    // A recommender's sample takes millions where a network for pictures takes billions.
    let gflop = if gflop < 1.0 { format!("{gflop:.4}") } else { format!("{gflop:.1}") };
    row("GFLOP per sample", gflop, model.flops_per_sample.source);
    row("bytes per parameter", model.bytes_per_parameter.value.to_string(), model.bytes_per_parameter.source);
    let (least, most) = model.batch.value;
    row("batch per GPU", format!("{least} to {most}"), model.batch.source);
    if let Some(Figure { value: (least, most), source }) = model.memory_mb {
        row("memory", if least == most { format!("{least} MB") } else { format!("{least} to {most} MB") }, source);
    }
    let mut shape: Vec<(&str, (String, Provenance))> = Vec::new();
    match &model.architecture {
        Architecture::Transformer(t) => {
            shape.extend([("hidden", whole(t.hidden)), ("tokens per sample", whole(t.sequence))]);
            shape.push(("embedding parameters", (t.embedding.value.to_string(), t.embedding.source)));
            if let Some(e) = &t.experts {
                shape.extend([("experts per block", whole(e.count)), ("experts per token", whole(e.top_k))]);
                shape.push(("expert parameters", (e.parameters.value.to_string(), e.parameters.source)));
            }
        }
        Architecture::Recommender { tables, dimension } => shape.extend([("tables", whole(*tables)), ("table columns", whole(*dimension))]),
        Architecture::Convolutional => {}
    }
    for (name, (value, source)) in shape {
        row(name, value, source);
    }
    let r = &model.reference;
    let d = &r.dims;
    row("TFLOP/s of a GPU", (r.gpu_gflops.value / 1_000).to_string(), r.gpu_gflops.source);
    let setting = format!(
        "{}: tp {} pp {} dp {} ep {}, {} per host, batch {}, {} micro-batches, {} NICs",
        r.strategy,
        d.tp,
        d.pp,
        d.dp,
        d.ep,
        d.gpus_per_host,
        r.batch,
        r.micro_batches,
        Rate(r.nic_gbps * 1_000)
    );
    let source = r.source;
    format!("{}\nreference setting: {setting}\n{source}\n", table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_shows_what_the_commands_print() {
        let guide = include_str!("../../../../../docs/profiles.md");
        let vgg16 = profile::find_model("vgg16").unwrap();
        let (_, p) = at_reference(vgg16).unwrap();
        for text in [all().unwrap(), one(vgg16), super::super::show::text(&p)] {
            assert!(guide.contains(&text), "docs/profiles.md must contain this, fenced:\n{text}");
        }
    }

    #[test]
    fn every_model_can_be_listed() {
        for model in &profile::MODELS {
            assert!(one(model).lines().count() > 8, "{}", model.name);
        }
    }
}
