//! Jobs of which nobody knows how they communicate until their agents have told.

use super::*;

fn unknown(gpus: u32, seconds: u64) -> SubmissionSpec {
    SubmissionSpec { has_profile: false, learn: true, ..spec(gpus, seconds) }
}

fn told(of: &str) -> Document {
    Document::new(Arc::new(of.to_string()))
}

fn learned(world: &mut World, name: &str, attempt: u32, of: &str) {
    world.scheduling.handle_learned(world.now, name.into(), attempt, told(of));
    world.act();
}

#[test]
fn a_job_to_be_learned_is_in_the_plan_from_its_start_on_and_starts_again_as_it_was_learned() {
    let mut world = World::new(Rule::Srtf, hosts(2));
    world.submit("a", unknown(8, 10_000));
    // Its agent is told of it, which learns nothing of jobs that are in no plan.
    assert!(world.committed.contains("a") && world.kept["a"].planned);
    assert!(world.kept["a"].why.ends_with("; runs free until it is learned"), "{:?}", world.kept["a"]);
    world.report("a", RunReport::Started).unwrap();
    learned(&mut world, "a", 1, "120 ms");
    let a = Arc::clone(&world.kept["a"]);
    assert_eq!((a.state, a.attempt, a.learned.clone()), (SubmissionState::Running, 1, Some(told("120 ms"))));
    assert!(a.why.ends_with("of it; planned as it was learned") && a.is_known(), "{a:?}");
    // Told again it is no change, and a later telling is.
    let changes = world.scheduling.last_ticket;
    learned(&mut world, "a", 1, "120 ms");
    assert_eq!(world.scheduling.last_ticket, changes);
    learned(&mut world, "a", 1, "90 ms");
    // A shorter job takes its GPUs; what was learned stays, also over a restart of the service.
    world.submit("short", spec(8, 10));
    world.report("a", RunReport::Stopped).unwrap();
    assert!(!world.committed.contains("a"));
    world.restart();
    world.report("short", RunReport::Started).unwrap();
    world.report("short", RunReport::Finished).unwrap();
    let a = &world.kept["a"];
    assert_eq!((a.state, a.attempt, a.learned.clone()), (SubmissionState::Starting, 2, Some(told("90 ms"))));
    assert!(a.planned && a.why.ends_with("; planned as it was learned"), "{a:?}");
}

#[test]
fn what_was_learned_of_a_start_that_is_over_or_of_nobody_changes_nothing() {
    let mut world = World::new(Rule::Srtf, hosts(2));
    world.submit("a", unknown(4, 100));
    let before = world.kept.clone();
    learned(&mut world, "moon", 1, "120 ms");
    learned(&mut world, "a", 0, "120 ms");
    learned(&mut world, "a", 2, "120 ms");
    assert_eq!(world.kept, before);
    // The plan refuses it: it runs free, and no agent is asked.
    world.faults = alloc::vec![Some(Refusal::Policy("no capacity".into())), None];
    world.submit("b", unknown(4, 100));
    assert!(world.kept["b"].why.ends_with("; runs free, the plan refused it: no capacity") && !world.kept["b"].planned);
    learned(&mut world, "b", 1, "120 ms");
    assert_eq!(world.kept["b"].learned, None);
    world.report("a", RunReport::Started).unwrap();
    // A store that fails keeps nothing, and the next telling does.
    world.faults = alloc::vec![Some(Refusal::Store("disk".into()))];
    learned(&mut world, "a", 1, "120 ms");
    assert_eq!(world.kept["a"].learned, None);
    world.pass(60);
    learned(&mut world, "a", 1, "120 ms");
    assert_eq!(world.kept["a"].learned, Some(told("120 ms")));
}
