//! How far each job may drift before the score falls, and the middle of that room.

use alloc::{vec, vec::Vec};

use crate::{
    PROOF_TOLERANCE,
    demand::{
        marginal::LOOKUP_WORK,
        sum::{Presence, Workspace},
    },
    search::group::Group,
};

/// Passes of centring: each halves what is left of the imbalance between neighbours.
const CENTRING_PASSES: usize = 4;
/// Work to find one alignment and to put it in order.
const ALIGNMENT_WORK: u64 = 6;

/// Ticks that a job may move earlier and later without any loss.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Room {
    /// So many either way.
    Within { earlier: u64, later: u64 },
    /// Its shift does not matter at all.
    Everywhere,
}

impl Room {
    /// Nothing is promised.
    const NONE: Self = Self::Within { earlier: 0, later: 0 };

    /// The smaller side; `None` where the shift does not matter.
    fn slack(self) -> Option<u64> {
        match self {
            Self::Within { earlier, later } => Some(earlier.min(later)),
            Self::Everywhere => None,
        }
    }
}

/// The room of a job around its shift.
fn room(group: &Group, job: usize, shifts: &[u64], workspace: &mut Workspace) -> Room {
    if group.jobs[job].on.iter().any(|&(c, _)| !group.circles[c].is_faithful()) {
        // What the couplings that are not on the circle say about other shifts is not known.
        return Room::NONE;
    }
    let lock = group.jobs[job].lock;
    let mut kinks = Vec::new();
    for (other, &shift) in shifts.iter().enumerate().filter(|o| o.0 != job) {
        let before = kinks.len();
        let complete = group.alignments(job, other, shift, false, &mut kinks);
        workspace.budget.charge(ALIGNMENT_WORK * (1 + kinks.len() - before) as u64);
        if !complete || workspace.budget.is_spent() {
            // Between the kinks that were left out the score may fall.
            return Room::NONE;
        }
    }
    let here = shifts[job] % lock;
    // Distance from here to each kink, going later.
    for kink in &mut kinks {
        *kink = if *kink >= here { *kink - here } else { *kink + lock - here };
    }
    kinks.sort_unstable();
    kinks.dedup();
    // Without alignments the cost is one line around the circle, hence constant.
    let Some(&last) = kinks.last() else { return Room::Everywhere };
    if group.is_too_large_to_look_at(job, workspace.budget.left()) {
        return Room::NONE;
    }
    let response = group.response(job, |other| Presence::At(shifts[other]), workspace);
    // A rise within the tolerance is rounding and no loss.
    let allowed = response.at(here) + PROOF_TOLERANCE;
    let work = LOOKUP_WORK * group.spans(job);
    let mut flat = |distance: u64| {
        workspace.budget.charge(work);
        !workspace.budget.is_spent() && response.at(here + distance) <= allowed
    };
    // The cost is linear between kinks: the room ends at the last kink before one that costs more.
    let later = kinks.iter().copied().take_while(|&d| flat(d)).last().unwrap_or(0);
    // The walk passed every kink without a rise, so the cost is the same all around.
    if later == last {
        return Room::Everywhere;
    }
    // Distances count forwards around the lock, so the way back begins at the largest.
    let earlier = kinks.iter().rev().copied().take_while(|&d| flat(d)).last().map_or(0, |d| (lock - d) % lock);
    Room::Within { earlier, later }
}

/// Moves every job that `may_move` to the middle of its room, a few times over, because the room of one
/// depends on where its neighbours stand; the cost does not change. Returns the slack of every job. Once the
/// budget is spent no job moves, and one whose room was not seen has no slack to promise.
pub(crate) fn centre(group: &Group, shifts: &mut [u64], may_move: impl Fn(usize) -> bool, workspace: &mut Workspace) -> Vec<Option<u64>> {
    let middle = |job: usize, shift: u64, earlier: u64, later: u64| {
        let lock = group.jobs[job].lock;
        // A distance is below the lock, so the sum never falls below zero.
        (shift % lock + lock - earlier + (earlier + later) / 2) % lock
    };
    if shifts.len() == 2 && may_move(0) && may_move(1) {
        // Only the distance of two jobs matters, so their rooms are mirror images.
        let Room::Within { earlier, later } = room(group, 1, shifts, workspace) else { return vec![None; 2] };
        shifts[1] = middle(1, shifts[1], earlier, later);
        // The second job stands in the middle now, so either job may drift half of the room.
        return vec![Some((earlier + later) / 2); 2];
    }
    for _ in 0..CENTRING_PASSES {
        let mut moved = false;
        let mut slacks = vec![None; shifts.len()];
        for job in 0..shifts.len() {
            if workspace.budget.is_spent() {
                // The cost has not changed so far, but rooms that were seen before a neighbour moved promise nothing.
                return vec![Some(0); shifts.len()];
            }
            let room = room(group, job, shifts, workspace);
            slacks[job] = room.slack();
            let Room::Within { earlier, later } = room else { continue };
            if may_move(job) {
                let centred = middle(job, shifts[job], earlier, later);
                moved |= centred != shifts[job];
                shifts[job] = centred;
            }
        }
        // In a pass without a move all rooms were seen with the final shifts, so its slacks hold.
        if !moved {
            return slacks;
        }
    }
    // The last pass moved jobs after some rooms were seen, so all slacks are measured again.
    slacks(group, shifts, workspace)
}

/// The slack of every job: the smaller side of its room; `None` where its shift does not matter.
/// Once the budget is spent the slack of a job is 0: nothing is promised.
pub(crate) fn slacks(group: &Group, shifts: &[u64], workspace: &mut Workspace) -> Vec<Option<u64>> {
    let slack = |job| if workspace.budget.is_spent() { Some(0) } else { room(group, job, shifts, workspace).slack() };
    (0..shifts.len()).map(slack).collect()
}
