//! Connections: how many, for how long, and how they end.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::HttpBody as _,
    http::{HeaderValue, Request, header},
    response::Response,
};
use futures_util::future::BoxFuture;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::MissedTickBehavior,
};
use tower::Service;

use super::{
    answer::is_grpc,
    room::{Connections, Seat},
    stall::{Unread, bound_unread},
};
use crate::{
    api::{Api, ApiError, Kind},
    lines::LineLimit,
    owed::{Account, Answers, Owed, SharedBytes},
    role::Caller,
    shutdown::Shutdown,
    tls::Subject,
};

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
    /// As events name it.
    pub subject: Subject,
    /// Ends when that can no longer be said, such as when the certificate expires; then the connection is cut.
    pub until: BoxFuture<'static, &'static str>,
}

impl Accepted {
    /// A peer that stays who it is.
    #[must_use]
    pub fn for_good(stream: Box<dyn Stream>, caller: Caller) -> Self {
        Self { stream, caller, subject: Subject::local(), until: Box::pin(std::future::pending()) }
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

/// Accepts connections and serves `app` on them until `shutdown`; connections that are open then get [`GRACE`].
pub async fn serve(listener: TcpListener, acceptor: Acceptor, app: Router, api: Api, shutdown: Shutdown) {
    let (connections, answers) = (Connections::default(), Answers::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.wait() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                LINES.say(|dropped| tracing::warn!(%error, dropped, "cannot accept a connection"));
                connections.cut_fresh();
                // An error such as too few file descriptors lasts: without the pause the loop would take a whole core.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (seat, cut) = connections.enter(peer.ip());
        let served =
            One { acceptor: acceptor.clone(), app: app.clone(), api: api.clone(), answers: answers.clone(), shutdown: shutdown.clone() };
        let api = api.clone();
        tokio::spawn(async move {
            let _counted = Counted::of(&api);
            tokio::select! {
                () = served.serve(stream, peer, seat) => {}
                // Somebody came, and this connection was the one to go.
                Ok(why) = cut => {
                    api.metrics().connection_refused();
                    LINES.say(|dropped| tracing::info!(%peer, why, dropped, "a connection was cut"));
                }
            }
        });
    }
    // The port is given up before the wait, so new clients are refused at once.
    drop(listener);
    if !connections.closed(GRACE).await {
        tracing::warn!("some requests did not end in {} s and are cut off", GRACE.as_secs());
    }
}

/// Counts a connection while it lives.
struct Counted<'a>(&'a Api);

impl<'a> Counted<'a> {
    fn of(api: &'a Api) -> Self {
        api.metrics().connection(1);
        Self(api)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.metrics().connection(-1);
    }
}

/// What it takes to serve one connection.
struct One {
    acceptor: Acceptor,
    app: Router,
    api: Api,
    answers: Answers,
    shutdown: Shutdown,
}

impl One {
    async fn serve(self, stream: TcpStream, peer: SocketAddr, seat: Seat) {
        let Self { acceptor, app, api, answers, shutdown } = self;
        // Nagle's algorithm would hold back the end of an answer; where the option cannot be set, answers are only slower.
        let _ = stream.set_nodelay(true);
        let stall = api.config().limits.stall();
        // The kernel's clock is set on the bare socket, because the stream that a handshake gives back no longer shows it.
        bound_unread(&stream, stall);
        match accept(&acceptor, stream, peer).await {
            Ok(Accepted { stream, caller, subject, until }) => {
                seat.known(caller.who);
                let begun = Arc::new(AtomicBool::new(false));
                let account = answers.account(caller.who);
                let marked = Marked { app, api: api.clone(), caller, subject, begun, unread: Unread::default(), seat, account };
                tokio::select! {
                    closed = connection(stream, marked, stall, &shutdown) => if closed == Closed::Stalled {
                        api.metrics().connection_stalled();
                        LINES.say(|dropped| tracing::info!(%peer, dropped, "a connection was cut: its client stopped reading (limits.stall_s)"));
                    },
                    // The certificate expired or its authority went: dropping the other branch cuts the connection (P124).
                    why = until => LINES.say(|dropped| tracing::info!(%peer, why, dropped, "a connection was cut")),
                }
            }
            Err(error) => LINES.say(|dropped| tracing::info!(%peer, %error, dropped, "a connection was not taken")),
        }
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
    api: Api,
    caller: Caller,
    subject: Subject,
    /// Whether there was a request.
    begun: Arc<AtomicBool>,
    unread: Unread,
    seat: Seat,
    account: Account,
}

/// What anybody may ask at any time, so that who watches the service is told whatever others do.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/grpc.health.v1.Health/Check"];

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
        let grpc = is_grpc(request.headers());
        let place = if HEALTH.contains(&request.uri().path()) {
            None
        } else {
            match self.seat.asks(self.api.config().limits.connections) {
                Some(place) => Some(place),
                None => {
                    self.api.metrics().connection_refused();
                    return Box::pin(async move { Ok(too_many(grpc)) });
                }
            }
        };
        // The role comes from the connection and overwrites whatever the extensions held: no request names its own.
        request.extensions_mut().insert(self.caller);
        request.extensions_mut().insert(self.subject.clone());
        request.extensions_mut().insert(self.account.clone());
        let (answer, unread, account) = (self.app.call(request), self.unread.clone(), self.account.clone());
        Box::pin(async move {
            let mut response = answer.await?;
            let owed = match owed(&mut response, &account) {
                Ok(owed) => owed,
                Err(error) => {
                    response = error.answer(grpc);
                    None
                }
            };
            Ok(response.map(|body| unread.body(body, (place, owed))))
        })
    }
}

fn too_many(grpc: bool) -> Response {
    let error = ApiError::new(Kind::Exhausted, &"too many connections are busy (limits.connections)").hint("try again");
    let mut response = error.answer(grpc);
    if !grpc {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Counts an answer that was made, unless its bytes are shared. What comes piece by piece is never held whole.
fn owed(response: &mut Response, account: &Account) -> Result<Option<Arc<Owed>>, ApiError> {
    if response.extensions().get::<SharedBytes>().is_some() {
        return Ok(None);
    }
    // A message of gRPC was counted before it is encoded.
    if let Some(owed) = response.extensions_mut().remove::<Arc<Owed>>() {
        return Ok(Some(owed));
    }
    let length = response.body().size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    length.filter(|bytes| *bytes > 0).map(|bytes| account.owe(bytes).map(Arc::new)).transpose()
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
async fn connection(stream: Box<dyn Stream>, service: Marked, stall: Duration, shutdown: &Shutdown) -> Closed {
    let (begun, unread) = (Arc::clone(&service.begun), service.unread.clone());
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
