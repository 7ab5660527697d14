//! Few links: what is said, and how it follows the service.

use serde_json::json;

use crate::{
    chromium::Browser,
    fabrics::{HOSTILE, service, small},
    support::{Service, program},
};

/// A link is open and its drawing is there: two circles, each with its score in the middle.
pub(crate) const CIRCLES: &str = "document.querySelectorAll('#link-detail figure svg.picture .big').length === 2";

/// The window of these tests.
const WINDOW: (u32, u32) = (1440, 1000);

fn start() -> Option<(tempfile::TempDir, Service, Browser)> {
    let browser = Browser::start(WINDOW.0, WINDOW.1)?;
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path(), &small());
    Some((folder, service, browser))
}

/// Goes to the page and waits until it shows a plan version at least this large.
fn open(browser: &mut Browser, service: &Service) {
    browser.go(&format!("http://{}/", service.address));
    browser.until("document.body?.dataset.drawn !== undefined && document.querySelector('#live').className === 'live'");
}

/// Texts of the elements that a selector finds.
fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let all = browser.eval(&format!("[...document.querySelectorAll({})].map((e) => e.textContent)", json!(selector)));
    all.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_page_without_anything_says_what_to_do() {
    let Some(mut browser) = Browser::start(WINDOW.0, WINDOW.1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let service = Service::with(program().arg("--state").arg(folder.path().join("s.redb")));
    open(&mut browser, &service);
    let say = |browser: &mut Browser| browser.eval("document.querySelector('main').innerText").as_str().unwrap().to_owned();
    assert!(say(&mut browser).contains("antiphase fabric set"), "{}", say(&mut browser));
    browser.shot("empty");
    // That there is no fabric is an answer of the service, which a browser writes down; nothing else may be wrong.
    let only_that = |troubles: &[String]| troubles.iter().all(|t| t.contains("/v1alpha1/fabric?summary=true"));
    let troubles = browser.troubles();
    assert!(only_that(&troubles) && troubles.len() <= 2, "{troubles:?}");

    assert_eq!(service.ask("PUT", "/v1alpha1/fabric", &small()).0, 200);
    browser.until("document.querySelector('main').innerText.includes('antiphase commit')");
    let said = say(&mut browser);
    // True of a service that waits for its first job and of a lab whose jobs run before they are committed.
    assert!(said.contains("No jobs are committed: whatever runs, runs as it comes."), "{said}");
    assert!(!said.contains("antiphase fabric set") && said.contains("antiphase-agent"), "{said}");
    browser.shot("no-jobs");
    // The page may have asked once more just before the fabric came.
    let troubles = browser.troubles();
    assert!(only_that(&troubles) && troubles.len() <= 1, "{troubles:?}");
}

/// Before the first answer nothing is known, which is not the same as nothing there: the page claims nothing, and says that it waits.
#[test]
fn a_page_before_the_first_answer_claims_nothing() {
    let Some((_folder, service, mut browser)) = start() else { return };
    service.commit("alpha", &["h1", "h5"]);
    service.commit("beta", &["h2", "h6"]);
    // The files of the page come, and every question that it asks waits.
    browser.call("Fetch.enable", &json!({ "patterns": [{ "urlPattern": "*/v1alpha1/*" }] }));
    browser.go(&format!("http://{}/", service.address));
    browser.until("document.body?.dataset.view === 'overview'");
    let seen = |browser: &mut Browser| browser.eval("document.body.innerText").as_str().unwrap().to_owned();
    let said = seen(&mut browser);
    assert!(said.contains("Asking the service"), "{said}");
    for claim in
        ["No fabric", "No jobs are committed", "Nothing is in force", "No link", "No job", "No agent", "Nothing has happened", "No port"]
    {
        assert!(!said.contains(claim), "{claim}: {said}");
    }
    assert_eq!(browser.eval("document.querySelector('#turns-section').hidden"), true, "nobody is known to take turns");
    // Who types into a filter now hears nothing of links that are not there either.
    browser.eval("document.querySelector('#links-filter').focus()");
    browser.type_text("x");
    assert!(!seen(&mut browser).contains("of this name"), "{}", seen(&mut browser));
    let least = browser.eval(CONTRAST);
    assert!(least[0].as_f64().unwrap() >= 4.5, "{least}");
    browser.shot("before-the-first-answer");
    browser.call("Fetch.disable", &json!({}));
    open(&mut browser, &service);
    browser.until("document.querySelectorAll('#jobs tbody tr').length === 2");
    assert!(!seen(&mut browser).contains("Asking the service"));
}

#[test]
fn links_jobs_and_events_are_shown_and_followed() {
    let Some((_folder, service, mut browser)) = start() else { return };
    service.commit("alpha", &["h1", "h5"]);
    service.commit("beta", &["h2", "h6"]);
    open(&mut browser, &service);
    browser.until("document.querySelectorAll('#links tbody tr[data-row]').length >= 4");

    let answer = service.ask("GET", "/v1alpha1/links?limit=1000", "").1;
    let links = answer["links"].as_array().unwrap();
    let ids: Vec<&str> = links.iter().map(|l| l["id"].as_str().unwrap()).collect();
    assert_eq!(texts(&mut browser, "#links tbody tr .link"), ids, "worst first, as the service says");
    assert!(ids.iter().any(|id| id.contains(HOSTILE)), "{ids:?}");
    // Rounded down, as in pictures.
    let score = |key: &str| format!("{:.3}", (links[0][key].as_f64().unwrap() * 1e3 + 1e-6).floor() / 1e3);
    let first = texts(&mut browser, "#links tbody tr:first-child")[0].clone();
    // Jobs that take turns need no shift, so there is no score with shifts.
    let takes_turns = service.ask("GET", "/v1alpha1/turns", "").1["total"] != 0;
    let kept_apart = if takes_turns { "by turns".to_owned() } else { score("score") };
    assert!(first.contains(&kept_apart) && first.contains(&score("zero_shift_score")), "{first}");
    assert!(first.contains("alpha") && first.contains("beta"), "{first}");
    assert!(texts(&mut browser, "#verdict")[0].contains(ids[0]), "{:?}", texts(&mut browser, "#verdict"));
    let jobs = texts(&mut browser, "#jobs tbody tr");
    assert!(jobs.len() == 2 && jobs[0].contains("alpha") && jobs.iter().all(|j| j.contains("committed")), "{jobs:?}");
    let vitals = texts(&mut browser, "#vitals")[0].clone();
    let plan_version = answer["plan_version"].as_u64().unwrap();
    assert!(
        vitals.contains(&format!("plan version {plan_version}")) && vitals.contains("8 hosts") && vitals.contains("2 jobs"),
        "{vitals}"
    );
    // Each line of the map has the colour of its links, also where a switch has a name that nobody expects.
    let strokes = "[...document.querySelectorAll('#map .link.marked .edge')].map((e) => getComputedStyle(e).stroke)";
    let strokes = browser.eval(strokes);
    let strokes = strokes.as_array().unwrap();
    assert!(strokes.len() == 2 && strokes.iter().all(|s| *s == strokes[0] && s.as_str().unwrap().starts_with("rgb")), "{strokes:?}");
    browser.shot("few-light");

    // Another job appears without a reload.
    browser.eval("window.here = true");
    assert_eq!(service.commit("gamma", &["h3", "h7"]).0, 200);
    browser.until("[...document.querySelectorAll('#jobs tbody tr')].some((row) => row.textContent.includes('gamma'))");
    browser.until("[...document.querySelectorAll('#events li')].some((row) => row.textContent.includes('gamma'))");
    assert_eq!(browser.eval("window.here"), true, "the page was loaded again");

    // Filters.
    browser.eval("document.querySelector('#jobs-filter').focus()");
    browser.type_text("GAMMA");
    browser.until("document.querySelectorAll('#jobs tbody tr').length === 1");
    browser.eval("document.querySelector('#links-filter').focus()");
    browser.type_text("onerror=alert");
    browser.until("[...document.querySelectorAll('#links tbody tr .link')].every((link) => link.textContent.includes('onerror'))");
    browser.type_text("nothing has this name");
    browser.until("document.querySelector('#links tbody .empty')");
    assert_eq!(browser.eval("document.querySelectorAll('main img').length"), 0, "a name became markup");
    assert_eq!(browser.troubles(), [""; 0]);
}

#[test]
fn a_link_opens_with_two_circles_and_an_address() {
    let Some((_folder, service, mut browser)) = start() else { return };
    service.commit("alpha", &["h1", "h5"]);
    service.commit("beta", &["h2", "h6"]);
    open(&mut browser, &service);
    browser.until("document.querySelectorAll('#links tbody tr[data-row]').length >= 4");
    browser.click("#links tbody tr:first-child .link");
    browser.until(CIRCLES);
    let hash = browser.eval("location.hash").as_str().unwrap().to_owned();
    let worst = texts(&mut browser, "#links tbody tr:first-child .link")[0].clone();
    assert!(hash.starts_with("#link=") && hash.contains("-%3E"), "{hash}");
    assert!(texts(&mut browser, "#link-title")[0].contains(&worst));
    let scores = texts(&mut browser, "#link-detail .big");
    let answer = service.ask("GET", "/v1alpha1/links?demands=true", "").1;
    // Rounded down, so that 1.000 means never over capacity.
    let score = |key: &str| format!("{:.3}", (answer["links"][0][key].as_f64().unwrap() * 1e3 + 1e-6).floor() / 1e3);
    assert_eq!(scores, [score("zero_shift_score"), score("score")]);
    // Before the shift there is demand over capacity, after it there is less.
    let over = browser.eval("[...document.querySelectorAll('#link-detail .hatch')].map((p) => p.getAttribute('d').length)");
    assert!(over[0].as_u64() > over[1].as_u64(), "{over}");
    for scheme in ["dark", "light"] {
        browser.prefer(scheme);
        let (shown, chips) = (browser.eval(RING_COLOURS), browser.eval(CHIP_COLOURS));
        assert_eq!((shown.as_array().unwrap().len(), &shown), (2, &chips), "{scheme}: a job keeps its colour on the whole page");
    }
    // The page has the style of pictures once.
    assert_eq!(browser.eval("document.querySelectorAll('#link-detail style').length"), 0);
    browser.shot("detail-light");
    browser.prefer("dark");
    browser.shot("detail-dark");

    // The address opens the same link elsewhere, and the page is of that link alone; a line of the map opens another one.
    browser.go("about:blank");
    browser.go(&format!("http://{}/{hash}", service.address));
    browser.until(CIRCLES);
    assert_eq!(browser.eval("document.querySelector('#links-section').hidden && document.title.includes('->')"), true);
    browser.click("#link-close");
    browser.until("!document.querySelector('#links-section').hidden && location.hash === ''");
    let other = format!("[...document.querySelectorAll('#map .link')].find((l) => l.dataset.link !== {})", json!(worst));
    // The map comes by a request of its own, which may be answered later.
    browser.until(&other);
    browser.eval(&format!("{other}.dispatchEvent(new MouseEvent('click', {{ bubbles: true }}))"));
    // The link before has all of a link's page too, and a click into what is replaced meanwhile hits nothing.
    let drawn = "JSON.parse(document.querySelector('#link-detail').dataset.key ?? '[]')[0] === new URLSearchParams(location.hash.slice(1)).get('link')";
    browser.until(&format!("location.hash.startsWith('#link=') && location.hash !== {} && {drawn} && {CIRCLES}", json!(hash)));
    // The other direction and the switches at its ends are one step away; a link that is gone says so.
    let before = browser.eval("location.hash");
    browser.click("#link-detail .facts [data-link]");
    browser.until(&format!("location.hash !== {before} && {drawn} && {CIRCLES}"));
    browser.click("#link-detail .path [data-switch]");
    browser.until("document.querySelectorAll('#switch-map .cell[data-link]').length > 0 && document.querySelector('#switch-links tbody tr[data-row]')");
    browser.shot("switch-light");
    browser.eval("document.querySelector('#switch-map .cell[data-link]').dispatchEvent(new MouseEvent('click', { bubbles: true }))");
    browser.until("location.hash.startsWith('#link=') && !document.querySelector('#link-section').hidden");
    service.ask("POST", "/v1alpha1/release", r#"{"jobs": ["alpha", "beta"]}"#);
    browser.until("document.querySelector('#link-detail').textContent.includes('carries no demand')");
    assert_eq!(browser.troubles(), [""; 0]);
}

#[test]
fn a_keyboard_opens_the_map_and_links_and_comes_back() {
    let Some((_folder, service, mut browser)) = start() else { return };
    service.commit("alpha", &["h1", "h5"]);
    service.commit("beta", &["h2", "h6"]);
    open(&mut browser, &service);
    browser.until("document.querySelectorAll('#links tbody tr[data-row]').length >= 4");
    // Steps with the tabulator to the first element that a selector finds, presses Enter, and goes back with Escape.
    let mut enter_at = |selector: &str, opened: &str| {
        let here = format!("document.activeElement?.matches({})", json!(selector));
        for _ in 0..100 {
            if browser.eval(&here) == true {
                break;
            }
            browser.key("Tab");
        }
        assert_eq!(browser.eval(&here), true, "the tabulator never comes to {selector}");
        let outline = browser.eval(
            "(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== 'none' || s.strokeWidth >= '7'; })()",
        );
        assert_eq!(outline, true, "{selector} does not show that it has the focus");
        browser.key("Enter");
        browser.until(opened);
        // Who cannot see that another page is there hears its heading.
        browser.until("document.activeElement.tagName === 'H2'");
        browser.key("Escape");
        browser.until("location.hash === '' && !document.querySelector('#links-section').hidden");
        // And then the reader is where he was.
        assert_eq!(browser.eval(&here), true, "the focus after {selector}");
    };
    enter_at("#map .link", &format!("location.hash.startsWith('#link=') && {CIRCLES}"));
    enter_at("#links .link", "location.hash.startsWith('#link=') && !document.querySelector('#link-section').hidden");
    enter_at("#jobs .chip", "location.hash.startsWith('#job=') && document.querySelector('#job-facts')");
    // Arrows go from row to row, and a slash to the filter.
    let first = "document.activeElement.closest('tr').getAttribute('aria-rowindex')";
    browser.eval("document.querySelector('#links tbody a').focus()");
    browser.key("ArrowDown");
    assert_eq!(browser.eval(first), "3");
    browser.key("End");
    assert_eq!(browser.eval(&format!("{first} === document.querySelector('#links').getAttribute('aria-rowcount')")), true);
    browser.key("Home");
    assert_eq!(browser.eval(first), "2");
    browser.key("/");
    assert_eq!(browser.eval("document.activeElement.id"), "links-filter");
    assert_eq!(browser.troubles(), [""; 0]);
}

#[test]
fn headings_sort_and_say_so() {
    let Some((_folder, service, mut browser)) = start() else { return };
    service.commit("alpha", &["h1", "h5"]);
    service.commit("beta", &["h2", "h6"]);
    service.commit("gamma", &["h3"]);
    open(&mut browser, &service);
    browser.until("document.querySelectorAll('#links tbody tr[data-row]').length >= 4");
    let came = texts(&mut browser, "#links tbody tr .link");
    let sort = "document.querySelector('#links th:first-child').getAttribute('aria-sort')";
    browser.click("#links th:first-child .sort");
    let rising = texts(&mut browser, "#links tbody tr .link");
    assert_eq!(browser.eval(sort), "ascending");
    browser.click("#links th:first-child .sort");
    let mut falling = texts(&mut browser, "#links tbody tr .link");
    assert_eq!(browser.eval(sort), "descending");
    falling.reverse();
    assert!(rising == falling && rising != came && rising[0] < rising[1], "{rising:?}");
    browser.click("#links th:first-child .sort");
    assert_eq!((browser.eval(sort), texts(&mut browser, "#links tbody tr .link")), (serde_json::Value::Null, came));
    // What has no value comes last either way: links of one job have no score.
    let score = "[...document.querySelectorAll('#links tbody tr td:nth-child(2)')].map((td) => td.textContent)";
    for _ in 0..2 {
        browser.click("#links th:nth-child(2) .sort");
        let scores = browser.eval(score);
        let scores = scores.as_array().unwrap();
        let last = scores.iter().position(|s| s == "–").unwrap();
        assert!(last > 0 && scores[last..].iter().all(|s| s == "–"), "{scores:?}");
    }
    // A new job keeps the order that the reader chose.
    service.commit("delta", &["h4", "h8"]);
    browser.until("[...document.querySelectorAll('#jobs tbody tr')].some((row) => row.textContent.includes('delta'))");
    assert_eq!(browser.eval("document.querySelector('#links th:nth-child(2)').getAttribute('aria-sort')"), "descending");
    assert_eq!(browser.troubles(), [""; 0]);
}

#[test]
fn that_nothing_is_in_force_comes_first() {
    let Some((_folder, service, mut browser)) = start() else { return };
    service.commit("alpha", &["h1", "h5"]);
    service.commit("beta", &["h2", "h6"]);
    open(&mut browser, &service);
    browser.until("document.querySelector('#verdict.nothing .first')?.textContent.startsWith('Nothing is in force.')");
    // What follows is said to be a plan, also on the page of a job.
    assert!(texts(&mut browser, "#verdict")[0].contains("Planned: "), "{:?}", texts(&mut browser, "#verdict"));
    browser.shot("nothing-light");
    browser.click("#jobs .chip");
    browser.until("document.querySelector('#job-facts') && document.querySelector('#verdict .first').offsetParent");
    assert_eq!(browser.eval("document.querySelector('#verdict p:not(.first)')?.offsetParent"), serde_json::Value::Null);
    assert_eq!(browser.troubles(), [""; 0]);
}

#[test]
fn the_end_of_the_service_is_shown_and_its_return_too() {
    let Some((folder, mut service, mut browser)) = start() else { return };
    service.commit("alpha", &["h1", "h5"]);
    open(&mut browser, &service);
    let address = service.address;
    service.signal(rustix::process::Signal::TERM);
    service.wait();
    browser.until("document.querySelector('#live').textContent.startsWith('not live since ')");
    // What is shown is old, and looks so until the service answers again.
    browser.until("getComputedStyle(document.querySelector('main')).filter === 'grayscale(1)'");
    browser.shot("not-live");
    let again = Service::try_at(address, program().arg("--state").arg(folder.path().join("state.redb"))).unwrap();
    browser.until("document.querySelector('#live').textContent === 'live'");
    again.commit("beta", &["h2", "h6"]);
    browser.until("[...document.querySelectorAll('#jobs tbody tr')].some((row) => row.textContent.includes('beta'))");
    // Links are asked for again, and all at once: a table of the first alone would lose the place of whoever reads it.
    let asked = "((limit) => performance.getEntriesByType('resource').filter((e) => e.name.endsWith(`/links?limit=${limit}`)).length)";
    browser.until(&format!("{asked}(10000) > 0"));
    assert_eq!(browser.eval(&format!("{asked}(200)")), 1);
    // While nobody answered, requests failed, and nothing else did.
    let troubles = browser.troubles();
    assert!(troubles.iter().all(|t| t.contains("\"source\":\"network\"")), "{troubles:?}");
}

#[test]
fn dark_is_light_on_dark() {
    let Some((_folder, service, mut browser)) = start() else { return };
    service.commit("alpha", &["h1", "h5"]);
    service.commit("beta", &["h2", "h6"]);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        open(&mut browser, &service);
        browser.until("document.querySelectorAll('#links tbody tr[data-row]').length >= 4");
        browser.click("#links tbody tr:first-child .link");
        browser.until(CIRCLES);
        let least = browser.eval(CONTRAST);
        assert!(least[0].as_f64().unwrap() >= 4.5, "{scheme}: {least}");
        let paper = browser.eval("getComputedStyle(document.body).backgroundColor");
        assert_eq!(paper == "rgb(255, 255, 255)", scheme == "light", "{paper}");
        browser.shot(&format!("few-{scheme}"));
    }
    assert_eq!(browser.troubles(), [""; 0]);
}

/// The colours of the jobs in the table of the drawing, and those of their chips beside it.
const RING_COLOURS: &str = "[...document.querySelectorAll('#link-detail svg rect[rx=\"3\"]')].map((r) => getComputedStyle(r).fill)";
const CHIP_COLOURS: &str = "[...document.querySelectorAll('#link-detail .chip')].map((c) => getComputedStyle(c).borderLeftColor)";

/// The least contrast of a text with what is behind it, by the formula of WCAG 2, and the text. Large text, 18.66 px and bold or
/// 24 px, needs two thirds of what other text needs (1.4.3), so it counts half as much again.
pub(crate) const CONTRAST: &str = r#"(() => {
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const worst = [99, ""];
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest("svg") && e.tagName !== "text") continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(rgb(e.tagName === "text" ? style.fill : style.color)), light(behind(e))];
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 600);
    const contrast = (large ? 1.5 : 1) * (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst[0]) { worst[0] = contrast; worst[1] = e.textContent; }
  }
  return worst;
})()"#;
