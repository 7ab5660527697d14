//! Ways to place a job whole.

use alloc::vec::Vec;

use crate::{
    job::{Demand, Job, Part},
    place::by_parts::by_parts,
    server::{Stand, takes},
    world::View,
};

/// Most ways of one count of servers: all of eight servers (at most 70), and of more those on the servers with the most free GPUs.
const WAYS_MAX: usize = 70;

/// Ways to place `job`: its ranks evenly over any one, two, four, ... servers, each with its parameter servers beside its ranks and, where that is
/// another way, elsewhere; and server after server as far as each has room.
#[must_use]
pub fn ways(view: &View<'_>, job: &Job) -> Vec<Stand> {
    let mut ways = Vec::new();
    let mut over = 1;
    while over <= job.ranks && over as usize <= view.servers {
        if job.ranks.is_multiple_of(over) {
            evenly(view, job, over, &mut ways);
        }
        over *= 2;
    }
    // What is left in parts fits where no even share does.
    ways.extend(by_parts(view, job, |server, free, stand, _| gather(server, free, stand)));
    ways.dedup();
    ways
}

/// Where the job stands already, then where most GPUs are free.
fn gather(server: usize, free: &[Demand], stand: &Stand) -> u64 {
    let stands = stand.seats().iter().any(|seat| seat.server == server);
    u64::from(u32::MAX) * u64::from(!stands) + u64::from(u32::MAX - free.get(server).map_or(0, |free| free[0]))
}

fn evenly(view: &View<'_>, job: &Job, over: u32, ways: &mut Vec<Stand>) {
    let (each, demand) = (job.ranks / over, job.demand(Part::Rank));
    let wanted: Demand = demand.map(|d| d * each);
    let mut roomy: Vec<usize> = (0..view.servers).filter(|s| view.free.get(*s).is_some_and(|f| takes(&mut f.clone(), &wanted))).collect();
    roomy.sort_by_key(|server| core::cmp::Reverse(view.free.get(*server).map_or(0, |free| free[0])));
    for chosen in choices(&roomy, over as usize) {
        let mut free = view.free.to_vec();
        let mut stand = Stand::default();
        for server in &chosen {
            free.get_mut(*server).map(|free| takes(free, &wanted));
            (0..each).for_each(|_| stand.add(*server, Part::Rank));
        }
        let others: Vec<usize> = (0..view.servers).filter(|server| !chosen.contains(server)).collect();
        let beside = with_servers(job, &stand, &free, &chosen, &others);
        let apart = with_servers(job, &stand, &free, &others, &chosen);
        if apart != beside {
            ways.extend(apart);
        }
        ways.extend(beside);
    }
}

/// The stand with its parameter servers: on the first servers in turn as long as they have room, then on the second ones.
fn with_servers(job: &Job, stand: &Stand, free: &[Demand], first: &[usize], second: &[usize]) -> Option<Stand> {
    let (mut stand, mut free) = (stand.clone(), free.to_vec());
    let demand = job.demand(Part::ParameterServer);
    for turn in 0..job.parameter_servers as usize {
        let in_turn = (0..first.len()).map(|n| first[(turn + n) % first.len()]);
        let server = in_turn.chain(second.iter().copied()).find(|server| free.get_mut(*server).is_some_and(|free| takes(free, &demand)))?;
        stand.add(server, Part::ParameterServer);
    }
    Some(stand)
}

/// The first [`WAYS_MAX`] sets of `size` of `from`, in lexicographic order.
fn choices(from: &[usize], size: usize) -> Vec<Vec<usize>> {
    let mut sets = Vec::new();
    let mut at: Vec<usize> = (0..size).collect();
    if size > from.len() {
        return sets;
    }
    while sets.len() < WAYS_MAX {
        sets.push(at.iter().filter_map(|at| from.get(*at).copied()).collect());
        let Some(last) = (0..size).rev().find(|n| at[*n] < from.len() - size + n) else { break };
        at[last] += 1;
        for n in last + 1..size {
            at[n] = at[n - 1] + 1;
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::SERVER;

    #[test]
    fn all_even_ways_are_found() {
        let free = [SERVER; 4];
        let view = View { now_ms: 0, servers: 4, running: &[], waiting: &[], free: &free };
        let job = Job { id: 0, kind: 3, ranks: 4, parameter_servers: 0, work_ms: 1, submitted_ms: 0 };
        // Four single servers, six pairs, all four; gathering finds the first server again, but not beside its twin.
        assert_eq!(ways(&view, &job).len(), 4 + 6 + 1 + 1);
        let with = Job { parameter_servers: 2, ..job };
        // Parameter servers beside and apart; where nothing is apart, on two of the servers and both on the first.
        let found = ways(&view, &with);
        assert_eq!(found.len(), 8 + 12 + 2 + 1);
        assert!(found.iter().all(|stand| stand.is_whole(&with)));
        assert_eq!(choices(&[5, 6, 7], 2), [[5, 6], [5, 7], [6, 7]]);
        assert_eq!(choices(&(0..40).collect::<Vec<_>>(), 4).len(), WAYS_MAX);
    }

    #[test]
    fn what_is_left_in_parts_is_used() {
        // Three GPUs on one server and one on another: two ranks each fit nowhere.
        let free = [[3, 20, 64], [1, 20, 64]];
        let view = View { now_ms: 0, servers: 2, running: &[], waiting: &[], free: &free };
        let job = Job { id: 0, kind: 3, ranks: 4, parameter_servers: 0, work_ms: 1, submitted_ms: 0 };
        let found = ways(&view, &job);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].seats().iter().map(|seat| seat.ranks).collect::<Vec<_>>(), [3, 1]);
    }
}
