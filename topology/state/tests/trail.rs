//! The trail of who changed what.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use std::sync::Arc;

use antiphase_state::{Change, Commit, Config, Event, Notice, NoticeKind, Schedule, Service, Severity};
use units::{FabricTime, Nanos};
use world::{Driver, S, restored};

/// Up for 40 of 100 ms, over the spine between leaves 1 and 2.
const A: (&str, &str) = ("a", "100 0-40 h1,h5");
const B: (&str, &str) = ("b", "100 0-40 h2,h6");

#[test]
fn who_changed_what_is_kept_with_the_change_and_a_renewal_is_no_change() {
    let mut driver = Driver::with_fabric();
    let ask = |driver: &mut Driver, change| {
        let request = driver.request();
        driver.handle(Event::Asked { request, change });
        assert!(matches!(driver.reply(request), Some(Ok(_))));
    };
    let by = |who: &str| Some(Arc::from(who));
    let commit = |driver: &Driver, who| {
        let jobs = vec![driver.job(A.0, A.1)];
        Change::Commit(Commit { jobs, by: by(who), lease: Some(Nanos(50 * S)), ..Commit::default() })
    };
    let change = commit(&driver, "ann (admin)");
    ask(&mut driver, change.clone());
    ask(&mut driver, change);
    ask(&mut driver, Change::Release { jobs: vec!["a".into(), "moon".into()], by: by("bob (admin)") });
    ask(&mut driver, Change::Release { jobs: vec!["moon".into()], by: by("bob (admin)") });
    // The service's own changes are nobody's.
    driver.commit(&[B]);
    let seen: Vec<_> = driver.service.view().audit(0).map(|e| (e.number, e.by.to_string(), e.kind.clone(), e.plan_version)).collect();
    let expected = [(1, "ann (admin)", "committed", 2), (2, "bob (admin)", "released", 3)];
    assert_eq!(seen, expected.map(|(number, by, kind, version)| (number, by.to_owned(), kind.to_owned(), version)));
    // A restart goes on counting.
    let entries: Vec<_> = driver.service.view().audit(0).cloned().collect();
    let again = Service::restore(Config::default(), driver.now, restored(&driver.batches.concat())).unwrap();
    let mut driver = Driver::new(again);
    assert_eq!(driver.service.view().audit(0).cloned().collect::<Vec<_>>(), entries);
    ask(&mut driver, Change::Release { jobs: vec!["b".into()], by: by("ann (admin)") });
    assert_eq!(
        driver.service.view().audit(2).map(|e| (e.number, e.message.clone())).collect::<Vec<_>>(),
        [(3, "job b was released".into())]
    );
}

/// What agents learn comes as they like, so it fills only their part of the events.
#[test]
fn a_job_that_is_learned_is_told_as_of_its_leaders_agent() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    assert!(driver.notices.iter().all(|notice| notice.agent.is_none()), "a client asked");
    let before = driver.notices.len();
    let (request, jobs) = (driver.request(), vec![driver.job("b", "150 0-40 h2,h6")]);
    let commit = Commit { jobs, learned: true, by: Some("the agents, by counters".into()), ..Commit::default() };
    driver.handle(Event::Asked { request, change: Change::Commit(commit) });
    assert!(matches!(driver.reply(request), Some(Ok(_))));
    let told = &driver.notices[before..];
    assert!(!told.is_empty() && told.iter().all(|notice| notice.agent.as_deref() == Some("h2")), "{told:?}");
    assert_eq!(driver.service.view().audit(0).count(), 1);
}

/// A step of the scheduler carries out what several asked since the last one.
#[test]
fn each_who_asks_in_one_step_has_an_entry_in_the_trail() {
    let mut driver = Driver::with_fabric();
    let notice = |by: Option<&str>, kind, job: &str| Notice {
        by: by.map(Arc::from),
        at: FabricTime(0),
        severity: Severity::Info,
        kind,
        message: format!("{kind} {job}"),
        job: Some(job.into()),
        host: None,
        agent: None,
        plan_version: 0,
        order: None,
    };
    let notices = vec![
        notice(Some("ann (admin)"), NoticeKind::Submitted, "x"),
        notice(Some("bob (admin)"), NoticeKind::Submitted, "y"),
        notice(None, NoticeKind::JobRunning, "w"),
        notice(Some("ann (admin)"), NoticeKind::JobWithdrawn, "z"),
    ];
    let request = driver.request();
    let step = Schedule { commit: None, release: Vec::new(), submissions: Vec::new(), notices };
    driver.handle(Event::Asked { request, change: Change::Schedule(Box::new(step)) });
    assert!(matches!(driver.reply(request), Some(Ok(_))));
    let trail = |service: &Service| service.view().audit(0).map(|e| format!("{} {}", e.by, e.message)).collect::<Vec<_>>();
    let expected = ["ann (admin) submitted x", "bob (admin) submitted y", "ann (admin) job_withdrawn z"];
    assert_eq!(trail(&driver.service), expected);
    let again = Service::restore(Config::default(), driver.now, restored(&driver.batches.concat())).unwrap();
    assert_eq!(trail(&again), expected, "it was durable with the step");
}
