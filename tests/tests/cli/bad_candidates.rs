//! Candidates documents that `antiphase plan` refuses.

use crate::{
    process::document,
    refusal::{changed, refusals},
};

fn candidates(change: &str, to: &str) -> String {
    changed(&document("candidates.yaml"), change, to)
}

#[test]
fn every_candidates_document_is_refused_in_one_line() {
    let cases = [
        ("another schema", candidates("candidates/v1", "candidates/v2")),
        ("no schema", candidates("schema: antiphase.candidates/v1\n", "")),
        ("a jobs document", document("jobs.yaml")),
        ("no candidates", "schema: antiphase.candidates/v1\ncandidates: []\n".into()),
        ("unknown field", candidates("hosts: {}", "hosts: {}\n    score: 1")),
        ("key twice", candidates("hosts: {}", "hosts: {}\n    hosts: {}")),
        ("job twice", candidates("right: [h3, h4]", "left: [h3, h4]")),
        ("id twice", candidates("id: within", "id: across")),
        ("empty id", candidates("id: within", "id: ''")),
        ("id with an escape", candidates("id: within", r#"id: "\e[2J""#)),
        ("no hosts", candidates("    hosts: {}\n", "")),
        ("unknown job", candidates("right:", "wrong:")),
        ("unknown host", candidates("h4", "h9")),
        ("a switch as a host", candidates("h4", "spine1")),
        ("host twice", candidates("h4", "h3")),
        ("too few hosts", candidates("[h3, h4]", "[h3]")),
        ("too many hosts", candidates("[h3, h4]", "[h1, h3, h4]")),
        ("hosts that are a word", candidates("[h3, h4]", "h3")),
        ("an anchor", candidates("[h3, h4]", "&a [h3, h4]")),
    ];
    refusals("candidates", &["plan", "--fabric", "fabric.yaml", "--jobs", "jobs.yaml", "--candidates", "DOCUMENT"], cases);
}
