//! The service's HTTP interface as OpenAPI 3.1, and its messages as JSON Schema, made of the `.proto` files.

use std::collections::BTreeSet;

use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, field_descriptor_proto::Label};
use serde_json::{Map, Value, json};

use crate::{
    json_schema::{ERRORS, comment, schemas, short},
    messages, reachable,
};

/// Where each RPC is over HTTP, the role that it needs, and to which of [`GROUPS`] it belongs.
const ROUTES: &[(&str, &str, &str, &str, &str)] = &[
    ("Solve", "post", "/v1alpha1/solve", "evaluate", "ask"),
    ("Evaluate", "post", "/v1alpha1/evaluate", "evaluate", "ask"),
    ("Commit", "post", "/v1alpha1/commit", "admin", "change"),
    ("Release", "post", "/v1alpha1/release", "admin", "change"),
    ("SetFabric", "put", "/v1alpha1/fabric", "admin", "change"),
    ("GetFabric", "get", "/v1alpha1/fabric", "read", "see"),
    ("GetObserved", "get", "/v1alpha1/fabric/observed", "read", "see"),
    ("ListJobs", "get", "/v1alpha1/jobs", "read", "see"),
    ("ListLinks", "get", "/v1alpha1/links", "read", "see"),
    ("ListExporters", "get", "/v1alpha1/exporters", "read", "see"),
    ("ListAgents", "get", "/v1alpha1/agents", "read", "see"),
    ("ListTurns", "get", "/v1alpha1/turns", "read", "see"),
    ("GetPlan", "get", "/v1alpha1/plan", "read", "see"),
    ("ListEvents", "get", "/v1alpha1/events", "read", "follow"),
    ("ListAudit", "get", "/v1alpha1/audit", "read", "see"),
    ("WatchEvents", "get", "/v1alpha1/events/stream", "read", "follow"),
    ("GetTelemetry", "get", "/v1alpha1/telemetry", "read", "see"),
    ("Submit", "post", "/v1alpha1/submit", "admin", "change"),
    ("Withdraw", "post", "/v1alpha1/withdraw", "admin", "change"),
    ("ListSubmissions", "get", "/v1alpha1/submissions", "read", "see"),
    ("Report", "post", "/v1alpha1/report", "admin", "change"),
];

/// What has no RPC: path, what it is, the type of its answer, the role that it needs.
const OTHERS: &[(&str, &str, &str, &str)] = &[
    ("/healthz", "Alive: requests are answered, from the first moment of a start on.", "text/plain", ""),
    ("/readyz", "Whether changes can be taken: 200, or 503 with the reason.", "text/plain", ""),
    ("/metrics", "Metrics for Prometheus.", "text/plain", "read"),
    ("/openapi.json", "The HTTP interface as OpenAPI 3.1.", "application/json", "read"),
    ("/schema.json", "The messages as JSON Schema.", "application/json", "read"),
];

/// What requests are for.
const GROUPS: &[(&str, &str)] = &[
    ("ask", "Questions that change nothing."),
    ("change", "Changes of the plan, of the fabric and of the scheduler's queue: durable when they are answered."),
    ("see", "What is in force, and how it does."),
    ("follow", "What happens, as it happens."),
    ("draw", "Pictures in SVG."),
    ("process", "The program itself."),
];

const DESCRIPTION: &str = "Which jobs should share which links, and when each may send. Roles stand in the client's certificate; \
    without certificates the service listens on loopback and everybody is admin. Keys that are not known are refused. Requests may \
    also be written as protobuf's own JSON has them: keys in camelCase, whole numbers as text, whole names of enumerations.";

pub(crate) const SERVICE: i32 = 6;
pub(crate) const METHOD: i32 = 2;
const MESSAGE: i32 = 4;
const FIELD: i32 = 2;

/// The messages that stand in requests and answers of the service.
fn used(files: &FileDescriptorSet) -> BTreeSet<String> {
    reachable(files, |method| vec![method.input_type().to_owned(), method.output_type().to_owned()])
}

/// The messages as one JSON Schema with a definition for each.
pub(crate) fn schema(files: &FileDescriptorSet, requests: &BTreeSet<String>) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:antiphase:v1alpha1",
        "title": "antiphase.v1alpha1",
        "$defs": schemas(files, requests, &used(files), "#/$defs/"),
    })
}

