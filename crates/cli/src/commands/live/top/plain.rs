//! The worst links, the worst agents and the jobs as text, again and again.

use std::cmp::Reverse;

use proto::v1alpha1::{Agent, ListAgentsRequest, ListJobsRequest, ListLinksRequest};

use super::super::{
    WATCH_INTERVAL, agents,
    connect::{Client, ServerArgs, refused},
    home, jobs, links,
};
use crate::{input::CliError, output};

/// Links on one screen.
const LINKS: u32 = 12;
/// Agents on one screen.
const AGENTS: usize = 12;

pub(super) fn top(server: &ServerArgs, count: Option<u32>) -> Result<(), CliError> {
    server.with(async |mut client: Client| {
        let mut left = count;
        // Without --count `left` stays `None`, and the loop ends with Ctrl-C, or with who reads the pipe.
        while left != Some(0) {
            let worst = ListLinksRequest { limit: LINKS, ..ListLinksRequest::default() };
            let worst = client.list_links(worst).await.map_err(refused)?.into_inner();
            let all = client.list_jobs(ListJobsRequest::default()).await.map_err(refused)?.into_inner();
            let known = client.list_agents(ListAgentsRequest::default()).await.map_err(refused)?.into_inner().agents;
            // A counted run is for a file or a test, in which codes that clear a terminal would be noise.
            let home = if count.is_some() { "" } else { home() };
            let (links, agents, jobs) = (links::table(&worst, false), worst_agents(known), jobs::table(&all));
            let text = format!("plan version {}\n\n{}\n\n{agents}\n\n{jobs}", all.plan_version, links.trim_end());
            if !output::print_on(&format!("{home}{}", output::escaped(&text)))? {
                break;
            }
            left = left.map(|n| n - 1);
            if left != Some(0) {
                tokio::time::sleep(WATCH_INTERVAL).await;
            }
        }
        Ok(())
    })
}

/// The worst agents, and how many more there are. What is wrong with their names stands among the warnings of the jobs.
fn worst_agents(mut all: Vec<Agent>) -> String {
    // The sort is stable, so equally bad ones stay in the order of their hosts.
    all.sort_by_key(|agent| Reverse(agents::badness(agent)));
    let shown = agents::rows(all.iter().take(AGENTS));
    let more = all.len().saturating_sub(AGENTS);
    if more == 0 { shown.trim_end().into() } else { format!("{}\nand {more} more agents, none worse", shown.trim_end()) }
}

#[cfg(test)]
mod tests {
    use proto::v1alpha1::AgentState;

    use super::*;

    #[test]
    fn the_worst_agents_come_first_and_the_others_are_counted() {
        let agent = |n: usize, state: AgentState, trouble: &str| Agent {
            host: format!("h{n:02}"),
            state: state.into(),
            trouble: trouble.into(),
            ..Agent::default()
        };
        let mut all: Vec<Agent> = (0..AGENTS).map(|n| agent(n, AgentState::Connected, "")).collect();
        all.push(agent(20, AgentState::Quarantined, ""));
        all.push(agent(21, AgentState::Lost, ""));
        all.push(agent(22, AgentState::Connected, "two agents"));
        let shown = worst_agents(all);
        let hosts: Vec<&str> = shown.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(hosts[..5], ["h22", "h21", "h20", "h00", "h01"]);
        assert!(shown.contains("h22   wrong name") && shown.ends_with("and 3 more agents, none worse"), "{shown}");
        assert_eq!(worst_agents(Vec::new()), "no agent has connected");
    }
}
