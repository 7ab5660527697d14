//! Garbage by the thousand: no panic, bounded memory, and agents are still served. A process of its own, because it looks at
//! its own memory.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, reason = "shared with the other tests")]
#[path = "../quic/rig.rs"]
mod rig;

use std::{
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

use antiphase_topology::{
    pki,
    quic::{CONTROL_FRAME_BYTES_MAX, Settings},
    tls::Role,
};
use proto::v1alpha1::{agent_frame, service_frame};
use quinn::Endpoint;
use state::Event;

use rig::{Agent, Pki, Service, client, hello, report, said, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_survived_in_bounded_memory() {
    random_datagrams_do_nothing().await;
    garbage_on_the_control_stream_is_refused_or_cut().await;
}

/// Pieces of garbage; `ANTIPHASE_GARBAGE` sets another count.
fn garbage_count() -> usize {
    std::env::var("ANTIPHASE_GARBAGE").map_or(10_000, |count| count.parse().expect("ANTIPHASE_GARBAGE is a number"))
}

/// What memory may grow by after the first tenth: a tenth of what holding every piece would take.
const GROWTH_MAX: u64 = 16 * 1024 * 1024;

async fn random_datagrams_do_nothing() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let mut agent = Agent::welcomed(&service, &pki, "node-1").await;
    let mut before = 0;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut garbage = Garbage(0x5eed);
    let count = garbage_count();
    for i in 0..count {
        if i == count / 10 {
            before = resident_bytes();
        }
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

async fn garbage_on_the_control_stream_is_refused_or_cut() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    // One host may say hello ten times, and no more than once a second then.
    let names: Vec<String> = (0..64).map(|n| format!("node-1-{n}")).collect();
    let names_of: Vec<&str> = names.iter().map(String::as_str).collect();
    let agent = pki.issue(Role::Agent, "many", &names_of, pki::CLIENT_LIFETIME);
    let config = client(&pki::authority_path(pki.dir()), Some(&agent));
    let mut before = 0;
    let mut garbage = Garbage(0xbad);
    // Each of these costs a handshake, so there are fewer of them.
    let count = garbage_count() / 50;
    let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap();
    for i in 0..count {
        if i == count / 10 {
            before = resident_bytes();
        }
        let mut agent = Agent::connect_from(endpoint.clone(), service.address, config.clone()).await.unwrap();
        let after_hello = i % 2 == 1;
        if after_hello {
            agent.say(&said(agent_frame::Kind::Hello(hello(&names[i % names.len()])))).await;
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

/// Resident memory of this process.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A seeded stream of garbage: xorshift64*.
struct Garbage(u64);

impl Garbage {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
