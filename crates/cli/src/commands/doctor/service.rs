//! The service, as it is seen from here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::fmt::rfc2822::DateTimeParser;
use proto::v1alpha1::{Agent, AgentState, GetFabricRequest, JobState, ListAgentsRequest, ListJobsRequest};
use tokio::time::timeout;
use tonic::transport::Channel;

use super::{
    super::live::{Client, ServerArgs, Unreached, as_command, client, counted, get, refused},
    exposition,
    finding::Finding,
};
use crate::input::CliError;

/// Longest time for all questions together.
const SERVICE_WITHIN: Duration = Duration::from_secs(5);
/// A clock that is further off makes certificates of new nodes invalid, and logs of two machines hard to compare. The service's
/// header has whole seconds, so less is not seen.
const CLOCK_OFF_MAX_S: i64 = 5;

/// Agents under a wrong name that are told one by one: a script that renamed a rack renamed all of it.
const MISNAMED_MAX: usize = 5;
/// Names of jobs that are told where one is looked for in vain.
const JOBS_TOLD_MAX: usize = 5;

/// What is known of this machine that the service may know too.
#[derive(Debug, Default)]
pub(super) struct Us {
    /// Its name in the fabric.
    pub(super) host: Option<String>,
    /// Whether its agent's configuration names a service.
    pub(super) has_service: bool,
    /// The job of this environment.
    pub(super) job: Option<String>,
}

/// Asks the service all that matters.
///
/// # Errors
/// An address that is none.
pub(super) fn look(server: &ServerArgs, us: &Us) -> Result<Vec<Finding>, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| CliError::Failure(format!("cannot start: {e}")))?;
    let asked = runtime.block_on(async { timeout(SERVICE_WITHIN, ask(server, us)).await });
    // A name server that does not answer keeps a thread, and must not keep us.
    runtime.shutdown_background();
    asked.unwrap_or_else(|_| {
        let says = format!("{} does not answer within {} s", server.address(), SERVICE_WITHIN.as_secs());
        Ok(vec![Finding::wrong("service", says, "look at its log, and at firewalls between: port 7480, TCP and UDP")])
    })
}

async fn ask(server: &ServerArgs, us: &Us) -> Result<Vec<Finding>, CliError> {
    let mut channel = match server.channel().await {
        Ok(channel) => channel,
        Err(Unreached::Input(CliError::Usage(problem))) => return Err(CliError::Usage(problem)),
        Err(Unreached::Input(error)) => return Ok(vec![Finding::wrong("service", error.line(), "mend the path or the file")]),
        Err(Unreached::Silent { says, fix }) => {
            return Ok(vec![Finding::wrong("service", says, fix.unwrap_or("look at the service's log"))]);
        }
    };
    let mut found = Vec::new();
    if let Err(error) = ready(server, &mut channel, &mut found).await {
        let problem = error.problem();
        let fix = server.wants(&problem).unwrap_or("look at the service's log");
        return Ok(vec![Finding::wrong("service", format!("{}: {problem}", server.address()), fix)]);
    }
    let mut client = client(channel);
    let looks =
        [fabric(&mut client, us, &mut found).await, agents(&mut client, us, &mut found).await, jobs(&mut client, us, &mut found).await];
    for error in looks.into_iter().filter_map(Result::err) {
        let problem = error.problem();
        const FIX: &str = "a certificate of role read or more (antiphase pki issue --role read); agents' certificates open nothing here";
        let fix = if problem.starts_with("not allowed") { FIX } else { "look at the service's log" };
        // Three questions may be refused for one reason.
        let one = Finding::wrong("service", problem, fix);
        if !found.contains(&one) {
            found.push(one);
        }
    }
    Ok(found)
}

