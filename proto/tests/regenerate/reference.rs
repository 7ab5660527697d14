//! `docs/api.md`: every request, message and enumeration for a reader, made of the OpenAPI document.
//!
//! The document says what is there, in which words and of which type; the `.proto` files say in which order.

use std::collections::{BTreeMap, BTreeSet};

use prost_types::{DescriptorProto, FileDescriptorSet, MethodDescriptorProto};
use serde_json::Value;

use crate::{
    json_schema::{ENUM, comment, meanings, short},
    messages,
    prose::{self, EXAMPLES},
};

const JSON: &str = "application/json";

/// The whole page.
pub(crate) fn reference(files: &FileDescriptorSet, openapi: &Value) -> String {
    let mut page = Page { files, openapi, text: String::new() };
    page.text += prose::BEGIN;
    page.errors();
    page.text += prose::GRPC;
    page.index();
    for group in page.groups() {
        page.group(group);
    }
    page.messages();
    page.enumerations();
    page.text.truncate(page.text.trim_end().len());
    page.text.push('\n');
    let doubled = doubled(&page.text);
    assert!(doubled.is_empty(), "two headings have one anchor: {doubled:?}");
    page.text
}

/// What stands there without a description: names of requests, keys, messages, fields and values.
pub(crate) fn undescribed(files: &FileDescriptorSet, openapi: &Value) -> Vec<String> {
    let page = Page { files, openapi, text: String::new() };
    let lacks = |value: &Value, key: &str| value[key].as_str().is_none_or(|text| text.trim().is_empty());
    let mut out = Vec::new();
    for operation in page.operations() {
        if lacks(operation.said, "summary") {
            out.push(operation.title());
        }
        let keys = list(&operation.said["parameters"]).iter().filter(|key| lacks(key, "description"));
        out.extend(keys.map(|key| format!("{}?{}", operation.title(), text(&key["name"]))));
    }
    let schemas = openapi["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas {
        if lacks(schema, "description") {
            out.push(name.clone());
        }
        let fields = schema["properties"].as_object().into_iter().flatten().filter(|(_, field)| lacks(field, "description"));
        out.extend(fields.map(|(field, _)| format!("{name}.{field}")));
        let values = page.values(name).into_iter().filter(|(_, meaning)| meaning.is_empty());
        out.extend(values.map(|(value, _)| format!("{name}.{value}")));
    }
    out
}

/// A request as the document has it.
struct Operation<'a> {
    verb: &'a str,
    path: &'a str,
    said: &'a Value,
}

impl Operation<'_> {
    fn title(&self) -> String {
        format!("{} {}", self.verb.to_uppercase(), self.path)
    }

    fn group(&self) -> &str {
        text(&self.said["tags"][0])
    }

    fn role(&self) -> String {
        let role = text(&self.said["x-antiphase-role"]);
        if role.is_empty() { "any".into() } else { format!("`{role}`") }
    }
}

struct Page<'a> {
    files: &'a FileDescriptorSet,
    openapi: &'a Value,
    text: String,
}

impl<'a> Page<'a> {
    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    /// Text with an empty line behind it.
    fn paragraph(&mut self, said: &str) {
        self.line(said);
        self.text.push('\n');
    }

    fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        let row = |cells: &[String]| format!("| {} |", cells.join(" | "));
        self.line(&row(&head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>()));
        self.line(&format!("|{}", "---|".repeat(head.len())));
        for cells in rows {
            self.line(&row(cells));
        }
        self.text.push('\n');
    }

    fn groups(&self) -> Vec<&'a Value> {
        list(&self.openapi["tags"]).iter().collect()
    }

    fn methods(&self) -> impl Iterator<Item = &'a MethodDescriptorProto> {
        self.files.file.iter().flat_map(|file| &file.service).flat_map(|service| &service.method)
    }

    /// The RPC of a request, if it has one.
    fn method(&self, operation: &Operation<'_>) -> Option<&'a MethodDescriptorProto> {
        self.methods().find(|method| operation.said["operationId"] == method.name())
    }

    /// All requests: those with an RPC in the order of the schema, then the others by their paths.
    fn operations(&self) -> Vec<Operation<'a>> {
        let paths = self.openapi["paths"].as_object().unwrap();
        let all = paths.iter().flat_map(|(path, verbs)| {
            let of = move |(verb, said): (&'a String, &'a Value)| Operation { verb, path, said };
            verbs.as_object().unwrap().iter().map(of)
        });
        let mut all: Vec<_> = all.collect();
        let place = |operation: &Operation<'_>| self.methods().position(|method| operation.said["operationId"] == method.name());
        all.sort_by_key(|operation| (place(operation).unwrap_or(usize::MAX), operation.path));
        all
    }

    /// Prose as Markdown, with links to the requests whose messages it names.
    fn prose(&self, said: &str) -> String {
        let link = |said: String, operation: &Operation<'_>| match self.method(operation).map(|method| short(method.input_type())) {
            Some(input) => said.replace(input, &format!("[{input}](#{})", anchor(&operation.title()))),
            None => said,
        };
        self.operations().iter().fold(escaped(said), link)
    }

    /// The same in a cell of a table, where `|` ends the cell between backticks too.
    fn cell(&self, said: &str) -> String {
        self.prose(said).replace('|', "\\|")
    }

    fn schema(&self, message: &str) -> &'a Value {
        &self.openapi["components"]["schemas"][message]
    }

    /// The values of an enumeration in JSON, with what they mean; empty of what is none.
    fn values(&self, name: &str) -> Vec<(String, String)> {
        let of = |file: &prost_types::FileDescriptorProto| {
            file.enum_type.iter().position(|of| of.name() == name).map(|at| meanings(file, at, &file.enum_type[at]))
        };
        self.files.file.iter().find_map(of).unwrap_or_default()
    }

    fn errors(&mut self) {
        let row = |error: &Value| {
            let code = |key: &str| format!("`{}`", text(&error[key]));
            vec![error["http"].to_string(), code("code"), code("grpc"), self.cell(text(&error["when"]))]
        };
        let rows: Vec<_> = list(&self.openapi["x-antiphase-errors"]).iter().map(row).collect();
        let mut fields = self.rows("Error", &["code", "message", "hint"]);
        // The table below has the codes.
        fields[0][1] = "string".into();
        self.paragraph("## Errors");
        self.paragraph(prose::ERRORS);
        self.table(&["field", "type", "what it is"], &fields);
        self.table(&["HTTP", "`code`", "gRPC", "when"], &rows);
    }

    /// All requests in tables, a group each.
    fn index(&mut self) {
        self.paragraph("## All requests");
        self.paragraph("A path that begins without `/` is below `/v1alpha1/`.");
        for group in self.groups() {
            let name = text(&group["name"]);
            let operations = self.operations();
            let of_group = operations.iter().filter(|operation| operation.group() == name);
            let row = |operation: &Operation<'_>| {
                let title = operation.title();
                let rpc = self.method(operation).map_or_else(|| "none".into(), |method| format!("`{}`", method.name()));
                // The common begin of paths is left out, so that no table is too wide.
                let path = format!("[`{}`](#{})", operation.path.replace("/v1alpha1/", ""), anchor(&title));
                vec![operation.verb.to_uppercase(), path, operation.role(), rpc, self.cell(text(&operation.said["summary"]))]
            };
            let rows: Vec<_> = of_group.map(row).collect();
            self.paragraph(&format!("**{}.** {}", capitalised(name), text(&group["description"])));
            self.table(&["method", "path", "role", "gRPC", "what it does"], &rows);
        }
    }

    fn group(&mut self, group: &Value) {
        let name = text(&group["name"]);
        self.paragraph(&format!("## Requests: {name}"));
        for operation in self.operations().iter().filter(|operation| operation.group() == name) {
            self.operation(operation);
        }
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        let method = self.method(operation);
        self.paragraph(&format!("### {}", operation.title()));
        self.paragraph(&self.prose(text(&operation.said["summary"])));
        let rpc = method.map_or_else(
            || "Not in gRPC.".into(),
            |method| {
                let stream = if method.server_streaming() { ", a stream of messages" } else { "" };
                format!("gRPC: `{}`{stream}.", method.name())
            },
        );
        self.paragraph(&format!("Role: {}. {rpc}", operation.role()));
        if let Some((_, example)) = EXAMPLES.iter().find(|(title, _)| *title == operation.title()) {
            self.paragraph(example.trim());
        }
        let keys = list(&operation.said["parameters"]);
        if !keys.is_empty() {
            self.query(keys);
        }
        let body = &operation.said["requestBody"]["content"];
        if let Some(method) = method {
            let input = short(method.input_type());
            let in_json = body[JSON]["schema"] == refer(input);
            self.body(body, input);
            match (body.is_null(), in_json) {
                (false, true) => {}
                (true, _) if keys.is_empty() => self.paragraph(&format!("In gRPC the request is `{input}`, without fields.")),
                (true, _) => self.paragraph(&format!("In gRPC these keys are the fields of `{input}`.")),
                (false, false) => self.fields(&format!("**In gRPC** (`{input}`):"), input),
            }
        }
        self.answers(operation, method.map(|method| short(method.output_type())));
    }

    fn query(&mut self, keys: &[Value]) {
        let row = |key: &Value| {
            let name = text(&key["name"]);
            let needed = if key["required"] == true { ", needed" } else { "" };
            vec![format!("`{name}`"), format!("{}{needed}", kind(name, &key["schema"])), self.cell(text(&key["description"]))]
        };
        let rows: Vec<_> = keys.iter().map(row).collect();
        self.paragraph("**Query**");
        self.table(&["key", "type", "what it is"], &rows);
    }

    /// What stands in the body of a request, of each media type.
    fn body(&mut self, content: &Value, input: &str) {
        for (media, said) in sorted(content) {
            if said["schema"] == refer(input) {
                self.fields(&format!("**Body** (`{media}`, `{input}`):"), input);
            } else {
                self.paragraph(&format!("**Body** (`{media}`): the document, `{}`.", text(&said["schema"]["description"])));
            }
        }
    }

    /// What a request is answered with, of each status and media type.
    fn answers(&mut self, operation: &Operation<'_>, output: Option<&str>) {
        for (status, answer) in sorted(&operation.said["responses"]).into_iter().filter(|(status, _)| *status != "default") {
            let description = text(&answer["description"]);
            let begin = if status == "200" { "**Answer**".to_owned() } else { format!("**Answer {status}**: {description}") };
            let content = sorted(&answer["content"]);
            if content.is_empty() {
                self.paragraph(&begin);
            }
            for (media, said) in content {
                let schema = &said["schema"];
                match schema["$ref"].as_str().map(short_reference) {
                    Some(message) if is_of_one_request(message) => self.fields(&format!("{begin} (`{media}`, `{message}`):"), message),
                    Some(message) if media == JSON => self.paragraph(&format!("{begin} (`{media}`): {}.", link(message))),
                    Some(message) => self.paragraph(&format!("{begin} (`{media}`): one {} after the other.", link(message))),
                    None => {
                        self.paragraph(&format!("{begin} (`{media}`){}.", plain(schema, description)));
                        if let Some(output) = output.filter(|output| is_of_one_request(output)) {
                            self.fields(&format!("**In gRPC** (`{output}`):"), output);
                        }
                    }
                }
            }
        }
    }

    /// The fields of a message as a table, or that it has none.
    fn fields(&mut self, begin: &str, message: &str) {
        let order: Vec<&str> = self.message(message).field.iter().map(|field| field.name()).collect();
        let rows = self.rows(message, &order);
        assert_eq!(rows.len(), self.schema(message)["properties"].as_object().unwrap().len(), "{message}");
        self.paragraph(begin);
        if rows.is_empty() {
            return self.paragraph("It has no fields.");
        }
        self.table(&["field", "type", "what it is"], &rows);
    }

    fn rows(&self, message: &str, fields: &[&str]) -> Vec<Vec<String>> {
        let properties = &self.schema(message)["properties"];
        let row = |name: &&str| {
            let schema = properties.get(name).unwrap_or_else(|| panic!("{message}.{name} is not in the document"));
            vec![format!("`{name}`"), kind(name, schema), self.cell(text(&schema["description"]))]
        };
        fields.iter().map(row).collect()
    }

    fn message(&self, name: &str) -> &'a DescriptorProto {
        messages(self.files).find(|message| message.name() == name).unwrap()
    }

    /// The messages that stand in others, by name.
    fn messages(&mut self) {
        let schemas = self.openapi["components"]["schemas"].as_object().unwrap();
        let is_shown =
            |(name, schema): &(&'a String, &'a Value)| schema["type"] == "object" && *name != "Error" && !is_of_one_request(name);
        let names: BTreeSet<&str> = schemas.iter().filter(is_shown).map(|(name, _)| name.as_str()).collect();
        self.named("Messages", "Messages that stand in requests and answers, by name:", &names);
        for name in names {
            self.paragraph(&format!("### {name}"));
            let description = self.prose(text(&self.schema(name)["description"]));
            self.fields(&description, name);
        }
    }

    fn enumerations(&mut self) {
        let names = self.files.file.iter().flat_map(|file| &file.enum_type).map(|of| of.name());
        let names: BTreeSet<&str> = names.collect();
        self.named("Enumerations", prose::ENUMERATIONS, &names);
        for name in names {
            // The description of the schema has the values too, for who has no table.
            let values = self.values(name);
            let file = self.files.file.iter().find(|file| file.enum_type.iter().any(|of| of.name() == name)).unwrap();
            let at = file.enum_type.iter().position(|of| of.name() == name).unwrap();
            let said = comment(file, &[ENUM, at as i32]);
            let in_document: Vec<&str> = list(&self.schema(name)["enum"]).iter().map(text).collect();
            assert_eq!(in_document, values.iter().map(|(value, _)| value.as_str()).collect::<Vec<_>>(), "{name}");
            self.paragraph(&format!("### {name}"));
            self.paragraph(&self.prose(&said));
            let rows: Vec<_> = values.iter().map(|(value, meaning)| vec![format!("`{value}`"), self.cell(meaning)]).collect();
            self.table(&["value", "what it means"], &rows);
        }
    }

    /// A heading, and what is below it in one paragraph of links.
    fn named(&mut self, heading: &str, begin: &str, names: &BTreeSet<&str>) {
        self.paragraph(&format!("## {heading}"));
        self.line(begin);
        self.paragraph(&format!("{}.", names.iter().map(|name| link(name)).collect::<Vec<_>>().join(", ")));
    }
}

