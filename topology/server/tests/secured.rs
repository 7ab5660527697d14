//! The page and the interface over TLS, where a client is what its certificate says, with a real client: curl.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use antiphase_topology::{
    pki::{self, CLIENT_LIFETIME, Client},
    tls::Role,
};
use support::{Service, program, testbed};

/// A service with certificates, and one client of each role.
fn secured(folder: &Path) -> Service {
    let pki_folder = folder.join("pki");
    pki::init(&pki_folder, &["127.0.0.1".into()], false).unwrap();
    for role in [Role::Read, Role::Evaluate, Role::Admin, Role::Agent] {
        let hosts = if role == Role::Agent { vec!["h1".to_owned()] } else { Vec::new() };
        pki::issue(&pki_folder, &Client { role, name: role.word().into(), hosts, lifetime: CLIENT_LIFETIME }, false).unwrap();
    }
    let (service, ca, config) = (pki::service_paths(&pki_folder), pki::authority_path(&pki_folder), folder.join("a.toml"));
    let tls = format!("[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {ca:?}\n", service.certificate, service.key);
    pki::issue(&pki_folder, &Client { role: Role::Admin, name: "page-proxy".into(), hosts: Vec::new(), lifetime: CLIENT_LIFETIME }, false)
        .unwrap();
    fs::write(&config, tls + "[proxy]\ncertificate = \"page-proxy\"\n").unwrap();
    Service::with(program().arg("--config").arg(&config).arg("--state").arg(folder.join("s.redb")).arg("--fabric").arg(testbed()))
}

/// Calls with the certificate of a client, or none.
fn curl(service: &Service, folder: &Path, who: Option<&str>, arguments: &[&str], path: &str) -> Option<Output> {
    let pki_folder = folder.join("pki");
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--max-time", "30"]).arg("--cacert").arg(pki::authority_path(&pki_folder));
    if let Some(who) = who {
        let issued = pki::paths(&pki_folder, who);
        command.arg("--cert").arg(issued.certificate).arg("--key").arg(issued.key);
    }
    let output = command.args(arguments).arg(format!("https://{}{path}", service.address)).output();
    output.inspect_err(|error| println!("skipped: curl cannot be run: {error}")).ok()
}

/// Status line and the rest of an answer.
fn answer(output: &Output) -> (u16, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no answer: {text} {}", String::from_utf8_lossy(&output.stderr))), text)
}

#[test]
fn who_has_no_certificate_sees_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path());
    for path in ["/", "/app.js", "/v1alpha1/jobs", "/healthz"] {
        let Some(output) = curl(&service, folder.path(), None, &[], path) else { return };
        // What curl says depends on whether the refusal came before or after it had sent its request.
        assert!(!output.status.success() && output.stdout.is_empty(), "{path}: {output:?}");
    }
    // Nor does the port speak without TLS.
    let plain = Command::new("curl").args(["--silent", "--max-time", "30"]).arg(format!("http://{}/", service.address)).output().unwrap();
    assert!(plain.stdout.is_empty(), "{plain:?}");
}

#[test]
fn events_and_the_trail_say_who_asked() {
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path());
    let json = ["--header", "content-type: application/json"];
    let body = serde_json::json!({ "jobs": [support::job("a", &["h1", "h5"])] }).to_string();
    let Some(committed) = curl(&service, folder.path(), Some("admin"), &[json[0], json[1], "--data", &body], "/v1alpha1/commit") else {
        return;
    };
    assert_eq!(answer(&committed).0, 200);
    for path in ["/v1alpha1/events", "/v1alpha1/audit"] {
        let Some((status, text)) = curl(&service, folder.path(), Some("read"), &[], path).map(|output| answer(&output)) else { return };
        assert_eq!(status, 200, "{text}");
        let body: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        let all = body["events"].as_array().or(body["entries"].as_array()).unwrap();
        let by = |kind: &str| all.iter().find(|one| one["kind"] == kind).unwrap()["by"].clone();
        assert_eq!((by("fabric"), by("committed")), ("the configuration".into(), "admin (admin)".into()), "{body}");
    }
}

