//! Traces for OpenTelemetry: where they go, and how many.

use serde::Deserialize;

/// A collector of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracesConfig {
    /// Where it takes OTLP by gRPC, without TLS.
    pub endpoint: String,
    /// Of how many of a hundred requests one is made, where the caller has no trace of its own.
    #[serde(default = "all")]
    pub percent: u32,
}

const fn all() -> u32 {
    100
}

impl TracesConfig {
    /// What is wrong with it, on one line.
    pub(super) fn problem(&self) -> Option<String> {
        if !self.endpoint.starts_with("http://") || self.endpoint.parse::<axum::http::Uri>().is_err() {
            // Nothing is encrypted on this way, so a collector on the same machine is meant.
            Some(format!("traces.endpoint: {:?}; expected http://HOST:PORT of a collector beside the service", self.endpoint))
        } else if self.percent > 100 {
            Some(format!("traces.percent: {}; expected 0 to 100", self.percent))
        } else {
            None
        }
    }
}
