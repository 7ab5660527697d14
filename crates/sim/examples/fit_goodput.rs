//! Fits what the authors of Sia measured, and prints the table of `trace/elastic/fitted.rs`.
//!
//! `cargo run --release -p antiphase-sim --example fit_goodput -- FOLDER >crates/sim/src/trace/elastic/fitted.rs`, with a folder for each
//! application that has `placements-TYPE.csv`, `scalability-TYPE.csv` and `validation-BATCH.csv` (siasosp23/artifacts, `sia-simulator/traces`).

use std::{error::Error, fs, path::Path};

use antiphase_sim::trace::{
    elastic::{Learning, Speeds, samples_limit, traits},
    read_learning, read_measured,
};
use policy::goodput::{Observation, Throughput, fit};

/// The types of the paper's cluster, and two more of the artifact.
const TYPES: [&str; 5] = ["aws", "azure", "dgx-ext", "quad", "rtx"];
/// Parts that the noise of a training is told in.
const PARTS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("a folder is missing")?;
    println!(
        "//! What is built in of Sia's applications: parameters that were fitted to its authors' measurements, and noise of gradients in a few parts of"
    );
    println!("//! a training. Written by `examples/fit_goodput.rs`; docs/calibration.md says where the measurements are from.\n");
    println!("use super::known::{{Fit, Known}};\n");
    println!("#[rustfmt::skip]\npub(super) const KNOWN: [Known; {}] = [", traits().len());
    for traits in traits() {
        let of = Path::new(&folder).join(traits.name);
        let file = |name: String| fs::read_to_string(of.join(name));
        println!("    Known {{\n        name: {:?},\n        fits: &[", traits.name);
        for name in TYPES {
            let (placements, scalability) = (file(format!("placements-{name}.csv"))?, file(format!("scalability-{name}.csv"))?);
            let measured = read_measured(&placements, &scalability).map_err(|(e, _)| e)?.limited(samples_limit(traits.name, name));
            let seen: Vec<Observation> = measured
                .all()
                .map(|(layout, s)| Observation { layout, samples: s.samples as u32, iteration_s: s.iteration_s, sync_s: s.sync_s })
                .collect();
            let throughput = fit(&seen).ok_or("nothing to fit")?;
            let mut off: Vec<f64> = seen.iter().map(|seen| off(&throughput, seen)).collect();
            off.sort_by(f64::total_cmp);
            let Throughput { alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma } = throughput;
            let parameters = [alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma].map(digits).join(", ");
            let speeds = Speeds::Measured(measured);
            let (least, most) = speeds.samples();
            println!(
                "            // Off by {:.1} % at the median, and by {:.1} % at the 95th percentile, of {} measurements.",
                off[off.len() / 2] * 100.0,
                off[off.len() * 95 / 100] * 100.0,
                off.len()
            );
            println!(
                "            Fit {{ gpu_type: {name:?}, parameters: [{parameters}], samples: ({least}, {most}), alone: {} }},",
                digits(speeds.alone())
            );
        }
        let files: Vec<String> = traits.batches.iter().map(|batch| file(format!("validation-{batch}.csv"))).collect::<Result<_, _>>()?;
        let learning = read_learning(traits, &files).map_err(|(e, _)| e)?;
        parts(&learning);
        println!("    }},");
    }
    println!("];");
    Ok(())
}

fn off(throughput: &Throughput, seen: &Observation) -> f64 {
    let batch = policy::goodput::Batch { samples: seen.samples, passes: 1 };
    (throughput.iteration_s(seen.layout, batch) / seen.iteration_s - 1.0).abs()
}

/// Four digits that count.
fn digits(value: f64) -> String {
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 { format!("{rounded:.1}") } else { format!("{rounded}") }
}

/// Ends of the parts, and in each the noise with which learning takes as long as measured.
fn parts(learning: &Learning) {
    let epochs = learning.ends.len();
    let count = PARTS.min(epochs);
    let bounds: Vec<usize> = (0..=count).map(|part| part * epochs / count).collect();
    let ends: Vec<String> = bounds.iter().skip(1).map(|end| digits_whole(learning.ends[end - 1])).collect();
    println!("        ],\n        ends: &[{}],\n        noise: &[", ends.join(", "));
    let initial = f64::from(learning.initial());
    for (batch, of) in &learning.gradients {
        // The initial batch says nothing of larger ones by itself, so its noise is that which is right for four times the batch.
        let scale = if f64::from(*batch) > initial { f64::from(*batch) / initial } else { 4.0 };
        let noise = bounds.windows(2).map(|bound| {
            let (mut took, mut all) = (0.0, 0.0);
            for epoch in bound[0]..bound[1] {
                let (squared, variance) = of[epoch.min(of.len() - 1)];
                let length = learning.ends[epoch] - if epoch > 0 { learning.ends[epoch - 1] } else { 0.0 };
                took += length * (variance / scale + squared) / (variance + squared);
                all += length;
            }
            let share = took / all;
            digits((1.0 - share) / (share - 1.0 / scale))
        });
        println!("            ({batch}, &[{}]),", noise.collect::<Vec<_>>().join(", "));
    }
    println!("        ],");
}

fn digits_whole(value: f64) -> String {
    format!("{:.1}", value.round())
}
