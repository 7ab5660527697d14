//! Jobs that meet, directly or through others, on links that can be over capacity.
//!
//! Components are solved one by one: no shift in one changes a score in another. A component's [`Content`]
//! names neither jobs nor links, so that equal ones, in one candidate or in several, are solved once.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use circle::{Member, Phase, Problem, ProblemBuilder, ProblemError};
use num_integer::gcd;
use petgraph::unionfind::UnionFind;

use units::{JobId, Nanos, Rate, Ticks};

use crate::{
    classes::{Class, Classes},
    slot,
};

/// A class of links inside a component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ContentLink {
    /// (job of the component, index of the demand).
    pub(crate) members: Vec<(u32, u32)>,
    /// Mbit/s.
    pub(crate) capacity: u64,
    /// How many links it stands for, divided by the greatest common divisor over the component: the mean over
    /// the component is the same, and one copy does where all classes are equally large. A link of one job has
    /// weight 0: it limits the job, but it is no shared link.
    pub(crate) weight: u32,
}

/// What a solver needs to know of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content {
    /// Scheduled period of each job in nanoseconds.
    pub(crate) periods: Vec<u64>,
    /// Its iteration alone, within which its phases lie. Empty in a coupled group, whose shifts do not depend on it.
    pub(crate) iterations: Vec<u64>,
    /// GPUs of each job: the jobs to hold depend on them. Empty in a coupled group, whose shifts do not.
    pub(crate) gpus: Vec<u32>,
    /// Jobs that run free, whatever holding them would bring. Empty in a coupled group, as `gpus`.
    pub(crate) free: Vec<bool>,
    pub(crate) links: Vec<ContentLink>,
}

impl Content {
    /// The shared links as a circle problem with ticks of one nanosecond, as many copies of each as its weight; on failure, at which
    /// link. `phases` are those of a demand.
    pub(crate) fn problem<'p>(&self, phases: impl Fn(u32) -> &'p [Phase]) -> Result<Problem, (Option<usize>, ProblemError)> {
        let mut builder = ProblemBuilder::new();
        for period in &self.periods {
            builder.job(Ticks(*period)).map_err(|e| (None, e))?;
        }
        // A job demands the same of many links: hand each demand to the builder once.
        let mut known: BTreeMap<(u32, u32), Member> = BTreeMap::new();
        for (i, link) in self.links.iter().enumerate().filter(|(_, l)| l.weight > 0) {
            let mut members = Vec::with_capacity(link.members.len());
            for &(job, demand) in &link.members {
                let member = match known.get(&(job, demand)) {
                    Some(member) => *member,
                    None => builder.demand(JobId(job), phases(demand)).map_err(|e| (Some(i), e))?,
                };
                known.insert((job, demand), member);
                members.push(member);
            }
            for _ in 0..link.weight {
                builder.link(Rate(link.capacity), members.clone()).map_err(|e| (Some(i), e))?;
            }
        }
        Ok(builder.build())
    }

    /// Per link, the first of its copies in [`Content::problem`]; `None` for a link of one job.
    pub(crate) fn first_copies(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        let mut copies = 0;
        self.links.iter().map(move |link| {
            let first = copies;
            copies += link.weight as usize;
            (link.weight > 0).then_some(first)
        })
    }

    /// Which link the link of that number in [`Content::problem`] is a copy of.
    pub(crate) fn link_of_copy(&self, copy: usize) -> Option<usize> {
        let mut before = 0;
        self.links.iter().position(|l| {
            // Copies of a link stand side by side, in order of link (`problem`), so a running sum tells where each ends.
            before += l.weight as usize;
            copy < before
        })
    }
}

/// A component of one candidate.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) content: Content,
    /// The jobs, ascending; parallel to [`Content::periods`].
    pub(crate) jobs: Vec<u32>,
    /// Index of the class of each of [`Content::links`].
    pub(crate) classes: Vec<u32>,
}

