//! `antiphase solve`: a scenario file in, shifts and scores out.

use std::{path::PathBuf, process::ExitCode, time::Instant};

use circle::{
    Effort, Mode, Options, Outcome, Solution, SolveError, Ticks, evaluate, pad,
    scenario::{PaddedJobDoc, PaddingDoc, Scenario, SolutionDoc},
};
use clap::{Args, ValueEnum};
use render::{
    circles,
    palette::Colours,
    view::{JobView, LinkView, MemberView, PhaseView},
};
use units::Score;

use crate::{
    input::{CliError, check_texts, read_document},
    output::{json, print},
    table::Table,
};

/// Most jobs of a scenario whose shifts are worth a table on a terminal.
const TABLE_ROWS_MAX: usize = 200;

const EXAMPLES: &str = "\
EXAMPLES
  The best shifts of a scenario, for people:
    antiphase solve scenario.json -o table
  The score of shifts of one's own; jobs not named get 0:
    antiphase solve scenario.json --shifts left=0,right=120
  By the rules of the CASSINI paper (exit code 3 when links and jobs form a loop):
    antiphase solve scenario.json --mode cassini
  A scenario is two lists:
    {\"schema\": \"antiphase.scenario/v1\", \"tick_ns\": 1000000,
     \"links\": [{\"id\": \"uplink\", \"capacity_mbps\": 50000}],
     \"jobs\": [{\"id\": \"left\", \"period_ticks\": 255, \"links\": [\"uplink\"],
               \"phases\": [{\"start\": 141, \"end\": 255, \"rate_mbps\": 50000}]}]}";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SolveArgs {
    /// Scenario document (antiphase.scenario/v1), JSON; - for standard input
    file: PathBuf,
    /// Rules to follow: exact, or those of the CASSINI paper
    #[arg(long, value_enum, default_value_t)]
    mode: ModeArg,
    /// Maximise the worst score while any one job drifts by up to this many ticks
    #[arg(long, value_name = "TICKS", conflicts_with = "shifts")]
    robust: Option<u64>,
    /// Search for a proof of the optimum for up to three minutes rather than seconds
    #[arg(long, conflicts_with_all = ["shifts", "mode"])]
    prove: bool,
    /// Evaluate these shifts instead of solving; jobs not named get 0
    #[arg(long, value_name = "JOB=TICKS,...", conflicts_with = "mode")]
    shifts: Option<String>,
    /// Propose periods to stretch by at most this much, if that saves more than it costs
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["shifts", "mode"], value_parser = clap::value_parser!(f64))]
    pad: Option<f64>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: SolveOutput,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum ModeArg {
    /// Continuous time, loops solved jointly, optimum proven where small
    #[default]
    Exact,
    /// The paper's rules: 5-degree grid, links unmerged, loops refused
    Cassini,
}

