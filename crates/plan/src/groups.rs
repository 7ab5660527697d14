//! Links of a component that must be solved together, and one time-shift per job from their solutions.
//!
//! A link through which no loop of the affinity graph runs can be solved alone: its jobs may be turned together against
//! the rest without changing a score (CASSINI, Theorem 1). Candidates that differ in a few jobs have almost all such
//! links in common, so solving sets instead of components is what makes many candidates cheap.

use alloc::{vec, vec::Vec};

use circle::Rotated;

use crate::component::{Content, ContentLink, reduce_weights};

/// Links to be solved together.
#[derive(Debug)]
pub(crate) struct CoupledGroup {
    /// The set by itself: what its solution is remembered by.
    pub(crate) content: Content,
    /// The job of the component that each of its jobs is.
    pub(crate) jobs: Vec<u32>,
    /// The link of the component that each of its links is.
    pub(crate) links: Vec<u32>,
}

/// Splits the shared links of a component, in order of their first link; `whole` keeps them together.
pub(crate) fn coupled_groups(content: &Content, whole: bool) -> Vec<CoupledGroup> {
    let shared: Vec<u32> = (0..content.links.len() as u32).filter(|l| content.links[*l as usize].weight > 0).collect();
    if shared.is_empty() {
        return Vec::new();
    }
    let mut groups = if whole { vec![shared] } else { split(content, &shared) };
    groups.sort_unstable();
    groups.into_iter().map(|links| coupled_group(content, links)).collect()
}

/// The links split where the circle does, so that a set solved here is solved as one there.
fn split(content: &Content, shared: &[u32]) -> Vec<Vec<u32>> {
    let members = |l: &u32| content.links[*l as usize].members.iter().map(|m| m.0 as usize).collect();
    let members: Vec<Vec<usize>> = shared.iter().map(members).collect();
    let named = |set: Vec<usize>| set.into_iter().map(|l| shared[l]).collect();
    circle::coupled_groups(content.periods.len(), &members).into_iter().map(named).collect()
}

fn coupled_group(content: &Content, links: Vec<u32>) -> CoupledGroup {
    let of = |l: &u32| &content.links[*l as usize];
    let mut jobs: Vec<u32> = links.iter().flat_map(|l| of(l).members.iter().map(|m| m.0)).collect();
    jobs.sort_unstable();
    jobs.dedup();
    // `jobs` is sorted and names every member, so the point is the place of the job.
    let local = |j: u32| jobs.partition_point(|k| *k < j) as u32;
    let link = |l: &u32| ContentLink { members: of(l).members.iter().map(|&(j, d)| (local(j), d)).collect(), ..of(l).clone() };
    let periods = jobs.iter().map(|j| content.periods[*j as usize]).collect();
    // Shifts depend on periods and links only; iterations and GPUs would make equal groups unequal.
    let mut own = Content { periods, iterations: Vec::new(), gpus: Vec::new(), free: Vec::new(), links: links.iter().map(link).collect() };
    // Reduced weights make groups of different components equal, so that each is solved once.
    reduce_weights(&mut own.links);
    CoupledGroup { content: own, jobs, links }
}

/// One time-shift per job of the component from the shifts of its sets.
pub(crate) fn compose(periods: &[u64], sets: &[(&CoupledGroup, Vec<u64>)]) -> Vec<u64> {
    let rotated =
        |(set, own): &(&CoupledGroup, Vec<u64>)| Rotated { jobs: set.jobs.iter().map(|j| *j as usize).collect(), rotations: own.clone() };
    circle::compose(periods, &sets.iter().map(rotated).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(jobs: usize, links: &[&[u32]]) -> Content {
        let link = |members: &&[u32]| ContentLink { members: members.iter().map(|j| (*j, 0)).collect(), capacity: 1, weight: 1 };
        Content {
            periods: vec![100; jobs],
            iterations: vec![100; jobs],
            gpus: vec![1; jobs],
            free: vec![false; jobs],
            links: links.iter().map(link).collect(),
        }
    }

    fn groups(jobs: usize, links: &[&[u32]]) -> Vec<Vec<u32>> {
        coupled_groups(&content(jobs, links), false).into_iter().map(|s| s.links).collect()
    }

    #[test]
    fn trees_are_split_and_loops_stay_together() {
        assert_eq!(groups(4, &[&[0, 1], &[1, 2], &[2, 3]]), [[0], [1], [2]]);
        assert_eq!(groups(3, &[&[0, 1], &[1, 2], &[0, 2]]), [[0, 1, 2]]);
        // A triangle with a tail of two links.
        assert_eq!(groups(5, &[&[3, 4], &[2, 3], &[0, 1], &[1, 2], &[0, 2]]), [vec![0], vec![1], vec![2, 3, 4]]);
        // Two links with the same two jobs are a loop; a star is none.
        assert_eq!(groups(3, &[&[0, 1], &[0, 1], &[1, 2]]), [vec![0, 1], vec![2]]);
        assert_eq!(groups(4, &[&[0, 1, 2, 3], &[0], &[1]]), [[0], [1], [2]]);
        assert_eq!(coupled_groups(&content(3, &[&[0, 1], &[1, 2]]), true).len(), 1);
    }

    #[test]
    fn a_set_names_its_own_jobs() {
        let sets = coupled_groups(&content(4, &[&[0, 1], &[1, 3]]), false);
        assert_eq!(sets[1].jobs, [1, 3]);
        assert_eq!(sets[1].content.links[0].members, [(0, 0), (1, 0)]);
    }

    /// The worked example of the paper's figures 7 and 8: t2 = -t1(l1) + t2(l1), t3 = t2 - t2(l2) + t3(l2), each modulo the
    /// job's period.
    #[test]
    fn paper_section_4_1_worked_example() {
        let mut whole = content(3, &[&[0, 1], &[1, 2]]);
        whole.periods = vec![100, 80, 60];
        let sets = coupled_groups(&whole, false);
        // t2 = 0 - 10 + 70 = 60; t3 = 60 - 20 + 5 = 45.
        assert_eq!(compose(&whole.periods, &[(&sets[0], vec![10, 70]), (&sets[1], vec![20, 5])]), [0, 60, 45]);
    }
}
