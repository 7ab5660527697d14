//! Traces as the authors draw them.

use alloc::vec::Vec;

use super::table::{DEMANDS, Job, Kind, MODELS};
use crate::draw::Draw;

/// Draws of which the parts of models and demands are counted: hundredths.
const PARTS: u32 = 100;

/// So many jobs, drawn from a seed: first how likely each model and each demand is, by a hundred draws each, then jobs by these. `samples` says how many a
/// job has, by model and demand.
#[must_use]
pub fn drawn(jobs: usize, samples: &[[f64; DEMANDS.len()]; MODELS.len()], seed: u64) -> Vec<Job> {
    let mut draw = Draw::new(seed, 5);
    let models = parts::<{ MODELS.len() }>(&mut draw);
    let demands = parts::<{ DEMANDS.len() }>(&mut draw);
    let job = |_| {
        let kind = Kind { model: draw.weighted(&models).unwrap_or_default(), demand: draw.weighted(&demands).unwrap_or_default() };
        Job { kind, samples: samples[kind.model][kind.demand] }
    };
    (0..jobs).map(job).collect()
}

fn parts<const N: usize>(draw: &mut Draw) -> [f32; N] {
    let mut parts = [0.0; N];
    (0..PARTS).for_each(|_| parts[draw.below(N as u64) as usize] += 1.0);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_jobs_and_their_parts_differ_from_seed_to_seed() {
        let samples = core::array::from_fn(|model| core::array::from_fn(|demand| (model * 10 + demand) as f64));
        let jobs = drawn(600, &samples, 1);
        assert_eq!(jobs, drawn(600, &samples, 1));
        assert!(jobs.iter().all(|job| job.samples == (job.kind.model * 10 + job.kind.demand) as f64));
        let large = |jobs: &[Job]| jobs.iter().filter(|job| job.kind.demand == 2).count();
        let counts: Vec<usize> = (1..=8).map(|seed| large(&drawn(600, &samples, seed))).collect();
        // A third, and of its part a standard deviation of 0.047.
        assert!(counts.iter().all(|count| (110..300).contains(count)), "{counts:?}");
        assert!(counts.iter().max() > counts.iter().min().map(|least| least + 20).as_ref(), "{counts:?}");
    }
}
