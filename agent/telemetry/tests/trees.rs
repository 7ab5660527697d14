//! Counters of trees of files. The trees are made by hand from the kernel's sources, none is a recording of a real NIC.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::Path};

use antiphase_telemetry::{Counter, Driver, Increment, Interface, IpCounters, Port, PortSource, Root, interface_names, rdma_ports};
use units::{Nanos, NodeTime};

fn write(folder: &Path, file: &str, text: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A device as its driver would show it; `module` none: a device without hardware.
fn device(root: &Path, name: &str, module: Option<&str>, files: &[(&str, &str)]) {
    let folder = root.join("sys/class/infiniband").join(name);
    if let Some(module) = module {
        let driver = root.join("sys/bus/drivers").join(module);
        fs::create_dir_all(&driver).unwrap();
        fs::create_dir_all(folder.join("device")).unwrap();
        std::os::unix::fs::symlink(driver, folder.join("device/driver")).unwrap();
    }
    for (file, text) in files {
        write(&folder.join("ports/1"), file, text);
    }
}

fn read(port: &mut Port, at_s: u64) -> Option<Vec<(Counter, Increment)>> {
    let delta = port.read(NodeTime(at_s * 1_000_000_000))?;
    Some(port.counters().iter().copied().zip(delta.increments).collect())
}

#[test]
fn a_connectx_shows_words_as_bytes_and_wraps_its_q_counters() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    device(
        root,
        "mlx5_0",
        Some("mlx5_core"),
        &[
            ("counters/port_rcv_data", "1000\n"),
            ("counters/port_xmit_data", "5\n"),
            ("counters/port_xmit_wait", "N/A (no PMA)\n"),
            ("hw_counters/np_ecn_marked_roce_packets", "7\n"),
            ("hw_counters/out_of_sequence", "4294967290\n"),
            ("hw_counters/lifespan", "20\n"),
            ("gid_attrs/ndevs/0", "ens1f0\n"),
        ],
    );
    let mut ports = rdma_ports(&Root::under(root));
    assert_eq!(ports.len(), 1);
    let port = ports.remove(0);
    assert_eq!(
        (port.name(), port.netdev(), port.driver(), port.lifespan()),
        ("mlx5_0/1", Some("ens1f0"), Driver::Mlx5, Nanos::from_millis(20))
    );
    let mut port = Port::rdma(port);
    assert_eq!(port.read_bytes(), Some(4 * 1_005));
    assert_eq!(read(&mut port, 1), None);
    let folder = root.join("sys/class/infiniband/mlx5_0/ports/1");
    for (file, text) in
        [("counters/port_rcv_data", "1025\n"), ("hw_counters/np_ecn_marked_roce_packets", "10\n"), ("hw_counters/out_of_sequence", "4\n")]
    {
        write(&folder, file, text);
    }
    let by = |counter, by| (counter, Increment::By(by));
    // 25 words; 4294967290 to 4 is 10 across the wrap; the wait cannot be read and is absent, not 0.
    let expected = [by(Counter::RxBytes, 100), by(Counter::TxBytes, 0), by(Counter::EcnMarkedRx, 3), by(Counter::OutOfOrder, 10)];
    assert_eq!(read(&mut port, 2).unwrap(), expected);
    // The driver is loaded anew: the 64-bit counters give it away, so that the 32-bit ones are not taken for wrapped.
    for (file, text) in [("counters/port_rcv_data", "0\n"), ("hw_counters/out_of_sequence", "0\n")] {
        write(&folder, file, text);
    }
    let delta = port.read(NodeTime(3_000_000_000)).unwrap();
    assert!(delta.has_reset());
    assert_eq!(delta.increments, [Increment::Reset, Increment::By(0), Increment::By(0), Increment::Reset]);
    assert_eq!((port.totals(), port.resets()), (&[100, 0, 3, 10][..], 1));
}

