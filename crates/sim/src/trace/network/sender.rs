//! What a group sends, and where.
//!
//! The rules. A job that stands on one host sends nothing. One on several sends during its network time at the full rate of its NICs, in
//! a ring of its hosts; with several NICs on each host in a ring for each that its GPUs have. Which these are follows from which GPUs of
//! the host it has. Its network time is the last part of its iteration. The members of a group that interleaves on its GPUs (Muri) send one after
//! the other, each in the phase in which the order of the group gives it the network, so a group is one sender of several Up phases.
//! A job whose trace tells its phases sends by those, one rank for each GPU.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec,
    vec::Vec,
};

use fabric::{Fabric, FabricError, route::Router};
use job::{Collective, Endpoint, Hold, Job, Placement, TrafficPhase, data_nics};
use plan::{Cluster, LinkDemands, PlanError, link_demands};
use policy::muri::{Order, Stages, Timing};
use units::{LinkId, Nanos, NodeId, Rate};

use crate::trace::Traffic;

/// Nanoseconds in a second.
const NS: f64 = 1e9;

/// GPUs of one host: the host's number, and which of its GPUs.
pub(super) type Part = (u32, Vec<u8>);

/// A group as the network sees it.
#[derive(Debug)]
pub(super) struct Sender {
    /// Its name says nothing: results must not depend on it.
    pub(super) job: Job,
    pub(super) placement: Placement,
    pub(super) demands: LinkDemands,
    /// Highest rate of each demand in Mbit/s.
    pub(super) peaks: Vec<u64>,
}

/// Why a group has no sender.
#[derive(Debug)]
pub(super) enum Unsent {
    /// A flow of it has no route while links are down.
    Cut,
    /// What is wrong.
    Refused(String),
}

impl From<String> for Unsent {
    fn from(problem: String) -> Self {
        Self::Refused(problem)
    }
}

/// The hosts of a cluster on a fabric.
#[derive(Debug)]
pub(super) struct Hosts<'a> {
    router: &'a Router<'a>,
    /// The routes that are left while links are down.
    detour: Option<Router<'a>>,
    /// Hosts whose agents are down.
    mute: BTreeSet<u32>,
    nodes: Vec<NodeId>,
    nics: Vec<Vec<u16>>,
    /// GPUs of each.
    gpus: Vec<u32>,
}

impl<'a> Hosts<'a> {
    /// The first hosts of the router's fabric, which have so many GPUs each; `None` when it has fewer.
    pub(super) fn new(router: &'a Router<'a>, gpus: Vec<u32>) -> Option<Self> {
        let fabric = router.fabric();
        let nodes: Vec<NodeId> = fabric.hosts().take(gpus.len()).collect();
        let nics = nodes.iter().map(|host| data_nics(fabric, *host)).collect();
        (nodes.len() == gpus.len()).then_some(Self { router, detour: None, mute: BTreeSet::new(), nodes, nics, gpus })
    }

