//! What goes wrong while jobs take turns stops nobody, and turns come back.

use antiphase_sim::{Config, Control, Fault, Liar, Report, SimJob, Transport, TurnsControl, Way};
use fabric::Fabric;
use gate_core::Reason;
use units::Nanos;

use crate::{
    cases::*,
    turns::{by_turns, cases_that_fit, over_solo},
};

/// What is random is drawn anew with each of them.
const SEEDS: [u64; 3] = [1, 2, 3];
/// What nobody may be slower by.
const SLOWEST_MAX: f64 = 1.01;

fn config(faults: Vec<Fault>) -> Config {
    Config { warm_up: 5, iterations: 100, jitter_permille: 20, faults, ..Config::default() }
}

fn logged() -> TurnsControl {
    TurnsControl { log: true, ..TurnsControl::default() }
}

fn ms(ms: u64) -> Nanos {
    Nanos(ms * MS)
}

/// Iterations that began in that span of time, in ms, over what the job takes alone: their mean.
fn mean_between(report: &Report, jobs: &[SimJob], from: u64, to: u64) -> f64 {
    let mut ratios = Vec::new();
    for (job, of) in report.jobs.iter().zip(jobs) {
        let pairs = job.records.windows(2).filter(|w| w[0].start >= ms(from) && w[0].start < ms(to));
        ratios.extend(pairs.map(|w| (w[1].start.0 - w[0].start.0) as f64 / of.workload.unhindered().0 as f64));
    }
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

fn two() -> (Fabric, Vec<SimJob>) {
    let case = cases_that_fit().swap_remove(0);
    (case.fabric, case.jobs)
}

#[test]
fn turns_are_back_within_two_seconds_of_a_restart() {
    let (fabric, jobs) = two();
    // Killed at times that fall into any part of a turn, away for short and for long.
    for (i, away) in [100, 700, 1_500, 5_000].into_iter().enumerate() {
        for at in (5_000..5_240).step_by(40).map(|at| at + 7 * i as u64) {
            let faults = vec![Fault::ServiceDies { at: ms(at) }, Fault::ServiceReturns { at: ms(at + away) }];
            let report = by_turns(&fabric, &jobs, logged(), &config(faults));
            let back = report.turns.as_ref().unwrap().back[1];
            let took = back.1.unwrap().0 - back.0.0;
            assert!(took <= 2_000 * MS, "killed at {at}, away for {away} ms: back after {took} ns");
            // A start waits for 25 ms for a service that does not answer, and for nobody once it counts as silent.
            let longest = report.jobs.iter().flat_map(|j| &j.records).map(|r| r.held().0).max().unwrap();
            assert!(longest <= 250 * MS, "{longest}");
            let settled = mean_between(&report, &jobs, at + away + 4_000, u64::MAX / MS);
            assert!(settled <= 1.01, "{settled}");
        }
    }
}

#[test]
fn an_agent_that_dies_while_its_job_sends_costs_a_lease_and_then_holds_again() {
    let (fabric, jobs) = two();
    for at in (5_000..5_240).step_by(20) {
        let faults =
            vec![Fault::AgentDies { host: "h1".into(), at: ms(at) }, Fault::AgentReturns { host: "h1".into(), at: ms(at + 3_000) }];
        let report = by_turns(&fabric, &jobs, logged(), &config(faults));
        // The other one waits for one lease at most: a quarter more than 100 ms, and 2 ms.
        let longest = |job: usize| report.jobs[job].records.iter().map(|r| r.held().0).max().unwrap();
        assert!(longest(1) <= 130 * MS, "{}", longest(1));
        // Its own job waits for what it was told, for an answer, or for the page to go stale.
        assert!(longest(0) <= 500 * MS, "{}", longest(0));
        let own = &report.jobs[0].records;
        let away = |r: &&antiphase_sim::IterationRecord| r.ready > ms(at + 600) && r.ready < ms(at + 3_000);
        let away: Vec<_> = own.iter().filter(away).collect();
        assert!(away.len() > 5 && away.iter().all(|r| r.because == Reason::Stale && r.held() == Nanos(0)), "{away:?}");
        assert!(mean_between(&report, &jobs, at + 6_000, u64::MAX / MS) <= 1.01);
        assert_eq!(own.last().unwrap().because, Reason::Granted);
    }
}

#[test]
fn a_partition_a_pause_a_death_and_a_wrong_clock_stop_nobody() {
    let (fabric, jobs) = two();
    let faults = |at: u64| {
        vec![
            Fault::Partition { host: "h2".into(), at: ms(at), lasts: ms(2_500) },
            Fault::Partition { host: "h1".into(), at: ms(at + 6_000), lasts: ms(300) },
            Fault::Straggler { job: 0, iteration: 20, extra: ms(3_000) },
            Fault::JobRestarts { job: 1, at: ms(at + 9_000), after: ms(800) },
            // Turns do not look at fabric time.
            Fault::ClockStep { host: "h1".into(), at: ms(at + 11_000), by: 5_000_000_000, lasts: ms(2_000) },
        ]
    };
    for at in (3_000..3_240).step_by(30) {
        let report = by_turns(&fabric, &jobs, logged(), &config(faults(at)));
        let longest = report.jobs.iter().flat_map(|j| &j.records).map(|r| r.held().0).max().unwrap();
        assert!(longest <= 250 * MS, "{longest}");
        assert!(mean_between(&report, &jobs, at + 11_000, u64::MAX / MS) <= 1.01, "turns do not care for clocks");
    }
}

#[test]
fn liars_harm_themselves_and_others_little() {
    let (fabric, jobs) = two();
    let base = config(vec![]);
    let free = over_solo(&play(&fabric, &jobs, &base), &jobs).0;
    let with = |liar: Liar| {
        let report = by_turns(&fabric, &jobs, TurnsControl::default(), &Config { liars: vec![liar], ..base.clone() });
        report.jobs[1].iteration.mean / jobs[1].workload.unhindered().0 as f64
    };
    let none = Liar::default();
    // The honest one is never slower than free.
    for liar in [
        Liar { mute_permille: 1_000, ..none },
        Liar { mute_permille: 300, ..none },
        Liar { early_permille: 1_000, ..none },
        Liar { never_starts_permille: 300, ..none },
    ] {
        let honest = with(liar);
        println!("{liar:?}: {honest:.3} times solo, free {free:.3}");
        assert!(honest <= 1.01 * free, "{liar:?}: {honest:.3}, free {free:.3}");
    }
}

/// The most that iterations of any job take by turns over those that it takes free.
fn slowest_over_free(turns: &Report, free: &Report) -> f64 {
    turns.jobs.iter().zip(&free.jobs).map(|(turns, free)| turns.iteration.mean / free.iteration.mean).fold(0.0, f64::max)
}

/// Declared periods and Up phases that are wrong: nobody is slower than free.
#[test]
fn a_wrong_profile_makes_nobody_slower_than_free() {
    for (case, seed) in cases_that_fit().iter().flat_map(|case| SEEDS.map(|seed| (case, seed))) {
        let base = Config { warm_up: 0, iterations: 200, jitter_permille: 20, seed, ..Config::default() };
        let free = play(&case.fabric, &case.jobs, &base);
        for (what, period, up) in
            [("30 % short", 700, 1_000), ("30 % long", 1_300, 1_000), ("Up half", 1_000, 500), ("Up double", 1_000, 2_000)]
        {
            for all in [false, true] {
                let mut jobs = case.jobs.clone();
                for job in jobs.iter_mut().take(if all { usize::MAX } else { 1 }) {
                    job.job.period = Nanos(job.job.period.0 * period / 1_000);
                    for phase in &mut job.job.phases {
                        phase.end = Nanos((phase.end.0 * up / 1_000).min(job.job.period.0));
                    }
                }
                let slowest = slowest_over_free(&by_turns(&case.fabric, &jobs, TurnsControl::default(), &base), &free);
                println!("{} {what} {all} {seed}: {slowest:.4} times free", case.name);
                assert!(slowest <= SLOWEST_MAX, "{} {what} {all} {seed}: {slowest:.4} times free", case.name);
            }
        }
    }
}

/// MLTCP keeps jobs apart by itself after some iterations; turns above it cost nothing.
#[test]
fn turns_above_mltcp_harm_nobody() {
    for (case, seed) in cases_that_fit().iter().flat_map(|case| SEEDS.map(|seed| (case, seed))) {
        let config = Config { warm_up: 20, iterations: 200, jitter_permille: 20, transport: Transport::Mltcp, seed, ..Config::default() };
        let below = play(&case.fabric, &case.jobs, &config);
        let slowest = slowest_over_free(&by_turns(&case.fabric, &case.jobs, TurnsControl::default(), &config), &below);
        println!("{} {seed}: with turns {slowest:.4} times mltcp alone", case.name);
        assert!(slowest <= SLOWEST_MAX, "{} {seed}: with turns {slowest:.4} times mltcp alone", case.name);
    }
}

#[test]
fn turns_repeat_to_the_byte() {
    let (fabric, jobs) = two();
    let control = TurnsControl {
        way: Way { delay: ms(1), jitter: ms(1), loss_permille: 50, ..TurnsControl::default().way },
        doubled_permille: 50,
        late_permille: 50,
        ..logged()
    };
    let print = |seed| format!("{:?}", by_turns(&fabric, &jobs, control.clone(), &Config { seed, ..config(vec![]) }));
    assert_eq!(print(1), print(1));
    assert_ne!(print(1), print(2));
    let refused = Config { control: Control::Turns(TurnsControl { late_permille: 1_001, ..logged() }), ..config(vec![]) };
    let router = fabric::route::Router::new(&fabric, fabric::route::Ecmp::Spread, &[]).unwrap();
    let error = antiphase_sim::run(&antiphase_sim::Case { router: &router, jobs: &jobs }, &refused).unwrap_err();
    assert!(error.to_string().contains("1001"));
}
