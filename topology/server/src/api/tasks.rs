//! Work beside the tasks of the runtime, which hear agents and must not wait for it: each kind has a line of its own.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use circle::Cancel;
use rayon::ThreadPool;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::Instrument as _;

use super::{ApiError, Kind, line::Line};
use crate::tls::Who;

/// A client that still waits: when it is gone nobody needs the answer, and the work ends.
pub(super) struct Asked(pub(super) Cancel);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Threads for questions: each question that computes has a set of its own, so that the parts of a long one do not stand before those of a
/// short one, and the operating system shares the processors between them. A line bounds how many there are.
#[derive(Debug, Default)]
pub(super) struct Pools(Mutex<Vec<ThreadPool>>);

impl Pools {
    /// Does work on threads that nobody else uses meanwhile; where none can be made, on those that all share.
    fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let kept = self.lock().pop();
        let made = || rayon::ThreadPoolBuilder::new().thread_name(|n| format!("question-{n}")).build();
        let Ok(pool) = kept.map_or_else(made, Ok).inspect_err(|error| tracing::warn!(%error, "questions and plans share their threads"))
        else {
            return work();
        };
        let out = pool.install(work);
        self.lock().push(pool);
        out
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ThreadPool>> {
        // A set is put in or taken out in one step, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a question when it is its turn in the line, on threads of its own, or on those that all share.
pub(super) async fn compute_on<T: Send + 'static>(
    line: &Line,
    who: Option<Who>,
    pools: Option<Arc<Pools>>,
    work: impl FnOnce(&Cancel) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let cancel = Cancel::default();
    // `asked` is dropped with this future, when the client goes away.
    let asked = Asked(cancel.clone());
    let there = move || match pools {
        Some(pools) => pools.install(|| work(&cancel)),
        None => work(&cancel),
    };
    // The work holds a clone of `cancel`; a client that goes away drops this future, and the solver sees it and ends (P144).
    let answer = beside(line, who, there).await;
    drop(asked);
    answer
}

/// Runs a future to its end on a thread for such work, when it is its turn.
pub(super) async fn read_on<T: Send + 'static>(
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
pub(super) async fn first_on<F: Future>(line: &Line, who: Option<Who>, answer: F) -> Result<F::Output, ApiError> {
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
pub(super) async fn beside<T: Send + 'static>(
    line: &Line,
    who: Option<Who>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
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

    /// Found by a stranger: parts of one question kept all threads, and another one of a millisecond waited for 19 s.
    #[test]
    fn a_question_does_not_wait_for_the_parts_of_another() {
        let pools = Arc::new(Pools::default());
        let threads = rayon::current_num_threads();
        let (ends, runs) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let long = {
            let (pools, ends, runs) = (Arc::clone(&pools), Arc::clone(&ends), Arc::clone(&runs));
            std::thread::spawn(move || {
                pools.install(|| {
                    rayon::scope(|scope| {
                        for _ in 0..threads {
                            scope.spawn(|_| {
                                runs.fetch_add(1, Ordering::Relaxed);
                                while ends.load(Ordering::Relaxed) == 0 {
                                    std::thread::sleep(Duration::from_millis(1));
                                }
                            });
                        }
                    });
                });
            })
        };
        while (runs.load(Ordering::Relaxed) as usize) < threads {
            std::thread::yield_now();
        }
        assert_eq!(pools.install(|| rayon::join(|| 3, || 4)), (3, 4));
        ends.store(1, Ordering::Relaxed);
        long.join().unwrap();
        assert_eq!(pools.lock().len(), 2, "both sets are kept");
        pools.install(|| {});
        assert_eq!(pools.lock().len(), 2, "and used again");
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
