//! The least mean excess of jobs of few levels, of which it is known how long each is at each level, and how large the mean product of each
//! two is at least: a linear program over the ways to be at levels together, by the simplex method.
//!
//! Only its prices count. Whatever the prices are, what they are worth plus the smallest reduced cost is a bound, so neither rounding nor
//! an early end makes it false.

use alloc::{vec, vec::Vec};

use crate::budget::Budget;

/// Most ways to be at levels together in a linear program. Of more, levels are merged in the program, and its prices are held against all ways
/// as they are, if these are not too many either.
const WAYS_MAX: usize = 1 << 12;
const WAYS_SEEN_MAX: usize = 1 << 22;
/// Most exchanges of one way for another.
const STEPS_MAX: usize = 400;
/// A reduced cost, and a pivot, of less than this is rounding.
const SMALL: f64 = 1e-11;
/// Numbers that are multiplied and added in a unit of work.
const TERMS_PER_WORK: usize = 8;

/// What is known of some jobs together.
pub(super) struct Known {
    /// Of each job its levels, ascending, in parts of the capacity, and the share of the time that it is at each.
    pub(super) jobs: Vec<Vec<(f64, f64)>>,
    /// Of each two jobs the least mean product: of (0, 1), (0, 2), (1, 2), (0, 3) and so on.
    pub(super) products: Vec<f64>,
}

/// The linear program: a column for each way, a row for each level but the lowest ones of all jobs but the first, and a row for each two jobs.
struct Program {
    rows: usize,
    /// By way: its excess, and its entries (row, value).
    costs: Vec<f64>,
    entries: Vec<Vec<(u32, f64)>>,
    /// By row: what the entries add up to, or reach at least in the rows of `pairs`.
    wanted: Vec<f64>,
    pairs: core::ops::Range<usize>,
}

impl Known {
    /// How many ways there are; saturated.
    fn ways(&self) -> usize {
        self.jobs.iter().map(Vec::len).fold(1, usize::saturating_mul)
    }

    /// Whether no levels need be merged.
    pub(super) fn has_few_ways(&self) -> bool {
        self.ways() <= WAYS_MAX
    }

    /// No joint behaviour of the jobs has a lower mean of `excess`, a function of their total. `None` where there are too many ways.
    pub(super) fn least_excess(&self, excess: impl Fn(f64) -> f64, budget: &mut Budget) -> Option<f64> {
        if self.has_few_ways() {
            let program = self.program(excess);
            let prices = program.prices(self.staircase(), budget)?;
            return Some(program.bound(&prices));
        }
        // Of sixty jobs there are more ways than a number holds.
        let ways = self.ways();
        if ways > WAYS_SEEN_MAX {
            return None;
        }
        let work = ways / TERMS_PER_WORK * (self.jobs.len() + self.products.len());
        if work as u64 > budget.left() {
            return None;
        }
        budget.charge(work as u64);
        let merged = self.merged()?;
        let program = merged.program(&excess);
        let prices = program.prices(merged.staircase(), budget)?;
        Some(self.priced(&merged, &program, &prices, excess))
    }

    /// What the prices of a program of merged levels prove: between these levels, prices go straight on.
    fn priced(&self, merged: &Self, program: &Program, prices: &[f64], excess: impl Fn(f64) -> f64) -> f64 {
        let of_pairs = &prices[program.pairs.clone()];
        let mut next = 0;
        let of_levels = merged.jobs.iter().zip(&self.jobs).enumerate().map(|(j, (merged, all))| {
            // The lowest levels of all jobs but the first have no row.
            let own = merged.iter().enumerate().map(|(place, level)| {
                let price = if j > 0 && place == 0 { 0.0 } else { prices[next] };
                next += usize::from(j == 0 || place > 0);
                (level.0, price)
            });
            let own: Vec<(f64, f64)> = own.collect();
            all.iter().map(|level| between(&own, level.0)).collect()
        });
        let of_levels: Vec<Vec<f64>> = of_levels.collect();
        self.worth(&of_levels, of_pairs, excess)
    }

    /// The same jobs with few levels each. `None` where not even two of each are few enough.
    fn merged(&self) -> Option<Self> {
        let fits = |levels: &usize| levels.checked_pow(self.jobs.len() as u32).is_some_and(|ways| ways <= WAYS_MAX);
        let most = (2..=WAYS_MAX).take_while(fits).last()?;
        Some(Self { jobs: self.jobs.iter().map(|job| merge(job, most)).collect(), products: self.products.clone() })
    }

