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
    assert_eq!(job.wire_time().0 / 100_000, 1_487);
    assert_eq!(job.nominal().period.0, job.wire_time().0 + 200_000_000);
    assert_eq!(job.rate(job.wire_time()), Rate(90));
    // Twice as long: half the rate.
    assert_eq!(job.rate(Nanos(job.wire_time().0 * 2)), Rate(45));
}

#[test]
fn a_refusal_names_place_and_value() {
    for (from, to, expected) in [
        ("antiphase.lab/v1", "antiphase.lab/v2", r#"schema: line 3, column 9: schema is "antiphase.lab/v2", expected "antiphase.lab/v1""#),
        ("compute_ms: 200", "compute_ms: 60001", r#"jobs[0] ("a").compute_ms: 60001 is over the limit of 60000"#),
        ("bytes: 1600000", "bytes: 0", r#"jobs[0] ("a").bytes: 0; 1 to 8000000000 are sent"#),
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
