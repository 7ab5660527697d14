//! Connections: how many, for how long, and how they end.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{Router, http::Request, response::Response};
use futures_util::future::BoxFuture;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::MissedTickBehavior,
};
use tower::Service;

use super::stall::{Unread, bound_unread};
use crate::{api::Api, logs::LineLimit, role::Caller, shutdown::Shutdown};

/// A request's head has to be here within this, and a TLS handshake too.
pub const HEAD_MAX: Duration = Duration::from_secs(10);
/// A connection that is silent for this long is asked whether it is alive, over HTTP/2.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
/// Requests at the same time over one HTTP/2 connection.
const STREAMS_MAX: u32 = 128;
/// Largest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long requests may go on once the service is going down.
pub const GRACE: Duration = Duration::from_secs(10);
/// How often in the time that a reader may stop it is looked whether one has.
const LOOKS_PER_STALL: u32 = 4;
/// How long accepting rests when the process has no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Lines about strangers' connections.
static LINES: LineLimit = LineLimit::new(5, Duration::from_secs(10));

/// Turns an accepted stream into one that carries HTTP, and says who is at the other end. Plain TCP on loopback is
/// [`Acceptor::Plain`]; TLS stands in front by [`Acceptor::With`].
#[derive(Clone)]
pub enum Acceptor {
    /// As it comes; everybody on this machine is admin.
    Plain,
    /// By a function such as a TLS handshake, which [`HEAD_MAX`] bounds.
    With(Arc<AcceptFn>),
}

/// See [`Acceptor::With`].
pub type AcceptFn = dyn Fn(TcpStream, SocketAddr) -> BoxFuture<'static, io::Result<Accepted>> + Send + Sync;

/// A stream whose peer is known.
pub struct Accepted {
    /// Carries HTTP.
    pub stream: Box<dyn Stream>,
    /// The peer at the other end.
    pub caller: Caller,
    /// Ends when that can no longer be said, such as when the certificate expires; then the connection is cut.
    pub until: BoxFuture<'static, &'static str>,
}

impl Accepted {
    /// A peer that stays who it is.
    #[must_use]
    pub fn for_good(stream: Box<dyn Stream>, caller: Caller) -> Self {
        Self { stream, caller, until: Box::pin(std::future::pending()) }
    }
}

impl std::fmt::Debug for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accepted").field("caller", &self.caller).finish_non_exhaustive()
    }
}

/// A stream of bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::With(_) => "With(..)",
        })
    }
}

/// Open connections.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    open: AtomicU32,
    changed: watch::Sender<()>,
}

/// Counts one connection while it lives.
struct Counted {
    connections: Connections,
    api: Api,
}

