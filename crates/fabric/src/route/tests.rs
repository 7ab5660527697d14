//! Routes on hand-made and random fabrics, against conservation and a path-by-path oracle.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use units::Rate;

use super::*;
use crate::{FabricBuilder, NodeKind, Port, Provenance};

fn at(host: NodeId) -> Endpoint {
    Endpoint { host, rail: 0 }
}

fn whole(from: NodeId, to: NodeId) -> Flow {
    Flow { from: at(from), to: at(to), share: Share::ONE }
}

/// Cables as (node, node); names that start with `h` are hosts.
fn fabric(cables: &[(&str, &str)]) -> Fabric {
    let mut b = FabricBuilder::new("test");
    for (x, y) in cables {
        let ports = [x, y].map(|name| {
            let kind = if name.starts_with('h') { NodeKind::Host } else { NodeKind::Switch { tier: 0 } };
            let node = b.node(name, kind).unwrap();
            Port { node, name: b.next_port(node) }
        });
        let [x, y] = ports;
        b.cable(x, y, Some(Rate(100_000)), Provenance::Asserted).unwrap();
    }
    b.build()
}

/// Shares by link name in units of 1/12 of a NIC.
fn twelfths(fabric: &Fabric, loads: &[(LinkId, Share)]) -> BTreeMap<String, u64> {
    loads.iter().map(|&(l, s)| (fabric.link_name(l), s.0 * 12 / Share::ONE.0)).collect()
}

const TWO_SPINES: &[(&str, &str)] = &[("h1", "a"), ("h2", "b"), ("a", "s1"), ("a", "s2"), ("a", "s2"), ("b", "s1"), ("b", "s2")];

#[test]
fn spread_counts_parallel_cables_as_next_hops() {
    let f = fabric(TWO_SPINES);
    let router = Router::new(&f, Ecmp::Spread, &[]).unwrap();
    let loads = router.loads(&[whole(f.find("h1").unwrap(), f.find("h2").unwrap())]).unwrap();
    // Leaf a has three cables up, so each carries a third; spine s2 gets two of them.
    let expect = [("h1->a", 12), ("a->s1", 4), ("a:p2->s2", 4), ("a:p3->s2", 4), ("s1->b", 4), ("s2->b", 8), ("b->h2", 12)];
    assert_eq!(twelfths(&f, &loads), expect.map(|(n, s)| (n.to_string(), s)).into());
}

#[test]
fn hosts_never_forward_and_longer_ways_carry_nothing() {
    // h2 has a NIC on both leaves, and there is a way a-s1-x-b of three hops beside a-s2-b.
    let f = fabric(&[("h1", "a"), ("h2", "a"), ("h2", "b"), ("h3", "b"), ("a", "s1"), ("s1", "x"), ("x", "b"), ("a", "s2"), ("s2", "b")]);
    let router = Router::new(&f, Ecmp::Spread, &[]).unwrap();
    let loads = router.loads(&[whole(f.find("h1").unwrap(), f.find("h3").unwrap())]).unwrap();
    let expect = ["h1->a", "a->s2", "s2->b", "b->h3"].map(|n| (n.to_string(), 12));
    assert_eq!(twelfths(&f, &loads), expect.into());
}

#[test]
fn the_rail_picks_the_nic_at_both_ends() {
    let f = fabric(&[("h1", "a"), ("h1", "b"), ("h2", "a"), ("h2", "b"), ("a", "s"), ("b", "s")]);
    let router = Router::new(&f, Ecmp::Spread, &[]).unwrap();
    let (h1, h2) = (f.find("h1").unwrap(), f.find("h2").unwrap());
    let rail = |host, rail| Endpoint { host, rail };
    let loads = router.loads(&[Flow { from: rail(h1, 1), to: rail(h2, 3), share: Share::ONE }]).unwrap();
    assert_eq!(twelfths(&f, &loads), [("h1->b".to_string(), 12), ("b->h2".to_string(), 12)].into());
}

