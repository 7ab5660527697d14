//! The program on this host, whatever of RDMA the host has.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    path::Path,
    process::{Command, Output},
};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_antiphase-verbs")).args(args).output().unwrap()
}

/// The one line on standard error.
fn line(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn without_the_library_there_is_one_line() {
    for command in [&["devices"][..], &["events"], &["devices", "--device", "mlx5_0"]] {
        let output = run(&[&["--library", "/nowhere/libibverbs.so.1"], command].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{command:?}");
        assert!(line(&output).starts_with("antiphase-verbs: library missing: "), "{}", line(&output));
    }
}

#[test]
fn another_library_is_no_verbs_library() {
    let output = run(&["devices", "--library", "libc.so.6"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(line(&output).contains("libc.so.6 has no ibv_get_device_list"), "{}", line(&output));
}

/// What the kernel's tree shows decides which of the cases this host is.
#[test]
fn the_host_is_one_of_the_cases() {
    let output = run(&["devices"]);
    if output.status.code() == Some(3) {
        println!("skipped: libibverbs.so.1 is missing (libibverbs1), so the kernel was not asked");
        return;
    }
    let class = Path::new("/sys/class/infiniband_verbs/abi_version").exists();
    let devices = Path::new("/sys/class/infiniband").read_dir().map_or(0, Iterator::count);
    let (code, begins) = match (class, devices) {
        (false, _) => (4, "antiphase-verbs: no kernel support: "),
        (true, 0) => (5, "antiphase-verbs: no device: "),
        (true, _) => (0, ""),
    };
    assert_eq!(output.status.code(), Some(code));
    if code == 0 {
        assert!(output.stdout.starts_with(b"{\"device\":\""));
    } else {
        assert!(line(&output).starts_with(begins), "{}", line(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn bad_arguments_are_refused() {
    let probe = |port: &'static str, peer: &'static str| vec!["probe", "--device", "d", "--port", port, "--peer", peer];
    let others: [&[&str]; 3] = [&["devices", "--port", "x"], &["events", "--seconds", "-1"], &[]];
    let probes = [probe("0", "a:1"), probe("1", "nowhere"), probe("1", "a:0"), probe("1", ":1"), probe("1", "a:65536")];
    for args in others.into_iter().chain(probes.iter().map(Vec::as_slice)) {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
}
