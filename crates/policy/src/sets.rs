//! Links of a component that must be solved together, and one time-shift per job from their solutions.
//!
//! A link through which no loop of the affinity graph runs can be solved alone: its jobs may be turned together against
//! the rest without changing a score (CASSINI, Theorem 1). Candidates that differ in a few jobs have almost all such
//! links in common, so solving sets instead of components is what makes many candidates cheap.

use alloc::{vec, vec::Vec};

use petgraph::unionfind::UnionFind;

use crate::component::{Content, ContentLink, reduce_weights};

/// Links to be solved together.
#[derive(Debug)]
pub(crate) struct JointSet {
    /// The set by itself: what its solution is remembered by.
    pub(crate) content: Content,
    /// The job of the component that each of its jobs is.
    pub(crate) jobs: Vec<u32>,
    /// The link of the component that each of its links is.
    pub(crate) links: Vec<u32>,
}

/// Splits the shared links of a component, in order of their first link; `whole` keeps them together.
pub(crate) fn joint_sets(content: &Content, whole: bool) -> Vec<JointSet> {
    let shared: Vec<u32> = (0..content.links.len() as u32).filter(|l| content.links[*l as usize].weight > 0).collect();
    if shared.is_empty() {
        return Vec::new();
    }
    let mut groups = if whole { vec![shared] } else { split(content, &shared) };
    groups.sort_unstable();
    groups.into_iter().map(|links| joint_set(content, links)).collect()
}

/// Peels off links that at most one job joins to the links that are left: no loop runs through them. What cannot be peeled
/// is grouped by connection.
fn split(content: &Content, shared: &[u32]) -> Vec<Vec<u32>> {
    let members = |l: u32| content.links[l as usize].members.iter().map(|m| m.0 as usize);
    let mut links_of: Vec<Vec<u32>> = vec![Vec::new(); content.periods.len()];
    for &l in shared {
        members(l).for_each(|j| links_of[j].push(l));
    }
    // Links left per job, and per link how many of its jobs join it to others that are left.
    let mut left: Vec<usize> = links_of.iter().map(Vec::len).collect();
    let mut alive = vec![false; content.links.len()];
    let mut joins = vec![0usize; content.links.len()];
    for &l in shared {
        alive[l as usize] = true;
        joins[l as usize] = members(l).filter(|j| left[*j] > 1).count();
    }
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut peel: Vec<u32> = shared.iter().copied().filter(|l| joins[*l as usize] <= 1).collect();
    while let Some(l) = peel.pop() {
        if !core::mem::take(&mut alive[l as usize]) {
            continue;
        }
        groups.push(vec![l]);
        for j in members(l) {
            left[j] -= 1;
            if left[j] != 1 {
                continue;
            }
            // The last link of this job is no longer joined to anything by it.
            for &other in links_of[j].iter().filter(|o| alive[**o as usize]) {
                joins[other as usize] -= 1;
                if joins[other as usize] <= 1 {
                    peel.push(other);
                }
            }
        }
    }
    let mut joined: UnionFind<u32> = UnionFind::new(content.periods.len());
    let looped: Vec<u32> = shared.iter().copied().filter(|l| alive[*l as usize]).collect();
    for &l in &looped {
        let first = content.links[l as usize].members[0].0;
        members(l).for_each(|j| {
            joined.union(first, j as u32);
        });
    }
    let mut group_of = vec![usize::MAX; content.periods.len()];
    for l in looped {
        let root = joined.find_mut(content.links[l as usize].members[0].0) as usize;
        if group_of[root] == usize::MAX {
            group_of[root] = groups.len();
            groups.push(Vec::new());
        }
        groups[group_of[root]].push(l);
    }
    groups
}

fn joint_set(content: &Content, links: Vec<u32>) -> JointSet {
    let of = |l: &u32| &content.links[*l as usize];
    let mut jobs: Vec<u32> = links.iter().flat_map(|l| of(l).members.iter().map(|m| m.0)).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let local = |j: u32| jobs.partition_point(|k| *k < j) as u32;
    let link = |l: &u32| ContentLink { members: of(l).members.iter().map(|&(j, d)| (local(j), d)).collect(), ..of(l).clone() };
    let mut own = Content { periods: jobs.iter().map(|j| content.periods[*j as usize]).collect(), links: links.iter().map(link).collect() };
    reduce_weights(&mut own.links);
    JointSet { content: own, jobs, links }
}

