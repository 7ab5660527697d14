//! Answers that are remembered under idempotency keys, and how many of whose.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};

use units::FabricTime;

use super::told_slot;
use crate::{
    Commitment, Config, Content, JobDefinition, Refusal, Slot,
    config::{KEY_SLOTS_MAX, KEYS_MAX},
    plan::{KeyUse, Name, Plan, weight},
};

/// The key of a commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Keyed {
    /// Empty: no key.
    pub(super) key: String,
    pub(super) content: Option<Content>,
    /// Who used it.
    pub(super) by: Option<Arc<str>>,
}

/// The answer that a key already stands for.
pub(super) fn repeated(
    now: FabricTime,
    plan: &Plan,
    config: &Config,
    jobs: &[JobDefinition],
    key: &str,
    content: Option<Content>,
) -> Result<Option<Commitment>, Refusal> {
    let Some(used) = plan.key(key).filter(|_| !key.is_empty()) else { return Ok(None) };
    let same = match (used.content, content) {
        (Some(first), Some(second)) => first == second,
        // A key of an earlier release has no digest.
        _ => jobs.iter().all(|d| used.answer.slots.iter().any(|s| s.job == d.job.name)),
    };
    if !same {
        // The caller would take the answer of another commit for its own.
        return Err(Refusal::KeyUsed { key: key.into() });
    }
    let names: BTreeSet<Name> = jobs.iter().map(|d| Name::from(d.job.name.as_str())).collect();
    if let Some(gone) = names.iter().find(|name| plan.job(name).is_none()) {
        // The job was released since. So it is not committed again, and the answer does not say that it is.
        return Err(Refusal::KeyGone { key: key.into(), job: String::from(&**gone) });
    }
    // The slots of these jobs are as the first answer said. Those of others, of whom the commit was not, are as they are now.
    let own: BTreeMap<&str, &Slot> = used.answer.slots.iter().map(|slot| (slot.job.as_str(), slot)).collect();
    let first = |slot: Slot| own.get(slot.job.as_str()).copied().cloned().unwrap_or(slot);
    let slots = present(now, plan, config, &names).into_iter().map(first).collect();
    Ok(Some(Commitment { slots, ..used.answer.clone() }))
}

/// The slots of these jobs and of all in their components, by name, as they are now.
pub(super) fn present(now: FabricTime, plan: &Plan, config: &Config, names: &BTreeSet<Name>) -> Vec<Slot> {
    let mut all = names.clone();
    let components = names.iter().filter_map(|name| plan.job(name)?.component.as_ref());
    // A component is shared by its members: whoever was taken in with another is passed over.
    let mut seen = BTreeSet::new();
    for component in components {
        if seen.insert(Arc::as_ptr(component)) {
            all.extend(component.members.iter().cloned());
        }
    }
    all.iter().filter_map(|name| plan.job(name)).map(|job| told_slot(now, config, job)).collect()
}

/// What an answer keeps under its key: the slots of the jobs of the commit.
pub(super) fn own(answer: &Commitment, names: &BTreeSet<Name>) -> Commitment {
    let slots = answer.slots.iter().filter(|slot| names.contains(slot.job.as_str())).cloned().collect();
    let Commitment { plan_version, moved, score, crowded, .. } = answer;
    Commitment { plan_version: *plan_version, slots, moved: moved.clone(), score: *score, crowded: crowded.clone() }
}

/// Keeps the answer under the key, and as many keys as are allowed. The names of the keys that changed.
pub(super) fn remember(plan: &mut Plan, now: FabricTime, keyed: Keyed, answer: Commitment) -> BTreeSet<Arc<str>> {
    let Keyed { key, content, by } = keyed;
    let mut keys = BTreeSet::new();
    if key.is_empty() {
        return keys;
    }
    let adds = weight(&answer);
    // Each turn forgets a key. An answer has at most `JOBS_MAX` slots and as many names, a fifth of `KEY_SLOTS_MAX`: room is always found.
    loop {
        let (many, heavy) = (plan.keys().len() >= KEYS_MAX, plan.key_weight() + adds > KEY_SLOTS_MAX);
        if !many && !heavy {
            break;
        }
        let Some(oldest) = plan.dispensable_key(by.as_ref(), adds, heavy) else { break };
        plan.replace_key(&oldest, None);
        keys.insert(oldest);
    }
    let key: Arc<str> = key.into();
    plan.replace_key(&key, Some(Arc::new(KeyUse { at: now, content, by, answer })));
    keys.insert(key);
    keys
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec};

    use super::*;

    fn answer(slots: usize) -> Commitment {
        Commitment { plan_version: 1, slots: vec![Slot::none("a"); slots], moved: Vec::new(), score: 1.0, crowded: Vec::new() }
    }

    fn use_key(plan: &mut Plan, at: u64, key: &str, by: Option<&str>, slots: usize) -> Vec<String> {
        let keyed = Keyed { key: key.into(), content: None, by: by.map(Arc::from) };
        remember(plan, FabricTime(at), keyed, answer(slots)).iter().map(|key| String::from(&**key)).collect()
    }

    #[test]
    fn keys_make_room_for_newer_ones() {
        let mut plan = Plan::default();
        let half = KEY_SLOTS_MAX / 2;
        for (at, key) in ["a", "b"].iter().enumerate() {
            assert_eq!(use_key(&mut plan, at as u64, key, None, half).len(), 1);
        }
        // One slot too many: the oldest goes, and is named so that the store forgets it as well.
        assert_eq!(use_key(&mut plan, 9, "c", None, 1), ["a", "c"]);
        assert_eq!((plan.key("a"), plan.keys().len(), plan.key_weight()), (None, 2, half + 1));
        for at in 0..KEYS_MAX as u64 {
            use_key(&mut plan, 10 + at, &format!("k{at}"), None, 0);
        }
        assert_eq!((plan.keys().len(), plan.key_weight()), (KEYS_MAX, 0));
    }

    /// Whoever uses many keys, or commits many jobs under them, forgets their own.
    #[test]
    fn keys_of_one_user_push_out_no_keys_of_another() {
        let mut plan = Plan::default();
        use_key(&mut plan, 0, "ann", Some("ann"), 10);
        use_key(&mut plan, 1, "renewal", Some("bob"), 0);
        for at in 0..2 * KEY_SLOTS_MAX as u64 / 1_000 {
            use_key(&mut plan, 2 + at, &format!("b{at}"), Some("bob"), 1_000);
        }
        assert!(plan.key("ann").is_some() && plan.key("b0").is_none() && plan.key("b199").is_some());
        assert!(plan.key("renewal").is_some(), "it weighs nothing, so to forget it makes no room");
        for at in 0..2 * KEYS_MAX as u64 {
            use_key(&mut plan, 1_000 + at, &format!("k{at}"), Some("bob"), 0);
        }
        assert!(plan.key("ann").is_some() && plan.key("renewal").is_none());
        assert_eq!(plan.keys().len(), KEYS_MAX);
        // Where there is no key but those of others, the one goes of who has most.
        assert_eq!(use_key(&mut plan, 100_000, "eve", Some("eve"), KEY_SLOTS_MAX), ["ann", "eve"]);
    }
}
