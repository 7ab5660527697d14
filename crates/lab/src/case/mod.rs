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
//! | `jobs[].phases` | in place of these two, where an iteration has several Up phases: `[{bytes, compute_ms}, ...]`, each first sends and then computes |
//! | `jobs[].jitter_ms` | up to this much is added to each Down phase, at random; by default 0 |
//! | `jobs[].declared` | `period_percent`, `up_percent`: what the profile that is committed says, in percent of what was measured; by default 100 |
//! | `expect` | `score`, `hold`, `slots`: what the author says the case shows |
//!
//! A NIC is as fast as the link between its host and the switch, so a job that sends at 0.6 of a link has hosts whose links are that slow.

mod builtin;
mod document;
mod lab_job;

use std::{collections::BTreeMap, sync::Arc};

use fabric::{
    Fabric, FabricError, NodeKind, native,
    route::{Ecmp, Router},
    yaml::Malformed,
};
use units::{Bytes, Nanos, NodeId, OneLine, Rate};

pub use builtin::{BUILTIN, builtin};
pub use document::{Expect, SCHEMA};
pub use lab_job::{Declared, Drawn, LabJob, LabPhase, Timing};

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
/// Most phases of an iteration: a pipeline's micro-batches; more of them would be too short for a kernel to show.
pub const PHASES_MAX: usize = 16;
/// Largest number in `declared`: ten times too long is wrong enough for any trial.
pub const DECLARED_PERCENT_MAX: u64 = 1_000;

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
        let phases = read_phases(document, &at)?;
        check_ms(at("jitter_ms"), document.jitter_ms)?;
        let declared = read_declared(document.declared, &at)?;
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
        jobs.push(LabJob { id: document.id.clone(), hosts, phases, jitter: Nanos::from_millis(document.jitter_ms), nic, declared });
    }
    Ok(jobs)
}

fn check_ms(place: String, ms: u64) -> Result<(), CaseError> {
    if ms > COMPUTE_MS_MAX { Err(value(place, format!("{ms} is over the limit of {COMPUTE_MS_MAX}"))) } else { Ok(()) }
}

/// The phases of a job: one of `compute_ms` and `bytes`, or several of `phases`.
fn read_phases(document: &document::JobDocument, at: &dyn Fn(&str) -> String) -> Result<Vec<LabPhase>, CaseError> {
    let one = match (document.compute_ms, document.bytes, &document.phases) {
        (Some(compute_ms), Some(bytes), None) => vec![document::PhaseDocument { compute_ms, bytes }],
        (None, None, Some(phases)) if (1..=PHASES_MAX).contains(&phases.len()) => {
            // The places of several phases have a number, so that a refusal names the right one.
            let numbered = |k: usize| move |key: &str| format!("{}[{k}].{key}", at("phases"));
            return phases.iter().enumerate().map(|(k, phase)| read_phase(*phase, &numbered(k))).collect();
        }
        (None, None, Some(phases)) => return Err(value(at("phases"), format!("{} phases; 1 to {PHASES_MAX} are played", phases.len()))),
        _ => return Err(value(at("compute_ms"), "a job has either compute_ms and bytes, or phases")),
    };
    one.into_iter().map(|phase| read_phase(phase, at)).collect()
}

fn read_phase(phase: document::PhaseDocument, at: &dyn Fn(&str) -> String) -> Result<LabPhase, CaseError> {
    check_ms(at("compute_ms"), phase.compute_ms)?;
    if !(1..=BYTES_MAX).contains(&phase.bytes) {
        return Err(value(at("bytes"), format!("{}; 1 to {BYTES_MAX} are sent", phase.bytes)));
    }
    Ok(LabPhase { bytes: Bytes(phase.bytes), compute: Nanos::from_millis(phase.compute_ms) })
}

fn read_declared(document: document::DeclaredDocument, at: &dyn Fn(&str) -> String) -> Result<Declared, CaseError> {
    let percent = |key: &str, said: Option<u64>| match said.unwrap_or(100) {
        percent @ 1..=DECLARED_PERCENT_MAX => Ok(percent),
        other => Err(value(format!("{}.{key}", at("declared")), format!("{other}; 1 to {DECLARED_PERCENT_MAX} percent can be declared"))),
    };
    let (period_percent, up_percent) = (percent("period_percent", document.period_percent)?, percent("up_percent", document.up_percent)?);
    Ok(Declared { period_percent, up_percent })
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
