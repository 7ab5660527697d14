//! Playing jobs on a lab that is up: their ranks as processes in the namespaces, what they did, and what the queues marked.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::Ipv4Addr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use units::LinkId;

use crate::{
    control::By,
    interrupt::Interrupt,
    network::Lab,
    queue::Counters,
    rank::{Iteration, READY, Span, monotonic_ns},
    record::trace_path,
    tool,
    trainer::Starter,
};

/// From telling the ranks to the first iteration: every rank has to have read it, on two busy cores.
const LEAD_NS: u64 = 500_000_000;
/// How long ranks may take to be ready: six interpreters that load PyTorch on two busy cores.
const READY_TIMEOUT_NS: u64 = 180_000_000_000;
/// How long ranks may take to end after the last iteration may start: one iteration stretched by all others, and a hold.
const END_TIMEOUT_NS: u64 = 60_000_000_000;
/// How often ended ranks are looked for.
const POLL: Duration = Duration::from_millis(5);

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

/// How long a run is, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The time before the measurement.
    pub warm_up: u64,
    /// The measured time.
    pub measured: u64,
}

impl Window {
    /// A window that starts as soon as ranks that are ready can have been told.
    fn soon(lengths: Lengths) -> Self {
        let start = monotonic_ns() + LEAD_NS;
        Self { start, from: start + lengths.warm_up, until: start + lengths.warm_up + lengths.measured }
    }
}

/// The result of one play: iterations, and the counters of the window.
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

/// Plays `jobs` for so long.
///
/// # Errors
/// A rank fails, or somebody interrupts.
pub(crate) fn play(lab: &Lab, starter: &Starter, jobs: &[usize], lengths: Lengths, by: By<'_>, interrupt: &Interrupt) -> Result<Take> {
    let mut ranks = Ranks::start(lab, starter, jobs, by, interrupt)?;
    // The window begins after all ranks are ready, so the time to load PyTorch is not in it.
    let window = Window::soon(lengths);
    ranks.go(Span { start: window.start, until: window.until })?;
    interrupt.sleep_until(window.from)?;
    // A rank that failed in the warm-up is reported now and not after the whole take.
    ranks.check()?;
    let before = lab.counters()?;
    interrupt.sleep_until(window.until)?;
    let after = lab.counters()?;
    // Traces are read after the ranks have ended, because a rank writes its last line when it stops.
    ranks.finish(window.until + END_TIMEOUT_NS, interrupt)?;
    let mut iterations = BTreeMap::new();
    for &job in jobs {
        iterations.insert(job, read_trace(&trace_path(&lab.record().folder(), &lab.case.jobs[job].id))?);
    }
    let since = |of: fn(&Counters, &Counters) -> u64| {
        // Counters run since the lab came up, so a take is the difference of two readings.
        after.iter().map(|(link, c)| (*link, before.get(link).map_or(0, |earlier| of(c, earlier)))).collect::<BTreeMap<_, _>>()
    };
    Ok(Take { window, iterations, marks: since(Counters::marks_since), bytes: since(Counters::bytes_since) })
}

fn read_trace(path: &Path) -> Result<Vec<Iteration>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines: Result<Vec<Iteration>, _> = text.lines().map(serde_json::from_str).collect();
    lines.with_context(|| path.display().to_string())
}

/// Running ranks; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Ranks {
    running: Vec<Running>,
    /// Whether they were told when to start.
    told: bool,
}

#[derive(Debug)]
struct Running {
    name: String,
    child: Child,
    /// The file of its standard output, which holds [`READY`] once the rank waits.
    said: PathBuf,
    complaints: PathBuf,
}

/// Where the ranks of a job stand when a scheduler chose: in rank order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) addresses: Vec<Ipv4Addr>,
    pub(crate) namespaces: Vec<String>,
}

