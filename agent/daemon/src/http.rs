//! The endpoint that Prometheus scrapes: `GET /metrics` and `GET /healthz`, and nothing else.
//!
//! A few dozen lines instead of a web server, because the agent has to stay small. Every request is bounded: in
//! connections, bytes and time. One request per connection.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

/// Most connections at a time: a scraper or two, and a person.
const CONNECTIONS_MAX: usize = 8;
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Longest time for one request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Wait after a failed accept, which usually means that descriptors ran out.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Somebody wants the text of `/metrics`.
pub type Asked = oneshot::Sender<String>;

/// Serves until the future is dropped. The text comes from whoever holds the other end of `asked`.
pub async fn serve(listener: Arc<TcpListener>, asked: mpsc::Sender<Asked>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The place comes before the accept: beyond CONNECTIONS_MAX clients wait in the kernel and cost the agent nothing.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let asked = asked.clone();
                tokio::spawn(async move {
                    // A client that is too slow or goes away is its own matter.
                    let _ = timeout(PATIENCE, answer(stream, &asked)).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Such an accept fails at once: without the pause this loop would take the thread from the heartbeat.
                tracing::warn!(%error, "metrics: accept");
                tokio::time::sleep(BACK_OFF).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, asked: &mpsc::Sender<Asked>) -> io::Result<()> {
    let mut head = Vec::with_capacity(1_024);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        // HEAD_BYTES_MAX bounds the loop, and PATIENCE of the caller bounds a client that sends a byte now and then.
        let mut piece = [0; 1_024];
        let read = stream.read(&mut piece).await?;
        head.extend_from_slice(&piece[..read]);
        if read == 0 || head.len() > HEAD_BYTES_MAX {
            return reply(&mut stream, "400 Bad Request", "text/plain", "not a request\n", true).await;
        }
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    if !matches!(method, "GET" | "HEAD") {
        return reply(&mut stream, "405 Method Not Allowed", "text/plain", "GET only\n", true).await;
    }
    // HEAD gets the head of the same answer and no body (RFC 9110, section 9.3.2).
    let body = method == "GET";
    match path {
        "/metrics" => {
            // The agent's loop makes the text; if it is ending, either channel is closed and nobody waits.
            let (sender, receiver) = oneshot::channel();
            let text = if asked.send(sender).await.is_ok() { receiver.await.ok() } else { None };
            match text {
                Some(text) => reply(&mut stream, "200 OK", "text/plain; version=0.0.4; charset=utf-8", &text, body).await,
                None => reply(&mut stream, "503 Service Unavailable", "text/plain", "shutting down\n", body).await,
            }
        }
        "/healthz" => reply(&mut stream, "200 OK", "text/plain", "ok\n", body).await,
        _ => reply(&mut stream, "404 Not Found", "text/plain", "here are /metrics and /healthz\n", body).await,
    }
}

async fn reply(stream: &mut TcpStream, status: &str, kind: &str, text: &str, body: bool) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
    stream.write_all(head.as_bytes()).await?;
    if body {
        stream.write_all(text.as_bytes()).await?;
    }
    stream.shutdown().await
}
