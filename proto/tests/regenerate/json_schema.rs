//! The messages as JSON Schema: the mapping of `src/json.rs`, said of every field.

use std::collections::{BTreeMap, BTreeSet};

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use serde_json::{Map, Value, json};

/// Numbers of messages, fields and enumerations in the paths of comments (`descriptor.proto`).
pub(crate) const MESSAGE: i32 = 4;
pub(crate) const ENUM: i32 = 5;
/// Of an enumeration in a message.
pub(crate) const NESTED_ENUM: i32 = 4;
pub(crate) const FIELD: i32 = 2;
pub(crate) const VALUE: i32 = 2;

/// Codes of errors: each in HTTP, in gRPC, and when it comes. A test of the service holds the first three against what it answers.
pub(crate) const ERRORS: &[(&str, u16, &str, &str)] = &[
    ("invalid", 400, "INVALID_ARGUMENT", "the request or a document is wrong"),
    ("forbidden", 403, "PERMISSION_DENIED", "the role is not enough, or a browser asks for another site's page"),
    ("not_found", 404, "NOT_FOUND", "no such job, link, fabric or path"),
    ("method_not_allowed", 405, "UNIMPLEMENTED", "the path has no such method"),
    (
        "conflict",
        409,
        "ABORTED",
        "the plan is not at `if_plan_version`; an `idempotency_key` stands for another commit; the job is the scheduler's; a submission of \
         another content, or a report of a start that is over",
    ),
    ("gone", 410, "NOT_FOUND", "a job that was committed under this `idempotency_key` is not committed any more"),
    ("precondition", 412, "FAILED_PRECONDITION", "no fabric is set, or no scheduler"),
    (
        "too_large",
        413,
        "RESOURCE_EXHAUSTED",
        "the body is above `limits.body_mib`, 4 MiB for a list of names, or holds too much, or the answer would",
    ),
    ("exhausted", 429, "RESOURCE_EXHAUSTED", "a limit of the service"),
    ("internal", 500, "INTERNAL", "a mistake of the service"),
    ("unavailable", 503, "UNAVAILABLE", "the state file cannot be written, or the service is starting or stopping"),
    ("timeout", 504, "DEADLINE_EXCEEDED", "not done within `limits.request_s`"),
];

/// The comment at a place, on one line; empty without one.
pub(crate) fn comment(file: &FileDescriptorProto, path: &[i32]) -> String {
    let all = file.source_code_info.as_ref().map(|info| info.location.as_slice()).unwrap_or_default();
    let here = all.iter().find(|location| location.path == path);
    let said = here.map(|location| [location.leading_comments(), location.trailing_comments()].concat()).unwrap_or_default();
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn described(mut schema: Value, text: &str) -> Value {
    if !text.is_empty() {
        schema["description"] = text.into();
    }
    schema
}

/// The last part of a name: without the package.
pub(crate) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Names of the values of an enumeration in JSON: in lower case, without what all begin with.
fn values(of: &EnumDescriptorProto) -> Vec<String> {
    // By the style of protobuf the first value is PREFIX_UNSPECIFIED.
    let prefix = of.value[0].name().trim_end_matches("UNSPECIFIED").len();
    of.value.iter().map(|value| value.name()[prefix..].to_lowercase()).collect()
}

/// The values of an enumeration, each with what it means.
pub(crate) fn meanings(file: &FileDescriptorProto, at: usize, of: &EnumDescriptorProto) -> Vec<(String, String)> {
    let meaning = |(i, name)| (name, comment(file, &[ENUM, at as i32, VALUE, i]));
    (0..).zip(values(of)).map(meaning).collect()
}

fn enumeration(file: &FileDescriptorProto, at: usize, of: &EnumDescriptorProto) -> Value {
    let meanings = meanings(file, at, of).into_iter().map(|(name, text)| format!("{name}: {text}."));
    let said: Vec<String> = [comment(file, &[ENUM, at as i32])].into_iter().chain(meanings).collect();
    described(json!({ "type": "string", "enum": values(of) }), &said.join(" "))
}

/// One value of a field.
fn value(field: &FieldDescriptorProto, refs: &str) -> Value {
    match field.r#type() {
        Type::Bool => json!({ "type": "boolean" }),
        Type::String => json!({ "type": "string" }),
        Type::Double => json!({ "type": "number" }),
        Type::Int64 => json!({ "type": "integer", "format": "int64" }),
        Type::Uint32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Type::Uint64 => json!({ "type": "integer", "minimum": 0, "format": "uint64" }),
        Type::Message | Type::Enum => json!({ "$ref": format!("{refs}{}", short(field.type_name())) }),
        other => panic!("{}: {other:?} has no JSON yet", field.name()),
    }
}

