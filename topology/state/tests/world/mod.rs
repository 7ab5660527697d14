//! A small fabric, jobs on it, and somebody who drives the service and keeps its records.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;

use antiphase_state::{
    Action, Change, Commit, Commitment, Config, Document, Event, JobDefinition, Notice, Origin, Record, Refusal, Reply, RequestId,
    Restored, Service, SessionId, Slot, Ticket, turns::TurnGroup,
};
use fabric::{
    Fabric,
    collective::{Collective, Endpoint},
    generate::{Clos2, clos2},
};
use job::{Job, Placement, TrafficPhase};
use units::{FabricTime, Nanos, Rate};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;

/// A Clos from a text such as `4 4 1`: leaves, hosts per leaf, spines; every cable carries 50 Gb/s. Hosts are `h1..`.
pub(crate) fn fabric(text: &str) -> Result<Fabric, String> {
    let numbers: Vec<u32> = text.split(' ').map(|n| n.parse().map_err(|_| format!("{n:?} is no number"))).collect::<Result<_, _>>()?;
    let [leaves, hosts_per_leaf, spines] = numbers[..] else { return Err("three numbers".into()) };
    let rate = Rate(50_000);
    clos2(&Clos2 { leaves, spines, hosts_per_leaf, host_rate: rate, uplink_rate: rate, uplinks: 1 }).map_err(|e| e.to_string())
}

/// A job from a document such as `100 0-40 h1,h5`: a ring over the hosts, period and Up phases in ms, at 45 Gb/s.
pub(crate) fn job(fabric: &Fabric, name: &str, document: &str) -> Result<JobDefinition, String> {
    let parts: Vec<&str> = document.split(' ').collect();
    let (Some((period, rest)), Some(hosts)) = (parts.split_first(), parts.last()) else { return Err("too short".into()) };
    let hosts: Vec<String> = hosts.split(',').map(String::from).collect();
    let number = |n: &str| n.parse::<u64>().map_err(|_| format!("{n:?} is no number"));
    let groups: Arc<[Vec<u32>]> = Arc::from([(0..hosts.len() as u32).collect::<Vec<u32>>()]);
    let mut phases = Vec::new();
    for span in &rest[..rest.len() - 1] {
        let (start, end) = span.split_once('-').ok_or("a span is start-end")?;
        phases.push(TrafficPhase {
            start: Nanos(number(start)? * MS),
            end: Nanos(number(end)? * MS),
            rate: Rate(45_000),
            collective: Collective::Ring,
            groups: groups.clone(),
        });
    }
    let mut ranks = Vec::new();
    for host in &hosts {
        ranks.push(Endpoint { host: fabric.find(host).ok_or_else(|| format!("no host {host}"))?, rail: 0 });
    }
    Ok(JobDefinition {
        job: Job { name: name.into(), gpus: hosts.len() as u32, period: Nanos(number(period)? * MS), hold: job::Hold::Auto, phases },
        placement: Placement { ranks },
        hosts,
        document: Document::new(Arc::new(String::from(document))),
    })
}

/// The document of a job of [`job`].
pub(crate) fn said(document: &Document) -> String {
    String::clone(&document.get().unwrap())
}

/// The state from records.
pub(crate) fn restored(records: &[Record]) -> Restored {
    Restored::from_records(records.iter().cloned(), fabric, |f, name, document| job(f, name, &said(document))).unwrap()
}

/// Everything durable that a view shows, lease ends aside.
pub(crate) fn durable(service: &Service) -> String {
    let view = service.view();
    let mut out = format!("plan_version {} fabric {} {:?}\n", view.plan_version(), view.fabric_version(), view.fabric_text());
    for job in view.jobs() {
        let slot = Slot { expires: FabricTime(0), ..job.slot() };
        let members: Vec<&str> = job.component().collect();
        out += &format!(
            "{:?} {:?} {} {} lease {} {:?} {:?} {:?} {:?}\n",
            job.planned(),
            slot,
            job.headroom_permille(),
            job.name(),
            job.lease_until().is_some(),
            job.times(),
            job.interleaved(),
            members,
            job.component_scores()
        );
    }
    for entry in view.audit(0) {
        out += &format!("{entry:?}\n");
    }
    for link in view.links() {
        let jobs: Vec<&str> = link.jobs().collect();
        out += &format!("{} {:?} {:?} {:?} {:?}\n", link.name(), link.capacity, link.score, link.zero_shift_score, jobs);
    }
    out
}

/// Drives a service whose store is always quick, unless told otherwise.
pub(crate) struct Driver {
    pub(crate) service: Service,
    pub(crate) now: FabricTime,
    /// What is durable, batch by batch.
    pub(crate) batches: Vec<Vec<Record>>,
    pub(crate) replies: Vec<(RequestId, Result<Reply, Refusal>)>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) plans: Vec<(SessionId, u64, Vec<Slot>)>,
    pub(crate) disconnected: Vec<SessionId>,
    /// The groups of the last [`Action::Turns`].
    pub(crate) turns: Option<Vec<Arc<TurnGroup>>>,
    /// Do not answer [`Action::Persist`].
    pub(crate) slow: bool,
    pub(crate) waiting: Option<(Ticket, Vec<Record>)>,
    next: u64,
}

