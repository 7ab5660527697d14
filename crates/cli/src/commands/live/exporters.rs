//! `antiphase exporters`: switches that export counters of their ports by sFlow, and who else tries.

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use clap::Args;
use proto::v1alpha1::{Exporter, ListExportersRequest, ListExportersResponse};
use units::OneLine;

use super::{Listing, or_dash};
use crate::{input::CliError, table::Table};

/// Switches that export counters of their ports (sFlow).
#[derive(Debug, Args)]
pub(crate) struct ExportersArgs {
    #[command(flatten)]
    list: Listing,
}

pub(crate) fn exporters(args: &ExportersArgs) -> Result<ExitCode, CliError> {
    args.list.show(async |client| client.list_exporters(ListExportersRequest::default()).await, text)
}

fn text(answer: &ListExportersResponse) -> String {
    if answer.listen.is_empty() {
        return "the service hears no switches: its configuration has no [sflow]\n".into();
    }
    let mut table = Table::new(&["EXPORTER", "ADDRESS", ">HEARD", ">DATAGRAMS", ">INTERFACES", ">LINKS"]);
    answer.exporters.iter().for_each(|one| table.row(row(one)));
    let mut out = table.render();
    for (exporter, note) in answer.exporters.iter().flat_map(|one| one.notes.iter().map(move |note| (one, note))) {
        let _ = write!(out, "\n{}: {}", OneLine(&exporter.node), OneLine(note));
    }
    if answer.exporters.iter().any(|one| !one.notes.is_empty()) {
        out.push('\n');
    }
    for one in &answer.unknown {
        let _ = write!(out, "\n{} from {} is not in the configuration: {} datagrams", one.address, one.source, one.datagrams);
    }
    let refused = if answer.refused == 0 { String::new() } else { format!(", {} refused", answer.refused) };
    let _ = write!(
        out,
        "\n{}: {} datagrams taken{refused}; {} links observed; {} flow samples, which are not read\n",
        answer.listen, answer.taken, answer.observed_links, answer.flow_samples
    );
    out
}

fn row(exporter: &Exporter) -> [String; 6] {
    [
        OneLine(&exporter.node).to_string(),
        exporter.address.clone(),
        or_dash(exporter.age_ms, age),
        exporter.datagrams.to_string(),
        exporter.interfaces.to_string(),
        exporter.links.to_string(),
    ]
}

/// How long ago.
pub(super) fn age(ms: u64) -> String {
    format!("{} s ago", Duration::from_millis(ms).as_secs())
}

#[cfg(test)]
mod tests {
    use proto::v1alpha1::UnknownExporter;

    use super::*;

    #[test]
    fn who_is_heard_and_who_is_not_is_said() {
        let exporter = |node: &str, age_ms, notes: &[&str]| Exporter {
            node: node.into(),
            address: "192.0.2.1".into(),
            age_ms,
            datagrams: 7,
            interfaces: 5,
            links: 8,
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        };
        let answer = ListExportersResponse {
            listen: "0.0.0.0:6343".into(),
            exporters: vec![
                exporter("leaf1", Some(12_400), &["interface \"eth0\" is no port of the fabric"]),
                exporter("leaf2", None, &[]),
            ],
            unknown: vec![UnknownExporter { address: "192.0.2.9".into(), source: "192.0.2.9".into(), datagrams: 3, age_ms: 1 }],
            observed_links: 8,
            taken: 14,
            refused: 3,
            flow_samples: 2,
        };
        let expect = "\
EXPORTER  ADDRESS       HEARD  DATAGRAMS  INTERFACES  LINKS
leaf1     192.0.2.1  12 s ago          7           5      8
leaf2     192.0.2.1         -          7           5      8

leaf1: interface \"eth0\" is no port of the fabric

192.0.2.9 from 192.0.2.9 is not in the configuration: 3 datagrams
0.0.0.0:6343: 14 datagrams taken, 3 refused; 8 links observed; 2 flow samples, which are not read
";
        assert_eq!(text(&answer), expect);
        assert!(text(&ListExportersResponse::default()).contains("no [sflow]"));
    }
}
