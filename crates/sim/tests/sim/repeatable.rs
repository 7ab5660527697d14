//! Same seed, same bytes.

use antiphase_sim::{AgentClock, Config, Fault};
use units::{ClockOffset, Nanos};

use crate::cases::*;

fn noisy(seed: u64) -> Config {
    let clock = |host: &str, error| AgentClock { host: host.into(), offset: ClockOffset(-1_000_000_000_000), error, bound: Nanos(MS) };
    Config {
        seed,
        warm_up: 5,
        iterations: 100,
        jitter_permille: 30,
        clocks: vec![clock("h1", 500_000), clock("h2", -700_000)],
        faults: vec![
            Fault::Straggler { job: 1, iteration: 40, extra: Nanos(70 * MS) },
            Fault::AgentDies { host: "h1".into(), at: Nanos(15_000 * MS) },
            Fault::AgentReturns { host: "h1".into(), at: Nanos(19_000 * MS) },
        ],
        ..Config::default()
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (fabric, jobs) = two_equal();
    let print = |seed| format!("{:?}", held(&fabric, &jobs, 50, &noisy(seed)));
    let first = print(1);
    assert_eq!(first, print(1));
    assert_ne!(first, print(2));
    // On other threads, many at once.
    let others: Vec<String> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4).map(|_| s.spawn(|| print(1))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(others.iter().all(|o| *o == first));
}

#[test]
fn jobs_that_meet_nobody_change_nothing_for_the_others() {
    let fabric = star(4, 100);
    let pair = vec![ring(&fabric, "a", &["h1", "h3"], 100, 150), ring(&fabric, "b", &["h2", "h4"], 100, 150)];
    let mut three = pair.clone();
    three.push(ring(&fabric, "c", &["h5", "h7"], 30, 41));
    let config = Config { jitter_permille: 25, iterations: 50, until: Nanos(10_000 * MS), ..Config::default() };
    let (two, three) = (play(&fabric, &pair, &config), play(&fabric, &three, &config));
    let starts = |r: &antiphase_sim::Report, j: usize| r.jobs[j].records.iter().take(20).map(|x| x.start).collect::<Vec<_>>();
    assert_eq!((starts(&two, 0), starts(&two, 1)), (starts(&three, 0), starts(&three, 1)));
}

/// Reports with and without the copying of cycles.
fn both(fabric: &fabric::Fabric, jobs: &[antiphase_sim::SimJob], config: &Config) -> [antiphase_sim::Report; 2] {
    let [copied, simulated] = [true, false].map(|skip| play(fabric, jobs, &Config { skip, ..config.clone() }));
    assert_eq!(simulated.copied_cycles, 0);
    [antiphase_sim::Report { copied_cycles: 0, ..copied }, simulated]
}

#[test]
fn copied_cycles_are_those_that_would_have_been_simulated() {
    let (fabric, jobs) = two_equal();
    let config = Config { ecn: antiphase_sim::EcnModel::LAB, warm_up: 3, iterations: 157, ..Config::default() };
    let uneven = vec![ring(&fabric, "short", &["h1", "h3"], 40, 61), ring(&fabric, "long", &["h2", "h4"], 41, 160)];
    let fault = Fault::Straggler { job: 0, iteration: 30, extra: Nanos(90 * MS) };
    for control in [antiphase_sim::Control::Free, slots(&fabric, &jobs, 50)] {
        for until in [config.until, Nanos(20_123 * MS)] {
            for faults in [vec![], vec![fault.clone()]] {
                let config = Config { control: control.clone(), until, faults, ..config.clone() };
                let [copied, simulated] = both(&fabric, &jobs, &config);
                assert_eq!(copied, simulated);
                let [copied, simulated] = both(&fabric, &uneven, &config);
                assert_eq!(copied, simulated);
            }
        }
    }
}

#[test]
fn hours_of_two_jobs_are_hardly_any_work() {
    let (fabric, jobs) = two_equal();
    let report = held(&fabric, &jobs, 50, &Config { iterations: 100_000, ..Config::default() });
    assert!(report.copied_cycles > 99_000, "{}", report.copied_cycles);
    // Seven hours.
    assert!(report.to > Nanos(26_000_000 * MS));
    for job in &report.jobs {
        assert!(job.iteration.count >= 99_999 && job.iteration.min == job.iteration.max, "{:?}", job.iteration);
        assert_eq!((job.slips, job.overlap_share), (0, 0.0));
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]
    #[test]
    fn copied_cycles_of_any_three_jobs(loads in proptest::collection::vec((1_u64..12, 1_u64..12), 3), held in proptest::bool::ANY) {
        let fabric = star(4, 100);
        let hosts = [["h1", "h3"], ["h4", "h5"], ["h6", "h7"]];
        let jobs: Vec<_> = loads.iter().zip(["a", "b", "c"]).zip(&hosts).map(|(((comm, compute), name), hosts)| {
            ring(&fabric, name, hosts, 10 * comm, 10 * compute)
        }).collect();
        let control = if held { slots(&fabric, &jobs, 50) } else { antiphase_sim::Control::Free };
        let [copied, simulated] = both(&fabric, &jobs, &Config { control, iterations: 120, ..Config::default() });
        proptest::prop_assert_eq!(copied, simulated);
    }
}
