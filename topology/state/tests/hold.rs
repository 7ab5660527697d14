//! Whom the service holds, and what agents are told: by coupled group, each job for itself.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use antiphase_state::{AgentReport, Change, ClockQuality, Commit, Config, Event, GateReport, JobState, Service, SessionId};
use units::Nanos;
use world::{Driver, durable, restored};

/// Between leaves 1 and 2; B also goes to leaf 3.
const A: (&str, &str) = ("a", "100 0-40 h1,h5");
const B: (&str, &str) = ("b", "100 0-40 h2,h6,h9");
/// Meets B at leaf 3 for 5 ms, and D at leaf 4, where no two periods that share 1 ms can be kept apart.
const C: (&str, &str) = ("c", "83 0-5 h10,h13");
const D: (&str, &str) = ("d", "97 0-80 h14,h17");
/// Meets D at leaf 5.
const E: (&str, &str) = ("e", "97 0-15 h18,h21");

/// Six leaves of four hosts under one spine, and the four jobs.
fn chain() -> Driver {
    let mut driver = Driver::new(Service::new(Config::default()));
    driver.set_fabric("6 4 1").unwrap();
    driver.commit(&[A, B, C, D]);
    driver
}

fn held(driver: &Driver, names: &[&str]) -> Vec<bool> {
    names.iter().map(|n| driver.slot(n).hold).collect()
}

#[test]
fn jobs_of_one_component_are_held_by_joint_set() {
    let driver = chain();
    let view = driver.service.view();
    assert_eq!(view.job("a").unwrap().component().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    assert_eq!(held(&driver, &["a", "b", "c", "d"]), [true, true, false, false]);
    // Held, a takes its slot's period, which is less than beside b in step; d runs as it comes and is told what follows from that.
    let a = view.job("a").unwrap();
    assert!(a.interleaved().unwrap() < a.times().unwrap().contended, "{:?} {:?}", a.interleaved(), a.times());
    let d = view.job("d").unwrap();
    assert!(d.interleaved().unwrap() < d.times().unwrap().all_held, "holding d would cost it: {:?} {:?}", d.interleaved(), d.times());
}

#[test]
fn agents_are_told_to_hold_only_the_jobs_that_are_held() {
    let mut driver = chain();
    for (session, host) in [(1, "h1"), (2, "h2"), (10, "h10"), (14, "h14")] {
        driver.hello(session, host);
    }
    let told = |driver: &Driver, session: u64| driver.plan(session).unwrap().2.iter().map(|s| (s.job.clone(), s.hold)).collect::<Vec<_>>();
    assert_eq!(told(&driver, 1), [("a".into(), true)]);
    assert_eq!(told(&driver, 2), [("b".into(), true)]);
    assert_eq!(told(&driver, 10), [("c".into(), false)]);
    assert_eq!(told(&driver, 14), [("d".into(), false)]);
    for (session, job) in [(1, "a"), (10, "c")] {
        let plan_version = driver.slot(job).plan_version;
        let gate = GateReport { job: job.into(), plan_version, iterations: 30, slips: 20, phase_error: Some(0), ..GateReport::default() };
        let clock = Some(ClockQuality { bound: Nanos(1), rtt: Nanos(2) });
        let report = AgentReport { clock, gates: vec![gate] };
        // What a free job reports of slips asks for nothing.
        let before = driver.service.view().plan_version();
        driver.handle(Event::Report { session: SessionId(session), report });
        assert_eq!(driver.service.view().plan_version() > before, job == "a");
    }
    let state = |job: &str| driver.service.view().job(job).unwrap().state();
    assert_eq!((state("a"), state("c")), (JobState::Held, JobState::Free));
}

#[test]
fn a_held_job_keeps_its_slot_when_others_come_and_go() {
    let mut driver = chain();
    let before = (driver.slot("a"), driver.slot("b"));
    let done = driver.commit(&[E]);
    assert_eq!(done.slots.len(), 5, "one component");
    assert!(!done.moved.iter().any(|m| m == "a" || m == "b"), "{:?}", done.moved);
    assert_eq!((driver.slot("a"), driver.slot("b")), before, "not even the plan version changes");
    driver.release(&["e"]);
    assert_eq!((driver.slot("a"), driver.slot("b")), before);
    driver.release(&["d"]);
    driver.release(&["c"]);
    let start = |slot: &antiphase_state::Slot| (slot.period, slot.offset, slot.hold);
    assert_eq!((driver.slot("a"), start(&driver.slot("b"))), (before.0, start(&before.1)), "b has more slack now, and starts as before");
}

/// The GPUs of a job are its weight: three jobs on one uplink are one set. Two of them gain by taking turns; the third, of
/// another period, loses its headroom.
#[test]
fn gpus_weigh() {
    let mut driver = Driver::with_fabric();
    let mut hold = |gpus: u32| {
        let mut third = driver.job("c", "83 0-3 h3,h7");
        third.job.gpus = gpus;
        let jobs = vec![driver.job("a", "100 0-40 h1,h5"), driver.job("b", "100 0-40 h2,h6"), third];
        let request = driver.request();
        driver.handle(Event::Asked { request, change: Change::Commit(Commit { jobs, ..Commit::default() }) });
        let out = held(&driver, &["a", "b", "c"]);
        driver.release(&["a", "b", "c"]);
        out
    };
    assert_eq!((hold(2), hold(10_000)), (vec![true; 3], vec![false; 3]));
}

#[test]
fn a_restart_keeps_who_is_held() {
    let driver = chain();
    let records = driver.batches.concat();
    let again = Service::restore(Config::default(), driver.now, restored(&records)).unwrap();
    assert_eq!(durable(&again), durable(&driver.service));
    let mut again = Driver::new(again);
    again.now = driver.now;
    again.hello(10, "h10");
    assert!(!again.plan(10).unwrap().2[0].hold);
    assert_eq!(held(&again, &["a", "b", "c", "d"]), [true, true, false, false]);
}
