//! A limit for lines of the log that strangers can cause.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

/// At most so many lines in a while; the rest are counted.
#[derive(Debug)]
pub struct LineLimit {
    lines_max: u32,
    every: Duration,
    window: Mutex<Option<Window>>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    lines: u32,
    dropped: u64,
}

impl LineLimit {
    /// `lines_max` lines in each `every`.
    #[must_use]
    pub const fn new(lines_max: u32, every: Duration) -> Self {
        Self { lines_max, every, window: Mutex::new(None) }
    }

    /// Writes a line, if it may be written now; the closure is told how many were kept back since the last one.
    pub fn say(&self, line: impl FnOnce(u64)) {
        if let Some(dropped) = self.pass(Instant::now()) {
            line(dropped);
        }
    }

    /// Whether to write a line now; if so, how many were kept back since the last one.
    fn pass(&self, now: Instant) -> Option<u64> {
        let mut slot = self.window.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut window = match *slot {
            Some(window) if now.duration_since(window.began) < self.every => window,
            // The count of lines that were kept back goes on into the new window, so that its first line can say it.
            Some(window) => Window { began: now, lines: 0, dropped: window.dropped },
            None => Window { began: now, lines: 0, dropped: 0 },
        };
        let passed = if window.lines < self.lines_max {
            window.lines += 1;
            Some(std::mem::take(&mut window.dropped))
        } else {
            window.dropped += 1;
            None
        };
        *slot = Some(window);
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_lines_is_counted_and_not_written() {
        let limit = LineLimit::new(2, Duration::from_secs(1));
        let start = Instant::now();
        assert_eq!(limit.pass(start), Some(0));
        assert_eq!(limit.pass(start), Some(0));
        for _ in 0..10 {
            assert_eq!(limit.pass(start), None);
        }
        assert_eq!(limit.pass(start + Duration::from_secs(1)), Some(10));
        assert_eq!(limit.pass(start + Duration::from_secs(1)), Some(0));
    }
}
