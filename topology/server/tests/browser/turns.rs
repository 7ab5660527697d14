//! Jobs that take turns: who has the turn, who waits for whom, and what came of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use antiphase_topology::{
    FabricClock,
    quic::Controller as _,
    turns::{TurnsHandle, Way},
};
use proto::{datagram::from_service, v1alpha1::turn_order::Kind};
use serde_json::json;
use state::{
    SessionId,
    turns::{Note, NoteKind},
};
use tokio::runtime::Runtime;
use units::{Nanos, Score};

use crate::{chromium::Browser, fabrics::small, few::CONTRAST, measured::start, support::job};

/// An iteration: it sends, and then computes. Two jobs that take turns need twice the first, so each waits for nearly half of its time:
/// whenever the page looks, somebody waits.
const SENDS: Duration = Duration::from_millis(150);
const COMPUTES: Duration = Duration::from_millis(15);
/// Sending is slept in such pieces, so that each sees who sends beside it.
const PIECE: Duration = Duration::from_millis(5);
/// How many times as long a piece takes on the shared link beside another sender: half the rate, and what is lost is sent again.
const BESIDE_ANOTHER: u32 = 3;
/// An order that is lost is not waited for.
const ORDER_WITHIN: Duration = Duration::from_secs(1);

struct Channel(Sender<Vec<u8>>);

impl Way for Channel {
    fn room(&self) -> Option<usize> {
        Some(1_200)
    }

    fn send(&self, datagram: Vec<u8>) {
        let _ = self.0.send(datagram);
    }
}

/// What the jobs meet on. However late the page looks, jobs that share it keep their turns; jobs that do not are let go.
#[derive(Default)]
struct Link {
    senders: AtomicU32,
    /// Nobody slows anybody here.
    unshared: AtomicBool,
    /// The jobs end.
    stop: AtomicBool,
}

