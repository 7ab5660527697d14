//! Errors as clients see them: one kind, one line, and mostly a hint.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use state::{Refusal, scheduler::SubmissionRefusal};

use crate::{controller::Stopped, resolve::one_line};

/// What kind of error: its code in JSON, in HTTP and in gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong; repeating it does not help.
    Invalid,
    /// The caller's role is not enough.
    Forbidden,
    /// No such thing.
    NotFound,
    /// The path has no such method.
    Method,
    /// Decided on an older plan.
    Conflict,
    /// It was there, and is no more.
    Gone,
    /// Something has to be set first.
    Precondition,
    /// Larger than taken.
    TooLarge,
    /// A limit of the service.
    Exhausted,
    /// Not now.
    Unavailable,
    /// The answer took too long.
    Timeout,
    /// Our bug.
    Internal,
}

impl Kind {
    /// The word in JSON and in metrics.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Method => "method_not_allowed",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Precondition => "precondition",
            Self::TooLarge => "too_large",
            Self::Exhausted => "exhausted",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Internal => "internal",
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Conflict => StatusCode::CONFLICT,
            Self::Gone => StatusCode::GONE,
            Self::Precondition => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Exhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    const fn grpc(self) -> tonic::Code {
        match self {
            Self::Invalid => tonic::Code::InvalidArgument,
            Self::Forbidden => tonic::Code::PermissionDenied,
            Self::NotFound | Self::Gone => tonic::Code::NotFound,
            Self::Method => tonic::Code::Unimplemented,
            Self::Conflict => tonic::Code::Aborted,
            Self::Precondition => tonic::Code::FailedPrecondition,
            Self::TooLarge | Self::Exhausted => tonic::Code::ResourceExhausted,
            Self::Unavailable => tonic::Code::Unavailable,
            Self::Timeout => tonic::Code::DeadlineExceeded,
            Self::Internal => tonic::Code::Internal,
        }
    }
}

/// An error as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What kind.
    pub kind: Kind,
    /// What is wrong, with the value, on one line.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: &'static str,
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    hint: &'static str,
}

impl ApiError {
    /// An error without a hint.
    #[must_use]
    pub fn new(kind: Kind, message: &dyn std::fmt::Display) -> Self {
        Self { kind, message: one_line(message), hint: "" }
    }

    /// [`Kind::Invalid`].
    #[must_use]
    pub fn invalid(message: impl std::fmt::Display) -> Self {
        Self::new(Kind::Invalid, &message)
    }

    /// [`Kind::Forbidden`].
    #[must_use]
    pub fn forbidden(message: impl std::fmt::Display) -> Self {
        Self::new(Kind::Forbidden, &message).hint("roles stand in the client's certificate")
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: &'static str) -> Self {
        self.hint = hint;
        self
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let (kind, hint) = match &refusal {
            Refusal::PlanVersionMoved { .. } => (Kind::Conflict, "evaluate again, then commit with the new plan version"),
            Refusal::Submitted { .. } => (Kind::Conflict, "antiphase withdraw, or POST /v1alpha1/withdraw"),
            Refusal::FabricMoved { .. } => (Kind::Conflict, "try again"),
            Refusal::KeyUsed { .. } => (Kind::Conflict, "a key is for one commit, sent once or often; take another for another"),
            Refusal::KeyGone { .. } => (Kind::Gone, "take another key to commit it again"),
            Refusal::NoFabric => (Kind::Precondition, "PUT /v1alpha1/fabric first"),
            Refusal::Limit { .. } => (Kind::Exhausted, ""),
            // A refused change may still be found by a start that comes before the file is written anew (docs/operating.md).
            Refusal::Store(_) => (
                Kind::Unavailable,
                "not in force; if the service ends before /readyz is well, look after the restart whether it is; then try again",
            ),
            _ => (Kind::Invalid, ""),
        };
        Self::new(kind, &refusal).hint(hint)
    }
}

impl From<SubmissionRefusal> for ApiError {
    fn from(refusal: SubmissionRefusal) -> Self {
        let (kind, hint) = match &refusal {
            SubmissionRefusal::Unknown(_) => (Kind::NotFound, ""),
            SubmissionRefusal::NameUsed(_) | SubmissionRefusal::Committed(_) => (Kind::Conflict, "choose another name"),
            SubmissionRefusal::Stale { .. } => (Kind::Conflict, "GET /v1alpha1/submissions says what is to be done"),
            SubmissionRefusal::Limit { .. } => (Kind::Exhausted, ""),
            SubmissionRefusal::Refused(refusal) => return refusal.clone().into(),
            _ => (Kind::Invalid, ""),
        };
        Self::new(kind, &refusal).hint(hint)
    }
}

impl From<Stopped> for ApiError {
    fn from(stopped: Stopped) -> Self {
        Self::new(Kind::Unavailable, &stopped).hint("try again")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Body { code: self.kind.code(), message: &self.message, hint: self.hint };
        // Three strings are always JSON; the default only spares a panic.
        let text = serde_json::to_string(&body).unwrap_or_default();
        let mut response = (self.kind.status(), text).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // For the access log and the counters.
        response.extensions_mut().insert(self.kind);
        response
    }
}

impl From<ApiError> for tonic::Status {
    fn from(error: ApiError) -> Self {
        let message = if error.hint.is_empty() { error.message } else { format!("{} ({})", error.message, error.hint) };
        Self::new(error.kind.grpc(), message)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    const ALL: [Kind; 12] = [
        Kind::Invalid,
        Kind::Forbidden,
        Kind::NotFound,
        Kind::Method,
        Kind::Conflict,
        Kind::Gone,
        Kind::Precondition,
        Kind::TooLarge,
        Kind::Exhausted,
        Kind::Unavailable,
        Kind::Timeout,
        Kind::Internal,
    ];

    /// `InvalidArgument` as documents of gRPC write it.
    fn written(code: tonic::Code) -> String {
        let name = format!("{code:?}");
        let spaced: String =
            name.chars().flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain([c.to_ascii_uppercase()])).collect();
        spaced.trim_start_matches('_').to_owned()
    }

    #[test]
    fn the_document_has_the_codes_of_errors_as_they_are_answered() {
        // A kind that comes has to be listed above: this match does not compile without it.
        ALL.iter().for_each(|kind| match kind {
            Kind::Invalid | Kind::Forbidden | Kind::NotFound | Kind::Method | Kind::Conflict | Kind::Gone => {}
            Kind::Precondition | Kind::TooLarge | Kind::Exhausted | Kind::Unavailable | Kind::Timeout | Kind::Internal => {}
        });
        let answered: BTreeSet<_> =
            ALL.iter().map(|kind| (kind.code().to_owned(), kind.status().as_u16().to_string(), written(kind.grpc()))).collect();
        let document: Value = serde_json::from_str(proto::schema::OPENAPI).unwrap();
        let text = |error: &Value, key: &str| error[key].as_str().unwrap().to_owned();
        let told = |error: &Value| (text(error, "code"), error["http"].to_string(), text(error, "grpc"));
        let told: BTreeSet<_> = document["x-antiphase-errors"].as_array().unwrap().iter().map(told).collect();
        assert_eq!(answered, told);
    }
}
