//! The agents' side of the gates: pages with heartbeats, in the time that each agent takes for the fabric's.

use alloc::{collections::BTreeMap, string::String, vec, vec::Vec};

use gate_core::{HEARTBEAT, NodeClock, PlannedSlot, Reason, Schedule, StepOutcome, Tracker};
use state::Slot;
use units::{ClockOffset, FabricTime, Nanos, NodeId, NodeTime};

use crate::testbed::{AgentClock, Case, Fault, SimError};

/// Node clocks begin this much before the run, and each a second apart from the next, so that no sum of theirs could pass
/// for fabric time.
const NODE_EPOCH: i64 = 1_000_000_000_000;
/// See [`NODE_EPOCH`].
const NODE_DISTANCE: i64 = 1_000_000_000;

#[derive(Clone, Debug)]
struct Agent {
    offset: ClockOffset,
    error: i64,
    bound: Nanos,
    dead_since: Option<u64>,
}

#[derive(Clone, Debug)]
struct Page {
    slot: PlannedSlot,
    written: u64,
}

/// All agents that lead a job, and the page of each job.
#[derive(Debug)]
pub(crate) struct Agents {
    agents: Vec<Agent>,
    by_host: BTreeMap<NodeId, u32>,
    /// Agent of each job's rank 0; `None` where the job has no rank.
    leader: Vec<Option<u32>>,
    pages: Vec<Option<Page>>,
    /// The report of each job's gate.
    trackers: Vec<Tracker>,
}

impl Agents {
    /// # Errors
    /// A clock or a fault names a host without a rank.
    pub(crate) fn new(case: &Case<'_>, clocks: &[AgentClock], faults: &[Fault]) -> Result<Self, SimError> {
        // Agents are numbered in the order of their nodes, so that equal cases give equal reports.
        let mut hosts: Vec<NodeId> = case.jobs.iter().flat_map(|j| j.placement.ranks.iter().map(|r| r.host)).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let by_host: BTreeMap<NodeId, u32> = hosts.into_iter().zip(0..).collect();
        // Node time is fabric time minus the offset, so a negative offset puts every node's clock ahead of the run's beginning.
        let clock = |i: i64| Agent { offset: ClockOffset(-NODE_EPOCH - i * NODE_DISTANCE), error: 0, bound: Nanos(0), dead_since: None };
        let agents = (0..by_host.len() as i64).map(clock).collect();
        let leader = case.jobs.iter().map(|j| j.placement.ranks.first().and_then(|r| by_host.get(&r.host).copied())).collect();
        let trackers = case.jobs.iter().map(|_| Tracker::default()).collect();
        let mut all = Self { agents, by_host, leader, pages: vec![None; case.jobs.len()], trackers };
        for clock in clocks {
            let agent = all.find(case, &clock.host)?;
            all.agents[agent as usize] = Agent { offset: clock.offset, error: clock.error, bound: clock.bound, dead_since: None };
        }
        // Names in faults are looked up now, so that a wrong one is refused before anything is simulated.
        for fault in faults {
            if let Fault::AgentDies { host, .. }
            | Fault::AgentReturns { host, .. }
            | Fault::ClockStep { host, .. }
            | Fault::Partition { host, .. } = fault
            {
                all.find(case, host)?;
            }
        }
        Ok(all)
    }

    /// The agent of a host.
    pub(crate) fn find(&self, case: &Case<'_>, host: &str) -> Result<u32, SimError> {
        let node = case.router.fabric().find(host);
        node.and_then(|n| self.by_host.get(&n).copied()).ok_or_else(|| SimError::UnknownHost { host: host.into() })
    }

    /// Writes a job's page, or removes it.
    pub(crate) fn write(&mut self, job: u32, slot: Option<Slot>, now: u64) {
        self.pages[job as usize] = slot.map(|slot| Page { slot: planned(&slot), written: now });
    }

    /// The agent writes a job's page between two heartbeats.
    pub(crate) fn touch(&mut self, job: u32, now: u64) {
        if let Some(page) = &mut self.pages[job as usize] {
            page.written = now;
        }
    }

    pub(crate) fn die(&mut self, agent: u32, now: u64) {
        self.agents[agent as usize].dead_since.get_or_insert(now);
    }

    pub(crate) fn come_back(&mut self, agent: u32) {
        self.agents[agent as usize].dead_since = None;
    }

    pub(crate) fn step_clock(&mut self, agent: u32, by: i64) {
        let error = &mut self.agents[agent as usize].error;
        *error = error.saturating_add(by);
    }

