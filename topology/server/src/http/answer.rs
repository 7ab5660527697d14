//! Answers: JSON, text, or an error; and bodies of requests.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::api::{ApiError, Kind};

/// A document that is JSON already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document(pub String);

/// Text of some type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub &'static str, pub String);

impl Document {
    /// A message as JSON.
    ///
    /// # Errors
    /// It cannot be written: our own bug.
    pub fn of<M: Serialize>(message: &M) -> Result<Self, ApiError> {
        serde_json::to_string(message).map(Self).map_err(|e| ApiError::new(Kind::Internal, &e))
    }
}

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        Text("application/json", self.0).into_response()
    }
}

impl IntoResponse for Text {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::OK, self.1).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.0));
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// The whole body, if it is no larger than `max` bytes and text.
///
/// # Errors
/// Too large, not UTF-8, or the client stopped sending.
pub(super) async fn text(body: Body, max: usize) -> Result<String, ApiError> {
    let bytes = axum::body::to_bytes(body, max).await.map_err(|e| {
        let too_large = std::error::Error::source(&e).is_some_and(|s| s.to_string().contains("length limit"));
        if too_large {
            let mib = max >> 20;
            return ApiError::new(Kind::TooLarge, &format!("body: more than {mib} MiB")).hint("limits.body_mib in the configuration");
        }
        ApiError::invalid("body: the client stopped sending")
    })?;
    let text = String::from_utf8(bytes.into());
    text.map_err(|e| ApiError::invalid(format!("body: byte {} is not UTF-8", e.utf8_error().valid_up_to())))
}

/// A message from a JSON body. Keys that are not known are ignored, as the schema says.
///
/// # Errors
/// Not JSON, or not of this shape: line, column and value.
pub(super) fn message<M: DeserializeOwned>(text: &str) -> Result<M, ApiError> {
    serde_json::from_str(text).map_err(|e| {
        let full = e.to_string();
        let problem = full.rsplit_once(" at line ").map_or(full.as_str(), |m| m.0);
        ApiError::invalid(format!("body: line {} column {}: {problem}", e.line(), e.column()))
    })
}
