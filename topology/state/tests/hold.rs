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
    assert!(
        d.interleaved().unwrap() < d.times().unwrap().all_held.unwrap().time,
        "holding d would cost it: {:?} {:?}",
        d.interleaved(),
        d.times()
    );
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
        let gate = GateReport { job: job.into(), plan_version, iterations: 30, slips: 10, phase_error: Some(0), ..GateReport::default() };
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
    let start = |slot: &antiphase_state::Slot| (slot.times.period, slot.times.offset, slot.hold);
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

/// So many reports of a job whose slot takes 105 ms and that takes so long without its hold.
fn report(driver: &mut Driver, (session, name): (u64, &str), solo: u64, reports: u32) {
    for _ in 0..reports {
        let plan_version = driver.slot(name).plan_version;
        let solo = Some(Nanos(solo * world::MS));
        let gate = GateReport { job: name.into(), plan_version, iterations: 8, holds: 8, solo, ..GateReport::default() };
        let report = AgentReport { clock: Some(ClockQuality { bound: Nanos(1), rtt: Nanos(2) }), gates: vec![gate] };
        driver.handle(Event::Report { session: SessionId(session), report });
    }
}

/// Declared 255 ms and real 340 was held at 447 for ever. Here 100 and 133: the third report ends it, for the job and for b, whose shift
/// made sense beside its own only. c and d are not touched.
#[test]
fn a_hold_that_does_not_fit_ends_and_says_why() {
    let mut driver = chain();
    driver.hello(1, "h1");
    // While b may run as it comes, because nobody tells it of its slot, what a takes may be its doing.
    report(&mut driver, (1, "a"), 133, 9);
    assert_eq!(held(&driver, &["a", "b"]), [true, true]);
    driver.hello(2, "h2");
    report(&mut driver, (1, "a"), 133, 2);
    assert_eq!(held(&driver, &["a", "b"]), [true, true]);
    report(&mut driver, (1, "a"), 133, 1);
    assert_eq!(held(&driver, &["a", "b", "c", "d"]), [false; 4]);
    let told = || driver.notices.iter().filter(|n| n.kind.word() == "let_go");
    assert!(told().all(|n| n.host.is_none() && n.agent.as_deref() == Some("h1")), "it came by the reports of that host");
    let said: Vec<_> = told().map(|n| n.message.clone()).collect();
    let why = "it repeats every 133.000 ms, and 100.000 ms was declared, of which 50 permille may be missed";
    assert_eq!(
        said,
        [format!("job a is not held any more: {why}; it runs as it comes until it is committed with another profile; with it b")]
    );
    let a = driver.service.view().job("a").unwrap();
    assert_eq!((a.hold_ended(), a.interleaved()), (Some(why), a.times().map(|t| t.contended)));
    assert_eq!(driver.plan(1).unwrap().2.iter().map(|s| s.hold).collect::<Vec<_>>(), [false], "the agent is told");
    // Neither what others do nor a restart holds it again, and another profile does.
    driver.commit(&[E]);
    let again = Service::restore(Config::default(), driver.now, restored(&driver.batches.concat())).unwrap();
    assert_eq!(durable(&again), durable(&driver.service));
    assert_eq!(again.view().job("a").unwrap().hold_ended(), Some(why));
    driver.release(&["e"]);
    assert_eq!(held(&driver, &["a", "b"]), [false, false]);
    driver.commit(&[("a", "100 0-41 h1,h5")]);
    assert_eq!((held(&driver, &["a", "b"]), driver.service.view().job("a").unwrap().hold_ended()), (vec![true, true], None));
}

/// What is seen of a job that is not held, or under another slot, ends nothing.
#[test]
fn only_what_is_seen_while_it_is_held_ends_a_hold() {
    let mut driver = chain();
    driver.hello(1, "h1");
    driver.hello(10, "h10");
    report(&mut driver, (10, "c"), 300, 9);
    report(&mut driver, (1, "a"), 104, 9);
    assert_eq!(held(&driver, &["a", "b", "c", "d"]), [true, true, false, false]);
    assert!(!driver.kinds().contains(&"let_go"));
}

/// A job that says so is held by nothing, and its traffic counts.
#[test]
fn a_job_that_is_never_to_be_held_is_not() {
    for control in [plan::Control::Slots, plan::Control::Turns] {
        let mut driver = Driver::new(Service::new(Config { control, ..Config::default() }));
        driver.set_fabric("6 4 1").unwrap();
        let never = |hold| {
            let mut jobs = vec![driver.job("a", A.1), driver.job("b", B.1)];
            jobs[1].job.hold = hold;
            // The document says so as well: it is what a commit is compared by.
            jobs[1].document = antiphase_state::Document::new(std::sync::Arc::new(format!("{} {hold:?}", B.1)));
            Change::Commit(Commit { jobs, ..Commit::default() })
        };
        let (auto, never) = (never(job::Hold::Auto), never(job::Hold::Never));
        let mut kept = |change: Change| {
            let request = driver.request();
            driver.handle(Event::Asked { request, change });
            ["a", "b"].map(|n| driver.slot(n).hold || driver.slot(n).turns)
        };
        assert_eq!([kept(auto.clone()), kept(never), kept(auto)], [[true; 2], [false; 2], [true; 2]], "{control:?}");
        let a = driver.service.view().job("a").unwrap();
        assert!(a.times().unwrap().contended > a.times().unwrap().solo, "what b sends counts");
    }
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
