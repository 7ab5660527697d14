//! The total demand of some jobs around a reduced circle, and how far it exceeds the capacity.

use alloc::vec::Vec;

use super::{
    circle::Circle,
    folded::Folded,
    levels::{LEVELS_MAX, merge_equal},
};
use crate::budget::Budget;

/// Below this many pairs, sorting to merge equal levels costs more than carrying them.
const MERGE_ABOVE: usize = 16;

/// Buffers that evaluations reuse, and the budget that they charge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) sum: DemandSum,
    pub(crate) budget: Budget,
}

impl Workspace {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { sum: DemandSum::default(), budget }
    }

    /// Runs `what` with at most `work` of what is left.
    pub(crate) fn within<R>(&mut self, work: u64, what: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.budget.narrow(work);
        let result = what(self);
        self.budget.restore(outer);
        result
    }
}

/// Total demand of the members of a circle, as pieces of constant distribution.
#[derive(Clone, Debug, Default)]
pub(crate) struct DemandSum {
    /// Start of each piece; the first is 0.
    pub(crate) starts: Vec<u64>,
    /// Demand of the locked jobs during each piece.
    base: Vec<f64>,
    /// The index of the distribution of the unlocked jobs during each piece; empty when all are locked.
    mix: Vec<u32>,
    /// (level, probability) of all distributions, one after the other, and where each ends.
    mix_atoms: Vec<(f64, f64)>,
    mix_ends: Vec<usize>,
    /// Two buffers in which distributions are multiplied.
    sum: Vec<(f64, f64)>,
    product: Vec<(f64, f64)>,
    steps: Vec<Step>,
    /// Work of the last sweep so far.
    work: u64,
}

/// How a job takes part in a total.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Presence {
    /// Not at all.
    Absent,
    /// With what it sends at least, whatever its shift will be.
    Floor,
    /// Shifted by that much.
    At(u64),
}

impl From<Option<u64>> for Presence {
    fn from(shift: Option<u64>) -> Self {
        shift.map_or(Self::Absent, Self::At)
    }
}

/// A change at a point of the circle: of the locked level, or of one unlocked job's piece.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: u64,
    change: f64,
    /// Member index and piece of an unlocked job; `u32::MAX` for a locked one.
    member: u32,
    piece: u32,
}

impl DemandSum {
    /// Demand of the locked jobs and the distribution of the others during a piece.
    fn parts(&self, piece: usize) -> (f64, &[(f64, f64)]) {
        let Some(&mix) = self.mix.get(piece) else { return (self.base[piece], &[]) };
        (self.base[piece], self.atoms_of(mix))
    }

    /// Expected excess over the capacity during `piece` when `extra` is added.
    pub(crate) fn excess_with(&self, piece: usize, extra: f64, circle: &Circle) -> f64 {
        let (base, mix) = self.parts(piece);
        let level = base + extra;
        if mix.is_empty() { circle.excess_at(level) } else { mix.iter().map(|&(more, p)| p * circle.excess_at(level + more)).sum() }
    }

    /// Terms of one [`Self::excess_with`] of all pieces.
    pub(crate) fn terms(&self, circle: &Circle) -> u64 {
        let mixed: usize = if self.mix.is_empty() { self.starts.len() } else { self.mix.iter().map(|&m| self.atoms_of(m).len()).sum() };
        mixed as u64 * circle.background.terms()
    }

    fn atoms_of(&self, mix: u32) -> &[(f64, f64)] {
        let from = (mix as usize).checked_sub(1).map_or(0, |before| self.mix_ends[before]);
        &self.mix_atoms[from..self.mix_ends[mix as usize]]
    }

    /// Excess in Mbit/s times ticks around the whole circle.
    pub(crate) fn excess(&self, circle: &Circle) -> f64 {
        (0..self.starts.len()).map(|i| self.excess_with(i, 0.0, circle) * self.length(i, circle) as f64).sum()
    }

    /// Length of a piece in ticks.
    pub(crate) fn length(&self, piece: usize, circle: &Circle) -> u64 {
        self.starts.get(piece + 1).copied().unwrap_or(circle.perimeter) - self.starts[piece]
    }

