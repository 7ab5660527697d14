//! What is known of one job.

use alloc::sync::Arc;

use units::{FabricTime, Nanos};

use super::{NoteKind, Order, OrderKind, TurnCounts, TurnJob, measure::Measure, starts::Starts};
use crate::SessionId;

/// Where a message stands: of one writer, this only grows.
pub(super) type Place = (u64, NoteKind);

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Arc<str>,
    pub(super) leader_host: Arc<str>,
    pub(super) group: u64,
    pub(super) index: u32,
    /// The run of the gate that is heard, and the one before, whose late messages are passed over.
    pub(super) writer: u64,
    pub(super) writer_before: Option<u64>,
    /// What is known; `None` before the first note of this writer.
    pub(super) known: Option<Place>,
    /// What was ordered since, and for which start.
    pub(super) ordered: Option<(u64, OrderKind)>,
    pub(super) asked_at: FabricTime,
    /// How long the start that asked last waited, as far as is known: at first until it was granted.
    pub(super) waits: Option<Nanos>,
    /// When the iteration under way began to ask or to send, and how long it waited since.
    pub(super) began: Option<FabricTime>,
    pub(super) waited: Nanos,
    pub(super) session: Option<SessionId>,
    /// A withdrawal that is to be said again: when, and how often still.
    pub(super) again: Option<(FabricTime, u32)>,
    pub(super) counts: TurnCounts,
    pub(super) starts: Starts,
    pub(super) measure: Measure,
}

impl Entry {
    pub(super) fn new(job: &TurnJob) -> Self {
        Self {
            name: job.name.clone(),
            leader_host: job.leader_host.clone(),
            group: 0,
            index: 0,
            writer: 0,
            writer_before: None,
            known: None,
            ordered: None,
            asked_at: FabricTime(0),
            waits: None,
            began: None,
            waited: Nanos(0),
            session: None,
            again: None,
            counts: TurnCounts::default(),
            starts: Starts::default(),
            measure: Measure::default(),
        }
    }

    /// Another run of the job's gate is heard from now on.
    pub(super) fn begin(&mut self, writer: u64) {
        self.writer_before = Some(self.writer);
        (self.writer, self.known, self.ordered, self.began) = (writer, None, None, None);
    }

    /// An iteration begins at `at`: what the one before took, and how long it waited.
    pub(super) fn iterates(&mut self, at: FabricTime) -> Option<(Nanos, Nanos)> {
        let waited = core::mem::take(&mut self.waited);
        self.began.replace(at).map(|before| (at.since(before), waited))
    }

    /// The job waited from when it asked to `at`.
    pub(super) fn waited_until(&mut self, at: FabricTime) {
        let waited = at.since(self.asked_at);
        self.waited = Nanos(self.waited.0.saturating_add(waited.0));
        self.waits = Some(waited);
        self.counts.waiting = Nanos(self.counts.waiting.0.saturating_add(waited.0));
    }

    /// The start that asked last went at `at`, as its end tells: with the way of its grant it waited for longer than the service knew.
    pub(super) fn started_at(&mut self, at: FabricTime) {
        if let Some(known) = self.waits.take() {
            let more = at.since(self.asked_at).0.saturating_sub(known.0);
            self.waited = Nanos(self.waited.0.saturating_add(more));
        }
    }

    /// An order for the job, and to whom; `None` while its agent is not there.
    pub(super) fn order(&self, number: u64, kind: OrderKind, at_most: Nanos) -> Option<(SessionId, Order)> {
        Some((self.session?, Order { job: self.name.clone(), writer: self.writer, number, kind, at_most, granted: None }))
    }
}
