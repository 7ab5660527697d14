//! Jobs that come and go while others run, through the production service.

use antiphase_sim::{Config, Control, Ended, Fault, Lifetime, Report, ServiceControl, SimError, SimJob, run};
use fabric::{
    Fabric,
    route::{Ecmp, Router},
};
use units::Nanos;

use crate::cases::*;

/// 250 ms of solo iteration and 5 % of headroom.
const PERIOD: u64 = 262_500_000;

fn at(ms: u64) -> Nanos {
    Nanos(ms * MS)
}

fn config(lifetimes: Vec<Lifetime>) -> Config {
    Config { warm_up: 8, iterations: 200, control: Control::Service(ServiceControl::default()), lifetimes, ..Config::default() }
}

/// Four leaves: a meets b between the first two, c meets d between the others; each sends for a fifth of its period, so that
/// e, which comes to the first two, has room beside a and b.
fn five() -> (Fabric, Vec<SimJob>) {
    let fabric = star_of(4, 3, 100);
    let job = |name: &str, hosts: [&str; 2]| ring(&fabric, name, &hosts, 50, 200);
    let jobs =
        vec![job("a", ["h1", "h4"]), job("b", ["h2", "h5"]), job("c", ["h7", "h10"]), job("d", ["h8", "h11"]), job("e", ["h3", "h6"])];
    (fabric, jobs)
}

const E: u32 = 4;

/// Where in its period a job starts, at each start of an iteration in the span.
fn phases(report: &Report, job: usize, from: u64, until: u64) -> Vec<u64> {
    let inside = |start: &Nanos| (from * MS..until * MS).contains(&start.0);
    report.jobs[job].records.iter().map(|r| r.start).filter(inside).map(|start| start.0 % PERIOD).collect()
}

#[test]
fn an_arrival_moves_few_running_jobs_and_none_that_it_does_not_meet() {
    let (fabric, jobs) = five();
    let life = Lifetime { job: E, arrives: at(10_000), departs: Some(at(30_000)) };
    let report = play(&fabric, &jobs, &config(vec![life]));
    assert_eq!(report.ended, Ended::Done);
    // Settled before, with e, and after it has gone: each job keeps one phase within a span.
    let mut moved = 0;
    for job in 0..4 {
        let spans = [(6_000, 10_000), (14_000, 30_000), (34_000, 50_000)].map(|(from, until)| phases(&report, job, from, until));
        for span in &spans {
            assert!(span.len() > 10 && span.iter().all(|phase| phase == &span[0]), "job {job}: {span:?}");
        }
        let firsts = spans.map(|s| s[0]);
        if job >= 2 {
            assert_eq!(firsts, [firsts[0]; 3], "c and d meet nobody new");
            assert!(report.jobs[job].records.iter().filter(|r| r.start > at(6_000)).all(|r| !r.slip));
        }
        moved += usize::from(firsts[0] != firsts[1]);
        assert_eq!(firsts[1], firsts[2], "a departure is no reason to move");
    }
    // Two shifts of a and b leave e room or not, so one of them may have to move, and never both.
    assert!(moved <= 1, "{moved} running jobs moved");
    let with_e: Vec<&antiphase_sim::IterationRecord> = report.jobs[E as usize].records.iter().filter(|r| r.start > at(14_000)).collect();
    assert!(with_e.len() > 50 && with_e.windows(2).all(|w| w[1].start.0 - w[0].start.0 == PERIOD), "e is held too");
    assert!(report.jobs[E as usize].records.iter().all(|r| r.start >= at(10_000) && r.end <= at(30_000)));
    let said: Vec<&str> = report.service.as_ref().unwrap().notices.iter().map(|n| n.kind.word()).collect();
    assert_eq!(said.iter().filter(|kind| **kind == "committed").count(), 2, "{said:?}");
    assert!(said.contains(&"released"), "{said:?}");
}

/// b leaves in the middle of its communication: a has the link to itself from that moment on.
#[test]
fn a_departure_ends_traffic_at_once() {
    let (fabric, jobs) = two_equal();
    let life = Lifetime { job: 1, arrives: Nanos(0), departs: Some(at(100)) };
    let free = Config { warm_up: 0, iterations: 3, lifetimes: vec![life], ..Config::default() };
    let report = play(&fabric, &jobs, &free);
    // 100 ms at half speed leave 50 ms alone: 150 + 150 Down.
    assert_eq!(report.jobs[0].records[0].comm_end, at(150));
    assert_eq!(report.jobs[0].records[1].start, at(300));
    assert!(report.jobs[1].records.is_empty(), "not one whole iteration");
    assert_eq!(report.ended, Ended::Done);
}

/// A service that is away while a job comes, and another while one goes: both are made good.
#[test]
fn what_came_and_went_while_the_service_was_away_is_made_good() {
    let (fabric, jobs) = five();
    let lifetimes =
        vec![Lifetime { job: E, arrives: at(10_000), departs: None }, Lifetime { job: 1, arrives: Nanos(0), departs: Some(at(11_000)) }];
    let faults = vec![Fault::ServiceDies { at: at(9_000) }, Fault::ServiceReturns { at: at(14_000) }];
    let report = play(&fabric, &jobs, &Config { faults, ..config(lifetimes) });
    assert_eq!(report.ended, Ended::Done);
    let late: Vec<_> = report.jobs[E as usize].records.iter().filter(|r| r.start > at(20_000)).collect();
    assert!(late.len() > 50 && late.windows(2).all(|w| w[1].start.0 - w[0].start.0 == PERIOD));
    assert!(report.service.unwrap().notices.iter().any(|n| n.kind.word() == "released"));
}

#[test]
fn lifetimes_that_make_no_sense_are_refused() {
    let (fabric, jobs) = two_equal();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let life = Lifetime { job: 0, arrives: at(5), departs: None };
    let wrong = [vec![Lifetime { job: 2, ..life }], vec![life, life], vec![Lifetime { departs: Some(at(5)), ..life }]];
    for lifetimes in wrong {
        let refused = run(&antiphase_sim::Case { router: &router, jobs: &jobs }, &config(lifetimes)).unwrap_err();
        assert!(matches!(refused, SimError::Config { .. }), "{refused}");
    }
}
