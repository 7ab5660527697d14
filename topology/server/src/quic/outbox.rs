//! From the controller to one agent: never more than one plan, never a wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::v1alpha1::HostPlan;
use tokio::sync::Notify;

/// What the session has to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// Send this plan.
    Plan(HostPlan),
    /// End the session.
    End {
        /// Why, for the agent's log.
        reason: String,
        /// Whether trying again can help.
        retry: bool,
    },
}

#[derive(Debug, Default)]
struct Waiting {
    plan: Option<HostPlan>,
    end: Option<(String, bool)>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Both fields are written in one step each, so a panic under the lock leaves no half of a plan.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The controller's end. Clones are the same outbox. An outbox may outlive its session, and then nobody reads it.
#[derive(Clone, Debug)]
pub struct Outbox(Arc<Shared>);

/// The session's end.
#[derive(Debug)]
pub struct Inbox(Arc<Shared>);

impl Outbox {
    /// Both ends.
    #[must_use]
    pub fn new() -> (Self, Inbox) {
        let shared = Arc::new(Shared::default());
        (Self(Arc::clone(&shared)), Inbox(shared))
    }

    /// Sends a plan. An earlier plan that is still unsent is forgotten: a plan is whole, so only the newest matters.
    pub fn plan(&self, plan: HostPlan) {
        // One place for one plan: an agent that does not read holds at most this much memory of the controller.
        self.0.lock().plan = Some(plan);
        self.0.wake.notify_one();
    }

    /// Ends the session, without what is unsent. The first reason stays.
    pub fn end(&self, reason: impl Into<String>, retry: bool) {
        self.0.lock().end.get_or_insert_with(|| (reason.into(), retry));
        self.0.wake.notify_one();
    }
}

impl Inbox {
    /// Waits for the next thing to do; for a plan only if there is `room`. May be dropped and called again.
    pub async fn next(&self, room: bool) -> Outgoing {
        loop {
            // The wait is made before the look: what comes in between leaves a permit in `Notify`, and the wait returns at once.
            let woken = self.0.wake.notified();
            if let Some(next) = self.take(room) {
                return next;
            }
            woken.await;
        }
    }

    fn take(&self, room: bool) -> Option<Outgoing> {
        let mut waiting = self.0.lock();
        // The end goes before the plan: a session that is over must not act on one more plan.
        if let Some((reason, retry)) = waiting.end.take() {
            return Some(Outgoing::End { reason, retry });
        }
        if room { waiting.plan.take().map(Outgoing::Plan) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(plan_version: u64) -> HostPlan {
        HostPlan { plan_version, slots: Vec::new() }
    }

    #[tokio::test]
    async fn the_newest_plan_replaces_the_unsent_one() {
        let (outbox, inbox) = Outbox::new();
        for plan_version in 1..=1_000 {
            outbox.plan(plan(plan_version));
        }
        assert_eq!(inbox.next(true).await, Outgoing::Plan(plan(1_000)));
        assert_eq!(inbox.take(true), None);
    }

    #[tokio::test]
    async fn the_end_comes_even_when_there_is_no_room_for_plans() {
        let (outbox, inbox) = Outbox::new();
        outbox.plan(plan(1));
        assert_eq!(inbox.take(false), None);
        outbox.end("first", true);
        outbox.end("second", false);
        assert_eq!(inbox.next(false).await, Outgoing::End { reason: "first".into(), retry: true });
    }

    #[tokio::test]
    async fn a_waiting_session_is_woken_though_it_was_cancelled_before() {
        let (outbox, inbox) = Outbox::new();
        // As in a select: the wait is given up and begun again.
        for _ in 0..3 {
            tokio::select! { biased; _ = inbox.next(true) => unreachable!(), () = std::future::ready(()) => {} }
        }
        let waiting = tokio::spawn(async move { inbox.next(true).await });
        tokio::task::yield_now().await;
        outbox.plan(plan(5));
        assert_eq!(waiting.await.unwrap(), Outgoing::Plan(plan(5)));
    }
}
