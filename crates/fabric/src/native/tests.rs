use std::collections::BTreeSet;

use proptest::prelude::*;
use units::{Rate, unseen_in};

use super::*;
use crate::{Fabric, FabricBuilder, HostGpus, NodeKind, Port, Provenance};

fn problem(text: &str) -> String {
    let error = read(text).unwrap_err().to_string();
    assert!(!error.contains('\n') && error.len() < 500, "one short line: {error}");
    error
}

/// A document of which the cables are given.
fn with_cables(cables: &str) -> String {
    format!("schema: antiphase.fabric/v1\nhosts: [h1, h2]\nswitches: [{{name: leaf1, tier: 1}}, {{name: 'aa:bb'}}]\ncables:\n{cables}")
}

#[test]
fn refusals_name_line_and_value() {
    for (text, parts) in [
        ("schema: antiphase.scenario/v1\ntick_ns: 1", &["line 1", "antiphase.scenario/v1", "antiphase.fabric/v1"][..]),
        ("name: x", &["schema"]),
        ("schema: antiphase.fabric/v1\nhost: [h1]", &["line 2", "host"]),
        ("schema: antiphase.fabric/v1\nhosts:\n  - h1\n  - h1", &["line 4", "\"h1\"", "twice"]),
        ("schema: antiphase.fabric/v1\nhosts: [h1]\nswitches:\n  - {name: h1}", &["line 4", "\"h1\"", "twice"]),
        ("schema: antiphase.fabric/v1\nswitches:\n  - {name: s, tier: 300}", &["line 3", "300"]),
        ("schema: antiphase.fabric/v1\nhosts: ['']", &["line 2", "empty"]),
        ("schema: antiphase.fabric/v1\nhosts: [\"a\\u0007\"]", &["line 2", "nobody sees"]),
        ("schema: antiphase.fabric/v1\nhosts: [h1\n", &["line"]),
        ("schema: antiphase.fabric/v1\nhosts: &a [h1]", &["anchor"]),
    ] {
        let error = problem(text);
        assert!(parts.iter().all(|p| error.contains(p)), "{text:?} -> {error}");
    }
}

#[test]
fn refusals_of_gpus_name_line_and_value() {
    for (entries, parts) in [
        ("  - {count: 0}", &["line 5", "count 0 is not in 1..=1024"][..]),
        ("  - {count: 1025}", &["line 5", "count 1025"]),
        ("  - {count: -1}", &["line 5", "-1"]),
        ("  - {hosts: [h1]}", &["line 5", "without count and type"]),
        ("  - {hosts: [], count: 8}", &["line 5", "no hosts"]),
        ("  - {hosts: [h3], count: 8}", &["line 5", "unknown node \"h3\""]),
        ("  - {hosts: [leaf1], count: 8}", &["line 5", "\"leaf1\" is a switch"]),
        ("  - {hosts: [h1], count: 8}\n  - {hosts: [h2, h1], count: 4}", &["line 6", "\"h1\" stands twice"]),
        ("  - {count: 8}\n  - {type: a100}", &["line 6", "second entry without hosts"]),
        ("  - {type: ''}", &["line 5", "GPU type name is empty"]),
        ("  - {type: \"a\\u0007\"}", &["line 5", "nobody sees"]),
        ("  - {count: 8, kind: a100}", &["line 5", "kind"]),
    ] {
        let error =
            problem(&format!("schema: antiphase.fabric/v1\nhosts: [h1, h2]\nswitches: [{{name: leaf1, tier: 1}}]\ngpus:\n{entries}"));
        assert!(parts.iter().all(|p| error.contains(p)), "{entries:?} -> {error}");
    }
}

