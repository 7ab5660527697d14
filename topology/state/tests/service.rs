//! The service, event by event, against answers derived by hand.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use std::sync::Arc;

use antiphase_state::{
    AgentReport, AgentState, Change, ClockQuality, Commit, Config, Event, GateReport, JobState, Refusal, Reply, RequestId, Service,
    SessionId, Slot, config::PHASES_MAX,
};
use units::{FabricTime, Nanos};
use world::{Driver, MS, S, durable, restored, said};

/// Up for 40 of 100 ms, over the spine between leaves 1 and 2.
const A: (&str, &str) = ("a", "100 0-40 h1,h5");
const B: (&str, &str) = ("b", "100 0-40 h2,h6");
/// The same between leaves 3 and 4.
const C: (&str, &str) = ("c", "100 0-40 h9,h13");
const D: (&str, &str) = ("d", "100 0-40 h10,h14");

fn report(driver: &mut Driver, session: u64, bound_ms: u64, gates: Vec<GateReport>) {
    let clock = Some(ClockQuality { bound: Nanos(bound_ms * MS), rtt: Nanos(0) });
    driver.handle(Event::Report { session: SessionId(session), report: AgentReport { clock, gates } });
}

fn gate(driver: &Driver, job: &str, iterations: u64, slips: u64, error: i64) -> GateReport {
    let plan_version = driver.slot(job).plan_version;
    GateReport { job: job.into(), plan_version, iterations, slips, phase_error: Some(error), ..GateReport::default() }
}

#[test]
fn two_jobs_on_one_uplink_get_slots_apart() {
    let mut driver = Driver::with_fabric();
    let done = driver.commit(&[A, B]);
    assert_eq!((done.plan_version, done.score, done.moved.len()), (2, 1.0, 0));
    let (a, b) = (driver.slot("a"), driver.slot("b"));
    // 100 ms and 5 % headroom; 105 - 2 * 40 = 25 ms are free: 12.5 ms of slack either way, slots 52.5 ms apart.
    for slot in [&a, &b] {
        assert_eq!((slot.times.period, slot.times.slack, slot.times.hold_max), (Nanos(105 * MS), Nanos(12_500_000), Nanos(105 * MS)));
        assert_eq!((slot.times.tolerance, slot.hold, slot.plan_version), (Nanos(15_750_000), true, 2));
    }
    assert_eq!(a.times.offset.0.abs_diff(b.times.offset.0), 52_500_000);
    assert_eq!((a.leader_host.as_str(), b.leader_host.as_str()), ("h1", "h2"));
    assert_eq!(done.slots.iter().map(|s| s.expires).collect::<Vec<_>>(), [driver.now.saturating_add(Nanos(60 * S)); 2]);
    // Four links between the leaves: both 45 of 50 Gb/s, 40 of 105 ms: unshifted 1 - 0.8 * 40 / 105.
    let view = driver.service.view();
    let shared: Vec<_> = view.links().filter(|l| l.jobs().len() == 2).collect();
    assert_eq!(shared.len(), 4);
    for link in shared {
        assert_eq!((link.score, link.peak.0), (Some(1.0), 90_000));
        assert!((link.zero_shift_score.unwrap() - (1.0 - 0.8 * 40.0 / 105.0)).abs() < 1e-12);
        assert_eq!(
            link.demands().map(|d| (d.job, d.shift, d.phases.len())).collect::<Vec<_>>(),
            [("a", a.times.offset, 1), ("b", b.times.offset, 1)]
        );
    }
    assert_eq!(view.job("a").unwrap().shared_links().count(), 4);
}

#[test]
fn a_job_that_meets_nobody_runs_free() {
    let mut driver = Driver::with_fabric();
    let done = driver.commit(&[A, C]);
    assert_eq!((done.score, done.slots.len()), (1.0, 2));
    assert!(done.slots.iter().all(|s| !s.hold && s.times.slack == Nanos(52_500_000)));
    assert_eq!(driver.service.view().job("a").unwrap().component().count(), 0);
}

