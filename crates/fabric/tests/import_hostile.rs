//! Named hostile documents: each ends in one line that names place and value, at once.

use std::time::{Duration, Instant};

use antiphase_fabric::{
    FabricError,
    import::{self, BuildOptions, Imported},
};

/// A parser that hangs or squares its work takes minutes on these; the bound is wide because the
/// machine may be busy.
const AT_ONCE: Duration = Duration::from_secs(10);

type Importer = fn(&str) -> Result<Imported, FabricError>;

const SLURM_YAML: Importer = |text| import::slurm::topology_yaml(text, None);
const SLURM_CONF: Importer = |text| import::slurm::topology_conf(text);
const LLDP: Importer = |text| import::lldp::join([import::lldp::report("own", text)?]);
const SONIC: Importer = |text| import::sonic::config_db("own", text);
const TOPOGRAPH: Importer = |text| import::topograph::graph(text);
const LINGJUN: Importer = |text| import::lingjun::topo_csv(text);
const CONTAINERLAB: Importer = |text| import::containerlab::topology(text);

fn check(importer: Importer, text: &str, problem: &str) {
    let start = Instant::now();
    let options = BuildOptions { name: "hostile".into(), ..BuildOptions::default() };
    let outcome = importer(text).and_then(|imported| imported.into_fabric(&options));
    let said = outcome.expect_err("a hostile document is refused").to_string();
    let shown: String = text.chars().take(80).collect();
    assert_eq!(said, problem, "{shown}");
    assert!(!said.contains('\n') && said.len() < 400, "{said}");
    assert!(start.elapsed() < AT_ONCE, "{shown}: {:?}", start.elapsed());
}

