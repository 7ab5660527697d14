//! Fabric, jobs and slots, and who meets whom: the part of the state that is durable, with its indices.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use fabric::{Fabric, route::Routing};
use job::MeasuredProfile;
use plan::{LinkDemands, can_exceed};
use units::{FabricTime, LinkId};

use crate::{
    Commitment, Content, JobDefinition, Slot,
    component::Component,
    leases::Lease,
    submission::Submission,
    turns::{Comparison, TurnGroup},
};

/// A job's name, shared by all that refer to it.
pub(crate) type Name = Arc<str>;

/// The fabric in force.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) routing: Routing,
    pub(crate) text: Arc<str>,
    pub(crate) version: u64,
}

impl Installed {
    pub(crate) fn fabric(&self) -> &Fabric {
        self.routing.fabric()
    }
}

/// What a placed job demands of its links.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) demands: LinkDemands,
    /// Highest rate of each demand in Mbit/s.
    pub(crate) peaks: Vec<u64>,
    /// Hosts with ranks, sorted, each once.
    pub(crate) hosts: Vec<Name>,
}

/// A committed job and what follows from it. Values are replaced, never changed.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: Name,
    /// As it was committed.
    pub(crate) definition: Arc<JobDefinition>,
    /// What was measured of it, where that is another job than the one declared.
    pub(crate) measured: Option<MeasuredProfile>,
    /// As it is planned: as committed, or as measured.
    pub(crate) planned: Arc<JobDefinition>,
    /// Of the job as it is planned.
    pub(crate) load: Arc<Load>,
    pub(crate) lease: Option<Lease>,
    pub(crate) headroom_permille: u32,
    /// Why it is not held to a slot any more, until it is committed anew.
    pub(crate) hold_ended: Option<Arc<str>>,
    /// Without an expiry.
    pub(crate) slot: Slot,
    /// With whom it meets on links that can be over capacity, itself included; `None`: with nobody.
    pub(crate) component: Option<Arc<Component>>,
}

impl Job {
    /// The group in which it takes turns.
    pub(crate) fn turn_group(&self) -> Option<&Arc<TurnGroup>> {
        let takes = |group: &&Arc<TurnGroup>| group.jobs.iter().any(|job| job.name == self.name);
        self.component.as_ref()?.turns.iter().find(takes)
    }
}

/// A job on a link.
#[derive(Clone, Debug)]
pub(crate) struct Presence {
    pub(crate) job: Name,
    /// Index into the job's [`LinkDemands::demands`].
    pub(crate) demand: u32,
    /// Highest rate of that demand in Mbit/s.
    pub(crate) peak: u64,
}

/// A commit that can be repeated.
#[derive(Debug, PartialEq)]
pub(crate) struct KeyUse {
    pub(crate) at: FabricTime,
    pub(crate) content: Option<Content>,
    /// Who used it.
    pub(crate) by: Option<Arc<str>>,
    /// Without what can be read from the plan: see [`crate::change`].
    pub(crate) answer: Commitment,
}

impl KeyUse {
    /// What it counts in [`crate::config::KEY_SLOTS_MAX`].
    pub(crate) fn weight(&self) -> usize {
        weight(&self.answer)
    }
}

/// What a remembered answer takes: its slots and the names of jobs that moved, which a large component has many of.
pub(crate) fn weight(answer: &Commitment) -> usize {
    answer.slots.len() + answer.moved.len()
}

/// The keys of one user.
#[derive(Clone, Debug, Default)]
struct Keyring {
    by_age: BTreeSet<(FabricTime, Arc<str>)>,
    /// Those of them whose answers weigh something.
    heavy: BTreeSet<(FabricTime, Arc<str>)>,
    weight: usize,
}