    pub(super) fn fabric(&self) -> &'a Fabric {
        self.router.fabric()
    }

    pub(super) fn router(&self) -> &Router<'a> {
        self.detour.as_ref().unwrap_or(self.router)
    }

    /// From now on these links carry nothing, and these hosts have no agent.
    pub(super) fn reroute(&mut self, down: &BTreeSet<LinkId>, mute: BTreeSet<u32>) {
        self.detour = (!down.is_empty()).then(|| self.router.without(down));
        self.mute = mute;
    }

    /// The leaf of each host, numbered in order of their first host: the switch of its first NIC.
    pub(super) fn leaves(&self) -> Vec<u32> {
        let fabric = self.fabric();
        let mut seen: Vec<Option<NodeId>> = Vec::new();
        let leaf = |(host, nics): (&NodeId, &Vec<u16>)| {
            // A management port is no NIC that training uses.
            let first = nics.first().and_then(|nic| fabric.links_from(*host).get(usize::from(*nic)));
            let leaf = first.map(|link| fabric.link(*link).to.node);
            let known = seen.iter().position(|known| *known == leaf);
            known.unwrap_or_else(|| {
                seen.push(leaf);
                seen.len() - 1
            }) as u32
        };
        self.nodes.iter().zip(&self.nics).map(leaf).collect()
    }

    /// The NIC of a GPU, as rails are numbered.
    fn nic(&self, host: u32, gpu: u8) -> Option<Endpoint> {
        let nics = self.nics.get(host as usize)?;
        let at = usize::from(gpu) * nics.len() / (self.gpus.get(host as usize).copied().unwrap_or(1).max(1) as usize);
        Some(Endpoint { host: self.nodes[host as usize], rail: *nics.get(at)? })
    }

    fn rate(&self, nic: Endpoint) -> Result<Rate, String> {
        let fabric = self.fabric();
        let link = fabric.links_from(nic.host).get(usize::from(nic.rail)).copied();
        let link = link.ok_or_else(|| format!("host {:?} has no NIC {}", fabric.node(nic.host).name, nic.rail))?;
        fabric.capacity(link).map_err(|e| e.to_string())
    }

    fn refuse_without_nic(&self, parts: &[Part]) -> Result<(), String> {
        let bare = parts.iter().find(|(host, _)| self.nics.get(*host as usize).is_none_or(Vec::is_empty));
        let name = |host: u32| self.nodes.get(host as usize).map_or("", |node| &self.fabric().node(*node).name);
        bare.map_or(Ok(()), |(host, _)| Err(format!("host {:?} has no NIC", name(*host))))
    }

    /// One endpoint for each GPU, in order of host.
    fn ranks(&self, parts: &[Part]) -> Vec<Endpoint> {
        parts.iter().flat_map(|(host, gpus)| gpus.iter().filter_map(|gpu| self.nic(*host, *gpu))).collect()
    }

    /// What a job sends whose phases are known, in iterations that are longer where it shares GPUs; `None` when it stands on one host.
    pub(super) fn of_traffic(&self, traffic: &Traffic, iteration: Nanos, gpus: u32, parts: &[Part]) -> Result<Option<Sender>, Unsent> {
        if parts.len() < 2 || traffic.phases.is_empty() {
            return Ok(None);
        }
        self.refuse_without_nic(parts)?;
        let placement = Placement { ranks: self.ranks(parts) };
        // As for jobs whose network time alone is known: what is longer comes first, and then the job sends as it does alone.
        let longer = iteration.0.saturating_sub(traffic.period.0);
        let later = |time: Nanos| Nanos(time.0.saturating_add(longer));
        let phases = traffic.phases.iter().map(|p| TrafficPhase { start: later(p.start), end: later(p.end), ..p.clone() });
        self.sender(later(traffic.period), phases.collect(), (gpus, parts), placement).map(Some)
    }

    /// What a group sends whose network times are these, from when to when of an iteration; `None` when it stands on one host or sends
    /// nothing.
    pub(super) fn of_ups(&self, period: Nanos, ups: &[(Nanos, Nanos)], gpus: u32, parts: &[Part]) -> Result<Option<Sender>, Unsent> {
        if parts.len() < 2 || ups.is_empty() {
            return Ok(None);
        }
        self.refuse_without_nic(parts)?;
        let mut own: Vec<Vec<Endpoint>> = Vec::with_capacity(parts.len());
        for (host, gpus) in parts {
            let mut nics: Vec<Endpoint> = gpus.iter().filter_map(|gpu| self.nic(*host, *gpu)).collect();
            nics.dedup();
            own.push(nics);
        }
        // A ring takes one NIC of every host, so there are as many as the host with the fewest has.
        let rings = own.iter().map(Vec::len).min().unwrap_or(0);
        let ranks: Vec<Endpoint> = own.iter().flat_map(|nics| nics[..rings].iter().copied()).collect();
        let ring = |ring: usize| (0..parts.len()).map(|host| (host * rings + ring) as u32).collect::<Vec<u32>>();
        let groups: Arc<[Vec<u32>]> = (0..rings).map(ring).collect();
        let mut rate = Rate(u64::MAX);
        for nic in &ranks {
            rate = rate.min(self.rate(*nic)?);
        }
        let phase =
            |&(start, end): &(Nanos, Nanos)| TrafficPhase { start, end, rate, collective: Collective::Ring, groups: Arc::clone(&groups) };
        self.sender(period, ups.iter().map(phase).collect(), (gpus, parts), Placement { ranks }).map(Some)
    }

    fn sender(
        &self,
        period: Nanos,
        phases: Vec<TrafficPhase>,
        (gpus, parts): (u32, &[Part]),
        placement: Placement,
    ) -> Result<Sender, Unsent> {
        // The agent of the first host speaks for the job, as that of its leader does.
        let is_mute = parts.first().is_some_and(|(host, _)| self.mute.contains(host));
        let hold = if is_mute { Hold::Never } else { Hold::Phases };
        let job = Job { name: String::new(), gpus, period, hold, phases };
        let cluster = Cluster { fabric: self.fabric(), router: self.router(), jobs: &[], placements: &[] };
        let demands = link_demands(&cluster, &job, &placement).map_err(|e| match e {
            PlanError::Fabric(FabricError::NoRoute { .. }) if self.detour.is_some() => Unsent::Cut,
            e => Unsent::Refused(e.to_string()),
        })?;
        let peaks = demands.demands.iter().map(|phases| phases.iter().map(|p| p.rate.0).max().unwrap_or(0)).collect();
        Ok(Sender { job, placement, demands, peaks })
    }
}

