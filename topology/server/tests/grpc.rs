//! The same over gRPC, by the generated client, on the same port.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use proto::v1alpha1::{self as pb, topology_client::TopologyClient};
use support::Service;
use tonic::{Code, transport::Channel};

fn job(id: &str, hosts: &[&str]) -> pb::JobSpec {
    let model = Some(pb::Model { name: "vgg16".into(), batch: Some(1_700), ..pb::Model::default() });
    pb::JobSpec { id: id.into(), model, hosts: hosts.iter().map(|h| (*h).to_owned()).collect(), ..pb::JobSpec::default() }
}

async fn connect(service: &Service) -> TopologyClient<Channel> {
    let channel = Channel::from_shared(format!("http://{}", service.address)).unwrap().connect().await.unwrap();
    TopologyClient::new(channel)
}

#[tokio::test]
async fn every_rpc_answers() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let mut client = connect(&service).await;
    let mut watch = client.watch_events(pb::WatchEventsRequest { after: None }).await.unwrap().into_inner();

    let request = pb::CommitRequest { jobs: vec![job("a", &["h1", "h5"]), job("b", &["h2", "h6"])], ..pb::CommitRequest::default() };
    let committed = client.commit(request).await.unwrap().into_inner();
    assert_eq!((committed.slots.len(), committed.explanation.len()), (2, 0), "nobody asked why");
    let mut event = watch.message().await.unwrap().unwrap();
    if event.kind == "fabric" {
        // The first fabric is announced just after it is in force.
        event = watch.message().await.unwrap().unwrap();
    }
    assert_eq!((event.kind.as_str(), event.plan_version), ("committed", committed.plan_version));

    let evaluated = client.evaluate(pb::EvaluateRequest::default()).await.unwrap().into_inner();
    assert_eq!((evaluated.plan_version, evaluated.ranked[0].outcome()), (committed.plan_version, pb::Outcome::Solved));
    let scenario = include_str!("../../../examples/two-jobs.json").to_owned();
    let solved = client.solve(pb::SolveRequest { scenario, ..pb::SolveRequest::default() }).await.unwrap().into_inner();
    assert!(solved.solution.contains("\"outcome\":\"solved\""));
    let jobs = client.list_jobs(pb::ListJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(jobs.jobs.iter().map(|j| j.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let links = client.list_links(pb::ListLinksRequest::default()).await.unwrap().into_inner();
    assert!(links.links[0].score.is_some() && links.total > 4);
    let plan = client.get_plan(pb::GetPlanRequest {}).await.unwrap().into_inner();
    assert_eq!((plan.plan_version, plan.slots.len()), (committed.plan_version, 2));
    assert!(client.list_agents(pb::ListAgentsRequest {}).await.unwrap().into_inner().agents.is_empty());
    let turns = client.list_turns(pb::ListTurnsRequest { limit: 1, ..pb::ListTurnsRequest::default() }).await.unwrap().into_inner();
    assert!(turns.plan_version == committed.plan_version && turns.groups.len() <= 1, "{turns:?}");
    assert!(client.get_telemetry(pb::GetTelemetryRequest::default()).await.unwrap().into_inner().jobs.is_empty());
    let events = client.list_events(pb::ListEventsRequest::default()).await.unwrap().into_inner();
    assert_eq!(events.events.last(), Some(&event));
    let fabric = client.get_fabric(pb::GetFabricRequest { summary: false }).await.unwrap().into_inner();
    let set = client.set_fabric(pb::SetFabricRequest { fabric: fabric.fabric }).await.unwrap().into_inner();
    assert_eq!(set.fabric_version, fabric.fabric_version + 1);
    let released =
        client.release(pb::ReleaseRequest { jobs: vec!["a".into(), "moon".into()], ..Default::default() }).await.unwrap().into_inner();
    assert_eq!(released.unknown, ["moon"]);
}

#[tokio::test]
async fn changes_are_explained_to_who_asks() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let mut client = connect(&service).await;
    // Both send for half of the time at the rate of the links that they share.
    let profile = r#"{"schema": "antiphase.profile/v1", "name": "p", "period_ns": 100000000, "ranks": {"dp": 2}, "source": "declared",
        "phases": [{"start_ns": 50000000, "duration_ns": 50000000, "rate_mbps": 45000, "collective": "ring", "scope": "data"}]}"#;
    let busy = |id, hosts| pb::JobSpec { model: None, profile: Some(profile.into()), ..job(id, hosts) };
    let commit = |job| pb::CommitRequest { jobs: vec![job], explain: true, ..pb::CommitRequest::default() };
    client.commit(commit(busy("a", &["h1", "h5"]))).await.unwrap();
    let both = client.commit(commit(busy("b", &["h1", "h6"]))).await.unwrap().into_inner();
    let all = pb::EvaluateRequest { predict: true, explain: true, ..pb::EvaluateRequest::default() };
    let evaluated = client.evaluate(all).await.unwrap().into_inner().ranked.remove(0).explanation;
    // Both stand on h1, which has one NIC.
    let warned = "host h1: the jobs a, b use 2 GPUs, and it has 1 (NICs for training): some may be on the same GPU";
    assert_eq!(both.warnings, [warned, "no agent is connected: these jobs are neither held nor measured"]);
    // What an evaluation of everything says, as far as it is of b.
    assert!(!both.explanation.is_empty() && both.explanation.iter().all(|line| evaluated.contains(line)), "{both:?} {evaluated:?}");
    assert!(both.explanation.iter().any(|line| line.contains("a and b")), "{both:?}");
    // Far from both, a job has nothing to do with them.
    let far = client.commit(commit(busy("far", &["h9", "h10"]))).await.unwrap().into_inner();
    assert!(!far.explanation.iter().any(|line| line.contains("a and b")), "{far:?}");
    let released = |jobs: &[&str], fields: &[&str]| pb::ReleaseRequest {
        jobs: jobs.iter().map(ToString::to_string).collect(),
        explain: true,
        fields: fields.iter().map(ToString::to_string).collect(),
    };
    let none = client.release(released(&["far"], &[])).await.unwrap().into_inner();
    assert_eq!(none.explanation, [""; 0], "it met nobody");
    let alone = client.release(released(&["b"], &["explanation"])).await.unwrap().into_inner();
    assert!(alone.plan_version == 0 && alone.explanation.len() == 1, "{alone:?}");
    assert!(alone.explanation[0].contains("no two jobs share a link"), "{alone:?}");
}

#[tokio::test]
async fn refusals_have_their_codes() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let mut client = connect(&service).await;
    let commit = |jobs, if_plan_version| pb::CommitRequest { jobs, if_plan_version, ..pb::CommitRequest::default() };
    let code = |status: tonic::Status| (status.code(), status.message().to_owned());
    let (bad, message) = code(client.commit(commit(vec![job("a", &["moon", "h1"])], None)).await.unwrap_err());
    assert!(bad == Code::InvalidArgument && message.contains("moon"), "{bad:?} {message}");
    let (stale, message) = code(client.commit(commit(vec![job("a", &["h1", "h5"])], Some(77))).await.unwrap_err());
    assert!(stale == Code::Aborted && message.contains("77"), "{stale:?} {message}");
    let (missing, _) = code(client.list_jobs(pb::ListJobsRequest { jobs: vec!["moon".into()], ..Default::default() }).await.unwrap_err());
    assert_eq!(missing, Code::NotFound);
    let (mode, _) = code(client.evaluate(pb::EvaluateRequest { mode: 77, ..pb::EvaluateRequest::default() }).await.unwrap_err());
    assert_eq!(mode, Code::InvalidArgument);
}
