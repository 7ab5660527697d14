//! The verbs of schedulers of Kubernetes, with requests in the shapes that kube-scheduler and Volcano document.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Answer, Service, job, program, request, testbed};

fn service(more: &str) -> (tempfile::TempDir, Service) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    fs::write(&file, format!("[extender]\nenabled = true\n{more}")).unwrap();
    let mut command = program();
    command.arg("--config").arg(&file).arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(testbed());
    let service = Service::with(&mut command);
    (folder, service)
}

fn ask(service: &Service, verb: &str, body: &Value) -> (Value, Option<String>) {
    let answer: Answer = request(service.address, "POST", &format!("/extender/{verb}"), &[], body.to_string().as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{verb}: {}", answer.body);
    let said = answer.head.lines().find_map(|line| line.strip_prefix("x-antiphase-message: ")).map(str::to_owned);
    (serde_json::from_str(&answer.body).unwrap(), said)
}

/// A pod as the API server stores it, in what matters of it.
fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": { "name": "b-1", "namespace": "ml", "uid": "8c6a", "labels": { "app": "train" }, "annotations": annotations },
        "spec": { "containers": [{ "name": "t", "image": "i", "resources": { "limits": { "nvidia.com/gpu": "8" } } }] },
        "status": { "phase": "Pending" },
    })
}

fn node(name: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } }, "spec": {}, "status": { "capacity": { "cpu": "96" } } })
}

/// The second pod of job b, whose first stands on h2.
fn second() -> Value {
    json!({ "antiphase/job": "b", "antiphase/profile": "vgg16", "antiphase/gpus": "1", "antiphase/hosts": "h2" })
}

/// Two jobs that send by the NIC of h7: to stand there costs time, and a host beside h2 meets nobody.
fn crowd(service: &Service) {
    let jobs = json!([job("x", &["h5", "h7"]), job("y", &["h6", "h7"])]);
    let (status, answer) = service.ask("POST", "/v1alpha1/commit", &json!({ "jobs": jobs }).to_string());
    assert_eq!(status, 200, "{answer}");
}

fn score(scores: &Value, host: &str) -> i64 {
    let all = scores.as_array().unwrap();
    all.iter().find(|one| one["Host"] == host).unwrap()["Score"].as_i64().unwrap()
}

/// A host under the leaf of h2, by the fabric itself.
fn beside(service: &Service) -> String {
    let (_, fabric) = service.ask("GET", "/v1alpha1/fabric", "");
    let fabric = fabric::native::read(fabric["fabric"].as_str().unwrap()).unwrap();
    let leaf_of = |host: &str| {
        let host = fabric.find(host).unwrap();
        fabric.link(fabric.links_from(host)[0]).to.node
    };
    (1..=24).map(|i| format!("h{i}")).find(|name| name != "h2" && leaf_of(name) == leaf_of("h2")).unwrap()
}

#[test]
fn a_node_is_judged_beside_the_pods_that_stand_already() {
    let (_folder, service) = service("");
    crowd(&service);
    let near = beside(&service);
    let args = json!({ "Pod": pod(&second()), "Nodes": null, "NodeNames": ["h7", near, "h2"] });
    let (scores, said) = ask(&service, "prioritize", &args);
    assert_eq!((scores.as_array().unwrap().len(), said), (3, None), "{scores}");
    // Under the same leaf no other job is met, and on h2 the job stands already.
    assert_eq!((score(&scores, &near), score(&scores, "h2")), (10, 10), "{scores}");
    assert!(score(&scores, "h7") < 10, "{scores}");
    // The same in the shape of a scheduler that sends whole nodes.
    let whole =
        json!({ "Pod": pod(&second()), "Nodes": { "metadata": {}, "items": [node("h7"), node(&near), node("h2")] }, "NodeNames": null });
    assert_eq!(ask(&service, "prioritize", &whole).0, scores);
    // Labels count where there is no annotation.
    let mut labelled = args;
    labelled["Pod"]["metadata"]["labels"] = labelled["Pod"]["metadata"]["annotations"].take();
    assert_eq!(ask(&service, "prioritize", &labelled).0, scores);
}

