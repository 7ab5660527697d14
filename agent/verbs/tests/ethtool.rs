//! Statistics of a real veth, beside what ethtool prints of it. Needs root, iproute2 and ethtool.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, process::Command};

use antiphase_verbs::ethtool::Statistics;

fn run(program: &str, arguments: &str) -> Option<String> {
    let output = Command::new(program).args(arguments.split(' ')).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// A veth pair, gone with the value.
struct Veth(String);

impl Drop for Veth {
    fn drop(&mut self) {
        run("ip", &format!("link del {}", self.0));
    }
}

#[test]
fn a_veth_says_what_ethtool_prints() {
    let name = format!("ape{}", std::process::id() % 1_000_000);
    if run("ip", &format!("link add {name} type veth peer name {name}p")).is_none() {
        println!("skipped: needs root, iproute2 and a kernel with veth for `ip link add ... type veth`");
        return;
    }
    let veth = Veth(name);
    let Some(printed) = run("ethtool", &format!("-S {}", veth.0)) else {
        println!("skipped: needs ethtool");
        return;
    };
    let line = |line: &str| {
        let (name, value) = line.trim().rsplit_once(": ")?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    let printed: BTreeMap<String, u64> = printed.lines().filter_map(line).collect();
    let mut statistics = Statistics::open(&veth.0).unwrap();
    let names = statistics.names().to_vec();
    let read: BTreeMap<String, u64> = names.iter().cloned().zip(statistics.read().unwrap().iter().copied()).collect();
    assert!(names.iter().any(|name| name == "peer_ifindex"), "{names:?}");
    // The pair is down, so nothing counts between the two readings; the peer's index is no zero.
    assert_eq!(read, printed);
    assert!(read["peer_ifindex"] > 0);
    // Once it is gone there is an error, and no number.
    drop(veth);
    assert_eq!(statistics.read().unwrap_err().raw_os_error(), Some(libc::ENODEV));
}

#[test]
fn an_interface_without_statistics_says_so() {
    let code = |name: &str| Statistics::open(name).map(|found| found.names().len()).map_err(|e| (e.raw_os_error(), e.to_string()));
    // The loopback has none: either the set is empty, or the driver knows no sets at all.
    assert!(matches!(code("lo"), Ok(0) | Err((Some(libc::EOPNOTSUPP), _))), "{:?}", code("lo"));
    assert_eq!(code("no-such-port").unwrap_err().0, Some(libc::ENODEV));
    for name in ["", "a name that is far too long", "a\0b"] {
        assert!(code(name).unwrap_err().1.contains("is no name of an interface"), "{name:?}");
    }
}
