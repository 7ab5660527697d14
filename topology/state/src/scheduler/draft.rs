//! Changes of submissions on their way to the store.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use units::FabricTime;

use super::report::SubmissionRefusal;
use crate::{
    Notice, NoticeKind, RequestId, Severity,
    submission::{Order, Submission},
};

/// Submissions by name; `None` are forgotten.
pub(super) type Changed = BTreeMap<Arc<str>, Option<Arc<Submission>>>;

/// What a change does, to be told when it is durable.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) changed: Changed,
    /// Jobs that leave the plan.
    pub(super) release: Vec<String>,
    pub(super) notices: Vec<Notice>,
    /// Since when jobs have to stop that the policy stops, where some do.
    pub(super) stops: Option<FabricTime>,
    pub(super) answers: Vec<(RequestId, Result<Arc<str>, SubmissionRefusal>)>,
}

impl Draft {
    /// A submission as it will be.
    pub(super) fn get<'a>(&'a self, base: &'a BTreeMap<Arc<str>, Arc<Submission>>, name: &str) -> Option<&'a Arc<Submission>> {
        match self.changed.get(name) {
            Some(changed) => changed.as_ref(),
            None => base.get(name),
        }
    }

    /// Replaces a submission. A job that was in the plan and holds no GPUs any more leaves it.
    pub(super) fn put(&mut self, before: Option<&Submission>, next: Submission) {
        if before.is_some_and(|before| before.planned) && !next.planned {
            self.release.push(next.name.to_string());
        }
        self.changed.insert(Arc::clone(&next.name), Some(Arc::new(next)));
    }

    pub(super) fn tell(&mut self, now: FabricTime, severity: Severity, kind: NoticeKind, of: &Submission, message: String) {
        self.notices.push(notice(now, severity, kind, of, message, None));
    }

    pub(super) fn order(&mut self, now: FabricTime, kind: NoticeKind, of: &Submission, until: FabricTime, message: String) {
        let order = Order { attempt: of.attempt, place: of.place.clone(), until };
        self.notices.push(notice(now, Severity::Info, kind, of, message, Some(Arc::new(order))));
    }
}

fn notice(at: FabricTime, severity: Severity, kind: NoticeKind, of: &Submission, message: String, order: Option<Arc<Order>>) -> Notice {
    // The version of the plan is known when the change is made.
    Notice { by: None, at, severity, kind, message, job: Some(of.name.to_string()), host: None, agent: None, plan_version: 0, order }
}