#[test]
fn gpus_of_hosts_are_read_and_written_again() {
    let read_again = |gpus: &str| {
        let fabric = read(&format!("schema: antiphase.fabric/v1\nhosts: [h1, h2, h3]\n{gpus}")).unwrap();
        let stated = |fabric: &Fabric| fabric.hosts().map(|host| fabric.gpus(host).cloned()).collect::<Vec<_>>();
        for written in [write_yaml(&fabric), write_json(&fabric)] {
            assert_eq!(stated(&read(&written).unwrap()), stated(&fabric), "{written}");
        }
        (stated(&fabric), write_yaml(&fabric))
    };
    let of = |count, gpu_type: Option<&str>| Some(HostGpus { count, gpu_type: gpu_type.map(Into::into) });
    let (equal, written) = read_again("gpus: [{count: 8, type: a100}]");
    assert_eq!(equal, [of(Some(8), Some("a100")), of(Some(8), Some("a100")), of(Some(8), Some("a100"))]);
    assert!(written.lines().any(|line| line.trim() == "- {count: 8, type: a100}"), "{written}");
    let (mixed, _) = read_again("gpus: [{hosts: [h2], count: 4, type: v100}, {type: a100}]");
    assert_eq!(mixed, [of(None, Some("a100")), of(Some(4), Some("v100")), of(None, Some("a100"))]);
    // Of a host that nobody names nothing is known.
    let (some, _) = read_again("gpus: [{hosts: [h3, h1], count: 2}]");
    assert_eq!(some, [of(Some(2), None), None, of(Some(2), None)]);
    let (none, written) = read_again("");
    assert!(none.iter().all(Option::is_none) && !written.contains("gpus"), "{written}");
}

#[test]
fn refusals_of_cables_name_line_and_value() {
    for (cables, parts) in [
        ("  - {ends: [h1, leef1]}", &["line 5", "unknown node \"leef1\""][..]),
        ("  - {ends: [h1]}", &["line 5"]),
        ("  - {ends: [h1, leaf1, h2]}", &["line 5"]),
        ("  - {ends: [h1, h1]}", &["line 5", "itself"]),
        ("  - {ends: ['h1:e', leaf1]}\n  - {ends: ['h1:e', leaf1], capacity: 1G}", &["line 6", "port e", "already"]),
        ("  - {ends: [h1, leaf1], capacity: 400}", &["line 5", "\"400\"", "unit"]),
        ("  - {ends: [h1, leaf1], capacity: 0G}", &["line 5", "\"0G\""]),
        ("  - {ends: [h1, leaf1], mbps: 0}", &["line 5", "mbps: 0"]),
        ("  - {ends: [h1, leaf1], mbps: -5}", &["line 5", "-5"]),
        ("  - {ends: [h1, leaf1], capacity: 400G, mbps: 100000}", &["line 5", "400G", "contradicts", "100000"]),
        ("  - {ends: [h1, leaf1], one_way: true, reverse: {capacity: 1G}}", &["line 5", "contradicts"]),
        ("  - {ends: [h1, leaf1], parallel: 0}", &["line 5", "parallel: 0"]),
        ("  - {ends: [h1, leaf1], parallel: 1025}", &["line 5", "parallel: 1025 is not in 1..=1024"]),
        ("  - {ends: [h1, leaf1], parallel: 4000000000}", &["line 5", "parallel: more than 262144"]),
        ("  - {ends: ['h1:e', leaf1], parallel: 2}", &["line 5", "named port"]),
        ("  - {ends: [h1, leaf1], speed: 1G}", &["line 5", "speed"]),
        ("  - {ends: [h1, leaf1], provenance: guessed}", &["line 5", "guessed"]),
        ("  - {ends: [1, leaf1]}", &["line 5", "quotes"]),
        ("  - {ends: [{node: h1, prt: e}, leaf1]}", &["line 5", "prt"]),
    ] {
        let error = problem(&with_cables(cables));
        assert!(parts.iter().all(|p| error.contains(p)), "{cables:?} -> {error}");
    }
}

#[test]
fn long_values_are_cut() {
    let long = "x".repeat(100_000);
    problem(&format!("schema: antiphase.fabric/v1\nhosts: [{long}]"));
    problem(&with_cables(&format!("  - {{ends: [{long}, leaf1]}}")));
    problem(&format!("schema: {long}"));
    problem(&format!("{long}: 1"));
    problem(&with_cables(&format!("  - {{ends: [h1, leaf1], capacity: {long}}}")));
    problem(&with_cables(&format!("  - {{ends: ['{}', leaf1]}}", ":".repeat(100_000))));
}

#[test]
fn hostile_nesting_and_bulk_are_refused() {
    problem(&"[".repeat(100_000));
    problem(&format!("schema: antiphase.fabric/v1\nname: {}", "{a: ".repeat(1_000)));
    problem("schema: antiphase.fabric/v1\n---\nschema: antiphase.fabric/v1");
    problem("");
    problem("\u{feff}\0");
}

#[test]
fn names_that_look_like_other_things_need_no_quotes_where_only_names_stand() {
    let f = read(
        "schema: antiphase.fabric/v1\nhosts: [y, no, 007]\nswitches: [{name: on}]\ncables:\n  - {ends: [y, on]}\n  - {ends: [no, on]}",
    )
    .unwrap();
    assert_eq!(f.nodes().iter().map(|n| n.name.as_str()).collect::<Vec<_>>(), ["y", "no", "007", "on"]);
}

