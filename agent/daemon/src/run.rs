//! The agent at work: one loop that puts plans on pages, keeps them alive, reports, and answers Prometheus.
//!
//! The loop runs on one thread beside the session; counters and cables have threads of their own, because they wait.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use gate::now;
use gate_core::HEARTBEAT;
use proto::v1alpha1::{AgentFrame, ClockQuality, HostPlan, PlanAck, Report, agent_frame::Kind};
use telemetry::{Observation, Root};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior},
};

use crate::{
    clock::ClockEstimate,
    config::{Config, LldpConfig, MetricsConfig, Reports},
    counters::Sampling,
    gates::Gates,
    http, learning,
    metrics::{self, Configured, Snapshot},
    neighbours::{Cables, Looking, message},
    pages::Pages,
    pauses::Pauses,
    queues::Queues,
    rdma::Rdma,
    session::SessionStats,
    turns::{Around, Turns},
    wiring::AgentEnds,
};
use units::NodeTime;

/// Fastest reports that a service may ask for: below it the agent would cost more than it may.
const REPORT_MIN: Duration = Duration::from_millis(100);
/// Slowest reports: beyond it the service would take us for gone.
const REPORT_MAX: Duration = Duration::from_secs(60);
/// How often cables are told that did not change; the service forgets what it was not told for an hour.
const TELL_AGAIN: Duration = Duration::from_secs(600);
/// For how long an agent that ends answers scrapes that have begun: they take milliseconds, and gates wait for the next heartbeat.
const LAST_ANSWERS: Duration = Duration::from_millis(100);
/// Questions for metrics that wait.
const ASKED_MAX: usize = 4;

/// Where metrics are served. Clones are the same listener, so an agent that is configured anew keeps the one that it has.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    asked: Option<SocketAddr>,
    listener: Option<Arc<TcpListener>>,
}

impl Endpoint {
    /// Listens where the configuration says: on what `before` has if that is the same address, which cannot be taken twice.
    async fn listen(config: &MetricsConfig, before: &Self) -> io::Result<Self> {
        let asked = config.address();
        if asked == before.asked {
            return Ok(before.clone());
        }
        let listener = match asked {
            None => None,
            Some(address) => Some(Arc::new(listen(address).await?)),
        };
        Ok(Self { asked, listener })
    }

    /// The address, if there is one: with port 0 in the configuration the kernel chose it.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }
}

/// The parts of the machine that an agent needs: everything that can fail to be made.
///
/// Parts are made while the agent before still works, so that a configuration that cannot be taken changes nothing.
#[derive(Debug)]
pub struct Parts {
    host: String,
    service: String,
    root: Root,
    reports: Reports,
    lldp: LldpConfig,
    rdma: Option<Rdma>,
    pauses: Option<Pauses>,
    queues: Option<Queues>,
    ends: AgentEnds,
    counters: Sampling,
    turns: Turns,
    endpoint: Endpoint,
    node_exporter: bool,
}

impl Parts {
    /// Listens and starts reading counters. `before` is where the agent listens that is to be replaced.
    ///
    /// # Errors
    /// When the metrics address cannot be taken or a thread cannot be made.
    pub async fn make(config: &Config, root: Root, ends: AgentEnds, before: &Endpoint) -> io::Result<Self> {
        // The address comes first: where it is taken, no thread has been started in vain.
        let endpoint = Endpoint::listen(&config.metrics, before).await?;
        let (clock, status, frames) = (ends.clock.clone(), ends.status.clone(), ends.telemetry.clone());
        let turns = Turns::new(root.clone(), config.counters.clone());
        // Where the files are those of another host, interfaces, devices and processes are not this one's.
        let is_own = root == Root::default();
        let queues = if is_own { Some(Queues::start()?) } else { None };
        let told = queues.as_ref().map(Queues::handle).unwrap_or_default();
        let counters = Sampling::start(root.clone(), config.counters.clone(), clock, status, frames, told).await?;
        let (rdma, pauses) =
            if is_own { (Rdma::start(&config.rdma.program)?, Some(Pauses::start(counters.interfaces())?)) } else { (None, None) };
        Ok(Self {
            host: config.host.clone(),
            service: config.service.address.clone().unwrap_or_default(),
            root,
            reports: config.reports,
            lldp: config.lldp,
            rdma,
            pauses,
            queues,
            ends,
            counters,
            turns,
            endpoint,
            node_exporter: config.metrics.node_exporter,
        })
    }

