use std::{fs, os::unix::fs::PermissionsExt};

use clap::Parser;

use super::*;
use crate::tls::{Identity, Tls, TlsFiles};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn run(args: &[&str]) -> Result<String, PkiError> {
    Cli::try_parse_from(std::iter::once("pki").chain(args.iter().copied())).unwrap().command.run()
}

fn files(dir: &Path) -> Vec<(String, u32)> {
    let entry = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().permissions().mode() & 0o777);
    let mut found: Vec<_> = fs::read_dir(dir).unwrap().map(|found| entry(found.unwrap())).collect();
    found.sort();
    found
}

#[test]
fn init_issue_and_show_fit_together() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("pki");
    let at = dir.to_str().unwrap();
    run(&["init", "--dir", at, "--host", "topology.cluster", "--host", "10.1.2.3"]).unwrap();
    run(&["issue", "--dir", at, "--role", "agent", "--name", "node-7", "--host", "node-7", "--host", "node-7.cluster"]).unwrap();
    run(&["issue", "--dir", at, "--role", "admin", "--name", "ops", "--days", "2"]).unwrap();
    let expected = ["ca.key", "ca.pem", "node-7.key", "node-7.pem", "ops.key", "ops.pem", "revoked.pem", "server.key", "server.pem"];
    let mode = |name: &str| if name.ends_with(".key") { 0o600 } else { 0o644 };
    assert_eq!(files(&dir), expected.map(|name| (name.to_owned(), mode(name))));
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);

    let service = service_paths(&dir);
    assert_eq!(show(&service.certificate).unwrap().names, ["topology.cluster", "10.1.2.3"]);
    Tls::load(TlsFiles { certificate: service.certificate, key: service.key, client_ca: authority_path(&dir), revoked: None }).unwrap();

    let pem = fs::read(dir.join("node-7.pem")).unwrap();
    let who = Identity::from_certificate(&CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    assert_eq!(who.role, Role::Agent);
    let names = ["node-7", "node-7.cluster", "node-8"].map(|host| who.speaks_for(host));
    assert_eq!(names, [Some("node-7"), Some("node-7.cluster"), None]);
    let shown = show(&dir.join("ops.pem")).unwrap();
    assert_eq!(shown.subject, "ops");
    let mark = shown.issuer.strip_prefix("antiphase authority ").unwrap();
    assert!(mark.len() == 16 && mark.bytes().all(|byte| byte.is_ascii_hexdigit()), "{mark}");
    assert_eq!(shown.not_after - shown.not_before, 2 * 86_400 + 3_600);
    let text = run(&["show", dir.join("ops.pem").to_str().unwrap()]).unwrap();
    assert!(text.contains("name     urn:antiphase:role:admin\n"), "{text}");
}

#[test]
fn nothing_is_overwritten_without_force() {
    let temp = tempfile::tempdir().unwrap();
    let at = temp.path().to_str().unwrap();
    run(&["init", "--dir", at]).unwrap();
    let before = fs::read(authority_path(temp.path())).unwrap();
    let refused = run(&["init", "--dir", at]).unwrap_err();
    assert!(refused.to_string().ends_with("ca.key is already there; --force replaces it"), "{refused}");
    // One file in the way is enough, and then nothing else is touched.
    fs::remove_file(temp.path().join("ca.key")).unwrap();
    fs::remove_file(temp.path().join("ca.pem")).unwrap();
    let refused = run(&["init", "--dir", at]).unwrap_err();
    assert!(matches!(refused, PkiError::Exists { .. }) && refused.is_input());
    assert_eq!(files(temp.path()).len(), 3);
    run(&["init", "--dir", at, "--force"]).unwrap();
    assert_ne!(fs::read(authority_path(temp.path())).unwrap(), before);
    let issue = ["issue", "--dir", at, "--role", "read", "--name", "grafana"];
    run(&issue).unwrap();
    assert!(matches!(run(&issue), Err(PkiError::Exists { .. })));
    run(&[&issue[..], &["--force"]].concat()).unwrap();
}

