//! Users whom a reverse proxy names: changes are told of them, and not of the proxy alone.

use std::sync::Arc;

use axum::{extract::Request, http::HeaderMap};
use units::OneLine;

use super::connection::HEALTH;
use crate::{
    api::{ApiError, Kind},
    config::ProxyConfig,
    tls::Subject,
};

/// Longest name of a user in bytes; an address of electronic mail has at most 254 (RFC 5321).
const USER_BYTES_MAX: usize = 254;

/// Puts the user's name before the proxy's where the request came from the configured proxy. The role stays that of its certificate. The
/// header counts for nobody else: whoever has another certificate is who that says.
///
/// # Errors
/// The proxy did not say for whom it asks. Health is asked for by nobody.
pub(super) fn name_user(proxy: Option<&ProxyConfig>, request: &mut Request) -> Result<(), ApiError> {
    let Some(proxy) = proxy else { return Ok(()) };
    let subject = request.extensions().get::<Subject>().cloned();
    let Some(subject) = subject.filter(|subject| subject.name.as_deref() == Some(&*proxy.certificate)) else { return Ok(()) };
    if HEALTH.contains(&request.uri().path()) {
        return Ok(());
    }
    let user = user(request.headers(), &proxy.header)
        .map_err(|problem| ApiError::new(Kind::Forbidden, &problem).hint("the proxy has to name its user (proxy.header)"))?;
    let told = Arc::from(format!("{} by {}", OneLine(user), subject.told));
    request.extensions_mut().insert(Subject { told, ..subject });
    Ok(())
}

fn user<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => match value.to_str() {
            Ok(user) if !user.is_empty() && user.len() <= USER_BYTES_MAX => Ok(user),
            _ => Err(format!("header {name}: expected 1 to {USER_BYTES_MAX} visible letters")),
        },
        // Two names: one of them may be what a client sent through the proxy.
        (Some(_), Some(_)) => Err(format!("header {name} stands there twice")),
        (None, _) => Err(format!("no header {name}")),
    }
}
