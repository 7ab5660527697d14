//! A lab whose jobs the service's scheduler starts and stops: it decides who runs on which hosts, and this executor does what it says.
//!
//! The rules of an executor (docs/scheduler.md). The list of submissions says what is to be done: what is starting is started on its
//! hosts, what is stopping is stopped, and each is reported. A job has run to its end when it ran for as long as it declared; a rank
//! that fails stops its job.

use std::{
    collections::BTreeMap,
    fs,
    net::Ipv4Addr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    case::{Case, CaseError},
    client::{Client, Refused},
    control::{self, By, Gates},
    experiment,
    hold::Hold,
    interrupt::Interrupt,
    management,
    network::Lab,
    plan::{Plan, plan},
    rank::{Span, monotonic_ns},
    service::{self, Binaries, Scheduled, Service},
    tool,
    traffic::{Ranks, Standing},
    trainer::Starter,
};

/// How the service answers a report of a start that is over.
const CONFLICT: &str = "409";
/// How often the list is read.
const POLL: Duration = Duration::from_millis(200);

/// What is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The policy, as the service's configuration names it.
    pub policy: String,
    /// How many of the case's hosts are the scheduler's, from the first on.
    pub hosts: usize,
    /// How long the last job runs; each job before it runs this much longer than the next.
    pub run: Duration,
    /// What jobs are held by.
    pub hold: Hold,
    /// Folder of the programs of the service.
    pub programs: Option<PathBuf>,
}

/// Builds the lab, submits its jobs one after the other, and plays executor until all are over, or somebody interrupts.
///
/// # Errors
/// A [`CaseError`] for a job that never fits. Otherwise a program failed, or the lab could not be built or removed.
pub fn run(case: Case, starter: &Starter, options: &Options, interrupt: &Interrupt, say: &mut dyn FnMut(&str)) -> Result<()> {
    let names: Vec<String> = hosts(&case).take(options.hosts).collect();
    if let Some(job) = case.jobs.iter().find(|job| job.hosts.len() > names.len()) {
        let problem = format!("{}; job {:?} needs {}", names.len(), job.id, job.hosts.len());
        return Err(CaseError::Value { place: "--hosts".into(), problem }.into());
    }
    let binaries = Binaries::find(options.programs.as_deref())?;
    let lab = Lab::up(case)?;
    let played = play(&lab, starter, &binaries, options, interrupt, say);
    let gone = lab.down();
    match played {
        Err(e) if !interrupt.asked() => return Err(e),
        _ => gone?,
    }
    say("the lab is gone");
    Ok(())
}

/// Hosts with ranks, in the order of the case.
fn hosts(case: &Case) -> impl Iterator<Item = String> + '_ {
    case.jobs.iter().flat_map(|job| &job.hosts).map(|host| case.fabric.node(*host).name.clone())
}

fn play(
    lab: &Lab,
    starter: &Starter,
    binaries: &Binaries,
    options: &Options,
    interrupt: &Interrupt,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let (_, folders) = control::folders(lab)?;
    let without = hosts(&lab.case).skip(options.hosts).collect();
    let scheduled = Scheduled { policy: options.policy.clone(), without };
    // Ranks end before the service: locals are dropped in reverse order.
    let mut service = Service::start(lab, binaries, &folders, options.hold, Some(&scheduled))?;
    let alone = experiment::alone(lab, starter, experiment::SOLO_ITERATIONS, interrupt, &mut |what| say(what))?;
    let measured: Vec<_> = alone.into_iter().map(|(_, timing)| timing).collect();
    let plan = plan(&lab.case, &measured)?;
    let client = service::client(lab)?;
    let executor = Executor { lab, starter, interrupt, client, folders, hold: options.hold };
    executor.play(&plan, options.run, &mut service, say)
}

/// A job that runs.
struct Started {
    /// Which start of it, as the service counts them.
    attempt: u64,
    ranks: Ranks,
}

struct Executor<'a> {
    lab: &'a Lab,
    starter: &'a Starter,
    interrupt: &'a Interrupt,
    client: Client,
    /// Where the agents of the first hosts of the case's jobs keep their pages.
    folders: Vec<PathBuf>,
    hold: Hold,
}