/// One time-shift per job of the component from the shifts of its sets (CASSINI, Algorithm 1, with sets for links): each
/// set is turned as a whole until the job through which it was reached stands where it already stands. The first job of
/// every connected part gets 0.
pub(crate) fn compose(periods: &[u64], sets: &[(&JointSet, Vec<u64>)]) -> Vec<u64> {
    let mut sets_of: Vec<Vec<usize>> = vec![Vec::new(); periods.len()];
    for (s, (set, _)) in sets.iter().enumerate() {
        set.jobs.iter().for_each(|j| sets_of[*j as usize].push(s));
    }
    let mut shifts: Vec<Option<u64>> = vec![None; periods.len()];
    let mut turned = vec![false; sets.len()];
    for root in 0..periods.len() {
        if shifts[root].is_some() {
            continue;
        }
        shifts[root] = Some(0);
        let mut queue = vec![root];
        while let Some(job) = queue.pop() {
            let here = shifts[job].unwrap_or(0);
            for &s in &sets_of[job] {
                if core::mem::replace(&mut turned[s], true) {
                    continue;
                }
                let (set, own) = &sets[s];
                let anchor = set.jobs.iter().position(|j| *j as usize == job).map_or(0, |i| own[i]);
                for (&other, &shift) in set.jobs.iter().zip(own) {
                    let (other, period) = (other as usize, periods[other as usize]);
                    if shifts[other].is_none() {
                        // Each term modulo the period first: the sum stays below three periods.
                        shifts[other] = Some((here % period + (period - anchor % period) + shift % period) % period);
                        queue.push(other);
                    }
                }
            }
        }
    }
    shifts.into_iter().map(|s| s.unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(jobs: usize, links: &[&[u32]]) -> Content {
        let link = |members: &&[u32]| ContentLink { members: members.iter().map(|j| (*j, 0)).collect(), capacity: 1, weight: 1 };
        Content { periods: vec![100; jobs], links: links.iter().map(link).collect() }
    }

    fn groups(jobs: usize, links: &[&[u32]]) -> Vec<Vec<u32>> {
        joint_sets(&content(jobs, links), false).into_iter().map(|s| s.links).collect()
    }

    #[test]
    fn trees_are_peeled_and_loops_stay_together() {
        assert_eq!(groups(4, &[&[0, 1], &[1, 2], &[2, 3]]), [[0], [1], [2]]);
        assert_eq!(groups(3, &[&[0, 1], &[1, 2], &[0, 2]]), [[0, 1, 2]]);
        // A triangle with a tail of two links.
        assert_eq!(groups(5, &[&[3, 4], &[2, 3], &[0, 1], &[1, 2], &[0, 2]]), [vec![0], vec![1], vec![2, 3, 4]]);
        // Two links with the same two jobs are a loop; a star is none.
        assert_eq!(groups(3, &[&[0, 1], &[0, 1], &[1, 2]]), [vec![0, 1], vec![2]]);
        assert_eq!(groups(4, &[&[0, 1, 2, 3], &[0], &[1]]), [[0], [1], [2]]);
        assert_eq!(joint_sets(&content(3, &[&[0, 1], &[1, 2]]), true).len(), 1);
    }

    #[test]
    fn a_set_names_its_own_jobs() {
        let sets = joint_sets(&content(4, &[&[0, 1], &[1, 3]]), false);
        assert_eq!(sets[1].jobs, [1, 3]);
        assert_eq!(sets[1].content.links[0].members, [(0, 0), (1, 0)]);
    }

    /// The worked example of the paper's figures 7 and 8: t2 = -t1(l1) + t2(l1), t3 = t2 - t2(l2) + t3(l2), each modulo the
    /// job's period.
    #[test]
    fn paper_section_4_1_worked_example() {
        let mut whole = content(3, &[&[0, 1], &[1, 2]]);
        whole.periods = vec![100, 80, 60];
        let sets = joint_sets(&whole, false);
        // t2 = 0 - 10 + 70 = 60; t3 = 60 - 20 + 5 = 45.
        assert_eq!(compose(&whole.periods, &[(&sets[0], vec![10, 70]), (&sets[1], vec![20, 5])]), [0, 60, 45]);
    }
}
