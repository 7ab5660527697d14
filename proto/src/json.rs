//! How a few fields stand in JSON: enumerations by name, documents inline.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

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
    TurnGroupState "TURN_GROUP_STATE_" turn_group_state
    TurnActivity "TURN_ACTIVITY_" turn_activity
    Severity "SEVERITY_" severity
}

fn write<E: Named, S: Serializer>(value: i32, serializer: S) -> Result<S::Ok, S::Error> {
    match E::try_from(value) {
        Ok(e) => serializer.serialize_str(&e.name()[E::PREFIX.len()..].to_ascii_lowercase()),
        Err(_) => serializer.serialize_i32(value),
    }
}

fn read<'de, E: Named, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let text = String::deserialize(deserializer)?;
    let name = format!("{}{}", E::PREFIX, text.to_ascii_uppercase());
    E::named(&name).map(Into::into).ok_or_else(|| D::Error::custom(format!("unknown value {text:?}")))
}

/// A document of JSON whose text is the field's value: stands inline in JSON.
pub(crate) mod document {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error, ser};

    pub(crate) fn serialize<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
        let value: Option<serde_json::Value> = text.as_deref().map(serde_json::from_str).transpose().map_err(ser::Error::custom)?;
        value.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
        match Option::<serde_json::Value>::deserialize(deserializer)? {
            None => Ok(None),
            Some(serde_json::Value::String(text)) => Ok(Some(text)),
            Some(value) => serde_json::to_string(&value).map(Some).map_err(D::Error::custom),
        }
    }
}
