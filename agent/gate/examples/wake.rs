//! How exactly a gate wakes: the time from the slot until `Gate::step` has returned, what of it came from the sleep and what
//! from the spin, and how busy the machine was meanwhile.
//!
//! `cargo run --release -p antiphase-gate --example wake -- [WAKES] [PERIOD_MS]`
//!
//! - `error`: from the slot until the step has returned.
//! - `undisturbed`: of those wakes in which the kernel neither took the processor from the thread nor let it wait for one.
//! - `overslept`: how late the last sleep before the slot ended; it was to end one spin before the slot.
//! - `by sleep`: what of the error was left when the spin began, because the sleep ended after the slot.
//! - `by spin`: the rest: the last look at the page, the way back, and whoever took the processor from the spin.
//! - `waited for CPU`: how long the thread was ready to run during the hold and was not run (`/proc/thread-self/schedstat`).
//! - `plain sleep`: `thread::sleep` until the same moments, for comparison.

use std::{
    env,
    error::Error,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    thread,
    time::Duration,
};

use antiphase_gate::{Config, Gate, JobName, PageWriter, SPIN_MAX, SPIN_MIN, now};
use gate_core::{Mode, Schedule, Turn};
use units::{Nanos, NodeTime};

/// Starts come to the gate this long after their slot, so that they are held for most of a period.
const WORK: Duration = Duration::from_micros(500);

/// One held start.
struct Wake {
    error: Nanos,
    overslept: Nanos,
    by_sleep: Nanos,
    /// Time ready but not running, in the hold.
    waited: Nanos,
    /// Times that the kernel took the processor away.
    preempted: u64,
    spin: Nanos,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let wakes: usize = args.next().map_or(Ok(2_000), |text| text.parse())?;
    let period = Nanos::from_millis(args.next().map_or(Ok(5), |text| text.parse())?);
    let load_before = load()?;
    let gate = gated(wakes, period)?;
    let load_after = load()?;
    let sleep = slept(wakes, period);
    println!("{wakes} holds, one every {period}; spin between {SPIN_MIN} and {SPIN_MAX}");
    println!("{:16} {:>8} {:>12} {:>12} {:>12} {:>12} {:>12}", "", "count", "p50", "p90", "p99", "p99.9", "max");
    let quiet = || gate.iter().filter(|w| w.preempted == 0 && w.waited.0 == 0);
    row("error", gate.iter().map(|w| w.error));
    row("undisturbed", quiet().map(|w| w.error));
    row("overslept", gate.iter().map(|w| w.overslept));
    row("  undisturbed", quiet().map(|w| w.overslept));
    row("by sleep", gate.iter().map(|w| w.by_sleep));
    row("by spin", gate.iter().map(|w| Nanos(w.error.0 - w.by_sleep.0)));
    row("spin window", gate.iter().map(|w| w.spin));
    row("waited for CPU", gate.iter().map(|w| w.waited));
    row("plain sleep", sleep.into_iter());
    let preempted = gate.iter().filter(|w| w.preempted > 0).count();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    println!("load before {load_before}, after {load_after}, on {cores} cores; {preempted} holds lost the processor at least once");
    Ok(())
}

fn row(name: &str, values: impl Iterator<Item = Nanos>) {
    let mut values: Vec<Nanos> = values.collect();
    values.sort_unstable();
    let at = |permille: usize| {
        let rank = (values.len() * permille).div_ceil(1_000).saturating_sub(1);
        values.get(rank).map_or_else(|| "-".to_owned(), Nanos::to_string)
    };
    let count = values.len();
    println!("{name:16} {count:>8} {:>12} {:>12} {:>12} {:>12} {:>12}", at(500), at(900), at(990), at(999), at(1_000));
}

fn gated(wakes: usize, period: Nanos) -> Result<Vec<Wake>, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let schedule = Schedule {
        mode: Mode::Hold,
        plan_version: 1,
        slot: now(),
        period,
        tolerance: Nanos(0),
        hold_max: period,
        slack: period,
        expires: NodeTime(u64::MAX),
        written: now(),
        stale_after: Nanos(u64::MAX),
        clock_bound: Nanos(0),
        turn: Turn::default(),
    };
    PageWriter::create(directory.path(), "wake")?.write(&schedule);
    let gate = Gate::open(&Config::new(directory.path(), JobName::try_new("wake")?));
    let thread = ThreadStat::open()?;
    let mut out = Vec::with_capacity(wakes);
    while out.len() < wakes {
        thread::sleep(WORK);
        let before = thread.read()?;
        let outcome = gate.step();
        let back = now();
        let after = thread.read()?;
        let wake = gate.wake().ok_or("nobody else is in the gate")?;
        if outcome.held.0 > 0 {
            let error = schedule.phase(back).ok_or("a period of zero")?;
            let slot = NodeTime(back.0 - error.0);
            let overslept = wake.overslept.unwrap_or_default();
            let by_sleep = if wake.overslept.is_some() { wake.awake.since(slot).min(error) } else { Nanos(0) };
            let (waited, preempted) = (Nanos(after.0 - before.0), after.1 - before.1);
            out.push(Wake { error, overslept, by_sleep, waited, preempted, spin: wake.spin });
        } else if outcome.because.is_fail_open() {
            return Err(format!("the gate was open: {}", outcome.because).into());
        }
    }
    Ok(out)
}

fn slept(wakes: usize, period: Nanos) -> Vec<Nanos> {
    let wake = |_| {
        let slot = now().saturating_add(period);
        thread::sleep(Duration::from_nanos(slot.since(now()).0));
        now().since(slot)
    };
    (0..wakes).map(wake).collect()
}

/// The averages of ready processes over 1, 5 and 15 minutes.
fn load() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/loadavg")?.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// What the kernel says of this thread.
struct ThreadStat {
    schedstat: File,
    status: File,
}

impl ThreadStat {
    fn open() -> io::Result<Self> {
        Ok(Self { schedstat: File::open("/proc/thread-self/schedstat")?, status: File::open("/proc/thread-self/status")? })
    }

    /// Nanoseconds ready but not running, and involuntary context switches, both since the thread began.
    fn read(&self) -> Result<(u64, u64), Box<dyn Error>> {
        let schedstat = text(&self.schedstat)?;
        let waited = schedstat.split_whitespace().nth(1).ok_or("schedstat without a second number")?.parse()?;
        let status = text(&self.status)?;
        let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        Ok((waited, line.ok_or("status without context switches")?.trim().parse()?))
    }
}

fn text(file: &File) -> Result<String, Box<dyn Error>> {
    let mut buffer = [0; 4096];
    let length = file.read_at(&mut buffer, 0)?;
    Ok(std::str::from_utf8(&buffer[..length])?.to_owned())
}
