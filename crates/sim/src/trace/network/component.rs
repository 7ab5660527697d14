//! Senders that meet, directly or through others, on links that they can exceed, and what of them decides how they fare.
//!
//! Two components of equal content fare alike, wherever on the fabric they stand, so what was played of one holds for the other.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use core::hash::{Hash, Hasher};

use circle::Phase;
use fluid::{FluidJob, FluidLink};
use job::Hold;
use plan::can_exceed;
use units::{LinkId, Nanos, Rate};

use super::sender::Sender;

/// What jobs demand of a link, by job.
type Demands = Vec<(u32, Vec<Phase>)>;

/// All that decides how the jobs of a component fare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Content {
    /// Each job.
    pub(super) jobs: Vec<ContentJob>,
    /// Capacity and demands, by job, of each link that the jobs can exceed; sorted.
    pub(super) links: Vec<(u64, Demands)>,
}

/// A job of a component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ContentJob {
    /// One iteration on a network that is in nobody's way.
    pub(super) period: u64,
    gpus: u32,
    /// From when to when it sends, on whatever link: a job asks for each turn.
    ups: Vec<(u64, u64)>,
    /// Whether it waits for nobody, because its agent is down.
    is_free: bool,
}

impl Hash for ContentJob {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { period, gpus, ups, is_free } = self;
        (period, gpus, ups).hash(state);
        // The seed of a play hangs on this, and that of a component without faults should be the same as in a world without any.
        if *is_free {
            is_free.hash(state);
        }
    }
}

/// Senders that meet.
#[derive(Debug)]
pub(super) struct Component {
    /// Indices of the senders, in the order of the content.
    pub(super) members: Vec<usize>,
    pub(super) content: Content,
}

/// The components of these senders; who meets nobody, and exceeds nothing alone, is in none. With them the number of links that two or
/// more share.
pub(super) fn components(senders: &[Arc<Sender>], capacity: impl Fn(LinkId) -> u64) -> (Vec<Component>, usize) {
    let mut on: BTreeMap<LinkId, Vec<(usize, u32)>> = BTreeMap::new();
    for (at, sender) in senders.iter().enumerate() {
        sender.demands.links.iter().for_each(|&(link, demand)| on.entry(link).or_default().push((at, demand)));
    }
    let shared = on.values().filter(|jobs| jobs.len() > 1).count();
    on.retain(|link, jobs| can_exceed(jobs.iter().map(|(at, demand)| senders[*at].peaks[*demand as usize]), capacity(*link)));
    let mut sets = Sets::new(senders.len());
    for jobs in on.values() {
        jobs.windows(2).for_each(|pair| sets.join(pair[0].0, pair[1].0));
    }
    let mut links_of: BTreeMap<usize, Vec<LinkId>> = BTreeMap::new();
    for (link, jobs) in &on {
        links_of.entry(sets.root(jobs[0].0)).or_default().push(*link);
    }
    let mut members: BTreeMap<usize, Vec<usize>> = links_of.keys().map(|root| (*root, Vec::new())).collect();
    for at in 0..senders.len() {
        if let Some(members) = members.get_mut(&sets.root(at)) {
            members.push(at);
        }
    }
    let whole = |(root, members): (usize, Vec<usize>)| {
        let links: Vec<(u64, &Vec<(usize, u32)>)> = links_of[&root].iter().map(|link| (capacity(*link), &on[link])).collect();
        component(senders, members, &links)
    };
    (members.into_iter().map(whole).collect(), shared)
}

/// Puts the members in an order that follows from what they send, as far as that tells them apart.
fn component(senders: &[Arc<Sender>], mut members: Vec<usize>, links: &[(u64, &Vec<(usize, u32)>)]) -> Component {
    let levels = |at: usize, demand: u32| senders[at].demands.demands[demand as usize].as_slice();
    // By member: what it demands of each link, in an order of its own.
    let mut own: BTreeMap<usize, Vec<(u64, &[Phase])>> = BTreeMap::new();
    for (capacity, jobs) in links {
        jobs.iter().for_each(|&(at, demand)| own.entry(at).or_default().push((*capacity, levels(at, demand))));
    }
    own.values_mut().for_each(|demands| demands.sort_unstable());
    let job = |at: &usize| {
        let job = &senders[*at].job;
        let ups = job.phases.iter().map(|phase| (phase.start.0, phase.end.0)).collect();
        ContentJob { period: job.period.0, gpus: job.gpus, ups, is_free: job.hold == Hold::Never }
    };
    members.sort_by_cached_key(|at| (job(at), own.get(at)));
    let places: BTreeMap<usize, u32> = members.iter().copied().zip(0..).collect();
    let link = |(capacity, jobs): &(u64, &Vec<(usize, u32)>)| {
        let mut demands: Demands = jobs.iter().filter_map(|&(at, demand)| Some((*places.get(&at)?, levels(at, demand).to_vec()))).collect();
        demands.sort_unstable();
        (*capacity, demands)
    };
    let mut links: Vec<_> = links.iter().map(link).collect();
    links.sort_unstable();
    Component { content: Content { jobs: members.iter().map(job).collect(), links }, members }
}

impl Content {
    /// What each job takes alone where it stands: longer than its period where it exceeds a link by itself.
    pub(super) fn alone(&self) -> Vec<Nanos> {
        let of = |(at, job): (u32, &ContentJob)| {
            let own = self.links.iter().filter_map(|(capacity, demands)| {
                let (_, phases) = demands.iter().find(|(job, _)| *job == at)?;
                can_exceed(phases.iter().map(|p| p.rate.0).max().into_iter(), *capacity)
                    .then(|| FluidLink { capacity: Rate(*capacity), demands: alloc::vec![(0, phases.as_slice())] })
            });
            let links: Vec<FluidLink<'_>> = own.collect();
            let period = Nanos(job.period);
            fluid::solo(&[FluidJob { iteration: period, period, shift: Nanos(0) }], &links)
                .first()
                .map_or(period, |solo| (*solo).max(period))
        };
        (0..).zip(&self.jobs).map(of).collect()
    }

    /// A seed of its own, so that equal contents are played alike and others are not.
    pub(super) fn seed(&self, seed: u64) -> u64 {
        let mut hash = Fnv(units::FNV_OFFSET ^ seed);
        self.hash(&mut hash);
        hash.finish()
    }
}

/// A hasher that is equal on every machine.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = units::fnv1a(self.0, bytes);
    }
}

/// Sets that are joined.
struct Sets {
    parents: Vec<usize>,
}

impl Sets {
    fn new(n: usize) -> Self {
        Self { parents: (0..n).collect() }
    }

    fn root(&mut self, mut at: usize) -> usize {
        // Each step halves the way, and parents are never above their children.
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        let (low, high) = (a.min(b), a.max(b));
        self.parents[high] = low;
    }
}
