//! Which rank a span is of, where a trace holds several: laid over each other they would look like one job that sends more often.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{SPANS_MAX, TraceError};

/// Most bytes of names that are kept: a name of a kernel has some hundred, and a job has some hundred of them.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// Which of several ranks or GPUs in a trace was taken: that with most collectives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its name, by what the trace says.
    pub name: String,
    /// Collectives of the others.
    pub left_out: usize,
}

/// Times of communication by the rank that they are of.
pub(super) struct Groups<K, T> {
    of: BTreeMap<K, Vec<T>>,
    count: usize,
    names: Names,
}

/// Names of collectives, each of them once.
#[derive(Default)]
struct Names {
    known: BTreeSet<Arc<str>>,
    bytes: usize,
}

impl<K, T> Default for Groups<K, T> {
    fn default() -> Self {
        Self { of: BTreeMap::new(), count: 0, names: Names::default() }
    }
}

impl<K: Ord, T> Groups<K, T> {
    pub(super) fn add(&mut self, of: K, item: T) -> Result<(), TraceError> {
        self.count += 1;
        if self.count > SPANS_MAX {
            return Err(TraceError::TooMany);
        }
        self.of.entry(of).or_default().push(item);
        Ok(())
    }

    /// The name, kept once however often it comes.
    pub(super) fn name(&mut self, name: &str) -> Result<Arc<str>, TraceError> {
        if let Some(known) = self.names.known.get(name) {
            return Ok(Arc::clone(known));
        }
        self.names.bytes += name.len();
        if self.names.bytes > NAMES_BYTES_MAX {
            return Err(TraceError::TooMany);
        }
        let name: Arc<str> = name.into();
        self.names.known.insert(Arc::clone(&name));
        Ok(name)
    }

    /// Whom they are of.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.of.keys()
    }

    /// The same by what several of them have in common.
    pub(super) fn joined<L: Ord>(self, with: impl Fn(&K) -> L) -> Groups<L, T> {
        let mut of: BTreeMap<L, Vec<T>> = BTreeMap::new();
        for (key, items) in self.of {
            of.entry(with(&key)).or_default().extend(items);
        }
        Groups { of, count: self.count, names: self.names }
    }

    /// What most are of, and who that is where there are others; `None` of nothing.
    pub(super) fn most(self, name: impl Fn(&K) -> String) -> Option<(Vec<T>, Option<Taken>)> {
        let several = self.of.len() > 1;
        // Of equals the first, so that the same trace gives the same answer.
        let (of, most) = self.of.into_iter().rev().max_by_key(|(_, items)| items.len())?;
        let taken = several.then(|| Taken { name: name(&of), left_out: self.count - most.len() });
        Some((most, taken))
    }
}
