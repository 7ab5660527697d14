//! Between the server and `state::Service`: records in after a restart, views out for reads.

use std::{collections::BTreeMap, sync::Arc};

use proto::v1alpha1 as pb;
use state::{Config, Record};
use units::FabricTime;

use super::{
    snapshot::{FabricView, JobView, Snapshot, slot_message},
    standin::Service,
};
use crate::resolve;

/// The service as it was when these records were written.
///
/// # Errors
/// One line: which record cannot be used.
pub(super) fn restore(config: &Config, _now: FabricTime, records: Vec<Record>) -> Result<Service, String> {
    let (mut epoch, mut fabric, mut documents, mut slots, mut keys) = (0, None, Vec::new(), BTreeMap::new(), BTreeMap::new());
    for record in records {
        match record {
            Record::Fabric { version, text } => {
                let parsed = fabric::native::read(&text).map_err(|e| format!("its fabric cannot be read: {}", resolve::one_line(&e)))?;
                fabric = Some((version, Arc::new(parsed), text));
            }
            Record::Epoch { epoch: kept } => epoch = kept,
            Record::Job { name, document, .. } => documents.push((name, document)),
            Record::Slot(slot) => drop(slots.insert(slot.job.clone(), slot)),
            Record::Key { key, answer, .. } => drop(keys.insert(key, answer)),
            Record::JobGone { .. } | Record::KeyGone { .. } => {}
        }
    }
    let jobs = match &fabric {
        Some((_, fabric, _)) => resolve::again(fabric, documents.iter().map(|(n, d)| (n.as_str(), d.as_str())))?,
        None => Vec::new(),
    };
    Ok(Service::restore(config, epoch, fabric, jobs, slots, keys))
}

/// What reads see.
pub(super) fn snapshot(service: &Service) -> Snapshot {
    let fabric = service.fabric.as_ref();
    let job = |(definition, slot): &(Arc<state::JobDefinition>, state::Slot)| JobView {
        definition: Arc::clone(definition),
        slot: Some(slot.clone()),
        message: pb::Job {
            id: definition.job.name.clone(),
            state: pb::JobState::Committed.into(),
            hosts: definition.hosts.clone(),
            gpus: definition.job.gpus,
            slot: Some(slot_message(slot)),
            solo_period_ns: definition.job.period.0,
            ..pb::Job::default()
        },
    };
    Snapshot {
        epoch: service.epoch,
        fabric: fabric.map(|(version, fabric, text)| FabricView { version: *version, fabric: Arc::clone(fabric), text: Arc::clone(text) }),
        jobs: service.jobs.values().map(job).collect(),
        links: Arc::default(),
        agents: Vec::new(),
    }
}
