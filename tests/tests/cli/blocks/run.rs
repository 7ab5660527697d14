//! Runs what a page tells its reader to do.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Child, Command, Stdio},
};

use antiphase_tests::checkout;

use super::{
    find::{Block, blocks},
    pages::{Check, EVERYWHERE, Page},
};
use crate::{process::program, scratch::Scratch};

/// The address in the documents.
const ADDRESS: &str = "127.0.0.1:7480";

/// Begins a line that starts the service, which here runs before the others and on a free port.
const SERVE: &str = "antiphase serve ";

/// What of the repository is beside a reader.
const BESIDE: [&str; 5] = ["agent", "clients", "examples", "integrations", "topology"];

/// `antiphase` and `antiphase-agent`, of which some commands go on until somebody ends them.
const ENDED: &str = r#"#!/bin/sh
case "${0##*/} $* " in
*" --watch "* | *" top "* | *" --follow "*) endless=1 ;;
"antiphase-agent "*" config check "*) endless= ;;
"antiphase-agent "*) endless=1 ;;
*) endless= ;;
esac
[ "$endless" ] || exec "$BUILT/${0##*/}" "$@"
said=$(mktemp)
timeout 3 "$BUILT/${0##*/}" "$@" >"$said" 2>&1; code=$?
cat "$said"
[ $code = 124 ] || exit $code
[ -s "$said" ] || { echo "$* said nothing in 3 s" >&2; exit 1; }
"#;

/// `curl`, which fails where the service refuses; a stream of events ends by its time.
const CURL: &str = r#"#!/bin/sh
case " $* " in
*" -sf "*) fail= ;;
*) fail=--fail-with-body ;;
esac
case " $* " in
*" -sN "*) heads=$(mktemp); PATH=$OLD_PATH curl $fail --max-time 5 --dump-header "$heads" "$@"; code=$? ;;
*) PATH=$OLD_PATH exec curl $fail --max-time 30 "$@" ;;
esac
[ $code = 28 ] || exit $code
grep -q "^HTTP[^ ]* 200" "$heads" || { echo "$* was not answered in 5 s" >&2; exit 1; }
"#;

/// Runs a program in Python that needs PyTorch, where there is one.
const TORCH: &str = r#"#!/bin/sh
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import torch.distributed as d; assert hasattr(d, "ProcessGroupGloo")' 2>/dev/null; then exec "$python" -; fi
done
echo "skipped: no python3 has PyTorch with gloo (Debian: python3-torch), so a block of Python was not run"
"#;

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

/// Why a line of a block does not run here.
pub(super) fn excepted(page: &Page, line: &str) -> Option<&'static str> {
    EVERYWHERE.iter().chain(page.except).find(|(begin, _)| line.starts_with(begin)).map(|(_, why)| *why)
}

/// How a block of a page is checked where it is not simply run.
pub(super) fn check<'a>(page: &'a Page, block: &Block) -> Option<&'a Check> {
    page.checked.iter().find(|(part, _)| block.text.contains(part)).map(|(_, check)| check)
}

/// What still holds of a line that does not run here: our programs take its options, and the Makefile has its target.
fn spelled(line: &str) -> String {
    let words = [" #", " >", " |", " &"].iter().fold(line, |line, end| line.split_once(end).map_or(line, |(words, _)| words));
    match words.split_whitespace().next() {
        Some(word) if word.starts_with("antiphase") => format!("{words} --help >help\n"),
        Some("make") => format!("make --dry-run --directory \"$REPOSITORY\"{} >help\n", &words["make".len()..]),
        _ => String::new(),
    }
}

/// A page as one script: the line that starts its service, the script, and what its commands have to print, in the order of `said.N`.
fn script(page: &Page, markdown: &str) -> (String, String, Vec<String>) {
    let (mut serve, mut script, mut prints) = (page.serve.to_owned(), String::new(), Vec::new());
    for (number, block) in blocks(markdown).iter().enumerate() {
        if let Some(check) = check(page, block) {
            if let Check::Run(commands) = check {
                // The block as a file, which the commands name.
                let _ = writeln!(script, "cat >block <<'END OF BLOCK {number}'\n{}END OF BLOCK {number}\n( {commands} )", block.text);
            }
            continue;
        }
        if !block.is_shell() {
            continue;
        }
        for (command, said) in block.commands() {
            let mut kept = String::new();
            for line in command.lines() {
                if line.starts_with(SERVE) {
                    line.clone_into(&mut serve);
                } else if excepted(page, line).is_some() {
                    kept += &spelled(line);
                } else {
                    kept += line;
                    kept.push('\n');
                }
            }
            if !said.is_empty() {
                kept = format!("{{ {kept} }} >said.{}\n", prints.len());
                prints.push(said);
            }
            script += &kept;
        }
    }
    for (theirs, ours, _) in page.instead {
        script = script.replace(theirs, ours);
    }
    (serve, format!("{}\n{script}", page.before), prints)
}

/// The folder in which a page runs: the repository's folders, programs, and nothing else.
fn prepare(folder: &Path) {
    for name in BESIDE {
        symlink(checkout().join(name), folder.join(name)).expect("a link");
    }
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    for (name, text) in
        [("antiphase", ENDED), ("antiphase-agent", ENDED), ("antiphase-topology", ENDED), ("curl", CURL), ("python-with-torch", TORCH)]
    {
        fs::write(bin.join(name), text).expect("a file");
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).expect("its mode");
    }
}

/// Lines without spaces at their ends, and without empty ones behind the last.
fn trimmed(text: &str) -> String {
    text.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Runs a page, and says what failed. What was skipped is printed.
pub(super) fn run(page: &Page, markdown: &str) -> Result<(), String> {
    let scratch = Scratch::new(&page.path.replace(['/', '.'], "-"));
    let folder = scratch.folder();
    prepare(folder);
    let (serve, script, prints) = script(page, markdown);
    let service = (!serve.is_empty()).then(|| Service::start(&serve, folder));
    let address = service.as_ref().map_or(ADDRESS, |service| &service.1);
    let path = std::env::var("PATH").expect("PATH is set");
    let mut shell = Command::new("sh");
    let script = script.replace(ADDRESS, address);
    let built = program().parent().expect("a program is in a folder");
    shell.args(["-exc", &script]).current_dir(folder).env("BUILT", built).env("OLD_PATH", &path).env("PYTHONDONTWRITEBYTECODE", "1");
    shell.env("ANTIPHASE_GATE_LIBRARY", built.join("libantiphase_gate.so")).env("GLOO_SOCKET_IFNAME", "lo");
    shell.env("HERE", folder).env("REPOSITORY", checkout());
    shell.env("PATH", format!("{}:{path}", folder.join("bin").display())).env("ANTIPHASE_SERVER", format!("http://{address}"));
    let output = shell.stdin(Stdio::null()).output().expect("there is a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout);
    said.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| println!("{line}"));
    if !output.status.success() {
        let end = |text: &str| text.lines().rev().take(6).map(|line| line.chars().take(400).collect()).collect::<Vec<String>>().join("\n");
        return Err(format!("{}\n{}", end(&text(&output.stderr)), end(&said)));
    }
    for (number, expected) in prints.iter().enumerate() {
        let found = fs::read_to_string(folder.join(format!("said.{number}"))).expect("a command wrote it");
        if trimmed(&found) != trimmed(expected) {
            return Err(format!("the page says that a command prints\n{expected}\nand it prints\n{found}"));
        }
    }
    Ok(())
}
