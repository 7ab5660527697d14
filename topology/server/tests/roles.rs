//! What each role may do, over real connections whose callers a test decides.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{net::SocketAddr, sync::Arc};

use antiphase_topology::{
    FabricClock, TelemetryHandle,
    api::{Api, Parts},
    brain::{Brain, Surroundings},
    config::Config,
    events::EventLog,
    http::{Acceptor, Stream, router, serve},
    metrics::Metrics,
    quic,
    role::{Caller, Role},
    shutdown::Shutdown,
    store::StateFile,
};
use proto::v1alpha1::{self as pb, topology_client::TopologyClient};
use support::request;
use tokio::{net::TcpListener, sync::watch};

struct Served {
    address: SocketAddr,
    shutdown: Shutdown,
    brain: Brain,
    _folder: tempfile::TempDir,
}

async fn serve_as(caller: Caller) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let (clock, metrics) = (FabricClock::start(), Arc::new(Metrics::new().unwrap()));
    let around =
        Surroundings { clock, events: EventLog::new(clock.now()), telemetry: TelemetryHandle::default(), metrics: Arc::clone(&metrics) };
    let file = StateFile::open(&folder.path().join("s.redb")).unwrap();
    let brain = Brain::start(&state::Config::default(), file, Vec::new(), around.clone()).unwrap();
    // The sender may go: the configuration stays as it is.
    let config = watch::Sender::new(Arc::new(Config::default())).subscribe();
    let (events, telemetry) = (around.events, around.telemetry);
    let (handle, health) = (brain.handle.clone(), brain.health.clone());
    let sessions = Arc::new(quic::Stats::default());
    let api = Api::new(Parts { brain: handle, health, telemetry, events, metrics, sessions, clock, config });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = Shutdown::default();
    let acceptor = Acceptor::With(Arc::new(move |stream, _| {
        Box::pin(async move { Ok((Box::new(stream) as Box<dyn Stream>, caller)) }) as futures_util::future::BoxFuture<'static, _>
    }));
    tokio::spawn(serve(listener, acceptor, router(api.clone(), shutdown.clone()), api, shutdown.clone()));
    Served { address, shutdown, brain, _folder: folder }
}

/// Status of each request, in order: a read, an evaluation, a change, health, the page.
async fn statuses(caller: Caller) -> ([u16; 5], [bool; 3]) {
    let served = serve_as(caller).await;
    let address = served.address;
    let http = tokio::task::spawn_blocking(move || {
        let ask = |method: &str, path: &str| request(address, method, path, &[], b"{}").unwrap().status;
        [
            ask("GET", "/v1alpha1/plan"),
            ask("POST", "/v1alpha1/solve"),
            ask("POST", "/v1alpha1/release"),
            ask("GET", "/healthz"),
            ask("GET", "/"),
        ]
    });
    let http = http.await.unwrap();
    let channel = tonic::transport::Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = TopologyClient::new(channel);
    let denied = |status: Option<tonic::Status>| status.is_some_and(|s| s.code() == tonic::Code::PermissionDenied);
    let grpc = [
        denied(client.get_plan(pb::GetPlanRequest {}).await.err()),
        denied(client.solve(pb::SolveRequest::default()).await.err()),
        denied(client.release(pb::ReleaseRequest::default()).await.err()),
    ];
    served.shutdown.begin();
    tokio::task::spawn_blocking(|| served.brain.stop()).await.unwrap();
    (http, grpc)
}

#[tokio::test]
async fn each_role_may_do_what_the_ones_before_it_may_and_more() {
    // 400 is a request that was let through: its body is bad.
    let role = |role| statuses(Caller { role });
    assert_eq!(role(None).await, ([403, 403, 403, 200, 403], [true, true, true]));
    assert_eq!(role(Some(Role::Read)).await, ([200, 403, 403, 200, 200], [false, true, true]));
    assert_eq!(role(Some(Role::Evaluate)).await, ([200, 400, 403, 200, 200], [false, false, true]));
    assert_eq!(role(Some(Role::Admin)).await, ([200, 400, 400, 200, 200], [false, false, false]));
}
