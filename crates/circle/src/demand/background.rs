//! Demand that looks the same at every point of a circle: one distribution over levels for all such jobs.
//!
//! A job whose period locks with no other period on the link, or that always sends the same, has no edges on the reduced circle. The jobs
//! of this kind together are one random variable `U` that is independent of the rest, so the excess of the other jobs at level
//! `x` is `E[max(0, x + U - C)]`: still a convex function of `x`, so everything that docs/model.md derives from the convexity of
//! `max(0, x - C)` holds with it. Half of the jobs of a real link are of this kind: their periods are measured numbers.

use alloc::{vec, vec::Vec};

/// Most levels that are kept. Sums of rates that are multiples of 1 Mbit/s have at most so many on links below 65 Gbit/s, and
/// sums of rounded rates far fewer; beyond it neighbours are merged, which `blur` accounts for.
const LEVELS_MAX: usize = 1 << 16;
/// Fewest levels that are kept, however many jobs and links there are.
const LEVELS_MIN: usize = 1 << 6;
/// Most levels of one job; neighbours are merged beyond it.
const JOB_LEVELS_MAX: usize = 1 << 6;
/// Up to so many shifted lists are merged one after the other; more are sorted.
const MERGED_MAX: usize = 8;
/// Up to so many levels are added up one by one, which is faster than a search for the first that counts.
const SHORT: usize = 6;

/// The sum of independent demands that do not depend on the point of the circle.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    /// (level in Mbit/s, probability), ascending; one level 0 when there are no such jobs.
    atoms: Vec<(f64, f64)>,
    /// Of each atom and all above it: the probability, and the sum of probability times level.
    above: Vec<(f64, f64)>,
    pub(crate) mean: f64,
    /// Mean excess can be higher by this much, because neighbouring levels were merged at their mean.
    pub(crate) blur: f64,
}

impl Default for Background {
    fn default() -> Self {
        Self { atoms: vec![(0.0, 1.0)], above: vec![(1.0, 0.0)], mean: 0.0, blur: 0.0 }
    }
}

impl Background {
    /// The highest level.
    pub(crate) fn most(&self) -> f64 {
        self.atoms.last().map_or(0.0, |atom| atom.0)
    }

    /// All levels, ascending.
    pub(crate) fn levels(&self) -> impl DoubleEndedIterator<Item = f64> {
        self.atoms.iter().map(|atom| atom.0)
    }

    /// The sum of independent variables, each a list of (level, probability), by convolutions of about so many terms together.
    pub(crate) fn new(jobs: Vec<Vec<(f64, f64)>>, terms_max: usize) -> Self {
        let mut background = Self::default();
        // A convolution makes at most `levels_max` times the levels of the job, so with this quotient all of them stay within
        // `terms_max`, unless `LEVELS_MIN` forbids it.
        let terms: usize = jobs.iter().map(Vec::len).sum();
        let terms = terms.min(JOB_LEVELS_MAX * jobs.len());
        let levels_max = (terms_max / terms.max(1)).clamp(LEVELS_MIN, LEVELS_MAX);
        for mut job in jobs {
            job.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            // The difference of at most `worst` holds at every level of the other demands, and so in their mean: the blurs of all
            // merges add up.
            while job.len() > JOB_LEVELS_MAX {
                let worst = merge_neighbours(&mut job);
                background.blur += worst;
            }
            background.atoms = convolved(&background.atoms, &job);
            while background.atoms.len() > levels_max {
                let worst = merge_neighbours(&mut background.atoms);
                background.blur += worst;
            }
        }
        // Sums from the highest level down, because an excess needs only the levels above the capacity.
        let (mut weight, mut sum) = (0.0, 0.0);
        background.above = background
            .atoms
            .iter()
            .rev()
            .map(|&(level, p)| {
                weight += p;
                sum += p * level;
                (weight, sum)
            })
            .collect();
        background.above.reverse();
        background.mean = sum;
        background
    }

    /// Mean excess when everything else is `over` above the capacity (mostly below 0).
    pub(crate) fn excess(&self, over: f64) -> f64 {
        if let [(level, _)] = self.atoms[..] {
            // A single level is certain: there are no such jobs, or all of them always send the same.
            return (over + level).max(0.0);
        }
        if self.atoms.len() <= SHORT {
            return self.atoms.iter().map(|&(level, p)| p * (over + level).max(0.0)).sum();
        }
        // The atoms ascend, so those above the capacity are a tail: E[(U + over)+] = P(tail) * over + E[U in the tail].
        let first = self.atoms.partition_point(|a| a.0 + over <= 0.0);
        self.above.get(first).map_or(0.0, |&(weight, sum)| weight * over + sum)
    }

