//! Frames of HTTP/2 that ask for nothing: priorities, windows, pings, settings, resets. Each costs a little, no request comes of it, and
//! no limit of HTTP/2 is on their number. So they are counted as they come, and a connection that sends too many is closed.
//!
//! Requests and what is sent to the client earn frames: a client that reads opens windows, and one that asks may take it back. Whoever
//! only listens has some hundreds of frames a second, for pings.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
    time::Instant,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::bucket::Bucket;

/// What a connection of HTTP/2 begins with (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The head of a frame: length, kind, flags and stream (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;
/// The kind of frames that hold a body, and the flag of the last one.
const DATA: u8 = 0;
const END_STREAM: u8 = 1;
/// A body in smaller frames than this, the last one aside, counts as frames that ask for nothing.
const SMALL_DATA: u32 = 64;
/// Frames that a connection may send whatever it does.
const PER_SECOND_MAX: u32 = 200;
const BURST: u32 = 2_000;
/// Frames that a request earns: its own head, windows for its answer, and its end.
const PER_REQUEST: u32 = 4;
/// Bytes to the client that earn one frame. The answer to a ping or to settings is shorter.
const BYTES_PER_FRAME: usize = 64;

/// What a connection tells of its frames.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Requests that came and have earned nothing yet.
    requests: AtomicU32,
    /// Whether it was closed for its frames.
    flooded: AtomicBool,
}

impl Told {
    /// A request has come.
    pub(super) fn asked(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the connection was closed for its frames.
    pub(super) fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }
}

/// A stream whose frames are counted.
#[derive(Debug)]
pub(super) struct Counted<S> {
    inner: S,
    frames: Frames,
    allowed: Bucket,
    told: Arc<Told>,
}

impl<S> Counted<S> {
    pub(super) fn new(inner: S, told: Arc<Told>) -> Self {
        Self { inner, frames: Frames::default(), allowed: Bucket::new(PER_SECOND_MAX, BURST, Instant::now()), told }
    }

    /// What came in is judged.
    fn judge(&mut self, bytes: &[u8]) -> io::Result<()> {
        let asks_for_nothing = self.frames.count(bytes);
        if asks_for_nothing == 0 {
            return Ok(());
        }
        self.allowed.give(f64::from(PER_REQUEST) * f64::from(self.told.requests.swap(0, Ordering::Relaxed)));
        if self.allowed.take(asks_for_nothing, Instant::now()) {
            return Ok(());
        }
        self.told.flooded.store(true, Ordering::Relaxed);
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, "too many frames that ask for nothing"))
    }

    fn wrote(&mut self, bytes: usize) {
        self.allowed.give(bytes as f64 / BYTES_PER_FRAME as f64);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        Poll::Ready(self.judge(&buf.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.wrote(wrote);
        Poll::Ready(Ok(wrote))
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, parts))?;
        self.wrote(wrote);
        Poll::Ready(Ok(wrote))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Where a stream of bytes stands among its frames.
#[derive(Debug)]
enum Frames {
    /// So many bytes of the preface came.
    Preface(usize),
    /// So many bytes of the head of a frame came.
    Head([u8; HEAD_BYTES], usize),
    /// So many bytes of a frame are to come.
    Payload(u32),
    /// It is no HTTP/2.
    Other,
}

impl Default for Frames {
    fn default() -> Self {
        Self::Preface(0)
    }
}

impl Frames {
    /// How many frames begin in these bytes that ask for nothing.
    fn count(&mut self, mut bytes: &[u8]) -> u32 {
        let mut count = 0;
        while let Some(first) = bytes.first() {
            match self {
                Self::Preface(came) => {
                    if PREFACE[*came] != *first {
                        *self = Self::Other;
                        continue;
                    }
                    *came += 1;
                    if *came == PREFACE.len() {
                        *self = Self::Head([0; HEAD_BYTES], 0);
                    }
                    bytes = &bytes[1..];
                }
                Self::Head(head, came) => {
                    let part = bytes.len().min(HEAD_BYTES - *came);
                    head[*came..*came + part].copy_from_slice(&bytes[..part]);
                    *came += part;
                    bytes = &bytes[part..];
                    if *came == HEAD_BYTES {
                        let [a, b, c, kind, flags, ..] = *head;
                        let length = u32::from_be_bytes([0, a, b, c]);
                        let is_body = kind == DATA && (length >= SMALL_DATA || flags & END_STREAM != 0);
                        count += u32::from(!is_body);
                        *self = Self::Payload(length);
                    }
                }
                Self::Payload(left) => {
                    let part = (*left as usize).min(bytes.len());
                    *left -= part as u32;
                    bytes = &bytes[part..];
                }
                Self::Other => break,
            }
            if matches!(self, Self::Payload(0)) {
                *self = Self::Head([0; HEAD_BYTES], 0);
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = [&length[1..], &[kind, flags, 0, 0, 0, 1]].concat();
        frame.resize(HEAD_BYTES + payload, 0xff);
        frame
    }

    #[test]
    fn frames_are_told_from_bodies_however_they_are_cut() {
        let said =
            [PREFACE.to_vec(), frame(4, 0, 6), frame(1, 4, 40), frame(DATA, 0, 1_000), frame(DATA, 0, 3), frame(DATA, END_STREAM, 0)];
        let said = [said.concat(), frame(2, 0, 5).repeat(3), frame(8, 0, 4)].concat();
        for piece in [1, 2, 3, 7, 8, 9, 10, 24, 100, said.len()] {
            let mut frames = Frames::default();
            // Settings, a head, a small body, three priorities and a window.
            assert_eq!(said.chunks(piece).map(|bytes| frames.count(bytes)).sum::<u32>(), 7, "{piece}");
        }
        for other in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/1.1\r\n", &frame(2, 0, 5).repeat(100)] {
            assert_eq!(Frames::default().count(other), 0);
        }
    }

    #[tokio::test]
    async fn who_only_sends_frames_is_ended_and_who_asks_or_reads_goes_on() {
        let flood = frame(2, 0, 5).repeat(100);
        let opened = |told: &Arc<Told>| {
            let (client, service) = tokio::io::duplex(1 << 20);
            (client, Counted::new(service, Arc::clone(told)))
        };
        let told = Arc::new(Told::default());
        let (mut client, mut service) = opened(&told);
        client.write_all(PREFACE).await.unwrap();
        let mut rounds = 0;
        let mut room = vec![0; 4 << 10];
        let ended = loop {
            client.write_all(&flood).await.unwrap();
            match service.read(&mut room).await {
                Ok(_) => rounds += 1,
                Err(error) => break error,
            }
            assert!(rounds < 1_000, "a flood goes on");
        };
        assert!(ended.kind() == io::ErrorKind::ConnectionAborted && told.is_flooded() && rounds >= 15, "{rounds}: {ended}");

        // As many frames of one who asks, and of one who is sent something.
        for (requests, bytes) in [(25, 0), (0, 100 * BYTES_PER_FRAME)] {
            let told = Arc::new(Told::default());
            let (mut client, mut service) = opened(&told);
            client.write_all(PREFACE).await.unwrap();
            for _ in 0..200 {
                (0..requests).for_each(|_| told.asked());
                service.write_all(&vec![0; bytes]).await.unwrap();
                client.read_exact(&mut vec![0; bytes]).await.unwrap();
                client.write_all(&flood).await.unwrap();
                service.read_exact(&mut vec![0; flood.len()]).await.unwrap();
            }
            assert!(!told.is_flooded());
        }
    }
}
