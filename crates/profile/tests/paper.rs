//! How far synthesis is from what the CASSINI paper printed (NSDI'24). Run with `--nocapture`
//! (or `cargo nextest run --no-capture`) to see the table; docs/profiles.md discusses it.

use antiphase_profile::{Profile, Request, Scope, Strategy, find_model, synthesise};
use fabric::collective::Collective;
use units::Rate;

fn synth(model: &str, request: Request) -> Profile {
    let model = find_model(model).expect("a model of the zoo");
    let setup = request.resolve(model).expect("degrees that fit");
    synthesise(model, &setup.parallelism, &setup.hardware, setup.batch).expect("a setting that is modelled")
}

/// Time during which anything is sent, in ms.
fn up_ms(profile: &Profile) -> f64 {
    profile.duty() * profile.period().as_millis_f64()
}

/// Figure 3: VGG16, 255 ms, 141 ms Down, 114 ms Up. The figure does not print batch or workers;
/// 1400 (table 2's) and two servers (figure 2's) are ours, and the compute time is calibrated to
/// the 255 ms. What this checks is that Down and Up then fall into place.
#[test]
fn vgg16_has_the_circle_of_figure_3() {
    let p = synth("vgg16", Request { batch: Some(1400), nic_rate: Some(Rate(50_000)), ..Request::default() });
    assert_eq!(p.period().as_millis_f64(), 255.0);
    let [up] = p.phases() else { panic!("one Up phase: {:?}", p.phases()) };
    assert!((up.start.as_millis_f64() - 141.0).abs() < 0.5, "{}", up.start);
    assert!((up.duration.as_millis_f64() - 114.0).abs() < 0.5, "{}", up.duration);
}

/// One row of table 2: model, batch, printed ms under Themis + CASSINI, allowed relative error
/// below and above.
///
/// The table does not print the number of ranks. Four is ours for every row because it fits
/// snapshot 1, so that the two rows of snapshot 1 are no independent check; nothing else is
/// fitted to this table. The printed times of snapshots 3 to 5 were measured while jobs still
/// collided, so a solo time should be below them. The bands are the errors found, rounded up:
/// they do not say that the errors are small, they keep them from growing unseen.
const TABLE_2: [(&str, u64, f64, f64, f64, &str); 11] = [
    ("wideresnet101", 800, 138.0, 0.03, 0.03, "snapshot 1, score 1.0"),
    ("vgg16", 1400, 148.0, 0.03, 0.03, "snapshot 1, score 1.0"),
    ("vgg19", 1400, 168.0, 0.08, 0.0, "snapshot 2, score 1.0"),
    ("vgg16", 1700, 163.0, 0.08, 0.0, "snapshot 2, score 1.0"),
    // The table's 55 ms under Themis is the better one here. Our operations scale by
    // multiply-adds, and a ResNet reaches fewer of them per second than a VGG.
    ("resnet50", 1600, 55.0, 0.40, 0.0, "snapshot 2, Themis column"),
    ("vgg19", 1024, 166.0, 0.08, 0.0, "snapshot 3, score 0.9"),
    ("vgg16", 1200, 168.0, 0.12, 0.0, "snapshot 3, score 0.9"),
    ("roberta", 12, 164.0, 0.20, 0.0, "snapshot 4, score 0.8"),
    ("bert", 8, 209.0, 0.45, 0.0, "snapshot 5, score 0.6"),
    ("vgg19", 1400, 294.0, 0.50, 0.0, "snapshot 5, score 0.6"),
    ("wideresnet101", 800, 265.0, 0.50, 0.0, "snapshot 5, score 0.6"),
];

const GUIDE: &str = include_str!("../../../docs/profiles.md");

#[test]
fn communication_times_of_table_2() {
    println!("{:15} {:>6} {:>8} {:>8} {:>7}  where", "model", "batch", "printed", "synth", "error");
    for (model, batch, printed, below, above, place) in TABLE_2 {
        let request = Request { strategy: Some(Strategy::Data), ranks: Some(4), batch: Some(batch), ..Request::default() };
        let ms = up_ms(&synth(model, request));
        let error = ms / printed - 1.0;
        let line = format!("{model:15} {batch:>6} {printed:>8.0} {ms:>8.1} {:>6.1}%  {place}", error * 100.0);
        println!("{line}");
        assert!(GUIDE.contains(&line), "docs/profiles.md must contain this line: {line}");
        assert!((-below..=above).contains(&error), "{model} ({batch}): {ms:.1} ms against {printed} ms, {place}");
    }
}

/// Figure 1(c): tensor parallelism of a 96-block model over two servers sends roughly 25 Gb/s
/// through forward and backward pass.
#[test]
fn tensor_parallelism_over_servers_is_a_plateau() {
    let p = synth("gpt3", Request { strategy: Some(Strategy::Tensor), ranks: Some(2), ..Request::default() });
    assert!(p.phases().iter().all(|x| x.scope == Scope::Tensor));
    let mean = p.phases().iter().map(|x| x.rate.0 * x.duration.0).sum::<u64>() as f64
        / p.phases().iter().map(|x| x.duration.0).sum::<u64>() as f64;
    println!("gpt3, tp 2: {:.1} Gb/s mean against roughly 25", mean / 1e3);
    assert!((15_000.0..30_000.0).contains(&mean), "{mean}");
    assert!(p.duty() > 0.95);
}

/// Figure 1(b): a pipeline of two stages shows three small peaks for three micro-batches in the
/// forward pass and a heavy demand at the end, the embedding's all-reduce.
#[test]
fn a_pipeline_is_a_comb_and_a_block() {
    let p = synth("gpt2", Request::default());
    let phases = |c| p.phases().iter().filter(|x| x.collective == c).collect::<Vec<_>>();
    let (forward, backward) = (phases(Collective::PipelineForward), phases(Collective::PipelineBackward));
    let block = phases(Collective::Ring);
    assert_eq!((forward.len(), backward.len(), block.len()), (3, 3, 1), "{:?}", p.phases());
    // Stage 0 sends the third activations while stage 1 sends the second gradients, in the other direction.
    assert_eq!(forward[2].start, backward[1].start);
    assert!(block[0].start >= backward[2].end());
    // The NIC of stage 0, as the figure shows one, sends three peaks and the block.
    assert_eq!(p.levels().unwrap().len(), 4);
    // 50257 x 1536 parameters x 2 B in a ring of two: each sends the whole once.
    let want = 50_257 * 1_536 * 2;
    assert!(block[0].bytes().0.abs_diff(want) * 1_000 < want, "{}", block[0].bytes());
}

/// Figure 1(d): the hybrid of tensor, pipeline and data parallelism on eight servers has six
/// Up and Down phases of different heights.
#[test]
fn a_hybrid_has_several_heights() {
    let p = synth("gpt3", Request::default());
    let levels = p.levels().unwrap();
    let mut heights: Vec<u64> = levels.iter().map(|l| l.rate.0 / 1_000).collect();
    heights.sort_unstable();
    heights.dedup();
    println!("{}: {} levels, heights {heights:?} Gb/s", p.name(), levels.len());
    assert!(heights.len() >= 3, "{heights:?}");
    assert!(levels.len() >= 6);
    let scopes = |s| p.phases().iter().any(|x| x.scope == s);
    assert!(scopes(Scope::Data) && scopes(Scope::Tensor) && scopes(Scope::Pipeline));
}
