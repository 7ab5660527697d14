//! How long a start is said to send.

use antiphase_turns::{Action, Arbiter, Ask, Event, Group, Member, Up, Use};
use units::{FabricTime, Nanos, Rate};

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Two jobs that are declared to send for 45 of 100 ms each.
fn pair() -> Arbiter {
    let member = |opponent| Member {
        iteration: ms(100),
        uses: vec![Use { link: 0, ups: vec![Up { start: ms(0), end: ms(45), rate: Rate(50_000) }] }],
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
