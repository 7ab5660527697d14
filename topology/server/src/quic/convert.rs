//! Frames of agents to what the controller knows.

use proto::v1alpha1 as wire;
use state::{AgentReport, ClockQuality, GateReport};
use units::Nanos;

use super::{CloseCode, End, GATES_MAX};

/// A report, or why no agent would send it.
pub(super) fn report(report: wire::Report) -> Result<AgentReport, End> {
    let gates = report.gates.len();
    // The count is judged before any gate is converted.
    if gates > GATES_MAX {
        return Err(End::new(CloseCode::Malformed, format!("a report of {gates} jobs; at most {GATES_MAX} are read")));
    }
    let clock = report.clock.map(|clock| ClockQuality { bound: Nanos(clock.bound_ns), rtt: Nanos(clock.rtt_ns) });
    let gates = report.gates.into_iter().map(gate).collect::<Result<_, _>>()?;
    Ok(AgentReport { clock, gates })
}

fn gate(gate: wire::GateReport) -> Result<GateReport, End> {
    // A name that no job can have is from no agent of this protocol; the session ends.
    if units::check_name(&gate.job).is_err() {
        return Err(End::new(CloseCode::Malformed, format!("a report of the job {:?}", shortened(&gate.job))));
    }
    Ok(GateReport {
        job: gate.job,
        plan_version: gate.plan_version,
        iterations: gate.iterations,
        holds: gate.holds,
        slips: gate.slips,
        fail_opens: gate.fail_opens,
        phase_error: gate.phase_error_ns,
        iteration: gate.iteration_p50_ns.map(Nanos),
        iteration_mean: gate.iteration_mean_ns.map(Nanos),
        solo: gate.solo_p75_ns.map(Nanos),
        observed_period: gate.observed_period_ns.map(Nanos),
        up_down: gate.up_ns.map(Nanos).zip(gate.down_ns.map(Nanos)),
    })
}

/// What a stranger sent, for a log line.
pub(super) fn shortened(text: &str) -> String {
    // The cut counts characters and not bytes, so it never splits one.
    const SHOWN: usize = 80;
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_keeps_what_is_absent_absent() {
        let gate = wire::GateReport {
            job: "bert".into(),
            phase_error_ns: Some(-5),
            iteration_p50_ns: Some(7),
            iteration_mean_ns: Some(9),
            slips: 3,
            ..wire::GateReport::default()
        };
        let clock = wire::ClockQuality { offset_ns: -1, bound_ns: 20, rtt_ns: 30 };
        let full = report(wire::Report { sequence: 1, clock: Some(clock), gates: vec![gate] }).unwrap();
        assert_eq!(full.clock, Some(ClockQuality { bound: Nanos(20), rtt: Nanos(30) }));
        let expected = GateReport {
            job: "bert".into(),
            phase_error: Some(-5),
            iteration: Some(Nanos(7)),
            iteration_mean: Some(Nanos(9)),
            slips: 3,
            ..GateReport::default()
        };
        assert_eq!(full.gates, [expected]);
        assert_eq!(report(wire::Report::default()).unwrap(), AgentReport::default());
    }

    #[test]
    fn reports_of_no_agent_are_refused_with_what_is_wrong() {
        let named = |job: &str| wire::GateReport { job: job.to_owned(), ..wire::GateReport::default() };
        let of = |gates| report(wire::Report { gates, ..wire::Report::default() }).unwrap_err();
        assert!(of(vec![named("ok"), named("../etc")]).reason.contains("../etc"));
        assert!(of(vec![named(&"x".repeat(100_000))]).reason.len() < 200);
        assert!(of(vec![named("x"); GATES_MAX + 1]).reason.contains(&format!("{}", GATES_MAX + 1)));
    }
}
