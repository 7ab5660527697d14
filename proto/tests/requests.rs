//! Requests as JSON: the schema's spelling and that of protobuf's own JSON, and nothing that is not known.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use antiphase_proto::v1alpha1::{self as pb, CommitRequest, EvaluateRequest, SolveRequest};
use serde::de::DeserializeOwned;

fn read<M: DeserializeOwned>(text: &str) -> M {
    serde_json::from_str(text).unwrap()
}

fn refused<M: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
    serde_json::from_str::<M>(text).unwrap_err().to_string()
}

#[test]
fn both_spellings_are_one_request() {
    let ours = r#"{"jobs": [{"id": "a", "model": {"name": "vgg16", "gpus_per_host": 2, "gpu_gflops": 5}}],
        "if_plan_version": 7, "lease_ms": 600000, "idempotency_key": "k", "fields": ["slots.job", "plan_version"]}"#;
    let protobuf = r#"{"jobs": [{"id": "a", "model": {"name": "vgg16", "gpusPerHost": "2", "gpuGflops": "5"}}],
        "ifPlanVersion": "7", "leaseMs": "600000", "idempotencyKey": "k", "fields": "slots.job,plan_version"}"#;
    let request: CommitRequest = read(protobuf);
    assert_eq!((request.if_plan_version, request.lease_ms, request.idempotency_key.as_str()), (Some(7), 600_000, "k"));
    assert_eq!(request, read(ours));
    let shifts: SolveRequest = read(r#"{"robustTicks": "3", "shifts": {"a": "18446744073709551615", "b": 2}}"#);
    assert_eq!((shifts.robust_ticks, shifts.shifts["a"], shifts.shifts["b"]), (Some(3), u64::MAX, 2));
    let objective = |name: &str| read::<EvaluateRequest>(&format!("{{\"objective\": {name:?}}}")).objective();
    assert_eq!([objective("time"), objective("TIME"), objective("OBJECTIVE_TIME")], [pb::Objective::Time; 3]);
}

#[test]
fn a_key_that_is_not_known_is_named() {
    for (text, key) in [
        (r#"{"if_epoch": 7}"#, "if_epoch"),
        (r#"{"idempotency-key": "k"}"#, "idempotency-key"),
        (r#"{"jobs": [{"id": "a", "host": ["h1"]}]}"#, "host"),
        (r#"{"jobs": [{"id": "a", "model": {"name": "vgg16", "gpusperhost": 2}}]}"#, "gpusperhost"),
    ] {
        let problem = refused::<CommitRequest>(text);
        assert!(problem.contains(&format!("unknown field `{key}`")) && !problem.contains('\n'), "{problem}");
    }
    assert!(refused::<EvaluateRequest>(r#"{"candidates": [{"id": "x", "placement": []}]}"#).contains("`placement`"));
    // Said twice in two spellings is a mistake too.
    assert!(refused::<CommitRequest>(r#"{"lease_ms": 7, "leaseMs": 8}"#).contains("duplicate field"));
}

#[test]
fn numbers_are_whole_and_in_range() {
    for bad in ["-1", "1.5", "\"1.5\"", "\"\"", "\"seven\"", "\"18446744073709551616\"", "true", "[]", "{}"] {
        let problem = refused::<CommitRequest>(&format!("{{\"lease_ms\": {bad}}}"));
        assert!(problem.contains("a whole number in range"), "{bad}: {problem}");
    }
    let ranks = |n: &str| refused::<CommitRequest>(&format!(r#"{{"jobs": [{{"model": {{"ranks": {n}}}}}]}}"#));
    assert!(ranks("4294967296").contains("in range") && ranks("\"4294967296\"").contains("in range"));
    assert_eq!(read::<CommitRequest>(r#"{"if_plan_version": null}"#).if_plan_version, None);
}

/// A reader of answers is older or newer than the service.
#[test]
fn answers_may_have_more() {
    let answer: pb::CommitResponse = read(r#"{"plan_version": 3, "moon": 1}"#);
    assert_eq!(answer.plan_version, 3);
}
