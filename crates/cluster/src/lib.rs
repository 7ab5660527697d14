//! Jobs, placements and candidates from their documents, on a fabric.
//!
//! What `antiphase plan` reads from files and what the service is sent are the same documents; this crate is the
//! one place that turns them into [`policy::Job`] and [`policy::Placement`]. Text comes in as `&str`; a profile that
//! a job names by path is read by a function of the caller's.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod documents;

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use fabric::{Fabric, NodeKind};
use policy::{Candidate, Collective, Endpoint, Job, Placement, TrafficPhase};
use profile::{Profile, Request, Scope};
use units::{JobId, NodeId, Rate};

pub use documents::{CANDIDATES_SCHEMA, CandidateDoc, CandidatesDoc, JOBS_SCHEMA, JobDoc, JobsDoc, ModelDoc};

/// Longest id of a job or a candidate: the longest DNS name, as for nodes.
pub const ID_BYTES_MAX: usize = 253;

/// Why documents do not make jobs on a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The document itself: place, problem and value.
    #[error("{problem}")]
    Document {
        /// One line.
        problem: String,
    },
    /// A profile that a job names.
    #[error("{path}: {problem}")]
    ProfileFile {
        /// As written in the job.
        path: String,
        /// One line.
        problem: String,
    },
}

impl ClusterError {
    fn document(problem: String) -> Self {
        Self::Document { problem }
    }
}

/// Reads a document that a job names, by the path written there; the message says why not.
pub type ReadFile<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// Turns documents into jobs and placements on one fabric, job by job.
pub struct Reader<'a> {
    fabric: &'a Fabric,
    files: &'a ReadFile<'a>,
    jobs: Vec<Job>,
    placements: Vec<Placement>,
    gpus_per_host: Vec<u32>,
    by_name: BTreeMap<String, JobId>,
}

