//! Agents under a wrong name: of a host that the fabric lacks, and two that say hello for one host.
//!
//! Both are slips of a configuration (`host`) or of a disk that was copied, and nothing else shows them: such an agent is connected, and
//! its jobs are held by nobody, or only now and then.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use units::FabricTime;

use crate::{NoticeKind, Service, Severity, View, agents::Agent, plan::Name, view::AgentView, warnings::few};

impl AgentView<'_> {
    /// What is wrong with the agent's name, in a sentence that says what to do.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.view().trouble_of(self.agent())
    }
}

impl View {
    fn trouble_of(&self, agent: &Agent) -> Option<String> {
        let (host, from) = (&agent.host, &agent.origin.from);
        if let Some(other) = agent.twin(self.now) {
            let whence = if other == from { format!("both from {from}") } else { format!("from {from} and from {other}") };
            return Some(format!(
                "host {host}: two agents say that they are its, {whence}, and end each other's sessions: stop one, or give it its own name \
                 (host in its configuration)"
            ));
        }
        (agent.session.is_some() && !self.has_node(host)).then(|| {
            format!(
                "host {host}: its agent is connected, from {from}, and the fabric has no such host, so the agent holds no job: correct host in \
                 its configuration, or add the host to the fabric"
            )
        })
    }

    /// Whether the fabric has a node of this name, as far as there is a fabric. Agents run on switches too.
    fn has_node(&self, name: &str) -> bool {
        self.fabric().is_none_or(|fabric| fabric.find(name).is_some())
    }

    /// A sentence for each agent under a wrong name; of those hosts only that are led by these jobs, where some are named.
    pub(crate) fn misnamed(&self, hosts: Option<&[&str]>) -> Vec<String> {
        let asked = self.agents.iter().filter(|agent| hosts.is_none_or(|hosts| hosts.contains(&&*agent.host)));
        few(asked.filter_map(|agent| self.trouble_of(agent)).collect(), "agents")
    }
}

impl Service {
    /// Says that an agent came, or what is wrong with that. `told`: that there are two was told already, and each comes again and again.
    pub(crate) fn say_connected(&mut self, now: FabricTime, host: &str, version: &str, told: bool) {
        let Some(agent) = self.view.agents.at(host) else { return };
        let are_two = agent.twin(now).is_some();
        if are_two && told {
            return;
        }
        let (severity, kind, said) = match self.view.trouble_of(agent) {
            Some(trouble) => (Severity::Warning, if are_two { NoticeKind::TwoAgents } else { NoticeKind::UnknownHost }, trouble),
            None => (Severity::Info, NoticeKind::Connected, format!("agent {version} of host {host} connected")),
        };
        self.host_notice(now, severity, kind, host, said);
    }

    /// Forgets an agent that is gone and was of no host of the fabric: it would be told of as lost for ever.
    pub(crate) fn forget_misnamed(&mut self, host: &Name) {
        if !self.view.has_node(host) && self.view.agents.at(host).is_some_and(|agent| agent.session.is_none()) {
            let idle = self.idle();
            self.view.agents.forget(host, idle);
        }
    }

    /// Another fabric is in force: who is under a wrong name now.
    pub(crate) fn misnamed_since(&mut self, now: FabricTime) {
        let strangers: Vec<Name> =
            self.view.agents.iter().map(|agent| agent.host.clone()).filter(|host| !self.view.has_node(host)).collect();
        for host in strangers {
            match self.view.agents.at(&host).and_then(|agent| self.view.trouble_of(agent)) {
                Some(trouble) => self.host_notice(now, Severity::Warning, NoticeKind::UnknownHost, &host, trouble.to_string()),
                None => self.forget_misnamed(&host),
            }
        }
    }
}
