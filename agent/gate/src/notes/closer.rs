//! Closes open files that anybody on the node passed, where nobody waits for it.
//!
//! Closing a file may take any time: a file of a FUSE server that does not answer, a socket that lingers, memory of a whole machine.
//! The kernel also closes in the thread that receives whatever it finds no room for, and in the thread that closes a socket
//! whatever still waits there (`unix(7)`, SCM_RIGHTS). So there is room for all that one datagram can carry, and a thread of its own closes it.

use std::{
    mem::ManuallyDrop,
    os::fd::OwnedFd,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
    thread,
};

/// Open files that one datagram carries at most: `SCM_MAX_FD` of the kernel (`include/net/scm.h`).
pub(super) const PASSED_MAX: usize = 253;
/// Threads that may be closing when another datagram is taken. Whoever passes files that close at once has one for some microseconds.
pub(super) const CLOSING_MAX: usize = 3;
/// A thread that only closes needs little.
const STACK_BYTES: usize = 64 << 10;

/// Threads of this process that are closing. They are the process's and not a reader's: readers come and go with the jobs.
static CLOSING: AtomicUsize = AtomicUsize::new(0);
/// The user whose files were passed last.
static LAST: AtomicU32 = AtomicU32::new(0);

/// Closes them in a thread of their own. Where no thread can be made they stay open, and count as files that do not close.
pub(super) fn close(files: Vec<OwnedFd>, from: Option<u32>) {
    if files.is_empty() {
        return;
    }
    if let Some(user) = from {
        LAST.store(user, Ordering::Relaxed);
    }
    CLOSING.fetch_add(1, Ordering::Relaxed);
    // What cannot be handed over must not be closed here.
    let files = ManuallyDrop::new(files);
    let close = move || {
        drop(ManuallyDrop::into_inner(files));
        CLOSING.fetch_sub(1, Ordering::Relaxed);
    };
    drop(thread::Builder::new().name("gate-closes".to_owned()).stack_size(STACK_BYTES).spawn(close));
}

/// The user who passed files last, while too many do not close for more to be taken.
pub(super) fn is_behind() -> Option<u32> {
    (CLOSING.load(Ordering::Relaxed) >= CLOSING_MAX).then(|| LAST.load(Ordering::Relaxed))
}
