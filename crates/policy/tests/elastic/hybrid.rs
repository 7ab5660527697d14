//! Sia's hybrid jobs, whose replicas are pipelines.

use antiphase_policy::{
    elastic::{ElasticJob, ElasticRule, ElasticScheduler, Placing, Shape, SiaOptions, Stand, check, shapes},
    goodput::{Batch, Pipeline, Throughput},
};

use crate::world::{POOLS, cluster, job, known, unknown};

/// Stages on each of the types: as those of the GPT of Sia's authors on 2080 Ti and A100.
const STAGES: [u32; 2] = [8, 2];

/// A job of pipelines, which were measured on the second type or nowhere.
fn hybrid(id: u32, is_known: bool, replicas_max: u32) -> ElasticJob {
    let mut model = unknown();
    for (pool, stages) in model.pools.iter_mut().zip(STAGES) {
        pool.pipeline = Some(Pipeline { stages, batch: Batch { samples: 1, passes: 64 } });
    }
    if is_known {
        let throughput = Throughput { alpha_c: 0.02, beta_c: 0.004, alpha_n: 0.4, beta_n: 0.01, alpha_r: 0.2, beta_r: 0.01, gamma: 1.0 };
        (model.pools[1].throughput, model.noise) = (Some(throughput), Some(20.0));
    }
    ElasticJob { gpus_max: replicas_max, ..job(id, model) }
}

fn decide(jobs: &[ElasticJob], options: SiaOptions) -> Vec<Option<Stand>> {
    let pools = cluster(&POOLS);
    let stands = ElasticScheduler::new(ElasticRule::Sia(options), pools.clone()).decide(jobs);
    assert_eq!(check(&pools, jobs, &stands), Ok(()));
    stands
}

fn shape(stand: Option<&Stand>) -> Option<(u8, u32)> {
    stand.map(|stand| (stand.pool, stand.shape().gpus))
}

#[test]
fn a_hybrid_job_begins_with_one_pipeline_and_doubles() {
    for options in [SiaOptions::PAPER, SiaOptions { placing: Placing::InTurn, ..SiaOptions::PAPER }] {
        // The second type is three times as fast, and there a pipeline has two stages.
        assert_eq!(shape(decide(&[hybrid(0, false, 1)], options)[0].as_ref()), Some((1, 2)));
        for replicas in [1, 2, 4] {
            let stands = decide(&[hybrid(0, true, replicas)], options);
            assert_eq!(shape(stands[0].as_ref()), Some((1, 2 * replicas)), "alone it has all that it may have");
        }
    }
}

#[test]
fn gpus_of_hybrid_jobs_are_whole_pipelines() {
    let mut on_both = [false; 2];
    for others in 0..12 {
        let alike = (0..others).map(|id| job(10 + id, known(1.0 + f64::from(id % 3), 20.0)));
        let jobs: Vec<ElasticJob> = (0..6).map(|id| hybrid(id, id > 0, 1 << (id % 3))).chain(alike).collect();
        let stands = decide(&jobs, SiaOptions::PAPER);
        for (job, stand) in jobs.iter().zip(&stands).take(6) {
            let Some((pool, gpus)) = shape(stand.as_ref()) else { continue };
            let stages = STAGES[usize::from(pool)];
            assert!(gpus.is_multiple_of(stages) && gpus / stages <= job.gpus_max, "{gpus} GPUs of type {pool}");
            on_both[usize::from(pool)] = true;
        }
        // A pipeline costs less than waiting on either type, and for one of eight there is room on two nodes of four.
        let waits = stands.iter().take(6).filter(|stand| stand.is_none()).count();
        assert!(others > 0 || waits == 0, "{stands:?}");
    }
    assert_eq!(on_both, [true; 2]);
}

/// By the paper a row is divided by its least and multiplied by the GPUs of that: a pipeline of eight stages that is least counts 8, and costs
/// 8 to the power -0.5 where a job of single GPUs costs 1 at its least. With eight GPUs for both, waiting costs 1.1.
#[test]
fn the_least_of_a_hybrid_job_counts_as_many_gpus_as_it_has() {
    let pools = cluster(&[(2, 4)]);
    let mut pipelines = hybrid(0, true, 1);
    pipelines.model.pools.truncate(1);
    pipelines.model.pools[0].throughput =
        Some(Throughput { alpha_c: 0.02, beta_c: 0.0, alpha_n: 0.1, beta_n: 0.01, alpha_r: 0.1, beta_r: 0.01, gamma: 1.0 });
    let singles = |count: u32| (1..=count).map(|id| ElasticJob { gpus_max: 1, ..job(id, known(1.0, 20.0)) });
    let first_runs = |count: u32| {
        let jobs: Vec<ElasticJob> = std::iter::once(pipelines.clone()).chain(singles(count)).collect();
        ElasticScheduler::new(ElasticRule::Sia(SiaOptions::PAPER), pools.clone()).decide(&jobs)[0].is_some()
    };
    // With n others: 8^-0.5 + 1.1 n where it runs, 1.1 + n where they do; these are equal at n = 7.46.
    assert!(first_runs(7) && !first_runs(8));
}

#[test]
fn parts_of_a_pipeline_are_no_decision() {
    let pools = cluster(&POOLS);
    let jobs = [hybrid(0, true, 4)];
    let refused = |pool, places: &[(u32, u32)]| check(&pools, &jobs, &[Some(Stand { pool, places: places.to_vec() })]);
    assert_eq!(refused(0, &[(0, 4)]).unwrap_err().to_string(), "job 0 has 4 GPUs of type 0, which it does not take");
    assert_eq!(refused(0, &[(0, 4), (1, 4)]), Ok(()));
    let fit: Vec<Shape> = shapes(&pools).into_iter().filter(|shape| jobs[0].replicas(*shape).is_some()).collect();
    assert_eq!(
        fit.iter().map(|shape| (shape.pool, shape.gpus)).collect::<Vec<_>>(),
        [(0, 8), (0, 16), (0, 24), (1, 2), (1, 4), (1, 8), (1, 16)]
    );
}