impl Executor<'_> {
    fn play(&self, plan: &Plan, run: Duration, service: &mut Service, say: &mut dyn FnMut(&str)) -> Result<()> {
        let count = self.lab.case.jobs.len();
        let (mut submitted, mut running) = (0, BTreeMap::<String, Started>::new());
        loop {
            self.interrupt.check()?;
            service.check()?;
            let listed = self.ask("GET", "/v1alpha1/submissions", &Value::Null)?;
            let listed = listed["submissions"].as_array().cloned().unwrap_or_default();
            // Before others start on their hosts.
            end_what_is_over(&listed, &mut running, say);
            for submission in &listed {
                self.follow(submission, &mut running, say)?;
            }
            let waits = |s: &Value| s["state"] == "starting";
            if submitted < count && !listed.iter().any(waits) {
                let longer = u32::try_from(count - submitted).unwrap_or(u32::MAX);
                let request = service::submission(&self.lab.case, plan, submitted, run.saturating_mul(longer));
                self.ask("POST", "/v1alpha1/submit", &request)?;
                say(&format!("submitted {}, which runs for {} s", self.lab.case.jobs[submitted].id, run.saturating_mul(longer).as_secs()));
                submitted += 1;
            } else if submitted == count
                && listed.iter().all(|s| ["finished", "withdrawn", "failed"].iter().any(|over| s["state"] == *over))
            {
                return Ok(());
            }
            self.interrupt.sleep_until(monotonic_ns().saturating_add(POLL.as_nanos() as u64))?;
        }
    }

    /// Does for one job what the list says.
    fn follow(&self, submission: &Value, running: &mut BTreeMap<String, Started>, say: &mut dyn FnMut(&str)) -> Result<()> {
        let name = submission["job"].as_str().context("a submission without a job")?;
        let attempt = submission["attempt"].as_u64().context("a submission without an attempt")?;
        let state = submission["state"].as_str().unwrap_or_default();
        let runs = running.contains_key(name);
        match state {
            "starting" if !runs => {
                let hosts = place(submission)?;
                running.insert(name.to_owned(), Started { attempt, ranks: self.start(name, &hosts)? });
                self.report(submission, "started")?;
                say(&format!("started {name} on {}: {}", hosts.join(", "), submission["why"].as_str().unwrap_or_default()));
            }
            "starting" => self.report(submission, "started")?,
            "stopping" => {
                running.remove(name);
                self.report(submission, "stopped")?;
                say(&format!("stopped {name}: {}", submission["why"].as_str().unwrap_or_default()));
            }
            "running" => {
                let well = running.get_mut(name).is_some_and(|started| started.ranks.check().is_ok());
                let ended = submission["left_ns"].as_u64().unwrap_or(0) == 0;
                if !well || ended {
                    running.remove(name);
                    self.report(submission, if well { "finished" } else { "stopped" })?;
                    say(&format!("{} {name}", if well { "finished" } else { "a rank failed of" }));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Starts the ranks of a job on these hosts, one on each.
    fn start(&self, name: &str, hosts: &[String]) -> Result<Ranks> {
        let job = self.lab.case.jobs.iter().position(|job| job.id == name).with_context(|| format!("no job {name:?} in the case"))?;
        ensure!(hosts.len() == self.lab.case.jobs[job].hosts.len(), "job {name:?} has {} hosts", hosts.len());
        let at: Vec<(usize, usize)> = hosts.iter().map(|host| self.rank_of(host)).collect::<Result<_>>()?;
        let addresses: Vec<Ipv4Addr> = at.iter().map(|&(job, rank)| self.lab.wiring.ranks[job][rank]).collect();
        let namespaces = at.iter().map(|&(job, rank)| self.lab.namespace(job, rank).to_owned()).collect();
        let gates = self.gates(name, at[0])?;
        let by = By::Gates(Gates { folder: &gates, hold: self.hold });
        let mut ranks = Ranks::start_at(self.lab, self.starter, job, &Standing { addresses, namespaces }, by, self.interrupt)?;
        ranks.go(Span::now())?;
        Ok(ranks)
    }

    /// The rank of the case on whose host this is: each has a host of its own.
    fn rank_of(&self, host: &str) -> Result<(usize, usize)> {
        let mut all = management::hosts(self.lab);
        all.find(|at| service::host(self.lab, *at) == host).with_context(|| format!("no host {host:?} in the case"))
    }

    /// A folder in which the job's gate finds the pages of the agent on the host of its leader.
    fn gates(&self, name: &str, leader: (usize, usize)) -> Result<PathBuf> {
        let folder = self.lab.record().folder().join("executor");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let link: &Path = &folder.join(name);
        // The job may have stood elsewhere before.
        match fs::remove_file(link) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).with_context(|| link.display().to_string()),
            _ => {}
        }
        let pages = service::pages(self.lab, leader, &self.folders);
        symlink(&pages, link).with_context(|| link.display().to_string())?;
        Ok(folder)
    }

    /// Tells the service what became of a start; of one that is over by now it does not want to hear, and the next list says so.
    fn report(&self, submission: &Value, report: &str) -> Result<()> {
        let request = json!({"job": submission["job"], "attempt": submission["attempt"], "report": report});
        match self.ask("POST", "/v1alpha1/report", &request) {
            Err(e) if e.downcast_ref::<Refused>().is_some_and(|refused| refused.status == CONFLICT) => Ok(()),
            other => other.map(drop),
        }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        tool::enter(&management::namespace(self.lab), || self.client.ask(method, path, &body))
    }
}

/// Stops the jobs whose start the service has given up: its hosts may be another job's by now.
fn end_what_is_over(listed: &[Value], running: &mut BTreeMap<String, Started>, say: &mut dyn FnMut(&str)) {
    let lives = |s: &Value| ["starting", "running", "stopping"].iter().any(|state| s["state"] == *state);
    running.retain(|name, started| {
        let is = |s: &&Value| s["job"] == *name && s["attempt"] == started.attempt;
        let kept = listed.iter().find(is).is_some_and(lives);
        if !kept {
            say(&format!("stopped {name}: its start {} is over", started.attempt));
        }
        kept
    });
}

/// The hosts of a submission, in rank order.
fn place(submission: &Value) -> Result<Vec<String>> {
    let place = submission["place"].as_array().context("a submission without a place")?;
    place.iter().map(|place| Ok(place["host"].as_str().context("a place without a host")?.to_owned())).collect()
}
