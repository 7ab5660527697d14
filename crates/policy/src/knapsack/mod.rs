//! Multiple-choice knapsack with several capacities: one choice at most for each item, and so many units of each kind in all; the cost is
//! to be least. Sia's integer program is of this form: an item is a job, a choice a configuration, a kind a type of GPU.
//!
//! [`solve`] is exact, and made for few kinds. With a price on each unit, every item chooses for itself, and the prices at which that
//! costs most are a bound (`prices.rs`; Lagrangian relaxation). What another choice of an item costs more at these prices is its
//! regret. The regrets of an optimum, and the price of the units that it leaves over, add up to its distance from the bound.
//! That distance is small, so few choices matter, and all their sums are listed, one entry for each number of units used (`sums.rs`;
//! the core of Pisinger, "A minimal algorithm for the multiple-choice knapsack problem", EJOR 1995), but for those that other prices show
//! to lead nowhere (`onward.rs`). Where there are too many sums, the best of some thousands at a time give an answer, which is returned
//! with a bound, and without a claim.

mod improve;
mod onward;
mod prices;
mod sums;
mod ways;

use alloc::vec::Vec;

use self::{prices::Prices, sums::Core, ways::Ways};

/// Most kinds: the units used of all kinds are one number of 128 bits, 16 for each.
pub const KINDS_MAX: usize = 8;
/// Most units of a kind: a number of 16 bits holds twice as many, and a sign.
pub const UNITS_MAX: u32 = 1 << 14;
/// Most choices of all items together: each is looked at some hundred times.
pub const CHOICES_MAX: usize = 1 << 20;
/// Largest amount of a cost: sums of all costs are then exact to a millionth.
pub const COST_MAX: f64 = 1e6;
/// Sums that are listed before the best known answer is returned without a proof: some seconds.
pub const SUMS_MAX: u64 = 200_000_000;

/// Costs that differ by less count as equal, because sums of floats are no better.
const EQUAL: f64 = 1e-9;
/// Schedulers round costs to this, and then an optimum is a multiple of it.
const GRID: f64 = 0.01;
/// How far a cost may be from a multiple of the grid, in steps of it: what rounding leaves.
const ON_GRID: f64 = 1e-9;
/// How exact a sum of floats is, as a share of what is summed.
const SUM_EXACT: f64 = 1e-14;
/// The first distance from the bound within which answers are listed, as a share of the spread of costs.
const FIRST_DISTANCE: f64 = 1e-6;
/// How much further it is looked at a time, and where lists are long, so that they do not become much longer than they must.
const FURTHER: (f64, f64) = (2.0, 1.25);
/// Sums that are kept at a time while a first answer is looked for.
const GLANCED: usize = 64;

/// One way to serve an item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Which capacity it uses.
    pub kind: u8,
    /// How much of it.
    pub units: u32,
    /// What it costs; may be negative.
    pub cost: f64,
}

/// An item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    /// What can be chosen.
    pub choices: Vec<Choice>,
    /// What it costs to choose none of them; where that is missing, one must be chosen.
    pub nothing: Option<f64>,
}

/// What is asked of [`solve`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// Units of each kind.
    pub capacities: Vec<u32>,
    /// The items.
    pub items: Vec<Item>,
}

/// What [`solve`] found.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Per item: its choice.
    pub chosen: Vec<Option<u32>>,
    /// What these cost.
    pub cost: f64,
    /// No answer costs less; equal to the cost where that is proven.
    pub bound: f64,
    /// Whether nothing costs less.
    pub proven: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KnapsackError {
    /// More kinds than [`KINDS_MAX`].
    #[error("{kinds} kinds, {KINDS_MAX} at most")]
    Kinds {
        /// How many.
        kinds: usize,
    },
    /// More units of a kind than [`UNITS_MAX`].
    #[error("{units} units of a kind, {UNITS_MAX} at most")]
    Units {
        /// How many.
        units: u32,
    },
    /// More choices than [`CHOICES_MAX`].
    #[error("{choices} choices, {CHOICES_MAX} at most")]
    Choices {
        /// How many.
        choices: usize,
    },
    /// A choice of a kind that has no capacity.
    #[error("item {item} has a choice of kind {kind}, of {kinds}")]
    Kind {
        /// The item.
        item: usize,
        /// The kind.
        kind: u8,
        /// How many kinds there are.
        kinds: usize,
    },
    /// A cost that is no number, or beyond [`COST_MAX`].
    #[error("item {item} has a cost of {cost:e}; costs are at most a million, and numbers")]
    Cost {
        /// The item.
        item: usize,
        /// The cost.
        cost: f64,
    },
    /// Nothing fits.
    #[error("no choices of the items fit into the capacities")]
    Infeasible,
    /// Nothing that fits was found in time.
    #[error("no choices that fit were found in {sums} sums")]
    GaveUp {
        /// How many were listed.
        sums: u64,
    },
}

