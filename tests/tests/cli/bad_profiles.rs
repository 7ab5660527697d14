//! Profiles that `antiphase profile show` refuses.

use crate::{
    process::document,
    refusal::{changed, refusals},
};

fn profile(change: &str, to: &str) -> String {
    changed(&document("profile.yaml"), change, to)
}

#[test]
fn every_profile_is_refused_in_one_line() {
    let json = crate::process::antiphase(&["profile", "show", "profile.yaml", "-o", "json"]).stdout;
    let cases = [
        ("another schema", profile("profile/v1", "profile/v2")),
        ("no schema", profile("schema: antiphase.profile/v1\n", "")),
        ("a fabric", document("fabric.yaml")),
        ("unknown field", profile("model:", "modell:")),
        ("key twice", profile("model: mine", "model: mine\nmodel: mine")),
        ("period of zero", profile("period_ns: 100000000", "period_ns: 0")),
        ("negative period", profile("period_ns: 100000000", "period_ns: -1")),
        ("period in words", profile("period_ns: 100000000", "period_ns: 100ms")),
        ("period over 64 bits", profile("period_ns: 100000000", "period_ns: 18446744073709551616")),
        ("phase outside the period", profile("duration_ns: 10000000", "duration_ns: 40000000")),
        ("rate of zero", profile("rate_mbps: 40000", "rate_mbps: 0")),
        ("negative rate", profile("rate_mbps: 40000", "rate_mbps: -1")),
        ("unknown collective", profile("ring", "circle")),
        ("a direction that is none", profile("collective: ring", "collective: pipeline-sideways")),
        ("unknown scope", profile("scope: data", "scope: planet")),
        ("unknown source", profile("source: declared", "source: rumour")),
        ("no source", profile("source: declared\n", "")),
        ("no ranks", profile("{dp: 2}", "{dp: 0}")),
        ("confidence over 1", profile("source: declared", "source: declared\nconfidence: 1.5")),
        ("confidence that is no number", profile("source: declared", "source: declared\nconfidence: .nan")),
        ("negative variance", profile("source: declared", "source: declared\nvariance: -1")),
        ("infinite variance", profile("source: declared", "source: declared\nvariance: .inf")),
        ("a date that is none", profile("source: declared", "source: declared\ncollected_at: yesterday")),
        ("an empty name", profile("name: two-bursts", "name: ''")),
        ("a name with an escape", profile("name: two-bursts", r#"name: "\e[2J""#)),
        ("JSON with a negative rate", json.replacen("40000,", "-40000,", 1)),
        ("JSON with an unknown field", json.replacen("\"model\"", "\"modell\"", 1)),
        ("JSON that stops", json[..json.len() / 2].to_owned()),
        ("JSON with more behind it", format!("{json} []")),
        ("over 4 MiB", format!("{}#{}", profile("mine", "yours"), "x".repeat(4 << 20))),
    ];
    refusals("profile", &["profile", "show", "DOCUMENT"], cases);
}
