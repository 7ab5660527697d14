//! Logs: lines of text or JSON on standard error.

use std::io;

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
