//! Agents: one session per host, when each was heard last, and when its plan has to be renewed.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use units::{FabricTime, Nanos};

use crate::{
    ClockQuality, Origin, SessionId, Slot,
    config::{AGENTS_MAX, TRUST_PERMILLE, TWINS_APART},
    plan::Name,
};

/// An agent, connected or not.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) host: Name,
    pub(crate) session: Option<SessionId>,
    /// The latest session of the host: an older session that comes late is not let back.
    pub(crate) latest: SessionId,
    pub(crate) version: String,
    pub(crate) ports: Vec<String>,
    /// Of the plan that it acknowledged.
    pub(crate) acknowledged: u64,
    pub(crate) clock: Option<ClockQuality>,
    pub(crate) last_seen: FabricTime,
    /// How long nobody could be heard since then.
    unheard: Nanos,
    /// When the plan that it was sent expires.
    pub(crate) expires: FabricTime,
    renew: FabricTime,
    /// Jobs that it leads with too bad a clock.
    pub(crate) quarantined: BTreeSet<Name>,
    /// Its program.
    pub(crate) origin: Origin,
    /// The program whose session it ended by coming.
    ended: Option<Origin>,
    /// Where the other one of two programs of this host is, and when it was last seen that there are two.
    twin: Option<(String, FabricTime)>,
}

/// What an agent says of itself when a session begins.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) version: String,
    pub(crate) ports: Vec<String>,
    pub(crate) plan_version: u64,
    pub(crate) origin: Origin,
}

/// What a host has to be told or told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Its plan grows old.
    Renewal,
    /// It was silent for too long.
    Silence,
}

/// What a hello came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Welcome {
    /// A session begins; the older one of the host, if there was one, is over.
    New(Option<SessionId>),
    /// The same session again.
    Again,
    /// A later session of the host is known, or the session belongs to another host.
    Refused,
    /// There are too many agents.
    Full,
}

/// All agents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agents {
    by_host: BTreeMap<Name, Agent>,
    sessions: BTreeMap<SessionId, Name>,
    timers: BTreeSet<(FabricTime, Name)>,
}

impl Agent {
    /// When it has to be looked at next.
    fn due(&self, idle: Nanos) -> Option<FabricTime> {
        // An agent without a session gets no plan and cannot fall silent, so it has no timer.
        self.session.map(|_| self.renew.min(self.silent_at(idle)))
    }

    fn silent_at(&self, idle: Nanos) -> FabricTime {
        // A sum beyond the range of time means never, which is what saturation gives.
        self.last_seen.saturating_add(idle).saturating_add(self.unheard)
    }

    /// Where another program that says hello for this host is, while there are two.
    pub(crate) fn twin(&self, now: FabricTime) -> Option<&str> {
        self.twin.as_ref().filter(|(_, seen)| now.since(*seen) <= TWINS_APART).map(|(from, _)| from.as_str())
    }

    /// Takes over what the session before knew of a twin. Notes a twin where this program comes for the second time, after another one had ended
    /// its session and now loses its own: the two do not know of each other. One that restarts comes as another program, and the one before
    /// never comes again.
    fn remember_twin(&mut self, old: &Self, now: FabricTime) {
        self.twin.clone_from(&old.twin);
        if old.session.is_none() || old.origin.instance == self.origin.instance {
            self.ended.clone_from(&old.ended);
            return;
        }
        self.ended = Some(old.origin.clone());
        let is_back = old.ended.as_ref().is_some_and(|ended| ended.instance == self.origin.instance);
        if is_back && self.origin.instance != 0 {
            self.twin = Some((old.origin.from.clone(), now));
        }
    }

    /// Notes that the agent said something.
    pub(crate) fn heard(&mut self, now: FabricTime) {
        (self.last_seen, self.unheard) = (now, Nanos(0));
    }

    /// Whether the clock is good enough for the slot, given whether it was before.
    pub(crate) fn distrusts(&self, slot: &Slot, before: bool) -> bool {
        // A session without an estimate yet says nothing about its clock: the earlier verdict stands.
        let Some(clock) = self.clock else { return before };
        // Trust comes back only well below the slack (`TRUST_PERMILLE`); a bound that wavers around it would flap otherwise.
        let enough = if before { plan::slot::share(slot.times.slack, TRUST_PERMILLE) } else { slot.times.slack };
        // A job that is not held has no slot to miss, whatever the clock.
        slot.hold && clock.bound > enough
    }
}

impl Agents {
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Agent> {
        self.by_host.values()
    }

