//! Agents as the service sees them: hello, plans, reports, silence.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};

use plan::Control;
use units::{FabricTime, Nanos};

use crate::{
    Action, AgentReport, GateReport, Notice, NoticeKind, Service, SessionId, Severity,
    agents::{Due, Greeting, Welcome},
    change::Queued,
    config::{AGENTS_MAX, GATES_PER_REPORT_MAX, PORTS_MAX, VERSION_BYTES_MAX},
    learned::{Expected, Learned},
    measured::Seen,
    plan::{Job, Name},
    watch::{Heard, Wanted},
};

impl Service {
    pub(crate) fn hello(&mut self, now: FabricTime, session: SessionId, host: &str, greeting: Greeting) {
        let Greeting { version, ports, plan_version, origin } = greeting;
        // The service keeps both texts for each of `AGENTS_MAX` agents, so their lengths are bounded here, whoever calls.
        if host.is_empty() || host.len() > units::NAME_BYTES_MAX || version.len() > VERSION_BYTES_MAX {
            return self.disconnect(session, format!("a host's name has 1 to 253 bytes, a version at most {VERSION_BYTES_MAX}"));
        }
        self.saw(plan_version);
        let idle = self.idle();
        let known_as_twin = self.view.agents.at(host).is_some_and(|a| a.twin(now).is_some());
        let welcome = self.view.agents.hello(now, session, host, origin, idle);
        match welcome {
            Welcome::Refused => return self.disconnect(session, format!("host {host} has a later session")),
            Welcome::Full => return self.disconnect(session, format!("there are {AGENTS_MAX} agents, and no more are served")),
            Welcome::New(old) => {
                // An agent that restarted leaves a session that nobody missed yet: the old session ends now and not after its silence.
                if let Some(old) = old {
                    self.disconnect(old, format!("host {host} has a later session"));
                }
                self.say_connected(now, host, &version, known_as_twin);
            }
            Welcome::Again => {}
        }
        self.view.agents.update(host, idle, |a| {
            a.heard(now);
            a.version = version;
            a.ports = ports.into_iter().take(PORTS_MAX).collect();
            a.acknowledged = plan_version;
        });
        // The plan goes out even to an agent that has this version: its pages may be close to their expiry.
        self.send_plan(now, host);
    }

    pub(crate) fn gone(&mut self, now: FabricTime, session: SessionId) {
        let idle = self.idle();
        if let Some(host) = self.view.agents.gone(session, idle) {
            self.host_notice(now, Severity::Warning, NoticeKind::Lost, &host, format!("the agent of host {host} is gone"));
            self.forget_misnamed(&host);
        }
    }

    pub(crate) fn acknowledged(&mut self, now: FabricTime, session: SessionId, plan_version: u64) {
        let Some(host) = self.host_of(session) else { return };
        let idle = self.idle();
        self.view.agents.update(&host, idle, |a| {
            a.heard(now);
            // An acknowledgement may be of a plan that was replaced meanwhile: within a session the number never goes back.
            a.acknowledged = a.acknowledged.max(plan_version);
        });
    }

