//! `antiphase evaluate`: ranks candidates against what the service has committed.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use proto::v1alpha1::{EvaluateRequest, EvaluateResponse, Evaluation, Objective, Outcome};

use super::{
    RankedBy,
    commit::{read_candidates, read_jobs},
    connect::{Client, IN_CANDIDATES, IN_JOBS, ServerArgs, refused_in},
    or_dash, score,
};
use crate::{
    commands::solve::below_the_optimum,
    input::CliError,
    output::{self, Output},
    table::Table,
};

/// Rank candidate placements against the committed jobs. Nothing changes.
#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Jobs that are not committed yet (antiphase.jobs/v1)
    #[arg(long, value_name = "FILE")]
    jobs: Option<PathBuf>,
    /// Candidate placements (antiphase.candidates/v1); without it all jobs are judged where they stand
    #[arg(long, value_name = "FILE")]
    candidates: Option<PathBuf>,
    /// Rank by mean link score, or by predicted iteration time
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    objective: RankedBy,
    /// Say in words who takes turns with whom, what happens on each contended link, and what each job takes
    #[arg(long)]
    explain: bool,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn evaluate(args: &EvaluateArgs) -> Result<ExitCode, CliError> {
    let request = EvaluateRequest {
        jobs: args.jobs.as_deref().map(read_jobs).transpose()?.unwrap_or_default(),
        candidates: args.candidates.as_deref().map(read_candidates).transpose()?.unwrap_or_default(),
        objective: Objective::from(args.objective).into(),
        explain: args.explain,
        // The columns of times need predictions, which the service leaves out unless asked.
        predict: true,
        ..EvaluateRequest::default()
    };
    args.server.with(async |mut client: Client| {
        let jobs = args.jobs.as_deref().map(|file| (IN_JOBS, file));
        let files: Vec<_> = jobs.into_iter().chain(args.candidates.as_deref().map(|file| (IN_CANDIDATES, file))).collect();
        let answer = client.evaluate(request).await.map_err(|status| refused_in(status, &files))?.into_inner();
        output::print(&args.output.render(&answer, || table(&answer))?)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn table(answer: &EvaluateResponse) -> String {
    let mut table = Table::new(&["CANDIDATE", ">SCORE", ">UNSHIFTED", ">TIME", ">FREE", ">TURNS", ">SLOTS", ">SHARED LINKS", "OPTIMAL"]);
    for evaluation in &answer.ranked {
        table.row(row(evaluation));
    }
    let explained = answer.ranked.iter().filter(|e| !e.explanation.is_empty());
    let said: String = explained.map(|e| format!("\n{}:\n{}\n", e.id, e.explanation.join("\n"))).collect();
    format!("against plan version {} and fabric version {}\n\n{}{said}", answer.plan_version, answer.fabric_version, table.render())
}

fn row(evaluation: &Evaluation) -> [String; 9] {
    let optimal = match evaluation.outcome() {
        Outcome::Solved if evaluation.proven => "yes".into(),
        Outcome::Solved => below_the_optimum(evaluation.bound_gap),
        Outcome::Loop => "loop".into(),
        Outcome::Unsolved | Outcome::Unspecified => evaluation.reason.clone(),
    };
    let times = |time: Option<f64>| or_dash(time, |t| format!("{t:.3}x"));
    [
        evaluation.id.clone(),
        or_dash(evaluation.mean_score, score),
        or_dash(evaluation.zero_shift_mean_score, score),
        times(evaluation.time_interleaved),
        times(evaluation.time_free),
        times(evaluation.time_by_turns),
        times(evaluation.time_by_slots),
        evaluation.shared_links.to_string(),
        optimal,
    ]
}
