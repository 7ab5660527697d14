//! Mixes of jobs that share a cluster: made from a seed, of the eight models that Muri's authors measured.
//!
//! The rules. Models are as likely as each other, GPUs are drawn by weights, and run times by octaves: each is as likely, and within one a job
//! runs for any time as likely. Jobs come one after the other, so often that they would keep the cluster busy for the load that is asked for; above
//! 100 % there is a queue.

use alloc::{collections::BTreeMap, string::ToString as _};

use policy::muri::MODELS;

use crate::testbed::noise::Noise;

use super::{Trace, TraceJob};

/// Milliseconds in a second.
const MS: f64 = 1_000.0;
/// Steps in which the place in an octave is drawn.
const STEPS: u64 = 1 << 20;

/// What jobs a mix has.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// How many come.
    pub jobs: usize,
    /// GPUs of the cluster.
    pub gpus: u32,
    /// Weights of jobs of 1, 2, 4, 8, 16 and 32 GPUs.
    pub sizes: [u32; 6],
    /// The shortest time that a job runs alone, in seconds, and for how many octaves above it others do.
    pub run_s: f64,
    /// Octaves of run times; at least one.
    pub octaves: u32,
    /// GPU time that comes over GPU time that passes, in percent.
    pub load_percent: f64,
    /// One job in so many is opportunistic (AntMan); 0 for none.
    pub opportunistic: u64,
}

/// The jobs of a mix; equal seeds give equal ones.
#[must_use]
pub fn mix_trace(mix: &Mix, seed: u64) -> Trace {
    let mut draw = Noise::new(seed, 0, 0);
    let mut trace = Trace::default();
    let mut known: BTreeMap<(usize, u32), u16> = BTreeMap::new();
    let mut gpu_s = 0.0;
    for number in 1..=mix.jobs as u64 {
        let (gpus, model) = (size(&mix.sizes, &mut draw), draw.below(MODELS.len() as u64) as usize);
        let octave = (0..draw.below(u64::from(mix.octaves.max(1)))).fold(mix.run_s, |run_s, _| run_s * 2.0);
        let wanted_s = octave * (1.0 + draw.below(STEPS) as f64 / STEPS as f64);
        let opportunistic = mix.opportunistic > 0 && draw.below(mix.opportunistic) == 0;
        let Some((model, profile)) = MODELS.get(model).and_then(|model| Some((model, model.profile(gpus)?))) else { continue };
        let at = MODELS.iter().position(|other| other.name == model.name).unwrap_or(0);
        let entry = *known.entry((at, gpus)).or_insert_with(|| {
            trace.profiles.push(profile);
            // Eight models of six sizes are few.
            (trace.profiles.len() - 1) as u16
        });
        // Whole iterations, one at least; casting cuts.
        let iterations = (wanted_s / profile.iteration_s) as u64 as f64 + 1.0;
        let declared_s = iterations * profile.iteration_s;
        gpu_s += declared_s * f64::from(gpus);
        trace.jobs.push(TraceJob {
            id: number.to_string(),
            line: number,
            gpus,
            gpus_max: gpus,
            submitted_s: 0.0,
            declared_s,
            iterations,
            iteration_ms: profile.iteration_s * MS,
            profile: entry,
            opportunistic,
            weight: 1,
            traffic: None,
            up_ms: Some(profile.stages.net_s * MS),
            model: Some(model.name.to_string()),
        });
    }
    let mean_s = gpu_s / trace.jobs.len().max(1) as f64 / f64::from(mix.gpus.max(1)) / (mix.load_percent / 100.0);
    let mut at_s = 0.0;
    for job in &mut trace.jobs {
        job.submitted_s = at_s;
        at_s += draw.exponential(mean_s);
    }
    trace
}

/// GPUs of a job, by the weights of powers of two.
fn size(sizes: &[u32; 6], draw: &mut Noise) -> u32 {
    let mut part = draw.below(sizes.iter().copied().map(u64::from).sum());
    for (class, weight) in sizes.iter().enumerate() {
        match part.checked_sub(u64::from(*weight)) {
            Some(rest) => part = rest,
            None => return 1 << class,
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIX: Mix =
        Mix { jobs: 400, gpus: 32, sizes: [1, 0, 2, 1, 0, 0], run_s: 100.0, octaves: 4, load_percent: 150.0, opportunistic: 2 };

    #[test]
    fn a_mix_is_what_was_asked_for_and_follows_from_its_seed() {
        let trace = mix_trace(&MIX, 7);
        assert_eq!(trace, mix_trace(&MIX, 7));
        assert!(trace != mix_trace(&MIX, 8));
        assert_eq!(trace.jobs.len(), 400);
        let of = |gpus: u32| trace.jobs.iter().filter(|job| job.gpus == gpus).count();
        // A half of four GPUs, a quarter each of one and eight; three standard deviations are 30 and 26.
        assert_eq!(of(1) + of(4) + of(8), 400);
        assert!(of(4).abs_diff(200) < 30 && of(8).abs_diff(100) < 26, "{} {}", of(4), of(8));
        // Four octaves from 100 s: up to 1,600 s, a quarter of the jobs in each.
        assert!(trace.jobs.iter().all(|job| (100.0..1_602.0).contains(&job.declared_s)));
        assert!(trace.jobs.iter().filter(|job| job.declared_s < 200.0).count().abs_diff(100) < 26);
        assert!(trace.jobs.iter().filter(|job| job.opportunistic).count().abs_diff(200) < 30);
        let gpu_s: f64 = trace.jobs.iter().map(|job| f64::from(job.gpus) * job.declared_s).sum();
        let load = gpu_s / trace.jobs[399].submitted_s / 32.0;
        assert!((1.2..1.8).contains(&load), "{load}");
    }
}
