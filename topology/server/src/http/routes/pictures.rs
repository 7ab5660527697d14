//! Pictures: SVG for the page, or that stands alone.

use axum::{
    Extension,
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

use super::{Answer, Shared, reading};
use crate::{
    api::{ApiError, JobColours, MapShape, SPAN_MAX_S},
    http::answer::Picture,
    role::Caller,
};

/// Least time of a picture of the past: a few samples.
const SPAN_MIN_S: u64 = 300;

pub(super) async fn circles(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let link = query.text("link")?.ok_or_else(|| ApiError::invalid("query: link is missing"))?;
    // Whole values: a job's name may hold a comma.
    let colours = JobColours::read(&query.values("colour"))?;
    let fragment = query.flag("fragment")?;
    query.finish()?;
    Ok(picture(shared.api.circles(caller.who, &link, colours, !fragment).await?))
}

pub(super) async fn map(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let (fragment, pods, width) = (query.flag("fragment")?, query.flag("pods")?, query.number::<u32>("width")?);
    let shape = match query.text("switch")? {
        Some(_) if pods => return Err(ApiError::invalid("query: pods and switch are two pictures; name one")),
        Some(name) => MapShape::Switch { name, width },
        None if pods => MapShape::Pods { width },
        None if width.is_some() => return Err(ApiError::invalid("query: width is of a picture by pods or of a switch")),
        None => MapShape::Links,
    };
    query.finish()?;
    Ok(picture(shared.api.map(caller.who, shape, !fragment).await?))
}

pub(super) async fn iterations(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let job = query.text("job")?.ok_or_else(|| ApiError::invalid("query: job is missing"))?;
    let fragment = query.flag("fragment")?;
    query.finish()?;
    Ok(picture(shared.api.iterations(caller.who, &job, !fragment).await?))
}

pub(super) async fn history(State(shared): State<Shared>, Extension(caller): Extension<Caller>, query: RawQuery) -> Answer {
    let mut query = reading(caller, query)?;
    let (seconds, width, fragment) = (query.number::<u64>("seconds")?, query.number("width")?, query.flag("fragment")?);
    query.finish()?;
    let seconds = seconds.unwrap_or(SPAN_MAX_S);
    if !(SPAN_MIN_S..=SPAN_MAX_S).contains(&seconds) {
        return Err(ApiError::invalid(format!("query: seconds={seconds}; {SPAN_MIN_S} to {SPAN_MAX_S} are kept")));
    }
    Ok(Picture(shared.api.history(caller.who, seconds, width, !fragment).await?).into_response())
}

/// A picture, or that there is nothing to draw.
fn picture(drawn: Option<String>) -> Response {
    drawn.map_or_else(|| StatusCode::NO_CONTENT.into_response(), |svg| Picture(svg).into_response())
}