impl Driver {
    pub(crate) fn new(service: Service) -> Self {
        Self {
            service,
            now: FabricTime(1_000 * S),
            batches: Vec::new(),
            replies: Vec::new(),
            notices: Vec::new(),
            plans: Vec::new(),
            disconnected: Vec::new(),
            turns: None,
            slow: false,
            waiting: None,
            next: 0,
        }
    }

    /// A service with a Clos of four leaves of four hosts under one spine.
    pub(crate) fn with_fabric() -> Self {
        let mut driver = Self::new(Service::new(Config::default()));
        driver.set_fabric("4 4 1").unwrap();
        driver
    }

    pub(crate) fn handle(&mut self, event: Event) {
        self.service.handle(self.now, event);
        while let Some(action) = self.service.poll() {
            match action {
                Action::Persist { ticket, records } => {
                    assert!(self.waiting.is_none(), "one batch at a time");
                    self.waiting = Some((ticket, records));
                    if !self.slow {
                        self.persisted();
                    }
                }
                Action::Reply { request, result } => self.replies.push((request, result)),
                Action::SendPlan { session, plan_version, slots } => self.plans.push((session, plan_version, slots)),
                Action::Disconnect { session, .. } => self.disconnected.push(session),
                Action::Turns { groups, .. } => self.turns = Some(groups),
                Action::Notice(notice) => self.notices.push(notice),
            }
        }
    }

    pub(crate) fn persisted(&mut self) {
        let (ticket, records) = self.waiting.take().unwrap();
        self.batches.push(records);
        self.handle(Event::Persisted { ticket });
    }

    pub(crate) fn failed(&mut self) {
        let (ticket, _) = self.waiting.take().unwrap();
        self.handle(Event::PersistFailed { ticket, reason: "disk full".into() });
    }

    pub(crate) fn request(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next)
    }

    /// The reply to a request, if it came.
    pub(crate) fn reply(&self, request: RequestId) -> Option<Result<Reply, Refusal>> {
        self.replies.iter().find(|(r, _)| *r == request).map(|(_, result)| result.clone())
    }

    pub(crate) fn job(&self, name: &str, document: &str) -> JobDefinition {
        job(self.service.view().fabric().unwrap(), name, document).unwrap()
    }

    pub(crate) fn set_fabric(&mut self, text: &str) -> Result<Reply, Refusal> {
        let request = self.request();
        let made = fabric(text).unwrap();
        let jobs = self.service.view().jobs().map(|j| job(&made, j.name(), &said(&j.planned().document)).unwrap()).collect();
        self.handle(Event::Asked {
            request,
            change: Change::SetFabric { by: None, if_fabric: None, fabric: Arc::new(made), text: text.into(), jobs },
        });
        self.reply(request).unwrap()
    }

    pub(crate) fn send_commit(&mut self, jobs: &[(&str, &str)]) -> RequestId {
        let request = self.request();
        let jobs = jobs.iter().map(|(name, document)| self.job(name, document)).collect();
        self.handle(Event::Asked { request, change: Change::Commit(Commit { jobs, ..Commit::default() }) });
        request
    }

    pub(crate) fn commit(&mut self, jobs: &[(&str, &str)]) -> Commitment {
        let request = self.send_commit(jobs);
        match self.reply(request) {
            Some(Ok(Reply::Committed(commitment))) => commitment,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn release(&mut self, jobs: &[&str]) -> Reply {
        let request = self.request();
        self.handle(Event::Asked { request, change: Change::Release { by: None, jobs: jobs.iter().map(|j| (*j).into()).collect() } });
        self.reply(request).unwrap().unwrap()
    }

    pub(crate) fn slot(&self, name: &str) -> Slot {
        self.service.view().job(name).unwrap().slot()
    }

    /// Ticks at every deadline until `later` from now.
    pub(crate) fn pass(&mut self, later: Nanos) {
        let end = self.now.saturating_add(later);
        while let Some(at) = self.service.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let before = self.service.deadline();
            self.handle(Event::Tick);
            assert_ne!(self.service.deadline(), before, "a tick at the deadline moves it");
        }
        self.now = end;
    }

    pub(crate) fn hello(&mut self, session: u64, host: &str) {
        self.hello_of(session, host, Origin::default());
    }

    pub(crate) fn hello_of(&mut self, session: u64, host: &str, origin: Origin) {
        self.handle(Event::AgentHello {
            session: SessionId(session),
            host: host.into(),
            version: "1".into(),
            ports: vec![],
            plan_version: 0,
            origin,
        });
    }

    /// The last plan that a session was sent.
    pub(crate) fn plan(&self, session: u64) -> Option<&(SessionId, u64, Vec<Slot>)> {
        self.plans.iter().rev().find(|p| p.0 == SessionId(session))
    }

    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.notices.iter().map(|n| n.kind.word()).collect()
    }
}
