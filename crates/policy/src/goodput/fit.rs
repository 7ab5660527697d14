//! What an iteration takes, learnt from those that were measured (Pollux, section 4.1).
//!
//! The errors of the logarithms of two times are least: of computing a pass, and of an iteration. Two small penalties prefer no overlap and rings
//! that do not get slower. What was never seen stays at its bound, so that a job finds out: who never ran on two nodes believes that sending between
//! them costs as little as it can, and more than within one.

use super::{
    bounded::{Bounds, minimise},
    throughput::{Layout, Reach, Throughput},
};

/// The least value of a parameter, in seconds; its logarithm has to exist.
const LEAST: f64 = 1e-8;
/// The largest, in seconds: nothing takes that long.
const MOST: f64 = 1e6;
/// The largest overlap; more is no different.
const GAMMA_MAX: f64 = 10.0;
/// Weight of the penalty on overlap.
const OVERLAP_PENALTY: f64 = 1e-3;
/// Weight of the penalty on rings that get slower.
const RING_PENALTY: f64 = 1e-2;
/// Where a fit begins.
const START: [f64; PARAMETERS] = [0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001];
/// Sending between nodes costs at least this much more than within one, until somebody measured it.
const ACROSS: f64 = 1.1;

const PARAMETERS: usize = 7;
/// The place of the overlap, the only one that is not searched for by its logarithm.
const GAMMA: usize = 6;

/// Iterations as a job measured them, with one pass each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// How it stood.
    pub layout: Layout,
    /// Samples of a replica in the pass.
    pub samples: u32,
    /// Mean length of an iteration, in seconds.
    pub iteration_s: f64,
    /// How much of it was sending that did not hide behind computing, in seconds.
    pub sync_s: f64,
}

impl Observation {
    fn pass_s(&self) -> f64 {
        (self.iteration_s - self.sync_s).max(LEAST)
    }
}

/// The parameters that explain observations best; `None` without any.
#[must_use]
pub fn fit(observations: &[Observation]) -> Option<Throughput> {
    let first = observations.first()?;
    let count = observations.len() as f64;
    let (mut start, mut lower, mut upper) = (START, [LEAST; PARAMETERS], [MOST; PARAMETERS]);
    (lower[GAMMA], upper[GAMMA]) = (1.0, GAMMA_MAX);
    let mut freeze = |at: usize, value: f64| (start[at], lower[at], upper[at]) = (value, value, value);
    if observations.iter().all(|seen| seen.samples == first.samples) {
        freeze(0, (observations.iter().map(Observation::pass_s).sum::<f64>() / count / 2.0).clamp(LEAST, MOST));
    }
    let saw = |reach: Reach| observations.iter().any(|seen| seen.layout.reach() == reach);
    if !saw(Reach::AcrossNodes) {
        freeze(2, LEAST);
        freeze(3, LEAST);
    }
    if !saw(Reach::WithinNode) {
        freeze(4, LEAST);
        freeze(5, LEAST);
    }
    if observations.iter().all(|seen| seen.layout.replicas <= 2) {
        freeze(3, LEAST);
        freeze(5, LEAST);
    }
    let logs = |of: &[f64; PARAMETERS]| core::array::from_fn(|at| if at == GAMMA { of[at] } else { libm::log(of[at]) });
    let bounds = Bounds { lower: logs(&lower), upper: logs(&upper) };
    let found = minimise(|x| objective(x, observations), &logs(&start), &bounds);
    let mut throughput = of_logs(&found);
    if !saw(Reach::AcrossNodes) {
        throughput.alpha_n = throughput.alpha_n.max(throughput.alpha_r * ACROSS);
        throughput.beta_n = throughput.beta_n.max(throughput.beta_r * ACROSS);
    }
    Some(throughput)
}

fn of_logs(x: &[f64; PARAMETERS]) -> Throughput {
    let [alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, _] = x.map(libm::exp);
    Throughput { alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma: x[GAMMA] }
}

