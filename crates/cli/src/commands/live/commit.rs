//! `antiphase commit`: jobs with their placements into the plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use job::{CandidatesDoc, JobDoc, JobsDoc, ModelDoc};
use proto::v1alpha1::{
    Candidate, CommitRequest, CommitResponse, EvaluateRequest, JobHosts, JobSpec, ListTurnsRequest, ListTurnsResponse, Model, Objective,
    Outcome, Slot,
};

use super::{
    RankedBy,
    connect::{Client, IN_CANDIDATES, IN_JOBS, ServerArgs, refused_in},
    counted,
    jobs::place,
    millis,
    overview::free_by_comparison,
    score,
};
use crate::{
    input::{CliError, read_document},
    output::{self, Output},
    table::Table,
};

/// Commit jobs with their placements: a new version of the plan.
#[derive(Debug, Args)]
pub(crate) struct CommitArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Jobs document (antiphase.jobs/v1); every job has hosts, here or in a candidate; - for standard input
    #[arg(long, value_name = "FILE")]
    jobs: PathBuf,
    /// Candidate placements of these jobs (antiphase.candidates/v1): the one that the service ranks first is committed
    #[arg(long, value_name = "FILE")]
    candidates: Option<PathBuf>,
    /// Commit this candidate, wherever it ranks
    #[arg(long, value_name = "ID", requires = "candidates")]
    candidate: Option<String>,
    /// Rank them by mean link score, or by predicted iteration time
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, requires = "candidates")]
    objective: RankedBy,
    /// Refuse unless the plan is at this plan version
    #[arg(long, value_name = "VERSION")]
    if_plan_version: Option<u64>,
    /// Forget the jobs when nobody renews them for this many seconds; by default they stay until released
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    lease: u64,
    /// Repeating a commit under the same key answers as the first did
    #[arg(long, value_name = "TEXT", default_value = "")]
    idempotency_key: String,
    /// Say why the plan is as it is for these jobs
    #[arg(long)]
    explain: bool,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn commit(args: &CommitArgs) -> Result<ExitCode, CliError> {
    let jobs = read_jobs(&args.jobs)?;
    let candidates = args.candidates.as_deref().map(read_candidates).transpose()?.unwrap_or_default();
    if args.candidates.is_none()
        && let Some(job) = jobs.iter().find(|job| job.hosts.is_empty())
    {
        let problem = format!("job {:?} has no hosts; write them, or take them from a candidate by --candidates FILE", job.id);
        return Err(CliError::input(&args.jobs, problem));
    }
    let mut request = CommitRequest {
        jobs,
        if_plan_version: args.if_plan_version,
        lease_ms: args.lease.saturating_mul(1_000),
        idempotency_key: args.idempotency_key.clone(),
        explain: args.explain,
        ..CommitRequest::default()
    };
    args.server.with(async |mut client: Client| {
        let chosen = match &args.candidates {
            None => None,
            Some(file) => {
                let named = args.candidate.as_deref();
                Some(choose(&mut client, &mut request, candidates, named, args.objective, [&args.jobs, file]).await?)
            }
        };
        // Hosts of a candidate are the candidates document's.
        let file = |says: &str| args.candidates.as_deref().filter(|_| says.contains(".hosts[")).unwrap_or(&args.jobs);
        let answer = client.commit(request).await.map_err(|status| {
            let file = file(status.message());
            refused_in(status, &[(IN_JOBS, file)])
        });
        let answer = answer?.into_inner();
        let chosen = chosen.map(|id| format!("candidate {id}\n")).unwrap_or_default();
        let turns = turns_of(&mut client, &answer).await;
        output::print(&args.output.render(&answer, || chosen + &table(&answer, &turns))?)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Puts the hosts of a candidate into a commit: of the one that is named, or of the one that the service ranks first now; then the commit
/// is refused if the plan changed in between. Returns the candidate's id.
async fn choose(
    client: &mut Client,
    request: &mut CommitRequest,
    candidates: Vec<Candidate>,
    named: Option<&str>,
    by: RankedBy,
    [jobs, file]: [&Path; 2],
) -> Result<String, CliError> {
    let id = match named {
        Some(id) => id.to_owned(),
        None => {
            // Predicted times tell candidates of equal scores apart, as in what `antiphase evaluate` shows.
            let (these, candidates) = (request.jobs.clone(), candidates.clone());
            let asked = EvaluateRequest {
                jobs: these,
                candidates,
                objective: Objective::from(by).into(),
                predict: true,
                ..EvaluateRequest::default()
            };
            let files = [(IN_CANDIDATES, file), (IN_JOBS, jobs)];
            let answer = client.evaluate(asked).await.map_err(|status| refused_in(status, &files))?.into_inner();
            let best = answer.ranked.into_iter().find(|ranked| ranked.outcome() == Outcome::Solved);
            request.if_plan_version = request.if_plan_version.or(Some(answer.plan_version));
            best.ok_or_else(|| CliError::input(file, "the service can place none of these candidates; ask `antiphase evaluate` why"))?.id
        }
    };
    let unknown = || CliError::input(file, format!("no candidate {id:?}"));
    let candidate = candidates.into_iter().find(|candidate| candidate.id == id).ok_or_else(unknown)?;
    for placement in candidate.placements {
        // Candidates may also place jobs that run already, and those are not committed again.
        if let Some(job) = request.jobs.iter_mut().find(|job| job.id == placement.job) {
            job.hosts = placement.hosts;
        }
    }
    Ok(id)
}

/// The candidates of a document as the service takes them.
pub(super) fn read_candidates(file: &Path) -> Result<Vec<Candidate>, CliError> {
    let doc = CandidatesDoc::parse(&read_document(file)?).map_err(|e| CliError::input(file, e))?;
    let placements = |hosts: BTreeMap<String, Vec<String>>| hosts.into_iter().map(|(job, hosts)| JobHosts { job, hosts }).collect();
    Ok(doc.candidates.into_iter().map(|c| Candidate { id: c.id, placements: placements(c.hosts) }).collect())
}

/// The jobs of a document as the service takes them. Profiles in files of their own travel inline.
pub(super) fn read_jobs(file: &Path) -> Result<Vec<JobSpec>, CliError> {
    let doc = JobsDoc::parse(&read_document(file)?).map_err(|e| CliError::input(file, e))?;
    doc.jobs.into_iter().map(|job| job_spec(file, job)).collect()
}

/// A job of a document as the service takes it.
pub(super) fn job_spec(file: &Path, job: JobDoc) -> Result<JobSpec, CliError> {
    let job = match &job.profile_file {
        None => job,
        Some(path) => {
            // The service cannot read the user's files, so a profile file travels inline.
            let path = file.parent().unwrap_or(Path::new("")).join(path);
            let text = read_document(&path).map_err(|e| CliError::input(file, format!("job {:?}: profile_file: {}", job.id, e.line())))?;
            let hosts = job.hosts.as_ref().map_or(0, Vec::len);
            let profile = profile::parse_for(&text, &job.id, hosts).map_err(|e| CliError::input(&path, e))?;
            JobDoc { profile: Some((&profile).into()), profile_file: None, ..job }
        }
    };
    message(job).map_err(|e| CliError::input(file, e))
}

/// A job as a message; its profile travels as the text of its document.
fn message(job: JobDoc) -> Result<JobSpec, serde_json::Error> {
    // Every field is named, so that the compiler points here when a document gains one.
    let JobDoc { id, model, profile, profile_file: _, hosts, hold, learn } = job;
    let profile = profile.as_ref().map(serde_json::to_string).transpose()?;
    let hold = hold.map(|hold| hold.word().into());
    Ok(JobSpec { id, model: model.map(model_message), profile, hosts: hosts.unwrap_or_default(), hold, learn })
}

fn model_message(model: ModelDoc) -> Model {
    let ModelDoc { name, strategy, ranks, gpus_per_host, nics_per_host, batch, micro_batches, tp, cp, pp, dp, ep, nic, gpu_gflops } = model;
    Model { name, strategy, ranks, gpus_per_host, nics_per_host, batch, micro_batches, tp, cp, pp, dp, ep, nic, gpu_gflops }
}

/// How the groups of the jobs stand that are to take turns: a job that is committed again may be in one that was let go. What cannot be
/// asked is left out, because the commit is done.
async fn turns_of(client: &mut Client, answer: &CommitResponse) -> ListTurnsResponse {
    let jobs: Vec<String> = answer.slots.iter().filter(|slot| slot.turns).map(|slot| slot.job.clone()).collect();
    if jobs.is_empty() {
        return ListTurnsResponse::default();
    }
    let asked = client.list_turns(ListTurnsRequest { jobs, ..ListTurnsRequest::default() }).await;
    asked.map(tonic::Response::into_inner).unwrap_or_default()
}

// "SLOT PERIOD" is not "PERIOD", which `antiphase jobs` has: a slot has headroom.
fn table(answer: &CommitResponse, turns: &ListTurnsResponse) -> String {
    let mut table = Table::new(&["JOB", ">SLOT PERIOD", ">OFFSET", ">SLACK", "GATE"]);
    let free: BTreeSet<&str> = free_by_comparison(turns).collect();
    for slot in &answer.slots {
        table.row(row(slot, free.contains(slot.job.as_str())));
    }
    let moved = if answer.moved.is_empty() { "no running job moved".into() } else { format!("moved: {}", answer.moved.join(", ")) };
    let (version, reasons) = (answer.plan_version, reasons(&answer.explanation));
    // The score is that of the shifts, which jobs that take turns do not follow.
    let apart = match answer.slots.iter().filter(|slot| slot.turns).count() {
        0 => format!("mean score {} of the links of these jobs' groups that can be over capacity", score(answer.score)),
        turning => format!("{} by turns", counted(turning, "job")),
    };
    let warnings = answer.warnings.iter().fold(String::new(), |text, warning| text + "\nwarning: " + warning);
    format!("plan version {version}, {apart}, {moved}\n\n{}{reasons}{warnings}", table.render())
}

/// Sentences of an explanation below an answer, each on a line of its own.
pub(super) fn reasons(explanation: &[String]) -> String {
    explanation.iter().fold(String::new(), |text, line| text + "\n" + line)
}

/// A job's line; `let_go`: its group was let go.
fn row(slot: &Slot, let_go: bool) -> [String; 5] {
    let gate = match (slot.turns, slot.hold) {
        (true, _) if let_go => "runs free: its group was let go",
        (true, _) => "takes turns",
        (false, true) => "holds",
        (false, false) => "lets pass",
    };
    let [offset, slack] = place(slot);
    // The period of a slot has headroom, which is nothing to a job that takes turns.
    let period = if slot.turns { "-".into() } else { millis(slot.period_ns) };
    [slot.job.clone(), period, offset, slack, gate.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_the_document_said() {
        let profile = "{schema: antiphase.profile/v1, name: p, period_ns: 7, phases: [], ranks: {dp: 2}, source: declared}";
        for text in [
            "{id: a, model: {name: gpt3, strategy: hybrid, ranks: 64, gpus_per_host: 8, nics_per_host: 2, batch: 5, micro_batches: 6, \
             tp: 7, cp: 8, pp: 9, dp: 10, ep: 11, nic: 50G, gpu_gflops: 12}, hosts: [h1, h2]}",
            &format!("{{id: b, profile: {profile}, hosts: [h1], hold: never}}"),
            "{id: c, hosts: [h1, h2], learn: true}",
        ] {
            let doc = JobDoc::parse(text).unwrap();
            let mut said = serde_json::to_value(message(doc.clone()).unwrap()).unwrap();
            // A message has every key; what a document does not say is absent in it.
            said.as_object_mut().unwrap().retain(|_, value| !value.is_null() && *value != false);
            assert_eq!(said, serde_json::to_value(&doc).unwrap());
        }
    }

    #[test]
    fn who_takes_turns_keeps_to_no_offset() {
        let slot = Slot { job: "a".into(), period_ns: 105_000_000, offset_ns: 52_500_000, slack_ns: 12_500_000, ..Slot::default() };
        let said = |slot: Slot| row(&slot, false)[1..].join(" ");
        assert_eq!(said(Slot { turns: true, ..slot.clone() }), "- - - takes turns");
        assert_eq!(said(Slot { hold: true, ..slot.clone() }), "105.000 ms 52.500 ms 12.500 ms holds");
        assert_eq!(said(slot.clone()), "105.000 ms 52.500 ms 12.500 ms lets pass");
        assert_eq!(row(&Slot { turns: true, ..slot }, true)[4], "runs free: its group was let go");
    }
}
