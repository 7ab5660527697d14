//! Jobs of a trace on a fabric: where they stand, whom they meet there, and how much longer their iterations are.
//!
//! The rules. After each decision every group that stands on several hosts is a [`Sender`]. Senders that can exceed a link together are a
//! component; what becomes of it is played once in the testbed and remembered by content, so a month in which the same jobs meet again
//! and again costs one play. A job's iterations are then longer by the mean that was played, until a decision changes its component.
//! The planner's own prediction stands beside each play, and the difference is told.
//!
//! Where a group is new, the ranker chooses among candidate places ([`Placer::candidates`]); who runs already is moved only where that was asked
//! for (`moves.rs`).

mod busy;
mod component;
mod foresee;
mod groups;
mod moves;
mod naming;
mod outcome;
mod paper;
mod play;
mod sender;
mod snapshot;
#[cfg(test)]
mod tests;
mod trust;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec,
    vec::Vec,
};

use fabric::{Fabric, route::Router};
use plan::turns::SEARCHED_JOBS_MAX;
use policy::{
    muri::{Order, Profile, Stages},
    schedule::{CANDIDATES, Capacity, Cluster, Decision, Job, JobIndex, Place, Placer, Rule, Unplaced},
};

use units::{LinkId, Nanos};

use crate::testbed::Case;

pub(super) use self::foresee::{Foreseer, Standing};
pub(super) use self::groups::Worth;
use self::{
    busy::Busy,
    component::{Component, Content, components},
    moves::Moves,
    naming::Naming,
    paper::paper,
    play::{Forecast, PLAYED_ALWAYS, Play, Played, Shifted, forecast, is_played, sim_job},
    sender::{Hosts, Part, Sender, Unsent, nanos, ups},
};
pub use self::{
    busy::LinkStay,
    outcome::NetworkOutcome,
    snapshot::{SnapshotJob, SnapshotOutcome, snapshot},
};
use super::{Trace, Traffic};

/// Most different meetings of jobs that are remembered: some hundred bytes for each of their jobs.
const MEETINGS_MAX: usize = 100_000;

/// What a group that would stand still costs a place, in millionths of an iteration of a GPU: more than all that run together, of a million GPUs.
const CUT_COST: i64 = 1 << 50;

/// Who chooses among candidate places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranker {
    /// Nobody: groups are packed as close as they go.
    #[default]
    None,
    /// Nobody, and they are put anywhere.
    Random,
    /// The CASSINI paper: the highest mean score by its rules; a candidate whose graph has a loop is left out.
    Cassini,
    /// The planner: the shortest predicted iterations under the control, weighted by GPUs, where they are shorter than those of the most compact
    /// candidate by more than predictions are off (`trust.rs`).
    Antiphase,
}

/// What keeps jobs apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkControl {
    /// Nothing has to: every job has the network to itself, where it stands.
    Ideal,
    /// Nothing.
    #[default]
    Free,
    /// The CASSINI paper's: shifts, and a correction where a job has drifted.
    Paper,
    /// Slots.
    Slots,
    /// Turns.
    Turns,
}

/// The fabric of a cluster, and what is done about it.
#[derive(Clone, Copy, Debug)]
pub struct NetworkSetup<'a> {
    /// Routes of the fabric. Host `i` of the cluster is its `i`-th host.
    pub router: &'a Router<'a>,
    /// Who chooses among places.
    pub ranker: Ranker,
    /// What keeps jobs apart.
    pub control: NetworkControl,
    /// Whether jobs that run are moved where the planner predicts that to be worth their restarts; only [`Ranker::Antiphase`] moves anybody.
    pub moves: bool,
    /// Of all random numbers.
    pub seed: u64,
}

/// What a group is told apart by: its jobs, the bits of its iteration, and its GPUs.
type Key = (Vec<JobIndex>, u64, Vec<(u32, u32)>);

