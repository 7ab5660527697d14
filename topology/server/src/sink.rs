//! Where goes what agents measure, see and learn.

use proto::v1alpha1::{LearnedJob, Neighbours, Telemetry};

use crate::{FabricClock, discovery::Discovery, learning::Learning, quic::TelemetrySink, telemetry::TelemetryHandle};

/// Telemetry as sessions deliver it, at fabric time.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    /// Where it goes.
    pub(crate) telemetry: TelemetryHandle,
    /// What tells samples that are out of time.
    pub(crate) clock: FabricClock,
    /// Where neighbours go.
    pub(crate) discovery: Discovery,
    /// Where goes what is learned of jobs.
    pub(crate) learning: Learning,
}

impl TelemetrySink for Sink {
    fn take(&self, host: &str, frame: Telemetry) {
        self.telemetry.port(self.clock.now(), host, &frame);
    }

    fn neighbours(&self, host: &str, told: Neighbours) {
        self.discovery.take(host, told);
    }

    fn learned(&self, host: &str, told: LearnedJob) {
        self.learning.take(host, told);
    }
}
