//! Rule: dependencies point one way, and the pure crates' dependencies are listed by name.

use crate::{
    cargo::{Member, Metadata, When},
    rooms::{ALL, EDGE_ONLY, Kind, REACHED, ROOMS, Room, room},
    tree::{Finding, expect_none, expect_one, read},
};

/// Crates of ours that `member` may not use, and a room that is not in the plan.
fn directions(member: &Member) -> Vec<Finding> {
    let Some(room) = room(&member.folder) else {
        let what = "is not in the plan of the house; add its row to tests/tests/house/rooms.rs and to ARCHITECTURE.md";
        return vec![Finding::new(&member.folder, what)];
    };
    let forbidden = member.own.iter().filter(|(own, _)| !room.own.contains(&own.as_str()));
    forbidden
        .map(|(own, _)| {
            Finding::new(
                &member.folder,
                format!("may not depend on {own} (allowed: {}); move the code or pass a value instead", list(room.own)),
            )
        })
        .collect()
}

/// Registry crates that `member` may not use directly. What only tests use is free.
fn externals(member: &Member) -> Vec<Finding> {
    let Some(room) = room(&member.folder) else { return Vec::new() };
    let mut findings = Vec::new();
    if room.kind != Kind::Edge && member.build_script {
        findings.push(Finding::new(&member.folder, "has a build script, which could read anything; a pure crate has none (docs/adr/0001)"));
    }
    for (name, _) in member.external.iter().filter(|(_, when)| *when != When::Dev) {
        if room.kind != Kind::Edge && EDGE_ONLY.contains(&name.as_str()) {
            let what = format!("depends on {name}, which belongs to edges only; do that work in an edge crate");
            findings.push(Finding::new(&member.folder, what));
        } else if room.external.is_some_and(|allowed| !allowed.contains(&name.as_str())) {
            let allowed = list(room.external.unwrap_or_default());
            let what = format!(
                "may not depend on {name} (allowed: {allowed}); do without it, or argue for it and add it in tests/tests/house/rooms.rs"
            );
            findings.push(Finding::new(&member.folder, what));
        }
    }
    findings
}

/// Registry crates that `folder` reaches and nobody has looked at.
fn unread(folder: &str, reached: impl IntoIterator<Item = (String, String)>) -> Vec<Finding> {
    let new = reached.into_iter().filter(|(name, _)| !REACHED.contains(&name.as_str()));
    new.map(|(name, chain)| {
        let what = format!(
            "reaches {name} ({chain}); look in it for a clock, environment, files, network and random seeds, then add it to REACHED in tests/tests/house/rooms.rs"
        );
        Finding::new(folder, what)
    })
    .collect()
}

/// Rows of the plan that contradict it: an arrow to a room further down, or an edge's crate in a pure room.
fn contradictions(rooms: &[Room]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (i, room) in rooms.iter().enumerate() {
        let below = |own: &&&str| **own != room.folder && !rooms[..i].iter().any(|earlier| earlier.folder == **own);
        for own in room.own.iter().filter(below) {
            findings.push(Finding::new(room.folder, format!("the plan lets it depend on {own}, which is not above it in the plan")));
        }
        if room.kind == Kind::Edge {
            continue;
        }
        if room.external.is_none() {
            findings.push(Finding::new(room.folder, "is not an edge, so the plan must list its registry crates"));
        }
        for name in room.external.unwrap_or_default().iter().filter(|name| EDGE_ONLY.contains(name)) {
            findings.push(Finding::new(room.folder, format!("the plan allows {name}, which belongs to edges only")));
        }
    }
    findings
}

/// A room's row in the table of ARCHITECTURE.md.
fn row(room: &Room) -> String {
    let external = room.external.map_or_else(|| "not limited".to_owned(), list);
    let own = if room.own == ALL { "every crate".to_owned() } else { list(room.own) };
    format!("| `{}` | {} | {own} | {external} |", room.folder, room.kind.word())
}

