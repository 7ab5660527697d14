//! The C interface: `include/antiphase_gate.h` has the same declarations, and a test compares the two.
//!
//! No panic leaves a function, and every pointer may be null: a call that makes no sense lets the job go.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    ptr,
    sync::Arc,
};

use gate_core::{Reason, StepOutcome};

use crate::{
    Config, Gate, JobName,
    stream::{Refusal, Stream, StreamGate},
};

/// Version of this interface: raised when a caller must be compiled anew.
pub const ABI: u32 = 1;

/// `outcome`: the start went at once.
const WENT: i32 = 0;
/// The start was held for its slot or its turn.
const HELD: i32 = 1;
/// The start had missed its slot and was held for the next.
const SLIPPED: i32 = 2;
/// The start went because the plan could not be trusted or followed.
const FAIL_OPEN: i32 = 3;

/// Stands for a start without a lateness.
const NO_LATENESS: i64 = i64::MIN;

/// `antiphase_step` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Step {
    outcome: i32,
    reason: i32,
    held_ns: u64,
    late_ns: i64,
    start_ns: u64,
    plan_version: u64,
}

impl Step {
    fn new(outcome: &StepOutcome) -> Self {
        let word = match outcome {
            // Fail-open stands first: a hold that a bad page ended was a hold, and the caller has to hear of the page.
            outcome if outcome.because.is_fail_open() => FAIL_OPEN,
            outcome if outcome.slip => SLIPPED,
            outcome if outcome.held.0 > 0 => HELD,
            _ => WENT,
        };
        Self {
            outcome: word,
            reason: i32::from(outcome.because.code()),
            held_ns: outcome.held.0,
            late_ns: outcome.late.unwrap_or(NO_LATENESS),
            start_ns: outcome.start.0,
            plan_version: outcome.plan_version,
        }
    }

    /// The step of a call that could not be made.
    const fn failed() -> Self {
        Self { outcome: FAIL_OPEN, reason: Reason::Internal as i32, held_ns: 0, late_ns: NO_LATENESS, start_ns: 0, plan_version: 0 }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn set_error(text: &str) {
    // A zero byte would end the text early in C, and `CString::new` refuses one.
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has no thread-local storage left, and asks for no error.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
}

/// A C string as text: `Ok(None)` for null.
///
/// # Safety
/// `text` is null or points to a string that ends in a zero byte and does not change during the call.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, String> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller promises the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| format!("{what} {text:?} is not UTF-8"))
}

/// # Safety
/// As for [`antiphase_gate_open`].
unsafe fn open(job: *const c_char, directory: *const c_char) -> Result<StreamGate, String> {
    // SAFETY: the caller's promise, for both.
    let (job, directory) = unsafe { (text(job, "job name")?, text(directory, "directory")?) };
    let mut config = match job {
        // A caller who gives a name does not care about a bad one in the environment.
        Some(job) => {
            let job = JobName::try_new(job).map_err(|error| error.to_string())?;
            Config { job: Some(job), ..Config::from_env_without_job() }
        }
        None => Config::from_env().map_err(|error| format!("ANTIPHASE_JOB: {error}"))?,
    };
    if let Some(directory) = directory {
        config.directory = PathBuf::from(directory);
    }
    Ok(StreamGate::new(Arc::new(Gate::open(&config))))
}

/// Opens the gate of `job`, or of `ANTIPHASE_JOB` if null, in `directory`, or `ANTIPHASE_DIR` if null, or the default.
/// Null for a name that no job can have, for a directory that is no text in UTF-8, or after a defect of the library;
/// [`antiphase_gate_last_error`] says which.
///
/// # Safety
/// Each pointer is null or points to a string that ends in a zero byte and does not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphase_gate_open(job: *const c_char, directory: *const c_char) -> *mut StreamGate {
    // SAFETY: the caller's promise.
    // A panic that left an `extern "C"` function would abort the job; here it ends as null, which every other call accepts.
    let opened = catch_unwind(|| unsafe { open(job, directory) });
    match opened.unwrap_or_else(|_| Err("the gate met a defect of its own".to_owned())) {
        Ok(gate) => Box::into_raw(Box::new(gate)),
        Err(error) => {
            set_error(&error);
            ptr::null_mut()
        }
    }
}

/// Waits for the slot if the job is early, or for its turn, writes what happened to `step` unless null, and returns its `outcome`.
///
/// # Safety
/// `gate` is null or comes from [`antiphase_gate_open`] and is not closed before this returns; `step` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphase_gate_step(gate: *const StreamGate, step: *mut Step) -> i32 {
    // SAFETY: the promises are the same.
    unsafe { antiphase_gate_step_phase(gate, 0, step) }
}

