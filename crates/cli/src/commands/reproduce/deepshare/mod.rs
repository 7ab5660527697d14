//! DeepShare: who shares nodes with whom, learned; in its authors' world, beside rules that learn nothing.

mod page;
mod published;
mod read;

use std::{path::PathBuf, process::ExitCode};

use ::harmony::deepshare::{Beside, By, Chooser, Details, Job, Outcome, Stuck, drawn, run as play};
use ::learn::{
    Policy,
    deepshare::{Course, Scheduler, Setup, train},
};
use clap::Args;
use serde::Serialize;

use self::{
    published::{Figures, OTHERS},
    read::Data,
};
use super::report::ReportArgs;
use crate::{
    commands::{
        HOUR_S,
        seeds::{QUICK_SEEDS, SEEDS, SEEDS_MAX, on_all_cores},
        stats::{Interval, interval, mean},
    },
    input::CliError,
    table::Table as Lines,
};

/// Jobs of a drawn trace, as in those of the authors.
const JOBS: usize = 256;
/// The first drawn trace that is judged: far from those that teach and select.
const FIRST: u64 = 1_000;
/// Policies that are trained, each from a seed of its own.
const TRAININGS: u64 = 5;
/// How much each of them does.
const COURSE: Setup = Setup { seed: 0, jobs: 128, taught: 6, imitate_steps: 400, rounds: 10, judge_every: 5 };
/// The same of a quick run: what a policy learns in it says nothing of the method.
const QUICK: Setup = Setup { seed: 0, jobs: 32, taught: 2, imitate_steps: 40, rounds: 1, judge_every: 1 };

const EXAMPLES: &str = "\
EXAMPLES
  With the scheduler folder of github.com/gajagajago/deepshare, which we do not ship:
    antiphase reproduce deepshare --data deepshare/scheduler --report deepshare.html
  A look:
    antiphase reproduce deepshare --data deepshare/scheduler --quick";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DeepshareArgs {
    /// Folder with the authors' tables and traces: their scheduler folder, the six files themselves, or a folder deepshare with these
    #[arg(long, value_name = "FOLDER", env = "ANTIPHASE_DATA")]
    data: PathBuf,
    /// Few drawn traces, and one policy that learns for seconds
    #[arg(long)]
    quick: bool,
    /// Drawn traces that are judged [default: 10, quick 2]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX as u64))]
    seeds: Option<u64>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What a rule knows of speeds.
type Rule<'a> = (&'static str, &'static str, By<'a>);

/// The rules, under the names that [`OTHERS`] has for those of others.
fn rules(data: &Data) -> Vec<Rule<'_>> {
    let table = &data.table;
    vec![
        ("LAS, as published", "nothing", By::Las),
        ("SRTF, as published", "nothing", By::Srtf),
        ("packing", "nothing", By::First(Beside::Fullest, table)),
        ("load balancing", "nothing", By::First(Beside::Emptiest, table)),
        ("least interference", "the table", By::First(Beside::Least, table)),
        (GREEDY, "the table", By::Greedy { table, least: 0.0 }),
        ("greedy above 0.3", "the table", By::Greedy { table, least: 0.3 }),
        ("greedy above 0.5", "the table", By::Greedy { table, least: 0.5 }),
        ("greedy above 0.7", "the table", By::Greedy { table, least: 0.7 }),
        ("greedy by jobs", "the table", By::GreedyByJobs(table)),
    ]
}

/// The rule with which all are compared.
const GREEDY: &str = "greedy";
const LEARNED: &str = "learned policy";

/// A rule on one trace of the authors.
#[derive(Clone, Debug, Serialize)]
struct Row {
    rule: &'static str,
    knows: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    published_ran_h: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Figures>,
    /// Of the learned policy the mean over trainings.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours: Option<Figures>,
}

#[derive(Clone, Debug, Serialize)]
struct Shipped {
    trace: &'static str,
    jobs: usize,
    rows: Vec<Row>,
}

/// A rule over the drawn traces.
#[derive(Clone, Debug, Serialize)]
struct Held {
    rule: &'static str,
    knows: &'static str,
    completion_h: Interval,
    /// That over the greedy rule's, trace by trace.
    over_greedy: Interval,
    ran_h: Interval,
    used: Interval,
}

/// How a policy came to be: after how many rounds of tries its mean completion time was so many times its teacher's.
#[derive(Clone, Debug, Serialize)]
struct Curve {
    seed: u64,
    over_teacher: Vec<(usize, f64)>,
}

