//! Our own document: `antiphase.fabric/v1`, in YAML or JSON.
//!
//! ```
//! let fabric = antiphase_fabric::native::read("
//! schema: antiphase.fabric/v1
//! name: lab
//! defaults: {capacity: 100G}
//! hosts: [h1, h2, h3, h4]
//! switches:
//!   - {name: leaf1, tier: 1}
//!   - {name: leaf2, tier: 1}
//!   - {name: spine1, tier: 2}
//! cables:
//!   - {ends: [h1, leaf1]}
//!   - {ends: [h2, leaf1]}
//!   - {ends: [h3, leaf2]}
//!   - {ends: [h4, leaf2]}
//!   - {ends: [leaf1, spine1], capacity: 400G, parallel: 2}
//!   - {ends: [leaf2, spine1], capacity: 400G, parallel: 2}
//! ").unwrap();
//! assert_eq!(fabric.links().len(), 2 * (4 + 2 + 2));
//! ```
//!
//! | key of a cable | meaning |
//! |---|---|
//! | `ends` | two ends, each `node`, `node:port` or `{node: N, port: P}`; without a port the next free one is taken |
//! | `capacity` | `400G`, `50000M`, `1.6T`, or `unknown`; for both directions |
//! | `mbps` | the same as a whole number of Mbit/s |
//! | `provenance` | `observed`, `intended` (the default) or `asserted` |
//! | `parallel` | this many equal cables; only without port names |
//! | `reverse` | `{capacity, mbps, provenance}` of the direction from the second end to the first, where it differs |
//! | `one_way` | `true`: only the direction from the first end to the second is known |
//!
//! | key of an entry of `gpus` | meaning |
//! |---|---|
//! | `hosts` | names of hosts; an entry without them holds for all hosts that no other names |
//! | `count` | GPUs of each of them |
//! | `type` | their type, such as `a100`; elastic policies choose among types |
//!
//! `defaults` gives `capacity`, `mbps` and `provenance` to cables that say nothing. The rail of a
//! NIC is the position of its cable among the cables of its host.

mod document;
mod read;
mod write;

pub use document::{DOCUMENT_NODES_MAX, HOST_GPUS_MAX, PARALLEL_MAX, PARALLEL_TOTAL_MAX, SCHEMA};
pub use read::read;
pub use write::{write_json, write_yaml};

#[cfg(test)]
mod tests;
