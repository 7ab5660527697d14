//! Lines of text or JSON on standard error; systemd's journal takes them from there.
//!
//! `topology/server/src/logs.rs` sets up the same for the service. The forty lines stand twice: a crate for them would bring
//! the libraries of logs, and the names of both programs.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Registry, filter::Targets, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _};
use units::OneLine;

use crate::config::{LogConfig, LogFormat};

/// Changes the level while the agent runs.
#[derive(Clone, Debug)]
pub struct LevelHandle(reload::Handle<Targets, Registry>);

impl LevelHandle {
    /// From the next line on.
    pub fn set(&self, level: LevelFilter) {
        // Fails only when the subscriber is gone, and then nobody reads the lines.
        let _ = self.0.reload(filter(level));
    }
}

/// Lines of libraries below a warning are for their authors: QUIC writes several per packet.
fn filter(level: LevelFilter) -> Targets {
    // TRACE is for a defect that is being looked for, so libraries speak as well.
    let of_libraries = if level == LevelFilter::TRACE { level } else { level.min(LevelFilter::WARN) };
    Targets::new().with_default(of_libraries).with_target("antiphase_agent", level)
}

/// Writes each line so that it stays one, whatever peers put into it: a version or a name must forge no second line, and move no
/// cursor of the terminal on which somebody reads the log.
struct Lines<W>(W);

impl<W: io::Write> io::Write for Lines<W> {
    /// One call is one line, as the layer above writes it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        writeln!(self.0, "{}", OneLine(text.strip_suffix('\n').unwrap_or(&text)))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Starts logging for this process. A second call in one process changes nothing but its own handle.
#[must_use]
pub fn start(config: &LogConfig) -> LevelHandle {
    let (levels, handle) = reload::Layer::new(filter(config.level.filter()));
    let registry = tracing_subscriber::registry().with(levels);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false);
    // An error means that a subscriber is set already.
    let _ = match config.format {
        LogFormat::Text => registry.with(lines.with_writer(|| Lines(io::stderr()))).try_init(),
        // JSON escapes what its texts hold.
        LogFormat::Json => registry.with(lines.with_writer(io::stderr).json().flatten_event(true)).try_init(),
    };
    LevelHandle(handle)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_line_stays_one_whatever_a_peer_put_into_it() {
        let mut out = Vec::new();
        io::Write::write_all(&mut Lines(&mut out), "WARN refused reason=no\r\nERROR forged\u{9b}2J\n".as_bytes()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "WARN refused reason=no\\r\\nERROR forged\\u{9b}2J\n");
    }

    #[test]
    fn libraries_say_what_went_wrong_and_no_more() {
        for level in [LevelFilter::ERROR, LevelFilter::INFO, LevelFilter::DEBUG] {
            let shows = |target: &str, line: Level| filter(level).would_enable(target, &line);
            assert_eq!(shows("antiphase_agent::pages", Level::INFO), level >= Level::INFO, "{level}");
            assert_eq!(shows("antiphase_agent::pages", Level::DEBUG), level >= Level::DEBUG, "{level}");
            assert_eq!(shows("quinn_proto::connection", Level::WARN), level >= Level::WARN, "{level}");
            assert!(!shows("quinn_proto::connection", Level::DEBUG), "{level}");
        }
        assert!(filter(LevelFilter::TRACE).would_enable("quinn_proto::connection", &Level::TRACE));
    }
}
