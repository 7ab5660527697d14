//! Lines of text or JSON on standard error; systemd's journal takes them from there.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Registry, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _};

use crate::config::{LogConfig, LogFormat};

/// Changes the level while the agent runs.
#[derive(Clone, Debug)]
pub struct LevelHandle(reload::Handle<LevelFilter, Registry>);

impl LevelHandle {
    /// From the next line on.
    pub fn set(&self, level: LevelFilter) {
        // Fails only when the subscriber is gone, and then nobody reads the lines.
        let _ = self.0.reload(level);
    }
}

/// Starts logging for this process. A second call in one process changes nothing but its own handle.
#[must_use]
pub fn start(config: &LogConfig) -> LevelHandle {
    let (filter, handle) = reload::Layer::new(config.level.filter());
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    // An error means that a subscriber is set already.
    let _ = match config.format {
        LogFormat::Text => registry.with(lines).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    };
    LevelHandle(handle)
}