/// Whether it takes changes, its version, and its time of day.
async fn ready(server: &ServerArgs, channel: &mut Channel, found: &mut Vec<Finding>) -> Result<(), CliError> {
    let ready = get(channel, "/readyz").await?;
    let version = get(channel, "/metrics").await?;
    let version = version.is_ok.then(|| exposition::version(&version.text, "antiphase")).flatten();
    let at = server.address();
    if ready.is_ok {
        found.push(Finding::well("service", format!("{at} takes changes")));
    } else {
        // The error of the HTTP interface: code, message, hint.
        let said: serde_json::Value = serde_json::from_str(&ready.text).unwrap_or_default();
        let word = |key: &str| said[key].as_str().filter(|word| !word.is_empty()).map(str::to_owned);
        let says = format!("{at} is not ready: {}", word("message").unwrap_or_else(|| "it says no reason".into()));
        found.push(Finding::wrong(
            "service",
            says,
            word("hint").map_or_else(|| "docs/operator.md, What can go wrong".into(), |hint| as_command(&hint)),
        ));
    }
    match version {
        Some(version) if version == env!("CARGO_PKG_VERSION") => {
            found.push(Finding::well("version", format!("service and this program are {version}")))
        }
        Some(version) => {
            let says = format!("the service is {version}, this program {}", env!("CARGO_PKG_VERSION"));
            found.push(Finding::wrong("version", says, "install service, agents and this program from the same release"));
        }
        None => found.push(Finding::note("version", "the service does not say its version to us", "reading /metrics needs the role read")),
    }
    found.extend(ready.date.and_then(|date| clock(&date)));
    Ok(())
}

fn clock(date: &str) -> Option<Finding> {
    let theirs = DateTimeParser::new().parse_timestamp(date).ok()?.as_second();
    let ours = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()?;
    Some(judge_clock(ours - theirs))
}

fn judge_clock(off: i64) -> Finding {
    if off.abs() > CLOCK_OFF_MAX_S {
        let ahead = if off > 0 { "ahead of" } else { "behind" };
        let says = format!("this machine's time of day is {} s {ahead} the service's", off.abs());
        Finding::wrong("clock", says, "synchronise both (chrony, systemd-timesyncd): certificates end by it; starts do not depend on it")
    } else {
        Finding::well("clock", "time of day agrees with the service's within seconds")
    }
}

async fn fabric(client: &mut Client, us: &Us, found: &mut Vec<Finding>) -> Result<(), CliError> {
    let answer = match client.get_fabric(GetFabricRequest { summary: us.host.is_none() }).await {
        Ok(answer) => answer.into_inner(),
        Err(status) if status.code() == tonic::Code::NotFound => {
            found.push(Finding::wrong("fabric", "the service has no fabric", "antiphase fabric set FILE"));
            return Ok(());
        }
        Err(status) => return Err(refused(status)),
    };
    let parts = [(answer.hosts, "host"), (answer.switches, "switch"), (answer.links, "link")];
    let says = format!("the service has {}", parts.map(|(count, what)| counted(count as usize, what)).join(", "));
    found.push(Finding::well("fabric", says));
    let parsed = us.host.as_ref().and_then(|host| Some((host, fabric::native::read(&answer.fabric).ok()?)));
    if let Some((host, parsed)) = parsed {
        let is_there = parsed.hosts().any(|node| parsed.node(node).name == *host);
        found.push(if is_there {
            Finding::well("fabric", format!("{host} is a host of it"))
        } else {
            let fix = "set `host` in the agent's configuration to the name that the fabric has, or add the host to the fabric";
            Finding::wrong("fabric", format!("{host} is no host of it: no job can be placed here"), fix)
        });
    }
    Ok(())
}

async fn agents(client: &mut Client, us: &Us, found: &mut Vec<Finding>) -> Result<(), CliError> {
    let agents = client.list_agents(ListAgentsRequest {}).await.map_err(refused)?.into_inner().agents;
    found.extend(judge_agents(&agents, us));
    Ok(())
}

