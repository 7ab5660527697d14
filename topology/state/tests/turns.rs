//! Who takes turns, and when the groups change.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use antiphase_state::{Config, JobState, Service};
use plan::Control;
use world::{Driver, restored};

/// Between leaves 1 and 2, one after the other; C is elsewhere.
const A: (&str, &str) = ("a", "100 0-40 h1,h5");
const B: (&str, &str) = ("b", "100 0-40 h2,h6");
const C: (&str, &str) = ("c", "100 0-40 h9,h13");

fn service(control: Control) -> Driver {
    let mut driver = Driver::new(Service::new(Config { control, ..Config::default() }));
    driver.set_fabric("6 4 1").unwrap();
    driver
}

/// The jobs of each group, and the hosts that speak for them.
fn groups(driver: &Driver) -> Vec<Vec<(String, String)>> {
    let jobs = |g: &std::sync::Arc<antiphase_state::turns::TurnGroup>| {
        g.jobs.iter().map(|j| (j.name.to_string(), j.leader_host.to_string())).collect()
    };
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
    assert!(std::sync::Arc::ptr_eq(&before[0], &after[0]), "a group that stays is the same by identity");
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
    let said = |driver: &Driver| driver.notices.iter().filter(|n| n.kind == "observe").map(|n| n.message.clone()).collect::<Vec<_>>();
    assert_eq!(said(&driver), [outlook.to_string()]);
    let config = Config { control: Control::Observe, ..Config::default() };
    let mut again = Driver::new(Service::restore(config, driver.now, restored(&driver.batches.concat())).unwrap());
    again.hello(1, "h1");
    assert_eq!(said(&again), [outlook.to_string()]);
    driver.release(&["b"]);
    assert_eq!(said(&driver)[1], "control = observe: turns would make none of 2 jobs faster");
}