    /// Where this agent will listen, or does.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }
}

/// An agent with its pages. The session is no part of the agent and has the other ends of the channels.
#[derive(Debug)]
pub struct Agent {
    configured: Configured,
    ends: AgentEnds,
    pages: Pages,
    gates: Gates,
    turns: Turns,
    counters: Sampling,
    cables: watch::Receiver<Cables>,
    // The thread looks for neighbours for as long as this value lives.
    looking: Option<Looking>,
    rdma: Option<Rdma>,
    pauses: Option<Pauses>,
    queues: Option<Queues>,
    endpoint: Endpoint,
    node_exporter: bool,
    sequence: u64,
    /// The one job with a rank on this host, if it is led here and nobody holds it: its bytes are the host's.
    alone: Option<String>,
    /// When what was told last of that job was learned.
    learned: Option<NodeTime>,
    /// The session that was told the neighbours last, and when.
    told: (u64, Instant),
    /// The last estimate: a session that ends takes nothing back, and the bound grows by itself.
    clock: Option<ClockEstimate>,
    stats: Option<Arc<SessionStats>>,
}

impl Agent {
    /// Starts reading counters and listening.
    ///
    /// # Errors
    /// As [`Parts::make`].
    pub async fn start(config: &Config, root: Root, pages: Pages, ends: AgentEnds) -> io::Result<Self> {
        Ok(Self::new(Parts::make(config, root, ends, &Endpoint::default()).await?, pages))
    }

    /// An agent of these parts. `pages` may come from one that was configured anew.
    #[must_use]
    pub fn new(parts: Parts, pages: Pages) -> Self {
        let Parts { host, service, root, reports, lldp, rdma, pauses, queues, ends, counters, turns, endpoint, node_exporter } = parts;
        let view = counters.view().ports;
        let (found, cables) = watch::channel(Cables::default());
        let ports = view.iter().filter(|port| port.kind == "interface").map(|port| port.name.clone()).collect();
        let looking = Looking::start(lldp, root, ports, found);
        tracing::info!(host, ports = view.len(), pages = %pages.directory().display(), "agent");
        let configured = Configured { host, page_dir: pages.directory().display().to_string(), service };
        let mut agent = Self {
            configured,
            ends,
            pages,
            gates: Gates::new(reports),
            turns,
            counters,
            cables,
            looking,
            rdma,
            pauses,
            queues,
            endpoint,
            node_exporter,
            sequence: 0,
            alone: None,
            learned: None,
            told: (0, Instant::now()),
            clock: None,
            stats: None,
        };
        agent.pages.forget_turns(now());
        agent.follow();
        agent
    }

