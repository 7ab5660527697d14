//! A stand-in for `state::Service` until that is there.
#![allow(missing_docs, reason = "temporary")]

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use fabric::Fabric;
use state::{Action, Commitment, Config, Event, JobDefinition, Notice, Record, Refusal, Reply, RequestId, Severity, Slot, Ticket};
use units::{FabricTime, Nanos};

#[derive(Debug)]
pub struct Service {
    pub epoch: u64,
    pub fabric: Option<(u64, Arc<Fabric>, Arc<str>)>,
    pub jobs: BTreeMap<String, (Arc<JobDefinition>, Slot)>,
    keys: BTreeMap<String, Commitment>,
    actions: VecDeque<Action>,
    pending: BTreeMap<Ticket, (RequestId, Staged)>,
    next: u64,
    headroom: u32,
}

#[derive(Debug)]
enum Staged {
    Commit(Vec<JobDefinition>, String, Commitment),
    Release(Vec<String>, Vec<String>),
    Fabric(u64, Arc<Fabric>, Arc<str>, Vec<JobDefinition>),
}

impl Service {
    pub fn restore(
        config: &Config,
        epoch: u64,
        fabric: Option<(u64, Arc<Fabric>, Arc<str>)>,
        jobs: Vec<JobDefinition>,
        slots: BTreeMap<String, Slot>,
        keys: BTreeMap<String, Commitment>,
    ) -> Self {
        let slot = |d: JobDefinition| slots.get(&d.job.name).cloned().map(|s| (d.job.name.clone(), (Arc::new(d), s)));
        let jobs = jobs.into_iter().filter_map(slot).collect();
        let headroom = config.headroom_permille;
        Self { epoch, fabric, jobs, keys, actions: VecDeque::new(), pending: BTreeMap::new(), next: 0, headroom }
    }

    pub fn handle(&mut self, now: FabricTime, event: Event) {
        match event {
            Event::Commit { request, jobs, if_epoch, key, .. } => {
                if let Some(answer) = self.keys.get(&key) {
                    return self.reply(request, Ok(Reply::Committed(answer.clone())));
                }
                if self.fabric.is_none() {
                    return self.reply(request, Err(Refusal::NoFabric));
                }
                if let Some(expected) = if_epoch.filter(|e| *e != self.epoch) {
                    return self.reply(request, Err(Refusal::EpochMoved { epoch: self.epoch, expected }));
                }
                self.epoch += 1;
                let slots: Vec<Slot> = jobs.iter().map(|d| self.slot(d, now)).collect();
                let mut records: Vec<Record> = slots.iter().cloned().map(Record::Slot).collect();
                let job = |d: &JobDefinition| Record::Job {
                    name: d.job.name.clone(),
                    document: d.document.clone(),
                    lease: None,
                    headroom_permille: self.headroom,
                };
                records.extend(jobs.iter().map(job));
                records.push(Record::Epoch { epoch: self.epoch });
                let answer = Commitment { epoch: self.epoch, slots, moved: Vec::new(), score: 1.0 };
                if !key.is_empty() {
                    records.push(Record::Key { key: key.clone(), at: now, answer: answer.clone() });
                }
                self.persist(request, records, Staged::Commit(jobs, key, answer));
            }
            Event::Release { request, jobs } => {
                self.epoch += 1;
                let (known, unknown): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|j| self.jobs.contains_key(j));
                let mut records: Vec<_> = known.iter().map(|name| Record::JobGone { name: name.clone() }).collect();
                records.push(Record::Epoch { epoch: self.epoch });
                self.persist(request, records, Staged::Release(known, unknown));
            }
            Event::SetFabric { request, fabric, text, jobs } => {
                self.epoch += 1;
                let version = self.fabric.as_ref().map_or(0, |f| f.0) + 1;
                let records = vec![Record::Fabric { version, text: Arc::clone(&text) }, Record::Epoch { epoch: self.epoch }];
                self.persist(request, records, Staged::Fabric(version, fabric, text, jobs));
            }
            Event::Persisted { ticket } => self.persisted(now, ticket),
            Event::PersistFailed { ticket, reason } => {
                if let Some((request, _)) = self.pending.remove(&ticket) {
                    self.reply(request, Err(Refusal::Store(reason)));
                }
            }
            _ => {}
        }
    }

    fn persisted(&mut self, now: FabricTime, ticket: Ticket) {
        let Some((request, staged)) = self.pending.remove(&ticket) else { return };
        let reply = match staged {
            Staged::Commit(jobs, key, answer) => {
                for (d, slot) in jobs.into_iter().zip(&answer.slots) {
                    self.jobs.insert(d.job.name.clone(), (Arc::new(d), slot.clone()));
                }
                self.keys.insert(key, answer.clone());
                Reply::Committed(answer)
            }
            Staged::Release(known, unknown) => {
                known.iter().for_each(|name| drop(self.jobs.remove(name)));
                Reply::Released { epoch: self.epoch, unknown }
            }
            Staged::Fabric(version, fabric, text, _) => {
                self.fabric = Some((version, fabric, text));
                Reply::FabricSet { version, epoch: self.epoch }
            }
        };
        let message = format!("{reply:?}").chars().take(40).collect();
        let notice =
            Notice { at: now, severity: Severity::Info, kind: "committed", message, job: None, host: None, epoch: self.epoch };
        self.actions.push_back(Action::Notice(notice));
        self.reply(request, Ok(reply));
    }

    fn slot(&self, d: &JobDefinition, now: FabricTime) -> Slot {
        let period = Config::period(d.job.period, self.headroom);
        Slot {
            job: d.job.name.clone(),
            epoch: self.epoch,
            period,
            offset: Nanos(0),
            tolerance: Nanos(0),
            slack: Nanos(0),
            hold_max: period,
            hold: false,
            expires: now,
            leader_host: d.hosts.first().cloned().unwrap_or_default(),
        }
    }

    fn persist(&mut self, request: RequestId, records: Vec<Record>, staged: Staged) {
        self.next += 1;
        self.pending.insert(Ticket(self.next), (request, staged));
        self.actions.push_back(Action::Persist { ticket: Ticket(self.next), records });
    }

    fn reply(&mut self, request: RequestId, result: Result<Reply, Refusal>) {
        self.actions.push_back(Action::Reply { request, result });
    }

    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub fn deadline(&self) -> Option<FabricTime> {
        None
    }
}
