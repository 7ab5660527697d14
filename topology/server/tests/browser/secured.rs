//! What a browser without a certificate is shown by a service that wants one.

use std::fs;

use antiphase_topology::pki;
use serde_json::json;

use super::{
    chromium::Browser,
    support::{Service, program, testbed},
};

#[test]
fn a_browser_without_a_certificate_sees_its_own_error_and_nothing_of_ours() {
    let Some(mut browser) = Browser::start(800, 600) else { return };
    let folder = tempfile::tempdir().unwrap();
    let pki_folder = folder.path().join("pki");
    pki::init(&pki_folder, &["127.0.0.1".into()], false).unwrap();
    let (service, ca, config) = (pki::service_paths(&pki_folder), pki::authority_path(&pki_folder), folder.path().join("a.toml"));
    fs::write(&config, format!("[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {ca:?}\n", service.certificate, service.key)).unwrap();
    let service = Service::with(
        program().arg("--config").arg(&config).arg("--state").arg(folder.path().join("s.redb")).arg("--fabric").arg(testbed()),
    );
    // The authority is not among those that the browser knows; that is another question.
    browser.call("Security.setIgnoreCertificateErrors", &json!({ "ignore": true }));
    let gone = browser.call("Page.navigate", &json!({ "url": format!("https://{}/", service.address) }));
    let error = gone["errorText"].as_str().unwrap_or_default();
    // Mostly ERR_BAD_SSL_CLIENT_AUTH_CERT; where the connection is gone before the alert is read, that is what it says.
    assert!(error.starts_with("net::ERR_"), "{gone}");
    assert_eq!(browser.eval("document.querySelector('script[type=module]') === null"), true, "the page came all the same");
}
