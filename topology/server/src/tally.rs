//! Counts by key, of which only those are kept that count something: so no map grows past what is there.

use std::collections::BTreeMap;

use crate::tls::Who;

/// The part of what has a limit, one in so many, that one caller with a certificate may have: others have as much left.
pub(crate) const CALLER_PART: usize = 2;

/// How much each key has.
#[derive(Clone, Debug)]
pub(crate) struct Tally<K>(BTreeMap<K, usize>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Tally<K> {
    /// How much this key has.
    pub(crate) fn of(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// It has so much more.
    pub(crate) fn add(&mut self, key: K, more: usize) {
        if more > 0 {
            *self.0.entry(key).or_default() += more;
        }
    }

    /// Takes `less` off the key's count; never more than was added.
    pub(crate) fn take(&mut self, key: &K, less: usize) {
        if let Some(count) = self.0.get_mut(key) {
            *count -= less;
            if *count == 0 {
                self.0.remove(key);
            }
        }
    }

    /// Keys that have something.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What all keys have together.
    #[cfg(test)]
    pub(crate) fn sum(&self) -> usize {
        self.0.values().sum()
    }
}

/// What callers hold of something that has a limit, each for itself and all together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    all: usize,
    callers: Tally<Who>,
}

impl Shares {
    /// Whether this caller may have so much more, where all may have `max` and one with a certificate `share`.
    pub(crate) fn fits(&self, who: Option<Who>, more: usize, max: usize, share: usize) -> bool {
        let of_caller = who.map_or(0, |who| self.callers.of(&who));
        // Callers who cannot be told apart have all of it together.
        self.all.saturating_add(more) <= max && (who.is_none() || of_caller.saturating_add(more) <= share)
    }

    /// The caller holds so much more.
    pub(crate) fn add(&mut self, who: Option<Who>, more: usize) {
        self.all += more;
        if let Some(who) = who {
            self.callers.add(who, more);
        }
    }

    /// The caller holds so much less, of what was added.
    pub(crate) fn take(&mut self, who: Option<Who>, less: usize) {
        self.all -= less;
        if let Some(who) = who {
            self.callers.take(&who, less);
        }
    }

    /// Whether nobody holds anything.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.all == 0 && self.callers.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_nothing_is_not_kept() {
        let mut tally = Tally::default();
        tally.add("a", 3);
        tally.add("b", 0);
        tally.take(&"a", 1);
        tally.take(&"c", 1);
        assert_eq!((tally.of(&"a"), tally.of(&"b"), tally.len(), tally.sum()), (2, 0, 1, 2));
        tally.take(&"a", 2);
        assert_eq!(tally.len(), 0);
    }

    #[test]
    fn one_caller_has_its_share_and_those_that_cannot_be_told_apart_have_all() {
        let (mut shares, one, other) = (Shares::default(), Some(Who([1; 32])), Some(Who([2; 32])));
        shares.add(one, 5);
        assert!(!shares.fits(one, 1, 10, 5) && shares.fits(other, 5, 10, 5) && !shares.fits(other, 6, 10, 6));
        assert!(shares.fits(None, 5, 10, 5) && !shares.fits(None, 6, 10, 5) && !shares.fits(None, usize::MAX, 10, 5));
        shares.add(None, 5);
        assert!(!shares.fits(other, 1, 10, 5));
        shares.take(one, 5);
        shares.take(None, 5);
        assert!(shares.is_empty());
    }
}
