//! Ranking candidate placements against the committed jobs: a ranking sees a snapshot and changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use circle::Cancel;
use job::{CANDIDATES_SCHEMA, CandidateDoc, CandidatesDoc, JobDoc, Reader};
use job::{Candidate, Job, Placement};
use plan::{Cluster, Evaluation, Objective, Options, Outcome, Predictions};
use proto::{mask::Mask, v1alpha1 as pb};
use units::JobId;

use super::{Api, ApiError, limit, solve::mode};
use crate::{controller::Snapshot, resolve, tls::Who};

/// Candidates of one request: ten rounds of a large scheduler, which take seconds on 10,000 hosts.
const CANDIDATES_MAX: usize = 1_000;
/// Jobs of one request that are not committed.
const JOBS_MAX: usize = 1_000;
/// Links listed per candidate, worst first.
const LINKS_MAX: usize = 500;
/// Lines of explanation per candidate.
pub(super) const LINES_MAX: usize = 500;

/// The name of the only candidate when none is given.
const AS_PLACED: &str = "as placed";

impl Api {
    /// Ranks candidates, when it is this caller's turn.
    ///
    /// # Errors
    /// [`ApiError`] names the job or the candidate and the value.
    pub async fn evaluate(&self, who: Option<Who>, request: pb::EvaluateRequest) -> Result<pb::EvaluateResponse, ApiError> {
        // Limits come before the wait for a turn: a request that is refused takes nobody's place.
        limit("candidates", request.candidates.len(), CANDIDATES_MAX)?;
        limit("jobs", request.jobs.len(), JOBS_MAX)?;
        let snapshot = self.snapshot().await?;
        let metrics = Arc::clone(self.metrics());
        let planned = self.planned();
        self.compute(who, move |cancel| {
            // The time is that of the work, without the wait for a turn.
            let began = Instant::now();
            let mut response = evaluate(&snapshot, &request, &planned, cancel)?;
            metrics.evaluated(began.elapsed());
            response.elapsed_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            Ok(response)
        })
        .await?
    }
}

/// Which of several places of jobs is best.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BestPlace {
    /// By index among the candidates.
    pub(crate) index: usize,
    /// What it is predicted to bring, in words.
    pub(crate) says: String,
}

impl Api {
    /// The place with the shortest predicted iterations, as [`Api::evaluate`] ranks places by time.
    ///
    /// # Errors
    /// [`ApiError`] names the job or the candidate and the value.
    pub(crate) async fn best_place(&self, docs: Vec<JobDoc>, candidates: CandidatesDoc) -> Result<BestPlace, ApiError> {
        let snapshot = self.snapshot().await?;
        let options = Options { objective: Objective::Time, predict: Predictions::Needed, ..self.planned() };
        self.compute_ranking(move |cancel| {
            let view = snapshot.fabric.as_ref().ok_or(state::Refusal::NoFabric)?;
            let round = Round::of(&snapshot, &view.fabric, docs, &candidates)?;
            let router = view.routing.router();
            let cluster = Cluster { fabric: &view.fabric, router: &router, jobs: &round.jobs, placements: &round.placements };
            let ranked = plan::rank_until(&cluster, &round.candidates, &options, cancel).map_err(ApiError::invalid)?;
            let best = ranked.first().ok_or_else(|| ApiError::invalid("no candidates"))?;
            let time = |e: &Evaluation| e.times.map(|times| times.interleaved);
            let first = ranked.iter().find(|e| e.index == 0).and_then(time);
            let worst = ranked.iter().filter_map(time).fold(None, |worst: Option<f64>, time| Some(worst.map_or(time, |w| w.max(time))));
            let says = match (time(best), first, worst) {
                (Some(time), Some(first), Some(worst)) => format!(
                    "place {} of {}: iterations of {time:.3} times alone (most compact {first:.3}, worst {worst:.3})",
                    best.index + 1,
                    ranked.len()
                ),
                _ => format!("place {} of {}", best.index + 1, ranked.len()),
            };
            Ok(BestPlace { index: best.index, says })
        })
        .await?
    }

    /// What a commit plans with.
    pub(super) fn planned(&self) -> Options {
        let config = self.config();
        Options {
            headroom_permille: config.plan.headroom_permille,
            control: config.control.unwrap_or_default().into(),
            turns_objective: config.objective.into(),
            ..Options::default()
        }
    }
}