/// Rooms whose row is missing from, or different in, the text of ARCHITECTURE.md.
fn undocumented(architecture: &str, rooms: &[Room]) -> Vec<Finding> {
    let missing = rooms.iter().filter(|room| !architecture.lines().any(|line| line == row(room)));
    missing.map(|room| Finding::new("ARCHITECTURE.md", format!("the table of dependencies lacks this line: {}", row(room)))).collect()
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[test]
fn dependencies_point_one_way() {
    let members = Metadata::read().members();
    assert!(members.len() >= 7, "cargo metadata lists only {} of our crates", members.len());
    let findings: Vec<Finding> = members.iter().flat_map(directions).collect();
    expect_none(&findings);
}

#[test]
fn pure_crates_use_only_listed_crates() {
    let findings: Vec<Finding> = Metadata::read().members().iter().flat_map(externals).collect();
    expect_none(&findings);
}

#[test]
fn pure_crates_reach_only_crates_that_were_read() {
    let metadata = Metadata::read();
    let closed = ROOMS.iter().filter(|room| room.kind != Kind::Edge);
    let findings: Vec<Finding> = closed.flat_map(|room| unread(room.folder, metadata.reached_by(room.folder))).collect();
    expect_none(&findings);
    // circle -> petgraph -> hashbrown: were the graph not followed, nothing would be checked.
    assert!(metadata.reached_by("crates/circle").contains_key("hashbrown"), "the resolved graph was not followed");
}

#[test]
fn the_plan_agrees_with_itself_and_with_architecture_md() {
    expect_none(&contradictions(ROOMS));
    expect_none(&undocumented(&read("ARCHITECTURE.md"), ROOMS));
}

#[test]
fn a_wrong_direction_is_found() {
    let circle_sees_fabric =
        Member { folder: "crates/circle".into(), own: vec![("crates/fabric".into(), When::Normal)], ..Member::default() };
    expect_one(&directions(&circle_sees_fabric), "may not depend on crates/fabric");
    let by_a_test = Member { folder: "crates/units".into(), own: vec![("crates/circle".into(), When::Dev)], ..Member::default() };
    expect_one(&directions(&by_a_test), "may not depend on crates/circle");
    expect_one(&directions(&Member { folder: "crates/shed".into(), ..Member::default() }), "not in the plan");
}

#[test]
fn a_wrong_registry_crate_is_found() {
    let with = |folder: &str, name: &str, when| Member { folder: folder.into(), external: vec![(name.into(), when)], ..Member::default() };
    expect_one(&externals(&with("crates/circle", "tokio", When::Normal)), "belongs to edges only");
    expect_one(&externals(&with("topology/state", "anyhow", When::Normal)), "belongs to edges only");
    expect_one(&externals(&with("crates/units", "serde", When::Normal)), "may not depend on serde");
    expect_one(&externals(&with("crates/fabric", "cc", When::Build)), "may not depend on cc");
    expect_one(&externals(&Member { folder: "crates/fabric".into(), build_script: true, ..Member::default() }), "has a build script");
    expect_none(&externals(&with("crates/units", "proptest", When::Dev)));
    expect_none(&externals(&with("crates/cli", "clap", When::Normal)));
    expect_one(&unread("crates/circle", [("mio".to_owned(), "crates/circle > mio".to_owned())]), "reaches mio");
}

#[test]
fn a_plan_with_a_loop_or_a_missing_row_is_found() {
    let below = Room { folder: "a", kind: Kind::Pure, own: &["b"], external: Some(&[]) };
    let above = Room { folder: "b", kind: Kind::Pure, own: &[], external: Some(&["libc"]) };
    let findings = contradictions(&[below, above]);
    assert_eq!(findings.len(), 2, "{findings:?}");
    expect_one(&undocumented("| `a` | pure | b | nothing |", &[below, above]), "| `b` | pure | nothing | libc |");
}
