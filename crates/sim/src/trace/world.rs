//! The events of a trace.
//!
//! The rules. Jobs arrive when they were submitted and end when their iterations are done. At each of these events, and when
//! the scheduler wants to decide anew, running jobs are credited with the iterations since the last event, and the scheduler decides
//! who runs from now on. A start costs time before the first iteration.
//!
//! In artifact mode the world is that of the Muri authors' simulator: every event costs every running job a restart, also where
//! nothing changes for it, though the next end is predicted without it; and ends that differ by a billionth happen at once.
//! Otherwise only a job that starts, moves or gets other company pays, and pays once; and jobs that the decision leaves alone stay where
//! they are ([`Placer`]), as they do on a fabric in either mode, unless the network moves them (`network/moves.rs`).
//! A policy that shares GPUs among its groups places them itself; on a fabric, which hosts its are is chosen there (`network/naming.rs`).
//!
//! Faults are events too (`fault/mod.rs` has their rules); artifact mode has none.

mod outages;

use alloc::{collections::BTreeMap, vec::Vec};

use fabric::Fabric;
use policy::{
    muri::Timing,
    schedule::{Capacity, Cluster, Decision, Fairness, Job, JobIndex, Placer, Rule, Run, Scheduler, Settings},
};

use self::outages::Outages;
use super::{
    FaultSetup, NetworkSetup, Outcome, Trace, TraceError,
    growth::Growth,
    network::{Network, Worth, refused},
    watch::{Change, Told, TraceEvent, Watcher, tell},
};

/// Times that differ by this share are one event in artifact mode (the default of `math.isclose`).
const SAME: f64 = 1e-9;

/// Seconds between an arrival and an end that Muri's simulator takes for one event.
const MEET_S: f64 = 1e-4;

/// Milliseconds in a second.
const MS: f64 = 1_000.0;

/// What plays a trace.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The cluster.
    pub cluster: Cluster,
    /// The policy.
    pub rule: Rule,
    /// How groups are timed, and which world it is.
    pub timing: Timing,
    /// Its fabric; `None`: the network is in nobody's way.
    pub network: Option<NetworkSetup<'a>>,
    /// What goes wrong; `None`: nothing.
    pub faults: Option<FaultSetup<'a>>,
}

/// What hosts have: of the first ones of a fabric each what it states, and no more of any host than the cluster says.
#[must_use]
pub fn capacity_on(cluster: Cluster, fabric: Option<&Fabric>) -> Capacity {
    let Some(fabric) = fabric else { return cluster.into() };
    let stated = fabric.hosts().map(|host| fabric.gpus(host).and_then(|gpus| gpus.count));
    // A host that is not on the fabric is found missing by who plays the network.
    let all = stated.chain(core::iter::repeat(None)).take(cluster.hosts as usize);
    Capacity::of_hosts(all.map(|count| count.unwrap_or(cluster.gpus_per_host).min(cluster.gpus_per_host)).collect())
}

impl Setup<'_> {
    fn capacity(&self) -> Capacity {
        capacity_on(self.cluster, self.network.map(|network| network.router.fabric()))
    }

    /// Checks that the policy knows what to do with these hosts.
    fn check(&self, capacity: &Capacity) -> Result<(), TraceError> {
        let Some(network) = self.network.filter(|_| self.rule.wants_equal_hosts()) else { return Ok(()) };
        let fabric = network.router.fabric();
        let mut hosts = fabric.hosts().map(|host| fabric.node(host).name.clone()).zip(capacity.full().iter().copied());
        let Some((host, has)) = hosts.next() else { return Ok(()) };
        match hosts.find(|(_, other)| *other != has) {
            Some((other, other_has)) => Err(TraceError::Unequal { host, has, other, other_has }),
            None => Ok(()),
        }
    }
}

/// Finds what would be refused before the first event, without playing.
///
/// # Errors
/// Those of [`run`] that are of the trace, the cluster and the fabric.
pub fn check(trace: &Trace, setup: &Setup<'_>) -> Result<(), TraceError> {
    begin(trace, setup, None).map(drop)
}

