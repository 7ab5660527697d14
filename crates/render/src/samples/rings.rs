//! Circles and timelines.

use roxmltree::Document;

use super::{build, check_svg, save, with_class, with_tag};
use crate::{
    circles,
    palette::Colours,
    timeline,
    view::{Apart, JobView, LinkView},
};

/// The largest picture allowed: 25 of them, twice, stay below 8 MB.
const BYTES_MAX: usize = 160 << 10;

fn draw(name: &str, (jobs, link): &(Vec<JobView>, LinkView)) -> (String, String) {
    let colours = Colours::assign(jobs.len(), [link]);
    let circle = save(&format!("circles-{name}.svg"), circles::draw(link, jobs, &colours).document());
    let time = save(&format!("timeline-{name}.svg"), timeline::draw(&link.name, &[link], jobs, &colours).document());
    for picture in [&circle, &time] {
        check_svg(picture);
        assert!(picture.len() < BYTES_MAX, "{name}: {} bytes", picture.len());
    }
    (circle, time)
}

fn arcs(circle: &str) -> Vec<usize> {
    let document = Document::parse(circle).unwrap();
    with_class(&document, "job").map(|g| g.attribute("data-arcs").unwrap().parse().unwrap()).collect()
}

#[test]
fn two_vgg_at_255_ms() {
    let sample = build::two_vgg();
    let (circle, _) = draw("2-vgg16", &sample);
    // One Up phase each, on both circles.
    assert_eq!(arcs(&circle), [1, 1, 1, 1]);
    // Unshifted, 114 of 255 ms are over: 45 %; shifted, none.
    assert!(circle.contains("over capacity 45 % of the time (114 ms)") && circle.contains("never over capacity"));
    let document = Document::parse(&circle).unwrap();
    assert_eq!(with_tag(&document, "path").filter(|p| p.attribute("class") == Some("hatch")).count(), 1, "only before");
}

#[test]
fn forty_and_sixty_ms_lock_at_120() {
    let sample = build::forty_and_sixty();
    assert_eq!(sample.1.score, 1.0);
    let (circle, time) = draw("2-periods-40-60", &sample);
    assert_eq!(arcs(&circle), [3, 2, 3, 2]);
    assert!(circle.contains("Once around is 120 ms: 3 × A, 2 × B."));
    assert!(time.contains("120 ms of the steady state: 2 × the longest period"));
}

#[test]
fn three_five_and_twelve_jobs() {
    let (circle, _) = draw("3-jobs", &build::three());
    assert_eq!(arcs(&circle), [1, 1, 2, 1, 1, 2]);
    let five = build::five();
    let (circle, _) = draw("5-jobs", &five);
    // LCM 600: six phases once, then 3, 2, 4 and 3 iterations.
    assert_eq!(arcs(&circle)[..5], [6, 3, 2, 4, 3]);
    let (circle, _) = draw("12-jobs", &build::twelve());
    assert_eq!(arcs(&circle).len(), 24);
}

#[test]
fn periods_that_do_not_lock_have_rings_of_their_own() {
    let (circle, _) = draw("3-unlocked", &build::unlocked());
    assert!(circle.contains("each ring is one turn of its own period"));
    let document = Document::parse(&circle).unwrap();
    assert_eq!(with_class(&document, "cap").count(), 0, "no total ring without a common turn");
    assert_eq!(arcs(&circle), [1; 6]);
}

#[test]
fn a_component_has_a_strip_per_link() {
    let (jobs, first) = build::three();
    let mut second = first.clone();
    second.name = "spine1->leaf9".to_owned();
    second.members.remove(0);
    second.score = build::score(&jobs, &second, true);
    second.zero_shift_score = build::score(&jobs, &second, false);
    let colours = Colours::assign(jobs.len(), [&first, &second]);
    let picture =
        save("timeline-component.svg", timeline::draw("component of leaf3->spine1", &[&first, &second], &jobs, &colours).document());
    check_svg(&picture);
    let document = Document::parse(&picture).unwrap();
    assert_eq!(with_class(&document, "cap").count(), 4);
    assert_eq!(with_class(&document, "job").count(), 6, "a job on two links has one row");
}

#[test]
fn extremes_stay_small_and_finite() {
    // 40 jobs, of which one has 4,096 phases and one a period of 2 ns.
    let mut specs: Vec<build::Spec<'_>> = vec![("plain", 100, &[(10, 30, 40_000)]); 40];
    specs[1].1 = 200;
    let (mut jobs, mut link) = build::one_link("crowded", 100_000, &specs[..2], 50);
    jobs = (0..40).map(|n| JobView { name: format!("job {n}"), ..jobs[n % 2].clone() }).collect();
    let member = link.members[0].clone();
    link.members = (0..40).map(|job| crate::view::MemberView { job, ..member.clone() }).collect();
    let many = |n: u64| crate::view::PhaseView { start_ns: n * 20_000, end_ns: n * 20_000 + 10_000, mbps: 10_000 + n };
    link.members[2].phases = (0..4_096).map(many).collect();
    jobs[3].period_ns = 2;
    link.members[3].phases = vec![crate::view::PhaseView { start_ns: 0, end_ns: 1, mbps: 90_000 }];
    link.members[5].job = 77;
    link.score = f64::NAN;
    link.zero_shift_score = -2.5;
    let (circle, _) = draw("extreme-40-jobs", &(jobs, link));
    assert!(circle.contains("and 23 jobs without a ring"), "40 less the one that does not exist less 16 rings");
    // The largest numbers there are, and a link without capacity.
    let (mut jobs, mut link) = build::two_vgg();
    for (job, member) in jobs.iter_mut().zip(&mut link.members) {
        (job.period_ns, job.shift_ns, job.slack_ns) = (u64::MAX, u64::MAX - 7, Some(u64::MAX));
        member.phases[0].mbps = u64::MAX;
    }
    link.capacity_mbps = 0;
    draw("extreme-numbers", &(jobs, link));
    // Nothing at all.
    draw("extreme-empty", &(Vec::new(), LinkView::default()));
}

#[test]
fn hostile_names_are_text() {
    let (mut jobs, mut link) = build::two_vgg();
    jobs[0].name = "<script>alert('1')</script>\"&\u{202e}evil".to_owned();
    jobs[1].name = "שלום עולם ".repeat(2_000);
    link.name = "]]><svg onload=alert(1)>".to_owned();
    let (circle, time) = draw("hostile", &(jobs, link));
    for picture in [circle, time] {
        assert!(!picture.contains("<script") && !picture.contains("<svg onload") && !picture.contains('\u{202e}'));
        assert!(picture.contains("&lt;script&gt;") && picture.contains('…'));
    }
}

#[test]
fn jobs_that_keep_to_no_slots_have_no_shift_and_no_slack() {
    let (jobs, link) = build::two_vgg();
    for (apart, there) in [(Apart::Shifts, true), (Apart::Turns, false), (Apart::Free, false)] {
        let (circle, _) = draw(&format!("{apart:?}"), &(jobs.clone(), LinkView { apart, ..link.clone() }));
        assert!(circle.contains(">peak demand<"));
        assert_eq!([circle.contains(">shift<"), circle.contains(">slack<")], [there; 2], "{apart:?}");
    }
}
