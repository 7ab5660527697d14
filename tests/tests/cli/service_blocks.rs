//! The commands of the documents that ask a running service: each page's blocks run as they are written, in their order.
//!
//! What a reader does by hand is done here: the service of a page is started from the page's own line, on a free port.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Child, Command, Stdio},
};

use antiphase_tests::checkout;

use crate::{process::program, scratch::Scratch};

/// Pages with such blocks, and what they take for granted: files of the reader's own, and jobs that run.
const PAGES: &[(&str, &str)] = &[
    ("README.md", ""),
    ("docs/scheduler-author.md", ""),
    ("docs/scheduler.md", ""),
    ("docs/operator.md", ""),
    (
        "docs/operating.md",
        r#"cp examples/testbed/fabric.yaml fabric.yaml
cp examples/two-jobs.json scenario.json
curl -s -H 'content-type: application/json' -d '{"jobs": [{"id": "a", "model": {"name": "vgg16"}, "hosts": ["h1", "h5"]}]}' http://127.0.0.1:7480/v1alpha1/commit"#,
    ),
];

/// What begins a line that is not for this test: programs are built by it already, and examples are there.
const BUILDS: [&str; 4] = ["cargo ", "make ", "PYTHONPATH=", "cp -r /usr/share/doc/"];

/// What makes a block one that asks a service.
const ASKS: [&str; 5] = ["curl ", "antiphase submit", "antiphase withdraw", "antiphase serve", "antiphase fabric set"];

/// What a page starts where it has no line for it.
const SERVE: &str = "antiphase serve --state antiphase.redb --fabric examples/testbed/fabric.yaml";

/// The address in the documents.
const ADDRESS: &str = "127.0.0.1:7480";

/// `antiphase`, of which some commands go on until somebody ends them.
const ANTIPHASE: &str = r#"#!/bin/sh
case " $* " in
*" --watch "* | *" top "* | *" --follow "*) timeout 3 "$PROGRAM" "$@"; code=$?; [ $code = 124 ] || exit $code ;;
*) exec "$PROGRAM" "$@" ;;
esac
"#;

/// `curl`, which fails where the service refuses; a stream of events ends by its time.
const CURL: &str = r#"#!/bin/sh
PATH=$OLD_PATH curl --fail-with-body --max-time 5 "$@"; code=$?
case " $* " in
*" -sN "*) [ $code = 28 ] || exit $code ;;
*) exit $code ;;
esac
"#;

/// The blocks of a page that ask a service, without the indentation of lists.
fn blocks(markdown: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut inside: Option<(usize, String)> = None;
    for line in markdown.lines() {
        let fence = line.trim_start().strip_prefix("```");
        inside = match (inside, fence) {
            (None, Some("sh" | "")) => Some((line.len() - line.trim_start().len(), String::new())),
            // Other languages end at a fence too, and are of no matter.
            (None, Some(_)) => Some((usize::MAX, String::new())),
            (Some((_, block)), Some(_)) => {
                blocks.push(block);
                None
            }
            (Some((indent, mut block)), None) => {
                if indent != usize::MAX {
                    block.push_str(line.get(indent..).unwrap_or_default());
                    block.push('\n');
                }
                Some((indent, block))
            }
            (None, None) => None,
        };
    }
    let asks = |block: &String| ASKS.iter().any(|word| block.contains(word));
    blocks.into_iter().filter(asks).collect()
}

/// A page's lines: the one that starts the service, and the script of the others.
fn script(markdown: &str) -> (String, String) {
    let (mut serve, mut script) = (None, String::new());
    for line in blocks(markdown).iter().flat_map(|block| block.lines()) {
        if line.starts_with("antiphase serve ") {
            serve = Some(line.to_owned());
        } else if !BUILDS.iter().any(|begin| line.starts_with(begin)) {
            script.push_str(line);
            script.push('\n');
        }
    }
    (serve.unwrap_or_else(|| SERVE.to_owned()), script)
}

/// A service that ends with this.
struct Service(Child, String);

impl Service {
    fn start(line: &str, folder: &Path) -> Self {
        let mut command = Command::new(program());
        command.args(line.split_whitespace().skip(1)).current_dir(folder).env("ANTIPHASE_TOPOLOGY_LISTEN", "127.0.0.1:0");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program runs");
        let mut said = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut said).expect("the service speaks");
        let address = said.trim().rsplit("//").next().unwrap_or_default().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{line}: {said:?}");
        Self(child, address)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a page, and says what failed.
fn run(markdown: &str, before: &str, name: &str) -> Result<(), String> {
    let scratch = Scratch::new(name);
    let folder = scratch.folder();
    symlink(checkout().join("examples"), folder.join("examples")).expect("a link");
    for (name, text) in [("antiphase", ANTIPHASE), ("curl", CURL)] {
        fs::create_dir_all(folder.join("bin")).expect("a folder");
        fs::write(folder.join("bin").join(name), text).expect("a file");
        fs::set_permissions(folder.join("bin").join(name), fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let (serve, script) = script(markdown);
    let service = Service::start(&serve, folder);
    let script = format!("{before}\n{script}").replace(ADDRESS, &service.1);
    let path = std::env::var("PATH").expect("PATH is set");
    let mut shell = Command::new("sh");
    shell.args(["-exc", &script]).current_dir(folder).env("PROGRAM", program()).env("OLD_PATH", &path);
    shell.env("PATH", format!("{}:{path}", folder.join("bin").display())).env("ANTIPHASE_SERVER", format!("http://{}", service.1));
    let output = shell.output().expect("there is a shell");
    if output.status.success() {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().rev().take(4).collect::<Vec<_>>().join("\n");
    Err(format!("{}\n{}", text(&output.stderr), text(&output.stdout)))
}

#[test]
fn every_block_that_asks_a_service_runs_as_it_is_written() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: curl is not installed, so the blocks of the documents were not run");
        return;
    }
    for (page, before) in PAGES {
        let markdown = fs::read_to_string(checkout().join(page)).expect("the page is there");
        assert!(!blocks(&markdown).is_empty(), "{page} has no block that asks a service");
        let ran = run(&markdown, before, "blocks");
        assert_eq!(ran, Ok(()), "{page}");
    }
}

#[test]
fn a_block_that_fails_is_found() {
    let page = "```sh\nantiphase serve --state x.redb --fabric examples/testbed/fabric.yaml\n```\n- text\n\n  ```sh\n  S=http://127.0.0.1:7480\n  curl -s $S/moon\n  ```\n```json\ncurl\n```\n";
    let (serve, lines) = script(page);
    assert_eq!(
        (serve.as_str(), lines.as_str()),
        ("antiphase serve --state x.redb --fabric examples/testbed/fabric.yaml", "S=http://127.0.0.1:7480\ncurl -s $S/moon\n")
    );
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: curl is not installed");
        return;
    }
    let failed = run(page, "", "a-block-that-fails").unwrap_err();
    assert!(failed.contains("/moon") && failed.contains("not_found"), "{failed}");
}