impl Ranks {
    /// Starts the ranks of one job where they are told, and waits until all are ready.
    pub(crate) fn start_at(
        lab: &Lab,
        starter: &Starter,
        job: usize,
        standing: &Standing,
        by: By<'_>,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let mut ranks = Self { running: Vec::new(), told: false };
        starter.prepare(lab, &[job])?;
        let seed = monotonic_ns();
        for (rank, namespace) in standing.namespaces.iter().enumerate() {
            ranks.spawn(lab, starter.command(lab, (job, rank), seed, by, &standing.addresses), (job, rank), namespace)?;
        }
        ranks.ready(interrupt)?;
        Ok(ranks)
    }

    /// Starts the ranks of `jobs` and waits until all are ready.
    pub(crate) fn start(lab: &Lab, starter: &Starter, jobs: &[usize], by: By<'_>, interrupt: &Interrupt) -> Result<Self> {
        let mut ranks = Self { running: Vec::new(), told: false };
        // All files of the last take go before any rank starts: a rank that is early would find the store of its predecessors.
        starter.prepare(lab, jobs)?;
        let seed = monotonic_ns();
        for &job in jobs {
            for rank in 0..lab.case.jobs[job].hosts.len() {
                let command = starter.command(lab, (job, rank), seed, by, &lab.wiring.ranks[job]);
                ranks.spawn(lab, command, (job, rank), lab.namespace(job, rank))?;
            }
        }
        ranks.ready(interrupt)?;
        Ok(ranks)
    }

    /// Waits until all are ready.
    fn ready(&mut self, interrupt: &Interrupt) -> Result<()> {
        let end = monotonic_ns() + READY_TIMEOUT_NS;
        let ready = |running: &Running| fs::read_to_string(&running.said).is_ok_and(|said| said.trim() == READY);
        while !self.running.iter().all(ready) {
            interrupt.check()?;
            self.check()?;
            // `READY_TIMEOUT_NS` bounds the wait; a rank that has failed ends it at once through `check`.
            ensure!(monotonic_ns() < end, "not all ranks are ready after {} s", READY_TIMEOUT_NS / 1_000_000_000);
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn spawn(&mut self, lab: &Lab, mut command: Command, (job, rank): (usize, usize), namespace: &str) -> Result<()> {
        let id = &lab.case.jobs[job].id;
        let file = |end: &str| lab.record().folder().join(format!("{id}.{rank}.{end}"));
        let (said, complaints) = (file("out"), file("err"));
        let create = |path: &Path| fs::File::create(path).with_context(|| path.display().to_string());
        // A Ctrl-C is for the lab, which ends its ranks when it has heard it.
        command.process_group(0).stdin(Stdio::piped()).stdout(create(&said)?).stderr(create(&complaints)?);
        let child = tool::enter(namespace, || Ok(command.spawn()?))?;
        self.running.push(Running { name: format!("rank {rank} of job {id:?}"), child, said, complaints });
        Ok(())
    }

    /// Tells all when to start; their standard input stays open.
    pub(crate) fn go(&mut self, span: Span) -> Result<()> {
        self.told = true;
        for running in &mut self.running {
            let stdin = running.child.stdin.as_mut().context("invariant: ranks are started with a pipe")?;
            stdin.write_all(span.line().as_bytes()).with_context(|| running.name.clone())?;
        }
        Ok(())
    }

    /// Fails when a rank has failed; forgets those that ended well.
    pub(crate) fn check(&mut self) -> Result<()> {
        // All ranks are looked at before an error returns, so that the rest stays in `running` and is killed by the drop.
        let mut left = Vec::new();
        let mut failed = None;
        for mut running in self.running.drain(..) {
            match running.child.try_wait()? {
                None => left.push(running),
                // A rank that ends before it was told to start has failed, whatever its status.
                Some(status) if status.success() && self.told => {}
                Some(status) => failed = failed.or(Some((running.name, status, running.complaints))),
            }
        }
        self.running = left;
        let Some((name, status, complaints)) = failed else { return Ok(()) };
        bail!("{name}: {status}: {}", tool::last_words(&complaints));
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