    pub(crate) fn at(&self, host: &str) -> Option<&Agent> {
        self.by_host.get(host)
    }

    pub(crate) fn of(&self, session: SessionId) -> Option<&Agent> {
        self.sessions.get(&session).and_then(|h| self.by_host.get(h))
    }

    /// Begins a session.
    pub(crate) fn hello(&mut self, now: FabricTime, session: SessionId, host: &str, origin: Origin, idle: Nanos) -> Welcome {
        // A session stays with the host of its first hello.
        if let Some(known) = self.sessions.get(&session) {
            return if **known == *host { Welcome::Again } else { Welcome::Refused };
        }
        // Session numbers only grow, so a smaller one is a late hello of a session that was replaced.
        if self.by_host.get(host).is_some_and(|a| a.latest >= session) {
            return Welcome::Refused;
        }
        // Room is made before anything changes: a refused hello leaves all agents as they were.
        if !self.by_host.contains_key(host) && !self.make_room() {
            return Welcome::Full;
        }
        let host = Name::from(host);
        let mut fresh = Agent {
            host: host.clone(),
            session: Some(session),
            latest: session,
            version: String::new(),
            ports: Vec::new(),
            acknowledged: 0,
            clock: None,
            last_seen: now,
            unheard: Nanos(0),
            expires: FabricTime(0),
            renew: now,
            quarantined: BTreeSet::new(),
            origin,
            ended: None,
            twin: None,
        };
        // The old timer is found by what the old agent says, so the old agent leaves before the new one is in.
        let old = self.forget(&host, idle);
        if let Some(old) = &old {
            fresh.remember_twin(old, now);
        }
        self.sessions.insert(session, host.clone());
        self.timers.extend(fresh.due(idle).map(|at| (at, host.clone())));
        self.by_host.insert(host, fresh);
        Welcome::New(old.and_then(|o| o.session))
    }

    /// Forgets the agent that is gone for the longest time, if that is necessary.
    fn make_room(&mut self) -> bool {
        if self.by_host.len() < AGENTS_MAX {
            return true;
        }
        // Agents with a session are never forgotten. Ties go by name, so that the same events forget the same agent.
        let gone = self.by_host.values().filter(|a| a.session.is_none()).min_by_key(|a| (a.last_seen, a.host.clone()));
        let gone = gone.map(|a| a.host.clone());
        gone.is_some_and(|host| self.by_host.remove(&host).is_some())
    }

    pub(crate) fn forget(&mut self, host: &Name, idle: Nanos) -> Option<Agent> {
        let old = self.by_host.remove(host)?;
        if let Some(session) = old.session {
            self.sessions.remove(&session);
        }
        if let Some(at) = old.due(idle) {
            self.timers.remove(&(at, host.clone()));
        }
        Some(old)
    }

    /// Changes what is known of a host's agent and keeps its timer.
    pub(crate) fn update(&mut self, host: &str, idle: Nanos, change: impl FnOnce(&mut Agent)) {
        let Some(agent) = self.by_host.get_mut(host) else { return };
        // The key of a timer is computed from its agent: the key is taken before the change, to remove the timer, and after, to insert it.
        let before = agent.due(idle);
        change(agent);
        let after = agent.due(idle);
        if before != after {
            if let Some(at) = before {
                self.timers.remove(&(at, agent.host.clone()));
            }
            self.timers.extend(after.map(|at| (at, agent.host.clone())));
        }
    }

    /// Nobody could be heard for so long.
    pub(crate) fn unheard(&mut self, lasted: Nanos, idle: Nanos) {
        // An agent without a session cannot fall silent; the copy of at most `AGENTS_MAX` names lets `update` change the agents.
        let connected: Vec<Name> = self.sessions.values().cloned().collect();
        for host in connected {
            self.update(&host, idle, |a| a.unheard = Nanos(a.unheard.0.saturating_add(lasted.0)));
        }
    }

    /// Ends a session, and tells whose it was.
    pub(crate) fn gone(&mut self, session: SessionId, idle: Nanos) -> Option<Name> {
        let host = self.sessions.remove(&session)?;
        self.update(&host, idle, |a| a.session = None);
        Some(host)
    }

    /// Notes that a plan was sent which holds until `expires`.
    pub(crate) fn sent(&mut self, host: &str, now: FabricTime, ttl: Nanos, idle: Nanos) {
        self.update(host, idle, |a| {
            a.expires = now.saturating_add(ttl);
            // A third of the lifetime leaves time for another renewal if the first one is lost. At least 1 ns, so that time moves on.
            a.renew = now.saturating_add(Nanos((ttl.0 / 3).max(1)));
        });
    }

