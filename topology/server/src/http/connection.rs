//! Connections: how many, for how long, and how they end.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use axum::{
    BoxError, Router,
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, Request, header},
    response::Response,
};
use futures_util::future::BoxFuture;
use http_body::{Frame, SizeHint};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::MissedTickBehavior,
};
use tower::Service;

use super::{
    answer::{changes, is_grpc},
    frames::{self, Told},
    local::Local,
    room::{Connections, Cut, Head, Health, Seat, UnderWay},
    stall::{PIECE_BYTES, Unread, bound_unread},
};
use crate::{
    api::{Api, ApiError, Kind},
    lines::LineLimit,
    owed::{Account, Answers, Owed, Purse, SharedBytes},
    role::{Caller, Role},
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
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;
/// What a field of a head holds besides its bytes: a place in a map. Many short fields make a map that is larger than the head.
const FIELD_BYTES: usize = 128;
/// How long requests may go on once the service is going down.
pub const GRACE: Duration = Duration::from_secs(10);
/// How long a connection that was idle may take to end, once somebody has its place.
const LEAVE_MAX: Duration = Duration::from_secs(1);
/// What monitoring reads.
pub(super) const METRICS: &str = "/metrics";
/// How often in the time that a reader may stop it is looked whether one has.
const LOOKS_PER_STALL: u32 = 4;
/// How long accepting rests when the process has no more file descriptors.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
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
pub type AcceptFn = dyn Fn(TcpStream, OnHello) -> BoxFuture<'static, io::Result<Accepted>> + Send + Sync;

/// To be called once the peer has sent all that a handshake begins with: those who say nothing give way to it from then on.
pub type OnHello = Box<dyn FnOnce() + Send>;

/// A stream whose peer is known.
pub struct Accepted {
    /// Carries HTTP.
    pub stream: Box<dyn Stream>,
    /// The peer at the other end.
    pub caller: Caller,
    /// As events name it.
    pub subject: Subject,
    /// Ends, with the reason, when `caller` is no longer valid, for example when the certificate expires. The connection is then cut.
    pub until: BoxFuture<'static, &'static str>,
}

impl Accepted {
    /// A peer without a certificate that could expire.
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
        // Counted from here on, so that whoever asks on a later connection sees this one.
        let counted = Counted::new(api.clone());
        tokio::spawn(async move {
            // Somebody came, and this connection was the one to go.
            if let Some(cut) = served.serve(stream, peer, seat, cut).await {
                counted.0.metrics().connection_refused();
                LINES.say(|dropped| tracing::info!(%peer, why = cut.why(), dropped, "a connection was cut"));
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
struct Counted(Api);

impl Counted {
    fn new(api: Api) -> Self {
        api.metrics().connection(1);
        Self(api)
    }
}

impl Drop for Counted {
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
    /// Serves it to its end, and says whether that was to make room.
    async fn serve(self, stream: TcpStream, peer: SocketAddr, seat: Seat, mut cut: oneshot::Receiver<Cut>) -> Option<Cut> {
        let Self { acceptor, app, api, answers, shutdown } = self;
        // Nagle's algorithm would hold back the end of an answer; where the option cannot be set, answers are only slower.
        let _ = stream.set_nodelay(true);
        let stall = api.config().limits.stall();
        // The kernel's clock is set on the bare socket, because the stream that a handshake gives back no longer shows it.
        bound_unread(&stream, stall);
        let local = matches!(acceptor, Acceptor::Plain).then(|| stream.local_addr().ok()).flatten().map(|ours| Local::new(peer, ours));
        let greeted = seat.clone();
        let accepted = tokio::select! {
            accepted = accept(&acceptor, stream, Box::new(move || greeted.greeted())) => accepted,
            Ok(cut) = &mut cut => return Some(cut),
        };
        match accepted {
            Ok(Accepted { stream, caller, subject, until }) => {
                seat.known(caller.who);
                let begun = Arc::new(AtomicBool::new(false));
                let account = answers.account(caller.who);
                let (unread, told) = Default::default();
                let marked = Marked { app, api: api.clone(), caller, subject, local, begun, told, unread, seat, account };
                tokio::select! {
                    closed = connection(stream, marked, stall, &shutdown, cut) => match closed {
                        Closed::Stalled => {
                            api.metrics().connection_stalled();
                            LINES.say(|dropped| tracing::info!(%peer, dropped, "a connection was cut: its client stopped reading (limits.stall_s)"));
                        }
                        Closed::Flooded => {
                            LINES.say(|dropped| tracing::info!(%peer, dropped, "a connection was cut: its client sent frames that ask for nothing"));
                        }
                        Closed::Cut(cut) => return Some(cut),
                        Closed::Done => {}
                    },
                    // The certificate expired or its authority went: dropping the other branch cuts the connection (P124).
                    why = until => LINES.say(|dropped| tracing::info!(%peer, why, dropped, "a connection was cut")),
                }
            }
            // A balancer or the kubelet looks every few seconds whether the port answers, and nobody else may see these lines for it.
            Err(error) if hung_up(&error) => tracing::debug!(%peer, %error, "a connection was closed before it was taken"),
            Err(error) => LINES.say(|dropped| tracing::info!(%peer, %error, dropped, "a connection was not taken")),
        }
        None
    }
}

/// Whether the other end ended a handshake by closing its connection, in place of refusing us or being refused.
fn hung_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe | NotConnected)
}

/// Who is at the other end of a stream.
pub(super) async fn accept(acceptor: &Acceptor, stream: TcpStream, on_hello: OnHello) -> io::Result<Accepted> {
    match acceptor {
        Acceptor::Plain => Ok(Accepted::for_good(Box::new(stream), Caller::LOOPBACK)),
        Acceptor::With(accept) => {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
            // A stranger may open a connection and send nothing: `HEAD_MAX` ends the handshake.
            tokio::time::timeout(HEAD_MAX, accept(stream, on_hello)).await.map_err(late)?
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
    /// Where it is of this machine, without a certificate.
    local: Option<Local>,
    /// Whether there was a request.
    begun: Arc<AtomicBool>,
    /// Hears of requests, and says whether there was too much else.
    told: Arc<Told>,
    unread: Unread,
    seat: Seat,
    account: Account,
}

/// What anybody may ask at any time, so that who watches the service is told whatever others do.
pub(super) const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/grpc.health.v1.Health/Check"];

/// The place of a request.
#[derive(Debug)]
enum Place {
    UnderWay(UnderWay),
    Health(#[allow(dead_code, reason = "held until the answer is sent")] Health),
}

/// The body of a request, which tells when it has come whole.
struct Asked<B> {
    inner: B,
    place: Arc<Place>,
}

impl<B: HttpBody> Asked<B> {
    fn tell(&self) {
        if let Place::UnderWay(place) = &*self.place
            && self.inner.is_end_stream()
        {
            place.is_whole();
        }
    }
}

impl<B: HttpBody + Unpin> HttpBody for Asked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match (&frame, &*self.place) {
            (None, Place::UnderWay(place)) => place.is_whole(),
            _ => self.tell(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Service<Request<B>> for Marked
where
    B: HttpBody<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // A router of axum is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.begun.store(true, Ordering::Relaxed);
        self.told.asked();
        let grpc = is_grpc(request.headers());
        let head = head_bytes(&request);
        let place = if HEALTH.contains(&request.uri().path()) {
            self.seat.asks_for_health(head).map(Place::Health)
        } else {
            let head = Head { bytes: head, changes: changes(request.method(), request.uri().path()) };
            self.seat.asks(self.api.config().limits.connections, head).map(Place::UnderWay)
        };
        let Some(place) = place.map(Arc::new) else {
            self.api.metrics().request(if grpc { "grpc" } else { "http" }, Kind::Exhausted.code());
            return Box::pin(async move { Ok(too_many(grpc)) });
        };
        let account = self.account.of(self.purse(&request));
        // The metrics are one text for all who ask, and have a budget of their own.
        let is_counted = matches!(*place, Place::UnderWay(_)) && request.uri().path() != METRICS;
        if is_counted && !account.has_room() {
            self.api.metrics().request(if grpc { "grpc" } else { "http" }, Kind::Exhausted.code());
            return Box::pin(async move { Ok(unread_answers().answer(grpc)) });
        }
        let mut request = request.map(|inner| {
            let body = Asked { inner, place: Arc::clone(&place) };
            body.tell();
            Body::new(body)
        });
        // The role comes from the connection and overwrites whatever the extensions held: no request names its own.
        request.extensions_mut().insert(self.caller);
        request.extensions_mut().insert(self.subject.clone());
        if let Some(local) = &self.local {
            request.extensions_mut().insert(local.clone());
        }
        request.extensions_mut().insert(account.clone());
        let (answer, unread) = (self.app.call(request), self.unread.clone());
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

impl Marked {
    /// Of which budget the answer is.
    fn purse<B>(&self, request: &Request<B>) -> Purse {
        if changes(request.method(), request.uri().path()) {
            Purse::Changes
        } else if self.caller.who.is_some() && self.caller.role == Some(Role::Admin) {
            Purse::Admins
        } else {
            Purse::Readers
        }
    }
}

/// What the head of a request holds.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
    // The target of a request and its fields are bounded each by `HEAD_BYTES_MAX`, so the sum is far below an overflow.
    request.uri().path_and_query().map_or(0, |target| target.as_str().len()) + fields.sum::<usize>()
}

fn unread_answers() -> ApiError {
    ApiError::new(Kind::Exhausted, &"answers that were not taken yet leave no room for others")
        .hint("read what was asked for, and try again")
}

fn too_many(grpc: bool) -> Response {
    let error = ApiError::new(Kind::Exhausted, &"too many connections or requests are busy (limits.connections)").hint("try again");
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
    /// Its client sent too many frames that ask for nothing.
    Flooded,
    /// To make room.
    Cut(Cut),
}

/// Serves one connection to its end.
async fn connection(
    stream: Box<dyn Stream>,
    service: Marked,
    stall: Duration,
    shutdown: &Shutdown,
    mut cut: oneshot::Receiver<Cut>,
) -> Closed {
    let (begun, told, unread) = (Arc::clone(&service.begun), Arc::clone(&service.told), service.unread.clone());
    let stream = frames::Counted::new(stream, Arc::clone(&told));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        // What HTTP/2 takes before there is a window for it.
        .max_send_buf_size(2 * PIECE_BYTES)
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
    let (mut waiting, mut ending, mut leaving) = (true, false, None);
    let mut leave = pin!(tokio::time::sleep(LEAVE_MAX));
    loop {
        tokio::select! {
            // What went wrong on a connection is the client's to know.
            _ = served.as_mut() => {
                return if told.is_flooded() { Closed::Flooded } else { leaving.map_or(Closed::Done, Closed::Cut) };
            }
            () = head.as_mut(), if waiting => {
                waiting = false;
                if !begun.load(Ordering::Relaxed) {
                    return Closed::Done;
                }
            }
            _ = look.tick() => if unread.longest(Instant::now()) >= stall {
                return Closed::Stalled;
            },
            Ok(cut) = &mut cut, if leaving.is_none() => {
                if cut == Cut::Fresh {
                    return Closed::Cut(cut);
                }
                // A request may just be coming: it is answered, and the client hears that there will be no more.
                leaving = Some(cut);
                leave.as_mut().reset(tokio::time::Instant::now() + LEAVE_MAX);
                served.as_mut().graceful_shutdown();
            }
            () = leave.as_mut(), if leaving.is_some() => return leaving.map_or(Closed::Done, Closed::Cut),
            () = end.as_mut(), if !ending => {
                ending = true;
                // Requests under way go on and new ones are refused; `serve` bounds the wait by `GRACE`.
                served.as_mut().graceful_shutdown();
            }
        }
    }
}
