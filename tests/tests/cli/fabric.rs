//! `antiphase fabric show`, `diff`, `routes`, `export` and `generate`.

use antiphase_tests::checkout;

use crate::{
    expected,
    process::{antiphase, antiphase_reading},
    solve::keys,
};

#[test]
fn a_fabric_is_summarised() {
    expected::check("fabric-show", &antiphase(&["fabric", "show", "fabric.yaml"]));
    expected::check("fabric-show-yaml", &antiphase(&["fabric", "show", "fabric.yaml", "-o", "yaml"]));
    let summary = antiphase(&["fabric", "show", "fabric.yaml", "-o", "json"]).json();
    let fields = [
        "classes",
        "hosts",
        "hosts_by_nics",
        "links",
        "name",
        "one_way_links",
        "pieces",
        "schema",
        "switches",
        "tiers",
        "unknown",
        "unknown_capacities",
    ];
    assert_eq!(keys(&summary), fields);
    assert_eq!((&summary["schema"], &summary["hosts"]), (&"antiphase.fabric-summary/v1".into(), &4.into()));
}

#[test]
fn differences_are_exit_code_4() {
    let run = antiphase(&["fabric", "diff", "fabric.yaml", "observed.yaml", "--ignore-ports"]);
    assert_eq!((run.code, &run.stderr[..]), (Some(4), ""));
    expected::check("fabric-diff", &run);
    expected::check("fabric-diff-ports", &antiphase(&["fabric", "diff", "fabric.yaml", "observed.yaml"]));
    let diff = antiphase(&["fabric", "diff", "fabric.yaml", "observed.yaml", "--ignore-ports", "-o", "json"]);
    diff.expect(4);
    let fields = ["capacities", "extra", "extra_nodes", "kinds", "missing", "missing_nodes", "moved", "one_way", "schema"];
    assert_eq!(keys(&diff.json()), fields);
    assert_eq!(diff.json()["schema"], "antiphase.fabric-diff/v1");
    antiphase(&["fabric", "diff", "fabric.yaml", "observed.yaml", "-o", "yaml"]).expect(4);
    assert_eq!(antiphase(&["fabric", "diff", "fabric.yaml", "fabric.yaml"]).ok(), "no differences\n");
}

#[test]
fn routes_between_hosts() {
    expected::check("fabric-routes", &antiphase(&["fabric", "routes", "fabric.yaml", "--from", "h1", "--to", "h3"]));
    expected::check("fabric-routes-inside", &antiphase(&["fabric", "routes", "fabric.yaml", "--from", "h1", "--to", "h1"]));
    let routes = antiphase(&["fabric", "routes", "fabric.yaml", "--from", "h1", "--to", "h3", "-o", "json"]).json();
    assert_eq!(keys(&routes), ["ecmp", "equal_paths", "from", "links", "paths", "schema", "to"]);
    assert_eq!(keys(&routes["links"][0]), ["assumption", "capacity_mbps", "hop", "link", "provenance", "share"]);
    assert_eq!(routes["schema"], "antiphase.routes/v1");
    antiphase(&["fabric", "routes", "fabric.yaml", "--from", "h1", "--to", "h3", "-o", "yaml"]).ok();
    expected::check("fabric-routes-switch", &antiphase(&["fabric", "routes", "fabric.yaml", "--from", "h1", "--to", "leaf1"]));
    expected::check("fabric-routes-unknown", &antiphase(&["fabric", "routes", "fabric.yaml", "--from", "h9", "--to", "h1"]));
    let rail = antiphase(&["fabric", "routes", "fabric.yaml", "--from", "h1", "--to", "h3", "--from-rail", "9"]);
    expected::check("fabric-routes-rail", &rail);
    let pinned = ["fabric", "routes", "fabric.yaml", "--from", "h1", "--to", "h3", "--pin", "h1,leaf1,spine1,leaf2,h3"];
    assert!(antiphase(&pinned).ok().contains("pinned"));
    let not_a_route = ["fabric", "routes", "fabric.yaml", "--from", "h1", "--to", "h3", "--pin", "h1,leaf2,h3"];
    expected::check("fabric-routes-pin", &antiphase(&not_a_route));
}

#[test]
fn exports_say_what_they_lose() {
    for format in ["native", "slurm-yaml", "slurm-conf", "kubernetes-labels", "hyper-node"] {
        expected::check(&format!("fabric-export-{format}"), &antiphase(&["fabric", "export", "fabric.yaml", "-f", format]));
    }
    // Native is what was read.
    let native = antiphase(&["fabric", "export", "fabric.yaml", "-f", "native"]);
    let same = antiphase_reading(&["fabric", "diff", "fabric.yaml", "-"], native.ok().as_bytes());
    assert_eq!(same.ok(), "no differences\n");
    let nvidia = antiphase(&["fabric", "export", "fabric.yaml", "-f", "kubernetes-labels", "--label-keys", "net.example/tier-{tier}"]);
    assert!(nvidia.expect(0).contains("net.example/tier-0: leaf1"), "{}", nvidia.stdout);
    antiphase(&["fabric", "export", "fabric.yaml", "-f", "kubernetes-labels", "--label-keys", "no tier"]).expect(2);
}

/// The example says that the command made it: below its comment it is what the command prints.
#[test]
fn the_example_of_the_testbed_is_what_the_command_prints() {
    let example = std::fs::read_to_string(checkout().join("examples/testbed/fabric.yaml")).expect("the example");
    let (comment, document) = example.split_at(example.find("schema:").expect("a document"));
    assert!(comment.contains("antiphase fabric generate cassini24") && comment.lines().all(|line| line.starts_with('#')), "{comment}");
    assert_eq!(antiphase(&["fabric", "generate", "cassini24"]).expect(0), document);
}

#[test]
fn generated_fabrics_read_back() {
    let clos2 = ["clos2", "--leaves", "2", "--spines", "1", "--hosts-per-leaf", "2", "--uplinks", "2"];
    let clos3 = [
        &["clos3", "--pods", "2", "--leaves-per-pod", "2", "--spines-per-pod", "2"][..],
        &["--cores-per-spine", "1", "--hosts-per-leaf", "2"],
    ]
    .concat();
    let rail = ["rail", "--groups", "1", "--hosts-per-group", "2", "--rails", "2", "--spines", "1"];
    for shape in [&clos2[..], &clos3, &rail, &["cassini24"]] {
        let made = antiphase(&[&["fabric", "generate"], shape].concat());
        expected::check(&format!("fabric-generate-{}", shape[0]), &made);
        let json = antiphase(&[&["fabric", "generate"], shape, &["-o", "json"]].concat());
        assert_eq!(json.json()["schema"], "antiphase.fabric/v1");
        let shown = |document: &str| antiphase_reading(&["fabric", "show", "-"], document.as_bytes()).ok().to_owned();
        assert_eq!(shown(&made.stdout), shown(&json.stdout));
    }
    expected::check(
        "fabric-generate-zero",
        &antiphase(&["fabric", "generate", "clos2", "--leaves", "0", "--spines", "1", "--hosts-per-leaf", "2"]),
    );
    let huge = ["fabric", "generate", "clos2", "--leaves", "4294967295", "--spines", "4294967295", "--hosts-per-leaf", "4294967295"];
    let line = crate::refusal::refused(&huge, b"");
    assert!(line.starts_with("nodes: "), "{line}");
}
