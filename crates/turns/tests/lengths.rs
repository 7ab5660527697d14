//! How long a start is said to send.

use antiphase_turns::{Action, Arbiter, Ask, Because, Event, FIRST_WAIT_MAX, Group, Member, Up, Use};
use units::{FabricTime, Nanos, Rate};

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Two jobs that are declared to send for 45 of 100 ms each.
fn pair() -> Arbiter {
    declared(ms(100), ms(45))
}

/// Two jobs with these iterations, and so long Up phases.
fn declared(iteration: Nanos, up: Nanos) -> Arbiter {
    let member = |opponent| Member {
        iteration,
        uses: vec![Use { link: 0, ups: vec![Up { start: ms(0), end: up, rate: Rate(50_000) }] }],
        opponents: vec![opponent],
    };
    Arbiter::new(Group { members: vec![member(1), member(0)], limits: vec![Rate(50_000)], ahead: false })
}

fn expected(arbiter: &mut Arbiter, at: u64) -> Option<Nanos> {
    arbiter.handle(FabricTime(at * 1_000_000), Event::Ready { job: 0, ask: Ask::Iteration });
    match arbiter.poll() {
        Some(Action::Grant { job: 0, expected, .. }) => expected,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_a_measured_length_is_told() {
    let mut arbiter = pair();
    assert_eq!(expected(&mut arbiter, 0), None);
    arbiter.handle(FabricTime(40_000_000), Event::Ended { job: 0, sent: ms(40) });
    assert_eq!(expected(&mut arbiter, 100), Some(ms(40)));
}

/// Found by a stranger: with a period in a wrong unit, a job whose opponent died in its first start waited for 48 s.
#[test]
fn nobody_waits_by_what_was_only_declared_for_longer_than_seconds() {
    let mut arbiter = declared(ms(100_000), ms(48_000));
    let at = |ms: u64| FabricTime(ms * 1_000_000);
    // It starts, and is not heard of again.
    arbiter.handle(at(0), Event::Ready { job: 1, ask: Ask::Iteration });
    arbiter.handle(at(10), Event::Ready { job: 0, ask: Ask::Iteration });
    while arbiter.poll().is_some() {}
    let due = at(10).saturating_add(FIRST_WAIT_MAX);
    assert_eq!((arbiter.bound(0), arbiter.waits_until(0).map(|until| until <= due)), (FIRST_WAIT_MAX, Some(true)));
    arbiter.handle(due, Event::Tick);
    let granted = std::iter::from_fn(|| arbiter.poll()).find(|action| matches!(action, Action::Grant { job: 0, .. }));
    assert!(matches!(granted, Some(Action::Grant { because: Because::Bound, .. })), "{granted:?}");
    // What was measured is the bound from then on, however long it is.
    arbiter.handle(at(5_000), Event::Ended { job: 0, sent: ms(1_000) });
    arbiter.handle(at(9_010), Event::Ready { job: 0, ask: Ask::Iteration });
    assert!(arbiter.bound(0) > ms(6_000), "{:?}", arbiter.bound(0));
    assert_eq!(arbiter.iteration(0), arbiter.bound(0));
}
