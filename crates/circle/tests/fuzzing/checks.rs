//! Every claim of an answer, held against the truth.

use std::{cell::Cell, panic::AssertUnwindSafe};

use antiphase_circle::{Effort, Options, Problem, Solution, Ticks, adjust, evaluate, solve};

use super::{Case, Claim, Findings, oracle::Random, truth::Truth};

/// Rounding of scores: sums of a few thousand terms of size one.
const TOLERANCE: f64 = 1e-9;
/// How far a thorough solution may be below what a simple search finds before somebody should look.
const QUALITY: f64 = 2e-3;
/// Most drifts within the slack of one job that are tried, beside the ends.
const DRIFTS_MAX: u64 = 64;
/// Drifts within the slack that are tried where they are too many.
const DRIFTS_SAMPLED: u64 = 8;
/// Seed of the searches for good shifts, so that a case has one verdict.
const SEED: u64 = 0x70e5;

thread_local! {
    static CHECKING: Cell<bool> = const { Cell::new(false) };
}

/// This thread is inside a check.
pub fn in_check() -> bool {
    CHECKING.get()
}

/// [`check`], with panics as findings.
pub fn check_caught(case: &Case) -> Findings {
    CHECKING.set(true);
    let caught = std::panic::catch_unwind(AssertUnwindSafe(|| check(case)));
    CHECKING.set(false);
    caught.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let mut findings = Findings::default();
        findings.fail(Claim::Answer, format!("panicked: {}", said.unwrap_or("no message")));
        findings
    })
}

fn shifts(solution: &Solution) -> Vec<u64> {
    solution.shifts.iter().map(|s| s.shift.0).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE
}

fn is_approximate(solution: &Solution) -> bool {
    solution.links.iter().any(|l| l.is_approximate())
}

/// A case under check.
struct Check<'a> {
    case: &'a Case,
    problem: Problem,
    truth: Truth,
    random: Random,
    findings: Findings,
}

fn check(case: &Case) -> Findings {
    let problem = match case.problem() {
        Ok(problem) => problem,
        Err(error) => panic!("the document is refused: {error}"),
    };
    let Some(truth) = Truth::try_of(&case.instance) else { panic!("no oracle can tell what is true of the document") };
    let findings = Findings { exhaustive: truth.is_exhaustive(), ..Findings::default() };
    let mut check = Check { case, problem, truth, random: Random(SEED), findings };
    let options = Options { effort: case.effort, robust: case.robust.map(Ticks), ..Options::default() };
    match solve(&check.problem, &options) {
        Ok(solution) => check.solved(&solution),
        Err(error) => check.findings.fail(Claim::Answer, error.to_string()),
    }
    check.evaluated();
    check.adjusted();
    check.findings
}