/// Plays a trace to its end.
///
/// # Errors
/// [`TraceError`]: a job that the cluster does not hold, or a decision that cannot be carried out.
pub fn run(trace: &Trace, setup: &Setup<'_>) -> Result<Outcome, TraceError> {
    play(trace, setup, None)
}

/// Plays a trace to its end, and tells what happens to its jobs.
///
/// # Errors
/// Those of [`run`].
pub fn run_watched(trace: &Trace, setup: &Setup<'_>, watcher: Watcher<'_>) -> Result<Outcome, TraceError> {
    play(trace, setup, Some(watcher))
}

fn begin<'a, 'w>(trace: &'a Trace, setup: &Setup<'a>, watcher: Option<Watcher<'w>>) -> Result<World<'a, 'w>, TraceError> {
    let capacity = setup.capacity();
    trace.check(&capacity)?;
    setup.check(&capacity)?;
    World::new(trace, setup, &capacity, watcher)
}

fn play(trace: &Trace, setup: &Setup<'_>, watcher: Option<Watcher<'_>>) -> Result<Outcome, TraceError> {
    let mut world = begin(trace, setup, watcher)?;
    while world.step()? {}
    let jct_s = world.ended_s.iter().zip(&trace.jobs).map(|(end, job)| end - job.submitted_s).collect();
    let ended_s = world.ended_s.iter().copied().fold(0.0, f64::max);
    let began_s = trace.began_s().min(ended_s);
    Ok(Outcome {
        jct_s,
        rho: world.rho,
        makespan_s: ended_s - began_s,
        decisions: world.decisions,
        preemptions: world.preemptions,
        faults: world.outages.as_ref().map(Outages::outcome),
        growth: world.growth.map(|growth| growth.outcome),
        network: world.network.map(|network| network.outcome(began_s, ended_s)),
    })
}

/// Jobs that arrive together.
struct Arrival {
    at_s: f64,
    jobs: Vec<JobIndex>,
}

struct World<'a, 'w> {
    trace: &'a Trace,
    setup: Setup<'a>,
    watcher: Option<Watcher<'w>>,
    /// Places groups; `None` where the policy's own places count.
    placer: Option<Placer>,
    network: Option<Network<'a>>,
    outages: Option<Outages>,
    /// Who has grown; `None` where nobody may.
    growth: Option<Growth>,
    /// Something turned since the last decision, so that what it says has to be carried out.
    shaken: bool,
    scheduler: Scheduler,
    jobs: Vec<Job>,
    arrivals: Vec<Arrival>,
    next_arrival: usize,
    /// When the first job was submitted.
    began_s: f64,
    now_s: f64,
    decision: Decision,
    before: Decision,
    /// What the scheduler said now and the last time, before anybody was placed.
    said: Decision,
    said_before: Decision,
    /// What is left of each job's restart.
    restarting_s: Vec<f64>,
    /// The next ends: when, and whose.
    end_s: f64,
    ending: Vec<JobIndex>,
    change_s: f64,
    ended_s: Vec<f64>,
    fairness: Fairness,
    rho: Vec<f64>,
    in_system: usize,
    decisions: u64,
    /// Decisions that were carried out.
    changes: u32,
    preemptions: u64,
}

