//! The output of `lldpctl -f json` and `-f json0`, per host and switch (lldpd, lldpcli(8)).
//!
//! The document has three shapes: `json` with an object of interfaces, `json` with a list of
//! one-key objects (when an interface occurs twice), and `json0`, where everything is a list.
//! The document names the neighbours of a system and not the system itself, so the caller names it.
//!
//! A system is known by its name, else by its chassis id; a port by its interface name, its alias
//! (`local` subtype: SONiC sends `Eth1/1` for `Ethernet0`), its description, or its MAC address;
//! a description that several ports of the system have is none of their names, if they have
//! others. A node that announces an enabled `Bridge` or `Router` is a switch, one that announces
//! only `Station` a host. A host that forwards packets (containers, virtual machines) announces `Router` too:
//! host patterns override.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec,
    vec::Vec,
};

use units::Rate;

use super::{
    Imported,
    cabling::{CableClaim, Cabling, End},
    json::{self, At, Json},
    place::{check_name, listed, quoted},
};
use crate::{FabricError, Finding, NodeKind, Provenance};

/// The LLDP table of one system.
#[derive(Clone, Debug)]
pub struct Report {
    system: String,
    /// What the system is, if it says so itself.
    kind: Option<NodeKind>,
    neighbours: Vec<Neighbour>,
    findings: Vec<Finding>,
}

/// What a system sees on one of its ports.
#[derive(Clone, Debug, Default)]
pub struct Neighbour {
    /// The system's own port.
    pub local_port: String,
    /// Name of the neighbour.
    pub name: Option<String>,
    /// Its chassis id.
    pub chassis: Option<String>,
    /// What it is.
    pub kind: Option<NodeKind>,
    /// Names of its port, best first.
    pub ports: Vec<String>,
    /// The one of them that is the description.
    pub description: Option<String>,
    /// What both ends negotiated.
    pub capacity: Option<Rate>,
}

/// Reads the table of `system`.
///
/// # Errors
/// [`FabricError::Document`] naming line or key path, for a document of another shape.
pub fn report(system: &str, text: &str) -> Result<Report, FabricError> {
    check_name(|| "system name".into(), system)?;
    let document = json::read(text)?;
    let root = At::root(&document);
    let lldp = root.get("lldp").ok_or_else(|| root.error("no key \"lldp\": not the output of lldpctl -f json or json0"))?;
    let mut report = Report { system: system.into(), kind: None, neighbours: Vec::new(), findings: Vec::new() };
    for part in one_or_many(&lldp) {
        // A table without neighbours is legal, but it still has to be an object.
        let Some(interfaces) = part.get("interface") else {
            part.object()?;
            continue;
        };
        for item in one_or_many(&interfaces) {
            // json0 names the interface inside, json by the key.
            if let Some(name) = item.get("name").map(|name| value_of(&name)).transpose()?.flatten() {
                report.read_interface(&name, &item)?;
                continue;
            }
            for (name, bodies) in item.entries()? {
                for body in one_or_many(&bodies) {
                    report.read_interface(name, &body)?;
                }
            }
        }
    }
    if report.neighbours.is_empty() {
        report.findings.push(Finding { kind: "no-neighbours", message: format!("{} sees no neighbour", quoted(system)) });
    }
    Ok(report)
}

impl Report {
    /// The table that a system told itself, and what it is. What has a name that is none is left out, and so are all neighbours of a port
    /// that has several: what is between them forwards frames that no bridge forwards, and is seen by nobody.
    ///
    /// # Errors
    /// [`FabricError::Document`] for a system whose name is none.
    pub fn told(system: &str, kind: Option<NodeKind>, neighbours: Vec<Neighbour>) -> Result<Self, FabricError> {
        check_name(|| "system name".into(), system)?;
        let mut report = Self { system: system.into(), kind, neighbours: Vec::new(), findings: Vec::new() };
        let mut of_port: BTreeMap<String, Vec<Neighbour>> = BTreeMap::new();
        for neighbour in neighbours {
            let names = [Some(&neighbour.local_port), neighbour.name.as_ref(), neighbour.chassis.as_ref()];
            let are_names = names.into_iter().flatten().chain(&neighbour.ports).all(|name| check_name(String::new, name).is_ok());
            let known = neighbour.name.is_some() || neighbour.chassis.is_some();
            if known && are_names {
                of_port.entry(neighbour.local_port.clone()).or_default().push(neighbour);
            } else {
                let message = format!("{}: a neighbour of {} has no name; left out", quoted(system), quoted(&neighbour.local_port));
                report.findings.push(Finding { kind: "unidentified-neighbour", message });
            }
        }
        for (port, mut list) in of_port {
            if list.len() > 1 {
                let message = format!("{}: {} neighbours on {}; left out", quoted(system), list.len(), quoted(&port));
                report.findings.push(Finding { kind: "several-neighbours", message });
            } else {
                report.neighbours.append(&mut list);
            }
        }
        Ok(report)
    }

