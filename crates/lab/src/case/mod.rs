//! A case: a small fabric and the periodic jobs that meet on it (`antiphase.lab/v1`, `examples/lab`).
//!
//! Reading touches no file and no clock, so the simulator reads the same cases.
//!
//! | key | meaning |
//! |---|---|
//! | `name`, `about` | for people |
//! | `fabric` or `fabric_file` | an `antiphase.fabric/v1` document, inline or by path relative to the case |
//! | `routes` | `hashed:SEED`, by default `hashed:0`: a kernel sends a flow one way, so there is no spread here |
//! | `jobs[].id`, `.hosts` | hosts in rank order, one rank each; a host carries one rank of one job |
//! | `jobs[].compute_ms` | the Down phase |
//! | `jobs[].bytes` | what each rank sends to its successor on the ring, per iteration, as payload |
//! | `jobs[].jitter_ms` | up to this much is added to each Down phase, at random; by default 0 |
//! | `expect` | `score`, `hold`: what the author says the case shows |

mod builtin;
mod document;

use std::{collections::BTreeMap, sync::Arc};

use fabric::{
    Fabric, FabricError, NodeKind, native,
    route::{Ecmp, Router},
    yaml::Malformed,
};
use job::{Collective, Endpoint, Job, Placement, TrafficPhase};
use units::{Bytes, Nanos, NodeId, OneLine, Rate};

pub use builtin::{BUILTIN, builtin};
pub use document::{Expect, SCHEMA};

/// Most nodes: each is a namespace, and two cores forward for all of them.
pub const NODES_MAX: usize = 64;
/// Most jobs: the marking queue counts by the job's address, in [`crate::queue`].
pub const JOBS_MAX: usize = 32;
/// Longest id of a job and name of a node: they become names of files and namespaces.
pub const NAME_BYTES_MAX: usize = 32;
/// Longest Down phase and jitter: a run of some iterations has to end.
pub const COMPUTE_MS_MAX: u64 = 60_000;
/// Most bytes per iteration: a minute at 1 Gbit/s, beyond which a run does not end in reasonable time.
pub const BYTES_MAX: u64 = 8_000_000_000;
/// Fastest link: beyond this the kernel's forwarding on a small machine is the bottleneck, and not the link.
pub const RATE_MAX: Rate = Rate(10_000);
/// What a full segment carries with TCP timestamps, and what it takes on the wire without preamble: MTU 1500.
const SEGMENT_PAYLOAD: u64 = 1_448;
const SEGMENT_FRAME: u64 = 1_514;

/// Why a case could not be taken: one line that names the place and the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// The text is no case.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The fabric is none, or not one that a kernel can play.
    #[error("fabric: {}", OneLine(.0))]
    Fabric(String),
    /// A value that cannot be.
    #[error("{}: {}", OneLine(place), OneLine(problem))]
    Value {
        /// Path of the key.
        place: String,
        /// What is wrong, with the value.
        problem: String,
    },
}

/// A training job of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabJob {
    /// Unique id.
    pub id: String,
    /// One host per rank.
    pub hosts: Vec<NodeId>,
    /// Length of the Down phase.
    pub compute: Nanos,
    /// At most this much is added to each Down phase.
    pub jitter: Nanos,
    /// Payload that each rank sends to its successor per iteration.
    pub bytes: Bytes,
    /// Slowest NIC of its hosts.
    pub nic: Rate,
}

/// The random addition to a Down phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Its mean.
    pub mean: Nanos,
    /// Its standard deviation.
    pub deviation: Nanos,
    /// Three quarters are below.
    pub third_quartile: Nanos,
}

/// How long one job takes, for planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Length of one iteration.
    pub period: Nanos,
    /// Length of its Up phase, which begins it.
    pub up: Nanos,
}

/// A case, valid.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// The fabric; every link has a capacity.
    pub fabric: Arc<Fabric>,
    /// How equal routes are told apart.
    pub ecmp: Ecmp,
    /// The jobs, in the order of the document.
    pub jobs: Vec<LabJob>,
    /// What the author says of it.
    pub expect: Expect,
}

impl LabJob {
    /// Time that one iteration's bytes take at the NIC's rate, headers included, rounded up.
    #[must_use]
    pub fn wire_time(&self) -> Nanos {
        let bits = u128::from(self.bytes.0) * u128::from(SEGMENT_FRAME) * 8;
        let mbps = u128::from(self.nic.mbps().max(1)) * u128::from(SEGMENT_PAYLOAD);
        Nanos(u64::try_from((bits * 1_000).div_ceil(mbps)).unwrap_or(u64::MAX))
    }

