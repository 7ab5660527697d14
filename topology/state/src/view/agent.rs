//! An agent, and how it does.

use alloc::string::String;

use units::FabricTime;

use super::View;
use crate::{ClockQuality, SessionId, agents::Agent};

/// How an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// The agent has a session.
    Connected,
    /// The agent has no session; its pages live until the plan expires.
    Lost,
    /// Its clock is worse than the slack of a job that it leads.
    Quarantined,
}

/// An agent.
#[derive(Clone, Copy, Debug)]
pub struct AgentView<'a> {
    pub(super) view: &'a View,
    pub(super) agent: &'a Agent,
}

impl<'a> AgentView<'a> {
    pub(crate) fn view(&self) -> &'a View {
        self.view
    }

    pub(crate) fn agent(&self) -> &'a Agent {
        self.agent
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &'a str {
        &self.agent.host
    }

    /// How it does.
    #[must_use]
    pub fn state(&self) -> AgentState {
        match self.agent.session {
            None => AgentState::Lost,
            Some(_) if !self.agent.quarantined.is_empty() => AgentState::Quarantined,
            Some(_) => AgentState::Connected,
        }
    }

    /// Its session.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        self.agent.session
    }

    /// Version of its program.
    #[must_use]
    pub fn version(&self) -> &'a str {
        &self.agent.version
    }

    /// Its ports.
    #[must_use]
    pub fn ports(&self) -> &'a [String] {
        &self.agent.ports
    }

    /// Version of the plan that it acknowledged; 0: none.
    #[must_use]
    pub fn plan_version(&self) -> u64 {
        self.agent.acknowledged
    }

    /// How well it knows fabric time; `None` while it has no session.
    #[must_use]
    pub fn clock(&self) -> Option<ClockQuality> {
        // The clock of an agent that is gone drifts on: its last bound says nothing any more.
        self.agent.clock.filter(|_| self.agent.session.is_some())
    }

    /// When it was heard last.
    #[must_use]
    pub fn last_seen(&self) -> FabricTime {
        self.agent.last_seen
    }

    /// Jobs with ranks on its host, by name.
    pub fn jobs(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.view.plan.at(&self.agent.host).map(|j| &*j.name)
    }

    /// Jobs that it leads but may not hold because of its clock, by name.
    pub fn quarantined(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.agent.quarantined.iter().map(|n| &**n)
    }
}
