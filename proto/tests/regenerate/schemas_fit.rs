//! The schema fits what the generated code writes: every message of an answer, empty and with every field set.

use antiphase_proto::v1alpha1 as pb;
use prost::{
    Message,
    encoding::{WireType, encode_key, encode_varint},
};
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Type};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    FILES,
    json_schema::short,
    messages,
    openapi::schema,
    reachable, requested,
    validator::{problems, strict},
};

/// Two values of each field of a message on the wire; a field that holds one keeps the second.
fn filled(files: &FileDescriptorSet, message: &DescriptorProto) -> Vec<u8> {
    let mut out = Vec::new();
    for field in message.field.iter().cycle().take(2 * message.field.len()) {
        let number = field.number().unsigned_abs();
        match field.r#type() {
            Type::Bool | Type::Uint32 | Type::Uint64 | Type::Int64 | Type::Enum => {
                encode_key(number, WireType::Varint, &mut out);
                encode_varint(1, &mut out);
            }
            Type::Double => {
                encode_key(number, WireType::SixtyFourBit, &mut out);
                out.extend(0.5_f64.to_le_bytes());
            }
            Type::String | Type::Message => {
                let nested = messages(files).chain(&message.nested_type).find(|m| m.name() == short(field.type_name()));
                // A text that is a document too, where a document stands inline.
                let inside = nested.filter(|_| field.r#type() == Type::Message).map_or_else(|| b"{}".to_vec(), |m| filled(files, m));
                encode_key(number, WireType::LengthDelimited, &mut out);
                encode_varint(inside.len() as u64, &mut out);
                out.extend(inside);
            }
            other => panic!("{}: {other:?}", field.name()),
        }
    }
    out
}

/// The messages as this build reads and writes them.
trait Known {
    fn json(bytes: &[u8]) -> Value;
    fn takes(json: &Value) -> Result<(), String>;
}

impl<M: Message + Default + Serialize + DeserializeOwned> Known for M {
    fn json(bytes: &[u8]) -> Value {
        serde_json::to_value(M::decode(bytes).unwrap()).unwrap()
    }

    fn takes(json: &Value) -> Result<(), String> {
        serde_json::from_value::<M>(json.clone()).map(drop).map_err(|e| e.to_string())
    }
}

type Case = (&'static str, fn(&[u8]) -> Value, fn(&Value) -> Result<(), String>);

macro_rules! cases {
    ($($name:ident)*) => { &[$((stringify!($name), <pb::$name as Known>::json, <pb::$name as Known>::takes)),*] };
}

const CASES: &[Case] = cases! {
    SolveRequest SolveResponse EvaluateRequest EvaluateResponse CommitRequest CommitResponse ReleaseRequest ReleaseResponse
    SetFabricRequest SetFabricResponse GetFabricRequest GetFabricResponse GetObservedRequest GetObservedResponse ListJobsRequest ListJobsResponse ListLinksRequest
    ListLinksResponse ListAgentsRequest ListAgentsResponse ListExportersRequest ListExportersResponse ListTurnsRequest ListTurnsResponse GetPlanRequest Plan ListAuditRequest ListAuditResponse AuditEntry ListEventsRequest
    ListEventsResponse WatchEventsRequest Event GetTelemetryRequest GetTelemetryResponse SubmitRequest WithdrawRequest
    ListSubmissionsRequest ListSubmissionsResponse ReportRequest Submission
};

#[test]
fn the_schema_fits_what_is_written_and_what_is_read() {
    let files = protox::compile(FILES, ["."]).unwrap();
    let (requests, root) = (requested(&files), schema(&files, &requested(&files)));
    let strict = strict(&root);
    let named = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    // Every message that a method names is a case.
    let direct = |files: &FileDescriptorSet| {
        let methods = files.file.iter().flat_map(|f| &f.service).flat_map(|s| &s.method);
        methods.flat_map(|m| [short(m.input_type()).to_owned(), short(m.output_type()).to_owned()]).collect::<Vec<_>>()
    };
    for name in direct(&files) {
        assert!(CASES.iter().any(|(case, ..)| *case == name), "{name} is no case here");
    }
    for (name, json, takes) in CASES {
        let message = messages(&files).find(|m| m.name() == *name).unwrap();
        for bytes in [Vec::new(), filled(&files, message)] {
            let written = json(&bytes);
            assert_eq!(problems(&strict, &named(name), &written, name), Vec::<String>::new());
            // Every field is written, so a field that the schema has and the code lacks is found too.
            let fields = root["$defs"][name]["properties"].as_object().unwrap();
            assert!(fields.keys().all(|field| written.get(field).is_some()), "{name}: {written}");
            assert_eq!(takes(&written), Ok(()), "{name}: {written}");
            if requests.contains(*name) {
                let mut more = written;
                more["moon"] = 1.into();
                assert!(takes(&more).is_err() && !problems(&root, &named(name), &more, name).is_empty(), "{name}");
            }
        }
    }
    // What stands in them is reached by the walk, so all definitions were looked at but those of agents alone.
    assert!(reachable(&files, |m| vec![m.output_type().to_owned()]).len() > 20);
}

#[test]
fn a_wrong_answer_is_found() {
    let files = protox::compile(FILES, ["."]).unwrap();
    let root = schema(&files, &requested(&files));
    let wrong = |name: &str, value: Value| {
        let found = problems(&strict(&root), &json!({ "$ref": format!("#/$defs/{name}") }), &value, name);
        assert!(!found.is_empty(), "{name} takes {value}");
    };
    wrong("CommitResponse", json!({ "plan_version": "3" }));
    wrong("CommitResponse", json!({ "planVersion": 3 }));
    wrong("CommitResponse", json!({ "plan_version": -1 }));
    wrong("CommitResponse", json!({ "slots": [{ "job": 7 }] }));
    wrong("Evaluation", json!({ "outcome": "moon" }));
    wrong("Evaluation", json!({ "index": 1_u64 << 32 }));
    wrong("Error", json!({ "code": "invalid" }));
}
