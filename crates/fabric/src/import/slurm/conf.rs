//! `topology.conf`: one `SwitchName=`, `BlockName=` or `BlockSizes=` record per line.
//!
//! Keys are case-insensitive, `#` starts a comment, a backslash at the end continues the line
//! (slurm.conf(5)); white space may surround `=`, and a value may be quoted.

use alloc::{
    borrow::Cow,
    format,
    string::{String, ToString},
    vec::Vec,
};

use super::{Block, Switch, block, tree};
use crate::{
    FabricError, Finding,
    import::{
        Imported,
        hostlist::Expander,
        place::{bounded, document, quoted},
    },
    model::NODES_MAX,
};

/// Keys in one record; four exist, so more are a mistake, and the check for twice stays cheap.
const KEYS_MAX: usize = 16;

/// Imports `topology.conf`.
///
/// # Errors
/// [`FabricError::Document`] naming the line, for anything that is not a record, an unknown child,
/// a switch with two parents, a cycle, or a host list over [`EXPANSION_MAX`](crate::import::EXPANSION_MAX).
pub fn topology_conf(text: &str) -> Result<Imported, FabricError> {
    let text = bounded(text)?;
    // One expander for the whole document, so that EXPANSION_MAX bounds all of its lists together.
    let mut expander = Expander::new();
    let (mut switches, mut blocks) = (Vec::new(), Vec::new());
    let mut sizes: Option<(Vec<u64>, String)> = None;
    let mut speeds = Vec::new();
    for (number, line) in logical_lines(text) {
        let place = format!("line {number}");
        let mut record = Record::parse(&place, &line)?;
        let Some((key, name)) = record.first() else { continue };
        // A dozen bytes declare a switch, so a document within its size limit could declare millions.
        if switches.len() + blocks.len() == NODES_MAX {
            return Err(document(place, format!("more switches and blocks than the {NODES_MAX} nodes that a fabric may have")));
        }
        match key.as_str() {
            "switchname" => {
                let mut list = |record: &mut Record, key| record.take(key).map_or(Ok(Vec::new()), |value| expander.expand(&place, &value));
                let (hosts, children) = (list(&mut record, "nodes")?, list(&mut record, "switches")?);
                if let Some(speed) = record.take("linkspeed") {
                    speeds.push(format!("{place}: LinkSpeed={speed} of switch {} is not used by Slurm and not used here", quoted(&name)));
                }
                switches.push(Switch { name, place: place.clone(), hosts, children });
            }
            "blockname" => {
                let hosts = match record.take("nodes") {
                    Some(value) => expander.expand(&place, &value)?,
                    None => return Err(document(place, format!("block {} has no Nodes", quoted(&name)))),
                };
                blocks.push(Block { name, place: place.clone(), hosts });
            }
            "blocksizes" => {
                if let Some((_, first)) = &sizes {
                    return Err(document(place, format!("BlockSizes is given twice, first at {first}")));
                }
                sizes = Some((block::parse_sizes(&place, name.split(','))?, place.clone()));
            }
            _ => return Err(document(place, format!("a record starts with SwitchName, BlockName or BlockSizes, not {}", quoted(&key)))),
        }
        record.finish(&place)?;
    }
    let mut imported = match (switches.is_empty(), blocks.is_empty()) {
        // `BlockSizes` beside switches is refused by the last arm.
        (false, true) if sizes.is_none() => tree::tree(&switches)?,
        (true, false) => {
            let (sizes, place) = sizes.unwrap_or_default();
            block::blocks(&blocks, &sizes, &place)?
        }
        (true, true) => return Err(document("document", "neither a switch nor a block is declared")),
        _ => return Err(document("document", "switches and blocks are two kinds of topology; a file holds one of them")),
    };
    imported.findings.extend(speeds.into_iter().map(|message| Finding { kind: "ignored-link-speed", message }));
    Ok(imported)
}

/// Lines without comments, joined where a backslash ends them, each with the number it starts at; one at a time, because a document
/// may be of lines alone.
fn logical_lines(text: &str) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    let mut lines = text.lines().enumerate();
    core::iter::from_fn(move || {
        let mut open: Option<(usize, String)> = None;
        for (i, line) in lines.by_ref() {
            // The comment goes first, because it may hide a backslash that does not continue the line.
            let line = line.split_once('#').map_or(line, |(before, _)| before).trim_end();
            let (line, continues) = line.strip_suffix('\\').map_or((line, false), |before| (before, true));
            let Some((number, joined)) = &mut open else {
                if continues {
                    // The space keeps the words of two joined lines apart.
                    open = Some((i + 1, format!("{line} ")));
                } else if !line.is_empty() {
                    return Some((i + 1, Cow::Borrowed(line)));
                }
                continue;
            };
            joined.push_str(line);
            if continues {
                joined.push(' ');
            } else if !joined.trim().is_empty() {
                return Some((*number, Cow::Owned(core::mem::take(joined))));
            } else {
                open = None;
            }
        }
        // A backslash on the last line continues into nothing, and its line still counts.
        open.take().filter(|(_, line)| !line.trim().is_empty()).map(|(number, line)| (number, Cow::Owned(line)))
    })
}