#[test]
fn the_page_needs_the_role_that_reads_need_and_each_role_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path());
    let ask = |who: &str, arguments: &[&str], path: &str| curl(&service, folder.path(), Some(who), arguments, path).map(|o| answer(&o));
    // Page, a module of it, the style of its pictures, a read, a picture of a link that is not there, the map, a computation, a change; 204 and
    // 400 were let through.
    let wanted = [
        ("read", [200, 200, 200, 200, 204, 200, 403, 403]),
        ("evaluate", [200, 200, 200, 200, 204, 200, 400, 403]),
        ("admin", [200, 200, 200, 200, 204, 200, 400, 400]),
        ("agent", [403; 8]),
    ];
    for (who, statuses) in wanted {
        let calls = [
            ("/", ""),
            ("/app.js", ""),
            ("/picture.css", ""),
            ("/v1alpha1/jobs", ""),
            ("/v1alpha1/links/circles.svg?link=moon", ""),
            ("/v1alpha1/fabric/map.svg", ""),
            ("/v1alpha1/solve", "x"),
            ("/v1alpha1/commit", "x"),
        ];
        for ((path, body), status) in calls.into_iter().zip(statuses) {
            let arguments: &[&str] = if body.is_empty() { &[] } else { &["--header", "content-type: application/json", "--data", body] };
            let Some((found, text)) = ask(who, arguments, path) else { return };
            assert_eq!(found, status, "{who} {path}: {text}");
        }
    }
    let Some((_, page)) = ask("read", &[], "/") else { return };
    let head = page.to_ascii_lowercase();
    for line in ["content-security-policy: default-src 'self'", "x-content-type-options: nosniff", "referrer-policy: no-referrer"] {
        assert!(head.contains(line), "{line}: {page}");
    }
    assert!(page.contains("<!doctype html>") || page.contains("<!DOCTYPE html>"), "{page}");
}

#[test]
fn only_the_configured_proxy_names_its_users() {
    let folder = tempfile::tempdir().unwrap();
    let service = secured(folder.path());
    let (user, bare) = (["--header", "x-forwarded-user: alice@example.com"], [] as [&str; 0]);
    let twice = [user, ["--header", "x-forwarded-user: mallory"]].concat();
    let commit = |who: &str, more: &[&str], job: &str, host: &str| {
        let body = serde_json::json!({ "jobs": [support::job(job, &[host, "h5"])] }).to_string();
        let arguments = [more, &["--header", "content-type: application/json", "--data", &body]].concat();
        curl(&service, folder.path(), Some(who), &arguments, "/v1alpha1/commit").map(|output| answer(&output))
    };
    let Some((status, text)) = commit("page-proxy", &user, "a", "h1") else { return };
    assert_eq!(status, 200, "{text}");
    // The header of somebody else says nothing, and a proxy that names nobody, or two, is refused.
    assert_eq!(commit("admin", &user, "b", "h2").unwrap().0, 200);
    for (more, why) in
        [(&bare[..], "no header x-forwarded-user"), (&twice, "stands there twice"), (&["--header", "x-forwarded-user;"], "1 to 254")]
    {
        let (status, text) = commit("page-proxy", more, "c", "h3").unwrap();
        assert!(status == 403 && text.contains(why), "{text}");
    }
    let get = |path: &str, more: &[&str]| answer(&curl(&service, folder.path(), Some("page-proxy"), more, path).unwrap());
    assert_eq!((get("/healthz", &bare).0, get("/", &bare).0, get("/", &user).0), (200, 403, 200));
    let (_, text) = get("/v1alpha1/audit", &user);
    let body: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
    let by: Vec<&str> = body["entries"].as_array().unwrap().iter().filter_map(|entry| entry["by"].as_str()).collect();
    assert_eq!(by, ["the configuration", "alice@example.com by page-proxy (admin)", "admin (admin)"]);
}
