//! Callbacks allocate nothing. This program counts its allocations, and holds the plugin as a part of itself.
#![allow(unsafe_code, reason = "an allocator that counts, and the plugin as NCCL calls it")]
#![allow(clippy::unwrap_used, reason = "a test that meets an error should stop")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    env,
    ffi::{c_int, c_void},
    process::Command,
    ptr,
};

use nccl_profiler_antiphase::ncclProfiler_v6;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counted by thread.
struct Counting;

// SAFETY: everything is the system's; the count allocates nothing, because it has neither an initialiser nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn callbacks_allocate_nothing_even_when_they_pass_the_ring() {
    let directory = tempfile::tempdir().unwrap();
    let agent = gate::NoteReader::bind(directory.path()).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "a_job_that_counts", "--nocapture"]);
    let output = command.env("ANTIPHASE_JOB", "j").env("ANTIPHASE_DIR", directory.path()).env_remove("ANTIPHASE_GATE").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Once when the communicator began, and once in a callback: the job takes longer than a second.
    let rings = std::iter::from_fn(|| agent.recv_any().ok()).count();
    assert!(rings >= 2, "{rings}");
}

#[test]
#[ignore = "the other test runs this in a process of its own"]
fn a_job_that_counts() {
    let (mut context, mut mask) = (ptr::null_mut::<c_void>(), 0 as c_int);
    // SAFETY: as NCCL calls it.
    unsafe { (ncclProfiler_v6.init)(&raw mut context, 7, &raw mut mask, ptr::null(), 2, 16, 0, ptr::null()) };
    assert_ne!(mask, 0);
    let mut collective = [0_u64; 14];
    (collective[0], collective[4], collective[9]) = (2, c"AllReduce".as_ptr().addr() as u64, c"ncclFloat32".as_ptr().addr() as u64);
    let mut operation = [0_u64; 14];
    operation[0] = 8;
    let (began, before) = (std::time::Instant::now(), ALLOCATIONS.get());
    while began.elapsed().as_millis() < 1_200 {
        for event in [&collective, &operation] {
            let mut handle = ptr::null_mut();
            // SAFETY: 112 bytes in the layout of version 6, whose names are literals.
            unsafe { (ncclProfiler_v6.start_event)(context, &raw mut handle, event.as_ptr().cast()) };
            (ncclProfiler_v6.record_event_state)(handle, 1, ptr::null());
            (ncclProfiler_v6.stop_event)(handle);
        }
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