#[test]
fn other_components_keep_slots_and_plan_versions() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    let before = (driver.slot("a"), driver.slot("b"));
    let done = driver.commit(&[C]);
    assert_eq!(done.slots.iter().map(|s| s.job.as_str()).collect::<Vec<_>>(), ["c"]);
    let done = driver.commit(&[D]);
    assert_eq!((done.plan_version, done.slots.len(), done.moved.len()), (4, 2, 0));
    assert_eq!((driver.slot("a"), driver.slot("b")), before);
    driver.release(&["c"]);
    assert_eq!((driver.slot("a"), driver.slot("b")), before);
    assert!(!driver.slot("d").hold);
}

#[test]
fn a_newcomer_moves_as_few_as_it_can() {
    let mut driver = Driver::with_fabric();
    // 20 of 105 ms each; the third and the fourth fit into the gaps of the first two.
    driver.commit(&[("a", "100 0-20 h1,h5"), ("b", "100 0-20 h2,h6")]);
    let before = [driver.slot("a").times.offset, driver.slot("b").times.offset];
    for (name, hosts) in [("c", "h3,h7"), ("d", "h4,h8")] {
        let done = driver.commit(&[(name, &format!("100 0-20 {hosts}"))]);
        assert_eq!((done.score, done.moved.len()), (1.0, 0), "{name}");
    }
    assert_eq!([driver.slot("a").times.offset, driver.slot("b").times.offset], before);
}

#[test]
fn nothing_is_told_before_it_is_durable() {
    let mut driver = Driver::with_fabric();
    driver.hello(1, "h1");
    let (plans, notices) = (driver.plans.len(), driver.notices.len());
    driver.slow = true;
    let request = driver.send_commit(&[A, B]);
    assert!(driver.waiting.is_some() && driver.reply(request).is_none());
    assert_eq!((driver.plans.len(), driver.notices.len()), (plans, notices));
    assert_eq!((driver.service.view().plan_version(), driver.service.view().jobs().len()), (1, 0), "reads see what is durable");
    driver.slow = false;
    driver.persisted();
    assert!(driver.reply(request).unwrap().is_ok());
    // h1 has a rank of `a` and leads it.
    let (_, plan_version, slots) = driver.plan(1).unwrap();
    assert_eq!((*plan_version, slots.len(), slots[0].job.as_str()), (2, 1, "a"));
}

#[test]
fn a_failed_write_leaves_the_old_state_and_refuses_all_that_waited() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A]);
    let before = durable(&driver.service);
    driver.slow = true;
    let first = driver.send_commit(&[B]);
    let second = driver.send_commit(&[C]);
    driver.failed();
    for request in [first, second] {
        assert_eq!(driver.reply(request), Some(Err(Refusal::Store("disk full".into()))));
    }
    assert_eq!(durable(&driver.service), before);
    assert_eq!(driver.kinds().last(), Some(&"store"));
    driver.slow = false;
    // The same again is as if nothing had been.
    let mut other = Driver::with_fabric();
    other.commit(&[A]);
    assert_eq!(driver.commit(&[B]).slots, other.commit(&[B]).slots);
    assert_eq!(durable(&driver.service), durable(&other.service));
}

#[test]
fn changes_that_waited_share_a_batch() {
    let mut driver = Driver::with_fabric();
    driver.slow = true;
    let requests: Vec<RequestId> = [A, B, C, D].iter().map(|j| driver.send_commit(&[*j])).collect();
    assert_eq!(driver.batches.len(), 1);
    driver.persisted();
    assert!(driver.reply(requests[0]).is_some() && driver.reply(requests[1]).is_none());
    driver.persisted();
    assert!(driver.waiting.is_none(), "three commits in one batch");
    let plan_version = |r: &RequestId| match driver.reply(*r) {
        Some(Ok(Reply::Committed(c))) => c.plan_version,
        other => panic!("{other:?}"),
    };
    let plan_versions: Vec<u64> = requests.iter().map(plan_version).collect();
    assert_eq!(plan_versions, [2, 3, 4, 5]);
}

