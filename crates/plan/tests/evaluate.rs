//! Evaluation and ranking on small fabrics, against answers derived by hand and against the circle's own evaluation of
//! the whole, unpruned problem.

use std::sync::Arc;

use antiphase_plan::{Cluster, Options, Outcome, PlanError, Reason, evaluate, problem, rank, unknown_base_links};
use circle::Mode;
use fabric::{
    Fabric, FabricBuilder, FabricError, NodeKind, Port, Provenance,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use job::{Candidate, Collective, Endpoint, Job, Placement, TrafficPhase};
use units::{JobId, Nanos, Rate};

const MS: u64 = 1_000_000;

/// Leaves with hosts `h1..` along them, one spine per uplink, all of 50 Gb/s.
fn clos(leaves: u32, hosts_per_leaf: u32, spines: u32) -> Fabric {
    let rate = Rate(50_000);
    clos2(&Clos2 { leaves, spines, hosts_per_leaf, host_rate: rate, uplink_rate: rate, uplinks: 1 }).expect("a small Clos")
}

/// A job whose ranks run one ring in each phase (start, end, Mbit/s), in ms.
fn job(name: &str, ranks: u32, period_ms: u64, phases: &[(u64, u64, u64)]) -> Job {
    let groups: Arc<[Vec<u32>]> = Arc::from([(0..ranks).collect::<Vec<u32>>()]);
    let phase = |&(start, end, rate): &(u64, u64, u64)| TrafficPhase {
        start: Nanos(start * MS),
        end: Nanos(end * MS),
        rate: Rate(rate),
        collective: Collective::Ring,
        groups: groups.clone(),
    };
    Job { name: name.into(), gpus: ranks, period: Nanos(period_ms * MS), hold: job::Hold::Auto, phases: phases.iter().map(phase).collect() }
}

fn on(fabric: &Fabric, hosts: &[&str]) -> Placement {
    Placement { ranks: hosts.iter().map(|h| Endpoint { host: fabric.find(h).expect("a host of the fabric"), rail: 0 }).collect() }
}

#[test]
fn two_vgg16_on_one_uplink_are_shifted_apart() {
    // One spine: h1, h2 on leaf1 and h3, h4 on leaf2. Each job spans the leaves and so uses all four leaf-spine links.
    // 114 of 255 ms Up at 45 of 50 Gb/s: together 40 too much for 114 ms: score 1 - 40/50 * 114/255 = 0.6424 unshifted.
    let fabric = clos(2, 2, 1);
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let jobs = [job("vgg-1", 2, 255, &[(141, 255, 45_000)]), job("vgg-2", 2, 255, &[(141, 255, 45_000)])];
    let placements = [on(&fabric, &["h1", "h3"]), on(&fabric, &["h2", "h4"])];
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
    let found = evaluate(&cluster, &Candidate::default(), &Options::default()).unwrap();
    let scores = found.scores.unwrap();
    assert_eq!((found.shared_links, found.never_overloaded_links), (4, 0));
    assert!((scores.score - 1.0).abs() < 1e-12 && scores.proven);
    assert!((scores.zero_shift_score - (1.0 - 0.8 * 114.0 / 255.0)).abs() < 1e-12, "{scores:?}");
    // Rings of two use both directions with equal demand: one class of four links.
    let links: Vec<_> = found.links().collect();
    assert_eq!((links.len(), links[0].links.len(), links[0].jobs.clone()), (1, 4, vec![JobId(0), JobId(1)]));
    // Unshifted each Up runs at 25 of 45: 141 + 114 * 45/25 = 346.2 ms; shifted as if alone.
    let times: Vec<_> = found.jobs(&cluster).iter().map(|j| j.times.unwrap()).collect();
    for t in &times {
        assert_eq!((t.solo, t.all_held.unwrap().time), (Nanos(255 * MS), Nanos(255 * MS)));
        assert!(t.contended.0.abs_diff(346_200_000) <= 1, "{t:?}");
    }
    let means = found.times.unwrap();
    assert!((means.interleaved - 1.0).abs() < 1e-12 && (means.contended - 346.2 / 255.0).abs() < 1e-8);
    let said = found.explain(&cluster);
    let Reason::Separated { before, moved, slack } = &said[0].reason else { panic!("{said:?}") };
    // 27 ms of room in all, half of it either way.
    assert_eq!((before.over, moved.len(), *slack), (Nanos(114 * MS), 1, Nanos(13_500_000)));
    assert!(
        said[0].to_string().starts_with("link leaf1->spine1 and 3 more like it: vgg-1 and vgg-2 overlap 114 ms of 255 ms; shifting "),
        "{}",
        said[0]
    );
}

#[test]
fn links_that_always_fit_count_in_the_mean() {
    // Two spines spread each flow in halves: 22.5 of 50 per job and link fits, whatever the shifts. A third job of 45
    // that ends on the same NIC as vgg-1 makes that NIC's two links contended.
    let fabric = clos(2, 2, 2);
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let jobs = [job("a", 2, 100, &[(0, 60, 45_000)]), job("b", 2, 100, &[(0, 60, 45_000)]), job("c", 2, 100, &[(0, 60, 45_000)])];
    let placements = [on(&fabric, &["h1", "h3"]), on(&fabric, &["h2", "h4"]), on(&fabric, &["h1", "h2"])];
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
    let found = evaluate(&cluster, &Candidate::default(), &Options::default()).unwrap();
    // Shared: 8 leaf-spine links (a, b), h1 and h2 up and down (a or b with c).
    assert_eq!((found.shared_links, found.never_overloaded_links), (12, 8));
    // On each of the four NIC links two times 60 of 100 overlap by 20 at best: 40 too much of 50.
    let expected = 1.0 - 4.0 / 12.0 * (0.2 * 0.8);
    assert!((found.scores.unwrap().score - expected).abs() < 1e-12);
    let said = found.explain(&cluster);
    assert!(said.iter().all(|e| e.to_string().ends_with("their mean demand is 108 % of the link")), "{}", said[0]);
    // With only a and b nothing can be over capacity.
    let alone = Candidate { id: "alone".into(), placements: vec![(JobId(2), Placement::default())] };
    let found = evaluate(&cluster, &alone, &Options::default()).unwrap();
    assert_eq!((found.shared_links, found.never_overloaded_links, found.scores.unwrap().score), (8, 8, 1.0));
    assert_eq!(found.explain(&cluster)[0].to_string(), "the jobs that share a link fit on it together (8 links); no shifts needed");
}

#[test]
fn a_job_that_exceeds_an_uplink_by_itself_is_named_and_slow() {
    // All-to-all over four hosts: each host of a leaf sends 2/3 of its rate across: 2 * 2/3 * 45 = 60 of 50.
    let fabric = clos(2, 2, 1);
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let mut moe = job("moe", 4, 100, &[(0, 50, 45_000)]);
    moe.phases[0].collective = Collective::AllToAll;
    let jobs = [moe];
    let placements = [on(&fabric, &["h1", "h2", "h3", "h4"])];
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
    let found = evaluate(&cluster, &Candidate::default(), &Options::default()).unwrap();
    assert_eq!((found.shared_links, found.scores.unwrap().score), (0, 1.0));
    // 50 ms at 5/6 speed take 60: 110 in all.
    assert!((found.times.unwrap().solo - 1.1).abs() < 1e-7, "{:?}", found.times);
    let said = found.explain(&cluster);
    assert_eq!(said[0].to_string(), "link leaf1->spine1 and 3 more like it: moe alone demands 60 Gb/s of 50 Gb/s; no shift can help");
    // Excess of 10 of 50 half of the time.
    assert!((found.links().next().unwrap().score - 0.9).abs() < 1e-12);
}

#[test]
fn a_link_without_capacity_is_refused_by_name() {
    let mut b = FabricBuilder::new("f");
    let leaf = b.node("leaf", NodeKind::Switch { tier: 1 }).unwrap();
    for (name, capacity) in [("h1", Some(Rate(50_000))), ("h2", None)] {
        let host = b.node(name, NodeKind::Host).unwrap();
        let (from, to) = (Port { node: host, name: "eth0".into() }, Port { node: leaf, name: name.into() });
        b.cable(from, to, capacity, Provenance::Asserted).unwrap();
    }
    let fabric = b.build();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let jobs = [job("a", 2, 100, &[(0, 60, 45_000)])];
    let placements = [on(&fabric, &["h1", "h2"])];
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
    let refused = evaluate(&cluster, &Candidate::default(), &Options::default()).unwrap_err();
    assert!(matches!(&refused, PlanError::Fabric(FabricError::UnknownCapacity { link }) if link == "h2->leaf"), "{refused}");
    // A candidate that takes the job off it makes it matter to nobody; one that leaves it there or puts it there is refused.
    let away = Candidate { id: "away".into(), placements: vec![(JobId(0), Placement::default())] };
    assert!(evaluate(&cluster, &away, &Options::default()).is_ok());
    let names = |links: Vec<units::LinkId>| links.iter().map(|l| fabric.link_name(*l)).collect::<Vec<_>>();
    assert_eq!(names(unknown_base_links(&cluster).unwrap()), ["h2->leaf", "leaf->h2"]);
    assert!(rank(&cluster, &[away.clone(), Candidate::default()], &Options::default()).is_err(), "the base loads it");
    assert!(problem(&cluster, &Candidate::default()).is_err());
    let elsewhere = Cluster { placements: &[Placement::default()], ..cluster };
    let there = Candidate { id: "there".into(), placements: vec![(JobId(0), placements[0].clone())] };
    let refused = evaluate(&elsewhere, &there, &Options::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "candidate \"there\": link h2->leaf has no known capacity; state it in the fabric file or import with --assume-capacity"
    );
    assert!(unknown_base_links(&elsewhere).unwrap().is_empty());
    // Nothing is asked of a link that carries nothing.
    let idle = Cluster { placements: &[Placement::default()], ..cluster };
    assert!(evaluate(&idle, &Candidate::default(), &Options::default()).is_ok());
}

#[test]
fn malformed_candidates_are_refused() {
    let fabric = clos(2, 2, 1);
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let jobs = [job("a", 3, 100, &[(0, 60, 45_000)])];
    let placements = [on(&fabric, &["h1", "h2", "h3"])];
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
    let refused = |cluster: Cluster<'_>, placements| {
        evaluate(&cluster, &Candidate { id: "c".into(), placements }, &Options::default()).unwrap_err().to_string()
    };
    let two = on(&fabric, &["h1", "h2"]);
    assert_eq!(refused(cluster, vec![(JobId(1), two.clone())]), "candidate \"c\" places job 1, but there are 1 jobs");
    assert_eq!(refused(cluster, vec![(JobId(0), two.clone()), (JobId(0), two.clone())]), "candidate \"c\" places job \"a\" twice");
    assert_eq!(refused(cluster, vec![(JobId(0), two)]), "job \"a\": a group names rank 2, but the placement has 2 ranks");
    assert_eq!(refused(Cluster { placements: &[], ..cluster }, vec![]), "0 base placements for 1 jobs");
    let twins = [jobs[0].clone(), jobs[0].clone()];
    let both = [placements[0].clone(), placements[0].clone()];
    assert_eq!(refused(Cluster { jobs: &twins, placements: &both, ..cluster }, vec![]), "two jobs are named \"a\"");
    let backwards = [job("a", 3, 100, &[(60, 50, 1)])];
    assert_eq!(
        refused(Cluster { jobs: &backwards, ..cluster }, vec![]),
        "job \"a\": a phase does not satisfy start < end <= period; phase 0"
    );
}

