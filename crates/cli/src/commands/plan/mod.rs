//! `antiphase plan` and `antiphase explain`: candidates ranked, and why.

mod document;
mod tables;
mod views;

use std::{
    io::IsTerminal as _,
    process::ExitCode,
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

use base64::Engine as _;
use circle::Effort;
use clap::{Args, ValueEnum};
use plan::{Cluster, Control, Evaluation, Objective, Options, Outcome, Predictions, rank, turns};
use sha2::{Digest as _, Sha256};
use units::Nanos;

use super::solve::ModeArg;
use crate::{
    cluster::{ClusterArgs, Loaded},
    input::CliError,
    output::{print, say},
};

/// Exit code when every candidate scores below `--min-score`.
const EXIT_BELOW: u8 = 5;
/// Work shorter than this shows no progress.
const PROGRESS_AFTER: Duration = Duration::from_secs(1);

const PLAN_EXAMPLES: &str = "\
EXAMPLES
  Judge the jobs where they stand:
    antiphase plan --fabric fabric.yaml --jobs jobs.yaml
  Rank candidate placements by predicted iteration time, for a program:
    antiphase plan --fabric fabric.yaml --jobs jobs.yaml --candidates candidates.yaml --objective time -o json
  What slots would do, and what brings the fewest ECN marks:
    antiphase plan --fabric fabric.yaml --jobs jobs.yaml --control slots
    antiphase plan --fabric fabric.yaml --jobs jobs.yaml --objective quiet
  A page with pictures of the circles:
    antiphase plan --fabric fabric.yaml --jobs jobs.yaml --candidates candidates.yaml -o html >plan.html
  Refuse a round in which every candidate hurts (exit code 5):
    antiphase plan --fabric fabric.yaml --jobs jobs.yaml --candidates candidates.yaml --min-score 0.9";

const EXPLAIN_EXAMPLES: &str = "\
EXAMPLES
  Why the best candidate is what it is:
    antiphase explain --fabric fabric.yaml --jobs jobs.yaml --candidates candidates.yaml
  What one job meets on its links under a given candidate:
    antiphase explain --fabric fabric.yaml --jobs jobs.yaml --candidates candidates.yaml --candidate across --job left";

#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    solver: SolverArgs,
    /// Exit with code 5 if no candidate reaches this mean score
    #[arg(long, value_name = "SCORE", value_parser = finite)]
    min_score: Option<f64>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: PlanOutput,
}

/// How to solve, for `plan` and `explain` alike.
#[derive(Debug, Args)]
struct SolverArgs {
    /// Rules to follow: exact, or those of the CASSINI paper
    #[arg(long, value_enum, default_value_t)]
    mode: ModeArg,
    /// Maximise the worst score while any one job drifts by up to this many milliseconds
    #[arg(long, value_name = "MS")]
    robust: Option<f64>,
    /// Spend up to a second per group of links on a proof, instead of about a millisecond
    #[arg(long)]
    thorough: bool,
    /// How jobs are kept apart that gain by it; all three are predicted
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    control: ControlArg,
    /// Rank by the paper's mean link score, by predicted iteration time, or by the time in which links are above capacity
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    objective: ObjectiveArg,
}