/// Splits the classes into components, in order of their first job; `iterations`, `gpus` and `free` are indexed by job. The jobs of a
/// component get one headroom, so that their periods keep their ratio.
pub(crate) fn components(classes: &Classes, iterations: &[u64], gpus: &[u32], free: &[bool], headroom_permille: u32) -> Vec<Component> {
    const NONE: u32 = u32::MAX;
    let mut joined: UnionFind<u32> = UnionFind::new(iterations.len());
    let mut hot = vec![false; iterations.len()];
    for class in &classes.classes {
        let members = classes.members_of(class);
        for m in members {
            hot[m.job as usize] = true;
            joined.union(members[0].job, m.job);
        }
    }
    let mut component_of_root = vec![NONE; iterations.len()];
    let mut local = vec![NONE; iterations.len()];
    let mut out: Vec<Component> = Vec::new();
    // Jobs come in ascending order, so components are in order of their first job, and equal ones get equal local numbers.
    for job in (0..iterations.len() as u32).filter(|j| hot[*j as usize]) {
        let root = joined.find_mut(job) as usize;
        if component_of_root[root] == NONE {
            component_of_root[root] = out.len() as u32;
            out.push(Component { content: Content::default(), jobs: Vec::new(), classes: Vec::new() });
        }
        let component = &mut out[component_of_root[root] as usize];
        local[job as usize] = component.jobs.len() as u32;
        component.jobs.push(job);
        component.content.iterations.push(iterations[job as usize]);
        component.content.gpus.push(gpus[job as usize]);
        component.content.free.push(free[job as usize]);
    }
    for (i, class) in classes.classes.iter().enumerate() {
        // All members of a class are in one component, so the first stands for them.
        let root = joined.find_mut(classes.members_of(class)[0].job) as usize;
        let component = &mut out[component_of_root[root] as usize];
        component.content.links.push(content_link(classes, class, |job| local[job as usize]));
        component.classes.push(i as u32);
    }
    for component in &mut out {
        let content = &mut component.content;
        // Contents are compared as wholes: reduced weights make components equal that have the same links in the same ratio.
        reduce_weights(&mut content.links);
        // The periods of a component are made together, so that one rounding serves all and their ratios stay.
        let solos: Vec<Nanos> = content.iterations.iter().copied().map(Nanos).collect();
        content.periods = slot::periods(&solos, headroom_permille).into_iter().map(|p| p.0).collect();
    }
    out
}

/// All classes as the links of one component whose jobs keep their numbers.
pub(crate) fn content_links(classes: &Classes) -> Vec<ContentLink> {
    let mut links: Vec<ContentLink> = classes.classes.iter().map(|class| content_link(classes, class, |job| job)).collect();
    reduce_weights(&mut links);
    links
}

fn content_link(classes: &Classes, class: &Class, local: impl Fn(u32) -> u32) -> ContentLink {
    let members: Vec<_> = classes.members_of(class).iter().map(|m| (local(m.job), m.demand)).collect();
    // A link of one job has no part in the mean score, so no copies of it are solved.
    let weight = if members.len() < 2 { 0 } else { class.links.end - class.links.start };
    ContentLink { members, capacity: class.capacity, weight }
}

/// Divides the weights by their greatest common divisor.
pub(crate) fn reduce_weights(links: &mut [ContentLink]) {
    let common = links.iter().fold(0, |g, l| gcd(g, l.weight)).max(1);
    links.iter_mut().for_each(|l| l.weight /= common);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Member;
    use units::LinkId;

    #[test]
    fn jobs_that_meet_through_others_are_one_component_and_weights_are_reduced() {
        let m = |job, demand| Member { job, demand };
        let pool = [m(0, 5), m(2, 6), m(2, 6), m(4, 5), m(1, 9), m(3, 9), m(4, 9)];
        // Links 0-3 carry jobs 0 and 2; links 4 and 5 carry 2 and 4; link 6 carries 1 and 3; link 7 carries only 4.
        let mut hot: Vec<_> = (0..4).map(|l| (LinkId(l), 10, 0..2)).collect();
        hot.extend([(LinkId(5), 10, 2..4), (LinkId(4), 10, 2..4), (LinkId(6), 10, 4..6), (LinkId(7), 8, 6..7)]);
        let classes = Classes::group(&pool, &mut hot);
        let found = components(&classes, &[100, 101, 102, 103, 104], &[1, 2, 3, 4, 5], &[false, false, true, false, false], 0);
        assert_eq!(found.iter().map(|c| c.jobs.clone()).collect::<Vec<_>>(), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(found[0].content.periods, [100, 102, 104]);
        assert_eq!((&found[0].content.gpus[..], &found[0].content.free[..]), (&[1, 3, 5][..], &[false, true, false][..]));
        let shape: Vec<_> = found[0].content.links.iter().map(|l| (l.members.clone(), l.capacity, l.weight)).collect();
        // Four links to two links reduce to 2 to 1; the link of one job has no weight.
        assert_eq!(shape, [(vec![(0, 5), (1, 6)], 10, 2), (vec![(1, 6), (2, 5)], 10, 1), (vec![(2, 9)], 8, 0)]);
        assert_eq!(classes.links_of(&classes.classes[found[0].classes[1] as usize]), [LinkId(4), LinkId(5)]);
    }
}
