//! How the excess answers to one job's shift while the others stand still.
//!
//! With the total `D` of the others fixed, adding a job at shift `s` costs
//! `sum over its pieces and levels v of p_v * integral over the shifted piece of (E[(D+v-C)+] - E[(D-C)+])`.
//! The integrand is a step function for each level, so its prefix integral turns every shift into
//! two lookups per piece: all shifts of a job cost little more than one.

use alloc::{vec, vec::Vec};

use super::{circle::Circle, folded::Folded, steps::Steps, sum::DemandSum};

/// Added excess on one circle as a function of one job's shift.
#[derive(Clone, Debug)]
pub(crate) struct SweptMarginal {
    period: u64,
    /// Where the step functions change, in [0, period); the first is 0.
    breaks: Vec<u64>,
    /// Number of levels above zero.
    levels: usize,
    /// Value of each step function from each break on: `[break][level]`.
    rate: Vec<f64>,
    /// Integral of each step function from 0 to each break, and to the period: `[break][level]`.
    prefix: Vec<f64>,
    /// Excess of the others alone, around the circle.
    pub(crate) without: f64,
}

impl SweptMarginal {
    /// The response of `member` to the others' `total`.
    pub(crate) fn new(circle: &Circle, total: &DemandSum, member: usize) -> Self {
        let f = &circle.members[member].folded;
        // Level 0 adds nothing to the total, so it has no step function.
        let levels = f.levels.len() - 1;
        let pieces = total.starts.len();
        // Added excess rate of each level during each piece of the total.
        let mut added = vec![0.0; pieces * levels];
        let mut without = 0.0;
        for piece in 0..pieces {
            // The cost without the job is taken off level by level, so a shift costs only what it adds (section 4).
            let idle = total.excess_with(piece, 0.0, circle);
            without += idle * total.length(piece, circle) as f64;
            for level in 0..levels {
                added[piece * levels + level] = total.excess_with(piece, f.levels[level + 1], circle) - idle;
            }
        }
        let mut response = Self { period: f.period, breaks: Vec::new(), levels, rate: Vec::new(), prefix: Vec::new(), without };
        // A shorter job turns several times around the circle, and one lookup must count all its turns.
        if f.period == circle.perimeter {
            response.breaks.extend_from_slice(&total.starts);
            response.rate = added;
        } else {
            response.fold(circle.perimeter, &total.starts, &added);
        }
        response.integrate();
        response
    }

    /// Adds up the step functions over the turns of the job around the circle.
    fn fold(&mut self, perimeter: u64, starts: &[u64], added: &[f64]) {
        let (g, levels) = (self.period, self.levels);
        let mut now = vec![0.0; levels];
        let mut turn = 0;
        while turn < perimeter {
            // The first start is 0, so every tick lies in a piece.
            let piece = starts.partition_point(|&s| s <= turn) - 1;
            for level in 0..levels {
                now[level] += added[piece * levels + level];
            }
            turn += g;
        }
        // A piece that starts with a turn is in `now` already. Piece 0 is one of those, so `piece - 1` exists for the others.
        let mut order: Vec<(u64, u32)> =
            starts.iter().enumerate().map(|(i, &s)| (s % g, i as u32)).filter(|&(residue, _)| residue > 0).collect();
        order.sort_unstable();
        self.breaks.push(0);
        self.rate.extend_from_slice(&now);
        let mut next = 0;
        while next < order.len() {
            let at = order[next].0;
            while let Some(&(_, piece)) = order.get(next).filter(|o| o.0 == at) {
                let piece = piece as usize;
                for level in 0..levels {
                    now[level] += added[piece * levels + level] - added[(piece - 1) * levels + level];
                }
                next += 1;
            }
            self.breaks.push(at);
            self.rate.extend_from_slice(&now);
        }
    }

    fn integrate(&mut self) {
        let levels = self.levels;
        self.prefix = vec![0.0; (self.breaks.len() + 1) * levels];
        for i in 0..self.breaks.len() {
            let length = (self.breaks.get(i + 1).copied().unwrap_or(self.period) - self.breaks[i]) as f64;
            for level in 0..levels {
                self.prefix[(i + 1) * levels + level] = self.prefix[i * levels + level] + self.rate[i * levels + level] * length;
            }
        }
    }

    /// What each level adds around the circle of the job.
    pub(crate) fn steps(&self) -> Steps<'_> {
        let Self { period, breaks, levels, rate, .. } = self;
        Steps { period: *period, breaks, rate, levels: *levels, first_level: 1 }
    }

    /// Break index at or before `at`, which is at most the period.
    fn index(&self, at: u64) -> usize {
        if self.breaks.len() <= 8 {
            // A short scan beats a binary search on the few breaks of small problems.
            return self.breaks.iter().rposition(|&b| b <= at).unwrap_or(0);
        }
        self.breaks.partition_point(|&b| b <= at) - 1
    }

    fn integral(&self, index: usize, level: usize, at: u64) -> f64 {
        let i = index * self.levels + level;
        self.prefix[i] + self.rate[i] * (at - self.breaks[index]) as f64
    }

    /// Excess added by the job at `shift`, in Mbit/s times ticks around the circle.
    pub(crate) fn at(&self, f: &Folded, shift: u64) -> f64 {
        let shift = shift % self.period;
        let whole = self.breaks.len() * self.levels;
        let mut sum = 0.0;
        for span in &f.spans {
            // Both ends lie below two periods. A span that crosses the end of the circle is a whole turn less what lies between its
            // ends.
            let (mut from, mut to) = (span.from + shift, span.to + shift);
            let level = span.level as usize - 1;
            let mut part = 0.0;
            if from >= self.period {
                from -= self.period;
                to -= self.period;
            } else if to > self.period {
                to -= self.period;
                part = self.prefix[whole + level];
            }
            part += self.integral(self.index(to), level, to) - self.integral(self.index(from), level, from);
            sum += span.probability * part;
        }
        sum
    }
}