impl SolverArgs {
    fn options(&self) -> Result<Options, CliError> {
        self.mode.admits(self.robust.is_some())?;
        // A drift of 0 would be no robustness at all, and is refused rather than ignored.
        let robust = match self.robust {
            // The negated form also refuses what is not a number; below 10^6 ms the product below fits 64 bits.
            Some(ms) if !(ms > 0.0 && ms < 1e6) => {
                return Err(CliError::Usage(format!("--robust {ms}: must be above 0 and below 1000000")));
            }
            robust => robust.map(|ms| Nanos((ms * 1e6) as u64)),
        };
        let effort = if self.thorough { Effort::Thorough } else { Effort::Fast };
        let (objective, turns_objective) = match self.objective {
            ObjectiveArg::Score => (Objective::Score, turns::Objective::Time),
            ObjectiveArg::Time => (Objective::Time, turns::Objective::Time),
            ObjectiveArg::Quiet => (Objective::Quiet, turns::Objective::Quiet),
        };
        let control = self.control.into();
        let predict = Predictions::Compared;
        Ok(Options { mode: self.mode.into(), robust, effort, objective, predict, control, turns_objective, ..Options::default() })
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ObjectiveArg {
    /// Mean score of the links that two or more jobs cross
    #[default]
    Score,
    /// GPU-weighted iteration time predicted by the fluid model
    Time,
    /// Share of the time in use in which links are above capacity; turns are chosen for it too, where iterations are hardly longer
    Quiet,
}

/// The service's `control`. A new service observes; what it would bring to hold jobs is what a plan is asked for, so turns are the
/// default here.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ControlArg {
    /// By event: a job goes when those ahead of it have ended
    #[default]
    Turns,
    /// By time: each job starts in its slot
    Slots,
    /// Not at all
    Observe,
}

impl From<ControlArg> for Control {
    fn from(control: ControlArg) -> Self {
        match control {
            ControlArg::Turns => Self::Turns,
            ControlArg::Slots => Self::Slots,
            ControlArg::Observe => Self::Observe,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum PlanOutput {
    /// For people
    #[default]
    Table,
    /// antiphase.plan/v1
    Json,
    /// Circles of the worst link of the best candidate
    Svg,
    /// One self-contained report
    Html,
}

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    solver: SolverArgs,
    /// Which candidate [default: the best]
    #[arg(long, value_name = "ID")]
    candidate: Option<String>,
    /// Only links whose name contains this
    #[arg(long, value_name = "TEXT")]
    link: Option<String>,
    /// Only links that this job crosses
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
}

/// A ranking and what it was made from.
struct Ranking<'a> {
    cluster: Cluster<'a>,
    options: Options,
    /// Best first.
    evaluations: Vec<Evaluation>,
    elapsed: Duration,
}

impl Ranking<'_> {
    fn best(&self) -> Option<&Evaluation> {
        self.evaluations.first()
    }
}

pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode, CliError> {
    let options = args.solver.options()?;
    let loaded = Loaded::read(&args.cluster)?;
    with_ranking(&args.cluster, &loaded, options, |ranking| {
        match args.output {
            PlanOutput::Table => print(&tables::plan(ranking))?,
            PlanOutput::Json => print(&document::json(ranking)?)?,
            PlanOutput::Svg => print(&svg(ranking))?,
            PlanOutput::Html => print(&render::report::html(&views::report(ranking), source_hash))?,
        }
        Ok(exit_code(args, ranking))
    })
}

fn finite(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|score: &f64| score.is_finite()).ok_or_else(|| "must be a number".into())
}

fn exit_code(args: &PlanArgs, ranking: &Ranking<'_>) -> ExitCode {
    let best = ranking.best().and_then(|e| e.scores);
    match (best, args.min_score) {
        // Exit code 3 says that the input was good and the paper's rules refuse it; one candidate with another problem makes it a failure.
        (None, _) if ranking.evaluations.iter().all(|e| matches!(e.outcome, Outcome::Loop { .. })) => ExitCode::from(super::EXIT_LOOP),
        // The table says why each was not solved.
        (None, _) => ExitCode::FAILURE,
        (Some(scores), Some(least)) if scores.score < least - circle::PROOF_TOLERANCE => ExitCode::from(EXIT_BELOW),
        _ => ExitCode::SUCCESS,
    }
}

pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode, CliError> {
    let options = args.solver.options()?;
    let loaded = Loaded::read(&args.cluster)?;
    with_ranking(&args.cluster, &loaded, options, |ranking| {
        let chosen = match &args.candidate {
            None => ranking.best(),
            Some(id) => ranking.evaluations.iter().find(|e| e.id == *id),
        };
        let evaluation = chosen.ok_or_else(|| {
            let ids: Vec<&str> = ranking.evaluations.iter().map(|e| &e.id[..]).collect();
            CliError::Usage(format!("--candidate {:?}: known: {}", args.candidate.as_deref().unwrap_or(""), ids.join(", ")))
        })?;
        if let Some(job) = args.job.as_ref().filter(|j| !ranking.cluster.jobs.iter().any(|known| known.name == **j)) {
            return Err(CliError::Usage(format!("--job {job:?}: no such job")));
        }
        let mut lines = 0;
        for e in evaluation.explain(&ranking.cluster) {
            // Both filters must agree; a filter that is not given lets everything pass.
            let on_link = args.link.as_ref().is_none_or(|text| e.link.as_ref().is_some_and(|l| l.contains(&text[..])));
            let of_job = args.job.as_ref().is_none_or(|job| e.jobs.contains(job));
            if on_link && of_job {
                print(&e.to_string())?;
                lines += 1;
            }
        }
        if lines == 0 {
            print("no link that can be over capacity matches")?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Ranks the candidates, with a sign of life after a second, and hands the ranking on.
fn with_ranking(
    args: &ClusterArgs,
    loaded: &Loaded,
    options: Options,
    then: impl FnOnce(&Ranking<'_>) -> Result<ExitCode, CliError>,
) -> Result<ExitCode, CliError> {
    let start = Instant::now();
    let router = loaded.router()?;
    let cluster = Cluster { fabric: &loaded.fabric, router: &router, jobs: &loaded.jobs, placements: &loaded.placements };
    let message = format!("judging {} candidates for {} jobs", loaded.candidates.len(), loaded.jobs.len());
    let evaluations = with_progress(&message, || rank(&cluster, &loaded.candidates, &options)).map_err(|e| {
        // What is wrong with a link is a matter of the fabric's document; all else of the jobs'.
        use plan::PlanError::{Fabric, InCandidate, ZeroCapacity};
        let file = if matches!(e, Fabric(_) | InCandidate { .. } | ZeroCapacity { .. }) { &args.fabric } else { &args.jobs };
        CliError::input(file, e)
    })?;
    report_unknown(args, &cluster)?;
    then(&Ranking { cluster, options, evaluations, elapsed: start.elapsed() })
}

/// Names the links of unknown capacity that jobs load where they stand. Had a candidate loaded one, it would have been refused.
fn report_unknown(args: &ClusterArgs, cluster: &Cluster<'_>) -> Result<(), CliError> {
    let links = plan::unknown_base_links(cluster).map_err(|e| CliError::input(&args.jobs, e))?;
    if let Some(first) = links.first().map(|l| cluster.fabric.link_name(*l)) {
        let more = if links.len() > 1 { format!(" and {} more", links.len() - 1) } else { String::new() };
        say(&format!(
            "unknown-capacity: {first}{more}: loaded where the jobs stand, by no candidate; so the ranking does not depend on it"
        ));
    }
    Ok(())
}

/// Runs `work`, showing a spinner on a terminal once it takes longer than [`PROGRESS_AFTER`].
fn with_progress<T>(message: &str, work: impl FnOnce() -> T) -> T {
    // A spinner in a log file would be noise, and a pipe cannot be cleared.
    if !std::io::stderr().is_terminal() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        scope.spawn(move || {
            // Work that ends earlier drops the sender, which is another error than the timeout, and nothing is drawn.
            if wait.recv_timeout(PROGRESS_AFTER) == Err(RecvTimeoutError::Timeout) {
                let bar = indicatif::ProgressBar::new_spinner().with_message(message.to_owned());
                bar.enable_steady_tick(Duration::from_millis(100));
                // Ends when the sender is dropped: with the work.
                let _ = wait.recv();
                bar.finish_and_clear();
            }
        });
        let result = work();
        // The sender goes before the scope ends, because the scope waits for the thread, and the thread for the sender.
        drop(done);
        result
    })
}

fn svg(ranking: &Ranking<'_>) -> String {
    let report = views::report(ranking);
    let worst = report.links.iter().min_by(|a, b| a.score.total_cmp(&b.score).then(a.zero_shift_score.total_cmp(&b.zero_shift_score)));
    let colours = render::palette::Colours::assign(report.jobs.len(), &report.links);
    worst.map_or_else(
        || render::fabric_map::draw(&report.fabric, &report.jobs).document(),
        |link| render::circles::draw(link, &report.jobs, &colours).document(),
    )
}

/// A text's hash as a source expression of a content security policy (CSP level 3, section 2.3.1).
fn source_hash(text: &str) -> String {
    format!("'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text)))
}
