//! Documents as they are meant. Two things that serde lets pass are refused: an array in place of an object, which it reads by the order
//! of the fields, and a key that stands twice in a map, of which it takes the last.
//!
//! Fields that stand twice in a message are refused by serde itself.
//!
//! ```
//! let read = |text| antiphase_strict::read::<serde_json::Value, _>(&mut serde_json::Deserializer::from_str(text));
//! assert!(read(r#"{"a": 1, "b": 2}"#).is_ok());
//! assert_eq!(read(r#"{"a": 1, "a": 2}"#).unwrap_err().to_string(), "duplicate key \"a\" at line 1 column 12");
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

/// Reads a value and refuses what is ambiguous in it.
///
/// # Errors
/// Those of the value; an array where an object is meant; a key that stands twice.
pub fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(Strict { inner: deserializer, key: None })
}

/// What a value is read from. `key`: where the text of a key is to be left.
struct Strict<'k, D> {
    inner: D,
    key: Option<&'k mut Option<String>>,
}

/// Whoever hears what a value is.
struct Heard<'k, V> {
    visitor: V,
    /// Whether a message is meant, whose fields have names.
    message: bool,
    key: Option<&'k mut Option<String>>,
}

/// A value within another one.
struct Within<'k, S> {
    seed: S,
    key: Option<&'k mut Option<String>>,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Within<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(Strict { inner: deserializer, key: self.key })
    }
}

macro_rules! read_as {
    ($($method:ident($($name:ident: $kind:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $kind,)* visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method($($name,)* Heard { visitor, message: false, key: self.key })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, D> {
    type Error = D::Error;

    read_as! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, Heard { visitor, message: true, key: None })
    }

    /// Nothing of it is kept, so nothing in it is ambiguous.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! hear {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            if let Some(key) = self.key {
                *key = Some(value.to_string());
            }
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Heard<'_, V> {
    type Value = V::Value;

    hear! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<V::Value, E> {
        self.visitor.visit_bytes(value)
    }

    fn visit_borrowed_bytes<E: Error>(self, value: &'de [u8]) -> Result<V::Value, E> {
        self.visitor.visit_borrowed_bytes(value)
    }

    fn visit_byte_buf<E: Error>(self, value: Vec<u8>) -> Result<V::Value, E> {
        self.visitor.visit_byte_buf(value)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Strict { inner: deserializer, key: self.key })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Strict { inner: deserializer, key: self.key })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<V::Value, A::Error> {
        if self.message {
            return Err(A::Error::custom("an array where an object with its keys is meant"));
        }
        self.visitor.visit_seq(Values(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let seen = (!self.message).then(BTreeSet::new);
        self.visitor.visit_map(Entries { inner: entries, seen })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, of: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Choice(of))
    }
}

/// The values of an array.
struct Values<A>(A);

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Values<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Within { seed, key: None })
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

/// The entries of a map, or of a message, which looks at its keys itself.
struct Entries<A> {
    inner: A,
    seen: Option<BTreeSet<String>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(seen) = &mut self.seen else {
            return self.inner.next_key_seed(Within { seed, key: None });
        };
        let mut key = None;
        let read = self.inner.next_key_seed(Within { seed, key: Some(&mut key) })?;
        match key {
            Some(key) if seen.contains(&key) => Err(A::Error::custom(format_args!("duplicate key {key:?}"))),
            key => {
                seen.extend(key);
                Ok(read)
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Within { seed, key: None })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// A variant of an enum, and what is in it.
struct Choice<A>(A);

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Choice<A> {
    type Error = A::Error;
    type Variant = Choice<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        self.0.variant_seed(Within { seed, key: None }).map(|(value, variant)| (value, Choice(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Choice<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Within { seed, key: None })
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Heard { visitor, message: false, key: None })
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Heard { visitor, message: true, key: None })
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Outer {
        name: String,
        inner: Option<Inner>,
        many: Vec<Inner>,
        by_name: BTreeMap<String, Inner>,
        by_number: BTreeMap<u64, (u8, i8)>,
        kind: Kind,
        any: Option<serde_json::Value>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Inner {
        a: u32,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    enum Kind {
        #[default]
        None,
        Of(Inner),
        Named {
            a: u32,
        },
    }

    fn told(text: &str) -> String {
        let read: Result<Outer, _> = read(&mut serde_json::Deserializer::from_str(text));
        read.map_or_else(|error| error.to_string(), |_| "read".into())
    }

    #[test]
    fn what_is_meant_is_read_as_before() {
        for text in [
            r#"{"name": "n", "inner": {"a": 1}, "many": [{"a": 2}], "by_name": {"x": {"a": 3}, "y": {"a": 3}}, "by_number": {"7": [1, -1]}}"#,
            r#"{"kind": {"Of": {"a": 1}}, "any": {"a": [1, null, "x", {"b": 1.5}]}, "inner": null}"#,
            r#"{"kind": {"Named": {"a": 1}}}"#,
            r#"{"kind": "None"}"#,
        ] {
            let plain: Outer = serde_json::from_str(text).unwrap();
            let strict: Outer = read(&mut serde_json::Deserializer::from_str(text)).unwrap();
            assert_eq!(strict, plain);
        }
    }

    #[test]
    fn an_array_in_place_of_an_object_is_refused_where_it_stands() {
        for (text, column) in [
            (r#"["n"]"#, 1),
            (r#"{"inner": [1]}"#, 11),
            (r#"{"many": [{"a": 1}, [1]]}"#, 21),
            (r#"{"by_name": {"x": [1]}}"#, 19),
            (r#"{"kind": {"Of": [1]}}"#, 17),
            (r#"{"kind": {"Named": [1]}}"#, 20),
        ] {
            assert!(serde_json::from_str::<Outer>(text).is_ok(), "serde reads it: {text}");
            let told = told(text);
            let (problem, place) = told.split_once(" at line 1 column ").unwrap();
            assert_eq!(problem, "an array where an object with its keys is meant", "{text}");
            // The parser stands at the bracket or behind it.
            assert!(place.parse::<usize>().unwrap().abs_diff(column) <= 2, "{text}: {told}");
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_wherever_it_is_kept() {
        for text in
            [r#"{"by_name": {"x": {"a": 1}, "x": {"a": 2}}}"#, r#"{"any": {"b": {"x": 1, "x": 2}}}"#, r#"{"any": [{"x": 1, "\u0078": 2}]}"#]
        {
            assert!(serde_json::from_str::<Outer>(text).is_ok(), "serde reads it: {text}");
            assert!(told(text).starts_with(r#"duplicate key "x" at line 1 column "#), "{text}: {}", told(text));
        }
        assert!(told(r#"{"by_number": {"7": [1, 1], "7": [2, 2]}}"#).starts_with(r#"duplicate key "7""#));
        assert!(told(r#"{"name": "a", "name": "b"}"#).starts_with("duplicate field `name`"));
        assert_eq!(told(r#"{"any": {"x": {"y": 1}, "y": {"x": 1}}}"#), "read");
    }
}
