//! The policy tries, and learns from what comes of it: an actor and its critic, a replay of what was tried last, first in, first out.
//!
//! The reward is Harmony's: the sum over jobs of the share of their work that they do, of which later is worth less. What a choice brought is measured
//! against the mean of several tries of the same jobs (Mao et al. 2019: what comes is the same in all of them, and says nothing of the choice) and
//! against the critic, which learns what is left. A try counts as long as the policy would still choose alike (Schulman et al. 2017).

use alloc::{collections::VecDeque, vec::Vec};

use harmony::{Draw, Span};

use crate::{
    grad::{Adam, Matrix, Rate},
    model::{Decision, Policy, Scene, masked},
};

/// Tries of the same jobs.
const TRIES: usize = 4;
/// Decisions that are remembered: those of about eight rounds of tries.
const REPLAY: usize = 8_000;
/// Decisions of a step, and steps of a round.
const BATCH: usize = 128;
const STEPS: usize = 12;
const RATE: f32 = 3e-4;
/// What a milder choice is worth: entropy is kept up while there is something to find out.
const ENTROPY: f32 = 0.003;
/// How far probabilities may have moved since a choice was made.
const MOVED: f32 = 0.2;

/// A choice, and what it brought beyond the mean of all tries, in standard deviations.
struct Tried {
    decision: Decision,
    brought: f32,
}

/// What a try decided, and what became of it.
pub(crate) type Try = (Vec<Decision>, Vec<Span>);

/// What a round was like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Of the critic: the mean square of how far it was off.
    pub(crate) loss: f64,
    /// Of its tries, a job.
    pub(crate) reward: f64,
}

/// The actor, the critic and what they remember.
pub(crate) struct Actor {
    adam: Adam,
    replay: VecDeque<Tried>,
    half_ms: f64,
}

impl Actor {
    /// Rewards count half after `half_ms` milliseconds.
    pub(crate) fn new(policy: &Policy, half_ms: f64) -> Self {
        Self { adam: Adam::new(&policy.parameters), replay: VecDeque::new(), half_ms }
    }

    /// Tries the same jobs several times, then learns from what is remembered.
    pub(crate) fn round<E>(
        &mut self,
        policy: &mut Policy,
        jobs: usize,
        draw: &mut Draw,
        one: &mut dyn FnMut(&Policy, &mut Draw) -> Result<Try, E>,
    ) -> Result<Round, E> {
        let mut tries = Vec::new();
        for _ in 0..TRIES {
            let (decisions, spans) = one(policy, draw)?;
            tries.push((decisions, Returns::new(&spans, self.half_ms)));
        }
        let reward = tries.iter().map(|(_, returns)| returns.after(0)).sum::<f64>() / (TRIES * jobs.max(1)) as f64;
        self.remember(tries);
        let loss = (0..STEPS).map(|_| self.step(policy, draw)).sum::<f64>() / STEPS as f64;
        Ok(Round { loss, reward })
    }

    fn remember(&mut self, tries: Vec<(Vec<Decision>, Returns)>) {
        let returns: Vec<Returns> = tries.iter().map(|(_, returns)| returns.clone()).collect();
        let beyond = |decision: &Decision, own: &Returns| {
            let at = |returns: &Returns| returns.after(decision.now_ms);
            at(own) - returns.iter().map(at).sum::<f64>() / returns.len().max(1) as f64
        };
        let new: Vec<(Decision, f64)> = tries
            .into_iter()
            .flat_map(|(decisions, own)| decisions.into_iter().map(move |d| (d, own.clone())))
            .map(|(d, own)| {
                let brought = beyond(&d, &own);
                (d, brought)
            })
            .collect();
        let spread = libm::sqrt(new.iter().map(|(_, b)| b * b).sum::<f64>() / new.len().max(1) as f64).max(f64::MIN_POSITIVE);
        for (decision, brought) in new {
            if self.replay.len() == REPLAY {
                self.replay.pop_front();
            }
            self.replay.push_back(Tried { decision, brought: (brought / spread) as f32 });
        }
    }