#[derive(Debug, Serialize)]
struct Answer {
    schema: &'static str,
    drawn: u64,
    trainings: u64,
    traces: Vec<Shipped>,
    held_out: Vec<Held>,
    curves: Vec<Curve>,
}

pub(super) fn run(args: &DeepshareArgs) -> Result<ExitCode, CliError> {
    let data = read::read(&args.data)?;
    let drawn = args.seeds.unwrap_or(if args.quick { QUICK_SEEDS } else { SEEDS });
    let (trainings, setup) = if args.quick { (1, QUICK) } else { (TRAININGS, COURSE) };
    let bar = indicatif::ProgressBar::new(trainings * (1 + (setup.rounds / setup.judge_every) as u64) + drawn);
    let failure = |e: Stuck| CliError::Failure(e.to_string());
    let courses = on_all_cores(trainings, |seed| {
        let setup = Setup { seed, ..setup };
        train(&data.table, &data.samples, Details::Published, &setup, &mut |_| bar.inc(1))
    });
    let courses: Vec<Course> = courses.into_iter().collect::<Result<_, _>>().map_err(failure)?;
    let policies: Vec<&Policy> = courses.iter().map(|course| &course.policy).collect();
    let held_out = held_out(&data, &policies, drawn, &|| bar.inc(1)).map_err(failure)?;
    bar.finish_and_clear();
    let traces = data.traces.iter().enumerate().map(|(at, (name, jobs))| shipped(&data, (at, *name, jobs.as_slice()), &policies));
    let curve = |(seed, course): (u64, &Course)| Curve {
        seed,
        over_teacher: course.curve.iter().map(|judged| (judged.rounds, judged.over_greedy)).collect(),
    };
    let answer = Answer {
        schema: "antiphase.reproduce-deepshare/v1",
        drawn,
        trainings,
        traces: traces.collect::<Result<_, _>>().map_err(failure)?,
        held_out,
        curves: (1..).zip(&courses).map(curve).collect(),
    };
    let command = format!("antiphase reproduce deepshare --data FOLDER{} --seeds {drawn}", if args.quick { " --quick" } else { "" });
    args.report.give(&answer, || page::page(&answer, &command), || table(&answer))?;
    Ok(ExitCode::SUCCESS)
}

fn figures(outcome: &Outcome) -> Figures {
    Figures {
        ran_h: outcome.ran_mean_s() / HOUR_S,
        ran_p99_h: outcome.ran_p99_s() / HOUR_S,
        used: outcome.used_mean(),
        share: outcome.share_mean(),
        completion_h: outcome.completion_mean_s() / HOUR_S,
        makespan_h: outcome.makespan_s() as f64 / HOUR_S,
    }
}

fn one(data: &Data, jobs: &[Job], rule: &mut dyn Chooser) -> Result<Figures, Stuck> {
    play(jobs, &data.table, Details::Published, rule).map(|outcome| figures(&outcome))
}

/// The mean over policies.
fn learned(data: &Data, jobs: &[Job], policies: &[&Policy]) -> Result<Figures, Stuck> {
    let all = policies.iter().map(|policy| one(data, jobs, &mut Scheduler::new(policy))).collect::<Result<Vec<Figures>, Stuck>>()?;
    let of = |value: fn(&Figures) -> f64| mean(all.iter().map(value));
    Ok(Figures {
        ran_h: of(|f| f.ran_h),
        ran_p99_h: of(|f| f.ran_p99_h),
        used: of(|f| f.used),
        share: of(|f| f.share),
        completion_h: of(|f| f.completion_h),
        makespan_h: of(|f| f.makespan_h),
    })
}

