//! Groups of jobs whose turns take long to plan.

use serde_json::{Value, json};

/// Groups of [`jobs`] that the fabric has hosts for.
pub(crate) const MAX: u64 = 32;

/// 64 hosts on one leaf: each two are a group of their own, with two links of each direction.
pub(crate) fn fabric() -> String {
    let hosts: Vec<String> = (1..=2 * MAX).map(|n| format!("h{n}")).collect();
    let cables: Vec<String> = hosts.iter().map(|host| format!("- {{ends: [{host}:eth0, leaf1]}}")).collect();
    format!(
        "schema: antiphase.fabric/v1\nname: leaf\ndefaults: {{capacity: 100G, provenance: asserted}}\nhosts: [{}]\nswitches:\n- {{name: leaf1, tier: 1}}\ncables:\n{}\n",
        hosts.join(", "),
        cables.join("\n"),
    )
}

fn job(group: u64, number: u64) -> Value {
    // Measured periods, of which no two lock, and twenty phases of as many rates.
    let period = 250_000_000 + 7_919_000 * ((group * 8 + number) % 31) + 1_009 * number;
    let step = period / 20;
    let phase = |i: u64| {
        let start = i * step + (i * 104_729 + group * 1_299_709) % (step / 3);
        json!({ "start_ns": start, "duration_ns": step / 4 + 7_919 * i, "rate_mbps": 60_000 + 1_117 * i + 13 * number, "collective": "ring", "scope": "data" })
    };
    let profile = json!({
        "schema": "antiphase.profile/v1", "name": "x", "period_ns": period, "phases": (0..20).map(phase).collect::<Vec<_>>(),
        "ranks": { "dp": 2 }, "source": "declared",
    });
    let hosts = [format!("h{}", 2 * group + 1), format!("h{}", 2 * group + 2)];
    json!({ "id": format!("g{group}-{number}"), "profile": profile.to_string(), "hosts": hosts, "hold": "phases" })
}

/// Eight jobs on the hosts of each of so many groups.
pub(crate) fn jobs(groups: u64) -> Vec<Value> {
    (0..groups).flat_map(|group| (0..8).map(move |number| job(group, number))).collect()
}