#[test]
fn a_key_answers_as_it_did_before_and_after_a_restart() {
    let mut driver = Driver::with_fabric();
    let send = |driver: &mut Driver, job: &str, if_plan_version| {
        let request = driver.request();
        let jobs = vec![driver.job(job, "100 0-40 h1,h5")];
        let content = Some([job.as_bytes()[0]; 32]);
        driver.handle(Event::Asked {
            request,
            change: Change::Commit(Commit { jobs, if_plan_version, key: "k".into(), content, ..Commit::default() }),
        });
        driver.reply(request).unwrap()
    };
    let first = send(&mut driver, "a", Some(1));
    assert!(first.is_ok());
    driver.now = driver.now.saturating_add(Nanos(S));
    assert_eq!(send(&mut driver, "a", Some(1)), first, "although the plan_version moved on");
    assert_eq!(send(&mut driver, "b", None), Err(Refusal::KeyUsed { key: "k".into() }));
    let records: Vec<_> = driver.batches.concat();
    let mut again = Driver::new(Service::restore(Config::default(), driver.now, restored(&records)).unwrap());
    assert_eq!(send(&mut again, "a", None), first);
    assert!(again.batches.is_empty(), "nothing was written for a repetition");
    // What is not committed any more is not said to be, and is not committed by a late repetition.
    again.release(&["a"]);
    assert_eq!(send(&mut again, "a", None), Err(Refusal::KeyGone { key: "k".into(), job: "a".into() }));
    // A day later the key is free, and forgotten with the next change.
    again.now = again.now.saturating_add(Nanos(86_401 * S));
    assert!(send(&mut again, "b", None).is_ok());
}

#[test]
fn a_commit_is_all_or_nothing() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A]);
    let before = durable(&driver.service);
    let good = driver.job("b", B.1);
    let mut elsewhere = driver.job("x", C.1);
    elsewhere.placement.ranks[1].host = units::NodeId(9_999);
    let mut malformed = driver.job("x", C.1);
    malformed.job.phases[0].end = Nanos(101 * MS);
    let mut unnamed = driver.job("x", C.1);
    unnamed.job.name = "../x".into();
    let mut homeless = driver.job("x", C.1);
    homeless.hosts.clear();
    for bad in [elsewhere, malformed, unnamed, homeless, good.clone()] {
        let request = driver.request();
        driver.handle(Event::Asked {
            request,
            change: Change::Commit(Commit { jobs: vec![good.clone(), bad], key: "k".into(), ..Commit::default() }),
        });
        let refusal = driver.reply(request).unwrap().unwrap_err();
        assert!(matches!(refusal, Refusal::Policy(_)), "{refusal}");
        assert_eq!(durable(&driver.service), before, "{refusal}");
    }
    let request = driver.request();
    driver.handle(Event::Asked {
        request,
        change: Change::Commit(Commit { jobs: vec![good], if_plan_version: Some(1), ..Commit::default() }),
    });
    assert_eq!(driver.reply(request), Some(Err(Refusal::PlanVersionMoved { plan_version: 2, expected: 1 })));
}

#[test]
fn jobs_that_were_placed_on_an_earlier_fabric_are_refused() {
    let mut driver = Driver::with_fabric();
    let jobs = vec![driver.job("a", A.1)];
    driver.set_fabric("4 4 1").unwrap();
    let mut commit = |if_fabric| {
        let request = driver.request();
        driver.handle(Event::Asked { request, change: Change::Commit(Commit { jobs: jobs.clone(), if_fabric, ..Commit::default() }) });
        driver.reply(request).unwrap()
    };
    assert_eq!(commit(Some(1)), Err(Refusal::FabricMoved { version: 2, expected: 1 }));
    assert!(commit(Some(2)).is_ok());
}

#[test]
fn without_a_fabric_nothing_can_be_committed() {
    let mut driver = Driver::new(Service::new(Config::default()));
    let job = world::job(&world::fabric("4 4 1").unwrap(), "a", A.1).unwrap();
    let request = driver.request();
    driver.handle(Event::Asked { request, change: Change::Commit(Commit { jobs: vec![job], ..Commit::default() }) });
    assert_eq!(driver.reply(request), Some(Err(Refusal::NoFabric)));
}

