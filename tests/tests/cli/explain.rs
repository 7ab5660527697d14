//! `antiphase explain`.

use crate::{expected, process::antiphase};

const CLUSTER: [&str; 7] = ["explain", "--fabric", "fabric.yaml", "--jobs", "jobs.yaml", "--candidates", "candidates.yaml"];

fn explain(more: &[&str]) -> crate::process::Run {
    antiphase(&[&CLUSTER[..], more].concat())
}

#[test]
fn sentences_of_a_candidate_a_link_and_a_job() {
    expected::check("explain", &explain(&["--candidate", "across"]));
    let whole = explain(&["--candidate", "across"]).stdout;
    assert_eq!(explain(&["--candidate", "across", "--job", "left"]).ok(), whole);
    assert_eq!(explain(&["--candidate", "across", "--link", "leaf1->"]).ok(), whole);
    assert_eq!(explain(&["--candidate", "across", "--link", "nowhere"]).ok(), "no link that can be over capacity matches\n");
}

#[test]
fn what_is_not_there_is_named() {
    expected::check("explain-unknown-candidate", &explain(&["--candidate", "nobody"]));
    expected::check("explain-unknown-job", &explain(&["--job", "nobody"]));
}
