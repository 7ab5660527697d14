//! Faults in the order in which they begin and end, and what is down now.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use fabric::Fabric;
use policy::schedule::Cluster;
use units::LinkId;

use super::{Failing, FaultSetup, draw::Drawn};

/// Something that is down from now on, or no more.
#[derive(Clone, Copy, Debug)]
pub(in crate::trace) struct Turned {
    pub(in crate::trace) what: Failing,
    pub(in crate::trace) begins: bool,
}

/// The faults of a trace.
#[derive(Debug)]
pub(in crate::trace) struct Timeline {
    /// Those that were told, as they begin and end, in order of time.
    told: Vec<(f64, Turned)>,
    next_told: usize,
    drawn: Drawn,
    /// For each of these how many faults hold it down.
    hosts: BTreeMap<u32, u32>,
    links: BTreeMap<LinkId, u32>,
    agents: BTreeMap<u32, u32>,
    /// The factors of hosts that are slow.
    slow: BTreeMap<u32, Vec<f64>>,
}

impl Timeline {
    pub(in crate::trace) fn new(setup: &FaultSetup<'_>, cluster: Cluster, fabric: Option<&Fabric>) -> Self {
        let turned = |what, begins| Turned { what, begins };
        let both = setup.told.iter().flat_map(|f| [(f.at_s, turned(f.what, true)), (f.until_s, turned(f.what, false))]);
        let mut told: Vec<(f64, Turned)> = both.collect();
        // What ends when another fault of the same begins has not come back in between.
        told.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.begins.cmp(&a.1.begins)));
        let hosts = setup.hosts.into_iter().flat_map(|rate| (0..cluster.hosts).map(move |host| (Failing::Host(host), rate)));
        // One direction speaks for a cable.
        let speaks = |fabric: &Fabric, link: LinkId| fabric.reverse(link).is_none_or(|other| link < other);
        let links = setup.links.zip(fabric).into_iter().flat_map(|(rate, fabric)| {
            let links = (0..fabric.links().len() as u32).map(LinkId).filter(move |link| speaks(fabric, *link));
            links.map(move |link| (Failing::Link(link), rate))
        });
        Self {
            told,
            next_told: 0,
            drawn: Drawn::new(setup.seed, hosts.chain(links)),
            hosts: BTreeMap::new(),
            links: BTreeMap::new(),
            agents: BTreeMap::new(),
            slow: BTreeMap::new(),
        }
    }

    /// When something turns next; infinite when nothing does.
    pub(in crate::trace) fn next_s(&self) -> f64 {
        self.told.get(self.next_told).map_or(f64::INFINITY, |told| told.0).min(self.drawn.next_s())
    }

    /// Everything that turns until `now_s`, in order; what is down then is what [`Self::is_host_down`] and the others say.
    pub(in crate::trace) fn advance(&mut self, now_s: f64) -> Vec<Turned> {
        let mut turned = Vec::new();
        while self.next_s() <= now_s {
            let told = self.told.get(self.next_told).filter(|told| told.0 <= self.drawn.next_s());
            let next = match told {
                Some(&(_, told)) => {
                    self.next_told += 1;
                    Some(told)
                }
                None => self.drawn.turn().map(|(what, begins)| Turned { what, begins }),
            };
            let Some(next) = next else { break };
            self.count(next);
            turned.push(next);
        }
        turned
    }

    fn count(&mut self, Turned { what, begins }: Turned) {
        match what {
            Failing::Host(host) => count(&mut self.hosts, host, begins),
            Failing::Link(link) => count(&mut self.links, link, begins),
            Failing::Agent(host) => count(&mut self.agents, host, begins),
            Failing::Straggler { host, factor } if begins => self.slow.entry(host).or_default().push(factor),
            Failing::Straggler { host, factor } => {
                let factors = self.slow.entry(host).or_default();
                if let Some(at) = factors.iter().position(|own| *own == factor) {
                    factors.swap_remove(at);
                }
                if factors.is_empty() {
                    self.slow.remove(&host);
                }
            }
        }
    }

    pub(in crate::trace) fn is_host_down(&self, host: u32) -> bool {
        self.hosts.contains_key(&host)
    }

    /// Whether something is down that jobs wait for.
    pub(in crate::trace) fn is_something_down(&self) -> bool {
        !self.hosts.is_empty() || !self.links.is_empty()
    }

    /// Links that carry nothing: both directions of each cable.
    pub(in crate::trace) fn links_down(&self, fabric: &Fabric) -> BTreeSet<LinkId> {
        self.links.keys().flat_map(|link| [Some(*link), fabric.reverse(*link)]).flatten().collect()
    }

    /// Hosts without an agent.
    pub(in crate::trace) fn agents_down(&self) -> BTreeSet<u32> {
        self.agents.keys().copied().collect()
    }

    pub(in crate::trace) fn is_anybody_slow(&self) -> bool {
        !self.slow.is_empty()
    }

    /// How many times as long iterations take on a host.
    pub(in crate::trace) fn factor(&self, host: u32) -> f64 {
        self.slow.get(&host).map_or(1.0, |factors| factors.iter().copied().fold(1.0, f64::max))
    }
}

fn count<K: Ord + Copy>(down: &mut BTreeMap<K, u32>, key: K, begins: bool) {
    let holds = down.entry(key).or_default();
    *holds = if begins { *holds + 1 } else { holds.saturating_sub(1) };
    if *holds == 0 {
        down.remove(&key);
    }
}
