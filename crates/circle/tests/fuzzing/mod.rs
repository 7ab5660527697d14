//! Random small documents, every claim of their answers, and the oracles that the claims are held against.
//!
//! Shared by the slice in `tests/fuzz.rs` and by the fuzzer in `examples/fuzz.rs`.
#![allow(dead_code, unreachable_pub, reason = "the slice and the fuzzer each use their part")]

pub mod checks;
#[path = "../oracle/fast.rs"]
pub mod fast;
#[path = "../oracle/folded.rs"]
pub mod folded;
pub mod kinds;
pub mod shrink;
pub mod truth;

use std::{fmt, sync::Once};

use antiphase_circle::{Effort, JobId, Member, Phase, Problem, ProblemBuilder, ProblemError, Rate, Ticks};

use super::oracle;
use oracle::{Instance, Phases};

/// A document and what is asked of it.
#[derive(Clone, Debug)]
pub struct Case {
    pub instance: Instance,
    pub effort: Effort,
    /// Drift in robust mode.
    pub robust: Option<u64>,
    /// Shifts of the running jobs, where [`antiphase_circle::adjust`] is asked too.
    pub current: Option<Vec<Option<u64>>>,
    /// Shifts for [`antiphase_circle::evaluate`].
    pub evaluated: Vec<u64>,
}

impl Case {
    /// A document of which only [`antiphase_circle::solve`] is asked.
    pub fn of(instance: Instance) -> Self {
        let evaluated = vec![0; instance.periods.len()];
        Self { instance, effort: Effort::Thorough, robust: None, current: None, evaluated }
    }

    /// The document as the crate reads it.
    ///
    /// # Errors
    /// What [`ProblemBuilder`] refuses.
    pub fn problem(&self) -> Result<Problem, ProblemError> {
        let mut b = ProblemBuilder::new();
        for &t in &self.instance.periods {
            b.job(Ticks(t))?;
        }
        let phases = |from: &Phases| -> Vec<Phase> {
            from.iter().map(|&(s, e, r)| Phase { start: Ticks(s), end: Ticks(e), rate: Rate(r) }).collect()
        };
        for (capacity, members) in &self.instance.links {
            let members =
                members.iter().map(|(j, p)| b.demand(JobId(*j as u32), &phases(p))).collect::<Result<Vec<Member>, ProblemError>>()?;
            b.link(Rate(*capacity), members)?;
        }
        Ok(b.build())
    }

    /// How much there is to read, for finding the smallest: first jobs, then links, then phases, then ticks and rates.
    pub fn size(&self) -> u64 {
        let phases = self.instance.links.iter().flat_map(|l| &l.1).map(|m| &m.1);
        let lengths: u64 = phases.clone().flatten().map(|p| p.1 - p.0 + p.2.min(1_000)).sum();
        let members: usize = self.instance.links.iter().map(|l| l.1.len()).sum();
        let parts = 100 * self.instance.periods.len() + 20 * self.instance.links.len() + 10 * members + 5 * phases.flatten().count();
        10_000 * parts as u64 + lengths + self.instance.periods.iter().sum::<u64>().min(1_000_000)
    }
}

impl fmt::Display for Case {
    /// The document, and on a second line what is asked beside the plain solution.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.instance.scenario())?;
        write!(f, "effort {:?}", self.effort)?;
        if let Some(drift) = self.robust {
            write!(f, ", robust against {drift} ticks")?;
        }
        if let Some(current) = &self.current {
            write!(f, ", adjusted from {current:?}")?;
        }
        write!(f, ", evaluated at {:?}", self.evaluated)
    }
}

/// What an answer claims. Each has a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// There is an answer, not a panic or an error.
    Answer,
    /// Shifts below the period, slacks of at most half of it, a gap that is a number.
    Form,
    /// A gap of 0 where proven.
    NoGapWhereProven,
    Score,
    ZeroShiftScore,
    MeanScore,
    NotWorseThanZeroShift,
    Proof,
    Gap,
    Slack,
    Lock,
    RobustWorst,
    RobustProof,
    RobustGap,
    RobustPlainGap,
    AdjustBest,
    AdjustMoved,
    AdjustProof,
    AdjustGap,
    Evaluate,
    /// Not a claim of the answer but an expectation: it is hardly below what a simple search finds.
    Quality,
}

impl Claim {
    /// The name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answer => "no answer",
            Self::Form => "ill-formed answer",
            Self::NoGapWhereProven => "a gap though proven",
            Self::Score => "false score",
            Self::ZeroShiftScore => "false zero-shift score",
            Self::MeanScore => "false mean score",
            Self::NotWorseThanZeroShift => "worse than no shifts",
            Self::Proof => "false proof",
            Self::Gap => "false gap",
            Self::Slack => "false slack",
            Self::Lock => "false lock",
            Self::RobustWorst => "false worst case",
            Self::RobustProof => "false robust proof",
            Self::RobustGap => "false robust gap",
            Self::RobustPlainGap => "false plain gap of robust mode",
            Self::AdjustBest => "adjust below its best score",
            Self::AdjustMoved => "adjust moved without saying so",
            Self::AdjustProof => "false proof of adjust",
            Self::AdjustGap => "false gap of adjust",
            Self::Evaluate => "false score of evaluate",
            Self::Quality => "score far below the best known",
        }
    }
}

/// A claim that does not hold: what was claimed and what is true.
#[derive(Clone, Debug)]
pub struct Failure {
    pub claim: Claim,
    pub text: String,
}

/// What the checks of one case found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub failures: Vec<Failure>,
    /// The solution was said to be optimal.
    pub proven: bool,
    /// Shifts were adjusted too, and the result was said to be optimal.
    pub adjusted_proven: bool,
    /// Links marked approximate, whose scores were not compared.
    pub approximate: u64,
    /// The optimum is known, not only estimated.
    pub exhaustive: bool,
    /// The solution is below the optimum, or the best estimate of it.
    pub missed: bool,
}

impl Findings {
    pub fn fail(&mut self, claim: Claim, text: String) {
        self.failures.push(Failure { claim, text });
    }
}

/// Checks a case; a panic of the crate is a finding.
pub fn check(case: &Case) -> Findings {
    // The message of a panic is in the finding, and shrinking would repeat it a hundred times.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !checks::in_check() {
                before(info);
            }
        }));
    });
    checks::check_caught(case)
}
