//! `antiphase fabric import`, every format, on the documents with which the importers are tested.

use crate::{
    expected,
    process::{antiphase, antiphase_reading},
    scratch::Scratch,
};

/// The importers' own documents, from the folder in which commands run.
const FIXTURES: &str = "../../../../crates/fabric/tests/fixtures";

fn import(format: &str, files: &[&str], more: &[&str]) -> crate::process::Run {
    let files: Vec<String> = files.iter().map(|file| format!("{FIXTURES}/{file}")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    antiphase(&[&["fabric", "import", format], &files[..], more].concat())
}

#[test]
fn every_format_becomes_a_fabric() {
    let tree = ["--assume-capacity", "host-leaf=50G,leaf-spine=400G*2"];
    let lldp = ["lldp/gpu-01.json", "lldp/gpu-02.json", "lldp/leaf1.json", "lldp/leaf2.json"];
    let cases: [(&str, &[&str], &[&str]); 7] = [
        ("slurm-yaml", &["slurm/topology.yaml"], &tree),
        ("slurm-conf", &["slurm/topology.conf"], &tree),
        ("lldp", &lldp, &["--name", "lab"]),
        ("sonic", &["sonic/leaf1.json", "sonic/spine1.json"], &["--name", "lab"]),
        ("topograph", &["topograph/graph.json"], &tree),
        ("lingjun", &["lingjun/topo.csv"], &tree),
        ("containerlab", &["containerlab/lab.clab.yml"], &tree),
    ];
    for (format, files, more) in cases {
        let run = import(format, files, more);
        run.expect(0);
        expected::check(&format!("import-{format}"), &run);
        let shown = antiphase_reading(&["fabric", "show", "-"], run.stdout.as_bytes());
        assert!(shown.ok().contains(" hosts, "), "{format}: {}", shown.stdout);
        let json = import(format, files, &[more, &["-o", "json"]].concat());
        let same = antiphase_reading(&["fabric", "show", "-"], json.expect(0).as_bytes());
        assert_eq!(same.ok(), shown.ok(), "{format}: YAML and JSON are the same fabric");
    }
}

#[test]
fn formats_are_merged_and_written_whole_or_not_at_all() {
    let scratch = Scratch::new("import-out");
    let out = scratch.path("fabric.yaml");
    let with = format!("sonic={FIXTURES}/sonic/leaf1.json");
    let run = import("lldp", &["lldp/leaf1.json"], &["--with", &with, "--hosts", "gpu-*", "--out", &out]);
    assert_eq!((run.code, &run.stdout[..]), (Some(0), ""));
    assert!(antiphase(&["fabric", "show", &out]).ok().contains("200G"), "the capacity comes from the other format");
    let strict = scratch.path("strict.yaml");
    let run = import("lldp", &["lldp/leaf1.json"], &["--strict", "--out", &strict]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.ends_with("findings, and --strict allows none\n"), "{}", run.stderr);
    let nowhere = scratch.path("no/such/folder/fabric.yaml");
    let run = import("slurm-conf", &["slurm/topology.conf"], &["--out", &nowhere]);
    assert_eq!(
        (run.code, run.stderr.lines().last()),
        (Some(1), Some(&format!("antiphase: {nowhere}: No such file or directory (os error 2)")[..]))
    );
    assert_eq!(scratch.names(), ["fabric.yaml"], "no partial file is left");
}

#[test]
fn a_document_comes_from_a_pipe_with_a_name() {
    let text = std::fs::read(crate::process::documents().join(FIXTURES).join("lldp/leaf1.json")).expect("a fixture");
    let run = antiphase_reading(&["fabric", "import", "lldp", "leaf1=-"], &text);
    assert!(run.expect(0).contains("name: leaf1"), "{}", run.stdout);
}
