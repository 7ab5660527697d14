//! What of Tiresias is off in the runs of its authors: promotion, and consolidation.

use crate::{
    process::{antiphase, antiphase_reading},
    refusal::refused,
};

fn mean_s(trace: &str, more: &[&str]) -> f64 {
    let arguments = ["sim", "run", "--trace", "-", "--format", "antiphase", "--policy", "tiresias", "-o", "json"];
    let run = antiphase_reading(&[&arguments[..], more].concat(), trace.as_bytes());
    run.ok();
    run.json()["avg_jct_s"].as_f64().expect("a number")
}

#[test]
fn jobs_that_starve_are_promoted_and_consolidated_ones_wait_for_a_host() {
    // All want the one host. The first has 3,256 GPU seconds at 407 s, and falls behind the others, which never fall.
    let starves = "job_id,submit_s,gpus,iterations,iteration_ms,restart_s\n\
        long,0,8,800,1000,0\na,400,8,400,1000,0\nb,600,8,400,1000,0\nc,1000,8,400,1000,0\n";
    let one = ["--nodes", "1"];
    // The others end at 807, 1,207 and 1,607 s, and the first at 2,000 s.
    assert_eq!(mean_s(starves, &one), (2_000.0 + 407.0 + 607.0 + 607.0) / 4.0);
    // At 814 s it has waited for as long as it ran, and is before the last one again: it ends at 1,600 s, and that one at 2,000 s.
    assert_eq!(mean_s(starves, &[&one[..], &["--promote", "1"]].concat()), (1_600.0 + 407.0 + 607.0 + 1_000.0) / 4.0);
    // A knob that large promotes nobody.
    assert_eq!(mean_s(starves, &[&one[..], &["--promote", "9.5"]].concat()), mean_s(starves, &one));
    // Two GPUs of each of two hosts are left to the third.
    let parts = "job_id,submit_s,gpus,iterations,iteration_ms,restart_s\na,0,6,100,1000,0\nb,0,6,100,1000,0\nc,0,4,100,1000,0\n";
    let two = ["--nodes", "2"];
    assert_eq!(mean_s(parts, &two), 100.0);
    assert_eq!(mean_s(parts, &[&two[..], &["--consolidate"]].concat()), 400.0 / 3.0);
}

#[test]
fn options_of_tiresias_are_refused_where_they_do_nothing() {
    let refuse = |more: &[&str]| refused(&[&["sim", "run", "--trace", "trace.csv"], more].concat(), b"");
    assert_eq!(refuse(&["--policy", "srsf", "--promote", "1"]), "--promote: --policy srsf has no queues");
    assert_eq!(refuse(&["--policy", "gandiva", "--consolidate"]), "--consolidate: --policy gandiva has no queues");
    assert_eq!(refuse(&["--policy", "gavel", "--consolidate"]), "--consolidate: --policy gavel has no use for it");
    for wrong in ["0", "-1", "1001", "soon", "NaN"] {
        let run = antiphase(&["sim", "run", "--trace", "trace.csv", "--policy", "tiresias", &format!("--promote={wrong}")]);
        let said = format!("invalid value '{wrong}' for '--promote <FACTOR>': expected a number from 0.001 to 1000");
        assert!(run.code == Some(2) && run.stderr.contains(&said), "{}", run.stderr);
    }
}
