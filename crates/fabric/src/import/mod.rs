//! Importers: documents that users already have, to a [`Fabric`].
//!
//! Every importer reads text and writes down what it states ([`Imported`]); nothing is guessed in
//! silence: what is odd, left out or taken by a rule is a [`Finding`]. Several documents, of one
//! format or of different ones, are merged by [`Imported::merge`]; observed beats intended beats
//! asserted. [`Imported::into_fabric`] then decides which statements are about one cable, gives
//! switches their tiers, applies assumed capacities and builds the [`Fabric`].
//!
//! | format | states | provenance |
//! |---|---|---|
//! | Slurm `topology.yaml`, `topology.conf` | hosts, a tree of switches | intended |
//! | `lldpctl -f json`, `json0` | cables with ports | observed |
//! | SONiC `config_db.json` | cables with ports and capacity, kinds | intended |
//! | Topograph graph | hosts, a tree of switches | intended |
//! | Lingjun `topo.csv` | hosts, a tree of switch groups | asserted |
//! | containerlab | cables with ports | intended |
//!
//! ```
//! use antiphase_fabric::import::{BuildOptions, assumptions, slurm};
//! let text = "SwitchName=s0 Nodes=dev[0-1]\nSwitchName=s1 Nodes=dev[2-3]\nSwitchName=top Switches=s[0-1]\n";
//! let options = BuildOptions {
//!     name: "demo".into(),
//!     assumptions: assumptions(["host-leaf=50G", "leaf-spine=400G*2"]).unwrap(),
//!     ..BuildOptions::default()
//! };
//! let (fabric, findings) = slurm::topology_conf(text).unwrap().into_fabric(&options).unwrap();
//! // 4 host cables and 2 leaves with 2 parallel cables each, in two directions.
//! assert_eq!(fabric.links().len(), 2 * (4 + 2 * 2));
//! assert!(findings.is_empty());
//! ```

mod assume;
mod build;
mod cabling;
pub mod containerlab;
mod hostlist;
mod join;
mod json;
pub mod lingjun;
pub mod lldp;
mod order;
mod place;
pub mod slurm;
pub mod sonic;
pub mod topograph;
mod yaml;

use alloc::vec::Vec;

pub use assume::{Assumption, AssumptionError, CAPACITY_MBPS_MAX, Layer, PARALLEL_MAX, assumptions};
pub use build::BuildOptions;
pub use cabling::Cabling;
pub use hostlist::EXPANSION_MAX;
pub use place::{DOCUMENT_BYTES_MAX, NAME_BYTES_MAX};

use crate::{Fabric, FabricError, Finding};

/// The statements of one document, or of several merged ones.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Nodes and cables as stated.
    pub cabling: Cabling,
    /// Findings made while reading.
    pub findings: Vec<Finding>,
}

impl Imported {
    /// Puts the statements of several documents together.
    ///
    /// # Errors
    /// [`FabricError::TooLarge`] when together they exceed the limits of a fabric.
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Result<Self, FabricError> {
        let mut merged = Self::default();
        for part in parts {
            merged.findings.extend(part.findings);
            merged.cabling.absorb(part.cabling, &mut merged.findings)?;
        }
        Ok(merged)
    }

    /// Builds the fabric; the findings are those of reading followed by those of joining.
    ///
    /// # Errors
    /// [`FabricError`] when the statements exceed the limits of a fabric.
    pub fn into_fabric(self, options: &BuildOptions) -> Result<(Fabric, Vec<Finding>), FabricError> {
        let (fabric, joined) = build::build(&self.cabling, options)?;
        let mut findings = self.findings;
        findings.extend(joined);
        Ok((fabric, findings))
    }
}