/// Found by a stranger: jobs of 220 bytes have thousands of phases each, and a few hundred kilobytes took gigabytes for good.
#[test]
fn phases_of_all_jobs_have_a_limit() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A]);
    let mut other = driver.job(B.0, B.1);
    let phase = other.job.phases[0].clone();
    other.job.phases = vec![phase; PHASES_MAX];
    let request = driver.request();
    driver.handle(Event::Asked { request, change: Change::Commit(Commit { jobs: vec![other], ..Commit::default() }) });
    let (value, max) = (PHASES_MAX as u64 + 1, PHASES_MAX as u64);
    assert_eq!(driver.reply(request), Some(Err(Refusal::Limit { what: "phases of all jobs", value, max })));
}

#[test]
fn leases_end_unless_the_leader_reports_that_the_job_runs() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[B]);
    let request = driver.request();
    let jobs = vec![driver.job(A.0, A.1)];
    driver.handle(Event::Asked { request, change: Change::Commit(Commit { jobs, lease: Some(Nanos(5 * S)), ..Commit::default() }) });
    assert!(driver.slot("b").hold);
    driver.hello(1, "h1");
    driver.hello(5, "h5");
    driver.pass(Nanos(4 * S));
    let runs = |driver: &Driver| vec![gate(driver, "a", 3, 0, 0)];
    let gates = runs(&driver);
    report(&mut driver, 1, 0, gates);
    driver.pass(Nanos(4 * S));
    assert!(driver.service.view().job("a").is_some(), "renewed until 9 s");
    let (elsewhere, stands) = (runs(&driver), vec![gate(&driver, "a", 0, 0, 0)]);
    report(&mut driver, 5, 0, elsewhere);
    report(&mut driver, 1, 0, stands);
    report(&mut driver, 1, 0, vec![]);
    driver.pass(Nanos(S));
    assert!(driver.service.view().job("a").is_none(), "h5 only has a rank of it, and that its host lives says nothing of a job");
    assert!(!driver.slot("b").hold, "it meets nobody any more");
    assert!(driver.kinds().contains(&"expired"));
}

#[test]
fn plans_are_renewed_and_silence_ends_a_session() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    driver.hello(1, "h1");
    let expiry = |driver: &Driver| driver.plan(1).unwrap().2[0].expires;
    assert_eq!(expiry(&driver), driver.now.saturating_add(Nanos(60 * S)));
    let first = driver.now;
    for _ in 0..3 {
        driver.pass(Nanos(10 * S));
        report(&mut driver, 1, 0, vec![]);
    }
    assert_eq!(expiry(&driver), first.saturating_add(Nanos(80 * S)), "renewed after 20 s");
    assert_eq!((driver.plan(1).unwrap().1, driver.slot("a").plan_version), (2, 2), "without a new plan_version");
    driver.pass(Nanos(15 * S));
    assert_eq!(driver.disconnected, [SessionId(1)]);
    assert_eq!(driver.kinds().last(), Some(&"lost"));
    assert_eq!(driver.service.view().agent("h1").unwrap().state(), AgentState::Lost);
    assert_eq!(driver.service.deadline(), None);
    // A report of the old session is answered with a goodbye, so that the agent comes again.
    report(&mut driver, 1, 0, vec![]);
    assert_eq!(driver.disconnected, [SessionId(1), SessionId(1)]);
    driver.hello(2, "h1");
    driver.hello(3, "h1");
    assert_eq!(driver.disconnected.last(), Some(&SessionId(2)));
}

#[test]
fn a_bad_clock_quarantines_with_hysteresis() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    driver.hello(1, "h1");
    driver.hello(5, "h5");
    let held = |driver: &Driver| driver.plan(1).unwrap().2[0].hold;
    // The slack is 12.5 ms; three quarters of it are 9.375 ms.
    for (bound, expected) in [(12, true), (13, false), (10, false), (9, true), (12, true)] {
        report(&mut driver, 1, bound, vec![]);
        assert_eq!(held(&driver), expected, "{bound} ms");
    }
    report(&mut driver, 1, 13, vec![]);
    assert_eq!(driver.service.view().agent("h1").unwrap().state(), AgentState::Quarantined);
    assert!(driver.slot("a").hold, "the plan itself is as it was");
    report(&mut driver, 5, 100, vec![]);
    assert_eq!(driver.service.view().agent("h5").unwrap().state(), AgentState::Connected, "it leads nothing");
    assert_eq!(driver.kinds().iter().filter(|k| **k == "quarantined").count(), 2);
    // A new session begins without a verdict.
    driver.hello(6, "h1");
    assert!(driver.plan(6).unwrap().2[0].hold);
}