#[test]
fn a_cable_says_both_directions_and_may_override_one() {
    let text = with_cables(
        "  - {ends: ['h1:eth0', 'aa:bb:swp1'], capacity: 400G, reverse: {mbps: 100000, provenance: observed}}\n  - {ends: [h2, leaf1], one_way: true}\n  - {ends: [{node: 'aa:bb', port: up}, leaf1], capacity: unknown, parallel: 1}",
    );
    let f = read(&text).unwrap();
    let seen: Vec<_> = f
        .links()
        .iter()
        .map(|l| (f.node(l.from.node).name.as_str(), l.from.name.as_str(), f.node(l.to.node).name.as_str(), l.capacity, l.provenance))
        .collect();
    use Provenance::{Intended, Observed};
    assert_eq!(
        seen,
        [
            ("h1", "eth0", "aa:bb", Some(Rate(400_000)), Intended),
            ("aa:bb", "swp1", "h1", Some(Rate(100_000)), Observed),
            ("h2", "p0", "leaf1", None, Intended),
            ("aa:bb", "up", "leaf1", None, Intended),
            ("leaf1", "p1", "aa:bb", None, Intended),
        ]
    );
    assert_eq!(f.reverse(units::LinkId(2)), None);
}

#[test]
fn defaults_hold_unless_a_cable_says_otherwise() {
    let text = with_cables("  - {ends: [h1, leaf1]}\n  - {ends: [h2, leaf1], capacity: unknown, provenance: observed}")
        .replace("hosts:", "defaults: {capacity: 50G, provenance: asserted}\nhosts:");
    let f = read(&text).unwrap();
    assert_eq!((f.links()[0].capacity, f.links()[0].provenance), (Some(Rate(50_000)), Provenance::Asserted));
    assert_eq!((f.links()[2].capacity, f.links()[2].provenance), (None, Provenance::Observed));
}

#[test]
fn a_written_document_is_short_and_readable() {
    let f = read(&with_cables(
        "  - {ends: [h1, leaf1], capacity: 100G}\n  - {ends: [h2, leaf1], capacity: 400G}\n  - {ends: [h1, leaf1], capacity: 100G}",
    ))
    .unwrap();
    let expect = "schema: antiphase.fabric/v1
name: \"\"
defaults: {capacity: 100G, provenance: intended}
hosts:
- h1
- h2
switches:
- {name: leaf1, tier: 1}
- {name: aa:bb}
cables:
- {ends: [h1, leaf1]}
- {ends: [h2, leaf1], capacity: 400G}
- {ends: [h1, leaf1]}
";
    assert_eq!(write_yaml(&f), expect);
}

/// A port that no document named stays one, also where a reader would give it another number.
#[test]
fn numbered_ports_are_written_as_such() {
    let mut b = FabricBuilder::new("");
    let [h1, leaf] = ["h1", "leaf1"].map(|name| b.node(name, NodeKind::Host).unwrap());
    let named = |node, name: &str| Port { node, name: name.into() };
    let skipped = b.next_port(leaf);
    let numbered = Port { node: leaf, name: b.next_port(leaf) };
    b.cable(named(h1, "eth0"), numbered.clone(), None, Provenance::Intended).unwrap();
    b.cable(named(h1, "eth1"), named(leaf, &skipped), None, Provenance::Intended).unwrap();
    let third = b.next_port(leaf);
    b.cable(named(h1, "eth2"), named(leaf, &third), None, Provenance::Intended).unwrap();
    let f = b.build();
    let cables = "- {ends: [h1:eth0, {node: leaf1, port: p1, numbered: true}]}\n- {ends: [h1:eth1, leaf1]}\n- {ends: [h1:eth2, leaf1]}\n";
    assert!(write_yaml(&f).ends_with(cables), "{}", write_yaml(&f));
    let back = read(&write_yaml(&f)).unwrap();
    assert_eq!(content(&back), content(&f));
    assert!(back.is_numbered(&numbered) && !back.is_numbered(&named(h1, "eth0")));
}

/// Everything that a document must keep, whatever the ids.
type Content = (String, BTreeSet<(String, NodeKind)>, BTreeSet<[String; 8]>, Vec<Vec<String>>);

