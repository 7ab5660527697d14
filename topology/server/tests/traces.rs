//! Traces of a real service at a real collector: a server of OTLP by gRPC, which shares its messages with the exporter and nothing else.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    trace::v1::Span,
};
use serde_json::json;
use support::{Service, job, program, request, testbed};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(&self, request: Request<ExportTraceServiceRequest>) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn start() -> (Self, SocketAddr) {
        let (collector, listener) = (Self::default(), tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(collector.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
    }

    fn spans(&self) -> Vec<Span> {
        let all = self.0.lock().unwrap().clone();
        let resources = all.into_iter().flat_map(|request| request.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

fn traced(endpoint: &str, folder: &std::path::Path) -> Service {
    let config = folder.join("a.toml");
    std::fs::write(&config, format!("[traces]\nendpoint = {endpoint:?}\n")).unwrap();
    Service::with(program().arg("--config").arg(&config).arg("--state").arg(folder.join("s.redb")).arg("--fabric").arg(testbed()))
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

#[tokio::test]
async fn a_commit_is_traced_below_its_callers_span() {
    let (collector, address) = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut service = traced(&format!("http://{address}"), folder.path());
    let parent = format!("traceparent: 00-{TRACE}-{CALLER}-01");
    // The caller has decided that this one is not kept.
    let other = format!("traceparent: 00-{}-{CALLER}-00", TRACE.replace('4', "5"));
    let body = |name: &str, hosts: &[&str]| json!({ "jobs": [job(name, hosts)] }).to_string().into_bytes();
    let commit = |headers: &[&str], body: &[u8]| {
        let headers = [&["content-type: application/json"], headers].concat();
        request(service.address, "POST", "/v1alpha1/commit", &headers, body).unwrap().status
    };
    assert_eq!(commit(&[&parent], &body("a", &["h1", "h5"])), 200);
    assert_eq!(commit(&[&other], &body("b", &["h2", "h6"])), 200);
    assert_eq!(commit(&[], &body("c", &["nowhere", "h6"])), 400);
    // What it has left goes out before the service ends.
    let gone = tokio::task::spawn_blocking(move || {
        service.signal(rustix::process::Signal::TERM);
        service.wait()
    });
    assert!(gone.await.unwrap().success());

    let spans = collector.spans();
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let of: BTreeMap<&str, &Span> = spans.iter().filter(|span| hex(&span.trace_id) == TRACE).map(|span| (&*span.name, span)).collect();
    assert_eq!(
        of.keys().copied().collect::<Vec<_>>(),
        ["POST commit", "plan", "wait", "write"],
        "{:?}",
        spans.iter().map(|span| &span.name).collect::<Vec<_>>()
    );
    let (whole, stages) = (of["POST commit"], ["wait", "plan", "write"].map(|name| of[name]));
    assert_eq!(hex(&whole.parent_span_id), CALLER);
    assert!(stages.iter().all(|stage| stage.parent_span_id == whole.span_id));
    // The stages follow each other, within the request.
    let times: Vec<u64> = stages.iter().flat_map(|stage| [stage.start_time_unix_nano, stage.end_time_unix_nano]).collect();
    let times = [&[whole.start_time_unix_nano], &times[..], &[whole.end_time_unix_nano]].concat();
    assert!(times.is_sorted(), "{times:?}");
    // The caller's word counts, and a refused request has a trace of its own.
    assert!(spans.iter().all(|span| hex(&span.trace_id) != TRACE.replace('4', "5")));
    let refused: Vec<&Span> = spans.iter().filter(|span| span.name == "POST commit" && hex(&span.trace_id) != TRACE).collect();
    // What the service did for itself, such as its first fabric, is nobody's.
    assert!(spans.iter().all(|span| span.name == "POST commit" || hex(&span.trace_id) == TRACE || span.trace_id == refused[0].trace_id));
    assert!(refused.len() == 1 && refused[0].parent_span_id.is_empty(), "{refused:#?}");
    let status = |span: &Span| span.attributes.iter().find(|a| a.key == "http.response.status_code").and_then(|a| a.value.clone());
    assert!(format!("{:?}", status(refused[0])).contains("400"), "{refused:#?}");
}

#[test]
fn a_collector_that_is_not_there_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens on port 1 of loopback.
    let mut service = traced("http://127.0.0.1:1", folder.path());
    assert_eq!(service.commit("a", &["h1", "h5"]).0, 200);
    let began = std::time::Instant::now();
    service.signal(rustix::process::Signal::TERM);
    assert!(service.wait().success());
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    let wrong = folder.path().join("b.toml");
    std::fs::write(&wrong, "[traces]\nendpoint = \"127.0.0.1:4317\"\n").unwrap();
    let refused = program().args(["config", "check", "--config"]).arg(&wrong).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("traces.endpoint: \"127.0.0.1:4317\"; expected http://"), "{said}");
}