/// Headroom, control and the objective of turns are `planned`, those with which a commit begins, so that an evaluation says what a commit will.
fn evaluate(
    snapshot: &Snapshot,
    request: &pb::EvaluateRequest,
    planned: &Options,
    cancel: &Cancel,
) -> Result<pb::EvaluateResponse, ApiError> {
    let view = snapshot.fabric.as_ref().ok_or(state::Refusal::NoFabric)?;
    let options = options(request, planned)?;
    let round = Round::read(snapshot, &view.fabric, request)?;
    let router = view.routing.router();
    let cluster = Cluster { fabric: &view.fabric, router: &router, jobs: &round.jobs, placements: &round.placements };
    let ranked = plan::rank_until(&cluster, &round.candidates, &options, cancel).map_err(ApiError::invalid)?;
    // Links and jobs of many candidates are millions of bytes: what nobody wants is not made.
    let mask = Mask::parse("EvaluateResponse", &request.fields).map_err(ApiError::invalid)?;
    let ranked = mask.inside("ranked").map(|mask| ranked.iter().map(|e| message(&cluster, e, request.explain, mask)).collect());
    let ranked = ranked.unwrap_or_default();
    Ok(pb::EvaluateResponse { ranked, fabric_version: view.version, plan_version: snapshot.plan_version, elapsed_us: 0 })
}

fn options(request: &pb::EvaluateRequest, planned: &Options) -> Result<Options, ApiError> {
    let objective = match pb::Objective::try_from(request.objective) {
        Ok(pb::Objective::Unspecified | pb::Objective::Score) => Objective::Score,
        Ok(pb::Objective::Time) => Objective::Time,
        Err(_) => return Err(ApiError::invalid(format!("objective: unknown value {}", request.objective))),
    };
    let predict = if request.predict { Predictions::Compared } else { Predictions::Needed };
    Ok(Options { mode: mode(request.mode)?, objective, predict, ..*planned })
}

/// Committed jobs and those of the request, with their placements, and the candidates.
struct Round {
    jobs: Vec<Job>,
    placements: Vec<Placement>,
    candidates: Vec<Candidate>,
}

impl Round {
    fn read(snapshot: &Snapshot, fabric: &fabric::Fabric, request: &pb::EvaluateRequest) -> Result<Self, ApiError> {
        let docs = request.jobs.iter().enumerate().map(|(i, spec)| resolve::document(i, spec).map_err(ApiError::invalid));
        Self::of(snapshot, fabric, docs.collect::<Result<_, _>>()?, &candidates(request)?)
    }

    /// Jobs that are not committed by their documents, beside those that are.
    fn of(snapshot: &Snapshot, fabric: &fabric::Fabric, jobs: Vec<JobDoc>, doc: &CandidatesDoc) -> Result<Self, ApiError> {
        // A job without hosts of its own takes its shape from the first candidate that places it.
        let elsewhere = |job: &str| doc.candidates.iter().find_map(|c| c.hosts.get(job)).map(Vec::as_slice);
        let mut reader = Reader::new(fabric, resolve::NO_FILES);
        let mut names = BTreeSet::new();
        for job in jobs {
            reader.job(&job, elsewhere(&job.id)).map_err(ApiError::invalid)?;
            names.insert(job.id);
        }
        // Committed jobs that a candidate moves are read again for their shape; the others stand as they are.
        let moved: BTreeSet<&String> = doc.candidates.iter().flat_map(|c| c.hosts.keys()).filter(|job| !names.contains(*job)).collect();
        for name in moved {
            // A name that is neither sent nor committed is left for the candidates' reader, which names it in its error.
            let Some(view) = snapshot.job(name) else { continue };
            let job = resolve::kept(name, &view.definition.document).map_err(|e| ApiError::new(super::Kind::Internal, &e))?;
            reader.job(&job, None).map_err(ApiError::invalid)?;
            names.insert(name.clone());
        }
        let candidates = if doc.candidates.is_empty() {
            vec![Candidate { id: AS_PLACED.into(), placements: Vec::new() }]
        } else {
            reader.candidates(doc).map_err(ApiError::invalid)?
        };
        let (mut jobs, mut placements) = reader.finish();
        // A commit of a job with the profile that was committed leaves it as it was measured.
        for job in &mut jobs {
            if let Some((measured, committed)) = snapshot.job(&job.name).and_then(|view| view.measured.as_ref())
                && job.has_profile_of(committed)
            {
                *job = job.as_measured(*measured);
            }
        }
        // All other committed jobs stand where they are: a candidate is judged against all that share its links.
        for view in snapshot.jobs.iter().filter(|view| !names.contains(&view.definition.job.name)) {
            jobs.push(view.as_held());
            placements.push(view.definition.placement.clone());
        }
        if jobs.is_empty() {
            return Err(ApiError::invalid("jobs: none given and none committed"));
        }
        Ok(Self { jobs, placements, candidates })
    }
}

