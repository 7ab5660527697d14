//! Whatever was written is enough: every prefix of the batches restores to exactly the state after it.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use antiphase_state::{AgentReport, Change, Commit, Config, Event, GateReport, Service, SessionId};
use proptest::prelude::*;
use units::Nanos;
use world::{Driver, S, durable, restored};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[derive(Clone, Debug)]
enum Step {
    /// (name, period in ms, Up in percent, first host, distance to the second)
    Commit {
        jobs: Vec<(usize, u64, u64, u32, u32)>,
        lease: Option<u64>,
        key: u8,
        lost: bool,
    },
    Release {
        names: Vec<usize>,
        lost: bool,
    },
    Pass(u64),
    /// The gate of a job says how often it slipped, and where it stands.
    Report {
        name: usize,
        slips: u64,
        error: i64,
    },
    Fabric(u32),
}

fn job() -> impl Strategy<Value = (usize, u64, u64, u32, u32)> {
    (0..NAMES.len(), prop::sample::select(vec![100u64, 150, 200, 240]), 5..60u64, 1..=16u32, 1..=15u32)
}

fn step() -> impl Strategy<Value = Step> {
    let lost = || prop::bool::weighted(0.1);
    prop_oneof![
        5 => (prop::collection::vec(job(), 1..4), prop::option::weighted(0.2, 1..20u64), 0..6u8, lost())
            .prop_map(|(jobs, lease, key, lost)| Step::Commit { jobs, lease, key, lost }),
        2 => (prop::collection::vec(0..NAMES.len(), 1..3), lost()).prop_map(|(names, lost)| Step::Release { names, lost }),
        1 => (1..15u64).prop_map(Step::Pass),
        2 => (0..NAMES.len(), 0..5u64, -80_000_000..80_000_000i64).prop_map(|(name, slips, error)| Step::Report { name, slips, error }),
        1 => (1..3u32).prop_map(Step::Fabric),
    ]
}

fn documents(jobs: &[(usize, u64, u64, u32, u32)]) -> Vec<(&'static str, String)> {
    let document = |&(name, period, up, host, next): &(usize, u64, u64, u32, u32)| {
        let other = (host - 1 + next) % 16 + 1;
        (NAMES[name], format!("{period} 0-{} h{host},h{other}", period * up / 100))
    };
    jobs.iter().map(document).collect()
}

fn take(driver: &mut Driver, step: &Step) {
    match step {
        Step::Commit { jobs, lease, key, lost } => {
            let request = driver.request();
            let jobs = documents(jobs).iter().map(|(n, d)| driver.job(n, d)).collect();
            let key = if *key > 3 { String::new() } else { format!("k{key}") };
            driver.slow = *lost;
            driver.handle(Event::Asked {
                request,
                change: Change::Commit(Commit { jobs, lease: lease.map(|s| Nanos(s * S)), key, ..Commit::default() }),
            });
        }
        Step::Release { names, lost } => {
            let request = driver.request();
            driver.slow = *lost;
            driver.handle(Event::Asked {
                request,
                change: Change::Release { by: Some("somebody".into()), jobs: names.iter().map(|n| NAMES[*n].into()).collect() },
            });
        }
        Step::Pass(seconds) => driver.pass(Nanos(seconds * S)),
        Step::Report { name, slips, error } => {
            let Some(slot) = driver.service.view().job(NAMES[*name]).map(|j| j.slot()) else { return };
            let session = driver.now.0 + driver.plans.len() as u64;
            driver.hello(session, &slot.leader_host);
            for _ in 0..3 {
                let gate = GateReport {
                    job: slot.job.clone(),
                    plan_version: slot.plan_version,
                    iterations: 20,
                    slips: *slips,
                    phase_error: Some(*error),
                    ..GateReport::default()
                };
                driver.handle(Event::Report { session: SessionId(session), report: AgentReport { clock: None, gates: vec![gate] } });
            }
        }
        Step::Fabric(spines) => drop(driver.set_fabric(&format!("4 4 {spines}"))),
    }
    if driver.waiting.is_some() {
        driver.failed();
    }
    driver.slow = false;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_prefix_of_the_batches_restores_to_the_state_after_it(steps in prop::collection::vec(step(), 1..24)) {
        let mut driver = Driver::with_fabric();
        let mut states = vec![(driver.batches.len(), driver.now, durable(&driver.service))];
        for step in &steps {
            take(&mut driver, step);
            states.push((driver.batches.len(), driver.now, durable(&driver.service)));
        }
        for (batches, now, state) in &states {
            let again = Service::restore(Config::default(), *now, restored(&driver.batches[..*batches].concat())).unwrap();
            prop_assert_eq!(&durable(&again), state);
        }
        // And what comes next comes out the same.
        let records = driver.batches.concat();
        let mut again = Driver::new(Service::restore(Config::default(), driver.now, restored(&records)).unwrap());
        again.now = driver.now;
        let next = [("y", "100 0-30 h1,h5"), ("z", "200 0-50 h2,h9")];
        prop_assert_eq!(again.commit(&next), driver.commit(&next));
        prop_assert_eq!(durable(&again.service), durable(&driver.service));
    }
}