fn content(f: &Fabric) -> Content {
    let name = |p: &Port| f.node(p.node).name.clone();
    let links = f.links().iter().map(|l| {
        let [from, to] = [&l.from, &l.to].map(|port| if f.is_numbered(port) { "numbered" } else { "named" }.to_string());
        let (rate, provenance) = (format!("{:?}", l.capacity), l.provenance.to_string());
        [name(&l.from), l.from.name.clone(), from, name(&l.to), l.to.name.clone(), to, rate, provenance]
    });
    // Two hosts on one cable may order their NICs against each other; no document can say both.
    let on_switches = |&h: &units::NodeId| f.links_from(h).iter().all(|&l| f.node(f.link(l).to.node).kind != NodeKind::Host);
    let nics = |h| f.links_from(h).iter().map(|&l| f.link(l).from.name.clone()).collect();
    let rails = f.hosts().filter(on_switches).map(nics).collect();
    (f.name().into(), f.nodes().iter().map(|n| (n.name.clone(), n.kind)).collect(), links.collect(), rails)
}

/// Names that look like other things: numbers, booleans, ends, YAML syntax.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}[0-9]{0,2}",
        prop::sample::select(vec![
            "1",
            "007",
            "1.0",
            "no",
            "null",
            "~",
            "a:b",
            "a",
            "b",
            "a: b",
            "#x",
            "[x]",
            "{x}",
            "x, y",
            "- x",
            "'",
            "\"",
            "\\",
            "é",
            " x",
            "x ",
            "&a",
            "*a",
            "!t",
            "|",
            ">",
            "%",
            "@",
            "0x1f",
            "1e3",
            "2026-01-01",
            "true",
            ":",
            "a:",
            ":a",
            "a:p0",
            "unknown",
            "<<",
            "=",
            "?",
            "-",
            "1_0",
            ".inf",
            "x\u{3000}y",
            "y:",
        ])
        .prop_map(String::from),
        "[^\\p{Cc}]{1,8}",
    ]
    .prop_filter("a character that nobody sees is refused", |name| unseen_in(name).is_none())
}

/// A random fabric through the builder: one-way links, interleaved directions, odd names, ports without names.
fn any_fabric() -> impl Strategy<Value = Fabric> {
    let nodes = prop::collection::btree_map(name(), prop_oneof![Just(None), (0_u8..4).prop_map(Some)], 1..8);
    let port = || prop::option::weighted(0.7, name());
    let link = (0_usize..8, port(), 0_usize..8, port(), prop::option::of(1_u64..500_000), 0_u8..3, any::<bool>());
    (name(), nodes, prop::collection::vec(link, 0..16)).prop_map(|(title, nodes, links)| {
        let mut b = FabricBuilder::new(&title);
        let ids: Vec<_> =
            nodes.iter().map(|(name, tier)| b.node(name, tier.map_or(NodeKind::Host, |tier| NodeKind::Switch { tier })).unwrap()).collect();
        let mut late = Vec::new();
        for (x, xp, y, yp, rate, provenance, both) in links {
            let [from, to] = [(x, xp), (y, yp)].map(|(node, name)| {
                let node = ids[node % ids.len()];
                Port { node, name: name.unwrap_or_else(|| b.next_port(node)) }
            });
            let provenance = [Provenance::Observed, Provenance::Intended, Provenance::Asserted][usize::from(provenance)];
            if b.link(from.clone(), to.clone(), rate.map(Rate), provenance).is_ok() && both {
                late.push((to, from, rate.map(|r| Rate(r.div_ceil(2))), provenance));
            }
        }
        for (from, to, rate, provenance) in late.into_iter().rev() {
            let _ = b.link(from, to, rate, provenance);
        }
        b.build()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn what_is_written_reads_back(f in any_fabric()) {
        let yaml = write_yaml(&f);
        let back = read(&yaml).unwrap_or_else(|e| panic!("{e}\n{yaml}"));
        prop_assert_eq!(content(&back), content(&f), "{}", yaml);
        prop_assert_eq!(write_yaml(&back), yaml);
        let json = read(&write_json(&f)).unwrap();
        prop_assert_eq!(content(&json), content(&f));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}", cut in 0_usize..400) {
        let _ = read(&text);
        let valid = with_cables("  - {ends: ['h1:eth0', leaf1], capacity: 400G, reverse: {mbps: 100000}}\n  - {ends: [h2, leaf1], one_way: true}");
        let cut = (0..=cut.min(valid.len())).rev().find(|&i| valid.is_char_boundary(i)).unwrap();
        let _ = read(&(valid[..cut].to_string() + &text));
    }
}