#[test]
fn slips_lengthen_the_period_of_the_whole_component() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B, C]);
    driver.hello(1, "h1");
    driver.hello(2, "h2");
    let quiet = driver.slot("c");
    let slips = gate(&driver, "a", 20, 2, 0);
    report(&mut driver, 1, 0, vec![slips.clone()]);
    // 100 ms with 70 permille.
    assert_eq!([driver.slot("a").times.period, driver.slot("b").times.period], [Nanos(107 * MS); 2]);
    assert_eq!([driver.slot("a").plan_version, driver.slot("b").plan_version], [3, 3]);
    assert_eq!(driver.slot("c"), quiet);
    report(&mut driver, 1, 0, vec![slips]);
    assert_eq!(driver.slot("a").plan_version, 3, "a report about the older slot");
    for _ in 0..20 {
        let slips = gate(&driver, "a", 20, 5, 0);
        report(&mut driver, 1, 0, vec![slips]);
    }
    // A job writes its report itself: what it says raises others by three steps of 20 and no more. Then its hold ends.
    assert_eq!(driver.service.view().job("b").unwrap().headroom_permille(), 50 + 3 * 20);
    assert!(!driver.slot("a").hold && driver.kinds().contains(&"let_go"));
    for _ in 0..20 {
        let slips = gate(&driver, "b", 20, 5, 0);
        report(&mut driver, 2, 0, vec![slips]);
    }
    assert_eq!(driver.service.view().job("b").unwrap().headroom_permille(), 50 + 3 * 20, "b is not held either");
    assert_eq!(driver.service.view().job("a").unwrap().headroom_permille(), driver.service.view().job("b").unwrap().headroom_permille());
}

#[test]
fn reports_add_up_and_grow_old() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    driver.hello(1, "h1");
    driver.hello(2, "h2");
    for (slips, opens) in [(1, 0), (0, 2), (1, 1)] {
        let said = GateReport { fail_opens: opens, ..gate(&driver, "a", 10, slips, 0) };
        report(&mut driver, 1, 1, vec![said]);
    }
    // The agent of another host cannot speak for the job.
    let forged = gate(&driver, "a", 10, 10, 0);
    report(&mut driver, 2, 1, vec![forged]);
    let idle = Config::default().idle_timeout;
    let look = |driver: &Driver| {
        let view = driver.service.view();
        let (job, agent) = (view.job("a").unwrap(), view.agent("h1").unwrap());
        let totals = job.totals().unwrap();
        ((totals.iterations, totals.slips, totals.fail_opens), job.report().is_some(), job.state(), agent.clock().is_some())
    };
    assert_eq!(look(&driver), ((30, 2, 3), true, JobState::Held, true));
    driver.now = driver.now.saturating_add(idle);
    driver.handle(Event::Tick);
    assert_eq!(look(&driver), ((30, 2, 3), true, JobState::Held, false), "the agent is lost, and its clock unknown");
    driver.now = driver.now.saturating_add(Nanos(1));
    driver.handle(Event::Tick);
    assert_eq!(look(&driver), ((30, 2, 3), false, JobState::Committed, false), "nobody knows how the job does");
}

#[test]
fn time_in_which_nobody_was_heard_is_no_silence() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    driver.hello(1, "h1");
    let idle = Config::default().idle_timeout;
    driver.now = driver.now.saturating_add(Nanos(idle.0 + S));
    driver.handle(Event::Stalled { lasted: Nanos(idle.0) });
    driver.handle(Event::Tick);
    assert_eq!(driver.service.view().agent("h1").unwrap().state(), AgentState::Connected);
    driver.now = driver.now.saturating_add(Nanos(idle.0 - S));
    driver.handle(Event::Tick);
    assert_eq!(driver.service.view().agent("h1").unwrap().state(), AgentState::Lost);
}

