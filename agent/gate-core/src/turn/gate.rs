//! The rule of a gate whose job takes turns.

use units::{Nanos, NodeTime};

use crate::{Note, NoteKind, Permit, Reason, Schedule, TurnWait, WHOLE_ITERATION};

/// Starts in a row that nobody answered after which a gate asks no more for [`SILENT_FOR`]. One or two are lost notes.
pub const UNHEARD_MAX: u32 = 3;

/// How long a gate that nobody answers does not ask. Each question costs the start [`ANSWER_WITHIN`](crate::ANSWER_WITHIN), which is
/// then 1.5 % of the job's time at most, and only while an agent writes its page and answers nobody.
pub const SILENT_FOR: Nanos = Nanos::from_millis(1_000);

/// What a rank that is ready to start does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnDecision {
    /// Start at once.
    Go(Reason),
    /// Tell the agent `ready` and wait. Where the note cannot be sent, start at once: [`Reason::Unheard`].
    Ask {
        /// The note to send.
        ready: Note,
        /// The wait.
        wait: TurnWait,
    },
}

/// A start that the agent may know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// It is about to go, and nobody was asked.
    Unasked,
    /// The agent was asked, and the start waits.
    Asked,
    /// It went, and what it sends has not ended.
    Going,
}

/// What a gate remembers of its job's turns from start to start.
///
/// A start goes in three steps: [`Self::begin`] decides, [`Self::started`] says that it went, and [`Self::ended`] says that what it
/// sent has ended. Each of them gives the note to send; a note that cannot be sent is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnGate {
    writer: u64,
    number: u64,
    /// Of the last start.
    phase: u64,
    start: Option<Start>,
    unheard: u32,
    silent_until: NodeTime,
}

impl TurnGate {
    /// The turns of the run `writer` of a gate, before its first start.
    #[must_use]
    pub const fn new(writer: u64) -> Self {
        Self { writer, number: 0, phase: WHOLE_ITERATION, start: None, unheard: 0, silent_until: NodeTime(0) }
    }

    /// Decides for a start that is ready at `now`. Only a start under a page that may be trusted has a number: nobody hears of
    /// the others.
    ///
    /// Total: any numbers give an answer, and no wait is longer than [`Schedule::turn_bound`].
    pub fn begin(&mut self, now: NodeTime, schedule: &Schedule) -> TurnDecision {
        self.begin_phase(now, schedule, WHOLE_ITERATION)
    }

    /// As [`Self::begin`], for one Up phase of an iteration, counted from 1; 0 is [`WHOLE_ITERATION`].
    pub fn begin_phase(&mut self, now: NodeTime, schedule: &Schedule, phase: u64) -> TurnDecision {
        (self.start, self.phase) = (None, phase);
        if let Some(because) = schedule.distrust(now) {
            return TurnDecision::Go(because);
        }
        // One start per nanosecond would take 584 years to the end of u64.
        self.number = self.number.saturating_add(1);
        self.start = Some(Start::Unasked);
        // A grant ahead ends a silence: whoever grants is there.
        if schedule.turn.permit_for(self.writer, self.number) == Permit::Go {
            return TurnDecision::Go(Reason::Granted);
        }
        if now < self.silent_until {
            return TurnDecision::Go(Reason::Unheard);
        }
        if schedule.turn_bound().0 == 0 {
            return TurnDecision::Go(Reason::HoldTooLong);
        }
        self.start = Some(Start::Asked);
        TurnDecision::Ask { ready: self.note(NoteKind::Ready, now), wait: TurnWait::new(self.writer, self.number, now, schedule) }
    }

    /// The start went at `at`; gives the note of that, `None` for a start without a number.
    pub fn started(&mut self, at: NodeTime, because: Reason) -> Option<Note> {
        let before = self.start.filter(|&start| start != Start::Going)?;
        self.start = Some(Start::Going);
        match because {
            Reason::Granted | Reason::NotBefore | Reason::HoldTooLong => (self.unheard, self.silent_until) = (0, NodeTime(0)),
            // The count stays where it is after the silence: one more question without an answer is enough for the next.
            Reason::Unheard if before == Start::Asked => {
                self.unheard = self.unheard.saturating_add(1);
                if self.unheard >= UNHEARD_MAX {
                    self.silent_until = at.saturating_add(SILENT_FOR);
                }
            }
            _ => {}
        }
        Some(self.note(NoteKind::Started, at))
    }

    /// What the last start sent has ended at `at`; `None` if that was said before, or if the start has no number.
    pub fn ended(&mut self, at: NodeTime) -> Option<Note> {
        self.start.filter(|&start| start == Start::Going)?;
        self.start = None;
        Some(self.note(NoteKind::Ended, at))
    }