impl core::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reader").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl<'a> Reader<'a> {
    /// No jobs yet. `files` reads the profile documents that jobs name.
    #[must_use]
    pub fn new(fabric: &'a Fabric, files: &'a ReadFile<'a>) -> Self {
        Self { fabric, files, jobs: Vec::new(), placements: Vec::new(), gpus_per_host: Vec::new(), by_name: BTreeMap::new() }
    }

    /// Adds a job. One without hosts takes its size from `elsewhere`, the hosts that a candidate gives it, and is not placed.
    ///
    /// # Errors
    /// [`ClusterError`] names the job, the key and the value.
    pub fn job(&mut self, doc: &JobDoc, elsewhere: Option<&[String]>) -> Result<JobId, ClusterError> {
        let index = self.jobs.len();
        let at = format!("jobs[{index}] ({:?})", doc.id);
        let refuse = |problem: String| ClusterError::document(format!("{at}: {problem}"));
        check_id(&doc.id).map_err(|problem| ClusterError::document(format!("jobs[{index}].id: {problem}")))?;
        let Some(hosts) = doc.hosts.as_deref().or(elsewhere) else {
            return Err(refuse("no hosts here and none in the candidates".into()));
        };
        let profile = self.profile(&at, doc, hosts)?;
        let dims = profile.dims();
        let job = traffic(doc.id.clone(), &profile).map_err(|e| refuse(e.to_string()))?;
        let gpus_per_host = dims.gpus_per_host;
        let id = JobId(index as u32);
        if self.by_name.insert(doc.id.clone(), id).is_some() {
            return Err(refuse("another job has that id".into()));
        }
        self.gpus_per_host.push(gpus_per_host);
        self.jobs.push(job);
        let placement = match &doc.hosts {
            Some(hosts) => self.place(id, hosts).map_err(|problem| ClusterError::document(format!("{at}.{problem}")))?,
            None => Placement::default(),
        };
        self.placements.push(placement);
        Ok(id)
    }

    /// The jobs and their placements, in the order added.
    #[must_use]
    pub fn finish(self) -> (Vec<Job>, Vec<Placement>) {
        (self.jobs, self.placements)
    }

    fn profile(&self, at: &str, doc: &JobDoc, hosts: &[String]) -> Result<Profile, ClusterError> {
        let refuse = |problem: String| ClusterError::document(format!("{at}{problem}"));
        match (&doc.model, &doc.profile, &doc.profile_file) {
            (Some(model), None, None) => self.synthesise(model, hosts).map_err(|e| refuse(format!(".model: {e}"))),
            (None, Some(profile), None) => Profile::try_from(profile.clone()).map_err(|e| refuse(format!(".profile.{e}"))),
            (None, None, Some(path)) => {
                let text = (self.files)(path).map_err(|problem| ClusterError::ProfileFile { path: path.clone(), problem })?;
                profile::parse(&text).map_err(|e| ClusterError::ProfileFile { path: path.clone(), problem: e.to_string() })
            }
            _ => Err(refuse(": needs exactly one of model, profile and profile_file".into())),
        }
    }

    fn synthesise(&self, doc: &ModelDoc, hosts: &[String]) -> Result<Profile, String> {
        let model = profile::find_model(&doc.name).ok_or_else(|| {
            let names: Vec<&str> = profile::MODELS.iter().map(|m| m.name).collect();
            format!("unknown model {:?}; known: {}", doc.name, names.join(", "))
        })?;
        let gpus_per_host = doc.gpus_per_host.unwrap_or(1);
        let nic = match &doc.nic {
            Some(text) => fabric::capacity::parse(text).map_err(|e| format!("nic: {e}"))?,
            None => self.nic_rate(hosts)?,
        };
        let strategy = doc.strategy.as_deref().map(str::parse).transpose().map_err(|e: profile::UnknownStrategy| e.to_string())?;
        let request = Request {
            strategy,
            ranks: Some(doc.ranks.unwrap_or((hosts.len() as u32).saturating_mul(gpus_per_host))),
            gpus_per_host: Some(gpus_per_host),
            batch: doc.batch,
            micro_batches: doc.micro_batches,
            tp: doc.tp,
            cp: doc.cp,
            pp: doc.pp,
            dp: doc.dp,
            ep: doc.ep,
            nic_rate: Some(nic),
            // A rank sends by one NIC at a time, so the NICs beyond its ranks are none of its job's.
            nics_per_host: doc.nics_per_host.or_else(|| self.nics(hosts).map(|nics| nics.min(gpus_per_host.max(1)))),
            gpu_gflops: doc.gpu_gflops,
            ..Request::default()
        };
        let setup = request.resolve(model).map_err(|e| e.to_string())?;
        profile::synthesise(model, &setup.parallelism, &setup.hardware, setup.batch).map_err(|e| e.to_string())
    }

    /// How many NICs the first host has.
    fn nics(&self, hosts: &[String]) -> Option<u32> {
        let host = self.host(hosts.first()?).ok()?;
        u32::try_from(self.fabric.links_from(host).len()).ok().filter(|&n| n > 0)
    }

    /// Line rate of the first host's first NIC.
    fn nic_rate(&self, hosts: &[String]) -> Result<Rate, String> {
        let first = hosts.first().ok_or("no hosts, so the NIC rate is unknown; state nic")?;
        let host = self.host(first)?;
        let link = self.fabric.links_from(host).first().ok_or_else(|| format!("host {first:?} has no NIC"))?;
        self.fabric.capacity(*link).map_err(|e| e.to_string())
    }

    fn host(&self, name: &str) -> Result<NodeId, String> {
        let id = self.fabric.find(name).ok_or_else(|| format!("unknown host {name:?}"))?;
        match self.fabric.node(id).kind {
            NodeKind::Host => Ok(id),
            NodeKind::Switch { .. } => Err(format!("{name:?} is a switch, not a host")),
        }
    }

    /// Ranks on hosts in order. Where a host has fewer NICs than ranks, neighbouring ranks share one: a rail that no NIC has would
    /// count as a NIC of its own, and the job would send a multiple of what it does.
    ///
    /// # Errors
    /// The key, what is wrong and the value.
    pub fn place(&self, job: JobId, hosts: &[String]) -> Result<Placement, String> {
        let per_host = self.gpus_per_host[job.index()] as usize;
        let wanted = self.jobs[job.index()].gpus as usize;
        if hosts.len() != wanted.div_ceil(per_host.max(1)) {
            return Err(format!(
                "hosts: {} given, but {wanted} ranks at {per_host} per host need {}",
                hosts.len(),
                wanted.div_ceil(per_host)
            ));
        }
        let mut seen = BTreeMap::new();
        let mut ranks = Vec::with_capacity(wanted);
        for (i, name) in hosts.iter().enumerate() {
            if let Some(first) = seen.insert(name, i) {
                return Err(format!("hosts[{i}]: {name:?} is also hosts[{first}]"));
            }
            let host = self.host(name).map_err(|e| format!("hosts[{i}]: {e}"))?;
            let here = per_host.min(wanted - ranks.len());
            let nics = self.fabric.links_from(host).len();
            let rail = |r: usize| if nics < per_host { r * nics / per_host } else { r };
            ranks.extend((0..here).map(|r| Endpoint { host, rail: rail(r) as u16 }));
        }
        Ok(Placement { ranks })
    }

    /// The candidates of a document; they may name every job added before.
    ///
    /// # Errors
    /// [`ClusterError`] names the candidate, the key and the value.
    pub fn candidates(&self, doc: &CandidatesDoc) -> Result<Vec<Candidate>, ClusterError> {
        let mut ids = BTreeMap::new();
        let mut out = Vec::with_capacity(doc.candidates.len());
        for (i, candidate) in doc.candidates.iter().enumerate() {
            let refuse = |problem: String| ClusterError::document(format!("candidates[{i}]{problem}"));
            check_id(&candidate.id).map_err(|problem| refuse(format!(".id: {problem}")))?;
            if let Some(first) = ids.insert(&candidate.id, i) {
                return Err(refuse(format!(".id: {:?} is also candidates[{first}]", candidate.id)));
            }
            let mut placements = Vec::with_capacity(candidate.hosts.len());
            for (name, hosts) in &candidate.hosts {
                let job = *self.by_name.get(name).ok_or_else(|| refuse(format!(".hosts: unknown job {name:?}")))?;
                placements.push((job, self.place(job, hosts).map_err(|e| refuse(format!(".hosts[{name:?}].{e}")))?));
            }
            out.push(Candidate { id: candidate.id.clone(), placements });
        }
        if out.is_empty() {
            return Err(ClusterError::document("candidates: empty".into()));
        }
        Ok(out)
    }
}

