//! From an evaluation to explanations. Names are looked up here and nowhere earlier: only what is shown is named.

mod turns;

use alloc::{string::String, sync::Arc, vec, vec::Vec};

use circle::{PROOF_TOLERANCE, Phase};
use units::{JobId, LinkId, Nanos, Rate};

use crate::{
    Cluster, Evaluation, Explanation, Outcome, Reason, Remainder,
    evaluation::Part,
    overlap::{TimedPhases, over_capacity},
    solved::{Answer, Shift},
};

/// The shift of a job matters little if its lock is below this part of the period.
const LOCK_PART: u64 = 100;

impl Evaluation {
    /// Who takes turns with whom and what that brings, where controls were compared ([`crate::Predictions::Compared`]); then why each
    /// link that can be over capacity scores as it does, worst first, or one sentence for the candidate as a whole where there is no
    /// such link; then what each job takes under each control. `cluster` is the one that was evaluated.
    #[must_use]
    pub fn explain(&self, cluster: &Cluster<'_>) -> Vec<Explanation> {
        let about = |link: Option<LinkId>, jobs: Vec<String>, reason| Explanation {
            link: link.map(|l| cluster.fabric.link_name(l)),
            more_links: 0,
            jobs,
            score: None,
            reason,
        };
        match &self.outcome {
            Outcome::Loop { link, jobs } => {
                return vec![about(Some(*link), jobs.iter().map(|j| name(cluster, *j)).collect(), Reason::Loop)];
            }
            Outcome::Unsolved { link, error } => {
                return vec![about(*link, Vec::new(), Reason::Unsolved { error: alloc::format!("{error}") })];
            }
            Outcome::Solved => {}
        }
        let mut out: Vec<Explanation> = Vec::new();
        for part in &self.parts {
            let Ok(answer) = &part.solved.answer else { continue };
            out.extend((0..part.solved.content.links.len()).filter_map(|l| explain_link(cluster, part, answer, l, self.searches_all)));
        }
        // The sort is stable, so links of equal scores stay in the order of components.
        out.sort_by(|a, b| a.score.unwrap_or(1.0).total_cmp(&b.score.unwrap_or(1.0)));
        if out.is_empty() {
            out.push(about(None, Vec::new(), Reason::NoSharedLink { never_overloaded: self.never_overloaded_links }));
        }
        let (mut all, mut jobs) = (Vec::new(), Vec::new());
        for part in &self.parts {
            let Ok(answer) = &part.solved.answer else { continue };
            let (together, each) = turns::explain(cluster, (part, answer), self.control, self.turns_objective);
            all.extend(together);
            jobs.extend(each);
        }
        all.extend(out);
        all.extend(jobs);
        all
    }
}

fn name(cluster: &Cluster<'_>, job: JobId) -> String {
    cluster.jobs.get(job.index()).map_or_else(|| alloc::format!("job {job}"), |j| j.name.clone())
}

/// One job on the link that is being explained.
struct Sharer<'a> {
    name: String,
    period: u64,
    shift: Shift,
    phases: &'a Arc<[Phase]>,
}

fn explain_link(cluster: &Cluster<'_>, part: &Part, answer: &Answer, l: usize, searches_all: bool) -> Option<Explanation> {
    let link = &part.solved.content.links[l];
    let sharer = |((job, _), phases): (&(u32, u32), _)| Sharer {
        name: name(cluster, part.jobs[*job as usize]),
        period: part.solved.content.periods[*job as usize],
        shift: answer.shifts[*job as usize],
        phases,
    };
    let sharers: Vec<Sharer<'_>> = link.members.iter().zip(&part.solved.demands[l]).map(sharer).collect();
    let capacity = Rate(link.capacity);
    let links = part.links_of(l);
    let scores = &answer.scores[l];
    Some(Explanation {
        link: links.first().map(|l| cluster.fabric.link_name(*l)),
        more_links: links.len().checked_sub(1)?,
        jobs: sharers.iter().map(|s| s.name.clone()).collect(),
        score: Some(scores.score),
        // Robust mode proves the worst case, and the paper's rules their own grid: of what all shifts can do that says nothing.
        reason: reason(
            &sharers,
            capacity,
            scores.true_score + scores.uncertainty,
            answer.optimality.proven && searches_all && answer.robust_loss.is_none(),
        ),
    })
}