    /// What prices of all levels and of pairs prove. The job of most levels pays at each of them what all ways leave there.
    fn worth(&self, of_levels: &[Vec<f64>], of_pairs: &[f64], excess: impl Fn(f64) -> f64) -> f64 {
        let widest = (0..self.jobs.len()).max_by_key(|&job| self.jobs[job].len()).unwrap_or(0);
        let mut left = vec![f64::INFINITY; self.jobs[widest].len()];
        let mut at = vec![0; self.jobs.len()];
        for _ in 0..self.ways() {
            let (mut total, mut paid, mut pair) = (0.0, 0.0, 0);
            for (job, &level) in at.iter().enumerate() {
                let own = self.jobs[job][level].0;
                (total, paid) = (total + own, paid + of_levels[job][level]);
                for (other, &theirs) in at[..job].iter().enumerate() {
                    paid += of_pairs[pair] * own * self.jobs[other][theirs].0;
                    pair += 1;
                }
            }
            let here = &mut left[at[widest]];
            *here = here.min(excess(total) - paid);
            self.go_on(&mut at);
        }
        let by_level =
            |(job, prices): (&Vec<(f64, f64)>, &Vec<f64>)| job.iter().zip(prices).map(|(level, price)| level.1 * price).sum::<f64>();
        let of_levels: f64 = self.jobs.iter().zip(of_levels).map(by_level).sum();
        let of_pairs: f64 = self.products.iter().zip(of_pairs).map(|(product, price)| product * price).sum();
        of_levels + of_pairs + by_level((&self.jobs[widest], &left))
    }

    /// The next way: the last job goes on first, as in [`Self::way`].
    fn go_on(&self, at: &mut [usize]) {
        for job in (0..at.len()).rev() {
            at[job] = (at[job] + 1) % self.jobs[job].len();
            if at[job] > 0 {
                break;
            }
        }
    }

    /// The number of a way to be at those levels.
    fn way(&self, at: &[usize]) -> usize {
        self.jobs.iter().zip(at).fold(0, |way, (job, level)| way * job.len() + level)
    }

    fn program(&self, excess: impl Fn(f64) -> f64) -> Program {
        let mut firsts = Vec::new();
        let mut wanted: Vec<f64> = Vec::new();
        for (j, job) in self.jobs.iter().enumerate() {
            // The shares of a job add up to one, so one of its rows follows from those of the first job.
            let left_out = usize::from(j > 0);
            firsts.push((wanted.len(), left_out));
            wanted.extend(job[left_out..].iter().map(|level| level.1));
        }
        let pairs = wanted.len()..wanted.len() + self.products.len();
        wanted.extend(&self.products);
        let (mut costs, mut entries) = (Vec::new(), Vec::new());
        let mut at = vec![0; self.jobs.len()];
        for _ in 0..self.ways() {
            let level = |job: usize| self.jobs[job][at[job]].0;
            let of_job = |(job, &(first, left_out)): (usize, &(usize, usize))| {
                at[job].checked_sub(left_out).map(|place| ((first + place) as u32, 1.0))
            };
            let two = (0..at.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
            let of_pair = |(n, (one, other)): (usize, (usize, usize))| ((pairs.start + n) as u32, level(one) * level(other));
            let own = firsts.iter().enumerate().filter_map(of_job);
            entries.push(own.chain(two.enumerate().map(of_pair).filter(|entry| entry.1 > 0.0)).collect());
            costs.push(excess((0..at.len()).map(level).sum()));
            self.go_on(&mut at);
        }
        Program { rows: wanted.len(), costs, entries, wanted, pairs }
    }

    /// The ways of jobs that are all as high as they can be at the same time, which makes every product the largest: where the program
    /// begins. One job at a time goes on by a level, so there is a way for each row that is not of two jobs.
    fn staircase(&self) -> Vec<usize> {
        let mut at = vec![0; self.jobs.len()];
        let mut left: Vec<f64> = self.jobs.iter().map(|job| job[0].1).collect();
        let mut ways = vec![self.way(&at)];
        loop {
            let goes_on = (0..at.len()).filter(|&job| at[job] + 1 < self.jobs[job].len());
            let Some(next) = goes_on.min_by(|&a, &b| left[a].total_cmp(&left[b])) else { return ways };
            let passed = left[next];
            left.iter_mut().for_each(|left| *left -= passed);
            at[next] += 1;
            left[next] = self.jobs[next][at[next]].1;
            ways.push(self.way(&at));
        }
    }
}

/// A job with at most so many levels: neighbours at their mean, parts of about the same share, silence for itself.
fn merge(job: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if job.len() <= most {
        return job.to_vec();
    }
    let silent = job.iter().take_while(|level| level.0 == 0.0).count();
    let loud: f64 = job[silent..].iter().map(|level| level.1).sum();
    let (mut found, mut passed, mut before) = (job[..silent].to_vec(), 0.0, usize::MAX);
    let parts = most - silent;
    for level in &job[silent..] {
        // The part that holds the middle of the level's share.
        let part = (((passed + level.1 / 2.0) / loud * parts as f64) as usize).min(parts - 1);
        passed += level.1;
        match found.last_mut().filter(|_| part == before) {
            Some(last) => *last = ((last.0 * last.1 + level.0 * level.1) / (last.1 + level.1), last.1 + level.1),
            None => found.push(*level),
        }
        before = part;
    }
    found
}

/// Between the points of (level, price), ascending, or on from the last two.
fn between(points: &[(f64, f64)], level: f64) -> f64 {
    let after = points.partition_point(|point| point.0 < level).clamp(1, points.len().max(2) - 1);
    match (points.get(after - 1), points.get(after)) {
        (Some(one), Some(other)) => one.1 + (other.1 - one.1) * (level - one.0) / (other.0 - one.0),
        (one, _) => one.map_or(0.0, |one| one.1),
    }
}

impl Program {
    /// The entries of a column: of a way, or, beyond the ways, of what a pair has above its least product.
    fn column(&self, column: usize) -> Vec<(u32, f64)> {
        let above = |pair: usize| vec![((self.pairs.start + pair) as u32, -1.0)];
        self.entries.get(column).cloned().unwrap_or_else(|| above(column - self.costs.len()))
    }