#[test]
fn a_flow_inside_a_host_loads_nothing_and_an_island_is_named() {
    let f = fabric(&[("h1", "a"), ("h2", "b")]);
    let router = Router::new(&f, Ecmp::Spread, &[]).unwrap();
    let (h1, h2) = (f.find("h1").unwrap(), f.find("h2").unwrap());
    assert_eq!(router.loads(&[whole(h1, h1)]), Ok(vec![]));
    let mut scratch = RouteScratch::new();
    let island = router.loads_with(&mut scratch, &[whole(h1, h2)]);
    assert_eq!(island, Err(FabricError::NoRoute { from: "h1".into(), to: "h2".into() }));
    assert_eq!(router.loads_with(&mut scratch, &[]), Ok(vec![]), "a failed call leaves nothing behind");
    assert!(router.loads(&[whole(NodeId(77), h2)]).unwrap_err().to_string().contains("#77"));
}

#[test]
fn two_hosts_on_one_cable_need_no_switch() {
    let f = fabric(&[("h1", "h2")]);
    let router = Router::new(&f, Ecmp::Spread, &[]).unwrap();
    let loads = router.loads(&[whole(f.find("h1").unwrap(), f.find("h2").unwrap())]).unwrap();
    assert_eq!(loads, [(LinkId(0), Share::ONE)]);
}

#[test]
fn a_hash_uses_one_path_and_seeds_use_all_of_them() {
    let f = fabric(TWO_SPINES);
    let (h1, h2) = (f.find("h1").unwrap(), f.find("h2").unwrap());
    let mut seen = BTreeSet::new();
    for seed in 0..64 {
        let router = Router::new(&f, Ecmp::Hashed { seed }, &[]).unwrap();
        let loads = router.loads(&[whole(h1, h2)]).unwrap();
        assert!(loads.len() == 4 && loads.iter().all(|l| l.1 == Share::ONE));
        seen.insert(loads);
    }
    assert_eq!(seen.len(), 3, "three paths: one per cable of leaf a");
}

#[test]
fn a_hash_does_not_depend_on_the_order_of_the_document() {
    let mut reordered = TWO_SPINES[2..].to_vec();
    reordered.extend(&TWO_SPINES[..2]);
    // Explicit ports, because automatic ones follow the order.
    let build = |cables: &[(&str, &str)]| {
        let mut b = FabricBuilder::new("test");
        for &(x, y) in cables.iter().filter(|c| **c != ("a", "s2")) {
            let kind = |n: &str| if n.starts_with('h') { NodeKind::Host } else { NodeKind::Switch { tier: 0 } };
            let (from, to) = (b.node(x, kind(x)).unwrap(), b.node(y, kind(y)).unwrap());
            b.cable(Port { node: from, name: y.into() }, Port { node: to, name: x.into() }, None, Provenance::Asserted).unwrap();
        }
        b.build()
    };
    for seed in 0..32 {
        let names = [TWO_SPINES, &reordered].map(|cables| {
            let f = build(cables);
            let router = Router::new(&f, Ecmp::Hashed { seed }, &[]).unwrap();
            let loads = router.loads(&[whole(f.find("h1").unwrap(), f.find("h2").unwrap())]).unwrap();
            twelfths(&f, &loads)
        });
        assert_eq!(names[0], names[1]);
    }
}

#[test]
fn a_pin_overrides_the_rule_for_its_nics_only() {
    let f = fabric(TWO_SPINES);
    let pin = Pin::through(&f, &["h1", "a:p3", "s2", "b", "h2"]).unwrap();
    let router = Router::new(&f, Ecmp::Spread, &[pin]).unwrap();
    let (h1, h2) = (f.find("h1").unwrap(), f.find("h2").unwrap());
    let expect = ["h1->a", "a:p3->s2", "s2->b", "b->h2"].map(|n| (n.to_string(), 12));
    assert_eq!(twelfths(&f, &router.loads(&[whole(h1, h2)]).unwrap()), expect.into());
    assert_eq!(router.loads(&[whole(h2, h1)]).unwrap().len(), 7, "the way back is spread");
    assert!(router.paths(at(h1), at(h2), 9).unwrap().links.iter().all(|l| l.assumption == Assumption::Pinned));
}