/// What is to be least, and its slopes by the logarithms of the parameters.
fn objective(x: &[f64; PARAMETERS], observations: &[Observation]) -> (f64, [f64; PARAMETERS]) {
    let throughput = of_logs(x);
    let mut squares = [0.0; 2];
    let mut slopes = [[0.0; PARAMETERS]; 2];
    for seen in observations {
        for (of, (off, by)) in errors(&throughput, seen).into_iter().enumerate() {
            squares[of] += off * off;
            slopes[of].iter_mut().zip(by).for_each(|(slope, by)| *slope += off * by);
        }
    }
    let (mut value, mut slope) = (0.0, [0.0; PARAMETERS]);
    let count = observations.len() as f64;
    for (squares, of) in squares.into_iter().zip(slopes) {
        let root = libm::sqrt(squares / count);
        value += root;
        // Where nothing is off the root has no slope, and needs none.
        if root > 1e-12 {
            slope.iter_mut().zip(of).for_each(|(slope, of)| *slope += of / (root * count));
        }
    }
    value += OVERLAP_PENALTY * (throughput.gamma - 1.0) * (throughput.gamma - 1.0);
    slope[GAMMA] += 2.0 * OVERLAP_PENALTY * (throughput.gamma - 1.0);
    for (alpha, beta, at) in [(throughput.alpha_n, throughput.beta_n, 2), (throughput.alpha_r, throughput.beta_r, 4)] {
        let slower = RING_PENALTY * (beta / alpha) * (beta / alpha);
        value += slower;
        slope[at] -= 2.0 * slower;
        slope[at + 1] += 2.0 * slower;
    }
    (value, slope)
}

