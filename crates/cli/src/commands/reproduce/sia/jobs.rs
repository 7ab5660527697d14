//! Sia, Gavel and Pollux on a trace of Sia's authors: beside what their own simulator gave when it was run again, and what their paper prints.

use std::path::Path;

use ::sim::trace::{
    elastic::{Applications, ElasticOutcome, ElasticSetup, ElasticSubmission, Habits, run as play},
    read_elastic,
};
use policy::elastic::{ElasticRule, PolluxOptions, Search, SiaOptions};
use render::experiment;
use serde::Serialize;

use crate::commands::reproduce::report::ReportArgs;
use crate::{
    commands::{
        HOUR_S, cpu_s,
        sim::elastic::{applications, paper_cluster},
        stats::mean,
    },
    input::{CliError, read_document},
    table::Table,
};

/// The trace, its jobs that are played, and its measurements, below the folder.
const TRACE: &str = "workloads/scale/rate_10/workload-1.csv";
const JOBS: usize = 40;
const PROFILES: &str = "profiles";
/// Jobs that the authors' simulator of Pollux had finished when it was stopped.
const FIRST: usize = 6;
/// How often Sia is played in its authors' world: its rounded costs often tie, and which of equal shapes is taken is drawn.
const DRAWS: u64 = 10;

/// Where the data lie, and what is made of them.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) folder: &'a Path,
    pub(super) quick: bool,
    pub(super) report: &'a ReportArgs,
}

/// What is compared, and how many digits of it are shown.
const METRICS: [(&str, usize); 8] = [
    ("mean completion, h", 3),
    ("median completion, h", 3),
    ("p99 completion, h", 2),
    ("makespan, h", 2),
    ("restarts of a job", 1),
    ("mean of the first six, h", 3),
    ("decision, median, ms", 3),
    ("decision, p95, ms", 3),
];

/// Somebody's figures, in the order of [`METRICS`].
type Figures = [Option<f64>; METRICS.len()];

/// A policy as others have it.
struct Policy {
    name: &'static str,
    /// Its paper: decisions at 64 GPUs (Sia, section 4). Its traces are others.
    published: Figures,
    /// The authors' simulator (siasosp23/artifacts aaf7a0d), run again on this trace. It prints when the last job ended on the trace's clock, on which the
    /// first job is submitted at 401 s; the makespan here is from that time on, as everywhere.
    peer: Figures,
    artifact: ElasticRule,
    paper: ElasticRule,
}

const EXACT: ElasticRule = ElasticRule::Pollux(PolluxOptions { search: Search::Exact });
const NOTHING: Figures = [None; METRICS.len()];

const fn decisions(median: f64, p95: f64) -> Figures {
    let mut figures = NOTHING;
    figures[6] = Some(median);
    figures[7] = Some(p95);
    figures
}

const POLICIES: [Policy; 4] = [
    Policy {
        name: "Sia",
        published: decisions(96.0, 426.0),
        peer: [Some(0.511_9), Some(0.187_8), Some(5.396_5), Some(8.320_8), Some(4.2), Some(0.156), Some(15.14), Some(21.28)],
        artifact: ElasticRule::Sia(SiaOptions::ARTIFACT),
        paper: ElasticRule::Sia(SiaOptions::PAPER),
    },
    Policy {
        name: "Gavel",
        published: decisions(13.0, 28.0),
        peer: [Some(0.720_5), Some(0.174_9), Some(6.866_6), Some(9.612_5), Some(1.55), Some(0.169), Some(10.32), Some(22.88)],
        artifact: ElasticRule::Gavel,
        paper: ElasticRule::Gavel,
    },
    Policy { name: "Pollux, exact search", published: NOTHING, peer: NOTHING, artifact: EXACT, paper: EXACT },
    Policy {
        name: "Pollux, published search",
        published: decisions(2_200.0, 4_800.0),
        // Stopped after 0.9 h of the trace and a quarter of an hour of ours.
        peer: [None, None, None, None, None, Some(0.243_6), Some(1_414.5), Some(1_834.8)],
        artifact: ElasticRule::Pollux(PolluxOptions { search: Search::Published { seed: 1, avoids: true } }),
        paper: ElasticRule::Pollux(PolluxOptions { search: Search::Published { seed: 1, avoids: true } }),
    },
];

