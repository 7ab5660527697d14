//! Stages of a pipeline on hosts: what goes which way, by hand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use antiphase_plan::{Cluster, link_demands};
use fabric::{
    Fabric,
    generate::{Rail, cassini24, rail},
    route::{Ecmp, Router},
};
use job::{Collective, Job, Placement};
use job::{JobDoc, ModelDoc, Reader};

/// GPT-1's activations of 32 samples: 512 tokens of 768 numbers of 2 bytes each.
const ACTIVATIONS: u64 = 32 * 512 * 768 * 2;

/// GPT-1 in `pp` stages of `tp` ranks, 32 samples in `micro` micro-batches.
fn gpt1(fabric: &Fabric, hosts: &[&str], pp: u32, tp: u32, micro: u32, gpus_per_host: u32) -> (Job, Placement) {
    let model = ModelDoc {
        name: "gpt1".into(),
        pp: Some(pp),
        tp: Some(tp),
        dp: Some(1),
        micro_batches: Some(micro),
        batch: Some(32),
        gpus_per_host: Some(gpus_per_host),
        ..ModelDoc::default()
    };
    let hosts = hosts.iter().map(|h| (*h).to_owned()).collect();
    let doc = JobDoc { id: "job".into(), model: Some(model), hosts: Some(hosts), ..JobDoc::default() };
    let mut reader = Reader::new(fabric, &|_| Err("no files".into()));
    reader.job(&doc, None).unwrap();
    let (mut jobs, mut placements) = reader.finish();
    (jobs.remove(0), placements.remove(0))
}

/// Bytes that each NIC sends (`>`) and receives (`<`) in an iteration, of the phases that run `collective`, or of all; NICs by
/// host and port. And whether any link is asked for more than it carries.
fn sent(fabric: &Fabric, (job, placement): &(Job, Placement), collective: Option<Collective>) -> (BTreeMap<String, u64>, bool) {
    let router = Router::new(fabric, Ecmp::Spread, &[]).unwrap();
    let cluster = Cluster { fabric, router: &router, jobs: &[], placements: &[] };
    let mut job = job.clone();
    job.phases.retain(|p| collective.is_none_or(|c| p.collective == c));
    let demands = link_demands(&cluster, &job, placement).unwrap();
    let (mut bytes, mut over) = (BTreeMap::new(), false);
    for (id, demand) in &demands.links {
        let phases = &demands.demands[*demand as usize];
        over |= phases.iter().any(|p| p.rate > fabric.capacity(*id).unwrap());
        // Mbit/s by ns are thousandths of a bit.
        let sum: u64 = phases.iter().map(|p| p.rate.0 * (p.end.0 - p.start.0)).sum::<u64>() / 8_000;
        let link = fabric.link(*id);
        let is_host = |node| matches!(fabric.node(node).kind, fabric::NodeKind::Host);
        for (port, way) in [(&link.from, '>'), (&link.to, '<')] {
            if is_host(port.node) {
                bytes.insert(format!("{way}{}:{}", fabric.node(port.node).name, port.name), sum);
            }
        }
    }
    (bytes, over)
}

/// The NICs that take part, each with what is expected of it; rates are whole Mbit/s, so within a thousandth.
fn expect(got: &BTreeMap<String, u64>, nics: &[&str], want: u64) {
    assert_eq!(got.keys().map(String::as_str).collect::<Vec<_>>(), nics);
    assert!(got.values().all(|bytes| bytes.abs_diff(want) * 1_000 <= want), "{got:?}, expected {want}");
}

#[test]
fn two_stages_send_activations_one_way_and_gradients_the_other() {
    let fabric = cassini24().unwrap();
    for micro in [1, 4, 8] {
        let job = gpt1(&fabric, &["h1", "h5"], 2, 1, micro, 1);
        let (forward, _) = sent(&fabric, &job, Some(Collective::PipelineForward));
        expect(&forward, &["<h5:eth0", ">h1:eth0"], ACTIVATIONS);
        let (backward, _) = sent(&fabric, &job, Some(Collective::PipelineBackward));
        expect(&backward, &["<h1:eth0", ">h5:eth0"], ACTIVATIONS);
        // The tied embedding, 40,478 x 768 x 2 bytes, goes round a ring of both.
        let (all, over) = sent(&fabric, &job, None);
        expect(&all, &["<h1:eth0", "<h5:eth0", ">h1:eth0", ">h5:eth0"], ACTIVATIONS + 40_478 * 768 * 2);
        assert!(!over);
    }
}

