//! Hosts on which committed jobs use more GPUs than there are: two jobs on one GPU, or one job under two names.
//!
//! A fabric names no GPUs. Where a scheduler runs, its configuration says how many a host has; else a host has as many as NICs for
//! training, which is what RoCE clusters mostly have. So this is a warning and no refusal.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};

use job::data_nics;

use crate::{
    plan::{Job, Name, Plan},
    warnings::few,
};

/// A sentence for each host of these jobs on which jobs use too many GPUs.
pub(crate) fn crowded(plan: &Plan, jobs: &BTreeSet<Name>, gpus_per_host: Option<u32>) -> Vec<String> {
    let committed = jobs.iter().filter_map(|name| plan.job(name));
    let hosts: BTreeSet<&str> = committed.flat_map(|job| &job.definition.hosts).map(String::as_str).collect();
    few(hosts.into_iter().filter_map(|host| sentence(plan, host, gpus_per_host)).collect(), "hosts")
}

fn sentence(plan: &Plan, host: &str, gpus_per_host: Option<u32>) -> Option<String> {
    let there: Vec<_> = plan.at(host).collect();
    let used = there.iter().fold(0_u32, |sum, job| sum.saturating_add(on_host(job, host)));
    let nics = || {
        let fabric = plan.installed.as_ref()?.fabric();
        u32::try_from(data_nics(fabric, fabric.find(host)?).len()).ok()
    };
    let (has, what) = match gpus_per_host {
        Some(gpus) => (gpus, "GPUs"),
        None => (nics()?, "NICs for training"),
    };
    let names: Vec<String> = there.iter().map(|job| job.name.to_string()).collect();
    match &names[..] {
        // How many NICs there are says little of one job.
        [_] if gpus_per_host.is_none() => None,
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
