//! What an admitted agent and the controller hear of each other.

use std::time::Duration;

use antiphase_topology::{
    pki,
    quic::{CloseCode, Settings},
};
use bytes::Bytes;
use prost::Message;
use proto::{
    frame,
    v1alpha1::{
        ClockEcho, ClockProbe, CounterDeltas, GateReport, Goodbye, HostPlan, PlanAck, Report, Slot, Telemetry, agent_frame, service_frame,
    },
};
use quinn::{TransportConfig, VarInt};
use state::Event;

use crate::rig::{Agent, Pki, SOON, Service, client_with, closed_by_service, hello, report, said, until};

#[tokio::test]
async fn plans_go_out_and_acks_reports_and_samples_come_in() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let mut agent = Agent::welcomed(&service, &pki, "node-1").await;
    let slot = Slot { job: "bert".into(), period_ns: 250_000_000, ..Slot::default() };
    let plan = HostPlan { plan_version: 3, slots: vec![slot] };
    service.memory.last_outbox().plan(plan.clone());
    assert_eq!(agent.next().await.unwrap(), service_frame::Kind::Plan(plan));

    agent.say(&said(agent_frame::Kind::PlanAck(PlanAck { plan_version: 3, written_ns: 1 }))).await;
    let gates = vec![GateReport { job: "bert".into(), iterations: 4, ..GateReport::default() }];
    agent.say(&said(agent_frame::Kind::Report(Report { sequence: 1, clock: None, gates }))).await;
    until("ack and report", || service.memory.count(|event| matches!(event, Event::PlanAck { plan_version: 3, .. })) == 1).await;
    let reported = |event: &Event| matches!(event, Event::Report { report, .. } if report.gates[0].iterations == 4);
    until("report", || service.memory.count(reported) == 1).await;

    let mut stream = agent.connection.open_uni().await.unwrap();
    let frames: Vec<Telemetry> = (0..20_u64)
        .map(|at| Telemetry {
            port: "eth0".into(),
            at_ns: vec![at],
            counters: vec![CounterDeltas { name: "tx".into(), delta: vec![at * 1_000] }],
            queue_pairs: None,
        })
        .collect();
    for sent in &frames {
        stream.write_all(&frame::encode(sent).unwrap()).await.unwrap();
    }
    stream.finish().unwrap();
    until("telemetry", || service.memory.telemetry.lock().unwrap().len() == 20).await;
    let seen = service.memory.telemetry.lock().unwrap().clone();
    assert!(seen.iter().zip(&frames).all(|((host, frame), sent)| host == "node-1" && frame == sent));
    // One stream ended, so another may follow.
    let mut stream = tokio::time::timeout(SOON, agent.connection.open_uni()).await.unwrap().unwrap();
    stream.write_all(&frame::encode(&frames[0]).unwrap()).await.unwrap();
    until("a second stream", || service.memory.telemetry.lock().unwrap().len() == 21).await;

    agent.say(&said(agent_frame::Kind::Goodbye(Goodbye { reason: "upgrade".into() }))).await;
    assert_eq!(closed_by_service(&agent.closed().await), (CloseCode::Done as u64, "goodbye: upgrade".into()));
}

#[tokio::test]
async fn probes_are_answered_with_fabric_time() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let agent = Agent::welcomed(&service, &pki, "node-1").await;
    for sequence in 1..=20 {
        let before = service.clock.now();
        let probe = ClockProbe { sequence, sent_ns: 77 }.encode_to_vec();
        agent.connection.send_datagram(probe.into()).unwrap();
        let datagram = tokio::time::timeout(SOON, agent.connection.read_datagram()).await.unwrap().unwrap();
        let after = service.clock.now();
        let echo = ClockEcho::decode(datagram).unwrap();
        assert_eq!((echo.sequence, echo.sent_ns), (sequence, 77));
        assert!(before.0 <= echo.received_ns && echo.received_ns <= echo.echoed_ns && echo.echoed_ns <= after.0, "{echo:?}");
    }
    agent.connection.send_datagram(Bytes::from_static(b"\xff\xff no probe")).unwrap();
    until("counted", || service.stats.strange_datagrams.get() == 1).await;
    assert_eq!(service.stats.probes.get(), 20);
}

#[tokio::test]
async fn frames_behind_the_hello_are_not_lost() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let config = client_with(&pki::authority_path(pki.dir()), Some(&pki.agent("node-1")), TransportConfig::default());
    let mut agent = Agent::connect(service.address, config).await.unwrap();
    agent.say(&[said(agent_frame::Kind::Hello(hello("node-1"))), report(1), report(2)].concat()).await;
    until("both reports", || service.memory.count(|event| matches!(event, Event::Report { .. })) == 2).await;
    let first = service.memory.events.lock().unwrap().first().cloned();
    assert!(matches!(first, Some(Event::AgentHello { .. })), "{first:?}");
}

