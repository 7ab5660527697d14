//! Clusters of 847 and of 9,984 hosts, with an agent on each: how soon the page has its first row and is drawn, and how it scrolls.
//!
//! Times are printed, for `docs/page.md`, and only bounds are asserted that a busy machine without a graphics processor keeps.

use std::time::{Duration, Instant};

use antiphase_topology::{
    ControllerHandle,
    quic::{Controller as _, Outbox},
};
use serde_json::{Value, json};
use state::{AgentReport, ClockQuality, Event, Origin, SessionId};
use tokio::runtime::Runtime;
use units::Nanos;

use crate::{
    chromium::Browser,
    fabrics::{pairs, plain},
    measured::{Served, start},
};

/// Rows of all tables together: those in sight and some beside them, and 200 of turns. A page that laid all rows out had thousands.
const ROWS_MAX: u64 = 700;
/// The same of elements, of which a cell of the map has some too.
const ELEMENTS_MAX: u64 = 12_000;
/// Half of the frames of a scroll come within this: 16.7 ms where nothing is late. All rows laid out take more than a second.
const FRAME_MAX_MS: f64 = 100.0;

/// How often an agent reports; after 15 s of silence it would be lost.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Notes, on the clock of the page, when the first row of a link is there and when all is drawn. It runs before the page's own scripts.
const NOTES: &str = "
    window.notes = {};
    new MutationObserver(() => {
        if (document.querySelector('#links tbody tr[data-row]')) window.notes.row ??= performance.now();
        if (document.body?.dataset.drawn !== undefined) window.notes.drawn ??= performance.now();
    }).observe(document, { childList: true, subtree: true, attributes: true, attributeFilter: ['data-drawn'] });
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.notes.task = Math.max(window.notes.task ?? 0, entry.duration);
    }).observe({ type: 'longtask', buffered: true });";

/// Scrolls a table by a row and a half at each frame, over two seconds where no frame is late, and says how long frames took, in order, and the
/// most rows that there were. The page goes on to ask and to draw meanwhile.
const SCROLL: &str = "(async () => {
    const box = document.querySelector('TABLE').parentElement;
    const next = () => new Promise(requestAnimationFrame);
    box.scrollIntoView({ block: 'center' });
    box.scrollTop = 0;
    await next();
    const took = [];
    let rows = 0, before = await next();
    for (let frame = 0; frame < 120; frame += 1) {
        box.scrollTop += 45;
        const now = await next();
        took.push(now - before);
        before = now;
        rows = Math.max(rows, box.querySelectorAll('tbody tr').length);
    }
    return { took: took.sort((a, b) => a - b), rows, reached: box.scrollTop };
})()";

/// An agent on each host, whose clock is good, and which says so again before anybody takes it for lost.
async fn agents(controller: ControllerHandle, hosts: usize, plan_version: u64) {
    let sessions = move || (1..=hosts).map(|host| (SessionId(host as u64), host));
    for (session, host) in sessions() {
        controller.register(session, Outbox::new().0);
        let (version, ports, origin) = ("1.2.3".to_owned(), vec!["mlx5_0/1".to_owned()], Origin::default());
        let hello = Event::AgentHello { session, host: format!("h{host}"), version, ports, plan_version, origin };
        controller.tell(hello).await.unwrap();
    }
    tokio::spawn(async move {
        let clock = Some(ClockQuality { bound: Nanos(5_000), rtt: Nanos(40_000) });
        loop {
            for (session, _) in sessions() {
                let report = Event::Report { session, report: AgentReport { clock, gates: Vec::new() } };
                // The service ends before its agents.
                let Ok(()) = controller.tell(report).await else { return };
            }
            tokio::time::sleep(HEARTBEAT).await;
        }
    });
}

struct Cluster {
    leaves: usize,
    spines: usize,
    hosts_per_leaf: usize,
    pairs: usize,
}

impl Cluster {
    fn hosts(&self) -> usize {
        self.leaves * self.hosts_per_leaf
    }

