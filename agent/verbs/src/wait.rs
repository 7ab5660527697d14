//! Waiting for descriptors, with an end.

use std::{io, os::fd::RawFd, time::Duration};

/// Longest wait of one call. A longer one is made of several, so that milliseconds fit the kernel's number.
const CALL_MAX: Duration = Duration::from_secs(3_600);

/// Which of `fds`, by place, can be read; none when `limit` is over, after an hour, or after a signal.
///
/// # Errors
/// What poll(2) says.
pub(crate) fn readable(fds: &[RawFd], limit: Option<Duration>) -> io::Result<Vec<usize>> {
    let mut polled: Vec<libc::pollfd> = fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let limit = limit.unwrap_or(CALL_MAX).min(CALL_MAX);
    // Rounded up: a wait that ends early would be made again at once, many times in its last millisecond.
    let milliseconds = i32::try_from(limit.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX);
    // SAFETY: the array has as many entries as are named, and nobody else has it.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(Vec::new()) } else { Err(error) };
    }
    Ok(polled.iter().enumerate().filter(|(_, fd)| fd.revents != 0).map(|(at, _)| at).collect())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Write, pipe},
        os::fd::AsRawFd,
    };

    use super::*;

    #[test]
    fn what_can_be_read_is_named() {
        let (silent, _end) = pipe().unwrap();
        let (full, mut to) = pipe().unwrap();
        let fds = [silent.as_raw_fd(), full.as_raw_fd()];
        assert_eq!(readable(&fds, Some(Duration::ZERO)).unwrap(), Vec::<usize>::new());
        to.write_all(b"x").unwrap();
        assert_eq!(readable(&fds, None).unwrap(), [1]);
    }
}
