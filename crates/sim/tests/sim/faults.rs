//! What goes wrong never stops a job.

use antiphase_sim::{Config, Ended, Fault, IterationRecord};
use gate_core::Reason;
use units::Nanos;

use crate::cases::*;

fn config(faults: Vec<Fault>) -> Config {
    Config { warm_up: 10, iterations: 60, faults, ..Config::default() }
}

fn dies(host: &str, ms: u64) -> Fault {
    Fault::AgentDies { host: host.into(), at: Nanos(ms * MS) }
}

#[test]
fn killing_every_agent_stops_no_job() {
    let (fabric, jobs) = two_equal();
    let report = held(&fabric, &jobs, 50, &config(vec![dies("h1", 5_000), dies("h2", 5_000)]));
    assert_eq!(report.ended, Ended::Done);
    for job in &report.jobs {
        // Heartbeats end at 5 s, pages are stale half a second later.
        let (before, after): (Vec<&IterationRecord>, Vec<_>) = job.records.iter().partition(|r| r.start.0 <= 5_500 * MS);
        assert!(before.iter().all(|r| r.because == Reason::OnTime), "the last plan is kept while it may be trusted");
        assert!(after.len() > 10 && after.iter().all(|r| r.because == Reason::Stale));
        // The first may have been waiting when the page went stale.
        assert!(after[1..].iter().all(|r| r.held() == Nanos(0)));
        assert_eq!(job.fail_opens, after.len() as u64);
        // Nobody is held, but they are still apart: 250 ms each.
        assert_eq!(job.iteration.min, Nanos(250 * MS));
    }
}

#[test]
fn a_job_that_waits_when_its_page_goes_stale_goes_at_once() {
    // Headroom of 19 %: held for 47.5 ms of every 297.5 ms. Pages go stale half a second after a multiple of 100 ms, and with some times
    // of death that falls into a hold.
    let (fabric, jobs) = two_equal();
    let mut cut_short = 0;
    for ms in (2_500..3_500).step_by(50) {
        let report = held(&fabric, &jobs, 190, &config(vec![dies("h1", ms), dies("h2", ms)]));
        for record in report.jobs.iter().flat_map(|j| &j.records) {
            assert!(record.held() <= Nanos(297_500_000));
            if record.because == Reason::Stale && record.held() > Nanos(0) {
                // One nanosecond past the age that is still good.
                assert_eq!(record.start.0 % (100 * MS), 1);
                cut_short += 1;
            }
        }
    }
    assert!(cut_short >= 3, "{cut_short}");
}

#[test]
fn an_agent_that_returns_holds_again() {
    let (fabric, jobs) = two_equal();
    let returns = Fault::AgentReturns { host: "h1".into(), at: Nanos(9_000 * MS) };
    let report = held(&fabric, &jobs, 50, &config(vec![dies("h1", 5_000), returns]));
    let job = &report.jobs[0];
    assert!(job.fail_opens > 0 && job.records.last().unwrap().because == Reason::OnTime);
    assert_eq!(report.jobs[1].fail_opens, 0);
    assert_eq!(job.records.iter().rev().take(5).filter(|r| r.late == Some(0)).count(), 5);
}

#[test]
fn an_undetected_clock_step_moves_one_job_and_ends() {
    let (fabric, jobs) = two_equal();
    // 100 ms early: right into the other's communication.
    let step = Fault::ClockStep { host: "h1".into(), at: Nanos(5_000 * MS), by: 100_000_000, lasts: Nanos(4_000 * MS) };
    let report = held(&fabric, &jobs, 50, &config(vec![step]));
    assert_eq!(report.ended, Ended::Done);
    let job = &report.jobs[0];
    assert!(job.overlap_share > 0.05, "{}", job.overlap_share);
    let longest = job.records.iter().map(|r| r.held()).max().unwrap();
    assert!(longest <= Nanos(262_500_000), "never longer than a period: {longest}");
    let last: Vec<_> = job.records.iter().rev().take(10).collect();
    assert!(last.iter().all(|r| r.late == Some(0) && r.comm == Nanos(100 * MS)), "all is as before: {last:?}");
}

#[test]
fn faults_of_hosts_and_jobs_that_are_not_there_are_refused() {
    let (fabric, jobs) = two_equal();
    let router = fabric::route::Router::new(&fabric, fabric::route::Ecmp::Spread, &[]).unwrap();
    let case = antiphase_sim::Case { router: &router, jobs: &jobs };
    let refused = |fault| antiphase_sim::run(&case, &config(vec![fault])).unwrap_err().to_string();
    assert_eq!(refused(dies("spine1", 1)), "host \"spine1\" has no rank of any job");
    assert!(refused(Fault::Straggler { job: 7, iteration: 0, extra: Nanos(1) }).contains("straggler: job 7"));
}
