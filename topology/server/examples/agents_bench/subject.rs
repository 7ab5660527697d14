//! The controller under measurement, and the meter around it.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use antiphase_topology::{
    controller::{Controller as ControllerThread, Surroundings},
    quic::{Controller, ControllerGone, Outbox, TelemetrySink},
    turns::TurnsHandle,
};
use futures_util::future::BoxFuture;
use job::JobDoc;
use job::{Collective, Endpoint, Job, Placement, TrafficPhase};
use proto::v1alpha1::{HostPlan, Slot, Telemetry};
use state::{Change, Commit, Document, Event, JobDefinition, SessionId};
use store::{Loaded, StateFile};
use tokio::sync::mpsc;
use units::{Nanos, Rate};

use crate::agents::host;

/// A controller, and how to make it send plans: the n-th commit to all agents, or to the n-th alone.
pub(crate) struct Subject {
    controller: Arc<dyn Controller>,
    commit: Box<dyn Fn(u64, Option<usize>) + Send + Sync>,
    /// Plan versions before the first commit.
    plan_versions_before: u64,
}

impl Subject {
    /// Sends a plan of four slots and does nothing else: what is measured is the wire.
    pub(crate) fn fake() -> Self {
        let fake = Arc::new(Fake::default());
        let commit = Arc::clone(&fake);
        Self { controller: fake, commit: Box::new(move |plan_version, only| commit.send(plan_version, only)), plan_versions_before: 0 }
    }

    /// The service's own controller and store, on a fabric of as many hosts as there are agents. A commit to all is a job on all hosts,
    /// one to an agent a job on its host alone; each time its period changes, so that there is a new slot.
    pub(crate) async fn real(hosts: usize, dir: &Path) -> Self {
        let around = Surroundings::start().unwrap();
        let file = StateFile::open(&dir.join("state.redb")).unwrap();
        let running = ControllerThread::start(&state::Config::default(), file, Loaded::default(), around).unwrap();
        let handle = running.handle.clone();
        let text: Arc<str> = fabric_of(hosts).into();
        let fabric = Arc::new(fabric::native::read(&text).unwrap());
        let set = Change::SetFabric { by: None, if_fabric: None, fabric: Arc::clone(&fabric), text, jobs: Vec::new() };
        let version = match handle.change(set).await.unwrap().unwrap() {
            state::Reply::FabricSet { version, .. } => version,
            other => panic!("{other:?}"),
        };
        let commit = move |number: u64, only: Option<usize>| {
            let job = definition(&fabric, number, only, hosts);
            let change = Change::Commit(Commit { jobs: vec![job], if_fabric: Some(version), ..Commit::default() });
            let (handle, _kept) = (running.handle.clone(), &running);
            tokio::spawn(async move { handle.change(change).await.unwrap().unwrap() });
        };
        Self { controller: Arc::new(handle), commit: Box::new(commit), plan_versions_before: 1 }
    }
}

/// Racks of 32 hosts under one spine.
fn fabric_of(hosts: usize) -> String {
    const RACK: usize = 32;
    let names: Vec<String> = (0..hosts).map(host).collect();
    let leaves = hosts.div_ceil(RACK);
    let mut text =
        format!("schema: antiphase.fabric/v1\nname: bench\nhosts: [{}]\nswitches:\n- {{name: spine, tier: 2}}\n", names.join(", "));
    (0..leaves).for_each(|leaf| text.push_str(&format!("- {{name: leaf{leaf}, tier: 1}}\n")));
    text.push_str("cables:\n");
    (0..leaves).for_each(|leaf| text.push_str(&format!("- {{ends: [leaf{leaf}, spine], capacity: 1600G}}\n")));
    names.iter().enumerate().for_each(|(i, name)| text.push_str(&format!("- {{ends: [{name}, leaf{}], capacity: 50G}}\n", i / RACK)));
    text
}

