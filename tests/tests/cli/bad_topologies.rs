//! Documents of other programs that `antiphase fabric import` refuses.

use crate::refusal::refusals;

#[test]
fn slurm_topology_yaml() {
    let tree = |switches: &str| format!("- topology: t\n  tree:\n    switches:\n{switches}");
    let cases = [
        ("a cycle", tree("    - {switch: a, children: b}\n    - {switch: b, children: a}\n")),
        ("a switch above itself", tree("    - {switch: a, children: a}\n")),
        ("two parents", tree("    - {switch: a, children: c}\n    - {switch: b, children: c}\n    - {switch: c, nodes: n}\n")),
        ("unknown child", tree("    - {switch: a, children: b}\n")),
        ("switch twice", tree("    - {switch: a, nodes: n}\n    - {switch: a, nodes: m}\n")),
        ("a switch as a node", tree("    - {switch: a, nodes: a}\n")),
        ("nodes and children", tree("    - {switch: a, nodes: n, children: b}\n    - {switch: b, nodes: m}\n")),
        ("a billion nodes", tree("    - {switch: a, nodes: 'n[0-999999999]'}\n")),
        ("brackets that stay open", tree("    - {switch: a, nodes: 'n[0-'}\n")),
        ("unknown field", tree("    - {switch: a, nodes: n, speed: 1}\n")),
        ("topology twice", "- {topology: t, flat: true}\n- {topology: t, flat: true}\n".into()),
        ("flat", "- {topology: t, flat: true}\n".into()),
        ("no topology", "[]\n".into()),
    ];
    refusals("slurm-yaml", &["fabric", "import", "slurm-yaml", "DOCUMENT"], cases);
    let other = [("an unknown topology", tree("    - {switch: a, nodes: n}\n"))];
    refusals("slurm-yaml-topology", &["fabric", "import", "slurm-yaml", "DOCUMENT", "--topology", "u"], other);
}