/// `score_max` is the most that the true score of the link can be; `proven` says that no shifts of its jobs are better.
fn reason(sharers: &[Sharer<'_>], capacity: Rate, score_max: f64, proven: bool) -> Reason {
    let peak = |s: &Sharer<'_>| s.phases.iter().map(|p| p.rate).max().unwrap_or(Rate::ZERO);
    // A link of one job is reported only if the job exceeds it alone (`State::Overrun`).
    if let [only] = sharers {
        return Reason::AloneExceeds { job: only.name.clone(), peak: peak(only), capacity };
    }
    let turns = |shifted: bool| -> Vec<TimedPhases<'_>> {
        sharers.iter().map(|s| (Nanos(s.period), Nanos(if shifted { s.shift.shift } else { 0 }), &s.phases[..])).collect()
    };
    let before = over_capacity(capacity, &turns(false));
    let after = over_capacity(capacity, &turns(true));
    let moved: Vec<_> = sharers.iter().filter(|s| s.shift.shift > 0).map(|s| (s.name.clone(), Nanos(s.shift.shift))).collect();
    let slack = Nanos(sharers.iter().map(|s| s.shift.slack).min().unwrap_or(0));
    // An overlap is sampled where periods repeat together only after very long, and rounded to a tick: what is seldom is not in it, and the true
    // score counts it.
    let remains = after.over.0 > 0 || score_max < 1.0 - PROOF_TOLERANCE;
    if remains {
        let alone = sharers.iter().find(|s| peak(s) > capacity);
        let why = match alone {
            Some(s) => Remainder::AloneExceeds { job: s.name.clone(), peak: peak(s), capacity },
            None => remainder(sharers, capacity, proven),
        };
        Reason::Remains { before, after, moved, why }
    } else if before.over.0 > 0 {
        Reason::Separated { before, moved, slack }
    } else {
        Reason::Apart { slack }
    }
}

