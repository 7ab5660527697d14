//! Table 2: five snapshots of jobs on one link, whose printed scores are 1.0, 1.0, 0.9, 0.8 and 0.6.

use crate::{
    documented,
    setting::{HEADINGS, Scores, job, periods},
};

/// Number, printed score, jobs by model and batch.
type Snapshot = (u32, f64, &'static [(&'static str, u64)]);

const SNAPSHOTS: [Snapshot; 5] = [
    (1, 1.0, &[("wideresnet101", 800), ("vgg16", 1400)]),
    (2, 1.0, &[("vgg19", 1400), ("vgg16", 1700), ("resnet50", 1600)]),
    (3, 0.9, &[("vgg19", 1024), ("vgg16", 1200)]),
    (4, 0.8, &[("roberta", 12), ("roberta", 12)]),
    (5, 0.6, &[("bert", 8), ("vgg19", 1400), ("wideresnet101", 800)]),
];

fn scores((number, printed, jobs): &Snapshot, ranks: u32, lines: &mut Vec<String>) -> Scores {
    let jobs: Vec<_> = jobs.iter().map(|(model, batch)| job(model, *batch, ranks)).collect();
    let scores = Scores::of(&jobs);
    lines.push(format!("{number:>8} {printed:>7.1} {ranks:>5} {:>11} {}", periods(&jobs), scores.columns()));
    scores
}

#[test]
fn snapshots() {
    let mut lines = vec![format!("{:>8} {:>7} {:>5} {:>11} {HEADINGS}", "snapshot", "printed", "ranks", "ms")];
    let mut aligned = |ranks| SNAPSHOTS.each_ref().map(|s| scores(s, ranks, &mut lines).aligned[2].unwrap());
    let [one, two, three, four, five] = aligned(4);
    // 1, 3, 4, 5 as printed; 2 too low: ResNet50 with its 34.7 ms sends faster than the paper's, which took 55 ms.
    assert!(one > three && three > four && four > five, "{one} {three} {four} {five}");
    assert!((one - 1.0).abs() < 1e-9 && two < three);
    // Two ranks send less: snapshots 1 to 3 are nearly 1, then 4, then 5 at 0.61 against the printed 0.6.
    let [one, two, three, four, five] = aligned(2);
    assert!(one.min(two).min(three) > 0.9 && four < 0.9 && five < four, "{one} {two} {three} {four} {five}");
    documented(&lines);
}

/// The paper's own numbers, no synthesis: two jobs that send for 138 and 148 ms at 44 Gb/s (section 2.2: two of them share a
/// link at about 22 Gb/s each) score 1.0 only if their common period is at least 286 ms. So the periods of snapshot 1, which
/// are not printed, were about alike and at least that long.
#[test]
fn snapshot_1_needs_a_period_of_286_ms() {
    use circle::{Phase, ProblemBuilder, Rate, Ticks};
    let score = |period: u64| {
        let mut builder = ProblemBuilder::new();
        let members = [138, 148].map(|up| {
            let id = builder.job(Ticks(period)).unwrap();
            builder.demand(id, &[Phase { start: Ticks(period - up), end: Ticks(period), rate: Rate(44_000) }]).unwrap()
        });
        builder.link(Rate(50_000), members.to_vec()).unwrap();
        crate::setting::exact(&builder.build()).mean_score
    };
    assert!((score(286) - 1.0).abs() < 1e-12);
    // One millisecond of 285 at 38 Gb/s over.
    assert!((score(285) - (1.0 - 38.0 / 50.0 / 285.0)).abs() < 1e-12);
}
