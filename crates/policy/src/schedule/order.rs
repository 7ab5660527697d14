//! Lists that stay sorted while few of their members change.

use alloc::vec::Vec;

use super::job::JobIndex;

/// Sorts `order` by `key`, equal keys in the order in which they were, given that all members that did not `move` are in order already.
///
/// The same as a stable sort, in one pass over the list: only jobs that ran or came since the last time have another key.
pub(super) fn resort(order: &mut Vec<JobIndex>, scratch: &mut Vec<JobIndex>, key: &[f64], moved: impl Fn(JobIndex) -> bool) {
    let mut movers: Vec<(f64, usize, JobIndex)> = Vec::new();
    for (place, &job) in order.iter().enumerate() {
        if moved(job) {
            movers.push((key[job as usize], place, job));
        }
    }
    movers.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut next = movers.iter().peekable();
    scratch.clear();
    for (place, &job) in order.iter().enumerate() {
        if moved(job) {
            continue;
        }
        let here = key[job as usize];
        while let Some(&&(value, from, mover)) = next.peek() {
            if here.total_cmp(&value).then(place.cmp(&from)).is_lt() {
                break;
            }
            scratch.push(mover);
            next.next();
        }
        scratch.push(job);
    }
    scratch.extend(next.map(|mover| mover.2));
    core::mem::swap(order, scratch);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_stable_sort(old in prop::collection::vec(0_u8..6, 0..40), new in prop::collection::vec((0_u8..3, 0_u8..6), 40), arrivals in 0_usize..5) {
            let n = old.len() + arrivals;
            let mut key: Vec<f64> = old.iter().copied().map(f64::from).chain((0..arrivals).map(|_| 0.0)).collect();
            let mut order: Vec<JobIndex> = (0..old.len() as u32).collect();
            order.sort_by(|a, b| key[*a as usize].total_cmp(&key[*b as usize]));
            order.extend(old.len() as u32..n as u32);
            // A third of the old jobs and all new ones get another key.
            let moved = |job: JobIndex| job as usize >= old.len() || new[job as usize % 40].0 == 0;
            for job in (0..n as u32).filter(|job| moved(*job)) {
                key[job as usize] = f64::from(new[job as usize % 40].1);
            }
            let mut expected = order.clone();
            expected.sort_by(|a, b| key[*a as usize].total_cmp(&key[*b as usize]));
            resort(&mut order, &mut Vec::new(), &key, moved);
            prop_assert_eq!(order, expected);
        }
    }
}