    fn cost(&self, column: usize) -> f64 {
        self.costs.get(column).copied().unwrap_or(0.0)
    }

    fn reduced(&self, way: usize, prices: &[f64]) -> f64 {
        self.costs[way] - self.entries[way].iter().map(|&(row, value)| prices[row as usize] * value).sum::<f64>()
    }

    /// What those prices prove. Prices of pairs are not below zero.
    fn bound(&self, prices: &[f64]) -> f64 {
        let worth: f64 = prices.iter().zip(&self.wanted).map(|(price, wanted)| price * wanted).sum();
        worth + (0..self.costs.len()).map(|way| self.reduced(way, prices)).fold(f64::INFINITY, f64::min)
    }

    /// Good prices of the rows, found from a basis of ways and of all pairs.
    fn prices(&self, ways: Vec<usize>, budget: &mut Budget) -> Option<Vec<f64>> {
        let mut basis: Vec<usize> = ways.into_iter().chain((0..self.pairs.len()).map(|pair| self.costs.len() + pair)).collect();
        let mut inverse = self.inverse(&basis)?;
        let times = |inverse: &[Vec<f64>], column: &[(u32, f64)]| -> Vec<f64> {
            inverse.iter().map(|row| column.iter().map(|&(at, value)| row[at as usize] * value).sum()).collect()
        };
        let wanted: Vec<(u32, f64)> = self.wanted.iter().enumerate().map(|(row, wanted)| (row as u32, *wanted)).collect();
        let mut there = times(&inverse, &wanted);
        let terms = self.entries.iter().map(Vec::len).sum::<usize>() + 2 * self.rows * self.rows;
        let mut prices = vec![0.0; self.rows];
        for _ in 0..STEPS_MAX {
            budget.charge((terms / TERMS_PER_WORK) as u64);
            prices.fill(0.0);
            for (row, &column) in inverse.iter().zip(&basis).filter(|(_, column)| self.cost(**column) != 0.0) {
                prices.iter_mut().zip(row).for_each(|(price, part)| *price += self.cost(column) * part);
            }
            let reduced = |column: usize| {
                if column < self.costs.len() { self.reduced(column, &prices) } else { prices[self.pairs.start + column - self.costs.len()] }
            };
            let all = (0..self.costs.len() + self.pairs.len()).map(|column| (reduced(column), column));
            let (least, enters) = all.min_by(|a, b| a.0.total_cmp(&b.0))?;
            if least >= -SMALL || budget.is_spent() {
                break;
            }
            let moves = times(&inverse, &self.column(enters));
            let ratio = |row: usize| (there[row].max(0.0) / moves[row], basis[row], row);
            let leaving = (0..self.rows).filter(|&row| moves[row] > SMALL).map(ratio);
            let Some((amount, _, leaves)) = leaving.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))) else { break };
            basis[leaves] = enters;
            let pivot: Vec<f64> = inverse[leaves].iter().map(|part| part / moves[leaves]).collect();
            for row in (0..self.rows).filter(|&row| row != leaves) {
                there[row] -= amount * moves[row];
                inverse[row].iter_mut().zip(&pivot).for_each(|(part, pivot)| *part -= moves[row] * pivot);
            }
            there[leaves] = amount;
            inverse[leaves] = pivot;
        }
        prices[self.pairs.clone()].iter_mut().for_each(|price| *price = price.max(0.0));
        Some(prices)
    }

    /// The inverse of the matrix of those columns; `None` if there is none.
    fn inverse(&self, basis: &[usize]) -> Option<Vec<Vec<f64>>> {
        let rows = self.rows;
        let mut all = vec![vec![0.0; 2 * rows]; rows];
        for (place, &column) in basis.iter().enumerate() {
            self.column(column).into_iter().for_each(|(row, value)| all[row as usize][place] = value);
            all[place][rows + place] = 1.0;
        }
        for place in 0..rows {
            let best = (place..rows).max_by(|&a, &b| all[a][place].abs().total_cmp(&all[b][place].abs()))?;
            all.swap(place, best);
            let head = all[place][place];
            if head.abs() <= SMALL {
                return None;
            }
            all[place].iter_mut().for_each(|value| *value /= head);
            let own = all[place].clone();
            for (_, row) in all.iter_mut().enumerate().filter(|(row, _)| *row != place) {
                let factor = row[place];
                row.iter_mut().zip(&own).for_each(|(value, own)| *value -= factor * own);
            }
        }
        Some(all.into_iter().map(|row| row[rows..].to_vec()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many jobs that send at 1 for half of the time, each two of them together for a quarter of it.
    fn known(jobs: usize) -> Known {
        Known { jobs: vec![vec![(0.0, 0.5), (1.0, 0.5)]; jobs], products: vec![0.25; jobs * (jobs - 1) / 2] }
    }

    /// By hand: of two jobs the product is all there is to know; of three at a capacity of 1.5 the excess is a parabola at every total, so
    /// that independent jobs (3/8) have the least; of four at 2 a total may be 1, 2 or 4, as parity has it: an eighth of the time 2 too much.
    #[test]
    fn bounds_by_hand() {
        for (jobs, capacity, least) in [(2, 1.0, 0.25), (3, 1.5, 0.375), (4, 2.0, 0.25)] {
            let found = known(jobs).least_excess(|total| (total - capacity).max(0.0), &mut Budget::default()).unwrap();
            assert!((found - least).abs() < 1e-12, "{jobs}: {found}");
        }
        assert_eq!(known(23).least_excess(|total| total, &mut Budget::default()), None, "there are 8,388,608 ways");
    }

    /// With levels of their own the program has the bound, and merged ones come near it, from below.
    #[test]
    fn merged_levels_bound_less() {
        let mut random = 4_u64;
        let mut near = 0;
        for case in 0..40 {
            let mut below = |end: u64| units::splitmix64(&mut random) % end;
            let jobs: Vec<Vec<(f64, f64)>> = (0..3)
                .map(|_| {
                    let mut job = vec![(0.0, 0.5)];
                    job.extend((0..15).map(|n| ((n * 64 + below(64)) as f64 / 640.0 + 0.1, 1.0 / 30.0)));
                    job
                })
                .collect();
            let mean = |job: &Vec<(f64, f64)>| job.iter().map(|level| level.0 * level.1).sum::<f64>();
            let products = [(1, 0), (2, 0), (2, 1)].map(|(a, b)| 0.97 * mean(&jobs[a]) * mean(&jobs[b])).to_vec();
            let known = Known { jobs, products };
            let excess = |total: f64| (total - 1.0).max(0.0);
            let whole = known.least_excess(excess, &mut Budget::default()).unwrap();
            let few = Known { jobs: known.jobs.iter().map(|job| merge(job, 6)).collect(), products: known.products.clone() };
            let program = few.program(excess);
            let prices = program.prices(few.staircase(), &mut Budget::default()).unwrap();
            let merged = known.priced(&few, &program, &prices, excess);
            assert!(merged <= whole + 1e-9, "{case}: {merged} {whole}");
            near += u32::from(merged > 0.8 * whole);
        }
        assert!(near > 20, "{near}");
    }

    /// An early end has a weaker bound, and any prices have a true one.
    #[test]
    fn no_prices_are_worth_too_much() {
        let excess = |total: f64| (total - 2.0).max(0.0);
        let known = known(4);
        let early = known.least_excess(excess, &mut Budget::new(0, None)).unwrap();
        assert!(early <= 0.25 + 1e-12, "{early}");
        let program = known.program(excess);
        let mut random = 9_u64;
        for _ in 0..1_000 {
            let mut prices: Vec<f64> = (0..program.rows).map(|_| (units::splitmix64(&mut random) % 2_001) as f64 / 1_000.0 - 1.0).collect();
            prices[program.pairs.clone()].iter_mut().for_each(|price| *price = price.abs());
            assert!(program.bound(&prices) <= 0.25 + 1e-12);
        }
    }
}