/// The whole document.
pub(crate) fn openapi(files: &FileDescriptorSet, requests: &BTreeSet<String>) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let (file, service) = files.file.iter().find_map(|file| Some((file, file.service.first()?))).unwrap();
    let mut left: BTreeSet<&str> = ROUTES.iter().map(|(rpc, ..)| *rpc).collect();
    for (at, method) in service.method.iter().enumerate() {
        let (rpc, verb, path, role, group) = ROUTES.iter().find(|(rpc, ..)| *rpc == method.name()).expect("an RPC has a route");
        left.remove(rpc);
        let input = messages(files).find(|m| m.name() == short(method.input_type())).unwrap();
        let mut operation = json!({
            "operationId": rpc,
            "tags": [group],
            "summary": comment(file, &[SERVICE, 0, METHOD, at as i32]),
            "x-antiphase-role": role,
            "responses": { "200": answered(rpc, short(method.output_type())), "default": refused() },
        });
        if *verb == "get" {
            operation["parameters"] = keys(files, input, |_| true);
        } else {
            operation["requestBody"] = asked(rpc, input.name());
            operation["parameters"] = if *rpc == "Solve" { solve_keys() } else { keys(files, input, |field| field == "fields") };
        }
        if operation["parameters"] == json!([]) {
            operation.as_object_mut().unwrap().remove("parameters");
        }
        paths.entry(*path).or_insert_with(|| json!({}))[*verb] = operation;
    }
    assert!(left.is_empty(), "routes without an RPC: {left:?}");
    for (path, summary, kind, role) in OTHERS {
        let schema = if *kind == "text/plain" { json!({ "type": "string" }) } else { json!({ "type": "object" }) };
        let said = json!({ "200": { "description": "As asked.", "content": { *kind: { "schema": schema } } }, "default": refused() });
        let mut operation = json!({ "tags": ["process"], "summary": summary, "responses": said });
        if !role.is_empty() {
            operation["x-antiphase-role"] = (*role).into();
        }
        paths.insert((*path).into(), json!({ "get": operation }));
    }
    paths.insert("/v1alpha1/links/circles.svg".into(), json!({ "get": circles() }));
    paths.insert("/v1alpha1/fabric/map.svg".into(), json!({ "get": map() }));
    paths.insert("/v1alpha1/jobs/iterations.svg".into(), json!({ "get": iterations() }));
    paths.insert("/v1alpha1/history.svg".into(), json!({ "get": history() }));
    paths.insert("/v1alpha1/fabric/export".into(), json!({ "get": export() }));
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Antiphase topology service", "version": "v1alpha1", "description": DESCRIPTION, "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" } },
        "tags": GROUPS.iter().map(|(name, text)| json!({ "name": name, "description": text })).collect::<Vec<_>>(),
        "x-antiphase-errors": errors(),
        "servers": [{ "url": "http://127.0.0.1:7480" }],
        "security": [{ "certificate": [] }, {}],
        "paths": paths,
        "components": {
            "securitySchemes": { "certificate": { "type": "mutualTLS" } },
            "schemas": schemas(files, requests, &used(files), "#/components/schemas/"),
        },
    })
}

/// What the codes of errors are in HTTP and in gRPC.
fn errors() -> Value {
    let one = |(code, http, grpc, when): &(&str, u16, &str, &str)| json!({ "code": code, "http": http, "grpc": grpc, "when": when });
    ERRORS.iter().map(one).collect()
}

fn reference(message: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{message}") })
}

fn content(kind: &str, schema: &Value) -> Value {
    json!({ kind: { "schema": schema } })
}

/// The answer. A solution is a document of its own, and events come one by one.
fn answered(rpc: &str, output: &str) -> Value {
    let content = match rpc {
        "Solve" => content("application/json", &json!({ "type": "object", "description": "antiphase.solution/v1" })),
        "WatchEvents" => content("text/event-stream", &reference("Event")),
        _ => content("application/json", &reference(output)),
    };
    json!({ "description": "As asked.", "content": content })
}

fn refused() -> Value {
    json!({ "description": "What is wrong, on one line.", "content": content("application/json", &reference("Error")) })
}

/// The body of a request. A scenario and a fabric are documents of their own.
fn asked(rpc: &str, input: &str) -> Value {
    let content = match rpc {
        "Solve" => content("application/json", &json!({ "type": "object", "description": "antiphase.scenario/v1" })),
        "SetFabric" => json!({
            "application/json": { "schema": reference(input) },
            "application/yaml": { "schema": { "type": "string", "description": "antiphase.fabric/v1" } },
        }),
        _ => content("application/json", &reference(input)),
    };
    json!({ "required": true, "content": content })
}

fn key(name: &str, schema: &Value, text: &str) -> Value {
    json!({ "name": name, "in": "query", "required": false, "schema": schema, "description": text })
}

/// The fields of a request as keys of the query. Lists repeat their key.
fn keys(files: &FileDescriptorSet, input: &DescriptorProto, wanted: fn(&str) -> bool) -> Value {
    let fields = input.field.iter().enumerate().filter(|(_, field)| wanted(field.name()));
    fields.map(|(i, field)| key(field.name(), &key_schema(field), &said(files, input, i))).collect()
}

fn said(files: &FileDescriptorSet, input: &DescriptorProto, field: usize) -> String {
    let place = |file: &FileDescriptorProto| file.message_type.iter().position(|m| m.name() == input.name());
    let found = files.file.iter().find_map(|file| Some((file, place(file)?)));
    found.map_or_else(String::new, |(file, at)| comment(file, &[MESSAGE, at as i32, FIELD, field as i32]))
}

fn key_schema(field: &FieldDescriptorProto) -> Value {
    use prost_types::field_descriptor_proto::Type;
    let one = match field.r#type() {
        Type::Bool => json!({ "type": "boolean" }),
        Type::String => json!({ "type": "string" }),
        Type::Uint32 | Type::Uint64 => json!({ "type": "integer", "minimum": 0 }),
        other => panic!("{}: {other:?} in a query", field.name()),
    };
    if field.label() == Label::Repeated { json!({ "type": "array", "items": one }) } else { one }
}

