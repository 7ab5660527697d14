//! Commits of jobs that are committed as they are: they are about leases, and nothing of the plan changes.
//!
//! Whoever keeps the length of a lease renews it. Schedulers do so all day long: it is told to nobody, it is not durable, and it leaves
//! the plan version alone, for which others wait who decide on the plan. Another length is a change: it has an event and an entry in the
//! trail, because it ends a job at another time.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use units::{FabricTime, Nanos};

use super::{
    Done,
    keys::{self, Keyed},
    notice,
};
use crate::{
    Commitment, Config, Notice, NoticeKind, Reply, Severity,
    crowded::crowded,
    leases::Lease,
    plan::{Job, Name, Plan},
};

/// How long a commit lets its jobs stay.
pub(super) struct Terms<'a> {
    pub(super) now: FabricTime,
    /// `None`: until they are released.
    pub(super) length: Option<Nanos>,
    /// The leases stay as they are.
    pub(super) learned: bool,
    /// Who asks.
    pub(super) by: Option<&'a Arc<str>>,
}

/// Leases that get another length: the job, how long, and how long before.
pub(super) struct Changed(Vec<(Name, Option<Nanos>, Option<Nanos>)>);

impl Terms<'_> {
    /// The lease of a job that was committed as `old` before, if it was.
    pub(super) fn lease(&self, old: Option<&Job>) -> Option<Lease> {
        let before = old.and_then(|old| old.lease.as_ref());
        if self.learned {
            return before.cloned();
        }
        let length = self.length?;
        // Who set the length answers for it, whoever renews the lease.
        let by = before
            .filter(|before| before.length == length)
            .map_or_else(|| self.by.cloned(), |before| before.by.clone().or_else(|| self.by.cloned()));
        Some(Lease { length, until: self.now.saturating_add(length), by })
    }

    /// Which of these jobs stay for another time than before. One that is new has no time before.
    pub(super) fn changes(&self, plan: &Plan, names: &BTreeSet<Name>) -> Changed {
        let before = |name: &Name| Some((name.clone(), plan.job(name)?.lease.as_ref().map(|lease| lease.length)));
        let other = |(name, before)| (!self.learned && before != self.length).then_some((name, self.length, before));
        Changed(names.iter().filter_map(before).filter_map(other).collect())
    }
}

impl Changed {
    /// What is told of each.
    pub(super) fn notices(&self, now: FabricTime, plan_version: u64) -> impl Iterator<Item = Notice> {
        let lease = |length: Option<Nanos>| length.map_or_else(|| "no lease".to_string(), |length| format!("a lease of {length}"));
        self.0.iter().map(move |(name, length, before)| {
            let said = format!("job {name} has {} in place of {}", lease(*length), lease(*before));
            notice(now, Severity::Info, NoticeKind::Committed, Some(name), plan_version, said)
        })
    }
}

/// Gives jobs that are all committed as they are their leases.
pub(super) fn renew(plan: &mut Plan, config: &Config, names: &BTreeSet<Name>, terms: &Terms<'_>, keyed: Keyed) -> Done {
    let (now, plan_version) = (terms.now, plan.version);
    let changed = terms.changes(plan, names);
    for name in names {
        let Some(old) = plan.job(name).cloned() else { continue };
        let lease = terms.lease(Some(&old));
        plan.replace(name, Some(Arc::new(Job { lease, ..(*old).clone() })));
    }
    let slots = keys::present(now, plan, config, names);
    let (score, crowded) = (score(plan, names), crowded(plan, names, config));
    let answer = Commitment { plan_version, slots, moved: Vec::new(), score, crowded };
    // What the answer says of slots can be read from the plan. Without a digest the names of the jobs say what the key stands for.
    let of = if keyed.content.is_some() { &BTreeSet::new() } else { names };
    let keys = keys::remember(plan, now, keyed, keys::own(&answer, of));
    let notices = changed.notices(now, plan_version).collect();
    Done { reply: Some(Reply::Committed(answer)), notices, touched: names.clone(), keys, ..Done::default() }
}

/// Mean over the links of these jobs' components; 1 where nobody meets.
fn score(plan: &Plan, names: &BTreeSet<Name>) -> f64 {
    let mut seen = BTreeSet::new();
    let (mut loss, mut links) = (0.0, 0_usize);
    for component in names.iter().filter_map(|name| plan.job(name)?.component.as_ref()) {
        if seen.insert(Arc::as_ptr(component)) {
            // As where jobs are planned: each component weighs as many links as it has.
            loss += (1.0 - component.score) * component.links.len() as f64;
            links += component.links.len();
        }
    }
    if links > 0 { 1.0 - loss / links as f64 } else { 1.0 }
}

/// What is told of a job whose lease ran out: who set it answers for it.
pub(super) fn expired(now: FabricTime, name: &Name, lease: &Lease, plan_version: u64) -> Notice {
    let by = lease.by.as_deref().map_or_else(String::new, |by| format!(", set by {by}"));
    let said = format!("the lease of job {name} ran out: {}{by}", lease.length);
    Notice { by: lease.by.clone(), ..notice(now, Severity::Warning, NoticeKind::Expired, Some(name), plan_version, said) }
}
