//! Versions of the plan after a state file was restored from a backup.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use antiphase_state::{Change, Commit, Config, Event, Origin, Record, Refusal, Service, SessionId};
use world::{Driver, restored};

const A: (&str, &str) = ("a", "100 0-40 h1,h5");
const B: (&str, &str) = ("b", "100 0-40 h2,h6");

/// A service that begins with these records.
fn again(records: &[Record], driver: &Driver) -> Driver {
    Driver::new(Service::restore(Config::default(), driver.now, restored(records)).unwrap())
}

fn hello(driver: &mut Driver, session: u64, host: &str, plan_version: u64) {
    let (session, host) = (SessionId(session), host.into());
    driver.handle(Event::AgentHello { session, host, version: "1".into(), ports: Vec::new(), plan_version, origin: Origin::default() });
}

/// Commits only if the plan is still what a client has seen.
fn guarded(driver: &mut Driver, job: (&str, &str), if_plan_version: u64) -> Result<(), Refusal> {
    let (request, jobs) = (driver.request(), vec![driver.job(job.0, job.1)]);
    let commit = Commit { jobs, if_plan_version: Some(if_plan_version), ..Commit::default() };
    driver.handle(Event::Asked { request, change: Change::Commit(commit) });
    driver.reply(request).unwrap().map(|_| ())
}

#[test]
fn a_version_from_before_a_backup_was_restored_does_not_come_round_again() {
    let mut driver = Driver::with_fabric();
    let kept = driver.commit(&[A]).plan_version;
    let backup = driver.batches.concat();
    // A client sees what another one commits after the backup, and agents have it on their pages.
    let seen = driver.commit(&[B]).plan_version;
    assert_eq!(seen, kept + 1);

    let mut driver = again(&backup, &driver);
    assert_eq!(driver.service.view().plan_version(), kept);
    hello(&mut driver, 1, "h1", seen);
    hello(&mut driver, 2, "h2", 0);
    let refused = |driver: &mut Driver| {
        let refused = guarded(driver, B, seen).unwrap_err();
        assert!(matches!(refused, Refusal::PlanVersionMoved { expected, .. } if expected == seen), "{refused:?}");
    };
    refused(&mut driver);
    let next = driver.commit(&[("c", "100 0-40 h3,h7")]).plan_version;
    assert_eq!(next, seen + 1, "the number of the lost change is not given again");
    refused(&mut driver);
    // It is durable, and clients of today are as before.
    let records = [backup, driver.batches.concat()].concat();
    let mut driver = again(&records, &driver);
    assert_eq!(driver.service.view().plan_version(), next);
    refused(&mut driver);
    guarded(&mut driver, B, next).unwrap();
    assert_eq!(driver.service.view().plan_version(), next + 1);
}

#[test]
fn an_agent_that_lies_about_its_plan_moves_no_version_that_a_client_has() {
    let mut driver = Driver::with_fabric();
    let version = driver.commit(&[A]).plan_version;
    for (session, said) in [(1, u64::MAX), (2, 1 << 60), (3, version)] {
        hello(&mut driver, session, &format!("h{session}"), said);
    }
    hello(&mut driver, 4, "h4", version + 500);
    guarded(&mut driver, B, version).unwrap();
    assert_eq!(driver.service.view().plan_version(), version + 501);
    assert_eq!(driver.commit(&[("c", "100 0-40 h3,h7")]).plan_version, version + 502);
}
