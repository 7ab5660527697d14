//! Elastic policies: what they choose is best, fits, and leaves alone who is pinned.

mod baselines;
mod hybrid;
mod placing;
mod sighted;
mod world;

use antiphase_policy::elastic::{ElasticJob, ElasticRule, ElasticScheduler, Placing, Shape, SiaOptions, Stand, check, shapes};
use proptest::prelude::*;
use world::{POOLS, cluster, job, known};

/// The cost of a choice by the formula of the paper, from the jobs' goodputs.
fn cost(of: &ElasticJob, row: &[(Shape, f64)], chosen: Option<Shape>) -> f64 {
    let least = row.iter().map(|(_, goodput)| *goodput).fold(f64::INFINITY, f64::min);
    let Some((shape, goodput)) = row.iter().find(|(shape, _)| Some(*shape) == chosen) else { return 1.1 };
    let factor = match of.shape {
        Some(has) if has != *shape && of.age_s >= of.restart_s => {
            (of.age_s - f64::from(of.restarts) * of.restart_s).max(0.0) / (of.age_s + of.restart_s)
        }
        _ => 1.0,
    };
    (goodput / least * factor).powf(-0.5).min(3_000.0)
}

fn row(of: &ElasticJob, shapes: &[Shape]) -> Vec<(Shape, f64)> {
    let within = shapes.iter().filter(|shape| shape.gpus <= of.gpus_max);
    within.filter_map(|shape| Some((*shape, of.model.best(usize::from(shape.pool), shape.layout())?.goodput))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Beside every combination of shapes of three jobs.
    #[test]
    fn sia_chooses_what_costs_least(
        speeds in [0.5_f64..4.0, 0.5_f64..4.0, 0.5_f64..4.0], noises in [0.1_f64..20.0, 0.1_f64..20.0, 0.1_f64..20.0],
        most in [1_u32..9, 1_u32..9, 1_u32..9], had in [0_usize..8, 0_usize..8, 0_usize..8], restarts in 0_u32..6,
    ) {
        let pools = cluster(&[(1, 4), (1, 2)]);
        let shapes = shapes(&pools);
        let jobs: Vec<_> = (0..3).map(|at| {
            let mut job = job(at as u32, known(speeds[at], noises[at]));
            job.gpus_max = most[at];
            job.restarts = restarts;
            job.shape = shapes.get(had[at]).copied().filter(|shape| shape.gpus <= most[at]);
            job
        }).collect();
        let rows: Vec<Vec<(Shape, f64)>> = jobs.iter().map(|of| row(of, &shapes)).collect();
        let ways = |at: usize| rows[at].iter().map(|(shape, _)| Some(*shape)).chain([None]).collect::<Vec<_>>();
        let mut least = f64::INFINITY;
        for a in ways(0) {
            for b in ways(1) {
                for c in ways(2) {
                    let used = |pool: u8| [a, b, c].iter().flatten().filter(|shape| shape.pool == pool).map(|shape| shape.gpus).sum::<u32>();
                    if used(0) <= 4 && used(1) <= 2 {
                        let of = |at: usize, chosen| cost(&jobs[at], &rows[at], chosen);
                        least = least.min(of(0, a) + of(1, b) + of(2, c));
                    }
                }
            }
        }
        let stands = ElasticScheduler::new(ElasticRule::Sia(SiaOptions::PAPER), pools.clone()).decide(&jobs);
        prop_assert_eq!(check(&pools, &jobs, &stands), Ok(()));
        let ours: f64 = (0..3).map(|at| cost(&jobs[at], &rows[at], stands[at].as_ref().map(Stand::shape))).sum();
        prop_assert!((ours - least).abs() < 1e-6, "{ours} and {least}");
    }
}

#[test]
fn who_ran_nowhere_begins_with_the_fastest_gpu() {
    let pools = cluster(&POOLS);
    let mut new = job(7, world::unknown());
    new.gpus_max = 1;
    let stands = ElasticScheduler::new(ElasticRule::Sia(SiaOptions::PAPER), pools).decide(&[new]);
    assert_eq!(stands[0].as_ref().map(Stand::shape), Some(Shape { pool: 1, nodes: 1, gpus: 1 }));
}

#[test]
fn who_is_pinned_keeps_its_gpus_whatever_they_cost() {
    let pools = cluster(&POOLS);
    let shape = Shape { pool: 0, nodes: 2, gpus: 8 };
    // A pinned job that hardly gains from eight GPUs, and as many others as there are GPUs.
    let mut pinned = job(0, known(1.0, 0.001));
    (pinned.pinned, pinned.shape, pinned.gpus_max) = (true, Some(shape), 8);
    pinned.stand = Some(Stand { pool: 0, places: vec![(1, 4), (2, 4)] });
    let others = (1..40).map(|id| job(id, known(1.0, 5.0)));
    let jobs: Vec<_> = core::iter::once(pinned.clone()).chain(others).collect();
    for placing in [Placing::Kept, Placing::InTurn] {
        let options = SiaOptions { placing, ..SiaOptions::PAPER };
        let stands = ElasticScheduler::new(ElasticRule::Sia(options), pools.clone()).decide(&jobs);
        assert_eq!(check(&pools, &jobs, &stands), Ok(()));
        assert_eq!(stands[0].as_ref().map(Stand::shape), Some(shape), "{placing:?}");
        if placing == Placing::Kept {
            assert_eq!(stands[0], pinned.stand, "it is not moved either");
        }
        let given: u32 = stands.iter().flatten().map(|stand| stand.shape().gpus).sum();
        assert_eq!(given, 40, "no GPU is left over while jobs wait");
    }
}

#[test]
fn a_rigid_job_has_all_or_nothing_and_a_guaranteed_one_its_type() {
    let pools = cluster(&POOLS);
    let mut rigid = job(0, world::unknown());
    (rigid.rigid, rigid.asked, rigid.rates) = (true, 12, vec![1.0, 3.0]);
    let mut guaranteed = rigid.clone();
    (guaranteed.id, guaranteed.only) = (1, Some(0));
    let jobs = [rigid, guaranteed];
    let stands = ElasticScheduler::new(ElasticRule::Sia(SiaOptions::PAPER), pools.clone()).decide(&jobs);
    assert_eq!(check(&pools, &jobs, &stands), Ok(()));
    let shape = |at: usize| stands[at].as_ref().map(|stand| (stand.pool, stand.shape().gpus));
    assert_eq!((shape(0), shape(1)), (Some((1, 12)), Some((0, 12))), "the first on the faster type, the other on its own");
}

#[test]
fn what_does_not_fit_is_named() {
    let pools = cluster(&POOLS);
    let jobs = [job(0, known(1.0, 1.0)), job(1, known(1.0, 1.0))];
    let stand = |pool, places: &[(u32, u32)]| Some(Stand { pool, places: places.to_vec() });
    let refused = |stands: [Option<Stand>; 2]| check(&pools, &jobs, &stands).unwrap_err().to_string();
    assert_eq!(refused([stand(0, &[(0, 3)]), stand(0, &[(0, 2)])]), "node 0 of type 0 has 4 GPUs and gives 5");
    assert_eq!(refused([stand(0, &[(9, 1)]), None]), "job 0 stands on node 9 of type 0 with 1 GPUs");
    assert_eq!(refused([stand(5, &[(0, 1)]), None]), "job 0 stands on node 0 of type 5 with 1 GPUs");
    assert_eq!(refused([stand(0, &[]), None]), "job 0 has 0 GPUs of type 0, which it does not take");
    assert_eq!(check(&pools, &jobs, &[None]).unwrap_err().to_string(), "1 decisions for 2 jobs");
}
