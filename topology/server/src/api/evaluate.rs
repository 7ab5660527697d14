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

use super::{Api, ApiError, limit, solve::mode, weight::Weight};
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
    /// Ranks candidates, when it is this caller's turn. `write` makes of the answer what goes out, on the thread that computed it.
    ///
    /// # Errors
    /// [`ApiError`] names the job or the candidate and the value.
    pub async fn evaluate<T: Send + 'static>(
        &self,
        who: Option<Who>,
        request: pb::EvaluateRequest,
        write: impl FnOnce(pb::EvaluateResponse) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let metrics = Arc::clone(self.metrics());
        self.rank(who, request, move |ranked| {
            let mut response = ranked.answer()?;
            metrics.evaluated(ranked.began.elapsed());
            response.elapsed_us = u64::try_from(ranked.began.elapsed().as_micros()).unwrap_or(u64::MAX);
            write(response)
        })
        .await
    }

    /// By how much the predicted iterations of all jobs are longer than alone, in sum and in iterations of one, for each candidate by its
    /// name. Nothing else of the answer is made: of a thousand nodes and ten thousand jobs it would be gigabytes.
    ///
    /// # Errors
    /// As [`Api::evaluate`]; or no times are predicted for a candidate.
    pub(crate) async fn losses(&self, who: Option<Who>, request: pb::EvaluateRequest) -> Result<BTreeMap<String, f64>, ApiError> {
        let losses = |ranked: &Ranked<'_>| {
            let one = |e: &Evaluation| {
                let unknown = || ApiError::invalid(format!("node {:?}: no times are predicted {}", e.id, outcome(ranked.cluster, e).1));
                Ok((e.id.clone(), loss(ranked.cluster, e).ok_or_else(unknown)?))
            };
            ranked.evaluations.iter().map(one).collect()
        };
        self.rank(who, request, losses).await
    }

    async fn rank<T: Send + 'static>(
        &self,
        who: Option<Who>,
        request: pb::EvaluateRequest,
        tell: impl FnOnce(&Ranked<'_>) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        // Limits come before the wait for a turn: a request that is refused takes nobody's place.
        limit("candidates", request.candidates.len(), CANDIDATES_MAX)?;
        limit("jobs", request.jobs.len(), JOBS_MAX)?;
        let snapshot = self.snapshot().await?;
        let planned = self.planned();
        self.compute(who, move |cancel| rank(&snapshot, &request, &planned, cancel, tell)).await?
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

/// Candidates that were ranked, and on what.
struct Ranked<'a> {
    request: &'a pb::EvaluateRequest,
    cluster: &'a Cluster<'a>,
    evaluations: Vec<Evaluation>,
    fabric_version: u64,
    plan_version: u64,
    /// When the work began, without the wait for a turn.
    began: Instant,
}

