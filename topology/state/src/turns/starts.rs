//! The last starts of a job, for people: when it was ready, when it began to send, and when it had sent everything.

use alloc::{collections::VecDeque, vec::Vec};

use units::{FabricTime, Nanos};

/// Starts that are looked back on: some iterations, of which the eye can follow who waited for whom.
const STARTS: usize = 8;

/// A start, as far as it was heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnStart {
    /// When the job was ready.
    pub ready: FabricTime,
    /// When it began to send; `None` while it waits.
    pub began: Option<FabricTime>,
    /// When it had sent everything; `None` while it sends, and where nobody told.
    pub ended: Option<FabricTime>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Starts(VecDeque<TurnStart>);

impl Starts {
    pub(super) fn ready(&mut self, at: FabricTime) {
        if self.0.len() >= STARTS {
            self.0.pop_front();
        }
        self.0.push_back(TurnStart { ready: at, began: None, ended: None });
    }

    pub(super) fn began(&mut self, at: FabricTime) {
        if let Some(last) = self.0.back_mut() {
            last.began.get_or_insert(at.max(last.ready));
        }
    }

    /// The job had sent everything at `at`, which took so long.
    pub(super) fn ended(&mut self, at: FabricTime, sent: Nanos) {
        // The end of a start that nobody heard of begins nothing.
        if let Some(last) = self.0.back_mut().filter(|last| last.ended.is_none() && last.ready <= at) {
            let began = *last.began.get_or_insert(FabricTime(at.0.saturating_sub(sent.0)).max(last.ready));
            last.ended = Some(at.max(began));
        }
    }

    pub(super) fn all(&self) -> Vec<TurnStart> {
        self.0.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_what_was_heard_of_it() {
        let at = FabricTime;
        let mut starts = Starts::default();
        starts.ended(at(5), Nanos(3));
        assert!(starts.all().is_empty());
        starts.ready(at(10));
        starts.began(at(14));
        starts.began(at(16));
        starts.ended(at(20), Nanos(9));
        starts.ended(at(30), Nanos(9));
        let first = TurnStart { ready: at(10), began: Some(at(14)), ended: Some(at(20)) };
        assert_eq!(starts.all(), [first]);
        // That it began was lost.
        starts.ready(at(40));
        starts.ended(at(50), Nanos(4));
        assert_eq!(starts.all(), [first, TurnStart { ready: at(40), began: Some(at(46)), ended: Some(at(50)) }]);
        (0..20).for_each(|n| starts.ready(at(60 + n)));
        assert_eq!(starts.all().len(), STARTS);
    }
}
