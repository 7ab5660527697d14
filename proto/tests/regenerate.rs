//! The committed code is what the `.proto` files say.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::{fs, path::Path};

const FILES: &[&str] = &["antiphase/v1alpha1/types.proto", "antiphase/v1alpha1/topology.proto", "antiphase/v1alpha1/agent.proto"];
const COMMITTED: &str = "src/generated/antiphase.v1alpha1.rs";

/// Fields that hold an enumeration, and how it is written in JSON.
const NAMED: &[(&str, &str)] = &[
    ("SolveRequest.mode", "mode"),
    ("EvaluateRequest.mode", "mode"),
    ("EvaluateRequest.objective", "objective"),
    ("Evaluation.outcome", "outcome"),
    ("Job.state", "job_state"),
    ("Agent.state", "agent_state"),
    ("TurnGroup.state", "turn_group_state"),
    ("TurnJob.activity", "turn_activity"),
    ("Event.severity", "severity"),
];

fn generate(out: &Path) -> String {
    let files = protox::compile(FILES, ["."]).unwrap();
    let mut config = tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(out)
        .btree_map(".")
        .message_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]\n#[serde(default)]")
        .type_attribute(
            "antiphase.v1alpha1.AgentFrame.kind",
            "#[derive(serde::Serialize, serde::Deserialize)]\n#[serde(rename_all = \"snake_case\")]",
        )
        .type_attribute(
            "antiphase.v1alpha1.ServiceFrame.kind",
            "#[derive(serde::Serialize, serde::Deserialize)]\n#[serde(rename_all = \"snake_case\")]",
        )
        .field_attribute("antiphase.v1alpha1.JobSpec.profile", "#[serde(with = \"crate::json::document\")]");
    for (field, module) in NAMED {
        config = config.field_attribute(format!("antiphase.v1alpha1.{field}"), format!("#[serde(with = \"crate::json::{module}\")]"));
    }
    config.compile_fds(files).unwrap();
    fs::read_to_string(out.join("antiphase.v1alpha1.rs")).unwrap()
}

#[test]
fn the_committed_code_is_current() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    fs::create_dir_all(&out).unwrap();
    let fresh = generate(&out);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(COMMITTED, &fresh).unwrap();
    }
    assert!(
        fs::read_to_string(COMMITTED).unwrap() == fresh,
        "{COMMITTED} is stale; run UPDATE_EXPECT=1 cargo test -p antiphase-proto --test regenerate"
    );
}
