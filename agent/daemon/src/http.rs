//! The endpoint that Prometheus scrapes: `GET /metrics` and `GET /healthz`, and nothing else.
//!
//! A few dozen lines instead of a web server, because the agent has to stay small. Every request is bounded: in
//! connections, bytes and time. One request per connection.
//!
//! On a loopback address everybody on the machine may ask, and no web page: it could reach the endpoint by a name of its own.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use units::names_this_machine;

/// Most connections at a time: a scraper or two, a person, and those that say nothing. Each holds a head of a request at most.
const CONNECTIONS_MAX: usize = 64;
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
    // In order of arrival.
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                // Who comes is served, and the oldest is cut: a scrape takes milliseconds, and who is here for longer says nothing.
                if open.len() >= CONNECTIONS_MAX
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                let asked = asked.clone();
                open.push_back(tokio::spawn(async move {
                    // A client that is too slow or goes away is its own matter.
                    let _ = timeout(PATIENCE, answer(stream, &asked)).await;
                }));
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
    // Whoever came by another address was let in by the operator, under a name that the agent does not know.
    let is_local = stream.local_addr()?.ip().to_canonical().is_loopback();
    if let Some(host) = hosts(&head, target).find(|host| is_local && !names_this_machine(host)) {
        let why = format!("host: {host:?}: ask by localhost or a loopback address\n");
        return reply(&mut stream, "403 Forbidden", "text/plain", &why, method != "HEAD").await;
    }
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

/// What the client calls this machine: in each `Host`, and in a target that is a whole address (RFC 9112, section 3.2). A request that
/// names no host is from no browser.
fn hosts(head: &[u8], target: &str) -> impl Iterator<Item = String> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    let named = lines.filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
    });
    let whole = target.split_once("://").map(|(_, rest)| rest.split(['/', '?']).next().unwrap_or_default().to_owned());
    named.chain(whole)
}

async fn reply(stream: &mut TcpStream, status: &str, kind: &str, text: &str, body: bool) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
    stream.write_all(head.as_bytes()).await?;
    if body {
        stream.write_all(text.as_bytes()).await?;
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sockets_that_say_nothing_keep_no_scrape_out() {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let (asked, mut asks) = mpsc::channel::<Asked>(1);
        let served = tokio::spawn(serve(listener, asked));
        tokio::spawn(async move {
            while let Some(answer) = asks.recv().await {
                let _ = answer.send("metrics\n".into());
            }
        });
        let mut silent = Vec::new();
        for scrape in 0..4 * CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
            let mut text = String::new();
            timeout(PATIENCE, stream.read_to_string(&mut text)).await.expect("in time").unwrap();
            assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("metrics\n"), "{scrape}: {text}");
        }
        served.abort();
    }
}