    /// Recomputes the total of the members, each present as `presence(job)` says. Reuses its buffers.
    pub(crate) fn sweep(&mut self, circle: &Circle, presence: impl Fn(usize) -> Presence, budget: &mut Budget) {
        debug_assert!(circle.is_walkable(), "invariant: sums on smaller circles are short");
        self.work = 0;
        self.starts.clear();
        self.base.clear();
        self.mix.clear();
        self.mix_atoms.clear();
        self.mix_ends.clear();
        self.steps.clear();
        let mut level = 0.0;
        // Current piece of each unlocked member.
        let mut unlocked: Vec<(u32, usize)> = Vec::new();
        for (m, on) in circle.members.iter().enumerate() {
            let f = &on.folded;
            let shift = match presence(on.job) {
                Presence::Absent => continue,
                Presence::Floor => {
                    // A floor is the same at every point, so it takes part without steps.
                    unlocked.extend(f.floor().map(|piece| (m as u32, piece)));
                    continue;
                }
                Presence::At(shift) => shift,
            };
            let shift = shift % f.period;
            // At tick 0 the link sees the job at its own tick `-shift` (docs/model.md, section 1).
            let first = f.piece_at(if shift == 0 { 0 } else { f.period - shift });
            if f.is_locked() {
                level += f.level(first);
            } else {
                unlocked.push((m as u32, first));
            }
            self.push_steps(circle.perimeter, m, f, shift);
        }
        // The order within one tick does not matter: a piece begins after all steps of its tick.
        self.steps.sort_unstable_by_key(|s| s.at);
        // Without unlocked jobs `mix` stays empty, and the index is never read.
        let mut current = if unlocked.is_empty() { u32::MAX } else { self.mixture(circle, &unlocked) };
        let (mut next, mut at) = (0, 0);
        loop {
            self.starts.push(at);
            self.base.push(level);
            if !unlocked.is_empty() {
                self.mix.push(current);
            }
            let Some(step) = self.steps.get(next) else { break };
            at = step.at;
            // A mixture is a convolution: it is made once per tick, however many members change there.
            let mut stale = false;
            while let Some(step) = self.steps.get(next).copied().filter(|s| s.at == at) {
                next += 1;
                if step.member == u32::MAX {
                    level += step.change;
                } else if let Some(slot) = unlocked.iter_mut().find(|u| u.0 == step.member) {
                    slot.1 = step.piece as usize;
                    stale = true;
                }
            }
            if stale {
                current = self.mixture(circle, &unlocked);
            }
        }
        budget.charge(self.work + 4 * self.steps.len() as u64 + 2 * self.mix_atoms.len() as u64 + 8);
    }

    /// The steps of one member in (0, perimeter): every repetition of every piece boundary.
    fn push_steps(&mut self, perimeter: u64, member: usize, f: &Folded, shift: u64) {
        let locked = f.is_locked();
        let pieces = f.starts.len();
        if pieces == 1 {
            return;
        }
        for piece in 0..pieces {
            let before = (piece + pieces - 1) % pieces;
            let change = if locked { f.level(piece) - f.level(before) } else { 0.0 };
            if locked && change == 0.0 {
                continue;
            }
            // Both terms are below the period, so one subtraction wraps the sum.
            let mut at = f.starts[piece] + shift;
            if at >= f.period {
                at -= f.period;
            }
            while at < perimeter {
                // A change at 0 is in the piece with which the sweep begins.
                if at > 0 {
                    self.steps.push(Step { at, change, member: if locked { u32::MAX } else { member as u32 }, piece: piece as u32 });
                }
                at += f.period;
            }
        }
    }

    /// Distribution of the sum of the unlocked members' levels, as an index for `mix`.
    fn mixture(&mut self, circle: &Circle, unlocked: &[(u32, usize)]) -> u32 {
        self.sum.clear();
        self.sum.push((0.0, 1.0));
        for &(member, piece) in unlocked {
            let f = &circle.members[member as usize].folded;
            let atoms = f.atoms(piece);
            // A certain level moves all sums alike and multiplies no terms.
            if let [(level, _)] = atoms {
                let shift = f.levels[*level as usize];
                self.sum.iter_mut().for_each(|a| a.0 += shift);
                continue;
            }
            self.product.clear();
            for &(level, p) in atoms {
                let shift = f.levels[level as usize];
                self.product.extend(self.sum.iter().map(|&(l, q)| (l + shift, p * q)));
            }
            self.work += 4 * self.product.len() as u64;
            core::mem::swap(&mut self.sum, &mut self.product);
            if self.sum.len() > MERGE_ABOVE {
                merge_equal(&mut self.sum);
                // By convexity merged neighbours have no more excess than before, and `Circle::cut_blur` bounds what is lost.
                while self.sum.len() > LEVELS_MAX {
                    self.sum = self.sum.chunks(2).map(merge_at_mean).collect();
                }
            }
        }
        let sum = &self.sum;
        self.mix_atoms.extend_from_slice(sum);
        self.mix_ends.push(self.mix_atoms.len());
        (self.mix_ends.len() - 1) as u32
    }
}

fn merge_at_mean(pair: &[(f64, f64)]) -> (f64, f64) {
    let weight: f64 = pair.iter().map(|a| a.1).sum();
    (pair.iter().map(|a| a.0 * a.1).sum::<f64>() / weight, weight)
}