impl Connections {
    /// Takes one more, unless there are `max`.
    fn enter(&self, max: u32, api: &Api) -> Option<Counted> {
        // The count is taken before it is judged: of two callers for the last place only one gets it.
        if self.0.open.fetch_add(1, Ordering::AcqRel) >= max {
            self.0.open.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        api.metrics().connection(1);
        Some(Counted { connections: self.clone(), api: api.clone() })
    }

    /// Returns when none is open, or after `limit`: whether none is.
    pub async fn closed(&self, limit: Duration) -> bool {
        // The subscription comes before the look at the count: a connection that closes in between wakes the wait.
        let mut changed = self.0.changed.subscribe();
        let none = async {
            while self.0.open.load(Ordering::Acquire) > 0 {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(limit, none).await.is_ok()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.api.metrics().connection(-1);
        self.connections.0.open.fetch_sub(1, Ordering::AcqRel);
        // The count falls before the waiters wake, or the last one would wake to an old number and sleep for ever.
        self.connections.0.changed.send_replace(());
    }
}

/// Accepts connections and serves `app` on them until `shutdown`; connections that are open then get [`GRACE`].
pub async fn serve(listener: TcpListener, acceptor: Acceptor, app: Router, api: Api, shutdown: Shutdown) {
    let connections = Connections::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.wait() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                say(|dropped| tracing::warn!(%error, dropped, "cannot accept a connection"));
                // An error such as too few file descriptors lasts: without the pause the loop would take a whole core.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(counted) = connections.enter(api.config().limits.connections, &api) else {
            // The stream is dropped here, which closes it; nothing of it was read.
            api.metrics().connection_refused();
            say(|dropped| tracing::warn!(%peer, dropped, "too many connections (limits.connections)"));
            continue;
        };
        let (acceptor, app, api, shutdown) = (acceptor.clone(), app.clone(), api.clone(), shutdown.clone());
        tokio::spawn(async move {
            // The count falls when this task ends, however it ends.
            let _counted = counted;
            // Nagle's algorithm would hold back the end of an answer; where the option cannot be set, answers are only slower.
            let _ = stream.set_nodelay(true);
            let stall = api.config().limits.stall();
            // The kernel's clock is set on the bare socket, because the stream that a handshake gives back no longer shows it.
            bound_unread(&stream, stall);
            match accept(&acceptor, stream, peer).await {
                Ok(Accepted { stream, caller, until }) => tokio::select! {
                    closed = connection(stream, caller, app, stall, &shutdown) => if closed == Closed::Stalled {
                        api.metrics().connection_stalled();
                        say(|dropped| tracing::info!(%peer, dropped, "a connection was cut: its client stopped reading (limits.stall_s)"));
                    },
                    // The certificate expired or its authority went: dropping the other branch cuts the connection (P124).
                    why = until => say(|dropped| tracing::info!(%peer, why, dropped, "a connection was cut")),
                },
                Err(error) => say(|dropped| tracing::info!(%peer, %error, dropped, "a connection was not taken")),
            }
        });
    }
    // The port is given up before the wait, so new clients are refused at once.
    drop(listener);
    if !connections.closed(GRACE).await {
        tracing::warn!("some requests did not end in {} s and are cut off", GRACE.as_secs());
    }
}

fn say(line: impl FnOnce(u64)) {
    // Strangers cause these lines: `LINES` bounds how many of them reach the log.
    if let Some(dropped) = LINES.pass(Instant::now()) {
        line(dropped);
    }
}

async fn accept(acceptor: &Acceptor, stream: TcpStream, peer: SocketAddr) -> io::Result<Accepted> {
    match acceptor {
        Acceptor::Plain => Ok(Accepted::for_good(Box::new(stream), Caller::LOOPBACK)),
        Acceptor::With(accept) => {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
            // A stranger may open a connection and send nothing: `HEAD_MAX` ends the handshake.
            tokio::time::timeout(HEAD_MAX, accept(stream, peer)).await.map_err(late)?
        }
    }
}

/// The routes, for one connection: its requests carry the caller.
#[derive(Clone)]
struct Marked {
    app: Router,
    caller: Caller,
    /// Whether there was a request.
    begun: Arc<AtomicBool>,
    unread: Unread,
}

impl<B> Service<Request<B>> for Marked
where
    Router: Service<Request<B>, Response = Response>,
    <Router as Service<Request<B>>>::Future: Send + 'static,
{
    type Response = Response;
    type Error = <Router as Service<Request<B>>>::Error;
    type Future = BoxFuture<'static, Result<Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.app.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.begun.store(true, Ordering::Relaxed);
        // The role comes from the connection and overwrites whatever the extensions held: no request names its own.
        request.extensions_mut().insert(self.caller);
        let (answer, unread) = (self.app.call(request), self.unread.clone());
        Box::pin(async move { Ok(answer.await?.map(|body| unread.body(body))) })
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    /// By the client, or by an end that was told.
    Done,
    /// Its client took nothing of an answer for too long.
    Stalled,
}

/// Serves one connection to its end.
async fn connection(stream: Box<dyn Stream>, caller: Caller, app: Router, stall: Duration, shutdown: &Shutdown) -> Closed {
    let begun = Arc::new(AtomicBool::new(false));
    let unread = Unread::default();
    let service = Marked { app, caller, begun: Arc::clone(&begun), unread: unread.clone() };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .keep_alive_interval(ALIVE_EVERY)
        .keep_alive_timeout(HEAD_MAX);
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    // hyper-util waits without end for the bytes that tell HTTP/1 from HTTP/2, so the first request has a clock of our own.
    let mut head = pin!(tokio::time::sleep(HEAD_MAX));
    let mut end = pin!(shutdown.wait());
    let mut look = tokio::time::interval(stall / LOOKS_PER_STALL);
    // After a busy stretch one look is enough: missed looks are not made up for.
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut waiting, mut ending) = (true, false);
    loop {
        tokio::select! {
            // What went wrong on a connection is the client's to know.
            _ = served.as_mut() => return Closed::Done,
            () = head.as_mut(), if waiting => {
                waiting = false;
                if !begun.load(Ordering::Relaxed) {
                    return Closed::Done;
                }
            }
            _ = look.tick() => if unread.longest(Instant::now()) >= stall {
                return Closed::Stalled;
            },
            () = end.as_mut(), if !ending => {
                ending = true;
                // Requests under way go on and new ones are refused; `serve` bounds the wait by `GRACE`.
                served.as_mut().graceful_shutdown();
            }
        }
    }
}
