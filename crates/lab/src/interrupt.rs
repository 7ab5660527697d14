//! Ctrl-C, SIGTERM and the end of the terminal as a flag, so that a lab is taken down before its process ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::rank::monotonic_ns;

/// How often a wait looks at the flag.
const POLL: Duration = Duration::from_millis(20);

/// Set once somebody asked the process to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for the signals from now on.
    ///
    /// # Errors
    /// The kernel refuses a thread or a handler.
    pub fn listen() -> Result<Self> {
        let flag = Self::default();
        let set = flag.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut terminate, mut hang_up) = {
            // `signal` wants to be called inside a runtime; called here, both handlers are in place before the thread begins.
            let _inside = runtime.enter();
            // A user who started this with nohup wants it to go on.
            let hang_up = if ignores_hang_up() { None } else { Some(signal(SignalKind::hangup())?) };
            (signal(SignalKind::terminate())?, hang_up)
        };
        thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async {
                let hung_up = async {
                    match &mut hang_up {
                        Some(signal) => signal.recv().await,
                        // A branch that never completes stands for the signal that nobody listens to.
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminate.recv() => {}
                    _ = hung_up => {}
                }
            });
            // The flag guards no other data. The first signal ends the thread; later ones change nothing.
            set.0.store(true, Ordering::Relaxed);
        })?;
        Ok(flag)
    }

    /// Whether somebody asked.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails once the flag is set.
    ///
    /// # Errors
    /// The flag is set.
    pub fn check(&self) -> Result<()> {
        if self.asked() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// Sleeps until a time of CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The flag is set meanwhile.
    pub fn sleep_until(&self, at: u64) -> Result<()> {
        loop {
            self.check()?;
            let left = at.saturating_sub(monotonic_ns());
            if left == 0 {
                return Ok(());
            }
            // Short sleeps bound the reaction to a signal by `POLL`.
            thread::sleep(POLL.min(Duration::from_nanos(left)));
        }
    }
}

/// Whether this process was started to ignore SIGHUP: the first bit of what the kernel lists (proc(5)).
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
