//! Field selection: which fields of an answer a caller wants, as the paths of a `google.protobuf.FieldMask`.
//!
//! As in the well-known type, paths are joined by union, a path to a message wants all of it, and no path at all wants everything
//! (<https://protobuf.dev/reference/protobuf/google.protobuf/#field-mask>). Beyond it a path leads through lists, because nearly
//! all of an answer stands in lists: `ranked.id` is the id of every candidate.

use std::collections::BTreeMap;

use prost::{
    DecodeError, Message,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field},
};
use serde_json::Value;

use crate::schema::{self, Field};

/// Paths of one mask: the schema has fewer fields than that in any answer.
pub const PATHS_MAX: usize = 200;
/// The path that wants everything.
const ALL: &str = "*";

/// A path that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPath {
    path: String,
    /// What the path met instead of a field.
    problem: String,
}

impl std::fmt::Display for UnknownPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "fields: {:?}: {}", self.path, self.problem)
    }
}

impl std::error::Error for UnknownPath {}

/// The fields of one message that are wanted. The default wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(BTreeMap<u32, Wanted>);

/// A field that is wanted, and which fields of the message in it: all for an empty mask.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    name: &'static str,
    inner: Mask,
}

impl Mask {
    /// Reads the paths of a mask over the message of that name.
    ///
    /// # Errors
    /// Names the first path that leads to no field, or says that there are too many.
    pub fn parse<S: AsRef<str>>(message: &str, paths: &[S]) -> Result<Self, UnknownPath> {
        let refused = |path: &str, problem: String| UnknownPath { path: path.to_owned(), problem };
        if paths.len() > PATHS_MAX {
            return Err(refused("", format!("more than {PATHS_MAX} paths")));
        }
        let mut mask = Self::default();
        let mut all = false;
        for path in paths.iter().map(AsRef::as_ref) {
            if path == ALL {
                all = true;
                continue;
            }
            let steps = steps(message, path).map_err(|problem| refused(path, problem))?;
            mask.add(&steps);
        }
        Ok(if all { Self::default() } else { mask })
    }

    /// Whether everything is wanted.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// What is wanted of the message in a field; `None`: the field is not wanted.
    #[must_use]
    pub fn inside(&self, field: &str) -> Option<&Self> {
        if self.is_all() {
            return Some(self);
        }
        self.0.values().find(|wanted| wanted.name == field).map(|wanted| &wanted.inner)
    }

    fn add(&mut self, steps: &[&'static Field]) {
        let mut at = self;
        for (i, step) in steps.iter().enumerate() {
            let is_new = !at.0.contains_key(&step.number);
            let wanted = at.0.entry(step.number).or_insert_with(|| Wanted { name: &step.name, inner: Self::default() });
            // A shorter path wants all that a longer one wants, whichever comes first.
            if i + 1 == steps.len() {
                wanted.inner = Self::default();
            } else if !is_new && wanted.inner.is_all() {
                return;
            }
            at = &mut wanted.inner;
        }
    }

    /// The message with the wanted fields alone; the others have their defaults.
    ///
    /// # Errors
    /// A message that cannot be read as it was written: our own bug.
    pub fn keep<M: Message + Default>(&self, message: M) -> Result<M, DecodeError> {
        if self.is_all() {
            return Ok(message);
        }
        let mut kept = Vec::new();
        self.copy(&message.encode_to_vec(), &mut kept)?;
        M::decode(kept.as_slice())
    }

    fn copy(&self, message: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let mut rest = message;
        while !rest.is_empty() {
            let field = rest;
            let (number, kind) = decode_key(&mut rest)?;
            let mut inside = rest;
            skip_field(kind, number, &mut rest, DecodeContext::default())?;
            let length = field.len() - rest.len();
            match self.0.get(&number) {
                None => {}
                Some(wanted) if !wanted.inner.is_all() && kind == WireType::LengthDelimited => {
                    decode_varint(&mut inside)?;
                    let mut kept = Vec::new();
                    wanted.inner.copy(&inside[..inside.len() - rest.len()], &mut kept)?;
                    encode_key(number, kind, out);
                    encode_varint(kept.len() as u64, out);
                    out.extend(kept);
                }
                Some(_) => out.extend_from_slice(&field[..length]),
            }
        }
        Ok(())
    }

    /// Leaves the wanted fields alone in the JSON of the message; the others are absent.
    pub fn prune(&self, json: &mut Value) {
        if self.is_all() {
            return;
        }
        match json {
            Value::Array(items) => items.iter_mut().for_each(|item| self.prune(item)),
            Value::Object(fields) => fields.retain(|name, value| {
                let inner = self.inside(name);
                if let Some(inner) = inner {
                    inner.prune(value);
                }
                inner.is_some()
            }),
            _ => {}
        }
    }
}

/// The fields on a path.
fn steps(message: &str, path: &str) -> Result<Vec<&'static Field>, String> {
    let mut steps: Vec<&'static Field> = Vec::new();
    let mut at = Some(message);
    for name in path.split('.') {
        let Some(message) = at else { return Err(format!("{} has no fields", steps.last().map_or("", |step| &step.name))) };
        let fields = schema::fields(message).unwrap_or_default();
        let step = fields.iter().find(|field| field.name == name || field.json_name == name);
        let step = step.ok_or_else(|| format!("{message} has no field {name:?}"))?;
        at = step.message.as_deref();
        steps.push(step);
    }
    Ok(steps)
}
