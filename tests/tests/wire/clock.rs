//! The clock over real datagrams. Both ends run on this machine, so the true offset is known to the nanosecond.

use std::time::Duration;

use crate::rig::{Agent, SOON, Service, authority, issue, tls};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_estimate_holds_its_own_bound() {
    let dir = authority();
    let service = Service::start(tls(dir.path())).await;
    let mut agent = Agent::start(service.address, "node-1", issue(dir.path(), "node-1"));
    agent.up().await;
    let truth = service.clock.offset();
    let mut bounds = Vec::new();
    while bounds.len() < 20 {
        tokio::time::timeout(SOON, agent.session.clock.changed()).await.expect("an estimate in time").unwrap();
        let estimate = (*agent.session.clock.borrow_and_update()).unwrap();
        let error = estimate.offset.0.abs_diff(truth.0);
        assert!(error <= estimate.bound.0, "wrong by {error} ns: {estimate:?}");
        bounds.push(estimate.bound.0);
    }
    let best = bounds.iter().min().unwrap();
    println!("bound: first {} us, best {} us of {} estimates", bounds[0] / 1_000, best / 1_000, bounds.len());
    // What is learned is kept: the last is no worse than the first and the drift of the seconds between.
    assert!(bounds[19] <= bounds[0] + Duration::from_millis(20).as_nanos() as u64, "{bounds:?}");
    assert_eq!(agent.stat("clock_restarts"), 0);
}
