//! Who takes turns, and when the groups change.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use std::sync::Arc;

use antiphase_state::{
    Action, AgentReport, Apart, Config, Event, GateReport, JobState, Record, Service, SessionId,
    turns::{ComparedJob, Comparison, Judged, MeanOf, MeasuredJobs, Verdict},
};
use job::MeasuredProfile;
use plan::Control;
use units::{FabricTime, Nanos};
use world::{Driver, MS, restored};

/// Between leaves 1 and 2, one after the other; C is elsewhere.
const A: (&str, &str) = ("a", "100 0-40 h1,h5");
const B: (&str, &str) = ("b", "100 0-40 h2,h6");
const C: (&str, &str) = ("c", "100 0-40 h9,h13");
const D: (&str, &str) = ("d", "100 0-40 h10,h14");

fn service(control: Control) -> Driver {
    let mut driver = Driver::new(Service::new(Config { control, ..Config::default() }));
    driver.set_fabric("6 4 1").unwrap();
    driver
}

/// The jobs of each group, and the hosts that speak for them.
fn groups(driver: &Driver) -> Vec<Vec<(String, String)>> {
    let jobs =
        |g: &Arc<antiphase_state::turns::TurnGroup>| g.jobs.iter().map(|j| (j.name.to_string(), j.leader_host.to_string())).collect();
    driver.turns.iter().flatten().map(jobs).collect()
}

#[test]
fn jobs_that_gain_take_turns_and_have_no_slot_to_keep() {
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B, C]);
    let ab = vec![("a".to_owned(), "h1".to_owned()), ("b".to_owned(), "h2".to_owned())];
    assert_eq!(groups(&driver), [ab]);
    for (job, turns) in [("a", true), ("b", true), ("c", false)] {
        assert_eq!((driver.slot(job).turns, driver.slot(job).hold), (turns, false), "{job}");
    }
    let a = driver.service.view().job("a").unwrap();
    let (times, interleaved) = (a.times().unwrap(), a.interleaved().unwrap());
    assert!(interleaved.0 * 100 <= times.solo.0 * 101, "by turns {interleaved}, alone {}", times.solo);
    assert!(times.contended.0 * 100 > times.solo.0 * 110, "beside each other as they come {}", times.contended);
    assert_eq!(a.state(), JobState::Committed);
}

#[test]
fn a_group_ends_with_its_jobs() {
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B, C]);
    driver.release(&["b"]);
    assert_eq!(groups(&driver), Vec::<Vec<(String, String)>>::new());
    assert!(!driver.slot("a").turns);
}

#[test]
fn a_change_elsewhere_leaves_a_group_as_it_is() {
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B]);
    let before = driver.turns.take().unwrap();
    driver.commit(&[C]);
    assert!(driver.turns.is_none(), "nobody's turns changed");
    driver.commit(&[("d", "100 0-40 h10,h14")]);
    let after = driver.turns.take().unwrap();
    assert_eq!(after.len(), 2);
    assert!(Arc::ptr_eq(&before[0], &after[0]), "a group that stays is the same by identity");
}

#[test]
fn a_restart_finds_the_same_groups() {
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B, C]);
    let before = groups(&driver);
    let config = Config { control: Control::Turns, ..Config::default() };
    let mut again = Driver::new(Service::restore(config, driver.now, restored(&driver.batches.concat())).unwrap());
    again.hello(1, "h1");
    assert_eq!(groups(&again), before);
    assert!(again.plan(1).unwrap().2.iter().any(|slot| slot.job == "a" && slot.turns));
}

#[test]
fn where_nobody_is_to_be_held_nobody_is_and_the_rest_is_predicted() {
    let mut driver = service(Control::Observe);
    driver.commit(&[A, B, C]);
    assert!(driver.turns.is_none());
    let slot = driver.slot("a");
    assert!(!slot.turns && !slot.hold);
    let a = driver.service.view().job("a").unwrap();
    assert_eq!(a.interleaved().unwrap(), a.times().unwrap().contended);
    // What turns would bring is what they then bring.
    let forecast = a.forecast().unwrap();
    let mut by_turns = service(Control::Turns);
    by_turns.commit(&[A, B, C]);
    assert_eq!(by_turns.service.view().job("a").unwrap().interleaved(), Some(forecast.by_turns));
    assert!(forecast.free.0 * 100 > forecast.by_turns.0 * 105, "{forecast:?}");
    assert_eq!((driver.service.view().job("c").unwrap().forecast(), by_turns.service.view().outlook()), (None, None));
    let outlook = driver.service.view().outlook().unwrap();
    assert_eq!((outlook.jobs, outlook.faster), (3, 2));
    // Said once for each answer, and again by a service that was started again.
    let said =
        |driver: &Driver| driver.notices.iter().filter(|n| n.kind.word() == "observe").map(|n| n.message.clone()).collect::<Vec<_>>();
    assert_eq!(said(&driver), [outlook.to_string()]);
    let config = Config { control: Control::Observe, ..Config::default() };
    let mut again = Driver::new(Service::restore(config, driver.now, restored(&driver.batches.concat())).unwrap());
    again.hello(1, "h1");
    assert_eq!(said(&again), [outlook.to_string()]);
    driver.release(&["b"]);
    assert_eq!(said(&driver)[1], "control = observe: turns would make none of 2 jobs faster");
}

