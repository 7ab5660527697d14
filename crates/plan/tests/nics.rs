//! What a job of several ranks a host puts on the links, NIC by NIC.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use fabric::Fabric;
use job::{JobDoc, Reader};

/// Two leaves of one host each below a spine. Each host has a management port of 1 Gb/s, and then some NICs on its leaf.
fn clos(nics: [u32; 2], rate: u64) -> Fabric {
    let mut text = String::from(
        "schema: antiphase.fabric/v1\nhosts: [h0, h1]\nswitches: [{name: leaf0}, {name: leaf1}, {name: spine}, {name: mgmt}]\ncables:\n",
    );
    for (i, nics) in nics.iter().enumerate() {
        text.push_str(&format!("  - {{ends: [h{i}, mgmt], capacity: 1G}}\n  - {{ends: [leaf{i}, spine], capacity: 400G}}\n"));
        text.push_str(&format!("  - {{ends: [h{i}, leaf{i}], mbps: {rate}, parallel: {nics}}}\n"));
    }
    fabric::native::read(&text).unwrap()
}

/// What one job of eight ranks on each of both hosts puts on every link, by name: its highest rate; and its period.
fn demand(fabric: &Fabric) -> (u64, BTreeMap<String, u64>) {
    let mut reader = Reader::new(fabric, &|_| Err("no files".into()));
    let doc = "{id: a, model: {name: bert, gpus_per_host: 8, batch: 64}, hosts: [h0, h1]}";
    reader.job(&JobDoc::parse(doc).unwrap(), None).unwrap();
    let (jobs, placements) = reader.finish();
    let router = fabric::route::Router::new(fabric, fabric::route::Ecmp::Spread, &[]).unwrap();
    let cluster = antiphase_plan::Cluster { fabric, router: &router, jobs: &jobs, placements: &placements };
    let found = antiphase_plan::link_demands(&cluster, &jobs[0], &placements[0]).unwrap();
    let peak = |d: u32| found.demands[d as usize].iter().map(|p| p.rate.0).max().unwrap();
    (jobs[0].period.0, found.links.iter().map(|(link, d)| (fabric.link_name(*link), peak(*d))).collect())
}

/// Four NICs of 100 Gb/s carry what one of 400 Gb/s does: a quarter each, in the same time, and the same on the uplink.
#[test]
fn a_job_spreads_over_all_nics_of_a_clos_host_but_not_over_its_management_port() {
    let (one_period, one) = demand(&clos([1, 1], 400_000));
    let (four_period, four) = demand(&clos([4, 4], 100_000));
    assert_eq!(one_period, four_period);
    assert!(one.keys().chain(four.keys()).all(|link| !link.contains("mgmt")), "{one:?} {four:?}");
    let nics: Vec<u64> = four.iter().filter(|(link, _)| link.starts_with("h0:")).map(|(_, rate)| *rate).collect();
    assert_eq!(nics.len(), 4);
    assert!(nics.iter().all(|rate| rate.abs_diff(one["h0->leaf0"] / 4) <= 1), "{nics:?} {one:?}");
    assert!(four["leaf0->spine"].abs_diff(one["leaf0->spine"]) <= 4, "{four:?} {one:?}");
}

/// The host with two NICs sends as much as the one with four, so each of the two sends twice as much as each of the four, and
/// the job is as slow as if both had two.
#[test]
fn the_host_with_the_fewest_nics_sets_the_pace() {
    let (uneven_period, uneven) = demand(&clos([4, 2], 100_000));
    let (two_period, two) = demand(&clos([2, 2], 100_000));
    assert_eq!(uneven_period, two_period);
    let of = |links: &BTreeMap<String, u64>, host: &str| {
        links.iter().filter(|(link, _)| link.starts_with(host)).map(|(_, rate)| *rate).collect::<Vec<_>>()
    };
    let (many, few) = (of(&uneven, "h0:"), of(&uneven, "h1:"));
    assert_eq!((many.len(), few.len()), (4, 2));
    assert_eq!(few, of(&two, "h1:"));
    assert!(many.iter().all(|rate| rate.abs_diff(few[0] / 2) <= 1), "{many:?} {few:?}");
}
