//! Logs: lines of text or JSON on standard error, and a limit for lines that strangers can cause.

use std::{
    io,
    sync::Mutex,
    time::{Duration, Instant},
};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Registry, filter::Targets, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _};

use crate::config::LogConfig;

/// Changes the level while the service runs.
#[derive(Clone, Debug)]
pub struct LevelHandle(reload::Handle<Targets, Registry>);

impl LevelHandle {
    /// From the next line on.
    pub fn set(&self, level: LevelFilter) {
        // Fails only when the subscriber is gone, and then nobody reads the lines.
        let _ = self.0.reload(filter(level));
    }
}

/// What libraries say below a warning is for their authors: one line per HTTP/2 frame.
fn filter(level: LevelFilter) -> Targets {
    // `trace` is the one level at which somebody asks for everything.
    let of_libraries = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
    Targets::new().with_default(of_libraries).with_target("antiphase_topology", level)
}

/// Starts logging for this process. A second call in one process (tests) changes nothing but its own handle.
pub fn start(config: &LogConfig) -> LevelHandle {
    let (levels, handle) = reload::Layer::new(filter(config.level.filter()));
    let registry = tracing_subscriber::registry().with(levels);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    // An error means that a subscriber is set already.
    let _ = match config.format {
        crate::config::LogFormat::Text => registry.with(lines).try_init(),
        crate::config::LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    LevelHandle(handle)
}

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

    /// Whether to write a line now; if so, how many were kept back since the last one.
    pub fn pass(&self, now: Instant) -> Option<u64> {
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
