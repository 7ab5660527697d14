//! Nodes for shapes.

use antiphase_policy::elastic::{ElasticJob, ElasticRule, ElasticScheduler, Placing, SiaOptions, Stand, check};
use proptest::prelude::*;

use crate::world::{POOLS, cluster, job, known};

/// Round after round with jobs that come, grow, shrink and go; `seen` is shown each round's jobs and stands.
fn rounds(placing: Placing, sizes: &[Vec<(u32, u32)>], mut seen: impl FnMut(&[ElasticJob], &[Option<Stand>])) {
    let pools = cluster(&POOLS);
    let options = SiaOptions { placing, ..SiaOptions::PAPER };
    let mut scheduler = ElasticScheduler::new(ElasticRule::Sia(options), pools.clone());
    let mut jobs: Vec<ElasticJob> = Vec::new();
    for (round, sizes) in sizes.iter().enumerate() {
        // Some leave, the others may have another number of GPUs than before.
        jobs.retain(|job| !(job.id as usize + round).is_multiple_of(5));
        let first = round as u32 * 100;
        for (at, (most, noise)) in (first..).zip(sizes) {
            let mut new = job(at, known(1.0 + f64::from(noise % 3), f64::from(*noise)));
            new.gpus_max = *most;
            jobs.push(new);
        }
        for (job, (most, _)) in jobs.iter_mut().zip(sizes) {
            job.gpus_max = *most;
            job.age_s += 60.0;
        }
        let stands = scheduler.decide(&jobs);
        assert_eq!(check(&pools, &jobs, &stands), Ok(()));
        seen(&jobs, &stands);
        for (job, stand) in jobs.iter_mut().zip(stands) {
            job.shape = stand.as_ref().map(Stand::shape);
            job.stand = stand;
        }
    }
}

fn sizes() -> impl Strategy<Value = Vec<Vec<(u32, u32)>>> {
    prop::collection::vec(prop::collection::vec((1_u32..25, 1_u32..30), 0..9), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn jobs_within_a_node_are_never_split_and_others_have_whole_ones(sizes in sizes()) {
        rounds(Placing::Kept, &sizes, |_, stands| {
            for stand in stands.iter().flatten() {
                let per_node = POOLS[usize::from(stand.pool)].1;
                let whole = stand.places.iter().all(|(_, gpus)| *gpus == per_node);
                assert!(stand.places.len() == 1 || whole, "{stand:?}");
            }
        });
    }

    #[test]
    fn who_keeps_its_shape_and_has_whole_nodes_is_never_moved(sizes in sizes()) {
        rounds(Placing::Kept, &sizes, |jobs, stands| {
            for (job, stand) in jobs.iter().zip(stands) {
                let same = job.shape.is_some() && job.shape == stand.as_ref().map(Stand::shape);
                let whole = stand.as_ref().is_some_and(|stand| stand.shape().gpus >= POOLS[usize::from(stand.pool)].1);
                assert!(!(same && whole) || *stand == job.stand, "{job:?} {stand:?}");
            }
        });
    }

    #[test]
    fn in_turn_everybody_has_what_was_chosen(sizes in sizes()) {
        // The rounds check that it fits.
        rounds(Placing::InTurn, &sizes, |_, stands| assert!(stands.iter().flatten().all(|stand| stand.shape().gpus > 0)));
    }
}
