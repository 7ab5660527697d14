//! What agents see of the cabling, beside the fabric: a service in this process, so that the test can be its agents.

use std::sync::Arc;

use antiphase_topology::config::Config;
use proto::v1alpha1::{Neighbour, Neighbours};
use serde_json::json;
use tokio::{runtime::Runtime, sync::watch};

use crate::{
    chromium::Browser,
    few::CONTRAST,
    measured::{Served, start},
};

const FABRIC: &str = "schema: antiphase.fabric/v1
name: rack
hosts: [h1, h2, h3]
switches: [{name: leaf1}]
cables:
- {ends: ['h1:eth0', 'leaf1:p1'], capacity: 100G}
- {ends: ['h2:eth0', 'leaf1:p2'], capacity: 100G}
- {ends: ['h3:eth0', 'leaf1:p3'], capacity: 100G}
";
/// A name that would run if it ever became markup.
const HOSTILE: &str = "leaf2<img src=x>";

/// An agent that has looked for long enough sees these at the other ends of its ports.
fn sees(served: &Served, host: &str, cables: &[(&str, &str, &str)]) {
    let neighbour = |(port, chassis, remote): &(&str, &str, &str)| Neighbour {
        port: (*port).into(),
        chassis: (*chassis).into(),
        chassis_id: Some(format!("id of {chassis}")),
        remote_port: (*remote).into(),
        forwards: Some(true),
        rate_mbps: Some(100_000),
        ..Neighbour::default()
    };
    served.discovery.take(host, Neighbours { neighbours: cables.iter().map(neighbour).collect(), settled: true, forwards: false });
}

#[test]
fn cables_that_are_elsewhere_missing_or_unknown_are_on_the_page() {
    let Some(mut browser) = Browser::start(1440, 1000) else { return };
    let runtime = Runtime::new().unwrap();
    let served = runtime.block_on(start(&state::Config::default()));
    let config = watch::Sender::new(Arc::new(Config::default()));
    let never = Box::new(|_, _| Box::pin(async { Err("nothing grows here".to_owned()) }) as futures_util::future::BoxFuture<'static, _>);
    runtime.spawn(served.discovery.clone().run(config.subscribe(), never, served.controller.handle.clone(), served.around.clone()));
    served.ask("PUT", "/v1alpha1/fabric", FABRIC);

    browser.go(&format!("http://{}/", served.address));
    browser.until("document.body?.dataset.drawn !== undefined && document.querySelector('#live').className === 'live'");
    assert_eq!(browser.eval("document.querySelector('#cabling-section').hidden"), true, "nobody has told anything");

    // All is well with two of the cables; of the third nobody tells.
    sees(&served, "h1", &[("eth0", "leaf1", "p1")]);
    sees(&served, "h2", &[("eth0", "leaf1", "p2")]);
    browser.until("document.querySelector('#cabling-note').textContent.includes('no differences; 2 cables seen from 2 systems')");
    browser.until("document.querySelector('#cabling .empty')?.innerText === 'What agents see is what the fabric says.'");

    let note = |browser: &mut Browser| browser.eval("document.querySelector('#cabling-note').textContent").as_str().unwrap().to_owned();
    assert!(note(&mut browser).ends_with("2 of them in the fabric, of whose cables 1 is out of sight"), "{}", note(&mut browser));

    // The two are in each other's place, the third is not there, and there is one that nobody intended. The page follows without a reload.
    browser.eval("window.here = true");
    sees(&served, "h1", &[("eth0", "leaf1", "p2")]);
    sees(&served, "h2", &[("eth0", "leaf1", "p1")]);
    sees(&served, "h3", &[("eth1", HOSTILE, "p1")]);
    browser.until("document.querySelectorAll('#cabling tbody tr[data-row]').length === 5");
    let rows = browser.eval(
        "[...document.querySelectorAll('#cabling tbody tr[data-row]')].map((row) => [...row.children].map((cell) => cell.textContent))",
    );
    let told = served.ask("GET", "/v1alpha1/fabric/observed?summary=true", "");
    let differences = told["differences"].as_array().unwrap();
    let expected: Vec<_> = differences.iter().map(|one| json!([one["kind"], one["place"]])).collect();
    assert_eq!(rows, json!(expected), "each as the service says it");
    for (kind, place) in [
        ("moved cable", "h1:eth0: intended to leaf1:p1, observed to leaf1:p2".to_owned()),
        ("missing cable", "h3 -- leaf1:p3".to_owned()),
        ("extra cable", format!("h3:eth1 -- {HOSTILE}:p1")),
    ] {
        assert!(expected.contains(&json!([kind, place])), "{kind}: {place}: {expected:?}");
    }
    assert!(
        note(&mut browser).starts_with(&format!("{} differences; 3 cables seen from 3 systems", expected.len())),
        "{}",
        note(&mut browser)
    );
    let vitals = browser.eval("document.querySelector('#vitals').textContent");
    assert!(vitals.as_str().unwrap().contains(&format!("{} cabling differences", expected.len())), "{vitals}");
    // Each is an event as well, and none became markup.
    browser.until("[...document.querySelectorAll('#events li')].some((li) => li.textContent.includes('moved cable: h1:eth0'))");
    assert_eq!((browser.eval("window.here"), browser.eval("document.querySelectorAll('main img').length")), (json!(true), json!(0)));

    browser.eval("document.querySelector('#cabling-filter').focus()");
    browser.type_text("moved");
    browser.until("document.querySelectorAll('#cabling tbody tr[data-row]').length === 2");
    browser.eval(
        "(() => { const input = document.querySelector('#cabling-filter'); input.value = ''; input.dispatchEvent(new Event('input')); })()",
    );
    for (name, scheme, width) in [("cabling-light", "light", 1440), ("cabling-dark", "dark", 1440), ("cabling-narrow", "light", 400)] {
        browser.prefer(scheme);
        browser.resize(width, 900);
        browser.until(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= {width}"));
        browser.eval("document.querySelector('#cabling-section').scrollIntoView({ block: 'center' })");
        let least = browser.eval(CONTRAST);
        assert!(least[0].as_f64().unwrap() >= 4.5, "{scheme}: {least}");
        browser.shot(name);
    }
    assert_eq!(browser.troubles(), [""; 0]);
}
