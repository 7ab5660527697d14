//! SONiC `config_db.json`: `PORT`, `DEVICE_NEIGHBOR`, `DEVICE_NEIGHBOR_METADATA`, `DEVICE_METADATA`.
//!
//! `DEVICE_NEIGHBOR` is keyed by local port (`{"Ethernet0": {"name", "port"}}`) or, in older
//! documents, by neighbour (`{"spine1": {"local_port", "port", "type"}}`); each entry is read as
//! what it is. `PORT.speed` is in Mb/s and is the capacity of the cable. A port whose `admin_status` is
//! `down` takes its cable out; one without `admin_status` is not said to be down.
//!
//! SONiC counts tiers from T0, so `ToRRouter` is our tier 1, `LeafRouter` 2 and `SpineRouter` 3.

use alloc::{collections::BTreeMap, format, string::String, vec, vec::Vec};

use units::Rate;

use super::{
    Imported,
    assume::CAPACITY_MBPS_MAX,
    cabling::{CableClaim, End, NodeIndex},
    json::{self, At, Json},
    place::{check_name, quoted},
};
use crate::{FabricError, Finding, NodeKind, Provenance};

const INTENDED: Provenance = Provenance::Intended;

/// Imports the configuration of one switch. Its name is `DEVICE_METADATA.localhost.hostname`, else
/// `fallback_name` (the file's stem, say).
///
/// # Errors
/// [`FabricError::Document`] naming the key path, for a document of another shape or a speed that
/// is not a positive number of Mb/s.
pub fn config_db(fallback_name: &str, text: &str) -> Result<Imported, FabricError> {
    let document = json::read(text)?;
    let root = At::root(&document);
    if root.get("PORT").is_none() && root.get("DEVICE_NEIGHBOR").is_none() {
        return Err(root.error("no PORT and no DEVICE_NEIGHBOR: not a config_db document"));
    }
    let mut imported = Imported::default();
    let own = own_node(&mut imported, &root, fallback_name)?;
    // Ports are read before neighbours, which look up speeds and aliases.
    let speeds = ports(&mut imported, &root, own)?;
    neighbours(&mut imported, &root, own, &speeds)?;
    metadata(&mut imported, &root)?;
    Ok(imported)
}

fn own_node(imported: &mut Imported, root: &At<'_>, fallback_name: &str) -> Result<NodeIndex, FabricError> {
    let metadata = root.get("DEVICE_METADATA");
    let localhost = metadata.as_ref().and_then(|at| at.get("localhost"));
    let hostname = localhost.as_ref().and_then(|at| at.get("hostname"));
    let name = hostname.as_ref().map_or(Ok(fallback_name), At::text)?;
    check_name(|| hostname.as_ref().map_or_else(|| "system name".into(), At::place), name)?;
    let own = imported.cabling.node(name)?;
    imported.cabling.nodes[own as usize].reported = true;
    // Whatever runs SONiC is a switch; its type may say of which tier.
    imported.findings.extend(imported.cabling.state_kind(own, NodeKind::Switch { tier: 0 }, INTENDED));
    if let Some(kind) = localhost.as_ref().and_then(|at| at.get("type")) {
        state_type(imported, own, kind.text()?);
    }
    Ok(own)
}

/// The kind that a SONiC device type means.
fn kind_of_type(text: &str) -> Option<NodeKind> {
    let switch = |tier| Some(NodeKind::Switch { tier });
    match text.to_ascii_lowercase().as_str() {
        "torrouter" | "backendtorrouter" => switch(1),
        "leafrouter" | "backendleafrouter" => switch(2),
        "spinerouter" => switch(3),
        "server" | "storageserver" => Some(NodeKind::Host),
        _ => None,
    }
}

fn state_type(imported: &mut Imported, node: NodeIndex, text: &str) {
    match kind_of_type(text) {
        Some(kind) => imported.findings.extend(imported.cabling.state_kind(node, kind, INTENDED)),
        None => {
            let message = format!("{}: device type {} says neither tier nor host", imported.cabling.name(node), quoted(text));
            imported.findings.push(Finding { kind: "unknown-type", message });
        }
    }
}

