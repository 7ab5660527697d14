//! The metrics: always answered, and of bounded memory whoever reads them or does not.
//!
//! An exposition of thousands of jobs is megabytes, and who asks for it may not read it. So it is made one at a time; who waits
//! meanwhile shares the next one; and where those that were not taken yet leave no room for another, the latest of them is given again,
//! whose bytes all who read it share. One caller with a certificate fills half of the room, so others have a fresh one.

use std::{
    sync::{Arc, PoisonError, Weak},
    time::Instant,
};

use axum::{Extension, body::Bytes, extract::State, response::Response};

use super::{Answer, Shared, shared_text};
use crate::{
    api::ApiError,
    role::{Caller, Role, Who},
    tally::{CALLER_PART, Shares},
};

/// What the expositions may hold that were not taken yet. One is always made.
const EXPOSITIONS_MAX: usize = 32 << 20;

pub(super) async fn metrics(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Answer {
    caller.require(Role::Read)?;
    let text = shared.expositions.get(caller.who, shared.api.exposition()).await?;
    Ok(exposition(text))
}

fn exposition(text: Bytes) -> Response {
    shared_text("text/plain; version=0.0.4; charset=utf-8", text)
}

/// The expositions that are held. Cloning it shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct Expositions {
    made: Arc<tokio::sync::Mutex<Made>>,
    held: Arc<std::sync::Mutex<Shares>>,
}

/// Those that were made.
#[derive(Debug, Default)]
struct Made {
    /// What the latest came to.
    bytes: usize,
    /// Those that may still be held, in the order in which they were begun.
    texts: Vec<(Instant, Weak<Exposition>)>,
}

/// One of them, which counts until nobody holds it.
#[derive(Debug)]
struct Exposition {
    text: String,
    who: Option<Who>,
    held: Arc<std::sync::Mutex<Shares>>,
}

/// A part of an answer, which holds the whole.
struct Part(Arc<Exposition>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.0.text.as_bytes()
    }
}

impl Drop for Exposition {
    fn drop(&mut self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take(self.who, self.text.len());
    }
}

impl Expositions {
    /// One that is as new as this question, or the latest where there is no room for another.
    async fn get(&self, who: Option<Who>, make: impl Future<Output = Result<String, ApiError>>) -> Result<Bytes, ApiError> {
        let asked = Instant::now();
        let mut made = self.made.lock().await;
        made.texts.retain(|(_, text)| text.strong_count() > 0);
        if let Some((begun, latest)) = made.texts.last().and_then(|(begun, text)| Some((*begun, text.upgrade()?))) {
            // What was begun after this question was asked is as new as one that would be made for it.
            let is_new = begun >= asked;
            // The next one will be about as long as the latest.
            let has_room = self.lock().fits(who, made.bytes, EXPOSITIONS_MAX, EXPOSITIONS_MAX / CALLER_PART);
            if is_new || !has_room {
                return Ok(Bytes::from_owner(Part(latest)));
            }
        }
        let begun = Instant::now();
        let text = make.await?;
        self.lock().add(who, text.len());
        made.bytes = text.len();
        let text = Arc::new(Exposition { text, who, held: Arc::clone(&self.held) });
        made.texts.push((begun, Arc::downgrade(&text)));
        Ok(Bytes::from_owner(Part(text)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shares> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LONG: usize = 3 << 20;

    fn count() -> (Arc<AtomicUsize>, impl Fn() -> String + Clone) {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        (made, move || format!("{}{}", " ".repeat(LONG), counted.fetch_add(1, Ordering::Relaxed)))
    }

    #[tokio::test]
    async fn expositions_that_nobody_takes_have_a_budget_and_everybody_gets_one() {
        let (expositions, (made, text)) = (Expositions::default(), count());
        let ask = async |who: u8| expositions.get(Some(Who([who; 32])), async { Ok(text()) }).await.unwrap();
        // Who takes what was asked for has a new one each time.
        for n in 0..20 {
            assert!(ask(1).await.ends_with(n.to_string().as_bytes()));
        }
        let first = made.load(Ordering::Relaxed);
        let mut held = Vec::new();
        for _ in 0..200 {
            held.push(ask(1).await);
        }
        let of_one = made.load(Ordering::Relaxed) - first;
        assert_eq!(of_one, EXPOSITIONS_MAX / CALLER_PART / LONG);
        assert!(held.last().unwrap().ends_with((first + of_one - 1).to_string().as_bytes()), "the latest");
        // Another caller has new ones.
        assert!(ask(2).await.ends_with((first + of_one).to_string().as_bytes()));
        for who in 0..200 {
            held.push(ask(who).await);
        }
        assert_eq!(made.load(Ordering::Relaxed) - first, 1 + EXPOSITIONS_MAX / LONG);
        drop(held);
        assert!(expositions.lock().is_empty());
        assert!(ask(1).await.ends_with((first + 1 + EXPOSITIONS_MAX / LONG).to_string().as_bytes()));
    }

    #[tokio::test]
    async fn who_waits_shares_one_that_was_begun_later() {
        let (expositions, (made, text)) = (Expositions::default(), count());
        let slow = async || {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            Ok(text())
        };
        let all = futures_util::future::join_all((0..50).map(|_| expositions.get(None, slow()))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(made.load(Ordering::Relaxed), 2, "the first, and one for all who came meanwhile");
        // One that fails is nobody's.
        let failed = expositions.get(None, async { Err(ApiError::invalid("x")) }).await;
        assert!(failed.is_err());
        drop((all, failed));
        assert!(expositions.lock().is_empty());
    }
}
