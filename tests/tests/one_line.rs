//! Every reader of documents, against names that leave the line: whatever a document holds, its refusal is one line.
//!
//! The program escapes what it prints once more, so these tests ask the libraries.

use std::fmt::Display;

use serde_json::json;

/// What ends a line in one program or another, moves a cursor, or turns the direction of reading.
const HOSTILE: [char; 9] = ['\n', '\r', '\t', '\u{0}', '\u{1b}', '\u{85}', '\u{2028}', '\u{2029}', '\u{202e}'];

/// The error of a reader that must refuse.
fn said<T>(read: Result<T, impl Display>) -> String {
    read.err().expect("a document with an unknown key or value is refused").to_string()
}

/// A document of its kind with `name` where a key is looked up, and the reader's answer. Quoted as JSON it is right in YAML and TOML.
type Refusal = fn(name: &str, quoted: &str) -> String;

fn no_files(path: &str) -> Result<String, String> {
    Err(format!("no file {path}"))
}

fn on_testbed(text: &str) -> String {
    let fabric = fabric::generate::cassini24().expect("the paper's testbed");
    let doc = job::JobDoc::parse(text).expect("a document of a job");
    said(job::Reader::new(&fabric, &no_files).job(&doc, None))
}

/// Keys and values of documents whose reader repeats them.
const REPEATED: [(&str, Refusal); 21] = [
    ("scenario, key", |_, q| said(circle::scenario::Scenario::parse(&format!(r#"{{{q}: 1}}"#)))),
    ("scenario, schema", |_, q| said(circle::scenario::Scenario::parse(&format!(r#"{{"schema":{q},"tick_ns":1,"links":[],"jobs":[]}}"#)))),
    ("fabric, key", |_, q| said(fabric::native::read(&format!("{q}: 1\n")))),
    ("fabric, key in JSON", |_, q| said(fabric::native::read(&format!("{{\"schema\": \"antiphase.fabric/v1\", {q}: 1}}")))),
    ("fabric, name", |_, q| said(fabric::native::read(&format!("schema: antiphase.fabric/v1\nname: {q}\nhosts: [{q}, {q}]\n")))),
    ("profile, key in JSON", |_, q| said(profile::parse(&format!(r#"{{{q}: 1}}"#)))),
    ("profile, key in YAML", |_, q| said(profile::parse(&format!("{q}: 1\n")))),
    ("profile, schema", |_, q| said(profile::parse(&format!("schema: {q}\n")))),
    ("jobs, key", |_, q| said(job::JobsDoc::parse(&format!("{q}: 1\n")))),
    ("jobs, key in JSON", |_, q| said(job::JobsDoc::parse(&format!(r#"{{"schema": "antiphase.jobs/v1", "jobs": [{{{q}: 1}}]}}"#)))),
    ("jobs, id", |_, q| on_testbed(&format!("{{id: {q}, hosts: [h1, h2]}}"))),
    ("jobs, host", |_, q| on_testbed(&format!("{{id: a, model: {{name: vgg16}}, hosts: [h1, {q}]}}"))),
    ("jobs, model", |_, q| on_testbed(&format!("{{id: a, model: {{name: {q}}}, hosts: [h1, h2]}}"))),
    ("jobs, profile_file", |_, q| on_testbed(&format!("{{id: a, profile_file: {q}, hosts: [h1, h2]}}"))),
    ("candidates, key", |_, q| said(job::CandidatesDoc::parse(&format!("{q}: 1\n")))),
    ("case, key", |_, q| said(lab::case::Case::read(&format!("{q}: 1\n"), &no_files))),
    ("case, fabric_file", |_, q| {
        let text = format!("schema: antiphase.lab/v1\nname: a\nfabric_file: {q}\njobs: []\n");
        said(lab::case::Case::read(&text, &no_files))
    }),
    ("server, key", |_, q| said(server::config::Config::parse(&format!("{q} = 1\n")))),
    ("agent, key", |_, q| said(agent::config::Config::parse(&format!("{q} = 1\n")))),
    ("agent, page_dir", |_, q| said(agent::config::Config::parse(&format!("host = \"a\"\npage_dir = {q}\n")))),
    ("importer of SONiC", |_, q| said(fabric::import::sonic::config_db("a", &format!(r#"{{"PORT": {{{q}: {{"speed": "x"}}}}}}"#)))),
];

/// Readers that say what is wrong without repeating it.
const NOT_REPEATED: [(&str, Refusal); 7] = [
    ("importer of LLDP", |_, q| said(fabric::import::lldp::report("a", &format!(r#"{{"lldp": {{"interface": {{{q}: 7}}}}}}"#)))),
    ("importer of Topograph", |_, q| said(fabric::import::topograph::graph(&format!(r#"{{"instances": [{{"id": {q}}}, {{{q}: 1}}]}}"#)))),
    ("importer of containerlab", |_, q| said(fabric::import::containerlab::topology(&format!("{q}: 1\n")))),
    ("importer of topology.yaml", |_, q| said(fabric::import::slurm::topology_yaml(&format!("- {q}: 1\n"), None))),
    ("importer of topology.yaml, name", |n, _| said(fabric::import::slurm::topology_yaml("- {topology: a, flat: true}\n", Some(n)))),
    ("importer of topology.conf", |n, _| said(fabric::import::slurm::topology_conf(&format!("Switch{n}Name=a\n")))),
    ("importer of topo.csv", |n, _| said(fabric::import::lingjun::topo_csv(&format!("\"{n}\",b\n1,2\n")))),
];

#[test]
fn no_name_makes_two_lines_of_a_refusal() {
    for hostile in HOSTILE {
        let name = format!("one{hostile}two");
        // serde_json escapes control characters only; TOML and YAML read its escapes.
        let quoted = json!(name).to_string();
        for (kind, refusal) in REPEATED.iter().chain(&NOT_REPEATED) {
            let line = refusal(&name, &quoted);
            assert!(!line.contains(HOSTILE) && !line.chars().any(char::is_control), "{kind}, {hostile:?}: {line:?}");
        }
        for (kind, refusal) in REPEATED {
            let line = refusal(&name, &quoted);
            let escaped = format!("one{}two", hostile.escape_debug());
            assert!(line.contains(&escaped), "{kind}, {hostile:?}: {line:?} does not say {escaped}");
        }
    }
}