impl<'a, 'w> World<'a, 'w> {
    fn new(trace: &'a Trace, setup: &Setup<'a>, capacity: &Capacity, watcher: Option<Watcher<'w>>) -> Result<Self, TraceError> {
        let settings = Settings { timing: setup.timing, profiles: trace.profiles.clone(), explain: false };
        let job = |job: &super::TraceJob| Job {
            gpus: job.gpus,
            gpus_max: job.gpus_max,
            weight: job.weight,
            profile: job.profile,
            opportunistic: job.opportunistic,
            submitted_s: job.submitted_s,
            declared_s: job.declared_s,
            // Milliseconds first and seconds then, as the authors' simulator computes it.
            alone_s: setup.timing.alone_s(job.iteration_ms) / MS,
            left: job.iterations,
            ran_s: 0.0,
            running: false,
            started: false,
        };
        let jobs: Vec<Job> = trace.jobs.iter().map(job).collect();
        let n = jobs.len();
        let network = setup.network.map(|network| Network::new(trace, capacity, setup.rule, network)).transpose();
        let network = network.map_err(refused(0.0))?;
        let iterations = || jobs.iter().map(|job| job.left);
        let outages = setup.faults.map(|faults| Outages::new(&faults, setup, iterations())).transpose()?;
        let placed = network.is_some() || setup.timing == Timing::Paper;
        let leaves = network.as_ref().map(Network::leaves).unwrap_or_default();
        Ok(Self {
            trace,
            setup: *setup,
            watcher,
            placer: placed.then(|| Placer::new(capacity.clone(), &leaves)),
            network,
            outages,
            growth: Growth::new(trace, setup.rule),
            shaken: false,
            scheduler: Scheduler::new(setup.rule, capacity.clone(), settings),
            arrivals: arrivals(&jobs),
            jobs,
            next_arrival: 0,
            began_s: trace.began_s(),
            now_s: 0.0,
            decision: Decision::default(),
            before: Decision::default(),
            said: Decision::default(),
            said_before: Decision::default(),
            restarting_s: alloc::vec![0.0; n],
            end_s: f64::INFINITY,
            ending: Vec::new(),
            change_s: f64::INFINITY,
            ended_s: alloc::vec![0.0; n],
            fairness: Fairness::new(capacity.all()),
            rho: alloc::vec![1.0; n],
            in_system: 0,
            decisions: 0,
            changes: 0,
            preemptions: 0,
        })
    }

    /// Plays the next event; false when there is none.
    fn step(&mut self) -> Result<bool, TraceError> {
        let arrival_s = self.arrivals.get(self.next_arrival).map_or(f64::INFINITY, |arrival| arrival.at_s);
        let waits = self.outages.as_ref().is_some_and(Outages::is_something_down);
        if arrival_s.is_infinite() && (self.in_system == 0 || self.end_s.is_infinite() && !waits) {
            return if self.in_system == 0 { Ok(false) } else { Err(self.stuck()) };
        }
        let (mut arrives, mut ends) =
            if self.meet(arrival_s, self.end_s) { (true, true) } else { (arrival_s < self.end_s, self.end_s < arrival_s) };
        let mut at_s = if arrives { arrival_s } else { self.end_s };
        if self.change_s < at_s {
            (at_s, arrives, ends) = (self.change_s, false, false);
        }
        let fault_s = self.outages.as_ref().map_or(f64::INFINITY, Outages::next_s);
        if fault_s < at_s {
            (at_s, arrives, ends) = (fault_s, false, false);
        }
        self.credit(at_s);
        self.fairness.pass(at_s);
        if ends {
            self.end(at_s);
        }
        if arrives {
            for &job in &self.arrivals[self.next_arrival].jobs {
                self.scheduler.arrive(job);
                self.fairness.arrive(job, &self.jobs[job as usize]);
                if let Some(watcher) = &mut self.watcher {
                    watcher(Told::Job(TraceEvent { at_s, job, change: Change::Arrives, places: &[] }));
                }
                self.in_system += 1;
            }
            self.next_arrival += 1;
        }
        self.fairness.crowd(self.in_system);
        // Who ends when its host goes down has ended.
        self.fault(at_s)?;
        self.now_s = at_s;
        self.decide()?;
        self.foresee();
        Ok(true)
    }

    /// Whether an arrival and an end are one event.
    fn meet(&self, arrival_s: f64, end_s: f64) -> bool {
        let close = arrival_s.is_finite() && end_s.is_finite() && (arrival_s - end_s).abs() <= (SAME * arrival_s.max(end_s)).max(MEET_S);
        arrival_s == end_s || (close && matches!(self.setup.rule, Rule::Muri(_)))
    }

