//! What happened to the jobs of a run: kept for files and pictures, and shown as progress.

use ::sim::trace::{Change, Failing, Told, Trace, TraceEvent};
use fabric::Fabric;
use indicatif::ProgressBar;
use serde::Serialize;

use crate::input::CliError;

/// Most events that are kept: about a gibibyte.
const EVENTS_MAX: usize = 10_000_000;

/// Something that happened to a job.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) at_s: f64,
    pub(super) job: u32,
    pub(super) change: Change,
    /// Hosts, and GPUs of each.
    pub(super) places: Vec<(u32, u32)>,
}

/// Something that happened in a run.
#[derive(Clone, Debug)]
pub(super) enum Happened {
    /// To a job.
    Job(Recorded),
    /// Something went wrong at that time, or was right again.
    Fault(f64, Failing, bool),
}

/// A run as it goes on.
#[derive(Debug)]
pub(super) struct Recording {
    /// Events are only counted as progress where nobody asked for them.
    keeps: bool,
    events: Vec<Happened>,
    lost: usize,
    /// Jobs that are done; shown on a terminal only.
    bar: ProgressBar,
}

/// The events of a run that ended, in order.
#[derive(Debug)]
pub(super) struct Events(Vec<Happened>);

/// A line of the file that tells of a fault.
#[derive(Serialize)]
struct FaultLine {
    at_s: f64,
    event: &'static str,
    kind: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
}

/// A line of the file that tells of a job.
#[derive(Serialize)]
struct Line<'a> {
    at_s: f64,
    job: &'a str,
    event: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<Host<'a>>,
}

#[derive(Serialize)]
struct Host<'a> {
    /// The host's place in the cluster, from 0 on.
    number: u32,
    /// Its name, where the cluster has a fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    gpus: u32,
}

impl Recording {
    pub(super) fn new(jobs: usize, keeps: bool) -> Self {
        Self { keeps, events: Vec::new(), lost: 0, bar: ProgressBar::new(jobs as u64) }
    }

    pub(super) fn take(&mut self, told: &Told<'_>) {
        if matches!(told, Told::Job(TraceEvent { change: Change::Ends, .. })) {
            self.bar.inc(1);
        }
        if !self.keeps {
            return;
        }
        if self.events.len() >= EVENTS_MAX {
            self.lost += 1;
            return;
        }
        self.events.push(match *told {
            Told::Job(TraceEvent { at_s, job, change, places }) => Happened::Job(Recorded { at_s, job, change, places: places.to_vec() }),
            Told::Fault { at_s, what, begins } => Happened::Fault(at_s, what, begins),
        });
    }

    /// # Errors
    /// There were too many events to be kept.
    pub(super) fn finish(self) -> Result<Events, CliError> {
        self.bar.finish_and_clear();
        match self.lost {
            0 => Ok(Events(self.events)),
            lost => Err(CliError::Failure(format!("{lost} events more than the {EVENTS_MAX} that are kept"))),
        }
    }
}

impl Events {
    /// Those of jobs, in order.
    pub(super) fn of_jobs(&self) -> impl Iterator<Item = &Recorded> {
        self.0.iter().filter_map(|happened| if let Happened::Job(event) = happened { Some(event) } else { None })
    }

    /// One JSON object a line.
    pub(super) fn lines(&self, trace: &Trace, fabric: Option<&Fabric>) -> String {
        let names: Vec<&str> =
            fabric.map(|fabric| fabric.hosts().map(|host| fabric.node(host).name.as_str()).collect()).unwrap_or_default();
        let host = |&(number, gpus): &(u32, u32)| Host { number, name: names.get(number as usize).copied(), gpus };
        let mut text = String::new();
        for happened in &self.0 {
            let line = match happened {
                Happened::Job(event) => {
                    let job = trace.jobs.get(event.job as usize).map_or("", |job| &job.id);
                    serde_json::to_string(&Line {
                        at_s: event.at_s,
                        job,
                        event: name(event.change),
                        hosts: event.places.iter().map(host).collect(),
                    })
                }
                &Happened::Fault(at_s, what, begins) => serde_json::to_string(&fault_line(at_s, what, begins, &names, fabric)),
            };
            // A line of numbers and strings is always JSON.
            text += &line.unwrap_or_default();
            text.push('\n');
        }
        text
    }
}

fn fault_line(at_s: f64, what: Failing, begins: bool, names: &[&str], fabric: Option<&Fabric>) -> FaultLine {
    let host = |host: u32| names.get(host as usize).map_or_else(|| host.to_string(), |name| (*name).to_owned());
    let (kind, name, factor) = match what {
        Failing::Host(number) => ("host", host(number), None),
        Failing::Link(link) => ("link", fabric.map_or_else(String::new, |fabric| fabric.link_name(link)), None),
        Failing::Agent(number) => ("agent", host(number), None),
        Failing::Straggler { host: number, factor } => ("straggler", host(number), Some(factor)),
    };
    FaultLine { at_s, event: if begins { "fault" } else { "repair" }, kind, name, factor }
}

fn name(change: Change) -> &'static str {
    match change {
        Change::Arrives => "arrive",
        Change::Starts => "start",
        Change::Moves => "move",
        Change::Grows => "grow",
        Change::Shrinks => "shrink",
        Change::Stops => "stop",
        Change::Fails => "fail",
        Change::Ends => "end",
    }
}
