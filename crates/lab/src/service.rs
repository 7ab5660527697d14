//! Holding the jobs by the real thing: a topology service in a namespace of its own, one agent beside every rank, certificates
//! between them, and the jobs committed over HTTP.

use std::{
    fs,
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use job::TrafficPhase;
use serde_json::{Value, json};
use units::Nanos;

use crate::{case::Case, client::Client, hold::Hold, management, network::Lab, plan::Plan, tool};

/// Port of the service.
pub(crate) const PORT: u16 = 7_480;
/// Name of the certificate that commits.
const ADMIN: &str = "lab";
/// Name of the certificate that only reads.
pub(crate) const READER: &str = "page";
/// How long the service may take to answer, and the agents to write their pages: a disk and two busy cores.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// How often either is looked for.
const POLL: Duration = Duration::from_millis(50);

/// The running programs; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Service {
    programs: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    name: String,
    child: Child,
    log: PathBuf,
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    topology: PathBuf,
    agent: PathBuf,
}

impl Binaries {
    /// In `folder`, or beside this program.
    ///
    /// # Errors
    /// A program is missing.
    pub(crate) fn find(folder: Option<&Path>) -> Result<Self> {
        let here = std::env::current_exe()?;
        let folder = folder.or(here.parent()).unwrap_or(Path::new("."));
        let find = |name: &str| {
            let path = folder.join(name);
            anyhow::ensure!(path.is_file(), "no {name} in {}; name its folder with --programs", folder.display());
            Ok(path)
        };
        Ok(Self { topology: find("antiphase-topology")?, agent: find("antiphase-agent")? })
    }
}

/// A scheduler of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scheduled {
    /// The policy, as the configuration names it.
    pub(crate) policy: String,
    /// Hosts on which nobody is started.
    pub(crate) without: Vec<String>,
}

impl Service {
    /// Starts service and agents, and waits until all agents are known. `gates` is where the agent of each job's leader keeps
    /// its pages; `hold` is what the service holds jobs by.
    ///
    /// # Errors
    /// A program fails, or does not become ready.
    pub(crate) fn start(lab: &Lab, binaries: &Binaries, gates: &[PathBuf], hold: Hold, scheduled: Option<&Scheduled>) -> Result<Self> {
        management::build(lab)?;
        let folder = folder(lab);
        // The state file of an earlier take would give the service jobs that nobody runs.
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        certificates(lab, binaries, &pki(lab))?;
        let client = client(lab)?;
        let mut service = Self { programs: Vec::new() };
        service.start_topology(lab, binaries, &folder, hold, scheduled)?;
        for at in management::hosts(lab) {
            service.start_agent(lab, binaries, at, &pages(lab, at, gates))?;
        }
        // A commit waits for the agents' pages; an agent that cannot connect is found here, where the reason is still clear.
        let known = || {
            let answer = client.ask("GET", "/v1alpha1/agents", "").ok()?;
            Some(answer["agents"].as_array()?.iter().filter(|agent| agent["state"] == "connected").count())
        };
        let all = management::hosts(lab).count();
        tool::enter(&management::namespace(lab), || service.until("not all agents are connected", || known() == Some(all)))?;
        Ok(service)
    }

    /// Commits the jobs of a plan with their solo times, and waits for the leaders' pages. The plan becomes the service's own.
    ///
    /// # Errors
    /// A program fails, the service refuses, or pages do not come.
    pub(crate) fn commit(&mut self, lab: &Lab, plan: &mut Plan, gates: &[PathBuf]) -> Result<()> {
        let client = client(lab)?;
        let asked = commit_request(&lab.case, plan).to_string();
        let answer = tool::enter(&management::namespace(lab), || client.ask("POST", "/v1alpha1/commit", &asked))?;
        adopt(lab, plan, &answer)?;
        // The answer says that the plan is durable; the pages say that the agents have it.
        let pages = || lab.case.jobs.iter().zip(gates).all(|(job, gates)| gates.join(format!("{}.page", job.id)).exists());
        self.until("an agent has written no page", pages)
    }

    /// Fails when a program has ended.
    ///
    /// # Errors
    /// What it said last.
    pub(crate) fn check(&mut self) -> Result<()> {
        for running in &mut self.programs {
            if let Some(status) = running.child.try_wait()? {
                bail!("{} ended: {status}: {}", running.name, tool::last_words(&running.log));
            }
        }
        Ok(())
    }

