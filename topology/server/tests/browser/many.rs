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
    browser.until("document.body?.dataset.drawn !== undefined && document.querySelectorAll('#links tbody tr[data-row]').length > 10");
    let drawn = began.elapsed();
    let elements = browser.eval("document.querySelectorAll('*').length").as_u64().unwrap();
    println!("{shared} shared links: drawn in {drawn:?} with {elements} elements");
    assert!(drawn < DRAWN_MAX, "{drawn:?}");
    assert!(elements < ELEMENTS_MAX, "{elements} elements");
    browser.shot("many-light");
    // A cell for each leaf, none of them beyond the edge, and its page.
    let cells = browser.eval("[...document.querySelectorAll('#map .cell')].map((c) => c.dataset.switch)");
    assert_eq!(cells.as_array().unwrap().len(), 32, "{cells}");
    let cut = "document.querySelector('#map').scrollWidth - document.querySelector('#map').clientWidth";
    assert_eq!(browser.eval(cut), 0, "the map is wider than its box");

    // The last of all rows can be reached, by scrolling and by the keyboard, and opens.
    let count = links["total"].as_u64().unwrap();
    assert_eq!(browser.eval("document.querySelector('#links').getAttribute('aria-rowcount')"), format!("{}", count + 1));
    browser.eval("document.querySelector('#links').parentElement.scrollTop = 1e9");
    let last = links["links"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap();
    let is_last = format!("[...document.querySelectorAll('#links tbody tr[data-row]')].at(-1).dataset.row === {}", serde_json::json!(last));
    browser.until(&is_last);
    browser.eval("document.querySelector('#links').parentElement.scrollTop = 0");
    browser.until("document.querySelector('#links tbody tr[aria-rowindex=\"2\"]')");
    browser.eval("document.querySelector('#links tbody a').focus()");
    browser.key("End");
    browser.until(&format!("document.activeElement.dataset.link === {}", serde_json::json!(last)));
    // A refresh keeps the place in the table and the focus, and the filter finds what is far away.
    let scrolled = "document.querySelector('#links').parentElement.scrollTop";
    let place = browser.eval(scrolled);
    assert!(place.as_f64().unwrap() > 0.0);
    let asked = "performance.getEntriesByType('resource').filter((e) => e.name.includes('/jobs')).length";
    let before = browser.eval(asked).as_u64().unwrap();
    browser.until(&format!("{asked} > {}", before + 1));
    assert_eq!(browser.eval(scrolled), place, "a refresh moved the table");
    assert_eq!(browser.eval("document.activeElement.dataset.link"), last);
    browser.key("Enter");
    browser.until(CIRCLES);
    browser.shot("many-detail");
    browser.key("Escape");
    browser.until("!document.querySelector('#links-section').hidden");
    browser.eval("document.querySelector('#links-filter').focus()");
    let wanted = links["links"][shared - 1]["id"].as_str().unwrap();
    browser.type_text(wanted);
    browser.until(&format!("document.querySelector('#links tbody tr .link')?.textContent === {}", serde_json::json!(wanted)));

    // From a cell of the map to the links of that leaf.
    browser.eval("document.querySelector('#map .cell').dispatchEvent(new MouseEvent('click', { bubbles: true }))");
    browser.until("location.hash === '#switch=leaf1' && document.querySelectorAll('#switch-map .cell').length > 30");
    let listed = browser.eval(
        "[...document.querySelectorAll('#switch-links tbody tr[data-row]')].every((r) => r.dataset.row.split('->').includes('leaf1'))",
    );
    assert_eq!(listed, true);
    browser.shot("many-switch");
    assert_eq!(browser.troubles(), [""; 0]);
    for (name, scheme, width, height) in
        [("many-dark", "dark", 1440, 1000), ("many-wide", "light", 1600, 1000), ("many-narrow", "light", 420, 900)]
    {
        browser.prefer(scheme);
        browser.resize(width, height);
        browser.go("about:blank");
        browser.go(&format!("http://{}/", service.address));
        browser.until("document.body?.dataset.drawn !== undefined && document.querySelectorAll('#links tbody tr[data-row]').length > 10");
        browser.shot(name);
        // Regression: on a small window the columns that it has no room for took two thirds of the table, and names of jobs were cut.
        let unused = "document.querySelector('#links').offsetWidth - [...document.querySelectorAll('#links thead th')].reduce((sum, head) => sum + head.offsetWidth, 0)";
        let unused = browser.eval(unused).as_i64().unwrap();
        assert!(unused.abs() <= 4, "{name}: {unused} pixels of the table belong to no column");
        browser.click("#links tbody tr:first-child .link");
        browser.until(CIRCLES);
        let over = browser.eval("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
        assert!(over <= 0, "{name}: the page is {over} pixels wider than the window");
        browser.shot(&format!("{name}-detail"));
    }
}
