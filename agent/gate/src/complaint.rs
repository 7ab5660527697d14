//! A line on standard error from a thread of the job, which must neither wait for its reader nor die of it.

/// Writes a line where somebody reads it and has room. Allocates nothing and takes no lock. A reader that goes away at that moment is met as by
/// the job's own lines.
pub fn complain(line: &[u8]) {
    let mut asked = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one element, which may be written; at once, because the time is 0.
    let ready = unsafe { libc::poll(&raw mut asked, 1, 0) };
    // A reader that has gone, which would be a signal, is another event beside the room.
    if ready == 1 && asked.revents == libc::POLLOUT {
        // SAFETY: the bytes of the slice, which the kernel only reads.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
}
