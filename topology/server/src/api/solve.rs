//! Solving a scenario document.

use std::{collections::BTreeMap, time::Instant};

use circle::{
    Cancel, Effort, Mode, Options, Ticks,
    scenario::{Scenario, SolutionDoc},
};
use proto::v1alpha1 as pb;

use super::{Api, ApiError, Kind, limit, weight::Weight};
use crate::tls::Who;

/// Most jobs of one scenario; the command `antiphase solve` has no such limit.
const JOBS_MAX: usize = 1_000;
/// Longest scenario: 1,000 jobs of some hundred phases.
const SCENARIO_BYTES_MAX: usize = 16 << 20;

/// Shifts to evaluate instead of solving, by job; jobs not named get 0.
pub type Shifts = BTreeMap<String, u64>;

impl Api {
    /// Solves a scenario, when it is this caller's turn.
    ///
    /// # Errors
    /// [`ApiError`] names the place in the document and the value. A loop in paper mode is an answer.
    pub async fn solve(&self, who: Option<Who>, request: pb::SolveRequest) -> Result<pb::SolveResponse, ApiError> {
        // The length is judged before the wait for a turn and before the text is parsed.
        limit("scenario: bytes", request.scenario.len(), SCENARIO_BYTES_MAX)?;
        let solution = self.compute(who, move |cancel| solve(&request, cancel)).await??;
        Ok(pb::SolveResponse { solution })
    }
}

fn solve(request: &pb::SolveRequest, cancel: &Cancel) -> Result<String, ApiError> {
    let mode = mode(request.mode)?;
    let scenario = Scenario::parse(&request.scenario).map_err(|e| ApiError::invalid(format!("scenario: {e}")))?;
    // The number of jobs is known only after parsing; the bytes bounded what that took.
    limit("scenario: jobs", scenario.jobs.len(), JOBS_MAX)?;
    weigh(&scenario)?;
    let options = Options { mode, robust: request.robust_ticks.map(Ticks), effort: Effort::Thorough, ..Options::default() };
    let began = Instant::now();
    let solved = if request.shifts.is_empty() {
        circle::solve_until(&scenario.problem, &options, cancel)
    } else {
        circle::evaluate(&scenario.problem, &shifts(&scenario, &request.shifts)?)
    };
    let solution = solved.map_err(ApiError::invalid)?;
    let elapsed_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let document = SolutionDoc::new(&scenario, &options, &solution, elapsed_us);
    serde_json::to_string(&document).map_err(|e| ApiError::new(Kind::Internal, &e))
}

/// Weighs the answer before anything is computed: it names all jobs of a link at each link.
fn weigh(scenario: &Scenario) -> Result<(), ApiError> {
    let mut weight = Weight::new(false);
    let name = |job: circle::JobId| scenario.jobs[job.index()].as_str();
    let all = scenario.links.len();
    for (i, (id, link)) in scenario.links.iter().zip(scenario.problem.links()).enumerate() {
        let names = link.members.iter().map(|member| name(member.job));
        weight.add(names.chain([id.as_str()]), &format!("link {} of {all}", i + 1))?;
    }
    scenario.jobs.iter().try_for_each(|job| weight.add([job.as_str()], &"the shifts"))
}

fn shifts(scenario: &Scenario, given: &Shifts) -> Result<Vec<Ticks>, ApiError> {
    // The problem numbers jobs as the scenario lists them, so shifts are written by that index.
    let mut out = vec![Ticks(0); scenario.jobs.len()];
    for (name, ticks) in given {
        let job = scenario.job(name).ok_or_else(|| ApiError::invalid(format!("shifts: no job {name:?} in the scenario")))?;
        out[job.index()] = Ticks(*ticks);
    }
    Ok(out)
}

/// The solver's mode; exact when not said.
pub(super) fn mode(value: i32) -> Result<Mode, ApiError> {
    match pb::Mode::try_from(value) {
        Ok(pb::Mode::Unspecified | pb::Mode::Exact) => Ok(Mode::Exact),
        Ok(pb::Mode::Cassini) => Ok(Mode::Cassini),
        Err(_) => Err(ApiError::invalid(format!("mode: unknown value {value}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::tasks::Asked;

    /// Twelve jobs of one period and many phases: the search for better shifts goes on as long as it may.
    fn long() -> pb::SolveRequest {
        let phase = |job: u64, i: u64| {
            let start = 1_000 * i + 37 * (job * i % 17);
            format!(r#"{{"start":{start},"end":{},"rate_mbps":{}}}"#, start + 120 + 11 * (job + i) % 200, 9_000 + 500 * job)
        };
        let job = |job: u64| {
            let phases: Vec<String> = (0..60).map(|i| phase(job, i)).collect();
            format!(r#"{{"id":"j{job}","period_ticks":60000,"links":["l"],"phases":[{}]}}"#, phases.join(","))
        };
        let jobs: Vec<String> = (0..12).map(job).collect();
        let scenario = format!(
            r#"{{"schema":"antiphase.scenario/v1","tick_ns":1000,"links":[{{"id":"l","capacity_mbps":30000}}],"jobs":[{}]}}"#,
            jobs.join(",")
        );
        pb::SolveRequest { scenario, ..pb::SolveRequest::default() }
    }

    #[test]
    fn a_solve_whose_client_is_gone_ends() {
        let request = long();
        let began = Instant::now();
        solve(&request, &Cancel::default()).unwrap();
        let whole = began.elapsed();
        let cancel = Cancel::default();
        let asked = Asked(cancel.clone());
        let search = std::thread::spawn(move || {
            let began = Instant::now();
            (solve(&request, &cancel).is_err(), began.elapsed())
        });
        std::thread::sleep(whole / 20);
        drop(asked);
        let (ended, took) = search.join().unwrap();
        assert!(ended && took < whole / 2 + Duration::from_millis(50), "{took:?} of {whole:?}");
    }
}
