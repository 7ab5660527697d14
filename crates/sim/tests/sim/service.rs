//! The production service in virtual time, with agents, messages and a store that takes time.

use antiphase_sim::{AgentClock, Config, Control, Ended, Fault, IterationRecord, JobReport, Report, ServiceControl, Way};
use gate_core::Reason;
use units::{ClockOffset, Nanos, Rate};

use crate::cases::*;

/// Of two equal jobs with 5 % of headroom.
const PERIOD: u64 = 262_500_000;

fn config() -> Config {
    Config { warm_up: 20, iterations: 100, control: Control::Service(ServiceControl::default()), ..Config::default() }
}

fn kinds(report: &Report) -> Vec<&'static str> {
    report.service.as_ref().unwrap().notices.iter().map(|n| n.kind.word()).collect()
}

fn at(ms: u64) -> Nanos {
    Nanos(ms * MS)
}

#[test]
fn the_service_interleaves_what_was_committed() {
    let (fabric, jobs) = two_equal();
    let report = play(&fabric, &jobs, &config());
    for job in &report.jobs {
        assert_eq!((job.iteration.min, job.iteration.max), (Nanos(PERIOD), Nanos(PERIOD)));
        assert_eq!((job.overlap_share, job.slips, job.fail_opens), (0.0, 0, 0));
        assert_eq!(job.records[0].because, Reason::NoPage, "it begins before any plan is there");
    }
    let service = report.service.as_ref().unwrap();
    assert_eq!(service.score, Some(1.0));
    assert!(service.plan_version >= 1 && service.plans >= 4, "{service:?}");
    assert!(kinds(&report).contains(&"connected") && kinds(&report).contains(&"committed"));
}

/// One component of two parts: a and b take turns between the first two leaves; c and d, of periods that share 1 ms, would only
/// lose by waiting for slots. b and c meet for 5 ms now and then, at the third leaf.
#[test]
fn the_service_holds_a_part_of_a_component() {
    let fabric = star_of(5, 4, 100);
    let job = |name, hosts: &[&str], comm: u64, compute: u64| ring_at(&fabric, name, hosts, Rate(90), comm * MS, compute * MS);
    let jobs = [
        job("a", &["h1", "h5"], 40, 60),
        job("b", &["h2", "h6", "h9"], 40, 60),
        job("c", &["h10", "h13"], 5, 78),
        job("d", &["h14", "h17"], 80, 17),
    ];
    let report = play(&fabric, &jobs, &Config { warm_up: 50, iterations: 300, jitter_permille: 5, ..config() });
    let free = play(&fabric, &jobs, &Config { warm_up: 50, iterations: 300, jitter_permille: 5, ..Config::default() });
    let held = |job: usize| report.jobs[job].held.p50 > Nanos(0);
    assert_eq!([0, 1, 2, 3].map(held), [true, true, false, false]);
    let (seen, without) = (means(&report), means(&free));
    assert!((105.0..106.0).contains(&seen[0]) && seen[0] < without[0] && seen[1] < without[1], "{seen:?} {without:?}");
    // A free job is not delayed by a slot: its gate lets it go because the plan says so.
    let told = |j: &JobReport| (j.held.p99, j.slips, j.fail_opens, j.records.last().map(|r| r.because));
    for job in &report.jobs[2..] {
        assert_eq!(told(job), (Nanos(0), 0, 0, Some(Reason::NotHeld)));
    }
}

#[test]
fn a_commit_is_announced_only_when_it_is_durable() {
    let (fabric, jobs) = two_equal();
    let slow = ServiceControl { persist: at(2_000), ..ServiceControl::default() };
    let report = play(&fabric, &jobs, &Config { control: Control::Service(slow), ..config() });
    // The fabric and the commit take two seconds each.
    let first = report.jobs.iter().flat_map(|j| &j.records).filter(|r| r.because == Reason::OnTime).map(|r| r.ready).min().unwrap();
    assert!(first >= at(4_000) && first < at(4_800), "{first}");
}

#[test]
fn the_service_may_be_away_for_less_than_the_plan_lasts() {
    let (fabric, jobs) = two_equal();
    let faults = vec![Fault::ServiceDies { at: at(8_000) }, Fault::ServiceReturns { at: at(20_000) }];
    let report = play(&fabric, &jobs, &Config { faults, iterations: 400, ..config() });
    for job in &report.jobs {
        assert_eq!((job.iteration.min, job.iteration.max, job.fail_opens), (Nanos(PERIOD), Nanos(PERIOD), 0));
    }
    // 105 s: had the agents not found it again, the plan would have expired.
    assert!(report.to > at(105_000));
    assert!(kinds(&report).iter().filter(|k| **k == "connected").count() >= 4, "{:?}", kinds(&report));
}

