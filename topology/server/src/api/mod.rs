//! What the service answers, whatever the protocol: one method for each RPC of `topology.proto`.

mod changes;
mod error;
mod evaluate;
mod explain;
mod export;
mod history;
mod line;
mod picture;
mod places;
mod read;
mod solve;
mod submissions;
mod switches;
mod tasks;
mod turns;
mod weight;

use std::{
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use axum::body::Bytes;
use circle::Cancel;
use proto::v1alpha1 as pb;
use tokio::sync::watch;

pub use error::{ApiError, Kind};
pub(crate) use history::SPAN_MAX_S;
use line::Line;
pub(crate) use picture::{JobColours, MapShape};
pub use places::Place;
use places::Places;
pub use solve::Shifts;
use tasks::{Pools, beside, compute_on, first_on, read_on};

use crate::{
    FabricClock,
    config::Config,
    controller::{ControllerHandle, Snapshot},
    discovery::Discovery,
    events::EventLog,
    history::History,
    metrics::Metrics,
    queue::SchedulerHandle,
    quic,
    sflow::Observed,
    telemetry::TelemetryHandle,
    tls::Who,
    writer::StoreHealth,
};

/// Longest lease: a year, against a mistake of units.
const LEASE_MS_MAX: u64 = 366 * 86_400_000;
/// Changes that are read at the same time. Reading one takes milliseconds, and 0.5 s for the largest fabric.
const CHANGES_READ: usize = 2;
/// Bodies of questions that are decoded at the same time.
const DECODED: usize = 2;
/// Pictures that are drawn at the same time. A picture takes about a millisecond, but one of a link with all 10,000 jobs up
/// to seconds: a caller that asks for many of those waits, and leaves processors to others.
const PICTURES_DRAWN: usize = 2;
/// Answers that are read at the same time. Most are short, and those that list ten thousand jobs are not: with more of these than
/// processors each of them waits longer, and so does everybody else.
const READS: usize = 4;
/// Rankings of the scheduler's places at the same time: it asks for one at a time.
const RANKINGS: usize = 1;
/// Most names in one request.
const NAMES_MAX: usize = state::config::JOBS_MAX;

/// The service behind all protocols. Cloning it shares it.
#[derive(Clone, Debug)]
pub struct Api(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    controller: ControllerHandle,
    health: StoreHealth,
    /// Whether the controller was seen to have a fabric, which it keeps.
    has_fabric: AtomicBool,
    telemetry: TelemetryHandle,
    discovery: Discovery,
    events: EventLog,
    metrics: Arc<Metrics>,
    sessions: Arc<quic::Stats>,
    clock: FabricClock,
    config: watch::Receiver<Arc<Config>>,
    /// A place for each question that may compute at the same time.
    computing: Line,
    /// A place for the scheduler's own questions: clients' do not keep jobs from starting.
    ranking: Line,
    /// Where questions compute. The controller plans on the threads that all share, and must not stand in line behind them.
    pools: Arc<Pools>,
    /// A place for each change that may be read at the same time: questions take minutes if they like, and changes do not wait.
    reading: Line,
    /// A place for each body of a question that may be decoded at the same time.
    decoding: Line,
    /// A place for each picture that may be drawn at the same time: a page that refreshes does not wait for questions.
    drawing: Line,
    /// A place for each answer that may be read at the same time.
    reads: Line,
    /// The fabric as clients read it, and its version.
    fabric_json: Mutex<Option<(u64, Bytes)>>,
    /// Open streams.
    places: Places,
    /// The scheduler, once it runs; never where the configuration has none.
    scheduler: OnceLock<SchedulerHandle>,
    /// What switches say, once the program hears them.
    switches: OnceLock<Observed>,
    /// Samples of a day, once the program keeps them.
    history: OnceLock<History>,
}

/// What [`Api::new`] puts together.
#[derive(Debug)]
pub struct Parts {
    /// The controller.
    pub controller: ControllerHandle,
    /// How its store is.
    pub health: StoreHealth,
    /// Series.
    pub telemetry: TelemetryHandle,
    /// What agents see of the cabling.
    pub discovery: Discovery,
    /// Events.
    pub events: EventLog,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Counts of agents' sessions.
    pub sessions: Arc<quic::Stats>,
    /// Fabric time.
    pub clock: FabricClock,
    /// Limits, as last loaded.
    pub config: watch::Receiver<Arc<Config>>,
}

impl Api {
    /// Puts the parts together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let limits = parts.config.borrow().limits;
        Self(Arc::new(Inner {
            controller: parts.controller,
            health: parts.health,
            has_fabric: AtomicBool::new(false),
            telemetry: parts.telemetry,
            discovery: parts.discovery,
            events: parts.events,
            metrics: parts.metrics,
            sessions: parts.sessions,
            clock: parts.clock,
            config: parts.config,
            computing: Line::new(limits.evaluations as usize),
            ranking: Line::new(RANKINGS),
            pools: Arc::default(),
            reading: Line::new(CHANGES_READ),
            decoding: Line::new(DECODED),
            drawing: Line::new(PICTURES_DRAWN),
            reads: Line::new(READS),
            fabric_json: Mutex::default(),
            places: Places::default(),
            scheduler: OnceLock::new(),
            switches: OnceLock::new(),
            history: OnceLock::new(),
        }))
    }

    /// Counters, for those who answer requests.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// The configuration as last loaded.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.0.config.borrow())
    }

    /// The state now.
    async fn snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        Ok(self.0.controller.snapshot().await?)
    }

    /// Answers a question that takes a processor, beside the tasks and not many at a time. The caller's time runs while it waits for
    /// its turn.
    async fn compute<T: Send + 'static>(&self, who: Option<Who>, work: impl FnOnce(&Cancel) -> T + Send + 'static) -> Result<T, ApiError> {
        compute_on(&self.0.computing, who, Some(Arc::clone(&self.0.pools)), work).await
    }

    /// The same for the scheduler, which does not stand in line behind clients, as little as the controller does.
    async fn compute_ranking<T: Send + 'static>(&self, work: impl FnOnce(&Cancel) -> T + Send + 'static) -> Result<T, ApiError> {
        compute_on(&self.0.ranking, None, None, work).await
    }

    /// Answers whoever reads on a thread beside the tasks, from the question to the last byte of its answer: a list of all jobs takes
    /// long to clone and to write, and a task that does so keeps agents, changes and probes from being heard.
    ///
    /// # Errors
    /// The service is stopping, or the answer took longer than a request may.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        who: Option<Who>,
        answer: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let limit = self.config().limits.request();
        read_on(&self.0.reads, who, limit, answer).await
    }

    /// Does work on a body on a thread beside the tasks: the largest take a second to decode, in which a task hears no agent. Changes have
    /// places of their own.
    ///
    /// # Errors
    /// The service is stopping, or the work failed.
    pub(crate) async fn decode<T: Send + 'static>(
        &self,
        who: Option<Who>,
        changes: bool,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        beside(self.decoding(changes), who, work).await?
    }

    /// The same for a future that decodes when it is polled first, as tonic's services do.
    ///
    /// # Errors
    /// The service is stopping.
    pub(crate) async fn decode_first<F: Future>(&self, who: Option<Who>, changes: bool, answer: F) -> Result<F::Output, ApiError> {
        first_on(self.decoding(changes), who, answer).await
    }

    fn decoding(&self, changes: bool) -> &Line {
        if changes { &self.0.reading } else { &self.0.decoding }
    }

    /// Reads what a change brings.
    async fn read_change<T: Send + 'static>(&self, who: Option<Who>, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        beside(&self.0.reading, who, work).await
    }
}

fn limit(what: &str, value: usize, max: usize) -> Result<(), ApiError> {
    if value > max { Err(ApiError::invalid(format!("{what}: {value}; at most {max}"))) } else { Ok(()) }
}

/// A reader of events that counts against the limit.
#[derive(Debug)]
pub struct Watcher {
    /// Told before anything else: that the reader comes from a number which this service has not reached.
    pub gap: Option<pb::Event>,
    /// The reader.
    pub reader: crate::events::EventReader,
    /// Taken for as long as the reader lives.
    #[allow(dead_code, reason = "held, and given back when it is dropped")]
    place: Place,
}

/// How long a reader of events waits before a sign of life.
pub const WATCH_KEEP_ALIVE: Duration = Duration::from_secs(15);
