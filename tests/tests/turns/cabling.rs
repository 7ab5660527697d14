//! What agents see by LLDP becomes the fabric, and is compared with one that was given: real frames, over cables into a network namespace.

use std::{
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use pnet::datalink::{self, Channel};
use serde_json::{Value, json};
use telemetry::{
    Root,
    lldp::{Advert, ETHERTYPE, encode},
};
use units::{Nanos, Rate};

use crate::rig::{Node, Service};

/// Every wait ends by then.
const SOON: Duration = Duration::from_secs(60);
/// Names the ports on which a switch announces itself, in a process of its own.
const SWITCH: &str = "ANTIPHASE_TURNS_TEST_SWITCH";
const GROW: &str = "discovery = \"grow\"\n";
/// A fabric of the configuration, of the name that one of agents would have.
const GIVEN: &str = "schema: antiphase.fabric/v1
name: observed
hosts: [h1]
switches: [{name: leaf1}]
cables:
- {ends: ['h1:eth0', 'leaf1:Ethernet0'], capacity: 10G}
";
/// How long what it says holds; it speaks five times as often.
const TTL_MS: u64 = 2_000;

/// Said by a switch called leaf1 on each `interface=port`, until the process is killed.
#[test]
#[ignore = "the program of the test beside it"]
fn a_switch_in_a_process_of_its_own() {
    let ports = std::env::var(SWITCH).expect("the test that needs a switch names its ports");
    let mut senders: Vec<_> = ports
        .split(' ')
        .map(|port| {
            let (interface, name) = port.split_once('=').unwrap();
            let found = datalink::interfaces().into_iter().find(|found| found.name == interface).unwrap();
            let Ok(Channel::Ethernet(sender, _)) = datalink::channel(&found, datalink::Config::default()) else { panic!("{interface}") };
            let advert = Advert {
                chassis: "02:00:00:00:00:01".into(),
                port: name.into(),
                ttl: Nanos::from_millis(TTL_MS),
                system: Some("leaf1".into()),
                description: Some(format!("to {interface}")),
                forwards: Some(true),
                rate: Some(Rate(100_000)),
            };
            let addresses = [&[0x01, 0x80, 0xc2, 0, 0, 0x0e][..], &[2, 0, 0, 0, 0, 1], &ETHERTYPE.to_be_bytes()].concat();
            (sender, [addresses, encode(&advert)].concat())
        })
        .collect();
    let until = Instant::now() + SOON;
    while Instant::now() < until {
        senders.iter_mut().for_each(|(sender, frame)| sender.send_to(frame, None).unwrap().unwrap());
        std::thread::sleep(Duration::from_millis(TTL_MS / 5));
    }
}

/// Two cables from this namespace into one of a switch, gone with the value.
struct Cables {
    space: String,
    near: [String; 2],
}

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|output| output.status.success())
}

impl Cables {
    /// `None` prints what is missing.
    fn new() -> Option<Self> {
        let id = std::process::id();
        let cables = Self { space: format!("apc{id}"), near: ["a", "b"].map(|letter| format!("apc{id}{letter}")) };
        let space = &cables.space;
        let cable = |near: &str, far: &str| {
            ip(&format!("link add {near} type veth peer name {far} netns {space}"))
                && ip(&format!("link set {near} up"))
                && ip(&format!("-n {space} link set {far} up"))
        };
        let made = ip(&format!("netns add {space}")) && cable(&cables.near[0], "p1") && cable(&cables.near[1], "p2");
        if !made {
            println!("skipped: needs root, iproute2 and a kernel with veth for `ip netns add` and `ip link add ... type veth`");
        }
        made.then_some(cables)
    }

    /// A switch at their other ends.
    fn switch(&self, ports: &str) -> Switch {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space]).arg(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "cabling::a_switch_in_a_process_of_its_own", "--nocapture"]);
        Switch(command.env(SWITCH, ports).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    async fn agent(&self, service: SocketAddr, host: &str, which: usize) -> Node {
        let near = &self.near[which];
        let more =
            format!("[counters]\ninclude = [\"{near}\"]\nexclude = []\nsampling_ms = 100\n[lldp]\nmode = \"capture\"\nsettle_s = 3\n");
        Node::with(service, host, Some(Root::default()), &more).await
    }
}

impl Drop for Cables {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.space));
        for near in &self.near {
            ip(&format!("link del {near}"));
        }
    }
}