fn measured(jobs: &[(&str, u64, Option<u64>)]) -> Event {
    let of = |ms: u64| Nanos(ms * MS);
    let one =
        |&(job, iteration, sent): &(&str, u64, Option<u64>)| (job.into(), MeasuredProfile { iteration: of(iteration), sent: sent.map(of) });
    Event::Measured(MeasuredJobs(jobs.iter().map(one).collect()))
}

#[test]
fn jobs_that_are_others_than_declared_are_planned_as_measured() {
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B]);
    let planned = |driver: &Driver, job: &str| {
        let view = driver.service.view();
        let job = view.job(job).unwrap();
        let ms = |time: Nanos| time.0 / MS;
        (ms(job.planned().job.period), ms(Nanos(job.planned().job.up())), job.measured().is_some(), job.slot().turns)
    };
    // 5 % of 100 ms, of the iteration and of what it sends, is no other job.
    driver.handle(measured(&[("a", 105, Some(45)), ("b", 95, Some(35))]));
    assert_eq!((planned(&driver, "a"), driver.service.view().plan_version()), ((100, 40, false, true), 2));
    // Of jobs that nobody knows any more nothing is planned.
    driver.handle(measured(&[("a", 133, Some(50)), ("b", 135, None), ("gone", 134, None)]));
    assert_eq!((planned(&driver, "a"), planned(&driver, "b")), ((134, 50, true, true), (134, 40, true, true)), "equal jobs stay equal");
    assert_eq!(driver.kinds().iter().filter(|kind| **kind == "measured").count(), 2);
    assert!(driver.notices.iter().filter(|n| n.kind.word() == "measured").all(|n| n.agent.is_some()));
    let said = &driver.notices.iter().find(|n| n.kind.word() == "measured").unwrap().message;
    assert!(said.contains("takes 134.000 ms alone and sends for 50.000 ms of it") && said.contains("100.000 ms and 40.000 ms"), "{said}");
    assert_eq!(driver.service.view().job("a").unwrap().committed().job.period, Nanos(100 * MS));
    // It stays so over a restart, another fabric and a commit of the same profile, until another one is declared.
    let config = Config { control: Control::Turns, ..Config::default() };
    let mut again = Driver::new(Service::restore(config, driver.now, restored(&driver.batches.concat())).unwrap());
    assert_eq!(planned(&again, "a"), (134, 50, true, true));
    again.commit(&[A]);
    again.commit(&[("a", "100 0-40 h3,h7")]);
    assert_eq!(planned(&again, "a"), (134, 50, true, true));
    again.commit(&[("a", "134 0-40 h1,h5")]);
    assert_eq!(planned(&again, "a"), (134, 40, false, true));
    // Soon after it was planned anew it is not again, and then it is; and a window that did not tell what it sent changes nothing of that.
    driver.handle(measured(&[("a", 160, Some(50)), ("b", 160, None)]));
    assert_eq!(planned(&driver, "a").0, 134);
    driver.now = FabricTime(driver.now.0 + 60_000 * MS);
    driver.handle(measured(&[("a", 160, None), ("b", 160, None)]));
    assert_eq!(planned(&driver, "a"), (160, 50, true, true));
    // What was declared is planned as declared.
    driver.now = FabricTime(driver.now.0 + 300_000 * MS);
    driver.handle(measured(&[("a", 100, Some(40)), ("b", 100, None)]));
    assert_eq!(planned(&driver, "a"), (100, 40, false, true));
}

