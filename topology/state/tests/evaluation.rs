//! One planning code: what an evaluation says beside what a commit does.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod world;

use antiphase_state::{Config, Service};
use world::Driver;

/// What `evaluate` says of jobs that nobody committed yet is what a commit of them then does: periods, shifts, slacks, who is held,
/// scores and predicted iterations.
#[test]
fn an_evaluation_says_what_a_commit_will_do() {
    let fabric = world::fabric("6 4 2").unwrap();
    // Numerical Recipes' generator: fixed cases, and no two alike.
    let mut seed = 1_u32;
    let mut below = |n: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % n
    };
    let mut contended = 0;
    for round in 0..60 {
        let mut specs: Vec<(String, String)> = Vec::new();
        for j in 0..2 + below(5) {
            let period = [100, 100, 150, 200, 130, 97][below(6) as usize];
            let (up, hosts) = (period * (20 + below(40)) / 100, (1 + below(24), 1 + below(24)));
            if hosts.0 != hosts.1 {
                specs.push((format!("job-{j}"), format!("{period} 0-{up} h{},h{}", hosts.0, hosts.1)));
            }
        }
        if specs.is_empty() {
            continue;
        }
        let definitions: Vec<_> = specs.iter().map(|(name, document)| world::job(&fabric, name, document).unwrap()).collect();
        let jobs: Vec<job::Job> = definitions.iter().map(|d| d.job.clone()).collect();
        let placements: Vec<job::Placement> = definitions.iter().map(|d| d.placement.clone()).collect();
        let router = fabric::route::Router::new(&fabric, fabric::route::Ecmp::Spread, &[]).unwrap();
        let cluster = plan::Cluster { fabric: &fabric, router: &router, jobs: &jobs, placements: &placements };
        let control = [plan::Control::Slots, plan::Control::Turns, plan::Control::Turns][round % 3];
        let objective = [plan::turns::Objective::Time, plan::turns::Objective::Quiet][round % 2];
        let options = plan::Options {
            headroom_permille: Config::default().headroom_permille,
            control,
            turns_objective: objective,
            // What is compared beside the control changes nothing of what it does.
            predict: [plan::Predictions::Control, plan::Predictions::Compared][round / 2 % 2],
            ..plan::Options::default()
        };
        let evaluation = plan::evaluate(&cluster, &job::Candidate::default(), &options).unwrap();

        let mut driver = Driver::new(Service::new(Config { control, objective, ..Config::default() }));
        driver.set_fabric("6 4 2").unwrap();
        let borrowed: Vec<(&str, &str)> = specs.iter().map(|(n, d)| (n.as_str(), d.as_str())).collect();
        driver.commit(&borrowed);
        for report in evaluation.jobs(&cluster) {
            let name = &jobs[report.job.index()].name;
            let (slot, expected) = (driver.slot(name), report.slot(Config::default().tolerance_permille));
            let seen =
                (slot.times.period, slot.times.offset, slot.times.tolerance, slot.times.slack, slot.times.hold_max, slot.hold, slot.turns);
            let expected =
                (expected.period, expected.offset, expected.tolerance, expected.slack, expected.hold_max, report.hold, report.turns);
            assert_eq!(seen, expected, "{name} of {specs:?}");
            let view = driver.service.view();
            let view = view.job(name).unwrap();
            if report.meets_others {
                contended += 1;
                // The evaluation compares controls, and a commit predicts its own: only with slots does it know what all held would take.
                let slots = control == plan::Control::Slots;
                let told = report.times.map(|t| plan::JobTimes { all_held: t.all_held.filter(|_| slots), ..t });
                assert_eq!((view.times(), view.interleaved()), (told, report.interleaved), "{name} of {specs:?}");
            }
        }
        for link in evaluation.links().filter(|l| l.jobs.len() > 1) {
            let view = driver.service.view();
            for id in link.links {
                let seen = view.link(*id).unwrap();
                let near = |seen: Option<f64>, said: f64| (seen.unwrap() - said).abs() < 1e-12;
                assert!(near(seen.score, link.score) && near(seen.zero_shift_score, link.zero_shift_score), "{specs:?}");
            }
        }
    }
    assert!(contended > 100, "{contended}");
}

/// Periods that do not lock gain no time by turns; whoever wants quiet gets them all the same.
#[test]
fn a_commit_obeys_the_objective() {
    for (objective, takes) in [(plan::turns::Objective::Time, false), (plan::turns::Objective::Quiet, true)] {
        let config = Config { control: plan::Control::Turns, objective, ..Config::default() };
        let mut driver = Driver::new(Service::new(config));
        driver.set_fabric("6 4 1").unwrap();
        driver.commit(&[("a", "200 0-40 h1,h5"), ("b", "340 0-80 h2,h6")]);
        assert_eq!([driver.slot("a").turns, driver.slot("b").turns], [takes; 2], "{objective:?}");
        let view = driver.service.view();
        let a = view.job("a").unwrap();
        let (contended, interleaved) = (a.times().unwrap().contended, a.interleaved().unwrap());
        // Both are of jobs that begin anywhere: where nobody takes turns they are the same, and quiet is no more than 10 % slower.
        assert!(if takes { interleaved.0 * 10 <= contended.0 * 11 } else { interleaved == contended }, "{contended} {interleaved}");
    }
}
