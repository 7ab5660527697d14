//! Waiting for what may never answer: file systems, drivers, programs.

use std::{
    io::{self, Read},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

/// Most of what a program prints that is kept.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// How often a program is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Work that was begun.
pub(super) struct Begun<T>(Receiver<T>);

/// Begins work on a thread of its own, which is left behind if it hangs: it ends with the program.
pub(super) fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Begun<T> {
    let (done, begun) = mpsc::channel();
    // A thread that cannot be made drops its end of the channel, and the work counts as not done.
    let _ = thread::Builder::new().spawn(move || drop(done.send(work())));
    Begun(begun)
}

impl<T> Begun<T> {
    /// What came of it, if it is done by then.
    pub(super) fn by(self, deadline: Instant) -> Option<T> {
        self.0.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }
}

/// What a program did.
#[derive(Debug)]
pub(super) struct Ran {
    /// Its exit code; `None`: a signal ended it, or its time was over.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    /// The last line of its standard error.
    pub(super) error: String,
}

/// Runs a program for so long at most.
pub(super) fn run(command: &mut Command, at_most: Duration) -> io::Result<Ran> {
    let deadline = Instant::now() + at_most;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // A child of the child may hold the pipes open for ever, so they are read beside the wait.
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = (begin(move || text(stdout)), begin(move || text(stderr)));
    let mut code = None;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            code = status.code();
            break;
        }
        thread::sleep(LOOK);
    }
    // Of one that has ended nothing is left to kill.
    let _ = child.kill();
    let until = deadline + LOOK;
    let error = stderr.by(until).unwrap_or_default();
    let error = error.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    Ok(Ran { code, stdout: stdout.by(until).unwrap_or_default(), error })
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What cannot be read was not said.
    let _ = pipe.map(|pipe| pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_waited_for_longer_than_was_said() {
        let began = Instant::now();
        let hung = begin(|| thread::sleep(Duration::from_secs(600)));
        assert!(hung.by(began + Duration::from_millis(50)).is_none());
        let ran = run(Command::new("sh").args(["-c", "echo out; echo one >&2; echo two >&2; exit 3"]), Duration::from_secs(20)).unwrap();
        assert_eq!((ran.code, ran.stdout.as_str(), ran.error.as_str()), (Some(3), "out\n", "two"));
        // The shell's child keeps the pipes open for 20 s after the shell was killed.
        let began = Instant::now();
        let ran = run(Command::new("sh").args(["-c", "sleep 20 & sleep 20"]), Duration::from_millis(100)).unwrap();
        assert_eq!(ran.code, None);
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        assert!(run(&mut Command::new("/nowhere/program"), Duration::from_secs(1)).is_err());
    }
}
