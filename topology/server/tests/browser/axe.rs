//! What axe-core finds wrong with the page for those who read it with a keyboard, a screen reader or little contrast: nothing serious, in any
//! view, in light and dark, each in a wide and a narrow window.

use std::path::Path;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use units::Nanos;

use crate::{
    chromium::Browser,
    fabrics::{plain, service, small},
    measured::{Served, agent, start},
    support::job,
};

/// What it finds, each with its weight and the elements. All of its rules, also those that are not of WCAG.
const RUN: &str = "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map((v) => ({
    impact: v.impact, what: `${v.id}: ${v.help}`, on: v.nodes.map((n) => `${n.target.join(' ')}: ${n.failureSummary}`).slice(0, 4) })))";
/// Rules that it carried out at the last look, so that a run that looked at nothing is no success.
const CARRIED_OUT: &str = "axe.run(document, { resultTypes: ['passes'] }).then(({ passes }) => passes.length)";
const WINDOW: (u32, u32) = (1440, 1200);
/// A phone's.
const NARROW: (u32, u32) = (400, 900);

/// axe-core, which `make setup` fetches; `None`, and a line that says so, where it was not.
fn axe() -> Option<String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../axe/axe.min.js");
    let read = std::fs::read_to_string(path);
    read.inspect_err(|_| println!("skipped: axe-core is not there (axe/axe.min.js among what is built); `make setup` fetches it")).ok()
}

/// Looks at what is shown; gives what is serious, and prints the rest.
fn serious(browser: &mut Browser, axe: &str, view: &str) -> Vec<String> {
    if browser.eval("typeof window.axe") == "undefined" {
        browser.eval(&format!("{axe};0"));
    }
    // Half transparent text of a page that is not live is meant to be hard to read.
    browser.until("document.querySelector('#live').className === 'live'");
    let found = browser.eval(RUN);
    let found = found.as_array().unwrap();
    let (bad, mild): (Vec<&Value>, Vec<&Value>) = found.iter().partition(|one| one["impact"] == "serious" || one["impact"] == "critical");
    mild.iter().for_each(|one| println!("{view}: {} {}: {}", one["impact"], one["what"], one["on"][0]));
    bad.iter().map(|one| format!("{view}: {} {}: {:#}", one["impact"], one["what"], one["on"])).collect()
}

/// Looks at one view in light and dark, in a wide and a narrow window.
fn look(browser: &mut Browser, axe: &str, view: &str, found: &mut Vec<String>) {
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for (width, height) in [WINDOW, NARROW] {
            browser.resize(width, height);
            browser.until(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= {width}"));
            found.extend(serious(browser, axe, &format!("{view}, {scheme}, {width} wide")));
        }
    }
    browser.resize(WINDOW.0, WINDOW.1);
}

/// The other two pictures of a link: phases against each other, and a timeline.
fn pictures_of_jobs_that_do_not_lock(served: &Served, browser: &mut Browser, axe: &str, found: &mut Vec<String>) {
    served.ask("POST", "/v1alpha1/release", &json!({ "jobs": ["beta"] }).to_string());
    browser.eval("location.hash = '#link=' + encodeURIComponent('leaf1->spine1')");
    for (name, batch, hosts, picture) in [("gamma", 1_000, ["h3", "h7"], "Phases of"), ("delta", 1_300, ["h4", "h8"], "Timeline of")] {
        let unlike = json!({ "id": name, "model": { "name": "vgg16", "batch": batch }, "hosts": hosts });
        served.ask("POST", "/v1alpha1/commit", &json!({ "jobs": [unlike] }).to_string());
        browser.until(&format!("document.querySelector('#link-detail figure svg')?.getAttribute('aria-label').startsWith('{picture}')"));
        look(browser, axe, &format!("link: {picture}"), found);
    }
}

#[test]
fn no_view_has_a_serious_finding_of_axe() {
    let Some(axe) = axe() else { return };
    let Some(mut browser) = Browser::start(WINDOW.0, WINDOW.1) else { return };
    let runtime = Runtime::new().unwrap();
    let served = runtime.block_on(start(&state::Config { control: plan::Control::Turns, ..state::Config::default() }));
    let mut found = Vec::new();
    browser.go(&format!("http://{}/", served.address));
    browser.until("document.querySelector('#verdict')?.innerText.includes('antiphase fabric set')");
    found.extend(serious(&mut browser, &axe, "without a fabric"));
    // That there is no fabric is an answer of the service, which a browser writes down.
    browser.troubles();

    served.ask("PUT", "/v1alpha1/fabric", &small());
    let jobs = json!({ "jobs": [job("alpha", &["h1", "h5"]), job("beta", &["h2", "h6"])] });
    let committed = served.ask("POST", "/v1alpha1/commit", &jobs.to_string());
    let plan_version = committed["plan_version"].as_u64().unwrap();
    let gate =
        state::GateReport { job: "alpha".into(), plan_version, iterations: 40, iteration: Some(Nanos(326_000_000)), ..Default::default() };
    served.iterations("alpha", 326_000_000);
    runtime.block_on(agent(&served.controller.handle, 1, "h1", plan_version, Nanos(5_000), gate));
    served.marks("h5", "mlx5_0/1", 3);
    browser.until(
        "document.querySelectorAll('#turns tbody tr').length === 3 && document.querySelector('#marks .chart') \
         && document.querySelector('#audit tbody tr[data-row]') && document.querySelector('#agents tbody tr[data-row]') && document.querySelector('#history svg')",
    );
    look(&mut browser, &axe, "overview with lines", &mut found);
    for (table, opened) in [
        ("#links", "document.querySelector('#link-detail figure svg')"),
        ("#jobs", "document.querySelector('#job-facts') && document.querySelector('#job-iterations svg')"),
    ] {
        browser.eval(&format!("document.querySelector('{table} tbody tr:first-child a').click()"));
        browser.until(opened);
        look(&mut browser, &axe, &format!("first of {table}"), &mut found);
        browser.key("Escape");
        browser.until("location.hash === ''");
    }
    browser.eval("location.hash = '#switch=leaf1'");
    browser
        .until("document.querySelectorAll('#switch-map .cell').length > 0 && document.querySelector('#switch-links tbody tr[data-row]')");
    look(&mut browser, &axe, "switch", &mut found);
    pictures_of_jobs_that_do_not_lock(&served, &mut browser, &axe, &mut found);
    browser.eval("location.hash = '#job=nobody'");
    browser.until("document.querySelector('#job-detail').innerText.includes('No job of this name')");
    found.extend(serious(&mut browser, &axe, "a job that is not there"));
    assert!(browser.eval(CARRIED_OUT).as_u64().unwrap() > 10);
    assert_eq!(browser.troubles(), [""; 0]);
    served.shutdown.begin();
    served.controller.stop();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// More switches than lines can show, and more rows than are laid out.
#[test]
fn the_map_of_cells_has_no_serious_finding_of_axe() {
    let Some(axe) = axe() else { return };
    let Some(mut browser) = Browser::start(WINDOW.0, WINDOW.1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path(), &plain(40, 4, 4));
    assert_eq!(service.ask("POST", "/v1alpha1/commit", &crate::fabrics::pairs(4, 4).to_string()).0, 200);
    browser.go(&format!("http://{}/", service.address));
    browser.until(
        "document.querySelectorAll('#map .cell').length === 40 && document.querySelectorAll('#links tbody tr[data-row]').length > 10",
    );
    let mut found = Vec::new();
    look(&mut browser, &axe, "overview with cells", &mut found);
    assert_eq!(browser.troubles(), [""; 0]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