    /// Counts what ran since the last event.
    fn credit(&mut self, at_s: f64) {
        let passed_s = at_s - self.now_s;
        if let Some(network) = &mut self.network {
            network.pass(passed_s);
        }
        if let Some(growth) = &mut self.growth {
            growth.pass(&self.decision, passed_s);
        }
        for run in &self.decision.runs {
            let beyond = self.growth.as_ref().map_or(0, |growth| growth.beyond_of(run.job));
            let (job, restarting) = (&mut self.jobs[run.job as usize], &mut self.restarting_s[run.job as usize]);
            let ran = (passed_s - *restarting).max(0.0);
            *restarting = (*restarting - passed_s).max(0.0);
            job.left -= ran / run.iteration_s;
            if let Some(outages) = &mut self.outages {
                outages.ran(run.job, job.gpus + beyond, ran, run.iteration_s, job.left);
            }
            if let Some(network) = &mut self.network {
                network.credit(run.job, ran / run.iteration_s, run.iteration_s);
            }
            // In this order, as the authors' simulator adds: an instant at which a job falls to another queue is then reached, not missed.
            job.ran_s = job.ran_s + at_s - self.now_s;
        }
    }

    fn end(&mut self, at_s: f64) {
        for &job in &self.ending {
            self.ended_s[job as usize] = at_s;
            let j = &self.jobs[job as usize];
            self.rho[job as usize] = (at_s - j.submitted_s) / self.fairness.alone_s(job, j.gpus);
            if let Some(watcher) = &mut self.watcher {
                watcher(Told::Job(TraceEvent { at_s, job, change: Change::Ends, places: &[] }));
            }
            self.jobs[job as usize].running = false;
            self.scheduler.leave(job, &self.jobs);
            self.in_system -= 1;
        }
        let ending = &self.ending;
        self.decision.runs.retain(|run| !ending.contains(&run.job));
    }

    fn decide(&mut self) -> Result<(), TraceError> {
        core::mem::swap(&mut self.said, &mut self.said_before);
        self.scheduler.decide(self.now_s, &self.jobs, &mut self.said);
        if core::mem::take(&mut self.shaken) || !self.changes_nothing() {
            self.carry_out()?;
        }
        self.decisions += 1;
        self.change_s = self.scheduler.next_change_s(self.now_s, &self.jobs);
        Ok(())
    }

    /// Whether the scheduler said what it said the last time, and nobody pays for that: then everything stays as it is. Under leases that is most
    /// of what a scheduler says. A job that ended since was in what was said then.
    fn changes_nothing(&self) -> bool {
        let (said, before) = (&self.said, &self.said_before);
        // Where the placer says who stands where, the scheduler's own places are not asked for.
        let placed_alike = || self.placer.is_some() && !said.groups_share || said.places == before.places;
        let free = self.setup.timing == Timing::Paper;
        free && self.decisions > 0 && said.groups_share == before.groups_share && said.runs == before.runs && placed_alike()
    }

    fn carry_out(&mut self) -> Result<(), TraceError> {
        core::mem::swap(&mut self.decision, &mut self.before);
        self.decision.clone_from(&self.said);
        let now_s = self.now_s;
        let infeasible = |source| TraceError::Infeasible { now_s, source };
        self.decision.check(self.scheduler.capacity(), &self.jobs).map_err(infeasible)?;
        self.place()?;
        if self.outages.is_some() {
            self.decision.check_there(self.scheduler.capacity()).map_err(infeasible)?;
        }
        self.slow();
        self.changes += 1;
        if let Some(growth) = &mut self.growth {
            growth.follow(&self.decision, &self.jobs);
        }
        if let Some(watcher) = &mut self.watcher {
            tell(watcher, now_s, &self.before, &self.decision);
        }
        match self.setup.timing {
            Timing::Artifact => self.decision.runs.iter().for_each(|run| self.restarting_s[run.job as usize] = run.restart_s),
            Timing::Paper => self.restart_the_changed(),
        }
        for run in &self.before.runs {
            self.jobs[run.job as usize].running = false;
        }
        for run in &self.decision.runs {
            let job = &mut self.jobs[run.job as usize];
            (job.running, job.started) = (true, true);
        }
        let stopped = self.before.runs.iter().filter(|run| !self.jobs[run.job as usize].running).count();
        self.preemptions += stopped as u64;
        match &mut self.network {
            Some(network) => network.refresh(self.trace, &self.jobs, &mut self.decision).map_err(refused(self.now_s)),
            None => Ok(()),
        }
    }