#[test]
fn names_that_would_leave_the_folder_or_lie_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let at = temp.path().to_str().unwrap();
    run(&["init", "--dir", at]).unwrap();
    let issue = |role: &str, name: &str, hosts: &[&str]| {
        let mut args = vec!["issue", "--dir", at, "--role", role, "--name", name];
        args.extend(hosts.iter().flat_map(|&host| ["--host", host]));
        run(&args).map_err(|error| error.to_string())
    };
    for name in ["../evil", "a/b", ".hidden", "", "ca", "server", "n\u{f6}de", &"x".repeat(65)] {
        assert!(issue("read", name, &[]).is_err(), "{name:?}");
    }
    assert!(issue("agent", "a", &[]).unwrap_err().contains("--host"));
    assert!(issue("agent", "a", &["*.cluster"]).unwrap_err().contains("*.cluster"));
    assert!(issue("admin", "a", &["node-1"]).unwrap_err().contains("only an agent"));
    assert_eq!(files(temp.path()).len(), 5);
    let missing = run(&["issue", "--dir", temp.path().join("nowhere").to_str().unwrap(), "--role", "read", "--name", "x"]).unwrap_err();
    assert!(missing.to_string().contains("ca.key"), "{missing}");
}

#[test]
fn a_revoked_certificate_is_refused_and_others_are_not() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let at = dir.to_str().unwrap();
    run(&["init", "--dir", at]).unwrap();
    for (role, name) in [("agent", "h1"), ("read", "a"), ("read", "b")] {
        let host: &[&str] = if role == "agent" { &["--host", "h1"] } else { &[] };
        run(&[&["issue", "--dir", at, "--role", role, "--name", name], host].concat()).unwrap();
    }
    let service = service_paths(dir);
    let (certificate, key) = (service.certificate.clone(), service.key);
    let tls = Tls::load(TlsFiles { certificate, key, client_ca: authority_path(dir), revoked: Some(revoked_path(dir)) }).unwrap();
    let file = |name: &str| paths(dir, name).certificate;
    let of = |name: &str| CertificateDer::from_pem_slice(&fs::read(file(name)).unwrap()).unwrap();
    let old = of("a");
    let verified = |names: [&str; 3]| names.map(|name| tls.verify(&[of(name)]).is_ok());
    assert_eq!(verified(["h1", "a", "b"]), [true; 3]);
    assert!(!tls.follow().unwrap());
    // One after the other: the second list has both.
    for name in ["h1", "a", "a"] {
        run(&["revoke", "--dir", at, file(name).to_str().unwrap()]).unwrap();
    }
    assert!(tls.follow().unwrap() && !tls.follow().unwrap());
    assert_eq!(verified(["h1", "a", "b"]), [false, false, true]);
    let why = tls.verify(&[of("h1")]).unwrap_err();
    assert!(why.to_string().contains("Revoked"), "{why}");
    // A new certificate of the same holder is another one; what it may do is the same.
    run(&["renew", "--dir", at, "--name", "h1"]).unwrap();
    run(&["renew", "--dir", at, "--name", "a"]).unwrap();
    assert_eq!(verified(["h1", "a", "b"]), [true; 3]);
    assert!(tls.verify(&[old]).is_err());
    assert_eq!(Identity::from_certificate(&of("h1")).unwrap().speaks_for("h1"), Some("h1"));
    // A list of which somebody left nothing, or of another authority, is not taken for one that revokes nobody.
    fs::write(revoked_path(dir), "").unwrap();
    let empty = tls.follow().unwrap_err().to_string();
    assert!(empty.ends_with("revoked.pem: no list of revoked certificates in it"), "{empty}");
    assert!(!tls.follow().unwrap(), "the same content was tried twice");
    assert!(run(&["revoke", "--dir", at, service.certificate.to_str().unwrap()]).is_err(), "an empty list was continued");
    let other = dir.join("other");
    run(&["init", "--dir", other.to_str().unwrap()]).unwrap();
    let foreign = run(&["revoke", "--dir", other.to_str().unwrap(), file("b").to_str().unwrap()]);
    assert!(foreign.unwrap_err().to_string().ends_with("it is of another authority"));
    fs::copy(revoked_path(&other), revoked_path(dir)).unwrap();
    assert!(run(&["revoke", "--dir", at, file("b").to_str().unwrap()]).is_err(), "a list of another authority was continued");
    for name in ["ca", "nobody", "../x"] {
        assert!(run(&["renew", "--dir", at, "--name", name]).is_err(), "{name}");
    }
}

