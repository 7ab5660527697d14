//! Limits of a connection: when a peer may begin a handshake, and how fast a session may talk.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::{
    HANDSHAKES_MAX, HANDSHAKES_PER_ADDRESS_MAX, HELLOS_BURST, HELLOS_PER_SECOND_MAX, RETRY_ABOVE, RETRY_PER_ADDRESS_ABOVE, SESSIONS_MAX,
};
use crate::{bucket::Bucket, peer::network, tls::Who};

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Counts the handshakes that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Door(Arc<Mutex<Counts>>);

/// One handshake under way, until dropped.
#[derive(Debug)]
pub(super) struct Handshake {
    door: Door,
    address: IpAddr,
}

/// What to do with a connection attempt.
#[derive(Debug)]
pub(super) enum Verdict {
    Admit(Handshake),
    /// Make it prove its address; costs us nothing.
    Retry,
    Refuse,
}

impl Door {
    /// `proven`: the packet carried a token that only the owner of its address could have.
    pub(super) fn judge(&self, address: IpAddr, proven: bool) -> Verdict {
        // Addresses are counted by network, or one IPv6 host could come from each of its own.
        let address = network(address);
        let mut counts = self.lock();
        let here = counts.by_address.get(&address).copied().unwrap_or(0);
        // The retry comes before the refusal: forged addresses must not use up the places of those that they name.
        if !proven && (counts.all >= RETRY_ABOVE || here >= RETRY_PER_ADDRESS_ABOVE) {
            return Verdict::Retry;
        }
        if counts.all >= HANDSHAKES_MAX || here >= HANDSHAKES_PER_ADDRESS_MAX {
            return Verdict::Refuse;
        }
        counts.all += 1;
        *counts.by_address.entry(address).or_default() += 1;
        Verdict::Admit(Handshake { door: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut counts = self.door.lock();
        counts.all -= 1;
        if let Some(here) = counts.by_address.get_mut(&self.address) {
            *here -= 1;
            // What is not counted is not kept: the map never grows past the handshakes under way.
            if *here == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

/// How often each agent says hello: who comes and goes all the time fills logs and events, and makes work for everybody.
#[derive(Debug, Default)]
pub(super) struct Hellos(Mutex<HashMap<Agent, Bucket>>);

/// An agent: its certificate, and the host for which it speaks by that.
type Agent = (Option<Who>, Arc<str>);

impl Hellos {
    /// Whether this agent may say hello now. `who` is its certificate, by which it spoke for `host`.
    pub(super) fn take(&self, who: Option<Who>, host: &Arc<str>, now: Instant) -> bool {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= 2 * SESSIONS_MAX {
            // A bucket that is full again says no more than none does.
            buckets.retain(|_, bucket| !bucket.take(HELLOS_BURST, now));
            if buckets.len() >= 2 * SESSIONS_MAX {
                return false;
            }
        }
        let full = || Bucket::new(HELLOS_PER_SECOND_MAX, HELLOS_BURST, now);
        buckets.entry((who, Arc::clone(host))).or_insert_with(full).take(1, now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_agent_says_hello_a_few_times_and_others_are_not_affected() {
        let (hellos, start) = (Hellos::default(), Instant::now());
        let name = |n: usize| Arc::from(format!("h{n}"));
        assert_eq!((0..100).filter(|_| hellos.take(None, &name(1), start)).count(), HELLOS_BURST as usize);
        assert!(hellos.take(Some(Who([1; 32])), &name(1), start) && hellos.take(None, &name(2), start));
        let later = start + Duration::from_secs(3);
        assert_eq!((0..100).filter(|_| hellos.take(None, &name(1), later)).count(), 3 * HELLOS_PER_SECOND_MAX as usize);
        // Names without end are not kept without end, and are refused only while all of them are fresh.
        let taken = (0..4 * SESSIONS_MAX).filter(|n| hellos.take(None, &name(*n), later)).count();
        assert!((SESSIONS_MAX..=2 * SESSIONS_MAX).contains(&taken), "{taken}");
        assert!(hellos.take(None, &name(usize::MAX), later + Duration::from_secs(60)));
        assert_eq!(hellos.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn an_address_must_prove_itself_and_then_still_has_a_limit() {
        let door = Door::default();
        let address = IpAddr::from([10, 0, 0, 1]);
        let mut held = Vec::new();
        while let Verdict::Admit(handshake) = door.judge(address, false) {
            held.push(handshake);
        }
        assert_eq!(held.len(), RETRY_PER_ADDRESS_ABOVE);
        assert!(matches!(door.judge(address, false), Verdict::Retry));
        while let Verdict::Admit(handshake) = door.judge(address, true) {
            held.push(handshake);
        }
        assert_eq!(held.len(), HANDSHAKES_PER_ADDRESS_MAX);
        assert!(matches!(door.judge(address, true), Verdict::Refuse));
        assert!(matches!(door.judge(IpAddr::from([10, 0, 0, 2]), false), Verdict::Admit(_)), "others are not affected");
        held.clear();
        assert!(matches!(door.judge(address, false), Verdict::Admit(_)));
        let counts = door.lock();
        assert_eq!((counts.all, counts.by_address.len()), (0, 0), "nothing is remembered");
    }

    #[test]
    fn many_addresses_together_have_a_limit() {
        let door = Door::default();
        let address = |i: usize| IpAddr::from(u32::try_from(i).unwrap().to_be_bytes());
        let mut held = Vec::new();
        for i in 0..2 * HANDSHAKES_MAX {
            match door.judge(address(i), i >= RETRY_ABOVE) {
                Verdict::Admit(handshake) => held.push(handshake),
                other => assert!(matches!(other, Verdict::Refuse)),
            }
        }
        assert_eq!(held.len(), HANDSHAKES_MAX);
        assert!(matches!(door.judge(address(9_999), false), Verdict::Retry));
    }
}
