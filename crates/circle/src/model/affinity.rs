//! The affinity graph: which jobs share which links, what must be solved together, and how the
//! rotations of the parts become one time-shift per job.
//!
//! Vertices are jobs and shared links, an edge says that the job crosses the link (CASSINI,
//! section 4.1). Equal links are merged first: a ring that enters a rack also leaves it, and
//! unmerged those two links alone would make a loop. Links in one biconnected block must be
//! optimised jointly; blocks that meet in one job can be rotated against each other freely, so
//! breadth-first composition over them is exact (the paper's Theorem 1, with blocks for links).

use alloc::{collections::BTreeMap, vec, vec::Vec};

use petgraph::unionfind::UnionFind;

use super::problem::{Member, Problem};

/// Links with equal capacity and equal members, treated as one.
#[derive(Clone, Debug)]
pub(crate) struct LinkClass {
    /// Index of the link that stands for all.
    pub(crate) link: usize,
    /// All links of the class, ascending.
    pub(crate) links: Vec<usize>,
}

/// Merges equal links that at least `members_min` jobs cross; classes in order of their first link.
pub(crate) fn merge(problem: &Problem, members_min: usize) -> Vec<LinkClass> {
    let mut seen: BTreeMap<(u64, &[Member]), usize> = BTreeMap::new();
    let mut classes: Vec<LinkClass> = Vec::new();
    for (index, link) in problem.links().iter().enumerate() {
        if link.members.len() < members_min {
            continue;
        }
        // Members are in order of job and equal demands share an id, so equal links have equal keys.
        let class = *seen.entry((link.capacity.0, &link.members)).or_insert(classes.len());
        if class == classes.len() {
            classes.push(LinkClass { link: index, links: Vec::new() });
        }
        classes[class].links.push(index);
    }
    classes
}

/// Shape of the bipartite graph whose links have those members.
pub(crate) fn shape<'a>(jobs: usize, links: impl Iterator<Item = &'a [Member]>) -> (usize, usize) {
    let mut sets = UnionFind::<usize>::new(jobs);
    let mut on_shared = vec![false; jobs];
    let (mut edges, mut vertices) = (0, 0);
    for members in links {
        vertices += 1;
        edges += members.len();
        for m in members {
            on_shared[m.job.index()] = true;
            sets.union(members[0].job.index(), m.job.index());
        }
    }
    vertices += on_shared.iter().filter(|&&s| s).count();
    let components = (0..jobs).filter(|&j| on_shared[j] && sets.find(j) == j).count();
    // The representative of a component is itself on a shared link, because only such jobs are united.
    // The number of independent loops of a graph is edges - vertices + components.
    (components, edges + components - vertices)
}

/// Shape of the affinity graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affinity {
    /// Connected components that hold at least one shared link.
    pub components: usize,
    /// Independent loops (edges - vertices + components) over shared links, after merging in
    /// exact mode, unmerged in paper mode.
    pub loops: usize,
    /// Shared links that were folded into an equal one.
    pub merged_links: usize,
}

/// The statistics that a solution reports.
pub(crate) fn affinity(problem: &Problem, classes: &[LinkClass]) -> Affinity {
    let (components, loops) = shape(problem.periods().len(), classes.iter().map(|c| &problem.links()[c.link].members[..]));
    Affinity { components, loops, merged_links: classes.iter().map(|c| c.links.len() - 1).sum() }
}

