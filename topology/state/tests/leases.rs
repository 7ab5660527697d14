//! Who lets jobs stay for how long: renewals change nothing, and another lease is a change.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use std::sync::Arc;

use antiphase_state::{
    Change, Commit, Commitment, Config, Event, Record, Refusal, Reply, Service,
    config::{KEY_SLOTS_MAX, KEYS_MAX},
};
use units::{FabricTime, Nanos};
use world::{Driver, S, restored};

/// Up for 40 of 100 ms, over the spine between leaves 1 and 2.
const A: (&str, &str) = ("a", "100 0-40 h1,h5");
const B: (&str, &str) = ("b", "100 0-40 h2,h6");
/// On one host, so that it meets nobody.
const ALONE: &str = "100 0-40 h9";

fn by(who: &str) -> Option<Arc<str>> {
    Some(Arc::from(who))
}

fn ask(driver: &mut Driver, commit: Commit) -> Result<Commitment, Refusal> {
    let request = driver.request();
    driver.handle(Event::Asked { request, change: Change::Commit(commit) });
    driver.reply(request).unwrap().map(|reply| match reply {
        Reply::Committed(answer) => answer,
        other => panic!("{other:?}"),
    })
}

fn commit(driver: &Driver, who: &str, jobs: &[(&str, &str)], lease: Option<u64>) -> Commit {
    let jobs = jobs.iter().map(|(name, document)| driver.job(name, document)).collect();
    Commit { jobs, by: by(who), lease: lease.map(|ms| Nanos(ms * S / 1_000)), ..Commit::default() }
}

/// Number, who, kind and message of each entry of the trail.
fn trail(driver: &Driver) -> Vec<(u64, String, String, String)> {
    let entry = |e: &Arc<antiphase_state::AuditEntry>| (e.number, e.by.to_string(), e.kind.clone(), e.message.clone());
    driver.service.view().audit(0).map(entry).collect()
}

fn restart(driver: &Driver) -> Driver {
    let again = Service::restore(Config::default(), driver.now, restored(&driver.batches.concat())).unwrap();
    let mut next = Driver::new(again);
    (next.now, next.batches) = (driver.now, driver.batches.clone());
    next
}

#[test]
fn another_lease_is_a_change_and_its_end_names_who_set_it() {
    for first in [None, Some(600_000)] {
        let mut driver = Driver::with_fabric();
        let change = commit(&driver, "ann", &[A], first);
        ask(&mut driver, change).unwrap();
        let version = driver.service.view().plan_version();
        let change = commit(&driver, "eve", &[A], Some(1));
        ask(&mut driver, change).unwrap();
        let before = if first.is_some() { "a lease of 600.000 s" } else { "no lease" };
        let said = format!("job a has a lease of 1.000 ms in place of {before}");
        assert_eq!(trail(&driver)[1..], [(2, "eve".into(), "committed".into(), said.clone())]);
        let told = driver.notices.last().unwrap();
        assert_eq!((told.by.as_deref(), &told.message, told.job.as_deref()), (Some("eve"), &said, Some("a")));
        assert_eq!(driver.service.view().plan_version(), version, "nobody's slot changed");
        // Over a restart too, at which the lease begins anew.
        let mut driver = restart(&driver);
        driver.pass(Nanos(S));
        assert!(driver.service.view().job("a").is_none());
        let ended = driver.notices.iter().find(|notice| notice.kind.word() == "expired").unwrap();
        assert_eq!((ended.by.as_deref(), &*ended.message), (Some("eve"), "the lease of job a ran out: 1.000 ms, set by eve"));
        assert_eq!(trail(&driver)[2..], [(3, "eve".into(), "expired".into(), ended.message.clone())]);
    }
}

/// However the lease is changed: taken away, or in a commit that changes other jobs, or the job itself.
#[test]
fn every_change_of_a_lease_stands_in_the_trail() {
    let mut driver = Driver::with_fabric();
    let change = commit(&driver, "ann", &[A, B], Some(50_000));
    ask(&mut driver, change).unwrap();
    let ends = |driver: &Driver| driver.service.view().job("a").unwrap().lease_until();
    for (jobs, lease) in [
        (&[A][..], None),
        (&[A, ("c", ALONE)], Some(7_000)),
        (&[A, ("c", "100 0-20 h9")], Some(8_000)),
        (&[("a", "100 0-30 h1,h5")], Some(9_000)),
    ] {
        let (before, had) = (trail(&driver).len(), ends(&driver));
        let change = commit(&driver, "eve", jobs, lease);
        ask(&mut driver, change).unwrap();
        let trail = trail(&driver);
        assert!(had != ends(&driver) && trail.len() == before + 1, "{jobs:?}: {trail:?}");
        let (_, who, kind, said) = trail.last().unwrap();
        assert_eq!((&**who, &**kind), ("eve", "committed"));
        let lease = lease.map_or_else(|| "no lease".to_owned(), |ms| format!("a lease of {}.000 s", ms / 1_000));
        assert!(said.contains(&format!("job a has {lease} in place of")), "{said}");
    }
    // Each of several whose leases run out together answers for theirs.
    let change = commit(&driver, "ann", &[B], Some(9_000));
    ask(&mut driver, change).unwrap();
    let before = trail(&driver).len();
    driver.pass(Nanos(20 * S));
    let ended: Vec<(String, bool, bool)> =
        trail(&driver)[before..].iter().map(|(_, who, _, said)| (who.clone(), said.contains("job a"), said.contains("job b"))).collect();
    assert!(ended.contains(&("eve".into(), true, false)) && ended.contains(&("ann".into(), false, true)), "{ended:?}");
}

