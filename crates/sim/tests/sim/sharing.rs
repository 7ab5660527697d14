//! Closed loops on shared links, nobody held.

use antiphase_sim::{Config, Ended, run};
use fabric::route::{Ecmp, Router};
use units::{Nanos, Rate};

use crate::cases::*;

fn free() -> Config {
    Config { warm_up: 4, iterations: 20, ..Config::default() }
}

#[test]
fn two_equal_jobs_in_phase_halve_each_other_exactly() {
    let (fabric, jobs) = two_equal();
    let alone = play(&fabric, &jobs[..1], &free());
    assert_eq!(alone.jobs[0].iteration.max, Nanos(250 * MS));
    assert_eq!(alone.jobs[0].iteration.min, Nanos(250 * MS));
    // Compute + 2 * communication, every time.
    let both = play(&fabric, &jobs, &free());
    for job in &both.jobs {
        assert_eq!((job.iteration.min, job.iteration.max), (Nanos(350 * MS), Nanos(350 * MS)));
        assert_eq!(job.comm.p50, Nanos(200 * MS));
        assert_eq!(job.overlap_share, 1.0);
        assert_eq!((job.slips, job.iteration.count), (0, 20));
    }
    assert_eq!(both.ended, Ended::Done);
    // Both uplinks, both directions; NICs carry one job each and are not reported.
    assert_eq!(both.links.len(), 4);
    for link in &both.links {
        assert!((link.overlap_share - 1.0).abs() < 1e-12 && link.jobs.len() == 2, "{link:?}");
        assert!((link.busy_share - 200.0 / 350.0).abs() < 0.01, "{link:?}");
    }
}

#[test]
fn three_equal_jobs_take_three_times_as_long_to_a_nanosecond() {
    let fabric = star_of(2, 3, 100);
    let pairs = [["h1", "h4"], ["h2", "h5"], ["h3", "h6"]];
    let jobs: Vec<_> = ["a", "b", "c"].iter().zip(&pairs).map(|(name, hosts)| ring(&fabric, name, hosts, 100, 150)).collect();
    let report = play(&fabric, &jobs, &free());
    for job in &report.jobs {
        assert!(job.iteration.max.0.abs_diff(450 * MS) <= 1, "{:?}", job.iteration);
    }
}

#[test]
fn an_uplink_with_room_for_both_disturbs_nobody() {
    let fabric = star(2, 200);
    let jobs = vec![ring(&fabric, "a", &["h1", "h3"], 100, 150), ring(&fabric, "b", &["h2", "h4"], 100, 150)];
    let report = play(&fabric, &jobs, &free());
    assert_eq!(means(&report), [250.0, 250.0]);
    assert!(report.links.iter().all(|l| l.marks == 0.0 && (l.overlap_share - 1.0).abs() < 1e-12));
}

#[test]
fn one_to_two_meets_every_second_time() {
    // Periods of 100 and 200 ms, 40 ms of communication each; both begin at 0.
    let fabric = star(2, 100);
    let jobs = vec![ring(&fabric, "short", &["h1", "h3"], 40, 60), ring(&fabric, "long", &["h2", "h4"], 40, 160)];
    let report = play(&fabric, &jobs, &free());
    // Their first transfers meet and take 80 ms each: the short one then communicates in [140, 180), [240, 280) and meets the long
    // one in [240, 280) again: every second one of its iterations takes 140 ms.
    let starts: Vec<u64> = report.jobs[0].records[4..].iter().map(|r| r.start.0).collect();
    assert!(starts.windows(3).all(|w| w[2] - w[0] == 240 * MS && [100 * MS, 140 * MS].contains(&(w[1] - w[0]))), "{starts:?}");
    assert_eq!(report.jobs[1].iteration.min, Nanos(240 * MS));
}

#[test]
fn three_on_two_links_go_at_the_pace_of_the_middle_one() {
    // a and b meet on the second leaf's uplinks, b and c on the third's.
    let fabric = star(4, 100);
    let jobs = vec![
        ring(&fabric, "a", &["h1", "h3"], 100, 200),
        ring(&fabric, "b", &["h4", "h5"], 100, 200),
        ring(&fabric, "c", &["h6", "h7"], 100, 200),
    ];
    let report = play(&fabric, &jobs, &free());
    assert_eq!(means(&report), [400.0, 400.0, 400.0]);
    let on: Vec<usize> = report.links.iter().map(|l| l.jobs.len()).collect();
    assert_eq!(on, [2, 2, 2, 2]);
}

