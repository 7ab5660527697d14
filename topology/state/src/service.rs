//! The service: changes wait for the store, and nothing that depends on them is told before they are durable.

use alloc::{
    collections::{BTreeSet, VecDeque},
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use units::{FabricTime, Nanos};

use crate::{
    Action, Config, Event, Notice, NoticeKind, Outlook, Refusal, RestoreError, Restored, Severity, Ticket,
    agents::Greeting,
    audit::AuditTrail,
    batch::Batch,
    change::{Queued, listed},
    config::{
        BATCH_MAX, BATCH_PHASES_MAX, BATCH_TOUCHED_MAX, KEY_AGE_MAX, KEYS_FORGOTTEN_PER_BATCH, NOTICES_MAX, SEEN_AHEAD_MAX, STORE_RETRY,
        WAITING, measured_apart,
    },
    measured::{Seen, another},
    plan::{Name, Plan},
    queue::{ChangeQueue, Full},
    restore,
    turns::{Judged, MeasuredJobs},
    view::View,
};

/// The topology service's controller, which never reads a clock and does no input or output.
///
/// ```
/// use antiphase_state::{Action, Change, Config, Event, RequestId, Service};
/// use units::FabricTime;
/// let mut service = Service::new(Config::default());
/// service.handle(FabricTime(1), Event::Asked { request: RequestId(7), change: Change::Release { by: None, jobs: vec!["a".into()] } });
/// // Nothing was committed, so nothing has to be written first.
/// assert!(matches!(service.poll(), Some(Action::Reply { request: RequestId(7), result: Ok(_) })));
/// assert!(service.poll().is_none());
/// ```
#[derive(Debug)]
pub struct Service {
    /// What is durable, and the agents.
    pub(crate) view: View,
    /// What will be durable when the batch under way is.
    next: Plan,
    queue: ChangeQueue,
    under_way: Option<Batch>,
    last_ticket: u64,
    pub(crate) actions: VecDeque<Action>,
    notices: usize,
    /// A change that ends leases waits.
    expiring: bool,
    /// The store failed: leases end no earlier than this.
    not_before: FabricTime,
    /// What was said last of what turns would bring.
    outlook: Option<Outlook>,
}

impl Service {
    /// A service without a fabric.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::with_plan(config, Plan::default())
    }

    /// Rebuilds from what was kept: jobs keep their slots, leases begin anew, nobody is connected.
    ///
    /// # Errors
    /// [`RestoreError`]: the records do not fit together, or are refused today.
    pub fn restore(config: Config, now: FabricTime, restored: Restored) -> Result<Self, RestoreError> {
        // A state that cannot be restored whole is refused: the operator decides, not the service (P88).
        let trail = AuditTrail::of(restored.audit.clone());
        let plan = restore::plan(&config, now, restored)?;
        let mut service = Self::with_plan(config, plan);
        service.view.audit = trail;
        for job in service.view.plan.jobs() {
            service.view.leases.set(&job.name, job.lease.as_ref().map(|l| l.until));
        }
        let groups = service.view.turn_groups();
        if !groups.is_empty() {
            let known = service.view.known(&groups);
            service.view.let_go.extend(known.iter().filter(|found| !found.hold).flat_map(|found| found.names().cloned()));
            service.actions.push_back(Action::Turns { groups, known });
        }
        service.say_outlook(now);
        Ok(service)
    }

    fn with_plan(config: Config, plan: Plan) -> Self {
        Self {
            view: View::new(config, plan.clone()),
            next: plan,
            queue: ChangeQueue::default(),
            under_way: None,
            last_ticket: 0,
            actions: VecDeque::new(),
            notices: 0,
            expiring: false,
            not_before: FabricTime(0),
            outlook: None,
        }
    }

    /// Takes in what happened at `now`; the caller's clock never goes back. Then call [`Service::poll`] until it has nothing more.
    pub fn handle(&mut self, now: FabricTime, event: Event) {
        // The count begins anew with each event: `NOTICES_MAX` bounds what one event can write into the log.
        self.notices = 0;
        // The view's time never goes back, even if a caller breaks that promise: the age of a report must not shrink.
        self.view.now = self.view.now.max(now);
        match event {
            Event::Asked { request, change } => drop(self.enqueue(Queued::Asked { request, change })),
            Event::AgentHello { session, host, version, ports, plan_version, origin } => {
                self.hello(now, session, &host, Greeting { version, ports, plan_version, origin });
            }
            Event::AgentGone { session } => self.gone(now, session),
            Event::PlanAck { session, plan_version } => self.acknowledged(now, session, plan_version),
            Event::Report { session, report } => self.report(now, session, &report),
            Event::Judged(judged) => self.judged(now, judged),
            Event::Measured(MeasuredJobs(jobs)) => self.seen(now, jobs.into_iter().map(|(name, measured)| (name, Seen::ByTurns(measured)))),
            Event::Persisted { ticket } => {
                // Only the batch under way can be answered: a stray ticket of another batch changes nothing.
                if let Some(batch) = self.under_way.take_if(|b| b.ticket == ticket) {
                    self.keep(now, batch);
                }
            }
            Event::PersistFailed { ticket, reason } => {
                if let Some(batch) = self.under_way.take_if(|b| b.ticket == ticket) {
                    self.drop_all(now, batch, &reason);
                }
            }
            Event::Stalled { lasted } => {
                // Time in which the service heard nobody is no agent's silence (P123).
                let idle = self.idle();
                self.view.agents.unheard(lasted, idle);
            }
            Event::Tick => self.tick(now),
        }
        // Every event may have queued a change or freed the store, so each one ends with a look at the queue.
        self.advance(now);
        if self.notices > NOTICES_MAX {
            // This last notice goes straight to the actions: `notice` would drop it like those that it counts.
            let message = format!("{} more notices", self.notices - NOTICES_MAX);
            let plan_version = self.view.plan_version();
            let more = Notice {
                by: None,
                at: now,
                severity: Severity::Warning,
                kind: NoticeKind::More,
                message,
                job: None,
                host: None,
                agent: None,
                plan_version,
                order: None,
            };
            self.actions.push_back(Action::Notice(more));
        }
    }

    /// What to do next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Service::handle`] with [`Event::Tick`], if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<FabricTime> {
        // A queued expiry sets no deadline: the lease stays due until the store answers, and the caller would tick without a pause.
        let leases = self.view.leases.first().filter(|_| !self.expiring).map(|at| at.max(self.not_before));
        let agents = self.view.agents.first();
        leases.into_iter().chain(agents).min()
    }

    /// What is durable, and what agents say.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        // An order that is not told is never carried out. One step of the scheduler is under way at a time, and bounds its own.
        let is_order = notice.order.is_some();
        self.notices += usize::from(!is_order);
        if is_order || self.notices <= NOTICES_MAX {
            self.actions.push_back(Action::Notice(notice));
        }
    }

    /// Queues a change. A change for which there is no room is refused at once.
    pub(crate) fn enqueue(&mut self, change: Queued) -> bool {
        let Err(Full { request, waiting, max }) = self.queue.push(change) else { return true };
        // A change of the service itself has no request: its watch or the next tick asks again.
        if let Some(request) = request {
            let refusal = Refusal::Limit { what: WAITING, value: waiting as u64 + 1, max: max as u64 };
            self.actions.push_back(Action::Reply { request, result: Err(refusal) });
        }
        false
    }

    /// Says when a group is let go, and when it is held again.
    fn judged(&mut self, now: FabricTime, judged: Judged) {
        let Judged { verdict, comparison } = judged;
        let jobs: Vec<Name> = comparison.names().cloned().collect();
        // A verdict on a group that was made anew since says nothing of the one that is there.
        let is_theirs = |name: &Name| {
            let group = self.view.plan.job(name).and_then(|job| job.turn_group());
            group.is_some_and(|group| group.jobs.iter().map(|j| &j.name).eq(&jobs))
        };
        for name in jobs.iter().filter(|name| is_theirs(name)).cloned().collect::<Vec<_>>() {
            if verdict.hold {
                self.view.let_go.remove(&name);
            } else {
                self.view.let_go.insert(name);
            }
        }
        self.view.verdicts += 1;
        self.enqueue(Queued::Compared { found: Arc::new(comparison) });
        if !verdict.is_new {
            return;
        }
        let names = listed(jobs.iter().map(|name| &**name), jobs.len());
        let (severity, does) =
            if verdict.hold { (Severity::Info, "take turns again") } else { (Severity::Warning, "take no turns any more") };
        let message = format!("{names} {does}: {}", verdict.says());
        let (plan_version, agent) = (self.view.plan_version(), jobs.first().and_then(|name| self.view.plan.leader(name)));
        self.notice(Notice {
            by: None,
            at: now,
            severity,
            kind: NoticeKind::Turns,
            message,
            job: None,
            host: None,
            agent,
            plan_version,
            order: None,
        });
    }

    /// Plans jobs anew that were seen to be others.
    pub(crate) fn seen(&mut self, now: FabricTime, said: impl Iterator<Item = (Name, Seen)>) {
        let mut jobs = Vec::new();
        for (name, seen) in said {
            let is_another = self.view.plan.job(&name).is_some_and(|job| another(&self.view.plan, job, seen).is_some());
            if !is_another {
                continue;
            }
            let watch = self.view.watches.entry(name.clone()).or_default();
            // An agent writes its notes itself, and what it makes others plan for is bounded by the logarithm of the time.
            if watch.measured.is_some_and(|(until, _)| now < until) {
                continue;
            }
            let apart = measured_apart(watch.measured.map(|(_, apart)| apart));
            watch.measured = Some((now.saturating_add(apart), apart));
            jobs.push((name, seen));
        }
        if !jobs.is_empty() {
            self.enqueue(Queued::Measure { jobs });
        }
    }

    /// Says what turns would bring, when that has changed.
    fn say_outlook(&mut self, now: FabricTime) {
        let outlook = self.view.outlook();
        if outlook == self.outlook {
            return;
        }
        // That turns would bring nothing is news only where they would have brought something.
        let gains = [outlook, self.outlook].into_iter().flatten().any(|o| o.faster > 0);
        self.outlook = outlook;
        let Some(outlook) = outlook.filter(|_| gains) else { return };
        let (message, plan_version) = (outlook.to_string(), self.view.plan_version());
        self.notice(Notice {
            by: None,
            at: now,
            severity: Severity::Info,
            kind: NoticeKind::Observe,
            message,
            job: None,
            host: None,
            agent: None,
            plan_version,
            order: None,
        });
    }

    fn tick(&mut self, now: FabricTime) {
        self.agents_due(now);
        if !self.expiring && now >= self.not_before && self.view.leases.first().is_some_and(|at| at <= now) {
            // The jobs are named when the batch begins, because reports may renew leases until then.
            self.expiring = self.enqueue(Queued::Expire { jobs: Vec::new() });
            if !self.expiring {
                // A full queue is not asked again at once: the next try is after `STORE_RETRY`.
                self.not_before = now.saturating_add(STORE_RETRY);
            }
        }
    }

    /// Begins batches until one has to wait for the store.
    fn advance(&mut self, now: FabricTime) {
        // Each turn takes at least one change off the queue, so the loop ends.
        while self.under_way.is_none() && !self.queue.is_empty() {
            let mut batch = self.apply_some(now);
            let records = batch.records(&self.view.plan, &self.next, self.view.config.control, &self.view.audit);
            // A batch of refusals or repetitions changes nothing durable, and its callers need not wait for the store.
            if records.is_empty() {
                self.keep(now, batch);
                continue;
            }
            self.last_ticket += 1;
            batch.ticket = Ticket(self.last_ticket);
            // Durability comes before announcement: replies, notices and plans stay in the batch until `Persisted` names its ticket (P86).
            self.actions.push_back(Action::Persist { ticket: batch.ticket, records });
            self.under_way = Some(batch);
        }
    }

    /// Applies the first changes of the queue to the next plan.
    fn apply_some(&mut self, now: FabricTime) -> Batch {
        let mut batch = Batch { keys: self.forget_keys(now), ..Batch::default() };
        let (mut touched, planned) = (0, self.next.planned);
        for _ in 0..BATCH_MAX {
            // The check stands before the change, so one change above a bound is still applied; the batch then ends with it (P123).
            if touched >= BATCH_TOUCHED_MAX || self.next.planned - planned >= BATCH_PHASES_MAX {
                break;
            }
            let Some(mut change) = self.queue.pop() else { break };
            let request = change.request();
            match &mut change {
                // Reports may have renewed some since this was queued.
                Queued::Expire { jobs } => *jobs = self.view.leases.due(now),
                Queued::Lengthen { job, .. } | Queued::Realign { job, .. } | Queued::EndHold { job, .. } => batch.asked.push(job.clone()),
                _ => {}
            }
            let expires = matches!(change, Queued::Expire { .. });
            // An expiry that left the queue, applied or refused, makes way for the next one.
            self.expiring &= !expires;
            match change.apply(now, &mut self.next, &self.view.config) {
                Ok(done) => {
                    touched += done.touched.len();
                    batch.add(request, done);
                }
                Err(refusal) => match request {
                    Some(request) => batch.replies.push((request, Err(refusal))),
                    None => {
                        // Nobody waits for this change, so people are told. A lease that failed to end would be due again at once.
                        self.not_before = self.not_before.max(now.saturating_add(STORE_RETRY));
                        batch.notices.push(self.internal_failure(now, &refusal.to_string()));
                    }
                },
            }
        }
        batch
    }

    fn internal_failure(&self, now: FabricTime, why: &str) -> Notice {
        let message = format!("the plan could not be changed: {why}");
        Notice {
            by: None,
            at: now,
            severity: Severity::Error,
            kind: NoticeKind::Store,
            message,
            job: None,
            host: None,
            agent: None,
            plan_version: self.view.plan_version(),
            order: None,
        }
    }

    /// Forgets keys that are old, a bounded number at a time.
    fn forget_keys(&mut self, now: FabricTime) -> BTreeSet<Arc<str>> {
        let mut forgotten = BTreeSet::new();
        for _ in 0..KEYS_FORGOTTEN_PER_BATCH {
            // Keys come in the order of their age, so the first young one ends the search.
            let old = self.next.oldest_key().filter(|(at, _)| now.since(*at) > KEY_AGE_MAX).cloned();
            let Some((_, key)) = old else { break };
            self.next.replace_key(&key, None);
            forgotten.insert(key);
        }
        forgotten
    }

    /// The batch is durable: now it shows, and everybody is told.
    fn keep(&mut self, now: FabricTime, batch: Batch) {
        // The loop compares the durable plan with the next one, so it comes before `copy` makes them equal.
        let mut hosts: BTreeSet<Name> = BTreeSet::new();
        let mut regrouped = false;
        for name in &batch.jobs {
            let (old, new) = (self.view.plan.job(name), self.next.job(name));
            regrouped |= [old, new].into_iter().flatten().any(|j| j.slot.turns);
            let (slot, lease) = (new.map(|j| &j.slot), new.and_then(|j| j.lease.as_ref()));
            let placed = |j: Option<&Arc<crate::plan::Job>>| j.map(|j| j.load.hosts.clone());
            // A host that lost a job is told as well as one that got it: a slot that is not in the plan must leave its pages.
            if old.map(|j| &j.slot) != slot || placed(old) != placed(new) {
                hosts.extend([old, new].into_iter().flatten().flat_map(|j| j.load.hosts.iter().cloned()));
            }
            // Reports renew leases past what the plan says, so an unchanged lease of the plan does not overwrite the renewed one.
            if old.is_none() || old.and_then(|j| j.lease.as_ref()) != lease {
                self.view.leases.set(name, lease.map(|l| l.until));
            }
            // Another group is compared anew, and takes turns until then.
            if self.view.let_go.contains(name) && new.and_then(|j| j.turn_group()) != old.and_then(|j| j.turn_group()) {
                self.view.let_go.remove(name);
            }
            match slot {
                None => drop(self.view.watches.remove(name)),
                Some(slot) if old.is_none_or(|o| o.slot.plan_version != slot.plan_version) => {
                    self.view.watches.entry(name.clone()).and_modify(crate::watch::Watch::restart);
                }
                Some(_) => {}
            }
        }
        // From here on reads see the batch; the answers and plans below are about what they can read.
        batch.copy(&self.next, &mut self.view.plan);
        let entries = self.view.audit.numbered(&batch.audit);
        self.view.audit.keep(entries);
        for name in &batch.asked {
            self.view.watches.entry(name.clone()).and_modify(|w| w.decided(true));
        }
        // A caller that is answered finds its own change among the events.
        for notice in batch.notices {
            self.notice(notice);
        }
        for (request, result) in batch.replies {
            self.actions.push_back(Action::Reply { request, result });
        }
        if !batch.jobs.is_empty() {
            self.say_outlook(now);
        }
        if batch.fabric {
            self.misnamed_since(now);
        }
        if regrouped {
            self.actions.push_back(Action::Turns { groups: self.view.turn_groups(), known: Vec::new() });
        }
        for host in hosts {
            // The clock is judged first: the plan that is sent says which jobs are held, and quarantine decides that.
            self.judge_clock(now, &host);
            self.send_plan(now, &host);
        }
    }

    /// The batch is lost: all that depends on it, and all that waited behind it, is refused.
    fn drop_all(&mut self, now: FabricTime, batch: Batch, reason: &str) {
        // The next plan goes back to what is durable, so that later changes do not build on what was refused (P117).
        batch.copy(&self.view.plan, &mut self.next);
        let mut asked = batch.asked;
        let mut refused: Vec<_> = batch.replies.into_iter().map(|(request, _)| request).collect();
        for change in self.queue.drain() {
            refused.extend(change.request());
            match change {
                Queued::Lengthen { job, .. } | Queued::Realign { job, .. } | Queued::EndHold { job, .. } => asked.push(job),
                _ => {}
            }
        }
        for request in refused {
            self.actions.push_back(Action::Reply { request, result: Err(Refusal::Store(String::from(reason))) });
        }
        for name in asked {
            self.view.watches.entry(name).and_modify(|w| w.decided(false));
        }
        // The drained queue may have held the expiry: without this line no lease would ever end again.
        self.expiring = false;
        self.not_before = now.saturating_add(STORE_RETRY);
        let failure = self.internal_failure(now, &format!("the store failed: {reason}"));
        self.notice(failure);
    }

    /// An agent has had this version of the plan.
    pub(crate) fn saw(&mut self, plan_version: u64) {
        // One that lies moves the number of the next change a little, and no number that a client has.
        if plan_version <= self.view.plan_version().saturating_add(SEEN_AHEAD_MAX) {
            self.next.seen = self.next.seen.max(plan_version);
        }
    }

    /// Silence after which an agent is given up.
    pub(crate) fn idle(&self) -> Nanos {
        self.view.config.idle_timeout
    }
}
