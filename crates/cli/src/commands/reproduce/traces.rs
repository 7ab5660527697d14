//! Muri's traces under its policies: mean, p99 and makespan over those of Muri, beside what its paper and its authors' figures print.

mod published;

use std::path::Path;

use ::sim::trace::{self, Outcome, Setup, Trace};
use policy::{
    muri::Timing,
    schedule::{Cluster, MuriOptions, Rule},
};
use render::experiment;
use serde::Serialize;

use self::published::{PUBLISHED, Policy, Published};
use super::report::ReportArgs;
use crate::{
    input::{CliError, read_document},
    table::Table,
};

/// The cluster of the paper.
const CLUSTER: Cluster = Cluster { hosts: 8, gpus_per_host: 8 };
/// Traces of a quick run.
const QUICK: [&str; 2] = ["testbed", "3"];

/// Where the traces of Muri lie, and what is made of them.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) folder: &'a Path,
    pub(super) quick: bool,
    pub(super) report: &'a ReportArgs,
}

/// One policy on one trace over Muri with the same knowledge of durations.
#[derive(Clone, Debug, Serialize)]
struct Row {
    trace: &'static str,
    policy: &'static str,
    over: &'static str,
    metric: &'static str,
    published: f64,
    artifact: f64,
    paper: f64,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    rows: Vec<Row>,
}

pub(super) fn run(request: &Request<'_>) -> Result<(), CliError> {
    let traces: Vec<&Published> = PUBLISHED.iter().filter(|p| !request.quick || QUICK.contains(&p.trace)).collect();
    let bar = indicatif::ProgressBar::new(traces.len() as u64);
    let mut rows = Vec::new();
    for published in traces {
        let trace = read(request.folder, published)?;
        rows.extend(compare(published, &trace).map_err(|e| CliError::Failure(format!("{}: {e}", published.file)))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let answer = Answer { schema: "antiphase.reproduce-muri/v1", rows };
    let command = format!("antiphase reproduce muri --traces FOLDER{}", if request.quick { " --quick" } else { "" });
    request.report.give(&answer, || page(&answer, &command), || table(&answer))
}

fn read(folder: &Path, published: &Published) -> Result<Trace, CliError> {
    let file = folder.join(published.file);
    let mut trace = trace::read_muri(&read_document(&file)?).map_err(|e| CliError::input(&file, e))?;
    if published.at_once {
        trace.jobs.iter_mut().for_each(|job| job.submitted_s = 0.0);
    }
    Ok(trace)
}

/// Mean, p99 and makespan.
fn figures(outcome: &Outcome) -> [f64; 3] {
    [outcome.mean_s(), outcome.p99_s(), outcome.makespan_s]
}

fn compare(published: &Published, trace: &Trace) -> Result<Vec<Row>, trace::TraceError> {
    let play = |rule: Rule, timing: Timing| {
        trace::run(trace, &Setup { cluster: CLUSTER, rule, timing, network: None, faults: None }).map(|outcome| figures(&outcome))
    };
    let muri = |durations_known: bool, timing: Timing| {
        play(Rule::Muri(MuriOptions { durations_known, autopack: published.autopack, ..MuriOptions::default() }), timing)
    };
    let both = |rule: Rule| Ok([play(rule, Timing::Artifact)?, play(rule, Timing::Paper)?]);
    let short = [muri(true, Timing::Artifact)?, muri(true, Timing::Paper)?];
    let long = [muri(false, Timing::Artifact)?, muri(false, Timing::Paper)?];
    let mut rows = Vec::new();
    for &(policy, ratios) in published.ratios {
        // Who knows durations is compared with the Muri that does.
        let (rule, name, known) = match policy {
            Policy::Srtf => (Rule::Srtf, "SRTF", true),
            Policy::Srsf => (Rule::Srsf, "SRSF", true),
            Policy::Tiresias => (Rule::TIRESIAS, "Tiresias", false),
            Policy::AntMan => (Rule::AntMan, "AntMan", false),
            Policy::Themis => (Rule::Themis, "Themis", false),
        };
        let played: [[f64; 3]; 2] = both(rule)?;
        let (base, over) = if known { (&short, "Muri-S") } else { (&long, "Muri-L") };
        for (at, metric) in ["mean completion", "p99 completion", "makespan"].into_iter().enumerate() {
            let ours = |timing: usize| played[timing][at] / base[timing][at];
            rows.push(Row { trace: published.trace, policy: name, over, metric, published: ratios[at], artifact: ours(0), paper: ours(1) });
        }
    }
    Ok(rows)
}

/// Where the columns differ from what was published, each in a sentence.
const DIFFERENCES: [&str; 6] = [
    "Artifact is the world of the simulator that the authors published, with its slips; it agrees with our runs of that simulator to nine digits, but for Themis, whose fractions are not unique.",
    "Paper has the equations as printed, with nobody in a group faster than alone, and a restart is paid only when something changes. Load counts as CPU, because the published profiles do not split it, so groups gain less where many jobs load.",
    "The testbed's published figures were measured on 64 GPUs, not simulated. Those of the traces were made before groups were split again that lose, so that is off there.",
    "In paper mode Themis is the auction of its own paper, where the authors compare with a linear program.",
    "Where all jobs are submitted at once, the mean under Themis in artifact mode hangs on the last digits of fractions: their solver leaves alike jobs in an order by chance, and here the order is drawn (third trace: 1.94 for 1.63; with exact fractions 4.46). The published figures of Themis are of a version of the simulator that nobody has published: the last job of the third trace ends sooner than the published code allows.",
    "Where paper is more than 10 % off and artifact is not, the two worlds differ: a restart at every event there, one for each change here.",
];

/// One HTML file that loads nothing.
fn page(answer: &Answer, command: &str) -> String {
    let mut page = experiment::open("Muri, reproduced", "Muri, reproduced");
    page.raw("<p>").text("How many times as long as under Muri jobs take under other policies, on the traces of its authors and 64 GPUs: as published, and played by us in two timings.").raw("</p>\n");
    experiment::made_by(&mut page, command);
    let columns = [
        ("Trace", "text"),
        ("Policy", "text"),
        ("Over", "text"),
        ("Metric", "text"),
        ("Published", "number"),
        ("Artifact", "number"),
        ("Paper", "number"),
    ];
    page.table("", "ratios", &columns, false);
    for row in &answer.rows {
        page.raw("<tr>");
        [row.trace, row.policy, row.over, row.metric].into_iter().for_each(|cell| {
            page.raw("<td>").text(cell).raw("</td>");
        });
        [row.published, row.artifact, row.paper].into_iter().for_each(|ratio| page.number(Some(ratio), &format!("{ratio:.2}")));
        page.raw("</tr>\n");
    }
    page.end_table();
    experiment::sentences(&mut page, "Where the columns differ", &DIFFERENCES);
    experiment::close(page)
}

fn table(answer: &Answer) -> String {
    let mut table = Table::new(&["TRACE", "POLICY", "OVER", "METRIC", ">PUBLISHED", ">ARTIFACT", ">PAPER"]);
    for row in &answer.rows {
        let ratio = |value: f64| format!("{value:.2}");
        let mut cells: Vec<String> = [row.trace, row.policy, row.over, row.metric].map(str::to_owned).to_vec();
        cells.extend([row.published, row.artifact, row.paper].map(ratio));
        table.row(cells);
    }
    table.render()
}
