//! Frames that nobody should send, and floods: they end the session, and others are still served.

use std::{net::Ipv4Addr, time::Duration};

use antiphase_topology::{
    pki,
    quic::{CONTROL_FRAME_BYTES_MAX, CloseCode, FRAMES_BURST, FRAMES_PER_SECOND_MAX, Settings, TELEMETRY_FRAME_BYTES_MAX},
};
use bytes::Bytes;
use proto::v1alpha1::{agent_frame, service_frame};
use quinn::{ConnectionError, Endpoint};
use state::Event;

use crate::rig::{Agent, Pki, SOON, Service, client, closed_by_service, hello, report, said, until};

#[tokio::test]
async fn a_giant_length_is_refused_before_it_is_held() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let config = client(&pki::authority_path(pki.dir()), Some(&pki.agent("node-1")));
    let mut early = Agent::connect(service.address, config).await.unwrap();
    early.say(&u32::MAX.to_be_bytes()).await;
    let service_frame::Kind::Refusal(refusal) = early.next().await.unwrap() else { panic!("no refusal") };
    assert_eq!(refusal.reason, format!("a frame of 4294967295 bytes; at most {CONTROL_FRAME_BYTES_MAX} are read"));

    let mut late = Agent::welcomed(&service, &pki, "node-1").await;
    late.say(&(CONTROL_FRAME_BYTES_MAX as u32 + 1).to_be_bytes()).await;
    assert_eq!(closed_by_service(&late.closed().await).0, CloseCode::Malformed as u64);

    let telemetry = Agent::welcomed(&service, &pki, "node-1").await;
    let mut stream = telemetry.connection.open_uni().await.unwrap();
    stream.write_all(&(TELEMETRY_FRAME_BYTES_MAX as u32 + 1).to_be_bytes()).await.unwrap();
    let (code, reason) = closed_by_service(&telemetry.closed().await);
    assert!(code == CloseCode::Malformed as u64 && reason.contains(&TELEMETRY_FRAME_BYTES_MAX.to_string()), "{reason}");
}

#[tokio::test]
async fn a_second_hello_is_no_protocol() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let mut agent = Agent::welcomed(&service, &pki, "node-1").await;
    agent.say(&said(agent_frame::Kind::Hello(hello("node-1")))).await;
    assert_eq!(closed_by_service(&agent.closed().await), (CloseCode::Malformed as u64, "a second hello".into()));
}

#[tokio::test]
async fn who_opens_and_says_nothing_is_let_go() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let config = client(&pki::authority_path(pki.dir()), Some(&pki.agent("node-1")));
    let mut half = Vec::new();
    for i in 0..20_usize {
        let mut agent = Agent::connect(service.address, config.clone()).await.unwrap();
        // Nothing, or the first bytes of a hello.
        agent.say(&said(agent_frame::Kind::Hello(hello("node-1")))[..i]).await;
        half.push(agent);
    }
    Agent::welcomed(&service, &pki, "node-2").await;
    for agent in half {
        assert_eq!(closed_by_service(&agent.closed().await), (CloseCode::Refused as u64, "no hello in time".into()));
    }
    assert_eq!(service.memory.hosts(), ["node-2"]);
}

#[tokio::test]
async fn an_address_with_many_handshakes_must_prove_itself_and_then_wait() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let config = client(&pki::authority_path(pki.dir()), Some(&pki.agent("node-1")));
    let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap();
    let mut held = Vec::new();
    // None of them says hello, so each is a handshake under way for 5 s.
    let refused = loop {
        match Agent::connect_from(endpoint.clone(), service.address, config.clone()).await {
            Ok(agent) => held.push(agent),
            Err(error) => break error,
        }
        assert!(held.len() < 1_000, "nobody is turned away");
    };
    assert!(matches!(refused, ConnectionError::ConnectionClosed(_)), "{refused:?}");
    assert!(service.stats.retried.get() > 0 && service.stats.turned_away.get() > 0);
    drop(held);
    // When they are gone, there is room again.
    until("all are let go", || service.stats.refused.get() + service.stats.handshakes_failed.get() >= 16).await;
    let mut tries = 0;
    while Agent::connect_from(endpoint.clone(), service.address, config.clone()).await.is_err() {
        tries += 1;
        assert!(tries < 300, "there is no room again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_frames_is_cut_and_others_are_served() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let mut calm = Agent::welcomed(&service, &pki, "node-2").await;
    let mut flooding = Agent::welcomed(&service, &pki, "node-1").await;
    let begun = std::time::Instant::now();
    for sequence in 0..20_000 {
        if flooding.send.write_all(&report(sequence)).await.is_err() {
            break;
        }
    }
    let (code, reason) = closed_by_service(&flooding.closed().await);
    assert!(code == CloseCode::Flood as u64 && reason.contains("frames a second"), "{code} {reason}");
    let reports = service.memory.count(|event| matches!(event, Event::Report { .. }));
    let most = FRAMES_BURST as usize + (begun.elapsed().as_secs() as usize + 1) * FRAMES_PER_SECOND_MAX as usize;
    assert!(reports <= most, "{reports} reports, at most {most}");
    calm.say(&report(1)).await;
    until("the calm one is heard", || service.memory.count(|event| matches!(event, Event::Report { .. })) == reports + 1).await;
    assert_eq!(service.stats.cut.get(), 1);
    service.assert_serves();
}

#[tokio::test]
async fn floods_of_datagrams_and_samples_are_cut() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let probing = Agent::welcomed(&service, &pki, "node-1").await;
    let waited = tokio::time::timeout(SOON, async {
        while probing.connection.close_reason().is_none() {
            let _ = probing.connection.send_datagram_wait(Bytes::from_static(b"x")).await;
        }
    });
    waited.await.expect("cut in time");
    let (code, reason) = closed_by_service(&probing.closed().await);
    assert!(code == CloseCode::Flood as u64 && reason.contains("datagrams a second"), "{code} {reason}");

    let sampling = Agent::welcomed(&service, &pki, "node-1").await;
    let mut stream = sampling.connection.open_uni().await.unwrap();
    // Empty frames: four bytes of zero each.
    let zeros = vec![0; 64 * 1024];
    let waited = tokio::time::timeout(SOON, async { while stream.write_all(&zeros).await.is_ok() {} });
    waited.await.expect("cut in time");
    let (code, reason) = closed_by_service(&sampling.closed().await);
    assert!(code == CloseCode::Flood as u64 && reason.contains("bytes of telemetry"), "{code} {reason}");
}
