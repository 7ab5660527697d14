//! The scheduler where hosts, clocks, stores and executors fail it.

use super::*;

#[test]
fn a_host_that_others_take_while_places_are_ranked_starts_nobody() {
    for profile in [true, false] {
        let mut world = World::new(Rule::Srtf, hosts(4));
        world.slow_ranking = true;
        // One with a profile, so that places are ranked; the other one runs free in the same round.
        world.scheduling.handle_submit(world.now, RequestId(101), "ann".into(), "a".into(), Arc::new(spec(4, 100)));
        let other = SubmissionSpec { has_profile: profile, ..spec(4, 200) };
        world.scheduling.handle_submit(world.now, RequestId(102), "ann".into(), "b".into(), Arc::new(other));
        world.act();
        assert!(world.ranking.is_some());
        (0..4).for_each(|host| world.take(&format!("h{host}")));
        // Another step of the scheduler's own learns the new version of the plan, and not who changed it.
        world.submit("c", spec(1, 300));
        world.ranked();
        world.act();
        assert!(world.kept.values().all(|s| s.state == SubmissionState::Queued), "{:?}", world.kept);
        (0..4).for_each(|host| world.take(&format!("h{host}")));
        world.look();
        world.slow_ranking = false;
        world.ranked();
        world.act();
        assert!(world.kept.values().all(|s| s.state == SubmissionState::Starting), "{:?}", world.kept);
    }
}

#[test]
fn a_job_that_fits_no_more_keeps_nobody_waiting() {
    for rule in [Rule::Fifo, Rule::Srtf, Rule::Srsf, Rule::TIRESIAS, Rule::Themis] {
        let mut world = World::new(rule, hosts(HOSTS));
        world.submit("seed", spec(2, 50_000));
        world.report("seed", RunReport::Started).unwrap();
        world.submit("big", spec(24, 300));
        let place = world.kept["seed"].place[0].host.clone();
        // Others take a host on which nobody stands. Under a policy that stops jobs at once, `big` may have had it stopped.
        world.take(if place == "h5" { "h4" } else { "h5" });
        world.look();
        for n in 2..5 {
            world.run(1_300);
            world.submit(&format!("s{n}"), spec(2, 50_000));
        }
        world.run(1_300);
        for name in ["seed", "s2", "s3", "s4"] {
            assert_eq!(world.state(name), SubmissionState::Running, "{rule:?} {name}: {:?}", world.scheduling.waits_for(name));
        }
        let why = world.scheduling.waits_for("big").unwrap();
        assert_eq!(why, "waits: needs 24 GPUs; 20 are there, without hosts with jobs of others", "{rule:?}");
        assert_eq!(world.infeasible, [""; 0]);
        // When the host comes back, it is a job as others are.
        world.hosts.taken.clear();
        world.look();
        (0..1_000).for_each(|_| {
            world.pass(100);
            world.obey();
        });
        assert_eq!(world.state("big"), SubmissionState::Finished, "{rule:?}");
    }
}

#[test]
fn nobody_is_stopped_for_gpus_that_nobody_can_be_given() {
    let mut world = World::new(Rule::Srtf, hosts(2));
    world.submit("one", spec(1, 100_000));
    world.report("one", RunReport::Started).unwrap();
    let theirs = world.kept["one"].place[0].host.clone();
    world.take(&theirs);
    world.look();
    world.submit("c", spec(4, 10_000));
    world.report("c", RunReport::Started).unwrap();
    world.submit("b", spec(7, 100));
    world.pass(1_000);
    assert_eq!(["one", "c", "b"].map(|name| world.state(name).word()), ["running", "running", "queued"]);
    assert_eq!(world.scheduling.waits_for("b"), Some("waits: needs 7 GPUs; 4 are there, without hosts with jobs of others"));
    // One that fits is worth a stop, of the job on the host that others have not: the other one gives nobody a GPU.
    world.submit("d", spec(4, 50));
    assert_eq!(["one", "c", "d"].map(|name| world.state(name).word()), ["running", "stopping", "queued"]);
    world.report("c", RunReport::Stopped).unwrap();
    assert_eq!(world.state("d"), SubmissionState::Starting);
    // With the host back, all of it is the policy's again.
    world.take(&theirs);
    world.look();
    world.report("d", RunReport::Started).unwrap();
    world.report("d", RunReport::Finished).unwrap();
    world.run(50);
    assert_eq!(["b", "c"].map(|name| world.state(name).word()), ["running", "queued"]);
    assert_eq!(["one", "b"].map(|name| world.state(name).word()), ["running", "running"]);
}