/// Ids are printed among other text, so they are short and stay on their line.
fn check_id(id: &str) -> Result<(), String> {
    match id {
        "" => Err("empty".into()),
        _ if id.len() > ID_BYTES_MAX => Err(format!("{} bytes; the limit is {ID_BYTES_MAX}", id.len())),
        _ if id.chars().any(char::is_control) => Err(format!("{id:?} has a control character")),
        _ => Ok(()),
    }
}

/// The traffic of a profile: its phases with the rank groups that run them.
fn traffic(name: String, profile: &Profile) -> Result<Job, profile::DimsError> {
    let mut groups: BTreeMap<Scope, Arc<[Vec<u32>]>> = BTreeMap::new();
    let mut phases = Vec::with_capacity(profile.phases().len());
    for phase in profile.phases() {
        let members = match groups.get(&phase.scope) {
            Some(members) => Arc::clone(members),
            None => {
                let members: Arc<[Vec<u32>]> = profile::groups(profile.dims(), phase.scope)?.into();
                groups.insert(phase.scope, Arc::clone(&members));
                members
            }
        };
        let collective: Collective = phase.collective;
        phases.push(TrafficPhase { start: phase.start, end: phase.end(), rate: phase.rate, collective, groups: members });
    }
    let gpus = profile.dims().ranks();
    Ok(Job { name, gpus, period: profile.period(), phases })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight ranks on a host with one NIC name that NIC and no other: eight rails would send eight times its rate.
    #[test]
    fn ranks_share_the_nics_that_a_host_has() {
        let rails = |fabric: &Fabric, host: &str, per_host: u32| -> Vec<u16> {
            let job = Job { name: "a".into(), gpus: per_host, period: units::Nanos(1), phases: Vec::new() };
            let reader = Reader { jobs: vec![job], gpus_per_host: vec![per_host], ..Reader::new(fabric, &|_| Err("no files".into())) };
            reader.place(JobId(0), &[host.to_owned()]).unwrap().ranks.iter().map(|e| e.rail).collect()
        };
        let one = fabric::generate::cassini24().unwrap();
        assert_eq!(rails(&one, "h1", 8), [0; 8]);
        let spec = fabric::generate::Rail {
            groups: 1,
            hosts_per_group: 2,
            rails: 4,
            spines: 1,
            host_rate: Rate(200_000),
            uplink_rate: Rate(200_000),
            uplinks: 1,
        };
        let four = fabric::generate::rail(&spec).unwrap();
        let host = four.node(four.hosts().next().unwrap()).name.clone();
        assert_eq!(rails(&four, &host, 8), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(rails(&four, &host, 4), [0, 1, 2, 3]);
        assert_eq!(rails(&four, &host, 2), [0, 1]);
    }
}
