//! Dashboards, rules and alerts of `integrations/` against what service and agents really expose, and against a real Prometheus.
#![allow(clippy::unwrap_used, reason = "tests")]

mod grafana;
mod live;
mod prometheus;
mod rig;
mod schema;
mod series;

/// The program of [`rig::Service`].
#[test]
#[ignore = "a service for the other tests"]
fn a_service_in_a_process_of_its_own() {
    rig::serve();
}
