//! The pairs of jobs that the paper's evaluation calls compatible, and those that it calls incompatible, on one link.

use crate::{
    documented,
    setting::{HEADINGS, RANKS, Scores, job, periods},
};

/// From this score on a pair counts as compatible here, with periods aligned by up to a tenth. The paper names no threshold:
/// its table 2 gains at 0.9, less at 0.8, and nothing at 0.6.
const COMPATIBLE: f64 = 0.9;

/// Model and batch.
type Job = (&'static str, u64);

struct Pair {
    /// What the paper says.
    compatible: bool,
    jobs: [Job; 2],
    /// Whether our model says the same.
    agrees: bool,
}

const fn pair(compatible: bool, a: Job, b: Job, agrees: bool) -> Pair {
    Pair { compatible, jobs: [a, b], agrees }
}

/// Batches are those that the paper prints with the model, or else the zoo's.
const PAIRS: [Pair; 9] = [
    pair(true, ("wideresnet101", 800), ("vgg16", 1400), false),
    pair(true, ("gpt1", 32), ("gpt2", 24), true),
    pair(true, ("gpt3", 16), ("dlrm", 1024), false),
    pair(true, ("resnet50", 1600), ("dlrm", 1024), false),
    pair(false, ("bert", 8), ("vgg19", 1400), true),
    pair(false, ("xlm", 8), ("wideresnet101", 800), true),
    pair(false, ("gpt2", 24), ("gpt3", 16), false),
    pair(false, ("gpt1", 32), ("dlrm", 1024), true),
    pair(false, ("xlm", 8), ("dlrm", 1024), true),
];

fn scores(pair: &Pair) -> Scores {
    Scores::of(&pair.jobs.map(|(model, batch)| job(model, batch, RANKS)))
}

#[test]
fn named_pairs() {
    let mut lines = vec![format!("{:12} {:31} {:>9} {HEADINGS}  {}", "paper says", "jobs", "ms", "ours")];
    for pair in &PAIRS {
        let jobs = pair.jobs.map(|(model, batch)| job(model, batch, RANKS));
        let scores = Scores::of(&jobs);
        let ours = scores.aligned[1].unwrap_or(scores.exact) >= COMPATIBLE;
        let says = |compatible| if compatible { "compatible" } else { "incompatible" };
        let names = pair.jobs.map(|(model, batch)| format!("{model} {batch}")).join(" + ");
        let verdict = if ours == pair.compatible { "agrees" } else { "differs" };
        lines.push(format!("{:12} {names:31} {:>9} {}  {verdict}", says(pair.compatible), periods(&jobs), scores.columns()));
        assert_eq!(ours == pair.compatible, pair.agrees, "{names}");
        assert!(scores.exact <= 1.0 && scores.exact + 1e-9 >= scores.zero_shift, "{names}: shifting never loses");
        assert!(scores.grid.1 <= scores.exact + 1e-9, "{names}: the grid's shifts are not better than the best");
    }
    documented(&lines);
}

/// Without a stretch the periods of no pair lock: the best shifts gain less than a thousandth.
#[test]
fn synthesised_periods_do_not_lock() {
    for pair in &PAIRS {
        let scores = scores(pair);
        assert!(scores.exact - scores.zero_shift < 1e-3, "{:?}: {} against {}", pair.jobs, scores.exact, scores.zero_shift);
    }
}

/// WideResNet101 and VGG16 send for 138 and 151 ms: they fit once both iterations last VGG16's 293 ms, which is 13.6 % longer
/// than the 258 ms synthesised for WideResNet101.
#[test]
fn wideresnet101_and_vgg16_fit_at_one_period() {
    let scores = scores(&PAIRS[0]);
    assert!(scores.aligned[1].unwrap() < 0.9);
    assert!((scores.aligned[2].unwrap() - 1.0).abs() < 1e-9);
}

/// The paper finds DLRM compatible with GPT-3 and with ResNet50. Ours, by MLPerf's sizes, sends nearly always, and with either of
/// them exceeds the link on average. So the paper's DLRM sends for much less of its iteration than ours.
#[test]
fn our_dlrm_sends_too_much_to_be_the_papers() {
    assert!(job("dlrm", 1024, RANKS).duty() > 0.9);
    for pair in &PAIRS[2..4] {
        assert!(scores(pair).load > 1.1, "{:?}", pair.jobs);
    }
}

/// No size of the replicated layers changes that: a parameter costs 6 operations per sample, and 2 (N - 1) / N times 4 bytes on
/// the wire. At table 3's largest batch, 60 TFLOP/s and 44 Gb/s, to send takes 7 (two ranks) to 14 times (many) as long as to
/// compute, whatever the number of parameters; look-ups only add to what is sent.
#[test]
fn a_recommender_of_any_size_sends_longer_than_it_computes() {
    let compute = 6.0 * 1024.0 / 60e12;
    let send = |ranks: f64| 2.0 * (ranks - 1.0) / ranks * 4.0 * 8.0 / 44e9;
    let ratio = |ranks| send(ranks) / compute;
    assert!((7.0..7.2).contains(&ratio(2.0)) && (10.6..10.7).contains(&ratio(4.0)) && ratio(1e9) < 14.3, "{} {}", ratio(2.0), ratio(4.0));
}

/// Our GPT-2 is a pipeline of two stages that sends for 8 % of its iteration, and so disturbs nobody.
#[test]
fn our_gpt2_sends_too_little_to_be_the_papers() {
    assert!(job("gpt2", 24, RANKS).duty() < 0.1);
    assert!(scores(&PAIRS[6]).zero_shift > 0.96);
}

/// Figure 1(b) shows iterations of about 200 ms. If ours took that long and sent what its busier stage sends now, in one block at
/// 44 Gb/s, it would meet GPT-3 three times as often, and still be above the threshold without shifts: the length of the
/// iteration alone does not explain what the paper found.
#[test]
fn gpt2_at_the_iteration_of_figure_1b() {
    use circle::{Phase, ProblemBuilder, Rate, Ticks};
    const MS: u64 = 1_000_000;
    let (gpt2, gpt3) = (job("gpt2", 24, RANKS), job("gpt3", 16, RANKS));
    let up = (gpt2.bytes_per_iteration().0 as f64 * 8.0 / 44e9 * 1e9) as u64;
    let mut builder = ProblemBuilder::new();
    let short = builder.job(Ticks(200 * MS)).unwrap();
    let long = builder.job(Ticks(gpt3.period().0)).unwrap();
    let block = [Phase { start: Ticks(200 * MS - up), end: Ticks(200 * MS), rate: Rate(44_000) }];
    let members = vec![builder.demand(short, &block).unwrap(), builder.demand(long, &gpt3.levels().unwrap()).unwrap()];
    builder.link(crate::setting::LINK, members).unwrap();
    let found = crate::setting::exact(&builder.build());
    println!(
        "gpt2 in 200 ms, {} ms of them Up, beside gpt3: {:.3} unshifted, {:.3} exact",
        up / MS,
        found.zero_shift_mean_score,
        found.mean_score
    );
    assert!((COMPATIBLE..0.92).contains(&found.zero_shift_mean_score), "{} {}", found.zero_shift_mean_score, found.mean_score);
}
