//! Figures whose numbers are printed: 2, 3 and 5.

use circle::{Phase, Problem, ProblemBuilder, Rate, Ticks, evaluate};
use fluid::{FluidJob, FluidLink, TOLERANCE_PERMILLE, predict};
use units::Nanos;

use crate::{
    documented,
    setting::{LINK, exact, job, on_one_link, paper_mode},
};

const MS: u64 = 1_000_000;

/// Jobs of (period, start, end) in ms that send at `rate`, on a link of the testbed.
fn one_link(jobs: &[(u64, u64, u64)], rate: Rate) -> Problem {
    let mut builder = ProblemBuilder::new();
    let members = jobs.iter().map(|&(period, start, end)| {
        let id = builder.job(Ticks(period)).unwrap();
        builder.demand(id, &[Phase { start: Ticks(start), end: Ticks(end), rate }]).unwrap()
    });
    let members = members.collect();
    builder.link(LINK, members).unwrap();
    builder.build()
}

/// Figure 2: two VGG19 jobs share 50 Gb/s at about 22 Gb/s each; shifting one by 120 ms makes the 90th percentile of the
/// iteration time 1.26 times shorter. Batch and ranks are not printed. At batch 1100 on two servers the printed shift parts
/// the jobs completely, and the fluid model predicts nearly the printed gain.
#[test]
fn figure_2_two_vgg19_shifted_by_120_ms() {
    let vgg19 = job("vgg19", 1100, 2);
    let problem = on_one_link(&[vgg19.clone(), vgg19.clone()]);
    let score = |shift: u64| evaluate(&problem, &[Ticks(0), Ticks(shift)]).unwrap().mean_score;
    assert!((score(120 * MS) - 1.0).abs() < 1e-12);

    let phases = vgg19.levels().unwrap();
    let link = FluidLink { capacity: LINK, demands: vec![(0, &phases), (1, &phases)] };
    let fluid = |shift| FluidJob { iteration: vgg19.period(), period: vgg19.period(), shift: Nanos(shift) };
    let times = predict(&[fluid(0), fluid(120 * MS)], &[link], TOLERANCE_PERMILLE);
    let gain = times[0].contended.0 as f64 / times[0].all_held.0 as f64;
    documented(&[format!(
        "figure 2: score {:.3} unshifted, {:.3} shifted by 120 ms; iteration {:.1} ms unshifted, {:.1} ms shifted: {gain:.2} times shorter, printed 1.26",
        score(0),
        score(120 * MS),
        times[0].contended.as_millis_f64(),
        times[0].all_held.as_millis_f64()
    )]);
    assert!((gain - 1.26).abs() < 0.03, "{gain}");
}

/// Figure 3: VGG16 with a perimeter of 255 ms is Down for 141 ms, drawn as 200 degrees, and Up for 114 ms. Two of them fit on
/// one link. The rate is not printed; 44 Gb/s is 88 % of the link, twice the fair share of section 2.2.
#[test]
fn figure_3_two_vgg16_are_compatible() {
    assert_eq!(141 * 360 / 255, 199);
    let problem = one_link(&[(255, 141, 255), (255, 141, 255)], Rate(44_000));
    let solution = exact(&problem);
    // Together 88 of 50 Gb/s for 114 of 255 ms.
    assert!((solution.zero_shift_mean_score - (1.0 - 38.0 / 50.0 * 114.0 / 255.0)).abs() < 1e-12);
    assert!((solution.mean_score - 1.0).abs() < 1e-12);
    // Each may drift by half of what two Up phases leave of the period: (255 - 228) / 2 ms on either side, in whole ticks.
    assert_eq!(solution.shifts[1].slack, Ticks(13));
    let paper = paper_mode(&problem);
    documented(&[format!(
        "figure 3: score {:.3} unshifted, {:.3} exact; the 5-degree grid reports {:.3} for shifts that are worth {:.3}",
        solution.zero_shift_mean_score, solution.mean_score, paper.mean_score, paper.links[0].true_score
    )]);
    assert!((paper.mean_score - 1.0).abs() < 1e-12);

    // Synthesised for two servers at batch 1400, the same job comes out.
    let vgg16 = job("vgg16", 1400, 2);
    assert_eq!(vgg16.period(), Nanos(255 * MS));
    assert!((exact(&on_one_link(&[vgg16.clone(), vgg16])).mean_score - 1.0).abs() < 1e-12);
}

/// Figure 5: jobs of 40 and 60 ms on a unified circle of 120 ms become fully compatible when one is rotated by 30 degrees.
/// The widths of the Up phases are not printed; 10 ms each are ours.
#[test]
fn figure_5_40_and_60_ms_rotated_by_30_degrees() {
    let problem = one_link(&[(40, 30, 40), (60, 50, 60)], LINK);
    // 30 of 360 degrees of the perimeter LCM(40, 60) = 120 ms.
    let rotated = evaluate(&problem, &[Ticks(120 * 30 / 360), Ticks(0)]).unwrap();
    assert!((rotated.mean_score - 1.0).abs() < 1e-12);
    assert!((rotated.zero_shift_mean_score - (1.0 - 10.0 / 120.0)).abs() < 1e-12, "both end at 120 ms");
    assert!((exact(&problem).mean_score - 1.0).abs() < 1e-12);
    let paper = paper_mode(&problem);
    documented(&[format!(
        "figure 5: score {:.3} unshifted, {:.3} rotated by 30 degrees; the 5-degree grid reports {:.3} for shifts that are worth {:.3}",
        rotated.zero_shift_mean_score, rotated.mean_score, paper.mean_score, paper.links[0].true_score
    )]);
    assert!((paper.mean_score - 1.0).abs() < 1e-12);
}
