//! Admission, plans, losses and returns.

use std::{collections::BTreeSet, fs, time::Duration};

use agent::session::Credentials;
use proto::v1alpha1::{AgentFrame, PlanAck, Report, Telemetry, agent_frame};
use server::{
    pki,
    tls::{Tls, TlsFiles},
};
use state::Event;

use crate::rig::{Agent, Service, authority, issue, tls, until};

fn ack(plan_version: u64) -> AgentFrame {
    AgentFrame { kind: Some(agent_frame::Kind::PlanAck(PlanAck { plan_version, written_ns: 1 })) }
}

fn report(sequence: u64) -> AgentFrame {
    AgentFrame { kind: Some(agent_frame::Kind::Report(Report { sequence, ..Report::default() })) }
}

#[tokio::test]
async fn a_plan_comes_and_acks_reports_and_samples_go() {
    let dir = authority();
    let service = Service::start(tls(dir.path())).await;
    let mut agent = Agent::start(service.address, "node-1", issue(dir.path(), "node-1"));
    agent.up().await;
    service.memory.plan(5);
    assert_eq!(agent.plan().await.plan_version, 5);
    agent.session.uplink.send(ack(5));
    agent.session.uplink.send(report(1));
    agent.session.uplink.telemetry(Telemetry { port: "eth0".into(), at_ns: vec![1], ..Telemetry::default() });
    let memory = &service.memory;
    until("ack", || memory.count(|event| matches!(event, Event::PlanAck { plan_version: 5, .. })) == 1).await;
    until("report", || memory.count(|event| matches!(event, Event::Report { .. })) == 1).await;
    until("telemetry", || memory.telemetry.lock().unwrap().iter().any(|(host, frame)| host == "node-1" && frame.port == "eth0")).await;
}

#[tokio::test]
async fn a_plan_that_is_not_taken_is_replaced_by_the_newest() {
    let dir = authority();
    let service = Service::start(tls(dir.path())).await;
    let mut agent = Agent::start(service.address, "node-1", issue(dir.path(), "node-1"));
    agent.up().await;
    for plan_version in 1..=300 {
        service.memory.plan(plan_version);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut taken = vec![agent.plan().await.plan_version];
    while taken.last() != Some(&300) {
        taken.push(agent.plan().await.plan_version);
    }
    // One in the channel, one waiting behind it, and those that came while these were taken.
    assert!(taken.is_sorted() && taken.len() < 10, "{taken:?}");
}

/// By that the service tells an agent that comes again from another one of the same name.
#[tokio::test]
async fn a_program_is_the_same_in_all_its_sessions_and_another_is_another() {
    let dir = authority();
    let service = Service::start(tls(dir.path())).await;
    let (address, credentials) = (service.address, issue(dir.path(), "node-1"));
    let mut agents = [Agent::start(address, "node-1", credentials.clone()), Agent::start(address, "node-1", credentials)];
    let drawn = |service: &Service| {
        let of = |event: &Event| match event {
            Event::AgentHello { origin, .. } => Some((origin.instance, origin.from.clone())),
            _ => None,
        };
        service.memory.events.lock().unwrap().iter().filter_map(of).collect::<BTreeSet<_>>()
    };
    for agent in &mut agents {
        agent.up().await;
    }
    until("two hellos", || drawn(&service).len() == 2).await;
    let before = drawn(&service);
    assert!(before.iter().all(|(instance, from)| *instance != 0 && from == "127.0.0.1"), "{before:?}");
    service.stop().await;
    let again = Service::start_at(address, tls(dir.path())).await;
    until("two hellos again", || drawn(&again).len() == 2).await;
    assert_eq!(drawn(&again), before);
}

#[tokio::test]
async fn agents_come_back_to_a_restarted_service_with_the_plan_version_of_their_pages() {
    let dir = authority();
    let service = Service::start(tls(dir.path())).await;
    let address = service.address;
    let mut agents: Vec<Agent> =
        (0..4).map(|i| Agent::start(address, &format!("node-{i}"), issue(dir.path(), &format!("node-{i}")))).collect();
    for agent in &mut agents {
        agent.up().await;
        agent.session.uplink.send(ack(7));
    }
    // A session may end before its first probe is answered.
    until("clocks", || agents.iter().all(|agent| agent.session.clock.borrow().is_some())).await;
    let memory = service.memory.clone();
    until("acks", || memory.count(|event| matches!(event, Event::PlanAck { .. })) == 4).await;
    service.stop().await;
    for agent in &mut agents {
        let said = agent.down().await;
        // What ended the session, or why an attempt since then failed.
        assert!(said.contains("the service is stopping") || said.contains(&address.to_string()), "{said}");
        // Nobody hears this one, and nobody waits for it.
        agent.session.uplink.send(report(1));
        let estimate = *agent.session.clock.borrow();
        assert!(estimate.is_some(), "what is known of the clock outlives the session");
    }
    let service = Service::start_at(address, tls(dir.path())).await;
    let memory = service.memory.clone();
    until("all are back", || memory.hellos().len() == 4).await;
    let mut hellos = memory.hellos();
    hellos.sort();
    assert_eq!(hellos, (0..4).map(|i| (format!("node-{i}"), 7)).collect::<Vec<_>>());
    for agent in &mut agents {
        agent.up().await;
        assert_eq!(agent.stat("admitted"), 2);
    }
}

#[tokio::test]
async fn whoever_is_not_admitted_knows_why() {
    let (dir, other) = (authority(), authority());
    let service = Service::start(tls(dir.path())).await;
    let reason = |host: &'static str, credentials: Credentials| {
        let address = service.address;
        async move { Agent::start(address, host, credentials).down().await }
    };
    let said = reason("node-2", issue(dir.path(), "node-1")).await;
    assert!(said.contains("the service refused") && said.contains("node-1, not the host \"node-2\""), "{said}");
    // Signed by another authority, but it trusts ours.
    let Credentials::Files { certificate, key, .. } = issue(other.path(), "node-1") else { unreachable!() };
    let foreign = Credentials::Files { ca: pki::authority_path(dir.path()), certificate, key };
    let said = reason("node-1", foreign).await;
    assert!(said.contains("aborted by peer") && said.contains("node-1.pem has to be of the service's client authorities"), "{said}");
    // It trusts another authority than the service's.
    let said = reason("node-1", issue(other.path(), "node-1")).await;
    assert!(said.contains("certificate"), "{said}");
    let missing = Credentials::Files { ca: "/nowhere/ca.pem".into(), certificate: "/a".into(), key: "/b".into() };
    assert!(reason("node-1", missing).await.contains("/nowhere/ca.pem"));
    assert_eq!(service.memory.hellos(), []);
}

