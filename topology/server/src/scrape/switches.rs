//! What switches say of links.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use prometheus::{IntCounterVec, Opts, Registry};

use super::{LINKS_MAX, gauges};
use crate::{
    links::LinkTable,
    sflow::{Counts, Observed, Table},
};

/// Exporters, datagrams and the loads of links. Names are those of the configuration and of the fabric: whatever strangers send, there is
/// no series more.
pub(super) fn switches(registry: &Registry, switches: &Observed, observed: &Table, links: &LinkTable) -> Result<(), prometheus::Error> {
    let now = Instant::now();
    let exporters = gauges(registry, "sflow_exporters", "Exporters that are configured, by whether they were heard of lately.", ["state"])?;
    let (all, heard) = switches.heard(now);
    exporters.with_label_values(&["heard"]).set(heard as f64);
    exporters.with_label_values(&["silent"]).set((all - heard) as f64);
    let Counts { taken, malformed, unknown, foreign, limited, counters, flows, others } = switches.counts();
    let counter = |name: &str, help: &str, label: &str, counts: &[(&str, u64)]| -> Result<(), prometheus::Error> {
        let vec = IntCounterVec::new(Opts::new(name, help), &[label])?;
        registry.register(Box::new(vec.clone()))?;
        counts.iter().for_each(|(word, count)| vec.with_label_values(&[*word]).inc_by(*count));
        Ok(())
    };
    let datagrams = [("taken", taken), ("malformed", malformed), ("unknown", unknown), ("foreign", foreign), ("limited", limited)];
    counter("sflow_datagrams_total", "Datagrams of sFlow, by what became of them.", "result", &datagrams)?;
    let samples = [("counters", counters), ("flow", flows), ("other", others)];
    counter("sflow_samples_total", "Samples in them; only those of counters are read.", "kind", &samples)?;
    gauges(registry, "observed_links", "Directed links whose load a switch tells.", [])?
        .with_label_values::<&str>(&[])
        .set(observed.len() as f64);
    let help = "What a switch counted on a link over the link's capacity: the 200 fullest, and of the 200 worst shared links.";
    let ratio = gauges(registry, "link_observed_ratio", help, ["link"])?;
    let help = "The same less what the link's jobs are planned to send on average.";
    let excess = gauges(registry, "link_observed_excess_ratio", help, ["link"])?;
    let age = gauges(registry, "link_observed_age_seconds", "How old these counters are.", ["link"])?;
    // The links with scores are told whatever they carry, so that both can be drawn on one page.
    let shared = links.links.iter().filter(|link| link.score.is_some()).take(LINKS_MAX).map(|link| link.id.as_str());
    let told: BTreeSet<&str> = observed.fullest().take(LINKS_MAX).chain(shared).collect();
    let planned: BTreeMap<&str, f64> = links.links.iter().map(|link| (link.id.as_str(), link.mean_demand_ratio)).collect();
    for link in told {
        let Some(seen) = observed.of(link) else { continue };
        let Some(load) = seen.ratio else { continue };
        ratio.with_label_values(&[link]).set(load);
        excess.with_label_values(&[link]).set(load - planned.get(link).unwrap_or(&0.0));
        age.with_label_values(&[link]).set(now.saturating_duration_since(seen.at).as_secs_f64());
    }
    Ok(())
}
