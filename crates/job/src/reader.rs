//! Documents made into jobs, placements and candidates on one fabric.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::cell::Cell;

use fabric::{Fabric, NodeKind, collective::Endpoint};
use profile::{Dims, Profile, ProfileDocument, Request};
use units::{JobId, LinkId, Nanos, NodeId, OneLine, Rate, unseen_in};

use crate::{Candidate, CandidatesDoc, Job, JobDoc, ModelDoc, Placement, nearest::nearest};

/// Longest id of a candidate: the longest DNS name, as for jobs and nodes.
pub const ID_BYTES_MAX: usize = 253;

/// Most work for the jobs of one document: phases, pipeline steps, memberships of ranks in groups, and bytes of profile files
/// by [`BYTES_PER_WORK`]. A million ranks and a million phases together stay below it, and a document that asks for more is refused
/// within a second.
const WORK_MAX: u64 = 7 << 20;
/// Groups that a rank may be in: one per scope.
const GROUPS_PER_RANK: u64 = 6;
/// Reading this much of a profile document takes about as long as making one phase.
const BYTES_PER_WORK: u64 = 16;

/// Why documents do not make jobs on a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobsError {
    /// The document itself: place, problem and value.
    #[error("{}", OneLine(problem))]
    Document {
        /// One line.
        problem: String,
    },
    /// A profile that a job names.
    #[error("{}: {}", OneLine(path), OneLine(problem))]
    ProfileFile {
        /// As written in the job.
        path: String,
        /// One line.
        problem: String,
    },
}

impl JobsError {
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
    /// Work charged so far, of [`WORK_MAX`].
    work: Cell<u64>,
}

/// Stands for the period of a job of which nothing is known: a job that sends nothing has none that could matter.
const UNKNOWN_PERIOD: Nanos = Nanos::from_millis(1_000);

