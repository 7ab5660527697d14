//! Threads without which the service would look alive and do nothing.
//!
//! A thread that panics ends alone: its queue closes, whoever asks it waits or is told that the service is stopping, and nobody starts
//! it again. So the process ends at once, as if it had been killed: what was acknowledged is in the state file, agents keep their
//! plans, and whoever started the service starts it again.

use std::{
    cell::Cell,
    io, panic, process,
    sync::Once,
    thread::{Builder, JoinHandle},
};

thread_local! {
    /// Whether a panic of this thread ends the process.
    static IS_VITAL: Cell<bool> = const { Cell::new(false) };
}

/// Starts a thread whose panic ends the process.
///
/// # Errors
/// The operating system has no thread to give.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    static HOOK: Once = Once::new();
    // A hook and no `catch_unwind`: the process has to end before anything that the panic left half done is dropped, such as an open
    // state file.
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            before(panicked);
            if IS_VITAL.get() {
                let thread = std::thread::current();
                let name = thread.name().unwrap_or_default();
                tracing::error!(thread = name, "a thread that the service needs has panicked: this is a defect, and the service ends");
                process::abort();
            }
        }));
    });
    Builder::new().name(name.into()).spawn(move || {
        IS_VITAL.set(true);
        work();
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        os::unix::process::ExitStatusExt as _,
        process::{Command, Output},
        time::Duration,
    };

    use super::*;

    /// Tells a test that it is the process that has to end.
    const CHILD: &str = "ANTIPHASE_TEST_PANICS";
    /// SIGABRT (signal(7)).
    const ABORTED: i32 = 6;

    /// Runs `dies` in a process of its own, by the test `name` of this program, and says how that ended. `None`: this is that process,
    /// and it lived on.
    pub(crate) fn alone(name: &str, dies: impl FnOnce()) -> Option<Output> {
        if std::env::var_os(CHILD).is_some() {
            dies();
            // Where the panic ended its thread only, the process is still here after a while.
            std::thread::sleep(Duration::from_secs(20));
            return None;
        }
        let program = std::env::current_exe().unwrap();
        Some(Command::new(program).args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap())
    }

    /// Checks that a process was aborted after a panic of this thread.
    pub(crate) fn was_ended_by(output: Option<Output>, thread: &str) {
        let output = output.expect("the process lived on");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.signal(), Some(ABORTED), "{said}");
        assert!(said.contains(&format!("thread '{thread}'")) && said.contains("panicked"), "{said}");
    }

    #[test]
    fn a_panic_of_a_vital_thread_ends_the_process() {
        let output = alone("vital::tests::a_panic_of_a_vital_thread_ends_the_process", || {
            // Other threads may panic: their requests fail, and the service goes on.
            assert!(std::thread::spawn(|| panic!("of no matter")).join().is_err());
            let _ = spawn("heart", || panic!("as a defect would")).unwrap().join();
        });
        was_ended_by(output, "heart");
    }
}