    fn read_interface(&mut self, local_port: &str, body: &At<'_>) -> Result<(), FabricError> {
        check_name(|| body.place(), local_port)?;
        body.object()?;
        let mut neighbour = Neighbour { local_port: local_port.into(), ..Neighbour::default() };
        if let Some(chassis) = body.get("chassis") {
            for chassis in one_or_many(&chassis) {
                neighbour.read_chassis(&chassis)?;
            }
        }
        if let Some(port) = body.get("port") {
            for port in one_or_many(&port) {
                neighbour.read_port(&port)?;
            }
        }
        if neighbour.name.is_none() && neighbour.chassis.is_none() {
            let message = format!("{}:{local_port}: the neighbour gives neither a name nor a chassis id; left out", self.system);
            self.findings.push(Finding { kind: "unidentified-neighbour", message });
        } else {
            self.neighbours.push(neighbour);
        }
        Ok(())
    }
}

impl Neighbour {
    /// `{"leaf1": {"id": ...}}`, or the inside of it: `{"id": ..., "name": [...]}`.
    fn read_chassis(&mut self, chassis: &At<'_>) -> Result<(), FabricError> {
        // A system may bear the name `id` or `name`. Only a plain value, or an object with `value`, is the field itself.
        let is_value = |at: &At<'_>| match at.json {
            Json::Object(_) => at.get("value").is_some(),
            _ => true,
        };
        if chassis.get("id").is_some_and(|id| is_value(&id)) || chassis.get("name").is_some_and(|name| is_value(&name)) {
            let name = chassis.get("name").map(|name| value_of(&name)).transpose()?.flatten();
            return self.read_chassis_body(chassis, name);
        }
        let mut entries = chassis.entries()?;
        // The `json` shape has the system's name as its only key; among several keys we would have to guess.
        match (entries.next(), entries.next()) {
            (None, _) => Ok(()),
            (Some((name, body)), None) => {
                body.object()?;
                self.read_chassis_body(&body, Some(name.into()))
            }
            _ => Err(chassis.error("neither a chassis id nor one system name")),
        }
    }

    fn read_chassis_body(&mut self, body: &At<'_>, name: Option<String>) -> Result<(), FabricError> {
        // Of several chassis entries the first name and the first id hold.
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            check_name(|| body.place(), &name)?;
            self.name.get_or_insert(name);
        }
        if let Some(id) = body.get("id")
            && let Some(id_value) = value_of(&id)?
        {
            check_name(|| id.place(), &id_value)?;
            self.chassis.get_or_insert(id_value);
        }
        if let Some(capabilities) = body.get("capability") {
            // LLDP announces what a system could do and what is enabled (IEEE 802.1AB); only the latter says what it is.
            let mut enabled = BTreeSet::new();
            for capability in one_or_many(&capabilities) {
                let on = capability.get("enabled").is_some_and(|at| match at.json {
                    Json::Bool(on) => *on,
                    Json::Text(text) => text == "on" || text == "true",
                    _ => false,
                });
                if let (Some(kind), true) = (capability.get("type"), on) {
                    enabled.insert(String::from(kind.text()?));
                }
            }
            let has = |kind: &str| enabled.contains(kind);
            if has("Bridge") || has("Router") {
                self.kind = Some(NodeKind::Switch { tier: 0 });
            } else if has("Station") {
                self.kind = Some(NodeKind::Host);
            }
        }
        Ok(())
    }

    fn read_port(&mut self, port: &At<'_>) -> Result<(), FabricError> {
        // Names are ranked: interface name, then local name or alias, then description, then others such as a MAC address.
        let (mut best, mut rest) = (Vec::new(), Vec::new());
        if let Some(ids) = port.get("id") {
            for id in one_or_many(&ids) {
                let Some(value) = value_of(&id)? else { continue };
                check_name(|| id.place(), &value)?;
                let kind = id.get("type");
                match kind.as_ref().map(At::text).transpose()? {
                    Some("ifname") => best.insert(0, value),
                    Some("local" | "ifalias") => best.push(value),
                    _ => rest.push(value),
                }
            }
        }
        if let Some(description) = port.get("descr") {
            // A description is free text: one that cannot be a port name is not one.
            self.description = value_of(&description)?.filter(|text| check_name(String::new, text).is_ok());
            best.extend(self.description.clone());
        }
        self.ports = best;
        self.ports.extend(rest);
        Ok(())
    }
}

/// The items of a list, or the thing itself.
fn one_or_many<'a>(at: &'a At<'a>) -> Vec<At<'a>> {
    at.items().map_or_else(|_| vec![*at], Iterator::collect)
}

