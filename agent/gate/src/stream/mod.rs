//! The gate for what a CUDA stream sends (ADR 12).
//!
//! The host of a training job runs ahead of its GPU: it enqueues collectives long before the GPU comes to them, so a host that
//! waits before it enqueues delays nothing, or tells the agent that a job is ready which is not. Here the *stream* waits. A start
//! enqueues two operations: a call, by which the driver tells a thread of this library that the stream has come so far, and a wait for a number
//! in memory. The thread passes the [`Gate`] and then writes the number. Work on other streams goes on.
//!
//! A stream that waits for a number hangs if nobody writes it. So nothing is enqueued unless two threads are alive: one that passes the
//! gate, whose wait is bounded, and one that lets go what the first did not take up within a tenth of a second. A process that is stopped
//! delays its own streams alone, and one that is killed takes them with it (`tests/gpu`).

mod driver;
mod keeper;
mod tickets;

use std::{
    env,
    ffi::c_void,
    fmt,
    sync::{Arc, Mutex, OnceLock},
};

pub use self::driver::{CudaError, HostFunction, Stream};
use self::{
    driver::Driver,
    keeper::Keeper,
    tickets::{Event, Tickets, came},
};
use crate::{clock::now, fork, gate::Gate};

/// How many queues the GPU has for the streams of a process. With one of them a stream that waits stops all others (measured on an H100, ADR 12).
const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// Why nothing was enqueued. The caller goes on as without a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The gate is switched off, or of no job.
    Off,
    /// The process has no CUDA driver, or one from before CUDA 11.7.
    NoDriver,
    /// `CUDA_DEVICE_MAX_CONNECTIONS` is 1: while one stream waits, none goes on.
    OneQueue,
    /// The stream's work is recorded for a graph: replays would wait for a number of the past.
    Capturing,
    /// The threads that let streams go could not be started, or did not look for three seconds.
    Unwatched,
    /// This process is a fork of the one that opened the gate.
    Forked,
    /// As many starts and ends as can be are under way, or another thread enqueues one.
    Busy,
    /// The driver did not take it.
    Driver(CudaError),
}

impl Refusal {
    /// The number of the C interface: 1 and more.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::Off => 1,
            Self::NoDriver => 2,
            Self::OneQueue => 3,
            Self::Capturing => 4,
            Self::Unwatched => 5,
            Self::Forked => 6,
            Self::Busy => 7,
            Self::Driver(_) => 8,
        }
    }

    /// Whether the next call may be taken. After any other no call will be.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::Capturing | Self::Unwatched | Self::Busy)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "the gate is off, or of no job",
            Self::NoDriver => "no CUDA driver in this process, or one from before CUDA 11.7",
            Self::OneQueue => "CUDA_DEVICE_MAX_CONNECTIONS is 1, so no stream would go on while one waits",
            Self::Capturing => "the stream is recorded for a graph",
            Self::Unwatched => "the threads that let streams go did not start, or did not look for three seconds",
            Self::Forked => "this process is a fork of the one that opened the gate",
            Self::Busy => "too many starts and ends are under way",
            Self::Driver(CudaError(code)) => return write!(f, "the CUDA driver answers {code}"),
        })
    }
}

impl From<CudaError> for Refusal {
    fn from(error: CudaError) -> Self {
        Self::Driver(error)
    }
}

/// What it takes to let streams wait.
struct Started {
    driver: Driver,
    tickets: &'static Tickets,
    keeper: Arc<Keeper>,
    /// The last number that was given out.
    number: Mutex<u32>,
    process: u64,
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("keeper", &self.keeper).field("number", &self.number).finish_non_exhaustive()
    }
}

/// Lets streams of this process pass a gate. Threads can share it.
#[derive(Debug)]
pub struct StreamGate {
    gate: Arc<Gate>,
    started: OnceLock<Result<Started, Refusal>>,
}

impl StreamGate {
    /// For that gate. Nothing is started before the first call.
    #[must_use]
    pub const fn new(gate: Arc<Gate>) -> Self {
        Self { gate, started: OnceLock::new() }
    }

    /// The gate itself.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Starts what the first call would start, so that no call allocates or waits for that.
    ///
    /// # Errors
    /// A [`Refusal`], which every call would answer from now on.
    pub fn prepare(&self) -> Result<(), Refusal> {
        self.started().map(drop)
    }

