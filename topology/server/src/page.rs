//! The web page: the files of `page/`, inside the program, and the style of the pictures on it.
//!
//! A debug build without the feature `embed` reads the files from the sources at each request, so that a change is seen without
//! a build.

use std::borrow::Cow;

use axum::{
    Extension, Router,
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use rust_embed::RustEmbed;
use sha2::{Digest as _, Sha256};

use crate::{
    api::{ApiError, Kind},
    role::{Caller, Role},
};

/// What `/` is.
const INDEX: &str = "index.html";
/// The path of the style of pictures, which comes from the crate `render` and is no file of `page/`.
const PICTURE_CSS: &str = "/picture.css";

/// Everything comes from here and nothing else runs: a name that somehow became markup could not load or start a thing. Attributes
/// of style are what bars and colours of jobs are made of.
const POLICY: &str = "default-src 'self'; style-src-attr 'unsafe-inline'; object-src 'none'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

#[derive(RustEmbed)]
#[folder = "page"]
struct Files;

/// One route for each file, `/` and the style of pictures: a path that is no file's name reaches none of this.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let at_root = Router::new().route("/", get(|caller, headers| file(caller, headers, INDEX.into()))).route(PICTURE_CSS, get(picture_css));
    Files::iter().fold(at_root, |router, name| {
        let path = format!("/{name}");
        router.route(&path, get(move |caller, headers| file(caller, headers, name.into_owned())))
    })
}

async fn file(Extension(caller): Extension<Caller>, headers: HeaderMap, name: String) -> Result<Response, ApiError> {
    caller.require(Role::Read)?;
    // The file was there when the routes were made; without `embed` somebody may have taken it away since.
    let file = Files::get(&name).ok_or_else(|| ApiError::new(Kind::NotFound, &format!("no path {:?}", format!("/{name}"))))?;
    let tag = tag(&file.metadata.sha256_hash());
    Ok(serve(&headers, file.data, &tag, content_type(&name)))
}

/// The style and the colours of pictures are those of the crate that draws them.
async fn picture_css(Extension(caller): Extension<Caller>, headers: HeaderMap) -> Result<Response, ApiError> {
    caller.require(Role::Read)?;
    let css = render::style::page();
    let tag = tag(&Sha256::digest(&css));
    Ok(serve(&headers, css.into_bytes().into(), &tag, content_type(PICTURE_CSS)))
}

/// Content, or that it has not changed.
fn serve(headers: &HeaderMap, content: Cow<'static, [u8]>, tag: &str, kind: &'static str) -> Response {
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|given| matches(given, tag));
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { Body::from(content).into_response() };
    let own = response.headers_mut();
    // An answer of 304 has no body whose type could be said.
    if !known {
        own.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Ok(tag) = HeaderValue::try_from(tag) {
        own.insert(header::ETAG, tag);
    }
    for (name, value) in [
        // Kept, but asked for each time: a page of one version never meets a module of another.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another site's page can neither load this nor keep a handle of its window.
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        own.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The content's hash; half of SHA-256 tells versions of a file apart.
fn tag(hash: &[u8]) -> String {
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// Whether `If-None-Match` names the tag. A proxy may have made it a weak one.
fn matches(given: &HeaderValue, tag: &str) -> bool {
    let Ok(given) = given.to_str() else { return false };
    given.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

/// By the end of the name. `every_file_has_a_content_type` keeps the list whole.
fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_content_type() {
        assert!(Files::iter().any(|name| name == INDEX));
        assert!(Files::iter().all(|name| format!("/{name}") != PICTURE_CSS), "the route would be there twice");
        for name in Files::iter() {
            assert_ne!(content_type(&name), "application/octet-stream", "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-'), "{name:?} would be a pattern of routes");
        }
    }

    #[test]
    fn tags_match_as_the_header_says() {
        let given = |text: &'static str| matches(&HeaderValue::from_static(text), "\"ab\"");
        assert!(given("\"ab\"") && given("\"x\", W/\"ab\"") && given("*"));
        assert!(!given("ab") && !given("\"abc\"") && !given(""));
    }
}
