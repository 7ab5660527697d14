//! Pollux in its authors' world: 16 nodes of four T4, jobs that all restart in 30 s, and speed lost where jobs that span nodes share one.

mod published;
mod read;

use std::{path::PathBuf, process::ExitCode};

use ::sim::trace::elastic::{Applications, ElasticError, ElasticOutcome, ElasticSetup, ElasticSubmission, GpuType, Habits, run as play};
use clap::Args;
use policy::elastic::{ElasticRule, PolluxOptions, Search};
use render::experiment;
use serde::Serialize;

use self::published::{PEER_DECISION_MS, SETTINGS, Setting};
use super::report::ReportArgs;
use crate::{
    commands::{HOUR_S, seeds::on_all_cores, stats::mean, thread_cpu_s},
    input::CliError,
    table::Table,
};

/// How far a mean may be from the published one, in parts: what its authors call a reasonable margin of a run.
const TOLERANCE: f64 = 0.05;
/// Name of their GPUs in measurements of Sia's authors, who have the same files.
const T4: &str = "aws";
/// Their cluster.
const NODES: u32 = 16;
const GPUS_PER_NODE: u32 = 4;
/// The workload of a quick run: that of their testbed.
const QUICK: usize = 6;
/// Names of the searches.
const PEER: &str = "published, the authors' code run again";
const PUBLISHED: &str = "published, ours";
const EXACT: &str = "exact, ours";

const EXAMPLES: &str = "\
EXAMPLES
  With the simulator folder of github.com/petuum/adaptdl, branch osdi21-artifact, which we do not ship; two minutes of CPU time for each workload:
    antiphase reproduce pollux --data adaptdl/simulator --report pollux.html
  One workload:
    antiphase reproduce pollux --data adaptdl/simulator --quick
  Exit code 1 when a mean over the workloads that were played is more than 5 % off the published one.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PolluxArgs {
    /// Folder with the authors' workloads and measurements: their simulator folder, or one with pollux/workloads and sia/profiles
    #[arg(long, value_name = "FOLDER", env = "ANTIPHASE_DATA")]
    data: PathBuf,
    /// One workload: the sixth, or else the first that is there
    #[arg(long)]
    quick: bool,
    /// Of the published search, which draws
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    report: ReportArgs,
}

/// One setting on one workload, or on all that were played: mean completion times.
#[derive(Clone, Debug, Serialize)]
struct Row {
    setting: &'static str,
    workload: String,
    published_h: f64,
    /// The published search, ours.
    ours_h: f64,
    over_published: f64,
    /// The exact search, which always avoids.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact_h: Option<f64>,
}

/// What decisions cost, in milliseconds of CPU time, where jobs avoid each other.
#[derive(Clone, Debug, Serialize)]
struct Decisions {
    search: &'static str,
    median_ms: f64,
    p95_ms: f64,
    /// Median over that of the exact search.
    over_exact: f64,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    seed: u64,
    workloads: Vec<usize>,
    rows: Vec<Row>,
    decisions: Vec<Decisions>,
}

/// A row, and what its decisions took under the published and the exact search.
struct Played {
    row: Row,
    published_s: Vec<f64>,
    exact_s: Vec<f64>,
}

type Workload = (usize, Vec<ElasticSubmission>);