    /// Work of one [`Self::excess`], in units of a term.
    pub(crate) fn terms(&self) -> u64 {
        self.atoms.len().min(2 * SHORT) as u64
    }
}

/// Halves the number of levels, ascending, of a variable; returns the blur. Two neighbours at their mean have less excess than they
/// have apart, by at most `p q / (p + q)` times their distance, and only where the capacity lies between them: at one pair at a time.
fn merge_neighbours(atoms: &mut Vec<(f64, f64)>) -> f64 {
    let mut worst = 0.0_f64;
    // Of a thousand jobs the ends of the distribution are less likely than the smallest number.
    atoms.retain(|a| a.1 > 0.0);
    // A mean lies between its two atoms, and an odd one at the end keeps its level: the list stays ascending.
    let merged = atoms.chunks(2).map(|pair| {
        let &[(low, p), (high, q)] = pair else { return pair[0] };
        worst = worst.max(p * q / (p + q) * (high - low));
        ((low * p + high * q) / (p + q), p + q)
    });
    let merged: Vec<(f64, f64)> = merged.collect();
    *atoms = merged;
    worst
}

/// The distribution of the sum of two independent variables, both ascending.
fn convolved(a: &[(f64, f64)], job: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if job.len() > MERGED_MAX {
        // Merging list by list copies the sum once per level of the job: beyond a few levels one sort is less work.
        let mut sum = a.iter().flat_map(|&(l, q)| job.iter().map(move |&(level, p)| (l + level, p * q))).collect();
        super::levels::merge_equal(&mut sum);
        return sum;
    }
    let mut sum: Vec<(f64, f64)> = Vec::new();
    for &(level, p) in job {
        let shifted = a.iter().map(|&(l, q)| (l + level, p * q));
        sum = if sum.is_empty() { shifted.collect() } else { merged(&sum, shifted) };
    }
    sum
}

/// Two ascending lists as one, equal levels added up.
fn merged(a: &[(f64, f64)], b: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::with_capacity(2 * a.len());
    let mut push = |atom: (f64, f64)| match out.last_mut() {
        Some(last) if last.0 == atom.0 => last.1 += atom.1,
        _ => out.push(atom),
    };
    let (mut rest, mut b) = (a.iter().copied().peekable(), b.peekable());
    loop {
        let first = match (rest.peek(), b.peek()) {
            (Some(x), Some(y)) if x.0 <= y.0 => rest.next(),
            (_, Some(_)) => b.next(),
            _ => rest.next(),
        };
        let Some(atom) = first else { return out };
        push(atom);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::allowance::Allowance;

    const ALONE: usize = Allowance::ALONE.terms;

    /// Ten jobs that send 2^i Mbit/s half of the time: every level from 0 to 1023 is equally likely.
    #[test]
    fn independent_jobs_add_up() {
        let bits = Background::new((0..10).map(|i| vec![(0.0, 0.5), (f64::from(1 << i), 0.5)]).collect(), ALONE);
        assert_eq!(bits.atoms.len(), 1_024);
        assert!((bits.mean - 511.5).abs() < 1e-9);
        for capacity in [-7.0, 0.0, 0.5, 511.0, 1_000.25, 1_023.0, 2_000.0] {
            let truth = (0..1_024).map(|l| (f64::from(l) - capacity).max(0.0)).sum::<f64>() / 1_024.0;
            assert!((bits.excess(-capacity) - truth).abs() < 1e-9, "at {capacity}");
        }
    }

    /// 2^18 levels, four times what is kept: merged excess is below the true one, by no more than the blur.
    #[test]
    fn merged_levels_are_off_by_no_more_than_the_blur() {
        let job = |i: u32| vec![(0.0, 0.7), (1_000.0 + f64::from(i * i * i) / 7.0, 0.3)];
        let all = Background::new((0..18).map(job).collect(), ALONE);
        let mut exact = vec![(0.0, 1.0)];
        (0..18).for_each(|i| exact = convolved(&exact, &job(i)));
        assert!(exact.len() > LEVELS_MAX && all.atoms.len() <= LEVELS_MAX && all.blur > 0.0);
        for capacity in [500.0, 5_000.0, 5_321.0, 12_000.0] {
            let truth: f64 = exact.iter().map(|a| a.1 * (a.0 - capacity).max(0.0)).sum();
            let off = truth - all.excess(-capacity);
            assert!(off > -1e-9 && off <= all.blur + 1e-9, "{off} with a blur of {}", all.blur);
        }
        assert!(all.blur < 1.0, "{} of some 5,000 Mbit/s", all.blur);
    }
}