fn candidates(request: &pb::EvaluateRequest) -> Result<CandidatesDoc, ApiError> {
    let mut out = Vec::with_capacity(request.candidates.len());
    for (i, candidate) in request.candidates.iter().enumerate() {
        let mut hosts = BTreeMap::new();
        for placement in &candidate.placements {
            if hosts.insert(placement.job.clone(), placement.hosts.clone()).is_some() {
                return Err(ApiError::invalid(format!("candidates[{i}].placements: job {:?} is placed twice", placement.job)));
            }
        }
        out.push(CandidateDoc { id: candidate.id.clone(), hosts });
    }
    Ok(CandidatesDoc { schema: CANDIDATES_SCHEMA.into(), candidates: out })
}

fn message(cluster: &Cluster<'_>, e: &Evaluation, explain: bool, mask: &Mask) -> pb::Evaluation {
    let name = |job: JobId| cluster.jobs[job.index()].name.clone();
    let (outcome, reason) = match &e.outcome {
        Outcome::Solved => (pb::Outcome::Solved, String::new()),
        Outcome::Loop { link, jobs } => {
            let (link, [a, b]) = (cluster.fabric.link_name(*link), jobs.map(name));
            (pb::Outcome::Loop, format!("jobs {a:?} and {b:?} close a loop at link {link}"))
        }
        Outcome::Unsolved { link, error } => {
            let at = link.map_or_else(String::new, |l| format!("link {}: ", cluster.fabric.link_name(l)));
            (pb::Outcome::Unsolved, format!("{at}{error}"))
        }
    };
    let solved = e.outcome == Outcome::Solved;
    let wants = |field: &str| mask.inside(field).is_some();
    let explanation = || e.explain(cluster).iter().take(LINES_MAX).map(ToString::to_string).collect();
    pb::Evaluation {
        id: e.id.clone(),
        index: e.index as u32,
        outcome: outcome.into(),
        reason,
        mean_score: e.scores.map(|s| s.score),
        zero_shift_mean_score: e.scores.map(|s| s.zero_shift_score),
        proven: e.scores.is_some_and(|s| s.proven),
        bound_gap: e.scores.map_or(0.0, |s| s.bound_gap),
        time_solo: e.times.map(|t| t.solo),
        time_contended: e.times.map(|t| t.contended),
        time_all_held: e.times.and_then(|t| t.all_held),
        time_interleaved: e.times.map(|t| t.interleaved),
        links: if wants("links") { links(cluster, e) } else { Vec::new() },
        shifts: if solved && wants("shifts") { shifts(cluster, e) } else { Vec::new() },
        explanation: if explain && wants("explanation") { explanation() } else { Vec::new() },
        shared_links: e.shared_links as u32,
        time_free: e.compared.map(|c| c.free.time),
        time_by_turns: e.compared.map(|c| c.turns.time),
        time_by_slots: e.compared.map(|c| c.slots.time),
        overlap_free: e.compared.map(|c| c.free.overlap),
        overlap_by_turns: e.compared.map(|c| c.turns.overlap),
        overlap_by_slots: e.compared.map(|c| c.slots.overlap),
    }
}

fn links(cluster: &Cluster<'_>, e: &Evaluation) -> Vec<pb::LinkScore> {
    let mut classes: Vec<_> = e.links().collect();
    classes.sort_by(|a, b| a.score.total_cmp(&b.score));
    let one = |class: &plan::LinkReport<'_>, link| pb::LinkScore {
        link: cluster.fabric.link_name(link),
        capacity_mbps: class.capacity.0,
        jobs: class.jobs.iter().map(|j| cluster.jobs[j.index()].name.clone()).collect(),
        score: class.score,
        zero_shift_score: class.zero_shift_score,
    };
    classes.iter().flat_map(|class| class.links.iter().map(move |link| one(class, *link))).take(LINKS_MAX).collect()
}

fn shifts(cluster: &Cluster<'_>, e: &Evaluation) -> Vec<pb::JobShift> {
    let one = |r: plan::JobReport| pb::JobShift {
        job: cluster.jobs[r.job.index()].name.clone(),
        shift_ns: r.shift.0,
        period_ns: cluster.jobs[r.job.index()].period.0,
        slack_ns: r.slack.0,
        hold: r.hold,
        solo_ns: r.times.map(|t| t.solo.0),
        contended_ns: r.times.map(|t| t.contended.0),
        all_held_ns: r.times.and_then(|t| t.all_held).map(|held| held.time.0),
        interleaved_ns: r.interleaved.map(|t| t.0),
        turns: r.turns,
        free_ns: r.compared.map(|c| c.free.0),
        by_turns_ns: r.compared.map(|c| c.turns.0),
        by_slots_ns: r.compared.map(|c| c.slots.0),
    };
    e.jobs(cluster).into_iter().map(one).collect()
}
