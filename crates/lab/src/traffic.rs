//! Playing jobs on a lab that is up: their ranks as processes in the namespaces, what they did, and what the queues marked.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use units::LinkId;

use crate::{
    Program,
    interrupt::Interrupt,
    network::Lab,
    queue::Counters,
    rank::{Iteration, monotonic_ns},
    tool,
};

/// Time for all ranks to start and to find each other before the first iteration: processes on two busy cores.
pub(crate) const LEAD_NS: u64 = 1_500_000_000;
/// How long ranks may take to end after the last iteration may start: one iteration stretched by all others, and a hold.
const END_TIMEOUT_NS: u64 = 60_000_000_000;
/// How often ended ranks are looked for.
const POLL: Duration = Duration::from_millis(5);
/// Most of a rank's complaint that is repeated.
const COMPLAINT_CHARS_MAX: usize = 300;

/// When a run starts, when it is measured, and when it ends: CLOCK_MONOTONIC in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first iteration of every job.
    pub start: u64,
    /// Measured from here on.
    pub from: u64,
    /// No iteration starts after this.
    pub until: u64,
}

impl Window {
    /// A window that starts as soon as ranks can be ready.
    #[must_use]
    pub fn soon(warm_up_ns: u64, measured_ns: u64) -> Self {
        let start = monotonic_ns() + LEAD_NS;
        Self { start, from: start + warm_up_ns, until: start + warm_up_ns + measured_ns }
    }
}

/// What was seen in the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    /// When.
    pub window: Window,
    /// Per job that was played, all its iterations, those of the warm-up included.
    pub iterations: BTreeMap<usize, Vec<Iteration>>,
    /// ECN marks per link in the window.
    pub marks: BTreeMap<LinkId, u64>,
    /// Bytes per link in the window.
    pub bytes: BTreeMap<LinkId, u64>,
}

/// Plays `jobs` in the window; their leaders pass gates whose files are in `gates`, in a folder named after the job.
///
/// # Errors
/// A rank fails, or somebody interrupts.
pub fn play(lab: &Lab, program: &Program, jobs: &[usize], window: Window, gates: Option<&Path>, interrupt: &Interrupt) -> Result<Take> {
    let folder = lab.record().folder();
    let mut ranks = Ranks { running: Vec::new() };
    for &job in jobs {
        for rank in 0..lab.case.jobs[job].hosts.len() {
            ranks.start(lab, program, (job, rank), window, gates)?;
        }
    }
    interrupt.sleep_until(window.from)?;
    ranks.check()?;
    let before = lab.counters()?;
    interrupt.sleep_until(window.until)?;
    let after = lab.counters()?;
    ranks.finish(window.until + END_TIMEOUT_NS, interrupt)?;
    let mut iterations = BTreeMap::new();
    for &job in jobs {
        iterations.insert(job, read_trace(&trace_path(&folder, &lab.case.jobs[job].id))?);
    }
    let since = |of: fn(&Counters, &Counters) -> u64| {
        after.iter().map(|(link, c)| (*link, before.get(link).map_or(0, |earlier| of(c, earlier)))).collect::<BTreeMap<_, _>>()
    };
    Ok(Take { window, iterations, marks: since(Counters::marks_since), bytes: since(Counters::bytes_since) })
}

fn trace_path(folder: &Path, job: &str) -> PathBuf {
    folder.join(format!("{job}.trace"))
}

fn read_trace(path: &Path) -> Result<Vec<Iteration>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines: Result<Vec<Iteration>, _> = text.lines().map(serde_json::from_str).collect();
    lines.with_context(|| path.display().to_string())
}

/// Running ranks; killed when this is dropped.
struct Ranks {
    running: Vec<Running>,
}

struct Running {
    name: String,
    child: Child,
    complaints: PathBuf,
}

impl Ranks {
    fn start(&mut self, lab: &Lab, program: &Program, (job, rank): (usize, usize), window: Window, gates: Option<&Path>) -> Result<()> {
        let spec = &lab.case.jobs[job];
        let folder = lab.record().folder();
        let addresses = &lab.wiring.ranks[job];
        let complaints = folder.join(format!("{}.{rank}.err", spec.id));
        let mut command = Command::new(&program.path);
        command.args(&program.prefix).args(["rank", "--job", &spec.id]);
        let mut option = |key: &str, value: String| {
            command.args([key, &value]);
        };
        option("--rank", rank.to_string());
        option("--listen", addresses[rank].to_string());
        option("--successor", addresses[(rank + 1) % addresses.len()].to_string());
        option("--bytes", spec.bytes.0.to_string());
        option("--compute-ns", spec.compute.0.to_string());
        option("--jitter-ns", spec.jitter.0.to_string());
        // Every take draws other jitter, or repeats would not be repeats.
        option("--seed", (window.start ^ job as u64).to_string());
        option("--start-ns", window.start.to_string());
        option("--until-ns", window.until.to_string());
        if rank == 0 {
            option("--trace", trace_path(&folder, &spec.id).display().to_string());
            if let Some(gates) = gates {
                option("--gate", gates.join(&spec.id).display().to_string());
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(fs::File::create(&complaints).with_context(|| complaints.display().to_string())?);
        let child = tool::enter(lab.namespace(job, rank), || Ok(command.spawn()?))?;
        self.running.push(Running { name: format!("rank {rank} of job {:?}", spec.id), child, complaints });
        Ok(())
    }

    /// Fails when a rank has failed; forgets those that ended well.
    fn check(&mut self) -> Result<()> {
        let mut left = Vec::new();
        let mut failed = None;
        for mut running in self.running.drain(..) {
            match running.child.try_wait()? {
                None => left.push(running),
                Some(status) if status.success() => {}
                Some(status) => failed = failed.or(Some((running.name, status, running.complaints))),
            }
        }
        self.running = left;
        let Some((name, status, complaints)) = failed else { return Ok(()) };
        let said = fs::read_to_string(complaints).unwrap_or_default();
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(COMPLAINT_CHARS_MAX).collect();
        bail!("{name}: {status}: {said}");
    }

    fn finish(&mut self, end: u64, interrupt: &Interrupt) -> Result<()> {
        while !self.running.is_empty() {
            interrupt.check()?;
            self.check()?;
            ensure!(monotonic_ns() < end, "{} does not end", self.running.first().map_or("a rank", |r| r.name.as_str()));
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for running in &mut self.running {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}