    /// When the next host is due.
    pub(crate) fn first(&self) -> Option<FabricTime> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The hosts that are due, and for what.
    pub(crate) fn due(&self, now: FabricTime, idle: Nanos) -> Vec<(Name, Due)> {
        let hosts = self.timers.iter().take_while(|(at, _)| *at <= now).filter_map(|(_, h)| self.by_host.get(h));
        // Silence comes first: a plan for an agent that is given up reaches nobody.
        let what = |a: &Agent| if a.silent_at(idle) <= now { Due::Silence } else { Due::Renewal };
        hosts.map(|a| (a.host.clone(), what(a))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Nanos = Nanos(100);

    #[test]
    fn one_session_per_host_and_late_ones_stay_out() {
        let mut agents = Agents::default();
        let mut hello = |s, host| agents.hello(FabricTime(1), SessionId(s), host, Origin::default(), IDLE);
        assert_eq!(hello(5, "a"), Welcome::New(None));
        assert_eq!(hello(5, "a"), Welcome::Again);
        assert_eq!(hello(5, "b"), Welcome::Refused);
        assert_eq!(hello(7, "a"), Welcome::New(Some(SessionId(5))));
        assert_eq!(hello(6, "a"), Welcome::Refused);
        assert_eq!(agents.gone(SessionId(5), IDLE), None, "it was over before");
        assert_eq!(agents.gone(SessionId(7), IDLE).as_deref(), Some("a"));
        assert_eq!(
            agents.hello(FabricTime(2), SessionId(7), "a", Origin::default(), IDLE),
            Welcome::Refused,
            "a session does not come back"
        );
    }

    #[test]
    fn timers_follow_renewals_and_silence() {
        let mut agents = Agents::default();
        agents.hello(FabricTime(10), SessionId(1), "a", Origin::default(), IDLE);
        assert_eq!(agents.due(FabricTime(10), IDLE), [("a".into(), Due::Renewal)]);
        agents.sent("a", FabricTime(10), Nanos(90), IDLE);
        assert_eq!((agents.first(), agents.at("a").unwrap().expires), (Some(FabricTime(40)), FabricTime(100)));
        agents.sent("a", FabricTime(40), Nanos(900), IDLE);
        assert_eq!(agents.first(), Some(FabricTime(110)));
        assert_eq!(agents.due(FabricTime(110), IDLE), [("a".into(), Due::Silence)]);
        agents.unheard(Nanos(30), IDLE);
        assert_eq!(agents.first(), Some(FabricTime(140)), "time in which nobody was heard is no silence");
        agents.update("a", IDLE, |a| a.heard(FabricTime(100)));
        assert_eq!(agents.first(), Some(FabricTime(200)));
        agents.gone(SessionId(1), IDLE);
        assert_eq!(agents.first(), None);
    }

    #[test]
    fn two_programs_of_one_host_are_told_from_one_that_restarts() {
        let mut agents = Agents::default();
        let mut session = 0;
        let mut hello = |agents: &mut Agents, at, instance| {
            session += 1;
            let origin = Origin { instance, from: alloc::format!("10.0.0.{instance}") };
            agents.hello(FabricTime(at), SessionId(session), "a", origin, IDLE);
            agents.at("a").unwrap().twin(FabricTime(at)).map(String::from)
        };
        // Killed and started again, over and over: each is a program of its own.
        assert_eq!([1, 2, 3, 4].map(|instance| hello(&mut agents, instance, instance)), [None, None, None, None]);
        // A network that comes and goes: one program, many sessions.
        assert_eq!([4, 4, 4].map(|instance| hello(&mut agents, 5, instance)), [None, None, None]);
        assert_eq!(hello(&mut agents, 6, 7), None, "one that took the other's place");
        assert_eq!(hello(&mut agents, 7, 4).as_deref(), Some("10.0.0.7"), "and the other is back");
        assert_eq!(hello(&mut agents, 8, 7).as_deref(), Some("10.0.0.4"));
        // One of them is stopped: the other stays.
        assert_eq!(agents.at("a").unwrap().twin(FabricTime(8 + TWINS_APART.0)), Some("10.0.0.4"));
        assert_eq!(agents.at("a").unwrap().twin(FabricTime(9 + TWINS_APART.0)), None);
        // Agents of an earlier version draw nothing.
        let mut old = Agents::default();
        assert_eq!([0, 0, 0].map(|instance| hello(&mut old, 1, instance)), [None, None, None]);
    }
}
