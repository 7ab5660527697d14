//! The importers on documents of our own making, one per shape; what they state, what they say.
#![allow(clippy::unwrap_used, reason = "a test stops where its input is wrong")]

use antiphase_fabric::{
    Fabric, Finding, NodeKind,
    import::{self, BuildOptions, Imported},
};

fn options(hosts: &[&str], assumptions: &[&str]) -> BuildOptions {
    BuildOptions {
        name: "test".into(),
        hosts: hosts.iter().map(ToString::to_string).collect(),
        assumptions: import::assumptions(assumptions.iter().copied()).unwrap(),
    }
}

/// One line per cable: `leaf1:Ethernet0 - gpu-01:ens1f0 200 Gb/s observed`.
fn cables(fabric: &Fabric) -> Vec<String> {
    let mut lines = Vec::new();
    for (i, link) in fabric.links().iter().enumerate() {
        let back = fabric.reverse(units::LinkId(i as u32)).expect("an importer adds both directions");
        assert_eq!(fabric.link(back).capacity, link.capacity);
        if link.from.node < link.to.node {
            let end = |port: &antiphase_fabric::Port| format!("{}:{}", fabric.node(port.node).name, port.name);
            let capacity = link.capacity.map_or("?".into(), |c| c.to_string());
            lines.push(format!("{} - {} {capacity} {}", end(&link.from), end(&link.to), link.provenance));
        }
    }
    lines.sort();
    lines
}

fn kinds(fabric: &Fabric) -> String {
    let kind = |kind| match kind {
        NodeKind::Host => "host".to_string(),
        NodeKind::Switch { tier } => tier.to_string(),
    };
    let mut nodes: Vec<String> = fabric.nodes().iter().map(|node| format!("{}={}", node.name, kind(node.kind))).collect();
    nodes.sort();
    nodes.join(" ")
}

