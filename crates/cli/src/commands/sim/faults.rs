//! What goes wrong in a run: faults that a file tells, and faults by chance.

use std::path::PathBuf;

use ::sim::trace::{FaultOutcome, FaultRate, FaultSetup, TraceFault, read_faults};
use clap::Args;
use fabric::Fabric;
use policy::schedule::Cluster;
use serde::Serialize;

use super::choices::TimingArg;
use crate::{
    commands::HOUR_S,
    input::{CliError, read_document},
};

/// Time from one checkpoint to the next, unless told otherwise: half an hour, between the minutes and the hours that are common.
const CHECKPOINT_S: f64 = 1_800.0;
/// Longest mean time, in hours: a hundred years.
const HOURS_MAX: f64 = 876_600.0;

#[derive(Debug, Args)]
pub(super) struct FaultArgs {
    /// Faults of hosts, links and agents, and slow hosts (CSV: `at_s`, kind, name, `until_s`, factor)
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Hosts go down by chance: the mean time from a repair to the next failure, of each
    #[arg(long, value_name = "HOURS", value_parser = hours, requires = "host_mttr_h")]
    host_mtbf_h: Option<f64>,
    /// The mean time until such a host is back
    #[arg(long, value_name = "HOURS", value_parser = hours, requires = "host_mtbf_h")]
    host_mttr_h: Option<f64>,
    /// Cables of the fabric go down by chance: the mean time from a repair to the next failure, of each
    #[arg(long, value_name = "HOURS", value_parser = hours, requires_all = ["link_mttr_h", "fabric"])]
    link_mtbf_h: Option<f64>,
    /// The mean time until such a cable is back
    #[arg(long, value_name = "HOURS", value_parser = hours, requires = "link_mtbf_h")]
    link_mttr_h: Option<f64>,
    /// For how long a job computes from one checkpoint to the next; with its host it loses what came after the last one [default: 1800]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    checkpoint_s: Option<f64>,
}

impl FaultArgs {
    /// Whether anything is asked for.
    pub(super) fn is_given(&self) -> bool {
        let Self { faults, host_mtbf_h, link_mtbf_h, checkpoint_s, .. } = self;
        faults.is_some() || host_mtbf_h.is_some() || link_mtbf_h.is_some() || checkpoint_s.is_some()
    }
}

/// What goes wrong.
#[derive(Debug)]
pub(super) struct Faults {
    told: Vec<TraceFault>,
    hosts: Option<FaultRate>,
    links: Option<FaultRate>,
    checkpoint_s: f64,
}

/// What came of faults, as the answer says it.
#[derive(Debug, Serialize)]
pub(super) struct FaultAnswer {
    /// How often something went down, or became slow.
    faults: u64,
    /// How often a job lost its host.
    failures: u64,
    /// GPU time of iterations that were computed and lost.
    lost_gpu_s: f64,
    /// GPU time in which jobs stood still because a link was down.
    still_gpu_s: f64,
}

fn hours(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| *value > 0.0 && *value <= HOURS_MAX);
    value.ok_or_else(|| format!("must be a number of hours above 0 and at most {HOURS_MAX}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| *value > 0.0 && *value <= HOURS_MAX * HOUR_S);
    value.ok_or_else(|| "must be a number of seconds above 0 and at most a hundred years".to_owned())
}

impl FaultArgs {
    /// What was asked for; `None` where nothing goes wrong.
    ///
    /// # Errors
    /// A file that cannot be taken, and options without anything that fails.
    pub(super) fn read(&self, timing: TimingArg, cluster: Cluster, fabric: Option<&Fabric>) -> Result<Option<Faults>, CliError> {
        let rate = |(between_h, repair_h): (f64, f64)| FaultRate { between_s: between_h * HOUR_S, repair_s: repair_h * HOUR_S };
        let hosts = self.host_mtbf_h.zip(self.host_mttr_h).map(rate);
        let links = self.link_mtbf_h.zip(self.link_mttr_h).map(rate);
        let asked = match (&self.faults, hosts, links) {
            (Some(_), ..) => "--faults",
            (None, Some(_), _) => "--host-mtbf-h",
            (None, None, Some(_)) => "--link-mtbf-h",
            (None, None, None) if self.checkpoint_s.is_some() => {
                return Err(CliError::Usage("--checkpoint-s: nothing fails without --faults, --host-mtbf-h or --link-mtbf-h".to_owned()));
            }
            (None, None, None) => return Ok(None),
        };
        if matches!(timing, TimingArg::Artifact) {
            return Err(CliError::Usage(format!("{asked}: with --timing artifact GPUs are only counted, and no job stands on a host")));
        }
        let read = |file: &PathBuf| read_faults(&read_document(file)?, cluster, fabric).map_err(|e| CliError::input(file, e));
        let told = self.faults.as_ref().map(read).transpose()?.unwrap_or_default();
        Ok(Some(Faults { told, hosts, links, checkpoint_s: self.checkpoint_s.unwrap_or(CHECKPOINT_S) }))
    }
}

impl Faults {
    /// The same for the simulator.
    pub(super) fn setup(&self, seed: u64) -> FaultSetup<'_> {
        FaultSetup { told: &self.told, hosts: self.hosts, links: self.links, checkpoint_s: self.checkpoint_s, seed }
    }

    /// Whether another seed has other faults.
    pub(super) fn are_drawn(&self) -> bool {
        self.hosts.is_some() || self.links.is_some()
    }
}

impl From<FaultOutcome> for FaultAnswer {
    fn from(outcome: FaultOutcome) -> Self {
        let FaultOutcome { faults, failures, lost_gpu_s, still_gpu_s } = outcome;
        Self { faults, failures, lost_gpu_s, still_gpu_s }
    }
}
