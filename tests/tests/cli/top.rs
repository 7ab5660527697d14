//! `antiphase status` and `antiphase top` against the real service; `top` in a pseudo terminal, which `script` makes.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use antiphase_tests::checkout;

use crate::{doctor::Service, process::program, scratch::Scratch};

/// Longest wait for what the terminal is to show, on a busy machine.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);
/// Begins and ends the other screen of a terminal.
const SCREEN: &str = "\x1b[?1049h";
const SCREEN_ENDS: &str = "\x1b[?1049l";

/// `antiphase top` in a terminal of 90 x 24.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    /// Nothing without `script`.
    fn start(service: &Service) -> Option<Self> {
        let (program, url) = (program().display(), &service.url);
        let line = format!("echo TTY=$(tty); stty cols 90 rows 24; exec timeout 60 {program} top --server {url}");
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
        let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
            println!("skipped: there is no `script` here (Debian: bsdutils), so top was not run in a terminal");
            return None;
        };
        let keys = child.stdin.take().expect("invariant: a pipe was asked for");
        let mut stdout = child.stdout.take().expect("invariant: a pipe was asked for");
        let shown = Arc::new(Mutex::new(String::new()));
        let write = Arc::clone(&shown);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            // The end of the terminal is an end or an error, whichever the kernel likes.
            while let Ok(read @ 1..) = stdout.read(&mut piece) {
                write.lock().expect("nobody panics with it").push_str(&String::from_utf8_lossy(&piece[..read]));
            }
        });
        Some(Self { child, keys, shown })
    }

    fn shown(&self) -> String {
        self.shown.lock().expect("nobody panics with it").clone()
    }

    fn until(&self, part: &str) {
        let until = Instant::now() + SHOWN_WITHIN;
        while !self.shown().contains(part) {
            assert!(Instant::now() < until, "{part:?} is not in {:?}", self.shown());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
        self.keys.flush().expect("the terminal takes keys");
    }

    /// Another size, after which everything is drawn anew: the screen is cleared once more. One change only, because `stty` tells the program
    /// of each.
    fn resize(&self) {
        let shown = self.shown();
        let cleared = |shown: &str| shown.matches("\x1b[2J").count();
        let tty = shown.split_once("TTY=").and_then(|(_, rest)| rest.split_whitespace().next()).expect("the shell names its terminal");
        let resized = Command::new("stty").args(["-F", tty, "cols", "100"]).status();
        assert!(resized.is_ok_and(|status| status.success()), "stty does not resize {tty}");
        let until = Instant::now() + SHOWN_WITHIN;
        while cleared(&self.shown()) == cleared(&shown) {
            assert!(Instant::now() < until, "nothing is drawn anew in {:?}", self.shown());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().expect("the terminal ends").code();
        (code, self.shown())
    }
}

fn with_jobs(name: &str) -> Service {
    let service = Service::start(name);
    let commit = service.ask(&["commit", "--jobs", "examples/testbed/jobs.yaml", "--candidates", "examples/testbed/candidates.yaml"]);
    commit.expect(0);
    service
}

/// By score two candidates with shifts that nothing contradicts come first; by time one comes first in which fewer iterations are longer.
#[test]
fn candidates_are_ranked_by_what_is_asked_for() {
    let service = Service::with("ranked", &["--ecmp", "hashed:3"]);
    let scratch = Scratch::new("ranked-candidates");
    let all = fs::read_to_string(checkout().join("examples/testbed/candidates.yaml")).expect("it can be read");
    let (head, entries) = all.split_once("\n- id: ").expect("invariant: the document has candidates");
    // The one that is first by both is left out.
    let others: String =
        entries.split("\n- id: ").filter(|entry| !entry.starts_with("side-by-side")).map(|e| format!("\n- id: {e}")).collect();
    fs::write(scratch.path("candidates.yaml"), format!("{head}{others}\n")).expect("it can be written");
    let file = scratch.path("candidates.yaml");
    let first = |objective: &[&str]| {
        let asked = [&["evaluate", "--jobs", "examples/testbed/jobs.yaml", "--candidates", &file, "-o", "json"], objective].concat();
        service.ask(&asked).json()["ranked"][0]["id"].clone()
    };
    assert_eq!((first(&[]), first(&["--objective", "time"])), ("half".into(), "crowded".into()));
    let commit = ["commit", "--jobs", "examples/testbed/jobs.yaml", "--candidates", &file, "--objective", "time"];
    assert!(service.ask(&commit).ok().starts_with("candidate crowded\n"));
    service.ask(&["commit", "--jobs", "examples/testbed/jobs.yaml", "--objective", "time"]).expect(2);
}

#[test]
fn status_says_on_one_screen_what_is_in_force_and_wrong() {
    let service = with_jobs("status");
    let said = service.ask(&["status"]);
    let text = said.ok();
    assert!(text.lines().count() <= 24, "{text}");
    for part in ["ready, plan version 2", "24 hosts, 96 links", "in force  nothing: ", "agents    none", "worst     "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = service.ask(&["status", "-o", "json"]).json();
    assert!(
        json["schema"] == "antiphase.status/v1"
            && json["ready"] == true
            && json["wrong"] == serde_json::json!(["no agent is connected: these jobs are neither held nor measured"]),
        "{json}"
    );
}

#[test]
fn what_goes_on_ends_with_its_reader_and_clears_no_pipe() {
    let service = with_jobs("reader");
    for arguments in [["top"].as_slice(), &["links", "--watch"]] {
        let mut command = Command::new(program());
        let mut child = command.args(arguments).args(["--server", &service.url]).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut first = [0; 64];
        let mut stdout = child.stdout.take().expect("invariant: a pipe was asked for");
        let read = stdout.read(&mut first).expect("it prints");
        assert!(read > 0 && !first.contains(&0x1b), "{}", String::from_utf8_lossy(&first));
        // What `head` does when it has enough.
        drop(stdout);
        let until = Instant::now() + SHOWN_WITHIN;
        let status = loop {
            if let Some(status) = child.try_wait().expect("it can be waited for") {
                break status;
            }
            if Instant::now() > until {
                child.kill().expect("it can be ended");
                panic!("{arguments:?} goes on though nobody reads");
            }
            thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{arguments:?}: {status}");
    }
}

#[test]
fn top_is_a_program_for_a_terminal_and_text_elsewhere() {
    let service = with_jobs("top");
    let plain = service.ask(&["top", "--count", "1"]);
    assert!(plain.ok().starts_with("plan version 2\n\nLINK") && !plain.stdout.contains('\u{1b}'), "{}", plain.stdout);
    assert!(plain.stdout.contains("\n\nno agent has connected\n\nJOB"), "{}", plain.stdout);
    let Some(mut terminal) = Terminal::start(&service) else { return };
    // Keys that come before the screen are the shell's.
    terminal.until(SCREEN);
    terminal.until("nothing is in force");
    terminal.until("SCORE \u{25b2}");
    terminal.press("2");
    terminal.until("LONGER \u{25bc}");
    // Keys that come in the same instant as another size wait for the next key (crossterm reads the terminal at its edges), so the
    // screen is drawn anew first.
    terminal.resize();
    terminal.press("/wrn\r\rsrq");
    terminal.until(SCREEN_ENDS);
    let (code, said) = terminal.end();
    assert_eq!(code, Some(0), "{said:?}");
}

#[test]
fn top_without_a_service_is_one_line_and_no_screen() {
    let mut service = Service::start("top-gone");
    service.kill();
    let plain = service.ask(&["top"]);
    assert_eq!((plain.code, plain.stdout.as_str(), plain.stderr.lines().count()), (Some(1), "", 1), "{}", plain.stderr);
    let Some(terminal) = Terminal::start(&service) else { return };
    terminal.until("no service runs here");
    let (code, said) = terminal.end();
    assert!(code == Some(1) && !said.contains(SCREEN), "{said:?}");
}
