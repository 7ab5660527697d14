//! Reading counters, over files in place of the kernel's.

use std::{fs, path::Path};

use super::*;

fn sampler(root: &Path) -> Sampler {
    let config = CountersConfig { exclude: vec!["lo".into()], ..CountersConfig::default() };
    // Ends whose other sides are gone keep their last value.
    let (clock, status) = (watch::channel(None).1, watch::channel(SessionStatus::default()).1);
    Sampler {
        root: Root::under(root),
        config,
        clock,
        status,
        frames: mpsc::channel(1).0,
        queues: QueuesHandle::default(),
        ports: Vec::new(),
        table: None,
        learner: Learner::default(),
        learning: Learning::start().unwrap(),
        sought: None,
        skipped: 0,
        dropped: 0,
    }
}

fn interface(root: &Path, name: &str, rx: &str) {
    let folder = root.join("sys/class/net").join(name).join("statistics");
    fs::create_dir_all(&folder).unwrap();
    for file in ["rx_bytes", "tx_bytes"] {
        fs::write(folder.join(file), rx).unwrap();
    }
}

fn names(sampler: &Sampler) -> Vec<&str> {
    sampler.ports.iter().map(|port| port.port.name()).collect()
}

#[test]
fn ports_come_and_go() {
    let tree = tempfile::tempdir().unwrap();
    interface(tree.path(), "lo", "1\n");
    interface(tree.path(), "ens2", "1\n");
    let mut sampler = sampler(tree.path());
    sampler.scan();
    assert_eq!(names(&sampler), ["ens2"]);
    interface(tree.path(), "ens1", "1\n");
    sampler.scan();
    assert_eq!(names(&sampler), ["ens1", "ens2"]);
    // The kernel answers for a device that is gone with an error; an empty file stands for it here.
    interface(tree.path(), "ens2", "");
    sampler.ports.iter_mut().for_each(|port| port.read(NodeTime(1), None));
    sampler.scan();
    assert_eq!(names(&sampler), ["ens1"]);
}

#[test]
fn one_reading_of_all_interfaces_is_used_where_it_says_what_the_files_say() {
    let tree = tempfile::tempdir().unwrap();
    ["ens1", "ens2"].iter().for_each(|name| interface(tree.path(), name, "7\n"));
    let table = |sent: &str| {
        let line = |name: &str| format!("{name}: 7 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0\n");
        fs::create_dir_all(tree.path().join("proc/net")).unwrap();
        fs::write(tree.path().join("proc/net/dev"), format!("header\nheader\n{}{}", line("ens1"), line("ens2"))).unwrap();
    };
    table("7");
    let mut sampler = sampler(tree.path());
    sampler.scan();
    assert!(sampler.table.is_some());
    // The files stand still, so what moves is the table.
    let mut learned = |sent: &str| {
        table(sent);
        (0..2).for_each(|tick| sampler.sample(tick));
        sampler.scan();
        sampler.table.is_some()
    };
    assert!(learned("7"));
    // Another namespace's table: the same names, other numbers.
    assert!(!learned("8"));
    assert!(learned("7"));
    // One of many interfaces is cheaper to read by itself.
    sampler.config.exclude.push("ens2".into());
    sampler.ports.clear();
    sampler.scan();
    assert!(sampler.table.is_none() && sampler.ports.len() == 1);
}

/// Adds a job's readings each 10 ms: it sends 2 MB a millisecond for a time, then computes for a time that varies a little.
fn play(series: &mut Series, at: &mut u64, bytes: &mut u64, iterations: u64, (sends, period): (u64, u64)) {
    for iteration in 0..iterations {
        for ms in 0..period - 4 + iteration * 7 % 9 {
            if at.is_multiple_of(10) {
                series.push(NodeTime(*at * 1_000_000), Some(*bytes));
            }
            *bytes += if ms < sends { 2_000_000 } else { 0 };
            *at += 1;
        }
    }
}

