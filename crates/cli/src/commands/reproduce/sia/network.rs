//! What seeing the network brings Sia: the same jobs on an oversubscribed fabric, blind, with places by prediction, and with places in the program.
//!
//! Nobody has published this, so there is nothing beside it but the same jobs on a network that is in nobody's way.

use ::sim::trace::{
    NetworkControl,
    elastic::{
        Applications, ElasticError, ElasticNetwork, ElasticOutcome, ElasticSetup, ElasticSubmission, GpuType, Habits, builtin, run as play,
    },
};
use fabric::{
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use policy::elastic::{ElasticRule, SiaOptions, Sight};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde::Serialize;
use units::{Rate, unit_interval};

use crate::commands::seeds::{QUICK_SEEDS, SEEDS, on_all_cores};
use crate::{
    commands::{
        cpu_s,
        stats::{Interval, interval},
    },
    input::CliError,
    output::{Output, print},
    table::Table,
};

/// Jobs of a run, and of a quick one.
const JOBS: (usize, usize) = (24, 12);
/// Mean time between two submissions, in seconds: some ten jobs at a time, which 64 GPUs are just enough for.
const APART_S: f64 = 240.0;
/// What jobs train: of Sia's applications those that are done within hours.
const APPLICATIONS: [&str; 4] = ["cifar10", "cifar10", "bert", "deepspeech2"];
/// Nodes of four T4, four to a leaf, whose uplink has the rate of one node: 4 to 1.
const TYPE: &str = "aws";
const LEAVES: u32 = 4;
const HOSTS_PER_LEAF: u32 = 4;
const GPUS_PER_HOST: u32 = 4;
const RATE: Rate = Rate(25_000);

const CONTROLS: [(&str, NetworkControl); 2] = [("free", NetworkControl::Free), ("turns", NetworkControl::Turns)];
const SIGHTS: [(&str, Sight); 3] = [("blind", Sight::Blind), ("after", Sight::After), ("inside", Sight::Inside)];

/// One run.
#[derive(Clone, Copy, Debug)]
struct Played {
    mean_s: f64,
    longer: f64,
    policy_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    control: &'static str,
    sight: &'static str,
    mean_jct_s: Interval,
    /// Iterations of jobs that span nodes, over the same on a network that is in nobody's way.
    longer: Interval,
    /// What blind Sia takes where jobs come as they come, over what this takes: of the mean completion time, seed by seed.
    gain: Interval,
    /// The same over blind Sia under this control.
    gain_of_sight: Interval,
    /// The seed that gains least by sight.
    gain_of_sight_least: f64,
    /// A decision, at the 95th percentile.
    policy_ms_p95: Interval,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    seeds: u64,
    jobs: usize,
    rows: Vec<Row>,
    /// What blind Sia takes over what it takes on a network that is in nobody's way: all there is to gain.
    all: Interval,
}

pub(super) fn run(quick: bool, seeds: Option<u64>, output: Output) -> Result<(), CliError> {
    let seeds = seeds.unwrap_or(if quick { QUICK_SEEDS } else { SEEDS });
    let jobs = if quick { JOBS.1 } else { JOBS.0 };
    let failed = |e: &dyn std::fmt::Display| CliError::Failure(e.to_string());
    let shape = Clos2 { leaves: LEAVES, spines: 1, hosts_per_leaf: HOSTS_PER_LEAF, host_rate: RATE, uplink_rate: RATE, uplinks: 1 };
    let fabric = clos2(&shape).map_err(|e| failed(&e))?;
    let router = Router::new(&fabric, Ecmp::Spread, &[]).map_err(|e| failed(&e))?;
    let applications = builtin(&[TYPE]).ok_or_else(|| failed(&"no such type of GPU"))?;
    let bar = indicatif::ProgressBar::new(seeds * (1 + (CONTROLS.len() * SIGHTS.len()) as u64));
    let by_seed = on_all_cores(seeds, |seed| {
        let trace = drawn(seed, jobs);
        let play = |network| {
            let played = played(&trace, &applications, network);
            bar.inc(1);
            played
        };
        let schemes = CONTROLS.iter().flat_map(|(_, control)| SIGHTS.iter().map(move |(_, sight)| (*control, *sight)));
        let networks = schemes.map(|(control, sight)| Some(ElasticNetwork { router: &router, control, sight }));
        networks.chain([None]).map(play).collect::<Result<Vec<Played>, ElasticError>>()
    });
    bar.finish_and_clear();
    let by_seed = by_seed.into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| failed(&e))?;
    let answer = answer(seeds, jobs, &by_seed);
    print(&output.render(&answer, || table(&answer))?)
}

