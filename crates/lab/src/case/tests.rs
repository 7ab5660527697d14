use super::*;

fn read(text: &str) -> Result<Case, CaseError> {
    Case::read(text, &|path| Err(format!("no file {path}")))
}

fn refused(from: &str, to: &str) -> String {
    let good = builtin("two-equal").unwrap();
    assert!(good.contains(from), "{from}");
    read(&good.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn the_cases_that_come_with_the_program_can_be_read() {
    for (name, text) in BUILTIN {
        let case = read(text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(case.name, name);
        assert!(!case.about.is_empty() && case.expect.score.is_some());
        for job in &case.jobs {
            let period = job.nominal().period;
            assert!((Nanos::from_millis(200)..=Nanos::from_millis(600)).contains(&period), "{name}: {period:?}");
        }
    }
}

/// 1,600,000 bytes in segments of 1448, each 1514 on the wire, at 90 Mbit/s: 148.7 ms.
#[test]
fn wire_time_counts_headers() {
    let case = read(builtin("two-equal").unwrap()).unwrap();
    let job = &case.jobs[0];
    assert_eq!(job.wire_times()[0].0 / 100_000, 1_487);
    assert_eq!(job.nominal().period.0, job.wire_times()[0].0 + 200_000_000);
    assert_eq!(job.rate(0, job.wire_times()[0]), Rate(90));
    // Twice as long: half the rate.
    assert_eq!(job.rate(0, Nanos(job.wire_times()[0].0 * 2)), Rate(45));
}

/// 800,000 bytes take 74.3 ms at 90 Mbit/s. Of a period of 400 ms the Up phases take 60 and 80 ms; the 260 ms that are left are
/// shared as 30 : 100 of the case, 60 and 200 ms: the second phase starts at 120 ms.
#[test]
fn phases_follow_each_other() {
    let one = "compute_ms: 200, jitter_ms: 4, bytes: 1600000";
    let two = "phases: [{bytes: 800000, compute_ms: 30}, {bytes: 800000, compute_ms: 100}]";
    let case = read(&builtin("two-equal").unwrap().replacen(one, two, 1)).unwrap();
    let job = &case.jobs[0];
    assert_eq!(job.nominal().period.0, 2 * job.wire_times()[0].0 + 130_000_000);
    let timing = Timing { period: Nanos::from_millis(400), ups: vec![Nanos::from_millis(60), Nanos::from_millis(80)] };
    let (planned, _) = job.planned(&timing);
    let times: Vec<[u64; 2]> = planned.phases.iter().map(|p| [p.start.0 / 1_000_000, p.end.0 / 1_000_000]).collect();
    assert_eq!(times, [[0, 60], [120, 200]]);
    // 800,000 bytes with headers are 6.69 Mbit: in 80 ms at 83.6 Mbit/s, and in 60 ms faster than the NIC sends.
    assert_eq!([planned.phases[0].rate, planned.phases[1].rate], [Rate(90), Rate(84)]);
}

/// A profile of 130 % of the period and half of the Up phase: 130 and 20 ms of 100 and 40, at the rate that is true.
#[test]
fn a_profile_may_be_wrong() {
    let good = builtin("two-equal").unwrap();
    let case = read(&good.replacen("{id: a,", "{id: a, declared: {period_percent: 130, up_percent: 50},", 1)).unwrap();
    let seen = Timing { period: Nanos(100_000_000), ups: vec![Nanos(40_000_000)] };
    let (said, _) = case.jobs[0].planned(&seen);
    let (is, _) = case.jobs[0].played(&seen);
    assert_eq!((said.period, said.phases[0].end), (Nanos(130_000_000), Nanos(20_000_000)));
    assert_eq!((is.period, is.phases[0].end), (Nanos(100_000_000), Nanos(40_000_000)));
    assert_eq!(said.phases[0].rate, is.phases[0].rate);
    // Up phases that are longer than the period fill it.
    let case = read(&good.replacen("{id: a,", "{id: a, declared: {period_percent: 30, up_percent: 200},", 1)).unwrap();
    let (said, _) = case.jobs[0].planned(&seen);
    assert_eq!((said.period, said.phases[0].end), (Nanos(30_000_000), Nanos(30_000_000)));
}

#[test]
fn a_refusal_names_place_and_value() {
    for (from, to, expected) in [
        ("antiphase.lab/v1", "antiphase.lab/v2", r#"schema: line 3, column 9: schema is "antiphase.lab/v2", expected "antiphase.lab/v1""#),
        ("compute_ms: 200", "compute_ms: 60001", r#"jobs[0] ("a").compute_ms: 60001 is over the limit of 60000"#),
        ("bytes: 1600000", "bytes: 0", r#"jobs[0] ("a").bytes: 0; 1 to 8000000000 are sent"#),
        ("bytes: 1600000", "phases: []", r#"jobs[0] ("a").compute_ms: a job has either compute_ms and bytes, or phases"#),
        ("compute_ms: 200, jitter_ms: 4, bytes: 1600000", "phases: []", r#"jobs[0] ("a").phases: 0 phases; 1 to 16 are played"#),
        (
            "compute_ms: 200, jitter_ms: 4, bytes: 1600000",
            "phases: [{bytes: 1, compute_ms: 1}, {bytes: 0, compute_ms: 1}]",
            r#"jobs[0] ("a").phases[1].bytes: 0; 1 to 8000000000 are sent"#,
        ),
        ("id: a,", "id: a, declared: {up_percent: 0},", r#"jobs[0] ("a").declared.up_percent: 0; 1 to 1000 percent can be declared"#),
        ("id: b,", "id: a,", r#"jobs[1] ("a").id: another job has that id"#),
        ("hosts: [b0, b1], c", "hosts: [b0, a1], c", r#"jobs[1] ("b").hosts[1]: "a1" already carries a rank of "a""#),
        ("hosts: [b0, b1], c", "hosts: [b0, leaf1], c", r#"jobs[1] ("b").hosts[1]: "leaf1" is a switch, not a host"#),
        ("hosts: [b0, b1], c", "hosts: [b0], c", r#"jobs[1] ("b").hosts: 1 hosts; a ring has at least 2"#),
        ("capacity: 200M", "capacity: unknown", "fabric: link leaf2->spine1 has no known capacity"),
        ("capacity: 200M", "capacity: 200G", "fabric: link leaf2->spine1: 200 Gb/s is more than the lab's 10 Gb/s"),
        ("jobs:", "routes: spread\njobs:", "routes: spread: a kernel sends a flow one way; use hashed:SEED"),
        ("fabric:\n", "fabric_file: other.yaml\nfabric:\n", "document: needs exactly one of fabric and fabric_file"),
        ("id: a,", "id: ../a,", r#"jobs[0] ("../a").id: "../a": 1 to 32 letters"#),
        ("name: two-equal", "name: [", "name: line 4, column 7"),
    ] {
        let said = refused(from, to);
        assert!(said.starts_with(expected), "{to}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_fabric_can_be_a_file_of_its_own() {
    let text = "schema: antiphase.lab/v1\nname: x\nfabric_file: f.yaml\njobs: [{id: a, hosts: [h1, h2], compute_ms: 1, bytes: 1}]\n";
    let fabric = "{schema: antiphase.fabric/v1, hosts: [h1, h2], switches: [{name: s}], cables: [{ends: [h1, s], capacity: 50M}, {ends: [h2, s], capacity: 60M}]}";
    let case = Case::read(text, &|path| if path == "f.yaml" { Ok(fabric.into()) } else { Err("no".into()) }).unwrap();
    assert_eq!(case.jobs[0].nic, Rate(50));
    assert_eq!(read(text).unwrap_err().to_string(), "fabric: f.yaml: no file f.yaml");
}
