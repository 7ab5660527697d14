//! Laws of the gate, for all numbers.
#![allow(clippy::unwrap_used, reason = "a test that meets an error should stop")]

use antiphase_gate_core::{
    Decision, HOLD_FLOOR, HOLD_LIMIT, Mode, Note, NoteKind, Permit, PhaseLock, Reason, Sample, Schedule, StepOutcome, Summary, Turn,
    TurnDecision, TurnGate, Verdict, decide, mean_iteration,
};
use proptest::prelude::*;
use units::{Nanos, NodeTime};

/// Any number at all, with the edges and small ones more often than chance would have them.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..4_u64, (u64::MAX - 3)..=u64::MAX, 1_000..1_000_000_000_000_u64]
}

prop_compose! {
    fn any_schedule()(
        hold in any::<bool>(), plan_version in number(), slot in number(), period in number(), tolerance in number(), hold_max in number(),
        slack in number(), expires in number(), written in number(), stale_after in number(), clock_bound in number(),
    ) -> Schedule {
        Schedule {
            mode: if hold { Mode::Hold } else { Mode::Pass },
            plan_version, slot: NodeTime(slot), period: Nanos(period), tolerance: Nanos(tolerance), hold_max: Nanos(hold_max),
            slack: Nanos(slack), expires: NodeTime(expires), written: NodeTime(written), stale_after: Nanos(stale_after),
            clock_bound: Nanos(clock_bound), turn: Turn::default(),
        }
    }
}

