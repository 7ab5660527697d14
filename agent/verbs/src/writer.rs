//! What `antiphase-verbs write` does: iterations of writes, each through the gate.

use std::{
    thread,
    time::{Duration, Instant},
};

use gate::Gate;
use serde::Serialize;

use crate::{device::VerbsError, queue::Endpoint};

/// Nothing completes for so long: all repeats of a message take half of it.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What a writer does.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of one iteration.
    pub bytes: u64,
    /// Pause between the end of one iteration and the next one: where a job would compute.
    pub compute: Duration,
    /// No more iterations than that.
    pub iterations: u64,
    /// No iteration begins after that.
    pub until: Option<Instant>,
}

/// One iteration; times are of CLOCK_MONOTONIC, in ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IterationRecord {
    /// Number, from 0.
    pub iteration: u64,
    /// Ready to send, before the gate.
    pub ready_ns: u64,
    /// Past the gate.
    pub start_ns: u64,
    /// All is acknowledged.
    pub end_ns: u64,
    /// What was sent.
    pub bytes: u64,
    /// Why the gate let it go: docs/schedule-page.md has the words.
    pub gate: String,
    /// For how long the gate held it, in ns.
    pub held_ns: u64,
}

/// Writes; `tell` ends it by an error.
///
/// # Errors
/// [`VerbsError`] of a write, and what `tell` returns.
pub fn run<E: From<VerbsError>>(
    endpoint: &mut Endpoint,
    gate: &Gate,
    options: &Options,
    mut tell: impl FnMut(&IterationRecord) -> Result<(), E>,
) -> Result<(), E> {
    for iteration in 0..options.iterations {
        if options.until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let ready_ns = gate::now().0;
        let outcome = gate.step();
        let start_ns = gate::now().0;
        endpoint.write(options.bytes, SILENCE_MAX)?;
        let end_ns = gate::now().0;
        gate.done();
        let (gate, held_ns) = (outcome.because.to_string(), outcome.held.0);
        tell(&IterationRecord { iteration, ready_ns, start_ns, end_ns, bytes: options.bytes, gate, held_ns })?;
        // From the end of what was sent: what the line costs is no part of the pause.
        thread::sleep(options.compute.saturating_sub(Duration::from_nanos(gate::now().0.saturating_sub(end_ns))));
    }
    Ok(())
}
