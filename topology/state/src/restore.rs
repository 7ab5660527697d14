//! The state again, from what was kept.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use circle::Ticks;
use fabric::{Fabric, route::Routing};
use job::MeasuredProfile;
use plan::Holding;
use units::{FabricTime, Nanos};

use crate::{
    AuditEntry, Commitment, Config, Content, Document, JobDefinition, Record, Refusal, Slot,
    check::{check, distinct},
    component::{ComponentProblem, groups, work_of_each},
    config::RESTORE_WORK_MAX,
    leases::Lease,
    measured::as_planned,
    plan::{Installed, Job, KeyUse, Name, Plan},
    submission::Submission,
    turns::Comparison,
};

/// What records add up to. The documents are read by the caller: see [`Restored::from_records`].
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The fabric, when one was set.
    pub fabric: Option<RestoredFabric>,
    /// The plan version.
    pub plan_version: u64,
    /// The committed jobs.
    pub jobs: Vec<RestoredJob>,
    /// Their slots.
    pub slots: Vec<Slot>,
    /// Idempotency keys.
    pub keys: Vec<RestoredKey>,
    /// What comparisons of groups found.
    pub comparisons: Vec<Arc<Comparison>>,
    /// What was submitted to the scheduler.
    pub submissions: Vec<Arc<Submission>>,
    /// Who changed what.
    pub audit: Vec<Arc<AuditEntry>>,
}

/// A fabric that was kept.
#[derive(Clone, Debug)]
pub struct RestoredFabric {
    /// The fabric.
    pub fabric: Arc<Fabric>,
    /// Its document.
    pub text: Arc<str>,
    /// Counts replacements.
    pub version: u64,
}

/// A job that was kept.
#[derive(Clone, Debug)]
pub struct RestoredJob {
    /// The job, made again from its document.
    pub definition: JobDefinition,
    /// Its lease.
    pub lease: Option<Lease>,
    /// Headroom of its period in thousandths.
    pub headroom_permille: u32,
    /// Why it is not held to a slot any more, where that is so.
    pub hold_ended: Option<Arc<str>>,
    /// What was measured of it, where it is planned with that.
    pub measured: Option<MeasuredProfile>,
}

/// An idempotency key that was kept.
#[derive(Clone, Debug)]
pub struct RestoredKey {
    /// The key.
    pub key: String,
    /// When it was used.
    pub at: FabricTime,
    /// What was committed.
    pub content: Option<Content>,
    /// Who used it.
    pub by: Option<Arc<str>>,
    /// What was answered.
    pub answer: Commitment,
}

/// Why a state cannot be made from what was kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A document cannot be read any more.
    #[error("record {key}: {reason}")]
    Document {
        /// The record's key.
        key: String,
        /// Why, in the reader's words.
        reason: String,
    },
    /// There are jobs but no fabric.
    #[error("job {job:?} was kept, but no fabric")]
    NoFabric {
        /// The first job.
        job: String,
    },
    /// A job without a slot.
    #[error("job {job:?} was kept, but not its slot")]
    NoSlot {
        /// The job.
        job: String,
    },
    /// A job or the fabric is refused today.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Restored {
    /// Adds up records in the order in which they were written; of each key the last one counts, so a store may hand over
    /// only those, in any order. `fabric` and `job` read the documents.
    ///
    /// # Errors
    /// [`RestoreError::Document`] with what the readers said, [`RestoreError::NoFabric`].
    pub fn from_records(
        records: impl IntoIterator<Item = Record>,
        fabric: impl FnOnce(&str) -> Result<Fabric, String>,
        mut job: impl FnMut(&Fabric, &str, &Document) -> Result<JobDefinition, String>,
    ) -> Result<Self, RestoreError> {
        let mut kept: BTreeMap<String, Record> = BTreeMap::new();
        for record in records {
            // A record that erases is not kept itself: `JobGone` takes the job and its slot.
            let gone = record.erases();
            gone.iter().for_each(|key| drop(kept.remove(key)));
            if gone.is_empty() {
                kept.insert(record.key(), record);
            }
        }
        let mut out = Self::default();
        // The fabric comes before the jobs, wherever a store keeps it: jobs are read on it.
        if let Some(Record::Fabric { version, text }) = kept.get("fabric") {
            let refuse = |reason| RestoreError::Document { key: "fabric".into(), reason };
            let fabric = Arc::new(fabric(text).map_err(refuse)?);
            out.fabric = Some(RestoredFabric { fabric, text: text.clone(), version: *version });
        }
        for (key, record) in kept {
            match record {
                // The control is the caller's to decide, who reads the configuration.
                Record::PlanVersion { plan_version, .. } => out.plan_version = plan_version,
                Record::Slot(slot) => out.slots.push(slot),
                Record::Key { key, at, content, by, answer } => out.keys.push(RestoredKey { key, at, content, by, answer }),
                Record::Comparison(found) => out.comparisons.push(found),
                Record::Submission(submission) => out.submissions.push(submission),
                Record::Audit(entry) => out.audit.push(entry),
                Record::Job { name, document, lease, headroom_permille, hold_ended, measured } => {
                    let Some(f) = &out.fabric else { return Err(RestoreError::NoFabric { job: name }) };
                    let definition = job(&f.fabric, &name, &document).map_err(|reason| RestoreError::Document { key, reason })?;
                    out.jobs.push(RestoredJob { definition, lease, headroom_permille, hold_ended, measured });
                }
                Record::Fabric { .. }
                | Record::JobGone { .. }
                | Record::KeyGone { .. }
                | Record::SubmissionGone { .. }
                | Record::AuditGone { .. } => {}
            }
        }
        Ok(out)
    }
}

