//! Another fabric is in force: every job is placed and planned on it.

use alloc::{collections::BTreeSet, format, string::ToString, sync::Arc, vec::Vec};

use ::fabric::{Fabric, route::Routing};
use units::FabricTime;

use super::{Done, as_measured_before, drafted, moved_notices, notice};
use crate::{
    Config, JobDefinition, NoticeKind, Refusal, Reply, Severity,
    check::{check, distinct},
    crowded::contradiction,
    plan::{Installed, Job, Name, Plan},
};

pub(super) fn set_fabric(
    now: FabricTime,
    plan: &mut Plan,
    config: &Config,
    fabric: Arc<Fabric>,
    text: Arc<str>,
    jobs: Vec<JobDefinition>,
) -> Result<Done, Refusal> {
    let names = distinct(&jobs)?;
    let as_committed = |d: &JobDefinition| plan.job(&d.job.name).is_some_and(|j| j.definition.document == d.document);
    if names.len() != plan.jobs().len() || !jobs.iter().all(as_committed) {
        // The caller placed the jobs on the new fabric: a job that is missing in the list would keep ids of the old one.
        return Err(Refusal::Policy("jobs were committed or released while the fabric was read; try again".into()));
    }
    contradiction(&fabric, config.gpus_per_host)?;
    let version = plan.installed.as_ref().map_or(0, |i| i.version) + 1;
    let routing = Routing::new(fabric, config.ecmp, &[]).map_err(|e| Refusal::Policy(e.to_string()))?;
    let installed = Arc::new(Installed { routing, text, version });
    let mut loads = Vec::with_capacity(jobs.len());
    for definition in jobs {
        // A job that cannot stand on the new fabric refuses the fabric before anything changes (docs/operating.md).
        let load = check(&installed, &definition)?;
        loads.push((definition, Arc::new(load)));
    }
    // Re-planning reads capacities from the plan, so the new fabric is in place before `settle` and goes back on a refusal.
    let before = plan.installed.replace(Arc::clone(&installed));
    let all: BTreeSet<Name> = names;
    let drafted = drafted(plan, config, |transaction| {
        for (definition, load) in loads {
            let Some(old) = transaction.plan.job(&definition.job.name).cloned() else { continue };
            // The old component names links of the old fabric.
            let definition = Arc::new(definition);
            let job = Job { planned: Arc::clone(&definition), definition, measured: None, load, component: None, ..(*old).clone() };
            let job = as_measured_before(&installed, Some(&old), job);
            transaction.put(&old.name, Some(Arc::new(job)));
        }
        transaction.settle(&all, &BTreeSet::new())
    });
    let (settled, touched) = drafted.inspect_err(|_| plan.installed = before)?;
    let plan_version = plan.version;
    let said = format!("fabric {version} is in force: {} moved", settled.moved.len());
    let mut notices = alloc::vec![notice(now, Severity::Info, NoticeKind::Fabric, None, plan_version, said)];
    notices.extend(moved_notices(now, &settled, plan_version));
    Ok(Done { reply: Some(Reply::FabricSet { version, plan_version }), notices, touched, fabric: true, ..Done::default() })
}

/// Refuses a fabric that was made beside another one than that in force.
pub(super) fn refuse_other_fabric(plan: &Plan, if_fabric: Option<u64>) -> Result<(), Refusal> {
    let version = plan.installed.as_ref().map_or(0, |installed| installed.version);
    let other = if_fabric.filter(|expected| *expected != version);
    other.map_or(Ok(()), |expected| Err(Refusal::FabricMoved { version, expected }))
}