#[test]
fn a_job_is_not_learned_from_what_the_one_before_it_sent() {
    let tree = tempfile::tempdir().unwrap();
    interface(tree.path(), "ens1", "1\n");
    let mut sampler = sampler(tree.path());
    sampler.scan();
    let (mut at, mut bytes) = (0, 0);
    let found = |sampler: &Sampler| {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = sampler.learning.found(now()) {
                return found.job.period.0 / 1_000_000;
            }
            assert!(std::time::Instant::now() < until, "nothing was learned");
            thread::sleep(Duration::from_millis(5));
        }
    };
    sampler.learning.begin(Some(NodeTime(0)));
    play(&mut sampler.ports[0].series, &mut at, &mut bytes, 100, (80, 200));
    sampler.learn_job();
    let first = found(&sampler);
    assert!((195..=205).contains(&first), "{first}");
    // Another job, of which there is nothing yet: what is there would be the same job again, and is not taken for it.
    sampler.learning.begin(Some(NodeTime(at * 1_000_000)));
    play(&mut sampler.ports[0].series, &mut at, &mut bytes, 1, (200, 500));
    sampler.learn_job();
    assert_eq!(sampler.learning.found(now()), None);
    // A second question waits until the first is done, so an answer of the first would be there by the time of the second's.
    play(&mut sampler.ports[0].series, &mut at, &mut bytes, 30, (200, 500));
    let second = loop {
        sampler.learn_job();
        if sampler.learning.found(now()).is_some() {
            break found(&sampler);
        }
        thread::sleep(Duration::from_millis(5));
        assert!(sampler.sought.as_ref().is_some_and(|sought| sought.looks < 10_000), "the second job is not learned");
    };
    assert!((490..=510).contains(&second), "{second}");
}

#[test]
fn the_number_of_ports_is_bounded() {
    let tree = tempfile::tempdir().unwrap();
    (0..PORTS_MAX + 3).for_each(|n| interface(tree.path(), &format!("ens{n}"), "1\n"));
    let mut sampler = sampler(tree.path());
    sampler.scan();
    assert_eq!(sampler.ports.len(), PORTS_MAX);
}

#[test]
fn a_port_that_answers_slowly_is_read_less_often() {
    let tree = tempfile::tempdir().unwrap();
    interface(tree.path(), "ens1", "1\n");
    let mut sampler = sampler(tree.path());
    sampler.scan();
    let mut after = |took_us: &[u64]| {
        took_us.iter().for_each(|us| sampler.ports[0].spend(Nanos(us * 1_000), Nanos::from_millis(10)));
        sampler.learn(0, 500);
        sampler.ports[0].every
    };
    // A five-hundredth of 10 ms is 20 us. What took long once or twice had lost its processor.
    assert_eq!([after(&[20, 19, 20]), after(&[5, 9_000, 5, 30_000]), after(&[])], [1, 1, 1]);
    assert_eq!([after(&[21, 5, 30]), after(&[41, 39, 41]), after(&[79, 79, 79])], [2, 4, 4]);
}

#[test]
fn a_counter_that_went_absent_is_not_told_as_zero() {
    let tree = tempfile::tempdir().unwrap();
    interface(tree.path(), "ens1", "1\n");
    let mut sampler = sampler(tree.path());
    sampler.scan();
    let clock = ClockEstimate { offset: units::ClockOffset(0), bound: Nanos(0), rtt: Nanos(0), at: NodeTime(0) };
    let port = &mut sampler.ports[0];
    port.read(NodeTime(1), Some(clock));
    port.read(NodeTime(2), Some(clock));
    fs::write(tree.path().join("sys/class/net/ens1/statistics/tx_bytes"), "").unwrap();
    port.read(NodeTime(3), Some(clock));
    let frame = port.take_frame().unwrap();
    let listed: Vec<(&str, &[u64])> = frame.counters.iter().map(|counter| (counter.name.as_str(), counter.delta.as_slice())).collect();
    assert_eq!((frame.at_ns.as_slice(), listed.as_slice()), (&[2, 3][..], &[("rx_bytes", &[0, 0][..])][..]));
    assert!(port.take_frame().is_none());
}