#[test]
fn a_clock_that_went_back_over_a_restart_delays_nothing() {
    let mut world = World::new(Rule::Themis, hosts(HOSTS));
    world.submit("a", spec(24, 100));
    world.report("a", RunReport::Started).unwrap();
    for name in ["w1", "w2", "w3"] {
        world.submit(name, spec(15, 100));
    }
    world.now = FabricTime(world.now.0 - 3_600 * S);
    world.restart();
    world.report("a", RunReport::Finished).unwrap();
    assert_eq!(world.infeasible, [""; 0]);
    assert_eq!(world.kept.values().filter(|s| s.state == SubmissionState::Starting).count(), 1, "{:?}", world.kept);
    let mut world = World::new(Rule::Srtf, hosts(HOSTS));
    world.submit("a", spec(24, 100));
    world.now = FabricTime(world.now.0 - 864_000 * S);
    world.restart();
    world.pass(59);
    assert_eq!((world.state("a"), world.kept["a"].failures), (SubmissionState::Starting, 0));
    world.pass(1);
    assert_eq!(world.kept["a"].failures, 1, "the wait is bounded as before");
}

/// One host: a shorter job has stopped the first, and a still shorter one waits for the end of the round.
fn b_instead_of_a_and_c_waits() -> World {
    let mut world = World::new(Rule::Srtf, hosts(1));
    world.submit("a", spec(4, 10_000));
    world.report("a", RunReport::Started).unwrap();
    world.submit("b", spec(4, 5_000));
    world.report("a", RunReport::Stopped).unwrap();
    world.report("b", RunReport::Started).unwrap();
    world.submit("c", spec(4, 1_000));
    world
}

#[test]
fn a_policy_that_would_stop_jobs_at_any_event_does_so_once_a_round() {
    let mut world = b_instead_of_a_and_c_waits();
    assert_eq!(world.state("b"), SubmissionState::Running);
    world.pass(359);
    assert_eq!(world.state("b"), SubmissionState::Running);
    world.pass(1);
    assert_eq!(world.state("b"), SubmissionState::Stopping(After::Queue));
    assert_eq!(world.kept["b"].why, "c run");
}

#[test]
fn a_stop_that_could_not_be_written_is_tried_again() {
    let mut world = b_instead_of_a_and_c_waits();
    world.pass(359);
    world.faults = alloc::vec![Some(Refusal::Store("disk".into()))];
    world.pass(1);
    assert_eq!((world.state("b"), world.faults.len()), (SubmissionState::Running, 0));
    // Nobody asks anything; time passes, no more.
    world.pass(1);
    assert_eq!(world.state("b"), SubmissionState::Stopping(After::Queue));
    // The same of a job whose host is gone.
    world.report("b", RunReport::Stopped).unwrap();
    world.report("c", RunReport::Started).unwrap();
    world.faults = alloc::vec![Some(Refusal::Store("disk".into()))];
    world.hosts.all.clear();
    world.look();
    assert_eq!((world.state("c"), world.faults.len()), (SubmissionState::Running, 0));
    world.pass(1);
    assert_eq!(world.state("c"), SubmissionState::Stopping(After::Queue));
}

#[test]
fn every_order_is_told_however_many_stop() {
    let mut world = World::new(Rule::Srtf, hosts(80));
    for n in 0..300 {
        world.submit(&format!("j{n}"), spec(1, 10_000));
        world.report(&format!("j{n}"), RunReport::Started).unwrap();
    }
    world.submit("all", spec(320, 10));
    assert_eq!(world.kept.values().filter(|s| s.state == SubmissionState::Stopping(After::Queue)).count(), 300);
    assert_eq!(world.told.iter().filter(|n| n.kind.word() == "job_preempt" && n.order.is_some()).count(), 300);
}

#[test]
fn silence_while_the_service_was_stopped_is_nobodys() {
    let mut world = World::new(Rule::Srtf, hosts(2));
    world.submit("runs", SubmissionSpec { lease: Some(Nanos(50 * S)), ..spec(2, 1_000) });
    world.report("runs", RunReport::Started).unwrap();
    world.submit("starts", spec(2, 1_000));
    world.submit("stops", spec(2, 1_000));
    world.report("stops", RunReport::Started).unwrap();
    world.withdraw("stops");
    world.pass(40);
    world.now = world.now.saturating_add(Nanos(700 * S));
    world.scheduling.handle_stalled(Nanos(700 * S));
    world.pass(9);
    assert_eq!(["runs", "starts", "stops"].map(|name| world.state(name).word()), ["running", "starting", "stopping"]);
    assert!(world.kept.values().all(|s| s.attempt == 1));
    // The rest of each wait is as long as it was.
    world.pass(1);
    assert_eq!(world.kept["runs"].failures, 1);
    world.pass(10);
    assert_eq!(world.kept["starts"].failures, 1);
    world.pass(60);
    assert_eq!(world.state("stops"), SubmissionState::Withdrawn);
}