/// Headroom, control and the objective of turns are `planned`, those with which a commit begins, so that an evaluation says what a commit will.
fn rank<T>(
    snapshot: &Snapshot,
    request: &pb::EvaluateRequest,
    planned: &Options,
    cancel: &Cancel,
    tell: impl FnOnce(&Ranked<'_>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let began = Instant::now();
    let view = snapshot.fabric.as_ref().ok_or(state::Refusal::NoFabric)?;
    let options = options(request, planned)?;
    let round = Round::read(snapshot, &view.fabric, request)?;
    let router = view.routing.router();
    let cluster = Cluster { fabric: &view.fabric, router: &router, jobs: &round.jobs, placements: &round.placements };
    let evaluations = plan::rank_until(&cluster, &round.candidates, &options, cancel).map_err(ApiError::invalid)?;
    let (fabric_version, plan_version) = (view.version, snapshot.plan_version);
    tell(&Ranked { request, cluster: &cluster, evaluations, fabric_version, plan_version, began })
}

impl Ranked<'_> {
    fn answer(&self) -> Result<pb::EvaluateResponse, ApiError> {
        // Links and jobs of many candidates are millions of bytes: what nobody wants is not made.
        let mask = Mask::parse("EvaluateResponse", &self.request.fields).map_err(ApiError::invalid)?;
        let mut weight = Weight::new(!mask.is_all());
        let all = self.evaluations.len();
        let mut ranked = Vec::new();
        if let Some(mask) = mask.inside("ranked") {
            for (i, e) in self.evaluations.iter().enumerate() {
                let place = format!("candidate {} of {all}", i + 1);
                ranked.push(message(self.cluster, e, self.request.explain, mask, &mut weight, &place)?);
            }
        }
        Ok(pb::EvaluateResponse { ranked, fabric_version: self.fabric_version, plan_version: self.plan_version, elapsed_us: 0 })
    }
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

/// By how much the predicted iterations of all jobs are longer than alone, in sum.
fn loss(cluster: &Cluster<'_>, e: &Evaluation) -> Option<f64> {
    let of = |job: plan::JobReport| {
        let solo = job.times?.solo.0;
        (solo > 0).then_some(job.interleaved?.0 as f64 / solo as f64 - 1.0)
    };
    e.times?;
    (e.outcome == Outcome::Solved).then(|| e.jobs(cluster).into_iter().map(of).sum())?
}

fn outcome(cluster: &Cluster<'_>, e: &Evaluation) -> (pb::Outcome, String) {
    match &e.outcome {
        Outcome::Solved => (pb::Outcome::Solved, String::new()),
        Outcome::Loop { link, jobs } => {
            let (link, [a, b]) = (cluster.fabric.link_name(*link), jobs.map(|job| &cluster.jobs[job.index()].name));
            (pb::Outcome::Loop, format!("jobs {a:?} and {b:?} close a loop at link {link}"))
        }
        Outcome::Unsolved { link, error } => {
            let at = link.map_or_else(String::new, |l| format!("link {}: ", cluster.fabric.link_name(l)));
            (pb::Outcome::Unsolved, format!("{at}{error}"))
        }
    }
}

fn message(
    cluster: &Cluster<'_>,
    e: &Evaluation,
    explain: bool,
    mask: &Mask,
    weight: &mut Weight,
    place: &str,
) -> Result<pb::Evaluation, ApiError> {
    weight.add([e.id.as_str()], &place)?;
    let (outcome, reason) = outcome(cluster, e);
    let solved = e.outcome == Outcome::Solved;
    let wants = |field: &str| mask.inside(field).is_some();
    let links = if wants("links") { links(cluster, e, weight, place)? } else { Vec::new() };
    let shifts = if solved && wants("shifts") { shifts(cluster, e, weight, place)? } else { Vec::new() };
    let explanation = if explain && wants("explanation") { explanation(cluster, e, weight, place)? } else { Vec::new() };
    Ok(pb::Evaluation {
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
        links,
        shifts,
        explanation,
        shared_links: e.shared_links as u32,
        time_free: e.compared.map(|c| c.free.time),
        time_by_turns: e.compared.map(|c| c.turns.time),
        time_by_slots: e.compared.map(|c| c.slots.time),
        overlap_free: e.compared.map(|c| c.free.overlap),
        overlap_by_turns: e.compared.map(|c| c.turns.overlap),
        overlap_by_slots: e.compared.map(|c| c.slots.overlap),
    })
}

fn explanation(cluster: &Cluster<'_>, e: &Evaluation, weight: &mut Weight, place: &str) -> Result<Vec<String>, ApiError> {
    let lines = e.explain(cluster);
    let one = |line: &plan::Explanation| {
        let line = line.to_string();
        weight.add([line.as_str()], &place).map(|()| line)
    };
    lines.iter().take(LINES_MAX).map(one).collect()
}

fn links(cluster: &Cluster<'_>, e: &Evaluation, weight: &mut Weight, place: &str) -> Result<Vec<pb::LinkScore>, ApiError> {
    let mut classes: Vec<_> = e.links().collect();
    classes.sort_by(|a, b| a.score.total_cmp(&b.score));
    let mut one = |(class, link): (&plan::LinkReport<'_>, _)| {
        let link = cluster.fabric.link_name(link);
        // All jobs of a class stand at each of its links.
        let jobs = || class.jobs.iter().map(|job| cluster.jobs[job.index()].name.as_str());
        weight.add(jobs().chain([link.as_str()]), &place)?;
        let jobs = jobs().map(str::to_owned).collect();
        Ok(pb::LinkScore { link, capacity_mbps: class.capacity.0, jobs, score: class.score, zero_shift_score: class.zero_shift_score })
    };
    let all = classes.iter().flat_map(|class| class.links.iter().map(move |link| (class, *link)));
    all.take(LINKS_MAX).map(&mut one).collect()
}

fn shifts(cluster: &Cluster<'_>, e: &Evaluation, weight: &mut Weight, place: &str) -> Result<Vec<pb::JobShift>, ApiError> {
    let mut one = |r: plan::JobReport| {
        let job = &cluster.jobs[r.job.index()].name;
        weight.add([job.as_str()], &place)?;
        Ok(pb::JobShift {
            job: job.clone(),
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
        })
    };
    e.jobs(cluster).into_iter().map(&mut one).collect()
}
