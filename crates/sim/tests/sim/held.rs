//! Jobs held to the planner's slots by the production gate.

use antiphase_sim::{AgentClock, Config, Control};
use units::{ClockOffset, Nanos};

use crate::cases::*;

fn config() -> Config {
    Config { warm_up: 10, iterations: 40, ..Config::default() }
}

#[test]
fn interleaved_jobs_run_as_if_alone() {
    let (fabric, jobs) = two_equal();
    let report = held(&fabric, &jobs, 0, &config());
    for job in &report.jobs {
        assert_eq!((job.iteration.min, job.iteration.max), (Nanos(250 * MS), Nanos(250 * MS)));
        assert_eq!((job.overlap_share, job.slips, job.fail_opens), (0.0, 0, 0));
    }
    assert!(report.links.iter().all(|l| l.marks == 0.0 && l.overlap_share == 0.0));
}

#[test]
fn headroom_is_the_price_of_a_slot() {
    let (fabric, jobs) = two_equal();
    let report = held(&fabric, &jobs, 50, &config());
    for job in &report.jobs {
        assert_eq!((job.iteration.p50, job.iteration.p99), (Nanos(262_500_000), Nanos(262_500_000)));
        assert_eq!(job.held.p50, Nanos(12_500_000));
        assert!(job.records.last().unwrap().late == Some(0));
    }
}

#[test]
fn loops_chains_and_harmonic_periods_are_interleaved() {
    let fabric = star(3, 100);
    let ring3 = |a, b, c| {
        vec![
            ring(&fabric, "a", &["h1", "h3"], a, 300 - a),
            ring(&fabric, "b", &["h4", "h5"], b, 300 - b),
            ring(&fabric, "c", &["h6", "h2"], c, 300 - c),
        ]
    };
    let jobs = ring3(90, 100, 80);
    assert_eq!(means(&held(&fabric, &jobs, 0, &config())), [300.0; 3], "a loop");

    let fabric = star(2, 100);
    let jobs = vec![ring(&fabric, "short", &["h1", "h3"], 40, 60), ring(&fabric, "long", &["h2", "h4"], 40, 160)];
    assert_eq!(means(&held(&fabric, &jobs, 0, &config())), [100.0, 200.0], "one to two");
    assert_eq!(means(&held(&fabric, &jobs, 50, &config())), [105.0, 210.0], "and with headroom");

    let fabric = star(4, 100);
    let jobs = vec![
        ring(&fabric, "a", &["h1", "h3"], 100, 200),
        ring(&fabric, "b", &["h4", "h5"], 100, 200),
        ring(&fabric, "c", &["h6", "h7"], 100, 200),
    ];
    assert_eq!(means(&held(&fabric, &jobs, 0, &config())), [300.0; 3], "three on two links");
}

#[test]
fn jitter_within_the_headroom_is_absorbed_and_the_jobs_stay_apart() {
    let (fabric, jobs) = two_equal();
    let noisy = Config { jitter_permille: 20, iterations: 300, ..config() };
    let free = play(&fabric, &jobs, &noisy);
    let report = held(&fabric, &jobs, 50, &noisy);
    for (job, free) in report.jobs.iter().zip(&free.jobs) {
        // 2 % of 150 ms are 3 ms, the headroom is 12.5 ms: four deviations.
        assert!((262.5..264.0).contains(&job.iteration.mean_ms()), "{:?}", job.iteration);
        assert!(job.overlap_share < 0.02 && job.slips == 0, "{} {}", job.overlap_share, job.slips);
        assert!(free.iteration.mean_ms() > 300.0, "{:?}", free.iteration);
    }
}

#[test]
fn a_start_too_late_slips_and_finds_back() {
    let (fabric, jobs) = two_equal();
    // 80 ms late of a period of 262.5 ms; 15 % are 39 ms.
    let late = antiphase_sim::Fault::Straggler { job: 0, iteration: 20, extra: Nanos(80 * MS) };
    let report = held(&fabric, &jobs, 50, &Config { faults: vec![late], ..config() });
    let (a, b) = (&report.jobs[0], &report.jobs[1]);
    assert_eq!((a.slips, b.slips), (1, 0));
    let records = &a.records;
    assert!(!records[20].slip && records[21].slip, "the iteration after the straggler starts too late");
    assert_eq!(records[21].start.0 - records[20].start.0, 2 * 262_500_000, "one slot is lost");
    assert_eq!(records[22].start.0 - records[21].start.0, 262_500_000);
    assert_eq!(b.iteration.max, Nanos(262_500_000), "the other one notices nothing");
    assert_eq!((a.overlap_share, b.overlap_share), (0.0, 0.0));
}

#[test]
fn a_little_late_goes_at_once_and_catches_up() {
    let (fabric, jobs) = two_equal();
    // 30 ms of extra, less 12.5 ms of headroom: 17.5 ms late, then 5 ms, then on time.
    let late = antiphase_sim::Fault::Straggler { job: 0, iteration: 20, extra: Nanos(30 * MS) };
    let report = held(&fabric, &jobs, 50, &Config { faults: vec![late], ..config() });
    let lateness: Vec<i64> = report.jobs[0].records[20..24].iter().map(|r| r.late.unwrap()).collect();
    assert_eq!(lateness, [0, 17_500_000, 5_000_000, 0]);
    assert_eq!(report.jobs[0].slips, 0);
}

#[test]
fn a_clock_error_moves_the_start_by_as_much() {
    let (fabric, jobs) = two_equal();
    let clock = |error, bound| {
        let offset = ClockOffset(1_700_000_000_000 - 9_000_000_000_000);
        vec![AgentClock { host: "h2".into(), offset, error, bound: Nanos(bound) }]
    };
    let start = |clocks| {
        let report = held(&fabric, &jobs, 50, &Config { clocks, ..config() });
        let last = report.jobs[1].records.last().unwrap();
        (last.start.0 % 262_500_000, report.jobs[1].fail_opens, last.because)
    };
    let (on_time, ..) = start(Vec::new());
    // An estimate that is 3 ms ahead starts 3 ms early.
    assert_eq!(start(clock(3_000_000, 4_000_000)), (on_time - 3_000_000, 0, gate_core::Reason::OnTime));
    assert_eq!(start(clock(-3_000_000, 4_000_000)), (on_time + 3_000_000, 0, gate_core::Reason::OnTime));
    // A bound worse than the slack of 31.25 ms: the gate lets everything go.
    let (_, opens, because) = start(clock(0, 50_000_000));
    assert!(opens >= 40 && because == gate_core::Reason::ClockBound);
}

#[test]
fn who_is_not_to_be_held_runs_as_it_comes() {
    let (fabric, jobs) = two_equal();
    let Control::Direct(mut slots) = slots(&fabric, &jobs, 50) else { unreachable!() };
    slots.iter_mut().for_each(|s| s.hold = false);
    let report = play(&fabric, &jobs, &Config { control: Control::Direct(slots), ..config() });
    assert_eq!(means(&report), [350.0, 350.0]);
    assert_eq!(report.jobs[0].fail_opens, 0, "that is what the plan says");
}
