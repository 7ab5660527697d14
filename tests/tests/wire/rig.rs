//! A service with a controller that remembers, and agents with sessions to it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent::session::{self, Credentials, LinkState, Session, SessionConfig};
use futures_util::future::BoxFuture;
use proto::v1alpha1::{HostPlan, Telemetry};
use server::{
    FabricClock,
    pki::{self, Client},
    quic::{self, Controller, ControllerGone, Outbox, Seams, Settings, Stats, TelemetrySink},
    tls::{Role, Tls, TlsFiles},
};
use state::{Event, SessionId};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

/// Every wait of these tests ends by then. The longest backoff of an agent is 15 s.
pub(crate) const SOON: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) outboxes: Mutex<Vec<Outbox>>,
    pub(crate) telemetry: Mutex<Vec<(String, Telemetry)>>,
}

impl Controller for Memory {
    fn register(&self, _: SessionId, outbox: Outbox) {
        self.outboxes.lock().unwrap().push(outbox);
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

    /// Hosts that said hello, each with the plan version on its pages.
    pub(crate) fn hellos(&self) -> Vec<(String, u64)> {
        let of = |event: &Event| match event {
            Event::AgentHello { host, plan_version, .. } => Some((host.clone(), *plan_version)),
            _ => None,
        };
        self.events.lock().unwrap().iter().filter_map(of).collect()
    }

    pub(crate) fn plan(&self, plan_version: u64) {
        self.outboxes.lock().unwrap().last().unwrap().plan(HostPlan { plan_version, slots: Vec::new() });
    }
}

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
    pub(crate) clock: FabricClock,
    pub(crate) tls: Arc<Tls>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Quick, so that the tests are.
pub(crate) fn settings() -> Settings {
    Settings { probe_interval: Duration::from_millis(100), ..Settings::default() }
}

impl Service {
    pub(crate) async fn start(tls: Tls) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), tls).await
    }

    /// On a port that an earlier one may just be leaving.
    pub(crate) async fn start_at(address: SocketAddr, tls: Tls) -> Self {
        let tls = Arc::new(tls);
        let bound = timeout(SOON, async {
            loop {
                match quic::endpoint(address, &tls, &settings()) {
                    Ok(endpoint) => return endpoint,
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        });
        let endpoint = bound.await.expect("the port is free in time");
        let (address, memory, clock) = (endpoint.local_addr().unwrap(), Arc::new(Memory::default()), FabricClock::start());
        let seams =
            Seams { controller: Arc::clone(&memory) as _, telemetry: Arc::clone(&memory) as _, clock, stats: Arc::new(Stats::default()) };
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(quic::serve(endpoint, Arc::clone(&tls), seams, settings(), shutdown));
        Self { address, memory, clock, tls, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        timeout(SOON, self.task).await.expect("it stops in time").unwrap();
    }
}

pub(crate) fn authority() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    pki::init(dir.path(), &["localhost".into(), "127.0.0.1".into()], false).unwrap();
    dir
}

pub(crate) fn tls(dir: &Path) -> Tls {
    let service = pki::service_paths(dir);
    Tls::load(TlsFiles { certificate: service.certificate, key: service.key, client_ca: pki::authority_path(dir), revoked: None }).unwrap()
}

/// Issues the certificate of an agent, over an old one if there is one.
pub(crate) fn issue(dir: &Path, host: &str) -> Credentials {
    let client = Client { role: Role::Agent, name: host.into(), hosts: vec![host.into()], lifetime: pki::CLIENT_LIFETIME };
    let issued = pki::issue(dir, &client, true).unwrap();
    Credentials::Files { ca: pki::authority_path(dir), certificate: issued.certificate, key: issued.key }
}

/// A session that ends with the test.
pub(crate) struct Agent {
    pub(crate) session: Session,
    _stop: oneshot::Sender<()>,
}

impl Agent {
    pub(crate) fn start(service: SocketAddr, host: &str, credentials: Credentials) -> Self {
        let config = SessionConfig {
            service: service.to_string(),
            server_name: None,
            host: host.into(),
            version: "0.1.0".into(),
            ports: vec!["eth0".into()],
            credentials,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let session = session::start(config, async {
            let _ = stopped.await;
        });
        Self { session, _stop: stop }
    }

    pub(crate) async fn up(&mut self) {
        let waited = timeout(SOON, self.session.link.wait_for(|link| matches!(link, LinkState::Up(_)))).await;
        waited.expect("a session in time").unwrap();
    }

    /// Why there is no session, once somebody knows.
    pub(crate) async fn down(&mut self) -> String {
        let known = |link: &LinkState| matches!(link, LinkState::Down { reason } if !reason.is_empty());
        let waited = timeout(SOON, self.session.link.wait_for(known)).await.expect("a reason in time").unwrap();
        match &*waited {
            LinkState::Down { reason } => reason.to_string(),
            LinkState::Up(_) => unreachable!(),
        }
    }

    pub(crate) async fn plan(&mut self) -> HostPlan {
        timeout(SOON, self.session.plans.recv()).await.expect("a plan in time").unwrap()
    }

    pub(crate) fn stat(&self, name: &str) -> u64 {
        self.session.stats.read().into_iter().find(|(known, _)| *known == name).unwrap().1
    }
}
