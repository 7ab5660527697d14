//! How a few fields stand in JSON: enumerations by name, documents inline.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serializer,
    de::{Error, SeqAccess, Visitor},
};

use crate::mask::PATHS_MAX;

/// An enumeration of the schema, by the names in its `.proto` file.
pub(crate) trait Named: Sized + TryFrom<i32> + Into<i32> {
    /// What every name starts with, such as `MODE_`.
    const PREFIX: &str;
    fn name(&self) -> &'static str;
    fn named(name: &str) -> Option<Self>;
}

macro_rules! named {
    ($($type:ident $prefix:literal $module:ident)*) => {$(
        impl Named for crate::v1alpha1::$type {
            const PREFIX: &str = $prefix;
            fn name(&self) -> &'static str {
                self.as_str_name()
            }
            fn named(name: &str) -> Option<Self> {
                Self::from_str_name(name)
            }
        }

        pub(crate) mod $module {
            pub(crate) fn serialize<S: serde::Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
                super::write::<crate::v1alpha1::$type, S>(*value, serializer)
            }
            pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
                super::read::<crate::v1alpha1::$type, D>(deserializer)
            }
        }
    )*};
}

named! {
    Mode "MODE_" mode
    Objective "OBJECTIVE_" objective
    Outcome "OUTCOME_" outcome
    JobState "JOB_STATE_" job_state
    AgentState "AGENT_STATE_" agent_state
    Attribution "ATTRIBUTION_" attribution
    Apart "APART_" apart
    TurnGroupState "TURN_GROUP_STATE_" turn_group_state
    TurnActivity "TURN_ACTIVITY_" turn_activity
    Severity "SEVERITY_" severity
    SubmissionState "SUBMISSION_STATE_" submission_state
    RunReport "RUN_REPORT_" run_report
}

fn write<E: Named, S: Serializer>(value: i32, serializer: S) -> Result<S::Ok, S::Error> {
    match E::try_from(value) {
        Ok(e) => serializer.serialize_str(&e.name()[E::PREFIX.len()..].to_ascii_lowercase()),
        Err(_) => serializer.serialize_i32(value),
    }
}

fn read<'de, E: Named, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let text = String::deserialize(deserializer)?;
    let short = || E::named(&format!("{}{}", E::PREFIX, text.to_ascii_uppercase()));
    // The whole name is how protobuf's own JSON writes it.
    E::named(&text).or_else(short).map(Into::into).ok_or_else(|| D::Error::custom(format!("unknown value {text:?}")))
}

/// Whole numbers of requests: a number, or its digits as text, as protobuf's own JSON writes those of 64 bits.
pub(crate) mod whole {
    use std::{collections::BTreeMap, fmt, marker::PhantomData, str::FromStr};

    use serde::{
        Deserialize, Deserializer,
        de::{Error, Unexpected, Visitor},
    };

    struct Read<T>(T);

    struct Digits<T>(PhantomData<T>);

    impl<T: TryFrom<u64> + FromStr> Visitor<'_> for Digits<T> {
        type Value = Read<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number in range")
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Read<T>, E> {
            T::try_from(value).map(Read).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Read<T>, E> {
            text.parse().map(Read).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
        }
    }

    impl<'de, T: TryFrom<u64> + FromStr> Deserialize<'de> for Read<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Digits(PhantomData))
        }
    }

    pub(crate) fn one<'de, T: TryFrom<u64> + FromStr, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        Read::deserialize(deserializer).map(|read| read.0)
    }

    pub(crate) fn optional<'de, T: TryFrom<u64> + FromStr, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
        Ok(Option::<Read<T>>::deserialize(deserializer)?.map(|read| read.0))
    }

    pub(crate) fn map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, u64>, D::Error> {
        let read = BTreeMap::<String, Read<u64>>::deserialize(deserializer)?;
        Ok(read.into_iter().map(|(key, read)| (key, read.0)).collect())
    }
}

/// Paths of fields: a list, or one text with commas, as protobuf's own JSON writes a FieldMask.
pub(crate) fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Paths;

    impl<'de> Visitor<'de> for Paths {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("paths of fields: a list, or one text with commas")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
            // One more than may be, so that the mask refuses it; a comma is a byte, and a path is many.
            Ok(text.split(',').map(str::trim).filter(|path| !path.is_empty()).take(PATHS_MAX + 1).map(str::to_owned).collect())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
            let mut paths = Vec::new();
            while let Some(path) = seq.next_element()? {
                if paths.len() <= PATHS_MAX {
                    paths.push(path);
                }
            }
            Ok(paths)
        }
    }

    deserializer.deserialize_any(Paths)
}

/// A document of JSON whose text is the field's value: stands inline in JSON.
pub(crate) mod document {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
        // A client may send any text; what is no document stays a text, and whoever reads the field says what is wrong with it.
        let inline = |text: &String| match serde_json::from_str(text) {
            Ok(value @ serde_json::Value::Object(_)) => value,
            _ => serde_json::Value::String(text.clone()),
        };
        text.as_ref().map(inline).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
        match Option::<serde_json::Value>::deserialize(deserializer)? {
            None => Ok(None),
            Some(serde_json::Value::String(text)) => Ok(Some(text)),
            Some(value) => serde_json::to_string(&value).map(Some).map_err(D::Error::custom),
        }
    }
}
