//! Differences that a person would find by hand.

use super::*;
use crate::native::read;

const PLAN: &str = "schema: antiphase.fabric/v1
hosts: [h1, h2, h3]
switches: [{name: leaf1, tier: 1}, {name: spine1, tier: 2}]
cables:
  - {ends: ['h1:e', 'leaf1:p1'], capacity: 100G}
  - {ends: ['h2:e', 'leaf1:p2'], capacity: 100G}
  - {ends: ['h3:e', 'leaf1:p3'], capacity: 100G}
  - {ends: ['leaf1:up', 'spine1:p1'], capacity: 400G}
";

fn lines(observed: &str, by: MatchBy) -> Vec<String> {
    let diff = diff(&read(PLAN).unwrap(), &read(observed).unwrap(), by);
    assert_eq!(diff.count(), diff.to_string().lines().count());
    diff.to_string().lines().map(String::from).collect()
}

#[test]
fn a_fabric_does_not_differ_from_itself() {
    assert_eq!(lines(PLAN, MatchBy::Ports), [""; 0]);
    assert!(diff(&read(PLAN).unwrap(), &read(PLAN).unwrap(), MatchBy::Nodes).is_empty());
}

#[test]
fn swapped_cables_are_moved_not_missing() {
    let swapped = PLAN.replace("'leaf1:p1'", "'leaf1:px'").replace("'leaf1:p2'", "'leaf1:p1'").replace("'leaf1:px'", "'leaf1:p2'");
    assert_eq!(
        lines(&swapped, MatchBy::Ports),
        [
            "moved cable    h1:e: intended to leaf1:p1, observed to leaf1:p2",
            "moved cable    h2:e: intended to leaf1:p2, observed to leaf1:p1"
        ]
    );
    assert_eq!(lines(&swapped, MatchBy::Nodes), [""; 0]);
}

#[test]
fn a_moved_cable_is_still_compared() {
    // h1 sorts before leaf1 and after aaa: the ends of the observed cable change places.
    let observed = PLAN.replace("['h1:e', 'leaf1:p1'], capacity: 100G", "['h1:e', 'aaa:x'], capacity: 100G, reverse: {capacity: 10G}");
    let observed = observed.replace("switches: [", "switches: [{name: aaa}, ");
    assert_eq!(
        lines(&observed, MatchBy::Ports),
        [
            "extra node     aaa",
            "moved cable    h1:e: intended to leaf1:p1, observed to aaa:x",
            "capacity       aaa:x -> h1:e: intended 100 Gb/s, observed 10 Gb/s"
        ]
    );
}

#[test]
fn every_kind_of_difference_is_named() {
    let observed = "schema: antiphase.fabric/v1
hosts: [h1, h2, spine1, h9]
switches: [{name: leaf1, tier: 2}]
cables:
  - {ends: ['h1:e', 'leaf1:p1'], capacity: 100G, reverse: {capacity: 25G}}
  - {ends: ['h2:e', 'leaf1:p2'], one_way: true}
  - {ends: ['h9:e', 'leaf1:p9']}
  - {ends: ['leaf1:up', 'spine1:p1'], capacity: unknown}
";
    assert_eq!(
        lines(observed, MatchBy::Ports),
        [
            "missing node   h3",
            "extra node     h9",
            "other kind     leaf1: intended switch of tier 1, observed switch of tier 2",
            "other kind     spine1: intended switch of tier 2, observed host",
            "missing cable  h3:e -- leaf1:p3",
            "extra cable    h9:e -- leaf1:p9",
            "capacity       leaf1:p1 -> h1:e: intended 100 Gb/s, observed 25 Gb/s",
            "one way        leaf1:p2 -> h2:e: not in observed",
        ]
    );
}

/// A plan that names no ports, and what LLDP saw: the numbers p0, p1 of the plan say nothing.
const PORTLESS: &str = "schema: antiphase.fabric/v1
hosts: [h1, h2]
switches: [{name: leaf1, tier: 1}, {name: spine1, tier: 2}]
cables:
  - {ends: ['h1:eth0', leaf1], capacity: 100G}
  - {ends: ['h2:eth0', leaf1], capacity: 100G}
  - {ends: [leaf1, spine1], capacity: 400G, parallel: 2}
