//! The scenario document: what `antiphase solve` reads and what it prints.
//!
//! `antiphase.scenario/v1` in, `antiphase.solution/v1` out; the same documents travel over HTTP.
//! Integers only; unknown fields are errors, except `expect`, which carries test data.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, SeqAccess, Visitor},
};

use units::OneLine;

use crate::{
    JOBS_MAX, JobId, LINKS_MAX, Member, Mode, Options, Outcome, Phase, Problem, ProblemBuilder, Rate, Solution, Ticks,
    pad::{PadDecision, Padding},
};

/// The schema name of a scenario.
pub const SCENARIO_SCHEMA: &str = "antiphase.scenario/v1";
/// The schema name of a solution.
pub const SOLUTION_SCHEMA: &str = "antiphase.solution/v1";
/// Longest tick: one second. Longer ticks are a unit mistake.
pub const TICK_NS_MAX: u64 = 1_000_000_000;

/// What is wrong with a scenario: where, and which value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", OneLine(place), OneLine(problem))]
pub struct ScenarioError {
    /// Line and column, or the path of the key.
    pub place: String,
    /// What is wrong, with the value.
    pub problem: String,
}

fn error(place: impl fmt::Display, problem: impl fmt::Display) -> ScenarioError {
    ScenarioError { place: place.to_string(), problem: problem.to_string() }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioDoc {
    schema: String,
    tick_ns: u64,
    #[serde(deserialize_with = "at_most::<_, _, LINKS_MAX>")]
    links: Vec<LinkDoc>,
    #[serde(deserialize_with = "at_most::<_, _, JOBS_MAX>")]
    jobs: Vec<JobDoc>,
    #[serde(default, rename = "expect")]
    _expect: Option<IgnoredAny>,
}

/// A list that is refused at its first entry too many, not after the rest has been read.
fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct Entries<T, const MAX: usize>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Entries<T, MAX> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let mut out = Vec::new();
            while let Some(entry) = entries.next_element()? {
                // The check stands before the push, so a hostile document costs the memory of one entry too many at most.
                if out.len() == MAX {
                    return Err(serde::de::Error::custom(format!("more than {MAX} entries")));
                }
                out.push(entry);
            }
            Ok(out)
        }
    }
    deserializer.deserialize_seq(Entries::<T, MAX>(PhantomData))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkDoc {
    id: String,
    capacity_mbps: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobDoc {
    id: String,
    period_ticks: u64,
    links: Vec<String>,
    #[serde(default)]
    phases: Option<Vec<PhaseDoc>>,
    #[serde(default)]
    demand: Option<BTreeMap<String, Vec<PhaseDoc>>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseDoc {
    start: u64,
    end: u64,
    rate_mbps: u64,
}

/// A scenario: a [`Problem`] and the names of its jobs and links.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Length of one tick in nanoseconds.
    pub tick_ns: u64,
    /// Job names, by job id.
    pub jobs: Vec<String>,
    /// Link names, by link id.
    pub links: Vec<String>,
    /// The mathematics.
    pub problem: Problem,
}

impl Scenario {
    /// Reads a scenario document.
    ///
    /// # Errors
    /// [`ScenarioError`] names the place and the value.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = strict::read(&mut reader).and_then(|doc: ScenarioDoc| reader.end().map(|()| doc));
        let doc = read.map_err(|e| {
            let full = e.to_string();
            // The message of serde_json ends with the place; an error of ours begins with it.
            let problem = full.rsplit_once(" at line ").map_or(full.as_str(), |m| m.0);
            error(format!("line {}, column {}", e.line(), e.column()), problem)
        })?;
        if doc.schema != SCENARIO_SCHEMA {
            return Err(error("schema", format!("{:?}; this program reads {SCENARIO_SCHEMA:?}", doc.schema)));
        }
        if doc.tick_ns == 0 || doc.tick_ns > TICK_NS_MAX {
            return Err(error("tick_ns", format!("{}; must be 1 to {TICK_NS_MAX}", doc.tick_ns)));
        }
        Reader::default().read(doc)
    }

    /// The job of that name.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<JobId> {
        self.jobs.iter().position(|j| j == name).and_then(JobId::from_index)
    }
}

#[derive(Default)]
struct Reader {
    builder: ProblemBuilder,
    link_index: BTreeMap<String, usize>,
    members: Vec<Vec<Member>>,
}

