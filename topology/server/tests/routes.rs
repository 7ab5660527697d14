//! Every route: what it answers, and how it refuses.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use antiphase_topology::history;
use serde_json::json;
use support::{Service, WAIT, job, program, request, testbed};

fn service() -> (tempfile::TempDir, Service) {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    (folder, service)
}

#[test]
fn jobs_are_committed_seen_and_released() {
    let (_folder, service) = service();
    let (status, first) = service.commit("a", &["h1", "h5"]);
    assert_eq!((status, &first["slots"][0]["job"], &first["slots"][0]["leader_host"]), (200, &json!("a"), &json!("h1")));
    let (_, second) = service.commit("b", &["h2", "h6"]);
    assert!(second["plan_version"].as_u64() > first["plan_version"].as_u64());

    let (_, plan) = service.ask("GET", "/v1alpha1/plan", "");
    assert_eq!((plan["plan_version"].clone(), plan["slots"].as_array().unwrap().len()), (second["plan_version"].clone(), 2));
    let (_, jobs) = service.ask("GET", "/v1alpha1/jobs?jobs=b", "");
    assert_eq!(
        (&jobs["jobs"][0]["id"], &jobs["jobs"][0]["state"], jobs["jobs"].as_array().unwrap().len()),
        (&json!("b"), &json!("committed"), 1)
    );
    // Both send up to their spines: the uplinks of leaf1 and leaf2 carry two jobs.
    let (_, links) = service.ask("GET", "/v1alpha1/links?demands=true&limit=1000", "");
    let shared: Vec<_> = links["links"].as_array().unwrap().iter().filter(|l| l["jobs"].as_array().unwrap().len() == 2).collect();
    assert!(!shared.is_empty() && shared[0]["score"].is_number() && shared[0]["demands"][1]["job"] == "b", "{links}");
    let name = shared[0]["id"].as_str().unwrap();
    let (_, one) = service.ask("GET", &format!("/v1alpha1/links?links={}", name.replace('>', "%3E")), "");
    assert_eq!((&one["links"][0]["id"], one["links"][0]["demands"].as_array().unwrap().len()), (&json!(name), 0));

    // Which links carry jobs may change between two questions, so the answer to the second is no error.
    let (status, none) = service.ask("GET", &format!("/v1alpha1/links?links=moon&links={}", name.replace('>', "%3E")), "");
    assert_eq!((status, &none["links"][0]["id"], none["links"].as_array().unwrap().len()), (200, &json!(name), 1));

    let (_, released) = service.ask("POST", "/v1alpha1/release", r#"{"jobs": ["a", "moon"]}"#);
    assert_eq!(released["unknown"], json!(["moon"]));
    let (_, jobs) = service.ask("GET", "/v1alpha1/jobs", "");
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
    let (_, agents) = service.ask("GET", "/v1alpha1/agents", "");
    assert_eq!(agents["agents"], json!([]));
    // b meets nobody any more, so there is nobody to take turns with; a is unknown.
    let (_, turns) = service.ask("GET", "/v1alpha1/turns?jobs=b", "");
    assert_eq!((&turns["groups"], &turns["total"], &turns["plan_version"]), (&json!([]), &json!(0), &jobs["plan_version"]));
    let (status, message) = service.refused("GET", "/v1alpha1/turns?jobs=a", "");
    assert!(status == 404 && message.contains("\"a\""), "{message}");
}

/// Whose a change was on a machine without certificates says the kernel, also of a release, and of gRPC as of HTTP.
#[test]
fn a_change_is_told_of_the_user_of_this_machine() {
    let (_folder, service) = service();
    service.commit("a", &["h1", "h5"]);
    service.ask("POST", "/v1alpha1/release", r#"{"jobs": ["a"]}"#);
    let (_, audit) = service.ask("GET", "/v1alpha1/audit", "");
    let by =
        |kind: &str| audit["entries"].as_array().unwrap().iter().find(|e| e["kind"] == kind).unwrap()["by"].as_str().unwrap().to_owned();
    let us = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find(|line| line.split(':').nth(2) == Some(&us.to_string())).and_then(|line| line.split(':').next());
    let name = name.map_or_else(|| format!("user {us}"), str::to_owned);
    assert_eq!([by("committed"), by("released")], [format!("{name} on this machine"), format!("{name} on this machine")]);
    assert_eq!(by("fabric"), "the configuration");
    let (_, events) = service.ask("GET", "/v1alpha1/events", "");
    let released = events["events"].as_array().unwrap().iter().find(|e| e["kind"] == "released").unwrap();
    assert_eq!(released["by"], format!("{name} on this machine"));
}

#[test]
fn the_links_of_a_job_are_listed_alone() {
    let (_folder, service) = service();
    service.commit("alpha", &["h1", "h5"]);
    service.commit("beta", &["h2", "h6"]);
    service.commit("gamma", &["h9", "h10"]);
    let of = |jobs: &str| {
        let (_, answer) = service.ask("GET", &format!("/v1alpha1/links?limit=1000&jobs={jobs}"), "");
        let links = answer["links"].as_array().unwrap().clone();
        assert_eq!(answer["total"], links.len(), "{answer}");
        links
    };
    let has = |link: &serde_json::Value, job: &str| link["jobs"].as_array().unwrap().iter().any(|one| *one == job);
    let alpha = of("alpha");
    assert!(alpha.iter().all(|link| has(link, "alpha")) && alpha.iter().any(|link| has(link, "beta")), "{alpha:?}");
    // Its NICs, which nobody shares, and what leads over spines.
    assert!(alpha.len() > alpha.iter().filter(|link| has(link, "beta")).count(), "{alpha:?}");
    assert_eq!(of("alpha,gamma").len(), alpha.len() + of("gamma").len());
    let (_, one) = service.ask("GET", "/v1alpha1/links?limit=1&jobs=alpha", "");
    assert_eq!((&one["total"], one["links"].as_array().unwrap().len()), (&json!(alpha.len()), 1));
    for path in ["links", "jobs", "turns"] {
        let (status, message) = service.refused("GET", &format!("/v1alpha1/{path}?jobs=alpah"), "");
        assert!(status == 404 && message.contains("no job \"alpah\" is committed; did you mean \"alpha\"?"), "{message}");
        let (_, message) = service.refused("GET", &format!("/v1alpha1/{path}?jobs=moon"), "");
        assert!(message.contains("no job \"moon\" is committed") && !message.contains("did you mean"), "{message}");
    }
}

#[test]
fn the_circles_of_a_link_are_a_picture() {
    let (_folder, service) = service();
    service.commit("a", &["h1", "h5"]);
    service.commit("b", &["h2", "h6"]);
    let (_, links) = service.ask("GET", "/v1alpha1/links", "");
    let id = links["links"][0]["id"].as_str().unwrap();
    let path = format!("/v1alpha1/links/circles.svg?link={}", id.replace('>', "%3E"));
    let answer = service.get(&format!("{path}&colour=7:a&colour=1:moon"));
    let has = |line: &str| answer.head.lines().any(|l| l.eq_ignore_ascii_case(line));
    assert!(answer.status == 200 && has("content-type: image/svg+xml") && has("cache-control: no-store"), "{}", answer.head);
    // Opened alone it shows itself in its own style, and loads and runs nothing.
    assert!(has("x-content-type-options: nosniff") && answer.head.contains("default-src 'none'"), "{}", answer.head);
    assert!(answer.body.starts_with("<svg ") && answer.body.ends_with("</svg>\n"), "{}", answer.body);
    for part in [&id.replace('>', "&gt;"), "before: no shifts", "after: shifted", "class=\"j7\"", "class=\"j1\""] {
        assert!(answer.body.contains(part), "{part} is not in {}", answer.body);
    }
    // For a page that has the style: the same drawing without it.
    let part = service.get(&format!("{path}&colour=7:a&fragment"));
    assert!(part.status == 200 && answer.body.contains("<style>") && !part.body.contains("<style"), "{}", part.body);
    let arcs = |body: &str| body.lines().filter(|line| line.starts_with("<path")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(arcs(&part.body), arcs(&answer.body));
    // A job alone on a link has circles without a score.
    let alone = service.get("/v1alpha1/links/circles.svg?link=h1-%3Eleaf1");
    assert!(alone.status == 200 && alone.body.contains("n/a"), "{} {}", alone.status, alone.body);
    // Of a job whose gate has not reported nothing is known.
    assert_eq!(service.get("/v1alpha1/jobs/iterations.svg?job=a").status, 204);
    // Of a link without jobs there is nothing to draw, and that is no error: its jobs may just have been released.
    let none = service.get("/v1alpha1/links/circles.svg?link=moon");
    assert!(none.status == 204 && none.body.is_empty(), "{} {}", none.status, none.body);
}

#[test]
fn the_map_of_the_fabric_is_a_picture() {
    let (_folder, service) = service();
    let lines = |body: &str| body.matches("class=\"link\"").count();
    let empty = service.get("/v1alpha1/fabric/map.svg");
    assert!(empty.status == 200 && lines(&empty.body) == 0 && empty.body.contains(">leaf1<"), "{} {}", empty.status, empty.body);
    service.commit("a", &["h1", "h5"]);
    service.commit("b", &["h2", "h6"]);
    let alone = service.get("/v1alpha1/fabric/map.svg");
    assert!(alone.body.contains("<style>") && alone.body.contains("score") && lines(&alone.body) > 0, "{}", alone.body);
    // For a page: no style and no legend, and every line names the worst link that it stands for.
    let part = service.get("/v1alpha1/fabric/map.svg?fragment");
    assert!(part.status == 200 && !part.body.contains("<style") && !part.body.contains("not shared: "), "{}", part.body);
    assert_eq!(lines(&part.body), lines(&alone.body));
    let (_, links) = service.ask("GET", "/v1alpha1/links", "");
    let shared = links["links"].as_array().unwrap().iter().filter(|l| l["score"].is_number());
    let shared: Vec<String> = shared.map(|l| l["id"].as_str().unwrap().replace('>', "&gt;")).collect();
    let named: Vec<&str> = part.body.split("data-link=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(named.len(), lines(&part.body));
    assert!(named.iter().all(|id| shared.iter().any(|s| s == id)), "{named:?} {shared:?}");
    // Both directions of a cable are one line.
    assert_eq!(2 * named.len(), shared.len());

    // By pods: a cell for each switch below the highest tier, as wide as asked; of one switch, a bar each way for each neighbour.
    let pods = service.get("/v1alpha1/fabric/map.svg?pods&width=640&fragment");
    assert!(pods.status == 200 && pods.body.contains("width=\"640\"") && !pods.body.contains("<style"), "{}", pods.body);
    assert!(pods.body.contains("data-switch=\"leaf1\"") && !pods.body.contains("data-switch=\"core"), "{}", pods.body);
    let leaf = service.get("/v1alpha1/fabric/map.svg?switch=leaf1");
    assert!(leaf.status == 200 && leaf.body.contains("<style>") && leaf.body.contains("data-link=\"h1-&gt;leaf1\""), "{}", leaf.body);
    assert_eq!(service.get("/v1alpha1/fabric/map.svg?switch=moon").status, 204);

    // Without a fabric there is nothing to draw.
    let folder = tempfile::tempdir().unwrap();
    let bare = Service::with(program().arg("--state").arg(folder.path().join("s.redb")));
    assert_eq!(bare.get("/v1alpha1/fabric/map.svg").status, 204);
}

/// A sample of ten minutes ago is in the file that a service of before left, and another one comes with the start.
#[test]
fn the_history_of_a_day_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("s.redb");
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let at_s = (now_s - 600) / history::STEP_S * history::STEP_S;
    let values = [Some(0.9), Some(0.8), Some(1.2), Some(5.0), None, Some(0.1)];
    history::History::open(&history::path(&state), now_s).add(history::Sample { at_s, values });
    let mut service = Service::start(&state);
    // Each piece of a line begins with a move.
    let pieces = |service: &Service, class: &str| {
        let picture = service.get("/v1alpha1/history.svg?seconds=3600&width=500&fragment");
        assert_eq!(picture.status, 200, "{}", picture.body);
        let line = picture.body.lines().find(|line| line.contains(&format!("class=\"curve {class}\""))).map(str::to_owned);
        line.map_or(0, |line| line.matches('M').count())
    };
    // Before jobs come nothing is shared, which is no score of the sample that this start takes.
    assert_eq!((pieces(&service, "j1"), pieces(&service, "j3"), pieces(&service, "j5")), (1, 1, 0));
    service.commit("a", &["h1", "h5"]);
    service.commit("b", &["h2", "h6"]);
    service.signal(rustix::process::Signal::TERM);
    service.wait();
    // With jobs in the state file, the next start has a score at once.
    let service = Service::start(&state);
    let until = Instant::now() + WAIT;
    while pieces(&service, "j1") < 2 {
        assert!(Instant::now() < until, "no sample came");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(service.get("/v1alpha1/history.svg").status, 200);
}

#[test]
fn a_commit_can_be_guarded_and_repeated() {
    let (_folder, service) = service();
    let (_, first) = service.commit("a", &["h1", "h5"]);
    let plan_version = first["plan_version"].as_u64().unwrap();
    let stale = json!({ "jobs": [job("b", &["h2", "h6"])], "if_plan_version": plan_version - 1 }).to_string();
    let (status, message) = service.refused("POST", "/v1alpha1/commit", &stale);
    assert_eq!(status, 409, "{message}");
    assert_eq!(service.ask("GET", "/v1alpha1/plan", "").1["plan_version"], plan_version);

    let keyed = json!({ "jobs": [job("b", &["h2", "h6"])], "if_plan_version": plan_version, "idempotency_key": "once" }).to_string();
    let (status, once) = service.ask("POST", "/v1alpha1/commit", &keyed);
    assert_eq!(status, 200, "{once}");
    let (status, again) = service.ask("POST", "/v1alpha1/commit", &keyed);
    assert_eq!((status, &again["plan_version"]), (200, &once["plan_version"]), "{again}");

    // The same key for anything else is refused, whatever else of it is alike.
    let other =
        |jobs: serde_json::Value, lease_ms: u64| json!({ "jobs": jobs, "idempotency_key": "once", "lease_ms": lease_ms }).to_string();
    for body in [
        other(json!([job("b", &["h9", "h10"])]), 0),
        other(json!([job("a", &["h2", "h6"])]), 0),
        other(json!([job("b", &["h2", "h6"])]), 60_000),
    ] {
        let (status, message) = service.refused("POST", "/v1alpha1/commit", &body);
        assert!(status == 409 && message.contains("another commit"), "{status} {message}");
    }
    // Whoever released the job is not overruled by a late repetition, and its sender is not told that the job stands.
    assert_eq!(service.ask("POST", "/v1alpha1/release", &json!({ "jobs": ["b"] }).to_string()).0, 200);
    let (status, message) = service.refused("POST", "/v1alpha1/commit", &keyed);
    assert!(status == 410 && message.contains("not committed any more"), "{status} {message}");
}

#[test]
fn candidates_are_ranked_and_nothing_changes() {
    let (_folder, service) = service();
    service.commit("a", &["h1", "h5"]);
    let before = service.ask("GET", "/v1alpha1/plan", "").1;
    let request = json!({
        "jobs": [{ "id": "b", "model": { "name": "vgg16", "batch": 1_700 } }],
        "candidates": [
            { "id": "across", "placements": [{ "job": "b", "hosts": ["h2", "h6"] }] },
            { "id": "apart", "placements": [{ "job": "b", "hosts": ["h13", "h14"] }] },
            { "id": "moved", "placements": [{ "job": "b", "hosts": ["h2", "h6"] }, { "job": "a", "hosts": ["h9", "h10"] }] },
        ],
        "objective": "time", "explain": true, "predict": true,
    });
    let (status, answer) = service.ask("POST", "/v1alpha1/evaluate", &request.to_string());
    assert_eq!(status, 200, "{answer}");
    let ranked = answer["ranked"].as_array().unwrap();
    assert_eq!(ranked.len(), 3);
    assert!(ranked.iter().all(|c| c["outcome"] == "solved" && c["time_interleaved"].is_number()), "{answer}");
    let across = ranked.iter().find(|c| c["id"] == "across").unwrap();
    assert!(across["shared_links"].as_u64().unwrap() > 0 && across["shifts"].as_array().unwrap().len() == 2);
    // As the jobs come, by turns and by slots; and in words.
    let numbers = ["time_free", "time_by_turns", "time_by_slots", "overlap_free", "overlap_by_turns", "overlap_by_slots"];
    assert!(ranked.iter().all(|c| numbers.iter().all(|n| c[n].is_number())), "{answer}");
    assert_eq!(across["time_by_turns"], across["time_interleaved"], "turns are the control: {across}");
    let [free, turns] = ["free_ns", "by_turns_ns"].map(|of| across["shifts"][1][of].as_u64().unwrap());
    let said = across["explanation"].as_array().unwrap();
    assert!(turns <= free && across["shifts"][1]["by_slots_ns"].is_number(), "{across}");
    assert!(said.iter().any(|s| s.as_str().unwrap().contains("fit on it together")), "{said:?}");
    assert_eq!((&answer["plan_version"], service.ask("GET", "/v1alpha1/plan", "").1), (&before["plan_version"], before.clone()));
    let (_, placed) = service.ask("POST", "/v1alpha1/evaluate", "{}");
    assert_eq!(placed["ranked"][0]["shifts"][0]["job"], "a");
}

#[test]
fn a_scenario_is_solved_as_by_the_command_line() {
    let (_folder, service) = service();
    let scenario = include_str!("../../../examples/two-jobs.json");
    let (status, solution) = service.ask("POST", "/v1alpha1/solve", scenario);
    assert_eq!((status, &solution["schema"], &solution["outcome"]), (200, &json!("antiphase.solution/v1"), &json!("solved")));
    let (_, given) = service.ask("POST", "/v1alpha1/solve?shifts=vgg16-a%3D1", scenario);
    assert_eq!(given["outcome"], "evaluated");
    let (_, robust) = service.ask("POST", "/v1alpha1/solve?robust=5", scenario);
    assert!(robust["robust_mean_score"].is_number());
    // Two links that share the same two jobs: a loop, which paper mode refuses and which is an answer.
    let phases = json!([{ "start": 0, "end": 5, "rate_mbps": 10 }]);
    let one = |id: &str| json!({ "id": id, "period_ticks": 10, "links": ["x", "y"], "phases": phases });
    let links = json!([{ "id": "x", "capacity_mbps": 10 }, { "id": "y", "capacity_mbps": 10 }]);
    let looped = json!({ "schema": "antiphase.scenario/v1", "tick_ns": 1, "links": links, "jobs": [one("a"), one("b")] });
    let (status, answer) = service.ask("POST", "/v1alpha1/solve?mode=cassini", &looped.to_string());
    assert_eq!((status, &answer["outcome"]), (200, &json!("loop")));
}

#[test]
fn the_fabric_is_read_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::with(program().arg("--state").arg(folder.path().join("state.redb")));
    assert_eq!(service.refused("GET", "/v1alpha1/fabric", "").0, 404);
    assert_eq!(service.get("/readyz").status, 503);
    assert_eq!(service.refused("POST", "/v1alpha1/commit", &json!({ "jobs": [job("a", &["h1", "h5"])] }).to_string()).0, 412);
    let text = std::fs::read_to_string(testbed()).unwrap();
    let (status, set) = service.ask("PUT", "/v1alpha1/fabric", &text);
    assert_eq!((status, &set["fabric_version"]), (200, &json!(1)), "{set}");
    let (_, fabric) = service.ask("GET", "/v1alpha1/fabric", "");
    assert_eq!((&fabric["hosts"], &fabric["switches"], &fabric["links"]), (&json!(24), &json!(13), &json!(96)));
    assert_eq!(fabric["fabric"].as_str().unwrap(), text);
    assert_eq!(service.get("/readyz").status, 200);

    service.commit("a", &["h1", "h5"]);
    // The same cables under other names: the job's hosts are gone, so it is refused and nothing changes.
    let (status, message) = service.refused("PUT", "/v1alpha1/fabric", &text.replace("h5", "x5"));
    assert!(status == 400 && message.contains("h5"), "{status} {message}");
    let body = json!({ "fabric": text }).to_string();
    let json = request(service.address, "PUT", "/v1alpha1/fabric", &["content-type: application/json"], body.as_bytes()).unwrap();
    assert!(json.status == 200 && json.body.contains("\"fabric_version\":2"), "{json:?}");
    assert_eq!(service.ask("GET", "/v1alpha1/jobs", "").1["jobs"][0]["id"], "a");
}

#[test]
fn what_is_wrong_is_said_on_one_line() {
    let (_folder, service) = service();
    let bad: &[(&str, &str, &str, u16, &str)] = &[
        ("GET", "/moon", "", 404, "no path"),
        ("GET", "/v1alpha1/moon", "", 404, "moon"),
        ("DELETE", "/v1alpha1/jobs", "", 405, "no such method"),
        ("GET", "/v1alpha1/commit", "", 405, "no such method"),
        ("GET", "/v1alpha1/jobs?moon=1", "", 400, "\"moon\""),
        ("GET", "/v1alpha1/jobs?jobs=moon", "", 404, "moon"),
        ("GET", "/v1alpha1/links?limit=-1", "", 400, "limit"),
        ("GET", "/v1alpha1/links?demands=perhaps", "", 400, "perhaps"),
        ("GET", "/v1alpha1/links/circles.svg", "", 400, "link is missing"),
        ("GET", "/v1alpha1/links/circles.svg?link=moon&colour=x:a", "", 400, "SLOT:JOB"),
        ("GET", "/v1alpha1/links/circles.svg?link=moon&moon", "", 400, "\"moon\""),
        ("POST", "/v1alpha1/links/circles.svg", "", 405, "no such method"),
        ("GET", "/v1alpha1/fabric/map.svg?moon", "", 400, "\"moon\""),
        ("GET", "/v1alpha1/fabric/map.svg?width=9", "", 400, "width"),
        ("GET", "/v1alpha1/fabric/map.svg?pods&width=x", "", 400, "width"),
        ("GET", "/v1alpha1/fabric/map.svg?pods&switch=leaf1", "", 400, "name one"),
        ("GET", "/v1alpha1/jobs/iterations.svg", "", 400, "job is missing"),
        ("GET", "/v1alpha1/history.svg?seconds=299", "", 400, "300 to 86400"),
        ("GET", "/v1alpha1/history.svg?moon", "", 400, "\"moon\""),
        ("GET", "/v1alpha1/jobs/iterations.svg?job=moon&moon", "", 400, "\"moon\""),
        ("GET", "/v1alpha1/events?after=x", "", 400, "after"),
        ("GET", "/v1alpha1/telemetry?seconds=1.5", "", 400, "seconds"),
        ("GET", "/v1alpha1/jobs?jobs=%zz", "", 400, "percent-encoded"),
        ("POST", "/v1alpha1/commit", "", 400, "line 1 column 0"),
        ("POST", "/v1alpha1/commit", "{}", 400, "jobs: empty"),
        ("POST", "/v1alpha1/commit", "{\"jobs\":\n [3]}", 400, "line 2"),
        ("POST", "/v1alpha1/commit", r#"{"jobs":[{"id":"a"}]}"#, 400, "no hosts"),
        ("POST", "/v1alpha1/commit", r#"{"jobs":[{"id":"a","hosts":["h1"]}]}"#, 400, "exactly one of"),
        (
            "POST",
            "/v1alpha1/commit",
            r#"{"jobs":[{"id":"../a","hosts":["h1"],"model":{"name":"vgg16"}}]}"#,
            400,
            "the name begins with a dot",
        ),
        ("POST", "/v1alpha1/commit", r#"{"jobs":[{"id":"a","hosts":["moon","h1"],"model":{"name":"vgg16"}}]}"#, 400, "moon"),
        ("POST", "/v1alpha1/commit", r#"{"jobs":[{"id":"a","hosts":["h1","h2"],"model":{"name":"moon"}}]}"#, 400, "unknown model"),
        ("POST", "/v1alpha1/commit", r#"{"jobs":[{"id":"a","hosts":["h1","h2"],"profile":{"moon":1}}]}"#, 400, "jobs[0]"),
        ("POST", "/v1alpha1/commit", r#"{"jobs":[{"id":"a"}],"lease_ms":99999999999999}"#, 400, "lease_ms"),
        ("POST", "/v1alpha1/release", r#"{"jobs":[]}"#, 400, "jobs: empty"),
        ("POST", "/v1alpha1/evaluate", "{}", 400, "none given and none committed"),
        ("POST", "/v1alpha1/evaluate", r#"{"mode":"moon"}"#, 400, "moon"),
        ("POST", "/v1alpha1/evaluate", r#"{"candidates":[{"id":"x","placements":[{"job":"moon","hosts":["h1"]}]}]}"#, 400, "moon"),
        ("POST", "/v1alpha1/solve", "{}", 400, "scenario: line 1"),
        ("POST", "/v1alpha1/solve?mode=moon", "{}", 400, "moon"),
        ("POST", "/v1alpha1/solve?shifts=a", "{}", 400, "JOB=TICKS"),
        ("PUT", "/v1alpha1/fabric", "moon: 1\n", 400, "fabric: "),
        ("PUT", "/v1alpha1/fabric", "", 400, "fabric: "),
    ];
    for (method, path, body, status, part) in bad {
        let (seen, message) = service.refused(method, path, body);
        assert!(seen == *status && message.contains(part), "{method} {path} {body}: {seen} {message}");
    }
    let utf8 = request(service.address, "POST", "/v1alpha1/solve", &[], b"{\xff}").unwrap();
    assert!(utf8.status == 400 && utf8.body.contains("byte 1 is not UTF-8"), "{utf8:?}");
    assert_eq!(service.ask("GET", "/v1alpha1/plan", "").1["slots"], json!([]));
}

#[test]
fn events_are_listed_and_streamed_and_resumed() {
    let (_folder, service) = service();
    service.commit("a", &["h1", "h5"]);
    let (_, listed) = service.ask("GET", "/v1alpha1/events?limit=1000", "");
    let events = listed["events"].as_array().unwrap();
    let committed = events.iter().find(|e| e["kind"] == "committed").unwrap();
    let before = committed["sequence"].as_u64().unwrap() - 1;
    let (_, after) = service.ask("GET", &format!("/v1alpha1/events?after={before}"), "");
    assert_eq!(after["events"][0], *committed);

    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    write!(stream, "GET /v1alpha1/events/stream HTTP/1.1\r\nhost: localhost\r\nlast-event-id: {before}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut next_id =
        || lines.find_map(|l| l.strip_prefix("id: ").or_else(|| l.strip_prefix("id:")).map(|id| id.trim().parse::<u64>().unwrap()));
    assert_eq!(next_id(), Some(before + 1));
    service.commit("b", &["h2", "h6"]);
    assert_eq!(next_id(), Some(before + 2));
    // A number that this service has not reached, as of one whose clock was ahead: the gap is said, and what is known follows.
    let ahead = before + 1_000_000_000;
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    write!(stream, "GET /v1alpha1/events/stream HTTP/1.1\r\nhost: localhost\r\nlast-event-id: {ahead}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut next =
        || lines.find_map(|l| l.strip_prefix("data:").map(|data| serde_json::from_str::<serde_json::Value>(data.trim()).unwrap()));
    let gap = next().unwrap();
    let says = gap["message"].as_str().unwrap();
    assert!(gap["kind"] == "gap" && gap["severity"] == "warning" && says.starts_with(&format!("event {ahead} is ahead")), "{gap}");
    let (_, all) = service.ask("GET", "/v1alpha1/events?limit=1000", "");
    let first = next().unwrap();
    assert_eq!(first, all["events"][0]);
    assert_eq!(gap["sequence"].as_u64().unwrap() + 1, first["sequence"].as_u64().unwrap());
    // A list says the same.
    let (_, listed) = service.ask("GET", &format!("/v1alpha1/events?after={ahead}&limit=1000"), "");
    let listed = listed["events"].as_array().unwrap();
    assert_eq!((listed[0]["kind"].as_str(), listed[1..].len()), (Some("gap"), all["events"].as_array().unwrap().len()));
    assert_eq!(listed[1], all["events"][0]);
    // So it is after a restart, which holds nothing of before: one that is older than all. From the one before the first nothing is missing.
    let oldest = all["events"][0]["sequence"].as_u64().unwrap();
    let first_after = |number: u64| service.ask("GET", &format!("/v1alpha1/events?after={number}"), "").1["events"][0].clone();
    let gap = first_after(oldest - 2);
    assert!(gap["kind"] == "gap" && gap["message"].as_str().unwrap().contains("older than all"), "{gap}");
    assert_eq!(first_after(oldest - 1), all["events"][0]);
    let bad = request(service.address, "GET", "/v1alpha1/events/stream", &["last-event-id: moon"], b"").unwrap();
    assert_eq!(bad.status, 400);
}

#[test]
fn telemetry_health_and_metrics_are_there() {
    let (_folder, service) = service();
    service.commit("a", &["h1", "h5"]);
    service.commit("b", &["h2", "h6"]);
    service.ask("POST", "/v1alpha1/evaluate", "{}");
    let (status, telemetry) = service.ask("GET", "/v1alpha1/telemetry?seconds=60&all_hosts", "");
    assert_eq!((status, telemetry), (200, json!({ "hosts": [], "jobs": [], "ports_total": 0, "jobs_total": 0 })));
    assert_eq!(service.get("/healthz").body, "ok\n");
    let metrics = service.get("/metrics").body;
    let has = |line: &str| assert!(metrics.lines().any(|l| l.starts_with(line)), "{line} is not in\n{metrics}");
    has("antiphase_build_info{version=");
    has("antiphase_link_compatibility_score{link=\"leaf1->");
    has("antiphase_job_period_seconds{job_id=\"a\"} 0.3255");
    has("antiphase_jobs{state=\"committed\"} 2");
    has("antiphase_agent_up 0");
    has("antiphase_evaluate_duration_seconds_count 1");
    has("antiphase_store_commit_seconds_count 3");
    has("antiphase_store_up 1");
    has("antiphase_topology_version 1");
    has("antiphase_request_duration_seconds_count{protocol=\"http\",request=\"POST evaluate\"} 1");
    has("antiphase_request_duration_seconds_count{protocol=\"http\",request=\"POST commit\"} 2");
    has("process_open_fds ");
    has("process_start_time_seconds 1");
    // Whatever strangers ask for, it makes one series.
    for n in 0..5 {
        service.get(&format!("/v1alpha1/none{n}"));
        service.get(&format!("/none{n}"));
    }
    let after = service.get("/metrics").body;
    let others = "antiphase_request_duration_seconds_count{protocol=\"http\",request=\"other\"} 10";
    assert!(after.lines().any(|line| line == others) && !after.contains("none"), "{after}");
    // Nor does what is refused before anybody looks at its path, nor a method of one's own.
    for n in 0..5 {
        let path = format!("/v1alpha1/none{n}");
        let evil = request(service.address, "POST", &path, &["origin: https://evil.example"], b"{}").unwrap();
        assert_eq!(evil.status, 403);
        let strange = format!("NONE{n}");
        for headers in [&[][..], &["origin: https://evil.example"]] {
            for path in ["/v1alpha1/jobs", "/healthz", path.as_str()] {
                request(service.address, &strange, path, headers, b"").unwrap();
            }
        }
    }
    let evil = request(service.address, "POST", "/v1alpha1/commit", &["origin: https://evil.example"], b"{}").unwrap();
    assert_eq!(evil.status, 403);
    let after = service.get("/metrics").body;
    let others = "antiphase_request_duration_seconds_count{protocol=\"http\",request=\"other\"} 45";
    assert!(after.lines().any(|line| line == others) && !after.to_lowercase().contains("none"), "{after}");
    // Our own route keeps its name, refused or not.
    let commits = "antiphase_request_duration_seconds_count{protocol=\"http\",request=\"POST commit\"} 3";
    assert!(after.lines().any(|line| line == commits), "{after}");
    // A link with one job has no score.
    assert!(!metrics.contains("link_compatibility_score{link=\"h1->"), "{metrics}");
    promtool(&metrics);
}

fn promtool(metrics: &str) {
    let spawned = std::process::Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        println!("skipped: promtool is not installed (Debian: prometheus), so the exposition was not checked with it");
        return;
    };
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

/// A fabric that is replaced while jobs are placed on it makes new ids of its hosts; the jobs are placed again.
#[test]
fn commits_go_on_while_the_fabric_is_replaced() {
    const FABRICS: u64 = 10;
    let (_folder, service) = service();
    let fabric = std::fs::read_to_string(testbed()).unwrap();
    let replace = |n: u64| {
        let (status, answer) = service.ask("PUT", "/v1alpha1/fabric", &fabric);
        assert_eq!((status, answer["fabric_version"].as_u64()), (200, Some(2 + n)), "{answer}");
    };
    std::thread::scope(|scope| {
        let replacing = scope.spawn(|| (0..FABRICS).for_each(replace));
        let mut n = 0;
        while !replacing.is_finished() {
            let (status, answer) = service.commit(&format!("job{}", n % 3), &["h1", "h5"]);
            assert_eq!(status, 200, "{answer}");
            n += 1;
        }
    });
    assert_eq!(service.ask("GET", "/v1alpha1/jobs", "").1["jobs"].as_array().unwrap()[0]["hosts"], json!(["h1", "h5"]));
}

#[test]
fn a_job_that_says_too_much_is_refused() {
    let (_folder, service) = service();
    let phase = |i: u64| json!({ "start_ns": i * 100, "duration_ns": 50, "rate_mbps": 1, "collective": "ring", "scope": "data" });
    let phases: Vec<_> = (0..20_000).map(phase).collect();
    let (schema, ranks) = ("antiphase.profile/v1", json!({ "dp": 2 }));
    let profile = json!({ "schema": schema, "name": "p", "period_ns": 2_000_000, "phases": phases, "ranks": ranks, "source": "declared" });
    let body = json!({ "jobs": [{ "id": "a", "profile": profile, "hosts": ["h1", "h5"] }] });
    let (status, message) = service.refused("POST", "/v1alpha1/commit", &body.to_string());
    assert!(status == 429 && message.contains("bytes of a job's document: ") && message.ends_with("at most 1048576"), "{message}");
}

#[test]
fn the_fabric_is_exported_with_a_tag_that_changes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    let ask = |path: &str, tag: &str| request(service.address, "GET", &format!("/v1alpha1/fabric/export?{path}"), &[tag], b"").unwrap();
    let field = |head: &str, name: &str| head.lines().find_map(|l| l.strip_prefix(name)).map(str::to_owned);
    let none = "x-no: tag";
    let first = ask("format=slurm-conf", none);
    assert_eq!(first.status, 200, "{}", first.body);
    // The 24 hosts of the testbed stand below six leaves.
    assert_eq!(first.body.matches("Nodes=h").count(), 6, "{}", first.body);
    assert!(field(&first.head, "x-antiphase-note: ").is_some(), "a tree loses capacities and uplinks, and does not say so: {}", first.head);
    let tag = field(&first.head, "etag: ").unwrap();
    let known = format!("if-none-match: {tag}");
    let again = ask("format=slurm-conf", &known);
    assert_eq!((again.status, again.body.as_str(), field(&again.head, "etag: ")), (304, "", Some(tag.clone())));
    for (name, part) in [
        ("native", "schema: antiphase.fabric/v1"),
        ("slurm-yaml", "switches:"),
        ("kubernetes-labels", "fabric.topograph.run/tier-0: leaf1"),
        ("kubernetes-labels&label_keys=example.com/t%7Btier%7D", "example.com/t0: leaf1"),
        ("hyper-node", "kind: HyperNode"),
    ] {
        let other = ask(&format!("format={name}"), &known);
        assert!(other.status == 200 && other.body.contains(part), "{name}: {} {}", other.status, other.body);
    }
    // For programs that read no YAML: the same manifests as a list, which has a tag of its own.
    let list = ask("format=kubernetes-labels&json", none);
    let manifests: serde_json::Value = serde_json::from_str(&list.body).unwrap();
    assert!(list.head.contains("application/json") && manifests["kind"] == "List", "{}", list.head);
    let h1 = &manifests["items"][0];
    assert_eq!((manifests["items"].as_array().unwrap().len(), &h1["kind"], &h1["metadata"]["name"]), (24, &json!("Node"), &json!("h1")));
    assert_eq!(h1["metadata"]["labels"]["fabric.topograph.run/tier-0"], "leaf1");
    assert_ne!(field(&list.head, "etag: "), field(&ask("format=kubernetes-labels", none).head, "etag: "));
    for (query, part) in [
        ("format=xml", "expected native, slurm-yaml"),
        ("", "format is missing"),
        ("format=native&label_keys=x", "label keys"),
        ("format=slurm-conf&json", "json is for kubernetes-labels and hyper-node"),
    ] {
        let refused = ask(query, none);
        assert!(refused.status == 400 && refused.body.contains(part), "{query}: {}", refused.body);
    }
    // Another fabric has another tag.
    let smaller: String =
        std::fs::read_to_string(testbed()).unwrap().lines().filter(|line| !line.contains("h24")).map(|line| format!("{line}\n")).collect();
    let (status, said) = service.ask("PUT", "/v1alpha1/fabric", &smaller);
    assert_eq!(status, 200, "{said}");
    let changed = ask("format=slurm-conf", &known);
    assert!(changed.status == 200 && field(&changed.head, "etag: ") != Some(tag), "{}", changed.head);
}
