//! What was on the wire once stays what it was: programs of two versions read each other by numbers and types of fields.
//!
//! `shipped.txt` has every field and every value of an enumeration, a line each. One may come, and none may change or go: a field that
//! means something else takes a new number, and the old one is listed as before or reserved in the `.proto` file. `UPDATE_EXPECT=1`
//! adds what has come. JSON goes by names, which are kept likewise.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::{collections::BTreeSet, fs, path::Path};

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

const DESCRIPTOR: &[u8] = include_bytes!("../src/generated/antiphase.v1alpha1.bin");
const SHIPPED: &str = "tests/shipped.txt";

/// `Slot 5 uint64 period_ns`, and so on.
fn of_message(outer: &str, message: &DescriptorProto, out: &mut BTreeSet<String>) {
    let path = format!("{outer}{}", message.name());
    for field in &message.field {
        let kind = match field.r#type() {
            Type::Message | Type::Enum => field.type_name().rsplit("v1alpha1.").next().unwrap_or_default().to_owned(),
            plain => plain.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
        };
        let label = match field.label() {
            Label::Repeated => "repeated ",
            _ if field.proto3_optional() => "optional ",
            _ => "",
        };
        out.insert(format!("{path} {} {label}{kind} {}", field.number(), field.name()));
    }
    message.enum_type.iter().for_each(|inner| of_enum(&format!("{path}."), inner, out));
    message.nested_type.iter().for_each(|inner| of_message(&format!("{path}."), inner, out));
}

fn of_enum(outer: &str, of: &EnumDescriptorProto, out: &mut BTreeSet<String>) {
    out.extend(of.value.iter().map(|value| format!("{outer}{} {} value {}", of.name(), value.number(), value.name())));
}

fn fields(descriptor: &FileDescriptorSet) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for file in &descriptor.file {
        file.message_type.iter().for_each(|message| of_message("", message, &mut out));
        file.enum_type.iter().for_each(|of| of_enum("", of, &mut out));
    }
    out
}

/// Where a line stands: its message and number.
fn place(line: &str) -> Vec<&str> {
    line.split(' ').take(2).collect()
}

/// What of the lines that were shipped is otherwise now.
fn broken(shipped: &BTreeSet<String>, now: &BTreeSet<String>) -> Vec<String> {
    let became = |line: &str| now.iter().find(|other| place(other) == place(line)).map_or("nothing", |other| other);
    shipped.difference(now).map(|line| format!("{line}: is {} now", became(line))).collect()
}

#[test]
fn no_field_on_the_wire_changes_its_number_type_or_name() {
    let now = fields(&FileDescriptorSet::decode(DESCRIPTOR).unwrap());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SHIPPED);
    let shipped: BTreeSet<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    let broken = broken(&shipped, &now);
    assert!(broken.is_empty(), "programs of earlier versions read these otherwise; take a new number:\n{}", broken.join("\n"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, now.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    } else {
        let new: Vec<&String> = now.difference(&shipped).collect();
        assert!(new.is_empty(), "not in {SHIPPED} yet; UPDATE_EXPECT=1 adds them: {new:#?}");
    }
}

#[test]
fn a_field_that_changes_is_found() {
    let lines = |text: &[&str]| text.iter().map(|line| (*line).to_owned()).collect::<BTreeSet<_>>();
    let shipped = lines(&["Slot 1 string job", "Slot 2 uint64 period_ns"]);
    assert!(broken(&shipped, &lines(&["Slot 1 string job", "Slot 2 uint64 period_ns", "Slot 3 bool hold"])).is_empty(), "one may come");
    assert_eq!(broken(&shipped, &lines(&["Slot 1 string job"])), ["Slot 2 uint64 period_ns: is nothing now"]);
    let other = lines(&["Slot 1 string job", "Slot 2 int64 period_ns"]);
    assert_eq!(broken(&shipped, &other), ["Slot 2 uint64 period_ns: is Slot 2 int64 period_ns now"]);
}
