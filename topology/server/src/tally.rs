//! Counts by key, of which only those are kept that count something: so no map grows past what is there.

use std::collections::BTreeMap;

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

    /// It has so much less, of what was added.
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
}