/// A group on its GPUs; no sender where it has nothing to send.
#[derive(Clone, Debug)]
struct Stand {
    parts: Vec<Part>,
    sender: Option<Arc<Sender>>,
    /// Whether it stands still, because a flow of it has no route.
    is_cut: bool,
}

/// The groups that run.
type Stands = BTreeMap<Key, Stand>;
/// How many groups have each GPU, by host.
type Uses = Vec<Vec<u16>>;

/// A component that was played.
#[derive(Debug)]
struct Known {
    played: Played,
    forecast: Arc<Forecast>,
    /// Per job: what it takes alone where it stands, over its iteration, and in seconds.
    longer: Vec<f64>,
    alone_s: Vec<f64>,
    /// Iterations that each of its jobs did so far.
    iterations: Vec<f64>,
}

/// The network of a trace.
#[derive(Debug)]
pub(super) struct Network<'a> {
    setup: NetworkSetup<'a>,
    hosts: Hosts<'a>,
    profiles: &'a [Profile],
    /// Whether jobs of a group are one sender, and in which order.
    joint: Option<Order>,
    /// How many groups have each GPU, by host.
    gpus: Uses,
    stands: Stands,
    forecasts: BTreeMap<Content, Arc<Forecast>>,
    known: Vec<Known>,
    remembered: BTreeMap<Content, usize>,
    /// The place in `known` of the last component that was played though it is one of those of which few are.
    large: Option<usize>,
    /// By job: its place in `known`, and in that component.
    meets: Vec<Option<(usize, usize)>>,
    /// By job: whether it sends.
    sends: Vec<bool>,
    /// By job: whether it stands still.
    cut: Vec<bool>,
    /// Routes or agents are others than when `stands` was made.
    rerouted: bool,
    /// Iterations of senders that met nobody, and the time that these take.
    undisturbed: (f64, f64),
    /// Components that were met again.
    again: u64,
    busy: Busy,
    moves: Moves,
    naming: Naming,
    /// Whole hosts, for policies whose hosts are names.
    lodger: Placer,
}

impl<'a> Network<'a> {
    /// # Errors
    /// The fabric has fewer hosts than the cluster, or a link of unknown capacity.
    pub(super) fn new(trace: &'a Trace, capacity: &Capacity, rule: Rule, setup: NetworkSetup<'a>) -> Result<Self, String> {
        let fabric = setup.router.fabric();
        if let Some(link) = fabric.links().iter().zip(0..).find(|(link, _)| link.capacity.is_none()) {
            return Err(format!("link {} has no capacity", fabric.link_name(LinkId(link.1))));
        }
        let has = fabric.hosts().count();
        let hosts = Hosts::new(setup.router, capacity.full().to_vec())
            .ok_or_else(|| format!("the fabric has {has} hosts, the cluster {}", capacity.full().len()))?;
        let count = capacity.full().len() as u32;
        let lodger = Placer::new(Cluster { hosts: count, gpus_per_host: 1 }, &hosts.leaves());
        let joint = match rule {
            Rule::Muri(options) => Some(options.order),
            _ => None,
        };
        Ok(Self {
            setup,
            hosts,
            profiles: &trace.profiles,
            joint,
            gpus: capacity.full().iter().map(|gpus| vec![0; *gpus as usize]).collect(),
            stands: BTreeMap::new(),
            forecasts: BTreeMap::new(),
            known: Vec::new(),
            remembered: BTreeMap::new(),
            large: None,
            meets: vec![None; trace.jobs.len()],
            sends: vec![false; trace.jobs.len()],
            cut: vec![false; trace.jobs.len()],
            rerouted: false,
            undisturbed: (0.0, 0.0),
            again: 0,
            busy: Busy::new(fabric.links().len()),
            moves: Moves::default(),
            naming: Naming::new(count),
            lodger,
        })
    }

    /// The leaf of each host.
    pub(super) fn leaves(&self) -> Vec<u32> {
        self.hosts.leaves()
    }

