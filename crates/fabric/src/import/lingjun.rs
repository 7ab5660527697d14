//! `topo.csv` of the Lingjun data set (alibaba-lingjun-dataset-2023): `ip,DSW,PSW,ASW`.
//!
//! Observed in the published file (847 hosts): every host is in one ASW, PSW and DSW; there is
//! one DSW name and three PSW names; the 48 ASW names recur below different PSWs (29 of them below
//! all three), while no pair (PSW, ASW) holds more than eight hosts. So an ASW name means
//! something only below its PSW, and a switch is named here by the whole way to it: `G6/P10/S14`.
//!
//! Assumed, and said in a finding: a name is a *group* of switches of one tier (a host of that
//! cluster has several NICs and the file lists one ASW), and each group is imported as one switch
//! with one edge to the group above. How many cables an edge stands for is not in the file; state
//! it as an assumption, for example `host-leaf=200G*4`.

use alloc::{collections::BTreeSet, format, string::String, vec::Vec};

use super::{
    Imported,
    place::{bounded, check_name, document, quoted},
};
use crate::{FabricError, Finding, NodeKind, Provenance};

/// Columns, from the top tier down, after the host.
const TIERS: [(&str, u8); 3] = [("DSW", 3), ("PSW", 2), ("ASW", 1)];

/// Most fields of a row: four are read. A row is in memory whole before anybody counts its fields.
const FIELDS_MAX: usize = 64;

/// Imports `topo.csv`.
///
/// # Errors
/// [`FabricError::Document`] naming the line, for a header without the four columns, a row of
/// another length, an empty or oversized name, or a host listed twice.
pub fn topo_csv(text: &str) -> Result<Imported, FabricError> {
    let text = bounded(text)?;
    check_widths(text)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    // The header is copied, because the records borrow the reader.
    let header = reader.headers().map_err(|e| csv_error(&e))?.clone();
    let column = |name: &str| {
        let found = header.iter().position(|column| column == name);
        found.ok_or_else(|| document("line 1", format!("no column {name} in {}", quoted(&header.iter().collect::<Vec<_>>().join(",")))))
    };
    let host_column = column("ip")?;
    let mut columns = Vec::new();
    for (name, tier) in TIERS {
        columns.push((name, tier, column(name)?));
    }
    let mut imported = Imported::default();
    let Imported { cabling, findings } = &mut imported;
    let mut edges: BTreeSet<(u32, u32)> = BTreeSet::new();
    for record in reader.records() {
        let record = record.map_err(|e| csv_error(&e))?;
        let place = || format!("line {}", record.position().map_or(0, csv::Position::line));
        // A switch is named by the whole way to it, because ASW names recur below other PSWs.
        let mut path = String::new();
        let mut above: Option<u32> = None;
        for &(column, tier, index) in &columns {
            let part = record.get(index).unwrap_or_default();
            check_name(|| format!("{}, {column}", place()), part)?;
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(part);
            // The joined name has a limit too: three long parts may pass theirs one by one.
            check_name(place, &path)?;
            let node = cabling.node(&path)?;
            findings.extend(cabling.state_kind(node, NodeKind::Switch { tier }, Provenance::Asserted));
            // Every host repeats the way to the top, so an edge is stated the first time only.
            if let Some(above) = above.filter(|&above| edges.insert((node, above))) {
                cabling.edge(node, above, Provenance::Asserted)?;
            }
            above = Some(node);
        }
        let host = record.get(host_column).unwrap_or_default();
        check_name(|| format!("{}, ip", place()), host)?;
        // A host with the name of a group of switches is refused here as well.
        if cabling.find(host).is_some() {
            return Err(document(place(), format!("{} is listed twice", quoted(host))));
        }
        let node = cabling.node(host)?;
        findings.extend(cabling.state_kind(node, NodeKind::Host, Provenance::Asserted));
        if let Some(leaf) = above {
            cabling.edge(node, leaf, Provenance::Asserted)?;
        }
    }
    if cabling.nodes.is_empty() {
        return Err(document("document", "no host is listed"));
    }
    let switches = cabling.nodes.iter().filter(|node| matches!(node.kind, Some((NodeKind::Switch { .. }, _)))).count();
    let message = format!("{switches} groups of switches are each imported as one switch, with one edge to the group above");
    findings.push(Finding { kind: "group-as-switch", message });
    Ok(imported)
}

/// Refuses a row of more than [`FIELDS_MAX`] fields, by the rules of RFC 4180 for what a quote hides.
fn check_widths(text: &str) -> Result<(), FabricError> {
    #[derive(Clone, Copy)]
    enum At {
        Start,
        Plain,
        Quoted,
        /// Behind a quote in a quoted field: its end, or one half of a quote that is meant.
        Quote,
    }
    let (mut at, mut fields, mut line) = (At::Start, 1, 1_usize);
    for byte in text.bytes() {
        line += usize::from(byte == b'\n');
        at = match (at, byte) {
            (At::Quoted, b'"') => At::Quote,
            // A quote opens a field only at its start, and two quotes in a quoted field are one (RFC 4180, section 2).
            (At::Quoted, _) | (At::Start | At::Quote, b'"') => At::Quoted,
            (_, b',') => {
                fields += 1;
                At::Start
            }
            // A line break ends the row wherever no quote hides it.
            (_, b'\n' | b'\r') => {
                fields = 1;
                At::Start
            }
            _ => At::Plain,
        };
        if fields > FIELDS_MAX {
            return Err(document(format!("line {line}"), format!("more than {FIELDS_MAX} fields in a row")));
        }
    }
    Ok(())
}

fn csv_error(error: &csv::Error) -> FabricError {
    let place = error.position().map_or_else(|| "document".into(), |at| format!("line {}", at.line()));
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => document(place, format!("{len} fields, expected {expected_len}")),
        _ => document(place, format!("{error}")),
    }
}