    const fn note(&self, kind: NoteKind, at: NodeTime) -> Note {
        Note { kind, writer: self.writer, number: self.number, phase: self.phase, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ANSWER_WITHIN, Mode, Turn, Verdict};

    const MS: u64 = 1_000_000;

    /// Trusted from 1 s to 3 s; a start waits for 400 ms at most.
    fn page(permit: Permit, number: u64) -> Schedule {
        Schedule {
            mode: Mode::Turn,
            plan_version: 7,
            expires: NodeTime(9_000 * MS),
            written: NodeTime(1_000 * MS),
            stale_after: Nanos(2_000 * MS),
            turn: Turn { writer: 5, number, permit, max: Nanos(400 * MS) },
            ..Schedule::default()
        }
    }

    const fn at(ms: u64) -> NodeTime {
        NodeTime(ms * MS)
    }

    fn asked(gate: &mut TurnGate, ms: u64) -> TurnWait {
        match gate.begin(at(ms), &page(Permit::None, 0)) {
            TurnDecision::Ask { wait, .. } => wait,
            TurnDecision::Go(because) => panic!("{because}"),
        }
    }

    fn kind(note: Option<Note>) -> Option<(NoteKind, u64, NodeTime)> {
        note.map(|note| (note.kind, note.number, note.at))
    }

    #[test]
    fn a_start_that_is_granted_goes_through_its_three_notes() {
        let mut gate = TurnGate::new(5);
        let TurnDecision::Ask { ready, mut wait } = gate.begin(at(1_000), &page(Permit::None, 0)) else { panic!() };
        assert_eq!(ready, Note { kind: NoteKind::Ready, writer: 5, number: 1, phase: 0, at: at(1_000) });
        assert_eq!(wait.check(at(1_001), Ok(&page(Permit::Go, 2))), Verdict::Wait(at(1_015)), "of another start");
        assert_eq!(wait.check(at(1_002), Ok(&page(Permit::NotBefore(at(1_090)), 1))), Verdict::Wait(at(1_090)));
        assert_eq!(wait.check(at(1_080), Ok(&page(Permit::Go, 1))), Verdict::Start(Reason::Granted));
        assert_eq!(gate.ended(at(1_079)), None, "it has not started");
        assert_eq!(kind(gate.started(at(1_080), Reason::Granted)), Some((NoteKind::Started, 1, at(1_080))));
        assert_eq!(gate.started(at(1_081), Reason::Granted), None);
        assert_eq!(kind(gate.ended(at(1_200))), Some((NoteKind::Ended, 1, at(1_200))));
        assert_eq!(gate.ended(at(1_201)), None);
        // Granted ahead: nothing is asked.
        assert_eq!(gate.begin(at(1_300), &page(Permit::Go, 2)), TurnDecision::Go(Reason::Granted));
        assert_eq!(kind(gate.started(at(1_300), Reason::Granted)), Some((NoteKind::Started, 2, at(1_300))));
    }

    #[test]
    fn a_phase_is_named_in_all_of_its_notes() {
        let mut gate = TurnGate::new(5);
        let TurnDecision::Ask { ready, .. } = gate.begin_phase(at(1_000), &page(Permit::None, 0), 3) else { panic!() };
        let started = gate.started(at(1_001), Reason::Granted).unwrap();
        let ended = gate.ended(at(1_002)).unwrap();
        assert_eq!([ready, started, ended].map(|note| (note.phase, note.number)), [(3, 1); 3]);
        // The next start is for a whole iteration again.
        let TurnDecision::Ask { ready, .. } = gate.begin(at(1_003), &page(Permit::None, 0)) else { panic!() };
        assert_eq!((ready.phase, ready.number), (WHOLE_ITERATION, 2));
    }

    #[test]
    fn a_wait_ends_at_what_was_said_or_at_its_bound() {
        let wait = || asked(&mut TurnGate::new(5), 1_000);
        let not_before = |ms| page(Permit::NotBefore(at(ms)), 1);
        let mut silent = wait();
        assert_eq!(silent.check(NodeTime(1_015 * MS - 1), Ok(&page(Permit::None, 1))), Verdict::Wait(at(1_015)));
        assert_eq!(silent.check(at(1_015), Ok(&page(Permit::None, 1))), Verdict::Start(Reason::Unheard));
        let mut told = wait();
        assert_eq!(told.check(at(1_001), Ok(&not_before(1_100))), Verdict::Wait(at(1_100)));
        // The agent restarted and has forgotten it; then it says that those ahead take longer.
        assert_eq!(told.check(at(1_050), Ok(&page(Permit::None, 0))), Verdict::Wait(at(1_100)));
        assert_eq!(told.check(at(1_099), Ok(&not_before(1_300))), Verdict::Wait(at(1_300)));
        assert_eq!(told.check(at(1_300), Ok(&not_before(1_300))), Verdict::Start(Reason::NotBefore));
        let mut long = wait();
        assert_eq!(long.check(at(1_001), Ok(&not_before(2_000))), Verdict::Wait(at(1_400)), "400 ms after it came");
        let longer = Schedule { turn: Turn { max: Nanos(u64::MAX), ..not_before(9_000).turn }, ..not_before(9_000) };
        assert_eq!(long.check(at(1_002), Ok(&longer)), Verdict::Wait(at(1_400)), "the bound was fixed when it began");
        assert_eq!(long.check(at(1_400), Ok(&longer)), Verdict::Start(Reason::HoldTooLong));
    }

    #[test]
    fn a_page_that_goes_bad_ends_the_wait() {
        let check = |ms, page: Result<&Schedule, Reason>| asked(&mut TurnGate::new(5), 1_000).check(at(ms), page);
        let good = page(Permit::Go, 1);
        assert_eq!(check(1_001, Err(Reason::NoPage)), Verdict::Start(Reason::NoPage));
        assert_eq!(check(1_001, Ok(&Schedule { mode: Mode::Pass, ..good })), Verdict::Start(Reason::NotHeld));
        let slots = Schedule { mode: Mode::Hold, period: Nanos(9), ..good };
        assert_eq!(check(1_001, Ok(&slots)), Verdict::Start(Reason::NotHeld), "no turn comes, and it is not held again");
        assert_eq!(check(3_001, Ok(&good)), Verdict::Start(Reason::Stale));
        assert_eq!(check(1_001, Ok(&Schedule { expires: at(1_001), ..good })), Verdict::Start(Reason::Expired));
        assert_eq!(check(1_001, Ok(&Schedule { written: at(1_010), ..good })), Verdict::Start(Reason::ClockStep));
        // What only slots need: no period, and a clock that nobody knows.
        assert_eq!(check(1_001, Ok(&Schedule { clock_bound: Nanos(u64::MAX), ..good })), Verdict::Start(Reason::Granted));
    }

    #[test]
    fn nobody_hears_of_a_start_under_a_page_that_is_not_trusted() {
        let mut gate = TurnGate::new(5);
        let old = Schedule { written: at(1), ..page(Permit::Go, 1) };
        assert_eq!(gate.begin(at(2_500), &old), TurnDecision::Go(Reason::Stale));
        assert_eq!((gate.started(at(2_500), Reason::Stale), gate.ended(at(2_600))), (None, None));
        // So the next start is the first, as the grant on the page says.
        assert_eq!(gate.begin(at(2_700), &page(Permit::Go, 1)), TurnDecision::Go(Reason::Granted));
        // One that was told of goes with a note, whatever ended its wait.
        let _ = asked(&mut gate, 2_800);
        assert_eq!(kind(gate.started(at(2_801), Reason::Stale)), Some((NoteKind::Started, 2, at(2_801))));
    }

    #[test]
    fn a_bound_of_zero_asks_nobody() {
        let mut page = page(Permit::None, 0);
        page.turn.max = Nanos(0);
        assert_eq!(TurnGate::new(5).begin(at(1_000), &page), TurnDecision::Go(Reason::HoldTooLong));
    }

    #[test]
    fn who_is_never_answered_asks_once_in_a_while() {
        let mut gate = TurnGate::new(5);
        let unheard = |gate: &mut TurnGate, ms| {
            let mut wait = asked(gate, ms);
            assert_eq!(wait.check(at(ms + ANSWER_WITHIN.0 / MS), Ok(&page(Permit::None, 0))), Verdict::Start(Reason::Unheard));
            assert!(gate.started(at(ms + ANSWER_WITHIN.0 / MS), Reason::Unheard).is_some());
        };
        for ms in [1_000, 1_020, 1_040] {
            unheard(&mut gate, ms);
        }
        // From 1,055 to 2,055 it goes at once, and still says that it goes.
        for ms in [1_060, 2_054] {
            assert_eq!(gate.begin(at(ms), &page(Permit::None, 0)), TurnDecision::Go(Reason::Unheard));
            assert!(gate.started(at(ms), Reason::Unheard).is_some());
        }
        unheard(&mut gate, 2_055);
        assert_eq!(gate.begin(at(2_100), &page(Permit::None, 0)), TurnDecision::Go(Reason::Unheard), "one question a second");
        // A grant ahead ends the silence: the next start, the 8th, asks again.
        assert_eq!(gate.begin(at(2_200), &page(Permit::Go, 8)), TurnDecision::Go(Reason::Granted));
        assert!(gate.started(at(2_200), Reason::Granted).is_some());
        let _ = asked(&mut gate, 2_300);
    }
}
