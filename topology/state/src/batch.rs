//! Changes on their way to the store: what they did, what to write, what to tell when it is written.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use plan::Control;

use crate::{
    AuditEntry, Notice, Record, Refusal, Reply, RequestId, Ticket,
    audit::AuditTrail,
    change::Done,
    plan::{Job, Name, Plan},
};

/// Bytes of what an entry of the trail says: a commit of a thousand jobs names the first of them.
const MESSAGE_BYTES_MAX: usize = 512;

/// Changes that become durable together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) ticket: Ticket,
    pub(crate) replies: Vec<(RequestId, Result<Reply, Refusal>)>,
    pub(crate) notices: Vec<Notice>,
    /// What was asked for, without numbers yet.
    pub(crate) audit: Vec<AuditEntry>,
    pub(crate) jobs: BTreeSet<Name>,
    pub(crate) keys: BTreeSet<Arc<str>>,
    pub(crate) fabric: bool,
    pub(crate) submissions: BTreeSet<Name>,
    pub(crate) comparisons: BTreeSet<Name>,
    /// Jobs for which the service itself had asked something.
    pub(crate) asked: Vec<Name>,
}

impl Batch {
    /// Takes in what one change did.
    pub(crate) fn add(&mut self, request: Option<RequestId>, done: Done) {
        self.replies.extend(request.zip(done.reply).map(|(r, reply)| (r, Ok(reply))));
        self.audit.extend(audit_entries(&done.notices, done.several));
        self.notices.extend(done.notices);
        self.jobs.extend(done.touched);
        self.keys.extend(done.keys);
        self.fabric |= done.fabric;
        self.submissions.extend(done.submissions);
        self.comparisons.extend(done.comparison);
    }

    /// What to write so that `durable` becomes `next`.
    pub(crate) fn records(&self, durable: &Plan, next: &Plan, control: Control, trail: &AuditTrail) -> Vec<Record> {
        let mut out = Vec::new();
        for (gone, entry) in trail.numbered(&self.audit) {
            out.extend(gone.map(|number| Record::AuditGone { number }));
            out.push(Record::Audit(entry));
        }
        if let Some(installed) = next.installed.as_ref().filter(|_| self.fabric) {
            out.push(Record::Fabric { version: installed.version, text: installed.text.clone() });
        }
        for name in &self.jobs {
            match (durable.job(name), next.job(name)) {
                (Some(_), None) => out.push(Record::JobGone { name: name.to_string() }),
                (old, Some(new)) => job_records(old.map(|j| &**j), new, &mut out),
                // A job that came and went within the batch was never durable.
                (None, None) => {}
            }
        }
        for key in &self.keys {
            match (durable.key(key), next.key(key)) {
                (Some(_), None) => out.push(Record::KeyGone { key: String::from(&**key) }),
                (old, Some(new)) if old != Some(new) => {
                    out.push(Record::Key {
                        key: String::from(&**key),
                        at: new.at,
                        content: new.content,
                        by: new.by.clone(),
                        answer: new.answer.clone(),
                    });
                }
                // The key is as it was, or it came and went within the batch.
                _ => {}
            }
        }
        for name in &self.submissions {
            match (durable.submission(name), next.submission(name)) {
                (Some(_), None) => out.push(Record::SubmissionGone { name: name.to_string() }),
                (old, Some(new)) if old != Some(new) => out.push(Record::Submission(Arc::clone(new))),
                _ => {}
            }
        }
        for name in &self.comparisons {
            let found = next.comparison(name).filter(|found| durable.comparison(name) != Some(found));
            out.extend(found.map(|found| Record::Comparison(found.clone())));
        }
        // Renewing leases, comparing jobs, forgetting keys and refusing changes leave the version alone, so this record is not part of every batch.
        if durable.version != next.version {
            out.push(Record::PlanVersion { plan_version: next.version, control });
        }
        out
    }

    /// Copies what the batch touched from one plan to the other.
    pub(crate) fn copy(&self, from: &Plan, to: &mut Plan) {
        // The two plans are equal outside what the batch touched: to copy that much makes them equal everywhere.
        if self.fabric {
            to.installed.clone_from(&from.installed);
        }
        for name in &self.jobs {
            to.replace(name, from.job(name).cloned());
        }
        for key in &self.keys {
            to.replace_key(key, from.key(key).cloned());
        }
        for name in &self.comparisons {
            to.replace_comparison(name, from.comparison(name).cloned());
        }
        for name in &self.submissions {
            to.replace_submission(name, from.submission(name).cloned());
        }
        to.version = from.version;
    }
}

/// What a change said of itself, where somebody asked for it; the numbers are not known yet. `several`: each
/// notice is of a request of its own. Else there is an entry for each who is named: leases that run out together may be of several.
fn audit_entries(notices: &[Notice], several: bool) -> Vec<AuditEntry> {
    if several {
        return notices.iter().filter_map(|notice| audit_entry(&[notice])).collect();
    }
    let mut by_whom: BTreeMap<&Arc<str>, Vec<&Notice>> = BTreeMap::new();
    for notice in notices {
        notice.by.iter().for_each(|by| by_whom.entry(by).or_default().push(notice));
    }
    by_whom.into_values().filter_map(|of_one| audit_entry(&of_one)).collect()
}

/// The entry of these, which are all of one request or one user.
fn audit_entry(notices: &[&Notice]) -> Option<AuditEntry> {
    let first = notices.first()?;
    let by = first.by.clone()?;
    let mut message = String::new();
    for (at, notice) in notices.iter().enumerate() {
        if message.len() + notice.message.len() > MESSAGE_BYTES_MAX && at > 0 {
            message.push_str(&alloc::format!("; and {} more", notices.len() - at));
            break;
        }
        if at > 0 {
            message.push_str("; ");
        }
        message.extend(notice.message.chars().take(MESSAGE_BYTES_MAX));
    }
    Some(AuditEntry { number: 0, at: first.at, by, kind: first.kind.word().into(), message, plan_version: first.plan_version })
}

fn job_records(old: Option<&Job>, new: &Job, out: &mut Vec<Record>) {
    // A renewal is not durable: a start gives every lease its whole length again.
    let same_terms = |o: &Job| match (&o.lease, &new.lease) {
        (Some(old), Some(new)) => old.has_terms_of(new),
        (old, new) => old.is_none() && new.is_none(),
    };
    let same = |o: &Job| {
        (o.headroom_permille, &o.hold_ended, o.measured) == (new.headroom_permille, &new.hold_ended, new.measured)
            && same_terms(o)
            && o.definition.document == new.definition.document
    };
    // Another slot does not write the document again: a document may have a megabyte, a slot has some hundred bytes.
    if !old.is_some_and(same) {
        out.push(Record::Job {
            name: new.name.to_string(),
            document: new.definition.document.clone(),
            lease: new.lease.clone(),
            headroom_permille: new.headroom_permille,
            hold_ended: new.hold_ended.clone(),
            measured: new.measured,
        });
    }
    if old.is_none_or(|o| o.slot != new.slot) {
        out.push(Record::Slot(new.slot.clone()));
    }
}