#[test]
fn killing_everything_stops_no_job() {
    let (fabric, jobs) = two_equal();
    let dies = |host: &str| Fault::AgentDies { host: host.into(), at: at(9_000) };
    let all = vec![Fault::ServiceDies { at: at(8_000) }, dies("h1"), dies("h2"), dies("h3"), dies("h4")];
    for faults in [all, vec![Fault::ServiceDies { at: at(8_000) }], vec![Fault::ServiceDies { at: Nanos(0) }]] {
        let report = play(&fabric, &jobs, &Config { faults, iterations: 400, ..config() });
        assert_eq!(report.ended, Ended::Done);
        for job in &report.jobs {
            let last = job.records.last().unwrap();
            assert!([Reason::Stale, Reason::Expired, Reason::NoPage].contains(&last.because) && last.held() == Nanos(0), "{last:?}");
            assert!(job.records.iter().all(|r| r.held() <= Nanos(PERIOD)));
        }
    }
}

#[test]
fn an_expired_plan_is_not_followed() {
    let (fabric, jobs) = two_equal();
    let report = play(&fabric, &jobs, &Config { faults: vec![Fault::ServiceDies { at: at(8_000) }], iterations: 400, ..config() });
    for job in &report.jobs {
        let (held, free): (Vec<&IterationRecord>, Vec<_>) = job.records.iter().skip(5).partition(|r| r.because == Reason::OnTime);
        assert!(free.iter().all(|r| r.because == Reason::Expired));
        // The last plan was sent within the first second; it lasts for a minute.
        let last = held.last().unwrap().start;
        assert!(last > at(59_000) && last < at(62_000), "{last}");
    }
}

#[test]
fn slips_make_the_service_give_more_headroom() {
    let (fabric, jobs) = two_equal();
    // 12 % of 150 ms are 18 ms, the headroom is 12.5 ms.
    let report = play(&fabric, &jobs, &Config { jitter_permille: 200, iterations: 600, ..config() });
    assert!(kinds(&report).contains(&"headroom"), "{:?}", kinds(&report));
    let (first, last) = (&report.jobs[0].records[..100], &report.jobs[0].records[500..]);
    let slips = |records: &[IterationRecord]| records.iter().filter(|r| r.slip).count() as f64 / records.len() as f64;
    assert!(slips(last) < slips(first), "{} {}", slips(first), slips(last));
}

#[test]
fn a_clock_that_is_not_good_enough_is_not_relied_on() {
    let (fabric, jobs) = two_equal();
    let clocks = vec![AgentClock { host: "h2".into(), offset: ClockOffset(-5_000_000_000), error: 0, bound: at(60) }];
    let report = play(&fabric, &jobs, &Config { clocks, ..config() });
    assert!(kinds(&report).contains(&"quarantined"), "{:?}", kinds(&report));
    assert_eq!(report.jobs[1].records.last().unwrap().because, Reason::NotHeld);
    assert_eq!(report.jobs[0].records.last().unwrap().because, Reason::OnTime);
}

#[test]
fn lost_messages_delay_plans_and_no_more() {
    let (fabric, jobs) = two_equal();
    let way = Way { delay: at(5), jitter: at(20), loss_permille: 300, resend: at(300) };
    let control = Control::Service(ServiceControl { way, ..ServiceControl::default() });
    let lossy = Config { control, iterations: 500, jitter_permille: 10, ..config() };
    let report = play(&fabric, &jobs, &lossy);
    for job in &report.jobs {
        assert_eq!(job.fail_opens, 0);
        assert!(job.overlap_share < 0.02, "{}", job.overlap_share);
    }
    assert_eq!(format!("{report:?}"), format!("{:?}", play(&fabric, &jobs, &lossy)), "same seed, same bytes");
    let other = play(&fabric, &jobs, &Config { seed: 2, ..lossy });
    assert_ne!(report, other);
}

#[test]
fn a_refused_commit_is_an_error() {
    let (fabric, jobs) = two_equal();
    let router = fabric::route::Router::new(&fabric, fabric::route::Ecmp::Spread, &[]).unwrap();
    let mut jobs = jobs;
    jobs[1].job.period = Nanos(1);
    let error = antiphase_sim::run(&antiphase_sim::Case { router: &router, jobs: &jobs }, &config()).unwrap_err().to_string();
    assert!(error.starts_with("the service refused the jobs: "), "{error}");
}
