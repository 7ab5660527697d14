//! A service with a controller that remembers, and an agent that does what a test tells it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use antiphase_topology::{
    FabricClock,
    pki::{self, Client, Issued},
    quic::{self, Controller, ControllerGone, Outbox, Seams, Settings, Stats, TelemetrySink},
    tls::{Role, Tls, TlsFiles},
};
use futures_util::future::BoxFuture;
use proto::{
    PROTOCOL,
    frame::{self, Decoder},
    v1alpha1::{AgentFrame, Hello, Report, ServiceFrame, Telemetry, agent_frame, service_frame},
};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, SendStream, TransportConfig, crypto::rustls::QuicClientConfig,
};
use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use state::{Event, SessionId};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

/// Every wait of these tests ends by then; none takes so long on a machine that works.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// An authority in a folder of its own.
pub(crate) struct Pki(pub(crate) TempDir);

impl Pki {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        pki::init(dir.path(), &["localhost".into(), "127.0.0.1".into()], false).unwrap();
        Self(dir)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn issue(&self, role: Role, name: &str, hosts: &[&str], lifetime: Duration) -> Issued {
        let client = Client { role, name: name.into(), hosts: hosts.iter().map(|&host| host.to_owned()).collect(), lifetime };
        pki::issue(self.dir(), &client, true).unwrap()
    }

    pub(crate) fn agent(&self, host: &str) -> Issued {
        self.issue(Role::Agent, host, &[host], pki::CLIENT_LIFETIME)
    }

    pub(crate) fn tls(&self) -> Tls {
        let service = pki::service_paths(self.dir());
        Tls::load(TlsFiles {
            certificate: service.certificate,
            key: service.key,
            client_ca: pki::authority_path(self.dir()),
            revoked: None,
        })
        .unwrap()
    }
}

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) outboxes: Mutex<Vec<(SessionId, Outbox)>>,
    pub(crate) telemetry: Mutex<Vec<(String, Telemetry)>>,
}

impl Controller for Memory {
    fn register(&self, session: SessionId, outbox: Outbox) {
        self.outboxes.lock().unwrap().push((session, outbox));
    }

    fn tell(&self, event: Event) -> BoxFuture<'_, Result<(), ControllerGone>> {
        self.events.lock().unwrap().push(event);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl TelemetrySink for Memory {
    fn take(&self, host: &str, frame: Telemetry) {
        self.telemetry.lock().unwrap().push((host.to_owned(), frame));
    }
}

impl Memory {
    pub(crate) fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.lock().unwrap().iter().filter(|event| wanted(event)).count()
    }

    pub(crate) fn hosts(&self) -> Vec<String> {
        let name = |event: &Event| if let Event::AgentHello { host, .. } = event { Some(host.clone()) } else { None };
        self.events.lock().unwrap().iter().filter_map(name).collect()
    }

    pub(crate) fn last_outbox(&self) -> Outbox {
        self.outboxes.lock().unwrap().last().unwrap().1.clone()
    }
}

/// Waits for something that other tasks bring about.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = timeout(SOON, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}: not within {SOON:?}");
}

pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    pub(crate) memory: Arc<Memory>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) tls: Arc<Tls>,
    pub(crate) clock: FabricClock,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Service {
    pub(crate) fn start(tls: Tls, settings: Settings) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), tls, settings)
    }

    pub(crate) fn start_at(address: SocketAddr, tls: Tls, settings: Settings) -> Self {
        let tls = Arc::new(tls);
        let endpoint = quic::endpoint(address, &tls, &settings).unwrap();
        let address = endpoint.local_addr().unwrap();
        let (memory, stats, clock) = (Arc::new(Memory::default()), Arc::new(Stats::default()), FabricClock::start());
        let seams = Seams { controller: Arc::clone(&memory) as _, telemetry: Arc::clone(&memory) as _, clock, stats: Arc::clone(&stats) };
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(quic::serve(endpoint, Arc::clone(&tls), seams, settings, shutdown));
        Self { address, memory, stats, tls, clock, stop: Some(stop), task }
    }

    pub(crate) async fn stop(mut self) -> Arc<Memory> {
        self.stop.take().unwrap().send(()).unwrap();
        timeout(SOON, &mut self.task).await.expect("the service stops in time").unwrap();
        Arc::clone(&self.memory)
    }

    /// The service has not fallen over: a task that panicked would have ended.
    pub(crate) fn assert_serves(&self) {
        assert!(!self.task.is_finished());
    }
}