/// Seconds as whole nanoseconds.
pub(super) fn nanos(seconds: f64) -> Nanos {
    // Iterations are at most an hour, which is far below what fits.
    Nanos((seconds * NS + 0.5) as u64)
}

/// When the members of a group send, whose iteration takes `iteration_s`: sorted and disjoint.
pub(super) fn ups(members: &[Stages], iteration_s: f64, order: Order) -> Vec<(Nanos, Nanos)> {
    let period = nanos(iteration_s);
    let spans: Vec<(f64, f64)> = match members {
        // What a job computes and loads comes first, and it synchronises at the end.
        [job] => vec![(iteration_s - job.net_s, iteration_s)],
        _ => network_phases(members, iteration_s, order),
    };
    let mut found: Vec<(Nanos, Nanos)> = spans
        .into_iter()
        .map(|(start, end)| (nanos(start.max(0.0)), nanos(end.max(0.0)).min(period)))
        .filter(|(start, end)| start < end)
        .collect();
    found.sort_unstable();
    // Phases of a group do not overlap by their definition; rounding to nanoseconds may make them touch.
    for at in 1..found.len() {
        found[at].0 = found[at].0.max(found[at - 1].1);
    }
    found.retain(|(start, end)| start < end);
    found
}

/// The times in which the members have the network. Phases are stretched to the iteration that the group takes, and a member sends no longer
/// for that.
fn network_phases(members: &[Stages], iteration_s: f64, order: Order) -> Vec<(f64, f64)> {
    let phases = Timing::Paper.interleave(members, order).phases(members);
    let sum: f64 = phases.iter().map(|phase| phase.length_s).sum();
    let stretch = if sum > 0.0 { iteration_s / sum } else { 1.0 };
    let mut start = 0.0;
    let mut found = Vec::new();
    for phase in phases {
        let length = phase.length_s * stretch;
        let net_s = phase.network.and_then(|member| members.get(usize::from(member))).map_or(0.0, |job| job.net_s);
        found.push((start, start + net_s.min(length)));
        start += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(load_s: f64, gpu_s: f64, net_s: f64) -> Stages {
        Stages { load_s, gpu_s, net_s }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_lone_job_sends_at_the_end_of_its_iteration() {
        let job = stages(0.1, 0.2, 0.15);
        // Stages of a job overlap, so its iteration is shorter than their sum.
        assert_eq!(ups(&[job], 0.4, Order::Best), [(Nanos(250 * MS), Nanos(400 * MS))]);
        assert_eq!(ups(&[stages(0.1, 0.2, 0.0)], 0.3, Order::Best), []);
        assert_eq!(ups(&[stages(0.0, 0.1, 0.9)], 0.3, Order::Best), [(Nanos(0), Nanos(300 * MS))], "no more than the iteration");
    }

    #[test]
    fn members_of_a_group_send_one_after_the_other_and_as_long_as_each_needs() {
        let members = [stages(0.1, 0.1, 0.2), stages(0.1, 0.2, 0.1), stages(0.2, 0.1, 0.1)];
        let period_s = Timing::Paper.interleave(&members, Order::Best).period_s;
        for stretched in [1.0, 1.3] {
            let ups = ups(&members, period_s * stretched, Order::Best);
            let sum: u64 = ups.iter().map(|(start, end)| end.0 - start.0).sum();
            assert_eq!((ups.len(), sum), (3, 400 * MS), "{ups:?}");
            assert!(ups.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ups:?}");
            assert!(ups.iter().all(|(_, end)| *end <= nanos(period_s * stretched)));
        }
    }
}
