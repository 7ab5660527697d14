//! A case on a kernel: namespaces, devices, addresses, routes, and which jobs cross which link. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use fabric::{NodeKind, collective};
use job::{Collective, Endpoint};
use units::{LinkId, Rate};

use crate::case::{Case, CaseError};

/// Most cables: two addresses each, out of one /16.
const CABLES_MAX: usize = 1 << 10;

/// A node and its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Name of the namespace: `ap-<lab>-<node>`.
    pub name: String,
    /// Name of the node in the case.
    pub node: String,
    /// Address of a host.
    pub address: Option<Ipv4Addr>,
    /// Routes, one per destination host.
    pub routes: Vec<Route>,
    /// Its ends of cables.
    pub ports: Vec<LabPort>,
}

/// Where packets for a host go next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The host.
    pub to: Ipv4Addr,
    /// The far end of the cable.
    pub via: Ipv4Addr,
    /// The near end.
    pub device: String,
}

/// One end of a cable, and the link that leaves through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabPort {
    /// Device in its namespace.
    pub device: String,
    /// Its address; the far end has the other one of the /31.
    pub address: Ipv4Addr,
    /// The link that leaves here.
    pub link: LinkId,
    /// Capacity of that link.
    pub rate: Rate,
    /// What the port does to what leaves.
    pub role: Role,
    /// Jobs whose data or acknowledgements leave here, by index.
    pub jobs: Vec<usize>,
}

/// The shaping of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A host's NIC: limited to its rate.
    Nic,
    /// From switch to switch: limited to its rate, one fair class per job, and the marking queue.
    Fabric,
    /// From a switch to a host: as fast as it comes, because the sender's NIC is as slow.
    Edge,
}

/// Two ends: (namespace, port) indices.
pub type Cable = [(usize, usize); 2];

/// A case, wired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// One namespace per node, in the order of the fabric.
    pub namespaces: Vec<Namespace>,
    /// The cables.
    pub cables: Vec<Cable>,
    /// Jobs whose data crosses a link, for links from switch to switch with at least one.
    pub crossings: BTreeMap<LinkId, Vec<usize>>,
    /// Address of each rank of each job.
    pub ranks: Vec<Vec<Ipv4Addr>>,
}

/// Why packets go from one rank to another, in the order in which ways are given out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Data,
    Acknowledgements,
    Others,
}

impl Pass {
    fn pairs(self, ranks: &[Endpoint]) -> Vec<(Endpoint, Endpoint)> {
        let flows = collective::flows(Collective::Ring, ranks);
        match self {
            Self::Data => flows.iter().map(|flow| (flow.from, flow.to)).collect(),
            Self::Acknowledgements => flows.iter().map(|flow| (flow.to, flow.from)).collect(),
            Self::Others => {
                let pairs = ranks.iter().flat_map(|&from| ranks.iter().map(move |&to| (from, to)));
                pairs.filter(|(from, to)| from.host != to.host).collect()
            }
        }
    }
}

/// Wires a case for the lab of that id.
///
/// # Errors
/// A fabric without routes between the hosts of a job, or with too many cables.
pub fn wire(case: &Case, lab: &str) -> Result<Wiring, CaseError> {
    let fabric = &case.fabric;
    if fabric.links().len() > 2 * CABLES_MAX {
        return Err(CaseError::Fabric(format!("{} cables; the lab plays at most {CABLES_MAX}", fabric.links().len() / 2)));
    }
    let mut out = Wiring { namespaces: Vec::new(), cables: Vec::new(), crossings: BTreeMap::new(), ranks: Vec::new() };
    // Namespaces have the order of the fabric's nodes, so a node's index finds its namespace.
    for node in fabric.nodes() {
        let name = format!("{}{}", prefix(lab), node.name);
        out.namespaces.push(Namespace { name, node: node.name.clone(), address: None, routes: Vec::new(), ports: Vec::new() });
    }
    for (j, job) in case.jobs.iter().enumerate() {
        // The third byte is what the marking queue counts by.
        let ranks: Vec<Ipv4Addr> = (0..job.hosts.len()).map(|r| Ipv4Addr::new(10, 77, j as u8, r as u8 + 1)).collect();
        for (host, address) in job.hosts.iter().zip(&ranks) {
            out.namespaces[host.index()].address = Some(*address);
        }
        out.ranks.push(ranks);
    }
    let ports = out.cables(case);
    out.routes(case, &ports)?;
    Ok(out)
}

/// Prefix of the names of a lab's namespaces.
pub(crate) fn prefix(lab: &str) -> String {
    format!("ap-{lab}-")
}