    /// Leaves the jobs where they are that the decision leaves alone, and places the others.
    fn place(&mut self) -> Result<(), TraceError> {
        let infeasible = |source| TraceError::Infeasible { now_s: self.now_s, source };
        // Hosts that fail are named by their numbers, so with faults names stay what they are.
        if let Some(network) = self.network.as_mut().filter(|_| self.decision.groups_share && self.outages.is_none()) {
            network.name_hosts((self.trace, &self.jobs), &self.before, &mut self.decision, self.decisions).map_err(refused(self.now_s))?;
            return self.decision.check(self.scheduler.capacity(), &self.jobs).map_err(infeasible);
        }
        if self.placer.is_none() || self.decision.groups_share {
            return Ok(());
        }
        self.lodge()?;
        self.regroup()?;
        if let (Some(network), Some(placer)) = (&mut self.network, &mut self.placer) {
            let when = (self.now_s, self.decisions);
            network.improve((self.trace, &self.jobs), &mut self.decision, placer, when).map_err(refused(self.now_s))?;
        }
        let infeasible = |source| TraceError::Infeasible { now_s: self.now_s, source };
        self.decision.check(self.scheduler.capacity(), &self.jobs).map_err(infeasible)
    }

    /// Leaves groups where they were, and chooses places for the others.
    fn lodge(&mut self) -> Result<(), TraceError> {
        let Some(placer) = self.placer.as_mut() else { return Ok(()) };
        let unplaced = placer.keep(&self.before, &mut self.decision, &self.jobs);
        // A job that stays on a slow host is compared with its slowed iteration.
        self.slow();
        let Some(placer) = self.placer.as_mut() else { return Ok(()) };
        let places = match &mut self.network {
            Some(network) => {
                network.choose((self.trace, &self.jobs), &self.decision, placer, &unplaced, self.decisions).map_err(refused(self.now_s))?
            }
            None => placer.candidates(&unplaced, 1, 0).pop().unwrap_or_default(),
        };
        self.decision.places.extend(places);
        Ok(())
    }

    /// Takes other groups of the same jobs, where the policy finds them nearly as good and they are predicted to be better on the network
    /// (`network/groups.rs`).
    fn regroup(&mut self) -> Result<(), TraceError> {
        // On slow hosts groups would have to be compared as slow as each is.
        if self.outages.is_some() || !self.network.as_ref().is_some_and(Network::regroups) {
            return Ok(());
        }
        // A trace may begin at any time of its clock.
        let horizon_s = (self.now_s - self.began_s) / f64::from(self.changes.max(1));
        let mut best = (self.worth(horizon_s)?, self.decision.clone());
        for other in self.scheduler.alternatives(&self.jobs) {
            if other.runs == self.said.runs || other.check(self.scheduler.capacity(), &self.jobs).is_err() {
                continue;
            }
            self.decision = other;
            self.lodge()?;
            let worth = self.worth(horizon_s)?;
            if worth.beats(&best.0) {
                best = (worth, self.decision.clone());
            }
        }
        self.decision = best.1;
        Ok(())
    }

    fn worth(&mut self, horizon_s: f64) -> Result<Worth, TraceError> {
        let changed = self.changed();
        let Some(network) = &mut self.network else { return Ok(Worth::default()) };
        network.worth((self.trace, &self.jobs), &self.decision, &changed, horizon_s).map_err(refused(self.now_s))
    }

    /// Whether each run of the decision starts, moves or gets other company.
    fn changed(&self) -> Vec<bool> {
        let (old, new) = (companies(&self.before), companies(&self.decision));
        let before: BTreeMap<JobIndex, u32> = self.before.runs.iter().map(|run| (run.job, run.group)).collect();
        let stays = |job: &JobIndex, group: &u32| before.get(job).is_some_and(|old_group| old.get(old_group) == new.get(group));
        self.decision.runs.iter().map(|run| !stays(&run.job, &run.group)).collect()
    }

