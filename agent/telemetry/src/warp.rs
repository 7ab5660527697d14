//! Whether iterations are of one job: they differ by when their edges are, and not by the order of their rates.
//!
//! Jitter makes an iteration, or a part of it, longer or shorter. So an iteration that is laid over another one and stretched (dynamic
//! time warping: Sakoe and Chiba, "Dynamic programming algorithm optimization for spoken word recognition", 1978) is nearly equal to it.
//! A second job on the port meets each iteration of the first elsewhere, so rates come in another order each time, and no stretching
//! makes iterations equal.

use std::ops::Range;

/// Most steps of an iteration that is compared: longer ones are compared in coarser steps.
const STEPS_MAX: usize = 240;
/// Iterations of which each is tried as the model: one may be disturbed by what is seldom.
const MODELS: usize = 3;
/// Iterations that are laid over a model.
const COMPARED: usize = 48;
/// How far an edge may be from where the model has it, in standard deviations of iterations, and at most as a share of an iteration.
const DEVIATIONS: f64 = 3.0;
const REACH_MAX: f64 = 0.25;
/// The share of an iteration for which its rate may be another than the model's: an edge is seen in two readings.
const OTHER: f64 = 0.02;
/// Rates nearer to each other than this share of the range are one: TCP and drivers vary by about as much within a phase.
const APART: f64 = 0.12;
/// As much, of the higher of two rates: a phase may come at another rate, and silence may not.
const VARIES: f64 = 0.2;
/// Rates nearer to each other than this are one where nothing varies.
const APART_LEAST: f64 = 0.03;
/// Rates that differ by less than so many standard deviations of the noise are one.
const OUT_OF_NOISE: f64 = 4.0;

/// The share of iterations that no stretching makes like the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unlike {
    /// By rates that are apart for any job.
    pub(crate) clearly: f64,
    /// By rates that are apart by more than the noise.
    pub(crate) faintly: f64,
}

impl Unlike {
    /// Nothing is like anything.
    pub(crate) const ALL: Self = Self { clearly: 1.0, faintly: 1.0 };
}

/// How many iterations are unlike the others, of those that begin at `starts` and vary by `jitter`; `None` where too few are whole.
pub(crate) fn unlike(grid: &[f64], starts: &[usize], jitter: f64) -> Option<Unlike> {
    let iterations = starts.len().checked_sub(1).filter(|count| *count >= MODELS)?;
    let period = (starts[iterations] - starts[0]) as f64 / iterations as f64;
    let coarse = (period / STEPS_MAX as f64).ceil().max(1.0) as usize;
    let spans: Vec<Range<usize>> = starts.windows(2).map(|pair| pair[0] / coarse..pair[1] / coarse).collect();
    let steps = period / coarse as f64;
    let reach = 2 + ((DEVIATIONS * jitter).min(REACH_MAX) * steps) as usize;
    let seen = Seen::of(grid.chunks_exact(coarse).map(|chunk| chunk.iter().sum::<f64>()).collect());
    let range = seen.range();
    let noise = seen.noise(range);
    let apart = [APART, APART_LEAST].map(|share| (share * range).max(OUT_OF_NOISE * noise));
    let nth = |at: usize, of: usize| at * (spans.len() - 1) / (of - 1).max(1);
    let others = COMPARED.min(spans.len());
    let compared =
        |model: &Seen| -> Vec<Laid> { (0..others).filter_map(|at| model.laid(&seen, spans[nth(at, others)].start, reach)).collect() };
    let shares = (1..=MODELS).filter_map(|at| {
        let one = Seen::of(seen.values.get(spans[nth(at, MODELS + 2)].clone())?.to_vec());
        // The middle of what lies over each step is free of what is only in the one.
        let model = Seen::of(middles(&one, &compared(&one)));
        let laid = compared(&model);
        let allowed = (OTHER * model.values.len() as f64).max(1.0) as usize;
        let share = |apart: f64| laid.iter().filter(|laid| laid.apart(&model, apart) > allowed).count() as f64 / laid.len().max(1) as f64;
        (laid.len() >= MODELS).then(|| Unlike { clearly: share(apart[0]), faintly: share(apart[1]) })
    });
    shares.min_by(|a, b| (a.clearly + a.faintly).total_cmp(&(b.clearly + b.faintly)))
}