impl Reader {
    fn read(mut self, doc: ScenarioDoc) -> Result<Scenario, ScenarioError> {
        // Links are numbered before any job is read, because jobs refer to links by name.
        for (i, link) in doc.links.iter().enumerate() {
            if self.link_index.insert(link.id.clone(), i).is_some() {
                return Err(error(format!("links[{i}].id"), format!("{:?} appears twice", link.id)));
            }
        }
        self.members = alloc::vec![Vec::new(); doc.links.len()];
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for (i, job) in doc.jobs.iter().enumerate() {
            let at = format!("jobs[{i}]");
            if let Some(first) = names.insert(&job.id, i) {
                return Err(error(format!("{at}.id"), format!("{:?} is also jobs[{first}]", job.id)));
            }
            self.job(&at, job)?;
        }
        // Links enter the builder last, because only now all their members are known. Link `i` gets the id `i`.
        for (i, (link, members)) in doc.links.iter().zip(core::mem::take(&mut self.members)).enumerate() {
            self.builder.link(Rate(link.capacity_mbps), members).map_err(|e| error(format!("links[{i}] ({:?})", link.id), e))?;
        }
        Ok(Scenario {
            tick_ns: doc.tick_ns,
            jobs: doc.jobs.into_iter().map(|j| j.id).collect(),
            links: doc.links.into_iter().map(|l| l.id).collect(),
            problem: self.builder.build(),
        })
    }

    fn job(&mut self, at: &str, job: &JobDoc) -> Result<(), ScenarioError> {
        let at = format!("{at} ({:?})", job.id);
        let id = self.builder.job(Ticks(job.period_ticks)).map_err(|e| error(format!("{at}.period_ticks"), e))?;
        let per_link = match (&job.phases, &job.demand) {
            (Some(_), Some(_)) => return Err(error(&at, "gives both phases and demand; give one")),
            (None, None) => return Err(error(&at, "gives neither phases nor demand")),
            (Some(phases), None) => {
                // One demand serves all links of the job; equal ids let equal links merge later (docs/model.md, section 7).
                let member = self.demand(id, phases, &format!("{at}.phases"))?;
                for (i, link) in job.links.iter().enumerate() {
                    self.join(link, member, &format!("{at}.links[{i}]"))?;
                }
                return Ok(());
            }
            (None, Some(demand)) => demand,
        };
        for (i, link) in job.links.iter().enumerate() {
            let place = format!("{at}.links[{i}]");
            // The name is checked first: of a misspelt link, missing phases would be the wrong complaint.
            self.link(link, &place)?;
            let Some(phases) = per_link.get(link) else {
                return Err(error(format!("{at}.demand"), format!("no phases for link {link:?}")));
            };
            let member = self.demand(id, phases, &format!("{at}.demand[{link:?}]"))?;
            self.join(link, member, &place)?;
        }
        // Phases of a link that the job does not cross are mostly a misspelt name; without this check they would be lost.
        // Each of the job's links was found there, once, so only a longer list has one more.
        if per_link.len() == job.links.len() {
            return Ok(());
        }
        let links: BTreeSet<&String> = job.links.iter().collect();
        match per_link.keys().find(|link| !links.contains(link)) {
            Some(extra) => Err(error(format!("{at}.demand"), format!("link {extra:?} is not among the job's links"))),
            None => Ok(()),
        }
    }

    /// Puts a job on a link; it names each of its links once.
    fn join(&mut self, link: &str, member: Member, at: &str) -> Result<(), ScenarioError> {
        let members = self.link(link, at)?;
        let members = &mut self.members[members];
        // Jobs are read one after the other, so a second mention is the latest member.
        if members.last().is_some_and(|m| m.job == member.job) {
            return Err(error(at, format!("link {link:?} appears twice")));
        }
        members.push(member);
        Ok(())
    }

    fn link(&self, name: &str, at: &str) -> Result<usize, ScenarioError> {
        self.link_index.get(name).copied().ok_or_else(|| error(at, format!("unknown link {name:?}")))
    }

    fn demand(&mut self, id: JobId, phases: &[PhaseDoc], at: &str) -> Result<Member, ScenarioError> {
        let phases: Vec<Phase> =
            phases.iter().map(|p| Phase { start: Ticks(p.start), end: Ticks(p.end), rate: Rate(p.rate_mbps) }).collect();
        self.builder.demand(id, &phases).map_err(|e| error(at, e))
    }
}

/// A solution document; fields in the order in which they are printed.
#[derive(Clone, Debug, Serialize)]
pub struct SolutionDoc {
    /// [`SOLUTION_SCHEMA`].
    pub schema: &'static str,
    /// `exact` or `cassini`.
    pub mode: &'static str,
    /// `solved`, `evaluated` or `loop`.
    pub outcome: &'static str,
    /// Mean score over links that two or more jobs cross.
    pub mean_score: f64,
    /// The same when no job is shifted.
    pub zero_shift_mean_score: f64,
    /// Robust mode: worst mean score while one job drifts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robust_mean_score: Option<f64>,
    /// Robust mode: `robust_mean_score` is only a bound; the worst mean score may be better.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub robust_is_bound: bool,
    /// How sure the answer is.
    pub optimality: OptimalityDoc,
    /// What was stretched to get this answer; absent unless padding was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding: Option<PaddingDoc>,
    /// Every link of the scenario.
    pub links: Vec<LinkScoreDoc>,
    /// Every job; empty on a loop in paper mode.
    pub shifts: Vec<ShiftDoc>,
    /// Shape of the affinity graph.
    pub affinity: AffinityDoc,
    /// Time to solve, without reading and printing.
    pub elapsed_us: u64,
}

