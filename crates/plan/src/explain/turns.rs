//! Who takes turns with whom, and why, from what is predicted of a component.

use alloc::{string::String, vec, vec::Vec};

use units::Nanos;

use super::name;
use crate::{
    Cluster, Control, Explanation, Reason,
    evaluation::Part,
    predict::Comparison,
    reason::turns::{Brought, Payment, TurnReason},
    solved::Answer,
    turns::{Objective, PRICES_PERMILLE, Predicted, Taking},
};

/// Times by turns that are closer than this share are one pace: what jitter leaves between the means of jobs that keep step.
const SAME_PACE: f64 = 0.005;
/// A job slower than alone by less than this share counts as not slowed.
const PAYS_MIN: f64 = 0.01;

/// A component of which it is known what each control brings.
struct Component<'a> {
    cluster: &'a Cluster<'a>,
    part: &'a Part,
    answer: &'a Answer,
    comparison: &'a Comparison,
    objective: Objective,
}

/// What turns do for a component under this control: sentences about several jobs, and one about each job.
pub(super) fn explain(
    cluster: &Cluster<'_>,
    (part, answer): (&Part, &Answer),
    control: Control,
    objective: Objective,
) -> (Vec<Explanation>, Vec<Explanation>) {
    let Some(comparison) = &answer.comparison else { return Default::default() };
    let component = Component { cluster, part, answer, comparison, objective };
    // Jobs of a component that nobody can keep apart have nothing to choose.
    if comparison.turns.everybody.taking.is_nobody() {
        return Default::default();
    }
    let each = (0..part.jobs.len()).filter_map(|j| component.each(j)).collect();
    // Under slots only the times per job are compared; no sentence is about sets.
    let together = if control == Control::Slots { Vec::new() } else { component.together(control == Control::Observe) };
    (together, each)
}