#[derive(Clone, Debug, Serialize)]
struct Row {
    policy: &'static str,
    metric: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<f64>,
    /// Ours in the world of that simulator; of Sia the mean of [`DRAWS`] runs.
    artifact: Option<f64>,
    /// The least and the most of these runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_range: Option<[f64; 2]>,
    /// Ours by the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    paper: Option<f64>,
    /// Ours by the paper, with the speeds that are built in.
    #[serde(skip_serializing_if = "Option::is_none")]
    built_in: Option<f64>,
    #[serde(skip)]
    digits: usize,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    rows: Vec<Row>,
}

/// What is played.
struct World {
    trace: Vec<ElasticSubmission>,
    measured: Applications,
    built_in: Applications,
}

pub(super) fn run(request: &Request<'_>) -> Result<(), CliError> {
    let file = request.folder.join(TRACE);
    let mut trace = read_elastic(&read_document(&file)?).map_err(|e| CliError::input(&file, e))?;
    trace.truncate(JOBS);
    let types = paper_cluster();
    let measured = applications(&types, Some(&request.folder.join(PROFILES)))?;
    let world = World { trace, measured, built_in: applications(&types, None)? };
    let policies = || POLICIES.iter().take(if request.quick { 2 } else { POLICIES.len() });
    let bar = indicatif::ProgressBar::new(policies().count() as u64);
    let mut rows = Vec::new();
    for policy in policies() {
        rows.extend(compare(policy, &world, request.quick).map_err(|e| CliError::input(&file, e))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let answer = Answer { schema: "antiphase.reproduce-sia/v1", rows };
    let command = format!("antiphase reproduce sia --traces FOLDER{}", if request.quick { " --quick" } else { "" });
    request.report.give(&answer, || page(&answer, &command), || table(&answer))
}

fn compare(policy: &Policy, world: &World, quick: bool) -> Result<Vec<Row>, ::sim::trace::elastic::ElasticError> {
    let types = paper_cluster();
    let figures = |rule: ElasticRule, applications: &Applications, habits: Habits| {
        let setup = ElasticSetup { types: &types, applications, rule, round_s: rule.round_s(), habits, network: None, clock: cpu_s };
        play(&world.trace, &setup).map(|outcome| figures(&outcome))
    };
    let artifact =
        drawn(policy.artifact).into_iter().map(|rule| figures(rule, &world.measured, Habits::ARTIFACT)).collect::<Result<Vec<_>, _>>()?;
    let runs = |at: usize| artifact.iter().filter_map(move |figures| figures[at]);
    let range = |at: usize| [runs(at).fold(f64::INFINITY, f64::min), runs(at).fold(f64::NEG_INFINITY, f64::max)];
    let (paper, built_in) = if quick {
        (NOTHING, NOTHING)
    } else {
        (figures(policy.paper, &world.measured, Habits::PAPER)?, figures(policy.paper, &world.built_in, Habits::PAPER)?)
    };
    let row = |(at, (metric, digits)): (usize, (&'static str, usize))| Row {
        policy: policy.name,
        metric,
        published: policy.published[at],
        peer: policy.peer[at],
        artifact: Some(mean(runs(at))),
        artifact_range: (artifact.len() > 1).then(|| range(at)),
        paper: paper[at],
        built_in: built_in[at],
        digits,
    };
    Ok(METRICS.into_iter().enumerate().map(row).collect())
}

/// The rules to be played: with each draw of ties where costs are rounded.
fn drawn(rule: ElasticRule) -> Vec<ElasticRule> {
    match rule {
        ElasticRule::Sia(options) if options.rounded => (1..=DRAWS).map(|ties| ElasticRule::Sia(SiaOptions { ties, ..options })).collect(),
        _ => vec![rule],
    }
}

fn figures(outcome: &ElasticOutcome) -> Figures {
    let first: Vec<f64> = outcome.jct_s.iter().take(FIRST).copied().collect();
    [
        outcome.mean_s() / HOUR_S,
        outcome.quantile_s(0.5) / HOUR_S,
        outcome.quantile_s(0.99) / HOUR_S,
        outcome.makespan_s / HOUR_S,
        outcome.restarts_mean(),
        first.iter().sum::<f64>() / first.len().max(1) as f64 / HOUR_S,
        outcome.policy_quantile_s(0.5) * 1e3,
        outcome.policy_quantile_s(0.95) * 1e3,
    ]
    .map(Some)
}

/// Where the columns differ, each in a sentence.
const DIFFERENCES: [&str; 8] = [
    "Makespans count from the first submission. The peer prints the time of the last end on the trace's clock, on which the first job comes at 401 s (0.11 h); that is subtracted here.",
    "Published are decisions at 64 GPUs only: the paper's traces are others than this one. Peer is the simulator of its authors (commit aaf7a0d, with CBC and ECOS), run again on this trace; decisions are CPU time of one core there as here.",
    "Artifact is our code in that simulator's world: costs rounded to cents, any type for a job that never ran, nodes one after the other, and no restart where a job has as many GPUs of each of as many nodes as before.",
    "Rounding makes many configurations equal, and which of these is chosen is up to the solver. Ours draws, and the artifact column of Sia is the mean of ten draws, with the least and the most of them: the mean completion time of one job, ImageNet, moves by hours, and that of all by more than the peer is off.",
    "Fits go on until nothing is gained, where the peer's stop at 1e-5. Times of jobs are not rounded to seconds at the end of each epoch.",
    "Placements that nobody measured are interpolated along the number of nodes with as many GPUs on each, where the peer triangulates; this matters on five T4 nodes only.",
    "Gavel's program has several best answers where jobs are equal: the peer's solver shares among them, ours prefers who had least. Paper differs from artifact for Gavel in what moves cost.",
    "The peer's Pollux did not finish; the six jobs that it did are compared. The published search draws, so that its placements vary with the seed, and sees nodes of eight GPUs as they are, where the peer splits them into four; the exact one is ours, better by Pollux's measure, and not always by completion times, because Pollux is blind to types.",
];

/// One HTML file that loads nothing.
fn page(answer: &Answer, command: &str) -> String {
    let mut page = experiment::open("Sia, reproduced", "Sia, reproduced");
    page.raw("<p>").text("The first 40 jobs of workload 1 at ten jobs an hour on the 64 GPUs of the paper: as published, as the authors' simulator gives it when run again, and played by us.").raw("</p>\n");
    experiment::made_by(&mut page, command);
    let columns = [
        ("Policy", "text"),
        ("Metric", "text"),
        ("Published", "number"),
        ("Peer", "number"),
        ("Artifact", "number"),
        ("Its draws", "text"),
        ("Paper", "number"),
        ("Built in", "number"),
    ];
    page.table("", "figures", &columns, false);
    for row in &answer.rows {
        page.raw("<tr>");
        [row.policy, row.metric].into_iter().for_each(|cell| {
            page.raw("<td>").text(cell).raw("</td>");
        });
        for (at, figure) in row.figures().into_iter().enumerate() {
            page.number(figure, &row.shown(figure));
            if at == ARTIFACT {
                page.raw("<td>").text(&row.draws()).raw("</td>");
            }
        }
        page.raw("</tr>\n");
    }
    page.end_table();
    experiment::sentences(&mut page, "Where the columns differ", &DIFFERENCES);
    experiment::close(page)
}

/// The place of the artifact column among the figures.
const ARTIFACT: usize = 2;

impl Row {
    fn draws(&self) -> String {
        self.artifact_range.map_or_else(String::new, |[least, most]| format!("{least:.*} to {most:.*}", self.digits, self.digits))
    }

    fn figures(&self) -> [Option<f64>; 5] {
        [self.published, self.peer, self.artifact, self.paper, self.built_in]
    }

    fn shown(&self, figure: Option<f64>) -> String {
        figure.map_or_else(String::new, |figure| format!("{figure:.*}", self.digits))
    }
}

fn table(answer: &Answer) -> String {
    let mut table = Table::new(&["POLICY", "METRIC", ">PUBLISHED", ">PEER", ">ARTIFACT", "ITS DRAWS", ">PAPER", ">BUILT IN"]);
    for row in &answer.rows {
        let mut cells: Vec<String> = [row.policy, row.metric].map(str::to_owned).to_vec();
        cells.extend(row.figures().map(|figure| row.shown(figure)));
        // The two words, and the figures up to that of the artifact.
        cells.insert(2 + ARTIFACT + 1, row.draws());
        table.row(cells);
    }
    table.render()
}
