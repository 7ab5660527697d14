//! `antiphase agents`: who is connected, and how well each knows the time.

use std::process::ExitCode;

use clap::Args;
use proto::v1alpha1::{Agent, AgentState, ListAgentsRequest, ListAgentsResponse};

use super::{Listing, millis, or_dash};
use crate::{input::CliError, table::Table};

/// Agents, their clocks and their jobs.
#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    #[command(flatten)]
    list: Listing,
}

pub(crate) fn agents(args: &AgentsArgs) -> Result<ExitCode, CliError> {
    args.list.show(async |client| client.list_agents(ListAgentsRequest::default()).await, table)
}

fn table(answer: &ListAgentsResponse) -> String {
    let troubles = answer.agents.iter().map(|agent| &agent.trouble).filter(|trouble| !trouble.is_empty());
    troubles.fold(rows(answer.agents.iter()), |text, trouble| format!("{text}\nwarning: {trouble}"))
}

/// A table of these agents, without what is wrong with their names.
pub(super) fn rows<'a>(agents: impl ExactSizeIterator<Item = &'a Agent>) -> String {
    if agents.len() == 0 {
        return "no agent has connected".into();
    }
    let mut table = Table::new(&["HOST", "STATE", "VERSION", ">PLAN", ">CLOCK BOUND", ">RTT", "JOBS"]);
    agents.for_each(|agent| table.row(row(agent)));
    table.render()
}

fn row(agent: &Agent) -> [String; 7] {
    [
        agent.host.clone(),
        standing(agent).into(),
        agent.version.clone(),
        agent.plan_version.to_string(),
        or_dash(agent.clock_bound_ns, millis),
        or_dash(agent.clock_rtt_ns, millis),
        agent.jobs.join(", "),
    ]
}

/// The state, or that the agent has a wrong name, which is worse.
pub(super) fn standing(agent: &Agent) -> &'static str {
    if agent.trouble.is_empty() { state(agent.state()) } else { "wrong name" }
}

/// How bad a standing is: sorted by it downwards, the worst comes first.
pub(super) fn badness(agent: &Agent) -> u8 {
    match agent.state() {
        _ if !agent.trouble.is_empty() => 3,
        AgentState::Lost => 2,
        AgentState::Quarantined | AgentState::Unspecified => 1,
        AgentState::Connected => 0,
    }
}

fn state(state: AgentState) -> &'static str {
    match state {
        AgentState::Unspecified => "unknown",
        AgentState::Connected => "connected",
        AgentState::Lost => "lost",
        AgentState::Quarantined => "quarantined",
    }
}
