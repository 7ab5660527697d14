//! What a callback costs the thread of the job that makes it.
//!
//! `cargo bench -p antiphase-nccl` from a shell with `ANTIPHASE_JOB=bench`: without a job the callbacks have nothing to do.
#![allow(unsafe_code, reason = "the plugin is called as NCCL calls it")]

use std::{
    ffi::{c_int, c_void},
    hint::black_box,
    ptr,
};

use nccl_profiler_antiphase::ncclProfiler_v5;

/// 112 bytes, as words: the type, the parent, the rank, and a body.
type Event = [u64; 14];

fn main() {
    let (mut context, mut activation) = (ptr::null_mut(), 0 as c_int);
    // SAFETY: as NCCL calls it; the name and the log may be null.
    unsafe { (ncclProfiler_v5.init)(&raw mut context, 7, &raw mut activation, ptr::null(), 2, 16, 0, ptr::null()) };
    if activation == 0 {
        println!("skipped: ANTIPHASE_JOB names no job, so the callbacks would do nothing");
        return;
    }
    divan::main();
}

fn start(event: &Event) -> *mut c_void {
    let mut handle = ptr::null_mut();
    // SAFETY: 112 bytes in the layout of version 5, whose names are literals.
    unsafe { (ncclProfiler_v5.start_event)(ptr::without_provenance_mut(7), &raw mut handle, black_box(event).as_ptr().cast()) };
    handle
}

#[divan::bench(sample_size = 1000)]
fn collective() -> *mut c_void {
    let mut event: Event = [0; 14];
    (event[0], event[4], event[9]) = (2, c"AllReduce".as_ptr().addr() as u64, c"ncclFloat32".as_ptr().addr() as u64);
    (event[7], event[8]) = (1 << 20, 0);
    start(&event)
}

/// Both callbacks of an operation that is the only one: each finds the network idle and writes an event.
#[divan::bench(sample_size = 1000)]
fn operation_alone() -> c_int {
    let mut event: Event = [0; 14];
    event[0] = 8;
    (ncclProfiler_v5.stop_event)(start(&event))
}

/// Both callbacks of an operation while another is under way: only counts change.
#[divan::bench(sample_size = 1000)]
fn operation_among_others(bencher: divan::Bencher<'_, '_>) {
    let mut event: Event = [0; 14];
    event[0] = 8;
    let other = start(&event);
    bencher.bench(|| (ncclProfiler_v5.stop_event)(start(&event)));
    (ncclProfiler_v5.stop_event)(other);
}

#[divan::bench(sample_size = 1000)]
fn state() -> c_int {
    (ncclProfiler_v5.record_event_state)(ptr::without_provenance_mut(2), 1, ptr::null())
}