/// Some values, and the least and the highest of each and its neighbours: a step over an edge may have any rate between.
struct Seen {
    values: Vec<f64>,
    least: Vec<f64>,
    highest: Vec<f64>,
}

/// What lies over a model: the steps of the model and the values, and how far they are from each other.
struct Laid(Vec<(usize, f64, f64)>);

impl Laid {
    /// Steps that are apart from the model by more than this, and by more than phases vary.
    fn apart(&self, model: &Seen, by: f64) -> usize {
        self.0.iter().filter(|(step, value, off)| *off > by.max(VARIES * value.max(model.values[*step]))).count()
    }
}

impl Seen {
    fn of(values: Vec<f64>) -> Self {
        let near = |at: usize| &values[at.saturating_sub(1)..(at + 2).min(values.len())];
        let least = (0..values.len()).map(|at| near(at).iter().copied().fold(f64::INFINITY, f64::min)).collect();
        let highest = (0..values.len()).map(|at| near(at).iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
        Self { values, least, highest }
    }

    /// From nearly the lowest to nearly the highest rate: a single reading may be anything.
    fn range(&self) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |percent: usize| sorted.get((sorted.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(0.0);
        at(98) - at(1)
    }

    /// The standard deviation of the noise from step to step where the port is busy.
    fn noise(&self, range: f64) -> f64 {
        let busy = |pair: &&[f64]| pair.iter().all(|value| *value > 0.3 * range);
        let mut changes: Vec<f64> = self.values.windows(2).filter(busy).map(|pair| (pair[1] - pair[0]).abs()).collect();
        changes.sort_by(f64::total_cmp);
        // A quarter of what two normal values differ by is below 0.45 of their standard deviation. Edges are seldom most of the others.
        changes.get(changes.len() / 4).map_or(0.0, |quarter| quarter / 0.45)
    }

    /// How far a value is from what another one and its neighbours span, or the other way round.
    fn off(&self, at: usize, other: &Self, there: usize) -> f64 {
        let outside = |value: f64, of: &Self, at: usize| (of.least[at] - value).max(value - of.highest[at]);
        outside(self.values[at], other, there).max(outside(other.values[there], self, at)).max(0.0)
    }

    /// These laid over what was seen from about `start` on: each within `reach` of where it would be unstretched, in order, where the sum
    /// of squares is least.
    fn laid(&self, seen: &Self, start: usize, reach: usize) -> Option<Laid> {
        let (from, width) = (start.checked_sub(reach)?, 2 * reach + 1);
        if from + self.values.len() + width > seen.values.len() {
            return None;
        }
        // By step and shift: from which of the three neighbours the best sum comes.
        let mut came: Vec<u8> = Vec::with_capacity(self.values.len() * width);
        let mut sums = vec![0.0; width];
        for step in 0..self.values.len() {
            let mut next: Vec<f64> = Vec::with_capacity(width);
            for shift in 0..width {
                let off = self.off(step, seen, from + step + shift);
                let mut best = (sums[shift], 0);
                if step > 0 && shift + 1 < width && sums[shift + 1] < best.0 {
                    best = (sums[shift + 1], 1);
                }
                if step > 0 && shift > 0 && next[shift - 1] < best.0 {
                    best = (next[shift - 1], 2);
                }
                came.push(best.1);
                next.push(off.mul_add(off, best.0));
            }
            sums = next;
        }
        let mut shift = (0..width).min_by(|a, b| sums[*a].total_cmp(&sums[*b]))?;
        let mut step = self.values.len() - 1;
        let mut laid = Vec::with_capacity(self.values.len() + width);
        loop {
            let there = from + step + shift;
            laid.push((step, seen.values[there], self.off(step, seen, there)));
            match (came[step * width + shift], step) {
                (2, _) => shift -= 1,
                (_, 0) => break,
                (back, _) => (step, shift) = (step - 1, shift + usize::from(back)),
            }
        }
        Some(Laid(laid))
    }
}

/// The middle of what lies over each step of a model.
fn middles(model: &Seen, laid: &[Laid]) -> Vec<f64> {
    let mut over: Vec<Vec<f64>> = vec![Vec::new(); model.values.len()];
    for (step, value, _) in laid.iter().flat_map(|laid| &laid.0) {
        over[*step].push(*value);
    }
    let middle = |(mut values, own): (Vec<f64>, &f64)| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(*own)
    };
    over.into_iter().zip(&model.values).map(middle).collect()
}