#[test]
fn each_driver_has_its_names() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    device(root, "bnxt_re0", Some("bnxt_en"), &[("hw_counters/cnp_tx_pkts", "1\n"), ("hw_counters/rx_ecn_marked_pkts", "2\n")]);
    device(root, "irdma0", Some("ice"), &[("hw_counters/cnpHandled", "3\n"), ("hw_counters/RxECNMrkd", "4\n")]);
    device(
        root,
        "rdmap0s1",
        Some("efa"),
        &[("hw_counters/tx_bytes", "5\n"), ("hw_counters/rx_bytes", "6\n"), ("hw_counters/retrans_pkts", "7\n")],
    );
    device(
        root,
        "rxe0",
        None,
        &[("hw_counters/sent_pkts", "8\n"), ("hw_counters/out_of_seq_request", "9\n"), ("hw_counters/link_downed", "0\n")],
    );
    device(root, "hns_0", Some("hns_roce"), &[("hw_counters/np_cnp_sent", "1\n")]);
    device(root, "none", Some("mlx5_core"), &[("hw_counters/unheard_of", "1\n")]);
    let ports: Vec<(String, Driver, Vec<Counter>)> = rdma_ports(&Root::under(root))
        .into_iter()
        .map(|port| (port.driver(), Port::rdma(port)))
        .map(|(driver, port)| (port.name().into(), driver, port.counters().to_vec()))
        .collect();
    let expected = [
        ("bnxt_re0/1", Driver::BnxtRe, vec![Counter::EcnMarkedRx, Counter::CnpTx]),
        ("hns_0/1", Driver::Unknown, vec![Counter::CnpTx]),
        ("irdma0/1", Driver::Irdma, vec![Counter::EcnMarkedRx, Counter::CnpRxHandled]),
        ("rdmap0s1/1", Driver::Efa, vec![Counter::RxBytes, Counter::TxBytes, Counter::Retrans]),
        ("rxe0/1", Driver::Rxe, vec![Counter::TxPackets, Counter::OutOfOrder]),
    ];
    assert_eq!(ports, expected.map(|(name, driver, counters)| (name.to_owned(), driver, counters)));
}