impl Wiring {
    /// Both ends of every cable; where each link leaves.
    fn cables(&mut self, case: &Case) -> BTreeMap<LinkId, (usize, usize)> {
        let fabric = &case.fabric;
        let mut ports: BTreeMap<LinkId, (usize, usize)> = BTreeMap::new();
        for there in (0..fabric.links().len()).filter_map(LinkId::from_index) {
            // Each cable is met twice, once per direction; the lower id stands for both.
            let Some(back) = fabric.reverse(there).filter(|back| there < *back) else { continue };
            // An even number and the next odd one are the two addresses of a /31; `CABLES_MAX` keeps both within 16 bits.
            let number = 2 * self.cables.len() as u16;
            let ends = [(there, number), (back, number + 1)].map(|(link, last)| {
                let node = fabric.link(link).from.node.index();
                let kinds = [fabric.link(link).from.node, fabric.link(link).to.node].map(|n| fabric.node(n).kind == NodeKind::Host);
                let role = match kinds {
                    [true, _] => Role::Nic,
                    [false, true] => Role::Edge,
                    [false, false] => Role::Fabric,
                };
                let [high, low] = last.to_be_bytes();
                let port = LabPort {
                    device: format!("e{}", self.namespaces[node].ports.len()),
                    address: Ipv4Addr::new(10, 76, high, low),
                    link,
                    // `case::check_fabric` has refused links without a capacity, so the 1 is never used.
                    rate: fabric.link(link).capacity.unwrap_or(Rate(1)),
                    role,
                    jobs: Vec::new(),
                };
                self.namespaces[node].ports.push(port);
                let at = (node, self.namespaces[node].ports.len() - 1);
                ports.insert(link, at);
                at
            });
            self.cables.push(ends);
        }
        ports
    }

    /// Routes by destination. A host receives data from one rank only, so the way of that flow is the way to the host; others
    /// send it acknowledgements, which join that way where they meet it; last come ranks that are no neighbours on the ring,
    /// because gloo connects each with each. All ways are shortest, so there is no loop.
    fn routes(&mut self, case: &Case, ports: &BTreeMap<LinkId, (usize, usize)>) -> Result<(), CaseError> {
        let router = case.router().map_err(|e| CaseError::Fabric(e.to_string()))?;
        let mut next: BTreeMap<(usize, Ipv4Addr), LinkId> = BTreeMap::new();
        let mut leaving: BTreeMap<LinkId, BTreeSet<usize>> = BTreeMap::new();
        // The order gives the data its own way: acknowledgements and other pairs take what the data of another flow has already fixed.
        for pass in [Pass::Data, Pass::Acknowledgements, Pass::Others] {
            for (j, job) in case.jobs.iter().enumerate() {
                let (_, placement) = job.planned(&job.nominal());
                for (from, to) in pass.pairs(&placement.ranks) {
                    let Some(to_address) = self.namespaces[to.host.index()].address else { continue };
                    let ways = router.paths(from, to, 1).map_err(|e| CaseError::Fabric(e.to_string()))?;
                    for link in ways.paths.iter().flat_map(|path| &path.links) {
                        let node = case.fabric.link(*link).from.node.index();
                        // A kernel routes by destination alone, so the first way through a node to a host is the way for everybody.
                        let link = *next.entry((node, to_address)).or_insert(*link);
                        leaving.entry(link).or_default().insert(j);
                        if pass == Pass::Data && ports.get(&link).is_some_and(|&(n, p)| self.namespaces[n].ports[p].role == Role::Fabric) {
                            let jobs = self.crossings.entry(link).or_default();
                            if !jobs.contains(&j) {
                                jobs.push(j);
                            }
                        }
                    }
                }
            }
        }
        for ((node, to), link) in next {
            // Every link has a port at both ends, because `case::check_fabric` has refused links known in one direction only.
            let (Some(&(n, p)), Some(&(far, q))) = (ports.get(&link), case.fabric.reverse(link).and_then(|l| ports.get(&l))) else {
                continue;
            };
            let route = Route { to, via: self.namespaces[far].ports[q].address, device: self.namespaces[n].ports[p].device.clone() };
            self.namespaces[node].routes.push(route);
        }
        for (link, jobs) in leaving {
            if let Some(&(n, p)) = ports.get(&link) {
                self.namespaces[n].ports[p].jobs = jobs.into_iter().collect();
            }
        }
        Ok(())
    }