    fn serve(&self, runtime: &Runtime) -> Served {
        let served = runtime.block_on(start(&state::Config::default()));
        let began = Instant::now();
        served.ask("PUT", "/v1alpha1/fabric", &plain(self.leaves, self.spines, self.hosts_per_leaf));
        let committed = served.ask("POST", "/v1alpha1/commit", &pairs(self.pairs, self.hosts_per_leaf).to_string());
        let plan_version = committed["plan_version"].as_u64().unwrap();
        runtime.block_on(agents(served.controller.handle.clone(), self.hosts(), plan_version));
        println!("{} hosts, {} jobs: prepared in {:?}", self.hosts(), 2 * self.pairs, began.elapsed());
        served
    }

    /// What is seen, how soon, and how it scrolls.
    fn look(&self, shot: &str) {
        let Some(mut browser) = Browser::start(1440, 1000) else { return };
        let runtime = Runtime::new().unwrap();
        let served = self.serve(&runtime);
        let address = format!("http://{}/", served.address);
        browser.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": NOTES }));
        // The first time a browser has nothing of the page yet.
        for visit in ["first visit", "second visit"] {
            browser.go("about:blank");
            browser.go(&address);
            browser.until("window.notes?.drawn && document.querySelectorAll('#agents tbody tr[data-row]').length > 10");
            let notes = browser.eval("window.notes");
            println!("{} hosts, {visit}: {}", self.hosts(), said(&notes));
        }
        browser.shot(shot);
        assert_eq!(browser.eval("document.querySelectorAll('#map .cell').length"), self.leaves, "a cell for each leaf");
        let over = "[document.documentElement, document.querySelector('#map')].map((e) => e.scrollWidth - e.clientWidth)";
        assert_eq!(browser.eval(over), json!([0, 0]), "the page, or the map, is wider than its place");
        assert_eq!(browser.eval("document.querySelector('#agents').getAttribute('aria-rowcount')"), format!("{}", self.hosts() + 1));
        let listed = served.ask("GET", "/v1alpha1/links?limit=10000&fields=links.id", "")["links"].as_array().unwrap().len();
        browser.until(&format!("document.querySelector('#links').getAttribute('aria-rowcount') === '{}'", listed + 1));
        let many = browser.eval("[document.querySelectorAll('tbody tr').length, document.querySelectorAll('*').length]");
        println!("{} hosts: {listed} links listed, {} rows and {} elements in the page", self.hosts(), many[0], many[1]);
        assert!(many[0].as_u64().unwrap() < ROWS_MAX && many[1].as_u64().unwrap() < ELEMENTS_MAX, "{many}");
        for table in ["#links", "#agents"] {
            let seen = browser.eval(&SCROLL.replace("TABLE", table));
            let took: Vec<f64> = seen["took"].as_array().unwrap().iter().map(|ms| ms.as_f64().unwrap()).collect();
            let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
            let in_time = took.iter().filter(|ms| **ms < 1.5 * 1_000.0 / 60.0).count();
            let of = took.len();
            println!(
                "{} hosts, {table}: {in_time} of {of} frames in time; median {:.1} ms, 95 % {:.1} ms, longest {:.1} ms; at most {} rows",
                self.hosts(),
                at(0.5),
                at(0.95),
                at(1.0),
                seen["rows"]
            );
            assert!(seen["rows"].as_u64().unwrap() < 120 && seen["reached"].as_f64().unwrap() > 2_000.0, "{table}: {seen}");
            assert!(at(0.5) < FRAME_MAX_MS, "{table}: {seen}");
        }
        assert_eq!(browser.troubles(), [""; 0]);
        served.shutdown.begin();
        served.controller.stop();
    }
}

/// The times of a visit as a sentence.
fn said(notes: &Value) -> String {
    let ms = |name: &str| notes[name].as_f64().map_or("none".to_owned(), |ms| format!("{ms:.0} ms"));
    format!("first row after {}, drawn after {}, longest task {}", ms("row"), ms("drawn"), ms("task"))
}

#[test]
fn a_cluster_of_847_hosts_is_drawn_and_scrolls() {
    Cluster { leaves: 121, spines: 11, hosts_per_leaf: 7, pairs: 50 }.look("hosts-847");
}

#[test]
fn a_cluster_of_ten_thousand_hosts_is_drawn_and_scrolls() {
    Cluster { leaves: 312, spines: 16, hosts_per_leaf: 32, pairs: 150 }.look("hosts-9984");
}