/// Whether a message is that of one request or answer, and shown there.
fn is_of_one_request(message: &str) -> bool {
    message.ends_with("Request") || message.ends_with("Response")
}

/// What an answer is that is no message: the document of a schema, or what words say.
fn plain(schema: &Value, description: &str) -> String {
    match [text(&schema["description"]), description].into_iter().find(|text| !text.is_empty() && *text != "As asked.") {
        None => String::new(),
        Some(name) if name.starts_with("antiphase.") => format!(": the document, `{name}`"),
        Some(what) => format!(": {}", escaped(what.trim_end_matches('.'))),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What an object has, by name: the order of keys depends on what else is built.
fn sorted(value: &Value) -> BTreeMap<&str, &Value> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value)).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn refer(message: &str) -> Value {
    serde_json::json!({ "$ref": format!("#/components/schemas/{message}") })
}

/// The name at the end of `#/components/schemas/Job`.
fn short_reference(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

fn link(name: &str) -> String {
    format!("[{name}](#{})", anchor(name))
}

fn capitalised(word: &str) -> String {
    let mut rest = word.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// The name that forges give to a heading, so that links lead to it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    kept.replace(' ', "-")
}

/// Headings whose anchors are those of others.
fn doubled(page: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let headings = page.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.map(anchor).filter(|anchor| !seen.insert(anchor.clone())).collect()
}

/// Prose as Markdown: what would be markup or HTML is text; what stands between backticks stays.
fn escaped(prose: &str) -> String {
    let part = |(i, part): (usize, &str)| match i % 2 {
        0 => part.replace('<', "&lt;").replace('*', "\\*").replace('[', "\\["),
        _ => part.to_owned(),
    };
    prose.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// A type in words, with the unit that the name of the field has.
fn kind(name: &str, schema: &Value) -> String {
    let words = words(schema);
    match unit(name).filter(|_| words.contains("integer")) {
        Some(unit) => words.replacen("integer", &format!("integer ({unit})"), 1),
        None => words,
    }
}

/// The unit at the end of a field's name.
fn unit(name: &str) -> Option<&'static str> {
    Some(match name.rsplit('_').next()? {
        "ns" => "ns",
        "us" => "µs",
        "ms" => "ms",
        "s" => "s",
        "mbps" => "Mbit/s",
        "gflops" => "GFLOP/s",
        "ticks" => "ticks",
        _ => return None,
    })
}

fn words(schema: &Value) -> String {
    let optional = |words: String| format!("{words}, optional");
    if let Some(reference) = schema["$ref"].as_str() {
        return link(short_reference(reference));
    }
    if let [one, other] = list(&schema["anyOf"]) {
        return match other["type"].as_str() {
            Some("null") => optional(words(one)),
            _ => format!("{}, or one {} with commas", words(one), words(other)),
        };
    }
    if let [kind, null] = list(&schema["type"])
        && null == "null"
    {
        let mut one = schema.clone();
        one["type"] = kind.clone();
        return optional(words(&one));
    }
    let choices: Vec<String> = list(&schema["enum"]).iter().map(|value| format!("`{}`", text(value))).collect();
    if let [first @ .., last] = choices.as_slice() {
        return format!("{} or {last}", first.join(", "));
    }
    match text(&schema["type"]) {
        "array" => format!("list of {}", words(&schema["items"])),
        "object" if !schema["additionalProperties"].is_null() => format!("map of string to {}", words(&schema["additionalProperties"])),
        "object" => "JSON document".into(),
        "integer" if schema["minimum"].is_null() => "signed integer".into(),
        kind @ ("integer" | "number" | "string" | "boolean") => kind.into(),
        other => panic!("the type {other:?} has no words yet: {schema}"),
    }
}

#[test]
fn text_stays_text_in_the_page() {
    assert_eq!(escaped("a <x> `d <y>` \"*\" [z]"), "a &lt;x> `d <y>` \"\\*\" \\[z]");
    let (files, openapi) = (FileDescriptorSet::default(), serde_json::json!({ "paths": {} }));
    let page = Page { files: &files, openapi: &openapi, text: String::new() };
    assert_eq!(page.cell("a|b `c|d`"), "a\\|b `c\\|d`");
    assert_eq!(anchor("GET /v1alpha1/fabric/map.svg"), "get-v1alpha1fabricmapsvg");
    assert_eq!(doubled("# A b\n## C\n### a B\n"), ["a-b"]);
}

#[test]
fn types_are_said_in_words() {
    let said = |name: &str, schema: Value| kind(name, &schema);
    let number = |kind: Value| serde_json::json!({ "type": kind, "minimum": 0 });
    assert_eq!(said("at_ns", number("integer".into())), "integer (ns)");
    assert_eq!(said("at_ms", serde_json::json!({ "type": "array", "items": number("integer".into()) })), "list of integer (ms)");
    assert_eq!(said("nics", number(serde_json::json!(["integer", "null"]))), "integer, optional");
    assert_eq!(said("phase_error_ns", serde_json::json!({ "type": "integer" })), "signed integer (ns)");
    assert_eq!(said("slot", serde_json::json!({ "anyOf": [refer("Slot"), { "type": "null" }] })), "[Slot](#slot), optional");
    assert_eq!(
        said("shifts", serde_json::json!({ "type": "object", "additionalProperties": { "type": "string" } })),
        "map of string to string"
    );
    assert_eq!(said("mode", serde_json::json!({ "type": "string", "enum": ["a", "b"] })), "`a` or `b`");
}
