//! Blocks: groups of nodes, and the higher levels that `BlockSizes` forms of them.
//!
//! A block is read as one leaf switch. The first of the sizes is the planning size of a block; each
//! further one, a power of two times it, says how many consecutive blocks form a block of the next
//! level, which is read as one switch above them. Slurm says where jobs may be placed, not what is
//! cabled, so that switch is an assertion, and a finding says how many were made.

use alloc::{collections::BTreeMap, format, vec::Vec};

use super::{Block, tree::attach_hosts};
use crate::{
    FabricError, Finding, NodeKind, Provenance,
    import::{
        Imported,
        place::{check_name, document, quoted},
    },
};

/// Sizes in one topology: Slurm keeps the levels in 16 bits.
const SIZES_MAX: usize = 16;

/// Builds the statements of a block topology; `sizes_place` is where the sizes stand.
pub(super) fn blocks(blocks: &[Block], sizes: &[u64], sizes_place: &str) -> Result<Imported, FabricError> {
    let ratios = ratios(sizes, sizes_place)?;
    let mut imported = Imported::default();
    let Imported { cabling, findings } = &mut imported;
    let mut first_at: BTreeMap<&str, &str> = BTreeMap::new();
    let mut level: Vec<u32> = Vec::with_capacity(blocks.len());
    for block in blocks {
        check_name(|| block.place.clone(), &block.name)?;
        if let Some(first) = first_at.insert(&block.name, &block.place) {
            return Err(document(&*block.place, format!("block {} is declared twice, first at {first}", quoted(&block.name))));
        }
        let node = cabling.node(&block.name)?;
        findings.extend(cabling.state_kind(node, NodeKind::Switch { tier: 1 }, Provenance::Intended));
        level.push(node);
    }
    // All blocks are declared by now, so a host with the name of a block is an error and not a new node.
    let mut block_of: BTreeMap<u32, &str> = BTreeMap::new();
    for block in blocks {
        let hosts = attach_hosts(cabling, findings, &block.name, &block.place, &block.hosts)?;
        if let Some(base) = sizes.first().filter(|&&base| (hosts.len() as u64) < base) {
            let message =
                format!("{}: block {} has {} nodes, fewer than the planning size {base}", block.place, quoted(&block.name), hosts.len());
            findings.push(Finding { kind: "small-block", message });
        }
        for host in hosts {
            if let Some(first) = block_of.insert(host, &block.name) {
                let problem = format!("node {} is in block {} and in {}", quoted(cabling.name(host)), quoted(first), quoted(&block.name));
                return Err(document(&*block.place, problem));
            }
        }
    }
    let mut below = 1;
    for (k, (&size, &ratio)) in sizes.iter().skip(1).zip(&ratios).enumerate() {
        // One switch joins everything already; a further level would be a switch above a single switch.
        if level.len() < 2 {
            break;
        }
        // SIZES_MAX keeps the tier within a u8.
        let kind = NodeKind::Switch { tier: k as u8 + 2 };
        // Both ratios are powers of two and grow, so the division is exact.
        let group = usize::try_from(ratio / below).unwrap_or(usize::MAX);
        below = ratio;
        let mut above = Vec::new();
        // The maximum guards `chunks`, which panics on 0.
        for (i, members) in level.chunks(group.max(1)).enumerate() {
            let name = format!("blocks-of-{size}-{i}");
            if first_at.contains_key(name.as_str()) {
                return Err(document(sizes_place, format!("block {} has the name that is made for a level above", quoted(&name))));
            }
            let node = cabling.node(&name)?;
            findings.extend(cabling.state_kind(node, kind, Provenance::Asserted));
            for &member in members {
                cabling.edge(member, node, Provenance::Asserted)?;
            }
            above.push(node);
        }
        let message =
            format!("{sizes_place}: size {size} is read as {} switches, each above up to {group} of the level below", above.len());
        findings.push(Finding { kind: "block-level", message });
        level = above;
    }
    Ok(imported)
}

/// Reads the sizes.
pub(super) fn parse_sizes<'a>(place: &str, texts: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, FabricError> {
    texts.map(|text| text.trim().parse::<u64>().map_err(|_| document(place, format!("{} is not a block size", quoted(text))))).collect()
}

/// Each size above the first, in blocks of the first: powers of two, growing.
fn ratios(sizes: &[u64], place: &str) -> Result<Vec<u64>, FabricError> {
    let Some(&base) = sizes.first() else { return Ok(Vec::new()) };
    if sizes.len() > SIZES_MAX {
        return Err(document(place, format!("{} block sizes are over the limit of {SIZES_MAX}", sizes.len())));
    }
    if base == 0 {
        return Err(document(place, "block size 0"));
    }
    let mut ratios = Vec::new();
    let mut previous = base;
    for &size in &sizes[1..] {
        if size <= previous || !size.is_multiple_of(base) || !(size / base).is_power_of_two() {
            return Err(document(place, format!("block size {size} is not above {previous} and a power of two times {base}")));
        }
        ratios.push(size / base);
        previous = size;
    }
    Ok(ratios)
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec};

    use super::*;

    fn block(i: usize) -> Block {
        Block { name: format!("b{i}"), place: format!("line {i}"), hosts: vec![format!("n{i}a"), format!("n{i}b")] }
    }

    #[test]
    fn sizes_group_consecutive_blocks() {
        let list: Vec<Block> = (0..5).map(block).collect();
        // Sizes 2, 4, 8: pairs of blocks, then pairs of pairs; 5 blocks make 3 and 2 groups.
        let imported = blocks(&list, &[2, 4, 8], "line 9").unwrap();
        let names: Vec<&str> = imported.cabling.nodes.iter().map(|n| n.name.as_str()).filter(|n| n.starts_with("blocks")).collect();
        assert_eq!(names, ["blocks-of-4-0", "blocks-of-4-1", "blocks-of-4-2", "blocks-of-8-0", "blocks-of-8-1"]);
        // 10 host edges, 5 to level two, 3 to level three.
        assert_eq!(imported.cabling.cables.len(), 18);
        assert_eq!(imported.findings[0].message, "line 9: size 4 is read as 3 switches, each above up to 2 of the level below");
    }

    #[test]
    fn sizes_are_powers_of_two_of_the_first() {
        let error = |sizes: &[u64]| blocks(&[block(0)], sizes, "line 9").unwrap_err().to_string();
        assert_eq!(error(&[0]), "line 9: block size 0");
        assert_eq!(error(&[2, 6]), "line 9: block size 6 is not above 2 and a power of two times 2");
        assert_eq!(error(&[2, 8, 4]), "line 9: block size 4 is not above 8 and a power of two times 2");
        assert_eq!(error(&[1; 17]), "line 9: 17 block sizes are over the limit of 16");
        assert!(blocks(&[block(0)], &[30, 120], "line 9").is_ok());
    }

    #[test]
    fn a_node_is_in_one_block() {
        let mut second = block(1);
        second.hosts.push("n0a".into());
        assert_eq!(
            blocks(&[block(0), second], &[], "line 9").unwrap_err().to_string(),
            r#"line 1: node "n0a" is in block "b0" and in "b1""#
        );
    }
}
