//! What switches say of links and of themselves.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use proto::v1alpha1 as pb;

use super::{Api, ApiError};
use crate::{
    controller::FabricView,
    links::LinkTable,
    sflow::{Observed, Table},
};

impl Api {
    /// Shows from now on what switches say.
    pub(crate) fn hear_switches(&self, switches: Observed) {
        drop(self.0.switches.set(switches));
    }

    /// What switches say of links.
    pub(super) fn carried(&self, fabric: Option<&FabricView>) -> Arc<Table> {
        self.0.switches.get().map(|switches| switches.table(fabric)).unwrap_or_default()
    }

    /// What hears switches, where the configuration says so.
    pub(crate) fn switches(&self) -> Option<&Observed> {
        self.0.switches.get().filter(|switches| switches.address().is_some())
    }

    /// Exporters of sFlow, configured and not.
    ///
    /// # Errors
    /// The service is stopping.
    pub async fn exporters(&self) -> Result<pb::ListExportersResponse, ApiError> {
        let fabric = self.0.controller.fabric().await?;
        let answer = self.0.switches.get().map(|switches| switches.exporters(fabric.as_ref(), Instant::now()));
        Ok(answer.unwrap_or_default())
    }
}

/// Of the links that switches observe those of these names, or all without names; the fullest first.
pub(super) fn fullest<'a>(observed: &'a Table, table: &'a LinkTable, fabric: &'a FabricView, names: &[&str]) -> Vec<Cow<'a, pb::Link>> {
    let names: BTreeSet<&str> = names.iter().copied().collect();
    let known: BTreeMap<&str, &pb::Link> = table.links.iter().map(|link| (link.id.as_str(), link)).collect();
    let one = |name: &str| match known.get(name) {
        Some(link) => Some(Cow::Borrowed(*link)),
        // It carries no job that anybody told of.
        None => observed.bare(&fabric.fabric, name).map(Cow::Owned),
    };
    observed.fullest().filter(|name| names.is_empty() || names.contains(name)).filter_map(one).collect()
}
