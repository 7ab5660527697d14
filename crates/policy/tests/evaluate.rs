//! Evaluation and ranking on small fabrics, against answers derived by hand and against the circle's own evaluation of
//! the whole, unpruned problem.

use std::sync::Arc;

use antiphase_policy::{
    Candidate, Cluster, Collective, Endpoint, Evaluation, Job, Objective, Options, Outcome, Placement, PolicyError, Reason, TrafficPhase,
    evaluate, pack, problem, rank, unknown_base_links, variants,
};
use circle::{Mode, Ticks};
use fabric::{
    Fabric, FabricBuilder, FabricError, NodeKind, Port, Provenance,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use proptest::prelude::*;
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
    Job { name: name.into(), gpus: ranks, period: Nanos(period_ms * MS), phases: phases.iter().map(phase).collect() }
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
    assert_eq!((found.shared_links, found.quiet_links), (4, 0));
    assert!((scores.score - 1.0).abs() < 1e-12 && scores.proven);
    assert!((scores.zero_shift_score - (1.0 - 0.8 * 114.0 / 255.0)).abs() < 1e-12, "{scores:?}");
    // Rings of two use both directions with equal demand: one class of four links.
    let links: Vec<_> = found.links().collect();
    assert_eq!((links.len(), links[0].links.len(), links[0].jobs.clone()), (1, 4, vec![JobId(0), JobId(1)]));
    // Unshifted each Up runs at 25 of 45: 141 + 114 * 45/25 = 346.2 ms; shifted as if alone.
    let times: Vec<_> = found.jobs(&cluster).iter().map(|j| j.times.unwrap()).collect();
    for t in &times {
        assert_eq!((t.solo, t.shifted), (Nanos(255 * MS), Nanos(255 * MS)));
        assert!(t.unshifted.0.abs_diff(346_200_000) <= 1, "{t:?}");
    }
    let means = found.times.unwrap();
    assert!((means.advised - 1.0).abs() < 1e-12 && (means.unshifted - 346.2 / 255.0).abs() < 1e-8);
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
    assert_eq!((found.shared_links, found.quiet_links), (12, 8));
    // On each of the four NIC links two times 60 of 100 overlap by 20 at best: 40 too much of 50.
    let expected = 1.0 - 4.0 / 12.0 * (0.2 * 0.8);
    assert!((found.scores.unwrap().score - expected).abs() < 1e-12);
    let said = found.explain(&cluster);
    assert!(said.iter().all(|e| e.to_string().ends_with("their mean demand is 108 % of the link")), "{}", said[0]);
    // With only a and b nothing can be over capacity.
    let alone = Candidate { id: "alone".into(), placements: vec![(JobId(2), Placement::default())] };
    let found = evaluate(&cluster, &alone, &Options::default()).unwrap();
    assert_eq!((found.shared_links, found.quiet_links, found.scores.unwrap().score), (8, 8, 1.0));
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
    assert!(matches!(&refused, PolicyError::Fabric(FabricError::UnknownCapacity { link }) if link == "h2->leaf"), "{refused}");
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

#[test]
fn packing_is_deterministic_disjoint_and_fragmented() {
    let fabric = clos(8, 8, 2);
    let sizes = [5u32, 3, 9, 2, 7, 4, 6, 3, 5, 8];
    let placements = pack(&fabric, &sizes, 7, 400).unwrap();
    assert_eq!(placements, pack(&fabric, &sizes, 7, 400).unwrap());
    assert!(placements.iter().zip(sizes).all(|(p, s)| p.ranks.len() == s as usize));
    let disjoint = |placements: &[Placement]| {
        let mut all: Vec<_> = placements.iter().flat_map(|p| p.ranks.clone()).collect();
        all.sort_unstable();
        all.windows(2).all(|w| w[0] != w[1])
    };
    assert!(disjoint(&placements));
    let found = variants(&fabric, &placements, 5, 300, 7).unwrap();
    assert_eq!(found, variants(&fabric, &placements, 5, 300, 7).unwrap());
    for candidate in &found {
        assert_eq!(candidate.placements.len(), 3);
        let mut after = placements.clone();
        candidate.placements.iter().for_each(|(job, p)| after[job.index()] = p.clone());
        assert!(disjoint(&after) && after.iter().zip(sizes).all(|(p, s)| p.ranks.len() == s as usize));
    }
    assert_eq!(pack(&fabric, &[60, 60], 1, 0).unwrap_err().to_string().split(" needs").nth(1), Some(" 60 NICs, but 4 are free"));
    // Jobs that fill the fabric exactly find room, however many were there before them.
    for seed in 0..20 {
        let full = pack(&fabric, &[10, 10, 10, 10, 10, 10, 4], seed, 1_000).unwrap();
        assert!(disjoint(&full) && full.iter().map(|p| p.ranks.len()).sum::<usize>() == 64);
    }
    assert_eq!(pack(&fabric, &[1], 1, 1_001).unwrap_err().to_string(), "departures of 1001 permille; must be at most 1000");
}

/// Everything a person sees of an evaluation, with jobs by name.
fn report(cluster: &Cluster<'_>, e: &Evaluation) -> String {
    let mut jobs: Vec<String> = e
        .jobs(cluster)
        .iter()
        .map(|j| format!("{} {:?}", cluster.jobs[j.job.index()].name, (j.shift, j.slack, j.lock, j.hold, j.times)))
        .collect();
    jobs.sort();
    let links: Vec<String> = e.links().map(|l| format!("{:?} {} {}", l.links, l.score, l.zero_shift_score)).collect();
    let said: Vec<String> = e.explain(cluster).iter().map(ToString::to_string).collect();
    format!("{} {:?} {:?} {:?} {} {}\n{jobs:?}\n{links:?}\n{said:?}", e.id, e.outcome, e.scores, e.times, e.shared_links, e.quiet_links)
}

/// Sizes, periods, phases and rates of a few jobs on a small fabric.
fn small_jobs() -> impl Strategy<Value = Vec<(u32, u64, u64, u64, u64)>> {
    let one = (1u32..7, prop::sample::select(vec![60u64, 80, 90, 120, 101]), 0u64..30, 5u64..30, 10_000u64..60_000);
    proptest::collection::vec(one, 2..7)
}

/// Two phases that overlap: demand of two levels.
fn build(spec: &[(u32, u64, u64, u64, u64)]) -> Vec<Job> {
    let one = |(i, &(ranks, period, start, length, rate)): (usize, &(u32, u64, u64, u64, u64))| {
        let phases = [(start, start + length, rate), (start + 2, start + length, rate / 3)];
        job(&format!("job-{i}"), ranks, period, &phases)
    };
    spec.iter().enumerate().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn scores_are_those_of_the_reported_shifts_on_the_whole_problem(spec in small_jobs(), seed in 0u64..1_000, spread: bool) {
        let fabric = clos(5, 8, 1);
        let ecmp = if spread { Ecmp::Spread } else { Ecmp::Hashed { seed } };
        let router = Router::new(&fabric, ecmp, &[]).unwrap();
        let jobs = build(&spec);
        let sizes: Vec<u32> = spec.iter().map(|s| s.0).collect();
        let placements = pack(&fabric, &sizes, seed, 500).unwrap();
        let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
        let mut candidates = variants(&fabric, &placements, 2, 500, seed).unwrap();
        // Two jobs on the same NICs, so that NIC links and loops are contended too.
        if sizes[0] <= sizes[1] {
            let twin = Placement { ranks: placements[1].ranks[..sizes[0] as usize].to_vec() };
            candidates.push(Candidate { id: "twins".into(), placements: vec![(JobId(0), twin)] });
        }
        for candidate in &candidates {
            let found = evaluate(&cluster, candidate, &Options::default()).unwrap();
            let (whole, links) = problem(&cluster, candidate).unwrap();
            let shifts: Vec<Ticks> = found.jobs(&cluster).iter().map(|j| Ticks(j.shift.0)).collect();
            let expected = circle::evaluate(&whole, &shifts).unwrap();
            let scores = found.scores.unwrap();
            prop_assert_eq!(found.shared_links, links.len());
            prop_assert!((scores.score - expected.mean_score).abs() < 1e-9, "{} {}", scores.score, expected.mean_score);
            prop_assert!((scores.zero_shift_score - expected.zero_shift_mean_score).abs() < 1e-9);
            for report in found.links().filter(|r| r.jobs.len() > 1) {
                for link in report.links {
                    let at = links.binary_search(link).unwrap();
                    prop_assert!((expected.links[at].true_score - report.true_score).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn the_order_of_jobs_and_candidates_and_the_threads_change_nothing(spec in small_jobs(), seed in 0u64..1_000) {
        let fabric = clos(5, 8, 1);
        let router = Router::new(&fabric, Ecmp::Hashed { seed }, &[]).unwrap();
        let jobs = build(&spec);
        let sizes: Vec<u32> = spec.iter().map(|s| s.0).collect();
        let placements = pack(&fabric, &sizes, seed, 500).unwrap();
        let candidates = variants(&fabric, &placements, 4, 500, seed).unwrap();
        let options = Options { objective: Objective::Time, ..Options::default() };
        let run = |jobs: &[Job], placements: &[Placement], candidates: &[Candidate], threads: usize| {
            let cluster = Cluster { fabric: &fabric, router: &router, jobs, placements };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let ranked = pool.install(|| rank(&cluster, candidates, &options)).unwrap();
            ranked.iter().map(|e| report(&cluster, e)).collect::<Vec<_>>()
        };
        let first = run(&jobs, &placements, &candidates, 1);
        prop_assert_eq!(&first, &run(&jobs, &placements, &candidates, 3));
        let (back_jobs, back_placements): (Vec<_>, Vec<_>) = jobs.iter().cloned().zip(placements.iter().cloned()).rev().unzip();
        let last = jobs.len() as u32 - 1;
        let mut back_candidates: Vec<Candidate> = candidates.clone();
        back_candidates.iter_mut().for_each(|c| c.placements.iter_mut().for_each(|(j, _)| j.0 = last - j.0));
        prop_assert_eq!(&first, &run(&back_jobs, &back_placements, &back_candidates, 1));
        // In another order equally good candidates may change places, but each says the same.
        back_candidates.reverse();
        let (mut a, mut b) = (first, run(&back_jobs, &back_placements, &back_candidates, 2));
        a.sort();
        b.sort();
        prop_assert_eq!(a, b);
    }
}
