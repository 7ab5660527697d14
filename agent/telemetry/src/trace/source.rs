//! Where a trace comes from, and what of it is taken into memory.

use std::{
    fmt,
    io::{self, Read},
    marker::PhantomData,
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

/// Most bytes of a trace that is read as it comes, unpacked: an hour of a profiler, and less than a minute of reading.
pub const JSON_BYTES_MAX: u64 = 4 << 30;

/// Longest text within such a trace, because a text is held whole; names of kernels have some kilobytes at most.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// A reader that ends with an error where more comes than is taken.
pub(super) struct Bounded<R> {
    inner: R,
    left: u64,
    /// Bytes of the text under way; `None` between texts.
    text: Option<usize>,
    /// The byte before was a backslash.
    is_escaped: bool,
}

impl<R: Read> Bounded<R> {
    pub(super) const fn new(inner: R) -> Self {
        Self { inner, left: JSON_BYTES_MAX, text: None, is_escaped: false }
    }

    fn look(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| io::Error::other(format!("more than {} GiB unpacked; record fewer iterations", JSON_BYTES_MAX >> 30)))?;
        for &byte in bytes {
            self.text = match self.text {
                None => (byte == b'"').then_some(0),
                Some(_) if byte == b'"' && !self.is_escaped => None,
                Some(length) if length >= TEXT_BYTES_MAX => {
                    return Err(io::Error::other(format!("a text in it is longer than {} MiB", TEXT_BYTES_MAX >> 20)));
                }
                Some(length) => Some(length + 1),
            };
            self.is_escaped = byte == b'\\' && !self.is_escaped && self.text.is_some();
        }
        Ok(())
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.look(into.get(..count).unwrap_or_default())?;
        Ok(count)
    }
}

/// A number or a text; anything else stands for nothing, because fields of others may hold what they like.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Scalar {
    #[default]
    None,
    Number(f64),
    Text(String),
}

impl Scalar {
    /// A number, also one that is written as a text.
    pub(super) fn number(&self) -> Option<f64> {
        let number = match self {
            Self::None => return None,
            Self::Number(number) => *number,
            Self::Text(text) => text.trim().parse().ok()?,
        };
        Some(number).filter(|number| number.is_finite())
    }

    pub(super) fn text(&self) -> &str {
        if let Self::Text(text) = self { text } else { "" }
    }
}

/// As it stands in the trace.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("nothing"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// What an object says, or nothing where something else stands in its place.
#[derive(Debug)]
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
                Ok(Scalar::None)
            }

            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::None)
            }

            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number as f64))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number as f64))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::None)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Scalar, A::Error> {
                while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::None)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Any<T> {
            type Value = Lenient<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, _: bool) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_unit<E>(self) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_str<E>(self, _: &str) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Lenient<T>, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Lenient(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Lenient<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(object)).map(|value| Lenient(Some(value)))
            }
        }
        deserializer.deserialize_any(Any(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_is_taken_is_refused() {
        let read = |left: u64, text: &str| {
            let mut bytes = Vec::new();
            Bounded { left, ..Bounded::new(text.as_bytes()) }.read_to_end(&mut bytes).map_err(|error| error.to_string())
        };
        assert_eq!(read(5, "[1,2]"), Ok(5));
        assert_eq!(read(4, "[1,2]"), Err("more than 4 GiB unpacked; record fewer iterations".into()));
        let long = "x".repeat(TEXT_BYTES_MAX);
        assert!(read(u64::MAX, &format!("\"{long}\" \"{long}\"")).is_ok());
        assert_eq!(read(u64::MAX, &format!("\"{long}x\"")), Err("a text in it is longer than 16 MiB".into()));
        assert_eq!(
            read(u64::MAX, &format!("\"\\\"{long}\"")),
            Err("a text in it is longer than 16 MiB".into()),
            "an escaped quote ends nothing"
        );
    }
}
