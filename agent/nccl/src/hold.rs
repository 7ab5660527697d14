//! The gate of a job that has no line for it: before the first call of an iteration its stream waits, and after the last one the end is told
//! (ADR 13).
//!
//! NCCL tells of a call in the thread that makes it, before anything is enqueued, and of the end of a group of calls; a single call is a group too.
//! Communicators that block have enqueued all of it by then; for others a thread of NCCL's own does so later, and tells of the launch. What waits is
//! what the call enqueues, and the host goes on. Whatever is unusual - a graph that is recorded, calls of two threads at once, a driver that
//! refuses - nothing waits.

use std::{
    cell::Cell,
    ffi::c_void,
    fmt,
    io::{self, Write},
    ptr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};

use gate::{
    Config, Gate, now,
    stream::{Refusal, Stream, StreamGate},
};

use crate::iteration::{CALLS_MAX, Calls, Found, Place, Span};

/// Variable by which a job asks that its calls be held.
pub(crate) const SWITCH: &str = "ANTIPHASE_NCCL_GATE";

/// A start is that of a whole iteration, not of one of its phases.
const ITERATION: u32 = 0;
/// The longest line that is said.
const LINE_MAX: usize = 200;
/// A time that was asked for and has not come.
const UNDER_WAY: u64 = 1;
/// No time was asked for.
const NONE: u64 = 0;

/// What is to be done when the calls of a group are enqueued.
#[derive(Clone, Copy, Debug)]
enum After {
    /// Take the time, under this number.
    Time(usize),
    /// Tell the end of the iteration.
    End,
}

thread_local! {
    /// Of the group that this thread is in, with the stream of the call.
    static AFTER: Cell<Option<(Stream, After)>> = const { Cell::new(None) };
    /// This thread launched a kernel since.
    static LAUNCHED: Cell<bool> = const { Cell::new(false) };
    /// Into which stream this thread launches.
    static INTO: Cell<Stream> = const { Cell::new(ptr::null_mut()) };
}

/// When the calls of some iterations began and ended. Lives as long as the process, because the driver may come to it at any time.
type Times = [[AtomicU64; 2]];

/// Holds the calls of this process.
#[derive(Debug)]
pub(crate) struct Hold {
    streams: StreamGate,
    calls: Mutex<Calls>,
    times: &'static Times,
    /// What is to be done when another thread has launched: a stream by its number.
    late: Mutex<Option<(usize, After)>>,
    /// NCCL tells of launches.
    tells_launches: AtomicBool,
    /// The driver refused for good.
    is_off: AtomicBool,
    /// 1 once it was said that nothing stands out, 2 once it was said what is held.
    said: AtomicU8,
}

impl Hold {
    /// `None` unless this process leads its job and was asked to.
    pub(crate) fn from_env(config: &Config) -> Option<Self> {
        let asked = std::env::var(SWITCH).is_ok_and(|word| matches!(word.to_ascii_lowercase().as_str(), "on" | "1" | "true" | "yes"));
        (asked && gate::exec::leads()).then(|| Self::new(config))
    }

    fn new(config: &Config) -> Self {
        let times = (0..CALLS_MAX).map(|_| [NONE, NONE].map(AtomicU64::new)).collect::<Box<Times>>();
        Self {
            streams: StreamGate::new(Arc::new(Gate::open(config))),
            calls: Mutex::new(Calls::new()),
            times: Box::leak(times),
            late: Mutex::new(None),
            tells_launches: AtomicBool::new(false),
            is_off: AtomicBool::new(false),
            said: AtomicU8::new(0),
        }
    }

    /// This NCCL does not tell of calls.
    pub(crate) fn is_too_old(&self) {
        if !self.is_off.swap(true, Ordering::Relaxed) {
            say(format_args!("the calls of this job are not held: NCCL before 2.28 does not tell of them"));
        }
    }

    /// The job called something that will be enqueued into a stream.
    ///
    /// # Safety
    /// `stream` is a CUDA stream of this thread's context, or null for the default one.
    pub(crate) unsafe fn called(&self, what: u64, stream: Stream, is_captured: bool) {
        if is_captured || self.is_off.load(Ordering::Relaxed) {
            return;
        }
        // Calls of two threads at once are no sequence, and nobody waits for a lock in a callback.
        let Ok(mut calls) = self.calls.try_lock() else { return };
        let place = calls.called(what, now());
        if place == Place::Timed(0) {
            // Times of an earlier try that are still to come would be taken for those of this one.
            if !self.have_come() {
                calls.begin_anew();
                return;
            }
            self.forget();
        }
        let found = if place == Place::Waits && self.have_come() { calls.decide(|number| self.span(number)) } else { None };
        drop(calls);
        if let Some(found) = found {
            self.forget();
            self.say_found(found);
        }
        match place {
            // SAFETY: the caller's promise.
            Place::Timed(number) => unsafe { self.time(stream, number, 0) },
            // SAFETY: the caller's promise.
            Place::First | Place::Only => unsafe { self.wait(stream) },
            Place::Any | Place::Waits | Place::Last => {}
        }
        let after = match place {
            Place::Timed(number) => After::Time(number),
            Place::Last | Place::Only => After::End,
            _ => return,
        };
        // The end of an iteration is not lost where a group has more calls.
        if !matches!(AFTER.get(), Some((_, After::End))) {
            AFTER.set(Some((stream, after)));
            LAUNCHED.set(false);
        }
    }