impl Link {
    /// Sends for [`SENDS`], or longer beside another.
    fn send(&self) {
        self.senders.fetch_add(1, Ordering::Relaxed);
        let mut left = SENDS;
        while left > Duration::ZERO {
            let slowed = self.senders.load(Ordering::Relaxed) > 1 && !self.unshared.load(Ordering::Relaxed);
            std::thread::sleep(if slowed { PIECE * BESIDE_ANOTHER } else { PIECE });
            left = left.saturating_sub(PIECE);
        }
        self.senders.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A job and its agent: asks for each iteration, waits for the grant, and says when it has sent everything.
fn run(turns: TurnsHandle, clock: FabricClock, session: u64, name: &str, host: &str, link: Arc<Link>) -> JoinHandle<()> {
    let (to, orders) = channel();
    let (session, name) = (SessionId(session), name.to_owned());
    turns.session(session, host.into(), Channel(to));
    std::thread::spawn(move || {
        let say = |number, kind| {
            let note =
                Note { job: name.as_str().into(), writer: 7, number, kind, phase: 0, age: Nanos(0), sent: Nanos(SENDS.as_nanos() as u64) };
            turns.notes(session, clock.now(), vec![note]);
        };
        for number in 1.. {
            if link.stop.load(Ordering::Relaxed) {
                return;
            }
            say(number, NoteKind::Ready);
            wait_for_grant(&orders, number);
            link.send();
            say(number, NoteKind::Ended);
            std::thread::sleep(COMPUTES);
        }
    })
}

fn wait_for_grant(orders: &Receiver<Vec<u8>>, number: u64) {
    while let Ok(datagram) = orders.recv_timeout(ORDER_WITHIN) {
        if from_service(&datagram).unwrap().orders.iter().any(|o| o.kind() == Kind::Grant && o.number == number) {
            return;
        }
    }
}

/// The page of the worst link says of its jobs what they do, in words and above the picture, and of no shift.
fn link_page(browser: &mut Browser, does: &str, head: &str, shot: &str) {
    browser.click("#links tbody tr:first-child .link");
    browser.until(&format!(
        "document.querySelector('#link-detail')?.innerText.includes({}) && document.querySelector('#link-detail figure svg')",
        json!(does)
    ));
    let text = browser.eval("document.querySelector('#link-detail').textContent").as_str().unwrap().to_owned();
    assert!(text.contains(head) && text.contains("alone every"), "{text}");
    assert!(!text.contains("shifted by") && !text.contains("after: shifted"), "{text}");
    browser.shot(shot);
    browser.key("Escape");
    browser.until("document.querySelector('#turns tr.group')?.offsetParent");
}

/// The section of turns has contrast in either scheme, and fits a narrow window.
fn readable_in_both_schemes_and_on_a_phone(browser: &mut Browser) {
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        let least = browser.eval(CONTRAST);
        assert!(least[0].as_f64().unwrap() >= 4.5, "{scheme}: {least}");
        browser.eval("document.querySelector('#turns-section').scrollIntoView()");
        browser.shot(&format!("turns-let-go-{scheme}"));
    }
    browser.resize(420, 900);
    browser.eval("document.querySelector('#turns-section').scrollIntoView()");
    let over = browser.eval("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
    assert!(over <= 0, "the page is {over} pixels wider than the window");
    browser.shot("turns-narrow");
}

#[test]
fn turns_are_shown_and_so_is_a_group_that_is_let_go() {
    let Some(mut browser) = Browser::start(1440, 1000) else { return };
    let runtime = Runtime::new().unwrap();
    let served = runtime.block_on(start(&state::Config { control: plan::Control::Turns, ..state::Config::default() }));
    served.ask("PUT", "/v1alpha1/fabric", &small());
    // A hostile name of a job is refused, so the names of jobs are harmless; the text of everything is text all the same.
    let jobs = json!({ "jobs": [job("alpha", &["h1", "h5"]), job("beta", &["h2", "h6"])] });
    served.ask("POST", "/v1alpha1/commit", &jobs.to_string());
    let turns = served.controller.handle.turns().unwrap();
    let link = Arc::new(Link::default());

    let text = |browser: &mut Browser, selector: &str| {
        browser.eval(&format!("document.querySelector({}).innerText", json!(selector))).as_str().unwrap().to_owned()
    };
    browser.go(&format!("http://{}/", served.address));
    browser.until("document.querySelectorAll('#turns tbody tr').length === 3");
    assert!(text(&mut browser, "#turns tr.group").starts_with("Group of 2 takes turns"), "{}", text(&mut browser, "#turns tr.group"));
    // Nothing is measured yet, so what turns bring is what was predicted.
    assert!(text(&mut browser, "#turns tbody tr:nth-child(2)").contains("predicted"));
    let running = [("alpha", "h1", 1), ("beta", "h2", 2)]
        .map(|(name, host, session)| run(turns.clone(), served.clock, session, name, host, Arc::clone(&link)));
    browser.until("document.querySelector('#turns .now-sending')");
    assert!(text(&mut browser, "#links tbody tr:first-child").contains("by turns"));
    assert!(text(&mut browser, "#verdict").starts_with("Jobs that meet take turns"));
    // Which link is worst, and what keeps its jobs apart, is the service's to say; the commands read the same.
    let worst = |apart: &str| {
        let answer = served.ask("GET", "/v1alpha1/links?limit=1", "");
        let link = &answer["links"][0];
        assert_eq!(link["apart"], apart, "{answer}");
        (link["id"].as_str().unwrap().to_owned(), format!("{}", Score(link["zero_shift_score"].as_f64().unwrap())), link["score"].clone())
    };
    let (id, unshifted, _) = worst("turns");
    let verdict = text(&mut browser, "#verdict");
    assert!(verdict.contains(&format!("the worst link would be {id} with a score of {unshifted}")), "{verdict}");
    // The page of this link tells of turns, and of no shift.
    link_page(&mut browser, "takes turns", "by turns, drawn as slots", "link-by-turns");
    // Whoever is looked at in the middle of its wait says for whom.
    browser.until(
        "[...document.querySelectorAll('#turns .now-waiting')].some((e) => e.parentElement.innerText.match(/waits for (alpha|beta)/))",
    );
    browser.eval("document.querySelector('#turns-section').scrollIntoView()");
    browser.shot("turns-light");

    // The page of one of them: for whom it waits and what that costs, how long its iterations take, and on which links it meets whom.
    browser.click("#turns .chip[data-job=beta]");
    browser.until("document.querySelector('#job-waits .chip[data-job=alpha]') && document.querySelector('#job-iterations svg .curve')");
    // What the picture is of may be told a refresh later in words.
    browser.until("document.querySelector('#job-waits').innerText.includes('% of its time')");
    let waits = text(&mut browser, "#job-waits");
    assert!(waits.contains("By turns it waits") && waits.contains("% of its time") && waits.contains("Group of 2"), "{waits}");
    assert!(text(&mut browser, "#job-facts").contains("By turns, mean"), "{}", text(&mut browser, "#job-facts"));
    assert!(text(&mut browser, "#job-links").contains("leaf1->spine1") && text(&mut browser, "#job-events").contains("committed"));
    browser.shot("job-light");
    browser.key("Escape");
    browser.until("document.querySelector('#turns .group-held, #turns .group-let_go, #turns .group-tried_free')?.offsetParent");

    // Where nobody shares anything, free iterations are shorter, and the service finds that out by itself. The jobs are committed anew:
    // what was measured of the old ones says that turns pay.
    link.unshared.store(true, Ordering::Relaxed);
    served.ask("POST", "/v1alpha1/release", r#"{"jobs": ["alpha", "beta"]}"#);
    served.ask("POST", "/v1alpha1/commit", &jobs.to_string());
    browser.until("document.querySelector('#turns .group-let_go')");
    let group = text(&mut browser, "#turns tr.group");
    assert!(group.contains("let go") && group.contains("for the job that loses most"), "{group}");
    let alpha = text(&mut browser, "#turns tbody tr:nth-child(2)");
    assert!(alpha.contains("alpha") && alpha.contains('+') && !alpha.contains("predicted"), "{alpha}");
    assert!(text(&mut browser, "#turns-note").contains("1 let go"));
    // Nor does the page of a link tell of shifts and of the periods of slots.
    browser.until("!document.querySelector('#links tbody tr:first-child').innerText.includes('by turns')");
    link_page(&mut browser, "runs as it comes", "now: let go, not shifted", "link-let-go");
    // Nobody follows a shift now, so no score says what shifts would bring. The page asks for links again, under the same plan.
    browser.until("!document.querySelector('#links tbody tr:first-child').innerText.includes('by turns')");
    let (id, unshifted, score) = worst("free");
    assert_eq!(format!("{}", Score(score.as_f64().unwrap())), unshifted);
    let scores = text(&mut browser, "#links tbody tr:first-child");
    assert!(scores.matches("0.880").count() == 2 && !scores.contains("by turns"), "{scores}");
    let verdict = text(&mut browser, "#verdict");
    assert!(
        verdict.starts_with("Nothing is in force. The only group")
            && verdict.contains(&format!("worst link is {id} with a score of {unshifted}")),
        "{verdict}"
    );
    let answer = served.ask("GET", "/v1alpha1/turns?jobs=beta", "");
    let beta = &answer["groups"][0]["jobs"][1];
    assert_eq!((&answer["groups"][0]["state"], &beta["job"]), (&json!("let_go"), &json!("beta")));
    let mean = |kind: &str| beta[kind]["mean_ns"].as_u64().unwrap();
    assert!(mean("held") > mean("free") && beta["held"]["mean_wait_ns"].as_u64().unwrap() > 0, "{beta}");
    assert!(answer["groups"][0]["verdict"]["held_over_free"].as_f64().unwrap() > 1.01, "{answer}");
    readable_in_both_schemes_and_on_a_phone(&mut browser);
    served.ask("POST", "/v1alpha1/release", r#"{"jobs": ["alpha", "beta"]}"#);
    browser.until("document.querySelector('#turns-section').hidden");
    assert_eq!(browser.troubles(), [""; 0]);
    link.stop.store(true, Ordering::Relaxed);
    running.into_iter().for_each(|job| job.join().unwrap());
    served.shutdown.begin();
    served.controller.stop();
}
