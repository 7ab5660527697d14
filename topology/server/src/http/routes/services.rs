//! The services of gRPC itself: health, and reflection, which hands out the schema.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use futures_util::future::BoxFuture;
use http_body::{Frame, SizeHint};
use tonic_health::pb::health_server::HealthServer;
use tower_http::limit::RequestBodyLimitLayer;

use super::Shared;
use crate::{
    api::{ApiError, Place},
    health::Readiness,
    role::{Caller, Role},
};

/// Most bytes that a client may say on one call: names of services and types, of which a client of reflection asks some dozens.
const SAID_BYTES_MAX: usize = 256 << 10;
/// Largest message of these services: it holds one name.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

const CHECK: &str = "/grpc.health.v1.Health/Check";
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Health and reflection. The latter in both versions: many programs still ask for `v1alpha`.
pub(super) fn routes(shared: &Shared) -> Router {
    let described = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::schema::DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let invariant = "invariant: the committed descriptor is one; the test `regenerate` reads it";
    let reflection = described().build_v1().expect(invariant).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let earlier = described().build_v1alpha().expect(invariant).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let health = HealthServer::new(Readiness(shared.api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX);
    Router::new()
        .route_service("/grpc.health.v1.Health/{*rpc}", health)
        .route_service("/grpc.reflection.v1.ServerReflection/{*rpc}", reflection)
        .route_service("/grpc.reflection.v1alpha.ServerReflection/{*rpc}", earlier)
        .layer(RequestBodyLimitLayer::new(SAID_BYTES_MAX))
        .layer(middleware::from_fn_with_state(shared.clone(), admit))
}

/// Passes calls of those who may, and no more streams than there are places.
async fn admit(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    match admitted(&shared, &request) {
        Ok(place) => {
            shared.api.metrics().request("grpc", "ok");
            let (head, body) = next.run(request).await.into_parts();
            let Some(place) = place else { return Response::from_parts(head, body) };
            let shutdown = shared.shutdown.clone();
            let end = Box::pin(async move { shutdown.wait().await });
            Response::from_parts(head, Body::new(Placed { body, end, place }))
        }
        Err(error) => {
            shared.api.metrics().request("grpc", error.kind.code());
            tonic::Status::from(error).into_http()
        }
    }
}

/// Health is for anybody, as `/healthz` is; the schema is for those who may read. A call that may go on takes a place.
fn admitted(shared: &Shared, request: &Request) -> Result<Option<Place>, ApiError> {
    shared.origin(request)?;
    let path = request.uri().path();
    let caller = request.extensions().get::<Caller>().copied().unwrap_or(Caller::NOBODY);
    if !path.starts_with(HEALTH) {
        caller.require(Role::Read)?;
    }
    if path == CHECK { Ok(None) } else { shared.api.place(caller.who).map(Some) }
}

/// A stream that has its place until it ends, which it does with the service.
struct Placed {
    body: Body,
    end: BoxFuture<'static, ()>,
    #[allow(dead_code, reason = "held, and given back when the stream ends")]
    place: Place,
}

impl HttpBody for Placed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