/// Sets of links that must be solved jointly: `links[i]` lists the jobs of link `i`, below `jobs`. Each returned
/// set is ascending, and they are in order of their first link; a link outside every loop is a set of its own.
///
/// ```
/// // Jobs 0, 1 and 2 meet pairwise on three links, which is a loop; job 3 meets job 2 on a fourth.
/// let links = [vec![0, 1], vec![2, 3], vec![1, 2], vec![0, 2]];
/// assert_eq!(antiphase_circle::coupled_groups(4, &links), [vec![0, 2, 3], vec![1]]);
/// ```
#[must_use]
pub fn coupled_groups(jobs: usize, links: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut sets = UnionFind::<usize>::new(links.len());
    let mut of_job: Vec<Vec<usize>> = vec![Vec::new(); jobs];
    for (l, members) in links.iter().enumerate() {
        for &j in members {
            of_job[j].push(l);
        }
    }
    // Each link and each job is entered once, so the search is linear in the edges of the graph.
    let mut blocks = Blocks { links, of_job: &of_job, entered: vec![0; links.len() + jobs], low: vec![0; links.len() + jobs], clock: 0 };
    // Links are enough as roots: a job on no link has no edge and belongs to no set.
    for root in 0..links.len() {
        if blocks.entered[root] == 0 {
            blocks.search(root, &mut sets);
        }
    }
    let mut grouped: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for l in 0..links.len() {
        grouped.entry(sets.find_mut(l)).or_default().push(l);
    }
    let mut out: Vec<Vec<usize>> = grouped.into_values().collect();
    // The representatives come in no useful order; sets are disjoint, so their first links decide.
    out.sort_unstable();
    out
}

/// Sets of links that are connected through jobs; each ascending, in order of their first link.
pub(crate) fn connected(jobs: usize, links: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut sets = UnionFind::<usize>::new(jobs);
    for members in links {
        members.iter().for_each(|&j| {
            sets.union(members[0], j);
        });
    }
    let mut grouped: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    // A link without members belongs to no component and has no first member to look up.
    for (l, members) in links.iter().enumerate().filter(|l| !l.1.is_empty()) {
        grouped.entry(sets.find_mut(members[0])).or_default().push(l);
    }
    let mut out: Vec<Vec<usize>> = grouped.into_values().collect();
    out.sort_unstable();
    out
}

/// Biconnected blocks (Hopcroft and Tarjan 1973), iterative so that a long chain of jobs cannot
/// exhaust the stack. Vertices: links first, then jobs.
struct Blocks<'a> {
    links: &'a [Vec<usize>],
    of_job: &'a [Vec<usize>],
    entered: Vec<u32>,
    low: Vec<u32>,
    clock: u32,
}

impl Blocks<'_> {
    fn neighbour(&self, v: usize, i: usize) -> Option<usize> {
        match v.checked_sub(self.links.len()) {
            None => self.links[v].get(i).map(|j| j + self.links.len()),
            Some(job) => self.of_job[job].get(i).copied(),
        }
    }

    fn enter(&mut self, v: usize) {
        // The clock counts vertices, and a problem has at most `LINKS_MAX` + `JOBS_MAX` of them, far below 2^32.
        self.clock += 1;
        self.entered[v] = self.clock;
        self.low[v] = self.clock;
    }

    /// Unites all links of each block found from `root`.
    fn search(&mut self, root: usize, sets: &mut UnionFind<usize>) {
        // (vertex, parent, next neighbour)
        let mut path: Vec<(usize, usize, usize)> = vec![(root, usize::MAX, 0)];
        // Vertices of blocks not yet closed, in order of entry.
        let mut open: Vec<usize> = vec![root];
        self.enter(root);
        while let Some(&mut (v, parent, ref mut i)) = path.last_mut() {
            let at = *i;
            *i += 1;
            if let Some(w) = self.neighbour(v, at) {
                // A job is on a link once, so this edge is the one by which `v` was entered, and closes no loop.
                if w == parent {
                    continue;
                }
                if self.entered[w] == 0 {
                    self.enter(w);
                    open.push(w);
                    path.push((w, v, 0));
                } else {
                    // A visited neighbour is an ancestor or a descendant of `v` (depth-first search), and only an ancestor is lower.
                    self.low[v] = self.low[v].min(self.entered[w]);
                }
                continue;
            }
            path.pop();
            if parent == usize::MAX {
                break;
            }
            self.low[parent] = self.low[parent].min(self.low[v]);
            // No edge from below `v` leads above `parent`, so `parent` separates `v` from the rest or is the root.
            if self.low[v] >= self.entered[parent] {
                // `parent` and everything above `v` form a block. A link that is the parent unites the blocks that meet in it;
                // a job that is the parent does not, because blocks rotate against each other around a job (section 7).
                let mut first_link = (parent < self.links.len()).then_some(parent);
                while let Some(w) = open.pop() {
                    if w < self.links.len() {
                        if let Some(first) = first_link {
                            // A lone edge holds one link only, so this unites nothing for it.
                            sets.union(first, w);
                        }
                        first_link = Some(w);
                    }
                    if w == v {
                        break;
                    }
                }
            }
        }
    }
}