fn field_schema(message: &DescriptorProto, field: &FieldDescriptorProto, refs: &str) -> Value {
    // The fields whose JSON is not that of their type: `src/json.rs` has their readers.
    if (message.name(), field.name()) == ("JobSpec", "profile") {
        return json!({ "type": ["object", "null"] });
    }
    if field.name() == "fields" {
        return json!({ "anyOf": [{ "type": "array", "items": { "type": "string" } }, { "type": "string" }] });
    }
    let map = message.nested_type.iter().find(|nested| field.type_name().ends_with(&format!(".{}", nested.name())));
    if let Some(entry) = map {
        return json!({ "type": "object", "additionalProperties": value(&entry.field[1], refs) });
    }
    let one = value(field, refs);
    if field.label() == Label::Repeated {
        return json!({ "type": "array", "items": one });
    }
    // A message may be absent, and so may what is `optional`.
    match (field.r#type(), field.proto3_optional(), one["type"].clone()) {
        (Type::Message, ..) => json!({ "anyOf": [one, { "type": "null" }] }),
        (_, true, kind) if !kind.is_null() => {
            let mut one = one;
            one["type"] = json!([kind, "null"]);
            one
        }
        (_, true, _) => panic!("{}: an optional enumeration has no JSON yet", field.name()),
        _ => one,
    }
}

fn message_schema(file: &FileDescriptorProto, at: usize, message: &DescriptorProto, strict: bool, refs: &str) -> Value {
    let mut properties = Map::new();
    for (i, field) in message.field.iter().enumerate() {
        let text = comment(file, &[MESSAGE, at as i32, FIELD, i as i32]);
        properties.insert(field.name().to_owned(), described(field_schema(message, field, refs), &text));
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if strict {
        schema["additionalProperties"] = false.into();
    }
    described(schema, &comment(file, &[MESSAGE, at as i32]))
}

/// The schemas of all messages and enumerations that the service answers or is asked with, by name. Requests take no other keys.
pub(crate) fn schemas(
    files: &FileDescriptorSet,
    requests: &BTreeSet<String>,
    used: &BTreeSet<String>,
    refs: &str,
) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    for file in &files.file {
        for (at, message) in file.message_type.iter().enumerate().filter(|(_, message)| used.contains(message.name())) {
            let strict = requests.contains(message.name());
            out.insert(message.name().to_owned(), message_schema(file, at, message, strict, refs));
        }
        for (at, of) in file.enum_type.iter().enumerate() {
            out.insert(of.name().to_owned(), enumeration(file, at, of));
        }
    }
    out.insert("Error".into(), error());
    out
}

/// The answer of a request that is refused.
fn error() -> Value {
    let codes: Vec<&str> = ERRORS.iter().map(|(code, ..)| *code).collect();
    json!({
        "type": "object",
        "description": "What is wrong, on one line, and mostly what to do about it.",
        "properties": {
            "code": { "type": "string", "enum": codes, "description": "What kind of error it is." },
            "message": { "type": "string", "description": "What is wrong, with the place and the value, on one line." },
            "hint": { "type": "string", "description": "What to do about it; absent where nothing is known." },
        },
        "required": ["code", "message"],
    })
}