fn texts(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

fn lldp() -> Imported {
    let reports = [
        ("gpu-01", include_str!("fixtures/lldp/gpu-01.json")),
        ("gpu-02", include_str!("fixtures/lldp/gpu-02.json")),
        ("leaf1", include_str!("fixtures/lldp/leaf1.json")),
        ("leaf2", include_str!("fixtures/lldp/leaf2.json")),
    ];
    import::lldp::join(reports.map(|(system, text)| import::lldp::report(system, text).unwrap())).unwrap()
}

fn sonic() -> Imported {
    let documents = [("leaf1", include_str!("fixtures/sonic/leaf1.json")), ("spine1", include_str!("fixtures/sonic/spine1.json"))];
    Imported::merge(documents.map(|(stem, text)| import::sonic::config_db(stem, text).unwrap())).unwrap()
}

#[test]
fn slurm_trees_are_the_same_from_both_files() {
    let conf = import::slurm::topology_conf(include_str!("fixtures/slurm/topology.conf")).unwrap();
    let yaml = import::slurm::topology_yaml(include_str!("fixtures/slurm/topology.yaml"), None).unwrap();
    let with = options(&[], &["host-leaf=50G", "leaf-spine=400G*2"]);
    let (from_conf, said_of_conf) = conf.into_fabric(&with).unwrap();
    let (from_yaml, said_of_yaml) = yaml.into_fabric(&with).unwrap();
    assert_eq!(
        kinds(&from_conf),
        "gpu01=host gpu02=host gpu03=host gpu04=host gpu05=host gpu06=host gpu07=host gpu08=host rack1=1 rack2=1 root=2"
    );
    assert_eq!(kinds(&from_conf), kinds(&from_yaml));
    // 8 hosts, and two racks with two cables each.
    assert_eq!((from_conf.links().len(), from_yaml.links().len()), (24, 24));
    assert_eq!(
        texts(&said_of_conf),
        [r#"ignored-link-speed: line 2: LinkSpeed=400 of switch "rack1" is not used by Slurm and not used here"#]
    );
    assert_eq!(texts(&said_of_yaml), [r#"ignored-topology: "racks" is read; left out: nvlink, anything (--topology NAME chooses)"#]);
    assert_eq!(
        cables(&from_yaml).into_iter().filter(|line| line.contains("root")).collect::<Vec<_>>(),
        [
            "root:p0 - rack1:p4 400 Gb/s asserted",
            "root:p1 - rack1:p5 400 Gb/s asserted",
            "root:p2 - rack2:p4 400 Gb/s asserted",
            "root:p3 - rack2:p5 400 Gb/s asserted",
        ]
    );
}

#[test]
fn slurm_blocks_and_unknown_capacities() {
    let blocks = import::slurm::topology_yaml(include_str!("fixtures/slurm/topology.yaml"), Some("nvlink")).unwrap();
    let (fabric, findings) = blocks.into_fabric(&options(&[], &["core-tier4=1T"])).unwrap();
    // 8 hosts in 4 blocks; 2 switches for the size above.
    assert_eq!((fabric.hosts().count(), fabric.nodes().len(), fabric.links().len()), (8, 14, 2 * 12));
    assert!(fabric.links().iter().all(|link| link.capacity.is_none()));
    assert_eq!(
        texts(&findings),
        [
            "block-level: line 12, column 18: size 4 is read as 2 switches, each above up to 2 of the level below",
            r#"ignored-topology: "nvlink" is read; left out: racks, anything (--topology NAME chooses)"#,
            "disconnected: 2 parts with no cable between them: that of b1 (7 nodes), that of b3 (7 nodes)",
            "unknown-capacity: 8 cables host-leaf have no capacity, b1 - gpu01 first; state it with --assume-capacity host-leaf=RATE",
            "unknown-capacity: 4 cables leaf-spine have no capacity, b1 - blocks-of-4-0 first; state it with --assume-capacity leaf-spine=RATE",
            "assumption-unused: core-tier4=1000 Gb/s applies to no cable",
        ]
    );
}

/// Two cables to one leaf: the ports have MAC addresses, and the text that an operator gave all of them.
#[test]
fn a_description_that_several_ports_have_names_none_of_them() {
    let wire = |port: u8| {
        let id = format!(r#""id":{{"type":"mac","value":"02:00:00:00:00:{port:02}"}}"#);
        format!(
            r#"{{"eth{port}":{{"chassis":{{"leaf1":{{"id":{{"type":"mac","value":"02::1"}},"capability":[{{"type":"Bridge","enabled":true}}]}}}},"port":{{{id},"descr":"server port"}}}}}}"#
        )
    };
    let table = |ports: &[u8]| format!(r#"{{"lldp":{{"interface":[{}]}}}}"#, ports.iter().map(|p| wire(*p)).collect::<Vec<_>>().join(","));
    let reports = [("h1", table(&[1, 2])), ("h2", table(&[3]))];
    let imported = import::lldp::join(reports.map(|(system, text)| import::lldp::report(system, &text).unwrap())).unwrap();
    let (fabric, _) = imported.into_fabric(&options(&["h*"], &["host-leaf=50G"])).unwrap();
    let found = cables(&fabric);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found
            .iter()
            .zip(["h1:eth1 - leaf1:02:00:00:00:00:01", "h1:eth2 - leaf1:02:00:00:00:00:02", "h2:eth3 - leaf1:02:00:00:00:00:03"])
            .all(|(f, e)| f.starts_with(e)),
        "{found:?}"
    );
    // Where it is the only port with that text, it is the port's name.
    let one = import::lldp::join([import::lldp::report("h1", &table(&[1])).unwrap()]).unwrap();
    assert!(cables(&one.into_fabric(&options(&["h*"], &["host-leaf=50G"])).unwrap().0)[0].starts_with("h1:eth1 - leaf1:server port"));
}

#[test]
fn lldp_tables_of_three_shapes_meet() {
    let (fabric, findings) = lldp().into_fabric(&options(&[], &["leaf-spine=400G*2"])).unwrap();
    assert_eq!(
        cables(&fabric),
        [
            "gpu-01:ens1f0 - leaf1:Ethernet0 ? observed",
            "gpu-02:ens1f0 - leaf1:Ethernet4 ? observed",
            "gpu-02:ens1f1 - leaf2:Ethernet4 ? observed",
            "leaf1:Ethernet8 - spine1:Ethernet0 400 Gb/s asserted",
            // The chassis gives no name here; another table gives the name of its id.
            "leaf2:Ethernet8 - spine1:Ethernet4 400 Gb/s asserted",
        ]
    );
    assert_eq!(kinds(&fabric), "gpu-01=host gpu-02=host leaf1=1 leaf2=1 spine1=2");
    assert_eq!(
        texts(&findings),
        [
            "one-sided-link: leaf1:Ethernet8 - spine1:Ethernet0: no document of spine1 was read",
            "one-sided-link: leaf2:Ethernet8 - spine1:Ethernet4: no document of spine1 was read",
            r#"unknown-kind: "leaf2": nothing says whether it is a host; taken as a switch (--hosts PATTERN says otherwise)"#,
            "unknown-capacity: 3 cables host-leaf have no capacity, gpu-01 - leaf1 first; state it with --assume-capacity host-leaf=RATE",
            "parallel-ignored: leaf-spine=400 Gb/s * 2: 2 cables have named ports, so each is one cable and its number is as stated",
        ]
    );
}

#[test]
fn a_host_pattern_overrides_what_is_announced() {
    // A host that forwards for its containers announces Router.
    let text = r#"{"lldp":{"interface":{"Ethernet0":{"chassis":{"k8s-1":{"capability":{"type":"Router","enabled":true}}},"port":{"id":{"type":"ifname","value":"eth0"}}}}}}"#;
    let read = || import::lldp::join([import::lldp::report("leaf1", text).unwrap()]).unwrap();
    let (fabric, findings) = read().into_fabric(&options(&["k8s-*"], &["host-leaf=50G"])).unwrap();
    assert_eq!(kinds(&fabric), "k8s-1=host leaf1=1");
    assert_eq!(
        texts(&findings),
        [
            "one-sided-link: leaf1:Ethernet0 - k8s-1:eth0: no document of k8s-1 was read",
            r#"kind-override: "k8s-1" is a switch (observed) but matches a host pattern; taken as a host"#,
        ]
    );
    let (_, findings) = read().into_fabric(&options(&["k8s_*"], &[])).unwrap();
    assert_eq!(texts(&findings)[1], r#"pattern-unused: host pattern "k8s_*" matches no node"#);
    assert!(texts(&findings).iter().any(|f| f.starts_with("no-hosts: none of the 2 nodes")));
}

#[test]
fn sonic_configurations_of_both_forms() {
    let (fabric, findings) = sonic().into_fabric(&options(&[], &[])).unwrap();
    assert_eq!(
        cables(&fabric),
        [
            "leaf1:Ethernet0 - gpu-01:ens1f0 200 Gb/s intended",
            "leaf1:Ethernet4 - gpu-02:ens1f0 200 Gb/s intended",
            // 400 Gb/s at the leaf, 100 Gb/s at the spine, whose alias Eth1 is Ethernet0.
            "leaf1:Ethernet8 - spine1:Ethernet0 100 Gb/s intended",
            "spine1:Ethernet4 - leaf2:Ethernet8 400 Gb/s intended",
        ]
    );
    assert_eq!(kinds(&fabric), "gpu-01=host gpu-02=host leaf1=1 leaf2=1 spine1=2 spine2=2");
    assert_eq!(
        texts(&findings),
        [
            "port-down: leaf1:Ethernet12 is configured down; leaf1:Ethernet12 - spine2:Ethernet0 left out",
            "contradictory-capacity: leaf1:Ethernet8 - spine1:Ethernet0: 400 Gb/s (intended) and 100 Gb/s (intended); the lower, 100 Gb/s, is used",
            "disconnected: 2 parts with no cable between them: that of leaf1 (5 nodes), that of spine2 (1 nodes)",
        ]
    );
}

#[test]
fn observed_beats_intended_beats_asserted() {
    let tree = import::slurm::topology_conf(
        "SwitchName=leaf1 Nodes=gpu-[01-03]\nSwitchName=leaf2 Nodes=gpu-04\nSwitchName=spine1 Switches=leaf[1-2]",
    )
    .unwrap();
    let (fabric, findings) = Imported::merge([tree, sonic(), lldp()]).unwrap().into_fabric(&options(&[], &["host-leaf=50G*2"])).unwrap();
    assert_eq!(
        cables(&fabric),
        [
            // Seen on the wire, capacity from the configuration.
            "leaf1:Ethernet0 - gpu-01:ens1f0 200 Gb/s observed",
            "leaf1:Ethernet4 - gpu-02:ens1f0 200 Gb/s observed",
            "leaf1:Ethernet8 - spine1:Ethernet0 100 Gb/s observed",
            // Seen, nobody states a capacity: the assumption makes it asserted. One cable, not two.
            "leaf1:p0 - gpu-03:p0 50 Gb/s asserted",
            "leaf1:p1 - gpu-03:p1 50 Gb/s asserted",
            // The wire says Ethernet4, the plan of the other end agrees.
            "leaf2:Ethernet4 - gpu-02:ens1f1 50 Gb/s asserted",
            "leaf2:Ethernet8 - spine1:Ethernet4 400 Gb/s observed",
            // Only the tree knows gpu-03 and gpu-04.
            "leaf2:p0 - gpu-04:p0 50 Gb/s asserted",
            "leaf2:p1 - gpu-04:p1 50 Gb/s asserted",
        ]
    );
    let said = texts(&findings);
    assert!(said.contains(&"contradictory-capacity: leaf1:Ethernet8 - spine1:Ethernet0: 400 Gb/s (intended) and 100 Gb/s (intended); the lower, 100 Gb/s, is used".into()), "{said:#?}");
    assert!(!said.iter().any(|f| f.starts_with("one-sided") && f.contains("spine1:Ethernet0")), "{said:#?}");
}

#[test]
fn a_cable_observed_elsewhere_displaces_the_plan() {
    let plan = r#"{"PORT":{"Ethernet0":{"speed":"400000"}},"DEVICE_NEIGHBOR":{"Ethernet0":{"name":"spine1","port":"Ethernet0"}}}"#;
    let wire = r#"{"lldp":{"interface":{"Ethernet0":{"chassis":{"spine2":{"id":{"type":"mac","value":"02::2"}}},"port":{"id":{"type":"ifname","value":"Ethernet0"}}}}}}"#;
    let plan = import::sonic::config_db("leaf1", plan).unwrap();
    let wire = import::lldp::join([import::lldp::report("leaf1", wire).unwrap()]).unwrap();
    let (fabric, findings) = Imported::merge([plan, wire]).unwrap().into_fabric(&options(&["h*"], &[])).unwrap();
    assert_eq!(cables(&fabric), ["leaf1:Ethernet0 - spine2:Ethernet0 ? observed"]);
    assert_eq!(
        texts(&findings)[0],
        "contradictory-cable: leaf1:Ethernet0 - spine2:Ethernet0 (observed) and leaf1:Ethernet0 - spine1:Ethernet0 (intended) share a port; the first is kept"
    );
}

#[test]
fn ports_named_by_address_are_paired_by_elimination() {
    let table = |far: &str, mac: &str, own: &str| {
        format!(
            r#"{{"lldp":{{"interface":{{"{own}":{{"chassis":{{"{far}":{{"id":{{"type":"mac","value":"02::9"}}}}}},"port":{{"id":{{"type":"mac","value":"{mac}"}}}}}}}}}}}}"#
        )
    };
    let reports = [("a", table("b", "02::b", "eth1")), ("b", table("a", "02::a", "eth7"))];
    let imported = import::lldp::join(reports.map(|(system, text)| import::lldp::report(system, &text).unwrap())).unwrap();
    let (fabric, findings) = imported.into_fabric(&options(&["a"], &["host-leaf=50G"])).unwrap();
    assert_eq!(cables(&fabric), ["a:eth1 - b:eth7 50 Gb/s asserted"]);
    assert_eq!(
        texts(&findings),
        [
            r#"contradictory-name: chassis "02::9" announces several names: a, b; each is a node"#,
            "paired-by-elimination: a:eth1 - b:02::b and a:02::a - b:eth7 are taken as one cable: nothing else is left between the two",
        ]
    );
}

/// The order of a host's links numbers its NICs; a switch's document must not decide it.
#[test]
fn nics_are_in_the_order_of_their_names() {
    let ports: Vec<String> = [("Ethernet0", 10), ("Ethernet4", 2), ("Ethernet8", 1)]
        .map(|(local, nic)| format!(r#""{local}":{{"name":"gpu-01","port":"mlx5_{nic}"}}"#))
        .into();
    let text = format!(r#"{{"DEVICE_NEIGHBOR":{{{}}},"DEVICE_NEIGHBOR_METADATA":{{"gpu-01":{{"type":"Server"}}}}}}"#, ports.join(","));
    let (fabric, _) = import::sonic::config_db("leaf1", &text).unwrap().into_fabric(&options(&[], &[])).unwrap();
    let host = fabric.find("gpu-01").unwrap();
    let nics: Vec<&str> = fabric.links_from(host).iter().map(|&link| fabric.link(link).from.name.as_str()).collect();
    assert_eq!(nics, ["mlx5_1", "mlx5_2", "mlx5_10"]);
}

#[test]
fn topograph_layers_are_closest_first() {
    let imported = import::topograph::graph(include_str!("fixtures/topograph/graph.json")).unwrap();
    let (fabric, findings) = imported.into_fabric(&options(&[], &["host-leaf=400G", "leaf-spine=800G*4"])).unwrap();
    assert_eq!(kinds(&fabric), "leaf-a=1 leaf-b=1 node-1=host node-2=host node-3=host node-4=host node-5=host spine-a=2 spine-b=2");
    // 4 hosts, and leaf-a to one spine and leaf-b to two, with four cables each.
    assert_eq!(fabric.links().len(), 2 * (4 + 3 * 4));
    assert_eq!(
        texts(&findings),
        [
            r#"isolated-host: "node-5" has no network layers"#,
            r#"several-parents: "leaf-b" is below spine-a, spine-b; a cable to each is taken"#,
            "labels-ignored: labels of 2 instances (accelerator domains) are not part of the network graph",
            "disconnected: 2 parts with no cable between them: that of node-1 (8 nodes), that of node-5 (1 nodes)",
        ]
    );
}

#[test]
fn lingjun_names_mean_something_below_their_parent_only() {
    let imported = import::lingjun::topo_csv(include_str!("fixtures/lingjun/topo.csv")).unwrap();
    let (fabric, findings) = imported.into_fabric(&options(&[], &["host-leaf=200G*4"])).unwrap();
    assert_eq!(kinds(&fabric), "G1/P1/S1=1 G1/P1/S2=1 G1/P1=2 G1/P2/S1=1 G1/P2=2 G1=3 h01=host h02=host h03=host h04=host h05=host");
    // 5 hosts with 4 cables, 3 ASW, 2 PSW.
    assert_eq!(fabric.links().len(), 2 * (5 * 4 + 3 + 2));
    assert_eq!(
        texts(&findings)[0],
        "group-as-switch: 6 groups of switches are each imported as one switch, with one edge to the group above"
    );
}

/// The published file: 847 hosts below 119 ASWs, 3 PSWs and one DSW.
#[test]
fn lingjun_as_published() {
    let Ok(data) = std::env::var("ANTIPHASE_DATA") else {
        println!("skipped: set ANTIPHASE_DATA to a directory with traces/alibaba-lingjun-2023/topo.csv");
        return;
    };
    let text = std::fs::read_to_string(format!("{data}/traces/alibaba-lingjun-2023/topo.csv")).unwrap();
    let (fabric, _) = import::lingjun::topo_csv(&text).unwrap().into_fabric(&options(&[], &[])).unwrap();
    assert_eq!((fabric.hosts().count(), fabric.nodes().len()), (847, 847 + 119 + 3 + 1));
    assert_eq!(fabric.links().len(), 2 * (847 + 119 + 3));
    let hosts_of = |node| fabric.links_from(node).iter().filter(|&&l| fabric.node(fabric.link(l).to.node).kind == NodeKind::Host).count();
    let most = (0..fabric.nodes().len() as u32).map(|i| hosts_of(units::NodeId(i))).max();
    assert_eq!(most, Some(8));
}

#[test]
fn containerlab_nodes_are_what_group_label_or_kind_say() {
    let imported = import::containerlab::topology(include_str!("fixtures/containerlab/lab.clab.yml")).unwrap();
    let (fabric, findings) = imported.into_fabric(&options(&[], &["host-leaf=10G", "leaf-spine=10G"])).unwrap();
    assert_eq!(kinds(&fabric), "h1=host h2=host leaf1=1 leaf2=1 monitor=host spine1=2");
    assert_eq!(
        cables(&fabric),
        [
            "h1:eth1 - leaf1:eth2 10 Gb/s asserted",
            "h2:eth1 - leaf2:eth2 10 Gb/s asserted",
            "leaf1:eth1 - spine1:e1-1 10 Gb/s asserted",
            "leaf2:eth1 - spine1:e1-2 10 Gb/s asserted",
        ]
    );
    assert_eq!(
        texts(&findings),
        [
            r#"kind-by-rule: group "leaf" is a switch of tier 1: leaf1 (1 nodes)"#,
            r#"kind-by-rule: group "server" is a host: h1 (1 nodes)"#,
            r#"kind-by-rule: kind "linux" is a host: h2, monitor (2 nodes)"#,
            r#"kind-by-rule: kind "nokia_srlinux" is a switch: spine1 (1 nodes)"#,
            r#"kind-by-rule: label role="leaf" is a switch of tier 1: leaf2 (1 nodes)"#,
            "link-left-out: line 27, column 18: the link to host:leaf1-eth9 leaves the lab; left out",
            r#"link-left-out: a link of type "mgmt-net" has one end in the lab; left out"#,
            "disconnected: 2 parts with no cable between them: that of h1 (5 nodes), that of monitor (1 nodes)",
        ]
    );
}
