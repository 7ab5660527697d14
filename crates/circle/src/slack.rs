//! How far each job may drift before the score falls, and the middle of that room.

use alloc::{vec, vec::Vec};

use crate::{
    PROOF_TOLERANCE,
    group::Group,
    total::{Presence, Total},
};

/// Passes of centring: each halves what is left of the imbalance between neighbours.
const CENTRING_PASSES: usize = 4;

/// Room of a job around its shift: how many ticks it may move earlier and later without any
/// loss. `None`: its shift does not matter at all.
fn room(group: &Group, job: usize, shifts: &[u64], total: &mut Total) -> Option<(u64, u64)> {
    let lock = group.jobs[job].lock;
    let mut kinks = Vec::new();
    let mut complete = true;
    for (other, &shift) in shifts.iter().enumerate() {
        if other != job {
            complete &= group.alignments(job, other, shift, false, &mut kinks);
        }
    }
    if !complete {
        // Between the kinks that were left out the score may fall: claim no room.
        return Some((0, 0));
    }
    let here = shifts[job] % lock;
    // Distance from here to each kink, going later.
    for kink in &mut kinks {
        *kink = if *kink >= here { *kink - here } else { *kink + lock - here };
    }
    kinks.sort_unstable();
    kinks.dedup();
    if kinks.is_empty() {
        return None;
    }
    let response = group.response(job, |other| Presence::At(shifts[other]), total);
    let allowed = response.at(here) + PROOF_TOLERANCE;
    let flat = |&distance: &u64| response.at(here + distance) <= allowed;
    // The cost is linear between kinks: the room ends at the last kink before one that costs more.
    let later = kinks.iter().take_while(|d| flat(d)).last().copied().unwrap_or(0);
    if kinks.last() == Some(&later) {
        return None;
    }
    let earlier = kinks.iter().rev().take_while(|d| flat(d)).last().map_or(0, |d| (lock - d) % lock);
    Some((earlier, later))
}

/// Moves every job that `may_move` to the middle of its room, a few times over, because the room of one
/// depends on where its neighbours stand; the cost does not change. Returns the slack of every job. After
/// `work_end` no room is looked at, and a job whose room was not seen has no slack to promise.
pub(crate) fn centre(
    group: &Group,
    shifts: &mut [u64],
    may_move: impl Fn(usize) -> bool,
    work_end: u64,
    total: &mut Total,
) -> Vec<Option<u64>> {
    let middle = |job: usize, shift: u64, (earlier, later): (u64, u64)| {
        let lock = group.jobs[job].lock;
        (shift % lock + lock - earlier + (earlier + later) / 2) % lock
    };
    if shifts.len() == 2 && may_move(0) && may_move(1) {
        // Only the distance of two jobs matters, so their rooms are mirror images.
        let Some(room) = room(group, 1, shifts, total) else { return vec![None; 2] };
        let shift = middle(1, shifts[1], room);
        shifts[1] = shift;
        return vec![Some((room.0 + room.1) / 2); 2];
    }
    for _ in 0..CENTRING_PASSES {
        let mut moved = false;
        let mut slacks = vec![None; shifts.len()];
        for job in 0..shifts.len() {
            if total.work >= work_end {
                return vec![Some(0); shifts.len()];
            }
            let Some(room) = room(group, job, shifts, total) else { continue };
            slacks[job] = Some(room.0.min(room.1));
            if !may_move(job) {
                continue;
            }
            let centred = middle(job, shifts[job], room);
            moved |= centred != shifts[job];
            shifts[job] = centred;
        }
        if !moved {
            return slacks;
        }
    }
    slacks(group, shifts, work_end, total)
}

/// The slack of every job: the smaller side of its room; `None` where its shift does not matter.
/// After `work_end` the slack of a job is 0: nothing is promised.
pub(crate) fn slacks(group: &Group, shifts: &[u64], work_end: u64, total: &mut Total) -> Vec<Option<u64>> {
    let slack = |job| {
        if total.work >= work_end {
            return Some(0);
        }
        room(group, job, shifts, total).map(|(earlier, later)| earlier.min(later))
    };
    (0..shifts.len()).map(slack).collect()
}
