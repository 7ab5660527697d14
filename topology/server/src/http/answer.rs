//! Answers: JSON, text, or an error; and bodies of requests.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, BodyDataStream},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt as _, stream};
use proto::mask::Mask;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    api::{ApiError, Kind},
    grpc,
    role::Role,
};

/// A document that is JSON already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document(pub String);

/// Text of some type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<T = String>(pub &'static str, pub T);

/// A picture as SVG that stands alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture(pub(super) String);

/// What a browser that opens a picture by itself may do with it: show it in its own style. The picture loads nothing and runs nothing.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl IntoResponse for Picture {
    fn into_response(self) -> Response {
        let mut response = Text("image/svg+xml", self.0).into_response();
        for (name, value) in [
            (header::CONTENT_SECURITY_POLICY, PICTURE_POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl Document {
    /// A message as JSON.
    ///
    /// # Errors
    /// A message that cannot be written: our own bug.
    pub fn of<M: Serialize>(message: &M) -> Result<Self, ApiError> {
        serde_json::to_string(message).map(Self).map_err(|e| ApiError::new(Kind::Internal, &e))
    }

    /// The wanted fields of a message as JSON; the others are absent.
    ///
    /// # Errors
    /// As [`Document::of`].
    pub(super) fn masked<M: Serialize>(message: &M, mask: &Mask) -> Result<Self, ApiError> {
        if mask.is_all() {
            return Self::of(message);
        }
        let mut json = serde_json::to_value(message).map_err(|e| ApiError::new(Kind::Internal, &e))?;
        mask.prune(&mut json);
        Ok(Self(json.to_string()))
    }
}

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        Text("application/json", self.0).into_response()
    }
}

impl<T: IntoResponse> IntoResponse for Text<T> {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::OK, self.1).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.0));
        // Answers are states that change, and some need a role: no cache may hand one to somebody else.
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Whether a request is of gRPC.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Whether a request may change something.
pub(super) fn changes(method: &Method, path: &str) -> bool {
    match grpc::rpc(path) {
        Some(rpc) => rpc.needed == Role::Admin,
        None => *method == Method::PUT || CHANGES.iter().any(|change| path.strip_prefix("/v1alpha1/") == Some(change)),
    }
}

/// Requests by POST that change something.
const CHANGES: [&str; 5] = ["commit", "release", "submit", "withdraw", "report"];

impl ApiError {
    /// As an answer: a gRPC client reads a status only from gRPC's own headers.
    pub(super) fn answer(self, grpc: bool) -> Response {
        if grpc { tonic::Status::from(self).into_http() } else { self.into_response() }
    }
}

/// How long the rest of a refused request is read.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// What is left of a request's body after its answer is known.
#[derive(Clone)]
pub(super) struct Rest(Arc<Mutex<BodyDataStream>>);

impl Rest {
    /// A body to hand on, and what will be left of it.
    pub(super) fn of(body: Body) -> (Body, Self) {
        // The handler and the drain share one stream: whoever comes second continues where the first one ended.
        let rest = Self(Arc::new(Mutex::new(body.into_data_stream())));
        let read = rest.clone();
        // The two ends never wait for each other: the lock is held for one poll only.
        (Body::from_stream(stream::poll_fn(move |cx| read.lock().poll_next_unpin(cx))), rest)
    }

    /// Reads it to its end, or `max` bytes of it. An answer that comes before the client has sent everything is an error to some
    /// clients of HTTP/2.
    pub(super) async fn drain(self, max: usize) {
        // One that sends slowly, or not at all, has the answer to lose and nobody's time.
        let _ = tokio::time::timeout(DRAIN_MAX, self.drain_all(max)).await;
    }

    async fn drain_all(self, max: usize) {
        let mut bytes = 0;
        while let Some(Ok(chunk)) = stream::poll_fn(|cx| self.lock().poll_next_unpin(cx)).next().await {
            bytes += chunk.len();
            // A client that sends without end is left after `max` bytes; its connection is then closed on it.
            if bytes > max {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BodyDataStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body as text.
///
/// # Errors
/// Not UTF-8.
pub(super) fn text(bytes: Vec<u8>) -> Result<String, ApiError> {
    let text = String::from_utf8(bytes);
    text.map_err(|e| ApiError::invalid(format!("body: byte {} is not UTF-8", e.utf8_error().valid_up_to())))
}

/// A message from a JSON body.
///
/// # Errors
/// Not JSON, or not of this shape, or a key that is not known: line, column and value or key.
pub(super) fn message<M: DeserializeOwned>(text: &str) -> Result<M, ApiError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    // What stands behind the message is not left out of sight.
    let read = strict::read(&mut reader).and_then(|message| reader.end().map(|()| message));
    read.map_err(|e| {
        let full = e.to_string();
        // serde_json ends its message with the place, which this message names first.
        let problem = full.rsplit_once(" at line ").map_or(full.as_str(), |m| m.0);
        ApiError::invalid(format!("body: line {} column {}: {problem}", e.line(), e.column()))
    })
}
