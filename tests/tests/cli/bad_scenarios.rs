//! Scenarios that `antiphase solve` refuses.

use crate::{
    process::document,
    refusal::{changed, refusals},
};

/// A scenario of one link and one job, whose parts can be replaced.
fn scenario(change: &str, to: &str) -> String {
    let good = concat!(
        r#"{"schema":"antiphase.scenario/v1","tick_ns":1000,"links":[{"id":"l0","capacity_mbps":100}],"#,
        r#""jobs":[{"id":"j0","period_ticks":100,"links":["l0"],"phases":[{"start":10,"end":20,"rate_mbps":50}]}]}"#
    );
    changed(good, change, to)
}

fn phases(count: u64, period: u64) -> String {
    let phases: Vec<String> = (0..count).map(|i| format!(r#"{{"start":{},"end":{},"rate_mbps":1}}"#, 2 * i, 2 * i + 1)).collect();
    scenario(
        r#"100,"links":["l0"],"phases":[{"start":10,"end":20,"rate_mbps":50}]"#,
        &format!(r#"{period},"links":["l0"],"phases":[{}]"#, phases.join(",")),
    )
}

#[test]
fn every_scenario_is_refused_in_one_line() {
    const PHASE: &str = r#"{"start":10,"end":20,"rate_mbps":50}"#;
    let many_jobs: Vec<String> = (0..1025).map(|i| format!(r#"{{"id":"j{i}","period_ticks":100,"links":["l0"],"phases":[]}}"#)).collect();
    let cases = [
        ("another schema", scenario("scenario/v1", "scenario/v2")),
        ("no schema", scenario(r#""schema":"antiphase.scenario/v1","#, "")),
        ("unknown field", scenario(r#""tick_ns""#, r#""tick""#)),
        ("unknown field of a link", scenario(r#""capacity_mbps":100"#, r#""capacity_mbps":100,"colour":"red""#)),
        ("unknown field of a job", scenario(r#""period_ticks""#, r#""priority":1,"period_ticks""#)),
        ("unknown field of a phase", scenario(r#""start":10"#, r#""start":10,"middle":15"#)),
        ("field twice", scenario(r#""tick_ns":1000"#, r#""tick_ns":1000,"tick_ns":1000"#)),
        ("two documents", scenario("50}]}]}", "50}]}]} {}")),
        ("comma at the end", scenario("50}]}]}", "50}]}],}")),
        ("tick of zero", scenario(":1000,", ":0,")),
        ("tick of two seconds", scenario(":1000,", ":2000000000,")),
        ("negative tick", scenario(":1000,", ":-1000,")),
        ("fractional tick", scenario(":1000,", ":0.5,")),
        ("capacity of zero", scenario(r#""capacity_mbps":100"#, r#""capacity_mbps":0"#)),
        ("negative capacity", scenario(r#""capacity_mbps":100"#, r#""capacity_mbps":-100"#)),
        ("capacity over 64 bits", scenario(r#""capacity_mbps":100"#, r#""capacity_mbps":18446744073709551616"#)),
        ("largest capacity", scenario(r#""capacity_mbps":100"#, r#""capacity_mbps":18446744073709551615"#)),
        ("no capacity", scenario(r#","capacity_mbps":100"#, "")),
        ("capacity unknown", scenario(r#""capacity_mbps":100"#, r#""capacity_mbps":null"#)),
        ("link twice", scenario(r#""capacity_mbps":100}"#, r#""capacity_mbps":100},{"id":"l0","capacity_mbps":1}"#)),
        ("job twice", scenario(r#""phases":[{"#, r#""phases":[]},{"id":"j0","period_ticks":100,"links":["l0"],"phases":[{"#)),
        ("unknown link", scenario(r#"["l0"]"#, r#"["l1"]"#)),
        ("job twice on a link", scenario(r#"["l0"]"#, r#"["l0","l0"]"#)),
        ("period of zero", scenario(r#""period_ticks":100"#, r#""period_ticks":0"#)),
        ("largest period", scenario(r#""period_ticks":100"#, r#""period_ticks":18446744073709551615"#)),
        ("period as text", scenario(r#""period_ticks":100"#, r#""period_ticks":"100""#)),
        ("phase after the period", scenario(r#""end":20"#, r#""end":101"#)),
        ("phase that ends before it starts", scenario(r#""end":20"#, r#""end":5"#)),
        ("empty phase", scenario(r#""end":20"#, r#""end":10"#)),
        ("negative start", scenario(r#""start":10"#, r#""start":-10"#)),
        ("rate over 64 bits", scenario(":50}", ":18446744073709551616}")),
        ("overlapping phases", scenario(PHASE, &format!(r#"{PHASE},{{"start":15,"end":30,"rate_mbps":1}}"#))),
        ("unsorted phases", scenario(PHASE, &format!(r#"{PHASE},{{"start":1,"end":2,"rate_mbps":1}}"#))),
        ("neither phases nor demand", scenario(&format!(r#","phases":[{PHASE}]"#), "")),
        ("phases and demand", scenario(r#""links":["l0"],"phases""#, r#""links":["l0"],"demand":{"l0":[]},"phases""#)),
        ("demand of another link", scenario(&format!(r#""phases":[{PHASE}]"#), r#""demand":{"l0":[],"l9":[]}"#)),
        ("demand without a link of the job", scenario(&format!(r#""phases":[{PHASE}]"#), r#""demand":{}"#)),
        ("link twice in demand", scenario(&format!(r#""phases":[{PHASE}]"#), r#""demand":{"l0":[],"l0":[]}"#)),
        ("4097 phases", phases(4_097, 10_000)),
        ("a million phases in 10^9 ticks", phases(1_000_000, 1_000_000_000)),
        (
            "1025 jobs on a link",
            scenario(&format!(r#"{{"id":"j0","period_ticks":100,"links":["l0"],"phases":[{PHASE}]}}"#), &many_jobs.join(",")),
        ),
        ("a name of a megabyte", scenario(r#"["l0"]"#, &format!(r#"["{}"]"#, "l".repeat(1 << 20)))),
        ("a name that moves the cursor", scenario(r#"["l0"]"#, r#"["\u001b[2J"]"#)),
        ("an unknown field with an escape", scenario(r#""tick_ns""#, r#""\u001b[2J""#)),
        ("a fabric", document("fabric.yaml")),
    ];
    refusals("solve", &["solve", "DOCUMENT"], cases);
}

/// Names of 16 MB, lists of a million, every one within the limits of a file.
#[test]
fn bulk_is_refused_soon() {
    let joined = |item: &str, count: usize| [item].repeat(count).join(",");
    let cases = [
        ("eight million links of a job", scenario(r#"["l0"]"#, &format!("[{}]", joined("\"l0\"", 8_000_000)))),
        ("a million links", scenario(r#"{"id":"l0","capacity_mbps":100}"#, &joined(r#"{"id":"l0","capacity_mbps":100}"#, 1_000_000))),
        ("a number of 16 million digits", scenario(":1000,", &format!(":{},", "9".repeat(16 << 20)))),
        ("a name of 16 million characters", scenario(r#""id":"j0""#, &format!(r#""id":"{}","x":1"#, "j".repeat(16 << 20)))),
        ("deep test data", scenario(r#""tick_ns":1000"#, &format!(r#""tick_ns":1000,"expect":{}"#, "[".repeat(16 << 20)))),
    ];
    refusals("solve-bulk", &["solve", "DOCUMENT"], cases);
}
