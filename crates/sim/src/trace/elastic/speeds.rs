//! How fast an application really is on a type of GPU.

use alloc::{collections::BTreeMap, vec::Vec};

use policy::goodput::{Batch, Layout, Throughput};

/// Most nodes on which anything was measured.
const NODES_MAX: u32 = 16;

/// One iteration with one pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Samples of a replica.
    pub samples: f64,
    /// How long it takes, in seconds.
    pub iteration_s: f64,
    /// How much of that is sending that does not hide behind computing, in seconds.
    pub sync_s: f64,
}

/// Iterations of one placement, with more and more samples.
pub type Line = Vec<Sample>;

/// What was measured of an application on a type of GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// By the GPUs of each node.
    placements: BTreeMap<Vec<u32>, Line>,
    /// By nodes and GPUs in all.
    counts: BTreeMap<(u32, u32), Line>,
    /// By nodes and GPUs in all, what was measured without saying how many were on which node: the most samples.
    most: BTreeMap<(u32, u32), f64>,
    /// Most samples that are asked of a GPU, where that is less than was measured.
    limit: Option<u32>,
}

/// How fast an application is on a type of GPU.
#[derive(Clone, Debug, PartialEq)]
pub enum Speeds {
    /// As it was measured.
    Measured(Measured),
    /// By fitted parameters.
    Fitted {
        /// The parameters.
        throughput: Throughput,
        /// Fewest samples of a replica in one pass.
        samples_least: u32,
        /// Most.
        samples_most: u32,
        /// Samples a second of one GPU.
        alone: f64,
    },
}

/// The same placement whatever node is counted first: the first in order of its rotations.
fn rotated(counts: &[u32]) -> Vec<u32> {
    let rotation = |by: usize| counts.iter().cycle().skip(by).take(counts.len()).copied().collect::<Vec<u32>>();
    (0..counts.len()).map(rotation).min().unwrap_or_default()
}

/// Between two samples, or that at the end of the line.
fn at(line: &[Sample], samples: f64) -> Option<(f64, f64)> {
    let (first, last) = (line.first()?, line.last()?);
    let samples = samples.clamp(first.samples, last.samples);
    let above = line.iter().position(|of| of.samples >= samples)?;
    let (below, above) = (&line[above.saturating_sub(1)], &line[above]);
    let width = above.samples - below.samples;
    let share = if width > 0.0 { (samples - below.samples) / width } else { 1.0 };
    let mix = |a: f64, b: f64| a + (b - a) * share;
    Some((mix(below.iteration_s, above.iteration_s), mix(below.sync_s, above.sync_s)))
}

impl Measured {
    /// Takes in what was measured with the GPUs of each node.
    pub fn placed(&mut self, counts: &[u32], sample: Sample) {
        self.placements.entry(rotated(counts)).or_default().push(sample);
        let (nodes, gpus) = (counts.len() as u32, counts.iter().sum());
        self.counts.entry((nodes, gpus)).or_default().push(sample);
    }

    /// Takes in what was measured with some GPUs on some nodes.
    pub fn counted(&mut self, nodes: u32, gpus: u32, sample: Sample) {
        self.counts.entry((nodes, gpus)).or_default().push(sample);
        let most = self.most.entry((nodes, gpus)).or_insert(0.0);
        *most = most.max(sample.samples);
    }

    /// Sets the most samples that are asked of a GPU.
    #[must_use]
    pub fn limited(self, limit: Option<u32>) -> Self {
        Self { limit, ..self }
    }

    /// Forgets what was measured with more samples of a GPU.
    #[must_use]
    pub fn cut(mut self, most: f64) -> Self {
        self.placements.values_mut().chain(self.counts.values_mut()).for_each(|line| line.retain(|sample| sample.samples <= most));
        self.most.values_mut().for_each(|of| *of = of.min(most));
        self
    }

