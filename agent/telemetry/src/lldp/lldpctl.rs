//! What `lldpctl -f json0` prints, where everything is a list (lldpcli(8)).

use serde_json::Value;

use super::{Neighbour, capture::HELD_MAX, mau, name};

/// Longest table that is read: a thousand neighbours of 2 KiB.
pub const TABLE_BYTES_MAX: usize = 4 << 20;

/// Why a table cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum TableError {
    /// Longer than four MiB.
    TooLong {
        /// The table's length.
        bytes: usize,
    },
    /// Not JSON.
    Json(serde_json::Error),
    /// JSON, but no list `lldp`.
    NoTable,
}

impl core::fmt::Display for TableError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(f, "a table of {bytes} bytes; at most {TABLE_BYTES_MAX} are read"),
            Self::Json(error) => write!(f, "not JSON: {error}"),
            Self::NoTable => write!(f, "no list \"lldp\": not the output of lldpctl -f json0"),
        }
    }
}

impl std::error::Error for TableError {}

/// The neighbours in a table, sorted. Neighbours without a name, id or port are left out, as are any beyond [`HELD_MAX`].
///
/// # Errors
/// [`TableError`] for text of another shape.
pub fn neighbours(text: &str) -> Result<Vec<Neighbour>, TableError> {
    // The length is checked before the parse, because a parsed table takes more memory than its text.
    if text.len() > TABLE_BYTES_MAX {
        return Err(TableError::TooLong { bytes: text.len() });
    }
    let document: Value = serde_json::from_str(text).map_err(TableError::Json)?;
    let table = document.get("lldp").and_then(Value::as_array).ok_or(TableError::NoTable)?;
    let mut found: Vec<Neighbour> = table.iter().flat_map(|part| list(part, "interface")).filter_map(neighbour).take(HELD_MAX).collect();
    // lldpd speaks other protocols beside LLDP, so one neighbour may be listed twice: hence the `dedup`.
    found.sort();
    found.dedup();
    Ok(found)
}

fn neighbour(interface: &Value) -> Option<Neighbour> {
    let port = name(interface.get("name")?.as_str()?.as_bytes())?;
    let chassis = list(interface, "chassis").next()?;
    let remote = list(interface, "port").next()?;
    let (id, system) = (first_value(chassis, "id"), first_value(chassis, "name"));
    let (remote_id, mut description) = (first_value(remote, "id"), first_value(remote, "descr"));
    let rate = list(remote, "auto-negotiation").find_map(|part| mau::named(&first_value(part, "current")?));
    // People know a switch by its name and a port by its id; the other word stands in where that one is missing.
    let (chassis_name, chassis_id) = match system {
        Some(system) => (system, id),
        None => (id?, None),
    };
    let remote_port = remote_id.or_else(|| description.take())?;
    Some(Neighbour { port, chassis: chassis_name, remote_port, chassis_id, description, forwards: forwards(chassis), rate })
}

/// As the frame's decoder has it: what is enabled counts.
fn forwards(chassis: &Value) -> Option<bool> {
    let is_on = |kind: &str| {
        let named = |entry: &&Value| entry.get("type").and_then(Value::as_str) == Some(kind);
        list(chassis, "capability").filter(named).any(|entry| entry.get("enabled").and_then(Value::as_bool) == Some(true))
    };
    match (is_on("Bridge") || is_on("Router"), is_on("Station")) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// `"key": [{"value": "text"}]`.
fn first_value(value: &Value, key: &str) -> Option<String> {
    list(value, key).find_map(|entry| name(entry.get("value")?.as_str()?.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_is_read() {
        let text = r#"{"lldp":[{"interface":[
            {"name":"ens1f0","via":"LLDP","chassis":[{"id":[{"type":"mac","value":"aa:bb:cc:dd:ee:02"}],"name":[{"value":"leaf-02"}],
              "capability":[{"type":"Bridge","enabled":true},{"type":"Router","enabled":false}]}],
             "port":[{"id":[{"type":"local","value":"Eth1/1"}],"descr":[{"value":"Ethernet0"}],
              "auto-negotiation":[{"supported":false,"enabled":false,"current":[{"value":"100GbaseCR4 - 4 lane"}]}]}]},
            {"name":"ens1f1","chassis":[{"id":[{"type":"mac","value":"aa:bb:cc:dd:ee:03"}]}],"port":[{"descr":[{"value":"swp3"}]}]},
            {"name":"ens1f2","chassis":[],"port":[]}]}]}"#;
        let seen: Vec<String> = neighbours(text).unwrap().iter().map(|n| format!("{} {} {}", n.port, n.chassis, n.remote_port)).collect();
        assert_eq!(seen, ["ens1f0 leaf-02 Eth1/1", "ens1f1 aa:bb:cc:dd:ee:03 swp3"]);
        let leaf = &neighbours(text).unwrap()[0];
        assert_eq!((leaf.chassis_id.as_deref(), leaf.description.as_deref()), (Some("aa:bb:cc:dd:ee:02"), Some("Ethernet0")));
        assert_eq!((leaf.forwards, leaf.rate), (Some(true), Some(units::Rate(100_000))));
    }

    #[test]
    fn no_neighbours_is_a_table_too() {
        assert_eq!(neighbours(r#"{"lldp":[{}]}"#).unwrap(), []);
        assert!(matches!(neighbours("{}"), Err(TableError::NoTable)));
        assert!(matches!(neighbours("lldp"), Err(TableError::Json(_))));
        assert!(matches!(neighbours(&" ".repeat(TABLE_BYTES_MAX + 1)), Err(TableError::TooLong { .. })));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[\\[\\]{}\":,a-z0-9 ]{0,200}") {
            let _ = neighbours(&text);
            let _ = neighbours(&format!("{{\"lldp\":[{{\"interface\":[{text}]}}]}}"));
        }
    }
}
