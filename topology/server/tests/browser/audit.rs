//! Who changed what: where the reader may know it.

use serde_json::{Value, json};

use crate::{
    chromium::Browser,
    fabrics::{HOSTILE, service, small},
    few::CONTRAST,
    support::request,
};

/// The page is drawn, and follows the service.
const DRAWN: &str = "document.body?.dataset.drawn !== undefined && document.querySelector('#live').className === 'live'";
/// The answer of the service to a reader who may not read the trail: only its status is looked at.
const REFUSED: &str = "
    const ask = window.fetch;
    window.fetch = (url, how) => (String(url).includes('/v1alpha1/audit')
        ? Promise.resolve(new Response('{\"code\":\"permission_denied\",\"message\":\"not for you\"}', { status: 403 })) : ask(url, how));";

/// The rows, as texts of their cells.
fn rows(browser: &mut Browser) -> Vec<Vec<String>> {
    let rows =
        browser.eval("[...document.querySelectorAll('#audit tbody tr[data-row]')].map((r) => [...r.children].map((c) => c.textContent))");
    let texts = |row: &Value| row.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_owned()).collect();
    rows.as_array().unwrap().iter().map(texts).collect()
}

#[test]
fn the_audit_view_says_who_changed_what_and_when() {
    let Some(mut browser) = Browser::start(1440, 1000) else { return };
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path(), &small());
    assert_eq!(service.commit("alpha", &["h1", "h5"]).0, 200);
    browser.go(&format!("http://{}/", service.address));
    browser.until(&format!("{DRAWN} && document.querySelectorAll('#audit tbody tr[data-row]').length === 2"));
    // The newest first, each as the service tells it.
    let trail = service.ask("GET", "/v1alpha1/audit", "").1;
    let trail = trail["entries"].as_array().unwrap();
    let shown = rows(&mut browser);
    for (row, entry) in shown.iter().zip(trail.iter().rev()) {
        let told = ["by", "kind", "message"].map(|key| entry[key].as_str().unwrap());
        assert_eq!([&row[1], &row[2], &row[3]], told, "{row:?}");
        assert_eq!(row[4], entry["plan_version"].to_string());
        let at = format!("new Date({} / 1e6).toLocaleString(undefined, {{ dateStyle: 'short', timeStyle: 'medium' }})", entry["at_ns"]);
        assert_eq!(browser.eval(&at), row[0]);
    }
    assert_eq!((shown[0][2].as_str(), shown[1][2].as_str()), ("committed", "fabric"));

    // Another change appears without a reload, and text of its own stays text.
    browser.eval("window.here = true");
    let renamed = small().replace("name: test", &format!("name: {}", json!(HOSTILE)));
    assert_eq!(service.ask("PUT", "/v1alpha1/fabric", &renamed).0, 200);
    browser.until("document.querySelectorAll('#audit tbody tr[data-row]').length === 3");
    assert_eq!(service.ask("POST", "/v1alpha1/release", r#"{"jobs": ["alpha"]}"#).0, 200);
    browser.until("document.querySelector('#audit tbody tr[data-row] td:nth-child(3)').textContent === 'released'");
    assert_eq!(browser.eval("window.here"), true, "the page was loaded again");
    assert_eq!(browser.eval("document.querySelectorAll('main img').length"), 0, "a name became markup");

    // The filter finds kinds and users.
    browser.eval("document.querySelector('#audit-filter').focus()");
    browser.type_text("released");
    browser.until("document.querySelectorAll('#audit tbody tr[data-row]').length === 1");
    assert!(browser.eval("document.querySelector('#audit-note').textContent").as_str().unwrap().starts_with("1 of "));
    browser.type_text(" nobody has this name");
    browser.until("document.querySelector('#audit tbody .empty')?.innerText === 'No change of this user, kind or word.'");
    browser.eval(
        "(() => { const input = document.querySelector('#audit-filter'); input.value = ''; input.dispatchEvent(new Event('input')); })()",
    );
    for (name, scheme, width) in [("audit-light", "light", 1440), ("audit-dark", "dark", 1440), ("audit-narrow", "light", 400)] {
        browser.prefer(scheme);
        browser.resize(width, 900);
        browser.until(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= {width}"));
        browser.eval("document.querySelector('#audit-section').scrollIntoView({ block: 'end' })");
        let least = browser.eval(CONTRAST);
        assert!(least[0].as_f64().unwrap() >= 4.5, "{scheme}: {least}");
        browser.shot(name);
    }
    assert_eq!(browser.troubles(), [""; 0]);
}

#[test]
fn who_may_not_read_the_audit_trail_is_shown_nothing_of_it() {
    let Some(mut browser) = Browser::start(1440, 1000) else { return };
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path(), &small());
    // Today whoever may read the page may read the trail; the page must not depend on that.
    browser.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": REFUSED }));
    browser.go(&format!("http://{}/", service.address));
    browser.until(DRAWN);
    let hidden = "document.querySelector('#audit-section').offsetParent === null && !document.querySelector('#audit tbody tr')";
    assert_eq!(browser.eval(hidden), true);
    // The rest of the page goes on, and a change asks again.
    assert_eq!(service.commit("alpha", &["h1", "h5"]).0, 200);
    browser.until("document.querySelectorAll('#jobs tbody tr[data-row]').length === 1");
    browser.until(DRAWN);
    browser.eval("location.hash = '#job=alpha'");
    browser.until("document.querySelector('#job-facts')");
    browser.key("Escape");
    browser.until("!document.querySelector('#jobs-section').hidden");
    assert_eq!(browser.eval(hidden), true);
    assert_eq!(browser.troubles(), [""; 0]);
    // What is refused is the status alone: the service itself refuses so whom it does not let read (`secured.rs`).
    let answer = request(service.address, "GET", "/v1alpha1/audit", &[], b"").unwrap();
    assert_eq!(answer.status, 200);
}
