//! What exact cycles say of the mean under jitter: all of it where jobs keep every lead, and too little where one side of a cycle
//! attracts and the other repels.
//!
//! `cargo test -p antiphase-fluid without_jitter -- --nocapture` prints the figures of docs/model.md, section 13.

use std::{println, vec, vec::Vec};

use circle::Phase;
use units::{Nanos, Rate, Ticks};

use crate::{
    FluidJob, FluidLink, WARM_UP_ITERATIONS,
    jitter::JITTER_PERMILLE,
    layout::Layout,
    run::{Rules, run},
    varied::{ITERATIONS, Jitter, Length},
};

const MS: u64 = 1_000_000;
/// A job of the lab alone: 149 ms Up at 90 of 100, then 200 ms Down.
const SOLO: u64 = 349 * MS;
/// In step two of them halve a link: 200 + 149 * 0.9 / 0.5.
const IN_STEP: f64 = 468.2;

/// Jobs of the lab on links of 100, each with the jobs that it carries.
struct Jobs {
    count: usize,
    layout: Layout,
}

impl Jobs {
    fn new(count: usize, links: &[&[usize]]) -> Self {
        let phases = [Phase { start: Ticks(0), end: Ticks(149 * MS), rate: Rate(90) }];
        let link = |on: &&[usize]| FluidLink { capacity: Rate(100), demands: on.iter().map(|&j| (j, &phases[..])).collect() };
        let job = FluidJob { iteration: Nanos(SOLO), period: Nanos(SOLO), shift: Nanos(0) };
        Self { count, layout: Layout::new(&vec![job; count], &links.iter().map(link).collect::<Vec<_>>()) }
    }

    /// Mean iterations in ms of jobs that start at `first`, over so many iterations.
    fn run(&self, jitter: Option<Jitter>, first: Vec<u64>, iterations: usize) -> Vec<f64> {
        let seen = run(
            &self.layout,
            Rules { jitter, first, length: Some(Length { bound: iterations, warm_up: WARM_UP_ITERATIONS }), ..Rules::default() },
        );
        seen.jobs.iter().map(|m| m.mean as f64 / MS as f64).collect()
    }

    /// The mean of the exact cycles into which the jobs fall, over a grid of leads before the first job: `steps` for each other job.
    fn over_starts(&self, steps: u64) -> f64 {
        let starts = steps.pow(self.count as u32 - 1);
        let lead = |start: u64, job: usize| if job == 0 { 0 } else { start / steps.pow(job as u32 - 1) % steps * SOLO / steps };
        let mean = |start| self.run(None, (0..self.count).map(|job| lead(start, job)).collect(), 400)[0];
        (0..starts).map(mean).sum::<f64>() / starts as f64
    }

    /// The mean of the first job over runs of jobs that start together, with Down phases that deviate by so many millionths.
    fn under_jitter(&self, millionths: u64, runs: u64, iterations: usize) -> f64 {
        let mean = |seed| self.run(Some(Jitter::of_millionths(self.count, seed, millionths)), Vec::new(), iterations)[0];
        (1..=runs).map(mean).sum::<f64>() / runs as f64
    }
}

/// Two jobs keep a lead of `d` up to 149 ms, and take 468.2 - 0.8 `d`: the one in front sends alone for `d`, and so does the other one
/// at the end. From 149 to 200 ms they do not meet, and beyond that the other one is in front. All leads are alike, so
/// the mean is (2 * 149 * (468.2 - 0.8 * 149 / 2) + 51 * 349) / 349 = 399.9 ms, and that is where jitter takes the jobs in the
/// end. To walk through all leads takes it about (349 / step)^2 iterations: with half a per cent some 60,000, with 5 % some 600.
#[test]
fn two_jobs_take_the_mean_over_all_leads_in_the_end() {
    let pair = Jobs::new(2, &[&[0, 1]]);
    let over_starts = pair.over_starts(64);
    let soon = pair.under_jitter(1_000 * u64::from(JITTER_PERMILLE), 64, ITERATIONS);
    let later = pair.under_jitter(50_000, 8, 10_000);
    println!("pair: {over_starts:.1} ms over starts; under jitter {soon:.1} at first, {later:.1} over 10,000 iterations");
    assert!((over_starts - 399.9).abs() < 1.0, "{over_starts}");
    assert!((later - 399.9).abs() < 5.0, "{later}");
    // What is predicted is what jobs take at first, and they began in step.
    assert!((0.98 * IN_STEP..IN_STEP).contains(&soon), "{soon}");
}

/// In a chain a job that is behind comes back into step, and a job that is in front runs away: without jitter the jobs stay for ever in
/// the cycle that they fall into, and with any jitter in none. A tenth of the jitter keeps them in step for some iterations
/// more. So the means have no other limit than that of jobs in step, and a jitter of a millionth is further away from it than
/// from a jitter of a thousandth.
#[test]
fn the_mean_of_a_chain_depends_on_jitter_at_every_scale() {
    let chain = Jobs::new(3, &[&[0, 1], &[1, 2]]);
    let exact = chain.run(None, Vec::new(), 400)[0];
    let over_starts = chain.over_starts(16);
    assert!((exact - IN_STEP).abs() < 1e-6, "{exact}");
    let scales = [1, 10, 100, 1_000, 10_000];
    let soon = scales.map(|millionths| chain.under_jitter(millionths, 64, ITERATIONS));
    let later = scales.map(|millionths| chain.under_jitter(millionths, 4, 8_000));
    println!("chain: {exact:.1} ms in step, {over_starts:.1} over starts; jitter of {scales:?} millionths: {soon:.1?}, later {later:.1?}");
    for (soon, later) in soon.iter().zip(&later) {
        assert!(*soon < 0.99 * exact && *soon > 1.04 * over_starts, "{soon}: {exact} {over_starts}");
        assert!((soon / later - 1.0).abs() < 0.01, "{soon} {later}");
    }
    // No two of them are alike, and none of the steps is the last.
    assert!(later.windows(2).all(|pair| pair[0] - pair[1] > 0.4), "{later:?}");
    assert!(exact - later[0] > later[0] - later[3], "{later:?}");
}