/// A scheduler renews all day long: nobody else hears of it, waits for it, or decides anew because of it.
#[test]
fn a_renewal_moves_the_end_of_the_lease_and_nothing_else() {
    let mut driver = Driver::with_fabric();
    let change = commit(&driver, "ann", &[A, B], Some(50_000));
    let first = ask(&mut driver, change).unwrap();
    let decided = driver.service.view().plan_version();
    let (notices, batches, entries) = (driver.notices.len(), driver.batches.len(), trail(&driver));
    let slots = [driver.slot("a"), driver.slot("b")];
    for _ in 0..10 {
        driver.pass(Nanos(10 * S));
        // The disk is slow, and nothing has to be written.
        driver.slow = true;
        let change = commit(&driver, "eve", &[A, B], Some(50_000));
        let answer = ask(&mut driver, change).unwrap();
        driver.slow = false;
        let names = |of: &Commitment| of.slots.iter().map(|slot| slot.job.clone()).collect::<Vec<_>>();
        assert_eq!((answer.plan_version, answer.score, names(&answer)), (decided, first.score, names(&first)));
        let until = driver.service.view().job("a").unwrap().lease_until();
        assert_eq!(until, Some(driver.now.saturating_add(Nanos(50 * S))));
    }
    assert_eq!((driver.notices.len(), driver.batches.len(), trail(&driver)), (notices, batches, entries));
    assert_eq!([driver.slot("a"), driver.slot("b")], slots);
    // Somebody decided on the plan before all these renewals.
    let change = Commit { if_plan_version: Some(decided), ..commit(&driver, "bob", &[("c", ALONE)], None) };
    ask(&mut driver, change).unwrap();
    // After a restart the lease is a whole one, and who set it is known.
    let mut driver = restart(&driver);
    assert_eq!(driver.service.view().job("a").unwrap().lease_until(), Some(driver.now.saturating_add(Nanos(50 * S))));
    driver.pass(Nanos(60 * S));
    let ended = driver.notices.iter().filter(|notice| notice.kind.word() == "expired");
    assert_eq!(ended.map(|notice| notice.by.as_deref().unwrap()).collect::<Vec<_>>(), ["ann", "ann"]);
}

/// The keys that a scheduler uses for its renewals, more than their limit on slots would hold, cost no key of anybody.
#[test]
fn keys_of_renewals_and_of_other_users_push_out_no_key() {
    let mut driver = Driver::with_fabric();
    let keyed = |driver: &Driver, who: &str, jobs: &[(&str, &str)], key: &str| Commit {
        key: key.into(),
        content: Some([key.len() as u8; 32]),
        ..commit(driver, who, jobs, None)
    };
    let change = keyed(&driver, "ann", &[A], "ann");
    ask(&mut driver, change.clone()).unwrap();
    let names: Vec<String> = (0..1_000).map(|n| format!("m{n}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "100 0-40 h9")).collect();
    let renewal = keyed(&driver, "bob", &many, "");
    let rounds = 2 * KEY_SLOTS_MAX / many.len();
    for round in 0..rounds {
        ask(&mut driver, Commit { key: format!("k{round}"), ..renewal.clone() }).unwrap();
    }
    // The first one committed the jobs and is remembered with their slots; the renewals are remembered as well.
    let kept: Vec<usize> = driver
        .batches
        .iter()
        .flatten()
        .filter_map(|record| match record {
            Record::Key { answer, .. } => Some(answer.slots.len()),
            Record::KeyGone { key } => panic!("{key} was forgotten"),
            _ => None,
        })
        .collect();
    assert_eq!((kept.len(), kept[1], kept[2..].iter().max()), (rounds + 1, 1_000, Some(&0)));
    assert!(rounds < KEYS_MAX);
    let repeated = ask(&mut driver, Commit { key: "k7".into(), ..renewal.clone() }).unwrap();
    assert_eq!(repeated.slots.len(), many.len());
    let other = Commit { content: Some([77; 32]), ..change.clone() };
    assert_eq!(ask(&mut driver, other), Err(Refusal::KeyUsed { key: "ann".into() }));
    driver.release(&["a"]);
    assert_eq!(ask(&mut driver, change), Err(Refusal::KeyGone { key: "ann".into(), job: "a".into() }));
}

/// A job of a large component: its answer tells the slots of all, and its key keeps its own.
#[test]
fn a_key_keeps_the_slots_of_its_own_jobs_and_answers_as_before() {
    let mut driver = Driver::with_fabric();
    driver.commit(&[A]);
    let change = Commit { key: "k".into(), content: Some([1; 32]), ..commit(&driver, "ann", &[B], None) };
    let first = ask(&mut driver, change.clone()).unwrap();
    assert_eq!(first.slots.iter().map(|slot| &*slot.job).collect::<Vec<_>>(), ["a", "b"]);
    let kept = driver.batches.iter().flatten().find_map(|record| match record {
        Record::Key { answer, by, .. } => Some((answer.slots.iter().map(|slot| slot.job.clone()).collect::<Vec<_>>(), by.clone())),
        _ => None,
    });
    assert_eq!(kept, Some((vec!["b".to_owned()], by("ann"))));
    assert_eq!(ask(&mut driver, change.clone()).unwrap(), first);
    let expires = |answer: &Commitment| answer.slots.iter().map(|slot| slot.expires).max().unwrap_or(FabricTime(0));
    let mut again = restart(&driver);
    let after = ask(&mut again, change).unwrap();
    assert_eq!((after.plan_version, after.slots.len(), after.score), (first.plan_version, 2, first.score));
    assert!(expires(&after) <= expires(&first));
}
