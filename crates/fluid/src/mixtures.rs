//! Random components of which some coupled groups are held, others not: the prediction beside the mean over many runs under jitter.
//!
//! `cargo test -p antiphase-fluid mixtures -- --nocapture` prints the figures of docs/model.md, section 13.

use std::{println, vec::Vec};

use circle::Phase;
use units::{Nanos, Rate, Ticks, splitmix64};

use crate::{
    FluidJob, FluidLink, TOLERANCE_PERMILLE,
    gate::Gate,
    jitter::JITTER_PERMILLE,
    layout::Layout,
    predict_held,
    run::{Rules, run},
    varied::Jitter,
};

const MS: u64 = 1_000_000;
const CASES: usize = 300;
/// Runs whose mean counts as true: its standard error is a few thousandths.
const RUNS: u64 = 64;

struct Mixture {
    jobs: Vec<FluidJob>,
    phases: Vec<[Phase; 1]>,
    /// A tree, so that each link is a coupled group.
    links: Vec<Vec<usize>>,
    held: Vec<bool>,
}

impl Mixture {
    /// Two to six jobs, three of four with periods that lock; every other time with 5 % of headroom.
    fn draw(case: usize, below: &mut impl FnMut(u64) -> u64) -> Self {
        let (jobs, unit) = (2 + below(5) as usize, 20 + below(60));
        let mut out = Self { jobs: Vec::new(), phases: Vec::new(), links: Vec::new(), held: std::vec![false; jobs] };
        for _ in 0..jobs {
            let iteration = if below(4) == 0 { 100 + below(300) } else { unit * (2 + below(4)) } * MS;
            let period = if case.is_multiple_of(2) { iteration * 105 / 100 } else { iteration };
            out.jobs.push(FluidJob { iteration: Nanos(iteration), period: Nanos(period), shift: Nanos(below(400) * MS) });
            let end = Ticks(iteration * (10 + below(50)) / 100);
            out.phases.push([Phase { start: Ticks(0), end, rate: Rate(60 + below(41)) }]);
        }
        let mut next = 1;
        while next < jobs {
            let mut link = std::vec![below(next as u64) as usize, next];
            if below(3) == 0 && next + 1 < jobs {
                next += 1;
                link.push(next);
            }
            next += 1;
            if below(2) == 0 {
                link.iter().for_each(|j| out.held[*j] = true);
            }
            out.links.push(link);
        }
        out
    }

    fn links(&self) -> Vec<FluidLink<'_>> {
        let link = |l: &Vec<usize>| FluidLink { capacity: Rate(100), demands: l.iter().map(|&j| (j, &self.phases[j][..])).collect() };
        self.links.iter().map(link).collect()
    }

    /// How far a prediction with that much jitter is from `truth`, for the job for which it is worst.
    fn off(&self, jitter_permille: u32, truth: &[f64]) -> f64 {
        let predicted = predict_held(&self.jobs, &self.links(), TOLERANCE_PERMILLE, jitter_permille, &self.held);
        predicted.iter().zip(truth).map(|(p, t)| (p.time.0 as f64 / t - 1.0).abs()).fold(0.0, f64::max)
    }

    fn truth(&self) -> Vec<f64> {
        let layout = Layout::new(&self.jobs, &self.links());
        let gate = |(j, job): (usize, &FluidJob)| {
            if self.held[j] { Gate::new(job.shift.0, job.period.0.max(layout.solo(j)), TOLERANCE_PERMILLE) } else { Gate::open() }
        };
        let gates: Vec<Gate> = self.jobs.iter().enumerate().map(gate).collect();
        let mut truth = std::vec![0.0; self.jobs.len()];
        // Seeds that no prediction uses.
        for seed in 100..100 + RUNS {
            let jitter = Some(Jitter::new(self.jobs.len(), seed, JITTER_PERMILLE));
            let seen = run(&layout, Rules { gates: Some(gates.clone()), jitter, ..Rules::default() }).jobs;
            truth.iter_mut().zip(seen).for_each(|(t, m)| *t += m.mean as f64 / RUNS as f64);
        }
        truth
    }
}

#[test]
fn mixtures_of_held_and_free_jobs_are_predicted_as_they_run_under_jitter() {
    let mut seed = 7;
    let mut below = |n: u64| splitmix64(&mut seed) % n;
    let (mut all, mut exact_wrong, mut wrong) = (0, 0, 0);
    let (mut exact_worst, mut worst) = (0.0_f64, 0.0_f64);
    for case in 0..CASES {
        let mixture = Mixture::draw(case, &mut below);
        if mixture.held.iter().all(|h| *h == mixture.held[0]) {
            continue;
        }
        let truth = mixture.truth();
        let (exact, predicted) = (mixture.off(0, &truth), mixture.off(JITTER_PERMILLE, &truth));
        all += 1;
        exact_wrong += u32::from(exact > 0.02);
        wrong += u32::from(predicted > 0.02);
        (exact_worst, worst) = (exact_worst.max(exact), worst.max(predicted));
    }
    println!(
        "{all} mixtures; off by more than 2 %: {exact_wrong} without jitter (worst {exact_worst:.3}), {wrong} as predicted (worst {worst:.3})"
    );
    // What the test is for: without jitter most are wrong.
    assert!(all > 100 && 2 * exact_wrong > all, "{exact_wrong} of {all}");
    assert!(20 * wrong < all && worst < 0.05, "{wrong} of {all}, worst {worst}");
}