#[tokio::test]
async fn without_certificates_an_agent_of_this_machine_is_admitted() {
    let service = Service::start(Tls::throw_away().unwrap()).await;
    let mut agent = Agent::start(service.address, "laptop", Credentials::InsecureLoopback);
    agent.up().await;
    until("hello", || service.memory.hellos() == [("laptop".to_owned(), 0)]).await;
    // But a service with certificates admits nobody without one.
    let dir = authority();
    let strict = Service::start(tls(dir.path())).await;
    let said = Agent::start(strict.address, "laptop", Credentials::InsecureLoopback).down().await;
    assert!(said.contains("certificate"), "{said}");
}

#[tokio::test]
async fn renewed_certificates_are_taken_up_on_request() {
    let dir = authority();
    let service = Service::start(tls(dir.path())).await;
    let mut agent = Agent::start(service.address, "node-1", issue(dir.path(), "node-1"));
    agent.up().await;
    // A new authority and a new certificate, on both ends.
    let before = fs::read(dir.path().join("node-1.pem")).unwrap();
    pki::init(dir.path(), &["127.0.0.1".into()], true).unwrap();
    issue(dir.path(), "node-1");
    assert_ne!(fs::read(dir.path().join("node-1.pem")).unwrap(), before);
    service.tls.reload().unwrap();
    agent.session.reload.notify_one();
    until("a second hello", || service.memory.hellos().len() == 2).await;
    assert!(service.memory.count(|event| matches!(event, Event::AgentGone { .. })) >= 1);
}

#[tokio::test]
async fn an_agent_whose_authority_is_gone_says_what_to_do_and_comes_back_with_a_new_certificate() {
    let (dir, other) = (authority(), authority());
    // A file of its own: the agent goes on trusting the authority of the service's certificate.
    let client_ca = dir.path().join("clients.pem");
    fs::copy(pki::authority_path(dir.path()), &client_ca).unwrap();
    let pki::Issued { certificate, key } = pki::service_paths(dir.path());
    let service = Service::start(Tls::load(TlsFiles { certificate, key, client_ca: client_ca.clone(), revoked: None }).unwrap()).await;
    let credentials = issue(dir.path(), "node-1");
    let Credentials::Files { certificate, key, .. } = credentials.clone() else { unreachable!() };
    let mut agent = Agent::start(service.address, "node-1", credentials);
    agent.up().await;
    fs::copy(pki::authority_path(other.path()), client_ca).unwrap();
    service.tls.reload().unwrap();
    let said = agent.down().await;
    assert!(said.contains("client authorities changed") && said.contains("give the agent one that is"), "{said}");
    until("its next attempt fails", || agent.stat("failed") > 0).await;
    let said = agent.down().await;
    assert!(said.contains("node-1.pem has to be of the service's client authorities"), "{said}");
    let Credentials::Files { certificate: new, key: new_key, .. } = issue(other.path(), "node-1") else { unreachable!() };
    fs::copy(new_key, key).unwrap();
    fs::copy(new, certificate).unwrap();
    // Nobody tells the agent: it reads its files again at each attempt.
    agent.up().await;
    assert_eq!(agent.stat("admitted"), 2);
}

#[tokio::test]
async fn an_agent_that_stops_says_goodbye() {
    let dir = authority();
    let service = Service::start(tls(dir.path())).await;
    let mut agent = Agent::start(service.address, "node-1", issue(dir.path(), "node-1"));
    agent.up().await;
    drop(agent);
    // Long before the silence of 10 s would end it, most likely; in any case once.
    until("gone", || service.memory.count(|event| matches!(event, Event::AgentGone { .. })) == 1).await;
}