#[test]
fn a_pin_that_is_no_route_is_named() {
    let f = fabric(TWO_SPINES);
    let problem = |stops: &[&str]| Pin::through(&f, stops).and_then(|p| Router::new(&f, Ecmp::Spread, &[p])).unwrap_err().to_string();
    assert!(problem(&["h1", "a", "s2", "b", "h2"]).contains("2 cables from \"a\" to \"s2\""));
    assert!(problem(&["h1", "b", "h2"]).contains("no cable from \"h1\" to \"b\""));
    assert!(problem(&["h1", "a", "nowhere"]).contains("unknown node \"nowhere\""));
    assert!(problem(&["h1", "a", "s1"]).contains("ends in a switch"));
    assert!(problem(&[]).contains("no nodes"));
    let alien = Pin { from: NodeId(0), to: NodeId(1), links: vec![LinkId(900)] };
    assert!(Router::new(&f, Ecmp::Spread, &[alien]).is_err());
}

#[test]
fn paths_say_what_each_link_rests_on() {
    let f = fabric(TWO_SPINES);
    let (h1, h2) = (f.find("h1").unwrap(), f.find("h2").unwrap());
    let spread = Router::new(&f, Ecmp::Spread, &[]).unwrap().paths(at(h1), at(h2), 10).unwrap();
    assert_eq!((spread.path_count, spread.paths.len()), (3, 3));
    assert_eq!(spread.paths.iter().map(|p| p.share.0).sum::<u64>(), Share::ONE.0);
    let of = |r: &Routes| r.links.iter().map(|l| (l.hop, l.assumption)).collect::<Vec<_>>();
    use Assumption::{Hashed, Sole, Spread};
    assert_eq!(of(&spread), [(0, Sole), (1, Spread), (1, Spread), (1, Spread), (2, Spread), (2, Spread), (3, Sole)]);
    let hashed = Router::new(&f, Ecmp::Hashed { seed: 1 }, &[]).unwrap().paths(at(h1), at(h2), 10).unwrap();
    assert_eq!(of(&hashed), [(0, Sole), (1, Hashed), (2, Hashed), (3, Sole)]);
    assert_eq!(hashed.path_count, 3);
}

/// A random fabric: up to 7 switches, parallel cables, islands, hosts with one or two NICs.
fn random_fabric() -> impl Strategy<Value = Fabric> {
    let cables = prop::collection::vec((0_u8..7, 0_u8..7), 1..24);
    let nics = prop::collection::vec(prop::collection::vec(0_u8..7, 1..3), 2..6);
    (cables, nics).prop_map(|(cables, nics)| {
        let switch = |n| format!("s{n}");
        let mut all: Vec<(String, String)> = cables.iter().filter(|(x, y)| x != y).map(|&(x, y)| (switch(x), switch(y))).collect();
        for (h, nics) in nics.iter().enumerate() {
            all.extend(nics.iter().map(|&n| (format!("h{h}"), switch(n))));
        }
        let all: Vec<(&str, &str)> = all.iter().map(|(x, y)| (x.as_str(), y.as_str())).collect();
        fabric(&all)
    })
}

/// Breadth-first distance over switches, independent of the table.
fn oracle_distances(f: &Fabric, to: NodeId) -> BTreeMap<NodeId, u32> {
    let mut dist = BTreeMap::from([(to, 0)]);
    loop {
        let before = dist.len();
        let known = dist.clone();
        let layer = known.values().max().copied().unwrap();
        for link in f.links() {
            let switches = [link.from.node, link.to.node].iter().all(|&n| f.node(n).kind != NodeKind::Host);
            if switches && known.get(&link.to.node) == Some(&layer) {
                dist.entry(link.from.node).or_insert(layer + 1);
            }
        }
        if dist.len() == before {
            return dist;
        }
    }
}

