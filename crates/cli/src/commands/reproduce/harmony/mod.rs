//! The experiment of Harmony: servers whose jobs disturb each other, and placers that know nothing, the truth, or what they learned.
//!
//! Neither its code nor its traces are public: the servers, the interference and the mixes are ours (`crates/harmony`).

mod page;

use std::{path::PathBuf, process::ExitCode};

use ::harmony::{Interference, Job, KINDS, Mix, PPM, Part, Speeds, Stand, kind_name};
use clap::Args;
use serde::Serialize;

use super::report::ReportArgs;
use crate::{
    commands::{
        learn::{
            PERMILLE,
            model::{self, Model, Point},
            placers::{HEADINGS, Row, compare},
        },
        seeds::{QUICK_SEEDS, SEEDS_MAX},
    },
    input::CliError,
    table::Table,
};

/// Loads of the mixes, in percent: from servers on which jobs are mostly alone to a queue that seldom empties.
const LOADS: [u32; 4] = [30, 50, 70, 90];
const QUICK_LOADS: [u32; 1] = [50];
/// The first mix: far from those that teach and select.
const FIRST: u64 = 1_000;
/// Mixes of each load: intervals of about a hundredth.
const MIXES: u64 = 40;
/// By how much Harmony's mean completion times were shorter than those of its three baselines, in percent (abstract of ToN 2022).
const PUBLISHED: (u32, u32) = (16, 42);

const EXAMPLES: &str = "\
EXAMPLES
  Every load with 40 mixes, and the report:
    antiphase reproduce harmony --report harmony.html
  A look, and a model of your own:
    antiphase reproduce harmony --quick --model other.json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HarmonyArgs {
    /// One load, few mixes
    #[arg(long)]
    quick: bool,
    /// Mixes of each load [default: 40, quick 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX as u64))]
    seeds: Option<u64>,
    /// A model (antiphase.harmony-model/v1); without it the one that the program has with it
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What a kind of job feels of others: two ranks on two servers, beside two ranks of each kind on the same two.
#[derive(Clone, Debug, Serialize)]
struct Felt {
    kind: &'static str,
    /// Speeds, in parts of that alone on one server.
    apart: f64,
    beside_mean: f64,
    beside_least: f64,
    beside_worst: &'static str,
}

/// All placers under one load.
#[derive(Clone, Debug, Serialize)]
struct Loaded {
    load_percent: u32,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    made_by: String,
    mixes: u64,
    published_percent: (u32, u32),
    interference: Vec<Felt>,
    loads: Vec<Loaded>,
    curve: Vec<Point>,
}

pub(super) fn run(args: &HarmonyArgs) -> Result<ExitCode, CliError> {
    let model = model::read(args.model.as_deref())?;
    let mixes = args.seeds.unwrap_or(if args.quick { QUICK_SEEDS } else { MIXES });
    let loads: &[u32] = if args.quick { &QUICK_LOADS } else { &LOADS };
    let bar = indicatif::ProgressBar::new(mixes * loads.len() as u64);
    let loads = loads.iter().map(|load| loaded(&model, *load, mixes, &bar)).collect::<Result<_, _>>()?;
    bar.finish_and_clear();
    let answer = Answer {
        schema: "antiphase.reproduce-harmony/v1",
        made_by: model.about.made_by,
        mixes,
        published_percent: PUBLISHED,
        interference: felt(),
        loads,
        curve: model.about.curve,
    };
    let command = format!("antiphase reproduce harmony{} --seeds {mixes}", if args.quick { " --quick" } else { "" });
    args.report.give(&answer, || page::page(&answer, &command), || table(&answer))?;
    Ok(ExitCode::SUCCESS)
}

fn loaded(model: &Model, load_percent: u32, mixes: u64, bar: &indicatif::ProgressBar) -> Result<Loaded, CliError> {
    let mix = Mix { load_permille: load_percent * PERMILLE, ..model.about.mix.mix() };
    let rows = compare(model, &mix, (FIRST, mixes), &|| bar.inc(1)).map_err(|e| CliError::Failure(e.to_string()))?;
    Ok(Loaded { load_percent, rows })
}

/// What each kind feels of each other.
fn felt() -> Vec<Felt> {
    let mut stand = Stand::default();
    (0..2).for_each(|server| stand.add(server, Part::Rank));
    let job = |kind: usize| Job { id: 0, kind, ranks: 2, parameter_servers: 0, work_ms: 1, submitted_ms: 0 };
    // The first of them is asked about.
    let first = |kinds: &[usize]| {
        let jobs: Vec<Job> = kinds.iter().map(|kind| job(*kind)).collect();
        let standing: Vec<(&Job, &Stand)> = jobs.iter().map(|job| (job, &stand)).collect();
        f64::from(Interference.speeds(2, &standing).first().copied().unwrap_or_default()) / PPM as f64
    };
    let of = |kind: usize| {
        let beside: Vec<f64> = (0..KINDS).map(|other| first(&[kind, other])).collect();
        let worst = (0..KINDS).min_by(|a, b| beside[*a].total_cmp(&beside[*b])).unwrap_or_default();
        Felt {
            kind: kind_name(kind),
            apart: first(&[kind]),
            beside_mean: beside.iter().sum::<f64>() / KINDS as f64,
            beside_least: beside[worst],
            beside_worst: kind_name(worst),
        }
    };
    (0..KINDS).map(of).collect()
}

fn table(answer: &Answer) -> String {
    let felt = answer.interference.iter().map(|felt| {
        let Felt { kind, apart, beside_mean, beside_least, beside_worst } = felt;
        let said = |speed: &f64| format!("{speed:.3}");
        [(*kind).to_owned(), said(apart), said(beside_mean), said(beside_least), (*beside_worst).to_owned()]
    });
    let mut out =
        Table::new(&["JOB OF TWO RANKS", ">ON TWO SERVERS", ">BESIDE ANOTHER", ">BESIDE THE WORST", "WHICH IS"]).with_rows(felt).render();
    for Loaded { load_percent, rows } in &answer.loads {
        out += &format!("\nLoad {load_percent} %:\n{}", Table::new(&HEADINGS).with_rows(rows.iter().map(Row::cells)).render());
    }
    let (least, most) = answer.published_percent;
    out + &format!(
        "\nMeans of {} mixes, waiting included, with half of the 95 % confidence interval.\nPublished, on its authors' testbed: shorter by {least} to {most} % than the first three.\n",
        answer.mixes
    )
}
