//! ECN marks of whole cases.

use antiphase_sim::{Config, EcnModel};

use crate::cases::*;

#[test]
fn contention_marks_and_interleaving_does_not() {
    let (fabric, jobs) = two_equal();
    let config = Config { ecn: EcnModel::LAB, warm_up: 4, iterations: 20, ..Config::default() };
    let contended = play(&fabric, &jobs, &config);
    for link in &contended.links {
        // 200 ms of 100 Mbit/s are 1,667 packets of 1,500 bytes for two iterations; 6.9 % of them are marked once the queue has
        // settled, after 6 ms of filling.
        assert!((55.0..57.6).contains(&link.marks_per_iteration), "{link:?}");
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
