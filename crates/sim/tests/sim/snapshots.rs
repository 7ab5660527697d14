//! The snapshots of the CASSINI paper's table 2.

use antiphase_sim::trace::{NetworkControl, SNAPSHOT_WORKERS, SNAPSHOTS, SnapshotOutcome, Trace, snapshot, snapshot_trace};
use fabric::{
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use units::Rate;

/// Two workers of each job on either side of one link.
fn played(trace: &Trace, control: NetworkControl) -> SnapshotOutcome {
    let (rate, per_leaf) = (Rate(50_000), 2 * trace.jobs.len() as u32);
    let whole = Clos2 { leaves: 2, spines: 1, hosts_per_leaf: per_leaf, host_rate: rate, uplink_rate: rate, uplinks: 1 };
    let fabric = clos2(&whole).unwrap();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let hosts: Vec<Vec<u32>> = (0..trace.jobs.len() as u32).map(|job| [0, 1].map(|at| 2 * job + at).to_vec()).collect();
    let hosts: Vec<Vec<u32>> = hosts.into_iter().map(|own| [own.clone(), own.iter().map(|at| per_leaf + at).collect()].concat()).collect();
    snapshot(trace, &hosts, &router, control, 1).unwrap()
}

#[test]
fn periods_that_lock_are_parts_of_the_longest_and_no_shorter_than_they_were() {
    for snap in &SNAPSHOTS {
        let (own, locked) = (snapshot_trace(snap, false).unwrap(), snapshot_trace(snap, true).unwrap());
        assert!(own.jobs.len() == snap.jobs.len() && own.jobs.iter().all(|job| job.gpus == SNAPSHOT_WORKERS));
        let ns = |trace: &Trace| trace.jobs.iter().map(|job| (job.iteration_ms * 1e6 + 0.5) as u64).collect::<Vec<u64>>();
        let (own, locked) = (ns(&own), ns(&locked));
        let longest = *locked.iter().max().unwrap();
        assert!(locked.iter().all(|period| longest.is_multiple_of(*period)), "{locked:?}");
        assert!(own.iter().zip(&locked).all(|(own, locked)| locked >= own), "{own:?} {locked:?}");
    }
}

#[test]
fn jobs_whose_periods_lock_send_as_alone_under_shifts_and_under_turns() {
    let trace = snapshot_trace(&SNAPSHOTS[0], true).unwrap();
    let [ideal, free, paper, turns] =
        [NetworkControl::Ideal, NetworkControl::Free, NetworkControl::Paper, NetworkControl::Turns].map(|control| played(&trace, control));
    for (at, alone) in ideal.jobs.iter().enumerate() {
        assert_eq!((alone.sends_s, alone.iteration_mean), (alone.sends_alone_s, 1.0));
        let longer = |outcome: &SnapshotOutcome| outcome.jobs[at].sends_s / alone.sends_alone_s;
        // Free jobs stay as far apart as they began, so they meet in some plays; who is kept apart does not.
        assert!(longer(&free) > 1.1, "{free:?}");
        assert!(longer(&paper) < 1.02 && longer(&turns) < 1.02, "{paper:?} {turns:?}");
        assert!(turns.jobs[at].iteration_mean < free.jobs[at].iteration_mean, "{turns:?} {free:?}");
    }
    assert!(paper.score.is_some_and(|score| score > 0.99) && free.score.is_none(), "{paper:?}");
    assert!(turns.marks_per_iteration < 0.1 * free.marks_per_iteration, "{turns:?} {free:?}");
}
