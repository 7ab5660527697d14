//! Bodies of requests, JSON's and gRPC's: read within their limits, weighed, and then decoded, where they are long beside the tasks.

use axum::{
    body::Body,
    extract::{Request, State},
    http::HeaderMap,
    middleware::Next,
    response::Response,
};

use super::Shared;
use crate::{
    api::{ApiError, Kind},
    grpc,
    http::{
        answer::{Rest, message, text},
        load::{self, Held},
        origin,
    },
    role::{Caller, Role},
};

/// Bodies up to this are decoded where they are read, in a millisecond at most; larger ones beside the tasks.
const DECODED_HERE_MAX: usize = 64 << 10;

impl Shared {
    /// Does work on so many bytes, beside the tasks where they are many.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        caller: Caller,
        changes: bool,
        bytes: usize,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        if bytes <= DECODED_HERE_MAX { work() } else { self.api.decode(caller.who, changes, work).await }
    }
}

/// Passes an RPC whose caller may call it and whose message is no larger than it may be, both before anything of it is decoded.
pub(super) async fn admit_rpc(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let (body, rest) = Rest::of(body);
    match read_rpc(&shared, Request::from_parts(head, body)).await {
        // The memory counts as taken until the answer is there.
        Ok((request, held)) if held.bytes() <= DECODED_HERE_MAX => next.run(request).await,
        Ok((request, held)) => {
            let who = request.extensions().get::<Caller>().copied().unwrap_or(Caller::NOBODY).who;
            let answer = shared.api.decode_first(who, held.changes(), next.run(request)).await;
            answer.unwrap_or_else(|error| error.answer(true))
        }
        Err(error) => {
            // Some clients of HTTP/2 lose an answer that comes while they still send.
            rest.drain(shared.api.config().limits.body_bytes()).await;
            shared.api.metrics().request("grpc", error.kind.code());
            tonic::Status::from(error).into_http()
        }
    }
}

async fn read_rpc(shared: &Shared, request: Request) -> Result<(Request, Held), ApiError> {
    // The order is that of cost: headers, then the role, then the bytes, then their weight; decoding comes after all four (P119).
    shared.origin(&request)?;
    let path = request.uri().path();
    let rpc = grpc::rpc(path).ok_or_else(|| ApiError::new(Kind::Method, &format!("no RPC {path:?}")))?;
    // A request without a caller has no role: a way in that forgot to say who calls opens nothing.
    let caller = request.extensions().get::<Caller>().copied().unwrap_or(Caller::NOBODY);
    caller.require(rpc.needed)?;
    let limit = shared.api.config().limits.body_bytes();
    let (head, body) = request.into_parts();
    let mut held = shared.loads.begin(caller.who, rpc.needed == Role::Admin, limit);
    // A message of names is small by its kind, whatever a body may be.
    let bytes = held.read(body, rpc.bytes_max.unwrap_or(limit).min(limit)).await?;
    held.weigh(load::wire(one_message(&bytes)?, rpc.shape))?;
    Ok((Request::from_parts(head, Body::from(bytes)), held))
}

/// The message in a frame of gRPC: a flag, its length in four bytes, and itself. Whatever came after it would be decoded unweighed.
fn one_message(body: &[u8]) -> Result<&[u8], ApiError> {
    let said = |length: &[u8; 4]| usize::try_from(u32::from_be_bytes(*length)).ok();
    match body.split_first_chunk::<5>() {
        // A second message behind the first would be decoded without having been weighed, so the frame has to fill the body.
        Some(([_, length @ ..], message)) if said(length) == Some(message.len()) => Ok(message),
        _ => Err(ApiError::invalid(format!("body: {} bytes that are not one message of gRPC", body.len()))),
    }
}

/// The message in a JSON body, and the memory that it counts as holding.
pub(super) async fn read<M: serde::de::DeserializeOwned + Send + 'static>(
    shared: &Shared,
    caller: Caller,
    headers: &HeaderMap,
    body: Body,
    changes: bool,
) -> Result<(M, Held), ApiError> {
    read_as(shared, caller, headers, body, changes, |message| message).await
}

/// The same, and what `make` makes of the message, beside the tasks as well.
pub(super) async fn read_as<M: serde::de::DeserializeOwned, T: Send + 'static>(
    shared: &Shared,
    caller: Caller,
    headers: &HeaderMap,
    body: Body,
    changes: bool,
    make: impl FnOnce(M) -> T + Send + 'static,
) -> Result<(T, Held), ApiError> {
    origin::is_json(headers)?;
    let read = |text: String, mut held: Held| {
        // The weight is known before `message` makes objects of the text (P119).
        held.weigh(load::json(text.as_bytes()))?;
        Ok((make(message(&text)?), held))
    };
    whole(shared, caller, body, changes, read).await
}

/// What `read` makes of the text of a body.
pub(super) async fn whole<T: Send + 'static>(
    shared: &Shared,
    caller: Caller,
    body: Body,
    changes: bool,
    read: impl FnOnce(String, Held) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let limit = shared.api.config().limits.body_bytes();
    let mut held = shared.loads.begin(caller.who, changes, limit);
    let bytes = held.read(body, limit).await?;
    shared.beside(caller, changes, bytes.len(), move || read(text(bytes)?, held)).await
}
