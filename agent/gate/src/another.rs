//! Whether another gate of the same job, which was opened later and writes the job's report, is still there.
//!
//! Where a program opens the gate in several processes, the newest takes the job's turns. It may end before the others: an evaluation in a
//! process of its own, a worker that is not needed any more. Then its report moves no more, while this gate goes on starting.

use units::{Nanos, NodeTime};

use crate::report::Report;

/// How long a report does not move before its gate counts as gone. A gate that starts writes it every 100 ms at most. One that pauses for
/// this long takes no turns meanwhile; when it goes on, it finds this gate's report and steps aside in its turn.
const SILENT_FOR: Nanos = Nanos::from_millis(3_000);

/// How many starts of this gate the other misses in that time. Both are of one job and start equally often, so that no iteration is too long.
const STARTS_MISSED: u64 = 8;

/// What was last seen of the other gate.
#[derive(Debug, Default)]
pub(crate) struct Another {
    /// The other gate, and how often it wrote; `None`: not looked yet, or there was nothing to read.
    seen: Option<(u64, u64)>,
    since: NodeTime,
    /// Starts of this gate until then.
    starts: u64,
}

impl Another {
    /// Whether the other gate is gone. `starts` counts those of this gate; the report is looked at once in [`SILENT_FOR`] and in
    /// [`STARTS_MISSED`] starts.
    pub(crate) fn is_gone(&mut self, at: NodeTime, starts: u64, look: impl FnOnce() -> Option<Report>) -> bool {
        if at.since(self.since) < SILENT_FOR || starts.saturating_sub(self.starts) < STARTS_MISSED {
            return false;
        }
        let now = look().map(|report| (report.writer, report.sequence));
        // A report that cannot be read says nothing of anybody.
        let is_gone = now.is_some() && now == self.seen;
        *self = Self { seen: now, since: at, starts };
        is_gone
    }
}

#[cfg(test)]
mod tests {
    use gate_core::Tracker;

    use super::*;

    #[test]
    fn a_gate_is_gone_that_misses_starts_for_long() {
        let report = |writer, sequence| Some(Report { writer, sequence, tracker: Tracker::default() });
        let at = |ms| NodeTime(Nanos::from_millis(ms).0);
        let mut another = Another::default();
        let early = |another: &mut Another, ms, starts| another.is_gone(at(ms), starts, || unreachable!("no look yet"));
        assert!(!early(&mut another, 90_000, 7));
        assert!(!another.is_gone(at(90_000), 8, || report(7, 1)), "the first look");
        assert!(!early(&mut another, 92_999, 900) && !early(&mut another, 180_000, 15));
        // It wrote since; another took over; and it cannot be read.
        assert!(!another.is_gone(at(180_000), 16, || report(7, 2)));
        assert!(!another.is_gone(at(183_000), 24, || report(8, 2)));
        assert!(!another.is_gone(at(186_000), 32, || None));
        assert!(!another.is_gone(at(189_000), 40, || report(8, 2)), "what came before is not known");
        assert!(another.is_gone(at(192_000), 48, || report(8, 2)));
    }
}