/// The `Key=Value` pairs of one line, keys in lower case.
struct Record(Vec<(String, String)>);

impl Record {
    fn parse(place: &str, line: &str) -> Result<Self, FabricError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut rest = line.trim();
        while !rest.is_empty() {
            let shape = || document(place, format!("{} is not Key=Value", quoted(rest)));
            let (key, after) = rest.split_once('=').ok_or_else(shape)?;
            let key = key.trim().to_ascii_lowercase();
            // A key of other characters is a sign of a lost `=`, and the error shows where.
            if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(shape());
            }
            let after = after.trim_start();
            let (value, tail) = match after.strip_prefix('"') {
                Some(quoted_value) => {
                    quoted_value.split_once('"').ok_or_else(|| document(place, format!("{key}: a quote is not closed")))?
                }
                None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
            };
            if value.is_empty() {
                return Err(document(place, format!("{key} has no value")));
            }
            // The linear search is cheap, because KEYS_MAX bounds the list.
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(document(place, format!("{} is given twice in one record", quoted(&key))));
            }
            if pairs.len() == KEYS_MAX {
                return Err(document(place, format!("more than {KEYS_MAX} keys in one record")));
            }
            pairs.push((key, value.to_string()));
            rest = tail.trim_start();
        }
        Ok(Self(pairs))
    }

    /// Takes the first pair.
    fn first(&mut self) -> Option<(String, String)> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.remove(at).1)
    }

    /// Every key must have been taken.
    fn finish(self, place: &str) -> Result<(), FabricError> {
        match self.0.first() {
            Some((key, value)) => Err(document(place, format!("unknown key {}={}", quoted(key), quoted(value)))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_continuations_quotes_and_case() {
        let text = "# rack 1\nSWITCHNAME=s0 \\\n  nodes=\"dev[0-1]\" # two\n\nSwitchName = s1 Nodes=dev2 LinkSpeed=100\nswitchname=top Switches=s[0-1]";
        let imported = topology_conf(text).unwrap();
        assert_eq!(imported.cabling.nodes.len(), 6);
        assert_eq!(imported.findings.len(), 1);
        assert_eq!(imported.findings[0].message, r#"line 5: LinkSpeed=100 of switch "s1" is not used by Slurm and not used here"#);
    }

    #[test]
    fn blocks_have_sizes() {
        let imported = topology_conf("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n").unwrap();
        // 4 hosts, 2 blocks and one switch above both.
        assert_eq!(imported.cabling.nodes.len(), 7);
    }

    #[test]
    fn malformed_records_name_their_line() {
        for (text, problem) in [
            ("", "document: neither a switch nor a block is declared"),
            ("Switch s0", r#"line 1: "Switch s0" is not Key=Value"#),
            ("Nodes=a SwitchName=s", r#"line 1: a record starts with SwitchName, BlockName or BlockSizes, not "nodes""#),
            ("SwitchName=s Nodes=a Nodes=b", r#"line 1: "nodes" is given twice in one record"#),
            ("\n\nSwitchName=s Nodes=", "line 3: nodes has no value"),
            ("SwitchName=s Nodes=\"a", "line 1: nodes: a quote is not closed"),
            ("SwitchName=s Colour=red", r#"line 1: unknown key "colour"="red""#),
            (
                "SwitchName=s Nodes=a\nBlockName=b Nodes=c",
                "document: switches and blocks are two kinds of topology; a file holds one of them",
            ),
            ("BlockName=b", r#"line 1: block "b" has no Nodes"#),
            ("SwitchName=s Nodes=a \\\n # comment\nnonsense", r#"line 3: "nonsense" is not Key=Value"#),
            ("\\\n\\\n\nnonsense \\", r#"line 4: "nonsense" is not Key=Value"#),
            ("BlockSizes=4,-8", r#"line 1: "-8" is not a block size"#),
            ("BlockSizes=4\nBlockSizes=4", "line 2: BlockSizes is given twice, first at line 1"),
            (
                "SwitchName=s Nodes=n[0-999999999]",
                r#"line 1: host list "n[0-999999999]": 1000000000 names are over the limit of 524288 nodes in a fabric"#,
            ),
            ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "line 1: switches are above themselves: a, b"),
        ] {
            assert_eq!(topology_conf(text).unwrap_err().to_string(), problem);
        }
    }
}
