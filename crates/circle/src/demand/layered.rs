//! The response of one job to a total in two layers: what changes slowly, and what repeats within it.
//!
//! As in `swept`, each shift costs two lookups per piece of the job. The integrand is a step function on the circle of the
//! slow part; within each of its pieces it repeats with the period of the fast part, so whole turns are multiplied out and
//! neither part is walked around the circle of the other.

use alloc::{vec, vec::Vec};

use super::{circle::Circle, distribution::DemandDistribution, folded::Span, steps::Steps};
use crate::budget::Budget;

/// A job folded onto the circle on which the others see it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The first is zero.
    pub(crate) levels: Vec<f64>,
    pub(crate) spans: Vec<Span>,
}

impl Seen {
    pub(crate) fn new(job: &DemandDistribution) -> Self {
        let mut seen = Self { levels: vec![0.0], spans: Vec::new() };
        for piece in 0..job.starts.len() {
            for &(level, probability) in job.atoms(piece).iter().filter(|a| a.0 > 0.0) {
                // Levels are copied and never computed, so equal ones are equal bit by bit.
                let index = seen.levels.iter().position(|l| *l == level).unwrap_or_else(|| {
                    seen.levels.push(level);
                    seen.levels.len() - 1
                });
                seen.spans.push(Span { from: job.starts[piece], to: job.end(piece), level: index as u32, probability });
            }
        }
        seen
    }
}

/// Mean excess that a job adds, as a function of its shift.
#[derive(Clone, Debug)]
pub(crate) struct LayeredMarginal {
    /// The period of the slow part.
    period: u64,
    slow: Vec<u64>,
    fast_period: u64,
    fast: Vec<u64>,
    levels: usize,
    /// By slow piece, fast piece and level: the rate of excess, and its integral from the start of the fast circle. Level 0 is
    /// the excess of the others, the rest what each adds to it.
    rate: Vec<f64>,
    prefix: Vec<f64>,
    /// By slow piece and level: the integral over a whole turn of the fast part.
    turn: Vec<f64>,
    /// By slow piece and level: the integral from 0 to its start, less what its layer has until there. By level at the end: the
    /// integral over the whole circle.
    before: Vec<f64>,
}

impl LayeredMarginal {
    /// `fast` repeats within `slow`, and `job` is folded onto the circle of `slow`.
    pub(crate) fn new(slow: &DemandDistribution, fast: &DemandDistribution, job: &Seen, circle: &Circle, budget: &mut Budget) -> Self {
        let (levels, pieces) = (job.levels.len(), fast.starts.len());
        let all = slow.starts.len() * pieces * levels;
        let mut out = Self {
            period: slow.period,
            slow: slow.starts.clone(),
            fast_period: fast.period,
            fast: fast.starts.clone(),
            levels,
            rate: vec![0.0; all],
            prefix: vec![0.0; all],
            turn: vec![0.0; slow.starts.len() * levels],
            before: vec![0.0; (slow.starts.len() + 1) * levels],
        };
        for s in 0..slow.starts.len() {
            for f in 0..pieces {
                let length = (fast.end(f) - fast.starts[f]) as f64;
                let (a, b) = (slow.atoms(s), fast.atoms(f));
                // The layers are sums of different jobs, independent at a point (docs/model.md, section 2): probabilities multiply.
                let excess = |extra: f64| -> f64 {
                    a.iter().map(|&(l, p)| p * b.iter().map(|&(m, q)| q * circle.excess_at(l + m + extra)).sum::<f64>()).sum()
                };
                budget.charge((levels * a.len() * b.len()) as u64 * circle.background.terms() / 4 + 1);
                let idle = excess(0.0);
                for (v, &level) in job.levels.iter().enumerate() {
                    let i = (s * pieces + f) * levels + v;
                    out.rate[i] = if v == 0 { idle } else { excess(level) - idle };
                    // `turn` grows piece by piece: before this piece is added, it is the integral up to this piece.
                    out.prefix[i] = out.turn[s * levels + v];
                    out.turn[s * levels + v] += out.rate[i] * length;
                }
            }
            for v in 0..levels {
                // `before[s]` is the true integral up to the piece until the last line takes off what the layer, which runs from 0, has
                // there.
                let until = out.layer(s, v, slow.starts[s]);
                out.before[(s + 1) * levels + v] = out.before[s * levels + v] + out.layer(s, v, slow.end(s)) - until;
                out.before[s * levels + v] -= until;
            }
        }
        out
    }

    /// What each level adds around the circle, in which only the slow part has breaks; `None` where the fast part has some.
    pub(crate) fn steps(&self) -> Option<Steps<'_>> {
        let Self { period, slow, levels, rate, .. } = self;
        (self.fast.len() == 1).then_some(Steps { period: *period, breaks: slow, rate, levels: *levels, first_level: 0 })
    }

    /// Mean excess of the others.
    pub(crate) fn without(&self) -> f64 {
        self.before[self.slow.len() * self.levels] / self.period as f64
    }

    /// Integral from 0 to `at` as if the slow piece lasted forever.
    fn layer(&self, slow: usize, level: usize, at: u64) -> f64 {
        // A turn of one tick leaves no rest, so neither a division nor a search is needed.
        if self.fast_period == 1 {
            return self.turn[slow * self.levels + level] * at as f64;
        }
        let (turns, rest) = (at / self.fast_period, at % self.fast_period);
        let fast = self.fast.partition_point(|&f| f <= rest) - 1;
        let i = (slow * self.fast.len() + fast) * self.levels + level;
        turns as f64 * self.turn[slow * self.levels + level] + self.prefix[i] + self.rate[i] * (rest - self.fast[fast]) as f64
    }

    fn integral(&self, level: usize, at: u64) -> f64 {
        let slow = self.slow.partition_point(|&s| s <= at) - 1;
        self.before[slow * self.levels + level] + self.layer(slow, level, at)
    }

    /// Mean excess that the job adds at `shift`.
    pub(crate) fn at(&self, job: &Seen, shift: u64) -> f64 {
        let shift = shift % self.period;
        let mut sum = 0.0;
        for span in &job.spans {
            let level = span.level as usize;
            let (from, to) = (span.from + shift, span.to + shift);
            // Both ends lie below two periods. A span that crosses the end of the circle is its part before the end and its part after
            // it.
            let part = if from >= self.period {
                self.integral(level, to - self.period) - self.integral(level, from - self.period)
            } else if to > self.period {
                self.before[self.slow.len() * self.levels + level] - self.integral(level, from) + self.integral(level, to - self.period)
            } else {
                self.integral(level, to) - self.integral(level, from)
            };
            sum += span.probability * part;
        }
        sum / self.period as f64
    }
}