    /// What jitter does to an iteration. All ranks have to be ready, so it is the largest of one uniform draw per rank.
    #[must_use]
    pub fn drawn(&self) -> Drawn {
        let (ranks, most) = (self.hosts.len().max(1) as f64, self.jitter.0 as f64);
        Drawn {
            // A Down phase ends with the slowest rank: the largest of n uniform draws has mean n/(n+1), and the quartile 0.75^(1/n).
            mean: Nanos((most * ranks / (ranks + 1.0)) as u64),
            deviation: Nanos((most * (ranks / (ranks + 2.0)).sqrt() / (ranks + 1.0)) as u64),
            third_quartile: Nanos((most * 0.75_f64.powf(1.0 / ranks)) as u64),
        }
    }

    /// Its times if nothing but the NIC's rate held it back.
    #[must_use]
    pub fn nominal(&self) -> Timing {
        let up = self.wire_time();
        Timing { period: up.checked_add(self.compute).unwrap_or(Nanos(u64::MAX)), up }
    }

    /// Rate of the busiest NIC while it sends its bytes in `up`: what a measured Up phase means for the link.
    #[must_use]
    pub fn rate(&self, up: Nanos) -> Rate {
        // Payload becomes bytes on the wire, because HTB and the marking queue count whole frames.
        let bits = u128::from(self.bytes.0) * u128::from(SEGMENT_FRAME) * 8 / u128::from(SEGMENT_PAYLOAD);
        let mbps = (bits * 1_000).div_ceil(u128::from(up.0.max(1)));
        // A measured Up phase may be a little shorter than the wire allows, but the NIC sends no faster than its rate.
        Rate(u64::try_from(mbps).unwrap_or(u64::MAX).clamp(1, self.nic.mbps()))
    }

    /// The job as the planner knows it: an Up phase from the gate on, then the Down phase.
    #[must_use]
    pub fn planned(&self, timing: Timing) -> (Job, Placement) {
        let ranks: Vec<Endpoint> = self.hosts.iter().map(|&host| Endpoint { host, rail: 0 }).collect();
        let phase = TrafficPhase {
            start: Nanos(0),
            end: Nanos(timing.up.0.clamp(1, timing.period.0)),
            rate: self.rate(timing.up),
            collective: Collective::Ring,
            groups: Arc::from([(0..ranks.len() as u32).collect::<Vec<u32>>()]),
        };
        let job = Job { name: self.id.clone(), gpus: ranks.len() as u32, period: timing.period, phases: vec![phase] };
        (job, Placement { ranks })
    }
}

impl Case {
    /// Reads a case. `files` reads the fabric document that it may name by path; its error is shown beside that path.
    ///
    /// # Errors
    /// [`CaseError`] names the place and the value.
    pub fn read(text: &str, files: &dyn Fn(&str) -> Result<String, String>) -> Result<Self, CaseError> {
        let document = document::Document::parse(text)?;
        // With two fabrics nobody could say which one is meant; with none there is nothing to play on.
        let fabric = match (&document.fabric, &document.fabric_file) {
            (Some(inline), None) => native::read(&inline.to_string()).map_err(|e| CaseError::Fabric(e.to_string()))?,
            (None, Some(path)) => {
                let text = files(path).map_err(|e| CaseError::Fabric(format!("{path}: {e}")))?;
                native::read(&text).map_err(|e| CaseError::Fabric(format!("{path}: {e}")))?
            }
            _ => return Err(value("document", "needs exactly one of fabric and fabric_file")),
        };
        // The fabric is checked before jobs are read, because the jobs' hosts and NICs are looked up in it.
        check_fabric(&fabric)?;
        let ecmp = match document.routes.as_deref().unwrap_or("hashed:0").parse() {
            // A kernel route has one next hop here, so a plan with spread routes would be about other links than the ones played.
            Ok(Ecmp::Spread) => return Err(value("routes", "spread: a kernel sends a flow one way; use hashed:SEED")),
            Ok(ecmp) => ecmp,
            Err(e) => return Err(value("routes", e)),
        };
        check_name("name", &document.name)?;
        let jobs = read_jobs(&fabric, &document.jobs)?;
        let case = Self { name: document.name, about: document.about, fabric: Arc::new(fabric), ecmp, jobs, expect: document.expect };
        // A router is made once here, so that a case without routes is refused when it is read and not when it is played.
        case.router().map_err(|e| CaseError::Fabric(e.to_string()))?;
        Ok(case)
    }

    /// Routes on its fabric.
    ///
    /// # Errors
    /// As [`Router::new`].
    pub fn router(&self) -> Result<Router<'_>, FabricError> {
        Router::new(&self.fabric, self.ecmp, &[])
    }
}

