//! Lines of text or JSON on standard error; systemd's journal takes them from there.
//!
//! `topology/server/src/logs.rs` sets up the same for the service. The forty lines stand twice: a crate for them would be the only
//! thing that the two halves share beside the protocol.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Registry, filter::Targets, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _};

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

/// Starts logging for this process. A second call in one process changes nothing but its own handle.
#[must_use]
pub fn start(config: &LogConfig) -> LevelHandle {
    let (levels, handle) = reload::Layer::new(filter(config.level.filter()));
    let registry = tracing_subscriber::registry().with(levels);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    // An error means that a subscriber is set already.
    let _ = match config.format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    LevelHandle(handle)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

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
