//! Fabric maps.

use roxmltree::Document;

use super::{build, check_svg, save, with_class};
use crate::{
    fabric_map,
    view::{FabricView, JobView},
};

fn jobs(count: usize) -> Vec<JobView> {
    (0..count).map(|n| JobView { name: format!("{}-{n}", ["bert", "vgg16", "dlrm"][n % 3]), ..JobView::default() }).collect()
}

fn draw(name: &str, fabric: &FabricView) -> String {
    let picture = save(&format!("fabric-{name}.svg"), fabric_map::draw(fabric, &jobs(20)).document());
    check_svg(&picture);
    assert!(picture.len() < 400 << 10, "{name}: {} bytes", picture.len());
    picture
}

fn hovers(picture: &str) -> Vec<String> {
    let document = Document::parse(picture).unwrap();
    let titles = with_class(&document, "link").map(|g| g.first_element_child().unwrap().text().unwrap().to_owned());
    titles.map(|t| t.replace(['\u{2068}', '\u{2069}'], "")).collect()
}

#[test]
fn the_testbed_is_drawn_whole() {
    let mut weaver = build::testbed();
    // leaf1->spine1 is the first cable below the 8 of spines to core.
    let at = weaver.0.links.iter().position(|l| weaver.0.nodes[l.from].name == "leaf1").unwrap();
    weaver.0.links[at].score = Some(0.831);
    weaver.0.links[at].jobs = vec![0, 7, 999];
    let fabric = FabricView { links: weaver.0.links.clone(), ..build::testbed().score(3, 20) };
    let picture = draw("testbed-one", &fabric);
    assert_eq!(hovers(&picture), ["leaf1->spine1 score 0.831, bert-0 + vgg16-7"]);

    let fabric = build::testbed().score(2, 20);
    let picture = draw("testbed", &fabric);
    assert!(picture.contains("24 hosts, 13 switches, 96 directed links; "));
    // 48 cables, of which 4 pairs are parallel: 44 edges.
    let document = Document::parse(&picture).unwrap();
    let legend = 6;
    let hits = with_class(&document, "hit").count();
    assert_eq!(with_class(&document, "edge").count(), 44 + legend, "{hits} scored");
    // The worst is last, on top.
    let worst = fabric.links.iter().filter_map(|l| l.score).fold(1.0, f64::min);
    assert!(hovers(&picture).last().unwrap().contains(&crate::quantity::score(worst)));
}

#[test]
fn many_hosts_become_bars() {
    let mut w = build::Weaver::default();
    w.0.name = "two-tier-256".to_owned();
    let spines: Vec<usize> = (0..4).map(|n| w.node(2, format!("spine{n}"))).collect();
    for leaf in 0..16 {
        let at = w.node(1, format!("leaf{leaf}"));
        spines.iter().for_each(|&s| w.cable(at, s));
        for host in 0..if leaf % 5 == 0 { 8 } else { 17 } {
            let host = w.node(0, format!("leaf{leaf}-host{host}"));
            w.cable(host, at);
        }
    }
    draw("two-tier-bars", &w.score(2, 20));
}

#[test]
fn a_large_fabric_shows_the_worst_links_and_says_so() {
    let fabric = build::three_tier(10, 5, 17).score(3, 20);
    let shared = fabric.links.iter().filter(|l| l.score.is_some()).count();
    let picture = draw("three-tier-850", &fabric);
    assert!(picture.contains("850 hosts, 106 switches"));
    assert!(picture.contains("drawn, worst first"), "{shared} shared links are more than are drawn");
    assert_eq!(hovers(&picture).len(), 64);

    // Few shared links in a large fabric: all of them, and the note does not claim otherwise.
    let few = build::three_tier(10, 5, 17).score(24, 20);
    let picture = draw("three-tier-850-few", &few);
    assert!(picture.contains("drawn, all that two or more jobs share"));
}

#[test]
fn ten_thousand_hosts_stay_readable_and_small() {
    draw("three-tier-12800", &build::three_tier(20, 20, 32).score(4, 20));
}

#[test]
fn odd_fabrics_do_not_break_it() {
    draw("empty", &FabricView::default());
    // Leaves joined to each other, a host without a leaf, hostile and long names.
    let mut w = build::Weaver::default();
    w.0.name = "<odd>".repeat(4_000);
    let leaves: Vec<usize> = (0..6).map(|n| w.node(1, format!("\"leaf\"<{n}> of a rather long name"))).collect();
    for pair in leaves.windows(2) {
        w.cable(pair[0], pair[1]);
    }
    let host = w.node(0, "\u{202e}host".to_owned());
    w.node(0, "alone".to_owned());
    w.cable(host, leaves[0]);
    w.cable(host, leaves[5]);
    let mut fabric = w.score(1, 20);
    fabric.links[0].score = Some(f64::NAN);
    let picture = draw("odd", &fabric);
    assert!(!picture.contains('\u{202e}'));
}