prop_compose! {
    /// A schedule that is trusted at `now`, so that the laws of waiting are not about refusals only.
    fn trusted()(
        now in 1_000_000_000..u64::MAX / 4, slot in number(), period in 1_000..10_000_000_000_u64, tolerance_permille in 0..1_000_u64,
        hold_permille in 0..2_000_u64,
    ) -> (NodeTime, Schedule) {
        let schedule = Schedule {
            mode: Mode::Hold, plan_version: 1, slot: NodeTime(slot), period: Nanos(period), tolerance: Nanos(period * tolerance_permille / 1_000),
            hold_max: Nanos(period * hold_permille / 1_000), slack: Nanos(1), expires: NodeTime(u64::MAX), written: NodeTime(now),
            stale_after: Nanos(u64::MAX), clock_bound: Nanos(1), turn: Turn::default(),
        };
        (NodeTime(now), schedule)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn any_numbers_give_an_answer_within_the_bound(now in number(), schedule in any_schedule()) {
        if let Decision::Wait { until, .. } = decide(NodeTime(now), &schedule) {
            prop_assert!(until.0 > now);
            prop_assert!(until.0 - now <= schedule.period.0.min(schedule.hold_max.0).min(HOLD_LIMIT.0));
        }
    }

    #[test]
    fn a_memory_of_any_numbers_keeps_the_bound(
        now in number(), schedule in any_schedule(), start in number(), late in any::<i64>(), then in any_schedule(), same in any::<bool>(),
    ) {
        let schedule = if same { Schedule { plan_version: then.plan_version, ..schedule } } else { schedule };
        let mut lock = PhaseLock::default();
        let start = StepOutcome {
            because: Reason::OnTime, start: NodeTime(start), held: Nanos(0), slip: false, late: Some(late), plan_version: then.plan_version,
        };
        lock.started(&start, &then);
        match lock.decide(NodeTime(now), &schedule) {
            Decision::Wait { until, .. } => {
                prop_assert!(until.0 > now);
                prop_assert!(until.0 - now <= schedule.period.0.min(schedule.hold_max.0).min(HOLD_LIMIT.0));
            }
            // It never lets through what the rule holds, but where the hold is longer than a second and two of the job's own iterations.
            Decision::Go { because, .. } => match decide(NodeTime(now), &schedule) {
                Decision::Go { .. } => {}
                Decision::Wait { until, .. } => {
                    let own = u128::from(now.saturating_sub(start.start.0));
                    let held = u128::from(until.0 - now);
                    prop_assert!(because == Reason::HoldTooLong && held > (2 * own).max(HOLD_FLOOR.0.into()));
                }
            },
        }
    }

    #[test]
    fn a_trusted_schedule_is_followed((now, schedule) in trusted()) {
        // The oracle works in i128 and knows nothing of the code's way to the phase.
        let period = i128::from(schedule.period.0);
        let phase = (i128::from(now.0) - i128::from(schedule.slot.0)).rem_euclid(period);
        let wait = period - phase;
        let bound = i128::from(schedule.hold_max.0).min(period).min(i128::from(HOLD_LIMIT.0));
        let expected = if phase <= i128::from(schedule.tolerance.0) {
            Decision::Go { because: Reason::OnTime, late: Nanos(u64::try_from(phase).unwrap()) }
        } else if wait > bound {
            Decision::Go { because: Reason::HoldTooLong, late: Nanos(u64::try_from(phase).unwrap()) }
        } else {
            Decision::Wait { until: NodeTime(u64::try_from(i128::from(now.0) + wait).unwrap()), slip: 2 * phase <= period }
        };
        prop_assert_eq!(decide(now, &schedule), expected);
    }

    #[test]
    fn after_the_wait_the_answer_is_go((now, schedule) in trusted()) {
        if let Decision::Wait { until, .. } = decide(now, &schedule) {
            prop_assert_eq!(decide(until, &schedule), Decision::Go { because: Reason::OnTime, late: Nanos(0) });
            // Asked on the way, it gives the same start.
            let halfway = NodeTime(now.0 + (until.0 - now.0) / 2);
            let same = matches!(decide(halfway, &schedule), Decision::Wait { until: again, .. } if again == until);
            prop_assert!(same);
        }
    }

    #[test]
    fn the_same_question_has_the_same_answer(now in number(), schedule in any_schedule()) {
        prop_assert_eq!(decide(NodeTime(now), &schedule), decide(NodeTime(now), &schedule));
    }

    #[test]
    fn no_sequence_of_plans_extends_a_hold(
        (now, schedule) in trusted(),
        plans in proptest::collection::vec((1..500_000_000_u64, any_schedule(), trusted(), any::<bool>()), 1..20),
    ) {
        let Decision::Wait { until, .. } = decide(now, &schedule) else { return Ok(()) };
        let mut hold = PhaseLock::default().hold(now, until, &schedule);
        let mut at = now;
        for (step, wild, (_, tame), is_wild) in plans {
            at = NodeTime(at.0 + step);
            let plan = if is_wild { wild } else { tame };
            match hold.check(at, Ok(&plan)) {
                Verdict::Start(_) => return Ok(()),
                Verdict::Wait(next) => prop_assert!(next > at && next.0 <= now.0 + schedule.hold_bound().0),
            }
        }
    }

    #[test]
    fn a_report_of_any_numbers_has_a_summary(samples in proptest::collection::vec((number(), any::<Option<i64>>(), number()), 0..70)) {
        let samples: Vec<Sample> =
            samples.into_iter().map(|(start, late, held)| Sample { start: NodeTime(start), late, held: Nanos(held), sent: Nanos(0) }).collect();
        let summary = Summary::of(&samples);
        prop_assert!(summary.iteration_p50 <= summary.iteration_p75);
        prop_assert_eq!(mean_iteration(&samples).is_some(), summary.iteration_p50.is_some());
    }
}

prop_compose! {
    /// A page of a job that takes turns: mostly one that is trusted from 1 s on, with small numbers of writers and starts, so that
    /// permits meet starts.
    fn page_of_turns()(
        wild in any_schedule(), is_wild in prop::bool::weighted(0.1), mode in 0..8_u8, writer in 0..2_u64, number in 0..6_u64,
        permit in 0..3_u8, at in prop_oneof![number(), BEGIN..BEGIN + 1_000_000_000], max in prop_oneof![number(), 0..1_000_000_000_u64],
        written in prop_oneof![Just(BEGIN), number()],
    ) -> Schedule {
        let permit = match permit {
            0 => Permit::None,
            1 => Permit::Go,
            _ => Permit::NotBefore(NodeTime(at)),
        };
        let turn = Turn { writer, number, permit, max: Nanos(max) };
        let trusted = Schedule {
            written: NodeTime(written), stale_after: Nanos(1_000_000_000_000), expires: NodeTime(u64::MAX), ..Schedule::default()
        };
        let mode = match mode {
            0 => Mode::Pass,
            1 => Mode::Hold,
            _ => Mode::Turn,
        };
        Schedule { mode, turn, ..if is_wild { wild } else { trusted } }
    }
}

const BEGIN: u64 = 1_000_000_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    /// Any pages in any order, over several starts: every wait ends within the bound of the page under which it began, a start that
    /// is not granted was not granted, and notes go through ready, started, ended, each at most once and in this order.
    #[test]
    fn no_sequence_of_pages_extends_a_wait_for_a_turn(
        starts in prop::collection::vec((page_of_turns(), prop::collection::vec((0..200_000_000_u64, page_of_turns()), 1..12), any::<bool>()), 1..8),
        wild in any::<bool>(), far in number(),
    ) {
        let mut gate = TurnGate::new(1);
        let mut now = NodeTime(if wild { far } else { BEGIN });
        let mut notes: Vec<Note> = Vec::new();
        for (page, looks, ends) in starts {
            let mut because = None;
            match gate.begin(now, &page) {
                TurnDecision::Go(reason) => because = Some(reason),
                TurnDecision::Ask { ready, mut wait } => {
                    prop_assert_eq!((ready.kind, ready.at), (NoteKind::Ready, now));
                    notes.push(ready);
                    let bound = now.saturating_add(page.turn.max.min(HOLD_LIMIT));
                    prop_assert!(wait.until() <= bound);
                    for (step, look) in looks {
                        let before = now;
                        now = now.saturating_add(Nanos(step));
                        match wait.check(now, Ok(&look)) {
                            Verdict::Wait(until) => {
                                prop_assert!(until > now && until <= bound);
                                prop_assert_ne!(look.turn.permit_for(1, ready.number), Permit::Go);
                            }
                            Verdict::Start(reason) => {
                                because = Some(reason);
                                let granted = look.turn.permit_for(1, ready.number) == Permit::Go;
                                prop_assert!(granted || reason != Reason::Granted);
                                prop_assert!(now >= bound || reason != Reason::HoldTooLong);
                                prop_assert!(now >= before);
                                break;
                            }
                        }
                    }
                    // Once its bound has come, it goes under any page.
                    because = because.or_else(|| {
                        now = bound.max(now);
                        match wait.check(now, Ok(&page)) {
                            Verdict::Start(reason) => Some(reason),
                            Verdict::Wait(_) => None,
                        }
                    });
                    prop_assert!(because.is_some());
                }
            }
            notes.extend(because.and_then(|because| gate.started(now, because)));
            if ends {
                notes.extend(gate.ended(now));
            }
        }
        let rank = |note: &Note| (note.number, note.kind);
        prop_assert!(notes.windows(2).all(|pair| rank(&pair[0]) < rank(&pair[1]) && pair[0].at <= pair[1].at), "{notes:?}");
        let started = |number| notes.iter().any(|note| rank(note) == (number, NoteKind::Started));
        prop_assert!(notes.iter().all(|note| note.kind == NoteKind::Started || started(note.number)), "{notes:?}");
    }
}