fn remainder(sharers: &[Sharer<'_>], capacity: Rate, proven: bool) -> Remainder {
    let busy = |s: &Sharer<'_>| s.phases.iter().map(|p| p.end.0 - p.start.0).sum::<u64>();
    // Phases are disjoint, so their lengths add up to the period only if they leave no gap.
    if let Some(s) = sharers.iter().find(|s| busy(s) == s.period) {
        return Remainder::AlwaysOn { job: s.name.clone() };
    }
    // Millionths of a percent of the link, rounded down for each job: more than the whole is said only where it is more.
    let duty = |s: &Sharer<'_>| -> u128 {
        let volume: u128 = s.phases.iter().map(|p| u128::from(p.rate.0) * u128::from(p.end.0 - p.start.0)).sum();
        volume * 100_000_000 / (u128::from(s.period) * u128::from(capacity.0))
    };
    let millionths = sharers.iter().map(duty).sum::<u128>();
    if millionths > 100_000_000 {
        return Remainder::Duty { percent: millionths.div_ceil(1_000_000) as u64 };
    }
    let loosest = sharers.iter().min_by(|a, b| {
        // Two fractions lock / period are compared crosswise, which needs no rounding.
        let part = |s: &Sharer<'_>, t: &Sharer<'_>| u128::from(s.shift.lock) * u128::from(t.period);
        part(a, b).cmp(&part(b, a))
    });
    match loosest {
        Some(s) if s.shift.lock.saturating_mul(LOCK_PART) < s.period => {
            Remainder::Unlocked { job: s.name.clone(), lock: Nanos(s.shift.lock), period: Nanos(s.period) }
        }
        _ => Remainder::Crowded { proven },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ticks;

    fn sharer(name: &str, period: u64, shift: u64, lock: u64, phases: &'static [(u64, u64, u64)]) -> (String, u64, Shift, Arc<[Phase]>) {
        let phases = phases.iter().map(|&(s, e, r)| Phase { start: Ticks(s), end: Ticks(e), rate: Rate(r) }).collect();
        (name.into(), period, Shift { shift, slack: 7, lock }, phases)
    }

    fn why(jobs: &[(String, u64, Shift, Arc<[Phase]>)]) -> Reason {
        let sharers: Vec<_> =
            jobs.iter().map(|(n, period, shift, phases)| Sharer { name: n.clone(), period: *period, shift: *shift, phases }).collect();
        reason(&sharers, Rate(10), 1.0, true)
    }

    fn remaining(jobs: &[(String, u64, Shift, Arc<[Phase]>)]) -> Remainder {
        match why(jobs) {
            Reason::Remains { why, .. } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_cause_that_applies_is_named() {
        let quiet = || sharer("q", 100, 0, 100, &[(0, 40, 6)]);
        assert_eq!(
            why(&[sharer("a", 100, 0, 100, &[(0, 9, 20)])]),
            Reason::AloneExceeds { job: "a".into(), peak: Rate(20), capacity: Rate(10) }
        );
        assert_eq!(
            remaining(&[quiet(), sharer("a", 100, 0, 100, &[(0, 9, 20)])]),
            Remainder::AloneExceeds { job: "a".into(), peak: Rate(20), capacity: Rate(10) }
        );
        assert_eq!(remaining(&[quiet(), sharer("a", 100, 0, 100, &[(0, 50, 7), (50, 100, 5)])]), Remainder::AlwaysOn { job: "a".into() });
        // 0.4 * 6 + 0.9 * 9 = 10.5 of 10.
        assert_eq!(remaining(&[quiet(), sharer("a", 100, 0, 100, &[(0, 90, 9)])]), Remainder::Duty { percent: 105 });
        assert_eq!(
            remaining(&[quiet(), sharer("a", 1_001, 0, 1, &[(0, 300, 9)])]),
            Remainder::Unlocked { job: "a".into(), lock: Nanos(1), period: Nanos(1_001) }
        );
        assert_eq!(remaining(&[quiet(), sharer("a", 100, 3, 100, &[(20, 50, 9)])]), Remainder::Crowded { proven: true });
    }

    #[test]
    fn separated_and_apart_come_from_the_overlap() {
        let a = || sharer("a", 100, 0, 100, &[(0, 40, 6)]);
        let b = |shift| sharer("b", 100, shift, 100, &[(30, 60, 6)]);
        let before = crate::Overlap { over: Nanos(10), of: Nanos(100), exact: true };
        assert_eq!(why(&[a(), b(15)]), Reason::Separated { before, moved: vec![("b".into(), Nanos(15))], slack: Nanos(7) });
        assert_eq!(why(&[a(), sharer("c", 100, 0, 100, &[(50, 60, 6)])]), Reason::Apart { slack: Nanos(7) });
        // Periods of which the second is one tick longer repeat together after very long: a sample does not see what the score counts.
        let long = |score| {
            let jobs = [
                sharer("a", 1_000_000_007, 0, 1_000_000_007, &[(0, 300_000_000, 6)]),
                sharer("b", 1_000_000_009, 0, 1, &[(500_000_000, 500_000_001, 6)]),
            ];
            let sharers: Vec<_> =
                jobs.iter().map(|(n, period, shift, phases)| Sharer { name: n.clone(), period: *period, shift: *shift, phases }).collect();
            reason(&sharers, Rate(10), score, true)
        };
        assert_eq!(long(1.0), Reason::Apart { slack: Nanos(7) });
        assert!(matches!(long(0.99), Reason::Remains { .. }), "{:?}", long(0.99));
        // A mean demand of just the link: 1/3 and 2/3.
        let third = remaining(&[sharer("a", 3, 0, 3, &[(0, 1, 10)]), sharer("b", 3, 0, 3, &[(0, 2, 10)])]);
        assert!(!matches!(third, Remainder::Duty { .. }), "{third:?}");
    }
}
