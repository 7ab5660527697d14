//! Reports.

use roxmltree::{Document, ParsingOptions};

use super::{build, save};
use crate::{
    report,
    view::{CandidateView, FabricView, JobView, LinkView, ReportView},
};

/// A text's hash as a source expression of a content security policy.
fn source_hash(text: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    format!("'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(text)))
}

/// The page without the content of its script and style, which are not XML.
fn as_xml(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some(at) = rest.find("<script>").into_iter().chain(rest.find("<style>")).min() {
        let end_tag = if rest[at..].starts_with("<script>") { "</script>" } else { "</style>" };
        let body = at + rest[at..].find('>').unwrap() + 1;
        out.push_str(&rest[..body]);
        rest = &rest[body + rest[body..].find(end_tag).unwrap()..];
        out.push_str(end_tag);
        rest = &rest[end_tag.len()..];
    }
    out.push_str(rest);
    out
}

/// Facts that hold for every report.
fn check_page(page: &str) {
    let xml = as_xml(page);
    let document =
        Document::parse_with_options(&xml, ParsingOptions { allow_dtd: true, ..ParsingOptions::default() }).expect("well-formed");
    assert!(!xml.contains("NaN") && !xml.contains("inf\""));
    assert_eq!(page.matches("http://").count(), page.matches("http://www.w3.org/2000/svg").count(), "namespaces only");
    assert!(!page.contains("https://"), "loads nothing");
    let mut ids = std::collections::BTreeSet::new();
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        for attribute in node.attributes() {
            assert!(!["style", "src"].contains(&attribute.name()) && !attribute.name().starts_with("on"), "{attribute:?}");
            if attribute.name() == "id" {
                assert!(ids.insert(attribute.value().to_owned()), "id {} twice", attribute.value());
            }
            if attribute.name() == "href" {
                assert!(attribute.value().starts_with('#'));
            }
        }
    }
    for anchor in document.descendants().filter_map(|n| n.attribute("href")) {
        assert!(ids.contains(&anchor[1..]), "{anchor} leads nowhere");
    }
}

/// Merges samples into one report: their jobs in one list, their links renumbered.
fn merged(parts: Vec<(Vec<JobView>, LinkView)>, fabric: FabricView) -> ReportView {
    let (mut jobs, mut links) = (Vec::new(), Vec::new());
    for (part, mut link) in parts {
        link.members.iter_mut().for_each(|m| m.job += jobs.len());
        jobs.extend(part);
        links.push(link);
    }
    let mean = |score: fn(&LinkView) -> f64| links.iter().map(score).sum::<f64>() / links.len().max(1) as f64;
    let (mean_score, zero_shift_mean_score) = (mean(|l| l.score), mean(|l| l.zero_shift_score));
    ReportView {
        title: "Plan for testbed-24".to_owned(),
        fabric,
        jobs,
        mean_score,
        zero_shift_mean_score,
        mode: "exact".to_owned(),
        proven: true,
        links,
        notes: vec!["Uplinks are 50 Gb/s; the scheduler's tree gave no capacity.".to_owned(), "ECMP spreads evenly.".to_owned()],
        made_by: "antiphase 0.1.0: antiphase plan fabric.yaml jobs.yaml -o report.html".to_owned(),
        ..ReportView::default()
    }
}

fn candidate(name: &str, chosen: bool, mean_score: Option<f64>, ms: u64, note: &str) -> CandidateView {
    CandidateView {
        name: name.to_owned(),
        chosen,
        mean_score,
        worst_score: mean_score.map(|s| s - 0.12),
        shared_links: 6,
        free_time: mean_score.map(|_| 1.25),
        turns_time: mean_score.map(|_| ms as f64 / 231.0),
        free_overlap: mean_score.map(|_| 0.25),
        held: if mean_score.is_some() { "3 by turns".to_owned() } else { String::new() },
        note: note.to_owned(),
        ..CandidateView::default()
    }
}

#[test]
fn an_ordinary_report() {
    let parts = vec![build::two_vgg(), build::forty_and_sixty(), build::three(), build::five(), build::unlocked(), build::twelve()];
    let mut view = merged(parts, build::testbed().score(2, 27));
    view.candidates = vec![
        candidate("themis-3", true, Some(view.mean_score), 231, "proven"),
        candidate("themis-1", false, Some(0.871), 244, "proven"),
        candidate("themis-7", false, Some(0.842), 252, "bound gap 0.004"),
        candidate("themis-2", false, None, 0, "link spine1->leaf4 has no known capacity"),
    ];
    let page = save("report.html", report::html(&view, source_hash));
    check_page(&page);
    assert_eq!(page.matches("<details ").count(), 6);
    assert!(page.contains("<bdi>themis-3</bdi><span class=\"badge\">chosen</span>"));
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
    assert_eq!(page, report::html(&view, source_hash), "the same input gives the same bytes");
}