/// Jobs that come one after the other.
fn drawn(seed: u64, jobs: usize) -> Vec<ElasticSubmission> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut uniform = || unit_interval(random.next_u64());
    let mut submitted_s = 0.0;
    let job = |line: u64| {
        submitted_s -= APART_S * (1.0 - uniform()).ln();
        let application = APPLICATIONS[(uniform() * APPLICATIONS.len() as f64) as usize % APPLICATIONS.len()];
        // Sia asks neither for GPUs nor for a batch.
        ElasticSubmission { id: line.to_string(), line, submitted_s, application: application.to_owned(), gpus: 1, batch: 1 }
    };
    (1..=jobs as u64).map(job).collect()
}

fn played(trace: &[ElasticSubmission], applications: &Applications, network: Option<ElasticNetwork<'_>>) -> Result<Played, ElasticError> {
    let types = [GpuType { name: TYPE.to_owned(), nodes: LEAVES * HOSTS_PER_LEAF, gpus_per_node: GPUS_PER_HOST }];
    let rule = ElasticRule::Sia(SiaOptions::PAPER);
    let setup = ElasticSetup { types: &types, applications, rule, round_s: rule.round_s(), habits: Habits::PAPER, network, clock: cpu_s };
    let outcome: ElasticOutcome = play(trace, &setup)?;
    Ok(Played { mean_s: outcome.mean_s(), longer: outcome.longer_mean.unwrap_or(1.0), policy_ms: outcome.policy_quantile_s(0.95) * 1e3 })
}

/// Figures of runs, each with a run of every scheme and one without a network.
fn answer(seeds: u64, jobs: usize, by_seed: &[Vec<Played>]) -> Answer {
    let of = |at: usize, value: fn(&Played) -> f64| by_seed.iter().filter_map(move |runs| runs.get(at).map(value));
    let over = |first: usize, own: usize| -> Vec<f64> {
        of(first, |p| p.mean_s).zip(of(own, |p| p.mean_s)).map(|(first, own)| first / own).collect()
    };
    let mut rows = Vec::new();
    for (control, (name, _)) in CONTROLS.iter().enumerate() {
        for (sight, (sight_name, _)) in SIGHTS.iter().enumerate() {
            let at = control * SIGHTS.len() + sight;
            let by_sight = over(control * SIGHTS.len(), at);
            rows.push(Row {
                control: name,
                sight: sight_name,
                mean_jct_s: interval(of(at, |p| p.mean_s)),
                longer: interval(of(at, |p| p.longer)),
                gain: interval(over(0, at).into_iter()),
                gain_of_sight_least: by_sight.iter().copied().fold(f64::INFINITY, f64::min),
                gain_of_sight: interval(by_sight.into_iter()),
                policy_ms_p95: interval(of(at, |p| p.policy_ms)),
            });
        }
    }
    let all = interval(over(0, rows.len()).into_iter());
    Answer { schema: "antiphase.reproduce-sia-network/v1", seeds, jobs, rows, all }
}

fn table(answer: &Answer) -> String {
    let mut table = Table::new(&["CONTROL", "SIGHT", ">MEAN JCT", ">ITERATION", ">GAIN", ">GAIN OF SIGHT", ">LEAST", ">P95 POLICY"]);
    for row in &answer.rows {
        table.row(vec![
            row.control.to_owned(),
            row.sight.to_owned(),
            format!("{} s", row.mean_jct_s.said(0)),
            row.longer.said(3),
            row.gain.said(3),
            row.gain_of_sight.said(3),
            format!("{:.3}", row.gain_of_sight_least),
            format!("{} ms", row.policy_ms_p95.said(1)),
        ]);
    }
    format!(
        "{}Means of {} seeds of {} jobs, with half of the 95 % confidence interval. On a network that is in nobody's way the gain is {}.\n",
        table.render(),
        answer.seeds,
        answer.jobs,
        answer.all.said(3)
    )
}
