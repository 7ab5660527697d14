//! The messages as JSON Schema: the mapping of `src/json.rs`, said of every field.

use std::collections::{BTreeMap, BTreeSet};

use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use serde_json::{Map, Value, json};

/// Numbers of messages, fields and enumerations in the paths of comments (`descriptor.proto`).
const MESSAGE: i32 = 4;
const ENUM: i32 = 5;
const FIELD: i32 = 2;
const VALUE: i32 = 2;

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

fn enumeration(file: &FileDescriptorProto, at: usize, of: &EnumDescriptorProto) -> Value {
    let mut said = vec![comment(file, &[ENUM, at as i32])];
    for (i, name) in values(of).iter().enumerate() {
        let text = comment(file, &[ENUM, at as i32, VALUE, i as i32]);
        if !text.is_empty() {
            said.push(format!("{name}: {text}."));
        }
    }
    said.retain(|text| !text.is_empty());
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
    let kinds = [
        "invalid",
        "forbidden",
        "not_found",
        "method_not_allowed",
        "conflict",
        "gone",
        "precondition",
        "too_large",
        "exhausted",
        "unavailable",
        "timeout",
        "internal",
    ];
    json!({
        "type": "object",
        "description": "What is wrong, on one line, and mostly what to do about it.",
        "properties": {
            "code": { "type": "string", "enum": kinds },
            "message": { "type": "string" },
            "hint": { "type": "string" },
        },
        "required": ["code", "message"],
    })
}