fn definition(fabric: &fabric::Fabric, number: u64, only: Option<usize>, hosts: usize) -> JobDefinition {
    let (name, hosts) = match only {
        None => ("all".to_owned(), (0..hosts).map(host).collect()),
        Some(one) => (format!("job-{one}"), vec![host(one)]),
    };
    let ranks: Vec<Endpoint> = hosts.iter().map(|name: &String| Endpoint { host: fabric.find(name).unwrap(), rail: 0 }).collect();
    let phase = TrafficPhase {
        start: Nanos(0),
        end: Nanos::from_millis(50),
        rate: Rate(40_000),
        collective: Collective::Ring,
        groups: Arc::from([(0..ranks.len() as u32).collect::<Vec<u32>>()]),
    };
    let job = Job { name, gpus: ranks.len() as u32, period: Nanos::from_millis(200 + number), hold: job::Hold::Auto, phases: vec![phase] };
    let document = JobDoc { id: job.name.clone(), hosts: Some(hosts.clone()), ..JobDoc::default() };
    JobDefinition { job, placement: Placement { ranks }, hosts, document: Document::new(Arc::new(document)) }
}

#[derive(Default)]
struct Fake(Mutex<Vec<Outbox>>);

impl Fake {
    fn send(&self, plan_version: u64, only: Option<usize>) {
        let slots =
            (0..4).map(|i| Slot { job: format!("job-{i}"), plan_version, period_ns: 250_000_000, hold: true, ..Slot::default() }).collect();
        let plan = HostPlan { plan_version, slots };
        let outboxes = self.0.lock().unwrap();
        for outbox in outboxes.iter().enumerate().filter(|(i, _)| only.is_none_or(|only| only == *i)).map(|(_, outbox)| outbox) {
            outbox.plan(plan.clone());
        }
    }
}

impl Controller for Fake {
    fn register(&self, _: SessionId, outbox: Outbox) {
        self.0.lock().unwrap().push(outbox);
    }

    fn tell(&self, _: Event) -> BoxFuture<'_, Result<(), ControllerGone>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Stands before the controller and takes the time of acks.
pub(crate) struct Metered {
    subject: Subject,
    connected: AtomicUsize,
    reports: AtomicU64,
    acks: mpsc::UnboundedSender<(u64, Instant)>,
    acked: tokio::sync::Mutex<mpsc::UnboundedReceiver<(u64, Instant)>>,
}

/// A commit that is not acknowledged by then is lost.
const ACKED_WITHIN: Duration = Duration::from_secs(30);

impl Metered {
    pub(crate) fn new(subject: Subject) -> Self {
        let (acks, acked) = mpsc::unbounded_channel();
        Self { subject, connected: AtomicUsize::new(0), reports: AtomicU64::new(0), acks, acked: tokio::sync::Mutex::new(acked) }
    }

    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }

    pub(crate) fn reports(&self) -> u64 {
        self.reports.load(Ordering::Relaxed)
    }

    /// Commits, and gives the time to each ack.
    pub(crate) async fn commit(&self, plan_version: u64, only: Option<usize>) -> Vec<Duration> {
        let expected = if only.is_some() { 1 } else { self.connected() };
        let mut acked = self.acked.lock().await;
        let begun = Instant::now();
        (self.subject.commit)(plan_version, only);
        let plan_version = plan_version + self.subject.plan_versions_before;
        let mut times = Vec::with_capacity(expected);
        while times.len() < expected {
            let (of, at) = tokio::time::timeout(ACKED_WITHIN, acked.recv()).await.expect("every agent acknowledges").unwrap();
            if of == plan_version {
                times.push(at - begun);
            }
        }
        times
    }
}

impl Controller for Metered {
    fn turns(&self) -> Option<TurnsHandle> {
        self.subject.controller.turns()
    }

    fn register(&self, session: SessionId, outbox: Outbox) {
        self.subject.controller.register(session, outbox);
    }

    fn tell(&self, event: Event) -> BoxFuture<'_, Result<(), ControllerGone>> {
        match &event {
            Event::AgentHello { .. } => {
                self.connected.fetch_add(1, Ordering::Relaxed);
            }
            Event::AgentGone { .. } => {
                self.connected.fetch_sub(1, Ordering::Relaxed);
            }
            Event::PlanAck { plan_version, .. } => self.acks.send((*plan_version, Instant::now())).unwrap(),
            Event::Report { .. } => {
                self.reports.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.subject.controller.tell(event)
    }
}

impl TelemetrySink for Metered {
    fn take(&self, _: &str, _: Telemetry) {}
}
