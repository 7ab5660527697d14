//! `antiphase fabric show`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use fabric::summary::{Summary, summarise};

use crate::{
    cluster::read_fabric,
    input::CliError,
    output::{Document, Output, print},
    table::Table,
};

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Fabric document; - for standard input
    file: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &ShowArgs) -> Result<ExitCode, CliError> {
    let summary = summarise(&read_fabric(&args.file)?);
    let document = Document { schema: "antiphase.fabric-summary/v1", answer: &summary };
    print(&args.output.render(&document, || text(&summary))?)?;
    Ok(ExitCode::SUCCESS)
}

fn text(s: &Summary) -> String {
    let name = if s.name.is_empty() { "(unnamed)" } else { &s.name };
    let mut text = format!("fabric {name}: {} hosts, {} switches, {} directed links\n", s.hosts, s.switches, s.links);
    if s.pieces > 1 {
        text += &format!("{} separate pieces that no cable joins\n", s.pieces);
    }
    if s.one_way_links > 0 {
        text += &format!("{} links are known in one direction only\n", s.one_way_links);
    }
    let tier = |tier: u8| if tier == 0 { "host".to_string() } else { format!("tier {tier}") };
    let hosts = s
        .hosts_by_nics
        .iter()
        .map(|(nics, count)| ["host".to_string(), count.to_string(), format!("{nics} {} each", if *nics == 1 { "NIC" } else { "NICs" })]);
    let tiers = s.tiers.iter().rev().map(|t| {
        let ratio = t.oversubscription.map_or_else(|| "-".into(), |o| format!("oversubscription {o}"));
        [tier(t.tier), t.switches.to_string(), ratio]
    });
    text += "\n";
    text += &Table::new(&["NODES", ">COUNT", ""]).with_rows(tiers.chain(hosts)).render();
    if !s.hosts_by_gpus.is_empty() {
        let number = |count: Option<u32>| count.map_or_else(|| "-".into(), |count| count.to_string());
        let rows = s.hosts_by_gpus.iter().map(|class| {
            let gpu_type = class.gpu_type.clone().unwrap_or_else(|| "-".into());
            [gpu_type, number(class.gpus), class.hosts.to_string(), class.nics.to_string(), class.rate.clone()]
        });
        text += "\n";
        text += &Table::new(&["GPU TYPE", ">GPUS EACH", ">HOSTS", ">NICS EACH", ">NIC RATE"]).with_rows(rows).render();
    }
    text += "\n";
    let classes = s.classes.iter().map(|c| {
        let ends = format!("{} -> {}", tier(c.from_tier), tier(c.to_tier));
        [ends, c.links.to_string(), c.capacity.clone(), c.provenance.clone()]
    });
    text += &Table::new(&["LINKS", ">COUNT", ">CAPACITY", "PROVENANCE"]).with_rows(classes).render();
    if s.unknown_capacities > 0 {
        text += &format!("\n{} links without a capacity, which cannot carry demand until it is stated:\n", s.unknown_capacities);
        s.unknown.iter().for_each(|name| text += &format!("  {name}\n"));
        // The summary holds the names of the first links only; the rest is counted.
        let more = s.unknown_capacities - s.unknown.len();
        if more > 0 {
            text += &format!("  and {more} more\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_testbed_in_a_table() {
        let expect = "fabric cassini24: 24 hosts, 13 switches, 96 directed links

NODES   COUNT
tier 3      3  -
tier 2      4  oversubscription 1:1
tier 1      6  oversubscription 2:1
host       24  1 NIC each

LINKS             COUNT  CAPACITY  PROVENANCE
host -> tier 1       24       50G  asserted
tier 1 -> host       24       50G  asserted
tier 1 -> tier 2     12       50G  asserted
tier 2 -> tier 1     12       50G  asserted
tier 2 -> tier 3     12       50G  asserted
tier 3 -> tier 2     12       50G  asserted
";
        assert_eq!(text(&summarise(&fabric::generate::cassini24().unwrap())), expect);
    }

    #[test]
    fn gpus_by_type_are_shown_with_their_nics() {
        let document = "schema: antiphase.fabric/v1
hosts: [a1, a2, b1, c1]
gpus: [{hosts: [b1], count: 4, type: v100}, {hosts: [c1], count: 2}, {count: 8, type: a100}]
switches: [{name: s}]
cables:
  - {ends: [a1, s], capacity: 400G, parallel: 2}
  - {ends: [a2, s], capacity: 400G, parallel: 2}
  - {ends: [b1, s], capacity: 100G}
  - {ends: [c1, s]}
";
        let expect = "
GPU TYPE  GPUS EACH  HOSTS  NICS EACH  NIC RATE
-                 2      1          1   unknown
a100              8      2          2      400G
v100              4      1          1      100G
";
        let text = text(&summarise(&fabric::native::read(document).unwrap()));
        assert!(text.contains(expect), "{text}");
    }

    #[test]
    fn unknown_capacities_pieces_and_one_way_links_are_named() {
        let document = "schema: antiphase.fabric/v1
hosts: [h1, h2]
switches: [{name: a}, {name: b}]
cables:
  - {ends: [h1, a]}
  - {ends: [h2, b], capacity: 1G, one_way: true}
";
        let text = text(&summarise(&fabric::native::read(document).unwrap()));
        for part in ["2 separate pieces", "1 links are known in one direction only", "2 links without a capacity", "  h1->a\n  a->h1\n"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
