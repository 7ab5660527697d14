//! Jobs of a trace that have Gandiva's turns by their weights: a hand-computed case.

use antiphase_sim::trace::{Format, Setup, TraceError, read, run};
use policy::{
    muri::Timing,
    schedule::{Cluster, GandivaOptions, Rule},
};

const TRACE: &str = "job_id,submit_s,gpus,iterations,iteration_ms,restart_s,weight\na,0,8,300,1000,0,2\nb,0,8,300,1000,0,\n";

fn jct_s(text: &str, rule: Rule) -> Vec<f64> {
    let cluster = Cluster { hosts: 1, gpus_per_host: 8 };
    run(&read(Format::Antiphase, text).unwrap(), &Setup { cluster, rule, timing: Timing::Paper, network: None, faults: None })
        .unwrap()
        .jct_s
}

#[test]
fn a_job_of_twice_the_weight_has_twice_the_time() {
    let gandiva = Rule::Gandiva(GandivaOptions::default());
    let close = |found: Vec<f64>, expected: [f64; 2]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} in place of {expected:?}");
    };
    // Both compute, so they take turns. Two thirds of the time, 2 % for switching: 300 iterations of 1.53 s. By then the other has done half of its own
    // at 3.06 s each, and goes on alone.
    close(jct_s(TRACE, gandiva), [459.0, 459.0 + 150.0]);
    close(jct_s(&TRACE.replace(",0,2\n", ",0,1\n"), gandiva), [612.0, 612.0]);
    // Where nobody takes turns nobody looks at weights.
    assert_eq!(jct_s(TRACE, Rule::Fifo), [300.0, 600.0]);
}

#[test]
fn a_weight_that_is_none_is_refused() {
    for wrong in ["0", "-1", "1.5", "1001", "heavy"] {
        let refused: TraceError = read(Format::Antiphase, &TRACE.replace(",0,2\n", &format!(",0,{wrong}\n"))).unwrap_err();
        assert!(refused.to_string().starts_with(&format!("line 2: weight {wrong:?} must be a whole number")), "{refused}");
    }
}