#[test]
fn a_loop_of_three_halves_every_link() {
    let fabric = star(3, 100);
    let jobs = vec![
        ring(&fabric, "a", &["h1", "h3"], 100, 300),
        ring(&fabric, "b", &["h4", "h5"], 100, 300),
        ring(&fabric, "c", &["h6", "h2"], 100, 300),
    ];
    assert_eq!(means(&play(&fabric, &jobs, &free())), [500.0, 500.0, 500.0]);
}

#[test]
fn a_job_beyond_its_link_is_stretched_by_demand_over_capacity() {
    let fabric = star(2, 50);
    let jobs = vec![ring(&fabric, "a", &["h1", "h3"], 100, 150)];
    let report = play(&fabric, &jobs, &free());
    assert_eq!(means(&report), [350.0]);
    assert_eq!(report.links.len(), 4, "it exceeds the uplinks by itself");
}

#[test]
fn records_tell_each_iteration() {
    let (fabric, jobs) = two_equal();
    let report = play(&fabric, &jobs, &free());
    let records = &report.jobs[0].records;
    assert_eq!(records.len(), 25);
    for (i, r) in records.iter().enumerate() {
        let at = 350 * MS * i as u64;
        assert_eq!((r.ready, r.start, r.comm_start), (Nanos(at), Nanos(at), Nanos(at)));
        assert_eq!((r.comm_end, r.end, r.comm), (Nanos(at + 200 * MS), Nanos(at + 350 * MS), Nanos(200 * MS)));
        assert_eq!((r.because, r.late, r.slip), (gate_core::Reason::NoPage, None, false));
    }
    assert_eq!(report.from, Nanos(4 * 350 * MS));
}

#[test]
fn a_run_ends_at_its_time_and_bad_numbers_are_refused_with_their_value() {
    let (fabric, jobs) = two_equal();
    let short = play(&fabric, &jobs, &Config { until: Nanos(1_000 * MS), ..free() });
    assert_eq!((short.ended, short.to), (Ended::OutOfTime, Nanos(1_000 * MS)));
    assert_eq!(short.jobs[0].records.len(), 2);

    let router = Router::new(&fabric, Ecmp::Spread, &[]).unwrap();
    let refused = |jobs: &[antiphase_sim::SimJob], config: &Config| {
        run(&antiphase_sim::Case { router: &router, jobs }, config).unwrap_err().to_string()
    };
    assert!(refused(&jobs, &Config { iterations: 0, ..free() }).contains("number of iterations 4"));
    assert!(refused(&jobs, &Config { jitter_permille: 501, ..free() }).contains("501"));
    let ecn = antiphase_sim::EcnModel { kmax: antiphase_sim::EcnModel::LAB.kmin, ..antiphase_sim::EcnModel::LAB };
    assert!(refused(&jobs, &Config { ecn, ..free() }).contains("Kmax 5000000: not above Kmin"));
    let mut broken = jobs.clone();
    broken[1].job.name = "a".into();
    assert!(refused(&broken, &free()).contains("job \"a\": its name is another's too; job 1"));
    broken[1].job.name = "b".into();
    broken[1].workload.steps[0].transfers[0].groups = std::sync::Arc::from([vec![0, 9]]);
    assert!(refused(&broken, &free()).contains("job \"b\": a group names a rank that is not placed: 9"));
    broken[1].workload.steps.clear();
    assert!(refused(&broken, &free()).contains("job \"b\": its iteration takes no time"));
    broken[1].workload = antiphase_sim::Workload::ring(2, units::Bytes(1 << 40), Rate(1 << 41), Nanos(1)).unwrap();
    assert!(refused(&broken, &free()).contains("2^40 Mbit/s"));
    assert!(play(&fabric, &[], &free()).jobs.is_empty(), "nobody at all is fine");
}
