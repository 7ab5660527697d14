//! Switches that send sFlow: what they say stands beside what is planned. The datagrams are those of a real switch, as they were
//! recorded, and others that Python makes of the published structures; all come over UDP.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what cannot be had is a failed test")]

mod support;

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;
use support::{Service, WAIT, program};

/// Sends counters of leaf1's ports, two seconds apart: index 1 sends 25 Gbit/s. Or what nobody can read, an agent that is not
/// configured, and a flow sample.
const SWITCH: &str = r#"
import socket, struct, sys, time
PORT, PART = int(sys.argv[1]), sys.argv[2]
def sample(index, octets_in, octets_out, name, speed=50 * 10**9):
    generic = struct.pack("!IIQII Q6I Q6I".replace(" ", ""), index, 6, speed, 1, 1, octets_in, *[0] * 6, octets_out, *[0] * 6)
    assert len(generic) == 88
    text = name.encode()
    text = struct.pack("!I", len(text)) + text + b"\0" * (-len(text) % 4)
    records = struct.pack("!II", 1, len(generic)) + generic + struct.pack("!II", 1005, len(text)) + text
    body = struct.pack("!III", 1, index, 2) + records
    return struct.pack("!II", 2, len(body)) + body
def packet(uptime, *samples, agent="127.0.0.1"):
    return struct.pack("!II4sIIII", 5, 1, socket.inet_aton(agent), 0, 1, uptime, len(samples)) + b"".join(samples)
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
send = lambda data: out.sendto(data, ("127.0.0.1", PORT))
if PART == "counters":
    send(packet(1000, sample(1, 0, 10**9, "Ethernet0"), sample(7, 0, 0, "Management0")))
    time.sleep(2)
    # 2 s at 25 Gbit/s, and 1 Gbit/s back.
    send(packet(3000, sample(1, 25 * 10**7, 10**9 + 25 * 10**9 // 4, "Ethernet0"), sample(7, 0, 0, "Management0")))
else:
    send(b"junk")
    send(packet(9, agent="192.0.2.77"))
    send(packet(9, struct.pack("!II", 1, 8) + b"\0" * 8))
"#;

const FABRIC: &str = "schema: antiphase.fabric/v1
defaults: {capacity: 50G, provenance: asserted}
hosts: [h1, h2, h3, h4]
switches: [{name: leaf1, tier: 1}, {name: leaf2, tier: 1}]
cables:
- {ends: [h1:eth0, leaf1:p1]}
- {ends: [h2:eth0, leaf1:p2]}
- {ends: [h3:eth0, leaf2:p1]}
- {ends: [h4:eth0, leaf2:p2]}
- {ends: [leaf1:Ethernet0, leaf2:Ethernet0]}
";

fn send(port: u16, part: &str) {
    let sent = Command::new("python3").args(["-c", SWITCH, &port.to_string(), part]).status();
    assert!(sent.is_ok_and(|status| status.success()), "python3, which make setup installs, sends sFlow");
}

fn until(service: &Service, what: &str, found: impl Fn() -> bool) {
    let until = Instant::now() + WAIT;
    while !found() {
        assert!(Instant::now() < until, "{what}\n{}", service.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_switches_say_stands_beside_what_is_planned() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let config = |more: &str| {
        let text = format!("[sflow]\nlisten = \"127.0.0.1:0\"\n[sflow.exporters.leaf1]\naddress = \"127.0.0.1\"\n{more}");
        fs::write(at("a.toml"), text).unwrap();
    };
    fs::write(at("fabric.yaml"), FABRIC).unwrap();
    config("");
    let mut command = program();
    let mut service =
        Service::with(command.arg("--config").arg(at("a.toml")).arg("--state").arg(at("s.redb")).arg("--fabric").arg(at("fabric.yaml")));
    // Any free port: the service says which.
    let listen: SocketAddr = service.ask("GET", "/v1alpha1/exporters", "").1["listen"].as_str().unwrap().parse().unwrap();
    let port = listen.port();
    assert_eq!(service.commit("a", &["h2", "h3"]).0, 200);
    let links = |query: &str| service.ask("GET", &format!("/v1alpha1/links{query}"), "").1;
    let of = |links: &Value, from: &str, to: &str| {
        links["links"]
            .as_array()
            .unwrap()
            .iter()
            .find(|link| link["from_node"] == from && link["to_node"] == to)
            .cloned()
            .unwrap_or_default()
    };
    let before = of(&links(""), "leaf1", "leaf2");
    assert!(before["observed_mbps"].is_null() && before["mean_demand_ratio"].as_f64().unwrap() > 0.0, "{before}");
    assert_eq!(links("?observed=true")["total"], 0);
    let map = |query: &str| service.get(&format!("/v1alpha1/fabric/map.svg?{query}")).body;
    assert!(!map("pods=true").contains("observed"), "{}", map("pods=true"));

    send(port, "counters");
    until(&service, "no load is observed", || !of(&links(""), "leaf1", "leaf2")["observed_mbps"].is_null());
    let link = of(&links(""), "leaf1", "leaf2");
    assert!(
        link["observed_mbps"] == 25_000 && link["observed_ratio"] == 0.5 && link["observed_age_ms"].as_u64().unwrap() < 6_000,
        "{link}"
    );
    let (planned, more) = (link["mean_demand_ratio"].as_f64().unwrap(), link["observed_excess_ratio"].as_f64().unwrap());
    assert!(planned == before["mean_demand_ratio"] && (more - (0.5 - planned)).abs() < 1e-9, "{link}");
    let fullest = links("?observed=true");
    assert!(fullest["total"] == 2 && fullest["links"][0]["id"] == link["id"] && fullest["links"][0]["jobs"][0] == "a", "{fullest}");
    assert_eq!(fullest["links"][1]["observed_mbps"], 1_000, "{fullest}");

    // The map says it too: of the switch's cell, and of its neighbours.
    let cells = map("pods=true");
    assert!(cells.contains("; observed 50 % on 1 link, planned there "), "{cells}");
    assert!(map("switch=leaf1").contains("; observed 50 % on 1 link, planned there "), "{}", map("switch=leaf1"));

    send(port, "others");
    let metrics = || service.get("/metrics").body;
    until(&service, "the flow sample does not come", || metrics().contains("antiphase_sflow_samples_total{kind=\"flow\"} 1\n"));
    let (metrics, id) = (metrics(), link["id"].as_str().unwrap());
    let wanted = [
        format!("antiphase_link_observed_ratio{{link=\"{id}\"}} 0.5\n"),
        format!("antiphase_link_observed_excess_ratio{{link=\"{id}\"}} {more}\n"),
        "antiphase_observed_links 2\n".into(),
        "antiphase_sflow_exporters{state=\"heard\"} 1\n".into(),
        "antiphase_sflow_datagrams_total{result=\"taken\"} 3\n".into(),
        "antiphase_sflow_datagrams_total{result=\"malformed\"} 1\n".into(),
        "antiphase_sflow_datagrams_total{result=\"unknown\"} 1\n".into(),
    ];
    wanted.iter().for_each(|line| assert!(metrics.contains(line), "{line}{metrics}"));
    assert!(!metrics.contains("192.0.2.77"), "a stranger has no series: {metrics}");
    let exporters = service.ask("GET", "/v1alpha1/exporters", "").1;
    assert_eq!(
        (&exporters["exporters"][0]["links"], &exporters["unknown"][0]["address"]),
        (&2.into(), &"192.0.2.77".into()),
        "{exporters}"
    );
    assert_eq!(exporters["exporters"][0]["notes"][0], "interface \"Management0\" is no port of the fabric");

    // What the configuration says of an exporter changes without a restart, and what was said under another one is gone.
    config("[sflow.exporters.leaf1.ports]\np1 = \"Ethernet0\"\n");
    service.signal(Signal::HUP);
    service.wait_for_log("configuration reloaded");
    until(&service, "it is still observed", || links("?observed=true")["total"] == 0);
    service.signal(Signal::TERM);
    assert!(service.wait().success());
}

/// Datagrams of Open vSwitch whose clock, in milliseconds, is one of these. A comment in the file says how they were recorded.
fn recorded(clocks: &[u32]) -> Vec<Vec<u8>> {
    let lines = include_str!("sflow/open-vswitch.txt").lines().filter_map(|line| line.strip_prefix("datagram ")?.split_once(' '));
    let byte = |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let datagrams = lines.map(|(_, hex)| (0..hex.len()).step_by(2).map(|at| byte(hex, at)).collect::<Vec<u8>>());
    let found: Vec<_> = datagrams.filter(|bytes| clocks.contains(&u32::from_be_bytes(bytes[20..24].try_into().unwrap()))).collect();
    assert_eq!(found.len(), clocks.len());
    found
}

#[test]
fn a_recording_of_a_real_switch_is_shown_as_what_its_links_carry() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let fabric = "schema: antiphase.fabric/v1\ndefaults: {capacity: 10G}\nhosts: [h1, h2]\nswitches: [{name: leaf1, tier: 1}]\ncables:\n\
        - {ends: [h1:eth0, leaf1:Ethernet0]}\n- {ends: [h2:eth0, leaf1:Ethernet4]}\n";
    fs::write(at("fabric.yaml"), fabric).unwrap();
    let exporter = "address = \"192.0.2.1\"\nsources = [\"127.0.0.1\"]\n";
    fs::write(at("a.toml"), format!("[sflow]\nlisten = \"127.0.0.1:0\"\n[sflow.exporters.leaf1]\n{exporter}")).unwrap();
    let mut command = program();
    let service =
        Service::with(command.arg("--config").arg(at("a.toml")).arg("--state").arg(at("s.redb")).arg("--fabric").arg(at("fabric.yaml")));
    let exporters = || service.ask("GET", "/v1alpha1/exporters", "").1;
    let listen: SocketAddr = exporters()["listen"].as_str().unwrap().parse().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let send = |clocks: &[u32]| recorded(clocks).iter().for_each(|bytes| assert_eq!(socket.send_to(bytes, listen).unwrap(), bytes.len()));
    send(&[5_000, 6_000]);
    until(&service, "nothing is heard", || exporters()["taken"] == 2);
    // Counters that lie seconds apart on the switch's clock and none on ours would be those of a switch that started again.
    std::thread::sleep(Duration::from_secs(3));
    // h1 sent to h2: (28956802 - 5594960) bytes in 6 s.
    send(&[9_000, 12_000]);
    let links = || service.ask("GET", "/v1alpha1/links?observed=true", "").1["links"].as_array().unwrap().clone();
    until(&service, "no load is observed", || links().len() == 4);
    let carried = |from: &str, to: &str| {
        let link = links().into_iter().find(|link| link["from_node"] == from && link["to_node"] == to);
        link.unwrap()["observed_mbps"].as_u64().unwrap()
    };
    let both = [["h1", "leaf1"], ["leaf1", "h2"], ["h2", "leaf1"], ["leaf1", "h1"]].map(|[from, to]| carried(from, to));
    assert_eq!(both, [31, 31, 0, 0]);
    let told = exporters();
    assert_eq!((&told["exporters"][0]["interfaces"], &told["refused"], &told["flow_samples"]), (&3.into(), &0.into(), &2.into()), "{told}");
    // The bridge's own port has no cable.
    assert_eq!(told["exporters"][0]["notes"].as_array().unwrap()[..], ["interface \"leaf1\" is no port of the fabric"], "{told}");
}

#[test]
fn a_port_that_cannot_be_had_and_a_configuration_without_sense_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let (config, taken) = (folder.path().join("a.toml"), UdpSocket::bind("127.0.0.1:0").unwrap());
    let start = |text: String| {
        fs::write(&config, text).unwrap();
        Service::try_with(program().arg("--config").arg(&config).arg("--state").arg(folder.path().join("s.redb"))).err().unwrap()
    };
    let head = format!("[sflow]\nlisten = \"{}\"\n", taken.local_addr().unwrap());
    let (status, said) = start(format!("{head}[sflow.exporters.leaf1]\naddress = \"192.0.2.1\"\n"));
    assert!(status.code() == Some(1) && said.contains("sflow.listen: "), "{said}");
    let (status, said) = start(format!("{head}exporters.a.address = \"192.0.2.1\"\nexporters.b.address = \"192.0.2.1\"\n"));
    assert!(status.code() == Some(2) && said.contains("sflow.exporters: a and b have one address, 192.0.2.1"), "{said}");
    let (status, said) = start(format!("{head}exporters.a.address = \"192.0.2.1\"\nexporters.a.ports = {{ p1 = 7, p2 = 7 }}\n"));
    assert!(status.code() == Some(2) && said.contains("sflow.exporters.a.ports: two ports are the interface 7"), "{said}");
}