#[test]
fn a_drift_is_followed_where_it_costs_nothing() {
    let mut driver = Driver::with_fabric();
    // Three of 20 of 105 ms; when one goes, its gap is free for the neighbours on either side of it.
    driver.commit(&[("a", "100 0-20 h1,h5"), ("b", "100 0-20 h2,h6"), ("c", "100 0-20 h3,h7")]);
    driver.release(&["c"]);
    driver.hello(1, "h1");
    let (a, b) = (driver.slot("a"), driver.slot("b"));
    // Room of a towards b in either direction, less its own length.
    let period = a.times.period.0 as i64;
    let ahead = (b.times.offset.0 as i64 - a.times.offset.0 as i64).rem_euclid(period) - 20 * MS as i64;
    let behind = (a.times.offset.0 as i64 - b.times.offset.0 as i64).rem_euclid(period) - 20 * MS as i64;
    assert_eq!(a.times.slack.0 as i64, ahead.min(behind), "{a:?} {b:?}");
    assert_ne!(ahead, behind, "this test needs a job that is not in the middle of its room");
    let error = if ahead > behind { ahead - 1 } else { 1 - behind };
    for _ in 0..3 {
        let drifted = gate(&driver, "a", 10, 0, error);
        report(&mut driver, 1, 0, vec![drifted]);
    }
    let offset = (a.times.offset.0 as i64 + error).rem_euclid(period) as u64;
    assert_eq!((driver.slot("a").times.offset, driver.slot("a").plan_version), (Nanos(offset), 4));
    assert_eq!(driver.slot("b").times.offset, b.times.offset);
}

#[test]
fn a_drift_that_would_cost_is_said_once() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    driver.hello(1, "h1");
    let before = driver.slot("a");
    for _ in 0..9 {
        let drifted = gate(&driver, "a", 10, 0, 13 * MS as i64);
        report(&mut driver, 1, 0, vec![drifted]);
    }
    assert_eq!(driver.slot("a").plan_version, before.plan_version);
    assert_eq!(driver.service.view().job("a").unwrap().state(), JobState::Drifting);
    assert_eq!(driver.kinds().iter().filter(|k| **k == "drift").count(), 1);
    let back = gate(&driver, "a", 10, 0, 12 * MS as i64);
    report(&mut driver, 1, 0, vec![back]);
    assert_eq!(driver.service.view().job("a").unwrap().state(), JobState::Held);
}

/// 100 ms were declared, and it takes 60: three reports make it known and end the hold, and three good ones take back what was said.
#[test]
fn a_period_that_is_not_the_declared_one_is_said() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    driver.hello(1, "h1");
    driver.hello(2, "h2");
    let say = |driver: &mut Driver, solo: u64| {
        let seen = GateReport { holds: 10, solo: Some(Nanos(solo * MS)), ..gate(driver, "a", 10, 0, 0) };
        report(driver, 1, 0, vec![seen]);
        driver.service.view().job("a").unwrap().period_mismatch()
    };
    assert_eq!([say(&mut driver, 60), say(&mut driver, 60), say(&mut driver, 61)], [None, None, Some(Nanos(61 * MS))]);
    assert_eq!(driver.service.view().job("b").unwrap().period_mismatch(), None);
    assert!(!driver.slot("a").hold && driver.slot("a").times.period == Nanos(105 * MS), "no slot is made for what was learned");
    // Another slot says nothing of the job's period.
    driver.release(&["b"]);
    assert_eq!(driver.service.view().job("a").unwrap().period_mismatch(), Some(Nanos(61 * MS)));
    driver.commit(&[B]);
    let count = |driver: &Driver| driver.kinds().iter().filter(|k| **k == "period_mismatch").count();
    assert_eq!(count(&driver), 1);
    let still = [say(&mut driver, 100), say(&mut driver, 101), say(&mut driver, 99)];
    assert!(!driver.slot("a").hold, "until it is committed anew");
    assert_eq!(still, [Some(Nanos(61 * MS)), Some(Nanos(61 * MS)), None]);
    assert_eq!(count(&driver), 2);
}