#[test]
fn a_job_that_ended_before_it_was_given_up_has_ended() {
    let mut world = World::new(Rule::Srsf, hosts(1));
    world.submit("a", SubmissionSpec { lease: Some(Nanos(50 * S)), ..spec(4, 100) });
    world.report("a", RunReport::Started).unwrap();
    world.submit("b", spec(4, 10));
    // Nobody says that `a` stopped, so its GPUs are given to `b`; and then it is said that it had ended.
    world.pass(60);
    assert_eq!((world.state("a"), world.state("b")), (SubmissionState::Queued, SubmissionState::Starting));
    assert_eq!(world.report("a", RunReport::Finished).unwrap().state, SubmissionState::Finished);
    world.report("b", RunReport::Started).unwrap();
    world.report("b", RunReport::Stopped).unwrap();
    world.report("b", RunReport::Stopped).unwrap();
    world.report("b", RunReport::Stopped).unwrap();
    assert_eq!(world.state("b"), SubmissionState::Failed);
    // The last one again is no error, and a job that has failed may have ended as well.
    world.report("b", RunReport::Stopped).unwrap();
    assert_eq!(world.report("b", RunReport::Finished).unwrap().state, SubmissionState::Finished);
    assert!(world.report("b", RunReport::Started).is_err());
}

#[test]
fn hosts_with_fewer_gpus_after_a_restart_move_jobs_that_had_more() {
    for rule in [Rule::Srtf, Rule::Themis] {
        let mut world = World::new(rule, hosts(4));
        world.submit("k", spec(8, 1_000));
        world.report("k", RunReport::Started).unwrap();
        world.hosts.all.iter_mut().for_each(|host| host.gpus = 2);
        world.restart();
        assert_eq!((world.state("k"), world.infeasible.len()), (SubmissionState::Stopping(After::Queue), 0));
        world.submit("k2", spec(1, 1_000_000));
        world.report("k", RunReport::Stopped).unwrap();
        assert!(world.kept["k2"].state == SubmissionState::Starting || world.kept["k"].state == SubmissionState::Starting);
        world.withdraw("k2");
        world.obey();
        world.pass(1);
        assert_eq!((world.state("k"), world.kept["k"].place.len()), (SubmissionState::Running, 4), "{:?}", world.kept["k"]);
    }
}

#[test]
fn a_plan_that_is_full_keeps_nobody_from_running() {
    let mut world = World::new(Rule::Srtf, hosts(2));
    let full = Refusal::Limit { what: "jobs", value: 10_001, max: 10_000 };
    world.faults = alloc::vec![Some(full), None];
    world.submit("a", spec(4, 100));
    assert_eq!((world.state("a"), world.kept["a"].planned), (SubmissionState::Starting, false));
    // A store that is behind passes, and the job has its place in the plan.
    let busy = Refusal::Limit { what: WAITING, value: 4_097, max: 4_096 };
    world.faults = alloc::vec![Some(busy), None];
    world.submit("b", spec(4, 100));
    assert_eq!(world.state("b"), SubmissionState::Queued);
    world.pass(1);
    assert_eq!((world.state("b"), world.kept["b"].planned), (SubmissionState::Starting, true));
}

#[test]
fn jobs_on_a_host_that_is_gone_move_and_opportunistic_ones_make_way() {
    let mut world = World::new(Rule::Themis, hosts(2));
    world.submit("filler", SubmissionSpec { opportunistic: true, ..spec(8, 1_000) });
    world.report("filler", RunReport::Started).unwrap();
    world.submit("a", spec(4, 1_000));
    assert_eq!(world.state("filler"), SubmissionState::Stopping(After::Queue), "at once, however short the last round was ago");
    world.report("filler", RunReport::Stopped).unwrap();
    world.report("a", RunReport::Started).unwrap();
    assert_eq!(world.state("filler"), SubmissionState::Queued);
    let gone = world.kept["a"].place[0].host.clone();
    world.hosts.all.retain(|host| host.name != gone);
    world.scheduling.handle_hosts(world.now, world.hosts.clone());
    world.act();
    assert_eq!(world.state("a"), SubmissionState::Stopping(After::Queue));
    world.report("a", RunReport::Stopped).unwrap();
    assert_eq!(world.state("a"), SubmissionState::Starting);
    assert_ne!(world.kept["a"].place[0].host, gone);
    assert!(world.kinds("a").contains(&"job_move"));
}
