//! Pages that are missing, broken or lying: the job goes at once and the reason is right.

use std::{
    fs::{self, File, Permissions},
    io::Write,
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
};

use antiphase_gate::{Config, Gate, ReportReader, now};
use gate_core::{Mode, Reason, Schedule};
use rustix::{
    fs::{CWD, FileType, Mode as Permission, mknodat},
    process::geteuid,
};
use units::{Nanos, NodeTime};

use crate::{
    child::Process,
    ends::{JOB, config, due_far, due_in, gate, ms, page},
};

/// The user who may do nothing, on every Linux.
const NOBODY: u32 = 65_534;

/// What a step says of whatever is in the directory.
fn reason(directory: &Path) -> Reason {
    let outcome = gate(directory).step();
    assert_eq!(outcome.held, Nanos(0));
    outcome.because
}

/// A whole page file, to be spoilt.
fn spoilt(spoil: impl FnOnce(&Path, &File)) -> Reason {
    let directory = tempfile::tempdir().unwrap();
    drop(page(directory.path(), &due_far()));
    let path = directory.path().join(format!("{JOB}.page"));
    let file = File::options().write(true).open(&path).unwrap();
    spoil(&path, &file);
    reason(directory.path())
}

#[test]
fn without_a_page_or_a_directory_the_job_goes() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(reason(directory.path()), Reason::NoPage);
    assert_eq!(reason(&directory.path().join("nowhere")), Reason::NoPage);
    File::create(directory.path().join("file")).unwrap();
    assert_eq!(reason(&directory.path().join("file")), Reason::NoPage);
}

#[test]
fn a_gate_that_is_off_or_has_no_job_goes() {
    let directory = tempfile::tempdir().unwrap();
    let _page = page(directory.path(), &due_far());
    let off = Config { off: true, ..config(directory.path()) };
    let none = Config { job: None, ..config(directory.path()) };
    for config in [off, none] {
        let outcome = Gate::open(&config).step();
        assert_eq!((outcome.because, outcome.held), (Reason::Off, Nanos(0)));
    }
}

#[test]
fn a_page_of_another_layout_or_size_is_not_followed() {
    for layout in [0_u64, 3] {
        assert_eq!(spoilt(|_, file| file.write_all_at(&layout.to_le_bytes(), 8).unwrap()), Reason::Layout);
    }
    assert_eq!(spoilt(|_, file| file.write_all_at(b"XX", 0).unwrap()), Reason::Layout);
    assert_eq!(spoilt(|_, file| file.set_len(100).unwrap()), Reason::Unreadable);
    assert_eq!(spoilt(|_, file| file.set_len(0).unwrap()), Reason::Unreadable);
    assert_eq!(spoilt(|_, file| file.set_len(8_192).unwrap()), Reason::Unreadable);
    // A mode that this layout does not have.
    assert_eq!(spoilt(|_, file| file.write_all_at(&9_u64.to_le_bytes(), 4 * 8).unwrap()), Reason::Malformed);
}

#[test]
fn a_page_that_others_could_write_or_that_is_no_file_is_not_followed() {
    let replace = |make: fn(&Path)| {
        spoilt(|path, _| {
            fs::remove_file(path).unwrap();
            make(path);
        })
    };
    assert_eq!(spoilt(|path, _| fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap()), Reason::Unreadable);
    assert_eq!(replace(|path| fs::create_dir(path).unwrap()), Reason::Unreadable);
    assert_eq!(replace(|path| symlink("/etc/passwd", path).unwrap()), Reason::Unreadable);
    // Opening one of these for reading waits for a writer unless told not to.
    assert_eq!(replace(|path| mknodat(CWD, path, FileType::Fifo, Permission::RUSR, 0).unwrap()), Reason::Unreadable);
}

