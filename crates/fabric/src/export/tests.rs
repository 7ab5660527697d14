use super::*;
use crate::{generate, native::read};
use units::Rate;

fn rail() -> Fabric {
    let g400 = Rate(400_000);
    let spec = generate::Rail { groups: 2, hosts_per_group: 2, rails: 2, spines: 2, host_rate: g400, uplink_rate: g400, uplinks: 1 };
    generate::rail(&spec).unwrap()
}

fn kinds(export: &Export) -> Vec<&'static str> {
    export.findings.iter().map(|f| f.kind).collect()
}

#[test]
fn the_testbed_as_slurm_tree() {
    let export = export(&generate::cassini24().unwrap(), &Format::SlurmConf).unwrap();
    let expect = "SwitchName=tier3-1 Switches=tier2-[1-2]
SwitchName=tier2-2 Switches=leaf[4-6]
SwitchName=tier2-1 Switches=leaf[1-3]
SwitchName=leaf6 Nodes=h[21-24]
SwitchName=leaf5 Nodes=h[17-20]
SwitchName=leaf4 Nodes=h[13-16]
SwitchName=leaf3 Nodes=h[9-12]
SwitchName=leaf2 Nodes=h[5-8]
SwitchName=leaf1 Nodes=h[1-4]
";
    assert_eq!(export.text, expect);
    assert_eq!(kinds(&export), ["tree-loses-links", "tree-merges-switches", "tree-merges-switches", "tree-merges-switches"]);
    assert!(export.findings[1].message.contains("tier2-1 stands for 2 switches: spine1, spine2"), "{}", export.findings[1]);
}

#[test]
fn stated_gpus_are_kept_by_our_own_format_and_named_where_a_format_has_no_place_for_them() {
    let text = "schema: antiphase.fabric/v1\nhosts: [a, b, c]\ngpus: [{hosts: [a], count: 8, type: h100}, {hosts: [b], count: 4}]\n\
        switches: [{name: s, tier: 1}]\ncables: [{ends: [a, s], capacity: 100G}, {ends: [b, s], capacity: 100G}, {ends: [c, s], capacity: 100G}]\n";
    let fabric = read(text).unwrap();
    let said = |fabric: &Fabric| fabric.hosts().map(|host| fabric.gpus(host).cloned()).collect::<Vec<_>>();
    let own = export(&fabric, &Format::Native).unwrap();
    assert_eq!((said(&read(&own.text).unwrap()), kinds(&own)), (said(&fabric), vec![]));
    let message = "the GPUs that 2 hosts state are not in the tree";
    for format in [Format::SlurmConf, Format::SlurmYaml, Format::HyperNode, Format::KubernetesLabels(LabelKeys::Topograph)] {
        let findings = export(&fabric, &format).unwrap().findings;
        assert!(findings.iter().any(|f| f.kind == "gpus-left-out" && f.message == message), "{format:?}: {findings:?}");
    }
}

#[test]
fn a_rail_fabric_merges_rails_because_a_node_has_one_parent() {
    let export = export(&rail(), &Format::SlurmYaml).unwrap();
    let expect = "- topology: default
  cluster_default: true
  tree:
    switches:
    - switch: tier2-1
      children: tier1-[1-2]
    - switch: tier1-2
      nodes: h[3-4]
    - switch: tier1-1
      nodes: h[1-2]
";
    assert_eq!(export.text, expect);
    assert!(export.findings.iter().any(|f| f.message.contains("su1-rail1, su1-rail2")));
}

#[test]
fn labels_in_both_families_and_a_pattern() {
    let text = |keys: &str| export(&rail(), &Format::KubernetesLabels(keys.parse().unwrap())).unwrap().text;
    let expect = "apiVersion: v1
kind: Node
metadata:
  name: h1
  labels:
    network.topology.nvidia.com/block: tier1-1
    network.topology.nvidia.com/spine: tier2-1
---
";
    assert!(text("nvidia").starts_with(expect), "{}", text("nvidia"));
    assert!(text("topograph").contains("fabric.topograph.run/tier-0: tier1-2\n    fabric.topograph.run/tier-1: tier2-1"));
    assert!(text("x.example/level-{tier}").contains("x.example/level-1: tier2-1"));
    assert_eq!(text("nvidia").matches("kind: Node").count(), 4);
}

#[test]
fn hypernodes_name_their_members() {
    let export = export(&rail(), &Format::HyperNode).unwrap();
    let last = export.text.split("---\n").last().unwrap();
    let expect = "apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata:
  name: tier2-1
spec:
  tier: 2
  members:
  - type: HyperNode
    selector:
      exactMatch:
        name: tier1-1
  - type: HyperNode
    selector:
      exactMatch:
        name: tier1-2
";
    assert_eq!(last, expect);
    assert!(export.text.contains("type: Node\n    selector:\n      exactMatch:\n        name: h3"));
}

const ODD: &str = "schema: antiphase.fabric/v1
hosts: [h1, h2, h3, h4, idle]
switches: [{name: 'Leaf 1'}, {name: 'Leaf/1'}, {name: lonely}, {name: tier2-1}, {name: s, tier: 2}, {name: t, tier: 2}]
cables:
  - {ends: [h1, 'Leaf 1']}
  - {ends: [h2, 'Leaf/1']}
  - {ends: ['Leaf 1', s]}
  - {ends: ['Leaf/1', s]}
  - {ends: ['Leaf 1', t]}
  - {ends: [h3, tier2-1]}
";

#[test]
fn odd_names_are_changed_aloud_and_nothing_is_dropped_silently() {
    let f = read(ODD).unwrap();
    let export = export(&f, &Format::SlurmConf).unwrap();
    let expect = "SwitchName=tier2-1-x Switches=Leaf-1,Leaf-1-2\nSwitchName=tier2-1 Nodes=h3\nSwitchName=Leaf-1-2 Nodes=h2\nSwitchName=Leaf-1 Nodes=h1\n";
    assert_eq!(export.text, expect);
    let mut seen = kinds(&export);
    seen.dedup();
    assert_eq!(seen, ["tree-loses-links", "tree-merges-switches", "host-left-out", "switch-left-out", "separate-pieces", "switch-renamed"]);
    assert!(export.findings.iter().any(|f| f.message.contains("2 hosts without a cable to a switch: h4, idle")));
}

#[test]
fn an_empty_export_and_unnameable_hosts_are_refused() {
    for text in ["schema: antiphase.fabric/v1", "schema: antiphase.fabric/v1\nhosts: [h1, h2]\ncables:\n  - {ends: [h1, h2]}"] {
        let error = export(&read(text).unwrap(), &Format::SlurmYaml).unwrap_err();
        assert!(error.to_string().contains("no host has a cable"), "{error}");
    }
    let upper = read(&ODD.replace("h1", "H1")).unwrap();
    assert!(export(&upper, &Format::HyperNode).unwrap_err().to_string().contains("\"H1\""));
    assert!(export(&upper, &Format::SlurmConf).is_ok());
    let spaced = read(&ODD.replace("h1", "'h 1'")).unwrap();
    assert!(export(&spaced, &Format::SlurmConf).unwrap_err().to_string().contains("\"h 1\""));
}