#[test]
fn stages_between_others_send_both_ways_but_never_at_once() {
    let fabric = cassini24().unwrap();
    let job = gpt1(&fabric, &["h1", "h5", "h9", "h13"], 4, 1, 8, 1);
    let (forward, _) = sent(&fabric, &job, Some(Collective::PipelineForward));
    expect(&forward, &["<h13:eth0", "<h5:eth0", "<h9:eth0", ">h1:eth0", ">h5:eth0", ">h9:eth0"], ACTIVATIONS);
    let (backward, _) = sent(&fabric, &job, Some(Collective::PipelineBackward));
    expect(&backward, &["<h1:eth0", "<h5:eth0", "<h9:eth0", ">h13:eth0", ">h5:eth0", ">h9:eth0"], ACTIVATIONS);
    // A NIC of 50 Gb/s that is asked for both at 44 each would be over.
    assert!(!sent(&fabric, &job, None).1);
}

#[test]
fn stages_that_share_a_host_send_once_over_its_nics() {
    let spec = Rail {
        groups: 1,
        hosts_per_group: 4,
        rails: 2,
        spines: 1,
        host_rate: units::Rate(50_000),
        uplink_rate: units::Rate(50_000),
        uplinks: 2,
    };
    let fabric = rail(&spec).unwrap();
    let names: Vec<&str> = fabric.hosts().map(|h| &*fabric.node(h).name).take(2).collect();
    // Four stages, two per host: the hop from the second to the third is the only one on a wire, from the second NIC to the first.
    let job = gpt1(&fabric, &names, 4, 1, 4, 2);
    let (forward, over) = sent(&fabric, &job, Some(Collective::PipelineForward));
    assert_eq!(forward.len(), 2, "{forward:?}");
    assert!(!over && forward.values().all(|bytes| bytes.abs_diff(ACTIVATIONS) * 1_000 <= ACTIVATIONS), "{forward:?}");
    // Two stages of two tensor halves: each half hops on its own NIC with its half of the activations.
    let job = gpt1(&fabric, &names, 2, 2, 4, 2);
    for direction in [Collective::PipelineForward, Collective::PipelineBackward] {
        let (hops, _) = sent(&fabric, &job, Some(direction));
        assert_eq!(hops.len(), 4, "{hops:?}");
        assert!(hops.values().all(|bytes| bytes.abs_diff(ACTIVATIONS / 2) * 1_000 <= ACTIVATIONS / 2), "{hops:?}");
    }
}

#[test]
fn a_profile_that_says_pipeline_is_read_as_both_ways_at_once() {
    let text = r#"{"schema": "antiphase.profile/v1", "name": "old", "period_ns": 1000000, "ranks": {"pp": 3}, "source": "declared",
        "phases": [{"start_ns": 0, "duration_ns": 400000, "rate_mbps": 40000, "collective": "pipeline", "scope": "pipeline"}]}"#;
    let fabric = cassini24().unwrap();
    let hosts = ["h1", "h5", "h9"].map(str::to_owned).to_vec();
    let doc = JobDoc { id: "job".into(), profile_file: Some("old.json".into()), hosts: Some(hosts), ..JobDoc::default() };
    let files = |_: &str| Ok(text.to_owned());
    let mut reader = Reader::new(&fabric, &files);
    reader.job(&doc, None).unwrap();
    let (mut jobs, mut placements) = reader.finish();
    let (both, _) = sent(&fabric, &(jobs.remove(0), placements.remove(0)), None);
    // 400 us of 40 Gb/s are 2,000,000 bytes: the middle sends that, half each way, and the ends half of it.
    let of = |nic: &str| both[nic];
    assert_eq!([of(">h1:eth0"), of(">h5:eth0"), of(">h9:eth0")], [1_000_000, 2_000_000, 1_000_000]);
    assert_eq!([of("<h1:eth0"), of("<h5:eth0"), of("<h9:eth0")], [1_000_000, 2_000_000, 1_000_000]);
}
