use proptest::prelude::*;

use super::*;

const GOOD: &str = r#"{"schema": "antiphase.profile/v1", "name": "vgg16", "model": "vgg16", "period_ns": 255,
 "phases": [{"start_ns": 141, "duration_ns": 114, "rate_mbps": 39000, "collective": "ring", "scope": "data"}],
 "ranks": {"dp": 2}, "variance": 0.02, "source": "learned", "iterations": 40, "collected_at": "2026-11-21T10:00:00Z"}"#;

fn error(from: &str, to: &str) -> String {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD, "{from} is not in the document");
    parse(&text).unwrap_err().to_string()
}

#[test]
fn a_document_survives_both_formats() {
    let profile = parse(GOOD).unwrap();
    assert_eq!(parse(&to_json(&profile)).unwrap(), profile);
    assert_eq!(parse(&to_yaml(&profile)).unwrap(), profile);
    assert_eq!((profile.dims().tp, profile.dims().dp, profile.confidence()), (1, 2, 1.0));
}

/// Serde would take the values of an array by the order of the fields, and of two equal keys of a map the last.
#[test]
fn what_is_ambiguous_is_refused_in_both_formats() {
    const ARRAY: &str = "an array where an object with its keys is meant";
    let phase = r#"{"start_ns": 141, "duration_ns": 114, "rate_mbps": 39000, "collective": "ring", "scope": "data"}"#;
    let values = r#"[141, 114, 39000, "ring", "data"]"#;
    assert!(error(phase, values).starts_with("phases[0]: ") && error(phase, values).contains(ARRAY), "{}", error(phase, values));
    assert!(error(r#"{"dp": 2}"#, "[1, 1, 2, 1, 1]").contains(ARRAY));
    assert!(error(r#"{"dp": 2}"#, r#"{"dp": 2, "dp": 3}"#).contains("duplicate field `dp`"));
    let yaml = |from: &str, to: &str| {
        let text = to_yaml(&parse(GOOD).unwrap());
        assert!(text.contains(from), "{from} is not in {text}");
        parse(&text.replacen(from, to, 1)).unwrap_err().to_string()
    };
    assert!(yaml("period_ns: 255", "period_ns: 255\nperiod_ns: 256").contains("duplicate"));
    assert!(parse("- antiphase.profile/v1\n- vgg16\n").unwrap_err().to_string().contains("expected mapping start"));
}

#[test]
fn every_bad_value_is_named_with_its_path() {
    let cases = [
        ("profile/v1", "profile/v2", "schema: schema is \"antiphase.profile/v2\", expected"),
        ("\"vgg16\"", "\"\"", "name: 0 bytes; must be 1 to 253"),
        ("\"vgg16\"", "\"a\\nb\"", "name: \"a\\nb\" has the character '\\n'"),
        ("\"period_ns\": 255", "\"period_ns\": 0", "period_ns: 0; must be 1 to 281474976710656"),
        ("\"period_ns\": 255", "\"period_ns\": 25.5", "period_ns: invalid type: floating point"),
        ("141", "142", "phases[0].duration_ns: 114 from 142; must end within the period of 255"),
        ("141", "18446744073709551615", "phases[0].duration_ns: 114 from 18446744073709551615; must end"),
        ("114", "0", "phases[0].duration_ns: 0; must be at least 1"),
        ("39000", "0", "phases[0].rate_mbps: 0; must be 1 to"),
        ("39000", "-3", "phases[0].rate_mbps: invalid value: integer `-3`"),
        ("\"ring\"", "\"rings\"", "phases[0].collective: unknown collective \"rings\""),
        ("\"data\"", "\"dataa\"", "phases[0].scope: unknown variant `dataa`"),
        ("\"data\"", "\"pipeline\"", "phases[0].scope: pipeline; ranks has only one rank"),
        ("\"dp\": 2", "\"dp\": 0", "ranks: dp: 0; must be 1 to"),
        ("\"dp\": 2", "\"dq\": 2", "ranks.dq: unknown field `dq`"),
        ("0.02", "1.5", "variance: 1.5; must be 0 to 1"),
        ("40", "0", "iterations: 0; a learned profile"),
        ("2026-11-21T10:00:00Z", "today", "collected_at: \"today\"; must be an RFC 3339"),
        ("\"period_ns\": 255,", "", "document: missing field `period_ns`"),
        ("\"Z\"}", "\"Z\"} x", "document: trailing"),
    ];
    for (from, to, want) in cases {
        let from = if from == "\"Z\"}" { "Z\"}" } else { from };
        let to = if to == "\"Z\"} x" { "Z\"} x" } else { to };
        let got = error(from, to);
        assert!(got.starts_with(want), "{to}: {got}");
        assert!(!got.contains('\n'), "{got}");
    }
}

#[test]
fn phases_of_one_kind_must_not_overlap() {
    let two = r#"{"start_ns": 10, "duration_ns": 20, "rate_mbps": 1, "collective": "ring", "scope": "data"}, {"start_ns": 29,"#;
    let got = error(r#"{"start_ns": 141,"#, two);
    assert_eq!(got, "phases[1].start_ns: 29; the data ring before it lasts until 30");
    let unsorted = error(r#"{"start_ns": 141,"#, &two.replace("29", "9"));
    assert_eq!(unsorted, "phases[1].start_ns: 9; must not be before the phase before it (10)");
    let other = two.replace("\"ring\"", "\"tree\"");
    assert!(parse(&GOOD.replacen(r#"{"start_ns": 141,"#, &other, 1)).is_ok(), "another collective may overlap");
}

#[test]
fn yaml_names_the_path_too_and_has_a_budget() {
    let yaml = to_yaml(&parse(GOOD).unwrap());
    let got = parse(&yaml.replace("39000", "fast")).unwrap_err().to_string();
    assert!(got.starts_with("phases[0].rate_mbps: ") && !got.contains('\n'), "{got}");
    let deep = format!("name: {}", "[".repeat(5_000));
    assert!(parse(&deep).is_err());
    // An otherwise good document: aliases are how a small text becomes a large value.
    let aliased = yaml.replacen("name: vgg16", "name: &n vgg16", 1).replacen("model: vgg16", "model: *n", 1);
    assert!(aliased.contains("*n"));
    assert!(parse(&aliased).unwrap_err().to_string().contains("alias") || parse(&aliased).unwrap_err().to_string().contains("anchor"));
    assert!(parse("").is_err());
    assert!(parse("--- 1\n--- 2\n").is_err());
    assert_eq!(parse(&" ".repeat(DOCUMENT_BYTES_MAX + 1)).unwrap_err(), DocumentError::TooLarge { bytes: DOCUMENT_BYTES_MAX + 1 });
}

/// A document with the byte at `at`, counted around its end, changed.
fn damaged(yaml: bool, at: usize, byte: u8) -> Option<String> {
    let mut text = if yaml { to_yaml(&parse(GOOD).unwrap()) } else { GOOD.to_string() }.into_bytes();
    let at = at % text.len();
    text[at] = byte;
    String::from_utf8(text).ok()
}

/// Found by `a_damaged_document_never_panics`: around the end, byte 393 of the JSON is the `_` of `"period_ns"`, and a backslash
/// there makes a line break of it and the `n`.
#[test]
fn a_key_with_a_line_break_is_one_line() {
    let text = damaged(false, 393, 92).unwrap();
    let said = parse(&text).unwrap_err().to_string();
    assert!(said.starts_with(r"period\ns: unknown field `period\ns`, expected one of"), "{said:?}");
    assert!(!said.contains('\n'), "{said:?}");
    for (key, shown) in [(r"\n", r"\n"), (r"\r", r"\r"), (r"\u2028", r"\u{2028}"), (r"\u001b[2J", r"\u{1b}[2J")] {
        let said = error("\"variance\"", &format!("\"a{key}b\""));
        assert!(said.contains(&format!("unknown field `a{shown}b`")), "{said:?}");
        assert!(!said.chars().any(|c| c.is_control() || c == '\u{2028}'), "{said:?}");
    }
}

proptest! {
    /// No text makes the reader panic, and a document with one byte changed either fails with a
    /// single line or still reads as a profile that survives a round trip.
    #[test]
    fn a_damaged_document_never_panics(at in 0usize..400, byte in any::<u8>(), yaml in any::<bool>()) {
        if let Some(text) = damaged(yaml, at, byte) {
            match parse(&text) {
                Ok(p) => prop_assert_eq!(parse(&to_json(&p)).unwrap(), p),
                Err(e) => prop_assert!(!e.to_string().contains('\n'), "{}", e),
            }
        }
    }
}