#[test]
fn a_page_that_may_not_be_read_is_not_followed() {
    let hide = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    if !geteuid().is_root() {
        assert_eq!(spoilt(|path, _| hide(path)), Reason::Unreadable);
        return;
    }
    // Root reads everything, so a user who may not is needed.
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    drop(page(directory.path(), &due_far()));
    hide(&directory.path().join(format!("{JOB}.page")));
    let program = directory.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut child = Process::start_as(NOBODY, &program, "step", directory.path());
    assert_eq!(child.line(), "ready");
    assert_eq!(child.line(), "unreadable held=false slip=false late=None");
}

#[test]
fn a_schedule_that_is_not_to_be_trusted_is_not_followed() {
    let of = |change: &dyn Fn(&mut Schedule)| {
        let directory = tempfile::tempdir().unwrap();
        let mut schedule = due_far();
        change(&mut schedule);
        let _page = page(directory.path(), &schedule);
        reason(directory.path())
    };
    assert_eq!(of(&|s| s.mode = Mode::Pass), Reason::NotHeld);
    assert_eq!(of(&|s| s.expires = now()), Reason::Expired);
    assert_eq!(of(&|s| s.written = now().saturating_add(ms(3_600_000))), Reason::ClockStep);
    assert_eq!(of(&|s| s.stale_after = Nanos(1)), Reason::Stale);
    assert_eq!(of(&|s| s.period = Nanos(0)), Reason::Malformed);
    assert_eq!(of(&|s| s.clock_bound = ms(21)), Reason::ClockBound);
    assert_eq!(of(&|s| s.hold_max = ms(10)), Reason::HoldTooLong);
    assert_eq!(of(&|s| s.expires = s.slot), Reason::Expired);
}

#[test]
fn a_page_of_random_bytes_is_survived() {
    // xorshift64, so that a failure can be repeated.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..200_u64 {
        let directory = tempfile::tempdir().unwrap();
        drop(page(directory.path(), &Schedule::default()));
        let path = directory.path().join(format!("{JOB}.page"));
        let file = File::options().write(true).open(path).unwrap();
        // The header stays good in most rounds, and the mode says hold or turn, so that the numbers are looked at.
        let from = if round % 8 == 0 { 0 } else { 5 };
        file.write_all_at(&(1 + round % 2).to_le_bytes(), 4 * 8).unwrap();
        for word in from..20 {
            file.write_all_at(&random().to_le_bytes(), word * 8).unwrap();
        }
        assert_eq!(gate(directory.path()).step().held, Nanos(0), "round {round}");
    }
}

/// The report says what happened, and what it says survives the gate.
#[test]
fn a_fail_open_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let reader = ReportReader::open_or_create(directory.path(), JOB).unwrap();
    let mut page = page(directory.path(), &due_in(ms(30), ms(200)));
    let gate = gate(directory.path());
    assert_eq!(gate.step().because, Reason::OnTime);
    page.write(&Schedule { expires: NodeTime(1), ..due_far() });
    assert_eq!(gate.step().because, Reason::Expired);
    drop(gate);
    let report = reader.read().unwrap();
    let counters = report.tracker.counters();
    assert_eq!((counters.iterations, counters.holds, counters.fail_opens()), (2, 1, 1));
    assert_eq!(counters.by_reason[usize::from(Reason::Expired.code())], 1);
    assert!(counters.held > Nanos(0));
}

/// A report file that cannot be written changes nothing for the job.
#[test]
fn a_broken_report_does_not_matter() {
    for spoil in [
        |path: &Path| fs::create_dir(path).unwrap(),
        |path: &Path| symlink("/dev/full", path).unwrap(),
        |path: &Path| File::create(path).unwrap().write_all(b"short").unwrap(),
        |path: &Path| mknodat(CWD, path, FileType::Fifo, Permission::RUSR | Permission::WUSR, 0).unwrap(),
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("reports")).unwrap();
        spoil(&directory.path().join(format!("reports/{JOB}.report")));
        let _page = page(directory.path(), &due_in(ms(30), ms(200)));
        assert_eq!(gate(directory.path()).step().because, Reason::OnTime);
    }
}
