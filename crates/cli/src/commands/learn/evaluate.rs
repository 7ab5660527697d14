//! `antiphase learn evaluate`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde::Serialize;

use super::{
    MixArgs, SEED_MAX,
    model::{self, MixDocument},
    placers::{HEADINGS, Row, compare},
};
use crate::{
    commands::seeds::SEEDS_MAX,
    input::CliError,
    output::{Output, print},
    table::Table,
};

const EXAMPLES: &str = "\
EXAMPLES
  The model that the program has with it:
    antiphase learn evaluate
  One of your own, on more mixes:
    antiphase learn evaluate other.json --mixes 100
  On a cluster that it never saw:
    antiphase learn evaluate --servers 16 --load 70
  Below 1 is better than the greedy rule that knows how fast jobs are beside each other, which in a real cluster nobody does.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EvaluateArgs {
    /// A model (antiphase.harmony-model/v1); - for standard input; without it the one that the program has with it
    model: Option<PathBuf>,
    /// The first mix
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: u64,
    /// How many mixes
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX as u64))]
    mixes: u64,
    #[command(flatten)]
    mix: MixArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    made_by: String,
    seed: u64,
    mixes: u64,
    mix: MixDocument,
    rows: Vec<Row>,
}

pub(super) fn run(args: &EvaluateArgs) -> Result<ExitCode, CliError> {
    let model = model::read(args.model.as_deref())?;
    let mix = args.mix.apply(model.about.mix.mix());
    let bar = indicatif::ProgressBar::new(args.mixes);
    let rows = compare(&model, &mix, (args.seed, args.mixes), &|| bar.inc(1)).map_err(|e| CliError::Failure(e.to_string()))?;
    bar.finish_and_clear();
    let made_by = model.about.made_by;
    let answer =
        Answer { schema: "antiphase.learn-evaluation/v1", made_by, seed: args.seed, mixes: args.mixes, mix: MixDocument::new(&mix), rows };
    print(&args.output.render(&answer, || table(&answer))?)?;
    Ok(ExitCode::SUCCESS)
}

fn table(answer: &Answer) -> String {
    let mixes = answer.mixes;
    format!(
        "{}\nMeans of {mixes} mixes from seed {} on, waiting included, with half of the 95 % confidence interval; mixes from which nothing was learned.\n",
        Table::new(&HEADINGS).with_rows(answer.rows.iter().map(Row::cells)).render(),
        answer.seed,
    )
}
