//! The schema as data: which fields each message has.

use std::{collections::BTreeMap, sync::LazyLock};

use prost::Message as _;
use prost_types::{FieldDescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};

/// The `.proto` files as a `FileDescriptorSet`, without their comments: what gRPC reflection hands out.
pub const DESCRIPTOR: &[u8] = include_bytes!("generated/antiphase.v1alpha1.bin");

/// The HTTP interface as OpenAPI 3.1, which the test `regenerate` keeps current.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// The messages as JSON Schema (draft 2020-12), one definition for each; the test `regenerate` keeps it current.
pub const JSON_SCHEMA: &str = include_str!("../schema.json");

/// One field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the `.proto` file, and in JSON.
    pub name: String,
    /// Its name in protobuf's own JSON.
    pub json_name: String,
    /// Its number on the wire.
    pub number: u32,
    /// The message that it holds, without the package, if it holds one.
    pub message: Option<String>,
}

/// The fields of the message of that name, such as `EvaluateResponse`, in the order of the `.proto` file.
#[must_use]
pub fn fields(message: &str) -> Option<&'static [Field]> {
    static MESSAGES: LazyLock<BTreeMap<String, Vec<Field>>> = LazyLock::new(read);
    MESSAGES.get(message).map(Vec::as_slice)
}

fn read() -> BTreeMap<String, Vec<Field>> {
    let set = FileDescriptorSet::decode(DESCRIPTOR).expect("invariant: the committed descriptor is one; the test `regenerate` reads it");
    let messages = set.file.into_iter().flat_map(|file| file.message_type);
    messages.map(|message| (message.name().to_owned(), message.field.iter().map(field).collect())).collect()
}

fn field(of: &FieldDescriptorProto) -> Field {
    let message = (of.r#type() == Type::Message).then(|| short(of.type_name()).to_owned());
    Field { name: of.name().to_owned(), json_name: of.json_name().to_owned(), number: of.number().unsigned_abs(), message }
}

/// The last part of a name: without the package.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
