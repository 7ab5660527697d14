//! Readers that stop reading: what a client was sent and does not take must not be kept for ever.
//!
//! Two clocks watch a reader. The kernel's ([`bound_unread`]) ends a connection whose bytes were not taken, and holds for TLS and
//! for what is left in buffers after an answer is written. Our clock ([`Unread`]) sees what the kernel cannot: a client of HTTP/2 that
//! takes bytes and answers pings, but opens no window for one of its streams.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use rustix::{fd::AsFd, net::sockopt};

/// A body is handed on in pieces of this size: small enough that a slow reader takes one in time, large enough to cost nothing.
pub(super) const PIECE_BYTES: usize = 16 << 10;

/// Has the kernel end a connection that sent bytes and for so long heard that none were taken (tcp(7), `TCP_USER_TIMEOUT`).
pub(super) fn bound_unread(socket: impl AsFd, limit: Duration) {
    // The option takes 32 bits of milliseconds, 49 days; `limits.stall_s` ends at an hour.
    let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    // Where the kernel refuses, our own clock is left.
    if let Err(error) = sockopt::set_tcp_user_timeout(socket, millis) {
        tracing::debug!(%error, "TCP_USER_TIMEOUT cannot be set");
    }
}

/// The pieces of one connection's bodies that were handed on and are not sent yet. A reader that reads takes them in moments.
#[derive(Clone, Debug, Default)]
pub(super) struct Unread(Arc<Mutex<Pieces>>);

#[derive(Debug, Default)]
struct Pieces {
    last: u64,
    since: BTreeMap<u64, Instant>,
}

impl Unread {
    /// A body that is watched here; `kept` is dropped when all of it is sent, or given up.
    pub(super) fn body(&self, inner: Body, kept: impl Send + Sync + 'static) -> Body {
        Body::new(Watched { inner, rest: Bytes::new(), begun: false, unread: self.clone(), kept: Arc::new(kept) })
    }

    /// How long the piece that waits longest has waited by `now`.
    pub(super) fn longest(&self, now: Instant) -> Duration {
        self.lock().since.values().map(|since| now.saturating_duration_since(*since)).max().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Pieces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body in pieces.
struct Watched {
    inner: Body,
    /// What is left of the last frame of `inner`.
    rest: Bytes,
    begun: bool,
    unread: Unread,
    kept: Arc<dyn Send + Sync>,
}

/// A piece until it is sent. HTTP/2 takes pieces before there is a window for them, and holds them: so it is not enough to watch the
/// body, which then has come to its end.
struct Piece {
    bytes: Bytes,
    number: u64,
    unread: Unread,
    #[allow(dead_code, reason = "held until the last piece is sent")]
    kept: Arc<dyn Send + Sync>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.unread.lock().since.remove(&self.number);
    }
}

impl Watched {
    fn piece(&mut self) -> Frame<Bytes> {
        let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
        self.begun = true;
        let mut pieces = self.unread.lock();
        pieces.last += 1;
        let number = pieces.last;
        // The clock starts with each piece that is handed on, and stops when it is sent.
        pieces.since.insert(number, Instant::now());
        drop(pieces);
        Frame::data(Bytes::from_owner(Piece { bytes, number, unread: self.unread.clone(), kept: Arc::clone(&self.kept) }))
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // A large frame goes out in pieces, or one frame of megabytes would count as taken at once.
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        Poll::Ready(match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    self.rest = data;
                    Some(Ok(self.piece()))
                }
                // Trailers are small, and nothing follows them.
                Err(trailers) => Some(Ok(trailers)),
            },
            end => end,
        })
    }

    /// Once it has begun, the end is told when it is asked for, which is after the last piece found room.
    fn is_end_stream(&self) -> bool {
        !self.begun && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt as _;

    #[tokio::test]
    async fn a_body_comes_in_pieces_and_waits_between_them_only() {
        let unread = Unread::default();
        let whole: Vec<u8> = (0..2 * PIECE_BYTES + 5).map(|n| n as u8).collect();
        let body = unread.body(Body::from(whole.clone()), ());
        assert_eq!(body.size_hint().exact(), Some(whole.len() as u64));
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(unread.longest(later), Duration::ZERO, "nothing was handed on yet");
        let mut body = body.into_data_stream();
        let mut taken = Vec::new();
        for length in [PIECE_BYTES, PIECE_BYTES, 5] {
            let piece = body.next().await.unwrap().unwrap();
            assert_eq!(piece.len(), length);
            taken.extend_from_slice(&piece);
            assert!(unread.longest(later) > Duration::from_secs(50), "handed on, and not sent");
            // A part of it is sent.
            let rest = piece.slice(1..);
            drop(piece);
            assert!(unread.longest(later) > Duration::from_secs(50), "not all of it is sent");
            drop(rest);
            assert_eq!(unread.longest(later), Duration::ZERO, "sent");
        }
        assert!(body.next().await.is_none());
        assert_eq!((unread.longest(later), taken), (Duration::ZERO, whole));
    }

    #[tokio::test]
    async fn what_is_kept_with_a_body_is_kept_until_its_last_piece_is_sent() {
        let kept = Arc::new(());
        let mut body = Unread::default().body(Body::from("abc"), Arc::clone(&kept)).into_data_stream();
        let piece = body.next().await.unwrap().unwrap();
        assert!(body.next().await.is_none());
        drop(body);
        assert_eq!(Arc::strong_count(&kept), 2, "the body is at its end, and HTTP/2 holds it");
        drop(piece);
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[tokio::test]
    async fn what_is_dropped_waits_no_more_and_an_empty_body_is_at_its_end() {
        let unread = Unread::default();
        assert!(unread.body(Body::empty(), ()).is_end_stream());
        let mut body = unread.body(Body::from("x"), ()).into_data_stream();
        body.next().await.unwrap().unwrap();
        drop(body);
        assert_eq!(unread.longest(Instant::now() + Duration::from_secs(9)), Duration::ZERO);
    }
}
