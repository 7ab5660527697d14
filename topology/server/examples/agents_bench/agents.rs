//! Many agents in one process: each has its own connection, session and clock probes; they share a few sockets.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    path::Path,
    sync::Arc,
    time::Duration,
};

use antiphase_topology::pki::{self, HOSTS_MAX};
use prost::Message;
use proto::{
    PROTOCOL,
    frame::{self, Decoder},
    v1alpha1::{AgentFrame, ClockProbe, ClockQuality, Hello, PlanAck, Report, ServiceFrame, agent_frame, service_frame},
};
use quinn::{ClientConfig, Endpoint, EndpointConfig, TokioRuntime, TransportConfig, crypto::rustls::QuicClientConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{sync::Semaphore, time::Instant};

use crate::turns::{Board, Player};

/// Sockets of all agents; as many ports as a small fabric has hosts would need a descriptor and buffers each.
const SOCKETS: usize = 8;
/// Below what the service allows one address, which all of these share.
const HANDSHAKES: usize = 48;
/// Wait of an agent that lost its session.
const COME_AGAIN: Duration = Duration::from_secs(1);

pub(crate) fn host(number: usize) -> String {
    format!("node-{number}")
}

pub(crate) fn group_name(group: usize) -> String {
    format!("group-{group}")
}

/// Runs until it is killed.
pub(crate) fn main(service: SocketAddr, dir: &Path, count: usize, takes_turns: bool) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let endpoints: Vec<Endpoint> = (0..SOCKETS).map(|_| socket()).collect();
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
        let board = takes_turns.then(Board::start);
        for group in 0..count.div_ceil(HOSTS_MAX) {
            let config = config(dir, group);
            for number in group * HOSTS_MAX..count.min((group + 1) * HOSTS_MAX) {
                // Taken here first, so that tasks are made as fast as they connect and not all at once.
                let mut permit = Some(Arc::clone(&handshakes).acquire_owned().await.unwrap());
                let (endpoint, config, handshakes) = (endpoints[number % SOCKETS].clone(), config.clone(), Arc::clone(&handshakes));
                let board = board.clone();
                tokio::spawn(async move {
                    loop {
                        let permit = match permit.take() {
                            Some(permit) => permit,
                            None => Arc::clone(&handshakes).acquire_owned().await.unwrap(),
                        };
                        let ended = agent(endpoint.clone(), config.clone(), service, number, permit, board.clone()).await;
                        // As the real one does, so that an overloaded machine shows here and in the count of agents.
                        eprintln!("agent {number} comes again: {ended:?}");
                        tokio::time::sleep(COME_AGAIN).await;
                    }
                });
            }
        }
        std::future::pending::<()>().await;
    });
}

fn socket() -> Endpoint {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // In the field every agent has a socket of its own; here a thousand share this one.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 8 << 20);
    Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime)).unwrap()
}

fn config(dir: &Path, group: usize) -> ClientConfig {
    let chain = |path: &Path| CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let mut roots = rustls::RootCertStore::empty();
    chain(&pki::authority_path(dir)).into_iter().for_each(|authority| roots.add(authority).unwrap());
    let issued = pki::paths(dir, &group_name(group));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let key = PrivateKeyDer::from_pem_file(&issued.key).unwrap();
    let mut tls = builder.with_root_certificates(roots).with_client_auth_cert(chain(&issued.certificate), key).unwrap();
    tls.alpn_protocols = vec![proto::ALPN.to_vec()];
    tls.resumption = rustls::client::Resumption::disabled();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut transport = TransportConfig::default();
    transport.datagram_receive_buffer_size(Some(4_096));
    transport.mtu_discovery_config(None);
    config.transport_config(Arc::new(transport));
    config
}

async fn woken(player: Option<&Player>) {
    match player {
        Some(player) => player.due().await,
        None => std::future::pending().await,
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn said(kind: agent_frame::Kind) -> Vec<u8> {
    frame::encode(&AgentFrame { kind: Some(kind) }).unwrap()
}

async fn agent(
    endpoint: Endpoint,
    config: ClientConfig,
    service: SocketAddr,
    number: usize,
    permit: tokio::sync::OwnedSemaphorePermit,
    board: Option<Arc<Board>>,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let failed = |error| format!("handshake: {error} after {:?}, from {:?}", begun.elapsed(), endpoint.local_addr());
    let connection = endpoint.connect_with(config, service, "localhost")?.await.map_err(failed)?;
    let (mut send, mut recv) = connection.open_bi().await?;
    let hello =
        Hello { host: host(number), version: "bench".into(), protocol: PROTOCOL, ports: vec!["eth0".into()], plan_version: 0, instance: 0 };
    send.write_all(&said(agent_frame::Kind::Hello(hello))).await?;
    let mut decoder = Decoder::default();
    let mut permit = Some(permit);
    let mut pace = Duration::from_secs(1);
    let never = Instant::now() + Duration::from_secs(3_600);
    let (mut sequence, mut due, mut probe_due) = (0, never, never);
    let mut player = board.map(|board| Player::new(number, board));
    loop {
        while let Some(frame) = decoder.next::<ServiceFrame>()? {
            match frame.kind {
                Some(service_frame::Kind::Welcome(welcome)) => {
                    permit.take();
                    pace = Duration::from_nanos(welcome.report_interval_ns);
                    // Spread over the interval, as agents that started on their own are.
                    due = Instant::now() + pace.mul_f64((number % 997) as f64 / 997.0);
                    probe_due = due + pace / 3;
                }
                Some(service_frame::Kind::Plan(plan)) => {
                    send.write_all(&said(agent_frame::Kind::PlanAck(PlanAck { plan_version: plan.plan_version, written_ns: 0 }))).await?;
                }
                other => return Err(format!("{other:?}").into()),
            }
        }
        tokio::select! {
            chunk = recv.read_chunk(65_536, true) => match chunk? {
                Some(chunk) => decoder.push(&chunk.bytes),
                None => return Err("the service ended the stream".into()),
            },
            datagram = connection.read_datagram() => {
                let datagram = datagram?;
                for note in player.iter_mut().flat_map(|player| player.hear(&datagram)) {
                    connection.send_datagram(note)?;
                }
            }
            () = woken(player.as_ref()) => {
                for note in player.iter_mut().flat_map(Player::play) {
                    connection.send_datagram(note)?;
                }
            }
            () = tokio::time::sleep_until(due) => {
                due += pace;
                sequence += 1;
                let clock = Some(ClockQuality { offset_ns: 1, bound_ns: 2, rtt_ns: 3 });
                send.write_all(&said(agent_frame::Kind::Report(Report { sequence, clock, gates: Vec::new() }))).await?;
            }
            () = tokio::time::sleep_until(probe_due) => {
                probe_due += pace;
                connection.send_datagram(ClockProbe { sequence: sequence as u32, sent_ns: 1 }.encode_to_vec().into())?;
            }
        }
    }
}
