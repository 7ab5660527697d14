//! Gavel and Pollux.

use antiphase_policy::elastic::{ElasticJob, ElasticRule, ElasticScheduler, PolluxOptions, Search, Stand, check};

use crate::world::{POOLS, cluster, job, known, unknown};

fn gavel(jobs: &[ElasticJob], rounds: usize) -> Vec<Vec<Option<Stand>>> {
    let pools = cluster(&[(1, 4), (1, 4)]);
    let mut scheduler = ElasticScheduler::new(ElasticRule::Gavel, pools.clone());
    let mut jobs = jobs.to_vec();
    let mut all = Vec::new();
    for _ in 0..rounds {
        let stands = scheduler.decide(&jobs);
        assert_eq!(check(&pools, &jobs, &stands), Ok(()));
        jobs.iter_mut().zip(&stands).for_each(|(job, stand)| job.stand.clone_from(stand));
        all.push(stands);
    }
    all
}

#[test]
fn gavel_gives_types_to_those_who_gain_most() {
    let mut slow = job(0, unknown());
    let mut fast = job(1, unknown());
    // Of four GPUs each; the second job gains ten times as much from the second type.
    (slow.rates, fast.rates) = (vec![1.0, 1.2], vec![1.0, 3.0]);
    for stands in gavel(&[slow, fast], 3) {
        let pools: Vec<Option<u8>> = stands.iter().map(|stand| stand.as_ref().map(|stand| stand.pool)).collect();
        assert_eq!(pools, [Some(0), Some(1)]);
    }
}

#[test]
fn gavel_shares_time_where_jobs_are_equal() {
    // Three equal jobs that need all GPUs of a type, which there are two of: each should run in two of three rounds.
    let jobs: Vec<ElasticJob> = (0..3)
        .map(|id| {
            let mut job = job(id, unknown());
            job.rates = vec![1.0, 1.0];
            job
        })
        .collect();
    let rounds = gavel(&jobs, 30);
    for at in 0..3 {
        let ran = rounds.iter().filter(|stands| stands[at].is_some()).count();
        assert!((17..=23).contains(&ran), "job {at} ran in {ran} of 30 rounds");
    }
    assert!(rounds.iter().all(|stands| stands.iter().flatten().count() == 2));
}

#[test]
fn gavel_leaves_out_types_on_which_a_job_cannot_run() {
    let mut only = job(0, unknown());
    only.rates = vec![0.0, 0.1];
    let stands = gavel(&[only], 1);
    assert_eq!(stands[0][0].as_ref().map(|stand| stand.pool), Some(1));
}

fn pollux(search: Search, jobs: &[ElasticJob]) -> Vec<Option<Stand>> {
    let pools = cluster(&POOLS);
    let stands = ElasticScheduler::new(ElasticRule::Pollux(PolluxOptions { search }), pools.clone()).decide(jobs);
    assert_eq!(check(&pools, jobs, &stands), Ok(()));
    stands
}

/// A job that is blind to types: the same model everywhere.
fn blind(id: u32, speed: f64, noise: f64) -> ElasticJob {
    let mut model = known(speed, noise);
    model.pools[1].throughput = model.pools[0].throughput;
    let mut job = job(id, model);
    job.gpus_max = 16;
    job
}

/// What Pollux makes least: the sum over jobs of 1 over goodput, each over that of its fair share. All jobs wait before, so nothing restarts.
fn lack(jobs: &[ElasticJob], stands: &[Option<Stand>]) -> f64 {
    let share: u32 = 40 / jobs.len() as u32;
    let goodput = |job: &ElasticJob, pool, layout| job.model.best(pool, layout).map_or(0.0, |best| best.goodput);
    let of = |(job, stand): (&ElasticJob, &Option<Stand>)| {
        let fair = antiphase_policy::goodput::Layout { nodes: share.div_ceil(8), replicas: share };
        let Some(shape) = stand.as_ref().map(Stand::shape) else { return 1_000.0 };
        goodput(job, 0, fair) / goodput(job, usize::from(shape.pool), shape.layout())
    };
    jobs.iter().zip(stands).map(of).sum()
}

#[test]
fn the_exact_search_of_pollux_is_no_worse_than_the_published_one() {
    let jobs: Vec<ElasticJob> = (0..6).map(|id| blind(id, 1.0 + f64::from(id % 3), 2.0 + f64::from(id))).collect();
    let (exact, bred) = (pollux(Search::Exact, &jobs), pollux(Search::Published { seed: 1, avoids: true }, &jobs));
    let (ours, theirs) = (lack(&jobs, &exact), lack(&jobs, &bred));
    assert!(ours <= theirs * 1.000_001, "{ours} and {theirs}");
    assert!(theirs < ours * 1.3, "and the population is not far: {ours} and {theirs}");
    assert_eq!(bred, pollux(Search::Published { seed: 1, avoids: true }, &jobs), "a seed gives the same placements");
}

/// How many nodes have parts of several jobs that span nodes.
fn shared(stands: &[Option<Stand>]) -> usize {
    let mut spanned: Vec<(u8, u32)> = Vec::new();
    for stand in stands.iter().flatten().filter(|stand| stand.places.len() > 1) {
        spanned.extend(stand.places.iter().map(|(node, _)| (stand.pool, *node)));
    }
    let all = spanned.len();
    spanned.sort_unstable();
    spanned.dedup();
    all - spanned.len()
}

#[test]
fn jobs_of_pollux_that_span_nodes_share_none_unless_they_may() {
    let jobs: Vec<ElasticJob> = (0..4).map(|id| blind(id, 1.0, 30.0)).collect();
    for search in [Search::Exact, Search::Published { seed: 3, avoids: true }] {
        let stands = pollux(search, &jobs);
        assert_eq!(shared(&stands), 0, "{search:?}: {stands:?}");
    }
    let sharing = |seed| shared(&pollux(Search::Published { seed, avoids: false }, &jobs)) > 0;
    assert!((1..=10).any(sharing), "nobody shares a node although all may");
}

/// What a round ends with is where the next one begins: it does not take a job from its GPUs for nothing.
#[test]
fn a_second_round_of_the_published_search_is_no_worse_than_the_first() {
    let pools = cluster(&POOLS);
    let mut jobs: Vec<ElasticJob> = (0..5).map(|id| blind(id, 1.0 + f64::from(id), 5.0)).collect();
    let rule = ElasticRule::Pollux(PolluxOptions { search: Search::Published { seed: 2, avoids: true } });
    let mut scheduler = ElasticScheduler::new(rule, pools.clone());
    let first = scheduler.decide(&jobs);
    for (job, stand) in jobs.iter_mut().zip(&first) {
        job.shape = stand.as_ref().map(Stand::shape);
        job.stand.clone_from(stand);
        job.age_s += 60.0;
    }
    // One is gone.
    jobs.pop();
    let second = scheduler.decide(&jobs);
    assert_eq!(check(&pools, &jobs, &second), Ok(()));
    assert!(lack(&jobs, &second) <= lack(&jobs, &first[..4]) * 1.000_001, "{first:?} {second:?}");
}