/// Rotations of one jointly solved set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The jobs, as indices.
    pub jobs: Vec<usize>,
    /// Rotation of each in ticks, alike.
    pub rotations: Vec<u64>,
}

/// One time-shift per job from the rotations of the sets: Algorithm 1 of the paper with sets for
/// links: each set is rotated as a whole until the job through which it was reached stands where it already
/// stands. The first job of each component gets 0; jobs in no set get 0. `periods` is indexed by job, in ticks.
#[must_use]
pub fn compose(periods: &[u64], sets: &[Rotated]) -> Vec<u64> {
    let jobs = periods.len();
    let mut of_job: Vec<Vec<usize>> = vec![Vec::new(); jobs];
    for (s, set) in sets.iter().enumerate() {
        for &j in &set.jobs {
            of_job[j].push(s);
        }
    }
    let mut shift: Vec<Option<u64>> = vec![None; jobs];
    let mut done = vec![false; sets.len()];
    for root in 0..jobs {
        if shift[root].is_some() {
            continue;
        }
        // A component can be rotated as a whole, so its first job may stand at 0.
        shift[root] = Some(0);
        let mut queue = vec![root];
        // On a forest each job is reached by one path only, so the order of the walk changes no shift.
        while let Some(j) = queue.pop() {
            for &s in &of_job[j] {
                // Two sets share at most one job (docs/model.md, section 7), so a set is entered through one job only.
                if core::mem::replace(&mut done[s], true) {
                    continue;
                }
                let set = &sets[s];
                // The set names `j`, because `of_job` led here; the rotation of the set is `t_j` less this rotation.
                let anchor = set.jobs.iter().position(|&k| k == j).map_or(0, |i| set.rotations[i]);
                let t_j = shift[j].unwrap_or(0);
                for (&k, &rotation) in set.jobs.iter().zip(&set.rotations) {
                    if shift[k].is_none() {
                        // Modulo its own period each part may be taken first; the sums stay small.
                        let t = periods[k];
                        shift[k] = Some((t_j % t + t - anchor % t + rotation % t) % t);
                        queue.push(k);
                    }
                }
            }
        }
    }
    shift.into_iter().map(|s| s.unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_solved_link_by_link_and_a_triangle_at_once() {
        assert_eq!(coupled_groups(4, &[vec![0, 1], vec![1, 2], vec![2, 3]]), [[0], [1], [2]]);
        assert_eq!(coupled_groups(3, &[vec![0, 1], vec![1, 2], vec![0, 2]]), [[0, 1, 2]]);
        // Two triangles that meet in job 2 rotate against each other freely.
        let bow_tie = [vec![0, 1], vec![1, 2], vec![0, 2], vec![2, 3], vec![3, 4], vec![2, 4]];
        assert_eq!(coupled_groups(5, &bow_tie), [[0, 1, 2], [3, 4, 5]]);
        // Two loops that share link 0 are one problem.
        let shared = [vec![0, 1, 2, 3], vec![0, 1], vec![2, 3], vec![3, 4]];
        assert_eq!(coupled_groups(5, &shared), [vec![0, 1, 2], vec![3]]);
        // A pendant link on a loop stays apart.
        assert_eq!(coupled_groups(3, &[vec![0, 1], vec![0, 1], vec![1, 2]]), [vec![0, 1], vec![2]]);
    }

    /// The worked example of the paper's figures 7 and 8: t2 = -t1(l1) + t2(l1),
    /// t3 = t2 - t2(l2) + t3(l2), each modulo the job's period.
    #[test]
    fn paper_section_4_1_worked_example() {
        let sets = [Rotated { jobs: vec![0, 1], rotations: vec![10, 70] }, Rotated { jobs: vec![1, 2], rotations: vec![20, 5] }];
        let periods = [100, 80, 60];
        // t2 = 0 - 10 + 70 = 60; t3 = 60 - 20 + 5 = 45.
        assert_eq!(compose(&periods, &sets), [0, 60, 45]);
    }
}