    pub(super) fn fabric(&self) -> &'a Fabric {
        self.hosts.fabric()
    }

    /// From now on these links carry nothing, and these hosts have no agent.
    pub(super) fn reroute(&mut self, down: &BTreeSet<LinkId>, mute: BTreeSet<u32>) {
        // Who is held by nobody misses no agent.
        let holds = !matches!(self.setup.control, NetworkControl::Ideal | NetworkControl::Free);
        self.hosts.reroute(down, if holds { mute } else { BTreeSet::new() });
        self.rerouted = true;
    }

    /// Places the groups that have no place, beside those of `decision` that have one.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(super) fn choose(
        &mut self,
        (trace, jobs): (&Trace, &[Job]),
        decision: &Decision,
        placer: &Placer,
        unplaced: &[Unplaced],
        turn: u64,
    ) -> Result<Vec<Place>, String> {
        if unplaced.is_empty() {
            return Ok(Vec::new());
        }
        let seed = self.setup.seed ^ turn.rotate_left(32);
        let wanted = match self.setup.ranker {
            Ranker::Random => return Ok(placer.scatter(unplaced, seed)),
            Ranker::None => 1,
            Ranker::Cassini | Ranker::Antiphase => CANDIDATES,
        };
        let mut candidates = placer.candidates(unplaced, wanted, seed);
        if candidates.len() < 2 || self.setup.control == NetworkControl::Ideal {
            return Ok(candidates.into_iter().next().unwrap_or_default());
        }
        let mut costs = Vec::with_capacity(candidates.len());
        for places in &candidates {
            let mut whole = decision.clone();
            whole.places.extend(places);
            let stands = self.stand(trace, jobs, &whole)?.0;
            costs.push(self.cost(&stands)?);
        }
        let gpus = unplaced.iter().fold(0, |sum: u32, group| sum.saturating_add(group.gpus));
        Ok(candidates.swap_remove(self.taken(&costs, gpus)))
    }

    /// What a placement costs by the ranker, in millionths; the largest number for one that is left out.
    fn cost(&mut self, stands: &Stands) -> Result<i64, String> {
        let senders: Vec<Arc<Sender>> = stands.values().filter_map(|stand| stand.sender.clone()).collect();
        let rounded = |cost: f64| (cost * 1e6) as i64;
        let (components, shared) = components(&senders, |link| self.capacity(link));
        let (mut longer, mut loss) = (0.0, 0.0);
        // Links that cannot be exceeded score 1.
        let mut below = 0.0;
        for component in components {
            let said = self.forecast(&senders, &component)?;
            longer += said.longer;
            loss += said.loss;
            match &said.paper {
                Some(paper) => below += paper.links as f64 - paper.scores,
                None if self.setup.ranker == Ranker::Cassini => return Ok(i64::MAX),
                None => {}
            }
        }
        let cut = stands.values().filter(|stand| stand.is_cut).count() as i64;
        let cost = rounded(match (self.setup.ranker, self.setup.control) {
            (Ranker::Cassini, _) => below / shared.max(1) as f64,
            // The paper's control has no prediction of times, and is judged by scores.
            (_, NetworkControl::Paper) => loss,
            _ => longer,
        });
        Ok(cost.saturating_add(cut.saturating_mul(CUT_COST)))
    }

    /// The speeds of the jobs that run now: their iterations in `decision` become longer.
    ///
    /// # Errors
    /// What the planner or the testbed refuses.
    pub(super) fn refresh(&mut self, trace: &Trace, jobs: &[Job], decision: &mut Decision) -> Result<(), String> {
        let keys = self.keys(decision);
        // Most decisions change nothing: a lease ended, and its job stays.
        if self.rerouted || keys.len() != self.stands.len() || !keys.iter().all(|(_, key)| self.stands.contains_key(key)) {
            self.meet(trace, jobs, decision)?;
        }
        for run in &mut decision.runs {
            if self.cut[run.job as usize] {
                run.iteration_s = f64::INFINITY;
            }
            if let Some((at, place)) = self.meets[run.job as usize] {
                run.iteration_s *= self.known[at].longer[place] * self.known[at].played.means[place];
            }
        }
        Ok(())
    }

    /// Finds out who meets whom from now on.
    fn meet(&mut self, trace: &Trace, jobs: &[Job], decision: &Decision) -> Result<(), String> {
        (self.stands, self.gpus) = self.stand(trace, jobs, decision)?;
        self.rerouted = false;
        self.meets.fill(None);
        self.sends.fill(false);
        self.cut.fill(false);
        let (mut senders, mut names): (Vec<Arc<Sender>>, Vec<Vec<JobIndex>>) = (Vec::new(), Vec::new());
        for ((members, ..), stand) in &self.stands {
            members.iter().for_each(|job| self.cut[*job as usize] = stand.is_cut);
            let Some(sender) = &stand.sender else { continue };
            members.iter().for_each(|job| self.sends[*job as usize] = true);
            senders.push(Arc::clone(sender));
            names.push(members.clone());
        }
        let mut longer = vec![1.0; senders.len()];
        for component in components(&senders, |link| self.capacity(link)).0 {
            let at = self.known(&senders, &component)?;
            for (place, member) in component.members.iter().enumerate() {
                longer[*member] = self.known[at].longer[place] * self.known[at].played.means[place];
                names[*member].iter().for_each(|job| self.meets[*job as usize] = Some((at, place)));
            }
        }
        let members = names.iter().map(Vec::as_slice);
        self.busy.send(senders.iter().zip(longer).zip(members).map(|((sender, longer), jobs)| (sender.as_ref(), longer, jobs)));
        Ok(())
    }

    /// So much time passed in which nothing changed.
    pub(super) fn pass(&mut self, seconds: f64) {
        self.busy.pass(seconds);
    }

    /// Counts iterations that a job did.
    pub(super) fn credit(&mut self, job: JobIndex, iterations: f64, iteration_s: f64) {
        match self.meets[job as usize] {
            Some((at, place)) => self.known[at].iterations[place] += iterations,
            None if self.sends[job as usize] => {
                self.undisturbed = (self.undisturbed.0 + iterations, self.undisturbed.1 + iterations * iteration_s);
            }
            None => {}
        }
    }

    /// The senders of a decision that have GPUs, each with the group whose GPUs these are.
    fn keys(&self, decision: &Decision) -> Vec<(u32, Key)> {
        let mut places: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        decision.places.iter().for_each(|place| places.entry(place.group).or_default().push((place.host, place.gpus)));
        places.values_mut().for_each(|parts| parts.sort_unstable());
        let mut groups: BTreeMap<u32, Vec<&policy::schedule::Run>> = BTreeMap::new();
        for run in &decision.runs {
            // Jobs that share GPUs without an order of their own are senders each for itself; keys beyond all groups tell them apart.
            groups.entry(if self.joint.is_some() { run.group } else { run.job }).or_default().push(run);
        }
        let mut keys: Vec<(u32, Key)> = Vec::with_capacity(groups.len());
        for runs in groups.values() {
            let group = runs[0].group;
            let Some(parts) = places.get(&group) else { continue };
            let mut members: Vec<JobIndex> = runs.iter().map(|run| run.job).collect();
            members.sort_unstable();
            keys.push((group, (members, runs[0].iteration_s.to_bits(), parts.clone())));
        }
        keys
    }

    /// The groups of a decision on their GPUs, and how many groups then have each GPU. Those that stand as before keep their GPUs.
    fn stand(&self, trace: &Trace, jobs: &[Job], decision: &Decision) -> Result<(Stands, Uses), String> {
        let keys = self.keys(decision);
        let mut gpus: Uses = self.gpus.iter().map(|gpus| vec![0; gpus.len()]).collect();
        let mut stands = Stands::new();
        // Jobs that share GPUs as one group are on the very same ones, which count once.
        let mut of_group: BTreeMap<u32, Vec<Part>> = BTreeMap::new();
        for (group, key) in &keys {
            let Some(stand) = self.stands.get(key) else { continue };
            match of_group.get(group) {
                Some(parts) if *parts != stand.parts => continue,
                Some(_) => {}
                None => {
                    for (host, own) in &stand.parts {
                        own.iter().for_each(|gpu| count(&mut gpus[*host as usize], usize::from(*gpu)));
                    }
                    of_group.insert(*group, stand.parts.clone());
                }
            }
            let stand = if self.rerouted { self.settle(trace, jobs, key, stand.parts.clone())? } else { stand.clone() };
            stands.insert(key.clone(), stand);
        }
        for (group, key) in keys {
            if stands.contains_key(&key) {
                continue;
            }
            let take = || key.2.iter().map(|&(host, wanted)| (host, least_used(&mut gpus[host as usize], wanted))).collect();
            let parts: Vec<Part> = of_group.entry(group).or_insert_with(take).clone();
            let stand = self.settle(trace, jobs, &key, parts)?;
            stands.insert(key, stand);
        }
        Ok((stands, gpus))
    }

    /// A group on these GPUs.
    fn settle(&self, trace: &Trace, jobs: &[Job], key: &Key, parts: Vec<Part>) -> Result<Stand, String> {
        match self.sender(trace, jobs, key, &parts) {
            Ok(sender) => Ok(Stand { parts, sender: sender.map(Arc::new), is_cut: false }),
            Err(Unsent::Cut) => Ok(Stand { parts, sender: None, is_cut: true }),
            Err(Unsent::Refused(problem)) => Err(problem),
        }
    }

    fn sender(&self, trace: &Trace, jobs: &[Job], (members, iteration, places): &Key, parts: &[Part]) -> Result<Option<Sender>, Unsent> {
        let iteration_s = f64::from_bits(*iteration);
        let Some(&first) = members.first() else { return Ok(None) };
        // A job that has grown has more than it asked for.
        let gpus = places.iter().map(|(_, gpus)| gpus).sum();
        // Phases that a trace tells are those of as many ranks as the job asked for.
        if let ([_], Some(traffic)) = (members.as_slice(), trace.traffic_of(first).filter(|_| gpus == jobs[first as usize].gpus)) {
            return self.hosts.of_traffic(traffic, nanos(iteration_s), gpus, parts);
        }
        let stages: Vec<Stages> = members.iter().map(|job| self.profiles[usize::from(jobs[*job as usize].profile)].stages).collect();
        let ups = ups(&stages, iteration_s, self.joint.unwrap_or_default());
        self.hosts.of_ups(nanos(iteration_s), &ups, gpus, parts)
    }

    fn capacity(&self, link: LinkId) -> u64 {
        // `new` refused a fabric with a link of unknown capacity.
        self.hosts.fabric().capacity(link).map_or(0, |rate| rate.0)
    }

    /// What the planner says of a component, asked once for each content.
    fn forecast(&mut self, senders: &[Arc<Sender>], component: &Component) -> Result<Arc<Forecast>, String> {
        if let Some(said) = self.forecasts.get(&component.content) {
            return Ok(Arc::clone(said));
        }
        let members: Vec<&Sender> = component.members.iter().map(|at| senders[*at].as_ref()).collect();
        let alone = component.content.alone();
        let tries = self.tries_turns(&component.content);
        let mut said = forecast(&members, &alone, (self.setup.control, tries), |link| self.capacity(link))?;
        let over = |((job, mean), alone): ((&&Sender, &f64), &Nanos)| {
            f64::from(job.job.gpus) * (mean * alone.0 as f64 / job.job.period.0 as f64 - 1.0)
        };
        said.longer = members.iter().zip(&said.means).zip(&alone).map(over).sum();
        if self.setup.ranker == Ranker::Cassini || self.setup.control == NetworkControl::Paper {
            said.paper = paper(&component.content)?;
        }
        if self.forecasts.len() >= MEETINGS_MAX {
            // Candidates that were not chosen are most of them, and are asked for again if they matter.
            self.forecasts.clear();
        }
        let said = Arc::new(said);
        self.forecasts.insert(component.content.clone(), Arc::clone(&said));
        Ok(said)
    }

    /// Whether the planner is asked who should take turns. Of so many jobs it only compares everybody's turns with nobody's; where the last large
    /// component that was played took none, others that are not played take none either.
    fn tries_turns(&self, content: &Content) -> bool {
        let nobody = self.large.and_then(|at| self.known.get(at)).is_some_and(|like| like.forecast.groups.is_empty());
        content.jobs.len() <= SEARCHED_JOBS_MAX || !nobody || is_played(content.jobs.len(), content.seed(self.setup.seed))
    }

    /// The place in `known` of a component, which is played where nothing is remembered of its content.
    fn known(&mut self, senders: &[Arc<Sender>], component: &Component) -> Result<usize, String> {
        if let Some(&at) = self.remembered.get(&component.content) {
            self.again += 1;
            return Ok(at);
        }
        let forecast = self.forecast(senders, component)?;
        let jobs: Vec<_> = component.members.iter().enumerate().map(|(at, member)| sim_job(at, &senders[*member])).collect();
        if self.known.len() >= MEETINGS_MAX {
            return Err(format!("more than {MEETINGS_MAX} different meetings of jobs"));
        }
        let content = &component.content;
        let alone = content.alone();
        let case = Case { router: self.hosts.router(), jobs: &jobs };
        let seed = content.seed(self.setup.seed);
        let play = Play { case, alone: &alone, control: self.setup.control, forecast: &forecast, seed, shifted: Shifted::Compatible };
        // Ideal is a network on which nobody meets anybody: what jobs take alone where they stand.
        // What the paper's control does is not predicted; and of large components the first is played, like which others are.
        let stands = forecast.means.len() == jobs.len() && !is_played(jobs.len(), seed);
        let played = match (self.setup.control, self.large.and_then(|at| self.known.get(at))) {
            (NetworkControl::Ideal, _) => Played::undisturbed(jobs.len()),
            (_, Some(like)) if stands => Played::predicted(&forecast, &like.played),
            _ => play.play()?,
        };
        if jobs.len() > PLAYED_ALWAYS && played.is_seen {
            self.large = Some(self.known.len());
        }
        let iterations = vec![0.0; jobs.len()];
        let longer = alone.iter().zip(&content.jobs).map(|(alone, job)| alone.0 as f64 / job.period as f64).collect();
        let alone_s = alone.iter().map(|alone| alone.0 as f64 / 1e9).collect();
        self.known.push(Known { played, forecast, longer, alone_s, iterations });
        self.remembered.insert(component.content.clone(), self.known.len() - 1);
        Ok(self.known.len() - 1)
    }
}

