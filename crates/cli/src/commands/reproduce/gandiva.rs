//! What Gandiva's paper prints (Xiao and others, "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018), beside what our
//! Gandiva does in virtual time. The authors published no code, no traces and no profiles.

use std::process::ExitCode;

use ::sim::trace::{self, Change, Mix, Outcome, Setup, Told, Trace, TraceError, TraceEvent};
use clap::Args;
use policy::{
    muri::Timing,
    schedule::{Cluster, Decision, GandivaOptions, Job, Rule, Run, Scheduler, Settings},
};
use render::experiment;
use serde::Serialize;

use super::report::ReportArgs;
use crate::commands::seeds::{QUICK_SEEDS, SEEDS, SEEDS_MAX, on_all_cores};
use crate::{
    commands::stats::{Interval, interval},
    input::CliError,
    table::Table,
};

/// The cluster of the paper: 180 GPUs, four to a host.
const CLUSTER: Cluster = Cluster { hosts: 45, gpus_per_host: 4 };
/// Jobs that all come at once and want four times the GPUs that there are, for one to two hours each.
const CROWD: Mix =
    Mix { jobs: 400, gpus: 180, sizes: [6, 2, 2, 0, 0, 0], run_s: 3_600.0, octaves: 1, load_percent: 100.0, opportunistic: 0 };
/// Jobs that come one after the other, nearly as many as the cluster can run.
const STREAM: Mix = Mix { jobs: 400, gpus: 180, sizes: [6, 2, 2, 0, 0, 0], run_s: 600.0, octaves: 5, load_percent: 95.0, opportunistic: 0 };

/// The same jobs on a cluster that is little used, where each may have up to so many times the GPUs that it asks for.
const QUIET: Mix = Mix { load_percent: 30.0, ..STREAM };
const GROWS: u32 = 2;

/// A search over parameters: trials of one GPU on one host, and the part of its iterations after which a trial says what it is worth.
const TRIALS: usize = 40;
const TRIAL_HOST: Cluster = Cluster { hosts: 1, gpus_per_host: 4 };
const FEEDBACK: f64 = 0.1;
/// Jobs that take turns on such a host.
const SLICED: usize = 6;

/// One model of one GPU that runs for some hours alone.
const ONE: Mix = Mix { jobs: 1, gpus: 1, sizes: [1, 0, 0, 0, 0, 0], run_s: 7_200.0, octaves: 1, load_percent: 100.0, opportunistic: 0 };

const EXAMPLES: &str = "\
EXAMPLES
  Every figure with ten seeds, and the report:
    antiphase reproduce gandiva --report gandiva.html
  A look:
    antiphase reproduce gandiva --quick";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GandivaArgs {
    /// Few seeds
    #[arg(long)]
    quick: bool,
    /// Seeds of each figure [default: 10, quick 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX as u64))]
    seeds: Option<u64>,
    #[command(flatten)]
    report: ReportArgs,
}

/// A figure of the paper, and how ours is made.
struct Figure {
    figure: &'static str,
    about: &'static str,
    /// As the paper puts it; empty where we have no figure of it.
    published: &'static str,
    why: &'static str,
    ours: fn(u64) -> Result<f64, TraceError>,
}

const FIGURES: [Figure; 7] = [
    Figure {
        figure: "time slicing",
        about: "the share of its GPUs' time in which a host of four does work for six jobs of one GPU that take turns",
        published: "at least 0.98: a switch takes 2 % of a slice at most",
        why: "What a switch costs is not simulated: 2 % is what each turn is charged. What is missing beside it are the restarts of the jobs, and the end, when fewer jobs are left than GPUs.",
        ours: time_slicing,
    },
    Figure {
        figure: "packing",
        about: "how many times as much work 180 GPUs do in a second for 400 jobs that want many more, with pairs where that pays over turns alone",
        published: "1.26 of utilisation, on a trace of real jobs",
        why: "The paper's jobs and what their GPUs do are not published. Ours are the eight models that Muri's authors measured: half of them mostly load, and two of these gain nothing together by the equations, which charge nothing for sharing otherwise. Work a second is counted, each job's by what it does alone, not utilisation.",
        ours: packing,
    },
    Figure {
        figure: "packing, until done",
        about: "how many times as long the same jobs take until all are done with turns alone, over turns and pairs",
        published: "",
        why: "A pair is made where its rates over those alone sum to more than 1, also where one of the two gets a small part of what it had, and parts when GPUs come free for which nobody waits.",
        ours: packing_until_done,
    },
    Figure {
        figure: "feedback",
        about: "how many times as soon all of 40 trials on four GPUs have done their first tenth, over trials one after the other",
        published: "up to an order of magnitude, of searches over parameters",
        why: "The gain is that of the first tenth of each trial over the whole of those before it, so it depends on how many trials there are for each GPU, here ten. A search also stops trials that are bad, which is not played.",
        ours: feedback,
    },
    Figure {
        figure: "migration",
        about: "how many times as long jobs take that never move, over those that move to GPUs that became free",
        published: "",
        why: "A job that moves pays its restart as Muri's authors measured it, of 4 to 46 s, where the paper's toolkits need 1 to 2 s on a host that was warned.",
        ours: migration,
    },
    Figure {
        figure: "all",
        about: "how many times as long jobs take with turns alone, over packing and migration together",
        published: "",
        why: "The same jobs as for migration.",
        ours: all,
    },
    Figure {
        figure: "growth",
        about: "how many times as long jobs take on a cluster of which they ask for three tenths where none grows, over where each may have twice its GPUs",
        published: "",
        why: "The paper says that jobs grow when a cluster is under-used, and not by how much. On more GPUs a job computes and loads in a part of the time, and sends for as long as before; a job that fills its host has nothing to grow onto, and each time it grows or shrinks a job pays its restart.",
        ours: growth,
    },
];