/// See [`crate::Optimality`].
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "the same fields as the type it prints")]
pub struct OptimalityDoc {
    pub proven: bool,
    pub bound_gap: f64,
}

/// See [`crate::pad::PadDecision`]. Shifts, locks and scores of the document are those of the stretched periods.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the same fields as the type it prints")]
pub struct PaddingDoc {
    pub jobs: Vec<PaddedJobDoc>,
    pub price: f64,
    pub saving: f64,
    /// The mean score without padding.
    pub unpadded_mean_score: f64,
}

/// See [`crate::pad::Padding`].
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the same fields as the type it prints")]
pub struct PaddedJobDoc {
    pub job: String,
    pub period_ticks: u64,
    pub padded_ticks: u64,
}

impl PaddingDoc {
    /// What padding decided about the jobs of `scenario`.
    #[must_use]
    pub fn new(scenario: &Scenario, decision: &PadDecision) -> Self {
        let job =
            |p: &Padding| PaddedJobDoc { job: scenario.jobs[p.job.index()].clone(), period_ticks: p.period.0, padded_ticks: p.padded.0 };
        Self {
            jobs: decision.paddings.iter().map(job).collect(),
            price: decision.price,
            saving: decision.saving,
            unpadded_mean_score: decision.before.mean_score,
        }
    }
}

/// See [`crate::LinkScore`].
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the same fields as the type it prints")]
pub struct LinkScoreDoc {
    pub id: String,
    pub jobs: Vec<String>,
    pub score: f64,
    /// Paper mode only: the exact score of the same shifts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub true_score: Option<f64>,
    pub zero_shift_score: f64,
    /// The scores may be off by `uncertainty`; absent where they are exact.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub approximate: bool,
    /// How far the scores may be off, either way; absent where they are exact.
    #[serde(skip_serializing_if = "is_zero")]
    pub uncertainty: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(uncertainty: &f64) -> bool {
    // Exact scores have an uncertainty of exactly 0, so no tolerance is meant here.
    *uncertainty == 0.0
}

/// See [`crate::JobShift`].
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "the same fields as the type it prints")]
pub struct ShiftDoc {
    pub job: String,
    pub shift_ticks: u64,
    /// Null in paper mode, which knows no slack.
    pub slack_ticks: Option<u64>,
    pub lock_ticks: u64,
}

/// See [`crate::Affinity`].
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "the same fields as the type it prints")]
pub struct AffinityDoc {
    pub components: usize,
    pub loops: usize,
    pub merged_links: usize,
}

impl SolutionDoc {
    /// The document of a solution to `scenario`.
    #[must_use]
    pub fn new(scenario: &Scenario, options: &Options, solution: &Solution, elapsed_us: u64) -> Self {
        let cassini = options.mode == Mode::Cassini;
        Self {
            schema: SOLUTION_SCHEMA,
            mode: if cassini { "cassini" } else { "exact" },
            outcome: match solution.outcome {
                Outcome::Solved => "solved",
                Outcome::Evaluated => "evaluated",
                Outcome::Loop => "loop",
            },
            mean_score: solution.mean_score,
            zero_shift_mean_score: solution.zero_shift_mean_score,
            robust_mean_score: solution.robust.map(|r| r.mean_score),
            robust_is_bound: solution.robust.is_some_and(|r| !r.exact),
            optimality: OptimalityDoc { proven: solution.optimality.proven, bound_gap: solution.optimality.bound_gap },
            padding: None,
            links: solution
                .links
                .iter()
                .map(|l| LinkScoreDoc {
                    id: scenario.links[l.link.index()].clone(),
                    jobs: scenario.problem.links()[l.link.index()].members.iter().map(|m| scenario.jobs[m.job.index()].clone()).collect(),
                    score: l.score,
                    // In exact mode both scores are the same number (`View::report`), so the document holds only one of them.
                    true_score: cassini.then_some(l.true_score),
                    zero_shift_score: l.zero_shift_score,
                    approximate: l.is_approximate(),
                    uncertainty: l.uncertainty,
                })
                .collect(),
            shifts: solution
                .shifts
                .iter()
                .map(|s| ShiftDoc {
                    job: scenario.jobs[s.job.index()].clone(),
                    shift_ticks: s.shift.0,
                    slack_ticks: (!cassini).then_some(s.slack.0),
                    lock_ticks: s.lock.0,
                })
                .collect(),
            affinity: AffinityDoc {
                components: solution.affinity.components,
                loops: solution.affinity.loops,
                merged_links: solution.affinity.merged_links,
            },
            elapsed_us,
        }
    }
}
