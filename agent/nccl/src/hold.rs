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
    io::Write,
    ptr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
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
/// What was said last.
const NOTHING: u8 = 0;
const UNHELD: u8 = 1;
const HELD: u8 = 2;
/// Most lines that are said: a job whose loops differ finds the same again and again.
const LINES_MAX: u8 = 20;
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
    /// Into which stream another thread has launched since the last call, by its number.
    launched: AtomicUsize,
    /// NCCL tells of launches.
    tells_launches: AtomicBool,
    /// The driver refused for good.
    is_off: AtomicBool,
    /// Whether it was said last that the job is held.
    said: AtomicU8,
    /// How many lines were said.
    lines: AtomicU8,
}

impl Hold {
    /// `None` unless this process leads its job and was asked to: rank 0 by the launcher's variables, else of this communicator.
    pub(crate) fn from_env(config: &Config, rank: i32) -> Option<Self> {
        let asked = std::env::var(SWITCH).is_ok_and(|word| matches!(word.to_ascii_lowercase().as_str(), "on" | "1" | "true" | "yes"));
        (asked && gate::exec::leads().unwrap_or(rank == 0)).then(|| {
            let hold = Self::new(config);
            // Here and not in the first callback, because threads are made. What is refused now is refused for good.
            if let Err(refusal) = hold.streams.prepare() {
                hold.end(format_args!("{refusal}"));
            }
            hold
        })
    }

    fn new(config: &Config) -> Self {
        let times = (0..CALLS_MAX).map(|_| [NONE, NONE].map(AtomicU64::new)).collect::<Box<Times>>();
        Self {
            streams: StreamGate::new(Arc::new(Gate::open(config))),
            calls: Mutex::new(Calls::new()),
            times: Box::leak(times),
            late: Mutex::new(None),
            launched: AtomicUsize::new(0),
            tells_launches: AtomicBool::new(false),
            is_off: AtomicBool::new(false),
            said: AtomicU8::new(NOTHING),
            lines: AtomicU8::new(0),
        }
    }

    /// This NCCL does not tell of calls.
    pub(crate) fn is_too_old(&self) {
        self.end(format_args!("NCCL before 2.28 does not tell of them"));
    }

    /// Nothing is held from now on.
    fn end(&self, why: fmt::Arguments<'_>) {
        if !self.is_off.swap(true, Ordering::Relaxed) {
            self.say(format_args!("the calls of this job are not held: {why}"));
        }
    }

    /// The job called something that will be enqueued into a stream.
    ///
    /// # Safety
    /// `stream` is a CUDA stream of this thread's context, or null for the default one.
    pub(crate) unsafe fn called(&self, what: u64, stream: Stream, is_captured: bool) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        if is_captured {
            // Replays are no calls: what is called beside them says nothing of what the job sends.
            self.end(format_args!("some are recorded for a graph, whose replays nobody tells of"));
            return;
        }
        // What waited for a launch until now was launched before it waited.
        if let Ok(mut late) = self.late.try_lock() {
            *late = None;
            self.launched.store(0, Ordering::Relaxed);
        }
        // Calls of two threads at once are no sequence, and nobody waits for a lock in a callback.
        let Ok(mut calls) = self.calls.try_lock() else { return };
        let place = calls.called(what, stream.addr(), now());
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
        if place == Place::Streams {
            self.say_found(Found::Streams);
        }
        match place {
            // SAFETY: the caller's promise.
            Place::Timed(number) => unsafe { self.time(stream, number, 0) },
            // SAFETY: the caller's promise.
            Place::First | Place::Only => unsafe { self.wait(stream) },
            Place::Any | Place::Waits | Place::Streams | Place::Last => {}
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
        let after = late.take_if(|(of, _)| *of == stream.addr());
        if after.is_none() {
            // The thread that calls may be slower than this one.
            self.launched.store(stream.addr(), Ordering::Relaxed);
        }
        drop(late);
        if let Some((_, after)) = after {
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
        let is_launched = LAUNCHED.get() || !self.tells_launches.load(Ordering::Relaxed) || {
            // A launching thread looks for waiting work under this lock, so one of the two threads sees the other.
            let Ok(mut late) = self.late.try_lock() else { return };
            let is_launched = self.launched.load(Ordering::Relaxed) == stream.addr();
            *late = (!is_launched).then_some((stream.addr(), after));
            is_launched
        };
        if is_launched {
            // SAFETY: the caller's promise.
            unsafe { self.act(stream, after) };
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
        if let Err(refusal) = answer
            && !refusal.passes()
        {
            self.end(format_args!("{refusal}"));
        }
    }

    /// Says what was found, unless it was the last thing that was said.
    fn say_found(&self, found: Found) {
        let is_held = if matches!(found, Found::Begins { .. }) { HELD } else { UNHELD };
        if self.said.swap(is_held, Ordering::Relaxed) == is_held {
            return;
        }
        match found {
            Found::Begins { calls, silence } => {
                let ms = silence.0 / 1_000_000;
                self.say(format_args!(
                    "collectives of an iteration: {calls}; the job waits for its turn after a silence of {ms} ms or more"
                ));
            }
            Found::NoSilence { calls } => {
                self.say(format_args!("collectives of an iteration: {calls}; none follows a silence, so the job is not held"));
            }
            Found::Streams => self.say(format_args!("collectives come on several streams, so the job is not held")),
        }
    }

    /// One line on standard error, where NCCL and the Python package say theirs; a job that changes again and again says it a few times.
    fn say(&self, what: fmt::Arguments<'_>) {
        if self.lines.fetch_add(1, Ordering::Relaxed) >= LINES_MAX {
            self.lines.store(LINES_MAX, Ordering::Relaxed);
            return;
        }
        let mut line = [0; LINE_MAX];
        let mut rest = line.as_mut_slice();
        // A line that is too long is cut.
        let _ = rest.write_fmt(format_args!("antiphase: {what}\n"));
        let left = rest.len();
        if let Some(text) = line.get_mut(..LINE_MAX - left) {
            if let Some(last) = text.last_mut().filter(|_| left == 0) {
                *last = b'\n';
            }
            gate::complain(text);
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
