//! The document as it is written: types of the keys, and their limits.

use alloc::{string::String, vec::Vec};
use core::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_saphyr::{FlowMap, Spanned};
use units::Rate;

use crate::{Provenance, capacity, yaml};

/// The value of `schema`.
pub const SCHEMA: &str = "antiphase.fabric/v1";
/// Most YAML nodes in one document, read in less than a second: a rail-optimised fabric of 100,000
/// NICs needs all but a tenth of it.
pub const DOCUMENT_NODES_MAX: usize = 1_750_000;
/// Most cables in one entry: more than any switch has ports.
pub const PARALLEL_MAX: u32 = 1_024;
/// Most cables of one document that stand under `parallel`: a document must not become much
/// larger than it looks.
pub const PARALLEL_TOTAL_MAX: u32 = 1 << 18;

/// Most GPUs of a host: beyond the largest racks that count as one.
pub const HOST_GPUS_MAX: u32 = 1_024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(rename = "schema", deserialize_with = "schema")]
    pub(super) _schema: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) defaults: Direction,
    #[serde(default)]
    pub(super) hosts: Vec<Lined<String>>,
    #[serde(default)]
    pub(super) gpus: Vec<Lined<Gpus>>,
    #[serde(default)]
    pub(super) switches: Vec<Lined<Switch>>,
    #[serde(default)]
    pub(super) cables: Vec<Lined<Cable>>,
}

fn schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    yaml::schema(deserializer, SCHEMA)
}

/// The same for writing: entries on one line each.
#[derive(Debug, Serialize)]
pub(super) struct DocumentOut {
    pub(super) schema: &'static str,
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) defaults: Option<FlowMap<Direction>>,
    pub(super) hosts: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) gpus: Vec<FlowMap<Gpus>>,
    pub(super) switches: Vec<FlowMap<Switch>>,
    pub(super) cables: Vec<FlowMap<Cable>>,
}

/// GPUs of hosts that are alike; a key of its own, because the hosts of a cluster are mostly all alike.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpus {
    /// All others, where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hosts: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u32>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) gpu_type: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    pub(super) name: String,
    /// 0 = unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) tier: u8,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cable {
    pub(super) ends: [End; 2],
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) capacity: Option<Capacity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mbps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provenance: Option<ProvenanceName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parallel: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reverse: Option<Direction>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) one_way: bool,
}

impl Cable {
    /// The cable's statement about both directions.
    pub(super) fn direction(&self) -> Direction {
        Direction { capacity: self.capacity, mbps: self.mbps, provenance: self.provenance }
    }
}

/// A statement about one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Direction {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) capacity: Option<Capacity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mbps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provenance: Option<ProvenanceName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ProvenanceName {
    Observed,
    Intended,
    Asserted,
}

impl From<ProvenanceName> for Provenance {
    fn from(name: ProvenanceName) -> Self {
        match name {
            ProvenanceName::Observed => Self::Observed,
            ProvenanceName::Intended => Self::Intended,
            ProvenanceName::Asserted => Self::Asserted,
        }
    }
}

impl From<Provenance> for ProvenanceName {
    fn from(provenance: Provenance) -> Self {
        match provenance {
            Provenance::Observed => Self::Observed,
            Provenance::Intended => Self::Intended,
            Provenance::Asserted => Self::Asserted,
        }
    }
}

/// `400G`, or `unknown` where a default would otherwise fill in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity(pub(super) Option<Rate>);

impl<'de> Deserialize<'de> for Capacity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The value is read as text whatever it looks like, so that a bare `400` is refused for its missing unit.
        match String::deserialize(deserializer)?.as_str() {
            "unknown" => Ok(Self(None)),
            text => capacity::parse(text).map(|rate| Self(Some(rate))).map_err(de::Error::custom),
        }
    }
}

impl Serialize for Capacity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_str("unknown"),
            Some(rate) => serializer.serialize_str(&capacity::text(rate)),
        }
    }
}

/// One end of a cable: as text, which is resolved against the declared nodes, or in two keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Text(String),
    Keys(EndKeys),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndKeys {
    pub(super) node: String,
    pub(super) port: String,
    /// The port's name is a number of ours.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) numbered: bool,
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EndVisitor;
        impl<'de> Visitor<'de> for EndVisitor {
            type Value = End;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an end as node, node:port or {node: N, port: P}; a name that looks like a number needs quotes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<End, E> {
                Ok(End::Text(text.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<End, A::Error> {
                EndKeys::deserialize(MapAccessDeserializer::new(map)).map(End::Keys)
            }
        }
        // The YAML value itself says which of the two forms it has.
        deserializer.deserialize_any(EndVisitor)
    }
}

impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Keys(keys) => keys.serialize(serializer),
        }
    }
}

/// A value and the line on which it stands; smaller than the parser's own span.
#[derive(Clone, Debug)]
pub(super) struct Lined<T> {
    pub(super) line: u32,
    pub(super) value: T,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lined<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        Ok(Self { line: u32::try_from(spanned.referenced.line()).unwrap_or(u32::MAX), value: spanned.value })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_zero(tier: &u8) -> bool {
    *tier == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
