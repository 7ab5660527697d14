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

/// Every cell lies in the picture, at every width: no edge is cut, and no cell on another.
#[test]
fn a_fabric_by_pods_fits_its_window() {
    let mut fabric = build::three_tier(20, 16, 32).score(4, 20);
    for (at, link) in fabric.links.iter_mut().enumerate() {
        link.id = format!("link {at}");
        (link.capacity_mbps, link.planned) = (400_000, (at % 7) as f64 / 6.0);
        link.measured = (at % 3 == 0).then_some((at % 5) as f64 / 4.0);
        link.observed = (at % 2 == 0).then_some((at % 9) as f64 / 7.0);
    }
    for width in [300.0, 390.0, 720.0, 1_400.0] {
        let picture = save(&format!("fabric-pods-{width}.svg"), fabric_map::heat(&fabric, width).document());
        check_svg(&picture);
        assert!(picture.len() < 600 << 10, "{} bytes", picture.len());
        let document = Document::parse(&picture).unwrap();
        // Every switch below the highest tier: 20 pods of 16 leaves, and the spines that build::three_tier gives them.
        let switches = fabric.nodes.iter().filter(|node| node.tier > 0 && node.tier < 3).count();
        let rims: Vec<(f64, f64)> = with_class(&document, "rim")
            .map(|rim| (rim.attribute("x").unwrap().parse().unwrap(), rim.attribute("y").unwrap().parse().unwrap()))
            .collect();
        assert_eq!(rims.len(), switches);
        let mut places: Vec<String> = rims.iter().map(|at| format!("{at:?}")).collect();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), switches, "two cells at one place");
    }
    // A window that cannot be gets the nearest that can.
    assert!(fabric_map::heat(&fabric, f64::NAN).document().contains("width=\"300\""));
    assert!(fabric_map::heat(&fabric, 1e9).document().contains("width=\"2400\""));
}

#[test]
fn a_switch_shows_its_neighbours_worst_first() {
    let mut fabric = build::three_tier(2, 3, 5).score(2, 20);
    for (at, link) in fabric.links.iter_mut().enumerate() {
        link.id = format!("link {at}");
        (link.capacity_mbps, link.planned) = (400_000, 0.25);
    }
    let leaf = fabric.nodes.iter().position(|node| node.tier == 1).unwrap();
    let name = fabric.nodes[leaf].name.clone();
    let neighbours: std::collections::BTreeSet<usize> = fabric.links.iter().filter(|link| link.from == leaf).map(|link| link.to).collect();
    for width in [300.0, 1_400.0] {
        let picture = save(&format!("fabric-switch-{width}.svg"), fabric_map::switch(&fabric, &name, width).unwrap().document());
        check_svg(&picture);
        let document = Document::parse(&picture).unwrap();
        // Two directions to each neighbour.
        assert_eq!(with_class(&document, "rim").count(), 2 * neighbours.len(), "{name}");
        // Within a block no score is above one that follows.
        let title = |g: roxmltree::Node<'_, '_>| g.first_element_child().unwrap().text().unwrap().to_owned();
        assert!(with_class(&document, "cell").map(title).all(|text| text.contains("planned 25 %")));
    }
    assert!(fabric_map::switch(&fabric, "no such switch", 400.0).is_none());
    let host = fabric.nodes.iter().find(|node| node.tier == 0).unwrap().name.clone();
    assert!(fabric_map::switch(&fabric, &host, 400.0).is_none(), "a host is no switch");
}

#[test]
fn odd_fabrics_have_pods_too() {
    for fabric in [FabricView::default(), build::testbed().score(1, 20)] {
        check_svg(&save("fabric-pods-odd.svg", fabric_map::heat(&fabric, 640.0).document()));
    }
}