impl Problem {
    /// What choices cost, and the units of each kind that they use.
    #[must_use]
    pub fn of(&self, chosen: &[Option<u32>]) -> (f64, Vec<u32>) {
        let mut used = alloc::vec![0; self.capacities.len()];
        let mut cost = 0.0;
        for (item, choice) in self.items.iter().zip(chosen) {
            match choice.and_then(|at| item.choices.get(at as usize)) {
                Some(choice) => {
                    cost += choice.cost;
                    used[usize::from(choice.kind)] += choice.units;
                }
                None => cost += item.nothing.unwrap_or(f64::INFINITY),
            }
        }
        (cost, used)
    }

    fn check(&self) -> Result<(), KnapsackError> {
        let kinds = self.capacities.len();
        if kinds > KINDS_MAX {
            return Err(KnapsackError::Kinds { kinds });
        }
        if let Some(&units) = self.capacities.iter().find(|units| **units > UNITS_MAX) {
            return Err(KnapsackError::Units { units });
        }
        let choices = self.items.iter().map(|item| item.choices.len() + 1).sum();
        if choices > CHOICES_MAX {
            return Err(KnapsackError::Choices { choices });
        }
        for (item, of) in self.items.iter().enumerate() {
            let costs = of.choices.iter().map(|choice| choice.cost).chain(of.nothing);
            // What is not a number is in no range.
            if let Some(cost) = costs.into_iter().find(|cost| !(-COST_MAX..=COST_MAX).contains(cost)) {
                return Err(KnapsackError::Cost { item, cost });
            }
            if let Some(choice) = of.choices.iter().find(|choice| usize::from(choice.kind) >= kinds) {
                return Err(KnapsackError::Kind { item, kind: choice.kind, kinds });
            }
        }
        Ok(())
    }

    /// Whether all costs are multiples of [`GRID`].
    fn has_grid(&self) -> bool {
        let mut costs = self.items.iter().flat_map(|item| item.choices.iter().map(|choice| choice.cost).chain(item.nothing));
        costs.all(|cost| libm::fabs(cost / GRID - libm::round(cost / GRID)) < ON_GRID)
    }
}

/// Finds choices that cost least, listing at most `sums_max` sums (for example [`SUMS_MAX`]).
///
/// # Errors
/// [`KnapsackError`]: a limit, or no choices that fit.
pub fn solve(problem: &Problem, sums_max: u64) -> Result<Solution, KnapsackError> {
    problem.check()?;
    let ways = Ways::new(problem).ok_or(KnapsackError::Infeasible)?;
    let prices = Prices::best(&ways, &problem.capacities);
    let grid = if problem.has_grid() { GRID } else { 0.0 };
    // What costs are exact to, in sums of all of them.
    let exact = EQUAL.max(ways.largest() * problem.items.len() as f64 * SUM_EXACT);
    // No answer is nearer to the bound than this: the next multiple of the grid.
    let least = if grid > 0.0 { (libm::ceil((prices.bound - exact) / grid) * grid - prices.bound).max(0.0) } else { 0.0 };
    let (mut core, good) = Core::new(&ways, &prices, &problem.capacities, sums_max, (least, exact));
    let mut found = good.or_else(|| core.glance(GLANCED));
    let mut distance = (least + exact).max(ways.spread() * FIRST_DISTANCE);
    let (mut proven, mut beaten) = (false, least);
    // What is better than the best known is nearer by a step.
    let step = if grid > 0.0 { grid - exact } else { exact };
    // The distance grows, and all answers are within a limit, so this ends.
    loop {
        let better = found.as_ref().map_or(f64::INFINITY, |known| known.distance - step);
        if better < least - exact {
            proven = true;
            break;
        }
        let reach = distance.min(better);
        let listed = core.list(reach);
        if !core.is_complete() {
            break;
        }
        if listed.is_some() || reach >= better {
            found = listed.or(found);
            proven = true;
            break;
        }
        if core.is_everything(reach) {
            return Err(KnapsackError::Infeasible);
        }
        // Nothing is within reach.
        beaten = beaten.max(reach - exact);
        distance *= if core.is_long() { FURTHER.1 } else { FURTHER.0 };
    }
    if !proven {
        found = core.better(found.as_ref().map_or(f64::INFINITY, |known| known.distance - step)).or(found);
    }
    let known = found.ok_or(KnapsackError::GaveUp { sums: sums_max })?;
    let chosen: Vec<Option<u32>> = core.choices(&known);
    let (cost, _) = problem.of(&chosen);
    let bound = if proven { cost } else { (prices.bound + beaten).min(cost) };
    Ok(Solution { chosen, cost, bound, proven })
}

#[cfg(test)]
mod tests;