impl Component<'_> {
    fn chosen(&self) -> &Predicted {
        self.comparison.turns.chosen_for(self.objective)
    }

    fn together(&self, would: bool) -> Vec<Explanation> {
        let (turns, chosen) = (&self.comparison.turns, self.chosen());
        let mut out = Vec::new();
        for set in chosen.taking.sets() {
            out.push(self.about(&set, self.take(&set, would)));
            out.extend(self.paces(&set));
        }
        if out.is_empty() {
            let all = taking(&turns.everybody.taking);
            let (free, everybody) = (self.brought(&all, &turns.free), self.brought(&all, &turns.everybody));
            out.push(self.about(&all, TurnReason::AsTheyCome { free, everybody }));
        }
        if let Some(quiet) = turns.quiet.as_ref().filter(|quiet| *quiet != chosen) {
            let jobs = taking(&quiet.taking);
            let reason = TurnReason::Quieter { now: self.brought(&jobs, chosen), quiet: self.brought(&jobs, quiet) };
            out.push(self.about(&jobs, reason));
        }
        out
    }

    fn each(&self, job: usize) -> Option<Explanation> {
        let times = self.comparison.times(job, self.objective)?;
        Some(self.about(&[job], TurnReason::Times { alone: self.alone(job), times }))
    }

    fn take(&self, set: &[usize], would: bool) -> TurnReason {
        let taking = &self.chosen().taking;
        let of = |j: usize| taking.opponents[j].iter().map(|o| *o as usize);
        let all = set.iter().all(|j| taking.opponents[*j].len() + 1 == set.len());
        let pairs = set.iter().flat_map(|j| of(*j).filter(|o| o > j).map(|o| (self.name(*j), self.name(o))));
        let links = self.part.solved.content.links.iter().zip(&taking.price_permille);
        let meet = links.filter(|(l, _)| l.members.iter().filter(|(j, _)| set.contains(&(*j as usize))).count() > 1);
        TurnReason::Take {
            pairs: if all { Vec::new() } else { pairs.collect() },
            would,
            objective: if self.comparison.turns.quiet.as_ref() == Some(self.chosen()) { Objective::Quiet } else { Objective::Time },
            price_permille: meet.map(|(_, price)| *price).max().unwrap_or(PRICES_PERMILLE[0]),
            brings: self.comparison.predicted(self.objective).map(|p| self.brought(set, p)),
        }
    }

    /// Who sets the pace of those that keep step, and what that costs the others.
    fn paces(&self, set: &[usize]) -> Vec<Explanation> {
        let times = &self.chosen().times;
        let mut out = Vec::new();
        for step in in_step(set, &self.chosen().taking, times) {
            let longer = |j: &usize| times[*j].0 as f64 > self.alone(*j).0 as f64 * (1.0 + PAYS_MIN);
            let Some(&slowest) = step.iter().max_by_key(|j| self.alone(**j)) else { continue };
            let paying: Vec<usize> = step.iter().copied().filter(longer).collect();
            if paying.is_empty() {
                continue;
            }
            let reason = if paying.contains(&slowest) {
                TurnReason::Round { time: times[slowest], full: self.most_sent(&step) > self.alone(slowest).0 }
            } else {
                let payment = |j: &usize| Payment {
                    job: self.name(*j),
                    alone: self.alone(*j),
                    turns: times[*j],
                    free: self.comparison.turns.free.times[*j],
                };
                TurnReason::Pace { job: self.name(slowest), time: self.alone(slowest), paying: paying.iter().map(payment).collect() }
            };
            out.push(self.about(&step, reason));
        }
        out
    }

    /// How long these jobs send on one link alone, one after the other: of the link where that is longest.
    fn most_sent(&self, jobs: &[usize]) -> u64 {
        let solved = &self.part.solved;
        let links = solved.content.links.iter().zip(&solved.demands);
        let sent = links.map(|(link, demands)| {
            let ours = link.members.iter().zip(demands).filter(|((job, _), _)| jobs.contains(&(*job as usize)));
            ours.flat_map(|(_, phases)| phases.iter()).map(|phase| phase.end.0 - phase.start.0).sum()
        });
        sent.max().unwrap_or(0)
    }

    /// The mean over these jobs, and the time above capacity of all links of the component.
    fn brought(&self, jobs: &[usize], predicted: &Predicted) -> Brought {
        let gpus = &self.part.solved.content.gpus;
        let weight = |j: usize| f64::from(gpus.get(j).copied().unwrap_or(1));
        let all: f64 = jobs.iter().map(|j| weight(*j)).sum();
        let over = |j: usize| predicted.times[j].0 as f64 / self.alone(j).0.max(1) as f64;
        let sum: f64 = jobs.iter().map(|j| weight(*j) * over(*j)).sum();
        Brought { time: if all > 0.0 { sum / all } else { 1.0 }, overlap: predicted.overlap }
    }

    fn alone(&self, job: usize) -> Nanos {
        self.answer.times.get(job).map_or(Nanos(0), |t| t.solo)
    }

    fn name(&self, job: usize) -> String {
        name(self.cluster, self.part.jobs[job])
    }

    fn about(&self, jobs: &[usize], reason: TurnReason) -> Explanation {
        let jobs = jobs.iter().map(|j| self.name(*j)).collect();
        Explanation { link: None, more_links: 0, jobs, score: None, reason: Reason::Turns(reason) }
    }
}

/// The jobs that take turns with anybody.
fn taking(of: &Taking) -> Vec<usize> {
    (0..of.opponents.len()).filter(|j| !of.opponents[*j].is_empty()).collect()
}

/// The jobs of a set that take as long as an opponent, directly or through others, two or more together.
fn in_step(set: &[usize], taking: &Taking, times: &[Nanos]) -> Vec<Vec<usize>> {
    let same = |a: usize, b: usize| times[a].0.abs_diff(times[b].0) as f64 <= SAME_PACE * times[a].0.max(times[b].0) as f64;
    let mut seen = vec![false; times.len()];
    let mut out = Vec::new();
    for &first in set {
        if core::mem::replace(&mut seen[first], true) {
            continue;
        }
        let mut step = vec![first];
        let mut next = 0;
        // Each job comes into one of them once, so the walk ends.
        while let Some(&job) = step.get(next) {
            for other in taking.opponents[job].iter().map(|o| *o as usize) {
                if same(job, other) && !core::mem::replace(&mut seen[other], true) {
                    step.push(other);
                }
            }
            next += 1;
        }
        step.sort_unstable();
        if step.len() > 1 {
            out.push(step);
        }
    }
    out
}
