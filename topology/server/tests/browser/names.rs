//! Long names, and small windows.

use serde_json::json;

use crate::{
    chromium::Browser,
    fabrics::{service, small},
};

/// A name that begins like those of all jobs of its team.
fn long(end: &str) -> String {
    format!("team-{}-run-{end}", "large-language-models".repeat(4))
}

#[test]
fn long_names_keep_their_ends_and_the_page_its_width() {
    let Some(mut browser) = Browser::start(1400, 1000) else { return };
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path(), &small());
    for (end, hosts) in [("vgg16-7", ["h1", "h5"]), ("vgg16-8", ["h2", "h6"])] {
        assert_eq!(service.commit(&long(end), &hosts).0, 200);
    }
    browser.go(&format!("http://{}/", service.address));
    browser.until("document.querySelectorAll('#jobs tbody tr[data-row]').length === 2 && document.querySelector('#verdict .chip')");
    browser.shot("names-wide");
    // All of its columns are in sight.
    assert_eq!(
        browser.eval("(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('#agents').parentElement)"),
        0
    );
    for width in [1400, 390] {
        browser.resize(width, 1000);
        browser.until(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= {width}"));
        // Where the end of a name is, nothing covers it and nothing cuts it.
        let hidden = "[...document.querySelectorAll('#verdict .chip, #jobs tbody .chip')].filter((chip) => {
            const [end, cell] = [chip.querySelector('.end bdi').getBoundingClientRect(), chip.closest('td, p').getBoundingClientRect()];
            return end.right > cell.right || chip.querySelector('.end').scrollWidth > chip.querySelector('.end').clientWidth;
        }).map((chip) => chip.textContent)";
        assert_eq!(browser.eval(hidden), json!([]), "at {width}");
    }
    // As text, and where it is copied, a name is whole.
    let copied = "(() => {
        getSelection().selectAllChildren(document.querySelector('#jobs tbody td'));
        const event = new ClipboardEvent('copy', { clipboardData: new DataTransfer(), bubbles: true, cancelable: true });
        document.body.dispatchEvent(event);
        return [event.clipboardData.getData('text/plain').trim(), document.querySelector('#jobs tbody .chip').textContent];
    })()";
    assert_eq!(browser.eval(copied), json!([long("vgg16-7"), long("vgg16-7")]));
    // Nobody's sentence ends outside the window.
    assert!(browser.eval("document.querySelector('#agents .empty p').getBoundingClientRect().right").as_f64().unwrap() <= 390.0);
    browser.shot("names-narrow");
    assert_eq!(browser.troubles(), [""; 0]);
}

#[test]
fn the_verdict_counts_what_is_shown_and_all_that_is_left_out() {
    let Some(mut browser) = Browser::start(1400, 1000) else { return };
    let folder = tempfile::tempdir().unwrap();
    let service = service(folder.path(), &small());
    service.commit("alpha", &["h1", "h5"]);
    service.commit("beta", &["h2", "h6"]);
    browser.go(&format!("http://{}/", service.address));
    browser.until("document.querySelectorAll('#jobs tbody tr[data-row]').length === 2");
    // What the service would have to say is put where the page keeps it; the next refresh comes later.
    let said = |warnings: usize, more: Option<usize>| {
        format!(
            "Promise.all(['./state.js', './verdict.js'].map((name) => import(new URL(name, location)))).then(([{{ seen }}, {{ drawVerdict }}]) => {{
                const link = (score) => ({{ id: 'a->b', jobs: ['alpha', 'beta'], score, zero_shift_score: 0.9, apart: 'shifts' }});
                seen.links = [link(0.9 + 1e-8), link(0.9004), link(0.9011)];
                seen.agents = [{{ host: 'h9', state: 'connected' }}];
                seen.warnings = [...Array({warnings}).keys()].map((n) => `host h${{n}}: no agent`).concat({});
                drawVerdict();
                return document.querySelector('#verdict').textContent;
            }})",
            json!(more.map(|n| format!("and the same of {n} more hosts")).into_iter().collect::<Vec<_>>())
        )
    };
    let all = browser.eval(&said(10, None)).as_str().unwrap().to_owned();
    // Scores are shown with three decimals: 0.9 and 0.9004 are the same there.
    assert!(all.contains("raise the score of 1 of 3 shared links"), "{all}");
    assert!(all.contains("And 7 more; ") && all.contains(" has all."), "{all}");
    let some = browser.eval(&said(10, Some(85))).as_str().unwrap().to_owned();
    assert!(some.contains("And 92 more; ") && some.contains(" has 7 of them."), "{some}");
}
