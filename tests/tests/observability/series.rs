//! How many series a port makes, which whoever plans a Prometheus reads in docs/agent.md.

use std::fs;

use agent::{
    counters::{CountersView, PortView},
    metrics::{Snapshot, text},
    pauses::Totals,
    rdma::RdmaView,
};
use antiphase_tests::checkout;
use serde_json::json;
use telemetry::{Counter, Observation, pfc::Pause};
use units::{Nanos, NodeTime};

/// Series of a snapshot whose names begin so.
fn series(snapshot: &Snapshot, begin: &str) -> usize {
    text(snapshot, gate::now()).lines().filter(|line| line.starts_with(begin)).count()
}

#[test]
fn the_page_says_how_many_series_a_port_has() {
    let observed = Observation { period: Nanos(1), confidence: 1.0, phases: Vec::new(), origin: NodeTime(0), window: Nanos(1) };
    let totals = Counter::ALL.map(|counter| (counter, 1)).to_vec();
    let port = PortView { name: "ens1".into(), kind: "interface", totals, observed: Some(observed), ..PortView::default() };
    let counters = CountersView { ports: vec![port], ..CountersView::default() };
    let of_counters = series(&Snapshot { counters, ..Snapshot::default() }, "antiphase_agent_port_");
    let by_priority = Pause::ALL.into_iter().flat_map(|what| (0..8).map(move |priority| ((what, priority), 1))).collect();
    let totals = Totals { by_priority, ..Totals::default() };
    let of_pauses = series(&Snapshot { pauses: [("ens1".to_owned(), totals)].into(), ..Snapshot::default() }, "antiphase_agent_port_");
    let device = json!({ "device": "mlx5_0", "port": 1, "state": "active", "link_layer": "ethernet", "rate_mbps": 400_000 });
    let rdma = RdmaView { ports: vec![serde_json::from_value(device).unwrap()], ..RdmaView::default() };
    let of_device = series(&Snapshot { rdma: Some(rdma), ..Snapshot::default() }, "antiphase_agent_rdma_port_");
    let page = fs::read_to_string(checkout().join("docs/agent.md")).unwrap();
    for said in [
        format!("A port has at most {of_counters} series: "),
        format!("up to {of_pauses} more (8 priorities"),
        format!("has at most {}, and one for each kind of event", 2 * of_counters + of_pauses + of_device),
    ] {
        assert!(page.contains(&said), "docs/agent.md does not say {said:?}");
    }
    assert_eq!(of_device, 4);
}
