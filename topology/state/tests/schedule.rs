//! Steps of the scheduler, made by the service.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use antiphase_state::{
    Change, Document, Event, Refusal, Reply, Schedule,
    scheduler::{HostGpus, Submission, SubmissionSpec, SubmissionState},
};
use units::Nanos;
use world::{Driver, S};

/// Up for 40 of 100 ms, over the spine between leaves 1 and 2.
const A: (&str, &str) = ("a", "100 0-40 h1,h5");
const B: (&str, &str) = ("b", "100 0-40 h2,h6");

#[test]
fn a_step_that_starts_a_job_beside_others_is_refused() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A]);
    let spec = SubmissionSpec {
        asked: [0; 32],
        owner: None,
        bytes: 0,
        gpus: 1,
        document: Document::new(std::sync::Arc::new(String::new())),
        has_profile: false,
        learn: false,
        opportunistic: false,
        iteration: Nanos(S),
        total: Nanos(S),
        lease: None,
    };
    // A free job: it is in no commit, so no guard of a commit sees it.
    let mut step = |host: &str, state: SubmissionState| {
        let now = driver.now;
        let submission = Submission {
            name: "free".into(),
            spec: spec.clone().into(),
            submitted: now,
            state,
            since: now,
            why: String::new(),
            place: vec![HostGpus { host: host.into(), gpus: vec![0] }],
            planned: false,
            learned: None,
            attempt: 1,
            failures: 0,
            ran: Nanos(0),
            started: None,
        };
        let submissions = vec![("free".into(), Some(std::sync::Arc::new(submission)))];
        let schedule = Schedule { commit: None, release: Vec::new(), submissions, notices: Vec::new() };
        let (request, change) = (driver.request(), Change::Schedule(Box::new(schedule)));
        driver.handle(Event::Asked { request, change });
        driver.reply(request).unwrap()
    };
    assert!(matches!(step("h1", SubmissionState::Starting), Err(Refusal::PlanVersionMoved { plan_version: 2, .. })));
    assert!(matches!(step("h2", SubmissionState::Starting), Ok(Reply::Scheduled { .. })));
    // Who stands there already may be reported, and may stop: others came after it.
    driver.commit(&[B]);
    let mut step = |state| {
        let view = driver.service.view();
        let before = view.submissions().find(|s| &*s.name == "free").unwrap().clone();
        let submissions = vec![("free".into(), Some(std::sync::Arc::new(Submission { state, ..(*before).clone() })))];
        let schedule = Schedule { commit: None, release: Vec::new(), submissions, notices: Vec::new() };
        let (request, change) = (driver.request(), Change::Schedule(Box::new(schedule)));
        driver.handle(Event::Asked { request, change });
        driver.reply(request).unwrap()
    };
    assert!(matches!(step(SubmissionState::Starting), Ok(Reply::Scheduled { .. })), "the same start again");
    assert!(matches!(step(SubmissionState::Running), Ok(Reply::Scheduled { .. })));
}
