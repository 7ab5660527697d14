//! Field selection: the same fields in messages and in JSON, and nothing but them.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use antiphase_proto::{
    mask::{Mask, PATHS_MAX},
    schema, v1alpha1 as pb,
};
use proptest::{collection::vec, prelude::*, sample::subsequence};
use serde_json::{Value, json};

const ANSWER: &str = "EvaluateResponse";

fn mask(paths: &[&str]) -> Mask {
    Mask::parse(ANSWER, paths).unwrap()
}

fn link(i: u64) -> pb::LinkScore {
    pb::LinkScore { link: format!("l{i}"), capacity_mbps: 1 + i, jobs: vec!["a".into(), "b".into()], score: 0.5, zero_shift_score: 0.25 }
}

fn shift(i: u64) -> pb::JobShift {
    pb::JobShift { job: format!("j{i}"), shift_ns: 7 + i, period_ns: 300, hold: true, solo_ns: Some(3), ..pb::JobShift::default() }
}

fn answer(candidates: usize) -> pb::EvaluateResponse {
    let one = |i: usize| pb::Evaluation {
        id: format!("c{i}"),
        index: i as u32,
        outcome: pb::Outcome::Solved.into(),
        mean_score: Some(0.75),
        time_by_turns: Some(1.5),
        links: (0..i as u64).map(link).collect(),
        shifts: (0..3).map(shift).collect(),
        explanation: vec!["a meets b".into(); i],
        shared_links: 4,
        ..pb::Evaluation::default()
    };
    pb::EvaluateResponse { ranked: (1..=candidates).map(one).collect(), fabric_version: 2, plan_version: 9, elapsed_us: 11 }
}

#[test]
fn what_is_wanted_stays_and_nothing_else() {
    let mut json = serde_json::to_value(answer(2)).unwrap();
    mask(&["plan_version", "ranked.id", "ranked.links.score", "ranked.shifts"]).prune(&mut json);
    let shifts = serde_json::to_value([shift(0), shift(1), shift(2)]).unwrap();
    let expected = json!({ "plan_version": 9, "ranked": [
        { "id": "c1", "links": [{ "score": 0.5 }], "shifts": shifts },
        { "id": "c2", "links": [{ "score": 0.5 }, { "score": 0.5 }], "shifts": shifts },
    ] });
    assert_eq!(json, expected);
    let kept = mask(&["ranked.links.score", "planVersion"]).keep(answer(1)).unwrap();
    let one = pb::Evaluation { links: vec![pb::LinkScore { score: 0.5, ..pb::LinkScore::default() }], ..pb::Evaluation::default() };
    assert_eq!(kept, pb::EvaluateResponse { ranked: vec![one], plan_version: 9, ..pb::EvaluateResponse::default() });
}

#[test]
fn no_path_and_a_star_want_all_and_a_message_wants_its_fields() {
    assert!(mask(&[]).is_all() && mask(&["*"]).is_all() && mask(&["ranked.id", "*"]).is_all());
    assert_eq!(mask(&[]).keep(answer(3)).unwrap(), answer(3));
    // In either order the shorter path wins.
    assert_eq!(mask(&["ranked", "ranked.id"]), mask(&["ranked"]));
    assert_eq!(mask(&["ranked.id", "ranked"]), mask(&["ranked"]));
    assert_eq!(mask(&["ranked.meanScore"]), mask(&["ranked.mean_score"]));
    let some = mask(&["ranked.links", "plan_version"]);
    let inside = |of: &Mask, name: &str| of.inside(name).cloned();
    assert_eq!((inside(&some, "elapsed_us"), inside(&mask(&[]), "ranked")), (None, Some(Mask::default())));
    assert!(inside(&some, "ranked").is_some_and(|ranked| !ranked.is_all() && inside(&ranked, "links").is_some_and(|links| links.is_all())));
}

#[test]
fn an_unknown_path_is_named_on_one_line() {
    let refused = |path: &str| Mask::parse(ANSWER, &["plan_version", path]).unwrap_err().to_string();
    assert_eq!(refused("ranked.moon"), "fields: \"ranked.moon\": Evaluation has no field \"moon\"");
    assert_eq!(refused("ranked.id.x"), "fields: \"ranked.id.x\": id has no fields");
    for bad in ["", ".", "ranked.", ".ranked", "ranked..id", "ranked.*", "a\nb", "Ranked"] {
        assert!(!refused(bad).contains('\n'), "{bad:?}");
    }
    assert!(Mask::parse(ANSWER, &vec!["ranked"; PATHS_MAX + 1]).is_err());
    assert!(Mask::parse("Moon", &["ranked"]).is_err());
}

/// Every path that leads to a field of the message, through at most `depth` messages.
fn paths(message: &str, prefix: &str, depth: usize) -> Vec<String> {
    let mut out = Vec::new();
    for field in schema::fields(message).unwrap() {
        let path = format!("{prefix}{}", field.name);
        if let Some(inner) = field.message.as_deref().filter(|_| depth > 0) {
            out.extend(paths(inner, &format!("{path}."), depth - 1));
        }
        out.push(path);
    }
    out
}

/// By brute force: the fields of which a path, or the beginning of one, is in the list.
fn pruned(json: &Value, prefix: &str, wanted: &[String]) -> Value {
    match json {
        Value::Array(items) => items.iter().map(|item| pruned(item, prefix, wanted)).collect(),
        Value::Object(fields) => {
            let keep = |(name, value): (&String, &Value)| {
                let path = format!("{prefix}{name}");
                let inside = format!("{path}.");
                let whole = wanted.contains(&path);
                let partly = wanted.iter().any(|w| w.starts_with(&inside));
                if whole { Some((name.clone(), value.clone())) } else { partly.then(|| (name.clone(), pruned(value, &inside, wanted))) }
            };
            Value::Object(fields.iter().filter_map(keep).collect())
        }
        other => other.clone(),
    }
}

/// What JSON leaves out is a default in the message.
fn filled(json: Value) -> pb::EvaluateResponse {
    serde_json::from_value(json).unwrap()
}

proptest! {
    #[test]
    fn messages_and_json_keep_the_same(
        wanted in subsequence(paths(ANSWER, "", 2), 1..=paths(ANSWER, "", 2).len()),
        candidates in 0_usize..4,
    ) {
        let mask = Mask::parse(ANSWER, &wanted).unwrap();
        let whole = serde_json::to_value(answer(candidates)).unwrap();
        let mut json = whole.clone();
        mask.prune(&mut json);
        prop_assert_eq!(&json, &pruned(&whole, "", &wanted));
        let kept = mask.keep(answer(candidates)).unwrap();
        prop_assert_eq!(&kept, &filled(json));
        // What was kept once is kept again.
        prop_assert_eq!(mask.keep(kept.clone()).unwrap(), kept);
    }

    #[test]
    fn no_path_panics(texts in vec(".{0,20}", 0..5)) {
        let _ = Mask::parse(ANSWER, &texts);
    }
}