/// The text of `"x"`, `{"value": "x"}`, `["x", ...]` or `[{"value": "x"}, ...]`; none when empty.
fn value_of(at: &At<'_>) -> Result<Option<String>, FabricError> {
    // Of several values the first counts; json0 writes a single value as a list too.
    let first = match at.json {
        Json::List(_) => match at.items()?.next() {
            None => return Ok(None),
            Some(first) => first,
        },
        _ => *at,
    };
    let json = match first.json {
        Json::Object(entries) => match entries.iter().find(|(key, _)| key == "value") {
            None => return Ok(None),
            Some((_, json)) => json,
        },
        json => json,
    };
    match json {
        Json::Text(text) if text.is_empty() => Ok(None),
        Json::Text(text) => Ok(Some(text.clone())),
        _ => Err(first.expected("a text")),
    }
}

/// Puts the tables of several systems together. A chassis without a name is known by its id,
/// unless another table gives the name that goes with the id.
///
/// # Errors
/// [`FabricError::TooLarge`] over the limits of a fabric.
pub fn join(reports: impl IntoIterator<Item = Report>) -> Result<Imported, FabricError> {
    let reports: Vec<Report> = reports.into_iter().collect();
    let mut findings = Vec::new();
    let names = names_of_chassis(&reports, &mut findings);
    // Reporting systems are declared before their neighbours, so nodes come in the order of the documents.
    let mut cabling = Cabling::default();
    for report in &reports {
        let own = cabling.node(&report.system)?;
        cabling.nodes[own as usize].reported = true;
        // A system that says itself what it is comes before what its neighbours say of it.
        if let Some(kind) = report.kind {
            findings.extend(cabling.state_kind(own, kind, Provenance::Observed));
        }
    }
    let far_name = |neighbour: &'_ Neighbour| -> Option<String> {
        // A chassis that announces several names has none here, and its id names the node.
        let by_chassis = || neighbour.chassis.as_deref().map(|id| names.get(id).copied().flatten().unwrap_or(id).into());
        neighbour.name.clone().or_else(by_chassis)
    };
    let repeated = repeated_descriptions(&reports, far_name);
    for report in &reports {
        let own = cabling.node(&report.system)?;
        findings.extend(report.findings.iter().cloned());
        for neighbour in &report.neighbours {
            let Some(name) = far_name(neighbour) else { continue };
            let far = cabling.node(&name)?;
            if let Some(kind) = neighbour.kind {
                findings.extend(cabling.state_kind(far, kind, Provenance::Observed));
            }
            cabling.own_ports.insert((own, neighbour.local_port.clone()));
            let mut ports = neighbour.ports.clone();
            // A repeated description stays where the port has no other name.
            if let Some(text) = &neighbour.description
                && ports.iter().any(|port| port != text)
                && repeated.contains(&(name, text.clone()))
            {
                ports.retain(|port| port != text);
            }
            let ends = [End { node: own, ports: vec![neighbour.local_port.clone()] }, End { node: far, ports }];
            cabling.cable(CableClaim { ends, plan: false, capacity: neighbour.capacity, provenance: Provenance::Observed })?;
        }
    }
    Ok(Imported { cabling, findings })
}

/// (system, description) of descriptions that several ports of the system have, as several cables end there: they name no port.
fn repeated_descriptions(reports: &[Report], far_name: impl Fn(&Neighbour) -> Option<String>) -> BTreeSet<(String, String)> {
    let mut cables: BTreeMap<(String, String), BTreeSet<(&str, &str)>> = BTreeMap::new();
    for report in reports {
        for neighbour in &report.neighbours {
            if let (Some(name), Some(text)) = (far_name(neighbour), &neighbour.description) {
                // A reporter and its local port identify a cable, so an entry that occurs twice counts once.
                cables.entry((name, text.clone())).or_default().insert((&report.system, &neighbour.local_port));
            }
        }
    }
    cables.into_iter().filter(|(_, cables)| cables.len() > 1).map(|(key, _)| key).collect()
}

/// The one name of each chassis id; `None` where there are several.
fn names_of_chassis<'a>(reports: &'a [Report], findings: &mut Vec<Finding>) -> BTreeMap<&'a str, Option<&'a str>> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for neighbour in reports.iter().flat_map(|report| &report.neighbours) {
        if let (Some(name), Some(id)) = (&neighbour.name, &neighbour.chassis) {
            names.entry(id).or_default().insert(name);
        }
    }
    let mut one = BTreeMap::new();
    for (id, names) in names {
        if names.len() > 1 {
            let message = format!("chassis {} announces several names: {}; each is a node", quoted(id), listed(names.iter().copied(), 6));
            findings.push(Finding { kind: "contradictory-name", message });
        }
        one.insert(id, if names.len() == 1 { names.first().copied() } else { None });
    }
    one
}