#[test]
fn cassini_mode_discards_loops_and_ranks_them_last() {
    let fabric = clos(2, 2, 2);
    let router = Router::new(&fabric, Ecmp::Hashed { seed: 1 }, &[]).unwrap();
    let jobs = [job("a", 2, 100, &[(0, 40, 45_000)]), job("b", 2, 100, &[(0, 40, 45_000)])];
    // Base: each job inside its own host pair of one leaf. "loop": both over the same two NICs, there and back.
    let placements = [on(&fabric, &["h1", "h2"]), on(&fabric, &["h3", "h4"])];
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
    let candidates = [
        Candidate { id: "loop".into(), placements: vec![(JobId(1), on(&fabric, &["h1", "h2"]))] },
        Candidate { id: "base".into(), placements: vec![] },
    ];
    let options = Options { mode: Mode::Cassini, ..Options::default() };
    let ranked = rank(&cluster, &candidates, &options).unwrap();
    assert_eq!(ranked.iter().map(|e| e.id.as_str()).collect::<Vec<_>>(), ["base", "loop"]);
    assert!(matches!(ranked[1].outcome, Outcome::Loop { jobs: [JobId(0), JobId(1)], .. }));
    assert!(ranked[1].scores.is_none());
    // Both directions of the NIC of h1, of that of h2 and of what lies between carry both jobs: every link but one closes a loop.
    let (shared, affinity) = (ranked[1].shared_links, ranked[1].affinity);
    assert_eq!((affinity.components, affinity.loops, affinity.merged_links), (1, shared - 1, 0));
    assert!(shared >= 2, "{shared}");
    assert!(
        ranked[1].explain(&cluster)[0].to_string().contains("discarded: the affinity graph has a loop here (a and b meet elsewhere too)")
    );
    // Exact mode takes the loop: 40 and 40 of 100 fit beside each other, so both score 1; base shares fewer links.
    let ranked = rank(&cluster, &candidates, &Options::default()).unwrap();
    assert_eq!(ranked.iter().map(|e| (e.id.as_str(), e.scores.unwrap().score)).collect::<Vec<_>>(), [("base", 1.0), ("loop", 1.0)]);
    assert!(ranked[0].shared_links < ranked[1].shared_links);
    // Twins tie in everything: the order given decides.
    let twins = ["second", "first"].map(|id| Candidate { id: id.into(), placements: vec![] });
    let ranked = rank(&cluster, &twins, &Options::default()).unwrap();
    assert_eq!(ranked.iter().map(|e| e.id.as_str()).collect::<Vec<_>>(), ["second", "first"]);
}