    /// Takes in a report: heartbeat, leases, clock, gates.
    pub(crate) fn report(&mut self, now: FabricTime, session: SessionId, report: &AgentReport) {
        let Some(host) = self.host_of(session) else { return };
        let idle = self.idle();
        self.view.agents.update(&host, idle, |a| {
            a.heard(now);
            a.clock = report.clock;
        });
        // The clock is judged before the gates: whether a job was held depends on its quarantine.
        if self.judge_clock(now, &host) {
            self.send_plan(now, &host);
        }
        // Each gate costs look-ups and may queue a change; `GATES_PER_REPORT_MAX` bounds what one report can cost.
        for gate in report.gates.iter().take(GATES_PER_REPORT_MAX) {
            // A report about a job that another host leads is passed over (P122).
            let Some(job) = self.view.plan.job(&gate.job).filter(|j| *j.slot.leader_host == *host).cloned() else { continue };
            self.renew(now, &job, gate);
            // A job in quarantine is not held, so it has no slot to be late for.
            let held = job.slot.hold && self.view.agents.at(&host).is_some_and(|a| !a.quarantined.contains(&job.name));
            // A job without Up phases is one that is still to be learned.
            let planned = &job.planned.job;
            let declared = if planned.phases.is_empty() { Nanos(0) } else { planned.period };
            let predicted = job.component.as_ref().and_then(|c| c.times(&job.name)).map_or(declared, |(_, interleaved)| interleaved);
            let watch = self.view.watches.entry(job.name.clone()).or_default();
            let Heard { mut wanted, learned } = watch.report(now, &job.slot, held, Expected { declared, predicted }, gate);
            // Others that do not keep to their slots, and may again, are no reason to end a hold until somebody commits anew.
            let is_excused = matches!(wanted, Some(Wanted::Free(_))) && self.view.is_disturbed(&job);
            if is_excused && self.view.watches.entry(job.name.clone()).or_default().excuse(now) {
                wanted = None;
            }
            self.say_learned(now, &host, &job, learned);
            // In slots nobody would be measured better for it.
            let shows = gate.up_down.filter(|_| self.view.config.control != Control::Slots);
            self.seen(now, shows.map(|(up, down)| (job.name.clone(), Seen::BesideOthers { up, down })).into_iter());
            let (name, plan_version) = (job.name.clone(), job.slot.plan_version);
            let queued = match wanted {
                None => true,
                Some(Wanted::Headroom) => self.enqueue(Queued::Lengthen { job: name, plan_version }),
                Some(Wanted::Slot(error)) => self.enqueue(Queued::Realign { job: name, plan_version, error }),
                Some(Wanted::Free(why)) => self.enqueue(Queued::EndHold { job: name, plan_version, why }),
            };
            // The change found no room: the watch forgets that it asked, or it would never ask again.
            if !queued {
                self.view.watches.entry(job.name.clone()).and_modify(|w| w.decided(false));
            }
        }
    }

    /// Renews the lease of a job that iterated: its host may well live while the job does not.
    fn renew(&mut self, now: FabricTime, job: &Job, gate: &GateReport) {
        let Some(lease) = job.lease.as_ref().filter(|_| gate.iterations > 0) else { return };
        let until = now.saturating_add(lease.length);
        // A lease granted by a commit may be longer than what a report gives it.
        let until = self.view.leases.of(&job.name).map_or(until, |known| known.max(until));
        self.view.leases.set(&job.name, Some(until));
    }

    /// Says when a job's period turns out to be another than declared, and when it no longer is.
    fn say_learned(&mut self, now: FabricTime, host: &str, job: &Job, learned: Option<Learned>) {
        let declared = job.planned.job.period;
        let (severity, said) = match learned {
            None => return,
            Some(Learned::Differs(period)) => (
                Severity::Warning,
                format!(
                    "job {} repeats every {period}, but {declared} was {}",
                    job.name,
                    if job.measured.is_some() { "measured" } else { "declared" }
                ),
            ),
            Some(Learned::Agrees(period)) => (Severity::Info, format!("job {} repeats every {period}, as planned", job.name)),
        };
        self.job_notice(now, severity, NoticeKind::PeriodMismatch, host, &job.name, said);
    }

    /// What is due at `now`: renewals of plans, and agents that were silent for too long.
    pub(crate) fn agents_due(&mut self, now: FabricTime) {
        let idle = self.idle();
        for (host, due) in self.view.agents.due(now, idle) {
            match due {
                Due::Renewal => self.send_plan(now, &host),
                Due::Silence => {
                    let Some(session) = self.view.agents.at(&host).and_then(|a| a.session) else { continue };
                    // The session is over here first, so the `AgentGone` that follows the disconnect finds nothing and tells nobody twice.
                    self.view.agents.gone(session, idle);
                    self.disconnect(session, format!("nothing was heard for {idle}"));
                    self.host_notice(
                        now,
                        Severity::Warning,
                        NoticeKind::Lost,
                        &host,
                        format!("the agent of host {host} was silent for {idle}"),
                    );
                    self.forget_misnamed(&host);
                }
            }
        }
    }

