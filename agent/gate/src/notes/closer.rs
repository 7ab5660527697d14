//! Closes open files that anybody on the node passed, where nobody waits for it.
//!
//! Closing a file may take any time: a file of a FUSE server that does not answer, a socket that lingers, memory of a whole machine.
//! The kernel also closes in the thread that receives whatever it finds no room for, and in the thread that closes a socket
//! whatever still waits there (`unix(7)`, SCM_RIGHTS). So there is room for all that one datagram can carry, and threads of this module
//! close what was passed, and the socket itself.

use std::{
    collections::VecDeque,
    fmt,
    os::fd::OwnedFd,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// Open files that one datagram carries at most: `SCM_MAX_FD` of the kernel (`include/net/scm.h`).
pub(super) const PASSED_MAX: usize = 253;
/// Threads that close. As long as one of them is free, files that do not close keep no others from being closed.
const THREADS: usize = 3;
/// Files that wait to be closed, or are being closed, while another datagram is taken: three whole datagrams. Files that close at once
/// never are so many for longer than some milliseconds.
const OPEN_MAX: usize = 3 * PASSED_MAX;
/// All files of this module at once: a datagram more.
pub(super) const FILES_MAX: usize = OPEN_MAX + PASSED_MAX;
/// A thread that only closes needs little.
const STACK_BYTES: usize = 64 << 10;

/// Files and the user who passed them; `None` for one of our own.
#[derive(Debug)]
struct Passed {
    files: Vec<OwnedFd>,
    from: Option<u32>,
}

/// What there is to close. It is the process's and not a reader's: readers come and go with the jobs.
#[derive(Debug)]
struct Work {
    waiting: VecDeque<Passed>,
    /// Whose files are being closed, the longest of them first.
    closing: VecDeque<Option<u32>>,
    threads: usize,
    /// Files of both.
    open: usize,
}

static WORK: Mutex<Work> = Mutex::new(Work { waiting: VecDeque::new(), closing: VecDeque::new(), threads: 0, open: 0 });
static MORE: Condvar = Condvar::new();

/// Nobody closes anything while holding it, so nobody waits for it long.
fn work() -> MutexGuard<'static, Work> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a thread close them.
pub(super) fn close(files: Vec<OwnedFd>, from: Option<u32>) {
    if files.is_empty() {
        return;
    }
    let mut work = work();
    work.open += files.len();
    work.waiting.push_back(Passed { files, from });
    work.start();
    MORE.notify_one();
}

/// Why no more may be received, while too many files are open.
pub(super) fn is_behind() -> Option<Behind> {
    let mut work = work();
    // What no thread could be made for is tried again.
    work.start();
    (work.open > OPEN_MAX).then(|| Behind(work.closing.front().copied().or(work.waiting.front().map(|p| p.from)).flatten()))
}

/// The user whose files have been closing longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behind(Option<u32>);

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(user) => write!(f, "files do not close that user {user} passed"),
            None => f.write_str("files do not close that were passed"),
        }
    }
}

impl Work {
    /// Makes the threads that are missing, if there is anything to close. Without any, files wait.
    fn start(&mut self) {
        while self.threads < THREADS && !self.waiting.is_empty() {
            let made = thread::Builder::new().name("gate-closes".to_owned()).stack_size(STACK_BYTES).spawn(close_all);
            if made.is_err() {
                return;
            }
            self.threads += 1;
        }
    }
}

/// What a closing thread does, as long as the process lives.
fn close_all() {
    let mut held = work();
    loop {
        let Some(Passed { files, from }) = held.waiting.pop_front() else {
            held = MORE.wait(held).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        held.closing.push_back(from);
        for file in files {
            drop(held);
            drop(file);
            held = work();
            held.open -= 1;
        }
        // Only the user matters: any entry of that user may be removed.
        if let Some(at) = held.closing.iter().position(|user| *user == from) {
            held.closing.remove(at);
        }
    }
}