/// As [`antiphase_gate_step`], for one Up phase of an iteration, counted from 1; 0 is the whole iteration.
///
/// # Safety
/// As [`antiphase_gate_step`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphase_gate_step_phase(gate: *const StreamGate, phase: u32, step: *mut Step) -> i32 {
    // SAFETY: null or a gate that lives, by the caller's promise; gates are shared by threads.
    let gate = unsafe { gate.as_ref() };
    // `Gate::step` catches its own panics and marks the gate as broken; this second net is for what is outside of that.
    let went = || gate.map_or_else(Step::failed, |gate| Step::new(&gate.gate().step_phase(phase.into())));
    let done = catch_unwind(AssertUnwindSafe(went));
    let done = done.unwrap_or_else(|_| Step::failed());
    if !step.is_null() {
        // SAFETY: not null, so it may be written; `write` does not ask for it to be initialised.
        unsafe { step.write(done) };
    }
    done.outcome
}

/// Says that what the last start sent has been sent.
///
/// # Safety
/// `gate` is null or comes from [`antiphase_gate_open`] and is not closed before this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphase_gate_done(gate: *const StreamGate) {
    // SAFETY: as in `antiphase_gate_step`.
    let gate = unsafe { gate.as_ref() };
    let _ = catch_unwind(AssertUnwindSafe(|| gate.map(|gate| gate.gate().done())));
}

/// The number of what a call in a stream answered.
///
/// # Safety
/// As [`antiphase_gate_step_in_stream`].
unsafe fn in_stream(gate: *const StreamGate, call: impl FnOnce(&StreamGate) -> Result<(), Refusal>) -> i32 {
    // SAFETY: null or a gate that lives, by the caller's promise; gates are shared by threads.
    let gate = unsafe { gate.as_ref() };
    let called = catch_unwind(AssertUnwindSafe(|| gate.map_or(Err(Refusal::Off), call)));
    called.map_or(Refusal::Unwatched.code(), |answer| answer.map_or_else(Refusal::code, |()| 0))
}

/// As [`antiphase_gate_step_phase`], for what is enqueued into a CUDA stream after this; returns at once. 0, or why nothing waits.
///
/// # Safety
/// `gate` is null or comes from [`antiphase_gate_open`] and is not closed before this returns; `stream` is a CUDA stream of this thread's
/// context, or null for the default one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphase_gate_step_in_stream(gate: *const StreamGate, stream: Stream, phase: u32) -> i32 {
    // SAFETY: the promises are the same.
    unsafe { in_stream(gate, |gate| gate.step(stream, phase)) }
}

/// As [`antiphase_gate_done`], when a CUDA stream has come so far; returns at once. 0, or why the end is not told.
///
/// # Safety
/// As [`antiphase_gate_step_in_stream`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphase_gate_done_in_stream(gate: *const StreamGate, stream: Stream) -> i32 {
    // SAFETY: the promises are the same.
    unsafe { in_stream(gate, |gate| gate.done(stream)) }
}

/// Writes the report of what the gate did now, and not with the next start.
///
/// # Safety
/// `gate` is null or comes from [`antiphase_gate_open`] and is not closed before this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphase_gate_flush(gate: *const StreamGate) {
    // SAFETY: as in `antiphase_gate_step`.
    let gate = unsafe { gate.as_ref() };
    let _ = catch_unwind(AssertUnwindSafe(|| gate.map(|gate| gate.gate().flush())));
}

/// Closes a gate.
///
/// # Safety
/// `gate` is null or comes from [`antiphase_gate_open`], was not closed, and no thread is in a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn antiphase_gate_close(gate: *mut StreamGate) {
    if !gate.is_null() {
        // SAFETY: it came from `Box::into_raw`, and the caller gives it back once.
        let gate = unsafe { Box::from_raw(gate) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(gate)));
    }
}

/// Why the last call of this thread that failed did; empty before that. Valid until the thread's next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn antiphase_gate_last_error() -> *const c_char {
    // The text of a thread that is ending is gone; a static string stays valid for whoever still reads.
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The word for a reason; an empty string for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn antiphase_gate_reason(reason: i32) -> *const c_char {
    let known = u8::try_from(reason).ok().and_then(Reason::from_code);
    known.map_or(c"", c_word).as_ptr()
}