#[test]
fn a_filter_passes_all_unless_told_otherwise() {
    let (_folder, lenient) = service("");
    crowd(&lenient);
    let near = beside(&lenient);
    let args = json!({ "Pod": pod(&second()), "Nodes": null, "NodeNames": ["h7", near] });
    let (all, _) = ask(&lenient, "filter", &args);
    assert_eq!(all, json!({ "Nodes": null, "NodeNames": ["h7", near], "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": "" }));

    let (_other, strict) = service("slower_percent = 1\n");
    crowd(&strict);
    let (some, _) = ask(&strict, "filter", &args);
    assert_eq!(some["NodeNames"], json!([near]), "{some}");
    assert!(some["FailedNodes"]["h7"].as_str().unwrap().contains("more than on the best node"), "{some}");
    // Whole nodes go back whole, without the one that failed.
    let whole = json!({ "Pod": pod(&second()), "Nodes": { "items": [node("h7"), node(&near)] } });
    let (some, _) = ask(&strict, "filter", &whole);
    assert_eq!((&some["Nodes"]["items"], &some["NodeNames"]), (&json!([node(&near)]), &Value::Null));
}

#[test]
fn what_is_not_known_opens_and_says_why() {
    let (_folder, service) = service("slower_percent = 1\n");
    crowd(&service);
    let known = second();
    let without = |name: &str| {
        let mut said = known.clone();
        said.as_object_mut().unwrap().remove(name);
        pod(&said)
    };
    let with = |name: &str, value: &str| {
        let mut said = known.clone();
        said[name] = value.into();
        pod(&said)
    };
    let names = json!(["h7", "h9"]);
    for (pod, names, reason) in [
        (json!({}), &names, "no annotation or label \"antiphase/job\""),
        (json!(null), &names, "no annotation or label \"antiphase/job\""),
        (json!({ "metadata": null }), &names, "no annotation or label \"antiphase/job\""),
        (json!({ "metadata": { "name": "x", "annotations": null, "labels": null } }), &names, "\"antiphase/job\""),
        (without("antiphase/profile"), &names, "\"antiphase/profile\""),
        (without("antiphase/hosts"), &names, "its first pod"),
        (with("antiphase/profile", "moon"), &names, "unknown model"),
        (with("antiphase/profile", "{\"schema\": 7}"), &names, "profile"),
        (with("antiphase/gpus", "many"), &names, "no number"),
        (with("antiphase/hosts", "moon"), &names, "unknown host \"moon\""),
        (with("antiphase/hosts", &"h7,".repeat(100_000)), &names, "antiphase/hosts: more than 100000 hosts"),
        (with("antiphase/job", "a\nb"), &names, ""),
        (with("antiphase/hosts", "möön"), &names, "unknown host \"m??n\""),
        (pod(&known), &json!(["h7", "moon"]), "unknown host \"moon\""),
        (pod(&known), &json!((0..1_001).map(|i| format!("n{i}")).collect::<Vec<_>>()), "at most 1000"),
    ] {
        let args = json!({ "Pod": pod, "NodeNames": names });
        let (scores, said) = ask(&service, "prioritize", &args);
        let said = said.unwrap_or_else(|| panic!("{reason}: no reason was given"));
        assert!(said.contains(reason), "{reason}: {said}");
        assert!(scores.as_array().unwrap().iter().all(|one| one["Score"] == 10), "{reason}: {scores}");
        let (filtered, _) = ask(&service, "filter", &args);
        assert_eq!((&filtered["NodeNames"], &filtered["FailedNodes"], &filtered["Error"]), (names, &json!({}), &json!("")), "{reason}");
    }
    // The log is read beside the answers, and may come later.
    service.wait_for_log("extender: all nodes are equal");
    // No node is no question.
    assert_eq!(ask(&service, "prioritize", &json!({ "Pod": pod(&known), "NodeNames": [] })).0, json!([]));
    assert_eq!(service.refused("POST", "/extender/prioritize", "[").0, 400);
}