    /// Sorts what was taken in; of what was measured several times, the mean.
    pub fn sort(&mut self) {
        for line in self.placements.values_mut().chain(self.counts.values_mut()) {
            line.sort_by(|a, b| a.samples.total_cmp(&b.samples));
            let mean = |same: &[Sample]| {
                let of = |what: fn(&Sample) -> f64| same.iter().map(what).sum::<f64>() / same.len() as f64;
                Sample { samples: of(|s| s.samples), iteration_s: of(|s| s.iteration_s), sync_s: of(|s| s.sync_s) }
            };
            *line = line.chunk_by(|a, b| a.samples.to_bits() == b.samples.to_bits()).map(mean).collect();
        }
    }

    /// Whether there is anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.placements.is_empty()
    }

    /// All that was measured, for a fit.
    pub fn all(&self) -> impl Iterator<Item = (Layout, Sample)> {
        let of = |(counts, line): (&(u32, u32), &Line)| {
            let layout = Layout { nodes: counts.0, replicas: counts.1 };
            line.iter().map(move |sample| (layout, *sample)).collect::<Vec<_>>()
        };
        self.counts.iter().flat_map(of)
    }

    fn samples(&self) -> impl Iterator<Item = f64> {
        self.placements.values().flatten().map(|sample| sample.samples)
    }

    fn time(&self, counts: &[u32], samples: f64) -> Option<(f64, f64)> {
        if let Some(line) = self.placements.get(&rotated(counts)) {
            return at(line, samples);
        }
        let nodes = (counts.len() as u32).min(NODES_MAX);
        self.between(nodes, counts.iter().sum(), samples)
    }

    /// Between the next smaller and the next larger number of nodes on which something was measured, with as many GPUs on each.
    fn between(&self, nodes: u32, gpus: u32, samples: f64) -> Option<(f64, f64)> {
        if let Some(line) = self.counts.get(&(nodes, gpus)) {
            return at(line, samples);
        }
        let below = self.counts.range(..=(nodes, u32::MAX)).next_back().map(|((nodes, _), _)| *nodes);
        let above = self.counts.range((nodes, 0)..).next().map(|((nodes, _), _)| *nodes);
        let (below, above) = (below.or(above)?, above.or(below)?);
        let of = |on: u32| self.on(on, f64::from(gpus) * f64::from(on) / f64::from(nodes), samples);
        let (low, high) = (of(below)?, of(above)?);
        let share = if above > below { f64::from(nodes - below) / f64::from(above - below) } else { 0.0 };
        Some((low.0 + (high.0 - low.0) * share, low.1 + (high.1 - low.1) * share))
    }

    /// On a number of nodes, between the next numbers of GPUs.
    fn on(&self, nodes: u32, gpus: f64, samples: f64) -> Option<(f64, f64)> {
        let lines = || self.counts.range((nodes, 0)..=(nodes, u32::MAX));
        let below = lines().rfind(|((_, of), _)| f64::from(*of) <= gpus);
        let above = lines().find(|((_, of), _)| f64::from(*of) >= gpus);
        let (below, above) = (below.or(above)?, above.or(below)?);
        let (low, high) = (at(below.1, samples)?, at(above.1, samples)?);
        let (from, to) = (f64::from(below.0.1), f64::from(above.0.1));
        let share = if to > from { (gpus - from) / (to - from) } else { 0.0 };
        Some((low.0 + (high.0 - low.0) * share, low.1 + (high.1 - low.1) * share))
    }

    fn samples_most(&self, counts: &[u32]) -> f64 {
        if let Some(line) = self.placements.get(&rotated(counts)) {
            return line.last().map_or(0.0, |sample| sample.samples);
        }
        let (nodes, gpus) = (counts.len() as u32, counts.iter().sum::<u32>());
        let larger = self.most.iter().filter(|((on, of), _)| *on >= nodes && *of >= gpus).map(|(_, most)| *most);
        // Where nobody measured so many, what was measured with most counts.
        let found = larger.fold(0.0, f64::max);
        if found > 0.0 { found } else { self.samples().fold(0.0, f64::max) }
    }
}

