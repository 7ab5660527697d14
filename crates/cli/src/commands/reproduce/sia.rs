//! Sia: one round, which is an integer program that gives jobs their configurations, solved exactly; whole traces (`jobs.rs`), and traces on a fabric (`network.rs`).

mod jobs;
mod network;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use policy::knapsack::{CHOICES_MAX, COST_MAX, Choice, Item, KINDS_MAX, KnapsackError, Problem, SUMS_MAX, Solution, UNITS_MAX, solve};
use serde::{Deserialize, Serialize};

use super::report::ReportArgs;
use crate::commands::seeds::SEEDS_MAX;
use crate::{
    commands::cpu_s,
    input::{CliError, check_object, check_texts, read_document},
    output::{Output, json, print, yaml},
};

/// How far an objective may be from that of the file.
const TOLERANCE: f64 = 1e-6;

const EXAMPLES: &str = "\
EXAMPLES
  Solve one round, and compare it with the optimum of the file, where the file has one:
    antiphase reproduce sia --ilp round.json
  Play 40 jobs of the authors' traces under Sia, Gavel and Pollux, beside what was published and what the authors' simulator gives:
    antiphase reproduce sia --traces sia-data --report sia.html
  Play jobs on an oversubscribed fabric under Sia that sees nothing of the network, and more and more of it:
    antiphase reproduce sia --network
  Such a file is a JSON object; what else it has is left out:
    gpu_types    names of the GPU types
    capacity     GPUs of each
    configs      list of {gpu_type, gpus}
    cost         per job: what each configuration costs
    lambda_n     what a job without a configuration costs
    sense        begins with min, also where it is missing, or with max: whether the sum of costs is to be least or largest
    forced       list of [job, configuration]: pinned jobs
    optimum      {objective}: what somebody else found
  Exit code 1 when the objective differs from that of the file by more than a millionth.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SiaArgs {
    /// One integer program, JSON; - for standard input. The answer is JSON, or YAML where that is asked for
    #[arg(long, value_name = "FILE", required_unless_present_any = ["traces", "network"], conflicts_with_all = ["traces", "network", "quick", "report"])]
    ilp: Option<PathBuf>,
    /// Folder with the data of Sia's authors (workloads/scale/rate_10/workload-1.csv, and profiles): policies beside what others had
    #[arg(long, value_name = "FOLDER")]
    traces: Option<PathBuf>,
    /// What seeing the network brings on an oversubscribed fabric; needs no data
    #[arg(long, conflicts_with_all = ["traces", "report"])]
    network: bool,
    /// Seeds of --network [default: 10, quick 2]
    #[arg(long, value_name = "COUNT", requires = "network", value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX as u64))]
    seeds: Option<u64>,
    /// Sia and Gavel in the world of the authors' simulator only; few seeds and jobs of --network
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    report: ReportArgs,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct Document {
    gpu_types: Vec<String>,
    capacity: Vec<u32>,
    configs: Vec<Configuration>,
    cost: Vec<Vec<f64>>,
    lambda_n: f64,
    #[serde(default)]
    sense: String,
    #[serde(default)]
    forced: Vec<(usize, u32)>,
    optimum: Option<Optimum>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct Configuration {
    gpu_type: String,
    gpus: u32,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object")]
struct Optimum {
    objective: f64,
}

#[derive(Debug, Serialize)]
struct Answer {
    objective: f64,
    /// By GPU type.
    gpus_used: BTreeMap<String, u32>,
    /// Nothing is better.
    proven: bool,
    /// Nothing is better than this.
    bound: f64,
    /// Per job: its configuration.
    assignment: Vec<Option<u32>>,
    /// What the file says.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<f64>,
    cpu_s: f64,
}

pub(super) fn run(args: &SiaArgs) -> Result<ExitCode, CliError> {
    if args.network {
        network::run(args.quick, args.seeds, args.report.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(file) = &args.ilp else {
        // One of the two is required.
        let folder = args.traces.as_deref().unwrap_or(Path::new(""));
        jobs::run(&jobs::Request { folder, quick: args.quick, report: &args.report })?;
        return Ok(ExitCode::SUCCESS);
    };
    let text = read_document(file)?;
    check_texts(file, &text)?;
    check_object(file, &text)?;
    let mut reader = serde_json::Deserializer::from_str(&text);
    let document: Document = serde_path_to_error::deserialize(&mut reader).map_err(|e| CliError::input(file, e))?;
    reader.end().map_err(|e| CliError::input(file, e))?;
    let problem = document.problem().map_err(|problem| CliError::input(file, problem))?;
    let begun_s = cpu_s();
    let solution = solve(&problem, SUMS_MAX).map_err(|e| CliError::input(file, document.refusal(&e)))?;
    let answer = document.answer(&problem, &solution, cpu_s() - begun_s);
    // There is no table of it: whoever asks for nothing has always had JSON.
    print(&if args.report.output == Output::Yaml { yaml(&answer)? } else { json(&answer)? })?;
    let differs = answer.expected.is_some_and(|expected| (expected - answer.objective).abs() > TOLERANCE);
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Document {
    /// -1 where the sum is to be largest.
    fn sign(&self) -> f64 {
        if self.sense.trim().to_ascii_lowercase().starts_with("max") { -1.0 } else { 1.0 }
    }

    fn has_sense(&self) -> bool {
        let sense = self.sense.trim().to_ascii_lowercase();
        sense.is_empty() || ["min", "max"].iter().any(|known| sense.starts_with(known))
    }

    /// What is wrong, by the names and numbers of the file: whoever solves it has others.
    fn refusal(&self, error: &KnapsackError) -> String {
        match *error {
            KnapsackError::Cost { item, .. } => {
                let costs = self.cost.get(item).into_iter().flatten();
                match costs.enumerate().find(|(_, cost)| !(-COST_MAX..=COST_MAX).contains(*cost)) {
                    Some((config, cost)) => format!("cost[{item}][{config}]: {cost:e}; a cost is a number from -1e6 to 1e6"),
                    None => format!("lambda_n: {:e}; a cost is a number from -1e6 to 1e6", self.lambda_n),
                }
            }
            KnapsackError::Units { units } => format!("capacity: {units} GPUs of a type; at most {UNITS_MAX}"),
            KnapsackError::Choices { choices } => format!("cost: {choices} configurations of all jobs together; at most {CHOICES_MAX}"),
            KnapsackError::Infeasible => "forced: what is forced does not fit into the capacity".to_owned(),
            _ => error.to_string(),
        }
    }

    fn problem(&self) -> Result<Problem, String> {
        let (types, capacities) = (self.gpu_types.len(), self.capacity.len());
        if types != capacities {
            return Err(format!("capacity: {capacities} numbers for {types} GPU types"));
        }
        if types > KINDS_MAX {
            return Err(format!("gpu_types: {types} GPU types; at most {KINDS_MAX}"));
        }
        if !self.has_sense() {
            return Err(format!("sense: {:?} begins with neither min nor max", self.sense));
        }
        let mut kinds: BTreeMap<&str, u8> = BTreeMap::new();
        for (name, kind) in self.gpu_types.iter().zip(0..) {
            if kinds.insert(name, kind).is_some() {
                return Err(format!("gpu_types: {name:?} twice"));
            }
        }
        let kind = |at: usize, config: &Configuration| {
            kinds
                .get(config.gpu_type.as_str())
                .copied()
                .ok_or_else(|| format!("configs[{at}].gpu_type: {:?} is no GPU type", config.gpu_type))
        };
        // A configuration of no GPUs would give every job its cost for nothing.
        if let Some(at) = self.configs.iter().position(|config| config.gpus == 0) {
            return Err(format!("configs[{at}].gpus: 0; a configuration has at least 1"));
        }
        let kinds: Vec<u8> = self.configs.iter().enumerate().map(|(at, config)| kind(at, config)).collect::<Result<_, _>>()?;
        let sign = self.sign();
        let mut items = Vec::with_capacity(self.cost.len());
        for (job, costs) in self.cost.iter().enumerate() {
            if costs.len() != self.configs.len() {
                return Err(format!("cost[{job}]: {} numbers for {} configurations", costs.len(), self.configs.len()));
            }
            let choice =
                |((cost, config), kind): ((&f64, &Configuration), &u8)| Choice { kind: *kind, units: config.gpus, cost: sign * cost };
            let choices = costs.iter().zip(&self.configs).zip(&kinds).map(choice).collect();
            items.push(Item { choices, nothing: Some(sign * self.lambda_n) });
        }
        for (at, &(job, config)) in self.forced.iter().enumerate() {
            let jobs = items.len();
            let item: &mut Item = items.get_mut(job).ok_or_else(|| format!("forced[{at}]: job {job} of {jobs}"))?;
            if config as usize >= self.configs.len() {
                return Err(format!("forced[{at}]: configuration {config} of {}", self.configs.len()));
            }
            if item.nothing.is_none() {
                return Err(format!("forced[{at}]: job {job} is pinned twice"));
            }
            // The others stay in the list, so that numbers stay, and have no room.
            let others = item.choices.iter_mut().zip(0..).filter(|(_, at)| *at != config);
            others.for_each(|(choice, _)| choice.units = u32::MAX);
            item.nothing = None;
        }
        Ok(Problem { capacities: self.capacity.clone(), items })
    }

    fn answer(&self, problem: &Problem, solution: &Solution, cpu_s: f64) -> Answer {
        let (_, used) = problem.of(&solution.chosen);
        Answer {
            objective: self.sign() * solution.cost,
            gpus_used: self.gpu_types.iter().cloned().zip(used).collect(),
            proven: solution.proven,
            bound: self.sign() * solution.bound,
            assignment: solution.chosen.clone(),
            expected: self.optimum.as_ref().map(|optimum| optimum.objective),
            cpu_s,
        }
    }
}