/// The profile of a job of which nothing is known: a rank on each host, and nothing sent.
fn unknown(hosts: usize) -> ProfileDocument {
    let ranks = Dims { dp: u32::try_from(hosts).unwrap_or(u32::MAX), ..Dims::default() };
    ProfileDocument { ranks, confidence: 0.0, ..ProfileDocument::declared("unknown", UNKNOWN_PERIOD.0) }
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
        Self {
            fabric,
            files,
            jobs: Vec::new(),
            placements: Vec::new(),
            gpus_per_host: Vec::new(),
            by_name: BTreeMap::new(),
            work: Cell::new(0),
        }
    }

    /// Adds a job. One without hosts takes its size from `elsewhere`, the hosts that a candidate gives it, and is not placed.
    ///
    /// # Errors
    /// [`JobsError`] names the job, the key and the value.
    pub fn job(&mut self, doc: &JobDoc, elsewhere: Option<&[String]>) -> Result<JobId, JobsError> {
        let index = self.jobs.len();
        let at = format!("jobs[{index}] ({:?})", doc.id);
        let refuse = |problem: String| JobsError::document(format!("{at}: {problem}"));
        units::check_name(&doc.id).map_err(|problem| JobsError::document(format!("jobs[{index}].id: {:?}: {problem}", shown(&doc.id))))?;
        let Some(hosts) = doc.hosts.as_deref().or(elsewhere) else {
            return Err(refuse("no hosts here and none in the candidates".into()));
        };
        // This check comes before the synthesis, for which a document may ask much work.
        if self.by_name.contains_key(&doc.id) {
            return Err(refuse("another job has that id".into()));
        }
        // Hosts that a candidate gives are checked by `candidates`, whose errors name its key.
        if doc.hosts.is_some() {
            let unknown = hosts.iter().enumerate().find_map(|(i, name)| Some((i, self.host(name).err()?)));
            unknown.map_or(Ok(()), |(i, e)| Err(JobsError::document(format!("{at}.hosts[{i}]: {e}"))))?;
        }
        let profile = self.profile(&at, doc, hosts)?;
        let dims = profile.dims();
        // The groups are charged before they are made.
        self.spend(u64::from(dims.ranks()) * GROUPS_PER_RANK + profile.phases().len() as u64).map_err(refuse)?;
        let job = Job::of_profile(doc.id.clone(), &profile, doc.hold.unwrap_or_default()).map_err(|e| refuse(e.to_string()))?;
        let gpus_per_host = dims.gpus_per_host;
        let id = JobId(index as u32);
        // `place` looks up the job by its id, so the lists are filled before.
        self.by_name.insert(doc.id.clone(), id);
        self.gpus_per_host.push(gpus_per_host);
        self.jobs.push(job);
        let placement = match &doc.hosts {
            Some(hosts) => self.place(id, hosts).map_err(|problem| JobsError::document(format!("{at}.{problem}")))?,
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

    /// Counts work against what one document may ask for.
    fn spend(&self, work: u64) -> Result<(), String> {
        // The sum saturates, so no hostile size can wrap it back below the limit.
        self.work.set(self.work.get().saturating_add(work));
        if self.work.get() > WORK_MAX {
            return Err(format!("with this job the document asks for more than {WORK_MAX} phases, pipeline steps and ranks in groups"));
        }
        Ok(())
    }

    fn profile(&self, at: &str, doc: &JobDoc, hosts: &[String]) -> Result<Profile, JobsError> {
        let refuse = |problem: String| JobsError::document(format!("{at}{problem}"));
        match (&doc.model, &doc.profile, &doc.profile_file) {
            (Some(model), None, None) => self.synthesise(model, hosts).map_err(|e| refuse(format!(".model: {e}"))),
            (None, Some(profile), None) => Profile::try_from(profile.clone()).map_err(|e| refuse(format!(".profile.{e}"))),
            (None, None, Some(path)) => {
                let text = (self.files)(path).map_err(|problem| JobsError::ProfileFile { path: path.clone(), problem })?;
                // The text is charged before it is parsed.
                self.spend(text.len() as u64 / BYTES_PER_WORK).map_err(|problem| refuse(format!(": {problem}")))?;
                profile::parse_for(&text, &doc.id, hosts.len())
                    .map_err(|e| JobsError::ProfileFile { path: path.clone(), problem: e.to_string() })
            }
            (None, None, None) if doc.learn => Profile::try_from(unknown(hosts.len())).map_err(|e| refuse(format!(".hosts: {e}"))),
            _ => Err(refuse(": needs exactly one of model, profile and profile_file, or learn".into())),
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
            // A saturated product is above `profile::RANKS_MAX` and therefore refused.
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
        // The 1F1B schedule takes a step per stage and micro-batch, which is charged before it runs.
        self.spend(u64::from(setup.parallelism.dims.pp) * u64::from(setup.parallelism.micro_batches))?;
        profile::synthesise(model, &setup.parallelism, &setup.hardware, setup.batch).map_err(|e| e.to_string())
    }

    /// Number of NICs of the host that has fewest: the other hosts wait for that one.
    fn nics(&self, hosts: &[String]) -> Option<u32> {
        let count = |name: &String| u32::try_from(data_nics(self.fabric, self.host(name).ok()?).len()).ok();
        hosts.iter().filter_map(count).min().filter(|&n| n > 0)
    }

    /// Line rate of the slowest host's NICs.
    fn nic_rate(&self, hosts: &[String]) -> Result<Rate, String> {
        let rate = |name: &String| {
            let host = self.host(name)?;
            // Data NICs of known rates are equally fast, so the first speaks for all of them.
            let nic = data_nics(self.fabric, host).first().copied().ok_or_else(|| format!("host {name:?} has no NIC"))?;
            self.fabric.capacity(self.fabric.links_from(host)[usize::from(nic)]).map_err(|e| e.to_string())
        };
        let rates = hosts.iter().map(rate).collect::<Result<Vec<Rate>, String>>()?;
        rates.into_iter().min().ok_or_else(|| "no hosts, so the NIC rate is unknown; state nic".into())
    }

    fn host(&self, name: &str) -> Result<NodeId, String> {
        let id = self.fabric.find(name).ok_or_else(|| {
            let hosts = self.fabric.hosts().map(|host| self.fabric.node(host).name.as_str());
            // A name that is far too long is no slip, and would be compared with every host.
            let meant = (name.len() <= units::NAME_BYTES_MAX).then(|| nearest(name, hosts)).flatten();
            let meant = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
            format!("unknown host {name:?}{meant}")
        })?;
        match self.fabric.node(id).kind {
            NodeKind::Host => Ok(id),
            NodeKind::Switch { .. } => Err(format!("{name:?} is a switch, not a host")),
        }
    }

    /// Ranks on hosts in order, each on one of the host's [`data_nics`]. Where a host has fewer NICs than ranks, neighbouring ranks
    /// share one: a rail that no NIC has would count as a NIC of its own, and the job would send a multiple of what it does.
    ///
    /// # Errors
    /// The key, what is wrong and the value.
    pub fn place(&self, job: JobId, hosts: &[String]) -> Result<Placement, String> {
        let per_host = self.gpus_per_host[job.index()] as usize;
        let wanted = self.jobs[job.index()].gpus as usize;
        // `Dims::check` has refused zero GPUs per host; the maximum only guards the division.
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
            // The last host may have fewer ranks than the others (`Dims::gpus_per_host`).
            let here = per_host.min(wanted - ranks.len());
            let nics = data_nics(self.fabric, host);
            let nic = |r: usize| if nics.len() < per_host { r * nics.len() / per_host } else { r };
            // A host without NICs keeps rail 0: the router names the host when a route is asked for.
            ranks.extend((0..here).map(|r| Endpoint { host, rail: nics.get(nic(r)).copied().unwrap_or(0) }));
        }
        Ok(Placement { ranks })
    }

    /// The candidates of a document; they may name every job added before.
    ///
    /// # Errors
    /// [`JobsError`] names the candidate, the key and the value.
    pub fn candidates(&self, doc: &CandidatesDoc) -> Result<Vec<Candidate>, JobsError> {
        let mut ids = BTreeMap::new();
        let mut out = Vec::with_capacity(doc.candidates.len());
        for (i, candidate) in doc.candidates.iter().enumerate() {
            let refuse = |problem: String| JobsError::document(format!("candidates[{i}]{problem}"));
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
            return Err(JobsError::document("candidates: empty".into()));
        }
        Ok(out)
    }
}

/// The NICs of a host that training uses, as [`Endpoint::rail`] numbers them: those of its fastest rate, so that a management
/// port beside them is none; all of them where no rate is known.
#[must_use]
pub fn data_nics(fabric: &Fabric, host: NodeId) -> Vec<u16> {
    let rate = |link: &LinkId| fabric.link(*link).capacity;
    let links = fabric.links_from(host);
    // An unknown rate orders below every known one, so it is the fastest only where no rate is known.
    let fastest = links.iter().map(rate).max().flatten();
    // A NIC of unknown rate stays, so that it is refused by name when it matters.
    let nics = links.iter().enumerate().filter(|(_, link)| [fastest, None].contains(&rate(link)));
    nics.filter_map(|(i, _)| u16::try_from(i).ok()).collect()
}

/// The beginning of a name that is refused.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Ids of candidates are printed among other text, so they are short and stay on their line.
fn check_id(id: &str) -> Result<(), String> {
    match id {
        "" => Err("empty".into()),
        _ if id.len() > ID_BYTES_MAX => Err(format!("{} bytes; the limit is {ID_BYTES_MAX}", id.len())),
        _ => unseen_in(id).map_or(Ok(()), |unseen| Err(format!("{id:?} has the character {unseen:?}, which nobody sees"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight ranks on a host with one NIC name that NIC and no other: eight rails would send eight times its rate.
    #[test]
    fn ranks_share_the_nics_that_a_host_has() {
        let rails = |fabric: &Fabric, host: &str, per_host: u32| -> Vec<u16> {
            let job = Job { name: "a".into(), gpus: per_host, period: Nanos(1), hold: crate::Hold::Auto, phases: Vec::new() };
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

    /// Two leaves of one host each below a spine. Each host has a management port of 1 Gb/s, and then some NICs on its leaf.
    fn clos(nics: [u32; 2], rate: u64) -> Fabric {
        let mut text = String::from(
            "schema: antiphase.fabric/v1\nhosts: [h0, h1]\nswitches: [{name: leaf0}, {name: leaf1}, {name: spine}, {name: mgmt}]\ncables:\n",
        );
        for (i, nics) in nics.iter().enumerate() {
            text.push_str(&format!("  - {{ends: [h{i}, mgmt], capacity: 1G}}\n  - {{ends: [leaf{i}, spine], capacity: 400G}}\n"));
            text.push_str(&format!("  - {{ends: [h{i}, leaf{i}], mbps: {rate}, parallel: {nics}}}\n"));
        }
        fabric::native::read(&text).unwrap()
    }

    /// What a document may ask of synthesis is bounded, and an id that is there already costs nothing.
    #[test]
    fn a_document_that_asks_for_too_much_is_refused() {
        let fabric = clos([1, 1], 400_000);
        let mut reader = Reader::new(&fabric, &|_| Err("no files".into()));
        let heavy = |id: usize| {
            let doc =
                format!("{{id: j{id}, model: {{name: gpt3, strategy: pp, pp: 2, batch: 1024, micro_batches: 1024}}, hosts: [h0, h1]}}");
            JobDoc::parse(&doc).unwrap()
        };
        let refused = (0..100_000).find_map(|i| reader.job(&heavy(i), None).err()).unwrap().to_string();
        assert!(refused.contains(": with this job the document asks for more than 7340032 phases"), "{refused}");
    }
}