pub(super) fn run(args: &PolluxArgs) -> Result<ExitCode, CliError> {
    let mut workloads = read::workloads(&args.data)?;
    let applications = read::applications(&args.data)?;
    if args.quick {
        let at = workloads.iter().position(|(number, _)| *number == QUICK).unwrap_or(0);
        workloads = vec![workloads.swap_remove(at)];
    }
    let tasks: Vec<(&Setting, &Workload)> =
        SETTINGS.iter().flat_map(|setting| workloads.iter().map(move |workload| (setting, workload))).collect();
    let bar = indicatif::ProgressBar::new(tasks.len() as u64);
    let played = on_all_cores(tasks.len() as u64, |number| {
        // Numbers are from 1 to as many as there are.
        let (setting, workload) = tasks[number as usize - 1];
        let played = played(setting, workload, &applications, args.seed);
        bar.inc(1);
        played
    });
    bar.finish_and_clear();
    let played = played.into_iter().collect::<Result<Vec<Played>, ElasticError>>().map_err(|e| CliError::input(&args.data, e))?;
    let mut rows: Vec<Row> = played.iter().map(|played| played.row.clone()).collect();
    let all: Vec<Row> = SETTINGS.iter().map(|setting| over_all(&rows, setting)).collect();
    let differs = all.iter().any(|row| (row.over_published - 1.0).abs() > TOLERANCE);
    if workloads.len() > 1 {
        rows.extend(all);
    }
    let answer = Answer {
        schema: "antiphase.reproduce-pollux/v1",
        seed: args.seed,
        workloads: workloads.iter().map(|(number, _)| *number).collect(),
        rows,
        decisions: decisions(&played),
    };
    let command = format!("antiphase reproduce pollux --data FOLDER{} --seed {}", if args.quick { " --quick" } else { "" }, args.seed);
    args.report.give(&answer, || page(&answer, &command), || table(&answer))?;
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn played(setting: &Setting, (number, trace): &Workload, applications: &Applications, seed: u64) -> Result<Played, ElasticError> {
    let types = [GpuType { name: T4.to_owned(), nodes: NODES, gpus_per_node: GPUS_PER_NODE }];
    let under = |search: Search| {
        let rule = ElasticRule::Pollux(PolluxOptions { search });
        let (round_s, habits) = (rule.round_s(), Habits::pollux(setting.loss));
        play(trace, &ElasticSetup { types: &types, applications, rule, round_s, habits, network: None, clock: thread_cpu_s })
    };
    let published = under(Search::Published { seed, avoids: setting.avoids })?;
    let exact: Option<ElasticOutcome> = setting.avoids.then(|| under(Search::Exact)).transpose()?;
    let published_h = setting.published_s[number - 1] / HOUR_S;
    let ours_h = published.mean_s() / HOUR_S;
    let row = Row {
        setting: setting.name,
        workload: number.to_string(),
        published_h,
        ours_h,
        over_published: ours_h / published_h,
        exact_h: exact.as_ref().map(|exact| exact.mean_s() / HOUR_S),
    };
    let published_s = if setting.avoids { published.policy_s } else { Vec::new() };
    Ok(Played { row, published_s, exact_s: exact.map_or_else(Vec::new, |exact| exact.policy_s) })
}

fn over_all(rows: &[Row], setting: &Setting) -> Row {
    let of = |value: fn(&Row) -> f64| mean(rows.iter().filter(|row| row.setting == setting.name).map(value));
    let (published_h, ours_h) = (of(|row| row.published_h), of(|row| row.ours_h));
    Row {
        setting: setting.name,
        workload: "all of these".to_owned(),
        published_h,
        ours_h,
        over_published: ours_h / published_h,
        exact_h: setting.avoids.then(|| of(|row| row.exact_h.unwrap_or(f64::NAN))),
    }
}

fn decisions(played: &[Played]) -> Vec<Decisions> {
    let of = |all: fn(&Played) -> &[f64]| {
        // Quantiles of all decisions together.
        let policy_s = played.iter().flat_map(all).copied().collect();
        let all = ElasticOutcome { policy_s, ..ElasticOutcome::default() };
        [0.5, 0.95].map(|share| all.policy_quantile_s(share) * 1e3)
    };
    let exact = of(|played| &played.exact_s);
    let searches = [(PEER, PEER_DECISION_MS), (PUBLISHED, of(|played| &played.published_s)), (EXACT, exact)];
    let row =
        |(search, [median_ms, p95_ms]): (&'static str, [f64; 2])| Decisions { search, median_ms, p95_ms, over_exact: median_ms / exact[0] };
    searches.map(row).to_vec()
}

/// Where ours differs, each in a sentence.
const DIFFERENCES: [&str; 6] = [
    "Published are the raw results that Pollux's authors ship beside their simulator; their paper shows the means of all eight workloads: 0.764 h avoided, 0.766, 0.883 and 1.084 h allowed with nothing, 25 % and 50 % of the speed lost where jobs that span nodes share one.",
    "The published search (NSGA-II, a hundred placements, a hundred generations, with its fair shares, restarts and repairs) is written anew. It draws, so that single workloads differ from seed to seed, and in the shipped results from run to run.",
    "The exact search is ours: it makes the same mean of speeds best by an integer program, with fair shares that a job can have, and without a restart where a job keeps its counts. It always avoids, so it has no figure where jobs share nodes.",
    "Placements that nobody measured are interpolated along the number of nodes with as many GPUs on each, where the peer triangulates. Times of jobs are not rounded to seconds at the end of each epoch.",
    "Fits go on until nothing is gained, where the peer's stop at 1e-5.",
    "Decisions are CPU time. The authors' code was run again once, on the first 140 rounds of workload 6; what this run compares is our two searches.",
];

fn page(answer: &Answer, command: &str) -> String {
    let mut page = experiment::open("Pollux, reproduced", "Pollux, reproduced");
    page.raw("<p>").text("160 jobs of a working day on 16 nodes of four T4, in rounds of a minute: mean completion times with and without the rule that jobs which span nodes share none.").raw("</p>\n");
    experiment::made_by(&mut page, command);
    let columns = [
        ("Jobs that share nodes", "text"),
        ("Workload", "text"),
        ("Published, h", "number"),
        ("Published search, ours, h", "number"),
        ("Over published", "number"),
        ("Exact search, ours, h", "number"),
    ];
    page.table("", "figures", &columns, false);
    for row in &answer.rows {
        page.raw("<tr><td>").text(row.setting).raw("</td><td>").text(&row.workload).raw("</td>");
        for (value, said) in row.numbers() {
            page.number(value, &said);
        }
        page.raw("</tr>\n");
    }
    page.end_table();
    let columns = [("Search", "text"), ("Decision, median, ms", "number"), ("p95, ms", "number"), ("Median over exact", "number")];
    page.table("", "decisions", &columns, false);
    for row in &answer.decisions {
        page.raw("<tr><td>").text(row.search).raw("</td>");
        for (value, said) in row.numbers() {
            page.number(Some(value), &said);
        }
        page.raw("</tr>\n");
    }
    page.end_table();
    experiment::sentences(&mut page, "Where ours differ", &DIFFERENCES);
    experiment::close(page)
}

impl Row {
    fn numbers(&self) -> [(Option<f64>, String); 4] {
        let said = |value: Option<f64>| (value, value.map_or_else(String::new, |value| format!("{value:.3}")));
        [said(Some(self.published_h)), said(Some(self.ours_h)), said(Some(self.over_published)), said(self.exact_h)]
    }
}

impl Decisions {
    fn numbers(&self) -> [(f64, String); 3] {
        [(self.median_ms, 2), (self.p95_ms, 2), (self.over_exact, 1)].map(|(value, digits)| (value, format!("{value:.digits$}")))
    }
}

fn table(answer: &Answer) -> String {
    let mut table =
        Table::new(&["JOBS THAT SHARE NODES", "WORKLOAD", ">PUBLISHED h", ">PUBLISHED SEARCH h", ">OVER PUBLISHED", ">EXACT SEARCH h"]);
    for row in &answer.rows {
        let mut cells = vec![row.setting.to_owned(), row.workload.clone()];
        cells.extend(row.numbers().map(|(_, said)| said));
        table.row(cells);
    }
    let mut decisions = Table::new(&["DECISIONS", ">MEDIAN ms", ">P95 ms", ">OVER EXACT"]);
    for row in &answer.decisions {
        let mut cells = vec![row.search.to_owned()];
        cells.extend(row.numbers().map(|(_, said)| said));
        decisions.row(cells);
    }
    format!("{}\n{}", table.render(), decisions.render())
}
