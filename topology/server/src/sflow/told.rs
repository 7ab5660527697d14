//! What is told of exporters.

use std::time::Instant;

use fabric::Fabric;
use proto::v1alpha1 as pb;

use super::{
    Observed,
    state::{DATAGRAMS_PER_S_MAX, Exporter, UNMAPPED_MAX},
    table,
};
use crate::controller::FabricView;

/// Sentences about one exporter.
const NOTES_MAX: usize = 8;

impl Observed {
    /// Exporters, configured and not.
    pub(crate) fn exporters(&self, view: Option<&FabricView>, now: Instant) -> pb::ListExportersResponse {
        let observed_links = self.table(view).len();
        let state = self.state();
        let age = |at: Instant| u64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(u64::MAX);
        let one = |(node, exporter): (&String, &Exporter)| {
            let (links, notes) = notes(view.map(|view| &*view.fabric), node, exporter, now);
            pb::Exporter {
                node: node.clone(),
                address: exporter.address().to_string(),
                age_ms: exporter.heard.map(age),
                datagrams: exporter.datagrams,
                interfaces: exporter.ports.len() as u32,
                links: links as u32,
                notes,
            }
        };
        let stranger = |stranger: &super::state::Stranger| pb::UnknownExporter {
            address: stranger.agent.to_string(),
            source: stranger.source.to_string(),
            datagrams: stranger.datagrams,
            age_ms: age(stranger.heard),
        };
        let counts = state.counts;
        pb::ListExportersResponse {
            listen: self.address().map(|address| address.to_string()).unwrap_or_default(),
            exporters: state.exporters.iter().map(one).collect(),
            unknown: state.strangers.iter().map(stranger).collect(),
            observed_links: observed_links as u32,
            taken: counts.taken,
            refused: counts.malformed + counts.unknown + counts.foreign + counts.limited,
            flow_samples: counts.flows,
        }
    }

    /// Exporters that are configured, and those of them that were heard of lately.
    pub(crate) fn heard(&self, now: Instant) -> (usize, usize) {
        let state = self.state();
        let lately = |exporter: &&Exporter| exporter.heard.is_some_and(|at| now.saturating_duration_since(at) <= super::port::FRESH_MAX);
        (state.exporters.len(), state.exporters.values().filter(lately).count())
    }
}

/// How many links an exporter observes, and what there is to say of it.
fn notes(fabric: Option<&Fabric>, node: &str, exporter: &Exporter, now: Instant) -> (usize, Vec<String>) {
    let mut all = Vec::new();
    if let Some(source) = exporter.foreign {
        all.push(format!("{source} sent under its address, and is none of its sources"));
    }
    if exporter.limited > 0 {
        all.push(format!("{} datagrams were beyond {DATAGRAMS_PER_S_MAX} a second", exporter.limited));
    }
    let mut links = 0;
    match fabric.map(|fabric| (fabric, fabric.find(node))) {
        None => all.push("no fabric is set".to_owned()),
        Some((_, None)) => all.push("the fabric has no node of this name".to_owned()),
        Some((fabric, Some(id))) => {
            let (count, found) = table::compare(fabric, id, exporter, now);
            links = count;
            all.extend(found);
        }
    }
    if exporter.heard.is_some() {
        all.extend(exporter.silent_ports().map(|port| format!("no counters of {port:?}, which the configuration names")));
    }
    if !exporter.unmapped.is_empty() {
        let indices: Vec<String> = exporter.unmapped.iter().map(u32::to_string).collect();
        let more = if indices.len() < UNMAPPED_MAX { "" } else { " and maybe more" };
        all.push(format!("interfaces without a name, of which the configuration says nothing: {}{more}", indices.join(", ")));
    }
    if exporter.crowded > 0 {
        all.push(format!("{} times there was no room for an interface", exporter.crowded));
    }
    if exporter.resets > 0 {
        all.push(format!("{} times counters did not go on from those before", exporter.resets));
    }
    let rest = all.len().saturating_sub(NOTES_MAX);
    all.truncate(NOTES_MAX);
    if rest > 0 {
        all.push(format!("and {rest} more"));
    }
    (links, all)
}
