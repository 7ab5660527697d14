//! How long a start is said to send.

use antiphase_turns::{Action, Arbiter, Ask, Event, Group, Member, Up, Use};
use units::{FabricTime, Nanos, Rate};

const fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Two jobs that are declared to send for so long of 100 ms each.
fn pair(first: u64, second: u64) -> Arbiter {
    let member = |up: u64, opponent| Member {
        iteration: ms(100),
        uses: vec![Use { link: 0, ups: vec![Up { start: ms(0), end: ms(up), rate: Rate(50_000) }] }],
        opponents: vec![opponent],
    };
    Arbiter::new(Group { members: vec![member(first, 1), member(second, 0)], limits: vec![Rate(50_000)], ahead: false })
}

fn expected(arbiter: &mut Arbiter, at: u64) -> Option<Nanos> {
    arbiter.handle(FabricTime(at * 1_000_000), Event::Ready { job: 0, ask: Ask::Iteration });
    match arbiter.poll() {
        Some(Action::Grant { job: 0, expected, .. }) => expected,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_declared_length_is_told_where_it_has_room_and_a_measured_one_always() {
    assert_eq!(expected(&mut pair(45, 55), 0), Some(ms(45)));
    let mut crowded = pair(45, 56);
    assert_eq!(expected(&mut crowded, 0), None);
    crowded.handle(FabricTime(40_000_000), Event::Ended { job: 0, sent: ms(40) });
    assert_eq!(expected(&mut crowded, 100), Some(ms(40)));
}
