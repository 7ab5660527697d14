//! Garbage and floods: no panic, bounded memory, and others are still served.

use std::{net::UdpSocket, time::Duration};

use antiphase_topology::{
    pki,
    quic::{CONTROL_FRAME_BYTES_MAX, CloseCode, FRAMES_BURST, FRAMES_PER_SECOND_MAX, Settings, TELEMETRY_FRAME_BYTES_MAX},
};
use bytes::Bytes;
use proto::v1alpha1::{agent_frame, service_frame};
use state::Event;

use crate::rig::{Agent, Garbage, Pki, SOON, Service, client, closed_by_service, hello, report, resident_bytes, said, until};

/// Pieces of garbage; `ANTIPHASE_GARBAGE` sets another count.
fn garbage_count() -> usize {
    std::env::var("ANTIPHASE_GARBAGE").map_or(10_000, |count| count.parse().expect("ANTIPHASE_GARBAGE is a number"))
}

/// What a test may grow by: far below one frame's limit times the pieces of garbage.
const GROWTH_MAX: u64 = 96 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_datagrams_do_nothing() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let mut agent = Agent::welcomed(&service, &pki, "node-1").await;
    let before = resident_bytes();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut garbage = Garbage(0x5eed);
    for i in 0..garbage_count() {
        let len = 1 + garbage.below(1_400);
        let mut bytes = garbage.bytes(len);
        match i % 4 {
            // Plain noise, and then what looks more and more like QUIC: a long header, version 1, an Initial of full size.
            0 => {}
            1 => bytes[0] |= 0xc0,
            2 => bytes.splice(..5.min(bytes.len()), [0xc0, 0, 0, 0, 1]).for_each(drop),
            _ => {
                bytes.resize(1_200, 0);
                bytes.splice(..7, [0xc0, 0, 0, 0, 1, 8, 1]).for_each(drop);
            }
        }
        // A full socket buffer drops, as a network would.
        let _ = socket.send_to(&bytes, service.address);
        if i % 512 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    agent.say(&report(1)).await;
    until("an old session lives", || service.memory.count(|event| matches!(event, Event::Report { .. })) == 1).await;
    Agent::welcomed(&service, &pki, "node-2").await;
    service.assert_serves();
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "grew by {grown} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_control_stream_is_refused_or_cut() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let config = client(&pki::authority_path(pki.dir()), Some(&pki.agent("node-1")));
    let before = resident_bytes();
    let mut garbage = Garbage(0xbad);
    // Each of these costs a handshake, so there are fewer of them.
    for i in 0..garbage_count() / 50 {
        let mut agent = Agent::connect(service.address, config.clone()).await.unwrap();
        let after_hello = i % 2 == 1;
        if after_hello {
            agent.say(&said(agent_frame::Kind::Hello(hello("node-1")))).await;
        }
        let len = 5 + garbage.below(3_000);
        let mut bytes = garbage.bytes(len);
        match (i / 2) % 3 {
            // A length that is too long, most likely.
            0 => bytes[0] |= 0x80,
            // The longest that is taken, and never all of it.
            1 => bytes.splice(..4, (CONTROL_FRAME_BYTES_MAX as u32).to_be_bytes()).for_each(drop),
            // A whole frame of noise.
            _ => bytes.splice(..4, (u32::try_from(len - 4).unwrap()).to_be_bytes()).for_each(drop),
        }
        agent.say(&bytes).await;
        // Half of what is left waits for more. Ending the stream ends the wait.
        let _ = agent.send.finish();
        loop {
            match agent.next().await {
                Ok(service_frame::Kind::Welcome(_)) if after_hello => {}
                Ok(service_frame::Kind::Refusal(_)) if !after_hello => {}
                Ok(other) => panic!("{other:?}"),
                Err(_) => break,
            }
        }
    }
    until("all ended", || service.stats.ended.get() == service.stats.admitted.get()).await;
    assert!(service.stats.cut.get() > 0 && service.stats.refused.get() > 0);
    service.assert_serves();
    Agent::welcomed(&service, &pki, "node-2").await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "grew by {grown} bytes");
}

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
