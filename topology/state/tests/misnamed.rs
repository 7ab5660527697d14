//! Agents under a wrong name: of a host that the fabric lacks, and two of one host.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use antiphase_state::{Event, Origin, SessionId, Severity};
use units::Nanos;
use world::{Driver, S};

/// Between leaves 1 and 2; rank 0 on h1.
const A: (&str, &str) = ("a", "100 0-40 h1,h5");

fn warnings(driver: &Driver, jobs: &[&str]) -> Vec<String> {
    driver.service.view().warnings(&jobs.iter().map(|job| (*job).to_owned()).collect::<Vec<_>>())
}

fn trouble(driver: &Driver, host: &str) -> Option<String> {
    driver.service.view().agent(host).unwrap().trouble()
}

fn origin(instance: u64, from: &str) -> Origin {
    Origin { instance, from: from.into() }
}

#[test]
fn an_agent_of_a_host_that_the_fabric_lacks_is_told_until_it_is_gone() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A]);
    driver.hello(1, "h1");
    assert_eq!((driver.kinds().last(), trouble(&driver, "h1")), (Some(&"connected"), None));
    driver.hello_of(2, "gpu-1", origin(7, "10.0.0.9"));
    let told = driver.notices.last().unwrap();
    assert_eq!((told.kind.word(), told.severity, told.host.as_deref()), ("unknown_host", Severity::Warning, Some("gpu-1")));
    let said = trouble(&driver, "gpu-1").unwrap();
    assert!(said == told.message && said.starts_with("host gpu-1: ") && said.contains("10.0.0.9"), "{said}");
    assert_eq!((warnings(&driver, &[]), warnings(&driver, &["a"])), (vec![said], vec![]), "no job is on that host");
    // An agent on a switch is no stranger.
    driver.hello(3, "leaf1");
    assert_eq!(trouble(&driver, "leaf1"), None);
    // Corrected, it comes again under another name; the wrong one is not told of as lost for ever.
    driver.handle(Event::AgentGone { session: SessionId(2) });
    assert!(driver.service.view().agent("gpu-1").is_none() && warnings(&driver, &[]).is_empty());
    // As silently as by a word.
    driver.hello_of(4, "gpu-1", origin(7, "10.0.0.9"));
    driver.pass(Nanos(60 * S));
    assert!(driver.service.view().agent("gpu-1").is_none() && driver.service.view().agent("h1").is_some());
}

#[test]
fn another_fabric_makes_and_ends_strangers() {
    let mut driver = Driver::with_fabric();
    driver.hello(1, "h17");
    assert!(trouble(&driver, "h17").is_some(), "four leaves of four hosts");
    driver.set_fabric("5 4 1").unwrap();
    assert_eq!((trouble(&driver, "h17"), warnings(&driver, &[]).len()), (None, 0));
    driver.hello(2, "h18");
    driver.handle(Event::AgentGone { session: SessionId(2) });
    assert!(driver.service.view().agent("h18").is_some(), "lost, of a host that is there");
    driver.set_fabric("4 4 1").unwrap();
    assert_eq!(driver.kinds().last(), Some(&"unknown_host"));
    assert!(trouble(&driver, "h17").is_some() && driver.service.view().agent("h18").is_none());
}

#[test]
fn without_a_fabric_nobody_is_a_stranger() {
    let mut driver = Driver::new(antiphase_state::Service::new(antiphase_state::Config::default()));
    driver.hello(1, "anything");
    assert_eq!(trouble(&driver, "anything"), None);
}

#[test]
fn two_agents_of_one_host_are_told_once_and_for_as_long() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A]);
    let (ours, copy) = (origin(7, "10.0.0.5"), origin(8, "10.0.0.6"));
    for (session, one) in [&ours, &copy, &ours, &copy, &ours].into_iter().enumerate() {
        driver.hello_of(1 + session as u64, "h1", one.clone());
    }
    assert_eq!(driver.kinds().iter().filter(|kind| **kind == "connected").count(), 2, "each once, before it is known that they are two");
    assert_eq!(driver.kinds().iter().filter(|kind| **kind == "two_agents").count(), 1, "{:?}", driver.kinds());
    let said = trouble(&driver, "h1").unwrap();
    assert!(["host h1: two agents", "10.0.0.5", "10.0.0.6"].iter().all(|part| said.contains(part)), "{said}");
    assert_eq!((warnings(&driver, &[]), warnings(&driver, &["a"])), (vec![said.clone()], vec![said]), "it is the leader's host");
    // One is stopped: the other reports on, and nothing is wrong after a while.
    for _ in 0..7 {
        driver.handle(Event::Report { session: SessionId(5), report: antiphase_state::AgentReport::default() });
        driver.pass(Nanos(10 * S));
    }
    driver.handle(Event::Tick);
    assert_eq!((trouble(&driver, "h1"), warnings(&driver, &[]).len()), (None, 0));
}

#[test]
fn an_agent_that_restarts_or_whose_network_flaps_is_one() {
    let mut driver = Driver::with_fabric();
    for (session, instance) in [1, 2, 3, 3, 3, 4, 4].into_iter().enumerate() {
        driver.hello_of(1 + session as u64, "h1", origin(instance, "10.0.0.5"));
        assert_eq!(trouble(&driver, "h1"), None, "session {session}");
    }
}
