//! How much is kept of submissions, and of whom.

use super::*;

#[test]
fn whoever_is_told_apart_has_half_of_the_room_for_submissions() {
    let of = |owner: Option<&str>, bytes: u64| SubmissionSpec { owner: owner.map(Arc::from), bytes, ..spec(8, 10_000) };
    let mut world = World::new(Rule::Srtf, hosts(2));
    let mut submitted = 0;
    let mut submit = |owner: Option<&str>, bytes: u64| {
        submitted += 1;
        let request = world.submit(&format!("j{submitted}"), of(owner, bytes));
        world.answers[&request].clone().map(drop).map_err(|e| e.to_string())
    };
    const SHARE: u64 = SUBMITTED_BYTES_MAX / OWNER_PART;
    assert_eq!(submit(Some("greedy"), SHARE - 10), Ok(()));
    let refused = format!("bytes of the submitted documents of this certificate: {}; at most {SHARE}", SHARE + 1);
    assert_eq!(submit(Some("greedy"), 11), Err(refused));
    assert_eq!(submit(Some("greedy"), 10), Ok(()));
    assert_eq!(submit(Some("other"), SHARE - 100), Ok(()));
    let refused = format!("bytes of all submitted documents: {}; at most {SUBMITTED_BYTES_MAX}", SUBMITTED_BYTES_MAX + 1);
    assert_eq!(submit(None, 101), Err(refused));
    assert_eq!(submit(None, 100), Ok(()));
}

#[test]
fn what_is_over_makes_room_by_what_it_holds() {
    let mut world = World::new(Rule::Srtf, hosts(2));
    // Each needs all GPUs, so the first one runs.
    for (name, bytes) in [("runs", 1_000), ("more", 1_000), ("large", OVER_BYTES_MAX - 1_000), ("last", 1)] {
        world.submit(name, SubmissionSpec { bytes, ..spec(8, 10_000) });
    }
    let over = |world: &World| world.kept.values().filter(|s| s.state.is_over()).map(|s| s.name.to_string()).collect::<Vec<_>>();
    for (name, expected) in [("large", vec!["large"]), ("last", vec!["large", "last"])] {
        world.now = world.now.saturating_add(Nanos(S));
        world.withdraw(name);
        assert_eq!(over(&world), expected);
    }
    // A thousand bytes more do not fit: the one goes that has been over for longest.
    world.now = world.now.saturating_add(Nanos(S));
    world.withdraw("more");
    assert_eq!(over(&world), ["last", "more"]);
}

#[test]
fn only_the_last_of_those_that_are_over_are_kept() {
    let mut world = World::new(Rule::Srtf, hosts(1));
    for n in 0..OVER_MAX + 5 {
        world.submit(&format!("j{n}"), spec(4, 10));
        world.pass(1);
        world.report(&format!("j{n}"), RunReport::Finished).unwrap();
    }
    assert_eq!((world.kept.len(), world.scheduling.submissions().len()), (OVER_MAX, OVER_MAX));
    assert!(!world.kept.contains_key("j4") && world.kept.contains_key("j5"));
}