fn value(place: impl Into<String>, problem: impl ToString) -> CaseError {
    CaseError::Value { place: place.into(), problem: problem.to_string() }
}

fn check_name(place: &str, name: &str) -> Result<(), CaseError> {
    let fits = units::check_name(name).is_ok() && name.len() <= NAME_BYTES_MAX && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if fits {
        Ok(())
    } else {
        Err(value(place, format!("{name:?}: 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' or '.', a letter or digit first")))
    }
}

fn check_fabric(fabric: &Fabric) -> Result<(), CaseError> {
    let refuse = |problem: String| Err(CaseError::Fabric(problem));
    if fabric.nodes().len() > NODES_MAX {
        return refuse(format!("{} nodes; the lab plays at most {NODES_MAX}", fabric.nodes().len()));
    }
    for node in fabric.nodes() {
        check_name("fabric", &node.name)?;
    }
    for (i, link) in fabric.links().iter().enumerate() {
        let Some(id) = units::LinkId::from_index(i) else { continue };
        let capacity = fabric.capacity(id).map_err(|e| CaseError::Fabric(e.to_string()))?;
        if capacity > RATE_MAX {
            return refuse(format!("link {}: {capacity} is more than the lab's {RATE_MAX}", fabric.link_name(id)));
        }
        if fabric.reverse(id).is_none() {
            return refuse(format!("link {}: known in one direction only", fabric.link_name(id)));
        }
        let ends = [link.from.node, link.to.node].map(|n| fabric.node(n).kind);
        if ends == [NodeKind::Host, NodeKind::Host] {
            return refuse(format!("link {}: from host to host, past every switch", fabric.link_name(id)));
        }
    }
    Ok(())
}

fn read_jobs(fabric: &Fabric, documents: &[document::JobDocument]) -> Result<Vec<LabJob>, CaseError> {
    if documents.is_empty() || documents.len() > JOBS_MAX {
        return Err(value("jobs", format!("{} jobs; 1 to {JOBS_MAX} are played", documents.len())));
    }
    let mut taken: BTreeMap<NodeId, String> = BTreeMap::new();
    let mut jobs: Vec<LabJob> = Vec::with_capacity(documents.len());
    for (i, document) in documents.iter().enumerate() {
        let at = |key: &str| format!("jobs[{i}] ({:?}).{key}", document.id);
        check_name(&at("id"), &document.id)?;
        if jobs.iter().any(|j| j.id == document.id) {
            return Err(value(at("id"), "another job has that id"));
        }
        if !(2..=NODES_MAX).contains(&document.hosts.len()) {
            return Err(value(at("hosts"), format!("{} hosts; a ring has at least 2", document.hosts.len())));
        }
        for (key, ms) in [("compute_ms", document.compute_ms), ("jitter_ms", document.jitter_ms)] {
            if ms > COMPUTE_MS_MAX {
                return Err(value(at(key), format!("{ms} is over the limit of {COMPUTE_MS_MAX}")));
            }
        }
        if !(1..=BYTES_MAX).contains(&document.bytes) {
            return Err(value(at("bytes"), format!("{}; 1 to {BYTES_MAX} are sent", document.bytes)));
        }
        let mut hosts = Vec::with_capacity(document.hosts.len());
        let mut nic = RATE_MAX;
        for (r, name) in document.hosts.iter().enumerate() {
            let (host, rate) = find_host(fabric, name).map_err(|problem| value(at(&format!("hosts[{r}]")), problem))?;
            // A namespace has one rank address, by which traffic is counted, so a host carries one rank.
            if let Some(other) = taken.insert(host, document.id.clone()) {
                return Err(value(at(&format!("hosts[{r}]")), format!("{name:?} already carries a rank of {other:?}")));
            }
            hosts.push(host);
            nic = nic.min(rate);
        }
        jobs.push(LabJob {
            id: document.id.clone(),
            hosts,
            compute: Nanos::from_millis(document.compute_ms),
            jitter: Nanos::from_millis(document.jitter_ms),
            bytes: Bytes(document.bytes),
            nic,
        });
    }
    Ok(jobs)
}

/// A host and the rate of its one NIC.
fn find_host(fabric: &Fabric, name: &str) -> Result<(NodeId, Rate), String> {
    let host = fabric.find(name).ok_or_else(|| format!("unknown host {name:?}"))?;
    if fabric.node(host).kind != NodeKind::Host {
        return Err(format!("{name:?} is a switch, not a host"));
    }
    match fabric.links_from(host) {
        [nic] => Ok((host, fabric.capacity(*nic).map_err(|e| e.to_string())?)),
        nics => Err(format!("{name:?} has {} NICs; the lab's hosts have one", nics.len())),
    }
}

#[cfg(test)]
mod tests;
