//! Health as gRPC has it (`grpc.health.v1`): whether changes can be taken, as `/readyz` says.
//!
//! Balancers and Kubernetes ask it, without knowing our schema (<https://grpc.io/docs/guides/health-checking/>).

use std::{pin::Pin, time::Duration};

use futures_util::{Stream, stream};
use tonic::{Request, Response, Status};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server::Health};

use crate::api::Api;

/// The services that have a health: all together, and the one of the schema. They are well together.
const SERVICES: [&str; 2] = ["", "antiphase.v1alpha1.Topology"];
/// How often a watch looks: a balancer that hears a second later loses nothing, and looking costs microseconds.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Answers from the readiness of `Api`.
#[derive(Clone, Debug)]
pub(crate) struct Readiness(pub(crate) Api);

impl Readiness {
    async fn status(&self, service: &str) -> ServingStatus {
        if !SERVICES.contains(&service) {
            return ServingStatus::ServiceUnknown;
        }
        match self.0.ready().await {
            Ok(()) => ServingStatus::Serving,
            Err(_) => ServingStatus::NotServing,
        }
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for Readiness {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        match self.status(&request.get_ref().service).await {
            // The protocol has a status for this; the message would only say the name again.
            ServingStatus::ServiceUnknown => Err(Status::not_found("no such service; ask for \"antiphase.v1alpha1.Topology\"")),
            status => Ok(Response::new(answer(status))),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Says the status at once, and each time it changes. A service that is not known is a status here, not an end.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (this, service) = (self.clone(), request.into_inner().service);
        let next = async |(this, service, last): (Self, String, Option<ServingStatus>)| {
            let mut first = last.is_none();
            loop {
                if !first {
                    tokio::time::sleep(LOOK_INTERVAL).await;
                }
                first = false;
                let status = this.status(&service).await;
                if last != Some(status) {
                    return Some((Ok(answer(status)), (this, service, Some(status))));
                }
            }
        };
        Ok(Response::new(Box::pin(stream::unfold((this, service, None), next))))
    }
}
