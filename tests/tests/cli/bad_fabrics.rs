//! Fabric documents that every command refuses.

use crate::{
    process::document,
    refusal::{changed, refusals},
};

fn fabric(change: &str, to: &str) -> String {
    changed(&document("fabric.yaml"), change, to)
}

#[test]
fn every_fabric_is_refused_in_one_line() {
    const CABLE: &str = "{ends: [h1, leaf1]}";
    let cable = |to: &str| fabric(CABLE, to);
    let cases = [
        ("another schema", fabric("fabric/v1", "fabric/v2")),
        ("no schema", fabric("schema: antiphase.fabric/v1\n", "")),
        ("a scenario", document("scenario.json")),
        ("unknown field", fabric("name: pair", "title: pair")),
        ("key twice", fabric("name: pair", "name: pair\nname: pair")),
        ("host twice", fabric("[h1, h2,", "[h1, h1,")),
        ("host and switch", fabric("h4]", "leaf1]")),
        ("empty host", fabric("h4]", "'']")),
        ("host with a control character", fabric("h4]", r#""h\x07"]"#)),
        ("host with a character without width", fabric("h4]", "h4\u{200b}]")),
        ("host of 300 bytes", fabric("h4]", &format!("{}]", "h".repeat(300)))),
        ("tier over 8 bits", fabric("tier: 2", "tier: 256")),
        ("negative tier", fabric("tier: 2", "tier: -2")),
        ("unknown end", cable("{ends: [h1, leaf9]}")),
        ("one end", cable("{ends: [h1]}")),
        ("three ends", cable("{ends: [h1, leaf1, leaf2]}")),
        ("a cable from a host to itself", cable("{ends: [h1, h1]}")),
        ("two cables in one port", cable("{ends: ['h1:a', leaf1]}\n  - {ends: ['h1:a', leaf2]}")),
        ("capacity without unit", cable("{ends: [h1, leaf1], capacity: 50}")),
        ("capacity of zero", cable("{ends: [h1, leaf1], capacity: 0G}")),
        ("negative capacity", cable("{ends: [h1, leaf1], capacity: -50G}")),
        ("capacity over 64 bits", cable("{ends: [h1, leaf1], capacity: 99999999999999999999T}")),
        ("rate of zero", cable("{ends: [h1, leaf1], mbps: 0}")),
        ("contradiction", cable("{ends: [h1, leaf1], capacity: 50G, mbps: 1}")),
        ("no cables in parallel", cable("{ends: [h1, leaf1], parallel: 0}")),
        ("4 billion cables in parallel", cable("{ends: [h1, leaf1], parallel: 4294967295}")),
        ("unknown provenance", cable("{ends: [h1, leaf1], provenance: guessed}")),
        ("one way and reverse", cable("{ends: [h1, leaf1], one_way: true, reverse: {capacity: 1G}}")),
        ("an anchor", fabric("{capacity: 50G}", "&a {capacity: 50G}")),
        ("mismatched brackets", fabric("h4]", "h4}")),
        ("a tab", fabric("cables:\n  -", "cables:\n\t-")),
    ];
    // One reader for all commands, so they say the same.
    for arguments in [&["fabric", "show", "DOCUMENT"][..], &["plan", "--fabric", "DOCUMENT", "--jobs", "jobs.yaml"]] {
        refusals("fabric", arguments, cases.clone());
    }
}

#[test]
fn bulk_is_refused_soon() {
    let cases = [
        ("three million hosts", format!("schema: antiphase.fabric/v1\nhosts: [{}]", ["h"].repeat(3_000_000).join(","))),
        ("2^21 comments", format!("schema: antiphase.fabric/v1\n{}", "# a\n".repeat(1 << 23))),
        ("a million cables in 1,000 lines", {
            let cables = "  - {ends: [h1, leaf1], parallel: 1024}\n".repeat(1_000);
            format!("schema: antiphase.fabric/v1\nhosts: [h1]\nswitches: [{{name: leaf1}}]\ncables:\n{cables}")
        }),
        ("a name of 60 MB", format!("schema: antiphase.fabric/v1\nhosts: [{}]", "h".repeat(60 << 20))),
    ];
    refusals("fabric-bulk", &["fabric", "show", "DOCUMENT"], cases);
}
