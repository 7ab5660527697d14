//! Sia with the network in view, beside a network of which everything is known.

use antiphase_policy::elastic::{
    ElasticJob, ElasticRule, ElasticScheduler, Foresight, NoContention, Pool, Shape, SiaOptions, Sight, Stand, check, shapes,
};
use proptest::prelude::*;

use crate::world::{cluster, job, known};

/// Nodes of a leaf. A job that spans two leaves, together with another one that does so over one of these, takes so many times as long.
const LEAF: u32 = 2;
const LONGER: f64 = 2.0;

struct Leaves;

fn leaves(stand: &Stand) -> Vec<u32> {
    let mut leaves: Vec<u32> = stand.places.iter().map(|(node, _)| node / LEAF).collect();
    leaves.sort_unstable();
    leaves.dedup();
    leaves
}

fn longer(stands: &[Option<Stand>]) -> Vec<f64> {
    let over: Vec<Vec<u32>> = stands.iter().map(|stand| stand.as_ref().map(leaves).filter(|of| of.len() > 1).unwrap_or_default()).collect();
    let meets = |at: usize| over.iter().enumerate().any(|(other, of)| other != at && of.iter().any(|leaf| over[at].contains(leaf)));
    (0..stands.len()).map(|at| if meets(at) { LONGER } else { 1.0 }).collect()
}

impl Foresight for Leaves {
    fn longer(&mut self, _: &[ElasticJob], stands: &[Option<Stand>]) -> Vec<f64> {
        longer(stands)
    }
}

/// What a decision costs by its own measure.
fn cost(pools: &[Pool], jobs: &[ElasticJob], stands: &[Option<Stand>]) -> f64 {
    let options = SiaOptions::PAPER;
    let all = shapes(pools);
    let longer = longer(stands);
    let of = |at: usize| {
        let Some(stand) = &stands[at] else { return options.lambda_n };
        let goodput = |shape: &Shape| jobs[at].model.best(usize::from(shape.pool), shape.layout()).map(|best| best.goodput);
        let least = all.iter().filter(|shape| shape.gpus <= jobs[at].gpus_max).filter_map(goodput).fold(f64::INFINITY, f64::min);
        (goodput(&stand.shape()).expect("a shape that the job may have") / least / longer[at]).powf(options.p)
    };
    (0..jobs.len()).map(of).sum()
}

fn decide(pools: &[Pool], jobs: &[ElasticJob], sight: Sight) -> Vec<Option<Stand>> {
    let mut scheduler = ElasticScheduler::new(ElasticRule::Sia(SiaOptions::PAPER), pools.to_vec());
    scheduler.decide_with(jobs, sight, &mut Leaves)
}

#[test]
fn two_jobs_of_two_nodes_each_have_a_leaf_of_their_own() {
    let pools = cluster(&[(6, 4)]);
    // Another job holds a node of the last leaf and one of the first, so the placer alone, from the last node on, takes 4 and 3, and then 2 and 1.
    let pinned = ElasticJob {
        pinned: true,
        shape: Some(Shape { pool: 0, nodes: 1, gpus: 4 }),
        stand: Some(Stand { pool: 0, places: vec![(5, 4)] }),
        ..job(0, known(1.0, 5.0))
    };
    let two = |id| ElasticJob { gpus_max: 8, ..job(id, known(1.0, 50.0)) };
    let jobs = [pinned, two(1), two(2)];
    let blind = decide(&pools, &jobs, Sight::Blind);
    assert!(longer(&blind).contains(&LONGER), "{blind:?}");
    let after = decide(&pools, &jobs, Sight::After);
    assert_eq!(longer(&after), [1.0; 3], "{after:?}");
    let counts = |stands: &[Option<Stand>]| stands.iter().map(|stand| stand.as_ref().map(Stand::shape)).collect::<Vec<_>>();
    assert_eq!(counts(&blind), counts(&after), "places alone are others");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// New jobs, so nothing restarts and the measure is simple.
    #[test]
    fn who_sees_more_never_does_worse_by_its_own_measure(
        nodes in 3_u32..9, wants in prop::collection::vec((1_u32..6, 1.0_f64..200.0), 2..6),
    ) {
        let pools = cluster(&[(nodes, 4)]);
        let jobs: Vec<ElasticJob> = wants.iter().zip(0..).map(|((most, noise), id)| ElasticJob { gpus_max: 4 * most, ..job(id, known(1.0, *noise)) }).collect();
        let costs: Vec<f64> = [Sight::Blind, Sight::After, Sight::Inside].iter().map(|sight| {
            let stands = decide(&pools, &jobs, *sight);
            check(&pools, &jobs, &stands).unwrap();
            cost(&pools, &jobs, &stands)
        }).collect();
        prop_assert!(costs[1] <= costs[0] + 1e-6 && costs[2] <= costs[1] + 1e-6, "{costs:?}");
    }

    #[test]
    fn where_nobody_is_in_the_way_sight_changes_nothing(wants in prop::collection::vec((1_u32..6, 1.0_f64..200.0), 1..6)) {
        let pools = cluster(&[(6, 4)]);
        let jobs: Vec<ElasticJob> = wants.iter().zip(0..).map(|((most, noise), id)| ElasticJob { gpus_max: 4 * most, ..job(id, known(1.0, *noise)) }).collect();
        let of = |sight| ElasticScheduler::new(ElasticRule::Sia(SiaOptions::PAPER), pools.clone()).decide_with(&jobs, sight, &mut NoContention);
        prop_assert_eq!(of(Sight::Blind), of(Sight::After));
    }
}