/// A committed job has hosts that the pod need not repeat, whether it was committed by its own name or by the controller's.
#[test]
fn a_committed_job_is_known() {
    for committed in ["b", "ml.b"] {
        let (_folder, service) = service("");
        crowd(&service);
        let near = beside(&service);
        assert_eq!(service.commit(committed, &["h2"]).0, 200);
        let said = json!({ "antiphase/job": "b", "antiphase/profile": "vgg16" });
        let (scores, reason) = ask(&service, "prioritize", &json!({ "Pod": pod(&said), "NodeNames": ["h7", near] }));
        assert!(reason.is_none() && score(&scores, &near) == 10 && score(&scores, "h7") < 10, "{committed}: {scores} {reason:?}");
    }
    // The job of another namespace is another job.
    let (_folder, service) = service("");
    assert_eq!(service.commit("other.b", &["h2"]).0, 200);
    let said = json!({ "antiphase/job": "b", "antiphase/profile": "vgg16" });
    let (_, reason) = ask(&service, "prioritize", &json!({ "Pod": pod(&said), "NodeNames": ["h7", "h6"] }));
    assert!(reason.unwrap().contains("no host is known of job"), "a job of another namespace was taken for this pod's");
}

/// Volcano's structures have no tags: their keys are the names of Go, and most of them are of no use here.
fn task(job: &str, name: &str, annotations: &Value) -> Value {
    json!({
        "UID": name, "Job": job, "Name": name, "Namespace": "ml", "Resreq": { "MilliCPU": 1000, "Memory": 1, "ScalarResources": null },
        "NodeName": "", "Status": 1, "Priority": 1, "Pod": pod(annotations), "BestEffort": false, "PodVolumes": null,
    })
}

fn volcano_node(name: &str, tasks: &[Value]) -> Value {
    let tasks: serde_json::Map<String, Value> = tasks.iter().map(|t| (t["UID"].as_str().unwrap().to_owned(), t.clone())).collect();
    json!({ "Name": name, "Node": node(name), "State": { "Phase": 1, "Reason": "" }, "Idle": { "MilliCPU": 1 }, "Tasks": tasks, "Others": null })
}

#[test]
fn volcano_is_told_the_same() {
    let (_folder, service) = service("");
    crowd(&service);
    let near = beside(&service);
    let said = json!({ "antiphase/job": "b", "antiphase/profile": "vgg16" });
    let asked = task("ml/b", "b-1", &said);
    // The first pod of the job runs on h2, which Volcano knows.
    let nodes = [volcano_node("h2", &[task("ml/b", "b-0", &said)]), volcano_node("h7", &[]), volcano_node(&near, &[])];
    let (scores, reason) = ask(&service, "volcano/prioritize", &json!({ "task": asked, "nodes": nodes }));
    let of = |name: &str| scores["nodeScore"][name].as_f64().unwrap();
    assert!(scores["errorMessage"] == "" && reason.is_none(), "{scores} {reason:?}");
    assert!(of(&near) > 99.0 && of("h2") > 99.0 && of("h7") < of(&near), "{scores}");
    let (equal, reason) = ask(&service, "volcano/prioritize", &json!({ "task": asked, "nodes": [volcano_node("h7", &[])] }));
    assert!(equal["nodeScore"]["h7"] == 100.0 && reason.unwrap().contains("its first pod"), "{equal}");
    assert_eq!(ask(&service, "volcano/prioritize", &json!({ "task": asked, "nodes": null })).0["nodeScore"], json!({}));

    let (passes, _) = ask(&service, "volcano/predicate", &json!({ "task": asked, "node": nodes[1] }));
    assert_eq!(passes, json!({ "status": "", "code": 0 }));
    for verb in ["volcano/preemptable", "volcano/reclaimable"] {
        let (abstains, _) = ask(&service, verb, &json!({ "evictor": asked, "evictees": [asked] }));
        assert_eq!(abstains, json!({ "status": 0, "victims": [] }), "{verb}");
    }
    // Whether a job is ready is not for us to say, and an extender that is gone would make every job wait.
    assert_eq!(service.refused("POST", "/extender/volcano/jobReady", "{}").0, 404);
}

#[test]
fn the_verbs_are_off_unless_switched_on() {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(&folder.path().join("state.redb"));
    for verb in ["filter", "prioritize", "volcano/predicate", "volcano/prioritize", "volcano/preemptable", "volcano/reclaimable"] {
        let (status, message) = service.refused("POST", &format!("/extender/{verb}"), "{}");
        assert!(status == 404 && message.contains("are off"), "{verb}: {message}");
    }
}
