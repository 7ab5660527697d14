//! Jobs of a trace that grow onto idle GPUs: hand-computed cases, and random ones whose work is counted over again.

use std::collections::BTreeMap;

use antiphase_sim::trace::{
    Change, FaultRate, FaultSetup, Format, GrowthOutcome, NetworkControl, NetworkSetup, Outcome, Ranker, Setup, Told, Trace, TraceError,
    read, read_faults, run, run_watched,
};
use fabric::{
    generate::{Clos2, clos2},
    route::{Ecmp, Router},
};
use policy::{
    muri::Timing,
    schedule::{Cluster, GandivaOptions, Rule},
};
use proptest::prelude::*;
use units::Rate;

const RESTART_S: f64 = 15.0;
const ONE_HOST: Cluster = Cluster { hosts: 1, gpus_per_host: 8 };

/// A job of iterations of a second.
#[derive(Clone, Copy, Debug)]
struct Row {
    submit_s: u32,
    gpus: u32,
    /// Empty in the file where it is 0.
    gpus_max: u32,
    iterations: u32,
    up_ms: u32,
}

fn trace(rows: &[Row]) -> Trace {
    let mut text = String::from("job_id,submit_s,gpus,gpus_max,iterations,iteration_ms,up_ms,restart_s\n");
    for (id, Row { submit_s, gpus, gpus_max, iterations, up_ms }) in rows.iter().enumerate() {
        let most = if *gpus_max == 0 { String::new() } else { gpus_max.to_string() };
        text += &format!("{id},{submit_s},{gpus},{most},{iterations},1000,{up_ms},{RESTART_S}\n");
    }
    read(Format::Antiphase, &text).unwrap()
}

fn setup(cluster: Cluster, growth: bool) -> Setup<'static> {
    let rule = Rule::Gandiva(GandivaOptions { growth, ..GandivaOptions::default() });
    Setup { cluster, rule, timing: Timing::Paper, network: None, faults: None }
}