/// How far the logarithms of a pass and of an iteration are off, each with its slopes.
fn errors(throughput: &Throughput, seen: &Observation) -> [(f64, [f64; PARAMETERS]); 2] {
    let Throughput { alpha_c, beta_c, gamma, .. } = *throughput;
    let (pass_s, sync_s) = (throughput.pass_s(seen.samples), throughput.sync_s(seen.layout));
    let mut of_pass = [0.0; PARAMETERS];
    of_pass[0] = alpha_c / pass_s;
    of_pass[1] = beta_c * f64::from(seen.samples) / pass_s;
    let (log_pass, log_sync) = (libm::log(pass_s), libm::log(sync_s));
    // Shares of the two in the power sum, whose logarithm over gamma is that of an iteration.
    let computing = 1.0 / (1.0 + libm::exp(gamma * (log_sync - log_pass)));
    let sending = 1.0 - computing;
    let longer = log_pass.max(log_sync);
    let log_iteration = longer + libm::log1p(libm::exp(-gamma * (log_pass - log_sync).abs())) / gamma;
    let mut of_iteration = of_pass.map(|slope| slope * computing);
    let (alpha, beta, at) = match seen.layout.reach() {
        Reach::AcrossNodes => (throughput.alpha_n, throughput.beta_n, 2),
        Reach::WithinNode => (throughput.alpha_r, throughput.beta_r, 4),
        Reach::Alone => (0.0, 0.0, 2),
    };
    of_iteration[at] = sending * alpha / sync_s;
    of_iteration[at + 1] = sending * beta * seen.layout.beyond_two() / sync_s;
    of_iteration[GAMMA] = (computing * log_pass + sending * log_sync - log_iteration) / gamma;
    let iteration_s = seen.iteration_s.max(LEAST);
    [(log_pass - libm::log(seen.pass_s()), of_pass), (log_iteration - libm::log(iteration_s), of_iteration)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::Batch, *};

    const LAYOUTS: [(u32, u32); 8] = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 4), (2, 8), (3, 12), (4, 16)];
    const SAMPLES: [u32; 4] = [16, 32, 64, 128];

    /// What a job with these parameters measures. Its time of a pass is that of computing, as the published profiles have it.
    fn measured(known: &Throughput, layouts: &[(u32, u32)], samples: &[u32]) -> Vec<Observation> {
        let mut seen = Vec::new();
        for &(nodes, replicas) in layouts {
            for &samples in samples {
                let layout = Layout { nodes, replicas };
                let iteration_s = known.iteration_s(layout, Batch { samples, passes: 1 });
                seen.push(Observation { layout, samples, iteration_s, sync_s: iteration_s - known.pass_s(samples) });
            }
        }
        seen
    }

    fn near(a: f64, b: f64, share: f64) -> bool {
        (a - b).abs() <= share * b.abs()
    }

    #[test]
    fn slopes_are_those_of_the_objective() {
        let known = Throughput { alpha_c: 0.05, beta_c: 0.002, alpha_n: 0.3, beta_n: 0.01, alpha_r: 0.1, beta_r: 0.004, gamma: 2.0 };
        let seen = measured(&known, &LAYOUTS, &SAMPLES);
        let x = [-2.0, -5.0, -1.5, -4.0, -2.5, -5.0, 1.7];
        let (_, slopes) = objective(&x, &seen);
        for at in 0..PARAMETERS {
            let beside = |by: f64| {
                let mut x = x;
                x[at] += by;
                objective(&x, &seen).0
            };
            let numeric = (beside(1e-6) - beside(-1e-6)) / 2e-6;
            assert!((numeric - slopes[at]).abs() < 1e-6, "{at}: {numeric} and {}", slopes[at]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_recovers_what_made_the_times(
            (alpha_c, beta_c) in (0.02_f64..0.2, 0.000_5_f64..0.003), (alpha_n, alpha_r) in (0.3_f64..1.0, 0.1_f64..0.3),
            (slower_n, slower_r) in (0.01_f64..0.1, 0.01_f64..0.1), gamma in 1.0_f64..2.0,
        ) {
            let known = Throughput { alpha_c, beta_c, alpha_n, beta_n: alpha_n * slower_n, alpha_r, beta_r: alpha_r * slower_r, gamma };
            let found = fit(&measured(&known, &LAYOUTS, &SAMPLES)).unwrap();
            // The penalties pull a little, on what the times hardly show.
            prop_assert!(near(found.alpha_c, alpha_c, 0.01) && near(found.beta_c, beta_c, 0.01), "{known:?}\n{found:?}");
            prop_assert!(near(found.alpha_n, alpha_n, 0.1) && near(found.alpha_r, alpha_r, 0.1), "{known:?}\n{found:?}");
            prop_assert!((found.gamma - gamma).abs() < 0.15, "{known:?}\n{found:?}");
        }

        /// Sending that hides behind computing cannot be recovered; what it does to iterations can.
        #[test]
        fn it_predicts_iterations_that_nobody_measured(
            (alpha_c, beta_c) in (0.02_f64..0.5, 0.000_5_f64..0.02), (alpha_n, alpha_r) in (0.1_f64..1.0, 0.02_f64..0.3),
            (slower_n, slower_r) in (0.01_f64..0.1, 0.01_f64..0.1), gamma in 1.0_f64..4.0,
        ) {
            let known = Throughput { alpha_c, beta_c, alpha_n, beta_n: alpha_n * slower_n, alpha_r, beta_r: alpha_r * slower_r, gamma };
            let found = fit(&measured(&known, &LAYOUTS, &SAMPLES)).unwrap();
            let (layout, batch) = (Layout { nodes: 8, replicas: 32 }, Batch { samples: 48, passes: 2 });
            let (ours, true_s) = (found.iteration_s(layout, batch), known.iteration_s(layout, batch));
            prop_assert!(near(ours, true_s, 0.1), "{ours} and {true_s}");
        }
    }

    #[test]
    fn what_was_never_seen_costs_as_little_as_it_can() {
        let known = Throughput { alpha_c: 0.05, beta_c: 0.002, alpha_n: 0.3, beta_n: 0.01, alpha_r: 0.1, beta_r: 0.004, gamma: 1.5 };
        assert_eq!(fit(&[]), None);
        // One size of batch on one GPU: half of the pass counts as fixed.
        let one = fit(&measured(&known, &[(1, 1)], &[32])).unwrap();
        assert!(near(one.alpha_c, known.pass_s(32) / 2.0, 1e-6), "{one:?}");
        assert!(near(one.pass_s(32), known.pass_s(32), 1e-3), "{one:?}");
        assert!(one.sync_s(Layout { nodes: 4, replicas: 16 }) < 1e-6, "so it believes that more GPUs cost nothing: {one:?}");
        // Two GPUs of a node: sending within is known, across it is believed to be a tenth more.
        let two = fit(&measured(&known, &[(1, 1), (1, 2)], &SAMPLES)).unwrap();
        assert!(near(two.alpha_n, two.alpha_r * ACROSS, 1e-9) && two.alpha_r > 0.05, "{two:?}");
        assert!(two.beta_r < 1e-6, "nobody saw a third replica: {two:?}");
        // Only across: within costs nothing.
        let across = fit(&measured(&known, &[(2, 4), (2, 8)], &SAMPLES)).unwrap();
        assert!(across.alpha_r < 1e-6 && across.alpha_n > 0.1, "{across:?}");
    }
}