fn judge_agents(agents: &[Agent], us: &Us) -> Vec<Finding> {
    let mut found = Vec::new();
    let named = |state: AgentState| {
        let hosts: Vec<&str> = agents.iter().filter(|agent| agent.state() == state).map(|agent| agent.host.as_str()).collect();
        // Some names tell which rack it is; a thousand fill the screen.
        let more = if hosts.len() > 5 { format!(" and {} more", hosts.len() - 5) } else { String::new() };
        (!hosts.is_empty()).then(|| format!("{}{more}", hosts[..hosts.len().min(5)].join(", ")))
    };
    if let Some(lost) = named(AgentState::Lost) {
        found.push(Finding::wrong(
            "agents",
            format!("lost: {lost}"),
            "on those hosts: systemctl status antiphase-agent, and antiphase doctor",
        ));
    }
    if let Some(hosts) = named(AgentState::Quarantined) {
        let fix = "mend the path between them and the service: the clock bound is half the round trip (antiphase agents)";
        found.push(Finding::wrong("agents", format!("in quarantine, because their clocks are worse than a slack: {hosts}"), fix));
    }
    // The sentence says what to do as well.
    found.extend(agents.iter().filter(|agent| !agent.trouble.is_empty()).take(MISNAMED_MAX).map(|agent| {
        Finding::wrong("agents", agent.trouble.clone(), "change host in antiphase-agent.toml of the agent that is wrong, and restart it")
    }));
    let connected = agents.iter().filter(|agent| agent.state() == AgentState::Connected).count();
    if connected == 0 {
        found.push(Finding::note("agents", "none is connected: nobody is held", "start an agent on each GPU host (docs/operator.md)"));
    } else if found.is_empty() {
        found.push(Finding::well("agents", format!("{connected} connected")));
    }
    let others: Vec<&str> =
        agents.iter().filter(|agent| agent.version != env!("CARGO_PKG_VERSION")).map(|agent| agent.host.as_str()).take(5).collect();
    if !others.is_empty() {
        let says = format!("of another version than {}: {}", env!("CARGO_PKG_VERSION"), others.join(", "));
        found.push(Finding::wrong("agents", says, "upgrade service and agents together"));
    }
    let is_us = |agent: &&Agent| us.host.as_deref() == Some(agent.host.as_str());
    // What to do about an agent that names no service is said where the agent is looked at.
    if let (Some(host), None, true) = (&us.host, agents.iter().find(is_us), us.has_service) {
        found.push(Finding::wrong(
            "agents",
            format!("the service has never heard of an agent on {host}"),
            "start it: systemctl start antiphase-agent",
        ));
    }
    found
}

async fn jobs(client: &mut Client, us: &Us, found: &mut Vec<Finding>) -> Result<(), CliError> {
    let answer = client.list_jobs(ListJobsRequest::default()).await.map_err(refused)?.into_inner();
    found.extend(judge_warnings(answer.warnings, found));
    let Some(name) = &us.job else { return Ok(()) };
    let Some(job) = answer.jobs.iter().find(|job| job.id == *name) else {
        let names: Vec<&str> = answer.jobs.iter().map(|job| job.id.as_str()).collect();
        let fix = "antiphase commit --jobs FILE; ANTIPHASE_JOB has to be its id there";
        found.push(Finding::wrong("job", format!("{name} is not committed; {}", committed(name, &names)), fix));
        return Ok(());
    };
    let leader = job.slot.as_ref().map_or("", |slot| slot.leader_host.as_str());
    let says = format!("{name} is committed on {} hosts; rank 0 is on {leader}", job.hosts.len());
    found.push(if job.state() == JobState::Open {
        Finding::wrong("job", format!("{says}; its gate fails open"), "antiphase gate status on that host says why")
    } else {
        Finding::well("job", says)
    });
    Ok(())
}

/// What the service says of jobs and hosts, each with its fix. What was found of agents already is not found twice.
fn judge_warnings(warnings: Vec<String>, found: &[Finding]) -> Vec<Finding> {
    let new = warnings.into_iter().filter(|says| !found.iter().any(|one| one.says == *says));
    let fix = |says: &str| {
        if says.starts_with("job ") {
            "correct its profile, or find what slows it: antiphase turns, antiphase links"
        } else {
            "start an agent on each host that leads a job, with host and service.address set"
        }
    };
    new.map(|says| Finding::wrong("jobs", says.clone(), fix(&says))).collect()
}