/// What an agent says of a job that sends for so long at its shortest, and does not for so long, in ms.
fn shows(driver: &mut Driver, session: u64, job: &str, up: u64, down: u64) {
    let plan_version = driver.slot(job).plan_version;
    let up_down = Some((Nanos(up * MS), Nanos(down * MS)));
    let gate = GateReport { job: job.into(), plan_version, iterations: 10, up_down, ..GateReport::default() };
    driver.handle(Event::Report { session: SessionId(session), report: AgentReport { clock: None, gates: vec![gate] } });
}

/// With Up phases that are declared at double there is no room for turns, and nothing would ever measure them.
#[test]
fn free_jobs_that_show_shorter_up_phases_take_turns() {
    for control in [Control::Turns, Control::Observe] {
        let mut driver = service(control);
        driver.commit(&[("a", "100 0-80 h1,h5"), ("b", "100 0-80 h2,h6"), ("c", "100 0-80 h9,h13")]);
        driver.hello(1, "h1");
        driver.hello(2, "h2");
        driver.hello(3, "h9");
        assert_eq!(groups(&driver), Vec::<Vec<(String, String)>>::new(), "they do not fit");
        // Each sends for up to 80 ms beside the other. Down phases of 60 ms are told by no other than their own job.
        shows(&mut driver, 1, "a", 70, 60);
        let planned = |driver: &Driver, job: &str| {
            let planned = &driver.service.view().job(job).unwrap().planned().job;
            (planned.period.0 / MS, planned.up() / MS)
        };
        assert_eq!((planned(&driver, "a"), planned(&driver, "b")), ((100, 40), (100, 80)));
        let said = driver.notices.iter().find(|n| n.kind.word() == "measured").unwrap();
        assert!(said.message.contains("sends for 40.000 ms of it") && said.agent.as_deref() == Some("h1"), "{}", said.message);
        // Within the same minute it is not planned anew; and c meets nobody.
        shows(&mut driver, 1, "a", 20, 60);
        shows(&mut driver, 3, "c", 70, 60);
        assert_eq!((planned(&driver, "a"), planned(&driver, "c")), ((100, 40), (100, 80)));
        // They may take turns by now: in turns in which a job is predicted to wait its Up phases are no better known.
        shows(&mut driver, 2, "b", 70, 60);
        assert_eq!(planned(&driver, "b"), (100, 40));
        match control {
            Control::Turns => assert_eq!(groups(&driver)[0].len(), 2),
            _ => assert_eq!(driver.service.view().outlook().unwrap().faster, 2),
        }
        // What is so now says nothing new, and by turns the turns' own measurements count.
        let version = driver.service.view().plan_version();
        driver.now = FabricTime(driver.now.0 + 60_000 * MS);
        shows(&mut driver, 1, "a", 80, 61);
        shows(&mut driver, 2, "b", 40, 60);
        assert_eq!(driver.service.view().plan_version(), version);
    }
    // In slots jobs are not planned by that.
    let mut driver = service(Control::Slots);
    driver.commit(&[("a", "100 0-80 h1,h5"), ("b", "100 0-80 h2,h6")]);
    driver.hello(1, "h1");
    let version = driver.service.view().plan_version();
    shows(&mut driver, 1, "a", 70, 60);
    assert_eq!(driver.service.view().plan_version(), version);
}

/// A measurement that says that jobs do not fit may be wrong, and without turns they would be measured no more.
#[test]
fn no_measurement_ends_turns() {
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B]);
    let version = driver.service.view().plan_version();
    driver.handle(measured(&[("a", 134, Some(126)), ("b", 134, Some(126))]));
    assert_eq!(driver.service.view().plan_version(), version);
    // Nor is a job believed that sends nothing, or in whose iteration there is more than what it sends.
    driver.handle(measured(&[("a", 100, Some(2)), ("b", 100, Some(170))]));
    assert_eq!(driver.service.view().plan_version(), version);
}

#[test]
fn what_is_measured_beside_others_says_nothing_of_a_job() {
    let mut driver = service(Control::Turns);
    // c meets nobody, x is nobody, and by slots a period that differs ends a hold.
    driver.commit(&[A, B, C]);
    let before = driver.service.view().plan_version();
    driver.handle(measured(&[("c", 300, None), ("x", 300, None)]));
    assert_eq!(driver.service.view().plan_version(), before);
    // Three that send for 40 % of the time each wait for each other however they take turns.
    let mut full = service(Control::Turns);
    full.commit(&[A, B, ("d", "100 0-40 h3,h7")]);
    let predicted = full.service.view().job("a").unwrap().interleaved().unwrap();
    assert!(predicted > Nanos(105 * MS), "{predicted}");
    let before = full.service.view().plan_version();
    full.handle(measured(&[("a", 130, None)]));
    assert_eq!(full.service.view().plan_version(), before);
}

