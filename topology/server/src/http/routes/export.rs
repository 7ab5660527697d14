//! The fabric for other schedulers, for whoever keeps a copy of it: `GET fabric/export`, with an `ETag` (RFC 9110, section 8.8.3).

use axum::{
    Extension,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::IntoResponse as _,
};
use fabric::export::{Format, LabelKeys};

use super::{Answer, Shared, reading};
use crate::{api::ApiError, http::answer::Text, role::Caller};

/// What the format cannot say, one header each.
const NOTE: &str = "x-antiphase-note";
/// Most headers of notes; a client reads about a hundred.
const NOTES_MAX: usize = 16;

/// The names are those of `antiphase fabric export --format`.
fn format(name: &str, keys: LabelKeys) -> Result<Format, ApiError> {
    Ok(match name {
        "native" => Format::Native,
        "slurm-yaml" => Format::SlurmYaml,
        "slurm-conf" => Format::SlurmConf,
        "kubernetes-labels" => Format::KubernetesLabels(keys),
        "hyper-node" => Format::HyperNode,
        _ => {
            let problem = format!("query: format={name:?}; expected native, slurm-yaml, slurm-conf, kubernetes-labels or hyper-node");
            return Err(ApiError::invalid(problem));
        }
    })
}

pub(super) async fn export(
    State(shared): State<Shared>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    query: RawQuery,
) -> Answer {
    let mut query = reading(caller, query)?;
    let name = query.text("format")?.ok_or_else(|| ApiError::invalid("query: format is missing"))?;
    let keys = query.text("label_keys")?.as_deref().unwrap_or("topograph").parse().map_err(|e| ApiError::invalid(format!("query: {e}")))?;
    let json = query.flag("json")?;
    query.finish()?;
    let (tag, exported) = shared.api.export(caller.who, format(&name, keys)?, json).await?;
    let tag = HeaderValue::from_str(&tag).map_err(|e| ApiError::new(crate::api::Kind::Internal, &e))?;
    // `*` and lists are left to RFC 9110's clients that need them: curl sends one tag.
    if headers.get(header::IF_NONE_MATCH) == Some(&tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let kind = if json { "application/json" } else { "text/plain; charset=utf-8" };
    let mut response = Text(kind, exported.text).into_response();
    response.headers_mut().insert(header::ETAG, tag);
    for finding in exported.findings.iter().take(NOTES_MAX) {
        // A finding names what stands in the fabric, which may be no text of a header.
        if let Ok(note) = HeaderValue::from_str(&units::OneLine(&finding.to_string()).to_string()) {
            response.headers_mut().append(NOTE, note);
        }
    }
    Ok(response)
}
