//! A thousand shared links: the page stays quick and small.

use std::time::{Duration, Instant};

use crate::{
    chromium::Browser,
    fabrics::{large, large_jobs, service},
    few::CIRCLES,
};

/// From the navigation to a drawn page: far above what it takes, so that only a page that does not cope fails.
const DRAWN_MAX: Duration = Duration::from_secs(20);
/// Elements of the whole page: the rows and wires that are shown are capped.
const ELEMENTS_MAX: u64 = 12_000;

#[test]
fn a_thousand_links_are_drawn_and_answer() {
    let Some(mut browser) = Browser::start(1440, 1000) else { return };
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path(), &large());
    let began = Instant::now();
    let (status, committed) = service.ask("POST", "/v1alpha1/commit", &large_jobs().to_string());
    assert_eq!(status, 200, "{committed}");
    println!("committed in {:?}", began.elapsed());
    let links = service.ask("GET", "/v1alpha1/links?limit=10000", "").1;
    let shared = links["links"].as_array().unwrap().iter().filter(|l| l["score"].is_number()).count();
    assert!(shared >= 1_000, "{shared} shared links");

    let began = Instant::now();
    browser.go(&format!("http://{}/", service.address));
    browser.until("document.body?.dataset.drawn !== undefined && document.querySelectorAll('#links tbody tr.pick').length > 100");
    let drawn = began.elapsed();
    let elements = browser.eval("document.querySelectorAll('*').length").as_u64().unwrap();
    println!("{shared} shared links: drawn in {drawn:?} with {elements} elements");
    assert!(drawn < DRAWN_MAX, "{drawn:?}");
    assert!(elements < ELEMENTS_MAX, "{elements} elements");
    browser.shot("many-light");

    // The last row of a long table can be reached and opened.
    browser.click("#links tbody tr:last-child .link");
    browser.until(CIRCLES);
    browser.shot("many-detail");
    // A refresh keeps the place in the table, and the filter finds what is not listed.
    let scrolled = "document.querySelector('#links').parentElement.scrollTop";
    let place = browser.eval(scrolled);
    assert!(place.as_f64().unwrap() > 0.0);
    let last = links["links"][shared - 1]["id"].as_str().unwrap();
    browser.until("performance.getEntriesByType('resource').filter((e) => e.name.includes('/jobs')).length > 2");
    assert_eq!(browser.eval(scrolled), place, "a refresh moved the table");
    browser.eval("document.querySelector('#links-filter').focus()");
    browser.type_text(last);
    browser.until(&format!("document.querySelector('#links tbody tr .link')?.textContent === {}", serde_json::json!(last)));
    assert_eq!(browser.troubles(), [""; 0]);
    for (name, scheme, width, height) in
        [("many-dark", "dark", 1440, 1000), ("many-wide", "light", 1600, 1000), ("many-narrow", "light", 420, 900)]
    {
        browser.prefer(scheme);
        browser.resize(width, height);
        browser.go("about:blank");
        browser.go(&format!("http://{}/", service.address));
        browser.until("document.body?.dataset.drawn !== undefined && document.querySelectorAll('#links tbody tr.pick').length > 100");
        browser.shot(name);
        browser.click("#links tbody tr:first-child .link");
        browser.until(CIRCLES);
        let over = browser.eval("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
        assert!(over <= 0, "{name}: the page is {over} pixels wider than the window");
        browser.shot(&format!("{name}-detail"));
    }
}