    /// Where metrics are served, if they are: with port 0 in the configuration the kernel chose one.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.endpoint.address()
    }

    /// Works until `stop`, and hands the pages and the clock back, still good: whoever gets them retires the pages or goes on.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> (Pages, Option<ClockEstimate>) {
        let (asked_in, mut asked) = mpsc::channel(ASKED_MAX);
        let server = self.endpoint.listener.take().map(|listener| tokio::spawn(http::serve(listener, asked_in)));
        let mut beat = tokio::time::interval(Duration::from_nanos(HEARTBEAT.0));
        // After a stall one heartbeat is enough: a burst of them would write the same pages again.
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut report_at = Instant::now() + self.report_interval();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                // The order is the priority: a stop, then the heartbeat that gates rely on, then turns, for which jobs wait; metrics last.
                biased;
                () = &mut stop => break,
                _ = beat.tick() => self.beat(),
                Some(order) = self.ends.orders.recv() => self.turn(|turns, around| turns.order(&order, around)),
                () = self.turns.due(now()) => self.turn(Turns::work),
                Ok(()) = self.ends.status.changed() => {
                    let status = *self.ends.status.borrow_and_update();
                    self.turn(|turns, around| turns.session(status.connected, status.sessions, around));
                }
                Some(plan) = self.ends.plans.recv() => self.take(&plan),
                () = tokio::time::sleep_until(report_at) => {
                    self.report();
                    report_at = Instant::now() + self.report_interval();
                }
                Some(answer) = asked.recv() => {
                    // The scraper may have gone away meanwhile.
                    let _ = answer.send(metrics::text(&self.snapshot(), now()));
                }
            }
        }
        if let Some(server) = server {
            server.abort();
            // The next agent may serve the same listener, so this server is gone first; an aborted task ends at its next turn.
            let _ = server.await;
            // Scrapes that are under way are answered. The channel is closed when the last of their connections has ended; one that
            // says nothing is left alone with its silence.
            let until = Instant::now() + LAST_ANSWERS;
            while let Ok(Some(answer)) = tokio::time::timeout_at(until, asked.recv()).await {
                let _ = answer.send(metrics::text(&self.snapshot(), now()));
            }
        }
        self.looking.take();
        self.turns.close();
        self.clock();
        (self.pages, self.clock)
    }

    fn clock(&mut self) -> Option<ClockEstimate> {
        // A new session without an estimate does not erase the last one, whose bound grows with its age.
        self.clock = self.ends.clock.borrow().or(self.clock);
        self.clock
    }

    fn beat(&mut self) {
        let clock = self.clock();
        if self.pages.beat(clock.as_ref(), now()) {
            // Whoever removed a page may have removed its report.
            self.follow();
        }
        // A socket that could not be bound, or that is gone, is bound again.
        self.turns.follow(&self.pages);
    }

    /// Gives the turns something to do.
    fn turn(&mut self, act: impl FnOnce(&mut Turns, &mut Around<'_>)) {
        let clock = self.clock();
        let mut around = Around { pages: &mut self.pages, notes: &self.ends.notes, clock, now: now() };
        act(&mut self.turns, &mut around);
    }

    fn report_interval(&self) -> Duration {
        Duration::from_nanos(self.ends.status.borrow().report_interval.0).clamp(REPORT_MIN, REPORT_MAX)
    }

    fn take(&mut self, plan: &HostPlan) {
        let clock = self.clock();
        let at = now();
        let is_new = plan.plan_version != self.pages.plan_version();
        self.pages.take_over(plan);
        // The socket is there before a page says that starts take turns: a gate that finds nobody to ask goes at once.
        self.turns.follow(&self.pages);
        self.pages.write_plan(clock.as_ref(), at);
        if is_new {
            tracing::info!(plan_version = plan.plan_version, slots = plan.slots.len(), pages = self.pages.len(), "plan");
        }
        self.follow();
        self.follow_alone(plan);
        // The acknowledgement says when the pages were written.
        let written_ns = clock.and_then(|clock| clock.offset.fabric(at)).map_or(0, |at| at.0);
        self.send(Kind::PlanAck(PlanAck { plan_version: plan.plan_version, written_ns }));
    }

    fn follow(&mut self) {
        let directory = self.pages.directory().to_owned();
        if let Err(error) = self.gates.follow(&directory, self.pages.led().map(|(job, _)| job), now()) {
            tracing::warn!(%error, "a job's report cannot be read");
        }
    }

    /// Learns the one job of this host. A held job repeats with its slots, and one that takes turns is measured by them.
    fn follow_alone(&mut self, plan: &HostPlan) {
        let alone = match &plan.slots[..] {
            [only] if !only.hold && !only.turns && self.pages.led().any(|(job, _)| job == only.job) => Some(only.job.clone()),
            _ => None,
        };
        if alone != self.alone {
            // What was learned, and what was read until now, is another job's.
            self.counters.learning().begin(alone.is_some().then(now));
            (self.alone, self.learned) = (alone, None);
        }
    }

    /// Names of the ports that are read now, for the session's hello.
    #[must_use]
    pub fn ports(&self) -> Vec<String> {
        self.counters.view().ports.into_iter().map(|port| port.name).collect()
    }

    /// Shows the counts of a session among the metrics.
    pub fn show_session(&mut self, stats: Arc<SessionStats>) {
        self.stats = Some(stats);
    }

    fn report(&mut self) {
        let at = now();
        let clock =
            self.clock().map(|clock| ClockQuality { offset_ns: clock.offset.0, bound_ns: clock.bound_at(at).0, rtt_ns: clock.rtt.0 });
        // The reports are read without a session too, because the totals of the metrics come from them.
        let mut gates = self.gates.report(self.pages.led(), at);
        self.turn(|turns, around| turns.listen(around));
        let learned = self.alone.as_ref().and_then(|_| self.counters.learning().found(at));
        // Bytes do not say whose they are: a period is a job's only where one job runs. A job that nobody holds keeps no beat, and what was
        // learned of its iterations says more than a beat that was found by chance.
        if let [only] = gates.as_mut_slice() {
            let beat = || (self.pages.led().count() == 1).then(|| self.observed()).flatten().map(|seen| seen.period.0);
            only.observed_period_ns = learned.as_ref().map(|learned| learned.job.period.0).or_else(beat);
        }
        let status = *self.ends.status.borrow();
        if !status.connected {
            return;
        }
        self.sequence += 1;
        self.send(Kind::Report(Report { sequence: self.sequence, clock, gates }));
        self.tell_cables(status.sessions);
        if let (Some(job), Some(learned)) = (&self.alone, &learned)
            && self.learned != Some(learned.at)
        {
            self.send(Kind::Learned(learning::message(job, learned)));
            self.learned = Some(learned.at);
        }
    }

    /// Each session hears the cables once, later what changed, and now and then the same again, so that the service can forget those of hosts
    /// that are gone. That there is no neighbour is news to a session that was told some, and when the agent has looked for long enough.
    fn tell_cables(&mut self, session: u64) {
        let (told, at) = self.told;
        if !self.cables.has_changed().unwrap_or(false) && told == session && at.elapsed() < TELL_AGAIN {
            return;
        }
        let cables = self.cables.borrow_and_update().clone();
        if !cables.neighbours.is_empty() || cables.settled || told == session && self.looking.is_some() {
            self.send(Kind::Neighbours(message(&cables)));
        }
        self.told = (session, Instant::now());
    }

    /// The period of the port that shows one most clearly.
    fn observed(&self) -> Option<Observation> {
        let ports = self.counters.view().ports.into_iter();
        ports.filter_map(|port| port.observed).max_by(|a, b| a.confidence.total_cmp(&b.confidence))
    }

    fn send(&self, kind: Kind) {
        if self.ends.frames.try_send(AgentFrame { kind: Some(kind) }).is_err() {
            tracing::debug!("the session takes no frame now; dropped");
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            configured: self.configured.clone(),
            counters: self.counters.view(),
            gates: self.gates.totals(),
            turns: self.turns.totals(),
            iterations: self.turns.iterations(),
            notes: self.turns.counts(),
            clock: self.clock,
            connected: self.ends.status.borrow().connected,
            plan_version: self.pages.plan_version(),
            pages: self.pages.len(),
            page_errors: self.pages.errors(),
            session: self.stats.as_ref().map(|stats| stats.read()),
            rdma: self.rdma.as_ref().map(Rdma::view),
            pauses: self.pauses.as_ref().map(Pauses::view).unwrap_or_default(),
            queues: self.queues.as_ref().map(|queues| queues.handle().view()).unwrap_or_default(),
            node_exporter: self.node_exporter,
        }
    }
}

async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| io::Error::new(error.kind(), format!("metrics.listen = {address}: {error}")))
}