/// Takes GPUs of a host, those that the fewest groups have, the lowest of equal ones.
fn least_used(uses: &mut [u16], wanted: u32) -> Vec<u8> {
    let mut order: Vec<usize> = (0..uses.len()).collect();
    order.sort_by_key(|gpu| uses[*gpu]);
    order.truncate(wanted as usize);
    order.sort_unstable();
    order.iter().for_each(|gpu| count(uses, *gpu));
    // A host has at most as many GPUs as a byte counts: the command line's limit is 64.
    order.into_iter().map(|gpu| gpu as u8).collect()
}

/// Counts a group on a GPU. Any number of jobs may take turns on it.
fn count(uses: &mut [u16], gpu: usize) {
    if let Some(uses) = uses.get_mut(gpu) {
        *uses = uses.saturating_add(1);
    }
}

impl Trace {
    /// What a job sends, where its trace says so.
    fn traffic_of(&self, job: JobIndex) -> Option<&Traffic> {
        let traffic = self.jobs.get(job as usize)?.traffic?;
        self.traffic.get(usize::from(traffic))
    }
}

/// A problem of the network as an error of the trace.
pub(super) fn refused(now_s: f64) -> impl Fn(String) -> super::TraceError {
    move |problem| super::TraceError::Network { now_s, problem: problem.to_string() }
}
