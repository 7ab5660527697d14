//! Bounded JSON as a tree whose places can be named, because LLDP's documents change shape.
//!
//! Nesting is limited by `serde_json` (128), the number of values by [`VALUES_MAX`], and a key
//! that occurs twice in an object is an error rather than a silent loss.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

use super::place::{bounded, document, quoted};
use crate::FabricError;

/// Values in one document: eight per host of the largest fabric, which fits in 300 MB.
const VALUES_MAX: usize = 1 << 22;

/// A JSON value. Keys of an object are sorted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Unsigned(u64),
    /// A negative or fractional number, as text.
    OtherNumber(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Reads a document; the error names line and column.
pub(crate) fn read(text: &str) -> Result<Json, FabricError> {
    let text = bounded(text)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let mut left = VALUES_MAX;
    // A second value behind the first one is an error and not ignored.
    let value = Seed(&mut left).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        let text = error.to_string();
        // serde_json repeats the place at the end of its text, and the error names it separately.
        let problem = text.split(" at line ").next().unwrap_or(&text);
        document(place, problem)
    })
}

struct Seed<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        // Each value is charged before it is read, at any depth, so one allowance bounds the whole tree.
        *self.0 = self.0.checked_sub(1).ok_or_else(|| D::Error::custom(format!("more than {VALUES_MAX} values")))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        // serde_json hands every integer from 0 on to `visit_u64`, so this one is negative.
        Ok(Json::OtherNumber(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::OtherNumber(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed(self.0))? {
            list.push(item);
        }
        // lldpd's json0 puts nearly every value into a list of its own, so the spare room of short lists is given back.
        list.shrink_to_fit();
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut object: Vec<(String, Json)> = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Seed(self.0))?;
            object.push((key, value));
        }
        // `At::get` searches by bisection, and a repeated key lies beside its twin.
        object.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(twice) = object.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(A::Error::custom(format!("key {} occurs twice in one object", quoted(&twice[0].0))));
        }
        object.shrink_to_fit();
        Ok(Json::Object(object))
    }
}

/// A value and the way to it, so that an error can name its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) json: &'a Json,
    up: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    pub(crate) fn root(json: &'a Json) -> Self {
        Self { json, up: None, step: Step::Root }
    }

    /// `$.PORT.Ethernet0.speed`, `$.instances[3].id`; a long key is cut.
    pub(crate) fn place(&self) -> String {
        let mut steps = Vec::new();
        let mut at = Some(self);
        while let Some(here) = at {
            steps.push(match here.step {
                Step::Root => "$".into(),
                // Only keys that read as one step of a path stand bare; all others are quoted and cut.
                Step::Key(key) if !key.is_empty() && key.len() <= 60 && key.chars().all(|c| c.is_alphanumeric() || "-_/|".contains(c)) => {
                    format!(".{key}")
                }
                Step::Key(key) => format!("[{}]", quoted(key)),
                Step::Index(i) => format!("[{i}]"),
            });
            at = here.up;
        }
        steps.reverse();
        steps.concat()
    }

    pub(crate) fn error(&self, problem: impl Into<String>) -> FabricError {
        document(self.place(), problem)
    }

    /// "{expected} expected, found {what is there}".
    pub(crate) fn expected(&self, expected: &str) -> FabricError {
        let found = match self.json {
            Json::Null => "null".into(),
            Json::Bool(value) => value.to_string(),
            Json::Unsigned(value) => value.to_string(),
            Json::OtherNumber(value) => value.clone(),
            Json::Text(value) => quoted(value),
            Json::List(list) => format!("a list of {}", list.len()),
            Json::Object(object) => format!("an object of {} keys", object.len()),
        };
        self.error(format!("{expected} expected, found {found}"))
    }

    /// The value under `key`; none where there is no such key, a null or not an object.
    pub(crate) fn get(&'a self, key: &'a str) -> Option<At<'a>> {
        let Json::Object(object) = self.json else { return None };
        // `visit_map` has sorted the keys, so bisection finds one.
        let index = object.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        let json = &object[index].1;
        (*json != Json::Null).then_some(At { json, up: Some(self), step: Step::Key(key) })
    }

    /// All entries of an object, sorted by key.
    pub(crate) fn entries(&'a self) -> Result<impl Iterator<Item = (&'a str, At<'a>)>, FabricError> {
        let Json::Object(object) = self.json else { return Err(self.expected("an object")) };
        Ok(object.iter().map(move |(key, json)| (key.as_str(), At { json, up: Some(self), step: Step::Key(key) })))
    }

    /// Requires an object.
    pub(crate) fn object(&self) -> Result<(), FabricError> {
        if matches!(self.json, Json::Object(_)) { Ok(()) } else { Err(self.expected("an object")) }
    }

    /// All items of a list.
    pub(crate) fn items(&'a self) -> Result<impl Iterator<Item = At<'a>>, FabricError> {
        let Json::List(list) = self.json else { return Err(self.expected("a list")) };
        Ok(list.iter().enumerate().map(move |(i, json)| At { json, up: Some(self), step: Step::Index(i) }))
    }

    /// A text.
    pub(crate) fn text(&self) -> Result<&'a str, FabricError> {
        match self.json {
            Json::Text(text) => Ok(text),
            _ => Err(self.expected("a text")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_paths() {
        let json = read(r#"{"PORT":{"Ethernet0":{"lanes":[1,-2]},"a b":3}}"#).unwrap();
        let root = At::root(&json);
        let port = root.get("PORT").unwrap();
        let ethernet = port.get("Ethernet0").unwrap();
        let lanes = ethernet.get("lanes").unwrap();
        let second = lanes.items().unwrap().nth(1).unwrap();
        assert_eq!(second.text().unwrap_err().to_string(), "$.PORT.Ethernet0.lanes[1]: a text expected, found -2");
        assert_eq!(port.get("a b").unwrap().place(), r#"$.PORT["a b"]"#);
    }

    #[test]
    fn hostile_documents_are_refused() {
        for (text, problem) in [
            (r#"{"a":1,"b":2,"a":3}"#.to_string(), r#"line 1, column 19: key "a" occurs twice in one object"#),
            ("[".repeat(1_000_000), "line 1, column 128: recursion limit exceeded"),
            ("[1,]".into(), "line 1, column 4: trailing comma"),
            ("1 2".into(), "line 1, column 3: trailing characters"),
            ("1e999".into(), "line 1, column 5: number out of range"),
            (String::new(), "line 1, column 0: EOF while parsing a value"),
        ] {
            assert_eq!(read(&text).unwrap_err().to_string(), problem);
        }
        let many = format!("[{}0]", "0,".repeat(VALUES_MAX));
        assert!(read(&many).unwrap_err().to_string().ends_with("more than 4194304 values"));
    }
}
