//! ECN marks of whole cases.

use antiphase_sim::{Config, EcnModel};

use crate::cases::*;

#[test]
fn contention_marks_and_interleaving_does_not() {
    let (fabric, jobs) = two_equal();
    let config = Config { ecn: EcnModel::LAB, warm_up: 4, iterations: 20, ..Config::default() };
    let contended = play(&fabric, &jobs, &config);
    for link in &contended.links {
        // Two NICs of 100 Mbit/s on 100: the queue takes 9.8 ms to its peak, 4.8 ms of them on the ramp, where 40 packets are marked
        // by 16 % on the mean: 6.4. Of the 1,585 packets of the other 190.2 ms 0.42 % are: 6.66. That is for two iterations.
        assert!((6.4..6.7).contains(&link.marks_per_iteration), "{link:?}");
        assert!((link.marks / link.marks_per_iteration - 40.0).abs() < 3.0, "{link:?}");
    }
    assert!(held(&fabric, &jobs, 50, &config).links.iter().all(|l| l.marks == 0.0));
    assert!(play(&fabric, &jobs[..1], &config).links.is_empty(), "a lone job at the rate of its NIC");
}

#[test]
fn a_job_that_exceeds_a_link_alone_is_marked_alone() {
    let fabric = star(2, 50);
    let jobs = vec![ring(&fabric, "a", &["h1", "h3"], 100, 150)];
    let report = play(&fabric, &jobs, &Config { ecn: EcnModel::LAB, ..Config::default() });
    // Only where it enters the narrow links: what comes out of one fits the next, but every sender of the ring enters its own.
    assert!(report.links.iter().any(|l| l.marks > 0.0), "{:?}", report.links);
}