    /// This thread launches a kernel.
    pub(crate) fn launches(&self, stream: Stream) {
        self.tells_launches.store(true, Ordering::Relaxed);
        INTO.set(stream);
    }

    /// The kernel that this thread launches is enqueued.
    ///
    /// # Safety
    /// The stream of [`Self::launches`] is still there.
    pub(crate) unsafe fn launched(&self) {
        LAUNCHED.set(true);
        if AFTER.get().is_some() {
            // There may be more kernels in the group.
            return;
        }
        let stream = INTO.get();
        let Ok(mut late) = self.late.try_lock() else { return };
        if let Some((_, after)) = late.take_if(|(of, _)| *of == stream.addr()) {
            drop(late);
            // SAFETY: the caller's promise.
            unsafe { self.act(stream, after) };
        }
    }

    /// This thread has called a group.
    ///
    /// # Safety
    /// The streams of this thread's calls are still there.
    pub(crate) unsafe fn called_all(&self) {
        let Some((stream, after)) = AFTER.take() else { return };
        if LAUNCHED.get() || !self.tells_launches.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise.
            unsafe { self.act(stream, after) };
        } else if let Ok(mut late) = self.late.try_lock() {
            *late = Some((stream.addr(), after));
        }
    }

    /// # Safety
    /// As [`Self::called`].
    unsafe fn act(&self, stream: Stream, after: After) {
        match after {
            // SAFETY: the caller's promise.
            After::Time(number) => unsafe { self.time(stream, number, 1) },
            After::End => {
                // SAFETY: the caller's promise.
                let told = unsafe { self.streams.done(stream) };
                self.heed(told);
            }
        }
    }

    /// # Safety
    /// As [`Self::called`].
    unsafe fn wait(&self, stream: Stream) {
        // SAFETY: the caller's promise.
        let waits = unsafe { self.streams.step(stream, ITERATION) };
        self.heed(waits);
    }

    /// # Safety
    /// As [`Self::called`].
    unsafe fn time(&self, stream: Stream, number: usize, side: usize) {
        let Some(time) = self.times.get(number).and_then(|sides| sides.get(side)) else { return };
        time.store(UNDER_WAY, Ordering::Relaxed);
        // SAFETY: the caller's promise of the stream; times stay for ever.
        let taken = unsafe { self.streams.tell(stream, came, ptr::from_ref(time).cast_mut().cast()) };
        if taken.is_err() {
            time.store(NONE, Ordering::Relaxed);
        }
        self.heed(taken);
    }

    /// A refusal that does not pass ends all further tries.
    fn heed(&self, answer: Result<(), Refusal>) {
        let Err(refusal) = answer else { return };
        if !refusal.passes() && !self.is_off.swap(true, Ordering::Relaxed) {
            say(format_args!("the calls of this job are not held: {refusal}"));
        }
    }

    /// Says what was found: the first time, and when a job that could not be held can be.
    fn say_found(&self, found: Found) {
        let Found { calls, first, silence } = found;
        let ms = silence.0 / 1_000_000;
        if self.said.swap(1 + u8::from(first.is_some()), Ordering::Relaxed) > u8::from(first.is_some()) {
            return;
        }
        match first {
            Some(first) => {
                let place = first + 1;
                say(format_args!(
                    "an iteration has {calls} calls; of those in the order seen number {place} waits for its turn, after {ms} ms of silence"
                ));
            }
            None => say(format_args!("an iteration has {calls} calls, of which none stands out by a silence; nothing is held")),
        }
    }

    /// Whether all times that were asked for are there.
    fn have_come(&self) -> bool {
        self.times.iter().flatten().all(|time| time.load(Ordering::Relaxed) != UNDER_WAY)
    }

    fn span(&self, number: usize) -> Span {
        let side = |side: usize| self.times.get(number).and_then(|sides| sides.get(side)).map_or(NONE, |time| time.load(Ordering::Relaxed));
        Span { begin: side(0), end: side(1) }
    }

    fn forget(&self) {
        self.times.iter().flatten().for_each(|time| time.store(NONE, Ordering::Relaxed));
    }
}

/// One line on standard error, where NCCL and the Python package say theirs. Allocates nothing; whether anybody reads it is not waited for.
fn say(what: fmt::Arguments<'_>) {
    let mut line = [0; LINE_MAX];
    let mut rest = line.as_mut_slice();
    // A line that is too long is cut.
    let _ = rest.write_fmt(format_args!("antiphase: {what}\n"));
    let left = rest.len();
    if let Some(text) = line.get_mut(..LINE_MAX - left) {
        if let Some(last) = text.last_mut().filter(|_| left == 0) {
            *last = b'\n';
        }
        let _ = io::stderr().write_all(text);
    }
}

/// The stream has come to a call whose time is wanted.
///
/// # Safety
/// `time` is one of [`Times`].
unsafe extern "C" fn came(time: *mut c_void) {
    // SAFETY: the caller's promise; times stay for ever.
    if let Some(time) = unsafe { time.cast::<AtomicU64>().as_ref() } {
        time.store(now().0.max(UNDER_WAY + 1), Ordering::Relaxed);
    }
}
