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
    let only = |pattern: &dyn Fn(&str) -> bool| whole.lines().filter(|l| pattern(l)).map(|l| format!("{l}\n")).collect::<String>();
    // All of it is about both jobs, but for what each of them takes.
    assert_eq!(explain(&["--candidate", "across", "--job", "left"]).ok(), only(&|l| !l.starts_with("right: ")));
    assert_eq!(explain(&["--candidate", "across", "--link", "leaf1->"]).ok(), only(&|l| l.starts_with("link ")));
    assert_eq!(explain(&["--candidate", "across", "--link", "nowhere"]).ok(), "no link that can be over capacity matches\n");
}

/// Who sets the pace and what the other pays, and where turns bring quiet only.
#[test]
fn turns_are_explained() {
    let of = |jobs: &str, more: &[&str]| antiphase(&[&["explain", "--fabric", "fabric.yaml", "--jobs", jobs], more].concat());
    expected::check("explain-near", &of("near-jobs.yaml", &[]));
    expected::check("explain-unlike", &of("unlike-jobs.yaml", &[]));
    expected::check("explain-quiet", &of("unlike-jobs.yaml", &["--objective", "quiet"]));
}

#[test]
fn what_is_not_there_is_named() {
    expected::check("explain-unknown-candidate", &explain(&["--candidate", "nobody"]));
    expected::check("explain-unknown-job", &explain(&["--job", "nobody"]));
}