#[tokio::test]
async fn the_brain_ends_a_session_with_its_reason() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let mut agent = Agent::welcomed(&service, &pki, "node-1").await;
    service.memory.last_outbox().end("another agent speaks for node-1", true);
    let service_frame::Kind::Refusal(refusal) = agent.next().await.unwrap() else { panic!("no refusal") };
    assert_eq!((refusal.reason.as_str(), refusal.retry), ("another agent speaks for node-1", true));
    assert_eq!(closed_by_service(&agent.closed().await).0, CloseCode::Ended as u64);
}

#[tokio::test]
async fn a_shutdown_tells_every_agent_and_the_brain() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let mut agents = Vec::new();
    for i in 0..5 {
        agents.push(Agent::welcomed(&service, &pki, &format!("node-{i}")).await);
    }
    let memory = service.stop().await;
    for agent in agents {
        assert_eq!(closed_by_service(&agent.closed().await), (CloseCode::Stopping as u64, "the service is stopping".into()));
    }
    assert_eq!(memory.count(|event| matches!(event, Event::AgentGone { .. })), 5);
}

#[tokio::test]
async fn a_silent_agent_is_given_up_though_its_connection_lives() {
    let pki = Pki::new();
    let settings = Settings { silence_max: Duration::from_millis(600), ..Settings::default() };
    let service = Service::start(pki.tls(), settings);
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(Duration::from_millis(100)));
    let config = client_with(&pki::authority_path(pki.dir()), Some(&pki.agent("node-1")), transport);
    let mut agent = Agent::connect(service.address, config).await.unwrap();
    agent.say(&said(agent_frame::Kind::Hello(hello("node-1")))).await;
    let (code, reason) = closed_by_service(&agent.closed().await);
    assert!(code == CloseCode::Silent as u64 && reason.contains("no report for 0.6 s"), "{code} {reason}");
    until("gone", || service.memory.count(|event| matches!(event, Event::AgentGone { .. })) == 1).await;
}

/// 500 slots: 30 KB a plan.
fn large(plan_version: u64) -> HostPlan {
    HostPlan { plan_version, slots: (0..500).map(|i| Slot { job: format!("job-{i:048}"), ..Slot::default() }).collect() }
}

/// An agent that takes 1 KiB and then no more until it reads.
async fn slow(service: &Service, pki: &Pki) -> Agent {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(1_024));
    let config = client_with(&pki::authority_path(pki.dir()), Some(&pki.agent("node-1")), transport);
    let mut agent = Agent::connect(service.address, config).await.unwrap();
    agent.say(&said(agent_frame::Kind::Hello(hello("node-1")))).await;
    assert!(matches!(agent.next().await.unwrap(), service_frame::Kind::Welcome(_)));
    agent
}

#[tokio::test]
async fn a_slow_reader_gets_the_newest_plan_and_not_all_of_them() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let mut agent = slow(&service, &pki).await;
    let outbox = service.memory.last_outbox();
    const PLANS: u64 = 2_000;
    for plan_version in 1..=PLANS {
        outbox.plan(large(plan_version));
        if plan_version % 50 == 0 {
            // The session gets its turn, as it would between commits.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let mut seen = Vec::new();
    while seen.last() != Some(&PLANS) {
        let service_frame::Kind::Plan(plan) = agent.next().await.unwrap() else { panic!("not a plan") };
        assert_eq!(plan.slots.len(), 500);
        seen.push(plan.plan_version);
    }
    assert!(seen.is_sorted() && seen.len() < 50, "{seen:?}");
}

#[tokio::test]
async fn who_reports_and_never_reads_is_cut() {
    let pki = Pki::new();
    let settings = Settings { silence_max: Duration::from_millis(800), ..Settings::default() };
    let service = Service::start(pki.tls(), settings);
    let mut agent = slow(&service, &pki).await;
    let outbox = service.memory.last_outbox();
    for sequence in 0..600 {
        // More than the send window of the connection, so that the session itself has to wait.
        outbox.plan(large(sequence + 1));
        agent.say(&report(sequence)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if agent.connection.close_reason().is_some() {
            break;
        }
    }
    let (code, reason) = closed_by_service(&agent.closed().await);
    assert!(code == CloseCode::Silent as u64 && reason.contains("has not read its plan"), "{code} {reason}");
}