/// A figure over all seeds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    figure: &'static str,
    about: &'static str,
    published: &'static str,
    ours: Interval,
    why: &'static str,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    seeds: u64,
    rows: Vec<Row>,
}

pub(super) fn run(args: &GandivaArgs) -> Result<ExitCode, CliError> {
    let seeds = args.seeds.unwrap_or(if args.quick { QUICK_SEEDS } else { SEEDS });
    let bar = indicatif::ProgressBar::new(seeds * FIGURES.len() as u64);
    let by_seed = on_all_cores(seeds, |seed| {
        let figure = |figure: &Figure| {
            let ours = (figure.ours)(seed);
            bar.inc(1);
            ours
        };
        FIGURES.iter().map(figure).collect::<Result<Vec<f64>, TraceError>>()
    });
    bar.finish_and_clear();
    let by_seed = by_seed.into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| CliError::Failure(e.to_string()))?;
    let row = |(at, figure): (usize, &Figure)| {
        let Figure { figure, about, published, why, .. } = *figure;
        Row { figure, about, published, ours: interval(by_seed.iter().filter_map(|seed| seed.get(at).copied())), why }
    };
    let answer = Answer { schema: "antiphase.reproduce-gandiva/v1", seeds, rows: FIGURES.iter().enumerate().map(row).collect() };
    let command = format!("antiphase reproduce gandiva{} --seeds {seeds}", if args.quick { " --quick" } else { "" });
    args.report.give(&answer, || page(&answer, &command), || table(&answer))?;
    Ok(ExitCode::SUCCESS)
}

const TURNS_ALONE: GandivaOptions = GandivaOptions { packing: false, migration: false, growth: false };

fn play(trace: &Trace, cluster: Cluster, options: GandivaOptions) -> Result<Outcome, TraceError> {
    trace::run(trace, &Setup { cluster, rule: Rule::Gandiva(options), timing: Timing::Paper, network: None, faults: None })
}

/// So many jobs that are alike, all at once, each with this part of its iterations.
fn alike(count: usize, part: f64, seed: u64) -> Trace {
    let mut trace = trace::mix_trace(&ONE, seed);
    let Some(one) = trace.jobs.pop() else { return trace };
    let iterations = (one.iterations * part).ceil();
    let declared_s = one.declared_s / one.iterations * iterations;
    trace.jobs =
        (1..=count as u64).map(|line| trace::TraceJob { id: line.to_string(), line, iterations, declared_s, ..one.clone() }).collect();
    trace
}

/// GPU time that the jobs of a trace need alone.
fn work_s(trace: &Trace) -> f64 {
    trace.jobs.iter().map(|job| f64::from(job.gpus) * job.iterations * job.iteration_ms / 1e3).sum()
}

fn time_slicing(seed: u64) -> Result<f64, TraceError> {
    let trace = alike(SLICED, 1.0, seed);
    let outcome = play(&trace, TRIAL_HOST, TURNS_ALONE)?;
    Ok(work_s(&trace) / outcome.makespan_s / f64::from(TRIAL_HOST.gpus()))
}

/// Jobs that all come at once.
fn crowd(seed: u64) -> Trace {
    let mut trace = trace::mix_trace(&CROWD, seed);
    trace.jobs.iter_mut().for_each(|job| job.submitted_s = 0.0);
    trace
}

fn packing(seed: u64) -> Result<f64, TraceError> {
    let trace = crowd(seed);
    let job = |job: &trace::TraceJob| Job {
        gpus: job.gpus,
        gpus_max: job.gpus_max,
        weight: job.weight,
        profile: job.profile,
        opportunistic: false,
        submitted_s: 0.0,
        declared_s: job.declared_s,
        alone_s: job.iteration_ms / 1e3,
        left: job.iterations,
        ran_s: 0.0,
        running: false,
        started: false,
    };
    let jobs: Vec<Job> = trace.jobs.iter().map(job).collect();
    // GPU seconds of work a second, by the first decision.
    let does = |packing| {
        let settings = Settings { timing: Timing::Paper, profiles: trace.profiles.clone(), explain: false };
        let mut scheduler = Scheduler::new(Rule::Gandiva(GandivaOptions { packing, ..GandivaOptions::default() }), CLUSTER, settings);
        (0..).zip(&jobs).for_each(|(at, _)| scheduler.arrive(at));
        let mut decision = Decision::default();
        scheduler.decide(0.0, &jobs, &mut decision);
        let of = |run: &Run| jobs.get(run.job as usize).map_or(0.0, |job| f64::from(job.gpus) * job.alone_s / run.iteration_s);
        decision.runs.iter().map(of).sum::<f64>()
    };
    Ok(does(true) / does(false))
}