    fn start_topology(&mut self, lab: &Lab, binaries: &Binaries, folder: &Path, hold: Hold, scheduled: Option<&Scheduled>) -> Result<()> {
        let (config, fabric) = (folder.join("topology.toml"), folder.join("fabric.yaml"));
        // The service gets the fabric as the case was read and not its file, so that an inline fabric works as well.
        fs::write(&fabric, fabric::native::write_yaml(&lab.case.fabric)).with_context(|| fabric.display().to_string())?;
        let text = format!(
            "listen = \"{}:{PORT}\"\nstate = {:?}\nfabric = {:?}\necmp = \"{}\"\ncontrol = \"{}\"\n[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\n",
            management::SERVICE,
            folder.join("state.redb"),
            fabric,
            lab.case.ecmp,
            hold.word(),
            folder.join("pki/server.pem"),
            folder.join("pki/server.key"),
            folder.join("pki/ca.pem"),
        );
        // Every rank has a host of its own, so a host is as good as a GPU.
        let scheduler = scheduled.map_or_else(String::new, |scheduled| {
            format!("[scheduler]\npolicy = {:?}\ngpus_per_host = 1\nwithout = {:?}\nround_s = 1\n", scheduled.policy, scheduled.without)
        });
        fs::write(&config, text + &scheduler).with_context(|| config.display().to_string())?;
        self.spawn("antiphase-topology".into(), &management::namespace(lab), &binaries.topology, &config)
    }

    fn start_agent(&mut self, lab: &Lab, binaries: &Binaries, at: (usize, usize), pages: &Path) -> Result<()> {
        let (host, folder) = (host(lab, at), folder(lab));
        fs::create_dir_all(pages).with_context(|| pages.display().to_string())?;
        let config = folder.join(format!("{host}.toml"));
        let text = format!(
            "host = \"{host}\"\npage_dir = {pages:?}\n[service]\naddress = \"{}:{PORT}\"\n[service.tls]\nca = {:?}\ncert = {:?}\nkey = {:?}\n\
             [counters]\ninclude = [\"e0\"]\n[metrics]\nlisten = \"\"\n",
            management::SERVICE,
            folder.join("pki/ca.pem"),
            folder.join(format!("pki/{host}.pem")),
            folder.join(format!("pki/{host}.key")),
        );
        fs::write(&config, text).with_context(|| config.display().to_string())?;
        self.spawn(format!("agent of {host}"), lab.namespace(at.0, at.1), &binaries.agent, &config)
    }

