//! What nothing else says of jobs that are committed: hosts that lead some and have no agent, agents under a wrong name (`misnamed`), and
//! jobs that are far from what they are planned with.
//!
//! An agent that was never started is none that was lost, and a job without reports looks like one that has just begun.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use crate::{View, view::JobView};

/// Most sentences of either kind, and most jobs in one of them.
const SENTENCES_MAX: usize = 10;
const JOBS_MAX: usize = 5;

impl View {
    /// What nothing else says of these jobs, or of all where none is named: a sentence for each host that leads some of them without an
    /// agent, for each agent under a wrong name, and for each job that takes turns and is far from what it is planned with.
    #[must_use]
    pub fn warnings(&self, jobs: &[String]) -> Vec<String> {
        let all = jobs.is_empty();
        let jobs: Vec<JobView<'_>> = if all { self.jobs().collect() } else { jobs.iter().filter_map(|name| self.job(name)).collect() };
        let mut said = unattended(self, &jobs);
        let hosts: Vec<&str> = jobs.iter().map(JobView::leader_host).collect();
        said.extend(self.misnamed((!all).then_some(&hosts)));
        said.extend(few(jobs.iter().filter_map(far).collect(), "jobs"));
        said
    }
}

/// A sentence for each host that leads some of these jobs and whose agent is not connected: nobody holds or measures them.
fn unattended(view: &View, jobs: &[JobView<'_>]) -> Vec<String> {
    let mut led: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for job in jobs {
        let host = job.leader_host();
        if view.agents.at(host).is_none_or(|agent| agent.session.is_none()) {
            led.entry(host).or_default().push(job.name());
        }
    }
    if !led.is_empty() && view.agents.iter().all(|agent| agent.session.is_none()) {
        return alloc::vec!["no agent is connected: these jobs are neither held nor measured".to_string()];
    }
    few(led.into_iter().map(|(host, jobs)| without_agent(host, &jobs)).collect(), "hosts")
}

fn without_agent(host: &str, jobs: &[&str]) -> String {
    let more = jobs.len().saturating_sub(JOBS_MAX);
    let mut names = jobs[..jobs.len() - more].join(", ");
    if more > 0 {
        names.push_str(&format!(" and {more} more"));
    }
    let (these, are) = if jobs.len() == 1 { ("job", "is") } else { ("jobs", "are") };
    format!("host {host}: no agent is connected, so the {these} {names}, whose leader is there, {are} neither held nor measured")
}

fn far(job: &JobView<'_>) -> Option<String> {
    let ((measured, what), planned) = job.far_from_plan()?;
    let name = job.name();
    Some(format!(
        "job {name} takes {measured} by its gate ({what}), planned with {planned}: is its profile that of another job, or what slows it?"
    ))
}

/// As many sentences as a person reads, each of a host or a job, and how many more there are.
pub(crate) fn few(mut all: Vec<String>, of: &str) -> Vec<String> {
    let more = all.len().saturating_sub(SENTENCES_MAX);
    all.truncate(SENTENCES_MAX);
    if more > 0 {
        all.push(format!("and the same of {more} more {of}"));
    }
    all
}
