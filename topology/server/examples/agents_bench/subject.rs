//! The brain under measurement, and the meter around it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use antiphase_topology::quic::{Brain, BrainGone, Outbox, TelemetrySink};
use futures_util::future::BoxFuture;
use proto::v1alpha1::{HostPlan, Slot, Telemetry};
use state::{Event, SessionId};
use tokio::sync::mpsc;

/// A brain, and how to make it send plans: of this epoch to all agents, or to the n-th alone.
pub(crate) struct Subject {
    brain: Arc<dyn Brain>,
    commit: Box<dyn Fn(u64, Option<usize>) + Send + Sync>,
}

impl Subject {
    /// Sends a plan of four slots and does nothing else: what is measured is the wire.
    pub(crate) fn fake() -> Self {
        let fake = Arc::new(Fake::default());
        let commit = Arc::clone(&fake);
        Self { brain: fake, commit: Box::new(move |epoch, only| commit.send(epoch, only)) }
    }
}

#[derive(Default)]
struct Fake(Mutex<Vec<Outbox>>);

impl Fake {
    fn send(&self, epoch: u64, only: Option<usize>) {
        let slots =
            (0..4).map(|i| Slot { job: format!("job-{i}"), epoch, period_ns: 250_000_000, hold: true, ..Slot::default() }).collect();
        let plan = HostPlan { epoch, slots };
        let outboxes = self.0.lock().unwrap();
        for outbox in outboxes.iter().enumerate().filter(|(i, _)| only.is_none_or(|only| only == *i)).map(|(_, outbox)| outbox) {
            outbox.plan(plan.clone());
        }
    }
}

impl Brain for Fake {
    fn register(&self, _: SessionId, outbox: Outbox) {
        self.0.lock().unwrap().push(outbox);
    }

    fn tell(&self, _: Event) -> BoxFuture<'_, Result<(), BrainGone>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Stands before the brain and takes the time of acks.
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
    pub(crate) async fn commit(&self, epoch: u64, only: Option<usize>) -> Vec<Duration> {
        let expected = if only.is_some() { 1 } else { self.connected() };
        let mut acked = self.acked.lock().await;
        let begun = Instant::now();
        (self.subject.commit)(epoch, only);
        let mut times = Vec::with_capacity(expected);
        while times.len() < expected {
            let (of, at) = tokio::time::timeout(ACKED_WITHIN, acked.recv()).await.expect("every agent acknowledges").unwrap();
            if of == epoch {
                times.push(at - begun);
            }
        }
        times
    }
}

impl Brain for Metered {
    fn register(&self, session: SessionId, outbox: Outbox) {
        self.subject.brain.register(session, outbox);
    }

    fn tell(&self, event: Event) -> BoxFuture<'_, Result<(), BrainGone>> {
        match &event {
            Event::AgentHello { .. } => {
                self.connected.fetch_add(1, Ordering::Relaxed);
            }
            Event::AgentGone { .. } => {
                self.connected.fetch_sub(1, Ordering::Relaxed);
            }
            Event::PlanAck { epoch, .. } => self.acks.send((*epoch, Instant::now())).unwrap(),
            Event::Report { .. } => {
                self.reports.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.subject.brain.tell(event)
    }
}

impl TelemetrySink for Metered {
    fn take(&self, _: &str, _: Telemetry) {}
}