/// Declares ports, aliases and ports held down; returns the speeds.
fn ports(imported: &mut Imported, root: &At<'_>, own: NodeIndex) -> Result<BTreeMap<String, Rate>, FabricError> {
    let mut speeds = BTreeMap::new();
    let Some(table) = root.get("PORT") else { return Ok(speeds) };
    for (name, port) in table.entries()? {
        check_name(|| table.place(), name)?;
        port.object()?;
        imported.cabling.own_ports.insert((own, name.into()));
        if let Some(alias) = port.get("alias") {
            imported.cabling.aliases.insert((own, alias.text()?.into()), name.into());
        }
        if let Some(speed) = port.get("speed") {
            speeds.insert(name.into(), speed_of(&speed)?);
        }
        if port.get("admin_status").is_some_and(|at| matches!(at.json, Json::Text(text) if text.eq_ignore_ascii_case("down"))) {
            imported.cabling.down_ports.insert((own, name.into()));
        }
    }
    Ok(speeds)
}

/// A positive number of Mb/s, written as a text or a number.
fn speed_of(at: &At<'_>) -> Result<Rate, FabricError> {
    let mbps = match at.json {
        Json::Unsigned(n) => Some(*n),
        // SONiC writes numbers as texts. The digits are checked, because the parser of u64 would take a leading `+`.
        Json::Text(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    mbps.filter(|n| (1..=CAPACITY_MBPS_MAX).contains(n)).map(Rate).ok_or_else(|| at.expected("a speed in Mb/s"))
}

fn neighbours(imported: &mut Imported, root: &At<'_>, own: NodeIndex, speeds: &BTreeMap<String, Rate>) -> Result<(), FabricError> {
    let Some(table) = root.get("DEVICE_NEIGHBOR") else { return Ok(()) };
    for (key, entry) in table.entries()? {
        entry.object()?;
        let text = |name| entry.get(name).map(|at| at.text().map(String::from)).transpose();
        let (name, local, far_port) = match (text("name")?, text("local_port")?) {
            // An entry with `local_port` has the older layout and is keyed by the neighbour.
            (name, Some(local)) => (name.unwrap_or_else(|| key.into()), local, text("port")?),
            (Some(name), None) => (name, key.into(), text("port")?),
            (None, None) => return Err(entry.error("neither \"name\" nor \"local_port\"")),
        };
        for value in [Some(&name), Some(&local), far_port.as_ref()].into_iter().flatten() {
            check_name(|| entry.place(), value)?;
        }
        // A neighbour entry may use the alias of a port; speeds and final names are under the port's own name.
        let local = imported.cabling.aliases.get(&(own, local.clone())).cloned().unwrap_or(local);
        if !imported.cabling.own_ports.contains(&(own, local.clone())) {
            let message = format!(
                "{}:{local} has a neighbour, {}, and is not in PORT; its capacity is not known",
                imported.cabling.name(own),
                quoted(&name)
            );
            imported.findings.push(Finding { kind: "unknown-port", message });
        }
        let far = imported.cabling.node(&name)?;
        if let Some(kind) = entry.get("type") {
            state_type(imported, far, kind.text()?);
        }
        // The speed of the local port is the capacity of the cable, as the table has none for cables.
        let capacity = speeds.get(&local).copied();
        let ends = [End { node: own, ports: vec![local] }, End { node: far, ports: far_port.into_iter().collect::<Vec<_>>() }];
        imported.cabling.cable(CableClaim { ends, plan: false, capacity, provenance: INTENDED })?;
    }
    Ok(())
}

/// Kinds of neighbours. A neighbour that no cable reaches is not made a node by its metadata.
fn metadata(imported: &mut Imported, root: &At<'_>) -> Result<(), FabricError> {
    let Some(table) = root.get("DEVICE_NEIGHBOR_METADATA") else { return Ok(()) };
    for (name, entry) in table.entries()? {
        let known = imported.cabling.find(name);
        if let (Some(kind), Some(node)) = (entry.get("type"), known) {
            state_type(imported, node, kind.text()?);
        }
    }
    Ok(())
}
