//! All that one look at the service shows: for `status` and `top`.

use std::collections::BTreeMap;

use proto::v1alpha1::{
    Agent, AgentState, Exporter, GetFabricRequest, GetFabricResponse, Job, JobState, Link, ListAgentsRequest, ListExportersRequest,
    ListExportersResponse, ListJobsRequest, ListJobsResponse, ListLinksRequest, ListLinksResponse, ListTurnsRequest, ListTurnsResponse,
    TurnGroupState, TurnJob,
};
use tonic::{Code, transport::Channel};

use super::{
    connect::{client, get, refused},
    counted,
    exporters::age,
    links, millis, or_dash,
};
use crate::input::CliError;

/// Names in one line: they tell which rack it is, and a thousand fill the screen.
const NAMED: usize = 5;

/// An exporter that said nothing for longer is silent: switches send every 10 to 30 s.
const SILENT_MS: u64 = 180_000;

/// What the service says now.
#[derive(Debug, Default)]
pub(super) struct Overview {
    /// Why it takes no changes.
    pub(super) unready: Option<String>,
    pub(super) fabric: Option<GetFabricResponse>,
    pub(super) jobs: ListJobsResponse,
    pub(super) links: ListLinksResponse,
    /// The link that carries most, as switches count.
    pub(super) fullest: Option<Link>,
    pub(super) exporters: ListExportersResponse,
    pub(super) agents: Vec<Agent>,
    pub(super) turns: ListTurnsResponse,
}

impl Overview {
    /// Asks for everything, with so many links, worst first.
    pub(super) async fn ask(mut channel: Channel, links: u32) -> Result<Self, CliError> {
        let ready = get(&mut channel, "/readyz").await?;
        let unready = (!ready.is_ok).then(|| {
            let said: serde_json::Value = serde_json::from_str(&ready.text).unwrap_or_default();
            said["message"].as_str().unwrap_or("it says no reason").to_owned()
        });
        let mut client = client(channel);
        let fabric = match client.get_fabric(GetFabricRequest { summary: true }).await {
            Ok(answer) => Some(answer.into_inner()),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => return Err(refused(status)),
        };
        let jobs = client.list_jobs(ListJobsRequest::default()).await.map_err(refused)?.into_inner();
        let links = ListLinksRequest { limit: links, ..ListLinksRequest::default() };
        let links = client.list_links(links).await.map_err(refused)?.into_inner();
        // A service of an earlier version hears no switches.
        let exporters = match client.list_exporters(ListExportersRequest {}).await {
            Ok(answer) => answer.into_inner(),
            Err(status) if status.code() == Code::Unimplemented => ListExportersResponse::default(),
            Err(status) => return Err(refused(status)),
        };
        let fullest = if exporters.observed_links > 0 {
            let one = ListLinksRequest { limit: 1, observed: true, ..ListLinksRequest::default() };
            client.list_links(one).await.map_err(refused)?.into_inner().links.pop()
        } else {
            None
        };
        let agents = client.list_agents(ListAgentsRequest {}).await.map_err(refused)?.into_inner().agents;
        let turns = client.list_turns(ListTurnsRequest::default()).await.map_err(refused)?.into_inner();
        Ok(Self { unready, fabric, jobs, links, fullest, exporters, agents, turns })
    }

    /// Agents in a state.
    pub(super) fn agents_in(&self, state: AgentState) -> Vec<&str> {
        self.agents.iter().filter(|agent| agent.state() == state).map(|agent| agent.host.as_str()).collect()
    }

