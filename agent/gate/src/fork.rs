//! Noticing that this process is a fork of the one that opened a gate.

use std::sync::{
    Once,
    atomic::{AtomicU64, Ordering},
};

/// Forks between the first process and this one, since the handler was registered.
static FORKS: AtomicU64 = AtomicU64::new(0);
static REGISTER: Once = Once::new();

/// Runs in the child of a fork, where only calls that are safe in signal handlers are allowed: one atomic addition is.
extern "C" fn in_child() {
    // The child has one thread, and the fork itself orders everything before it, so relaxed is enough.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// From now on [`generation`] changes in children. If the C library has no memory for the handler, the number stays, and a
/// forked child keeps writing its parent's report, which harms nobody.
pub(crate) fn watch() {
    REGISTER.call_once(|| {
        // SAFETY: the handler is a function of this library, which is never unloaded (build.rs), and is safe to call in a child.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Differs between a process and its forks; costs one load.
#[inline]
pub(crate) fn generation() -> u64 {
    FORKS.load(Ordering::Relaxed)
}
