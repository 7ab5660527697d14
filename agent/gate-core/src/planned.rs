//! From a slot of the plan, in fabric time, to what a gate reads, in the node's time.

use units::{ClockOffset, FabricTime, Nanos, NodeTime};

use crate::{Mode, Schedule, Turn};

/// How often an agent writes its pages, each time with the slots as its clock sees them then.
pub const HEARTBEAT: Nanos = Nanos::from_millis(100);
/// Age of the heartbeat beyond which gates take the agent for gone: four lost ones, so that a busy host does not look dead.
pub const STALE_AFTER: Nanos = Nanos::from_millis(500);

/// The slot of one job, as the service plans it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedSlot {
    /// Version of the plan that it comes from.
    pub plan_version: u64,
    /// Whether the gate holds the job at all.
    pub hold: bool,
    /// Scheduled length of an iteration. A gate refuses zero.
    pub period: Nanos,
    /// Starts are due where fabric time modulo the period is this.
    pub offset: Nanos,
    /// How late a start may be and still go at once.
    pub tolerance: Nanos,
    /// How far the job may drift before a score falls.
    pub slack: Nanos,
    /// Longest time that a start may be held.
    pub hold_max: Nanos,
    /// The plan must not be trusted from here on.
    pub expires: FabricTime,
}

/// What an agent knows of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClock {
    /// Fabric time minus node time, as estimated.
    pub offset: ClockOffset,
    /// Bound of the estimate's error, now.
    pub bound: Nanos,
}

impl PlannedSlot {
    /// The page as an agent writes it at `now`: due is the first start from now on. Without a clock, or where the clock has no
    /// time for it, the page says that its error has no bound, and gates go.
    #[must_use]
    pub fn schedule(&self, clock: Option<NodeClock>, now: NodeTime) -> Schedule {
        let known = clock.and_then(|clock| Some((self.due(clock.offset, now)?, node_time(clock.offset, self.expires), clock.bound)));
        // An expiry at the end of time leaves the endless bound as the reason that gates give: `clock-bound`, and not `expired`.
        let (slot, expires, clock_bound) = known.unwrap_or((NodeTime(0), NodeTime(u64::MAX), Nanos(u64::MAX)));
        Schedule {
            mode: if self.hold { Mode::Hold } else { Mode::Pass },
            plan_version: self.plan_version,
            slot,
            period: self.period,
            tolerance: self.tolerance,
            hold_max: self.hold_max,
            slack: self.slack,
            expires,
            written: now,
            stale_after: STALE_AFTER,
            clock_bound,
            turn: Turn::default(),
        }
    }

    fn due(&self, offset: ClockOffset, now: NodeTime) -> Option<NodeTime> {
        let at = offset.fabric(now)?;
        // Two u64 differ by less than an i128 holds, and `max(1)` avoids a remainder by zero: gates refuse such a period anyway.
        let wait = (i128::from(self.offset.0) - i128::from(at.0)).rem_euclid(i128::from(self.period.0.max(1)));
        // A due start that node time cannot hold gives no schedule to follow, and gates go for the bound of the clock.
        offset.node(at.checked_add(Nanos(u64::try_from(wait).ok()?))?)
    }
}

/// Fabric time as node time, clamped to what node time can say: a plan that ended before the node's boot is expired, and a
/// plan without an end does not expire.
fn node_time(offset: ClockOffset, at: FabricTime) -> NodeTime {
    // An i128 holds any u64 minus any i64, so only the last conversion has to clamp.
    let time = i128::from(at.0) - i128::from(offset.0);
    NodeTime(u64::try_from(time.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Reason, decide};

    const MS: u64 = 1_000_000;
    const SLOT: PlannedSlot = PlannedSlot {
        plan_version: 7,
        hold: true,
        period: Nanos(100 * MS),
        offset: Nanos(30 * MS),
        tolerance: Nanos(10 * MS),
        slack: Nanos(2 * MS),
        hold_max: Nanos(100 * MS),
        expires: FabricTime(60_000 * MS),
    };
    const NOW: NodeTime = NodeTime(5_000 * MS);

    fn clock(offset: u64, bound: u64) -> Option<NodeClock> {
        Some(NodeClock { offset: ClockOffset(offset.cast_signed()), bound: Nanos(bound) })
    }

    /// Node 5,000 ms is fabric 5,010 ms; due is 5,030 ms of the fabric, which is 5,020 ms of the node.
    #[test]
    fn the_first_start_from_now_on_is_due() {
        let page = SLOT.schedule(clock(10 * MS, 1), NOW);
        assert_eq!(page.slot, NodeTime(5_020 * MS));
        assert_eq!((page.expires, page.written, page.clock_bound), (NodeTime(59_990 * MS), NOW, Nanos(1)));
        assert_eq!(decide(NOW, &page), Decision::Wait { until: page.slot, slip: false });
        // On the slot itself, that one is due.
        assert_eq!(SLOT.schedule(clock(30 * MS, 1), NOW).slot, NOW);
    }

    #[test]
    fn without_a_clock_gates_go() {
        let because = |page: &Schedule| matches!(decide(NOW, page), Decision::Go { because: Reason::ClockBound, .. });
        assert!(because(&SLOT.schedule(None, NOW)));
        // A node whose clock says that the fabric's has not begun.
        let before = NodeClock { offset: ClockOffset(-6_000_000_000), bound: Nanos(1) };
        assert!(because(&SLOT.schedule(Some(before), NOW)));
    }

    #[test]
    fn an_expiry_before_the_nodes_clock_is_past_and_one_beyond_it_never_comes() {
        let old = PlannedSlot { expires: FabricTime(5), ..SLOT };
        assert_eq!(old.schedule(clock(10, 0), NOW).distrust(NOW), Some(Reason::Expired));
        let for_ever = PlannedSlot { expires: FabricTime(u64::MAX), ..SLOT };
        let ahead = NodeClock { offset: ClockOffset(-1_000_000_000), bound: Nanos(0) };
        assert_eq!(for_ever.schedule(Some(ahead), NOW).expires, NodeTime(u64::MAX));
    }

    #[test]
    fn a_period_of_zero_is_for_the_gate_to_refuse() {
        let zero = PlannedSlot { period: Nanos(0), ..SLOT };
        assert_eq!(zero.schedule(clock(0, 0), NOW).distrust(NOW), Some(Reason::Malformed));
    }
}