    /// Sends a host its plan, if it is there.
    pub(crate) fn send_plan(&mut self, now: FabricTime, host: &str) {
        let Some(session) = self.view.agents.at(host).and_then(|a| a.session) else { return };
        let (ttl, idle) = (self.view.config.plan_ttl, self.idle());
        let slots = self.view.host_plan(host, now.saturating_add(ttl));
        // The renewal timer begins anew with every plan, whatever the plan was sent for.
        self.view.agents.sent(host, now, ttl, idle);
        self.actions.push_back(Action::SendPlan { session, plan_version: self.view.plan_version(), slots });
    }

    /// Finds which of the jobs that a host leads its clock is too bad for. True when that changed what it is to be told.
    pub(crate) fn judge_clock(&mut self, now: FabricTime, host: &str) -> bool {
        let Some(agent) = self.view.agents.at(host) else { return false };
        let before = agent.quarantined.clone();
        let led = self.view.plan.at(host).filter(|j| *j.slot.leader_host == *host);
        let after: BTreeSet<Name> = led.filter(|j| agent.distrusts(&j.slot, before.contains(&j.name))).map(|j| j.name.clone()).collect();
        // Nothing changed for the agent, so no plan is sent and nobody is told again.
        if after == before {
            return false;
        }
        let bound = agent.clock.map_or_else(|| "unknown".into(), |c| c.bound.to_string());
        let idle = self.idle();
        self.view.agents.update(host, idle, |a| a.quarantined.clone_from(&after));
        for job in after.difference(&before) {
            let slack = self.view.plan.job(job).map_or_else(String::new, |j| j.slot.times.slack.to_string());
            let said = format!("job {job} is not held: the clock of host {host} is wrong by up to {bound}, more than the slack of {slack}");
            self.job_notice(now, Severity::Warning, NoticeKind::Quarantined, host, job, said);
        }
        // A job that is gone left the quarantine without becoming trusted, so nobody is told.
        for job in before.difference(&after).filter(|j| self.view.plan.job(j).is_some()).cloned().collect::<Vec<_>>() {
            let said = format!("job {job} may be held again: the clock of host {host} is wrong by at most {bound}");
            self.job_notice(now, Severity::Info, NoticeKind::Trusted, host, &job, said);
        }
        true
    }

    /// The host of a live session. An agent with another session is told to come again.
    fn host_of(&mut self, session: SessionId) -> Option<Name> {
        let host = self.view.agents.of(session).map(|a| a.host.clone());
        if host.is_none() {
            self.disconnect(session, "the session is unknown; say hello again".into());
        }
        host
    }

    fn disconnect(&mut self, session: SessionId, reason: String) {
        self.actions.push_back(Action::Disconnect { session, reason });
    }

    pub(crate) fn host_notice(&mut self, at: FabricTime, severity: Severity, kind: NoticeKind, host: &str, message: String) {
        let plan_version = self.view.plan_version();
        self.notice(Notice {
            by: None,
            at,
            severity,
            kind,
            message,
            job: None,
            host: Some(host.into()),
            agent: None,
            plan_version,
            order: None,
        });
    }

    fn job_notice(&mut self, at: FabricTime, severity: Severity, kind: NoticeKind, host: &str, job: &str, message: String) {
        let plan_version = self.view.plan_version();
        self.notice(Notice {
            by: None,
            at,
            severity,
            kind,
            message,
            job: Some(job.into()),
            host: Some(host.into()),
            agent: None,
            plan_version,
            order: None,
        });
    }
}