fn shipped(data: &Data, (at, trace, jobs): (usize, &'static str, &[Job]), policies: &[&Policy]) -> Result<Shipped, Stuck> {
    let other = |name: &str| OTHERS.iter().find(|other| other.rule == name);
    let mut rows = Vec::new();
    for (rule, knows, mut by) in rules(data) {
        let ours = Some(one(data, jobs, &mut by)?);
        let peer = other(rule).map(|other| other.peer[at]);
        rows.push(Row { rule, knows, published_ran_h: other(rule).map_or("", |other| other.published), peer, ours });
    }
    // The trained policies of others behind the rules that they print beside them.
    let theirs = OTHERS.iter().filter(|other| rows.iter().all(|row| row.rule != other.rule));
    let theirs = theirs.map(|other| Row {
        rule: other.rule,
        knows: "what it learned",
        published_ran_h: other.published,
        peer: Some(other.peer[at]),
        ours: None,
    });
    let theirs: Vec<Row> = theirs.collect();
    rows.splice(2..2, theirs);
    let ours = Some(learned(data, jobs, policies)?);
    rows.push(Row { rule: LEARNED, knows: "what it learned", published_ran_h: "", peer: None, ours });
    Ok(Shipped { trace, jobs: jobs.len(), rows })
}

fn held_out(data: &Data, policies: &[&Policy], count: u64, done: &(dyn Fn() + Sync)) -> Result<Vec<Held>, Stuck> {
    let by_trace = on_all_cores(count, |at| {
        let jobs = drawn(JOBS, &data.samples, FIRST + at - 1);
        let mut all = Vec::new();
        for (.., mut by) in rules(data) {
            all.push(one(data, &jobs, &mut by)?);
        }
        all.push(learned(data, &jobs, policies)?);
        done();
        Ok(all)
    });
    let by_trace = by_trace.into_iter().collect::<Result<Vec<Vec<Figures>>, Stuck>>()?;
    let mut names: Vec<(&str, &str)> = rules(data).iter().map(|(rule, knows, _)| (*rule, *knows)).collect();
    names.push((LEARNED, "what it learned"));
    let greedy = names.iter().position(|(rule, _)| *rule == GREEDY).unwrap_or_default();
    let row = |(at, (rule, knows)): (usize, &(&'static str, &'static str))| {
        let own = |value: fn(&Figures) -> f64| interval(by_trace.iter().map(|all| value(&all[at])));
        Held {
            rule,
            knows,
            completion_h: own(|f| f.completion_h),
            over_greedy: interval(by_trace.iter().map(|all| all[at].completion_h / all[greedy].completion_h)),
            ran_h: own(|f| f.ran_h),
            used: own(|f| f.used),
        }
    };
    Ok(names.iter().enumerate().map(row).collect())
}

impl Row {
    /// What stands in the columns: each figure of the peer and ours beside each other.
    fn cells(&self) -> Vec<(Option<f64>, usize)> {
        let pair = |value: fn(&Figures) -> f64, digits| [self.peer, self.ours].map(|of| (of.as_ref().map(value), digits));
        [
            pair(|f| f.ran_h, 3),
            pair(|f| f.ran_p99_h, 2),
            pair(|f| f.used, 3),
            pair(|f| f.share, 3),
            pair(|f| f.completion_h, 2),
            pair(|f| f.makespan_h, 2),
        ]
        .concat()
    }
}

fn said((value, digits): &(Option<f64>, usize)) -> String {
    let digits = *digits;
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

fn table(answer: &Answer) -> String {
    let mut out = String::new();
    for Shipped { trace, jobs, rows } in &answer.traces {
        let headings = [
            "RULE",
            ">PUBLISHED",
            ">RAN h: PEER",
            ">OURS",
            ">P99 h: PEER",
            ">OURS",
            ">IN USE: PEER",
            ">OURS",
            ">SPEED: PEER",
            ">OURS",
            ">COMPLETION h: PEER",
            ">OURS",
            ">MAKESPAN h: PEER",
            ">OURS",
        ];
        let mut lines = Lines::new(&headings);
        for row in rows {
            let mut cells = vec![row.rule.to_owned(), row.published_ran_h.to_owned()];
            cells.extend(row.cells().iter().map(said));
            lines.row(cells);
        }
        out += &format!("Trace {trace:?}, {jobs} jobs:\n{}\n", lines.render());
    }
    let mut lines = Lines::new(&["RULE", "KNOWS", ">COMPLETION h", ">OVER GREEDY", ">RAN h", ">IN USE"]);
    for held in &answer.held_out {
        let Held { rule, knows, completion_h, over_greedy, ran_h, used } = held;
        lines.row(vec![(*rule).to_owned(), (*knows).to_owned(), completion_h.said(2), over_greedy.said(3), ran_h.said(3), used.said(3)]);
    }
    let Answer { drawn, trainings, .. } = answer;
    out + &format!(
        "Drawn traces from which nothing was learned:\n{}\nCompletion counts from the beginning, waiting included. Means of {drawn} traces, with half of the 95 % confidence interval; {LEARNED}: the mean of {trainings} trained from different seeds.\n",
        lines.render()
    )
}
