//! `antiphase.plan/v1`: the ranking as JSON.

use plan::{ByControl, Control, ControlMean, Evaluation, Outcome};
use serde::Serialize;

use super::{Ranking, tables::certainty};
use crate::{input::CliError, output};

#[derive(Serialize)]
struct PlanDoc<'a> {
    schema: &'static str,
    fabric: &'a str,
    mode: &'static str,
    objective: &'static str,
    control: &'static str,
    /// Best first.
    candidates: Vec<CandidateDoc<'a>>,
    elapsed_us: u64,
}

#[derive(Serialize)]
struct CandidateDoc<'a> {
    id: &'a str,
    outcome: &'static str,
    /// Why it was not solved, or how sure the score is.
    certainty: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    true_mean_score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zero_shift_mean_score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    robust_mean_score: Option<f64>,
    /// `robust_mean_score` is only a bound; the worst mean score may be better.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    robust_is_bound: bool,
    proven: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_gap: Option<f64>,
    /// GPU-weighted iteration time over the declared period.
    #[serde(skip_serializing_if = "Option::is_none")]
    relative_time: Option<TimesDoc>,
    /// The share of the time in use in which shared links are above capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<ByControlDoc>,
    shared_links: usize,
    /// Shared links on which all jobs fit whatever their shifts.
    never_overloaded_links: usize,
    loops: usize,
    /// Links that can be over capacity.
    links: Vec<LinkDoc<'a>>,
    jobs: Vec<JobDoc<'a>>,
    explanation: Vec<String>,
}

#[derive(Serialize)]
struct TimesDoc {
    solo: f64,
    /// Begun together where slots are the control, and else anywhere, so that it can be compared with `interleaved`.
    contended: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    all_held: Option<f64>,
    /// Under the control.
    interleaved: f64,
    #[serde(flatten)]
    compared: Option<ByControlDoc>,
}

/// Predicted by the same runs, in which jobs that nobody holds begin anywhere.
#[derive(Serialize)]
struct ByControlDoc {
    free: f64,
    by_turns: f64,
    by_slots: f64,
}

impl ByControlDoc {
    fn new(compared: ByControl<ControlMean>, of: fn(ControlMean) -> f64) -> Self {
        let ByControl { free, turns, slots } = compared.map(of);
        Self { free, by_turns: turns, by_slots: slots }
    }
}

#[derive(Serialize)]
struct LinkDoc<'a> {
    /// All links with these jobs and demands.
    links: Vec<String>,
    capacity_mbps: u64,
    jobs: Vec<&'a str>,
    score: f64,
    true_score: f64,
    zero_shift_score: f64,
    /// The scores may be off by `uncertainty`.
    approximate: bool,
    /// How far the scores may be off, either way; 0 where they are exact.
    uncertainty: f64,
}

#[derive(Serialize)]
struct JobDoc<'a> {
    job: &'a str,
    period_ns: u64,
    shift_ns: u64,
    slack_ns: u64,
    lock_ns: u64,
    meets_others: bool,
    /// Whether the job is to be held to its shift: with those of its coupled groups that are held, all together gain so.
    hold: bool,
    /// Whether the job takes turns with others.
    turns: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    solo_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contended_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    all_held_ns: Option<u64>,
    /// Predicted under the control: exactly the jobs with `hold` are held, or those with `turns` take turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    interleaved_ns: Option<u64>,
    /// As the jobs come, by turns and by slots, predicted by the same runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_turns_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by_slots_ns: Option<u64>,
}

pub(super) fn json(ranking: &Ranking<'_>) -> Result<String, CliError> {
    let doc = PlanDoc {
        schema: "antiphase.plan/v1",
        fabric: ranking.cluster.fabric.name(),
        mode: match ranking.options.mode {
            circle::Mode::Exact => "exact",
            circle::Mode::Cassini => "cassini",
        },
        objective: match ranking.options.objective {
            plan::Objective::Score => "score",
            plan::Objective::Time => "time",
            plan::Objective::Quiet => "quiet",
        },
        control: match ranking.options.control {
            Control::Turns => "turns",
            Control::Slots => "slots",
            Control::Observe => "observe",
        },
        candidates: ranking.evaluations.iter().map(|e| candidate(ranking, e)).collect(),
        elapsed_us: u64::try_from(ranking.elapsed.as_micros()).unwrap_or(u64::MAX),
    };
    output::json(&doc)
}

fn candidate<'a>(ranking: &Ranking<'a>, e: &'a Evaluation) -> CandidateDoc<'a> {
    let name = |j: units::JobId| &ranking.cluster.jobs[j.index()].name[..];
    let links = e.links().map(|l| LinkDoc {
        links: l.links.iter().map(|&id| ranking.cluster.fabric.link_name(id)).collect(),
        capacity_mbps: l.capacity.0,
        jobs: l.jobs.iter().map(|&j| name(j)).collect(),
        score: l.score,
        true_score: l.true_score,
        zero_shift_score: l.zero_shift_score,
        approximate: l.uncertainty > 0.0,
        uncertainty: l.uncertainty,
    });
    let jobs = e.jobs(&ranking.cluster).into_iter().map(|r| JobDoc {
        job: name(r.job),
        period_ns: ranking.cluster.jobs[r.job.index()].period.0,
        shift_ns: r.shift.0,
        slack_ns: r.slack.0,
        lock_ns: r.lock.0,
        meets_others: r.meets_others,
        hold: r.hold,
        turns: r.turns,
        solo_ns: r.times.map(|t| t.solo.0),
        contended_ns: r.times.map(|t| t.contended.0),
        all_held_ns: r.times.and_then(|t| t.all_held).map(|held| held.time.0),
        interleaved_ns: r.interleaved.map(|t| t.0),
        free_ns: r.compared.map(|c| c.free.0),
        by_turns_ns: r.compared.map(|c| c.turns.0),
        by_slots_ns: r.compared.map(|c| c.slots.0),
    });
    let solved = e.outcome == Outcome::Solved;
    CandidateDoc {
        id: &e.id,
        outcome: match e.outcome {
            Outcome::Solved => "solved",
            Outcome::Loop { .. } => "loop",
            Outcome::Unsolved { .. } => "unsolved",
        },
        certainty: certainty(e, ranking.options.mode),
        // A score that does not exist is left out of the document: a 0 would be a score.
        mean_score: e.scores.map(|s| s.score),
        true_mean_score: e.scores.map(|s| s.true_score),
        zero_shift_mean_score: e.scores.map(|s| s.zero_shift_score),
        robust_mean_score: e.scores.and_then(|s| s.robust_score),
        robust_is_bound: e.scores.is_some_and(|s| s.robust_is_bound),
        proven: e.scores.is_some_and(|s| s.proven),
        bound_gap: e.scores.map(|s| s.bound_gap),
        relative_time: e.times.map(|t| TimesDoc {
            solo: t.solo,
            contended: t.contended,
            all_held: t.all_held,
            interleaved: t.interleaved,
            compared: e.compared.map(|c| ByControlDoc::new(c, |m| m.time)),
        }),
        overlap: e.compared.map(|c| ByControlDoc::new(c, |m| m.overlap)),
        shared_links: e.shared_links,
        never_overloaded_links: e.never_overloaded_links,
        loops: e.affinity.loops,
        links: links.collect(),
        // A candidate that was not solved has no shifts.
        jobs: if solved { jobs.collect() } else { Vec::new() },
        explanation: e.explain(&ranking.cluster).iter().map(ToString::to_string).collect(),
    }
}
