//! Who asks while the service starts.
//!
//! A start with hundreds of committed jobs predicts their turns before it can answer for them. Probes must not take that for a service
//! that hangs, nor clients for one that is gone: whoever comes is told at once that the service starts.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};

use super::{
    answer::{Rest, is_grpc},
    connection::{ACCEPT_PAUSE, Acceptor, HEAD_BYTES_MAX, HEAD_MAX, accept},
};
use crate::api::{ApiError, Kind};

/// Connections at the same time. Whoever comes beyond waits in the kernel's queue, and mostly until the service has started.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may take to end once it was answered.
const LEAVE_MAX: Duration = Duration::from_secs(1);
/// When to come again, in seconds.
const AGAIN: HeaderValue = HeaderValue::from_static("1");
/// Most bytes of a request's body that are read to its end, so that the client reads the answer: of larger ones it may miss it.
const BODY_MAX: usize = 1 << 20;

/// Tells everybody who comes that the service starts, until `start` has ended, and gives what that gives. Each connection is for one
/// request, so no client keeps asking here once there is more to say.
pub async fn while_starting<T>(listener: &TcpListener, acceptor: &Acceptor, start: impl Future<Output = T>) -> T {
    let mut start = pin!(start);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            started = start.as_mut() => {
                // Those that came are answered still; each has a bound of its own.
                connections.detach_all();
                return started;
            }
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => drop(connections.spawn(answer_one(stream, acceptor.clone()))),
                // An error such as too few file descriptors lasts: without the pause the loop would take a whole core.
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    connections.spawn(tokio::time::sleep(ACCEPT_PAUSE));
                }
            },
        }
    }
}

/// Serves a connection to its end, which comes with its first answer.
async fn answer_one(stream: TcpStream, acceptor: Acceptor) {
    let Ok(accepted) = accept(&acceptor, stream, Box::new(|| ())).await else { return };
    let answered = Arc::new(Notify::new());
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).keep_alive(false).max_buf_size(HEAD_BYTES_MAX);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1).max_header_list_size(HEAD_BYTES_MAX as u32);
    let told = Arc::clone(&answered);
    let app = Router::new().fallback(async move |request: Request| {
        let response = answer(request).await;
        told.notify_one();
        response
    });
    let mut served = pin!(builder.serve_connection(TokioIo::new(accepted.stream), TowerToHyperService::new(app)));
    tokio::select! {
        _ = served.as_mut() => return,
        () = tokio::time::sleep(HEAD_MAX) => return,
        () = answered.notified() => served.as_mut().graceful_shutdown(),
    }
    // Who does not read its answer misses it.
    let _ = tokio::time::timeout(LEAVE_MAX, served).await;
}

/// `/healthz` is well: the program lives. Everything else has to come again.
async fn answer(request: Request) -> Response {
    if request.uri().path() == "/healthz" {
        return "starting\n".into_response();
    }
    let grpc = is_grpc(request.headers());
    Rest::of(request.into_body()).1.drain(BODY_MAX).await;
    let error = ApiError::new(Kind::Unavailable, &"the service starts: it reads what was committed").hint("try again in a second");
    let mut response = error.answer(grpc);
    response.headers_mut().insert(header::RETRY_AFTER, AGAIN);
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        sync::oneshot,
    };

    use super::*;

    /// What the service answers to a request as it stands, to the end of the connection.
    async fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        said
    }

    #[tokio::test]
    async fn whoever_asks_while_it_starts_is_told_so_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let starting = tokio::spawn(async move {
            while_starting(&listener, &Acceptor::Plain, async { ended.await.unwrap() }).await;
            listener
        });
        // Some who say nothing keep nobody from being told.
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX / 2 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        // Without `Connection: close`: it is the service that ends the connection.
        let health = ask(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(health.starts_with("HTTP/1.1 200 OK\r\n") && health.ends_with("\r\n\r\nstarting\n"), "{health}");
        let ready = ask(address, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains("\r\nretry-after: 1\r\n"), "{ready}");
        assert!(ready.ends_with(
            r#"{"code":"unavailable","message":"the service starts: it reads what was committed","hint":"try again in a second"}"#
        ));
        let body = "x".repeat(3 << 18);
        let put = format!("PUT /v1alpha1/fabric HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        assert!(ask(address, &put).await.starts_with("HTTP/1.1 503 "));
        let call = "POST /antiphase.v1alpha1.Topology/ListJobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n";
        let call = ask(address, call).await;
        assert!(call.contains("\r\ngrpc-status: 14\r\n"), "UNAVAILABLE: {call}");
        // Once it has started, who comes is for the service itself.
        end.send(()).unwrap();
        let listener = starting.await.unwrap();
        let client = tokio::spawn(async move { ask(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await });
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"from here on").await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(client.await.unwrap(), "from here on");
    }

    #[tokio::test]
    async fn what_starts_at_once_asks_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert_eq!(while_starting(&listener, &Acceptor::Plain, async { 7 }).await, 7);
    }
}
