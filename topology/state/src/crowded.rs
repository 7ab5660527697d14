//! Hosts on which committed jobs use more GPUs than there are: two jobs on one GPU, or one job under two names.
//!
//! A fabric may say how many GPUs a host has, and a scheduler's configuration may; else a host has as many as NICs for training, which is
//! what RoCE clusters mostly have. So this is a warning and no refusal. But the two must not say different numbers ([`contradiction`]).

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};

use fabric::Fabric;
use job::data_nics;
use units::NodeId;

use crate::{
    Config, Refusal,
    config::GPUS_PER_HOST,
    plan::{Job, Name, Plan},
    warnings::few,
};

/// GPUs of a host as the fabric states them, else as the configuration says of each ([`Config::gpus_per_host`]).
#[must_use]
pub fn gpus_of(fabric: &Fabric, host: NodeId, gpus_per_host: Option<u32>) -> Option<u32> {
    fabric.gpus(host).and_then(|gpus| gpus.count).or(gpus_per_host)
}

/// Refuses a fabric that says another number of GPUs of a host than the configuration says of each ([`Config::gpus_per_host`]).
///
/// # Errors
/// [`Refusal::Policy`], which names the first such host.
pub fn contradiction(fabric: &Fabric, gpus_per_host: Option<u32>) -> Result<(), Refusal> {
    let Some(said) = gpus_per_host else { return Ok(()) };
    let stated = |host| Some((host, fabric.gpus(host)?.count?));
    match fabric.hosts().filter_map(stated).find(|(_, count)| *count != said) {
        None => Ok(()),
        Some((host, count)) => Err(Refusal::Policy(format!(
            "host {:?} has {count} GPUs as the fabric states, and scheduler.gpus_per_host is {said}: leave scheduler.gpus_per_host out",
            fabric.node(host).name
        ))),
    }
}

/// A sentence for each host of these jobs on which jobs use too many GPUs.
pub(crate) fn crowded(plan: &Plan, jobs: &BTreeSet<Name>, config: &Config) -> Vec<String> {
    let committed = jobs.iter().filter_map(|name| plan.job(name));
    let hosts: BTreeSet<&str> = committed.flat_map(|job| &job.definition.hosts).map(String::as_str).collect();
    few(hosts.into_iter().filter_map(|host| sentence(plan, host, config)).collect(), "hosts")
}

fn sentence(plan: &Plan, host: &str, config: &Config) -> Option<String> {
    let there: Vec<_> = plan.at(host).collect();
    let used = there.iter().fold(0_u32, |sum, job| sum.saturating_add(on_host(job, host)));
    let fabric = plan.installed.as_ref()?.fabric();
    let node = fabric.find(host)?;
    let assumed = || config.scheduled.then_some(GPUS_PER_HOST);
    let gpus = gpus_of(fabric, node, config.gpus_per_host).or_else(assumed);
    let nics = || u32::try_from(data_nics(fabric, node).len()).ok();
    let (has, what) = match gpus {
        Some(gpus) => (gpus, "GPUs"),
        None => (nics()?, "NICs for training"),
    };
    let names: Vec<String> = there.iter().map(|job| job.name.to_string()).collect();
    match &names[..] {
        // How many NICs there are says little of one job.
        [_] if gpus.is_none() => None,
        _ if used <= has => None,
        [only] => Some(format!("host {host}: the job {only} uses {used} GPUs, and it has {has} ({what})")),
        _ => Some(format!(
            "host {host}: the jobs {} use {used} GPUs, and it has {has} ({what}): some may be on the same GPU",
            names.join(", ")
        )),
    }
}

/// GPUs of a job on this host of it; the last one may have fewer.
fn on_host(job: &Job, host: &str) -> u32 {
    let hosts = &job.definition.hosts;
    let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
    let gpus = job.definition.job.gpus;
    let most = gpus.div_ceil(count);
    if hosts.last().is_some_and(|last| last == host) { gpus.saturating_sub(most.saturating_mul(count - 1)) } else { most }
}