/// Jobs whose group was let go run as they come, and are shown so until another group is made.
/// What a comparison of jobs of 100 ms found.
fn compared(jobs: &[&str], hold: bool) -> Comparison {
    let mean = |ms| MeanOf { count: 24, mean: Nanos(ms * MS) };
    let job = |name: &&str| ComparedJob { name: (*name).into(), iteration: Nanos(100 * MS), held: mean(102), free: mean(100) };
    Comparison { jobs: jobs.iter().map(job).collect(), hold, left: 32, apart: 32, let_go: u32::from(!hold) }
}

#[test]
fn what_a_comparison_found_outlives_the_service() {
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B, C]);
    let (version, batches) = (driver.service.view().plan_version(), driver.batches.len());
    let judged = |jobs: &[&str]| {
        let verdict = Verdict { hold: false, is_new: true, held_over_free: 1.02, worst: 1.02 };
        Event::Judged(Judged { verdict, comparison: compared(jobs, false) })
    };
    driver.handle(judged(&["a", "b"]));
    // Of no group, and the same again: nothing is written.
    driver.handle(judged(&["a", "x"]));
    driver.handle(judged(&["a", "b"]));
    assert_eq!((driver.service.view().plan_version(), driver.batches.len()), (version, batches + 1));
    let known = |records: &[Record]| {
        let config = Config { control: Control::Turns, ..Config::default() };
        let mut service = Service::restore(config, FabricTime(0), restored(records)).unwrap();
        let state = service.view().job("a").unwrap().state();
        let actions = core::iter::from_fn(|| service.poll());
        (actions.filter_map(|action| if let Action::Turns { known, .. } = action { Some(known) } else { None }).next().unwrap(), state)
    };
    let records = driver.batches.concat();
    assert_eq!(known(&records).0, [Arc::new(compared(&["a", "b"], false))]);
    // Planned as another job, it is not what was compared.
    driver.commit(&[("b", "90 0-35 h2,h6")]);
    assert_eq!(known(&driver.batches.concat()).0, []);
    // And a job that is gone leaves nothing.
    driver.release(&["a"]);
    assert!(restored(&driver.batches.concat()).comparisons.is_empty());
}

#[test]
fn jobs_that_were_let_go_are_free() {
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B, C]);
    driver.hello(1, "h1");
    let report = |driver: &mut Driver| {
        let plan_version = driver.slot("a").plan_version;
        let gate = GateReport { job: "a".into(), plan_version, iterations: 10, ..GateReport::default() };
        driver.handle(Event::Report { session: SessionId(1), report: AgentReport { clock: None, gates: vec![gate] } });
        driver.service.view().job("a").unwrap().state()
    };
    let judged = |hold| {
        let verdict = Verdict { hold, is_new: true, held_over_free: 1.02, worst: 1.02 };
        Event::Judged(Judged { verdict, comparison: compared(&["a", "b"], hold) })
    };
    assert_eq!(report(&mut driver), JobState::Held);
    driver.handle(judged(false));
    let told = driver.notices.iter().find(|n| n.kind.word() == "turns").unwrap();
    assert_eq!((told.host.as_ref(), told.agent.as_deref()), (None, Some("h1")), "reports of agents brought it");
    assert_eq!(report(&mut driver), JobState::Free);
    driver.handle(judged(true));
    assert_eq!(report(&mut driver), JobState::Held);
    driver.handle(judged(false));
    driver.commit(&[("c", "100 0-30 h9,h13")]);
    assert_eq!(report(&mut driver), JobState::Free, "its group is as it was");
    // A verdict that came late, on a group of before, says nothing.
    let verdict = Verdict { hold: true, is_new: true, held_over_free: 0.9, worst: 0.9 };
    driver.handle(Event::Judged(Judged { verdict, comparison: compared(&["a", "x"], true) }));
    assert_eq!(report(&mut driver), JobState::Free);
    driver.commit(&[("b", "100 0-35 h2,h6")]);
    assert_eq!(report(&mut driver), JobState::Held, "another group");
}

