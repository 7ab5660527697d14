//! Fabrics for other programs. Each exporter says what its format cannot hold, and none writes
//! an empty document: an empty topology has been known to stop a scheduler.

mod hostlist;
mod hypernode;
mod labels;
mod names;
mod slurm;
mod tree;

pub use labels::{LabelKeys, UnknownLabelKeys};
pub use tree::{Group, LEVELS_MAX, Level, Tree};

use alloc::{string::String, vec::Vec};

use crate::{Fabric, FabricError, Finding, native};

/// The format to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our own YAML; loses nothing.
    Native,
    /// Slurm's `topology.yaml`, as a tree.
    SlurmYaml,
    /// Slurm's `topology.conf`, as a tree.
    SlurmConf,
    /// Kubernetes Node manifests that carry labels, for server-side apply.
    KubernetesLabels(LabelKeys),
    /// Volcano HyperNode manifests.
    HyperNode,
}

/// A document and what it leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The document.
    pub text: String,
    /// The parts of the fabric that it leaves out or changes.
    pub findings: Vec<Finding>,
}

/// Writes a fabric in another format.
///
/// # Errors
/// [`FabricError::NotExportable`] for a fabric without cabled hosts, and for a host whose name
/// the format cannot hold: a scheduler would not find it under another name.
pub fn export(fabric: &Fabric, format: &Format) -> Result<Export, FabricError> {
    if *format == Format::Native {
        return Ok(Export { text: native::write_yaml(fabric), findings: Vec::new() });
    }
    // All other formats know only which hosts are near each other, so they are written from one tree.
    let tree = Tree::of(fabric)?;
    match format {
        Format::SlurmConf => slurm::conf(fabric, tree),
        Format::KubernetesLabels(keys) => labels::manifests(fabric, tree, keys),
        Format::HyperNode => hypernode::manifests(fabric, tree),
        // The native format has been answered above; its name here only completes the match.
        Format::SlurmYaml | Format::Native => slurm::yaml(fabric, tree),
    }
}

#[cfg(test)]
mod tests;
