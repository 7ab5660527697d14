//! Health and reflection of gRPC, as programs ask that know neither us nor our schema.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    fs,
    time::{Duration, Instant},
};

use prost::Message as _;
use prost_types::FileDescriptorProto;
use serde_json::json;
use support::{Service, groups, program, testbed};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::{
    v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient, server_reflection_request::MessageRequest,
        server_reflection_response::MessageResponse,
    },
    v1alpha,
};

async fn channel(service: &Service) -> Channel {
    Channel::from_shared(format!("http://{}", service.address)).unwrap().connect().await.unwrap()
}

fn of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.into() }
}

#[tokio::test]
async fn health_is_readiness() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program();
    let service = Service::with(command.arg("--state").arg(folder.path().join("s.redb")));
    let mut client = HealthClient::new(channel(&service).await);
    // Alive, but without a fabric no change can be taken.
    assert_eq!(service.get("/readyz").status, 503);
    for name in ["", "antiphase.v1alpha1.Topology"] {
        assert_eq!(client.check(of(name)).await.unwrap().into_inner().status(), ServingStatus::NotServing, "{name:?}");
    }
    assert_eq!(client.check(of("moon")).await.unwrap_err().code(), Code::NotFound);
    let mut watch = client.watch(of("")).await.unwrap().into_inner();
    let mut unknown = client.watch(of("moon")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert_eq!(unknown.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    let fabric = fs::read_to_string(testbed()).unwrap();
    assert_eq!(service.ask("PUT", "/v1alpha1/fabric", &fabric).0, 200);
    assert_eq!(timeout(support::WAIT, watch.message()).await.unwrap().unwrap().unwrap().status(), ServingStatus::Serving);
    assert_eq!(client.check(of("")).await.unwrap().into_inner().status(), ServingStatus::Serving);
}

/// Whatever waits for the controller waits for the plan; a probe does not.
#[test]
fn a_service_that_computes_a_long_plan_is_ready_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let (fabric, config) = (folder.path().join("fabric.yaml"), folder.path().join("a.toml"));
    fs::write(&fabric, groups::fabric()).unwrap();
    fs::write(&config, "control = \"turns\"\n").unwrap();
    let mut command = program();
    command.arg("--config").arg(&config).arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(&fabric);
    let service = Service::with(&mut command);
    assert_eq!(service.get("/readyz").status, 200);
    let body = json!({ "jobs": groups::jobs(groups::MAX) }).to_string();
    let (probes, took, waits) = std::thread::scope(|scope| {
        let began = Instant::now();
        let commit = scope.spawn(|| {
            let asked = Instant::now();
            (service.ask("POST", "/v1alpha1/commit", &body), asked.elapsed())
        });
        // A reader of the plan tells when the controller is free again: it is asked once the commit is under way.
        std::thread::sleep(Duration::from_millis(200));
        let reader = scope.spawn(|| {
            let asked = Instant::now();
            (service.ask("GET", "/v1alpha1/plan", "").0, asked.elapsed())
        });
        let mut probes = Vec::new();
        while !commit.is_finished() {
            let asked = Instant::now();
            assert_eq!(service.get("/readyz").status, 200, "after {:?}", began.elapsed());
            assert_eq!(service.get("/healthz").status, 200, "after {:?}", began.elapsed());
            probes.push(asked.elapsed());
            std::thread::sleep(Duration::from_millis(10));
        }
        let ((status, answer), took) = commit.join().unwrap();
        assert_eq!(status, 200, "{answer}");
        (probes, took, reader.join().unwrap())
    });
    let longest = probes.iter().max().unwrap();
    println!("a commit of {took:?}, a reader of the plan waited for {waits:?}; {} probes, the longest {longest:?}", probes.len());
    assert_eq!(waits.0, 200);
    // Probes that waited for the plan would be few, and one would take nearly all of its time.
    assert!(probes.len() >= 5 && *longest < took / 2, "{took:?}: {probes:?}");
}

#[tokio::test]
async fn the_schema_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("s.redb"));
    let mut client = ServerReflectionClient::new(channel(&service).await);
    // The stream stays open on our side while answers come, as in grpcurl.
    let (send, requests) = tokio::sync::mpsc::channel(4);
    let ask = |what| ServerReflectionRequest { host: String::new(), message_request: Some(what) };
    send.send(ask(MessageRequest::ListServices(String::new()))).await.unwrap();
    let mut answers = client.server_reflection_info(ReceiverStream::new(requests)).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) = answers.message().await.unwrap().unwrap().message_response else {
        panic!("no list");
    };
    let names: Vec<_> = list.service.iter().map(|s| s.name.as_str()).collect();
    assert!(names.contains(&"antiphase.v1alpha1.Topology") && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    send.send(ask(MessageRequest::FileContainingSymbol("antiphase.v1alpha1.Topology".into()))).await.unwrap();
    let Some(MessageResponse::FileDescriptorResponse(files)) = answers.message().await.unwrap().unwrap().message_response else {
        panic!("no file");
    };
    let file = FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice()).unwrap();
    assert!(file.service[0].method.iter().any(|m| m.name() == "Evaluate"), "{file:?}");
    // A name of a type is short: what is longer ends the stream, and the service goes on.
    send.send(ask(MessageRequest::FileContainingSymbol("x".repeat(1 << 16)))).await.unwrap();
    let ended = timeout(support::WAIT, answers.message()).await.unwrap();
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    // Older programs ask the older version.
    let mut earlier = v1alpha::server_reflection_client::ServerReflectionClient::new(channel(&service).await);
    let request = v1alpha::ServerReflectionRequest {
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::ListServices(String::new())),
        ..Default::default()
    };
    let mut answers = earlier.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some());
}

#[tokio::test]
async fn open_watches_are_bounded_and_end_with_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    fs::write(&file, "[limits]\nwatchers = 2\n").unwrap();
    let mut command = program();
    command.arg("--config").arg(&file).arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(testbed());
    let mut service = Service::with(&mut command);
    let mut client = HealthClient::new(channel(&service).await);
    let mut first = client.watch(of("")).await.unwrap().into_inner();
    let second = client.watch(of("")).await.unwrap().into_inner();
    assert_eq!(client.watch(of("")).await.unwrap_err().code(), Code::ResourceExhausted);
    // A check is no stream; and a place that is left can be taken again.
    assert_eq!(client.check(of("")).await.unwrap().into_inner().status(), ServingStatus::Serving);
    drop(second);
    let until = Instant::now() + support::WAIT;
    while client.watch(of("")).await.is_err() {
        assert!(Instant::now() < until, "no place was given back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    first.message().await.unwrap().unwrap();
    service.signal(rustix::process::Signal::TERM);
    let ended = timeout(support::WAIT, first.message()).await.unwrap();
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    assert!(service.wait().success());
}
