//! Routes that own their fabric.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use units::LinkId;

use super::{Ecmp, Pin, Router, hash::FlowHash, table::Table};
use crate::{Fabric, FabricError};

/// A fabric with its routes prepared: what a service keeps, because a [`Router`] only borrows its fabric. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Routing {
    fabric: Arc<Fabric>,
    ecmp: Ecmp,
    table: Arc<Table>,
    hash: Option<Arc<FlowHash>>,
    pins: Arc<BTreeMap<(LinkId, LinkId), Vec<LinkId>>>,
}

impl Routing {
    /// Prepares routes between all hosts, as [`Router::new`] does.
    ///
    /// # Errors
    /// As [`Router::new`].
    pub fn new(fabric: Arc<Fabric>, ecmp: Ecmp, pins: &[Pin]) -> Result<Self, FabricError> {
        // The router borrows the fabric and is taken apart; its tables are shared and stay.
        let Router { table, hash, pins, .. } = Router::new(&fabric, ecmp, pins)?;
        Ok(Self { fabric, ecmp, table, hash, pins })
    }

    /// The fabric.
    #[must_use]
    pub fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// A router over the prepared routes; nothing is computed.
    #[must_use]
    pub fn router(&self) -> Router<'_> {
        Router { fabric: &self.fabric, ecmp: self.ecmp, table: self.table.clone(), hash: self.hash.clone(), pins: self.pins.clone() }
    }
}
