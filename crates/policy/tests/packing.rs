//! Packed placements, and what the planner makes of them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antiphase_policy::{pack, variants};
use circle::{Cancel, Ticks};
use fabric::{
    Fabric,
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use job::{Candidate, Collective, Job, Placement, TrafficPhase};
use plan::{Cluster, Evaluation, Objective, Options, PlanError, evaluate, problem, rank, rank_until};
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
    Job { name: name.into(), gpus: ranks, period: Nanos(period_ms * MS), hold: job::Hold::Auto, phases: phases.iter().map(phase).collect() }
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
    format!(
        "{} {:?} {:?} {:?} {} {}\n{jobs:?}\n{links:?}\n{said:?}",
        e.id, e.outcome, e.scores, e.times, e.shared_links, e.never_overloaded_links
    )
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

/// Whoever asked for a ranking and went away gets none, and it ends soon.
#[test]
fn a_ranking_that_nobody_waits_for_ends() {
    let fabric = clos(32, 16, 1);
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let spec = |j: u64| job(&format!("job-{j}"), 5, 100 + 10 * (j % 7), &[(10, 40 + j % 9, 45_000), (60, 80, 30_000)]);
    let jobs: Vec<Job> = (0..100).map(spec).collect();
    let placements = pack(&fabric, &[5; 100], 3, 350).unwrap();
    let candidates = variants(&fabric, &placements, 6, 300, 3).unwrap();
    let cluster = Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
    let began = Instant::now();
    rank(&cluster, &candidates, &Options::default()).unwrap();
    let whole = began.elapsed();
    let cancel = Cancel::default();
    let took = std::thread::scope(|scope| {
        let ranking = scope.spawn(|| {
            let began = Instant::now();
            let refused = rank_until(&cluster, &candidates, &Options::default(), &cancel).unwrap_err();
            (refused, began.elapsed())
        });
        std::thread::sleep(whole / 20);
        cancel.cancel();
        ranking.join().unwrap()
    });
    assert_eq!(took.0, PlanError::Cancelled);
    assert!(took.1 < whole / 2 + Duration::from_millis(50), "{:?} of {whole:?}", took.1);
    println!("{:?} of {whole:?}", took.1);
}