/// What may have been meant by a name that is not committed.
fn committed(name: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return "no job is".into();
    }
    if let Some(meant) = job::nearest(name, names.iter().copied()) {
        return format!("did you mean {meant}?");
    }
    let more = names.len().saturating_sub(JOBS_TOLD_MAX);
    let told = names[..names.len() - more].join(", ");
    if more == 0 { format!("committed: {told}") } else { format!("committed: {told} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Verdict, *};

    #[test]
    fn a_clock_far_off_is_wrong_and_the_way_is_said() {
        assert_eq!(judge_clock(-5).verdict, Verdict::Well);
        assert!(judge_clock(6).says.ends_with("6 s ahead of the service's"));
        assert!(judge_clock(-60).says.ends_with("60 s behind the service's") && judge_clock(-60).verdict == Verdict::Wrong);
        // As hyper writes it.
        assert!(clock("Tue, 24 Nov 2026 11:15:41 GMT").is_some() && clock("moon").is_none());
    }

    #[test]
    fn a_job_that_is_not_there_comes_with_those_that_are() {
        assert_eq!(committed("lefft", &["left", "right"]), "did you mean left?");
        assert_eq!(committed("x", &["left", "right"]), "committed: left, right");
        assert_eq!(committed("x", &["a1", "b2", "c3", "d4", "e5", "f6"]), "committed: a1, b2, c3, d4, e5 and 1 more");
        assert_eq!(committed("x", &[]), "no job is");
    }

    #[test]
    fn agents_are_judged_by_what_the_service_says_of_them() {
        let agent = |host: &str, state: AgentState, version: &str| Agent {
            host: host.into(),
            state: state.into(),
            version: version.into(),
            ..Agent::default()
        };
        let ours = env!("CARGO_PKG_VERSION");
        let says = |agents: &[Agent], host: Option<&str>| {
            let found = judge_agents(agents, &Us { host: host.map(str::to_owned), has_service: true, job: None });
            found.into_iter().map(|one| one.says).collect::<Vec<_>>()
        };
        assert_eq!(says(&[agent("h1", AgentState::Connected, ours)], Some("h1")), ["1 connected"]);
        assert_eq!(says(&[], None), ["none is connected: nobody is held"]);
        let bad = [agent("h1", AgentState::Lost, ours), agent("h2", AgentState::Quarantined, "0.0.9")];
        let found = says(&bad, Some("h3"));
        for (at, part) in
            ["lost: h1", "in quarantine", "none is connected", "of another version", "never heard of an agent on h3"].iter().enumerate()
        {
            assert!(found[at].contains(part), "{found:?}");
        }
        let us = Us { host: Some("h3".into()), has_service: false, job: None };
        assert!(!judge_agents(&bad, &us).iter().any(|one| one.says.contains("never heard")), "its own finding says what is missing");
        let trouble = "host h9: its agent is connected, and the fabric has no such host";
        let stranger = Agent { trouble: trouble.into(), ..agent("h9", AgentState::Connected, ours) };
        assert_eq!(says(&[stranger.clone(), agent("h1", AgentState::Connected, ours)], None), [trouble], "and not that all is well");
        let found = judge_agents(&[stranger], &Us::default());
        let told = judge_warnings(vec![trouble.into(), "job a takes 9 ms".into()], &found);
        assert_eq!((told.len(), told[0].says.as_str()), (1, "job a takes 9 ms"));
        let many: Vec<Agent> = (0..9).map(|n| agent(&format!("h{n}"), AgentState::Lost, ours)).collect();
        assert_eq!(says(&many, None)[0], "lost: h0, h1, h2, h3, h4 and 4 more");
    }
}
