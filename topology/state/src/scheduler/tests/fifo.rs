//! The scheduler under FIFO: the order is kept, and nobody is stopped.

use super::*;

#[test]
fn first_come_is_first_served_and_nobody_is_stopped() {
    let mut world = World::new(Rule::Fifo, hosts(2));
    world.submit("long", spec(6, 10_000));
    world.report("long", RunReport::Started).unwrap();
    world.pass(10);
    world.submit("large", spec(4, 500));
    world.submit("small", spec(2, 100));
    // Two GPUs are free, and `small` would fit: but `large` came before it.
    let waits = world.scheduling.waits_for("small");
    assert_eq!(waits, Some("waits: the policy runs others now; it wants 2 GPUs; 2 jobs before it; it came 0 s ago"));
    world.pass(5_000);
    assert_eq!(
        ["long", "large", "small"].map(|name| world.state(name)),
        [SubmissionState::Running, SubmissionState::Queued, SubmissionState::Queued]
    );
    world.restart();
    world.pass(4_000);
    assert_eq!(
        ["long", "large", "small"].map(|name| world.state(name)),
        [SubmissionState::Running, SubmissionState::Queued, SubmissionState::Queued]
    );
    world.report("long", RunReport::Finished).unwrap();
    assert_eq!(["large", "small"].map(|name| world.state(name)), [SubmissionState::Starting; 2]);
    let why = &world.told.iter().find(|told| told.kind.word() == "job_start" && told.job.as_deref() == Some("small")).unwrap().message;
    assert!(why.contains(": 1 jobs before it; it came 9000 s ago"), "{why}");
}