/// Seconds of an iteration on so many GPUs.
fn iteration_s(row: &Row, has: u32) -> f64 {
    let up_s = f64::from(row.up_ms) / 1e3;
    up_s + (1.0 - up_s) * f64::from(row.gpus) / f64::from(has)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

const PAIR: [Row; 2] = [
    Row { submit_s: 0, gpus: 2, gpus_max: 8, iterations: 1_000, up_ms: 0 },
    Row { submit_s: 155, gpus: 6, gpus_max: 0, iterations: 100, up_ms: 0 },
];

#[test]
fn a_job_grows_pays_shrinks_pays_and_is_done_sooner() {
    // On 8 GPUs an iteration takes a quarter of a second, three quarters less, so 40 s of idle GPUs make up for two restarts of 15 s. It does 25 iterations
    // until then, begins again at 55 s, and has 425 when the other one comes at 155 s and has its GPUs at once: that one is done after 115 s. The first begins
    // again at 170 s on two GPUs, has 525 at 270 s, and 565 at 310 s, when the GPUs have been idle for 40 s again. What is left takes a restart and
    // 435 / 4 s.
    let trace = trace(&PAIR);
    let mut events = Vec::new();
    let outcome = run_watched(&trace, &setup(ONE_HOST, true), &mut |told| {
        let Told::Job(event) = told else { panic!("{told:?}") };
        events.push((event.at_s, event.job, event.change, event.places.iter().map(|place| place.1).sum::<u32>()));
    })
    .unwrap();
    assert!(close(outcome.jct_s[0], 433.75) && close(outcome.jct_s[1], 115.0), "{:?}", outcome.jct_s);
    let expected = [
        (0.0, 0, Change::Arrives, 0),
        (0.0, 0, Change::Starts, 2),
        (40.0, 0, Change::Grows, 8),
        (155.0, 1, Change::Arrives, 0),
        (155.0, 0, Change::Shrinks, 2),
        (155.0, 1, Change::Starts, 6),
        (270.0, 1, Change::Ends, 0),
        (310.0, 0, Change::Grows, 8),
        (433.75, 0, Change::Ends, 0),
    ];
    assert_eq!(events.len(), expected.len(), "{events:?}");
    assert!(events.iter().zip(expected).all(|(is, e)| close(is.0, e.0) && (is.1, is.2, is.3) == (e.1, e.2, e.3)), "{events:?}");
    // Six GPUs for 115 s, and for 123.75 s.
    let growth = outcome.growth.unwrap();
    assert!((growth.grown, growth.shrunk) == (2, 1) && close(growth.gpu_s, 1_432.5), "{growth:?}");
    assert_eq!(outcome.preemptions, 0);
    // Without, it takes what it takes; the other one the same.
    let without = run(&trace, &setup(ONE_HOST, false)).unwrap();
    assert_eq!((&without.jct_s, without.growth), (&vec![1_015.0, 115.0], None));
    // Of what it sends nothing is divided: 0.2 + 0.8 / 4 s.
    let sends = [Row { up_ms: 200, ..PAIR[0] }];
    let sends = run(&self::trace(&sends), &setup(ONE_HOST, true)).unwrap();
    // 0.6 of an iteration is saved, so it grows at 50 s, with 35 iterations done.
    assert!(close(sends.jct_s[0], 50.0 + RESTART_S + 965.0 * 0.4), "{:?}", sends.jct_s);
}

#[test]
fn a_job_that_would_be_done_before_it_pays_does_not_grow() {
    let short = [Row { iterations: 24, ..PAIR[0] }];
    let outcome = run(&trace(&short), &setup(ONE_HOST, true)).unwrap();
    assert_eq!((&outcome.jct_s, outcome.growth), (&vec![39.0], Some(GrowthOutcome::default())));
}

/// Traces without the column are played as before: no event more, no number else.
#[test]
fn who_may_not_grow_is_played_as_ever() {
    let stays: Vec<Row> = PAIR.iter().map(|row| Row { gpus_max: 0, ..*row }).collect();
    let same: Vec<Row> = PAIR.iter().map(|row| Row { gpus_max: row.gpus, ..*row }).collect();
    let [with, equal, without] =
        [(&stays, true), (&same, true), (&stays, false)].map(|(rows, growth)| run(&trace(rows), &setup(ONE_HOST, growth)).unwrap());
    assert_eq!((&with, &with), (&equal, &without));
    // Both restart at once, and again nothing grows under a policy that knows nothing of it.
    let srtf = Setup { rule: Rule::Srtf, ..setup(ONE_HOST, true) };
    assert_eq!(run(&trace(&PAIR), &srtf).unwrap(), run(&trace(&stays), &srtf).unwrap());
}

#[test]
fn a_job_that_is_spread_grows_where_it_stands_and_sends_as_it_stands() {
    // Six GPUs on two hosts of four; the rest of the second is idle. An iteration of 0.3 + 0.7 s then takes 0.3 + 0.525 s.
    let rate = Rate(100_000);
    let fabric = clos2(&Clos2 { leaves: 2, spines: 1, hosts_per_leaf: 1, host_rate: rate, uplink_rate: rate, uplinks: 1 }).unwrap();
    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let row = Row { submit_s: 0, gpus: 6, gpus_max: 16, iterations: 1_000, up_ms: 300 };
    let cluster = Cluster { hosts: 2, gpus_per_host: 4 };
    let mut last = Vec::new();
    let mut play = |control| {
        let network = NetworkSetup { router: &router, ranker: Ranker::None, control, moves: false, seed: 1 };
        let setup = Setup { network: Some(network), ..setup(cluster, true) };
        run_watched(&trace(&[Row { gpus_max: 8, ..row }]), &setup, &mut |told| {
            if let Told::Job(event) = told
                && event.change == Change::Grows
            {
                last = event.places.to_vec();
            }
        })
        .unwrap()
    };
    let wait_s = 2.0 * RESTART_S / 0.175;
    let expected_s = wait_s + RESTART_S + (1_000.0 - (wait_s - RESTART_S)) * 0.825;
    for control in [NetworkControl::Ideal, NetworkControl::Free, NetworkControl::Turns] {
        let outcome = play(control);
        assert!(close(outcome.jct_s[0], expected_s), "{control:?}: {} for {expected_s}", outcome.jct_s[0]);
        // Alone where it stands it is as fast as its links: nobody is in its way.
        assert!(close(outcome.network.unwrap().iteration_mean, 1.0));
    }
    assert_eq!(last, [(0, 4), (1, 4)]);
    // More than the cluster has is refused.
    let network = NetworkSetup { router: &router, ranker: Ranker::None, control: NetworkControl::Free, moves: false, seed: 1 };
    let refused = run(&trace(&[row]), &Setup { network: Some(network), ..setup(cluster, true) });
    let expected = TraceError::GrowsTooLarge { line: 2, id: "0".into(), gpus_max: 16, hosts: 2, has: 8 };
    assert_eq!(refused, Err(expected.clone()));
    assert_eq!(expected.to_string(), "line 2: gpus_max 16 of job \"0\"; 2 hosts have 8");
}

#[test]
fn a_job_that_has_grown_loses_its_host_and_begins_with_what_it_asked_for() {
    // It has 425 iterations when its host goes down at 155 s, of which it saved the 25 with which it grew. From 200 s on it is as at its beginning:
    // 25 more until 240 s, a restart, and 950 / 4 s.
    let faults = read_faults("at_s,kind,name,until_s,factor\n155,host,0,200,\n", ONE_HOST, None).unwrap();
    let setup_with = FaultSetup { told: &faults, hosts: None, links: None, checkpoint_s: 300.0, seed: 1 };
    let outcome = run(&trace(&PAIR[..1]), &Setup { faults: Some(setup_with), ..setup(ONE_HOST, true) }).unwrap();
    assert!(close(outcome.jct_s[0], 240.0 + RESTART_S + 950.0 / 4.0), "{:?}", outcome.jct_s);
}

/// What is told of a random run.
#[derive(Default)]
struct Counted {
    /// By job: since when it is as it is, and its GPUs.
    stands: BTreeMap<u32, (f64, u32)>,
    done: BTreeMap<u32, f64>,
    waiting: BTreeMap<u32, f64>,
    grown: u64,
}

impl Counted {
    /// Counts the work of a job until now, and says how it goes on.
    fn pass(&mut self, rows: &[Row], job: u32, at_s: f64, has: Option<u32>) {
        if let Some((since_s, had)) = self.stands.remove(&job) {
            let computed_s = (at_s - since_s - RESTART_S).max(0.0);
            *self.done.entry(job).or_default() += computed_s / iteration_s(&rows[job as usize], had);
        }
        if let Some(has) = has {
            self.stands.insert(job, (at_s, has));
        }
    }
}

fn rows(most: usize) -> impl Strategy<Value = Vec<Row>> {
    let row = (0_u32..3_000, 1_u32..7, 0_u32..9, 1_u32..2_000, 0_u32..900).prop_map(|(submit_s, gpus, beyond, iterations, up_ms)| Row {
        submit_s,
        gpus,
        gpus_max: gpus + beyond,
        iterations,
        up_ms,
    });
    prop::collection::vec(row, 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Where there is room for everybody, each job does its iterations at the speed of the GPUs that it was told to have, restarts apart; and the
    /// same trace is played alike.
    #[test]
    fn work_is_neither_lost_nor_made(rows in rows(12)) {
        let cluster = Cluster { hosts: rows.len() as u32, gpus_per_host: 8 };
        let trace = trace(&rows.iter().map(|row| Row { gpus_max: row.gpus_max.min(cluster.gpus()), ..*row }).collect::<Vec<_>>());
        let mut counted = Counted::default();
        let outcome = run_watched(&trace, &setup(cluster, true), &mut |told| {
            let Told::Job(event) = told else { panic!("{told:?}") };
            let has: u32 = event.places.iter().map(|place| place.1).sum();
            match event.change {
                Change::Arrives => {}
                Change::Starts => {
                    assert_eq!(has, rows[event.job as usize].gpus);
                    counted.pass(&rows, event.job, event.at_s, Some(has));
                }
                Change::Grows | Change::Shrinks | Change::Moves => counted.pass(&rows, event.job, event.at_s, Some(has)),
                Change::Ends => counted.pass(&rows, event.job, event.at_s, None),
                Change::Stops | Change::Fails => panic!("{event:?}"),
            }
            counted.grown += u64::from(event.change == Change::Grows);
        }).unwrap();
        for (job, row) in (0..).zip(&rows) {
            prop_assert!(close(counted.done[&job], f64::from(row.iterations)), "{job}: {:?} of {row:?}", counted.done[&job]);
        }
        let growth = outcome.growth.unwrap_or_default();
        prop_assert_eq!(growth.grown, counted.grown);
        prop_assert_eq!(&outcome, &run(&trace, &setup(cluster, true)).unwrap());
    }

    /// On a crowded cluster with faults: nobody has less than it asked for or more than it can use, and whoever waits would find no room if nobody had
    /// grown. The world checks each decision; what it refuses is an error.
    #[test]
    fn whoever_waits_would_wait_if_nobody_had_grown(rows in rows(40), seed in 0_u64..1_000, faulty: bool, artifact: bool) {
        let cluster = Cluster { hosts: 2, gpus_per_host: 8 };
        let rows: Vec<Row> = rows.iter().map(|row| Row { gpus_max: row.gpus_max.min(cluster.gpus()), ..*row }).collect();
        let trace = trace(&rows);
        let rate = FaultRate { between_s: 2_000.0, repair_s: 200.0 };
        let setup_with = FaultSetup { told: &[], hosts: Some(rate), links: None, checkpoint_s: 300.0, seed };
        let faults = (faulty && !artifact).then_some(setup_with);
        let timing = if artifact { Timing::Artifact } else { Timing::Paper };
        let setup = Setup { faults, timing, ..setup(cluster, true) };
        let play = || -> (Outcome, bool) {
            let mut counted = Counted::default();
            let (mut last_s, mut fits) = (0.0, true);
            let outcome = run_watched(&trace, &setup, &mut |told| {
                let Told::Job(event) = told else { return };
                if event.at_s > last_s && faults.is_none() {
                    // All that is told of one time is told, and who still waits waits.
                    let asked: u32 = counted.stands.keys().map(|job| rows[*job as usize].gpus).sum();
                    let room = cluster.gpus().saturating_sub(asked);
                    fits &= counted.waiting.keys().all(|job| rows[*job as usize].gpus > room);
                }
                last_s = event.at_s;
                let (row, has) = (&rows[event.job as usize], event.places.iter().map(|place| place.1).sum::<u32>());
                match event.change {
                    Change::Arrives | Change::Stops | Change::Fails => {
                        counted.stands.remove(&event.job);
                        counted.waiting.insert(event.job, event.at_s);
                    }
                    Change::Ends => _ = counted.stands.remove(&event.job),
                    change => {
                        assert!((row.gpus..=row.gpus_max).contains(&has), "{event:?} {row:?}");
                        assert!(change != Change::Starts || has == row.gpus);
                        counted.waiting.remove(&event.job);
                        counted.stands.insert(event.job, (event.at_s, has));
                    }
                }
            });
            (outcome.unwrap(), fits)
        };
        let (outcome, fits) = play();
        prop_assert!(fits, "somebody waits beside room for it");
        prop_assert_eq!(outcome, play().0, "the same seed is the same run");
    }

    /// On a fabric too, where jobs of several hosts meet: each decision can be carried out, whatever a job has it can use, and all are done.
    #[test]
    fn jobs_that_grow_on_a_fabric_are_done(rows in rows(16), turns: bool) {
        let (host_rate, uplink_rate) = (Rate(25_000), Rate(50_000));
        let fabric = clos2(&Clos2 { leaves: 2, spines: 1, hosts_per_leaf: 2, host_rate, uplink_rate, uplinks: 1 }).unwrap();
        let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
        let control = if turns { NetworkControl::Turns } else { NetworkControl::Free };
        let network = NetworkSetup { router: &router, ranker: Ranker::Antiphase, control, moves: false, seed: 1 };
        // Two GPUs a host, so most jobs span hosts.
        let cluster = Cluster { hosts: 4, gpus_per_host: 2 };
        let trace = trace(&rows.iter().map(|row| Row { gpus_max: row.gpus_max.min(8), ..*row }).collect::<Vec<_>>());
        let setup = Setup { network: Some(network), ..setup(cluster, true) };
        let outcome = run_watched(&trace, &setup, &mut |told| {
            let Told::Job(event) = told else { panic!("{told:?}") };
            let (job, has) = (&trace.jobs[event.job as usize], event.places.iter().map(|place| place.1).sum::<u32>());
            assert!(has == 0 || (job.gpus..=job.gpus_max).contains(&has), "{event:?}");
        }).unwrap();
        for (row, jct_s) in rows.iter().zip(&outcome.jct_s) {
            // Alone on all that it can use from the first iteration on, and with nothing in its way, it would not be done sooner.
            prop_assert!(*jct_s >= RESTART_S + f64::from(row.iterations) * iteration_s(row, row.gpus_max.min(8).max(row.gpus)) - 1e-6);
        }
    }
}