#[test]
fn slurm_topology_conf() {
    let many: String = (0..400_000).map(|i| format!("SwitchName=s{i} Nodes=h{i}\n")).collect();
    let chain: String = (0..200_000).map(|i| format!("SwitchName=s{i} Switches=s{}\n", (i + 1) % 200_000)).collect();
    let cases = [
        ("a cycle", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n".to_owned()),
        ("unknown child", "SwitchName=a Switches=b\n".into()),
        ("switch twice", "SwitchName=a Nodes=n\nSwitchName=a Nodes=m\n".into()),
        ("not a record", "Hello=World\n".into()),
        ("no value", "SwitchName\n".into()),
        ("unknown key", "SwitchName=a Colour=red\n".into()),
        ("key twice", "SwitchName=a Nodes=n Nodes=m\n".into()),
        ("a billion nodes", "SwitchName=a Nodes=n[0-999999999]\n".into()),
        ("2^64 nodes eight times over", format!("SwitchName=a Nodes=n{}\n", "[0-18446744073709551615]".repeat(8))),
        ("switches and blocks", "SwitchName=a Nodes=n\nBlockName=b Nodes=m\n".into()),
        ("more nodes than a fabric has", many),
        ("a cycle of 200,000", chain),
    ];
    refusals("slurm-conf", &["fabric", "import", "slurm-conf", "DOCUMENT"], cases);
}

#[test]
fn lldp() {
    let cases = [
        ("another document", r#"{"PORT": {}}"#.to_owned()),
        ("a list of numbers", r#"{"lldp": [1]}"#.into()),
        ("a chassis that is a number", r#"{"lldp":{"interface":{"eth0":{"chassis":7,"port":{}}}}}"#.into()),
        ("key twice", r#"{"lldp":{"interface":{"eth0":{},"eth0":{}}}}"#.into()),
        ("a port name with an escape", r#"{"lldp":{"interface":{"\u001b[2J":{"chassis":{"a":{}}}}}}"#.into()),
        ("five million values", format!("{{\"lldp\":[{}]}}", ["1"].repeat(5_000_000).join(","))),
    ];
    refusals("lldp", &["fabric", "import", "lldp", "DOCUMENT"], cases);
}

#[test]
fn sonic() {
    let cases = [
        ("another document", r#"{"lldp": {}}"#),
        ("negative speed", r#"{"PORT":{"Ethernet0":{"speed":"-1"}}}"#),
        ("speed of zero", r#"{"PORT":{"Ethernet0":{"speed":"0"}}}"#),
        ("speed over 64 bits", r#"{"PORT":{"Ethernet0":{"speed":"99999999999999999999"}}}"#),
        ("speed in words", r#"{"PORT":{"Ethernet0":{"speed":"fast"}}}"#),
        ("ports that are a list", r#"{"PORT":[]}"#),
        ("port twice", r#"{"PORT":{"Ethernet0":{},"Ethernet0":{}}}"#),
        ("neighbour that is a number", r#"{"DEVICE_NEIGHBOR":{"Ethernet0":{"name":7,"port":"e"}}}"#),
    ];
    refusals("sonic", &["fabric", "import", "sonic", "DOCUMENT"], cases);
}

#[test]
fn topograph() {
    let layers: Vec<String> = (0..11).map(|i| format!("\"s{i}\"")).collect();
    let cases = [
        ("another document", r#"{"nodes": []}"#.to_owned()),
        ("no id", r#"{"instances":[{"network_layers":["a"]}]}"#.into()),
        ("instance twice", r#"{"instances":[{"id":"n","network_layers":["a"]},{"id":"n","network_layers":["b"]}]}"#.into()),
        (
            "one switch in two layers",
            r#"{"instances":[{"id":"n","network_layers":["a","b"]},{"id":"m","network_layers":["b","a"]}]}"#.into(),
        ),
        ("an instance as a switch", r#"{"instances":[{"id":"n","network_layers":["n"]}]}"#.into()),
        ("eleven layers", format!(r#"{{"instances":[{{"id":"n","network_layers":[{}]}}]}}"#, layers.join(","))),
        ("a layer that is a number", r#"{"instances":[{"id":"n","network_layers":[1]}]}"#.into()),
    ];
    refusals("topograph", &["fabric", "import", "topograph", "DOCUMENT"], cases);
}

#[test]
fn lingjun() {
    let cases = [
        ("another header", "a,b\n1,2\n".to_owned()),
        ("a short row", "ip,DSW,PSW,ASW\nh1,a,b\n".into()),
        ("a long row", "ip,DSW,PSW,ASW\nh1,a,b,c,d\n".into()),
        ("an empty name", "ip,DSW,PSW,ASW\nh1,a,,c\n".into()),
        ("host twice", "ip,DSW,PSW,ASW\nh1,a,b,c\nh1,a,b,d\n".into()),
        ("a quote that stays open", format!("ip,DSW,PSW,ASW\n\"h1,{}", "a".repeat(1_000_000))),
        ("a name of 300 bytes", format!("ip,DSW,PSW,ASW\n{},a,b,c\n", "h".repeat(300))),
    ];
    refusals("lingjun", &["fabric", "import", "lingjun", "DOCUMENT"], cases);
}

#[test]
fn containerlab() {
    let lab = |links: &str| format!("topology:\n  nodes:\n    a: {{kind: linux}}\n    b: {{kind: bridge}}\n  links:\n{links}");
    let cases = [
        ("another document", "name: x\n".to_owned()),
        ("unknown node", lab("    - endpoints: [\"a:eth1\", \"c:eth1\"]\n")),
        ("one end", lab("    - endpoints: [\"a:eth1\"]\n")),
        ("no interface", lab("    - endpoints: [\"a\", \"b:eth1\"]\n")),
        ("interface twice", lab("    - endpoints: [\"a:eth1\", \"b:eth1\"]\n    - endpoints: [\"a:eth1\", \"b:eth2\"]\n")),
        ("node twice", "topology:\n  nodes:\n    a: {kind: linux}\n    a: {kind: linux}\n".into()),
    ];
    refusals("containerlab", &["fabric", "import", "containerlab", "DOCUMENT"], cases);
}