/// Fraction of a flow per link, by recursion over all shortest paths.
fn oracle_spread(f: &Fabric, dist: &BTreeMap<NodeId, u32>, at: NodeId, amount: f64, into: &mut BTreeMap<LinkId, f64>) {
    let nearer = |l: &&LinkId| {
        let to = f.link(**l).to.node;
        dist.get(&to).is_some_and(|d| d + 1 == dist[&at])
    };
    let hops: Vec<_> = f.links_from(at).iter().filter(nearer).collect();
    for &&hop in &hops {
        *into.entry(hop).or_insert(0.0) += amount / hops.len() as f64;
        oracle_spread(f, dist, f.link(hop).to.node, amount / hops.len() as f64, into);
    }
}

proptest! {
    #[test]
    fn spread_equals_the_oracle_and_conserves_every_unit(f in random_fabric(), a in 0_usize..6, b in 0_usize..6, rail in 0_u16..3) {
        let hosts: Vec<_> = f.hosts().collect();
        let (a, b) = (hosts[a % hosts.len()], hosts[b % hosts.len()]);
        prop_assume!(a != b);
        let router = Router::new(&f, Ecmp::Spread, &[]).unwrap();
        let (from, to) = (Endpoint { host: a, rail }, Endpoint { host: b, rail: 0 });
        let out = f.links_from(a)[usize::from(rail) % f.links_from(a).len()];
        let into = f.reverse(f.links_from(b)[0]).unwrap();
        let (source, last) = (f.link(out).to.node, f.link(into).from.node);
        let dist = oracle_distances(&f, last);
        let loads = router.loads(&[Flow { from, to, share: Share::ONE }]);
        if !dist.contains_key(&source) {
            prop_assert!(loads.is_err());
            return Ok(());
        }
        let loads: BTreeMap<_, _> = loads.unwrap().into_iter().collect();
        let mut expect = BTreeMap::from([(out, 1.0), (into, 1.0)]);
        oracle_spread(&f, &dist, source, 1.0, &mut expect);
        prop_assert_eq!(loads.keys().collect::<Vec<_>>(), expect.keys().collect::<Vec<_>>());
        for (link, share) in &expect {
            // At most one unit is misplaced per split above the link.
            prop_assert!((loads[link].as_f64() - share).abs() < 1e-4, "{}: {} {share}", f.link_name(*link), loads[link].as_f64());
        }
        // Conservation: every node sends on what it received, to the unit.
        let mut balance: BTreeMap<NodeId, i128> = BTreeMap::new();
        for (&link, &share) in &loads {
            *balance.entry(f.link(link).from.node).or_insert(0) -= i128::from(share.0);
            *balance.entry(f.link(link).to.node).or_insert(0) += i128::from(share.0);
        }
        for (node, sum) in balance {
            let expect = if node == a { -720_720 } else if node == b { 720_720 } else { 0 };
            prop_assert_eq!(sum, expect);
        }
    }

    #[test]
    fn sums_of_many_flows_conserve_and_scratch_makes_no_difference(f in random_fabric(), pairs in prop::collection::vec((0_usize..6, 0_usize..6, 1_u64..2_000_000), 1..12), seed in 0_u64..4) {
        let hosts: Vec<_> = f.hosts().collect();
        let ecmp = if seed == 0 { Ecmp::Spread } else { Ecmp::Hashed { seed } };
        let router = Router::new(&f, ecmp, &[]).unwrap();
        let flows: Vec<_> = pairs.iter().map(|&(a, b, s)| Flow { from: at(hosts[a % hosts.len()]), to: at(hosts[b % hosts.len()]), share: Share(s) }).collect();
        let routable: Vec<_> = flows.iter().copied().filter(|fl| router.loads(&[*fl]).is_ok()).collect();
        let mut scratch = RouteScratch::new();
        let _ = router.loads_with(&mut scratch, &flows);
        let loads = router.loads_with(&mut scratch, &routable).unwrap();
        prop_assert_eq!(&loads, &router.loads(&routable).unwrap());
        prop_assert!(loads.windows(2).all(|w| w[0].0 < w[1].0));
        let sent: u64 = routable.iter().filter(|fl| fl.from.host != fl.to.host).map(|fl| fl.share.0).sum();
        let at_hosts = |outgoing: bool| -> u64 {
            let host = |l: LinkId| { let l = f.link(l); if outgoing { l.from.node } else { l.to.node } };
            loads.iter().filter(|(l, _)| f.node(host(*l)).kind == NodeKind::Host).map(|l| l.1.0).sum()
        };
        prop_assert_eq!((at_hosts(true), at_hosts(false)), (sent, sent));
    }

    /// Links that are down carry nothing, and what is left are exactly the equally short paths that cross none of them.
    #[test]
    fn without_links_the_other_equally_short_paths_are_left(
        f in random_fabric(), a in 0_usize..6, b in 0_usize..6, down in prop::collection::vec(any::<prop::sample::Index>(), 0..5), seed in 0_u64..3,
    ) {
        let hosts: Vec<_> = f.hosts().collect();
        let (a, b) = (hosts[a % hosts.len()], hosts[b % hosts.len()]);
        prop_assume!(a != b);
        let down: BTreeSet<LinkId> = down.iter().map(|at| LinkId(at.index(f.links().len()) as u32)).collect();
        let paths = Router::new(&f, Ecmp::Spread, &[]).unwrap().paths(at(a), at(b), PATHS_MAX).map(|routes| routes.paths).unwrap_or_default();
        let left: Vec<&Path> = paths.iter().filter(|path| !path.links.iter().any(|link| down.contains(link))).collect();
        let ecmp = if seed == 0 { Ecmp::Spread } else { Ecmp::Hashed { seed } };
        let router = Router::new(&f, ecmp, &[]).unwrap().without(&down);
        let Ok(loads) = router.loads(&[whole(a, b)]) else {
            prop_assert!(left.is_empty());
            return Ok(());
        };
        let used: BTreeSet<LinkId> = loads.iter().map(|(link, _)| *link).collect();
        let expect: BTreeSet<LinkId> = left.iter().flat_map(|path| path.links.iter().copied()).collect();
        if seed == 0 {
            prop_assert_eq!(used, expect);
        } else {
            prop_assert!(left.iter().any(|path| path.links.iter().copied().collect::<BTreeSet<_>>() == used));
        }
    }

    #[test]
    fn listed_paths_agree_with_the_loads(f in random_fabric(), a in 0_usize..6, b in 0_usize..6) {
        let hosts: Vec<_> = f.hosts().collect();
        let (a, b) = (hosts[a % hosts.len()], hosts[b % hosts.len()]);
        let router = Router::toward(&f, Ecmp::Spread, &[], &[b]).unwrap();
        let Ok(routes) = router.paths(at(a), at(b), PATHS_MAX) else { return Ok(()); };
        let loads = router.loads(&[whole(a, b)]).unwrap();
        let mut links: Vec<_> = routes.links.iter().map(|l| (l.link, l.share)).collect();
        links.sort();
        prop_assert_eq!(&links, &loads);
        prop_assert_eq!(routes.paths.len() as u64, routes.path_count.min(PATHS_MAX as u64));
        let mut by_path: BTreeMap<LinkId, u64> = BTreeMap::new();
        for p in &routes.paths {
            prop_assert_eq!(f.link(p.links[0]).from.node, a);
            prop_assert!(p.links.windows(2).all(|w| f.link(w[0]).to.node == f.link(w[1]).from.node));
            p.links.iter().for_each(|&l| *by_path.entry(l).or_insert(0) += p.share.0);
        }
        if routes.path_count <= PATHS_MAX as u64 {
            for (link, share) in &loads {
                prop_assert!(by_path[link].abs_diff(share.0) < 100, "split per path or in sum differ by rounding only");
            }
        }
    }
}