impl ModeArg {
    /// The paper knows no drift, and an option that does nothing is refused.
    pub(super) fn admits(self, robust: bool) -> Result<(), CliError> {
        match self {
            Self::Cassini if robust => Err(CliError::Usage("--robust: --mode cassini knows no drift; use --mode exact".into())),
            _ => Ok(()),
        }
    }
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Exact => Self::Exact,
            ModeArg::Cassini => Self::Cassini,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum SolveOutput {
    /// antiphase.solution/v1
    #[default]
    Json,
    /// For people
    Table,
    /// Circles of the worst link, before and after
    Svg,
}

/// How far an answer may be from the optimum, in words.
pub(super) fn below_the_optimum(gap: f64) -> String {
    format!("{} below the optimum", render::at_most(gap))
}

pub(crate) fn run(args: &SolveArgs) -> Result<ExitCode, CliError> {
    args.mode.admits(args.robust.is_some())?;
    let text = read_document(&args.file)?;
    // The check comes before the parser, whose error for a text of megabytes would take seconds to make.
    check_texts(&args.file, &text)?;
    let mut scenario = Scenario::parse(&text).map_err(|e| CliError::input(&args.file, e))?;
    let effort = if args.prove { Effort::Proof } else { Effort::Thorough };
    let options = Options { mode: args.mode.into(), robust: args.robust.map(Ticks), effort, ..Options::default() };
    // Reading and parsing are not counted: `elapsed_us` is the solver's time.
    let start = Instant::now();
    let (solution, padding) = answer(args, &mut scenario, &options)?;
    let elapsed_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    match args.output {
        SolveOutput::Json => {
            let doc = SolutionDoc { padding, ..SolutionDoc::new(&scenario, &options, &solution, elapsed_us) };
            print(&json(&doc)?)?;
        }
        SolveOutput::Table => {
            print(&table(&scenario, &solution, options.mode))?;
            in_words(args, &solution, padding.as_ref()).iter().try_for_each(|line| print(line))?;
        }
        SolveOutput::Svg => print(&svg(&scenario, &solution, options.mode)?)?,
    }
    Ok(if solution.outcome == Outcome::Loop { ExitCode::from(super::EXIT_LOOP) } else { ExitCode::SUCCESS })
}

/// Solves, pads or evaluates. After padding the scenario's periods are the stretched ones.
fn answer(args: &SolveArgs, scenario: &mut Scenario, options: &Options) -> Result<(Solution, Option<PaddingDoc>), CliError> {
    let failed = |e: SolveError| match e {
        SolveError::PerimeterOverflow { link } => {
            let name = &scenario.links[link.index()];
            CliError::Failure(format!("{}: link {name:?}: the LCM of its periods overflows; use --mode exact", args.file.display()))
        }
        error @ SolveError::TooManyPhases { .. } => CliError::input(&args.file, error),
        other => CliError::Failure(other.to_string()),
    };
    if let Some(text) = &args.shifts {
        let shifts = parse_shifts(text, scenario)?;
        return Ok((evaluate(&scenario.problem, &shifts).map_err(failed)?, None));
    }
    let Some(percent) = args.pad else {
        return Ok((circle::solve(&scenario.problem, options).map_err(failed)?, None));
    };
    let most = f64::from(pad::PAD_PPM_MAX) / 1e4;
    // The negated form also refuses what is not a number, and the bound keeps the cast below within 32 bits.
    if !(percent > 0.0 && percent <= most) {
        return Err(CliError::Usage(format!("--pad {percent}: must be above 0 and at most {most}")));
    }
    let decision = pad::pad(&scenario.problem, options, (percent * 1e4) as u32).map_err(failed)?;
    let padding = PaddingDoc::new(scenario, &decision);
    // Tables and pictures below print the scenario, and its shifts hold for the stretched periods only.
    scenario.problem = decision.problem;
    Ok((decision.after, Some(padding)))
}

/// What padding found, a line each.
fn in_words(args: &SolveArgs, solution: &Solution, padding: Option<&PaddingDoc>) -> Vec<String> {
    let Some(padding) = padding else { return Vec::new() };
    let job = |p: &PaddedJobDoc| {
        let percent = (p.padded_ticks - p.period_ticks) as f64 * 100.0 / p.period_ticks as f64;
        format!("pad {} from {} to {} ticks (+{percent:.2} %)", p.job, p.period_ticks, p.padded_ticks)
    };
    let mut lines: Vec<String> = padding.jobs.iter().map(job).collect();
    lines.push(if padding.jobs.is_empty() {
        format!("no padding up to {} % saves more than it costs", args.pad.unwrap_or_default())
    } else {
        format!(
            "mean score {:.4} -> {:.4}; price {:.2} % of an iteration, saves {:.2} %, summed over the jobs",
            Score(padding.unpadded_mean_score),
            Score(solution.mean_score),
            padding.price * 100.0,
            padding.saving * 100.0
        )
    });
    lines
}

fn parse_shifts(text: &str, scenario: &Scenario) -> Result<Vec<Ticks>, CliError> {
    let mut shifts = vec![None; scenario.jobs.len()];
    for part in text.split(',').filter(|p| !p.is_empty()) {
        // The last `=` splits, because a job's name may hold one and a number does not.
        let (name, value) = part.rsplit_once('=').ok_or_else(|| CliError::Usage(format!("--shifts {part:?}: expected JOB=TICKS")))?;
        let job = scenario.job(name).ok_or_else(|| CliError::Usage(format!("--shifts: no job {name:?} in the scenario")))?;
        let bad = |_| CliError::Usage(format!("--shifts {part:?}: {value:?} is not a whole number of ticks"));
        let ticks = value.parse().map_err(bad)?;
        // A job that is named twice is more likely a slip of the hand than a wish for the second value.
        if shifts[job.index()].replace(Ticks(ticks)).is_some() {
            return Err(CliError::Usage(format!("--shifts: job {name:?} is named twice")));
        }
    }
    Ok(shifts.into_iter().map(|shift| shift.unwrap_or(Ticks(0))).collect())
}

fn table(scenario: &Scenario, solution: &Solution, mode: Mode) -> String {
    let mut links = Table::new(&["LINK", ">NO SHIFT", ">SCORE", "JOBS"]);
    for l in solution.links.iter().take(TABLE_ROWS_MAX) {
        let members = &scenario.problem.links()[l.link.index()].members;
        let jobs: Vec<&str> = members.iter().map(|m| &scenario.jobs[m.job.index()][..]).collect();
        links.row([
            scenario.links[l.link.index()].clone(),
            format!("{:.4}", Score(l.zero_shift_score)),
            format!("{:.4}", Score(l.score)),
            jobs.join(" "),
        ]);
    }
    let ms = |ticks: u64| format!("{:.3}", ticks as f64 * scenario.tick_ns as f64 / 1e6);
    let mut jobs = Table::new(&["JOB", ">PERIOD ms", ">SHIFT ms", ">SLACK ms", "LOCK"]);
    for s in solution.shifts.iter().take(TABLE_ROWS_MAX) {
        let period = scenario.problem.period(s.job);
        // A shift modulo 1 tick is no constraint, and modulo the period it is a full one.
        let lock = if s.lock.0 == 1 {
            "free".into()
        } else if s.lock.0 == period {
            "full".into()
        } else {
            format!("every {} ms", ms(s.lock.0))
        };
        let slack = if mode == Mode::Cassini { "–".into() } else { ms(s.slack.0) };
        jobs.row([scenario.jobs[s.job.index()].clone(), ms(period), ms(s.shift.0), slack, lock]);
    }
    // A large scenario has more rows than anybody reads on a terminal.
    let rest = |rows: usize, what: &str| match rows.saturating_sub(TABLE_ROWS_MAX) {
        0 => String::new(),
        more => format!("and {more} more {what}; -o json has them all\n"),
    };
    let o = &solution.optimality;
    let sure = match (solution.outcome, o.proven) {
        (Outcome::Loop, _) => "discarded: the affinity graph has a loop (paper mode)".into(),
        (Outcome::Evaluated, _) => "evaluated only".into(),
        (_, true) => "optimal, proven".into(),
        (_, false) => below_the_optimum(o.bound_gap),
    };
    let drift = solution.robust.map_or_else(String::new, |r| {
        let least = if r.exact { "" } else { "at least " };
        format!(", worst under drift {least}{:.4}", Score(r.mean_score))
    });
    format!(
        "{}{}\n{}mean score {:.4} (no shift {:.4}){drift}, {sure}; {} component(s), {} loop(s), {} link(s) merged\n",
        links.render(),
        rest(solution.links.len(), "links"),
        if jobs.is_empty() { String::new() } else { jobs.render() + &rest(solution.shifts.len(), "jobs") + "\n" },
        Score(solution.mean_score),
        Score(solution.zero_shift_mean_score),
        solution.affinity.components,
        solution.affinity.loops,
        solution.affinity.merged_links
    )
}

/// Circles of the link with the lowest score, or of the one that was worst before.
fn svg(scenario: &Scenario, solution: &Solution, mode: Mode) -> Result<String, CliError> {
    let ns = |ticks: Ticks| ticks.0.saturating_mul(scenario.tick_ns);
    let jobs: Vec<JobView> = solution
        .shifts
        .iter()
        .map(|s| JobView {
            name: scenario.jobs[s.job.index()].clone(),
            period_ns: ns(scenario.problem.periods()[s.job.index()]),
            shift_ns: ns(s.shift),
            slack_ns: (mode == Mode::Exact).then(|| ns(s.slack)),
            ..JobView::default()
        })
        .collect();
    // Of links with equal scores the one that gained most is drawn, because its two circles differ most.
    let by_score = |a: &&circle::LinkScore, b: &&circle::LinkScore| {
        a.score.total_cmp(&b.score).then(a.zero_shift_score.total_cmp(&b.zero_shift_score))
    };
    let worst = solution
        .links
        .iter()
        .min_by(by_score)
        .filter(|_| solution.outcome != Outcome::Loop)
        .ok_or_else(|| CliError::Failure("nothing to draw: no links, or a loop in paper mode".into()))?;
    let link = &scenario.problem.links()[worst.link.index()];
    let phase = |p: &circle::Phase| PhaseView { start_ns: ns(p.start), end_ns: ns(p.end), mbps: p.rate.0 };
    let member =
        |m: &circle::Member| MemberView { job: m.job.index(), phases: scenario.problem.phases(m.demand).iter().map(phase).collect() };
    let view = LinkView {
        name: scenario.links[worst.link.index()].clone(),
        capacity_mbps: link.capacity.0,
        members: link.members.iter().map(member).collect(),
        zero_shift_score: worst.zero_shift_score,
        score: worst.score,
        ..LinkView::default()
    };
    let colours = Colours::assign(jobs.len(), std::slice::from_ref(&view));
    Ok(circles::draw(&view, &jobs, &colours).document())
}
