//! Floods of first packets, from addresses that are forged, from one address, and in the name of an honest one: real datagrams over real
//! sockets. An honest agent connects all the same, and memory has a bound.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use antiphase_topology::{pki, quic::Settings};
use proto::v1alpha1::{agent_frame, service_frame};
use quinn::{ClientConfig, Endpoint};

use crate::rig::{Agent, Pki, SOON, Service, client, hello, said};

/// First packets, each of a connection of its own.
const PACKETS: usize = 3_000;
/// What the service may hold for a flood: 1,024 handshakes of 50 KiB, their packets, and what the allocator keeps.
const GROWTH_KIB_MAX: u64 = 160 << 10;
/// A flood sends so many packets and then rests for a moment: more than the service can answer, and less than the test's machine can send.
const AT_ONCE: usize = 40;
const REST: Duration = Duration::from_millis(2);

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// First packets of real clients, as they would go to the service.
async fn first_packets(config: &ClientConfig) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    sink.set_nonblocking(true).unwrap();
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let mut packets = Vec::new();
    let mut datagram = [0; 2_048];
    while packets.len() < PACKETS {
        let connecting = endpoint.connect_with(config.clone(), sink.local_addr().unwrap(), "localhost").unwrap();
        let until = Instant::now() + SOON;
        loop {
            match sink.recv(&mut datagram) {
                // The long head of an Initial of version 1 (RFC 9000, section 17.2.2).
                Ok(length) if datagram[0] & 0xf0 == 0xc0 => break packets.push(datagram[..length].to_vec()),
                Ok(_) => {}
                Err(_) => tokio::time::sleep(Duration::from_micros(200)).await,
            }
            assert!(Instant::now() < until, "no first packet");
        }
        drop(connecting);
    }
    packets
}

/// Sends first packets from these addresses in turn until it is told to stop.
fn flood(
    to: SocketAddr,
    from: Vec<UdpSocket>,
    packets: Arc<Vec<Vec<u8>>>,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut n = 0;
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..AT_ONCE {
                // A full buffer takes none, which is a flood too.
                let _ = from[n % from.len()].send_to(&packets[n % packets.len()], to);
                n += 1;
            }
            sent.store(n, Ordering::Relaxed);
            std::thread::sleep(REST);
        }
    })
}

/// Until the service has welcomed the agent; one that is turned away comes again, as real ones do.
async fn welcomed(service: &Service, config: &ClientConfig) -> (Duration, usize) {
    let began = Instant::now();
    for tries in 1.. {
        assert!(began.elapsed() < SOON, "an honest agent is kept out: {tries} tries");
        let Ok(mut agent) = Agent::connect(service.address, config.clone()).await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        agent.say(&said(agent_frame::Kind::Hello(hello("node-1")))).await;
        if let Ok(service_frame::Kind::Welcome(_)) = agent.next().await {
            return (began.elapsed(), tries);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_first_packets_keep_no_honest_agent_out() {
    let pki = Pki::new();
    let service = Service::start(pki.tls(), Settings::default());
    let config = client(&pki::authority_path(pki.dir()), Some(&pki.agent("node-1")));
    let packets = first_packets(&config).await;
    let bound = |address: [u8; 4]| UdpSocket::bind((Ipv4Addr::from(address), 0)).unwrap();
    let floods = [
        ("400 addresses", (0..400_u16).map(|n| bound([127, 20, n.to_be_bytes()[0], n.to_be_bytes()[1] | 1])).collect()),
        ("one address", vec![bound([127, 30, 0, 1])]),
        ("the agent's own address", vec![bound([127, 0, 0, 1])]),
    ];
    // Caches and allocators are warm.
    welcomed(&service, &config).await;
    let before = resident_kib();
    let mut peak = before;
    // Each flood has packets of its own: those of handshakes that are under way are no attempts.
    for ((whence, from), packets) in floods.into_iter().zip(packets.chunks(PACKETS / 3)) {
        let packets = Arc::new(packets.to_vec());
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let flooding = flood(service.address, from, Arc::clone(&packets), Arc::clone(&stop), Arc::clone(&sent));
        let refused = (service.stats.retried.get(), service.stats.turned_away.get());
        let (until, mut slowest, mut agents) = (Instant::now() + Duration::from_secs(3), Duration::ZERO, 0);
        // On a busy machine it takes longer until so many handshakes are under way.
        let goes_on = |retried: u64| Instant::now() < until || retried == refused.0 && Instant::now() < until + SOON;
        while goes_on(service.stats.retried.get()) || agents < 3 {
            let (took, _) = welcomed(&service, &config).await;
            (slowest, agents) = (slowest.max(took), agents + 1);
            peak = peak.max(resident_kib());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        stop.store(true, Ordering::Relaxed);
        flooding.join().unwrap();
        let (retried, turned_away) = (service.stats.retried.get() - refused.0, service.stats.turned_away.get() - refused.1);
        println!(
            "{whence}: {} packets, {retried} told to prove their address, {turned_away} turned away; {agents} agents welcomed, the slowest after {slowest:?}",
            sent.load(Ordering::Relaxed)
        );
        assert!(retried > 0, "{whence}: nobody had to prove an address");
    }
    println!("{before} KiB before, {peak} KiB at the peak");
    assert!(peak < before + GROWTH_KIB_MAX, "{before} KiB before, {peak} KiB at the peak");
    service.assert_serves();
}