    /// Names of the agents' hosts.
    pub(crate) fn hosts(&self, case: &Case<'_>) -> Vec<String> {
        self.by_host.keys().map(|h| case.router.fabric().node(*h).name.clone()).collect()
    }

    pub(crate) fn is_dead(&self, agent: u32) -> bool {
        self.agents[agent as usize].dead_since.is_some()
    }

    /// Whether nothing about the pages changes any more but time: no agent is dead, and no plan expires.
    pub(crate) fn are_steady(&self) -> bool {
        let lasts = |page: &Page| page.slot.expires == FabricTime(u64::MAX);
        self.agents.iter().all(|a| a.dead_since.is_none()) && self.pages.iter().flatten().all(lasts)
    }

    /// How far `now` is into the period of each page.
    pub(crate) fn phases(&self, now: u64) -> impl Iterator<Item = u64> + '_ {
        self.pages.iter().flatten().map(move |p| now % p.slot.period.0.max(1))
    }

    /// The agent's own bound for the error of its clock.
    pub(crate) fn bound(&self, agent: u32) -> Nanos {
        self.agents[agent as usize].bound
    }

    /// The gate of a job reports a start.
    pub(crate) fn record(&mut self, job: u32, outcome: &StepOutcome) {
        self.trackers[job as usize].record(outcome);
    }

    /// The job tells its gate that it has sent all of an iteration, so long after its start.
    pub(crate) fn ended(&mut self, job: u32, sent: Nanos) {
        self.trackers[job as usize].ended(sent);
    }

    pub(crate) fn tracker(&self, job: u32) -> &Tracker {
        &self.trackers[job as usize]
    }

    /// The agent of a job's first rank.
    pub(crate) fn leader(&self, job: u32) -> Option<u32> {
        self.leader[job as usize]
    }

    pub(crate) fn is_led_by(&self, job: u32, agent: u32) -> bool {
        self.leader[job as usize] == Some(agent)
    }

    /// Jobs whose page the agent writes.
    pub(crate) fn led_by(&self, agent: u32) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.leader).filter(move |(_, l)| **l == Some(agent)).map(|(j, _)| j)
    }

    fn agent_of(&self, job: u32) -> Option<&Agent> {
        self.leader[job as usize].map(|a| &self.agents[a as usize])
    }

    /// The job's node time.
    pub(crate) fn node(&self, job: u32, now: u64) -> NodeTime {
        self.agent_of(job).and_then(|a| a.offset.node(FabricTime(now))).unwrap_or(NodeTime(now))
    }

    /// When it will be that time on the job's node.
    pub(crate) fn time_of(&self, job: u32, node: NodeTime) -> u64 {
        self.agent_of(job).and_then(|a| a.offset.fabric(node)).map_or(u64::MAX, |t| t.0)
    }

    /// The page as the job's gate reads it at `now`.
    pub(crate) fn schedule(&self, job: u32, now: u64) -> Result<Schedule, Reason> {
        let page = self.pages[job as usize].as_ref().ok_or(Reason::NoPage)?;
        let agent = self.agent_of(job).ok_or(Reason::NoPage)?;
        // An agent writes at every multiple of `HEARTBEAT` until it dies; the last one is computed, which saves an event per heartbeat.
        let beat = now.min(agent.dead_since.unwrap_or(u64::MAX));
        let written = (beat - beat % HEARTBEAT.0).max(page.written);
        // The page holds what the agent believes: its estimate is off by `error`, while the gate reads the node's true clock.
        let clock = NodeClock { offset: ClockOffset(agent.offset.0.saturating_add(agent.error)), bound: agent.bound };
        Ok(page.slot.schedule(Some(clock), agent.offset.node(FabricTime(written)).ok_or(Reason::NoPage)?))
    }

    /// When the page that a held job reads is not to be trusted any more if nobody writes to it.
    pub(crate) fn distrusted_at(&self, job: u32, schedule: &Schedule) -> u64 {
        let expires = self.time_of(job, schedule.expires);
        match self.agent_of(job).and_then(|a| a.dead_since) {
            // A dead agent writes no more, so its last heartbeat goes stale. A heartbeat of just that age is still good: hence 1 ns more.
            Some(_) => expires.min(self.time_of(job, schedule.written.saturating_add(schedule.stale_after)).saturating_add(1)),
            None => expires,
        }
    }
}

/// A slot of the service as gates know it.
fn planned(slot: &Slot) -> PlannedSlot {
    PlannedSlot {
        plan_version: slot.plan_version,
        hold: slot.hold,
        period: slot.times.period,
        offset: slot.times.offset,
        tolerance: slot.times.tolerance,
        slack: slot.times.slack,
        hold_max: slot.times.hold_max,
        expires: slot.expires,
    }
}
