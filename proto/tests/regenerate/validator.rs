//! A validator for what the generator writes of JSON Schema; a keyword that it does not know is a failure, not a pass.
#![allow(dead_code, reason = "each test uses a part")]

use serde_json::Value;

/// What is wrong with `value`, with the place; empty when it fits. `root` holds what `$ref` names.
pub(crate) fn problems(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut wrong = |what: String| out.push(format!("{at}: {what}: {value}"));
    for (keyword, said) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "description" | "format" => {}
            "$ref" => {
                let path = said.as_str().unwrap().strip_prefix('#').unwrap();
                let schema = root.pointer(path).unwrap_or_else(|| panic!("{at}: no {path}"));
                problems(root, schema, value, at).into_iter().for_each(&mut wrong);
            }
            "type" if !kinds(said).iter().any(|kind| is(kind, value)) => wrong(format!("not {said}")),
            "enum" if !said.as_array().unwrap().contains(value) => wrong(format!("not one of {said}")),
            "minimum" if value.as_f64().is_some_and(|v| v < said.as_f64().unwrap()) => wrong(format!("below {said}")),
            "maximum" if value.as_f64().is_some_and(|v| v > said.as_f64().unwrap()) => wrong(format!("above {said}")),
            "required" => {
                let missing = said.as_array().unwrap().iter().filter(|name| value.get(name.as_str().unwrap()).is_none());
                missing.for_each(|name| wrong(format!("without {name}")));
            }
            "items" => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
                items.flat_map(|(i, item)| problems(root, said, item, &format!("{at}[{i}]"))).for_each(&mut wrong);
            }
            "properties" => {
                let inner = said.as_object().unwrap().iter().filter_map(|(name, schema)| Some((name, schema, value.get(name)?)));
                inner.flat_map(|(name, schema, value)| problems(root, schema, value, &format!("{at}.{name}"))).for_each(&mut wrong);
            }
            "additionalProperties" => {
                let known = |name: &String| schema["properties"].get(name).is_some();
                for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| !known(name)) {
                    match said {
                        Value::Bool(false) => wrong(format!("{name} is not known")),
                        schema => problems(root, schema, value, &format!("{at}.{name}")).into_iter().for_each(&mut wrong),
                    }
                }
            }
            "anyOf" if !said.as_array().unwrap().iter().any(|s| problems(root, s, value, at).is_empty()) => {
                wrong(format!("none of {said}"))
            }
            "type" | "enum" | "minimum" | "maximum" | "anyOf" => {}
            other => panic!("{at}: the keyword {other} has no rule here"),
        }
    }
    out
}

fn kinds(said: &Value) -> Vec<&str> {
    said.as_array().map_or_else(|| vec![said.as_str().unwrap()], |all| all.iter().map(|kind| kind.as_str().unwrap()).collect())
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("no type {other}"),
    }
}

/// The same definitions, of which none takes a key that it does not name: a field that the schema lacks is then found.
pub(crate) fn strict(root: &Value) -> Value {
    let mut root = root.clone();
    for schema in root["$defs"].as_object_mut().unwrap().values_mut().filter(|schema| schema["type"] == "object") {
        schema["additionalProperties"] = false.into();
    }
    root
}
