//! The table of the log.

use serde::Deserialize;
use tracing::level_filters::LevelFilter;

/// Lines on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Text or JSON.
    pub format: LogFormat,
    /// From which severity on.
    pub level: LogLevel,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// From which severity on lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Somebody has to look.
    Error,
    /// Somebody may want to look.
    Warn,
    /// What changed.
    #[default]
    Info,
    /// Also every request.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// As `tracing` has it.
    #[must_use]
    pub const fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}
