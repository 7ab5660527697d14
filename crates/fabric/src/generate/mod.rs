//! Fabrics made from a few numbers: for trials, for capacity planning and for benchmarks.
//!
//! Generated fabrics are marked [`Provenance::Asserted`], because nobody has seen them.

mod cassini24;
mod clos;
mod rail;

pub use cassini24::cassini24;
pub use clos::{Clos2, Clos3, clos2, clos3};
pub use rail::{Rail, rail};

use alloc::{format, string::String};

use units::{NodeId, Rate};

use crate::{Fabric, FabricBuilder, FabricError, NodeKind, Port, Provenance, model};

/// A fabric under construction.
struct Plan {
    builder: FabricBuilder,
}

impl Plan {
    /// Refuses parameters of zero and fabrics over the model's limits before anything is built.
    /// `nodes` and `cables` are the factors and terms of the sums: see [`total`].
    fn new(name: &str, nodes: &[&[u32]], cables: &[&[u32]]) -> Result<Self, FabricError> {
        let refuse = |what, count: u64, limit: usize| {
            // A count beyond the platform's range is over every limit, so the largest number may stand for it.
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if count > limit { Err(FabricError::TooLarge { what, count, limit }) } else { Ok(()) }
        };
        refuse("nodes", total(nodes), model::NODES_MAX)?;
        // Each cable is two directed links.
        refuse("links", total(cables).saturating_mul(2), model::LINKS_MAX)?;
        Ok(Self { builder: FabricBuilder::new(name) })
    }

    fn host(&mut self, name: &str) -> Result<NodeId, FabricError> {
        self.builder.node(name, NodeKind::Host)
    }

    fn switch(&mut self, name: &str, tier: u8) -> Result<NodeId, FabricError> {
        self.builder.node(name, NodeKind::Switch { tier })
    }

    /// `parallel` cables between the next free ports of two nodes.
    fn cables(&mut self, a: NodeId, b: NodeId, rate: Rate, parallel: u32) -> Result<(), FabricError> {
        for _ in 0..parallel {
            let name = self.builder.next_port(a);
            self.cable(a, name, b, rate)?;
        }
        Ok(())
    }

    /// One cable from a named port.
    fn cable(&mut self, a: NodeId, port: String, b: NodeId, rate: Rate) -> Result<(), FabricError> {
        let to = Port { node: b, name: self.builder.next_port(b) };
        self.builder.cable(Port { node: a, name: port }, to, Some(rate), Provenance::Asserted)?;
        Ok(())
    }

    fn build(self) -> Fabric {
        self.builder.build()
    }
}

/// Sum of products, saturating.
fn total(terms: &[&[u32]]) -> u64 {
    // A saturated sum is over every limit, so overflow ends in a refusal.
    let product = |factors: &&[u32]| factors.iter().fold(1_u64, |p, &f| p.saturating_mul(u64::from(f)));
    terms.iter().map(product).fold(0, u64::saturating_add)
}

/// Refuses a parameter of zero.
fn at_least_one(parameters: &[(&str, u32)]) -> Result<(), FabricError> {
    match parameters.iter().find(|p| p.1 == 0) {
        Some((name, _)) => Err(FabricError::Document { place: format!("parameter {name}"), problem: "is 0, must be at least 1".into() }),
        None => Ok(()),
    }
}

/// Refuses a rate of zero.
fn some_rate(parameters: &[(&str, Rate)]) -> Result<(), FabricError> {
    match parameters.iter().find(|p| p.1 == Rate::ZERO) {
        Some((name, _)) => Err(FabricError::Document { place: format!("parameter {name}"), problem: "is 0 Mb/s".into() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
