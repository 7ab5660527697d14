//! The committed code, descriptor, OpenAPI document and JSON Schema are what the `.proto` files say.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod json_schema;
mod openapi;
mod prose;
mod reference;
mod schemas_fit;
mod validator;

use std::{collections::BTreeSet, fs, path::Path};

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

use self::{
    json_schema::{ENUM, FIELD, MESSAGE, NESTED_ENUM, VALUE, comment},
    openapi::{METHOD, SERVICE},
};

const FILES: &[&str] = &["antiphase/v1alpha1/types.proto", "antiphase/v1alpha1/topology.proto", "antiphase/v1alpha1/agent.proto"];
const COMMITTED: &str = "src/generated/antiphase.v1alpha1.rs";
const DESCRIPTOR: &str = "src/generated/antiphase.v1alpha1.bin";
/// The API reference, beside the other documents.
const REFERENCE: &str = "../docs/api.md";
const PACKAGE: &str = ".antiphase.v1alpha1.";

/// Fields that hold an enumeration, and how it is written in JSON.
const NAMED: &[(&str, &str)] = &[
    ("SolveRequest.mode", "mode"),
    ("EvaluateRequest.mode", "mode"),
    ("EvaluateRequest.objective", "objective"),
    ("Evaluation.outcome", "outcome"),
    ("Job.state", "job_state"),
    ("Agent.state", "agent_state"),
    ("Congestion.attribution", "attribution"),
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

#[test]
fn the_committed_api_reference_is_current() {
    let files = protox::compile(FILES, ["."]).unwrap();
    let fresh = reference::reference(&files, &openapi::openapi(&files, &requested(&files)));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(REFERENCE, &fresh).unwrap();
    }
    let committed = fs::read_to_string(REFERENCE).unwrap();
    assert!(committed == fresh, "{REFERENCE} is stale; run UPDATE_EXPECT=1 cargo test -p antiphase-proto --test regenerate");
}

/// Everything in the files, of agents too, that has no comment.
fn uncommented(files: &FileDescriptorSet) -> Vec<String> {
    let mut out = Vec::new();
    for file in &files.file {
        let mut ask = |name: String, path: &[i32]| {
            if comment(file, path).is_empty() {
                out.push(name);
            }
        };
        for (service, s) in file.service.iter().zip(0..) {
            ask(service.name().into(), &[SERVICE, s]);
            service.method.iter().zip(0..).for_each(|(method, m)| ask(format!("rpc {}", method.name()), &[SERVICE, s, METHOD, m]));
        }
        let mut ask_values = |outer: &str, of: &EnumDescriptorProto, path: &[i32]| {
            let name = format!("{outer}{}", of.name());
            of.value.iter().zip(0..).for_each(|(value, v)| ask(format!("{name}.{}", value.name()), &[path, &[VALUE, v]].concat()));
            ask(name, path);
        };
        file.enum_type.iter().zip(0..).for_each(|(of, e)| ask_values("", of, &[ENUM, e]));
        for (message, m) in file.message_type.iter().zip(0..) {
            let outer = format!("{}.", message.name());
            message.enum_type.iter().zip(0..).for_each(|(of, e)| ask_values(&outer, of, &[MESSAGE, m, NESTED_ENUM, e]));
        }
        for (message, m) in file.message_type.iter().zip(0..) {
            ask(message.name().into(), &[MESSAGE, m]);
            let fields = message.field.iter().zip(0..);
            fields.for_each(|(field, f)| ask(format!("{}.{}", message.name(), field.name()), &[MESSAGE, m, FIELD, f]));
        }
    }
    out
}

#[test]
fn every_request_message_field_and_value_is_described() {
    let files = protox::compile(FILES, ["."]).unwrap();
    let openapi = openapi::openapi(&files, &requested(&files));
    assert_eq!(uncommented(&files), [""; 0], "these have no comment in the .proto files");
    assert_eq!(reference::undescribed(&files, &openapi), [""; 0], "these have no description in the document");
}

#[test]
fn what_is_not_described_is_found() {
    let bare = "syntax = \"proto3\";\npackage antiphase.v1alpha1;\n";
    let files = protox::compile(FILES, ["."]).unwrap();
    let mut openapi = openapi::openapi(&files, &requested(&files));
    openapi["components"]["schemas"]["Job"]["properties"]["gpus"]["description"] = " ".into();
    openapi["components"]["schemas"]["Slot"].as_object_mut().unwrap().remove("description");
    openapi["paths"]["/v1alpha1/jobs"]["get"]["summary"] = "".into();
    openapi["paths"]["/v1alpha1/links"]["get"]["parameters"][0]["description"] = "".into();
    let found = reference::undescribed(&files, &openapi);
    assert_eq!(found, ["GET /v1alpha1/jobs", "GET /v1alpha1/links?limit", "Job.gpus", "Slot"]);
    let text = format!(
        "{bare}// A.\nmessage A {{ string b = 1; oneof c {{ string d = 2; }} enum E {{ E_UNSPECIFIED = 0; // e\n }} }}\nenum F {{ F_UNSPECIFIED = 0; }}\n"
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bare");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.proto"), text).unwrap();
    let files = protox::compile(["a.proto"], [&folder]).unwrap();
    assert_eq!(uncommented(&files), ["F.F_UNSPECIFIED", "F", "A.E", "A.b", "A.d"]);
}