/// A file and what is counted when it grows by 10; nothing of one that no table knows.
type Grown = (&'static str, Option<(Counter, u64)>);
/// A device, the module of its driver, and its own files.
type Tree = (&'static str, Option<&'static str>, &'static [Grown]);

/// Counters of the port's management agent, which count words of four bytes.
const PMA: &[Grown] = &[
    ("counters/port_rcv_data", Some((Counter::RxBytes, 40))),
    ("counters/port_xmit_data", Some((Counter::TxBytes, 40))),
    ("counters/port_rcv_packets", Some((Counter::RxPackets, 10))),
    ("counters/port_xmit_packets", Some((Counter::TxPackets, 10))),
    ("counters/port_rcv_errors", Some((Counter::RxDrops, 10))),
    ("counters/port_xmit_discards", Some((Counter::TxDrops, 10))),
    ("counters/port_xmit_wait", Some((Counter::TxWait, 10))),
    ("counters/symbol_error", None),
    ("counters/VL15_dropped", None),
];
const PORTS: [Tree; 6] = [
    (
        "mlx5_0",
        Some("mlx5_core"),
        &[
            ("hw_counters/np_ecn_marked_roce_packets", Some((Counter::EcnMarkedRx, 10))),
            ("hw_counters/np_cnp_sent", Some((Counter::CnpTx, 10))),
            ("hw_counters/rp_cnp_handled", Some((Counter::CnpRxHandled, 10))),
            ("hw_counters/rp_cnp_ignored", Some((Counter::CnpRxIgnored, 10))),
            ("hw_counters/out_of_sequence", Some((Counter::OutOfOrder, 10))),
            ("hw_counters/packet_seq_err", Some((Counter::SeqErr, 10))),
            ("hw_counters/local_ack_timeout_err", Some((Counter::AckTimeout, 10))),
            ("hw_counters/rnr_nak_retry_err", Some((Counter::Rnr, 10))),
            ("hw_counters/roce_adp_retrans", Some((Counter::Retrans, 10))),
            ("hw_counters/duplicate_request", Some((Counter::Duplicate, 10))),
            ("hw_counters/out_of_buffer", Some((Counter::NoBuffer, 10))),
            ("hw_counters/rx_write_requests", None),
            ("hw_counters/rx_icrc_encapsulated", None),
            ("hw_counters/resp_cqe_error", None),
        ],
    ),
    (
        "bnxt_re0",
        Some("bnxt_en"),
        &[
            ("hw_counters/rx_ecn_marked_pkts", Some((Counter::EcnMarkedRx, 10))),
            ("hw_counters/tx_cnp_pkts", Some((Counter::CnpTx, 10))),
            ("hw_counters/rx_cnp_pkts", Some((Counter::CnpRxHandled, 10))),
            ("hw_counters/to_retransmits", Some((Counter::AckTimeout, 10))),
            ("hw_counters/seq_err_naks_rcvd", Some((Counter::SeqErr, 10))),
            ("hw_counters/rnr_naks_rcvd", Some((Counter::Rnr, 10))),
            ("hw_counters/oos_drop_count", Some((Counter::OutOfOrder, 10))),
            ("hw_counters/dup_req", Some((Counter::Duplicate, 10))),
            ("hw_counters/rx_out_of_buffer", Some((Counter::NoBuffer, 10))),
            ("hw_counters/max_retry_exceeded", None),
        ],
    ),
    // Broadcom's own release of 2025, by its `bnxt_re/hw_counters.c`; those above are names of the kernel's.
    (
        "bnxt_re1",
        Some("bnxt_en"),
        &[
            ("hw_counters/np_ecn_marked_roce_packets", Some((Counter::EcnMarkedRx, 10))),
            ("hw_counters/np_cnp_sent", Some((Counter::CnpTx, 10))),
            ("hw_counters/rp_cnp_handled", Some((Counter::CnpRxHandled, 10))),
            ("hw_counters/rp_cnp_ignored", Some((Counter::CnpRxIgnored, 10))),
            ("hw_counters/local_ack_timeout_err", Some((Counter::AckTimeout, 10))),
            ("hw_counters/packet_seq_err", Some((Counter::SeqErr, 10))),
            ("hw_counters/rnr_nak_retry_err", Some((Counter::Rnr, 10))),
            ("hw_counters/out_of_sequence", Some((Counter::OutOfOrder, 10))),
            ("hw_counters/duplicate_request", Some((Counter::Duplicate, 10))),
            ("hw_counters/out_of_buffer", Some((Counter::NoBuffer, 10))),
            ("hw_counters/max_retry_exceeded", None),
        ],
    ),
    (
        "irdma0",
        Some("ice"),
        &[
            ("hw_counters/RxECNMrkd", Some((Counter::EcnMarkedRx, 10))),
            ("hw_counters/cnpSent", Some((Counter::CnpTx, 10))),
            ("hw_counters/cnpHandled", Some((Counter::CnpRxHandled, 10))),
            ("hw_counters/cnpIgnored", Some((Counter::CnpRxIgnored, 10))),
            ("hw_counters/RetransSegs", Some((Counter::Retrans, 10))),
            ("hw_counters/InRdmaWrites", None),
        ],
    ),
    (
        "rdmap0s1",
        Some("efa"),
        &[
            ("hw_counters/rx_bytes", Some((Counter::RxBytes, 10))),
            ("hw_counters/tx_bytes", Some((Counter::TxBytes, 10))),
            ("hw_counters/rx_pkts", Some((Counter::RxPackets, 10))),
            ("hw_counters/tx_pkts", Some((Counter::TxPackets, 10))),
            ("hw_counters/rx_drops", Some((Counter::RxDrops, 10))),
            ("hw_counters/retrans_pkts", Some((Counter::Retrans, 10))),
            ("hw_counters/retrans_timeout_events", Some((Counter::AckTimeout, 10))),
            ("hw_counters/unresponsive_remote_events", None),
        ],
    ),
    (
        "rxe1",
        None,
        &[
            ("hw_counters/sent_pkts", Some((Counter::TxPackets, 10))),
            ("hw_counters/rcvd_pkts", Some((Counter::RxPackets, 10))),
            ("hw_counters/duplicate_request", Some((Counter::Duplicate, 10))),
            ("hw_counters/out_of_seq_request", Some((Counter::OutOfOrder, 10))),
            ("hw_counters/rcvd_rnr_err", Some((Counter::Rnr, 10))),
            ("hw_counters/rcvd_seq_err", Some((Counter::SeqErr, 10))),
            ("hw_counters/completer_retry_err", Some((Counter::Retrans, 10))),
            ("hw_counters/ack_deferred", None),
            ("hw_counters/rdma_sends", None),
        ],
    ),
];

/// A whole port of each driver, as its kernel sources name the files, each with a value of its own that then grows by 10: what is counted
/// is what grew, in bytes where the device counts words, and a file that no table knows is passed over.
#[test]
fn whole_trees_of_all_drivers_are_counted() {
    for (name, module, own) in PORTS {
        let tree = tempfile::tempdir().unwrap();
        // rxe and efa have no counters of the PMA.
        let has_pma = matches!(module, Some("mlx5_core" | "bnxt_en" | "ice"));
        let files: Vec<_> = own.iter().chain(PMA.iter().filter(|_| has_pma)).collect();
        let fill = |more: u64| {
            let text = |at: usize| format!("{}\n", 1_000 * (at as u64 + 1) + more);
            let texts: Vec<(&str, String)> = files.iter().enumerate().map(|(at, (file, _))| (*file, text(at))).collect();
            texts
        };
        let before = fill(0);
        device(tree.path(), name, module, &before.iter().map(|(file, text)| (*file, text.as_str())).collect::<Vec<_>>());
        let mut port = Port::rdma(rdma_ports(&Root::under(tree.path())).remove(0));
        assert_eq!(read(&mut port, 1), None);
        let folder = tree.path().join("sys/class/infiniband").join(name).join("ports/1");
        fill(10).iter().for_each(|(file, text)| write(&folder, file, text));
        let mut found = read(&mut port, 2).unwrap();
        let known = files.iter().filter_map(|(_, counted)| counted.map(|(counter, by)| (counter, Increment::By(by))));
        let mut expected: Vec<_> = known.collect();
        found.sort_unstable_by_key(|(counter, _)| *counter);
        expected.sort_unstable_by_key(|(counter, _)| *counter);
        assert_eq!(found, expected, "{name}");
    }
}

/// What a device grows by 10 in each of these files, without counters of the PMA.
fn grown(name: &str, module: &str, files: &[&str]) -> Vec<(Counter, Increment)> {
    let tree = tempfile::tempdir().unwrap();
    device(tree.path(), name, Some(module), &files.iter().map(|file| (*file, "1000\n")).collect::<Vec<_>>());
    let mut port = Port::rdma(rdma_ports(&Root::under(tree.path())).remove(0));
    assert_eq!(read(&mut port, 1), None);
    let folder = tree.path().join("sys/class/infiniband").join(name).join("ports/1");
    files.iter().for_each(|file| write(&folder, file, "1010\n"));
    assert_eq!(port.read_bytes().is_some(), files.iter().any(|file| file.contains("ytes") || file.contains("Octets")));
    let mut found = read(&mut port, 2).unwrap();
    found.sort_unstable_by_key(|(counter, _)| *counter);
    found
}

#[test]
fn bytes_of_a_port_are_counted_under_the_names_of_every_version_and_for_both_versions_of_ip() {
    let both = |by: u64| vec![(Counter::RxBytes, Increment::By(by)), (Counter::TxBytes, Increment::By(by))];
    for names in [["rx_roce_only_bytes", "tx_roce_only_bytes"], ["rx_bytes", "tx_bytes"]] {
        let files = names.map(|name| format!("hw_counters/{name}"));
        assert_eq!(grown("bnxt_re0", "bnxt_en", &files.each_ref().map(String::as_str)), both(10));
    }
    // Names of irdma's `i40iw_hw.c` and `icrdma_hw.c` in the kernel. A GID of IPv6 leaves the octets of IPv4 as they are.
    let (v4, v6) = (["hw_counters/ip4InOctets", "hw_counters/ip4OutOctets"], ["hw_counters/ip6InOctets", "hw_counters/ip6OutOctets"]);
    assert_eq!(grown("irdma0", "ice", &[v4, v6].concat()), both(20));
    assert_eq!((grown("irdma0", "ice", &v4), grown("irdma0", "ice", &v6)), (both(10), both(10)), "what is absent is not 0");
    assert_eq!(grown("irdma0", "ice", &["hw_counters/cnpSent"]), [(Counter::CnpTx, Increment::By(10))]);
}

#[test]
fn an_interface_that_goes_away_is_absent_and_not_silent() {
    let tree = tempfile::tempdir().unwrap();
    let root = Root::under(tree.path());
    let statistics = tree.path().join("sys/class/net/ens1f0/statistics");
    for file in ["rx_bytes", "tx_bytes"] {
        write(&statistics, file, "100\n");
    }
    assert_eq!(interface_names(&root), ["ens1f0"]);
    assert!(Interface::open(&root, "ens1f1").is_none());
    let mut port = Port::new("ens1f0", PortSource::Interface(Interface::open(&root, "ens1f0").unwrap()));
    assert_eq!(port.counters(), [Counter::RxBytes, Counter::TxBytes]);
    assert!(port.read(NodeTime(1)).is_none() && port.is_present());
    for file in ["rx_bytes", "tx_bytes"] {
        write(&statistics, file, "");
    }
    assert_eq!(port.read(NodeTime(2)).unwrap().increments, [Increment::Absent; 2]);
    assert!(!port.is_present());
    assert_eq!(port.read_bytes(), None);
}

#[test]
fn a_host_without_anything_has_no_ports() {
    let tree = tempfile::tempdir().unwrap();
    let root = Root::under(tree.path());
    assert!(interface_names(&root).is_empty() && rdma_ports(&root).is_empty() && IpCounters::open(&root).is_none());
}

#[test]
fn the_loopback_of_this_kernel_counts() {
    let root = Root::default();
    let Some(loopback) = Interface::open(&root, "lo") else {
        println!("skipped: no interface lo under /sys/class/net");
        return;
    };
    let mut port = Port::new("lo", PortSource::Interface(loopback));
    port.read(NodeTime(1));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&[0; 1_000], socket.local_addr().unwrap()).unwrap();
    socket.recv(&mut [0; 1_000]).unwrap();
    let delta = port.read(NodeTime(2)).unwrap();
    let received = port.counters().iter().position(|counter| *counter == Counter::RxBytes).unwrap();
    assert!(delta.increments[received].known().unwrap() >= 1_000, "{delta:?}");
}
