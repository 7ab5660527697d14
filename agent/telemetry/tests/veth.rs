//! LLDP frames over a real veth pair between two network namespaces. Needs root and iproute2.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    process::Command,
    time::{Duration, Instant},
};

use antiphase_telemetry::{
    Interface, Port, PortSource, Root, Series, learn,
    lldp::{Capture, CaptureError, ETHERTYPE, Neighbour},
    phase_error,
};
use pnet::datalink::{self, Channel, DataLinkSender};
use units::{Nanos, NodeTime};

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
    /// `None` prints what is missing.
    fn new(letter: char) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root (CAP_NET_RAW, and CAP_NET_ADMIN for the veth pair)");
            return None;
        }
        let id = std::process::id() % 100_000;
        let pair = Self { near: format!("apd{id}{letter}a"), far: format!("apd{id}{letter}b") };
        let made = ip(&format!("link add {} type veth peer name {}", pair.near, pair.far));
        let up = made && ip(&format!("link set {} up", pair.near)) && ip(&format!("link set {} up", pair.far));
        if !up {
            println!("skipped: `ip link add ... type veth` failed; iproute2 and a kernel with veth are needed");
        }
        up.then_some(pair)
    }

    fn sender(&self) -> Box<dyn DataLinkSender> {
        let far = datalink::interfaces().into_iter().find(|interface| interface.name == self.far).unwrap();
        let Channel::Ethernet(sender, _) = datalink::channel(&far, datalink::Config::default()).unwrap() else { panic!() };
        sender
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
    let Some(pair) = Veth::new('l') else { return };
    let mut capture = Capture::open(std::slice::from_ref(&pair.near), false).unwrap();
    let mut sender = pair.sender();
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
    let leaf = Neighbour { port: pair.near.clone(), chassis: "leaf-01".into(), remote_port: "Ethernet8".into(), ..Neighbour::default() };
    let nameless = Neighbour { chassis: "chassis-1".into(), ..leaf.clone() };
    let leaf = Neighbour { chassis_id: Some("chassis-1".into()), ..leaf };
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

/// Frames in bursts of 35 ms every 120 ms, as a job sends them, seen by the counters of the other end.
#[test]
fn the_period_of_real_traffic_is_found() {
    const PERIOD: Duration = Duration::from_millis(120);
    const UP: Duration = Duration::from_millis(35);
    let Some(pair) = Veth::new('p') else { return };
    let mut sender = pair.sender();
    let begun = Instant::now();
    let burst = std::thread::spawn(move || {
        let mut frame = vec![0; 1_400];
        frame[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
        for n in 0..34 {
            std::thread::sleep((PERIOD * n).saturating_sub(begun.elapsed()));
            while begun.elapsed() < PERIOD * n + UP {
                sender.send_to(&frame, None).unwrap().unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    });
    let root = Root::default();
    let port = Port::new(pair.near.clone(), PortSource::Interface(Interface::open(&root, &pair.near).unwrap()));
    let step = Duration::from_millis(10);
    let mut series = Series::default();
    for n in 0..400 {
        std::thread::sleep((step * n).saturating_sub(begun.elapsed()));
        series.push(NodeTime(begun.elapsed().as_nanos() as u64), port.read_bytes());
    }
    burst.join().unwrap();
    let found = learn(&series, Nanos::from_millis(10)).unwrap();
    let off = found.period.0.abs_diff(PERIOD.as_nanos() as u64);
    assert!(off < 2_000_000, "{found:?}");
    // The plan began its bursts at 0; the machine is busy, so a third of a period is not an error.
    let starts = found.phases.iter().map(|phase| phase_error(found.origin.0 + phase.start.0, 0, found.period));
    let nearest = starts.min_by_key(|error| error.abs()).unwrap();
    assert!(nearest.abs() < 40_000_000, "off by {nearest} ns: {found:?}");
}