#[test]
fn a_new_fabric_keeps_slots_and_is_refused_without_its_jobs() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    let before = (driver.slot("a"), driver.slot("b"));
    // More leaves: other ids for the same hosts.
    driver.set_fabric("6 4 1").unwrap();
    assert_eq!((driver.slot("a"), driver.slot("b")), before);
    assert_eq!(driver.service.view().fabric_version(), 2);
    // Two spines spread the flows: nobody meets anybody.
    driver.set_fabric("4 4 2").unwrap();
    assert!(!driver.slot("a").hold && driver.slot("a").times.offset == before.0.times.offset);
    let before = durable(&driver.service);
    let request = driver.request();
    let fabric = Arc::new(world::fabric("9 4 1").unwrap());
    driver.handle(Event::Asked {
        request,
        change: Change::SetFabric { by: None, if_fabric: None, fabric, text: "9 4 1".into(), jobs: vec![] },
    });
    assert!(driver.reply(request).unwrap().is_err());
    assert_eq!(durable(&driver.service), before);
}

#[test]
fn a_fabric_read_before_a_commit_does_not_bring_the_old_job_back() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A, B]);
    driver.slow = true;
    driver.send_commit(&[C]);
    let commit = driver.send_commit(&[("a", "100 0-20 h3,h7")]);
    let request = driver.request();
    let fabric = world::fabric("6 4 1").unwrap();
    let jobs = [A, B, C].iter().map(|(n, d)| world::job(&fabric, n, d).unwrap()).collect();
    driver.handle(Event::Asked {
        request,
        change: Change::SetFabric { by: None, if_fabric: None, fabric: Arc::new(fabric), text: "6 4 1".into(), jobs },
    });
    driver.slow = false;
    driver.persisted();
    assert!(driver.reply(commit).unwrap().is_ok());
    assert!(matches!(driver.reply(request), Some(Err(Refusal::Policy(_)))));
    assert_eq!(said(&driver.service.view().job("a").unwrap().planned().document), "100 0-20 h3,h7");
}

#[test]
fn a_fabric_that_was_made_beside_another_one_is_refused() {
    let mut driver = Driver::new(Service::new(Config::default()));
    let set = |driver: &mut Driver, if_fabric| {
        let request = driver.request();
        let fabric = Arc::new(world::fabric("4 4 1").unwrap());
        let change = Change::SetFabric { by: None, if_fabric, fabric, text: "4 4 1".into(), jobs: vec![] };
        driver.handle(Event::Asked { request, change });
        driver.reply(request).unwrap()
    };
    assert!(matches!(set(&mut driver, Some(1)), Err(Refusal::FabricMoved { version: 0, expected: 1 })));
    assert!(matches!(set(&mut driver, Some(0)), Ok(Reply::FabricSet { version: 1, .. })), "there was none");
    assert!(matches!(set(&mut driver, Some(0)), Err(Refusal::FabricMoved { version: 1, expected: 0 })));
    assert!(matches!(set(&mut driver, Some(1)), Ok(Reply::FabricSet { version: 2, .. })));
    assert!(matches!(set(&mut driver, None), Ok(Reply::FabricSet { version: 3, .. })));
}

#[test]
fn a_release_names_what_it_does_not_know() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A]);
    assert_eq!(driver.release(&["x", "a"]), Reply::Released { plan_version: 3, unknown: vec!["x".into()] });
    assert_eq!(driver.release(&["a"]), Reply::Released { plan_version: 3, unknown: vec!["a".into()] }, "nothing changes");
}

#[test]
fn an_agent_gets_the_slots_of_all_jobs_with_ranks_on_its_host() {
    let mut driver = Driver::with_fabric();
    driver.hello(1, "h5");
    assert_eq!(driver.plan(1).unwrap().2, Vec::<Slot>::new());
    driver.commit(&[A, B]);
    let slots = &driver.plan(1).unwrap().2;
    assert_eq!(slots.iter().map(|s| (s.job.as_str(), s.leader_host.as_str())).collect::<Vec<_>>(), [("a", "h1")]);
    assert!(slots[0].expires > FabricTime(0));
    driver.release(&["a"]);
    assert_eq!(driver.plan(1).unwrap().2, Vec::<Slot>::new());
}
