//! How much it matters which of equal shapes Sia takes, and with which batches it counts: the first 40 jobs of a workload of its authors, in the world
//! of their simulator.
//!
//! `cargo run --release -p antiphase-sim --example sia_ties -- FOLDER`, with `workloads/scale/rate_10/workload-1.csv` and `profiles` in the folder.

use std::{error::Error, fs, path::Path};

use antiphase_sim::trace::{
    elastic::{Application, ElasticSetup, GpuType, Habits, Speeds, run, samples_limit, traits},
    read_elastic, read_learning, read_measured,
};
use policy::elastic::{ElasticRule, SiaOptions};

/// Draws; 0 is what the solver takes.
const DRAWS: u64 = 10;
const HOUR_S: f64 = 3_600.0;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("a folder is missing")?;
    let folder = Path::new(&folder);
    let of = |(name, nodes, gpus_per_node): (&str, u32, u32)| GpuType { name: name.to_owned(), nodes, gpus_per_node };
    let types = [("aws", 6, 4), ("dgx-ext", 2, 8), ("rtx", 3, 8)].map(of);
    let mut trace = read_elastic(&fs::read_to_string(folder.join("workloads/scale/rate_10/workload-1.csv"))?)?;
    trace.truncate(40);
    let applications = applications(folder, &types)?;
    for asked_batches in [true, false] {
        for ties in 0..=DRAWS {
            let rule = ElasticRule::Sia(SiaOptions { asked_batches, ties, ..SiaOptions::ARTIFACT });
            let round_s = rule.round_s();
            let setup = ElasticSetup {
                types: &types,
                applications: &applications,
                rule,
                round_s,
                habits: Habits::ARTIFACT,
                network: None,
                clock: || 0.0,
            };
            let outcome = run(&trace, &setup)?;
            println!(
                "batches {}, draw {ties}: mean {:.4} h, p50 {:.4} h, p99 {:.3} h, longest {:.3} h, makespan {:.3} h, {:.2} restarts",
                if asked_batches { "as asked for" } else { "of any size" },
                outcome.mean_s() / HOUR_S,
                outcome.quantile_s(0.5) / HOUR_S,
                outcome.quantile_s(0.99) / HOUR_S,
                outcome.quantile_s(1.0) / HOUR_S,
                outcome.makespan_s / HOUR_S,
                outcome.restarts_mean()
            );
        }
    }
    Ok(())
}

fn applications(folder: &Path, types: &[GpuType]) -> Result<Vec<Application>, Box<dyn Error>> {
    let mut all = Vec::new();
    for traits in traits() {
        let file = |name: String| fs::read_to_string(folder.join("profiles").join(traits.name).join(name));
        let mut speeds = Vec::new();
        for GpuType { name, .. } in types {
            let measured = read_measured(&file(format!("placements-{name}.csv"))?, &file(format!("scalability-{name}.csv"))?);
            speeds.push(Speeds::Measured(measured.map_err(|(e, _)| e)?.limited(samples_limit(traits.name, name))));
        }
        let texts = traits.batches.iter().map(|batch| file(format!("validation-{batch}.csv"))).collect::<Result<Vec<String>, _>>()?;
        all.push(Application { traits: *traits, learning: read_learning(traits, &texts).map_err(|(e, _)| e)?, speeds });
    }
    Ok(all)
}