";
const SEEN: &str = "schema: antiphase.fabric/v1
hosts: [h1, h2]
switches: [{name: leaf1, tier: 1}, {name: spine1, tier: 2}]
cables:
  - {ends: ['h1:eth0', 'leaf1:Ethernet8'], capacity: 100G}
  - {ends: ['h2:eth0', 'leaf1:Ethernet0'], capacity: 100G}
  - {ends: ['leaf1:Ethernet16', 'spine1:p1'], capacity: 400G}
  - {ends: ['leaf1:Ethernet20', 'spine1:p0'], capacity: 400G}
";

fn between(intended: &str, observed: &str) -> Vec<String> {
    let diff = diff(&read(intended).unwrap(), &read(observed).unwrap(), MatchBy::Ports);
    assert_eq!(diff.count(), diff.to_string().lines().count());
    diff.to_string().lines().map(String::from).collect()
}

#[test]
fn ports_that_a_plan_does_not_name_are_matched_by_their_peer() {
    assert_eq!(between(PORTLESS, SEEN), [""; 0]);
    assert_eq!(between(SEEN, PORTLESS), [""; 0]);
    // Written and read again, a number is still a number.
    let again = |text: &str| crate::native::write_yaml(&read(text).unwrap());
    assert_eq!(between(&again(PORTLESS), &again(SEEN)), [""; 0]);
}

#[test]
fn hosts_with_other_gpus_are_named_and_what_one_does_not_state_is_none() {
    let with = |gpus: &str| format!("{PORTLESS}gpus: [{gpus}]\n");
    let eight = with("{count: 8, type: a100}");
    assert_eq!(
        between(&eight, &with("{hosts: [h1], count: 4, type: a100}, {hosts: [h2], count: 4, type: v100}")),
        ["other GPUs     h1: intended 8, observed 4", "other GPUs     h2: intended 8 a100, observed 4 v100"]
    );
    assert_eq!(between(&eight, &with("{hosts: [h1], count: 8}, {hosts: [h2], type: a100}")), [""; 0]);
    assert_eq!(between(&eight, PORTLESS), [""; 0]);
}

#[test]
fn what_differs_is_named_as_far_as_it_has_a_name() {
    assert_eq!(
        between(PORTLESS, &SEEN.replace("'leaf1:Ethernet8'], capacity: 100G", "'leaf1:Ethernet8'], capacity: 25G")),
        [
            "capacity       h1:eth0 -> leaf1:Ethernet8: intended 100 Gb/s, observed 25 Gb/s",
            "capacity       leaf1:Ethernet8 -> h1:eth0: intended 100 Gb/s, observed 25 Gb/s"
        ]
    );
    assert_eq!(
        between(PORTLESS, &SEEN.replace("['h2:eth0', 'leaf1:Ethernet0']", "['h2:eth0', 'spine1:p7']")),
        ["moved cable    h2:eth0: intended to leaf1, observed to spine1:p7"]
    );
    assert_eq!(
        between(PORTLESS, &SEEN.replace("  - {ends: ['leaf1:Ethernet20', 'spine1:p0'], capacity: 400G}\n", "")),
        ["missing cable  leaf1 -- spine1"]
    );
    // Another NIC of the host is another cable, whatever the leaf's port.
    assert_eq!(
        between(PORTLESS, &SEEN.replace("h2:eth0", "h2:eth1")),
        ["missing cable  h2:eth0 -- leaf1", "extra cable    h2:eth1 -- leaf1:Ethernet0"]
    );
}

#[test]
fn matching_by_nodes_counts_parallel_cables() {
    let observed = PLAN.replace(
        "  - {ends: ['leaf1:up', 'spine1:p1']",
        "  - {ends: ['leaf1:up9', 'spine1:p2'], capacity: 400G}\n  - {ends: ['leaf1:upX', 'spine1:p1']",
    );
    assert_eq!(lines(&observed, MatchBy::Nodes), ["extra cable    leaf1:upX -- spine1:p1"]);
}