    /// One step, and the critic's loss before it.
    fn step(&mut self, policy: &mut Policy, draw: &mut Draw) -> f64 {
        let some: Vec<&Tried> = (0..BATCH).filter_map(|_| self.replay.get(draw.below(self.replay.len() as u64) as usize)).collect();
        let scenes: Vec<&Scene> = some.iter().map(|tried| &tried.decision.scene).collect();
        let batch = policy.batch(&scenes);
        let (scores, values) = (batch.tape.value(batch.scores), batch.tape.value(batch.values));
        let mut to_scores = Matrix { values: Vec::with_capacity(scores.values.len()), ..*scores };
        let mut to_values = Matrix::zeros(values.rows, values.columns);
        let share = 1.0 / some.len().max(1) as f32;
        let (mut from, mut loss) = (0, 0.0);
        for (at, tried) in some.iter().enumerate() {
            let allowed = tried.decision.scene.allowed();
            let own = &scores.values[from..from + allowed.len()];
            from += own.len();
            let Some(found) = masked(own, allowed) else { return loss };
            let better = tried.brought - values.values[at];
            loss += f64::from(better * better * share);
            to_scores.values.extend(slopes(&found, &tried.decision, better).map(|slope| slope * share));
            to_values.values[at] = -better * share;
        }
        let gradient = batch.tape.back(alloc::vec![(batch.scores, to_scores), (batch.values, to_values)]);
        self.adam.step(&mut policy.parameters, &gradient, Rate(RATE));
        loss
    }
}

/// The gradient of the scores of a choice that was so much better than expected.
fn slopes(found: &[f32], decision: &Decision, better: f32) -> impl Iterator<Item = f32> {
    let ratio = found[decision.action] / decision.probability.max(f32::MIN_POSITIVE);
    let moved = if better > 0.0 { ratio > 1.0 + MOVED } else { ratio < 1.0 - MOVED };
    let pull = if moved { 0.0 } else { ratio.min(1.0 + MOVED) * better };
    let log = |p: f32| libm::logf(p.max(f32::MIN_POSITIVE));
    let entropy: f32 = found.iter().filter(|p| **p > 0.0).map(|p| -p * log(*p)).sum();
    found.iter().enumerate().map(move |(action, p)| {
        let chosen = f32::from(u8::from(action == decision.action));
        let milder = if *p > 0.0 { -p * (log(*p) + entropy) } else { 0.0 };
        -pull * (chosen - p) - ENTROPY * milder
    })
}

/// What is still to come after a time, later being worth less.
#[derive(Clone, Debug)]
struct Returns {
    /// From when, until when, the reward of a millisecond, and what comes after.
    spans: Vec<(u64, u64, f64, f64)>,
    half_ms: f64,
}

impl Returns {
    fn new(of: &[Span], half_ms: f64) -> Self {
        let mut after = 0.0;
        let mut spans: Vec<(u64, u64, f64, f64)> = Vec::with_capacity(of.len());
        for span in of.iter().rev() {
            spans.push((span.from_ms, span.until_ms, span.progress, after));
            after = within(span.until_ms - span.from_ms, span.progress, after, half_ms);
        }
        spans.reverse();
        Self { spans, half_ms }
    }

    fn after(&self, ms: u64) -> f64 {
        let at = self.spans.partition_point(|(_, until_ms, ..)| *until_ms <= ms);
        self.spans.get(at).map_or(0.0, |(_, until_ms, progress, after)| within(until_ms - ms, *progress, *after, self.half_ms))
    }
}

/// What a stretch of time with that reward is worth at its start, with what comes after it.
fn within(ms: u64, progress: f64, after: f64, half_ms: f64) -> f64 {
    let fade = core::f64::consts::LN_2 / half_ms;
    let kept = libm::exp(-fade * ms as f64);
    progress * (1.0 - kept) / fade + kept * after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_later_is_worth_less() {
        // One job alone, of half an hour: the integral of 2^(-t / 30 min) over it, over 30 min, is 0.5 / ln 2.
        let span = |from_ms, until_ms, progress| Span { from_ms, until_ms, present: 1, progress };
        let returns = Returns::new(&[span(0, 600_000, 0.0), span(600_000, 2_400_000, 1.0 / 1_800_000.0)], 1_800_000.0);
        let whole = 0.5 / core::f64::consts::LN_2;
        assert!((returns.after(600_000) - whole).abs() < 1e-9);
        // A third of a half-life before it: 2^(-1/3) of that.
        assert!((returns.after(0) - whole * 0.5_f64.powf(1.0 / 3.0)).abs() < 1e-9);
        // In its middle: half a half-life is left, 1 - 2^(-1/2) over ln 2.
        assert!((returns.after(1_500_000) - (1.0 - 0.5_f64.sqrt()) / core::f64::consts::LN_2).abs() < 1e-9);
        assert_eq!(returns.after(2_400_000), 0.0);
    }
}
