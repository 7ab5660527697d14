//! The functions that NCCL calls, and the tables in which it finds them.
//!
//! No panic leaves a function, every pointer may be null, and every result is success: a job does not fail because it is observed.

use std::{
    ffi::{c_char, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

use crate::{
    abi::{
        ACTIVATION, DescriptorV1, DescriptorV2, DescriptorV3, DescriptorV4, DescriptorV5, Event, GROUP_CALL, InitV1, InitV4, InitV5,
        LAUNCH, OPERATION, Profiler, SUCCESS,
    },
    flight::{self, GROUP, OBSERVED},
    observer::Observer,
};

/// One for all communicators of the process: they share the network, and the agent wants to know when it is free.
static OBSERVER: OnceLock<Option<Observer>> = OnceLock::new();

const NAME: &[c_char; 10] = &{
    let mut name = [0; 10];
    let (letters, mut at) = (*b"Antiphase", 0);
    while at < letters.len() {
        name[at] = letters[at].cast_signed();
        at += 1;
    }
    name
};

fn observer() -> Option<&'static Observer> {
    // One load; whoever makes it is in `begin`, and others see none until then.
    OBSERVER.get().and_then(Option::as_ref)
}

/// The bits of a context: it is none of nothing, and its communicator is of several hosts.
const CONTEXT: u64 = 1;
const BETWEEN_HOSTS: u64 = 2;

/// Whether a communicator is of several hosts, so that its calls use the network.
fn between_hosts(context: *mut c_void) -> bool {
    context.addr() as u64 & BETWEEN_HOSTS != 0
}

/// A communicator begins. Its context is a number of it and no address, so that a context of another process does no harm.
///
/// # Safety
/// Each pointer is null or may be written.
unsafe fn begin(context: *mut *mut c_void, activation: *mut c_int, communicator: u64, (hosts, rank): (c_int, c_int)) -> c_int {
    let opened = |observer: &&Observer| {
        observer.opened();
        if hosts > 1 {
            observer.spans_hosts(rank);
        }
    };
    let made = catch_unwind(|| OBSERVER.get_or_init(Observer::from_env).as_ref().inspect(opened).is_some());
    if !context.is_null() {
        let hosts = if hosts > 1 { BETWEEN_HOSTS } else { 0 };
        // SAFETY: not null, so it may be written.
        unsafe { context.write(number(communicator & !(CONTEXT | BETWEEN_HOSTS) | CONTEXT | hosts)) };
    }
    if !activation.is_null() {
        // SAFETY: not null, so it may be written. A process that nobody observes is asked for nothing.
        unsafe { activation.write(if made.unwrap_or(false) { activation_of(observer()) } else { 0 }) };
    }
    SUCCESS
}

/// What is asked for: launches cost the thread that makes them a callback each, so only where calls are held.
fn activation_of(observer: Option<&Observer>) -> c_int {
    let holds = observer.is_some_and(|observer| observer.hold().is_some());
    ACTIVATION | if holds { LAUNCH as c_int } else { 0 }
}

/// A version of the interface that tells of no calls.
fn before_calls() -> c_int {
    if let Some(hold) = observer().and_then(Observer::hold) {
        let _ = catch_unwind(AssertUnwindSafe(|| hold.is_too_old()));
    }
    SUCCESS
}

const fn number(number: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(number as usize)
}

/// # Safety
/// As NCCL calls it: each pointer is null or may be written.
unsafe extern "C" fn init_v1(context: *mut *mut c_void, activation: *mut c_int) -> c_int {
    // Events of these versions name their communicator themselves.
    // SAFETY: the caller's promise.
    unsafe { begin(context, activation, 0, (0, 0)) };
    before_calls()
}

/// # Safety
/// As [`init_v1`].
unsafe extern "C" fn init_v4(
    context: *mut *mut c_void,
    activation: *mut c_int,
    _name: *const c_char,
    communicator: u64,
    nodes: c_int,
    _ranks: c_int,
    rank: c_int,
    _log: *const c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { begin(context, activation, communicator, (nodes, rank)) };
    before_calls()
}

/// # Safety
/// As [`init_v1`].
unsafe extern "C" fn init_v5(
    context: *mut *mut c_void,
    communicator: u64,
    activation: *mut c_int,
    _name: *const c_char,
    nodes: c_int,
    _ranks: c_int,
    rank: c_int,
    _log: *const c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { begin(context, activation, communicator, (nodes, rank)) }
}

/// # Safety
/// As NCCL calls it: `handle` is null or may be written, and `event` is null or an event of this version.
unsafe extern "C" fn start_event<D: Event>(context: *mut c_void, handle: *mut *mut c_void, event: *const D) -> c_int {
    let mut given = OBSERVED;
    // SAFETY: null, or an event by the caller's promise.
    if let (Some(observer), Some(event)) = (observer(), unsafe { event.as_ref() }) {
        let observe = || {
            if event.kind() == OPERATION {
                return observer.begin();
            }
            if event.kind() == GROUP_CALL {
                return GROUP;
            }
            if let Some(stream) = event.launches() {
                if let Some(hold) = observer.hold() {
                    hold.launches(stream);
                }
                return flight::LAUNCH;
            }
            if let Some(hold) = observer.hold().filter(|_| between_hosts(context))
                // SAFETY: the caller's promise.
                && let Some(calling) = unsafe { event.calling() }
            {
                let what = calling.call.hash(context.addr() as u64);
                // SAFETY: NCCL enqueues into the stream in this thread.
                unsafe { hold.called(what, calling.stream, calling.is_captured) };
            }
            // SAFETY: the caller's promise.
            if let Some(call) = unsafe { event.call() } {
                observer.called(call.hash(context.addr() as u64));
            }
            OBSERVED
        };
        given = catch_unwind(AssertUnwindSafe(observe)).unwrap_or(OBSERVED);
    }
    if !handle.is_null() {
        // SAFETY: not null, so it may be written.
        unsafe { handle.write(number(given)) };
    }
    SUCCESS
}

extern "C" fn stop_event(handle: *mut c_void) -> c_int {
    if let Some(observer) = observer() {
        let handle = handle.addr() as u64;
        let stop = || match (observer.hold(), handle) {
            // SAFETY: NCCL is about to enqueue, or has enqueued, into the streams of this thread's calls.
            (Some(hold), GROUP) => unsafe { hold.called_all() },
            // SAFETY: NCCL has just enqueued into the stream.
            (Some(hold), flight::LAUNCH) => unsafe { hold.launched() },
            _ => observer.end(handle),
        };
        let _ = catch_unwind(AssertUnwindSafe(stop));
    }
    SUCCESS
}

/// States are not looked at: one may come after the end of its event, and none says more than the events themselves.
extern "C" fn record_event_state(_handle: *mut c_void, _state: c_int, _args: *const c_void) -> c_int {
    SUCCESS
}

extern "C" fn finalize(_context: *mut c_void) -> c_int {
    if let Some(observer) = observer() {
        let _ = catch_unwind(AssertUnwindSafe(|| observer.closed()));
    }
    SUCCESS
}

const fn profiler<I, D: Event>(init: I) -> Profiler<I, D> {
    Profiler { name: NAME, init, start_event: start_event::<D>, stop_event, record_event_state, finalize }
}

/// For NCCL 2.23.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that NCCL looks for")]
pub static ncclProfiler_v1: Profiler<InitV1, DescriptorV1> = profiler(init_v1);
/// For NCCL 2.24 and 2.25.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that NCCL looks for")]
pub static ncclProfiler_v2: Profiler<InitV1, DescriptorV2> = profiler(init_v1);
/// For NCCL 2.26.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that NCCL looks for")]
pub static ncclProfiler_v3: Profiler<InitV1, DescriptorV3> = profiler(init_v1);
/// For NCCL 2.27.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that NCCL looks for")]
pub static ncclProfiler_v4: Profiler<InitV4, DescriptorV4> = profiler(init_v4);
/// For NCCL 2.28.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that NCCL looks for")]
pub static ncclProfiler_v5: Profiler<InitV5, DescriptorV5> = profiler(init_v5);
/// For NCCL 2.29 and later.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that NCCL looks for")]
pub static ncclProfiler_v6: Profiler<InitV5, DescriptorV5> = profiler(init_v5);