/// [`Reason::word`] with a zero byte; a test compares the two.
const fn c_word(reason: Reason) -> &'static CStr {
    match reason {
        Reason::OnTime => c"on-time",
        Reason::NotHeld => c"not-held",
        Reason::Off => c"off",
        Reason::Busy => c"busy",
        Reason::NoPage => c"no-page",
        Reason::Unreadable => c"unreadable",
        Reason::Layout => c"layout",
        Reason::Torn => c"torn",
        Reason::Stale => c"stale",
        Reason::Expired => c"expired",
        Reason::ClockBound => c"clock-bound",
        Reason::ClockStep => c"clock-step",
        Reason::Malformed => c"malformed",
        Reason::HoldTooLong => c"hold-too-long",
        Reason::Internal => c"internal",
        Reason::Granted => c"granted",
        Reason::NotBefore => c"not-before",
        Reason::Unheard => c"unheard",
        // `Reason` may grow in its crate; a test compares all words and fails when one is missing here.
        _ => c"",
    }
}

/// The version of the library, as `major.minor.patch`.
#[unsafe(no_mangle)]
pub extern "C" fn antiphase_gate_version() -> *const c_char {
    // The literal is static and ends in a zero byte, so C may keep the pointer for ever.
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The version of this interface; a caller compares it with `ANTIPHASE_GATE_ABI`.
#[unsafe(no_mangle)]
pub extern "C" fn antiphase_gate_abi() -> u32 {
    ABI
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, size_of};

    use super::*;
    use crate::stream::CudaError;

    const HEADER: &str = include_str!("../include/antiphase_gate.h");

    #[test]
    fn words_of_reasons_are_those_of_the_core() {
        for &reason in Reason::ALL {
            assert_eq!(c_word(reason).to_str(), Ok(reason.word()));
        }
    }

    /// The numbers in the header are those of the code.
    #[test]
    fn the_header_agrees() {
        let defined = |name: &str| {
            let begin = format!("#define {name} ");
            let line = HEADER.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no {name} in the header"));
            line[begin.len()..].split_whitespace().next().unwrap().parse::<i64>().unwrap()
        };
        for &reason in Reason::ALL {
            let name = format!("ANTIPHASE_REASON_{}", reason.word().replace('-', "_").to_uppercase());
            assert_eq!(defined(&name), i64::from(reason.code()));
        }
        assert_eq!(HEADER.matches("#define ANTIPHASE_REASON_").count(), Reason::COUNT);
        let outcomes = [("WENT", WENT), ("HELD", HELD), ("SLIPPED", SLIPPED), ("FAIL_OPEN", FAIL_OPEN)];
        for (name, code) in outcomes {
            assert_eq!(defined(&format!("ANTIPHASE_{name}")), i64::from(code));
        }
        let refusals = [
            ("OFF", Refusal::Off),
            ("NO_DRIVER", Refusal::NoDriver),
            ("ONE_QUEUE", Refusal::OneQueue),
            ("CAPTURING", Refusal::Capturing),
            ("UNWATCHED", Refusal::Unwatched),
            ("FORKED", Refusal::Forked),
            ("BUSY", Refusal::Busy),
            ("REFUSED", Refusal::Driver(CudaError(999))),
        ];
        for (name, refusal) in refusals {
            assert_eq!(defined(&format!("ANTIPHASE_STREAM_{name}")), i64::from(refusal.code()));
        }
        assert_eq!(HEADER.matches("#define ANTIPHASE_STREAM_").count(), refusals.len());
        assert_eq!(defined("ANTIPHASE_GATE_ABI"), i64::from(ABI));
        assert_eq!((size_of::<Step>(), align_of::<Step>()), (40, 8));
    }

    #[test]
    fn null_and_nonsense_let_the_job_go() {
        // SAFETY: null is allowed everywhere, and the strings end in zero bytes.
        unsafe {
            assert_eq!(antiphase_gate_step(ptr::null(), ptr::null_mut()), FAIL_OPEN);
            antiphase_gate_done(ptr::null());
            assert_eq!(antiphase_gate_step_in_stream(ptr::null(), ptr::null_mut(), 0), Refusal::Off.code());
            assert_eq!(antiphase_gate_done_in_stream(ptr::null(), ptr::null_mut()), Refusal::Off.code());
            antiphase_gate_flush(ptr::null());
            antiphase_gate_close(ptr::null_mut());
            assert!(antiphase_gate_open(c"a/b".as_ptr(), ptr::null()).is_null());
            let error = CStr::from_ptr(antiphase_gate_last_error()).to_str().unwrap();
            assert!(error.starts_with("job name \"a/b\""), "{error}");
            assert!(antiphase_gate_open(c"\xff".as_ptr(), ptr::null()).is_null());
            assert_eq!(CStr::from_ptr(antiphase_gate_reason(-1)), c"");
            assert_eq!(CStr::from_ptr(antiphase_gate_reason(8)), c"stale");
            assert_eq!(CStr::from_ptr(antiphase_gate_reason(17)), c"unheard");
        }
    }
}