impl Check<'_> {
    fn fail(&mut self, claim: Claim, text: String) {
        self.findings.fail(claim, text);
    }

    fn solved(&mut self, solution: &Solution) {
        self.findings.proven = solution.optimality.proven;
        self.findings.approximate = solution.links.iter().filter(|l| l.is_approximate()).count() as u64;
        if !self.formed(solution) {
            return;
        }
        self.scores(Claim::Score, solution, &shifts(solution));
        self.slacks("solve", solution);
        match self.case.robust {
            None => self.optimum(solution),
            Some(drift) => self.robust(solution, drift),
        }
    }

    /// What needs no oracle.
    fn formed(&mut self, solution: &Solution) -> bool {
        let periods = &self.case.instance.periods;
        let mut wrong = vec![];
        if solution.shifts.len() != periods.len() || solution.links.len() != self.case.instance.links.len() {
            wrong.push("not every job and every link has an answer".to_owned());
        }
        for (own, &period) in solution.shifts.iter().zip(periods) {
            if own.shift.0 >= period || own.slack.0 > period / 2 || own.lock.0 == 0 || period % own.lock.0 > 0 {
                wrong.push(format!("job {} of period {period} has {own:?}", own.job));
            }
        }
        let sure = solution.optimality;
        if !sure.bound_gap.is_finite() || sure.bound_gap < 0.0 {
            wrong.push(format!("{sure:?}"));
        }
        if sure.proven && sure.bound_gap > 0.0 {
            self.fail(Claim::NoGapWhereProven, format!("{sure:?}"));
        }
        let fine = wrong.is_empty();
        for text in wrong {
            self.fail(Claim::Form, text);
        }
        fine
    }

    /// Every score is what its shifts give, and so is the mean.
    fn scores(&mut self, claim: Claim, solution: &Solution, shifts: &[u64]) {
        let none = vec![0; shifts.len()];
        for link in solution.links.iter().filter(|l| !l.is_approximate()) {
            let (truth, zero) = (self.truth.link_score(link.link.index(), shifts), self.truth.link_score(link.link.index(), &none));
            if !close(link.score, truth) || !close(link.true_score, truth) {
                let text = format!("link {} says {} at shifts {shifts:?}, true is {truth}", link.link.index(), link.score);
                self.fail(claim, text);
            }
            if !close(link.zero_shift_score, zero) {
                let text = format!("link {} says {} without shifts, true is {zero}", link.link.index(), link.zero_shift_score);
                self.fail(Claim::ZeroShiftScore, text);
            }
        }
        // The mean of what is reported, whether exact or approximate.
        let shared: Vec<f64> =
            solution.links.iter().zip(&self.case.instance.links).filter(|l| l.1.1.len() > 1).map(|l| l.0.score).collect();
        let mean = if shared.is_empty() { 1.0 } else { shared.iter().sum::<f64>() / shared.len() as f64 };
        if !close(mean, solution.mean_score) {
            self.fail(Claim::MeanScore, format!("the mean of the links is {mean}, said is {}", solution.mean_score));
        }
        if claim == Claim::Score && self.case.robust.is_none() && solution.mean_score < solution.zero_shift_mean_score - TOLERANCE {
            let text = format!("the mean score is {}, without shifts it is {}", solution.mean_score, solution.zero_shift_mean_score);
            self.fail(Claim::NotWorseThanZeroShift, text);
        }
    }

    /// A job that moves alone within its slack loses nothing, and by its lock changes nothing.
    fn slacks(&mut self, asked: &str, solution: &Solution) {
        if is_approximate(solution) {
            return;
        }
        let here = shifts(solution);
        let mean = self.truth.mean(&here);
        for own in &solution.shifts {
            let (job, period, slack) = (own.job.index(), self.case.instance.periods[own.job.index()], own.slack.0);
            let ends = [slack, slack - slack.min(1)];
            let inner: Vec<u64> = if slack <= DRIFTS_MAX {
                (1..=slack).collect()
            } else {
                (0..DRIFTS_SAMPLED).map(|_| self.random.range(1, slack)).chain(ends).collect()
            };
            let moved = |by: u64| {
                let mut moved = here.clone();
                moved[job] = (here[job] + by) % period;
                self.truth.mean(&moved)
            };
            let loss = inner.iter().flat_map(|d| [(*d, ""), (period - d, "-")]).find(|d| moved(d.0) < mean - TOLERANCE);
            let (turned, lock) = (moved(own.lock.0), own.lock.0);
            if let Some((by, sign)) = loss {
                let (now, by) = (moved(by), if sign.is_empty() { by } else { period - by });
                let text = format!("{asked}: job {job} has slack {slack} at {here:?}, but a drift of {sign}{by} lowers {mean} to {now}");
                self.fail(Claim::Slack, text);
            }
            if !close(turned, mean) {
                self.fail(Claim::Lock, format!("{asked}: job {job} has lock {lock} at {here:?}, but moved by it {mean} becomes {turned}"));
            }
        }
    }

    fn optimum(&mut self, solution: &Solution) {
        let here = shifts(solution);
        let (best, with) = self.truth.best(&here, &mut self.random);
        self.findings.missed = self.truth.mean(&here) < best - TOLERANCE;
        self.promised((Claim::Proof, Claim::Gap), solution, best, &with);
        let far = self.truth.mean(&here) < best - QUALITY;
        if far && !self.truth.is_exhaustive() && self.case.effort == Effort::Thorough && !is_approximate(solution) {
            self.fail(Claim::Quality, format!("{} at {here:?}, but {with:?} have {best}", solution.mean_score));
        }
    }

    /// No shifts are better than the proof and the gap admit.
    fn promised(&mut self, claims: (Claim, Claim), solution: &Solution, best: f64, with: &[u64]) {
        // What the shifts truly have: an approximate score proves nothing.
        let (mean, gap) = (self.truth.mean(&shifts(solution)), solution.optimality.bound_gap);
        if solution.optimality.proven && mean < best - TOLERANCE {
            self.fail(claims.0, format!("proven at {mean} by {:?}, but {with:?} have {best}", shifts(solution)));
        } else if !is_approximate(solution) && mean + gap < best - TOLERANCE {
            self.fail(claims.1, format!("{mean} with a gap of {gap} is at most {}, but {with:?} have {best}", mean + gap));
        }
    }

    fn robust(&mut self, solution: &Solution, drift: u64) {
        let Some(robust) = solution.robust else {
            return self.fail(Claim::Form, "robust mode says nothing of the worst case".to_owned());
        };
        if is_approximate(solution) {
            return;
        }
        let here = shifts(solution);
        let (worst, known) = self.truth.worst(&here, drift, &mut self.random);
        let (said, gap) = (robust.mean_score, solution.optimality.bound_gap);
        if said > worst + TOLERANCE || (robust.exact && known && said < worst - TOLERANCE) {
            let exact = if robust.exact { "exactly" } else { "at least" };
            self.fail(Claim::RobustWorst, format!("said is {exact} {said} under a drift of {drift} at {here:?}, true is {worst}"));
        }
        let (plain, at) = self.truth.best(&here, &mut self.random);
        if solution.mean_score + robust.plain_gap < plain - TOLERANCE {
            let text = format!("{} with a plain gap of {}, but {at:?} have {plain}", solution.mean_score, robust.plain_gap);
            self.fail(Claim::RobustPlainGap, text);
        }
        let Some((best, with)) = self.truth.best_worst(&here, drift) else { return };
        self.findings.missed = worst < best - TOLERANCE;
        if solution.optimality.proven && worst < best - TOLERANCE {
            self.fail(Claim::RobustProof, format!("proven, with a true worst case of {worst} at {here:?}, but {with:?} have {best}"));
        } else if said + gap < best - TOLERANCE {
            self.fail(Claim::RobustGap, format!("{said} with a gap of {gap} under a drift of {drift}, but {with:?} have {best}"));
        }
    }

    fn evaluated(&mut self) {
        let given: Vec<Ticks> = self.case.evaluated.iter().copied().map(Ticks).collect();
        match evaluate(&self.problem, &given) {
            Ok(solution) => {
                let at: Vec<u64> = self.case.evaluated.iter().zip(&self.case.instance.periods).map(|(s, t)| s % t).collect();
                self.scores(Claim::Evaluate, &solution, &at);
                self.slacks("evaluate", &solution);
            }
            Err(error) => self.fail(Claim::Answer, error.to_string()),
        }
    }

    fn adjusted(&mut self) {
        let Some(current) = &self.case.current else { return };
        let given: Vec<Option<Ticks>> = current.iter().map(|c| c.map(Ticks)).collect();
        let options = Options { effort: self.case.effort, ..Options::default() };
        let found = match adjust(&self.problem, &options, &given, 0.0) {
            Ok(found) => found,
            Err(error) => return self.fail(Claim::Answer, error.to_string()),
        };
        if !self.formed(&found.solution) {
            return;
        }
        self.findings.adjusted_proven = found.solution.optimality.proven;
        let here = shifts(&found.solution);
        self.scores(Claim::Score, &found.solution, &here);
        self.slacks("adjust", &found.solution);
        if found.solution.mean_score < found.best_mean_score - TOLERANCE {
            let text = format!("{} at {here:?}, the best is said to be {}", found.solution.mean_score, found.best_mean_score);
            self.fail(Claim::AdjustBest, text);
        }
        let now = here.iter().zip(&self.case.instance.periods).zip(current);
        let moved: Vec<usize> = now.enumerate().filter(|(_, ((s, t), c))| c.is_some_and(|c| c % **t != **s)).map(|(job, _)| job).collect();
        let said: Vec<usize> = found.moved.iter().map(|j| j.index()).collect();
        if moved != said {
            self.fail(Claim::AdjustMoved, format!("said to have moved are {said:?}, but {moved:?} have: {here:?}"));
        }
        let (best, with) = self.truth.best(&here, &mut self.random);
        self.promised((Claim::AdjustProof, Claim::AdjustGap), &found.solution, best, &with);
    }
}