fn packing_until_done(seed: u64) -> Result<f64, TraceError> {
    let trace = crowd(seed);
    let makespan_s =
        |packing| play(&trace, CLUSTER, GandivaOptions { packing, ..GandivaOptions::default() }).map(|outcome| outcome.makespan_s);
    Ok(makespan_s(false)? / makespan_s(true)?)
}

fn feedback(seed: u64) -> Result<f64, TraceError> {
    // One after the other: a trial says what it is worth a tenth of its time after its start.
    let whole = alike(TRIALS, 1.0, seed);
    let mut last_s = 0.0_f64;
    let setup = Setup { cluster: TRIAL_HOST, rule: Rule::Srtf, timing: Timing::Paper, network: None, faults: None };
    trace::run_watched(&whole, &setup, &mut |told| {
        if let Told::Job(TraceEvent { change: Change::Starts, at_s, .. }) = told {
            last_s = last_s.max(at_s);
        }
    })?;
    let one_s = whole.jobs.first().map_or(0.0, |job| job.declared_s);
    let tenth = alike(TRIALS, FEEDBACK, seed);
    Ok((last_s + FEEDBACK * one_s) / play(&tenth, TRIAL_HOST, GandivaOptions::default())?.makespan_s)
}

fn migration(seed: u64) -> Result<f64, TraceError> {
    over_all(seed, GandivaOptions { migration: false, ..GandivaOptions::default() })
}

fn all(seed: u64) -> Result<f64, TraceError> {
    over_all(seed, TURNS_ALONE)
}

fn growth(seed: u64) -> Result<f64, TraceError> {
    let mut trace = trace::mix_trace(&QUIET, seed);
    trace.jobs.iter_mut().for_each(|job| job.gpus_max = job.gpus * GROWS);
    let mean_s = |growth| play(&trace, CLUSTER, GandivaOptions { growth, ..GandivaOptions::default() }).map(|outcome| outcome.mean_s());
    Ok(mean_s(false)? / mean_s(true)?)
}

/// What jobs take with these options over what they take with all.
fn over_all(seed: u64, options: GandivaOptions) -> Result<f64, TraceError> {
    let trace = trace::mix_trace(&STREAM, seed);
    Ok(play(&trace, CLUSTER, options)?.mean_s() / play(&trace, CLUSTER, GandivaOptions::default())?.mean_s())
}

/// Where this world differs from the paper's, each in a sentence.
const DIFFERENCES: [&str; 4] = [
    "Turns are not played one by one: a job makes progress by its share at all times, and each turn is charged 2 %.",
    "What a pair does is computed by the equations of Muri's paper for pairs, so a trial costs nothing and none has to be undone; memory is in nobody's way.",
    "All jobs weigh the same, and none grows but those of the last figure, because no published trace says that it may.",
    "Published figures are those of the paper's abstract and text; its pictures were not read.",
];

fn page(answer: &Answer, command: &str) -> String {
    let mut page = experiment::open("Gandiva, reproduced", "Gandiva, reproduced");
    page.raw("<p>").text("What Gandiva's paper (OSDI 2018) prints, beside what our Gandiva does in virtual time. ");
    page.text(&format!("{} seeds; ± is half of the 95 % confidence interval.", answer.seeds)).raw("</p>\n");
    experiment::made_by(&mut page, command);
    let columns = [("Figure", "text"), ("Ours", "number"), ("Published", "text"), ("What it is", "text")];
    page.table("", "figures", &columns, false);
    for row in &answer.rows {
        page.raw("<tr><td>").text(row.figure).raw("</td>");
        page.number(Some(row.ours.mean), &row.ours.said(2));
        for cell in [published(row), row.about] {
            page.raw("<td class=\"wraps\">").text(cell).raw("</td>");
        }
        page.raw("</tr>\n");
    }
    page.end_table();
    let whys: Vec<String> = answer.rows.iter().map(|row| format!("{}: {}", row.figure, row.why)).collect();
    let sentences: Vec<&str> = whys.iter().map(String::as_str).chain(DIFFERENCES).collect();
    experiment::sentences(&mut page, "Where ours differ", &sentences);
    experiment::close(page)
}

fn published(row: &Row) -> &'static str {
    if row.published.is_empty() { "no figure at hand" } else { row.published }
}

fn table(answer: &Answer) -> String {
    let mut table = Table::new(&["FIGURE", ">OURS", "PUBLISHED", "WHAT IT IS"]);
    for row in &answer.rows {
        table.row(vec![row.figure.to_owned(), row.ours.said(2), published(row).to_owned(), row.about.to_owned()]);
    }
    format!("{}Means of {} seeds, with half of the 95 % confidence interval.\n", table.render(), answer.seeds)
}