/// The plan of what was kept: slots as they were, held or free, components found and scored again.
pub(crate) fn plan(config: &Config, now: FabricTime, restored: Restored) -> Result<Plan, RestoreError> {
    let Restored { fabric, plan_version, jobs, slots, keys, comparisons, submissions, audit: _ } = restored;
    let mut plan = Plan::default();
    plan.version = plan_version;
    if let Some(RestoredFabric { fabric, text, version }) = fabric {
        // Routes follow from the configuration of today: `ecmp` may be another than when the jobs were committed.
        let routing = Routing::new(fabric, config.ecmp, &[]).map_err(|e| Refusal::Policy(e.to_string()))?;
        plan.installed = Some(Arc::new(Installed { routing, text, version }));
    }
    for RestoredKey { key, at, content, by, answer } in keys {
        plan.replace_key(&key.into(), Some(Arc::new(KeyUse { at, content, by, answer })));
    }
    for submission in submissions {
        plan.replace_submission(&submission.name.clone(), Some(submission));
    }
    let mut slots: BTreeMap<String, Slot> = slots.into_iter().map(|s| (s.job.clone(), s)).collect();
    let definitions: Vec<JobDefinition> = jobs.iter().map(|j| j.definition.clone()).collect();
    let names: BTreeSet<Name> = distinct(&definitions)?;
    for RestoredJob { definition, lease, headroom_permille, hold_ended, measured } in jobs {
        let name = Name::from(definition.job.name.as_str());
        let installed = plan.installed.clone().ok_or_else(|| RestoreError::NoFabric { job: name.to_string() })?;
        // A job is checked as on a commit: what this version of the service refuses stops the start and is not dropped.
        let definition = Arc::new(definition);
        let planned = as_planned(&definition, measured);
        let load = Arc::new(check(&installed, &planned)?);
        // A new slot would move a job that may still run in the old one, so a missing slot is an error.
        let slot = slots.remove(&*name).ok_or_else(|| RestoreError::NoSlot { job: name.to_string() })?;
        let slot = Slot { expires: FabricTime(0), ..slot };
        // Renewals were not kept: agents get a whole lease to come back.
        let lease = lease.map(|lease| Lease { until: lease.until.max(now.saturating_add(lease.length)), ..lease });
        let job =
            Job { name: name.clone(), definition, measured, planned, load, lease, headroom_permille, hold_ended, slot, component: None };
        plan.replace(&name, Some(Arc::new(job)));
    }
    for found in comparisons {
        // A comparison of jobs that are gone or planned otherwise matches no group, so it is never read.
        let name = found.name().filter(|name| names.contains(*name)).cloned();
        name.into_iter().for_each(|name| plan.replace_comparison(&name, Some(found.clone())));
    }
    let groups = groups(&plan, &names);
    for (work, group) in work_of_each(&groups, RESTORE_WORK_MAX).into_iter().zip(groups).filter(|(_, group)| group.len() > 1) {
        let periods: Vec<Nanos> = group.iter().map(|j| j.slot.times.period).collect();
        let shifts: Vec<Ticks> = group.iter().map(|j| Ticks(j.slot.times.offset.0)).collect();
        // Nothing is solved here: the slots are scored as they stand, so a restart moves nobody and keeps who is held (P141).
        let problem = ComponentProblem::new(&plan, config, &group, &periods, work)?;
        let hold: Vec<bool> = group.iter().map(|j| j.slot.hold).collect();
        let assessed = problem.assess(&problem.evaluate(&shifts)?, config, Holding::Kept(&hold));
        let component = Arc::new(assessed.component.clone());
        for (i, job) in group.iter().enumerate() {
            // Slots stay as they were. Who takes turns follows from the configuration of today, as the groups do.
            let hold = job.slot.hold && config.control == plan::Control::Slots;
            let slot = Slot { hold, turns: assessed.turns[i], ..job.slot.clone() };
            plan.replace(&job.name, Some(Arc::new(Job { component: Some(component.clone()), slot, ..(**job).clone() })));
        }
    }
    Ok(plan)
}
