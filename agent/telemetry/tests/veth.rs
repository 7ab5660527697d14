//! LLDP frames over a real veth pair between two network namespaces. Needs root and iproute2.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    process::Command,
    time::{Duration, Instant},
};

use antiphase_telemetry::lldp::{Capture, CaptureError, ETHERTYPE, Neighbour};
use pnet::datalink::{self, Channel};
use units::NodeTime;

/// How long a frame may take from one end to the other on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).output().is_ok_and(|output| output.status.success())
}

/// The ends of a veth pair in this thread's namespace, gone with the value.
struct Veth {
    near: String,
    far: String,
}

impl Veth {
    fn new() -> Option<Self> {
        let id = std::process::id() % 100_000;
        let pair = Self { near: format!("apd{id}a"), far: format!("apd{id}b") };
        let made = ip(&format!("link add {} type veth peer name {}", pair.near, pair.far));
        (made && ip(&format!("link set {} up", pair.near)) && ip(&format!("link set {} up", pair.far))).then_some(pair)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.near));
    }
}

fn lldp(ttl: u16, system: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1];
    frame.extend(ETHERTYPE.to_be_bytes());
    for (kind, value) in [(1, &b"\x07chassis-1"[..]), (2, b"\x05Ethernet8"), (3, &ttl.to_be_bytes()), (5, system), (0, b"")] {
        frame.extend(((kind << 9) | value.len() as u16).to_be_bytes());
        frame.extend(value);
    }
    frame
}

#[test]
fn neighbours_come_and_go_on_a_real_cable() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: capturing LLDP needs root (CAP_NET_RAW, CAP_NET_ADMIN for the veth pair)");
        return;
    }
    let Some(pair) = Veth::new() else {
        println!("skipped: `ip link add ... type veth` failed; iproute2 and a kernel with veth are needed");
        return;
    };
    let mut capture = Capture::open(std::slice::from_ref(&pair.near), false).unwrap();
    let far = datalink::interfaces().into_iter().find(|interface| interface.name == pair.far).unwrap();
    let Channel::Ethernet(mut sender, _) = datalink::channel(&far, datalink::Config::default()).unwrap() else { panic!() };
    let mut send = |frame: &[u8]| sender.send_to(frame, None).unwrap().unwrap();
    let mut wait_for = |expected: &[Neighbour], now: u64| {
        let begun = Instant::now();
        loop {
            capture.poll(NodeTime(now * 1_000_000_000));
            if capture.neighbours() == expected {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{:?} instead of {expected:?}", capture.neighbours());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let leaf = Neighbour { port: pair.near.clone(), chassis: "leaf-01".into(), remote_port: "Ethernet8".into() };
    let nameless = Neighbour { chassis: "chassis-1".into(), ..leaf.clone() };
    // Frames that are not LLDP, malformed ones and foreign protocols change nothing.
    let mut foreign = lldp(120, b"foreign");
    foreign[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
    send(&foreign);
    send(&lldp(120, b"leaf-01")[..20]);
    send(&lldp(120, b"leaf-01"));
    wait_for(std::slice::from_ref(&leaf), 1);
    // A name that would mess up a terminal is not believed; the chassis id is.
    send(&lldp(120, b"\x1b[2J"));
    wait_for(&[nameless.clone(), leaf.clone()], 2);
    // TTL 0 is a goodbye; silence ends when the TTL is over.
    send(&lldp(0, b"leaf-01"));
    wait_for(std::slice::from_ref(&nameless), 3);
    wait_for(&[], 123);
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let error = Capture::open(&["no-such-port".into()], false).unwrap_err();
    assert!(matches!(&error, CaptureError::NoInterface { name } if name == "no-such-port"), "{error}");
}