    /// How many jobs are in each state.
    pub(super) fn jobs_by_state(&self) -> BTreeMap<&'static str, usize> {
        let let_go: Vec<&str> = free_by_comparison(&self.turns).collect();
        let mut counts = BTreeMap::new();
        for job in &self.jobs.jobs {
            // Who takes turns keeps to no slot, and is in the state of those who keep to none.
            let turns = self.is_led(job) && job.slot.as_ref().is_some_and(|slot| slot.turns) && !let_go.contains(&job.id.as_str());
            let word = if turns && job.state() == JobState::Free { "by turns" } else { super::jobs::state(job.state()) };
            *counts.entry(word).or_default() += 1;
        }
        counts
    }

    /// How many groups are in each state, as metrics call it.
    pub(super) fn groups_by_state(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for group in &self.turns.groups {
            let word = match group.state() {
                TurnGroupState::Unspecified => "unknown",
                TurnGroupState::Held => "by turns",
                TurnGroupState::TriedFree => "tried free",
                TurnGroupState::LetGo => "let go",
                TurnGroupState::TriedHeld => "tried by turns",
            };
            *counts.entry(word).or_default() += 1;
        }
        counts
    }

    /// The job among those that take turns.
    pub(super) fn turn(&self, job: &str) -> Option<&TurnJob> {
        self.turns.groups.iter().flat_map(|group| &group.jobs).find(|one| one.job == job)
    }

    /// Whether the agent that can hold a job is connected.
    fn is_led(&self, job: &Job) -> bool {
        let leads = |agent: &Agent, host: &str| agent.state() != AgentState::Lost && agent.host == host;
        job.slot.as_ref().is_some_and(|slot| self.agents.iter().any(|agent| leads(agent, &slot.leader_host)))
    }

    /// What is in force, in one line: whether anybody waits for anybody.
    pub(super) fn in_force(&self) -> String {
        let is_apart = |job: &&Job| job.slot.as_ref().is_some_and(|slot| slot.turns || slot.hold);
        let (led, unled): (Vec<&Job>, Vec<&Job>) = self.jobs.jobs.iter().filter(is_apart).partition(|job| self.is_led(job));
        let turning = led.iter().filter(|job| job.slot.as_ref().is_some_and(|slot| slot.turns)).count();
        let (held, unled) = (led.len() - turning, unled.len());
        if self.jobs.jobs.is_empty() {
            return "nothing is in force: no job is committed".into();
        } else if turning + held + unled == 0 {
            let why =
                if self.jobs.outlook.is_empty() { "no job is predicted to gain by turns or slots" } else { self.jobs.outlook.as_str() };
            return format!("nothing is in force: {why}");
        } else if turning + held == 0 {
            let any = self.agents.iter().any(|agent| agent.state() != AgentState::Lost);
            let agents = if any { "no agent that leads them" } else { "no agent" };
            return format!("nothing is in force: {} should be kept apart, and {agents} is connected", counted(unled, "job"));
        }
        // A plan by turns says who may take turns; whether a group does is what the service found since.
        let let_go = free_by_comparison(&self.turns).filter(|name| led.iter().any(|job| job.id == *name)).count().min(turning);
        if let_go > 0 && let_go == turning + held + unled {
            return format!("nothing is in force: {let_go} jobs run free, because their groups were let go (antiphase turns says why)");
        }
        let part = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let parts = [
            part(turning - let_go, "take turns"),
            part(held, "keep to slots"),
            part(let_go, "run free, because their groups were let go (antiphase turns says why)"),
            part(unled, "run free, because no agent that leads them is connected"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("of {} jobs {}", self.jobs.jobs.len(), parts.join(", "))
    }

    /// What switches say, in one line; none where the service hears none.
    pub(super) fn observed(&self) -> Option<String> {
        let ListExportersResponse { listen, exporters, observed_links, .. } = &self.exporters;
        if listen.is_empty() {
            return None;
        }
        let heard = exporters.iter().filter(|one| one.age_ms.is_some()).count();
        let fullest = self.fullest.as_ref().map_or_else(String::new, |link| {
            let (observed, planned) = (links::observed(link), links::percent(link.mean_demand_ratio));
            format!("; fullest {} at {observed}, planned {planned}, {}", link.id, or_dash(link.observed_age_ms, age))
        });
        Some(format!("{observed_links} links by {heard} of {} exporters{fullest}", exporters.len()))
    }

    /// What is wrong, a line each, worst first.
    pub(super) fn wrong(&self) -> Vec<String> {
        let mut wrong: Vec<String> = self.unready.iter().map(|why| format!("the service takes no changes: {why}")).collect();
        let hosts = |state, what: &str| {
            let hosts = self.agents_in(state);
            (!hosts.is_empty()).then(|| format!("{} {what}: {}", counted(hosts.len(), "agent"), named(&hosts)))
        };
        wrong.extend(hosts(AgentState::Lost, "lost"));
        wrong.extend(hosts(AgentState::Quarantined, "in quarantine, with clocks worse than a slack"));
        wrong.extend(self.jobs.warnings.iter().cloned());
        let silent = |one: &&Exporter| one.age_ms.is_none_or(|age| age > SILENT_MS);
        let silent: Vec<&str> = self.exporters.exporters.iter().filter(silent).map(|one| one.node.as_str()).collect();
        if !silent.is_empty() {
            let are = if silent.len() == 1 { "is" } else { "are" };
            wrong.push(format!("{} {are} silent: {}", counted(silent.len(), "exporter"), named(&silent)));
        }
        let jobs = |what: &str, is: fn(&Job) -> bool| {
            let jobs: Vec<&str> = self.jobs.jobs.iter().filter(|job| is(job)).map(|job| job.id.as_str()).collect();
            (!jobs.is_empty()).then(|| format!("{what}: {}", named(&jobs)))
        };
        wrong.extend(jobs("gates fail open", |job| job.state() == JobState::Open));
        wrong.extend(jobs("further from their slots than the slack", |job| job.state() == JobState::Drifting));
        let mismatch = |job: &Job| {
            Some(format!("job {} repeats every {}, planned with {}", job.id, millis(job.period_mismatch_ns?), millis(job.solo_period_ns)))
        };
        wrong.extend(self.jobs.jobs.iter().filter_map(mismatch));
        let ended = self.jobs.jobs.iter().filter(|job| !job.hold_ended.is_empty());
        wrong.extend(ended.map(|job| format!("job {} is not held any more: {}", job.id, job.hold_ended)));
        let endless: Vec<&str> =
            self.turns.groups.iter().flat_map(|group| &group.jobs).filter(|job| job.has_no_ends).map(|job| job.job.as_str()).collect();
        if !endless.is_empty() {
            wrong.push(format!("nobody tells their ends, so they take no turns: {}", named(&endless)));
        }
        wrong
    }
}

/// Jobs that are to take turns, and whose groups the service let go after it had compared.
pub(super) fn free_by_comparison(turns: &ListTurnsResponse) -> impl Iterator<Item = &str> {
    let let_go = turns.groups.iter().filter(|group| group.state() == TurnGroupState::LetGo);
    let_go.flat_map(|group| &group.jobs).map(|job| job.job.as_str())
}

fn named(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let shown = names[..names.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

#[cfg(test)]
pub(super) mod tests {
    use proto::v1alpha1::{Slot, TurnGroup};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Two jobs by turns on one link, one of them wrong; two agents, one of them lost.
    pub(in super::super) fn overview() -> Overview {
        let job = |id: &str, mismatch| Job {
            id: id.into(),
            state: JobState::Free.into(),
            hosts: vec!["h1".into(), "h2".into()],
            slot: Some(Slot { job: id.into(), turns: true, period_ns: 100 * MS, leader_host: "h1".into(), ..Slot::default() }),
            solo_period_ns: 100 * MS,
            iteration_ns: Some(101 * MS),
            iteration_mean_ns: Some(if id == "a" { 150 * MS } else { 112 * MS }),
            shared_links: vec!["x->y".into()],
            period_mismatch_ns: mismatch,
            ..Job::default()
        };
        let link = |id: &str, score: Option<f64>| Link {
            id: id.into(),
            capacity_mbps: 100_000,
            jobs: vec!["a".into(), "b".into()],
            score,
            zero_shift_score: score.map(|score| score - 0.2),
            peak_demand_ratio: 1.5,
            ..Link::default()
        };
        let agent =
            |host: &str, state: AgentState| Agent { host: host.into(), state: state.into(), version: "0.1.0".into(), ..Agent::default() };
        Overview {
            unready: None,
            fabric: Some(GetFabricResponse { hosts: 4, links: 12, fabric_version: 1, ..GetFabricResponse::default() }),
            jobs: ListJobsResponse {
                jobs: vec![job("b", None), job("a", Some(130 * MS))],
                plan_version: 7,
                outlook: String::new(),
                warnings: Vec::new(),
            },
            links: ListLinksResponse {
                links: vec![link("x->y", Some(0.7)), link("u->v", Some(0.9)), link("q->r", None)],
                total: 9,
                plan_version: 7,
            },
            fullest: None,
            exporters: ListExportersResponse::default(),
            agents: vec![agent("h1", AgentState::Connected), agent("h2", AgentState::Lost)],
            turns: ListTurnsResponse {
                groups: vec![TurnGroup { state: TurnGroupState::Held.into(), ..TurnGroup::default() }],
                total: 1,
                ..ListTurnsResponse::default()
            },
        }
    }

    #[test]
    fn what_is_in_force_and_wrong_is_said() {
        let mut now = overview();
        assert_eq!(now.in_force(), "of 2 jobs 2 take turns");
        // A group that was let go is in the plan as before, and nobody waits for anybody.
        let turning = |name: &str| TurnJob { job: name.into(), ..TurnJob::default() };
        let let_go = |names: &[&str]| TurnGroup {
            state: TurnGroupState::LetGo.into(),
            jobs: names.iter().map(|name| turning(name)).collect(),
            ..TurnGroup::default()
        };
        now.turns.groups[0] = let_go(&["a", "b"]);
        let said = "nothing is in force: 2 jobs run free, because their groups were let go (antiphase turns says why)";
        assert_eq!(now.in_force(), said);
        now.turns.groups[0] = let_go(&["a"]);
        let said = "of 2 jobs 1 take turns, 1 run free, because their groups were let go (antiphase turns says why)";
        assert_eq!(now.in_force(), said);
        now.turns = overview().turns;
        // The agent of one of them leads none of the other's hosts.
        if let Some(slot) = &mut now.jobs.jobs[0].slot {
            slot.leader_host = "h2".into();
        }
        assert_eq!(now.in_force(), "of 2 jobs 1 take turns, 1 run free, because no agent that leads them is connected");
        assert_eq!(now.jobs_by_state().into_iter().collect::<Vec<_>>(), [("by turns", 1), ("free", 1)]);
        assert_eq!(now.wrong(), ["1 agent lost: h2", "job a repeats every 130.000 ms, planned with 100.000 ms"]);
        now.agents.remove(0);
        assert_eq!(now.in_force(), "nothing is in force: 2 jobs should be kept apart, and no agent is connected");
        now.jobs.jobs.iter_mut().for_each(|job| job.slot = None);
        assert_eq!(now.in_force(), "nothing is in force: no job is predicted to gain by turns or slots");
        now.jobs.outlook = "control = observe: turns would make 2 jobs faster".into();
        assert_eq!(now.in_force(), "nothing is in force: control = observe: turns would make 2 jobs faster");
        now.jobs.jobs.clear();
        assert_eq!(now.in_force(), "nothing is in force: no job is committed");
        now.unready = Some("no fabric".into());
        assert_eq!(now.wrong()[0], "the service takes no changes: no fabric");
        assert_eq!(now.observed(), None);
        let exporter = |node: &str, age_ms| Exporter { node: node.into(), age_ms, ..Exporter::default() };
        now.exporters.exporters = vec![exporter("leaf1", Some(9)), exporter("leaf2", None), exporter("leaf3", Some(SILENT_MS + 1))];
        (now.exporters.listen, now.exporters.observed_links) = ("0.0.0.0:6343".into(), 4);
        now.fullest = Some(Link {
            id: "x->y".into(),
            observed_ratio: Some(0.87),
            observed_age_ms: Some(9_000),
            mean_demand_ratio: 0.4,
            ..Link::default()
        });
        let said = "4 links by 2 of 3 exporters; fullest x->y at 87 %, planned 40 %, 9 s ago";
        assert_eq!(now.observed().as_deref(), Some(said));
        assert!(now.wrong().contains(&"2 exporters are silent: leaf2, leaf3".to_owned()));
        assert_eq!(named(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
    }
}