/// The service's own certificate and who is trusted are two things: what is wrong with one keeps the other from nothing.
#[test]
fn a_revocation_counts_beside_a_broken_key_and_a_renewal_beside_a_broken_list() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let at = dir.to_str().unwrap();
    run(&["init", "--dir", at]).unwrap();
    for name in ["a", "b"] {
        run(&["issue", "--dir", at, "--role", "read", "--name", name]).unwrap();
    }
    let revoke = |name: &str| run(&["revoke", "--dir", at, paths(dir, name).certificate.to_str().unwrap()]).unwrap();
    let service = service_paths(dir);
    let (certificate, key) = (service.certificate.clone(), service.key.clone());
    revoke("b");
    let tls = Tls::load(TlsFiles { certificate, key, client_ca: authority_path(dir), revoked: Some(revoked_path(dir)) }).unwrap();
    let enters =
        |name: &str| tls.verify(&[CertificateDer::from_pem_slice(&fs::read(paths(dir, name).certificate).unwrap()).unwrap()]).is_ok();
    assert!(enters("a") && !enters("b"));
    let (mut authorities, reloads) = (tls.authorities(), tls.reloads());
    let good = fs::read(&service.key).unwrap();
    for broken in [&b"no key"[..], b""] {
        fs::write(&service.key, broken).unwrap();
        assert!(tls.follow().unwrap_err().to_string().contains("server.key"));
    }
    assert_eq!(*reloads.borrow(), 0, "nothing was to be taken");
    revoke("a");
    assert!(tls.follow().unwrap_err().to_string().contains("server.key"), "the key is broken still");
    assert!(!enters("a") && *reloads.borrow() == 1);
    assert!(futures_util::FutureExt::now_or_never(authorities.changed()).is_some(), "connections of whoever was revoked stay open");
    fs::write(&service.key, &good).unwrap();
    assert!(tls.follow().unwrap() && !enters("a"));
    // The other way round.
    let list = fs::read(revoked_path(dir)).unwrap();
    fs::write(revoked_path(dir), &list[..list.len() / 2]).unwrap();
    assert!(tls.follow().is_err());
    let before = *reloads.borrow();
    run(&["renew", "--dir", at, "--name", "server"]).unwrap();
    assert!(tls.follow().unwrap_err().to_string().contains("revoked.pem"));
    assert!(*reloads.borrow() == before + 1 && !enters("a"), "the renewed certificate is not taken");
}

/// While one authority replaces another, both stand beside each other, with the list of either and with both.
#[test]
fn two_authorities_have_lists_of_their_own() {
    let temp = tempfile::tempdir().unwrap();
    let dirs = ["old", "new"].map(|name| temp.path().join(name));
    for dir in &dirs {
        let at = dir.to_str().unwrap();
        run(&["init", "--dir", at]).unwrap();
        for name in ["gone", "stays"] {
            run(&["issue", "--dir", at, "--role", "read", "--name", name]).unwrap();
        }
        run(&["revoke", "--dir", at, paths(dir, "gone").certificate.to_str().unwrap()]).unwrap();
    }
    let both = |of: fn(&Path) -> PathBuf| dirs.iter().flat_map(|dir| fs::read(of(dir)).unwrap()).collect::<Vec<u8>>();
    let (client_ca, revoked) = (temp.path().join("both.pem"), temp.path().join("lists.pem"));
    fs::write(&client_ca, both(authority_path)).unwrap();
    let service = service_paths(&dirs[0]);
    let enters = |lists: Vec<u8>| {
        fs::write(&revoked, lists).unwrap();
        let (certificate, key, client_ca) = (service.certificate.clone(), service.key.clone(), client_ca.clone());
        let tls = Tls::load(TlsFiles { certificate, key, client_ca, revoked: Some(revoked.clone()) }).unwrap();
        let of = |dir: &Path, name| CertificateDer::from_pem_slice(&fs::read(paths(dir, name).certificate).unwrap()).unwrap();
        [(0, "gone"), (0, "stays"), (1, "gone"), (1, "stays")].map(|(n, name)| tls.verify(&[of(&dirs[n], name)]).is_ok())
    };
    assert_eq!(enters(both(revoked_path)), [false, true, false, true]);
    assert_eq!(enters(fs::read(revoked_path(&dirs[0])).unwrap()), [false, true, true, true]);
    assert_eq!(enters(fs::read(revoked_path(&dirs[1])).unwrap()), [true, true, false, true]);
}
