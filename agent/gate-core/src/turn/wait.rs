//! One wait for a turn.

use units::{Nanos, NodeTime};

use crate::{HOLD_LIMIT, Mode, Permit, Reason, Schedule, Verdict};

/// How long a start waits for an answer of any kind. The agent of the node answers at once: within some 100 us, and within 10 ms where
/// more programs want a processor than there are (seen with four for each). This is what an agent that hangs costs a start.
pub const ANSWER_WITHIN: Nanos = Nanos::from_millis(15);

impl Schedule {
    /// The longest time that a start may wait for its turn.
    #[must_use]
    pub fn turn_bound(&self) -> Nanos {
        self.turn.max.min(HOLD_LIMIT)
    }
}

/// One start that waits for its turn, made by [`TurnGate::begin`](crate::TurnGate::begin). The bound of its end is fixed when the
/// wait begins, and no later page moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnWait {
    writer: u64,
    number: u64,
    /// From here on the start goes without an answer.
    answer_by: NodeTime,
    /// From here on the start goes whatever the answer is.
    deadline: NodeTime,
    /// The answer's last word: those ahead have ended by then.
    not_before: Option<NodeTime>,
}

impl TurnWait {
    /// A wait of start `number` of `writer` that begins at `now`.
    pub(crate) fn new(writer: u64, number: u64, now: NodeTime, schedule: &Schedule) -> Self {
        // The deadline is fixed here and nothing changes it later: point 2 of the bound in ADR 2.
        let deadline = now.saturating_add(schedule.turn_bound());
        Self { writer, number, answer_by: now.saturating_add(ANSWER_WITHIN).min(deadline), deadline, not_before: None }
    }

    /// The latest start, as far as is known now: at most the deadline.
    #[must_use]
    pub fn until(&self) -> NodeTime {
        self.not_before.unwrap_or(self.answer_by).min(self.deadline)
    }

    /// Asks at `now`, with the schedule as it reads now or the reason why it does not.
    pub fn check(&mut self, now: NodeTime, schedule: Result<&Schedule, Reason>) -> Verdict {
        let schedule = match schedule {
            Ok(schedule) => schedule,
            // A page that cannot be read any more ends the wait at once: fail-open, with its reason in the report.
            Err(reason) => return Verdict::Start(reason),
        };
        if let Some(reason) = schedule.distrust(now) {
            return Verdict::Start(reason);
        }
        // A plan that went over to slots while a start waits: no turn will come, and the start is not held a second time.
        if schedule.mode != Mode::Turn {
            return Verdict::Start(Reason::NotHeld);
        }
        match schedule.turn.permit_for(self.writer, self.number) {
            Permit::Go => return Verdict::Start(Reason::Granted),
            Permit::NotBefore(at) => self.not_before = Some(at),
            // An agent that restarts writes a page without the answer. What it said before stands, so the start is not kept
            // longer than that.
            Permit::None => {}
        }
        let until = self.until();
        if now < until {
            return Verdict::Wait(until);
        }
        Verdict::Start(match self.not_before {
            None => Reason::Unheard,
            Some(at) if at <= self.deadline => Reason::NotBefore,
            Some(_) => Reason::HoldTooLong,
        })
    }
}
