//! `antiphase learn train`.

use std::{path::PathBuf, process::ExitCode};

use ::harmony::{Mix, Reach};
use ::learn::train::{Course, Progress, Setup, Stage, train};
use clap::Args;
use serde::Serialize;

use super::{
    MIX, MixArgs, SEED_MAX,
    model::{self, About, Point},
};
use crate::{
    commands::cpu_s,
    input::CliError,
    output::{Output, print, say, write_files},
    table::Table,
};

/// Most rounds: a day of work.
const ROUNDS_MAX: i64 = 100_000;
/// Most mixes that are taught: each is some 200 lessons of a kilobyte, and all are kept.
const TAUGHT_MAX: i64 = 2_000;
/// Lines that a stage without rounds prints.
const LINES: usize = 8;

/// What is trained, unless told otherwise: some ten minutes of one core.
const SETUP: Setup = Setup {
    seed: 1,
    mix: MIX,
    logged: 40,
    speed_steps: 6_000,
    taught: 80,
    reach: Reach { ways: 8, futures: 16, jobs: 10 },
    imitate_steps: 8_000,
    rounds: 100,
    judge_every: 10,
    refitted: 10,
};
/// Seconds.
const QUICK: Setup = Setup {
    mix: Mix { jobs: 20, ..MIX },
    logged: 4,
    speed_steps: 200,
    taught: 2,
    reach: Reach { ways: 4, futures: 2, jobs: 4 },
    imitate_steps: 40,
    rounds: 2,
    judge_every: 1,
    refitted: 1,
    ..SETUP
};

const EXAMPLES: &str = "\
EXAMPLES
  The model that the program has with it:
    antiphase learn train --seed 1 --rounds 40 --taught 10 --model harmony.json
  Another seed and more rounds, on other mixes:
    antiphase learn train --seed 7 --rounds 300 --load 70 --model other.json
  A look, in seconds:
    antiphase learn train --quick
  Standard error has a line for each round: loss of the critic, reward of a job, and completion time over the greedy rule where the policy
  was judged. The same command makes the same bytes on every machine.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TrainArgs {
    /// Seed of all random draws
    #[arg(long, value_name = "NUMBER", default_value_t = SETUP.seed, value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: u64,
    /// Rounds of tries [default: 100, quick 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=ROUNDS_MAX))]
    rounds: Option<u32>,
    /// Mixes in which the teacher is followed, then as many in which the policy places; steps of imitation grow with them [default: 80, quick 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=TAUGHT_MAX))]
    taught: Option<u32>,
    /// Little of everything
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    mix: MixArgs,
    /// Write the model (antiphase.harmony-model/v1)
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    seed: u64,
    rounds: usize,
    /// How far predicted speeds are off, as a share.
    speeds_off: f64,
    /// The policy's mean completion time over that of the greedy rule, on the mixes that selected it.
    over_greedy: f64,
    curve: Vec<Point>,
    sha256: String,
    cpu_s: f64,
}

impl TrainArgs {
    fn setup(&self) -> Setup {
        let setup = if self.quick { QUICK } else { SETUP };
        let rounds = self.rounds.map_or(setup.rounds, |rounds| rounds as usize);
        let taught = self.taught.map_or(setup.taught, u64::from);
        let imitate_steps = setup.imitate_steps * taught as usize / setup.taught as usize;
        Setup { seed: self.seed, rounds, taught, imitate_steps, mix: self.mix.apply(setup.mix), ..setup }
    }

    /// The command that makes the same model, wherever it is written to.
    fn command(&self, setup: &Setup) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let taught = self.taught.map_or_else(String::new, |taught| format!(" --taught {taught}"));
        format!("antiphase learn train --seed {} --rounds {}{taught}{quick}{}", setup.seed, setup.rounds, self.mix.typed())
    }
}

pub(super) fn run(args: &TrainArgs) -> Result<ExitCode, CliError> {
    let setup = args.setup();
    let course = train(&setup, &mut told).map_err(|e| CliError::Failure(e.to_string()))?;
    let about = About::new(&course, (setup.seed, setup.rounds), &setup.mix, args.command(&setup));
    let curve = about.curve.clone();
    let (document, sha256) = model::write(about, &course)?;
    if let Some(file) = &args.model {
        write_files(&[(file, &document)])?;
        say(&format!("wrote {}", file.display()));
    }
    let answer = answer(&setup, &course, curve, sha256);
    print(&args.output.render(&answer, || table(&answer))?)?;
    Ok(ExitCode::SUCCESS)
}

fn answer(setup: &Setup, course: &Course, curve: Vec<Point>, sha256: String) -> Answer {
    let over_greedy = curve.iter().map(|point| point.over_greedy).fold(f64::INFINITY, f64::min);
    Answer {
        schema: "antiphase.learn-train/v1",
        seed: setup.seed,
        rounds: setup.rounds,
        speeds_off: course.speeds_off,
        over_greedy,
        curve,
        sha256,
        cpu_s: cpu_s(),
    }
}

/// A line for each round, and some for stages without rounds.
fn told(progress: Progress) {
    let Progress { stage, done, of, loss, reward, over_greedy } = progress;
    let rounds = matches!(stage, Stage::Improve | Stage::Refit);
    if rounds || done == of || done.is_multiple_of(of.div_ceil(LINES)) {
        let said = |name: &str, value: Option<f64>| value.map_or_else(String::new, |value| format!(", {name} {value:.4}"));
        let known = said("loss", loss) + &said("reward", reward) + &said("over greedy", over_greedy);
        say(&format!("{} {done} of {of}{known}", stage.word()));
    }
}

fn table(answer: &Answer) -> String {
    let rows = answer.curve.iter().map(|point| [point.stage.clone(), point.rounds.to_string(), format!("{:.3}", point.over_greedy)]);
    format!(
        "{}\nCompletion time over the greedy rule's, on the mixes that selected the model: {:.3}. Predicted speeds are {:.1} % off.\nWeights: sha256 {}; {:.0} s of CPU time.\n",
        Table::new(&["AFTER", ">ROUNDS", ">OVER GREEDY"]).with_rows(rows).render(),
        answer.over_greedy,
        100.0 * answer.speeds_off,
        answer.sha256,
        answer.cpu_s,
    )
}
