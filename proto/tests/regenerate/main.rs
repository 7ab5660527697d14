//! The committed code, descriptor, OpenAPI document and JSON Schema are what the `.proto` files say.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod json_schema;
mod openapi;
mod schemas_fit;
mod validator;

use std::{collections::BTreeSet, fs, path::Path};

use prost::Message as _;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

const FILES: &[&str] = &["antiphase/v1alpha1/types.proto", "antiphase/v1alpha1/topology.proto", "antiphase/v1alpha1/agent.proto"];
const COMMITTED: &str = "src/generated/antiphase.v1alpha1.rs";
const DESCRIPTOR: &str = "src/generated/antiphase.v1alpha1.bin";
const PACKAGE: &str = ".antiphase.v1alpha1.";

/// Fields that hold an enumeration, and how it is written in JSON.
const NAMED: &[(&str, &str)] = &[
    ("SolveRequest.mode", "mode"),
    ("EvaluateRequest.mode", "mode"),
    ("EvaluateRequest.objective", "objective"),
    ("Evaluation.outcome", "outcome"),
    ("Job.state", "job_state"),
    ("Agent.state", "agent_state"),
    ("Link.apart", "apart"),
    ("TurnGroup.state", "turn_group_state"),
    ("TurnJob.activity", "turn_activity"),
    ("Event.severity", "severity"),
    ("Submission.state", "submission_state"),
    ("ReportRequest.report", "run_report"),
];

fn messages(files: &FileDescriptorSet) -> impl Iterator<Item = &DescriptorProto> {
    files.file.iter().flat_map(|file| &file.message_type)
}

/// The messages that are named by the methods, and those that stand in them.
fn reachable(files: &FileDescriptorSet, of: impl Fn(&MethodDescriptorProto) -> Vec<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let methods = files.file.iter().flat_map(|file| &file.service).flat_map(|service| &service.method);
    let mut left: Vec<String> = methods.flat_map(of).collect();
    while let Some(name) = left.pop() {
        let Some(message) = messages(files).find(|m| name == format!("{PACKAGE}{}", m.name())) else { continue };
        if found.insert(message.name().to_owned()) {
            left.extend(message.field.iter().filter(|f| f.r#type() == Type::Message).map(|f| f.type_name().to_owned()));
        }
    }
    found
}

/// The messages that stand in requests.
fn requested(files: &FileDescriptorSet) -> BTreeSet<String> {
    reachable(files, |method| vec![method.input_type().to_owned()])
}

/// How a field of a request is read: the spelling of protobuf's own JSON too, whole numbers as text too, paths as one text too.
fn reading(field: &FieldDescriptorProto) -> String {
    let alias = (field.json_name() != field.name()).then(|| format!("#[serde(alias = {:?})]", field.json_name()));
    let with = match (field.r#type(), field.label()) {
        (Type::Uint32 | Type::Uint64, Label::Repeated) => panic!("{}: lists of numbers in requests have no reader yet", field.name()),
        (Type::Uint32 | Type::Uint64, _) if field.proto3_optional() => Some("whole::optional"),
        (Type::Uint32 | Type::Uint64, _) => Some("whole::one"),
        (Type::Message, Label::Repeated) if field.type_name().ends_with(".ShiftsEntry") => Some("whole::map"),
        (Type::String, Label::Repeated) if field.name() == "fields" => Some("paths"),
        (Type::Bool | Type::String | Type::Enum | Type::Message, _) => None,
        (other, _) => panic!("{}: {other:?} in requests has no reader yet", field.name()),
    };
    let with = with.map(|with| format!("#[serde(deserialize_with = \"crate::json::{with}\")]"));
    [alias, with].into_iter().flatten().collect()
}

/// The descriptor as it is committed: without comments, which are as long as all the rest.
fn descriptor(mut files: FileDescriptorSet) -> Vec<u8> {
    files.file.iter_mut().for_each(|file| file.source_code_info = None);
    files.encode_to_vec()
}

fn generate(files: FileDescriptorSet, out: &Path) -> String {
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
    for message in messages(&files).filter(|message| requested(&files).contains(message.name())) {
        let name = format!("{PACKAGE}{}", message.name());
        // A misspelt guard that is ignored is a guard that is lost.
        config = config.message_attribute(&name, "#[serde(deny_unknown_fields)]");
        for field in &message.field {
            config = config.field_attribute(format!("{name}.{}", field.name()), reading(field));
        }
    }
    config.compile_fds(files).unwrap();
    fs::read_to_string(out.join("antiphase.v1alpha1.rs")).unwrap()
}

#[test]
fn the_committed_code_is_current() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    fs::create_dir_all(&out).unwrap();
    let files = protox::compile(FILES, ["."]).unwrap();
    let (fresh, bytes) = (generate(files.clone(), &out), descriptor(files));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(COMMITTED, &fresh).unwrap();
        fs::write(DESCRIPTOR, &bytes).unwrap();
    }
    assert!(
        fs::read(DESCRIPTOR).unwrap() == bytes,
        "{DESCRIPTOR} is stale; run UPDATE_EXPECT=1 cargo test -p antiphase-proto --test regenerate"
    );
    assert!(
        fs::read_to_string(COMMITTED).unwrap() == fresh,
        "{COMMITTED} is stale; run UPDATE_EXPECT=1 cargo test -p antiphase-proto --test regenerate"
    );
}

#[test]
fn the_committed_openapi_and_schema_are_current() {
    let files = protox::compile(FILES, ["."]).unwrap();
    let requests = requested(&files);
    for (path, fresh) in [("openapi.json", openapi::openapi(&files, &requests)), ("schema.json", openapi::schema(&files, &requests))] {
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(path, serde_json::to_string_pretty(&fresh).unwrap() + "\n").unwrap();
        }
        // The order of keys is no part of a document, and depends on what else is built.
        let committed: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert!(committed == fresh, "{path} is stale; run UPDATE_EXPECT=1 cargo test -p antiphase-proto --test regenerate");
    }
}
