//! Jobs that are all there at once, on hosts that are given: a snapshot of a cluster, as the CASSINI paper's table 2 has five.
//!
//! The jobs are played as a component of a trace is, but where and beside whom they stand is an input, and no job comes or ends. What is told is what the
//! table tells: the time for which a job sends in an iteration.

use alloc::{format, sync::Arc, vec, vec::Vec};

use fabric::route::Router;

use super::{
    NetworkControl, Trace,
    component::components,
    nanos,
    paper::paper,
    play::{Play, Shifted, forecast, sim_job},
    refused,
    sender::{Hosts, Sender, Unsent},
};
use crate::{statistics::nearest_rank, testbed::Case, trace::TraceError};

/// How a job of a snapshot fares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SnapshotJob {
    /// For how long it sends in an iteration with the network for itself, in seconds.
    pub sends_alone_s: f64,
    /// For how long it sends in an iteration here: the mean.
    pub sends_s: f64,
    /// Its iterations here over those alone where it stands, waits at gates included: the mean.
    pub iteration_mean: f64,
    /// The same at the 99th percentile.
    pub iteration_p99: f64,
}

/// How a snapshot fares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SnapshotOutcome {
    /// Each job, in the order of the trace.
    pub jobs: Vec<SnapshotJob>,
    /// ECN marks on all links, per iteration of any job.
    pub marks_per_iteration: f64,
    /// Mean score of the links by the paper's rules, under its control; `None` where it has no shifts.
    pub score: Option<f64>,
}

/// Plays the jobs of a trace with known traffic on these hosts of a fabric, one GPU each, all of the time.
///
/// # Errors
/// What the planner or the testbed refuses, and jobs that have no traffic.
pub fn snapshot(
    trace: &Trace,
    hosts_of: &[Vec<u32>],
    router: &Router<'_>,
    control: NetworkControl,
    seed: u64,
) -> Result<SnapshotOutcome, TraceError> {
    let problem = refused(0.0);
    let fabric = router.fabric();
    let hosts = Hosts::new(router, vec![1; fabric.hosts().count()]).ok_or_else(|| problem("a fabric without hosts".into()))?;
    let mut senders = Vec::with_capacity(trace.jobs.len());
    for ((job, at), own) in trace.jobs.iter().zip(0..).zip(hosts_of) {
        let traffic = trace.traffic_of(at).ok_or_else(|| problem(format!("job {} has no traffic", job.id)))?;
        let parts: Vec<_> = own.iter().map(|host| (*host, vec![0])).collect();
        let sender = hosts.of_traffic(traffic, nanos(job.iteration_ms / 1e3), job.gpus, &parts).map_err(|unsent| match unsent {
            Unsent::Cut => problem("a job without a route".into()),
            Unsent::Refused(text) => problem(text),
        })?;
        senders.push(Arc::new(sender.ok_or_else(|| problem(format!("job {} stands on one host", job.id)))?));
    }
    let capacity = |link| fabric.capacity(link).map_or(0, |rate| rate.0);
    let alone = |sender: &Sender| {
        let steps = sim_job(0, sender).workload.steps;
        steps.iter().filter(|step| !step.transfers.is_empty()).map(|step| step.length.0 as f64 / 1e9).sum::<f64>()
    };
    let undisturbed = |sender: &Arc<Sender>| SnapshotJob {
        sends_alone_s: alone(sender),
        sends_s: alone(sender),
        iteration_mean: 1.0,
        iteration_p99: 1.0,
    };
    let mut outcome = SnapshotOutcome { jobs: senders.iter().map(undisturbed).collect(), ..SnapshotOutcome::default() };
    if control == NetworkControl::Ideal {
        return Ok(outcome);
    }
    for component in components(&senders, capacity).0 {
        let members: Vec<&Sender> = component.members.iter().map(|at| senders[*at].as_ref()).collect();
        let own = component.content.alone();
        let mut said = forecast(&members, &own, (control, true), capacity).map_err(&problem)?;
        if control == NetworkControl::Paper {
            said.paper = paper(&component.content).map_err(&problem)?;
            outcome.score = said.paper.as_ref().map(|paper| paper.scores / paper.links.max(1) as f64);
        }
        let jobs: Vec<_> = members.iter().enumerate().map(|(at, sender)| sim_job(at, sender)).collect();
        let seed = component.content.seed(seed);
        let case = Case { router, jobs: &jobs };
        // The table has shifts for all of its snapshots, whatever their score.
        let play = Play { case, alone: &own, control, forecast: &said, seed, shifted: Shifted::All };
        let reports = play.reports().map_err(&problem)?;
        let played = play.seen(&reports);
        outcome.marks_per_iteration += played.marks_per_iteration;
        for (place, member) in component.members.iter().enumerate() {
            let seen = &mut outcome.jobs[*member];
            if !reports.is_empty() {
                let means = reports.iter().map(|report| report.jobs[place].comm.mean / 1e9);
                seen.sends_s = means.sum::<f64>() / reports.len() as f64;
            }
            seen.iteration_mean = played.means[place];
            seen.iteration_p99 = nearest_rank(&played.ratios[place], 99).map_or(1.0, f64::from);
        }
    }
    Ok(outcome)
}