struct Switch(Child);

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn wait_for(service: &Service, path: &str, well: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + SOON;
    loop {
        let answer = service.ask("GET", path, "");
        if well(&answer) {
            return answer;
        }
        assert!(Instant::now() < until, "{path}: {answer:#}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn differences(answer: &Value) -> Vec<String> {
    let list = answer["differences"].as_array().cloned().unwrap_or_default();
    list.iter().map(|one| format!("{}: {}", one["kind"].as_str().unwrap(), one["place"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_agents_see_is_the_fabric_and_what_differs_from_another_is_said() {
    let Some(cables) = Cables::new() else { return };
    let [a, b] = &cables.near;
    let mut service = Service::with(None, GROW);
    let _agents = [cables.agent(service.address, "h1", 0).await, cables.agent(service.address, "h2", 1).await];
    // Beside it one that is configured as it comes, and one to which somebody gave a fabric: what agents see changes neither.
    let (shows, given) = (Service::with(None, ""), Service::with(Some(GIVEN), GROW));
    let _others = [cables.agent(shows.address, "h1", 0).await, cables.agent(given.address, "h2", 1).await];
    let switch = cables.switch("p1=Ethernet0 p2=Ethernet4");

    // Nobody gave a fabric: the two cables are it, with the rate that the kernel says of a veth, and not the switch's.
    let observed = wait_for(&service, "fabric/observed", |answer| answer["seen"] == 2 && answer["fabric_version"].as_u64() > Some(0)).await;
    assert_eq!((differences(&observed), &observed["systems"], &observed["confirmed"]), (Vec::new(), &json!(2), &json!(2)));
    let rate = std::fs::read_to_string(format!("/sys/class/net/{a}/speed")).unwrap();
    let mbps: u64 = rate.trim().parse().unwrap();
    let fabric = fabric::native::read(service.ask("GET", "fabric", "")["fabric"].as_str().unwrap()).unwrap();
    assert_eq!((fabric.name(), fabric.hosts().count(), fabric.links().len()), ("observed", 2, 4));
    for link in fabric.links() {
        assert_eq!((link.capacity, link.provenance), (Some(Rate(mbps)), fabric::Provenance::Observed), "{link:?}");
    }
    let version = |answer: &Value| answer["fabric_version"].as_u64().unwrap_or(0);
    let shown = wait_for(&shows, "fabric/observed", |answer| answer["seen"] == 1).await;
    assert_eq!((differences(&shown), version(&shown)), (Vec::new(), 0), "nobody gave a fabric, and nobody is asked for one");
    assert_eq!(fabric::native::read(shown["fabric"].as_str().unwrap()).unwrap().hosts().count(), 1, "a person may set it");
    // Jobs can be planned on it.
    let profile = json!({ "schema": "antiphase.profile/v1", "name": "p", "period_ns": 100_000_000, "ranks": { "dp": 2 }, "source": "declared",
        "phases": [{ "start_ns": 0, "duration_ns": 40_000_000, "rate_mbps": 9_000, "collective": "ring", "scope": "data" }] });
    let commit = json!({ "jobs": [{ "id": "a", "profile": profile, "hosts": ["h1", "h2"] }] });
    service.ask("POST", "commit", &commit.to_string());

    // A person's plan of the fabric, by whatever name, in which the two cables are the other way round, and a third host, of which nobody tells.
    let plan = format!(
        "schema: antiphase.fabric/v1\nname: observed\nhosts: [h1, h2, h3]\nswitches: [{{name: leaf1}}]\ncables:\n\
         - {{ends: ['h1:{a}', 'leaf1:Ethernet4'], capacity: 10G}}\n- {{ends: ['h2:{b}', 'leaf1:Ethernet0'], capacity: 10G}}\n\
         - {{ends: ['h3:eth0', 'leaf1:Ethernet8'], capacity: 10G}}\n"
    );
    let set = service.ask("PUT", "fabric", &json!({ "fabric": plan }).to_string())["fabric_version"].clone();
    let observed = wait_for(&service, "fabric/observed", |answer| answer["total"] == 2).await;
    let moved = [
        format!("moved cable: h1:{a}: intended to leaf1:Ethernet4, observed to leaf1:Ethernet0"),
        format!("moved cable: h2:{b}: intended to leaf1:Ethernet0, observed to leaf1:Ethernet4"),
    ];
    assert_eq!((differences(&observed), &observed["unseen"]), (moved.to_vec(), &json!(1)));
    let said = |events: &Value| -> Vec<String> {
        let events = events["events"].as_array().unwrap().clone();
        events.iter().filter(|event| event["kind"] == "cabling").map(|event| event["message"].as_str().unwrap().to_owned()).collect()
    };
    let events = wait_for(&service, "events?limit=1000", |events| said(events).len() >= 2).await;
    assert_eq!(said(&events), moved);

    let given_before = wait_for(&given, "fabric/observed", |answer| answer["total"].as_u64() > Some(0)).await;
    assert_eq!(differences(&given_before), ["extra node: h2".to_owned(), format!("extra cable: h2:{b} -- leaf1:Ethernet4")]);

    // Somebody swaps them back: all is well, and what was seen is observed in the merged document.
    drop(switch);
    let switch = cables.switch("p1=Ethernet4 p2=Ethernet0");
    let observed =
        wait_for(&service, "fabric/observed", |answer| answer["total"].as_u64().unwrap_or(0) == 0 && answer["confirmed"] == 2).await;
    let merged = fabric::native::read(observed["fabric"].as_str().unwrap()).unwrap();
    let known: Vec<fabric::Provenance> = merged.links().iter().step_by(2).map(|link| link.provenance).collect();
    let (seen, stated) = (fabric::Provenance::Observed, fabric::Provenance::Intended);
    assert_eq!((merged.name(), known), ("observed", vec![seen, seen, stated]), "{observed:#}");

    let events = service.ask("GET", "events?limit=1000", "");
    assert!(said(&events).contains(&format!("no longer: {}", moved[0])), "{:?}", said(&events));

    // The service starts anew, and a cable falls silent: it is missing, and one that nobody could see is not.
    service.kill();
    service.again();
    drop(switch);
    let _switch = cables.switch("p1=Ethernet4");
    let missing = format!("missing cable: h2:{b} -- leaf1:Ethernet0");
    let observed = wait_for(&service, "fabric/observed", |answer| differences(answer) == [missing.clone()]).await;
    assert_eq!((&observed["confirmed"], &observed["unseen"]), (&json!(1), &json!(1)));
    // Longer than a fabric that may grow would take to do so.
    tokio::time::sleep(Duration::from_secs(7)).await;
    let now = |service: &Service| version(&service.ask("GET", "fabric/observed?summary", ""));
    assert_eq!(json!(now(&service)), set, "what a person has set stays, also in a service that knows of it from its file only");
    assert_eq!((now(&shows), now(&given)), (0, 1));
}