    /// Jobs that start, move or get other company pay for a restart.
    fn restart_the_changed(&mut self) {
        let changed = self.changed();
        for (run, _) in self.decision.runs.iter().zip(changed).filter(|(_, changed)| *changed) {
            self.restarting_s[run.job as usize] = run.restart_s;
            if let Some(outages) = &mut self.outages {
                outages.starts(run.job, self.jobs[run.job as usize].left);
            }
        }
    }

    /// Finds the next ends.
    fn foresee(&mut self) {
        let restarting = |job: JobIndex| match self.setup.timing {
            // The simulator that this mode reproduces predicts ends without restarts.
            Timing::Artifact => 0.0,
            Timing::Paper => self.restarting_s[job as usize],
        };
        // Who stands still has no end.
        let left_s =
            |run: &Run| if run.iteration_s.is_finite() { self.jobs[run.job as usize].left * run.iteration_s } else { f64::INFINITY };
        let end_of = |run: &Run| self.now_s + left_s(run) + restarting(run.job);
        let ends: Vec<(f64, JobIndex)> = self.decision.runs.iter().map(|run| (end_of(run), run.job)).collect();
        let first = ends.iter().map(|end| end.0).fold(f64::INFINITY, f64::min);
        self.ending.clear();
        if first.is_infinite() || self.setup.timing == Timing::Paper || matches!(self.setup.rule, Rule::Tiresias(_)) {
            self.ending.extend(ends.iter().filter(|end| end.0 == first).map(|end| end.1));
            self.end_s = first;
            return;
        }
        // An end joins the first event of the list that is the same; the list is in the scheduler's order. Ends further off than
        // some widths of "the same" have no part in the first event.
        let near = first + first.abs() * SAME * 8.0;
        let mut events: Vec<(f64, Vec<JobIndex>)> = Vec::new();
        for &(end, job) in ends.iter().filter(|end| end.0 <= near) {
            match events.iter_mut().find(|(time, _)| (*time - end).abs() <= SAME * time.abs().max(end.abs())) {
                Some((_, jobs)) => jobs.push(job),
                None => events.push((end, alloc::vec![job])),
            }
        }
        if let Some((time, jobs)) = events.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)) {
            (self.end_s, self.ending) = (time, jobs);
        }
    }

    fn stuck(&self) -> TraceError {
        let waits = |job: usize| self.ended_s[job] == 0.0;
        let first = (0..self.jobs.len()).find(|job| waits(*job));
        let id = first.map_or_else(Default::default, |job| self.trace.jobs[job].id.clone());
        TraceError::Stuck { now_s: self.now_s, waiting: self.in_system, id }
    }
}

/// The members of a group, and the GPUs that they have of each host.
type Company = (Vec<JobIndex>, Vec<(u32, u32)>);

fn companies(decision: &Decision) -> BTreeMap<u32, Company> {
    let mut companies: BTreeMap<u32, Company> = BTreeMap::new();
    for run in &decision.runs {
        companies.entry(run.group).or_default().0.push(run.job);
    }
    for place in &decision.places {
        companies.entry(place.group).or_default().1.push((place.host, place.gpus));
    }
    // The order in which a scheduler lists members says nothing.
    companies.values_mut().for_each(|(members, _)| members.sort_unstable());
    companies
}

/// Jobs by time of submission, those of one time together.
fn arrivals(jobs: &[Job]) -> Vec<Arrival> {
    let mut order: Vec<JobIndex> = (0..jobs.len() as u32).collect();
    order.sort_by(|a, b| jobs[*a as usize].submitted_s.total_cmp(&jobs[*b as usize].submitted_s));
    let mut arrivals: Vec<Arrival> = Vec::new();
    for job in order {
        let at_s = jobs[job as usize].submitted_s;
        match arrivals.last_mut() {
            Some(last) if (last.at_s - at_s).abs() <= SAME * at_s.max(last.at_s) => last.jobs.push(job),
            _ => arrivals.push(Arrival { at_s, jobs: alloc::vec![job] }),
        }
    }
    arrivals
}
