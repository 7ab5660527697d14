//! Fabrics and jobs of these tests.

use std::{fmt::Write as _, path::Path};

use serde_json::{Value, json};

use crate::support::{Service, program};

/// A name that would run if it ever became markup.
pub(crate) const HOSTILE: &str = "leaf<img src=x onerror=alert(1)>&\"'";

/// Four hosts at each of two leaves and one spine above; the second leaf has a hostile name.
pub(crate) fn small() -> String {
    clos(&["leaf1".into(), HOSTILE.into()], 1, 4, 50_000)
}

/// Two tiers: hosts `h1..` counted along the leaves, and an uplink of `mbps` from each leaf to each spine.
fn clos(leaves: &[String], spines: usize, hosts_per_leaf: usize, mbps: u64) -> String {
    let hosts = leaves.len() * hosts_per_leaf;
    let quoted = |name: &str| Value::from(name).to_string();
    let mut text = "schema: antiphase.fabric/v1\nname: test\ndefaults: {capacity: 50G}\nhosts:\n".to_owned();
    (1..=hosts).for_each(|h| writeln!(text, "- h{h}").unwrap());
    text.push_str("switches:\n");
    leaves.iter().for_each(|leaf| writeln!(text, "- {{name: {}, tier: 1}}", quoted(leaf)).unwrap());
    (1..=spines).for_each(|s| writeln!(text, "- {{name: spine{s}, tier: 2}}").unwrap());
    text.push_str("cables:\n");
    for (l, leaf) in leaves.iter().enumerate() {
        let leaf = quoted(leaf);
        for h in 1..=hosts_per_leaf {
            writeln!(text, "- {{ends: [h{}, {leaf}]}}", l * hosts_per_leaf + h).unwrap();
        }
        for s in 1..=spines {
            writeln!(text, "- {{ends: [{leaf}, spine{s}], mbps: {mbps}}}").unwrap();
        }
    }
    text
}

/// 32 leaves below 16 spines, 1,024 links between them.
pub(crate) fn large() -> String {
    plain(32, 16, 6)
}

/// So many leaves, called `leaf1..`, below so many spines.
pub(crate) fn plain(leaves: usize, spines: usize, hosts_per_leaf: usize) -> String {
    let leaves: Vec<String> = (1..=leaves).map(|l| format!("leaf{l}")).collect();
    clos(&leaves, spines, hosts_per_leaf, 4_000)
}

/// Jobs on such a fabric, two between each two neighbouring leaves, for the first leaves of so many pairs.
pub(crate) fn pairs(pairs: usize, hosts_per_leaf: usize) -> Value {
    let jobs = (0..pairs).flat_map(|p| {
        [("a", 1), ("b", 2)].map(|(name, h)| {
            let hosts = [2 * p, 2 * p + 1].map(|leaf| format!("h{}", leaf * hosts_per_leaf + h));
            json!({ "id": format!("pair{p}-{name}"), "model": { "name": "vgg16", "batch": 1_500 + 5 * p }, "hosts": hosts })
        })
    });
    json!({ "jobs": jobs.collect::<Vec<_>>() })
}

/// Jobs on [`large`] that share all links between leaves and spines: between each two neighbouring leaves two jobs, or three
/// at every fourth.
pub(crate) fn large_jobs() -> Value {
    let pair = |p: usize| {
        let jobs = if p.is_multiple_of(4) { 3 } else { 2 };
        (0..jobs).map(move |n| {
            let batch = 1_500 + 20 * p;
            let hosts = [format!("h{}", 12 * p + 1 + n), format!("h{}", 12 * p + 7 + n)];
            json!({ "id": format!("pair{p}-{}", ["a", "b", "c"][n]), "model": { "name": "vgg16", "batch": batch }, "hosts": hosts })
        })
    };
    json!({ "jobs": (0..16).flat_map(pair).collect::<Vec<_>>() })
}

/// A service with a fabric.
pub(crate) fn service(folder: &Path, fabric: &str) -> Service {
    let document = folder.join("fabric.yaml");
    std::fs::write(&document, fabric).unwrap();
    Service::with(program().arg("--state").arg(folder.join("state.redb")).arg("--fabric").arg(document))
}