impl Speeds {
    /// An iteration of one pass, and how much of it is sending, in seconds; `None` where nothing was ever measured.
    #[must_use]
    pub fn time(&self, counts: &[u32], samples: u32) -> Option<(f64, f64)> {
        match self {
            Self::Measured(measured) => measured.time(counts, f64::from(samples)),
            Self::Fitted { throughput, .. } => {
                let layout = Layout { nodes: counts.len() as u32, replicas: counts.iter().sum() };
                let iteration_s = throughput.iteration_s(layout, Batch { samples, passes: 1 });
                Some((iteration_s, iteration_s - throughput.pass_s(samples)))
            }
        }
    }

    /// Fewest and most samples of a replica in one pass, whatever the placement.
    #[must_use]
    pub fn samples(&self) -> (u32, u32) {
        match self {
            Self::Measured(measured) => {
                let (least, most) = (measured.samples().fold(f64::INFINITY, f64::min), measured.samples().fold(0.0, f64::max));
                // What was measured has fewer than 2^32 samples.
                let most = most as u32;
                (least.min(f64::from(most)) as u32, measured.limit.map_or(most, |limit| limit.min(most)))
            }
            Self::Fitted { samples_least, samples_most, .. } => (*samples_least, *samples_most),
        }
    }

    /// Most samples of a replica in one pass, as it stands.
    #[must_use]
    pub fn samples_most(&self, counts: &[u32]) -> u32 {
        match self {
            Self::Measured(measured) => measured.samples_most(counts) as u32,
            Self::Fitted { samples_most, .. } => *samples_most,
        }
    }

    /// The most that was measured with that many replicas; `None` where nothing was.
    #[must_use]
    pub fn samples_of(&self, replicas: u32) -> Option<u32> {
        let Self::Measured(measured) = self else { return None };
        let lines = measured.placements.iter().filter(|(counts, _)| counts.iter().sum::<u32>() == replicas);
        lines.filter_map(|(_, line)| line.last()).map(|sample| sample.samples as u32).max()
    }

    /// Samples a second of one GPU, with the most that fits.
    #[must_use]
    pub fn alone(&self) -> f64 {
        match self {
            Self::Measured(measured) => {
                let line = measured.placements.get(&[1_u32][..]).map_or(&[][..], Vec::as_slice);
                let longest = line.iter().map(|sample| sample.iteration_s).fold(0.0, f64::max);
                let most = line.last().map_or(0.0, |sample| sample.samples);
                if longest > 0.0 { most / longest } else { 0.0 }
            }
            Self::Fitted { alone, .. } => *alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(samples: f64, iteration_s: f64) -> Sample {
        Sample { samples, iteration_s, sync_s: iteration_s / 10.0 }
    }

    fn measured() -> Speeds {
        let mut measured = Measured::default();
        for samples in [10.0, 20.0] {
            measured.placed(&[1], sample(samples, samples));
            measured.placed(&[2, 4], sample(samples, samples + 4.0));
            measured.placed(&[4, 4], sample(samples, samples + 8.0));
            measured.counted(4, 16, sample(samples, samples + 16.0));
        }
        measured.sort();
        Speeds::Measured(measured)
    }

    #[test]
    fn what_was_measured_is_interpolated_in_samples_replicas_and_nodes() {
        let speeds = measured();
        assert_eq!(speeds.time(&[1], 15), Some((15.0, 1.5)));
        assert_eq!(speeds.time(&[4, 2], 10), speeds.time(&[2, 4], 10), "which node is first does not matter");
        // Seven GPUs on two nodes: between six (14 s) and eight (18 s).
        assert_eq!(speeds.time(&[3, 4], 10).map(|time| time.0), Some(16.0));
        // Three nodes of four: half way from two of four (18 s) to four of four (26 s).
        assert_eq!(speeds.time(&[4, 4, 4], 10).map(|time| time.0), Some(22.0));
        // Beyond what was measured it stays as it is.
        assert_eq!(speeds.time(&[1], 99).map(|time| time.0), Some(20.0));
        assert!((speeds.alone() - 1.0).abs() < 1e-12);
        assert_eq!((speeds.samples(), speeds.samples_most(&[4, 4, 4]), speeds.samples_of(6)), ((10, 20), 20, Some(20)));
    }
}