#[test]
fn the_policy_names_the_one_style_and_the_one_script() {
    let page = report::html(&ReportView::default(), source_hash);
    for tag in ["style", "script"] {
        let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
        assert_eq!(page.matches(&open).count(), 1);
        let body = &page[page.find(&open).unwrap() + open.len()..page.find(&close).unwrap()];
        let hash = source_hash(body).replace('\'', "&#39;");
        assert!(page.contains(&format!("{tag}-src {hash}")), "a browser would refuse the {tag}");
    }
    assert!(page.contains("default-src &#39;none&#39;") && !page.contains("unsafe-inline"));
}

#[test]
fn a_thousand_links_are_rows_and_the_worst_25_have_pictures() {
    let (jobs, link) = build::five();
    let mut view = merged(vec![(jobs, link.clone())], build::three_tier(10, 5, 17).score(3, 5));
    let many = |n: u64| {
        let capacity_mbps = 40_000 + n * 7_919 % 100_000;
        let mut link = LinkView { name: format!("leaf{n}->spine{}", n % 8), capacity_mbps, ..link.clone() };
        link.zero_shift_score = build::score(&view.jobs, &link, false);
        link.score = build::score(&view.jobs, &link, true);
        link.explanation = "5 jobs cross this link; its capacity decides the score.".to_owned();
        link
    };
    view.links = (0..1_000).map(many).collect();
    view.never_overloaded_links = 240;
    view.mean_score = view.links.iter().map(|l| l.score).sum::<f64>() / 1_000.0;
    view.zero_shift_mean_score = view.links.iter().map(|l| l.zero_shift_score).sum::<f64>() / 1_000.0;
    view.title = "Plan for clos-850".to_owned();
    view.proven = false;
    view.bound_gap = 0.012_3;
    let page = save("report-1000-links.html", report::html(&view, source_hash));
    check_page(&page);
    assert_eq!(page.matches("<details ").count(), report::PICTURES_MAX);
    let xml = as_xml(&page);
    let document = Document::parse_with_options(&xml, ParsingOptions { allow_dtd: true, ..ParsingOptions::default() }).unwrap();
    let table = document.descendants().find(|n| n.attribute("id") == Some("link-table")).unwrap();
    assert_eq!(table.descendants().filter(|n| n.has_tag_name("tr")).count(), 1_001, "a head and every link");
    assert!(page.contains("not proven; at most 0.0123 from the best"));
    assert!(page.contains("Pictures of the worst 25 of 1\u{202f}000 links;"));
    // One number of shared links, and where the others are.
    assert!(page.contains("1\u{202f}240 links carry two or more jobs. Without shifts "));
    assert!(page.contains("240 links that two or more jobs share are not listed"));
    assert!(page.len() < 6 << 20, "{} bytes", page.len());
}

#[test]
fn hostile_text_is_only_text() {
    let evil = "</script><script>alert(\"x\")</script><img src=x onerror='alert(1)'>\u{202e}\u{0}";
    let (jobs, link) = build::two_vgg();
    let mut view = merged(vec![(jobs, link)], build::testbed().score(2, 2));
    let long = format!("{evil}{}", "x".repeat(10_000));
    for name in [&mut view.title, &mut view.fabric.name, &mut view.mode, &mut view.made_by, &mut view.links[0].name] {
        *name = long.clone();
    }
    view.links[0].explanation = long.clone();
    view.links[0].score = f64::NAN;
    view.mean_score = f64::NAN;
    view.notes = vec![long.clone()];
    view.jobs[0].name = long.clone();
    view.fabric.nodes[0].name = long.clone();
    view.candidates =
        vec![CandidateView { name: long.clone(), note: long, chosen: true, mean_score: Some(f64::NAN), ..CandidateView::default() }];
    let page = save("report-hostile.html", report::html(&view, source_hash));
    check_page(&page);
    assert_eq!(page.matches("<script").count(), 1, "only our own");
    assert!(!page.contains("<img") && !page.contains('\u{202e}') && !page.contains('\u{0}'));
    assert!(!page.contains(&"x".repeat(700)), "every name is cut");
}

#[test]
fn nothing_shared_and_nothing_at_all() {
    let page = save("report-empty.html", report::html(&ReportView::default(), source_hash));
    check_page(&page);
    assert!(page.contains("No link carries two jobs"));
}