/// Everything durable. There are two: what is durable now, and what will be when the batch under way is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) version: u64,
    pub(crate) installed: Option<Arc<Installed>>,
    /// Phases of all components that were planned since the start, refused changes and all. Not durable.
    pub(crate) planned: u64,
    /// The latest version that an agent has had. It is later than ours after the state file was restored from a backup; versions go on
    /// behind it, so that no number which a client holds from before comes round again. Not durable.
    pub(crate) seen: u64,
    jobs: BTreeMap<Name, Arc<Job>>,
    links: BTreeMap<LinkId, Vec<Presence>>,
    hosts: BTreeMap<Name, BTreeSet<Name>>,
    keys: BTreeMap<Arc<str>, Arc<KeyUse>>,
    keys_by_age: BTreeSet<(FabricTime, Arc<str>)>,
    keyrings: BTreeMap<Option<Arc<str>>, Keyring>,
    key_weight: usize,
    submissions: BTreeMap<Name, Arc<Submission>>,
    /// By the first job of each group that was compared.
    comparisons: BTreeMap<Name, Arc<Comparison>>,
}

impl Plan {
    pub(crate) fn job(&self, name: &str) -> Option<&Arc<Job>> {
        self.jobs.get(name)
    }

    /// The host whose agent reports of a job.
    pub(crate) fn leader(&self, name: &str) -> Option<Arc<str>> {
        self.job(name).map(|job| job.slot.leader_host.as_str().into())
    }

    pub(crate) fn jobs(&self) -> impl ExactSizeIterator<Item = &Arc<Job>> {
        self.jobs.values()
    }

    /// The jobs on a link, by name.
    pub(crate) fn on(&self, link: LinkId) -> &[Presence] {
        self.links.get(&link).map_or(&[], Vec::as_slice)
    }

    /// The links with demand.
    pub(crate) fn links(&self) -> impl ExactSizeIterator<Item = (LinkId, &[Presence])> {
        self.links.iter().map(|(l, p)| (*l, p.as_slice()))
    }

    /// The jobs with ranks on a host, by name.
    pub(crate) fn at(&self, host: &str) -> impl Iterator<Item = &Arc<Job>> {
        self.hosts.get(host).into_iter().flatten().filter_map(|n| self.jobs.get(n))
    }

    /// Whether two or more jobs meet on the link and can exceed it together.
    pub(crate) fn is_contended(&self, link: LinkId) -> bool {
        let here = self.on(link);
        here.len() > 1 && can_exceed(here.iter().map(|p| p.peak), self.capacity(link))
    }

    /// In Mbit/s; routed jobs only cross links of known capacity.
    pub(crate) fn capacity(&self, link: LinkId) -> u64 {
        self.installed.as_ref().and_then(|i| i.fabric().capacity(link).ok()).map_or(0, |rate| rate.0)
    }

    /// Puts a job in the place of the one of that name, or takes it away.
    pub(crate) fn replace(&mut self, name: &Name, job: Option<Arc<Job>>) {
        let old = self.jobs.get(name).cloned();
        // A new slot leaves the load as it is, by identity: then the job stands on the same links and the indices stay.
        let same_load = matches!((&old, &job), (Some(a), Some(b)) if Arc::ptr_eq(&a.load, &b.load));
        if !same_load {
            // The old load leaves before the new one enters: the other order would take the job off the links of both.
            old.iter().for_each(|o| self.leave(name, &o.load));
            job.iter().for_each(|j| self.enter(name, &j.load));
        }
        match job {
            Some(job) => drop(self.jobs.insert(name.clone(), job)),
            None => {
                self.jobs.remove(name);
                self.comparisons.remove(name);
            }
        }
    }

    fn enter(&mut self, name: &Name, load: &Load) {
        for &(link, demand) in &load.demands.links {
            let here = self.links.entry(link).or_default();
            // Jobs of a link stay in order of name, whatever the order of the commits: equal plans give equal answers.
            let at = here.partition_point(|p| p.job < *name);
            // `check` made one peak for each demand, and `demand` is an index of these.
            here.insert(at, Presence { job: name.clone(), demand, peak: load.peaks[demand as usize] });
        }
        for host in &load.hosts {
            self.hosts.entry(host.clone()).or_default().insert(name.clone());
        }
    }

