//! Jobs documents that `antiphase plan` refuses.

use crate::{
    process::document,
    refusal::{changed, refusals, refused},
    scratch::Scratch,
};

const PLAN: [&str; 5] = ["plan", "--fabric", "fabric.yaml", "--jobs", "DOCUMENT"];

/// The good document with one change.
fn jobs(change: &str, to: &str) -> String {
    changed(&document("jobs.yaml"), change, to)
}

/// The good document with a profile in place of the first model.
fn profile(change: &str, to: &str) -> String {
    let good = "profile: {schema: antiphase.profile/v1, name: p, period_ns: 100, ranks: {dp: 2}, source: declared, \
                phases: [{start_ns: 10, duration_ns: 20, rate_mbps: 1000, collective: ring, scope: data}]}";
    jobs("model: {name: vgg16}", &changed(good, change, to))
}

#[test]
fn every_jobs_document_is_refused_in_one_line() {
    const MODEL: &str = "{name: vgg16}";
    let model = |to: &str| jobs(MODEL, to);
    let phase = "{start_ns: 10, duration_ns: 20, rate_mbps: 1000, collective: ring, scope: data}";
    let phases: Vec<String> = (0..4_097).map(|i| phase.replace("10,", &format!("{},", 100 * i))).collect();
    let cases = [
        ("another schema", jobs("jobs/v1", "jobs/v2")),
        ("no schema", jobs("schema: antiphase.jobs/v1\n", "")),
        ("a candidates document", document("candidates.yaml")),
        ("no jobs", "schema: antiphase.jobs/v1\njobs: []\n".into()),
        ("jobs that are a word", "schema: antiphase.jobs/v1\njobs: many\n".into()),
        ("unknown field", jobs("jobs:", "colour: red\njobs:")),
        ("unknown field of a job", jobs("hosts:", "host:")),
        ("a hold that is none", jobs("hosts: [h1, h3]", "hosts: [h1, h3]\n    hold: sometimes")),
        ("unknown field of a model", model("{name: vgg16, rank: 2}")),
        ("key twice", jobs("hosts: [h1, h3]", "hosts: [h1, h3]\n    hosts: [h1, h3]")),
        ("mismatched brackets", jobs("[h1, h3]", "[h1, h3}")),
        ("two documents", jobs("jobs:", "jobs: []\n---\njobs:")),
        ("an anchor", jobs("[h1, h3]", "&a [h1, h3]")),
        ("no id", jobs("- id: left\n    model", "- model")),
        ("empty id", jobs("id: left", "id: ''")),
        ("id twice", jobs("id: right", "id: left")),
        ("id with a line break", jobs("id: left", r#"id: "le\nft""#)),
        ("id of 300 bytes", jobs("id: left", &format!("id: {}", "x".repeat(300)))),
        ("neither model nor profile", jobs("    model: {name: vgg16}\n", "")),
        ("model and profile", jobs("hosts: [h1, h3]", "profile_file: profile.yaml\n    hosts: [h1, h3]")),
        ("unknown model", model("{name: vgg99}")),
        ("unknown strategy", model("{name: vgg16, strategy: magic}")),
        ("negative ranks", model("{name: vgg16, ranks: -2}")),
        ("ranks in words", model("{name: vgg16, ranks: two}")),
        ("fractional ranks", model("{name: vgg16, ranks: 2.5}")),
        ("no ranks", model("{name: vgg16, ranks: 0}")),
        ("ranks over 32 bits", model("{name: vgg16, ranks: 4294967296}")),
        ("most ranks", model("{name: vgg16, ranks: 4294967295}")),
        ("more ranks than the hosts have", model("{name: vgg16, ranks: 3}")),
        ("fewer ranks than hosts", model("{name: vgg16, ranks: 1}")),
        ("most ranks per host", model("{name: vgg16, gpus_per_host: 4294967295}")),
        ("no ranks per host", model("{name: vgg16, gpus_per_host: 0}")),
        ("batch over 64 bits", model("{name: vgg16, batch: 18446744073709551616}")),
        ("largest batch", model("{name: vgg16, batch: 18446744073709551615}")),
        ("tensor degree that does not divide", model("{name: gpt3, tp: 3, ranks: 2}")),
        ("capacity of a NIC without unit", model("{name: vgg16, nic: 50}")),
        ("capacity of a NIC of zero", model("{name: vgg16, nic: 0G}")),
        ("more NICs than ranks", model("{name: vgg16, nics_per_host: 8}")),
        ("GPU of no speed", model("{name: vgg16, gpu_gflops: 0}")),
        ("fastest GPU", model("{name: vgg16, gpu_gflops: 18446744073709551615}")),
        ("no hosts", jobs("    hosts: [h1, h3]\n", "")),
        ("empty hosts", jobs("[h1, h3]", "[]")),
        ("unknown host", jobs("h3", "h9")),
        ("a switch as a host", jobs("h3", "leaf1")),
        ("host twice", jobs("h3", "h1")),
        ("too few hosts", jobs("[h1, h3]", "[h1]").replacen(MODEL, "{name: vgg16, ranks: 2}", 1)),
        ("too many hosts", jobs("[h1, h3]", "[h1, h2, h3]").replacen(MODEL, "{name: vgg16, ranks: 2}", 1)),
        ("profile of another schema", profile("profile/v1", "profile/v9")),
        ("profile without a period", profile("period_ns: 100, ", "")),
        ("profile with a period of zero", profile("period_ns: 100", "period_ns: 0")),
        ("profile with the longest period", profile("period_ns: 100", "period_ns: 18446744073709551615")),
        ("phase outside the period", profile("duration_ns: 20", "duration_ns: 200")),
        ("phase that overflows", profile("start_ns: 10", "start_ns: 18446744073709551615")),
        ("phase of no length", profile("duration_ns: 20", "duration_ns: 0")),
        ("phase with a negative rate", profile("rate_mbps: 1000", "rate_mbps: -1000")),
        ("phase with the largest rate", profile("rate_mbps: 1000", "rate_mbps: 18446744073709551615")),
        ("phase of an unknown collective", profile("ring", "circle")),
        ("phase of an unknown scope", profile("scope: data", "scope: planet")),
        ("phases out of order", profile(phase, &format!("{phase}, {}", phase.replace("start_ns: 10", "start_ns: 5")))),
        ("overlapping phases", profile(phase, &format!("{phase}, {}", phase.replace("start_ns: 10", "start_ns: 15")))),
        ("4097 phases", profile(phase, &phases.join(", ")).replace("period_ns: 100,", "period_ns: 1000000,")),
        ("profile of no ranks", profile("dp: 2", "dp: 0")),
        ("profile of the most ranks", profile("dp: 2", "dp: 4294967295")),
        ("profile of more ranks than the hosts", profile("dp: 2", "dp: 3")),
    ];
    refusals("jobs", &PLAN, cases);
}

#[test]
fn profile_files_are_refused_by_their_own_name() {
    let scratch = Scratch::new("profile-files");
    scratch.file("bad.yaml", "schema: antiphase.profile/v1\nname: 1\nperiod_ns: x\n");
    for (file, said) in [
        ("missing.yaml", "No such file or directory (os error 2)"),
        (".", "is a directory, not a document"),
        ("bad.yaml", "period_ns: line 3, column 12: not a whole number from 0 to 18446744073709551615, at \"x\""),
    ] {
        let document = scratch.file("jobs.yaml", jobs("model: {name: vgg16}", &format!("profile_file: {file}")));
        let line = refused(&["plan", "--fabric", "fabric.yaml", "--jobs", &document], b"");
        assert_eq!(line, format!("{}: {said}", scratch.path(file)));
    }
    let document = scratch.file("jobs.yaml", jobs("model: {name: vgg16}", "profile_file: /dev/zero"));
    assert_eq!(refused(&["plan", "--fabric", "fabric.yaml", "--jobs", &document], b""), "/dev/zero: larger than 64 MiB");
}

#[test]
fn bulk_is_refused_soon() {
    let list = |item: &str, count: usize| format!("[{}]", [item].repeat(count).join(","));
    let many: String = (0..100_000).map(|i| format!("  - {{id: j{i}, model: {{name: vgg16}}, hosts: [h1, h3]}}\n")).collect();
    let cases = [
        ("two million hosts", jobs("[h1, h3]", &list("h1", 2_000_000))),
        ("a host of a megabyte", jobs("[h1, h3]", &list(&"h".repeat(1 << 20), 2))),
        ("a million comments", format!("schema: antiphase.jobs/v1\n{}", "# a\n".repeat(5_000_000))),
        ("100,000 jobs, the last one bad", format!("schema: antiphase.jobs/v1\njobs:\n{many}  - {{id: [}}\n")),
    ];
    refusals("jobs-bulk", &PLAN, cases);
}
