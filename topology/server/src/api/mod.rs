//! What the service answers, whatever the protocol: one method for each RPC of `topology.proto`.

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
mod turns;
mod weight;

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, OnceLock},
    task::Poll,
    time::Duration,
};

use axum::body::Bytes;
use circle::Cancel;
use prost::Message as _;
use proto::v1alpha1 as pb;
use rayon::ThreadPool;
use sha2::{Digest as _, Sha256};
use state::{Change, Commit, Content, Refusal, Reply, config::KEY_BYTES_MAX};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::watch,
};
use tracing::Instrument as _;
use units::Nanos;

pub use error::{ApiError, Kind};
pub(crate) use history::SPAN_MAX_S;
use line::Line;
pub(crate) use picture::{JobColours, MapShape};
pub use places::Place;
use places::Places;
pub use solve::Shifts;

use crate::{
    FabricClock,
    config::Config,
    controller::{ControllerHandle, Snapshot, slot_message},
    discovery::{Discovery, SetFabric},
    events::EventLog,
    history::History,
    learning::keep_learned,
    metrics::Metrics,
    queue::SchedulerHandle,
    quic,
    resolve::{self, one_line},
    sflow::Observed,
    telemetry::TelemetryHandle,
    tls::{Subject, Who},
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
    pool: Option<Arc<ThreadPool>>,
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
            telemetry: parts.telemetry,
            discovery: parts.discovery,
            events: parts.events,
            metrics: parts.metrics,
            sessions: parts.sessions,
            clock: parts.clock,
            config: parts.config,
            computing: Line::new(limits.evaluations as usize),
            ranking: Line::new(RANKINGS),
            pool: pool(),
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

    /// Commits jobs.
    ///
    /// # Errors
    /// [`ApiError`]: nothing was changed.
    pub async fn commit(&self, by: &Subject, request: pb::CommitRequest) -> Result<pb::CommitResponse, ApiError> {
        if request.jobs.is_empty() {
            return Err(ApiError::invalid("jobs: empty"));
        }
        // Limits of numbers and lengths come before the documents are read, which is the expensive part.
        if request.idempotency_key.len() > KEY_BYTES_MAX {
            let bytes = request.idempotency_key.len();
            return Err(ApiError::invalid(format!("idempotency_key: {bytes} bytes; at most {KEY_BYTES_MAX}")));
        }
        if request.lease_ms > LEASE_MS_MAX {
            return Err(ApiError::invalid(format!("lease_ms: {}; at most {LEASE_MS_MAX}", request.lease_ms)));
        }
        limit("jobs", request.jobs.len(), state::config::COMMIT_JOBS_MAX)?;
        for spec in &request.jobs {
            // The document is kept in the state file for as long as the job, so its size is bounded apart from the body's.
            let (what, value, max) = ("bytes of a job's document", spec.encoded_len() as u64, resolve::JOB_BYTES_MAX as u64);
            if value > max {
                return Err(Refusal::Limit { what, value, max }.into());
            }
        }
        let content = content(&request);
        // The jobs are placed on the fabric of now; its version goes with them, so that the controller notices another one.
        let view = self.0.controller.fabric().await?.ok_or(Refusal::NoFabric)?;
        let (specs, if_fabric) = (request.jobs, Some(view.version));
        let known = if specs.iter().any(|spec| spec.learn) { Some(self.snapshot().await?) } else { None };
        let read = move || {
            let mut documents = resolve::documents(&specs)?;
            if let Some(known) = known {
                documents = documents.into_iter().map(|document| keep_learned(document, &known)).collect();
            }
            resolve::definitions(&view.fabric, &documents)
        };
        // The documents are read beside the controller, which would otherwise answer nobody for as long.
        let jobs = self.read_change(by.who, read).await?.map_err(ApiError::invalid)?;
        let names: Vec<String> = jobs.iter().map(|job| job.job.name.to_string()).collect();
        let about = request.explain.then(|| names.iter().cloned().collect());
        let lease = (request.lease_ms > 0).then(|| Nanos::from_millis(request.lease_ms));
        let commit = Commit {
            jobs,
            if_fabric,
            if_plan_version: request.if_plan_version,
            lease,
            key: request.idempotency_key,
            content,
            learned: false,
            by: Some(by.told.clone()),
        };
        match self.0.controller.change(Change::Commit(commit)).await?? {
            Reply::Committed(c) => {
                let slots = c.slots.iter().map(slot_message).collect();
                let (explanation, mut warnings) = (self.explained_if(by.who, about).await, c.crowded);
                // The commit is in force: a service that stops now has nothing to add, and no error to tell.
                warnings.extend(self.0.controller.warnings(names).await.unwrap_or_default());
                Ok(pb::CommitResponse { plan_version: c.plan_version, slots, moved: c.moved, score: c.score, explanation, warnings })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Forgets jobs.
    ///
    /// # Errors
    /// [`ApiError`]: nothing was changed.
    pub async fn release(&self, by: &Subject, request: pb::ReleaseRequest) -> Result<pb::ReleaseResponse, ApiError> {
        if request.jobs.is_empty() {
            return Err(ApiError::invalid("jobs: empty"));
        }
        // Whom they met is known before they are gone.
        let about = if request.explain { Some(self.neighbours(&request.jobs).await?) } else { None };
        match self.0.controller.change(Change::Release { by: Some(by.told.clone()), jobs: request.jobs }).await?? {
            Reply::Released { plan_version, unknown } => {
                let explanation = self.explained_if(by.who, about).await;
                Ok(pb::ReleaseResponse { plan_version, unknown, explanation })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// How discovery makes a fabric the service's: as an administrator would, unless somebody has set another one since.
    pub(crate) fn fabric_setter(&self) -> SetFabric {
        let api = self.clone();
        Box::new(move |fabric, if_fabric| {
            let (api, request) = (api.clone(), pb::SetFabricRequest { fabric });
            Box::pin(async move {
                let set = api.set_fabric(&Subject::discovery(), request, Some(if_fabric)).await;
                set.map(|set| set.fabric_version).map_err(|error| error.to_string())
            })
        })
    }

    /// Replaces the fabric; one of the version `if_fabric`, where that is given, with 0 for none.
    ///
    /// # Errors
    /// [`ApiError`]: nothing was changed.
    pub async fn set_fabric(
        &self,
        by: &Subject,
        request: pb::SetFabricRequest,
        if_fabric: Option<u64>,
    ) -> Result<pb::SetFabricResponse, ApiError> {
        let text: Arc<str> = request.fabric.into();
        let document = Arc::clone(&text);
        let read = move || fabric::native::read(&document).map_err(|e| ApiError::invalid(format!("fabric: {}", one_line(&e))));
        let fabric = Arc::new(self.read_change(by.who, read).await??);
        // The list of jobs stays empty here: only the controller knows which jobs are committed when the change begins.
        let change = Change::SetFabric { by: Some(by.told.clone()), fabric, text, jobs: Vec::new(), if_fabric };
        match self.0.controller.change(change).await?? {
            Reply::FabricSet { version, plan_version } => Ok(pb::SetFabricResponse { fabric_version: version, plan_version }),
            other => Err(unexpected(&other)),
        }
    }

    /// The state now.
    async fn snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        Ok(self.0.controller.snapshot().await?)
    }

    /// Answers a question that takes a processor, beside the tasks and not many at a time. The caller's time runs while it waits for
    /// its turn.
    async fn compute<T: Send + 'static>(&self, who: Option<Who>, work: impl FnOnce(&Cancel) -> T + Send + 'static) -> Result<T, ApiError> {
        compute_on(&self.0.computing, who, self.0.pool.clone(), work).await
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

/// A client that still waits: when it is gone nobody needs the answer, and the work ends.
struct Asked(Cancel);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Threads for questions; without them they compute where the controller does.
fn pool() -> Option<Arc<ThreadPool>> {
    let made = rayon::ThreadPoolBuilder::new().thread_name(|n| format!("question-{n}")).build();
    made.inspect_err(|error| tracing::warn!(%error, "questions and plans share their threads")).ok().map(Arc::new)
}

fn limit(what: &str, value: usize, max: usize) -> Result<(), ApiError> {
    if value > max { Err(ApiError::invalid(format!("{what}: {value}; at most {max}"))) } else { Ok(()) }
}

/// Answers a question when it is its turn in the line, on the threads of the pool, or on those that all share.
async fn compute_on<T: Send + 'static>(
    line: &Line,
    who: Option<Who>,
    pool: Option<Arc<ThreadPool>>,
    work: impl FnOnce(&Cancel) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let cancel = Cancel::default();
    // `asked` is dropped with this future, when the client goes away.
    let asked = Asked(cancel.clone());
    let there = move || match pool {
        Some(pool) => pool.install(|| work(&cancel)),
        None => work(&cancel),
    };
    // The work holds a clone of `cancel`; a client that goes away drops this future, and the solver sees it and ends (P144).
    let answer = beside(line, who, there).await;
    drop(asked);
    answer
}

/// Runs a future to its end on a thread for such work, when it is its turn.
async fn read_on<T: Send + 'static>(
    line: &Line,
    who: Option<Who>,
    limit: Duration,
    answer: impl Future<Output = T> + Send + 'static,
) -> Result<T, ApiError> {
    let answer = answer.in_current_span();
    // The client's own time began before this one's, so this limit only ends what nobody waits for any more.
    let there = move || Handle::current().block_on(tokio::time::timeout(limit, answer));
    let late = |_| ApiError::new(Kind::Timeout, &format!("not done within {} s", limit.as_secs()));
    beside(line, who, there).await?.map_err(late)
}

/// Polls a future first when it is its turn, while other threads take over the tasks of this one; then as any other.
async fn first_on<F: Future>(line: &Line, who: Option<Who>, answer: F) -> Result<F::Output, ApiError> {
    let turn = line.turn(who).await.ok_or_else(stopping)?;
    let mut answer = pin!(answer);
    let first = poll_fn(|cx| Poll::Ready(in_place(|| answer.as_mut().poll(cx)))).await;
    drop(turn);
    match first {
        Poll::Ready(answer) => Ok(answer),
        Poll::Pending => Ok(answer.await),
    }
}

/// Does work while other threads take over the tasks of this one, where there are others.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => work(),
        _ => tokio::task::block_in_place(work),
    }
}

fn stopping() -> ApiError {
    ApiError::new(Kind::Unavailable, &"the service is stopping")
}

/// Runs work on a thread for such work, when it is its turn.
async fn beside<T: Send + 'static>(line: &Line, who: Option<Who>, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    // A caller that goes away here leaves the line, and its work never begins.
    let turn = line.turn(who).await.ok_or_else(stopping)?;
    let task = tokio::task::spawn_blocking(move || {
        let out = work();
        // The work holds the turn and not the caller, who may go away: what still computes counts against the limit.
        drop(turn);
        out
    });
    task.await.map_err(|_| ApiError::new(Kind::Internal, &"the computation failed"))
}

/// A digest of what a request commits. What it only asks for first (a plan version, fields of the answer) may differ in a repetition.
fn content(request: &pb::CommitRequest) -> Option<Content> {
    let mut digest = Sha256::new();
    digest.update(request.lease_ms.to_be_bytes());
    for job in &request.jobs {
        // Each with its length, so that no two lists of jobs run into the same bytes.
        digest.update((job.encoded_len() as u64).to_be_bytes());
        digest.update(job.encode_to_vec());
    }
    Some(digest.finalize().into())
}

fn unexpected(reply: &Reply) -> ApiError {
    tracing::error!(?reply, "the controller gave the answer of another request");
    ApiError::new(Kind::Internal, &"an answer of another kind")
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

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    };

    use super::*;

    /// Far beyond any machine's slowness.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The one thread of this runtime goes on with other tasks while an answer is made, which waits for one of them.
    #[test]
    fn an_answer_that_is_read_keeps_no_task_waiting() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let line = Line::new(1);
            let (tell, told) = mpsc::channel();
            let other = tokio::spawn(async move { tell.send(7).is_ok() });
            let answer = async move { told.recv_timeout(PATIENCE).ok() };
            assert_eq!(read_on(&line, None, PATIENCE, answer).await.ok(), Some(Some(7)));
            assert!(other.await.unwrap());
            // An answer that never comes gives its place back.
            let never = read_on(&line, None, Duration::from_millis(1), std::future::pending::<()>()).await;
            assert_eq!((never.unwrap_err().kind, line.taken()), (Kind::Timeout, 0));
        });
    }

    /// The same for work that a future does when it is polled first, on a runtime of one worker; its place is free from then on.
    #[test]
    fn a_future_that_decodes_first_keeps_no_task_waiting() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let line = Line::new(1);
        let taken = line.clone();
        let decodes = async move {
            let (tell, told) = mpsc::channel();
            let other = tokio::spawn(async move { tell.send(7).is_ok() });
            let answer = async move {
                let heard = told.recv_timeout(PATIENCE).ok();
                tokio::task::yield_now().await;
                (heard, taken.taken())
            };
            (first_on(&line, None, answer).await.ok(), other.await.ok())
        };
        assert_eq!(runtime.block_on(runtime.spawn(decodes)).unwrap(), (Some((Some(7), 0)), Some(true)));
    }

    #[test]
    fn a_question_whose_client_is_gone_keeps_its_turn_and_one_that_waits_never_begins() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let turns = Line::new(1);
            let (begun, begins) = mpsc::channel();
            let (end, ends) = mpsc::channel::<()>();
            let there = turns.clone();
            let work = move || begun.send(()).is_ok() && ends.recv_timeout(PATIENCE).is_ok();
            let running = tokio::spawn(async move { beside(&there, None, work).await.is_ok() });
            tokio::task::spawn_blocking(move || begins.recv_timeout(PATIENCE)).await.unwrap().unwrap();
            let began = Arc::new(AtomicU32::new(0));
            let (there, counted) = (turns.clone(), Arc::clone(&began));
            let waiting = tokio::spawn(async move { beside(&there, None, move || counted.fetch_add(1, Ordering::Relaxed)).await.is_ok() });
            tokio::task::yield_now().await;
            for client in [running, waiting] {
                client.abort();
                assert!(client.await.unwrap_err().is_cancelled());
            }
            assert_eq!(turns.taken(), 1, "what nobody waits for still counts");
            end.send(()).unwrap();
            let next = tokio::time::timeout(PATIENCE, beside(&turns, None, || 7)).await.unwrap();
            assert_eq!((next.ok(), began.load(Ordering::Relaxed)), (Some(7), 0));
        });
    }
}
