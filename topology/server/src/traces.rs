//! Traces of changes, for OpenTelemetry: how long a commit waited, was planned and was on its way to the disk.
//!
//! A request is one span, below the caller's own where its headers name one (W3C Trace Context). A change has three below it: `wait` for
//! the controller's thread, `plan`, and `write`, until it is durable. All are spans of `tracing` with the target [`TARGET`], which nothing
//! but [`Exporter`] looks at: without one they cost a comparison.

use std::time::Duration;

use axum::http::{HeaderMap, Method};
use opentelemetry::{
    propagation::{Extractor, TextMapPropagator as _},
    trace::{TraceContextExt as _, TracerProvider as _},
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{Sampler, SdkTracer, SdkTracerProvider},
};
use tokio::sync::oneshot;
use tracing::{Span, field, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::config::TracesConfig;

/// Target of all spans of traces, by which the log leaves them out.
pub(crate) const TARGET: &str = "antiphase::traces";
/// How the service is called where traces are looked at.
const SERVICE: &str = "antiphase-topology";
/// How long one export may take. Spans that come meanwhile wait in a queue of the library, which is bounded and then drops them.
const EXPORT_MAX: Duration = Duration::from_secs(5);
/// How long stopping waits for the last export.
const STOP_MAX: Duration = Duration::from_secs(2);

/// Sends spans to a collector, from a thread of its own: no request waits for it.
#[derive(Debug)]
pub(crate) struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Connects when the first spans are there; a collector that is not there costs spans and a warning. Needs a runtime around it.
    ///
    /// # Errors
    /// What is wrong with the endpoint.
    pub(crate) fn new(config: &TracesConfig) -> Result<Self, String> {
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(&*config.endpoint).with_timeout(EXPORT_MAX).build();
        let exporter = exporter.map_err(|error| format!("traces.endpoint: {:?}: {error}", config.endpoint))?;
        // Whoever calls with a trace of its own has decided already whether it is kept.
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(f64::from(config.percent) / 100.0)));
        let resource = Resource::builder().with_service_name(SERVICE).build();
        Ok(Self(SdkTracerProvider::builder().with_batch_exporter(exporter).with_sampler(sampler).with_resource(resource).build()))
    }

    /// What makes spans of it.
    pub(crate) fn tracer(&self) -> SdkTracer {
        self.0.tracer(SERVICE)
    }

    /// Sends what is left. Blocks, for at most two seconds.
    pub(crate) fn stop(&self) {
        // A collector that does not take the last spans loses them.
        let _ = self.0.shutdown_with_timeout(STOP_MAX);
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

/// The span of a request. Its name is set with its answer ([`answered`]), when the route is known.
pub(crate) fn request(headers: &HeaderMap, method: &Method) -> Span {
    let span = info_span!(
        target: TARGET,
        "request",
        otel.kind = "server",
        otel.status_code = field::Empty,
        http.request.method = %method,
        http.response.status_code = field::Empty,
    );
    if !span.is_disabled() {
        // Without a context in the headers the span begins a trace. Fails only where nothing exports.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&Headers(headers)));
    }
    span
}

/// What became of a request. `name` is made of our own words only, as that of a metric.
pub(crate) fn answered(span: &Span, name: &str, status: axum::http::StatusCode) {
    if span.is_disabled() {
        return;
    }
    // A span that has begun takes another name from its context only.
    span.context().span().update_name(name.to_owned());
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

/// The caller that waits for a change, and the change's trace spans.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    reply: oneshot::Sender<T>,
    of: Span,
    stage: Span,
}

impl<T> Waiting<T> {
    /// The change of the present span waits for the controller.
    pub(crate) fn new(reply: oneshot::Sender<T>) -> Self {
        let mut waiting = Self { reply, of: Span::current(), stage: Span::none() };
        waiting.begins(|of| info_span!(target: TARGET, parent: of, "wait"));
        waiting
    }

    /// Its plan is made from now on.
    pub(crate) fn plans(&mut self) {
        self.begins(|of| info_span!(target: TARGET, parent: of, "plan"));
    }

    /// It is on its way to the disk from now on.
    pub(crate) fn writes(&mut self) {
        self.begins(|of| info_span!(target: TARGET, parent: of, "write"));
    }

    /// What the service changes for itself belongs to no request, and is not traced.
    fn begins(&mut self, stage: impl FnOnce(&Span) -> Span) {
        // The stage before ends first: stages follow each other.
        self.stage = Span::none();
        if !self.of.is_disabled() {
            self.stage = stage(&self.of);
        }
    }

    /// Whether nobody waits for the answer any more: a request that ran out of time, or a client that left.
    pub(crate) fn is_left(&self) -> bool {
        self.reply.is_closed()
    }

    /// Says what became of it; whoever went away needs no answer.
    pub(crate) fn answer(self, answer: T) {
        // The span ends before the request's does.
        drop(self.stage);
        let _ = self.reply.send(answer);
    }
}
