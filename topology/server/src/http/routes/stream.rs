//! Events as server-sent events: what browsers reconnect to by themselves.

use std::convert::Infallible;

use axum::{
    Extension,
    extract::{RawQuery, State},
    http::HeaderMap,
    response::{IntoResponse, Response, Sse, sse},
};
use futures_util::{StreamExt as _, stream};
use proto::v1alpha1 as pb;

use super::{Shared, reading};
use crate::{
    api::{ApiError, WATCH_KEEP_ALIVE},
    grpc::batches,
    role::Caller,
};

/// `GET /v1alpha1/events/stream`: from the header `Last-Event-ID` or the key `after` on, else from now on.
pub(super) async fn events(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    query: RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let mut query = reading(caller, query)?;
    let after = query.number("after")?;
    query.finish()?;
    let last = match headers.get("last-event-id") {
        None => None,
        Some(value) => {
            let bad = || ApiError::invalid("Last-Event-ID: not a number");
            Some(value.to_str().ok().and_then(|v| v.parse().ok()).ok_or_else(bad)?)
        }
    };
    // The header wins: a browser that reconnects repeats the address of its first request, `after` included.
    let watcher = shared.api.watch(caller.who, last.or(after))?;
    let events = batches(watcher).map(stream::iter).flatten().map(|event| Ok::<_, Infallible>(message(&event)));
    let shutdown = shared.shutdown.clone();
    // The stream ends with the service, or it would hold its connection through the whole grace of a shutdown.
    let until_end = events.take_until(async move { shutdown.wait().await });
    let alive = sse::KeepAlive::new().interval(WATCH_KEEP_ALIVE);
    Ok(Sse::new(until_end).keep_alive(alive).into_response())
}

fn message(event: &pb::Event) -> sse::Event {
    // A message of the schema is always JSON.
    sse::Event::default().id(event.sequence.to_string()).data(serde_json::to_string(event).unwrap_or_default())
}