    /// Pairs of jobs whose data meets on some link: `meets[a]` lists the others.
    #[must_use]
    pub fn meets(&self) -> Vec<BTreeSet<usize>> {
        let mut meets = vec![BTreeSet::new(); self.ranks.len()];
        for jobs in self.crossings.values() {
            for &a in jobs {
                meets[a].extend(jobs.iter().copied().filter(|&b| b != a));
            }
        }
        meets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::builtin;

    fn wired(name: &str) -> (Case, Wiring) {
        let case = Case::read(builtin(name).unwrap(), &|_| Err("no files".into())).unwrap();
        let wiring = wire(&case, "t").unwrap();
        (case, wiring)
    }

    #[test]
    fn packets_follow_the_router_to_every_host_and_back() {
        for name in ["two-equal", "three-on-two-links", "three-in-a-loop"] {
            let (case, wiring) = wired(name);
            let owner: BTreeMap<Ipv4Addr, usize> =
                wiring.namespaces.iter().enumerate().flat_map(|(n, ns)| ns.ports.iter().map(move |p| (p.address, n))).collect();
            let router = case.router().unwrap();
            for (j, job) in case.jobs.iter().enumerate() {
                for (a, b) in [(0, 1), (1, 0)] {
                    let ends = [job.hosts[a], job.hosts[b]].map(|host| Endpoint { host, rail: 0 });
                    let expected = router.paths(ends[0], ends[1], 1).unwrap().paths[0].links.clone();
                    let mut at = job.hosts[a].index();
                    let mut walked = Vec::new();
                    while at != job.hosts[b].index() {
                        let route = wiring.namespaces[at].routes.iter().find(|r| r.to == wiring.ranks[j][b]).unwrap();
                        let port = wiring.namespaces[at].ports.iter().find(|p| p.device == route.device).unwrap();
                        walked.push(port.link);
                        at = owner[&route.via];
                    }
                    assert_eq!(walked, expected, "{name}: job {j}, rank {a} to {b}");
                }
            }
        }
    }

    /// Four ranks, each on a leaf of its own: those that are no neighbours on the ring reach each other too.
    #[test]
    fn every_rank_of_a_job_reaches_every_other_one() {
        let (cables, hosts) =
            (0..4).map(|n| (format!("{{ends: [h{n}, l{n}]}}, {{ends: [l{n}, s]}}"), format!("h{n}"))).unzip::<_, _, Vec<_>, Vec<_>>();
        let leaves: Vec<String> = (0..4).map(|n| format!("{{name: l{n}, tier: 1}}")).collect();
        let text = format!(
            "{{schema: antiphase.lab/v1, name: four, fabric: {{schema: antiphase.fabric/v1, name: four, hosts: [{0}], \
             switches: [{1}, {{name: s, tier: 2}}], defaults: {{capacity: 100M}}, cables: [{2}]}}, \
             jobs: [{{id: a, hosts: [{0}], compute_ms: 1, bytes: 1}}]}}",
            hosts.join(", "),
            leaves.join(", "),
            cables.join(", ")
        );
        let case = Case::read(&text, &|_| Err("no files".into())).unwrap();
        let wiring = wire(&case, "t").unwrap();
        for (from, host) in case.jobs[0].hosts.iter().enumerate() {
            let routes = &wiring.namespaces[host.index()].routes;
            let reached: BTreeSet<Ipv4Addr> = routes.iter().map(|r| r.to).collect();
            let others = wiring.ranks[0].iter().enumerate().filter(|(to, _)| *to != from).map(|(_, address)| *address);
            assert_eq!(reached, others.collect(), "from rank {from}");
        }
        // The ring's data alone crosses links: h0 to h1, h1 to h2, h2 to h3, h3 to h0.
        assert_eq!(wiring.crossings.len(), 8);
    }

    /// slow-nics: a host's port is as slow as its cable, so the job sends at 60 of the link's 100 Mbit/s.
    #[test]
    fn a_nic_may_be_slower_than_the_link() {
        let (case, wiring) = wired("slow-nics");
        let nics: Vec<Rate> = wiring.namespaces.iter().flat_map(|n| &n.ports).filter(|p| p.role == Role::Nic).map(|p| p.rate).collect();
        assert_eq!(nics, [Rate(60); 4]);
        assert!(case.jobs.iter().all(|job| job.rate(0, job.wire_times()[0]) == Rate(60)));
        assert!(wiring.crossings.keys().all(|link| case.fabric.link(*link).capacity >= Some(Rate(100))));
    }

    /// two-equal: the jobs meet on both uplinks in both directions, and the NICs carry one job each.
    #[test]
    fn crossings_are_the_links_between_switches_that_carry_data() {
        let (case, wiring) = wired("two-equal");
        let names: Vec<String> = wiring.crossings.keys().map(|l| case.fabric.link_name(*l)).collect();
        assert_eq!(names, ["leaf1->spine1", "spine1->leaf1", "leaf2->spine1", "spine1->leaf2"]);
        assert!(wiring.crossings.values().all(|jobs| jobs == &[0, 1]));
        let (_, chain) = wired("three-on-two-links");
        assert_eq!(chain.meets(), [BTreeSet::from([1]), BTreeSet::from([0, 2]), BTreeSet::from([1])]);
    }
}