    fn spawn(&mut self, name: String, namespace: &str, program: &Path, config: &Path) -> Result<()> {
        let log = config.with_extension("log");
        // As ranks do, for the same reason: by turns, how soon service and agents answer is part of an iteration.
        let mut command = Command::new("nice");
        command.arg("-n").arg(tool::NICENESS.to_string()).arg(program);
        // A Ctrl-C is for the lab, which ends its programs when it has heard it.
        command.process_group(0);
        command.arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(&log).with_context(|| log.display().to_string())?);
        // A child inherits the namespace of the thread that spawns it.
        let child = tool::enter(namespace, || command.spawn().with_context(|| program.display().to_string()))?;
        self.programs.push(Running { name, child, log });
        Ok(())
    }

    /// Waits until something is so, while every program runs.
    fn until(&mut self, otherwise: &str, so: impl Fn() -> bool) -> Result<()> {
        // A program that has ended is reported at once by `check`; only one that hangs costs the whole `READY_TIMEOUT`.
        let end = Instant::now() + READY_TIMEOUT;
        while !so() {
            self.check()?;
            if Instant::now() > end {
                let said: Vec<String> = self.programs.iter().map(|r| format!("{}: {}", r.name, tool::last_words(&r.log))).collect();
                bail!("{otherwise} within {READY_TIMEOUT:?}; {}", said.join("; "));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for running in &mut self.programs {
            let _ = running.child.kill();
            // Without the wait the killed program would stay as a zombie until this process ends.
            let _ = running.child.wait();
        }
    }
}

/// Speaks to the service, from its namespace.
pub(crate) fn client(lab: &Lab) -> Result<Client> {
    Client::new(SocketAddr::from((management::SERVICE, PORT)), &pki(lab), ADMIN)
}

/// Where the agent on the host of a rank keeps its pages.
pub(crate) fn pages(lab: &Lab, at @ (job, rank): (usize, usize), gates: &[PathBuf]) -> PathBuf {
    // Without a scheduler only the leader's host has a gate, so the other agents write to a folder that nobody reads.
    if rank == 0 { gates[job].clone() } else { folder(lab).join(format!("{}.pages", host(lab, at))) }
}

/// Name of the host of a rank.
pub(crate) fn host(lab: &Lab, (job, rank): (usize, usize)) -> &str {
    &lab.case.fabric.node(lab.case.jobs[job].hosts[rank]).name
}

fn folder(lab: &Lab) -> PathBuf {
    lab.record().folder().join("service")
}

/// Where the certificates are.
pub(crate) fn pki(lab: &Lab) -> PathBuf {
    folder(lab).join("pki")
}

/// An authority, the service's certificate, one per agent, one that may commit and one that may read, by the service's own `pki` command.
fn certificates(lab: &Lab, binaries: &Binaries, pki: &Path) -> Result<()> {
    let topology = binaries.topology.to_str().context("the programs' folder has a name of plain text")?;
    let dir = pki.to_str().context("the lab's folder has a name of plain text")?;
    tool::run(topology, &["pki", "init", "--dir", dir, "--host", &management::SERVICE.to_string()], "")?;
    let issue = |role: &str, name: &str, more: &[&str]| {
        tool::run(topology, &[&["pki", "issue", "--dir", dir, "--role", role, "--name", name], more].concat(), "")
    };
    issue("admin", ADMIN, &[])?;
    issue("read", READER, &[])?;
    for at in management::hosts(lab) {
        let host = host(lab, at);
        issue("agent", host, &["--host", host])?;
    }
    Ok(())
}

/// The jobs with the profiles that their solo runs gave, or with what the case declares in their place: Up phases from the gate
/// on, and Down phases after them.
fn commit_request(case: &Case, plan: &Plan) -> Value {
    let jobs = (0..case.jobs.len()).map(|job| {
        let hosts: Vec<&str> = case.jobs[job].hosts.iter().map(|host| case.fabric.node(*host).name.as_str()).collect();
        let mut spec = job_spec(case, plan, job);
        spec["hosts"] = json!(hosts);
        spec
    });
    json!({"jobs": jobs.collect::<Vec<_>>()})
}

/// A job of the case for the scheduler, which runs for so long.
pub(crate) fn submission(case: &Case, plan: &Plan, job: usize, run: Duration) -> Value {
    json!({"job": job_spec(case, plan, job), "gpus": case.jobs[job].hosts.len(), "duration_s": run.as_secs()})
}

/// A job with its profile, without hosts.
fn job_spec(case: &Case, plan: &Plan, at: usize) -> Value {
    let (job, planned) = (&case.jobs[at], &plan.jobs[at]);
    let (said, _) = job.planned(&planned.solo);
    let phase = |phase: &TrafficPhase| {
        json!({
            "start_ns": phase.start.0, "duration_ns": phase.end.0 - phase.start.0, "rate_mbps": phase.rate.mbps(),
            "collective": "ring", "scope": "all",
        })
    };
    let profile = json!({
        "schema": "antiphase.profile/v1", "name": job.id, "period_ns": said.period.0,
        "phases": said.phases.iter().map(phase).collect::<Vec<_>>(), "ranks": {"dp": job.hosts.len()}, "source": "declared",
    });
    json!({"id": job.id, "profile": profile, "hold": said.hold.word()})
}

/// Takes over what the service answered: its slots count, not what was planned here.
fn adopt(lab: &Lab, plan: &mut Plan, answer: &Value) -> Result<()> {
    let slots = answer["slots"].as_array().with_context(|| format!("a commit without slots: {answer}"))?;
    for (job, planned) in lab.case.jobs.iter().zip(&mut plan.jobs) {
        let lost = || format!("no slot of job {:?} in {answer}", job.id);
        let slot = slots.iter().find(|slot| slot["job"] == job.id.as_str()).with_context(lost)?;
        // 64-bit numbers may stand as text in JSON; what is false or zero may be left out.
        let number = |key: &str| slot[key].as_u64().or_else(|| slot[key].as_str()?.parse().ok()).unwrap_or(0);
        planned.period = Nanos(number("period_ns"));
        planned.shift = Nanos(number("offset_ns"));
        planned.slack = Nanos(number("slack_ns"));
        planned.tolerance = Nanos(number("tolerance_ns"));
        planned.hold = slot["hold"].as_bool().unwrap_or(false);
        planned.turns = slot["turns"].as_bool().unwrap_or(false);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::builtin;

    /// Two phases, the second of which starts after the first Down phase, under a period that is declared 30 % too long: the commit
    /// says all of it, in documents that a profile can be read from.
    #[test]
    fn a_commit_has_every_phase_as_declared() {
        let one = "{id: a, hosts: [a0, a1], compute_ms: 200, jitter_ms: 4, bytes: 1600000}";
        let two = "{id: a, hosts: [a0, a1], declared: {period_percent: 130}, \
                   phases: [{bytes: 800000, compute_ms: 50}, {bytes: 800000, compute_ms: 150}]}";
        let text = builtin("two-equal").unwrap().replacen(one, two, 1);
        let case = Case::read(&text, &|_| Err("no files".into())).unwrap();
        let seen: Vec<_> = case.jobs.iter().map(|job| job.nominal()).collect();
        let plan = crate::plan::plan(&case, &seen).unwrap();
        let asked = commit_request(&case, &plan);
        let profile = &asked["jobs"][0]["profile"];
        let period = plan.jobs[0].solo.period.0;
        assert_eq!(profile["period_ns"], period * 130 / 100);
        let up = seen[0].ups[0].0;
        // A quarter of what is not Up lies between the phases.
        let second = up + (period * 130 / 100 - 2 * up) / 4;
        let phases = profile["phases"].as_array().unwrap();
        assert_eq!(phases.len(), 2);
        assert_eq!((&phases[0]["start_ns"], &phases[0]["duration_ns"]), (&json!(0), &json!(up)));
        assert_eq!((&phases[1]["start_ns"], &phases[1]["rate_mbps"]), (&json!(second), &json!(90)));
        profile::parse(&profile.to_string()).unwrap();
        assert_eq!(asked["jobs"][1]["profile"]["phases"].as_array().map(Vec::len), Some(1));
    }
}
