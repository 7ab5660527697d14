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
