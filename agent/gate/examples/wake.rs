//! How exactly a gate wakes: the time from the slot until `Gate::step` has returned.
//!
//! `cargo run --release -p antiphase-gate --example wake -- [WAKES] [PERIOD_MS]`
//!
//! The row "sleep" is a plain `thread::sleep` until the same moments, for comparison. A machine with other work shows its
//! scheduler's delays in the upper percentiles; they are not the timer's.

use std::{env, error::Error, thread, time::Duration};

use antiphase_gate::{Config, Gate, JobName, PageWriter, now};
use gate_core::{Mode, Schedule};
use units::{Nanos, NodeTime};

/// Starts come to the gate this long after their slot, so that they are held for most of a period.
const WORK: Duration = Duration::from_micros(500);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let wakes: usize = args.next().map_or(Ok(1_000), |text| text.parse())?;
    let period = Nanos::from_millis(args.next().map_or(Ok(5), |text| text.parse())?);
    let gate = gated(wakes, period)?;
    let sleep = slept(wakes, period);
    println!("{wakes} wakes, one every {period}; time after the slot");
    println!("{:8} {:>12} {:>12} {:>12} {:>12} {:>12}", "wait", "p50", "p90", "p99", "p99.9", "max");
    for (name, mut errors) in [("gate", gate), ("sleep", sleep)] {
        errors.sort_unstable();
        let at = |permille: usize| errors[(errors.len() * permille).div_ceil(1_000).saturating_sub(1)].to_string();
        println!("{name:8} {:>12} {:>12} {:>12} {:>12} {:>12}", at(500), at(900), at(990), at(999), at(1_000));
    }
    Ok(())
}

fn gated(wakes: usize, period: Nanos) -> Result<Vec<Nanos>, Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let schedule = Schedule {
        mode: Mode::Hold,
        epoch: 1,
        slot: now(),
        period,
        tolerance: Nanos(0),
        hold_max: period,
        slack: period,
        expires: NodeTime(u64::MAX),
        written: now(),
        stale_after: Nanos(u64::MAX),
        clock_bound: Nanos(0),
    };
    PageWriter::create(directory.path(), "wake")?.write(&schedule);
    let gate = Gate::open(&Config::new(directory.path(), JobName::try_new("wake")?));
    let mut errors = Vec::with_capacity(wakes);
    while errors.len() < wakes {
        thread::sleep(WORK);
        let outcome = gate.step();
        let error = schedule.phase(now()).ok_or("a period of zero")?;
        if outcome.held.0 > 0 {
            errors.push(error);
        } else if outcome.because.is_fail_open() {
            return Err(format!("the gate was open: {}", outcome.because).into());
        }
    }
    Ok(errors)
}

fn slept(wakes: usize, period: Nanos) -> Vec<Nanos> {
    let wake = |_| {
        let slot = now().saturating_add(period);
        thread::sleep(Duration::from_nanos(slot.since(now()).0));
        now().since(slot)
    };
    (0..wakes).map(wake).collect()
}
