//! Other processes of a test: this program again, with [`MODE`] set.

use std::{
    env,
    ffi::OsString,
    hint,
    io::{BufRead, BufReader, Write, stdout},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use antiphase_gate::{Gate, NoteReader, PageReader, PageWriter, StepOutcome, exec, now};
use gate_core::{NoteKind, Permit, Schedule};
use rustix::process::{Pid, Signal, kill_process};
use units::{Nanos, NodeTime};

use crate::{
    ends::{JOB, config, due_far, ms},
    turns::turns,
};

/// What the process is to do; without it, the entry below is a test that does nothing.
pub(crate) const MODE: &str = "ANTIPHASE_TEST_MODE";
const DIRECTORY: &str = "ANTIPHASE_TEST_DIR";

/// A process that is killed when the test ends.
pub(crate) struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(mode: &str, directory: &Path) -> Self {
        Self::spawn(&mut Command::new(env::current_exe().unwrap()), mode, directory)
    }

    /// As another user, from a place where that user can run it.
    pub(crate) fn start_as(user: u32, program: &Path, mode: &str, directory: &Path) -> Self {
        Self::spawn(Command::new(program).uid(user).current_dir("/"), mode, directory)
    }

    /// With a umask that takes every right from everybody else.
    pub(crate) fn start_with_umask(mode: &str, directory: &Path) -> Self {
        let program = env::current_exe().unwrap();
        Self::spawn(Command::new("/bin/sh").args(["-c", "umask 077; exec \"$0\" \"$@\""]).arg(program), mode, directory)
    }

    /// In a mount namespace of its own that has the pages for reading only, and their reports for writing, as a container should.
    pub(crate) fn start_in_container(mode: &str, directory: &Path) -> Self {
        let mounts = "mount --bind \"$1/reports\" \"$1/reports\" && mount --rbind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", mounts, "sh"]).arg(directory).arg(env::current_exe().unwrap());
        Self::spawn(&mut command, mode, directory)
    }

    fn spawn(command: &mut Command, mode: &str, directory: &Path) -> Self {
        command.args(["child::entry", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(MODE, mode).env(DIRECTORY, directory).stdout(Stdio::piped()).stdin(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line that the process means for us; the test harness in it prints others.
    pub(crate) fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the process ended without the line that was expected");
            // The harness prints the name of the test without an end of line, so ours may come after it.
            if let Some((_, ours)) = line.split_once("child: ") {
                return ours.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(line: &str) {
    println!("child: {line}");
    stdout().flush().unwrap();
}

fn describe(outcome: &StepOutcome) -> String {
    format!("{} held={} slip={} late={:?}", outcome.because, outcome.held.0 > 0, outcome.slip, outcome.late.map(|late| late / 1_000_000))
}

#[test]
fn entry() {
    let Some(mode) = env::var_os(MODE) else { return };
    let directory = PathBuf::from(env::var_os(DIRECTORY).unwrap());
    match mode.to_str().unwrap() {
        "agent" => agent(&directory),
        "hammer" => hammer(&directory, 0),
        "paced" => hammer(&directory, 64),
        "step" => {
            let gate = Gate::open(&config(&directory));
            say("ready");
            say(&describe(&gate.step()));
        }
        "shrink" => {
            let page = std::fs::OpenOptions::new().write(true).open(directory.join(format!("{JOB}.page")));
            say(&page.map_or_else(|error| format!("{:?}", error.kind()), |_| "opened".to_owned()));
            let gate = Gate::open(&config(&directory));
            let outcome = gate.step();
            gate.flush();
            say(&describe(&outcome));
        }
        "steps" => steps(&directory),
        "turns" => answer(&directory),
        "turns-hold" => hold_back(&directory),
        "bind" => {
            let _reader = NoteReader::bind(&directory).unwrap();
            say("bound");
            thread::park();
        }
        "now" => say(&format!("{} {}", env::var("ANTIPHASE_JOB").unwrap(), now().0)),
        "exec" => {
            let program = env::current_exe().unwrap().into_os_string().into_string().unwrap();
            // The process becomes the program, which sees another mode.
            let arguments = ["--job", JOB, "--dir", directory.to_str().unwrap(), "--", "/usr/bin/env", &format!("{MODE}=now"), &program];
            let test = ["child::entry", "--exact", "--nocapture"];
            let code = exec::run(arguments.iter().chain(&test).map(OsString::from));
            say(&format!("code {code}"));
        }
        "run" => {
            // What the job's scheduler would write: arguments in the environment of the test.
            let arguments = env::var("ANTIPHASE_TEST_ARGUMENTS").unwrap();
            let code = exec::run(arguments.split(' ').map(OsString::from));
            say(&format!("code {code}"));
        }
        other => panic!("unknown mode {other}"),
    }
}

/// Heartbeats each 20 ms; the plan counts as stale after a second.
fn agent(directory: &Path) {
    let plan = Schedule { stale_after: ms(1_000), ..due_far() };
    let mut page = PageWriter::create(directory, JOB).unwrap();
    page.write(&plan);
    say("ready");
    loop {
        page.write(&Schedule { written: now(), ..plan });
        thread::sleep(Duration::from_millis(20));
    }
}

/// Grants every start that is ready until killed, and says when.
fn answer(directory: &Path) {
    let mut page = PageWriter::create(directory, JOB).unwrap();
    page.write(&turns(0, 0, Permit::None));
    let reader = NoteReader::bind(directory).unwrap();
    say("ready");
    loop {
        match reader.recv() {
            Ok(Some(found)) if found.note.kind == NoteKind::Ready => {
                // Long enough that the gate sleeps, and shorter than it waits for an answer.
                page.write(&turns(found.note.writer, found.note.number, Permit::NotBefore(now().saturating_add(ms(20_000)))));
                thread::sleep(Duration::from_millis(1));
                let at = now();
                page.write_and_wake(&turns(found.note.writer, found.note.number, Permit::Go));
                say(&format!("granted {} {}", found.note.number, at.0));
            }
            Ok(_) => {}
            Err(_) => thread::sleep(Duration::from_micros(100)),
        }
    }
}

/// Holds the first start back and beats until killed; the page counts as stale after a second.
fn hold_back(directory: &Path) {
    let mut page = PageWriter::create(directory, JOB).unwrap();
    let mut plan = Schedule { stale_after: ms(1_000), ..turns(0, 0, Permit::None) };
    let reader = NoteReader::bind(directory).unwrap();
    page.write(&plan);
    say("ready");
    loop {
        if let Ok(Some(found)) = reader.recv() {
            plan.turn = turns(found.note.writer, found.note.number, Permit::NotBefore(now().saturating_add(ms(29_000)))).turn;
            page.write_and_wake(&plan);
        }
        page.write(&Schedule { written: now(), ..plan });
        thread::sleep(Duration::from_millis(2));
    }
}

/// Every number of the `n`th schedule, so that a mixture of two is seen.
pub(crate) fn uniform(n: u64) -> Schedule {
    Schedule {
        plan_version: n,
        slot: NodeTime(n),
        period: Nanos(n),
        tolerance: Nanos(n),
        hold_max: Nanos(n),
        slack: Nanos(n),
        expires: NodeTime(n),
        written: NodeTime(n),
        stale_after: Nanos(n),
        clock_bound: Nanos(n),
        ..Schedule::default()
    }
}

/// Writes until killed; between two writes it pauses for up to `pause` turns of an empty loop, a little differently each time,
/// because a page that is always being written cannot be read at all.
fn hammer(directory: &Path, pause: u64) {
    let mut page = PageWriter::create(directory, JOB).unwrap();
    page.write(&uniform(0));
    say("ready");
    for n in 1.. {
        page.write(&uniform(n));
        (0..n % (pause + 1)).for_each(|_| hint::spin_loop());
    }
}

/// Steps until killed, with a moment between, and says each outcome.
fn steps(directory: &Path) {
    let gate = Gate::open(&config(directory));
    assert!(PageReader::open(directory, config(directory).job.as_ref().unwrap()).is_ok());
    loop {
        say("coming");
        say(&describe(&gate.step()));
        thread::sleep(Duration::from_millis(50));
    }
}