#[test]
fn yaml_bombs() {
    // Nine levels of nine aliases each are 9^9 = 387 million scalars.
    let mut laughs = String::from("a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n");
    for i in 1..9 {
        let again = format!("*a{}", i - 1);
        laughs.push_str(&format!("a{i}: &a{i} [{}]\n", [again.as_str(); 9].join(",")));
    }
    check(
        CONTAINERLAB,
        &format!("{laughs}topology: {{nodes: {{}}}}"),
        r#"line 6, column 14: alias replay limit exceeded: total_replayed_events=200001 > 200000, at "*a4""#,
    );
    check(SLURM_YAML, &format!("{laughs}topology: *a8"), r#"line 1, column 1: expected sequence start, at "a0: &a0 [lol""#);
    check(SLURM_YAML, &"[".repeat(1_000_000), "line 1, column 33: recursion limit exceeded");
    check(SLURM_YAML, &"- ".repeat(1_000_000), r#"line 1, column 3: expected mapping start, at "- - - - - - - - - - - - - - - - - - - -""#);
    check(
        CONTAINERLAB,
        &format!("topology: {}", "{a: ".repeat(100_000)),
        r#"line 1, column 135: nested 33 levels deep; no deeper is read here, at "{a: {a: {a: {a: {a: {a: {a: {a: {a: {a:""#,
    );
    check(SLURM_YAML, "- topology: &a [*a]", r#"line 1, column 16: expected string scalar, at "[*a""#);
    check(
        SLURM_YAML,
        "- topology: t\n  topology: u\n  flat: true",
        r#"line 2, column 3: duplicate mapping key: topology, at "topology: u""#,
    );
    check(
        CONTAINERLAB,
        "topology:\n  nodes:\n    a: {kind: linux}\n    a: {kind: linux}",
        r#"line 4, column 5: duplicate mapping key: a, at "a: {kind: linux""#,
    );
    check(SLURM_YAML, &format!("[{}]", "a,".repeat(1_000_000)), "line 1, column 2: expected mapping start");
    check(SLURM_YAML, "- topology: t\n  block:\n    block_sizes: [-1]\n    blocks: []", r#"line 3, column 18: "-1" is not a block size"#);
    check(
        SLURM_YAML,
        "- topology: t\n  block:\n    block_sizes: [99999999999999999999999]\n    blocks: []",
        r#"line 3, column 18: "99999999999999999999999" is not a block size"#,
    );
    check(
        SLURM_YAML,
        "- topology: t\n  colour: red",
        r#"line 2, column 3: unknown field `colour`, expected one of topology, cluster_default, tree, block, flat, ring, torus3d, at "colour: red""#,
    );
    check(SLURM_YAML, "%YAML 9.9\n---\n\u{0}", "line 1, column 1: unsupported YAML major version");
    check(SLURM_YAML, "", "document: no topology is declared");
    check(SLURM_YAML, "a: b", r#"line 1, column 1: expected sequence start, at "a: b""#);
    check(
        CONTAINERLAB,
        "topology: {nodes: {a: }, links: [{endpoints: [1, 2]}]}",
        r#"line 1, column 47: an endpoint is "NODE:INTERFACE" or {node: NODE, interface: INTERFACE}, at "1""#,
    );
}

#[test]
fn json_bombs() {
    check(LLDP, &"[".repeat(1_000_000), "line 1, column 128: recursion limit exceeded");
    check(LLDP, &r#"{"lldp":"#.repeat(100_000), "line 1, column 1017: recursion limit exceeded");
    check(
        SONIC,
        r#"{"PORT":{"Ethernet0":{"speed":"1"},"Ethernet0":{"speed":"2"}}}"#,
        r#"line 1, column 61: key "Ethernet0" occurs twice in one object"#,
    );
    check(SONIC, r#"{"PORT":{"Ethernet0":{"speed":"-400000"}}}"#, r#"$.PORT.Ethernet0.speed: a speed in Mb/s expected, found "-400000""#);
    check(SONIC, r#"{"PORT":{"Ethernet0":{"speed":-1}}}"#, "$.PORT.Ethernet0.speed: a speed in Mb/s expected, found -1");
    check(
        SONIC,
        r#"{"PORT":{"Ethernet0":{"speed":"99999999999999999999"}}}"#,
        r#"$.PORT.Ethernet0.speed: a speed in Mb/s expected, found "99999999999999999999""#,
    );
    check(
        SONIC,
        r#"{"PORT":{"Ethernet0":{"speed":18446744073709551615}}}"#,
        "$.PORT.Ethernet0.speed: a speed in Mb/s expected, found 18446744073709551615",
    );
    check(SONIC, r#"{"PORT":{"Ethernet0":{"speed":1e3}}}"#, "$.PORT.Ethernet0.speed: a speed in Mb/s expected, found 1000");
    check(SONIC, r#"{"PORT":{"Ethernet0":{"speed":"0"}}}"#, r#"$.PORT.Ethernet0.speed: a speed in Mb/s expected, found "0""#);
    check(SONIC, r#"{"PORT":{"Ethernet0":{"speed":""}}}"#, r#"$.PORT.Ethernet0.speed: a speed in Mb/s expected, found """#);
    check(SONIC, r#"{"PORT":[]}"#, "$.PORT: an object expected, found a list of 0");
    check(SONIC, r#"{"PORT":{"":{}}}"#, "$.PORT: empty name");
    check(SONIC, r#"{"DEVICE_NEIGHBOR":{"Ethernet0":{"port":"x"}}}"#, r#"$.DEVICE_NEIGHBOR.Ethernet0: neither "name" nor "local_port""#);
    check(
        SONIC,
        r#"{"DEVICE_NEIGHBOR":{"Ethernet0":{"name":"a\u0007b","port":"x"}}}"#,
        r#"$.DEVICE_NEIGHBOR.Ethernet0: name "a\u{7}b" has the character '\u{7}', which nobody sees"#,
    );
    check(
        SONIC,
        r#"{"DEVICE_NEIGHBOR":{"Ethernet0":{"name":{},"port":"x"}}}"#,
        "$.DEVICE_NEIGHBOR.Ethernet0.name: a text expected, found an object of 0 keys",
    );
    check(SONIC, "{}", "$: no PORT and no DEVICE_NEIGHBOR: not a config_db document");
    check(SONIC, "[1e999]", "line 1, column 6: number out of range");
    check(SONIC, "\u{feff}{}", "$: no PORT and no DEVICE_NEIGHBOR: not a config_db document");
    check(LLDP, r#"{"lldp":7}"#, "$.lldp: an object expected, found 7");
    check(LLDP, r#"{"lldp":{"interface":{"eth0":3}}}"#, "$.lldp.interface.eth0: an object expected, found 3");
    check(
        LLDP,
        r#"{"lldp":{"interface":{"eth0":{"chassis":{"a":{},"b":{}}}}}}"#,
        "$.lldp.interface.eth0.chassis: neither a chassis id nor one system name",
    );
    check(LLDP, r#"{"lldp":{"interface":{"eth0":{"chassis":{"a":5}}}}}"#, "$.lldp.interface.eth0.chassis.a: an object expected, found 5");
    check(
        LLDP,
        r#"{"lldp":{"interface":{"eth0":{"chassis":{"id":{"type":"mac","value":{}}}}}}}"#,
        "$.lldp.interface.eth0.chassis.id: a text expected, found an object of 2 keys",
    );
    check(
        LLDP,
        &format!(r#"{{"lldp":{{"interface":{{"eth0":{{"chassis":{{"{}":{{}}}}}}}}}}}}"#, "n".repeat(256)),
        r#"$.lldp.interface.eth0.chassis["nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"... (256 bytes)]: name "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"... (256 bytes) is longer than 255 bytes"#,
    );
    check(
        TOPOGRAPH,
        r#"{"instances":[{"id":"a","network_layers":["x","y"]},{"id":"b","network_layers":["y","x"]}]}"#,
        r#"$.instances[1].network_layers[0]: "y" is in layer 1 here and in layer 2 elsewhere"#,
    );
    check(
        TOPOGRAPH,
        r#"{"instances":[{"id":"a","network_layers":["a"]}]}"#,
        r#"$.instances[0].network_layers[0]: "a" is in layer 1 here and in layer 0 elsewhere"#,
    );
    check(
        TOPOGRAPH,
        r#"{"instances":[{"id":"a","network_layers":["b"]},{"id":"b"}]}"#,
        r#"$.instances[1].id: "b" is an instance and also a switch"#,
    );
    check(TOPOGRAPH, r#"{"instances":[{"id":"a"},{"id":"a"}]}"#, r#"$.instances[1].id: "a" is listed twice"#);
    check(TOPOGRAPH, r#"{"instances":[{"id":1}]}"#, "$.instances[0].id: a text expected, found 1");
    check(TOPOGRAPH, r#"{"instances":[{}]}"#, r#"$.instances[0]: no "id""#);
    check(TOPOGRAPH, r#"{"instances":{}}"#, "$.instances: a list expected, found an object of 0 keys");
    check(
        TOPOGRAPH,
        &format!(r#"{{"instances":[{{"id":"a","network_layers":[{}"z"]}}]}}"#, (0..10).map(|i| format!("\"l{i}\",")).collect::<String>()),
        "$.instances[0].network_layers: more than 10 layers",
    );
}

#[test]
fn records_and_host_lists() {
    check(
        SLURM_CONF,
        "SwitchName=s Nodes=n[0-999999999]",
        r#"line 1: host list "n[0-999999999]": 1000000000 names are over the limit of 524288 nodes in a fabric"#,
    );
    check(
        SLURM_CONF,
        "SwitchName=s Nodes=n[1-1048576]",
        r#"line 1: host list "n[1-1048576]": 1048576 names are over the limit of 524288 nodes in a fabric"#,
    );
    check(SLURM_CONF, "SwitchName=s Nodes=n[1-524288]", "nodes: 524289 is over the limit of 524288");
    check(
        SLURM_CONF,
        "SwitchName=s Nodes=n[18446744073709551614-18446744073709551616]",
        r#"line 1: host list "n[18446744073709551614-18446744073709551616]": "18446744073709551614-18446744073709551616" is not a number or a range"#,
    );
    check(
        SLURM_CONF,
        &"SwitchName=s Nodes=n[1-500000]\n".repeat(3),
        r#"line 3: host list "n[1-500000]": 500000 names more are over the limit of 1048576 in one document"#,
    );
    check(SLURM_CONF, &"\\\n".repeat(1_000_000), "document: neither a switch nor a block is declared");
    check(
        SLURM_CONF,
        &"=".repeat(1_000_000),
        r#"line 1: "============================================================"... (1000000 bytes) is not Key=Value"#,
    );
    check(SLURM_CONF, &(0..200_000).map(|i| format!("a{i}=1 ")).collect::<String>(), "line 1: more than 16 keys in one record");
    check(
        SLURM_CONF,
        &format!("SwitchName=s Nodes={}", "[".repeat(1_000_000)),
        r#"line 1: host list "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["... (1000000 bytes): '[' inside '['"#,
    );
    check(
        SLURM_CONF,
        &format!("SwitchName=s Nodes={}", ",".repeat(1_000_000)),
        r#"line 1: host list ",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"... (1000000 bytes): empty item"#,
    );
    let ring: String = (0..30_000).map(|i| format!("SwitchName=s{i} Switches=s{}\n", (i + 1) % 30_000)).collect();
    check(
        SLURM_CONF,
        &ring,
        "line 1: switches are above themselves: s0, s29999, s29998, s29997, s29996, s29995, s29994, s29993 and 29992 more",
    );
    let chain: String = (0..30_000).map(|i| format!("SwitchName=s{i} Switches=s{}\n", i + 1)).collect();
    check(SLURM_CONF, &format!("{chain}SwitchName=s30000 Nodes=h"), r#"line 29981: switch "s29980" is above 20 levels of switches"#);
    check(
        SLURM_CONF,
        "SwitchName=r Switches=a,a\nSwitchName=a Nodes=h",
        r#"line 1: switch "a" is a child of "r" and of "r" (line 1); a tree has one parent"#,
    );
}

#[test]
fn tables_and_labs() {
    check(LINGJUN, "", r#"line 1: no column ip in """#);
    check(LINGJUN, "ip,DSW,PSW", r#"line 1: no column ASW in "ip,DSW,PSW""#);
    check(LINGJUN, "ip,DSW,PSW,ASW", "document: no host is listed");
    check(LINGJUN, "ip,DSW,PSW,ASW\nh,G,P", "line 2: 3 fields, expected 4");
    check(LINGJUN, "ip,DSW,PSW,ASW\nh,G,P,S\nh,G,P,S", r#"line 3: "h" is listed twice"#);
    check(LINGJUN, "ip,DSW,PSW,ASW\nh,G,,S", "line 2, PSW: empty name");
    check(
        LINGJUN,
        &format!("ip,DSW,PSW,ASW\nh,{0},{0},S", "x".repeat(200)),
        r#"line 2: name "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"... (401 bytes) is longer than 255 bytes"#,
    );
    check(
        LINGJUN,
        &format!("ip,DSW,PSW,ASW\nh,G,P,\"{}", "x,".repeat(1_000_000)),
        r#"line 2, ASW: name "x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,"... (2000000 bytes) is longer than 255 bytes"#,
    );
    check(LINGJUN, &format!("ip,DSW,PSW,ASW{}", ",".repeat(61)), "line 1: more than 64 fields in a row");
    check(LINGJUN, &format!("ip,DSW,PSW,ASW\nh,G,P{}", ",\"\"".repeat(100)), "line 2: more than 64 fields in a row");
    // A quote within a field hides nothing, and one that begins it hides lines too.
    check(LINGJUN, &format!("ip,DSW,PSW,ASW\nh,G,P\"{}", ",".repeat(100)), "line 2: more than 64 fields in a row");
    check(LINGJUN, &format!("ip,DSW,PSW,ASW\n\"\"\"\n{}\",G,,S", ",".repeat(100)), "line 2, PSW: empty name");
    check(
        CONTAINERLAB,
        "topology: {nodes: {a: }, links: [{endpoints: [\"a:eth0\"]}]}",
        "line 1, column 46: a link has two endpoints, not 1",
    );
    check(CONTAINERLAB, "topology: {nodes: {a: }, links: [{endpoints: [\"a:e\", \"b:e\"]}]}", r#"line 1, column 46: unknown node "b""#);
    check(
        CONTAINERLAB,
        "topology: {nodes: {a: }, links: [{endpoints: [\"a\", \"b:e\"]}]}",
        r#"line 1, column 46: endpoint "a" is not NODE:INTERFACE"#,
    );
    check(
        CONTAINERLAB,
        "topology: {nodes: {a: , b: , c: }, links: [{endpoints: [\"a:e\", \"b:e\"]}, {endpoints: [\"a:e\", \"c:e\"]}]}",
        r#"line 1, column 85: interface e of "a" has two links"#,
    );
    check(CONTAINERLAB, "name: x", r#"line 1, column 1: missing field `topology`, at "name: x""#);
    check(SLURM_CONF, "SwitchName=a,b Nodes=h", r#"line 1: a switch has one name, not the list "a,b""#);
    check(
        SLURM_YAML,
        "- topology: t\n  block: {block_sizes: [4, 6], blocks: [{block: b, nodes: \"n[1-4]\"}]}",
        "line 2, column 24: block size 6 is not above 4 and a power of two times 4",
    );
    check(LINGJUN, &"x".repeat((64 << 20) + 1), "document: 67108865 bytes are over the limit of 64 MiB");
}