    fn leave(&mut self, name: &Name, load: &Load) {
        for (link, _) in &load.demands.links {
            if let Some(here) = self.links.get_mut(link) {
                here.retain(|p| p.job != *name);
                // A link that nobody loads is no link with demand, and must not stay in the index for ever.
                if here.is_empty() {
                    self.links.remove(link);
                }
            }
        }
        for host in &load.hosts {
            if let Some(here) = self.hosts.get_mut(host) {
                here.remove(name);
                if here.is_empty() {
                    self.hosts.remove(host);
                }
            }
        }
    }

    pub(crate) fn key(&self, key: &str) -> Option<&Arc<KeyUse>> {
        self.keys.get(key)
    }

    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Arc<KeyUse>)> {
        self.keys.iter()
    }

    /// What the answers of all keys weigh.
    pub(crate) fn key_weight(&self) -> usize {
        self.key_weight
    }

    /// The oldest key.
    pub(crate) fn oldest_key(&self) -> Option<&(FabricTime, Arc<str>)> {
        self.keys_by_age.first()
    }

    /// The oldest key of the user who has most of them; `by_weight`: the oldest that weighs something, of the user whose answers weigh most.
    /// What `by` is about to add counts as theirs.
    pub(crate) fn dispensable_key(&self, by: Option<&Arc<str>>, adds: usize, by_weight: bool) -> Option<Arc<str>> {
        let of = |ring: &'_ Keyring| if by_weight { ring.heavy.first().cloned() } else { ring.by_age.first().cloned() };
        let has = |(owner, ring): &(&Option<Arc<str>>, &Keyring)| {
            let (more, one) = if owner.as_ref() == by { (adds, 1) } else { (0, 0) };
            if by_weight { ring.weight + more } else { ring.by_age.len() + one }
        };
        let (_, most) = self.keyrings.iter().filter(|(_, ring)| of(ring).is_some()).max_by_key(has)?;
        of(most).map(|(_, key)| key)
    }

    pub(crate) fn submission(&self, name: &str) -> Option<&Arc<Submission>> {
        self.submissions.get(name)
    }

    /// The submissions, by name.
    pub(crate) fn submissions(&self) -> impl ExactSizeIterator<Item = &Arc<Submission>> {
        self.submissions.values()
    }

    /// What the last comparison of the group found whose first job this is. The group may be another one by now.
    pub(crate) fn comparison(&self, name: &str) -> Option<&Arc<Comparison>> {
        self.comparisons.get(name)
    }

    pub(crate) fn replace_comparison(&mut self, name: &Name, found: Option<Arc<Comparison>>) {
        match found {
            Some(found) => self.comparisons.insert(name.clone(), found),
            None => self.comparisons.remove(name),
        };
    }

    pub(crate) fn replace_submission(&mut self, name: &Name, submission: Option<Arc<Submission>>) {
        match submission {
            Some(submission) => self.submissions.insert(name.clone(), submission),
            None => self.submissions.remove(name),
        };
    }

    pub(crate) fn replace_key(&mut self, key: &Arc<str>, used: Option<Arc<KeyUse>>) {
        if let Some(old) = self.keys.remove(key) {
            let age = (old.at, key.clone());
            // The same number was added when this key came in, and an answer never changes: the counts cannot go below 0.
            self.key_weight -= old.weight();
            if let Some(ring) = self.keyrings.get_mut(&old.by) {
                ring.weight -= old.weight();
                ring.by_age.remove(&age);
                ring.heavy.remove(&age);
                if ring.by_age.is_empty() {
                    self.keyrings.remove(&old.by);
                }
            }
            self.keys_by_age.remove(&age);
        }
        if let Some(used) = used {
            let age = (used.at, key.clone());
            let ring = self.keyrings.entry(used.by.clone()).or_default();
            ring.weight += used.weight();
            ring.by_age.insert(age.clone());
            if used.weight() > 0 {
                ring.heavy.insert(age.clone());
            }
            self.key_weight += used.weight();
            self.keys_by_age.insert(age);
            self.keys.insert(key.clone(), used);
        }
    }
}