    /// As [`Gate::step_phase`], for what is enqueued into `stream` after this: it starts when the stream has come so far and the job may
    /// start. Returns at once; phase 0 is a whole iteration.
    ///
    /// # Errors
    /// A [`Refusal`]: then nothing waits.
    ///
    /// # Safety
    /// `stream` is a CUDA stream of this thread's context, or null for the default one.
    pub unsafe fn step(&self, stream: Stream, phase: u32) -> Result<(), Refusal> {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(stream, Event::Start(phase)) }
    }

    /// As [`Gate::done`], when `stream` has come so far. Returns at once.
    ///
    /// # Errors
    /// A [`Refusal`]: then this end is not told.
    ///
    /// # Safety
    /// As [`Self::step`].
    pub unsafe fn done(&self, stream: Stream) -> Result<(), Refusal> {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(stream, Event::End) }
    }

    /// Enqueues a call of `function`, for those who want to know when `stream` has come so far. Returns at once; what the stream does next
    /// waits until the function returns. The function must not call the driver.
    ///
    /// # Errors
    /// A [`Refusal`]: then it is not called.
    ///
    /// # Safety
    /// As [`Self::step`]; and `function` may be called with `with` at any time from now on.
    pub unsafe fn tell(&self, stream: Stream, function: HostFunction, with: *mut c_void) -> Result<(), Refusal> {
        let Started { driver, .. } = self.started()?;
        // SAFETY: the caller's promises, for both.
        unsafe {
            if driver.is_capturing(stream)? {
                return Err(Refusal::Capturing);
            }
            Ok(driver.call(stream, function, with)?)
        }
    }

    /// What it takes, in the process that started it.
    fn started(&self) -> Result<&Started, Refusal> {
        let started = self.started.get_or_init(|| self.start()).as_ref().map_err(|&why| why)?;
        // A child has the parent's memory and none of its threads.
        if started.process == fork::generation() { Ok(started) } else { Err(Refusal::Forked) }
    }

    unsafe fn enqueue(&self, stream: Stream, event: Event) -> Result<(), Refusal> {
        let Started { driver, tickets, keeper, number, .. } = self.started()?;
        if !keeper.is_trusted(now()) {
            return Err(Refusal::Unwatched);
        }
        // A lock that another thread has is never waited for (ADR 2). The number's order is that of the enqueued operations.
        let mut last = number.try_lock().map_err(|_| Refusal::Busy)?;
        // SAFETY: the caller's promise.
        if unsafe { driver.is_capturing(stream) }? {
            return Err(Refusal::Capturing);
        }
        let next = last.wrapping_add(1);
        let ticket = tickets.enqueue(next, event).ok_or(Refusal::Busy)?;
        // SAFETY: the caller's promise of the stream; tickets stay for ever.
        if let Err(error) = unsafe { driver.call(stream, came, ticket) } {
            tickets.cancel(next);
            return Err(error.into());
        }
        *last = next;
        if let Event::Start(_) = event {
            // SAFETY: as above.
            let waits = unsafe { driver.wait(stream, tickets.page().0, next) };
            // A start that does not wait asks for no turn either.
            waits.inspect_err(|_| tickets.let_go(next))?;
        }
        Ok(())
    }

    fn start(&self) -> Result<Started, Refusal> {
        if !self.gate.is_on() {
            return Err(Refusal::Off);
        }
        if env::var(QUEUES).is_ok_and(|queues| queues.trim() == "1") {
            return Err(Refusal::OneQueue);
        }
        let driver = Driver::of_this_process().ok_or(Refusal::NoDriver)?;
        let tickets = Tickets::leaked().ok_or(Refusal::Unwatched)?;
        let (page, bytes) = tickets.page();
        // SAFETY: tickets stay for ever.
        unsafe { driver.register(page, bytes) }?;
        let keeper = Keeper::start(Arc::clone(&self.gate), tickets).ok_or(Refusal::Unwatched)?;
        Ok(Started { driver, tickets, keeper, number: Mutex::new(0), process: fork::generation() })
    }
}

impl Drop for StreamGate {
    fn drop(&mut self) {
        // A child that closes its copy lets go nothing of its parent's, whose page it shares.
        if let Some(Ok(Started { tickets, number, process, .. })) = self.started.get()
            && *process == fork::generation()
        {
            // Nobody enqueues any more: there is no other owner.
            let last = number.lock().map_or_else(|poisoned| *poisoned.into_inner(), |last| *last);
            tickets.let_go(last);
            tickets.end();
        }
    }
}
