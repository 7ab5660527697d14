//! The optimum of two jobs on very many links: circle by circle, so that one curve is in memory at a time.
//!
//! Around the circles together only the difference of both shifts counts, so one job stands and the other is looked at everywhere.

use alloc::vec;

use super::{Optimum, descent::Incumbent, group::Group};
use crate::{
    PROOF_TOLERANCE,
    demand::{
        circle::OnCircle,
        minimum::{lowest_of_many, work_of_many},
        sum::{Presence, Workspace},
    },
};

/// The best shifts of two jobs, one of which may be fixed. `None` where that takes more work than is left.
pub(super) fn two(group: &Group, fixed: &[Option<u64>], workspace: &mut Workspace) -> Option<Optimum> {
    let &[one, other] = fixed else { return None };
    let (moves, stands) = if other.is_none() { (1, 0) } else { (0, 1) };
    let at = [one, other][stands].unwrap_or(0);
    let Price { work, largest } = Price::new(group, moves);
    if work > workspace.budget.left() {
        return None;
    }
    let before = workspace.budget.spent();
    let lock = group.jobs[moves].lock;
    let found = {
        let mut inner = Workspace::new(workspace.budget.clone());
        let others = |_: usize| Presence::At(at);
        let curves = group.jobs[moves].on.iter().map(|&on| group.response_on(on, &others, &mut inner));
        lowest_of_many(curves, lock, largest, &workspace.budget)
    };
    // What was counted for all of it.
    workspace.budget.charge(work.saturating_sub(workspace.budget.spent() - before));
    let (shift, below) = found?;
    let mut shifts = vec![at; 2];
    shifts[moves] = 0;
    let first = group.cost(&shifts, workspace);
    shifts[moves] = shift;
    let cost = group.cost(&shifts, workspace);
    ((cost - first - below).abs() <= PROOF_TOLERANCE / 2.0).then_some(Optimum { found: Incumbent { cost, shifts }, bound: cost })
}

/// What is known of a look before it is taken.
struct Price {
    work: u64,
    /// No slope is steeper: a tick of a job costs no more than what it sends.
    largest: f64,
}

impl Price {
    fn new(group: &Group, job: usize) -> Self {
        let (mut work, mut largest) = (0_u64, 0.0);
        for &(c, m) in &group.jobs[job].on {
            let circle = &group.circles[c];
            let own: &OnCircle = &circle.members[m];
            let pieces: u64 = circle.members.iter().map(|on| on.folded.starts.len() as u64).sum();
            let laps = group.jobs[job].lock / own.folded.period;
            let kinks = work_of_many(own.folded.spans.len() as u64, pieces).saturating_mul(laps);
            work = work.saturating_add(kinks).saturating_add(group.look_work((c, m)));
            let sent = own.folded.spans.iter().map(|span| span.probability * own.folded.levels[span.level as usize]).sum::<f64>();
            largest += circle.weight * (circle.perimeter / own.folded.period) as f64 * sent;
        }
        Self { work, largest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effort, Phase, Rate, Ticks, demand::circle::Circle, search::random::Random};

    fn phases(period: u64, random: &mut Random) -> Vec<Phase> {
        let mut cuts: Vec<u64> = (0..2 * (1 + random.below(6))).map(|_| random.below(period)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let phase = |pair: &[u64]| Phase { start: Ticks(pair[0]), end: Ticks(pair[1]), rate: Rate(1 + random.below(3) * 4) };
        cuts.chunks_exact(2).map(phase).collect()
    }

    /// Against every difference of shifts, of equal, harmonic and other periods on one to four unlike links.
    #[test]
    fn circle_by_circle_no_shifts_are_better() {
        let mut random = Random::new();
        let mut answered = 0;
        for case in 0..500_u64 {
            let base = 8 + random.below(30);
            let periods = [base, base * [1, 1, 2, 3][random.below(4) as usize] + random.below(9) / 8];
            let perimeter = num_integer::lcm(periods[0], periods[1]);
            let circle = |_| {
                let all = periods.map(|period| phases(period, &mut random));
                let members: Vec<(usize, &[Phase], u64)> = (0..2).map(|j| (j, &all[j][..], periods[j])).collect();
                Circle::new(7, 1, &members, perimeter)
            };
            let group = Group::new(2, (0..1 + case % 4).map(circle).collect(), Effort::Thorough);
            let fixed = [case % 3, 3].map(|at| (at == 1).then_some(5));
            let Some(found) = two(&group, &fixed, &mut Workspace::default()) else { continue };
            answered += 1;
            assert!(found.is_proven() && (fixed[0].is_none() || found.found.shifts[0] == 5));
            for shift in 0..group.jobs[0].lock.max(group.jobs[1].lock) {
                for shifts in [[0, shift % group.jobs[1].lock.max(1)], [shift % group.jobs[0].lock.max(1), 0]] {
                    let cost = group.cost(&shifts, &mut Workspace::default());
                    assert!(cost >= found.found.cost - PROOF_TOLERANCE, "{case}: {cost} at {shifts:?}");
                }
            }
        }
        assert!(answered > 400, "{answered}");
    }
}