pub(crate) fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().collect::<Result<_, _>>().unwrap()
}

/// `identity`: certificate and key; none is a client without one.
pub(crate) fn client(ca: &Path, identity: Option<&Issued>) -> ClientConfig {
    client_with(ca, identity, TransportConfig::default())
}

pub(crate) fn client_with(ca: &Path, identity: Option<&Issued>, transport: TransportConfig) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for authority in certificates(ca) {
        roots.add(authority).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut tls = match identity {
        Some(issued) => {
            let key = PrivateKeyDer::from_pem_file(&issued.key).unwrap();
            builder.with_client_auth_cert(certificates(&issued.certificate), key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![proto::ALPN.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    config.transport_config(Arc::new(transport));
    config
}

pub(crate) struct Agent {
    /// Lives as long as its connection.
    _endpoint: Endpoint,
    pub(crate) connection: Connection,
    pub(crate) send: SendStream,
    pub(crate) recv: RecvStream,
    pub(crate) decoder: Decoder,
}

pub(crate) fn hello(host: &str) -> Hello {
    Hello { host: host.into(), version: "0.1.0".into(), protocol: PROTOCOL, ports: vec!["eth0".into()], plan_version: 0, instance: 0 }
}

pub(crate) fn said(kind: agent_frame::Kind) -> Vec<u8> {
    frame::encode(&AgentFrame { kind: Some(kind) }).unwrap()
}

pub(crate) fn report(sequence: u64) -> Vec<u8> {
    said(agent_frame::Kind::Report(Report { sequence, ..Report::default() }))
}

impl Agent {
    /// Up to the handshake, which tells a TLS 1.3 client nothing about whether it is welcome.
    pub(crate) async fn connect(address: SocketAddr, config: ClientConfig) -> Result<Self, ConnectionError> {
        Self::connect_from(Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap(), address, config).await
    }

    pub(crate) async fn connect_from(endpoint: Endpoint, address: SocketAddr, config: ClientConfig) -> Result<Self, ConnectionError> {
        let connecting = endpoint.connect_with(config, address, "localhost").unwrap();
        let connection = timeout(SOON, connecting).await.expect("an answer in time")?;
        let (send, recv) = connection.open_bi().await?;
        Ok(Self { _endpoint: endpoint, connection, send, recv, decoder: Decoder::default() })
    }

    /// Up to the Welcome.
    pub(crate) async fn welcomed(service: &Service, pki: &Pki, host: &str) -> Self {
        let config = client(&pki::authority_path(pki.dir()), Some(&pki.agent(host)));
        let mut agent = Self::connect(service.address, config).await.unwrap();
        agent.say(&said(agent_frame::Kind::Hello(hello(host)))).await;
        let first = agent.next().await.unwrap();
        assert!(matches!(first, service_frame::Kind::Welcome(_)), "{first:?}");
        agent
    }

    /// What cannot be written because the connection is closed shows at the next read.
    pub(crate) async fn say(&mut self, bytes: &[u8]) {
        let _ = timeout(SOON, self.send.write_all(bytes)).await.expect("a write in time");
    }

    pub(crate) async fn next(&mut self) -> Result<service_frame::Kind, ConnectionError> {
        loop {
            if let Some(frame) = self.decoder.next::<ServiceFrame>().unwrap() {
                return Ok(frame.kind.unwrap());
            }
            match timeout(SOON, self.recv.read_chunk(65_536, true)).await.expect("a frame in time") {
                Ok(Some(chunk)) => self.decoder.push(&chunk.bytes),
                Ok(None) | Err(_) => return Err(self.closed().await),
            }
        }
    }

    pub(crate) async fn closed(&self) -> ConnectionError {
        timeout(SOON, self.connection.closed()).await.expect("a close in time")
    }
}

/// Code and reason with which the service closed.
pub(crate) fn closed_by_service(error: &ConnectionError) -> (u64, String) {
    match error {
        ConnectionError::ApplicationClosed(close) => (close.error_code.into_inner(), String::from_utf8_lossy(&close.reason).into_owned()),
        other => panic!("not closed by the service: {other:?}"),
    }
}
