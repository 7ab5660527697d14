//! Agents that come, go and come again.

use std::{
    fs::{self, File, Permissions},
    io::ErrorKind,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use antiphase_gate::{PageReader, PageWriter, ReportReader};
use gate_core::{Reason, Schedule};
use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};

use crate::ends::{JOB, config, due_far, due_in, eventually, gate, ms, page, step_in_thread};

/// The user who may do nothing, on every Linux.
const NOBODY: u32 = 65_534;

#[test]
fn an_agent_that_restarts_keeps_the_file_that_jobs_have_mapped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("{JOB}.page"));
    drop(page(directory.path(), &due_far()));
    let before = fs::metadata(&path).unwrap().ino();
    let reader = PageReader::open(directory.path(), config(directory.path()).job.as_ref().unwrap()).unwrap();
    let mut again = PageWriter::create(directory.path(), JOB).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), before);
    assert_eq!(reader.read().unwrap().plan_version, due_far().plan_version, "the old plan stands until the new agent writes");
    again.write(&Schedule { plan_version: 77, ..Schedule::default() });
    assert_eq!(reader.read().unwrap().plan_version, 77);
}

#[test]
fn there_is_one_agent_per_page() {
    let directory = tempfile::tempdir().unwrap();
    let first = page(directory.path(), &due_far());
    assert_eq!(PageWriter::create(directory.path(), JOB).unwrap_err().kind(), ErrorKind::ResourceBusy);
    drop(first);
    assert!(PageWriter::create(directory.path(), JOB).is_ok());
}

/// Everybody may read a page, and so everybody may lock it. What an agent locks, nobody else can open.
#[test]
fn who_reads_a_page_cannot_keep_it_from_the_agent() {
    let directory = tempfile::tempdir().unwrap();
    drop(page(directory.path(), &due_far()));
    let path = directory.path().join(format!("{JOB}.page"));
    let before = fs::metadata(&path).unwrap().ino();
    let readers = [FlockOperation::NonBlockingLockShared, FlockOperation::NonBlockingLockExclusive].map(|lock| {
        let reader = File::open(&path).unwrap();
        flock(&reader, lock).unwrap();
        let again = PageWriter::create(directory.path(), JOB).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), before, "jobs that have it mapped follow the new agent");
        drop(again);
        flock(&reader, FlockOperation::Unlock).unwrap();
        reader
    });
    let lock = directory.path().join(format!(".{JOB}.lock"));
    assert_eq!(fs::metadata(&lock).unwrap().mode() & 0o777, 0o600);
    // One that others could open, or that leads elsewhere, is no lock.
    for spoil in [
        |lock: &Path| fs::set_permissions(lock, Permissions::from_mode(0o604)).unwrap(),
        |lock: &Path| fs::remove_file(lock).and_then(|()| symlink("/etc/hostname", lock)).unwrap(),
    ] {
        spoil(&lock);
        drop(PageWriter::create(directory.path(), JOB).unwrap());
        assert_eq!(fs::symlink_metadata(&lock).unwrap().mode() & 0o170_777, 0o100_600);
    }
    drop(readers);
}

/// As any user of the node: the page can be opened, the agent's lock cannot.
#[test]
fn another_user_cannot_open_the_lock() {
    if !geteuid().is_root() {
        println!("skipped: without root nobody else can be asked to open the files");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    drop(page(directory.path(), &due_far()));
    let opens = |name: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec 9<\"$0\""]).arg(directory.path().join(name)).uid(NOBODY).stderr(Stdio::null());
        shell.status().unwrap().success()
    };
    assert!(opens(&format!("{JOB}.page")) && !opens(&format!(".{JOB}.lock")));
}

#[test]
fn a_page_that_is_taken_back_ends_the_hold() {
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path(), &due_far());
    let gate = Arc::new(gate(directory.path()));
    let step = step_in_thread(&gate);
    thread::sleep(Duration::from_millis(100));
    assert!(!step.is_finished());
    page.remove().unwrap();
    assert_eq!(step.join().unwrap().because, Reason::NoPage);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Also when the page that the gate has mapped was deleted without a word, and when there was none at first.
#[test]
fn a_gate_finds_a_new_page() {
    let directory = tempfile::tempdir().unwrap();
    let gate = gate(directory.path());
    assert_eq!(gate.step().because, Reason::NoPage);
    let first = page(directory.path(), &Schedule::default());
    eventually("following the first page", || (gate.step().because == Reason::NotHeld).then_some(()));
    let follow = || (gate.step().because == Reason::OnTime).then_some(());
    first.remove().unwrap();
    let second = page(directory.path(), &Schedule { stale_after: ms(500), ..due_in(ms(20), ms(100)) });
    eventually("following the second page", follow);
    drop(second);
    fs::remove_file(directory.path().join(format!("{JOB}.page"))).unwrap();
    let _third = page(directory.path(), &Schedule { plan_version: 9, ..due_in(ms(20), ms(100)) });
    eventually("following the third page", || (gate.step().plan_version == 9).then_some(()));
}

/// A page on which nothing is held is trusted without a heartbeat, and must not be kept for ever for that.
#[test]
fn a_gate_finds_a_new_page_though_the_old_one_holds_nothing() {
    let directory = tempfile::tempdir().unwrap();
    drop(page(directory.path(), &Schedule::default()));
    let gate = gate(directory.path());
    assert_eq!(gate.step().because, Reason::NotHeld);
    fs::remove_file(directory.path().join(format!("{JOB}.page"))).unwrap();
    let _second = page(directory.path(), &Schedule { plan_version: 9, ..Schedule::default() });
    eventually("following the second page", || (gate.step().plan_version == 9).then_some(()));
}

#[test]
fn what_is_no_page_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("{JOB}.page"));
    for make in [
        |path: &Path| fs::write(path, "short").unwrap(),
        |path: &Path| fs::write(path, [7; 4096]).unwrap(),
        |path: &Path| symlink("/etc/hostname", path).unwrap(),
    ] {
        make(&path);
        page(directory.path(), &Schedule::default()).remove().unwrap();
        assert!(!path.exists());
    }
    fs::create_dir(&path).unwrap();
    assert!(PageWriter::create(directory.path(), JOB).is_err());
    assert_eq!(PageWriter::create(directory.path(), "../x").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(ReportReader::open_or_create(directory.path(), "").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "temporary files are gone");
}

/// The gate may be opened before the agent makes the report file, and the file may be replaced.
#[test]
fn a_report_is_found_when_it_appears() {
    let directory = tempfile::tempdir().unwrap();
    let _page = page(directory.path(), &Schedule::default());
    let gate = gate(directory.path());
    let report = |reader: &ReportReader| {
        gate.step();
        gate.flush();
        reader.read().map(|report| (report.writer, report.tracker.counters().iterations))
    };
    let reader = ReportReader::open_or_create(directory.path(), JOB).unwrap();
    let (writer, before) = eventually("the first report", || report(&reader).filter(|&(_, iterations)| iterations > 0));
    reader.remove().unwrap();
    let reader = ReportReader::open_or_create(directory.path(), JOB).unwrap();
    let (same, after) = eventually("the second report", || report(&reader));
    // An agent that knew the first file does not count anything twice.
    assert_eq!(same, writer);
    assert!(after > before);
}
