//! What a real kernel showed of Soft-RoCE: files and netlink messages as recorded (`rxe/README.md`).
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use antiphase_telemetry::{
    Counter, Driver, Increment, Port, Root,
    nldev::{Answer, PortStatistics, QueuePair, decode},
    rdma_ports,
};
use units::{Nanos, NodeTime};

fn recorded(file: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rxe").join(file)).unwrap()
}

/// Lays a recorded tree out as rxe1 under a root.
fn lay(root: &Path, tree: &str) {
    for line in recorded(tree).lines() {
        let (file, value) = line.split_once('\t').unwrap_or((line, ""));
        let path = root.join("sys/class/infiniband/rxe1").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }
}

/// The datagrams of a recorded answer, together.
fn answers(file: &str) -> Answer {
    let mut whole = Answer::default();
    for line in recorded(file).lines() {
        let bytes: Vec<u8> = (0..line.len() / 2).map(|at| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap()).collect();
        let answer = decode(&bytes).unwrap();
        whole.devices.extend(answer.devices);
        whole.counters.extend(answer.counters);
        whole.queue_pairs.extend(answer.queue_pairs);
        whole.ports.extend(answer.ports);
        whole.is_last = answer.is_last;
    }
    whole
}

#[test]
fn the_recorded_tree_of_soft_roce_is_counted() {
    let tree = tempfile::tempdir().unwrap();
    lay(tree.path(), "idle.tree");
    let mut ports = rdma_ports(&Root::under(tree.path()));
    assert_eq!(ports.len(), 1);
    let port = ports.remove(0);
    // The driver's 10 ms are 12 in jiffies of 4 ms.
    let known = (port.name(), port.netdev(), port.driver(), port.lifespan());
    assert_eq!(known, ("rxe1/1", Some("h1"), Driver::Rxe, Nanos::from_millis(12)));
    let mut port = Port::rdma(port);
    assert!(port.read(NodeTime(1)).is_none());
    assert_eq!(port.read_bytes(), None, "Soft-RoCE counts no bytes");
    lay(tree.path(), "busy.tree");
    let delta = port.read(NodeTime(1_000_000_000)).unwrap();
    let passed: Vec<_> = port.counters().iter().copied().zip(delta.increments).collect();
    let expected = [
        (Counter::RxPackets, 214),
        (Counter::TxPackets, 3_214),
        (Counter::Duplicate, 0),
        (Counter::OutOfOrder, 0),
        (Counter::SeqErr, 0),
        (Counter::Rnr, 0),
        (Counter::Retrans, 1),
    ];
    assert_eq!(passed, expected.map(|(counter, by)| (counter, Increment::By(by))));
}

#[test]
fn queue_pairs_of_a_real_kernel_have_their_processes() {
    let devices = answers("devices.hex");
    let named: Vec<_> = devices.devices.iter().map(|device| (device.index, device.name.as_str(), device.port)).collect();
    assert_eq!((named, devices.is_last), (vec![(0, "rxe1", Some(1)), (1, "rxe2", Some(1)), (2, "rxe3", Some(1))], true));
    let none = answers("no-device.hex");
    assert_eq!(none, Answer { is_last: true, ..Answer::default() });

    let of = |number, remote, kind, pid| QueuePair {
        device: "rxe1".into(),
        port: Some(1),
        number,
        remote,
        kind: Some(kind),
        state: Some("RTS"),
        pid,
    };
    // The second one is the kernel's own.
    let expected = [of(17, Some(18), "RC", Some(301)), of(1, None, "GSI", None)];
    assert_eq!(answers("queue-pairs.hex").queue_pairs, expected);
    assert_eq!(answers("bound.hex"), Answer { is_last: true, ..Answer::default() }, "none is bound to a counter");
}

#[test]
fn counters_of_a_port_come_over_netlink_under_the_names_of_its_files() {
    let [PortStatistics { device, port, values, optional }] = &answers("port.hex").ports[..] else { panic!() };
    assert_eq!((device.as_str(), *port, optional.len()), ("rxe1", 1, 0));
    let tree = recorded("idle.tree");
    let files = tree.lines().filter_map(|line| line.split_once('\t')?.0.strip_prefix("ports/1/hw_counters/")).filter(|n| *n != "lifespan");
    let mut names: Vec<_> = values.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, files.collect::<Vec<_>>());
    assert!(values.iter().all(|(name, value)| (*value > 0) == matches!(name.as_str(), "sent_pkts" | "rcvd_pkts")), "{values:?}");
    // Soft-RoCE has no optional counters, and says so.
    let [status] = &answers("status.hex").ports[..] else { panic!() };
    assert_eq!((status.values.len(), status.optional.len()), (0, 0));
}