fn solve_keys() -> Value {
    let text = json!({ "type": "string" });
    json!([
        key("mode", &json!({ "type": "string", "enum": ["exact", "cassini"] }), "Rules of the solver; exact when not said."),
        key("robust", &json!({ "type": "integer", "minimum": 0 }), "Allow for this much drift, in the scenario's ticks."),
        key("shifts", &json!({ "type": "array", "items": text }), "Only evaluate these shifts: `JOB=TICKS`."),
    ])
}

fn map() -> Value {
    let text = json!({ "type": "string" });
    let picture = json!({ "description": "The picture.", "content": content("image/svg+xml", &text) });
    json!({
        "operationId": "DrawMap",
        "tags": ["draw"],
        "summary": "The fabric, its links coloured by score under the committed shifts.",
        "x-antiphase-role": "read",
        "parameters": [
            key("pods", &json!({ "type": "boolean" }), "By pods and switches, for a fabric of any size: a cell for each switch, with its worst links up and down, and how full they are as planned and as measured."),
            key("switch", &text, "Only this switch, with everything that it is cabled to."),
            key("width", &json!({ "type": "integer", "minimum": 0 }), "Of a picture by pods or of a switch: how wide it is, in pixels."),
            key("fragment", &json!({ "type": "boolean" }), "Without its style and legend, for a page that has them."),
        ],
        "responses": { "200": picture, "204": { "description": "No fabric is set, or it has no such switch." }, "default": refused() },
    })
}

fn history() -> Value {
    let text = json!({ "type": "string" });
    let whole = json!({ "type": "integer", "minimum": 0 });
    json!({
        "operationId": "DrawHistory",
        "tags": ["draw"],
        "summary": "Scores, iterations, marks and waits of the last hour or day, a sample each minute, over restarts of the service.",
        "x-antiphase-role": "read",
        "parameters": [
            key("seconds", &whole, "How far back: 300 to 86400, which is the default."),
            key("width", &whole, "How wide the picture is, in pixels."),
            key("fragment", &json!({ "type": "boolean" }), "Without its style, for a page that has it."),
        ],
        "responses": { "200": { "description": "The picture.", "content": content("image/svg+xml", &text) }, "default": refused() },
    })
}

fn iterations() -> Value {
    let text = json!({ "type": "string" });
    let picture = json!({ "description": "The picture.", "content": content("image/svg+xml", &text) });
    let mut job = key("job", &text, "Name of the job.");
    job["required"] = true.into();
    json!({
        "operationId": "DrawIterations",
        "tags": ["draw"],
        "summary": "How long the last iterations of one job took: which share of them at most so long.",
        "x-antiphase-role": "read",
        "parameters": [job, key("fragment", &json!({ "type": "boolean" }), "Without its style, for a page that has it.")],
        "responses": { "200": picture, "204": { "description": "Nothing was measured." }, "default": refused() },
    })
}

fn export() -> Value {
    let text = json!({ "type": "string" });
    let list = json!({ "type": "object", "description": "A List of Kubernetes." });
    let kinds = json!({ "text/plain": { "schema": text }, "application/json": { "schema": list } });
    let document = json!({ "description": "The document, with an `ETag`.", "content": kinds });
    let names = ["native", "slurm-yaml", "slurm-conf", "kubernetes-labels", "hyper-node"];
    let mut format = key("format", &json!({ "type": "string", "enum": names }), "As of `antiphase fabric export`.");
    format["required"] = true.into();
    json!({
        "operationId": "ExportFabric",
        "tags": ["see"],
        "summary": "The fabric for another scheduler. What the format cannot say is in headers `x-antiphase-note`.",
        "x-antiphase-role": "read",
        "parameters": [
            format,
            key("label_keys", &text, "For `kubernetes-labels`: `topograph`, `nvidia`, or a key with `{tier}` in it."),
            key("json", &json!({ "type": "boolean" }), "For `kubernetes-labels` and `hyper-node`: the manifests as one list in JSON."),
        ],
        "responses": { "200": document, "304": { "description": "The document is that of `If-None-Match`." }, "default": refused() },
    })
}

fn circles() -> Value {
    let text = json!({ "type": "string" });
    let picture = json!({ "description": "The picture.", "content": content("image/svg+xml", &text) });
    let mut link = key("link", &text, "Name of the link.");
    link["required"] = true.into();
    json!({
        "operationId": "DrawCircles",
        "tags": ["draw"],
        "summary": "The circles of one link, before and after the committed shifts; where two jobs have no common turn, their phases against each other; where more have none, a timeline.",
        "x-antiphase-role": "read",
        "parameters": [
            link,
            key("colour", &json!({ "type": "array", "items": text }), "`SLOT:JOB` gives a job one of the 24 colours."),
            key("fragment", &json!({ "type": "boolean" }), "Without its style, for a page that has it."),
        ],
        "responses": { "200": picture, "204": { "description": "The link carries no job." }, "default": refused() },
    })
}