/// What keeps the jobs of a link apart is said with the link, and its score is of that.
#[test]
fn links_say_what_keeps_their_jobs_apart() {
    let on = |driver: &Driver, jobs: &[&str]| {
        let view = driver.service.view();
        let found = view.links().find(|link| link.jobs().eq(jobs.iter().copied())).unwrap();
        (found.apart, found.score, found.zero_shift_score)
    };
    let mut driver = service(Control::Slots);
    driver.commit(&[A, B, C]);
    let (apart, score, unshifted) = on(&driver, &["a", "b"]);
    assert!((apart, score) == (Some(Apart::Shifts), Some(1.0)) && unshifted < Some(0.8), "{unshifted:?}");
    assert_eq!(on(&driver, &["c"]), (None, None, None));
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B, C]);
    assert_eq!(on(&driver, &["a", "b"]), (Some(Apart::Turns), Some(1.0), unshifted));
    let judged = |hold| {
        let verdict = Verdict { hold, is_new: true, held_over_free: 1.02, worst: 1.02 };
        Event::Judged(Judged { verdict, comparison: compared(&["a", "b"], hold) })
    };
    let before = driver.service.view().verdicts();
    driver.handle(judged(false));
    assert_eq!(on(&driver, &["a", "b"]), (Some(Apart::Free), unshifted, unshifted), "no shift is kept to");
    assert_ne!(driver.service.view().verdicts(), before, "who has read the links has to read them again");
    driver.handle(judged(true));
    assert_eq!(on(&driver, &["a", "b"]), (Some(Apart::Turns), Some(1.0), unshifted));
}

#[test]
fn a_job_by_turns_that_is_far_from_its_plan_is_told() {
    let mut driver = service(Control::Turns);
    driver.commit(&[A, B]);
    driver.hello(1, "h1");
    driver.hello(2, "h2");
    // The mean where the agent tells it, and the median of one that does not.
    let told = |driver: &mut Driver, iterations: u64, iteration: u64, mean: Option<u64>| {
        let (plan_version, ms) = (driver.slot("a").plan_version, |ms: u64| Nanos(ms * MS));
        let (iteration, iteration_mean) = (Some(ms(iteration)), mean.map(ms));
        let seen = GateReport { job: "a".into(), plan_version, iterations, iteration, iteration_mean, ..GateReport::default() };
        driver.handle(Event::Report { session: SessionId(1), report: AgentReport { clock: None, gates: vec![seen] } });
        driver.service.view().warnings(&[])
    };
    let said = |driver: &mut Driver, iterations: u64, iteration: u64| told(driver, iterations, iteration, None);
    assert!(said(&mut driver, 19, 400).is_empty(), "the first iterations are others");
    let far = |what: &str| {
        format!(
            "job a takes 400.000 ms by its gate ({what}), planned with 100.000 ms: is its profile that of another job, or what slows it?"
        )
    };
    assert_eq!(said(&mut driver, 1, 400), [far("median")]);
    assert_eq!(told(&mut driver, 1, 100, Some(400)), [far("mean")], "of a long tail the median says nothing");
    assert!(told(&mut driver, 1, 400, Some(100)).is_empty());
    // As it comes the plan expects more than 100 ms of it.
    assert!(said(&mut driver, 1, 150).is_empty() && said(&mut driver, 1, 67).is_empty());
    assert_eq!(said(&mut driver, 1, 66).len(), 1);
}

#[test]
fn a_leader_without_an_agent_is_told() {
    let mut driver = service(Control::Observe);
    driver.commit(&[A, B, C, D]);
    let said =
        |driver: &Driver, jobs: &[&str]| driver.service.view().warnings(&jobs.iter().map(|job| (*job).to_owned()).collect::<Vec<_>>());
    assert_eq!(said(&driver, &[]), ["no agent is connected: these jobs are neither held nor measured"]);
    driver.hello(1, "h1");
    driver.hello(9, "h9");
    let b = "host h2: no agent is connected, so the job b, whose leader is there, is neither held nor measured";
    let d = b.replace("h2", "h10").replace("job b", "job d");
    assert_eq!(said(&driver, &[]), [d.as_str(), b]);
    assert_eq!(said(&driver, &["a", "b"]), [b]);
    assert!(said(&driver, &["a", "c", "moon"]).is_empty());
    driver.hello(2, "h2");
    driver.hello(10, "h10");
    assert!(said(&driver, &[]).is_empty());
    // An agent that went is none.
    driver.handle(Event::AgentGone { session: SessionId(2) });
    assert_eq!(said(&driver, &[]), [b]);
    // Another one that leads b in the same host is in the same line.
    driver.commit(&[("e", "100 0-40 h2,h7")]);
    assert_eq!(said(&driver, &["b", "e"]), [b.replace("job b", "jobs b, e").replace(", is neither", ", are neither")]);
}
